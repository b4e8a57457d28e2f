/* test_crash.c - every state of the disk in which a power cut may leave a checkpoint being written.
 *
 * A recorder between program and kernel notes what changes the disk: created names, written bytes, renames,
 * deletions, and what was synced. Then, for every prefix of this record, the disk is built anew with every
 * legal loss: of what was not synced before the cut, any set of sectors may have arrived, the file may have
 * its new size or not, and any set of the directory's changes may have happened. On each of these disks the
 * newest checkpoint must be the old or the new one, whole; and once the writer has returned, the new one.
 *
 * Method: Pillai et al., All File Systems Are Not Created Equal, OSDI 2014.
 * LDFLAGS: -Wl,--wrap=open,--wrap=write,--wrap=fsync,--wrap=rename,--wrap=unlink,--wrap=close
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nn/files.h"
#include "tests/support/checkpoint_write.h"
#include "tests/support/test.h"
#include "tests/support/wrapped.h"

enum {
    OPS = 64,
    FILES = 8,
    FDS = 256,
    NAME = 64,
    CONTENT = 32 << 10,
    SECTORS = 16,
    STATE_MAX = 16 << 10,
};

enum kind { CREATE, WRITE, SYNC, RENAME, UNLINK, SYNC_DIR };

struct op {
    enum kind kind;
    int file; /* CREATE, WRITE, SYNC */
    char name[NAME], to[NAME];
    size_t at, size;
    uint8_t *data;
};

/* What was recorded, and the files that were there before. */
static struct {
    bool on;
    struct op op[OPS];
    size_t count;
    int files;        /* inodes so far */
    int file_of[FDS]; /* + 1; 0 none */
    size_t at[FDS];
    bool is_dir[FDS];
    size_t write_max; /* bytes per write */
} record;

static struct op *
note(enum kind kind)
{
    assert_true(record.count < OPS);
    struct op *op = &record.op[record.count++];
    *op = (struct op){.kind = kind};
    return op;
}

static const char *
base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
int
__wrap_open(const char *path, int flags, ...)
{
    int fd = __real_open(path, flags, 0600);
    if (!record.on || fd < 0)
        return fd;
    assert_true(fd < FDS);
    record.is_dir[fd] = (flags & O_DIRECTORY) != 0;
    record.file_of[fd] = 0;
    record.at[fd] = 0;
    if (flags & O_CREAT) {
        struct op *op = note(CREATE);
        op->file = record.files++;
        assert_true(op->file < FILES);
        assert_true(flags & O_EXCL);
        snprintf(op->name, NAME, "%s", base(path));
        record.file_of[fd] = op->file + 1;
    }
    return fd;
}

ssize_t
__wrap_write(int fd, const void *data, size_t size)
{
    if (!record.on || fd >= FDS || record.file_of[fd] == 0)
        return __real_write(fd, data, size);
    if (size > record.write_max)
        size = record.write_max;
    ssize_t n = __real_write(fd, data, size);
    assert_true(n == (ssize_t)size);
    struct op *op = note(WRITE);
    op->file = record.file_of[fd] - 1;
    op->at = record.at[fd];
    op->size = size;
    op->data = malloc(size);
    assert_non_null(op->data);
    memcpy(op->data, data, size);
    record.at[fd] += size;
    return n;
}

int
__wrap_fsync(int fd)
{
    if (record.on && fd < FDS && record.is_dir[fd])
        note(SYNC_DIR);
    else if (record.on && fd < FDS && record.file_of[fd])
        note(SYNC)->file = record.file_of[fd] - 1;
    return __real_fsync(fd);
}

int
__wrap_rename(const char *from, const char *to)
{
    int rc = __real_rename(from, to);
    if (record.on && rc == 0) {
        struct op *op = note(RENAME);
        snprintf(op->name, NAME, "%s", base(from));
        snprintf(op->to, NAME, "%s", base(to));
    }
    return rc;
}

int
__wrap_unlink(const char *path)
{
    int rc = __real_unlink(path);
    if (record.on && rc == 0)
        snprintf(note(UNLINK)->name, NAME, "%s", base(path));
    return rc;
}

int
__wrap_close(int fd)
{
    if (fd >= 0 && fd < FDS)
        record.file_of[fd] = record.is_dir[fd] = 0;
    return __real_close(fd);
}

/* NOLINTEND(bugprone-reserved-identifier) */

static char dir[64], disk[64];
static struct why why;
static uint8_t block[STATE_MAX], block_in[STATE_MAX];
static size_t state_size;

static struct checkpoint
of(uint64_t step, uint64_t round, uint8_t *data)
{
    struct checkpoint c = {
        .job_hash = 11, .numerics = 22, .step = step, .round = round, .count = 1};
    c.section[0] = (struct checkpoint_section){"state", data, state_size};
    return c;
}

static void
fill(uint64_t step, uint64_t round)
{
    for (size_t i = 0; i < state_size; i++)
        block[i] = (uint8_t)(i * 31 + (i >> 8) + 97 * step + 13 * round);
}

static const char *
in(const char *folder, const char *name)
{
    static char path[2][256];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static void
write_checkpoint(uint64_t step, uint64_t round)
{
    char name[NAME];
    fill(step, round);
    struct checkpoint c = of(step, round, block);
    snprintf(name, sizeof name, "checkpoint-%ju", step);
    assert_int_equal(checkpoint_write(in(dir, name), &c, &why), 0);
}

/* --- disks after a cut --- */

struct content {
    size_t size;
    uint8_t data[CONTENT];
};

/* A disk: names and what they lead to. File 0 is the old checkpoint's, whole. */
struct names {
    struct {
        char name[NAME];
        int file; /* -1 free */
    } entry[FILES];
};

static int *
name_find(struct names *names, const char *name, bool add)
{
    int room = -1;
    for (int i = 0; i < FILES; i++) {
        if (names->entry[i].file >= 0 && strcmp(names->entry[i].name, name) == 0)
            return &names->entry[i].file;
        if (names->entry[i].file < 0 && room < 0)
            room = i;
    }
    if (!add)
        return NULL;
    assert_true(room >= 0);
    snprintf(names->entry[room].name, NAME, "%s", name);
    return &names->entry[room].file;
}

/* Inodes of a name at this place of the record, if everything before had happened. */
static int
file_named(size_t place, const char *old, const char *name)
{
    int file = strcmp(old, name) == 0 ? 0 : -1;
    for (size_t i = 0; i < place; i++) {
        const struct op *op = &record.op[i];
        if (op->kind == CREATE && strcmp(op->name, name) == 0)
            file = op->file;
        if (op->kind == RENAME && strcmp(op->to, name) == 0)
            file = file_named(i, old, op->name);
        if ((op->kind == RENAME || op->kind == UNLINK) && strcmp(op->name, name) == 0)
            file = -1;
    }
    return file;
}

static bool
is_dir_op(const struct op *op)
{
    return op->kind == CREATE || op->kind == RENAME || op->kind == UNLINK;
}

/* Directory changes of the prefix that no sync of the directory covers. */
static size_t
loose_dir_ops(size_t prefix, size_t *loose)
{
    size_t from = 0, count = 0;
    for (size_t i = 0; i < prefix; i++)
        if (record.op[i].kind == SYNC_DIR)
            from = i;
    for (size_t i = from; i < prefix; i++)
        if (is_dir_op(&record.op[i]))
            loose[count++] = i;
    return count;
}

static void
build_names(struct names *names, size_t prefix, const char *old, const size_t *loose,
            size_t loose_count, unsigned kept)
{
    for (int i = 0; i < FILES; i++)
        names->entry[i].file = -1;
    *name_find(names, old, true) = 0;
    for (size_t i = 0; i < prefix; i++) {
        const struct op *op = &record.op[i];
        bool lost = !is_dir_op(op);
        for (size_t k = 0; k < loose_count; k++)
            lost = lost || (loose[k] == i && !(kept >> k & 1));
        if (lost)
            continue;
        int *gone = op->kind == CREATE ? NULL : name_find(names, op->name, false);
        if (gone)
            *gone = -1;
        if (op->kind == CREATE)
            *name_find(names, op->name, true) = op->file;
        else if (op->kind == RENAME)
            *name_find(names, op->to, true) = file_named(i, old, op->name);
    }
}

/* Sectors that the prefix wrote and did not sync. */
static unsigned
loose_sectors(size_t prefix, int file, size_t sector, size_t *synced_size, size_t *size)
{
    unsigned loose = 0;
    *size = *synced_size = 0;
    for (size_t i = 0; i < prefix; i++) {
        const struct op *op = &record.op[i];
        if (op->kind == SYNC && op->file == file) {
            loose = 0;
            *synced_size = *size;
        }
        if (op->kind != WRITE || op->file != file)
            continue;
        *size = op->at + op->size > *size ? op->at + op->size : *size;
        for (size_t s = op->at / sector; s * sector < op->at + op->size; s++) {
            assert_true(s < SECTORS);
            loose |= 1u << s;
        }
    }
    return loose;
}

/* The new file as the disk may hold it: of the loose sectors those in `kept` arrived. */
static void
build_content(struct content *content, size_t prefix, int file, size_t sector, unsigned loose,
              unsigned kept, size_t size)
{
    memset(content, 0, sizeof *content);
    content->size = size;
    for (size_t i = 0; i < prefix; i++) {
        const struct op *op = &record.op[i];
        if (op->kind != WRITE || op->file != file)
            continue;
        for (size_t k = 0; k < op->size; k++) {
            unsigned bit = 1u << (op->at + k) / sector;
            if (!(loose & bit) || (kept & bit))
                content->data[op->at + k] = op->data[k];
        }
    }
}

static struct content old_content;

static void
put_file(const char *name, const struct content *content)
{
    int fd = open(in(disk, name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_true(write(fd, content->data, content->size) == (ssize_t)content->size);
    assert_int_equal(close(fd), 0);
}

struct tally {
    uint64_t states, old, new;
};

/* What a node that starts on this disk finds. */
static void
judge(struct names *names, const struct content *content, int file, const uint64_t *old,
      const uint64_t *new, bool must_be_new, struct tally *tally)
{
    struct checkpoint_found found;
    for (int i = 0; i < FILES; i++)
        if (names->entry[i].file >= 0) {
            assert_true(names->entry[i].file == 0 || names->entry[i].file == file);
            put_file(names->entry[i].name, names->entry[i].file == 0 ? &old_content : content);
        }
    struct checkpoint c = of(0, 0, block_in);
    memset(block_in, 0x55, state_size);
    if (checkpoint_read_newest(disk, UINT64_MAX, &c, &found, &why))
        fail_msg("neither the old nor the new checkpoint: %s", why.line);
    bool is_new = c.step == new[0] && c.round == new[1];
    if (!is_new && (c.step != old[0] || c.round != old[1]))
        fail_msg("step %d, round %d", (int)c.step, (int)c.round);
    if (must_be_new && !is_new)
        fail_msg("the new checkpoint was lost after it was said to be safe");
    fill(c.step, c.round);
    assert_memory_equal(block_in, block, state_size);
    tally->states++;
    tally->new += is_new;
    tally->old += !is_new;
    for (int i = 0; i < FILES; i++)
        if (names->entry[i].file >= 0)
            assert_int_equal(__real_unlink(in(disk, names->entry[i].name)), 0);
}

static bool
finished(size_t prefix)
{
    for (size_t i = 0; i < prefix; i++)
        if (record.op[i].kind == SYNC_DIR)
            return true;
    return false;
}

/* Every set of `loose`, as the subsets of a bitmap in turn. */
static bool
next_subset(unsigned loose, unsigned *subset)
{
    *subset = (*subset - loose) & loose;
    return *subset != 0;
}

static void
cut_at(size_t prefix, const char *old_name, size_t sector, const uint64_t *old, const uint64_t *new,
       struct tally *tally)
{
    static struct content content;
    const int file = 1; /* the one that is written */
    size_t loose_ops[OPS], synced_size, size;
    size_t ops = loose_dir_ops(prefix, loose_ops);
    unsigned loose = loose_sectors(prefix, file, sector, &synced_size, &size), kept = 0;
    assert_true(ops < 8);
    do
        for (int grown = 0; grown < 2; grown++) {
            build_content(&content, prefix, file, sector, loose, kept, grown ? size : synced_size);
            for (unsigned set = 0; set < 1u << ops; set++) {
                struct names names;
                build_names(&names, prefix, old_name, loose_ops, ops, set);
                judge(&names, &content, file, old, new, finished(prefix), tally);
            }
        }
    while (next_subset(loose, &kept));
}

static void
forget_record(void)
{
    for (size_t i = 0; i < record.count; i++)
        free(record.op[i].data);
    memset(&record, 0, sizeof record);
}

/* Write `new` in a folder that holds `old`, keeping one; then cut the power everywhere. */
static struct tally
cut_everywhere(size_t size, size_t write_max, size_t sector, const uint64_t *old,
               const uint64_t *new)
{
    struct tally tally = {0};
    char name[NAME];
    forget_record();
    state_size = size;
    write_checkpoint(old[0], old[1]);
    snprintf(name, sizeof name, "checkpoint-%ju", old[0]);
    int fd = open(in(dir, name), O_RDONLY);
    ssize_t got = read(fd, old_content.data, CONTENT);
    assert_true(got > 0);
    old_content.size = (size_t)got;
    assert_int_equal(close(fd), 0);
    record.write_max = write_max;
    record.files = 1; /* the old one */
    record.on = true;
    write_checkpoint(new[0], new[1]);
    checkpoint_prune(dir, 1, &new[0]);
    record.on = false;
    for (size_t prefix = 0; prefix <= record.count; prefix++)
        cut_at(prefix, name, sector, old, new, &tally);
    checkpoint_forget(dir, 11, false);
    return tally;
}

static void
torn_at(size_t size, size_t write_max, size_t sector)
{
    static const uint64_t old[2] = {7, 9}, next[2] = {8, 10}, same[2] = {7, 10};
    struct tally a = cut_everywhere(size, write_max, sector, old, next);
    assert_int_equal(record.op[record.count - 1].kind, UNLINK); /* of the old one */
    struct tally b = cut_everywhere(size, write_max, sector, old, same);
    printf("sectors of %zu bytes: %ju disks, %ju with the old, %ju with the new checkpoint\n",
           sector, (a.states + b.states), (a.old + b.old), (a.new + b.new));
    assert_true(a.old > 50 && b.old > 50);
    assert_true(a.new > 2 && b.new > 2);
}

TEST(torn_at_512_bytes)
{
    torn_at(4096 - 300, 1500, 512);
}

TEST(torn_at_4_kib)
{
    torn_at(STATE_MAX, 5000, 4096);
}

TEST(written_at_once)
{
    torn_at(3000, CONTENT, 512);
}

FIXTURE(make_directories)
{
    strcpy(dir, "/tmp/test_crash_XXXXXX");
    strcpy(disk, "/tmp/test_crash_XXXXXX");
    return mkdtemp(dir) && mkdtemp(disk) ? 0 : -1;
}

FIXTURE(remove_directories)
{
    forget_record();
    checkpoint_forget(dir, 11, false);
    checkpoint_forget(disk, 11, false);
    return rmdir(dir) || rmdir(disk);
}

TEST_ALL(make_directories, remove_directories)

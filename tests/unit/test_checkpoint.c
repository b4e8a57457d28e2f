/* test_checkpoint.c - a checkpoint is read back exactly or refused with the reason. */
#include "nn/files.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "nn/files/disk.h"
#include "tests/support/checkpoint_write.h"
#include "tests/support/test.h"

#define JOB      UINT64_C(0x1122334455667788)
#define NUMERICS UINT64_C(0xa1a2a3a4a5a6a7a8)

/* Two full pages and a bit: the sections begin behind head and table. */
enum {
    PARAMS = 2 * (CHECKPOINT_PAGE - 8) - 100,
    STATE = 12,
    TABLE = 64 + 3 * 32,
    BODY = TABLE + PARAMS + STATE,
    TRAILER = 64 + 32 + 8 + 8,
    FILE_SIZE = BODY + 3 * 8 + TRAILER,
    LAST = FILE_SIZE - TRAILER,
};

static char dir[64];
static struct why why;
static struct checkpoint_found found;
static uint8_t params[PARAMS], state_bytes[STATE];

static struct checkpoint
sample(uint64_t step)
{
    struct checkpoint c = {
        .job_hash = JOB, .numerics = NUMERICS, .step = step, .round = step + 2, .count = 3};
    c.section[0] = (struct checkpoint_section){"params", params, PARAMS};
    c.section[1] = (struct checkpoint_section){"none", NULL, 0};
    c.section[2] = (struct checkpoint_section){"state", state_bytes, STATE};
    for (size_t i = 0; i < PARAMS; i++)
        params[i] = (uint8_t)(i * 7 + step);
    for (size_t i = 0; i < STATE; i++)
        state_bytes[i] = (uint8_t)(200 - i - step);
    return c;
}

FIXTURE(make_directory)
{
    strcpy(dir, "/tmp/test_checkpoint_XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static const char *
path_of(const char *name)
{
    static char path[2][128]; /* two may be in use */
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
    return path[turn];
}

static const char *
step_path(uint64_t step)
{
    char name[40];
    snprintf(name, sizeof name, "checkpoint-%ju", step);
    return path_of(name);
}

static void
write_step(uint64_t step, uint64_t job)
{
    struct checkpoint c = sample(step);
    c.job_hash = job;
    assert_int_equal(checkpoint_write(step_path(step), &c, &why), 0);
}

static bool
exists(uint64_t step)
{
    return access(step_path(step), F_OK) == 0;
}

static void
damage(uint64_t step, long offset)
{
    FILE *file = fopen(step_path(step), "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    assert_int_equal(fputc(byte ^ 4, file), byte ^ 4);
    assert_int_equal(fclose(file), 0);
}

/* What the caller has must be as before after a refusal. */
static void
assert_untouched(const struct checkpoint *c)
{
    assert_int_equal(c->step, 1);
    for (size_t i = 0; i < PARAMS; i++)
        assert_int_equal(params[i], (uint8_t)(i * 7 + 1));
    for (size_t i = 0; i < STATE; i++)
        assert_int_equal(state_bytes[i], (uint8_t)(199 - i));
}

FIXTURE(empty_directory)
{
    for (uint64_t step = 0; step < 70; step++)
        unlink(step_path(step));
    unlink(path_of("file"));
    return 0;
}

static int
remove_directory(void **state)
{
    empty_directory(state);
    return rmdir(dir);
}

TEST_EACH(NULL, empty_directory)
TEST_ALL(make_directory, remove_directory)

TEST(a_checkpoint_is_read_back_exactly)
{
    write_step(42, JOB);
    struct checkpoint c = sample(1);
    assert_int_equal(checkpoint_read(step_path(42), &c, &why), 0);
    assert_int_equal(c.step, 42);
    assert_int_equal(c.round, 44);
    assert_int_equal(params[3], 3 * 7 + 42);
    assert_int_equal(state_bytes[3], 200 - 3 - 42);
}

/* The bytes of the file, the caller's to free. */
static uint8_t *
bytes_of(uint64_t step, size_t *size)
{
    uint8_t *data = NULL;
    assert_int_equal(disk_read(step_path(step), FILE_SIZE, &data, size, &why), 0);
    return data;
}

/* The check of a page, from the description alone. */
static uint64_t
check_of(const uint8_t *head, uint64_t page, const uint8_t *data, size_t size)
{
    uint8_t key[16], blake[crypto_generichash_BYTES_MIN];
    uint64_t check;
    crypto_generichash(blake, sizeof blake, head, 64, NULL, 0);
    memcpy(key, blake, 8);
    memcpy(key + 8, &page, 8);
    crypto_shorthash((uint8_t *)&check, data, size, key);
    return check;
}

static void
put_check(uint8_t *data, size_t page, size_t at, size_t end)
{
    uint64_t check = check_of(data, page, data + at, end - 8 - at);
    memcpy(data + end - 8, &check, 8);
}

/* Mend the hash and all checks of a file of this size: what they cannot catch. */
static void
mend(uint8_t *data)
{
    crypto_generichash_state hash;
    memcpy(data + LAST, data, 64);
    crypto_generichash_init(&hash, NULL, 0, 32);
    for (size_t at = 0; at < LAST; at += CHECKPOINT_PAGE) {
        size_t end = at + CHECKPOINT_PAGE < LAST ? at + CHECKPOINT_PAGE : LAST;
        put_check(data, at / CHECKPOINT_PAGE, at, end);
        crypto_generichash_update(&hash, data + at, end - 8 - at);
    }
    crypto_generichash_update(&hash, data + LAST, 64);
    crypto_generichash_final(&hash, data + LAST + 64, 32);
    put_check(data, 3, LAST, FILE_SIZE);
}

TEST(the_format_is_that_of_the_header)
{
    static const uint8_t head[64] = {
        'M',  'E',  'S',  'H',  'C',  'K',  'P',  'T',  3,
        0,    0,    0,    3,    0,    0,    0,             /* magic, version, n */
        0xc0, 0,    2,    0,    0,    0,    0,    0,       /* 131264 bytes */
        0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,    /* job */
        0xa8, 0xa7, 0xa6, 0xa5, 0xa4, 0xa3, 0xa2, 0xa1,    /* numerics */
        5,    0,    0,    0,    0,    0,    0,    0,    7, /* step, round */
    };
    static const uint8_t third[32] = {'s', 't', 'a', 't',  'e', 0, 0, 0, 0, 0, 0, 0, 0,
                                      0,   0,   0,   0x2c, 0,   2, 0, 0, 0, 0, 0, 12};
    write_step(5, JOB);
    size_t size;
    OWNED(memory_free) uint8_t *data = bytes_of(5, &size);
    assert_int_equal(size, FILE_SIZE);
    assert_int_equal(FILE_SIZE, 0x200c0);
    assert_memory_equal(data, head, sizeof head);
    assert_memory_equal(data + LAST, head, sizeof head);
    assert_memory_equal(data + 64 + 64, third, sizeof third);
    assert_memory_equal(data + TABLE, params, CHECKPOINT_PAGE - TABLE - 8);
    assert_memory_equal(data + CHECKPOINT_PAGE, params + CHECKPOINT_PAGE - TABLE - 8,
                        CHECKPOINT_PAGE - 8);
    assert_memory_equal(data + LAST - 8 - STATE, state_bytes, STATE);
    assert_memory_equal(data + FILE_SIZE - 16, "MESHDONE", 8);
    OWNED(memory_free) uint8_t *mended = malloc(size);
    assert_non_null(mended);
    memcpy(mended, data, size);
    mend(mended);
    assert_memory_equal(mended, data, size);
}

/* A checkpoint may be one page, and end at any place of its last one. */
TEST(every_size_around_a_page_is_read_back)
{
    for (size_t cut = 0; cut < 200; cut++) {
        struct checkpoint c = sample(3);
        c.section[0].size = cut < 100 ? CHECKPOINT_PAGE - 8 - TABLE - STATE + 50 - cut : 200 - cut;
        assert_int_equal(checkpoint_write(step_path(3), &c, &why), 0);
        struct stat file;
        assert_int_equal(stat(step_path(3), &file), 0);
        assert_int_equal((size_t)file.st_size, checkpoint_size(&c));
        sample(1);
        if (checkpoint_read(step_path(3), &c, &why))
            fail_msg("cut %zu: %s", cut, why.line);
        assert_int_equal(params[0], 3);
        assert_int_equal(state_bytes[STATE - 1], (uint8_t)(200 - STATE + 1 - 3));
    }
}

TEST(a_section_may_be_read_only_where_it_is)
{
    write_step(7, JOB);
    size_t size;
    uint8_t *data = bytes_of(7, &size), page[CHECKPOINT_PAGE];
    struct checkpoint c = sample(1);
    memcpy(page, data, CHECKPOINT_PAGE); /* whole pages in each other's place */
    memcpy(data, data + CHECKPOINT_PAGE, CHECKPOINT_PAGE);
    memcpy(data + CHECKPOINT_PAGE, page, CHECKPOINT_PAGE);
    assert_int_equal(checkpoint_parse("swap", data, size, &c, &why), -EBADMSG);
    free(data);
    for (int k = 0; k < 3; k++) { /* a whole page of another step, job, numerics */
        data = bytes_of(7, &size);
        c = sample(7);
        c.step += k == 0;
        c.job_hash += k == 1;
        c.numerics += k == 2;
        assert_int_equal(checkpoint_write(step_path(8), &c, &why), 0);
        uint8_t *other = bytes_of(8, &size);
        memcpy(data + CHECKPOINT_PAGE, other + CHECKPOINT_PAGE, CHECKPOINT_PAGE);
        c = sample(1);
        assert_int_equal(checkpoint_parse("stray", data, size, &c, &why), -EBADMSG);
        assert_non_null(strstr(why.line, "page 1 of 4"));
        free(other);
        free(data);
    }
    assert_untouched(&c);
}

TEST(truncations_are_refused)
{
    write_step(7, JOB);
    size_t size;
    OWNED(memory_free) uint8_t *data = bytes_of(7, &size);
    struct checkpoint c = sample(1);
    for (size_t n = 0; n < size; n += n < 300 || n + 300 > size ? 1 : 997) {
        OWNED(memory_free) uint8_t *cut = malloc(n + !n);
        assert_non_null(cut);
        memcpy(cut, data, n);
        why.line[0] = 0;
        assert_int_equal(checkpoint_parse("cut", cut, n, &c, &why), -EBADMSG);
        assert_true(strlen(why.line) > 10);
    }
    assert_untouched(&c);
    assert_int_equal(checkpoint_parse("whole", data, size, &c, &why), 0);
}

/* Change a byte and mend all checks behind it. */
static int
parse_changed(size_t offset, uint8_t value)
{
    size_t size;
    OWNED(memory_free) uint8_t *data = bytes_of(7, &size);
    struct checkpoint c = sample(1);
    data[offset] = value;
    mend(data);
    int rc = checkpoint_parse("changed", data, size, &c, &why);
    assert_untouched(&c);
    return rc;
}

TEST(fields_are_checked_one_by_one)
{
    static const struct {
        size_t offset;
        uint8_t value;
        int rc;
        const char *why;
    } row[] = {
        {0, 'm', -EBADMSG, "not a checkpoint"},
        {8, 2, -EPROTONOSUPPORT, "version 2, expected 3"},
        {11, 128, -EPROTONOSUPPORT, "version"},
        {12, 0, -EBADMSG, "number of sections"},
        {12, CHECKPOINT_SECTIONS_MAX + 1, -EBADMSG, "number of sections"},
        {15, 255, -EBADMSG, "number of sections"},
        {12, 4, -EBADMSG, "section"},
        {12, 2, -EBADMSG, "section table"},
        {16, 1, -EBADMSG, "disagree"},
        {23, 255, -EBADMSG, "disagree"},
        {24, 0, -EINVAL, "another job"},
        {32, 0, -ENOTSUP, "other numerics"},
        {56, 1, -EBADMSG, "reserved"},
        {63, 1, -EBADMSG, "reserved"},
        {64, 'q', -ENOTSUP, "section qarams of 130956 bytes, expected params of 130956 bytes"},
        {64, 0, -EBADMSG, "name of a section"},
        {64, 27, -EBADMSG, "name of a section"},
        {64 + 9, 'x', -EBADMSG, "name of a section"},
        {64 + 15, 'x', -EBADMSG, "name of a section"},
        {64 + 16, 0, -EBADMSG, "section table"},
        {64 + 24, 39, -EBADMSG, "section table"},
        {64 + 31, 255, -EBADMSG, "section table"},
        {64 + 32 + 24, 1, -EBADMSG, "section table"},
        {64 + 64 + 16, 99, -EBADMSG, "section table"},
        {64 + 64 + 24, 11, -EBADMSG, "section table"},
    };
    write_step(7, JOB);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        int rc = parse_changed(row[i].offset, row[i].value);
        if (rc != row[i].rc || !strstr(why.line, row[i].why))
            fail_msg("row %zu: %d, %s", i, rc, why.line);
    }
    size_t size;
    struct checkpoint c = sample(1);
    OWNED(memory_free) uint8_t *data = bytes_of(7, &size); /* every page whole, but not one file */
    data[LAST + 64] ^= 1;
    put_check(data, 3, LAST, FILE_SIZE);
    assert_int_equal(checkpoint_parse("hash", data, size, &c, &why), -EBADMSG);
    assert_non_null(strstr(why.line, "hash"));
    data[LAST + 64] ^= 1;
    data[LAST + 48] ^= 1;
    uint64_t check = check_of(data + LAST, 3, data + LAST, TRAILER - 8);
    memcpy(data + FILE_SIZE - 8, &check, 8);
    assert_int_equal(checkpoint_parse("heads", data, size, &c, &why), -EBADMSG);
    assert_non_null(strstr(why.line, "disagree"));
}

TEST(the_first_sections_may_be_read_alone)
{
    write_step(7, JOB);
    struct checkpoint c = sample(1);
    c.count--;
    c.part = true;
    assert_int_equal(checkpoint_read(step_path(7), &c, &why), 0);
    assert_int_equal(c.step, 7);
    c = sample(1);
    strcpy(c.section[c.count].name, "more");
    c.section[c.count].size = 1;
    c.count++;
    c.part = true;
    assert_int_equal(checkpoint_read(step_path(7), &c, &why), -ENOTSUP); /* it has not so many */
}

TEST(a_checkpoint_that_does_not_fit_is_refused)
{
    write_step(7, JOB);
    struct checkpoint c = sample(1);
    c.section[2].size--;
    assert_int_equal(checkpoint_read(step_path(7), &c, &why), -ENOTSUP);
    c = sample(1);
    c.section[2].size++;
    assert_int_equal(checkpoint_read(step_path(7), &c, &why), -ENOTSUP);
    assert_non_null(strstr(why.line, "section state of 12 bytes, expected state of 13 bytes"));
    c = sample(1);
    c.count = 2;
    assert_int_equal(checkpoint_read(step_path(7), &c, &why), -ENOTSUP);
    c = sample(1);
    strcpy(c.section[0].name, "weights");
    assert_int_equal(checkpoint_read(step_path(7), &c, &why), -ENOTSUP);
    c = sample(1);
    c.job_hash++;
    c.section[0].size = 1; /* too large as well: the job is the better reason */
    assert_int_equal(checkpoint_read(step_path(7), &c, &why), -EINVAL);
    assert_non_null(strstr(why.line, "another job"));
    assert_untouched(&c);
    assert_int_equal(checkpoint_read(step_path(8), &c, &why), -ENOENT);
}

TEST(the_newest_valid_one_is_read_and_skipped_ones_are_named)
{
    write_step(9, JOB);
    write_step(10, JOB);
    write_step(30, JOB);
    write_step(31, JOB + 1);
    write_step(32, JOB);
    damage(30, 190);
    assert_int_equal(rename(step_path(32), path_of("file")), 0);
    assert_int_equal(link(path_of("file"), step_path(33)), 0);
    assert_int_equal(truncate(step_path(9), 100), 0);
    struct checkpoint c = sample(1);
    assert_int_equal(checkpoint_read_newest(dir, UINT64_MAX, &c, &found, &why), 0);
    assert_int_equal(c.step, 10);
    assert_int_equal(params[0], 10);
    assert_non_null(strstr(why.line, "checkpoint-33: holds step 32; "));
    assert_non_null(strstr(why.line, "checkpoint-31: checkpoint of another job"));
    assert_non_null(strstr(why.line, "checkpoint-30: damaged checkpoint: page 0"));
    assert_null(strstr(why.line, "checkpoint-9"));
    assert_true(found.whole && found.others);
    assert_int_equal(found.damaged_count, 2);
    assert_int_equal(found.damaged[0], 33);
    assert_int_equal(found.damaged[1], 30);
}

TEST(no_valid_checkpoint_is_not_the_same_as_none)
{
    struct checkpoint c = sample(1);
    strcpy(why.line, "x");
    assert_int_equal(checkpoint_read_newest(dir, UINT64_MAX, &c, &found, &why), -ENOENT);
    assert_string_equal(why.line, "");
    assert_int_equal(checkpoint_read_newest("/nonexistent", UINT64_MAX, &c, &found, &why), -ENOENT);
    assert_string_equal(why.line, "");
    write_step(3, JOB);
    damage(3, 200);
    c = sample(1);
    assert_int_equal(checkpoint_read_newest(dir, UINT64_MAX, &c, &found, &why), -ENOENT);
    assert_non_null(strstr(why.line, "damaged"));
    assert_untouched(&c);
    assert_int_equal(checkpoint_read_newest("/dev/null", UINT64_MAX, &c, &found, &why), -ENOTDIR);
    assert_true(strlen(why.line) > 0);
}

TEST(what_is_no_checkpoint_at_all_is_damaged_or_not_ours)
{
    static uint8_t bytes[FILE_SIZE];
    const struct {
        size_t size;
        int byte;
    } row[] = {{0, 0}, {1, 0}, {100, 'M'}, {FILE_SIZE, 0}, {FILE_SIZE, 0xff}, {FILE_SIZE - 1, 0}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        memset(bytes, row[i].byte, row[i].size);
        struct disk_bytes piece = {bytes, row[i].size};
        assert_int_equal(disk_write(step_path(9), &piece, 1, &why), 0);
        struct checkpoint c = sample(1);
        assert_int_equal(checkpoint_read_newest(dir, UINT64_MAX, &c, &found, &why), -ENOENT);
        assert_int_equal(found.damaged_count, 1);
        assert_false(found.others || found.unfit);
        assert_untouched(&c);
    }
    write_step(9, JOB);
    size_t size;
    uint8_t *data = bytes_of(9, &size);
    data[8] = 1; /* of an earlier version of this program */
    struct disk_bytes piece = {data, size - 50};
    assert_int_equal(disk_write(step_path(9), &piece, 1, &why), 0);
    free(data);
    struct checkpoint c = sample(1);
    assert_int_equal(checkpoint_read_newest(dir, UINT64_MAX, &c, &found, &why), -ENOENT);
    assert_non_null(strstr(why.line, "version 1, expected 3"));
    assert_true(found.unfit && found.damaged_count == 0);
    assert_int_equal(unlink(step_path(9)), 0);
    assert_int_equal(mkdir(step_path(9), 0700), 0);
    assert_int_equal(checkpoint_read_newest(dir, UINT64_MAX, &c, &found, &why), -ENOENT);
    assert_true(found.others);
    assert_int_equal(rmdir(step_path(9)), 0);
}

/* What is left of a damaged checkpoint, and pages of it for others. */
TEST(whole_pages_are_salvaged)
{
    static uint8_t image[FILE_SIZE], page[CHECKPOINT_PAGE];
    bool good[4];
    size_t size, offset;
    write_step(7, JOB);
    OWNED(memory_free) uint8_t *data = bytes_of(7, &size);
    struct checkpoint c = sample(7);
    c.round = 0;
    assert_int_equal(checkpoint_pages(&c), 4);
    assert_int_equal(checkpoint_salvage(dir, &c, image, good), 0);
    assert_int_equal(c.round, 9);
    assert_memory_equal(image, data, size);
    damage(7, 10); /* the head: the trailer tells the round */
    damage(7, CHECKPOINT_PAGE + 5);
    c.round = 0;
    assert_int_equal(checkpoint_salvage(dir, &c, image, good), 2);
    assert_int_equal(c.round, 9);
    assert_false(good[0] || good[1]);
    assert_true(good[2] && good[3]);
    c.round = 0;
    assert_int_equal(checkpoint_page_read(dir, &c, 1, page), 0);
    assert_int_equal(checkpoint_page_read(dir, &c, 4, page), 0);
    assert_int_equal(checkpoint_page_read(dir, &c, 2, page), LAST - 2 * CHECKPOINT_PAGE);
    assert_memory_equal(page, data + 2 * CHECKPOINT_PAGE, LAST - 2 * CHECKPOINT_PAGE);
    assert_int_equal(c.round, 9);
    assert_int_equal(truncate(step_path(7), 2 * CHECKPOINT_PAGE), 0); /* and no trailer */
    c.round = 0;
    assert_int_equal(checkpoint_salvage(dir, &c, image, good), 4);
    assert_int_equal(c.round, 0);
    for (size_t i = 0; i < 4; i++) { /* all comes from others */
        size_t n = checkpoint_page(&c, i, &offset);
        c.round = 9;
        assert_true(checkpoint_page_good(&c, i, data + offset, n));
        assert_false(checkpoint_page_good(&c, i, data + offset, n - 1));
        assert_false(checkpoint_page_good(&c, (i + 1) % 4, data + offset, n));
        c.round = 8;
        assert_false(checkpoint_page_good(&c, i, data + offset, n));
    }
    c.step = 8;
    assert_int_equal(checkpoint_salvage(dir, &c, image, good), 4);
}

TEST(a_folder_full_of_old_ones_is_borne)
{
    char name[64];
    write_step(1, JOB);
    for (int i = 2; i < 5000; i++) {
        snprintf(name, sizeof name, "checkpoint-%d", i);
        assert_int_equal(link(step_path(1), path_of(name)), 0);
    }
    struct checkpoint c = sample(1);
    assert_int_equal(checkpoint_read_newest(dir, UINT64_MAX, &c, &found, &why), 0);
    assert_int_equal(c.step, 1);
    assert_int_equal(found.damaged_count, CHECKPOINT_DAMAGED_MAX);
    checkpoint_forget(dir, JOB, false);
    assert_int_equal(checkpoint_read_newest(dir, UINT64_MAX, &c, &found, &why), -ENOENT);
    assert_string_equal(why.line, "");
}

TEST(only_exact_names_count)
{
    static const char *const name[] = {"checkpoint-",   "checkpoint-007",
                                       "checkpoint-7x", "checkpoint--7",
                                       "Checkpoint-7",  "checkpoint-7.tmp",
                                       "checkpoint- 7", "checkpoint-7 ",
                                       "checkpoint",    "checkpoint-99999999999999999999"};
    struct checkpoint c = sample(7);
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++)
        assert_int_equal(checkpoint_write(path_of(name[i]), &c, &why), 0);
    assert_int_equal(checkpoint_read_newest(dir, UINT64_MAX, &c, &found, &why), -ENOENT);
    assert_string_equal(why.line, "");
    checkpoint_prune(dir, 1, NULL);
    assert_int_equal(access(path_of("checkpoint-7.tmp"), F_OK), -1);
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++)
        if (i != 5)
            assert_int_equal(unlink(path_of(name[i])), 0);
}

TEST(pruning_keeps_the_newest_of_each_job)
{
    for (uint64_t step = 1; step <= 12; step++)
        write_step(step, step % 3 ? JOB : JOB + 1);
    checkpoint_prune(dir, 3, NULL);
    const bool left[13] = {[6] = true, [9] = true,  [12] = true, /* the other job's */
                           [8] = true, [10] = true, [11] = true};
    for (uint64_t step = 1; step <= 12; step++)
        if (exists(step) != left[step])
            fail_msg("checkpoint-%d", (int)step);
}

TEST(pruning_never_deletes_the_newest_valid_one)
{
    for (uint64_t step = 1; step <= 8; step++)
        write_step(step, JOB);
    damage(6, 200);
    damage(7, 210);
    damage(8, 190);
    checkpoint_prune(dir, 2, NULL);
    assert_true(exists(8) && exists(7) && exists(6) && exists(5));
    assert_false(exists(4) || exists(1));
    struct checkpoint c = sample(1);
    assert_int_equal(checkpoint_read_newest(dir, UINT64_MAX, &c, &found, &why), 0);
    assert_int_equal(c.step, 5);
    checkpoint_prune(dir, 0, NULL);
    assert_true(exists(5));
    FILE *file = fopen(step_path(4), "wb"); /* not ours to delete */
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    checkpoint_prune(dir, 1, NULL);
    assert_true(exists(4));
    checkpoint_prune("/nonexistent", 1, NULL);
}

TEST(a_full_disk_is_reported_and_leaves_the_older_ones)
{
    struct rlimit old_limit, limit;
    write_step(1, JOB);
    struct checkpoint c = sample(2);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
    limit = old_limit;
    limit.rlim_cur = 150;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int rc = checkpoint_write(step_path(2), &c, &why);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(rc, -EFBIG);
    assert_non_null(strstr(why.line, "checkpoint-2: cannot write: File too large"));
    assert_false(exists(2));
    assert_int_equal(access(path_of("checkpoint-2.tmp"), F_OK), -1);
    assert_int_equal(checkpoint_read_newest(dir, UINT64_MAX, &c, &found, &why), 0);
    assert_int_equal(c.step, 1);
}

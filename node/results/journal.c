/* journal.c - see journal.h for the format. */
#include "node/results/journal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "nn/files/disk.h"
#include "proto/bytes.h"
#include "proto/fail.h"
#include "proto/mix.h"

static const char magic[8] = {'m', 'e', 's', 'h', 'j', 'r', 'n', 'l'};

enum { VERSION = 3, SECTOR = 512 };

struct journal {
    int fd;
    uint64_t at, kept; /* bytes in the file, now and when it was opened */
    int error;         /* of the write that failed; 0: none did */
    uint8_t record[JOURNAL_RECORD_HEAD + JOURNAL_RECORD_MAX]; /* one that is being written */
};

/* --- The head of a record ----------------------------------------------------------------------- */

static uint64_t
record_head(uint64_t at, unsigned type, const void *data, size_t size)
{
    uint64_t head = (uint64_t)size | (uint64_t)type << 24;
    uint64_t check = XXH3_64bits_withSeed(data, size, mix64_pair(at, head));
    return head | check << 32;
}

static uint16_t
head_check(uint64_t at, uint64_t head)
{
    return (uint16_t)mix64_pair(at, head);
}

static size_t
head_length(uint64_t head)
{
    return head & 0xffffff;
}

static unsigned
head_type(uint64_t head)
{
    return head >> 24 & 0xff;
}

/* --- Reading ------------------------------------------------------------------------------------ */

static bool
all_zeros(const uint8_t *bytes, size_t size)
{
    for (size_t k = 0; k < size; k++)
        if (bytes[k])
            return false;
    return true;
}

static uint64_t
head_at(const uint8_t *bytes, size_t at, bool *sound)
{
    struct bytes_in in = bytes_in(bytes + at, JOURNAL_RECORD_HEAD);
    uint64_t head = bytes_u64(&in);
    *sound = bytes_u16(&in) == head_check(at, head);
    return head;
}

/* What is before `end` in the record at `at` is not as it was written: did it never get to the disk? */
static bool
never_came(const uint8_t *bytes, size_t size, size_t at, size_t end)
{
    size_t sector = (end - 1) / SECTOR * SECTOR;
    return sector > at && all_zeros(bytes + sector, size - sector);
}

/* Is there a whole and sound record at `at`? Returns its end, `at` if it is cut off there, or 0 with what is wrong. */
static size_t
record_end(const uint8_t *bytes, size_t size, size_t at, const char **wrong)
{
    bool sound;
    if (size - at < JOURNAL_RECORD_HEAD || all_zeros(bytes + at, size - at))
        return at;
    uint64_t head = head_at(bytes, at, &sound);
    size_t length = head_length(head), data = at + JOURNAL_RECORD_HEAD;
    bool starts = head_type(head) == JOURNAL_START;
    *wrong = "the length, type or check of a record";
    if (!sound)
        return never_came(bytes, size, at, data) ? at : 0;
    if (head_type(head) == 0 || length > JOURNAL_RECORD_MAX ||
        (starts && length != JOURNAL_START_SIZE) || (at == JOURNAL_HEAD_SIZE && !starts))
        return 0;
    if (length > size - data)
        return at;
    *wrong = "the data of a record";
    if (record_head(at, head_type(head), bytes + data, length) == head)
        return data + length;
    return never_came(bytes, size, at, data + length) ? at : 0;
}

/* The record at `at`, which is sound. Who wrote it is known of a start. */
static struct journal_record
record_at(const uint8_t *bytes, size_t at)
{
    bool sound;
    uint64_t head = head_at(bytes, at, &sound);
    struct journal_record record = {.type = head_type(head),
                                    .data = bytes + at + JOURNAL_RECORD_HEAD,
                                    .size = head_length(head),
                                    .at = at};
    if (record.type == JOURNAL_START) {
        struct bytes_in in = bytes_in(record.data, record.size);
        record.id = bytes_u64(&in);
        record.incarnation = bytes_u64(&in);
        record.job_hash = bytes_u64(&in);
    }
    return record;
}

static int
check_head(const char *name, const uint8_t *bytes, size_t size, struct why *why)
{
    struct bytes_in in = bytes_in(bytes, size < JOURNAL_HEAD_SIZE ? size : JOURNAL_HEAD_SIZE);
    size_t begun = size < sizeof magic ? size : sizeof magic;
    if (all_zeros(bytes, size) || (size < JOURNAL_HEAD_SIZE && memcmp(bytes, magic, begun) == 0))
        return why_error(why, -ENODATA, "%s: empty, as a power cut may leave it", name);
    const uint8_t *word = bytes_raw(&in, sizeof magic);
    unsigned version = bytes_u16(&in);
    const uint8_t *zeros = bytes_raw(&in, 6);
    if (!bytes_done(&in) || memcmp(word, magic, sizeof magic) != 0)
        return why_error(why, -EBADMSG, "%s is no journal: it does not begin as one", name);
    if (version != VERSION || !all_zeros(zeros, 6))
        return why_error(why, -EBADMSG, "%s: journal of version %u, expected %d", name, version,
                         VERSION);
    return 0;
}

int
journal_check(struct journal_text *text, const char *name, const uint8_t *bytes, size_t size,
              struct why *why)
{
    const char *wrong;
    int rc = check_head(name, bytes, size, why);
    if (rc)
        return rc;
    size_t at = JOURNAL_HEAD_SIZE;
    text->job_hash = 0;
    for (size_t end; at < size && (end = record_end(bytes, size, at, &wrong)) != at; at = end) {
        if (end == 0)
            return why_error(why, -EBADMSG, "%s: damaged at byte %zu of %zu: %s", name, at, size,
                             wrong);
        struct journal_record record = record_at(bytes, at);
        if (record.type == JOURNAL_START)
            text->job_hash = record.job_hash;
    }
    text->size = at;
    return 0;
}

int
journal_load(struct journal_text *text, const char *path, struct why *why)
{
    size_t size;
    *text = (struct journal_text){.bytes = NULL};
    int rc = disk_read(path, JOURNAL_FILE_MAX, &text->bytes, &size, why);
    rc = rc ? rc : journal_check(text, path, text->bytes, size, why);
    if (rc)
        journal_unload(text);
    return rc;
}

void
journal_unload(struct journal_text *text)
{
    free(text->bytes);
    *text = (struct journal_text){.bytes = NULL};
}

bool
journal_next(const struct journal_text *text, struct journal_record *record)
{
    size_t at = record->at ? record->at + JOURNAL_RECORD_HEAD + record->size : JOURNAL_HEAD_SIZE;
    if (at >= text->size)
        return false;
    const struct journal_record before = *record;
    *record = record_at(text->bytes, at);
    if (record->type != JOURNAL_START) {
        record->id = before.id;
        record->incarnation = before.incarnation;
        record->job_hash = before.job_hash;
    }
    return true;
}

/* --- Writing ------------------------------------------------------------------------------------ */

static int
append(struct journal *journal, unsigned type, const void *data, size_t size)
{
    struct bytes_out out = bytes_out(journal->record, sizeof journal->record);
    uint64_t head = record_head(journal->at, type, data, size);
    bytes_put_u64(&out, head);
    bytes_put_u16(&out, head_check(journal->at, head));
    bytes_put_raw(&out, data, size);
    size = bytes_written(&out, journal->record);
    if (journal->error == 0 && disk_write_all(journal->fd, journal->record, size) != 0)
        journal->error = -errno;
    journal->at += size;
    return journal->error;
}

int
journal_add(struct journal *journal, unsigned type, const void *data, size_t size)
{
    assert(type > JOURNAL_START && type <= JOURNAL_TYPE_MAX);
    assert(size <= JOURNAL_RECORD_MAX);
    return append(journal, type, data, size);
}

static bool
is_part(const struct journal_start *start, uint64_t job)
{
    bool is = job == 0 || job == start->job_hash;
    for (size_t i = 0; i < start->past_count; i++)
        is = is || job == start->past[i];
    return is;
}

/* How much of the file to keep: all of a journal of this run, but what is cut off. */
static int
keep_length(const char *path, const struct journal_start *start, uint64_t *at, struct why *why)
{
    struct journal_text text;
    *at = 0;
    if (start->fresh || access(path, F_OK) != 0)
        return 0;
    int rc = journal_load(&text, path, why);
    if (rc == -ENODATA)
        return 0;
    if (rc == -EBADMSG)
        why_append(why, "; --fresh begins again, or rename it to go on: then the run so far cannot "
                        "be replayed");
    if (rc)
        return rc;
    if (!is_part(start, text.job_hash))
        rc = why_error(why, -EINVAL,
                       "%s: journal of another job (%016jx, this one is %016jx); --fresh begins "
                       "again, --out takes another folder",
                       path, text.job_hash, start->job_hash);
    *at = text.size;
    journal_unload(&text);
    return rc;
}

static int
write_head(struct journal *journal)
{
    uint8_t head[JOURNAL_HEAD_SIZE] = {0};
    struct bytes_out out = bytes_out(head, sizeof head);
    bytes_put_raw(&out, magic, sizeof magic);
    bytes_put_u16(&out, VERSION);
    journal->at = sizeof head;
    return disk_write_all(journal->fd, head, sizeof head) ? -errno : 0;
}

static int
write_start(struct journal *journal, const struct journal_start *start)
{
    uint8_t who[JOURNAL_START_SIZE];
    struct bytes_out out = bytes_out(who, sizeof who);
    bytes_put_u64(&out, start->id);
    bytes_put_u64(&out, start->incarnation);
    bytes_put_u64(&out, start->job_hash);
    if (ftruncate(journal->fd, (off_t)journal->at) != 0 ||
        lseek(journal->fd, (off_t)journal->at, SEEK_SET) < 0)
        return -errno;
    int rc = journal->at == 0 ? write_head(journal) : 0;
    return rc ? rc : append(journal, JOURNAL_START, who, sizeof who);
}

int
journal_open(struct journal **out, const char *dir, const struct journal_start *start,
             struct why *why)
{
    char path[DISK_PATH_MAX];
    uint64_t at;
    *out = NULL;
    if (snprintf(path, sizeof path, "%s/" JOURNAL_FILE, dir) >= (int)sizeof path)
        return why_error(why, -ENAMETOOLONG, "%s: path too long", dir);
    int rc = keep_length(path, start, &at, why);
    if (rc)
        return rc;
    struct journal *journal = calloc(1, sizeof *journal);
    if (!journal)
        return why_error(why, -ENOMEM, "no memory for %s", path);
    journal->at = journal->kept = at;
    journal->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    rc = journal->fd < 0 ? -errno : write_start(journal, start);
    if (rc) {
        journal_close(&journal);
        return why_error(why, rc, "%s: cannot write: %s", path, strerror(-rc));
    }
    *out = journal;
    return 0;
}

uint64_t
journal_kept(const struct journal *journal)
{
    return journal->kept;
}

int
journal_sync(struct journal *journal)
{
    return !fail_hit(FAIL_FILE_SYNC, NULL, 0) && fsync(journal->fd) == 0 ? 0 : -errno;
}

void
journal_close(struct journal **journal)
{
    if (*journal && (*journal)->fd >= 0)
        close((*journal)->fd);
    free(*journal);
    *journal = NULL;
}

/* checkpoint.c - the state of a run as one file that cannot be half right. Format: files.h.
 *
 * Reading is three steps: check_file checks that every page is whole and where the sections lie; fit compares
 * that with what the caller expects; only then is anything copied. Of a file, one page at a time is in memory. */
#include "nn/files/checkpoint.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nn/files/checkpoint_internal.h"
#include "nn/files/disk.h"

/* A file, or its image in memory. */
struct checkpoint_file {
    char name[DISK_PATH_MAX];
    const uint8_t *image; /* NULL: it is in `fd` */
    int fd;
    size_t size;
    struct checkpoint_head head;
    uint8_t key[crypto_shorthash_KEYBYTES]; /* of the checks of its pages */
    struct checkpoint has;                  /* names and sizes of its sections */
    size_t at[CHECKPOINT_SECTIONS_MAX];     /* where these lie, */
    size_t from[CHECKPOINT_SECTIONS_MAX];   /* and the expected ones, in the payloads */
};

static int
damaged(const char *name, const char *what, struct why *why)
{
    return why_error(why, -EBADMSG, "%s: damaged checkpoint: %s", name, what);
}

/* The numbers of 64 bytes that begin with our magic. */
static void
head_decode(const uint8_t *from, struct checkpoint_head *head)
{
    *head = (struct checkpoint_head){
        .count = get32(from + 12),
        .size = get64(from + 16),
        .job_hash = get64(from + 24),
        .numerics = get64(from + 32),
        .step = get64(from + 40),
        .round = get64(from + 48),
    };
}

/* Is this page whole under the head that it holds itself? */
static bool
vouches(const uint8_t *data, size_t payload, size_t page)
{
    return memcmp(data, magic, sizeof magic) == 0 && get32(data + 8) == VERSION &&
           checkpoint_check(data, page, data, payload) == get64(data + payload);
}

static int
not_ours(const char *name, const uint8_t *data, size_t size, size_t file_size, struct why *why)
{
    struct checkpoint_head head;
    if (size < HEAD || memcmp(data, magic, sizeof magic) != 0)
        return why_error(why, -EBADMSG, "%s: damaged, or not a checkpoint", name);
    head_decode(data, &head);
    if (get32(data + 8) == VERSION && head.size > file_size)
        return why_error(why, -EBADMSG, "%s: is cut off at byte %zu of %ju", name, file_size,
                         head.size);
    if (get32(data + 8) == VERSION)
        return damaged(name, "first page and trailer", why);
    return why_error(why, -EPROTONOSUPPORT, "%s: checkpoint version %u, expected %d", name,
                     get32(data + 8), VERSION);
}

/* A page: in the image, or read to buffer[CHECKPOINT_PAGE]; NULL: it cannot be read. */
static const uint8_t *
page_at(const struct checkpoint_file *file, size_t page, uint8_t *buffer, size_t *payload)
{
    size_t offset;
    *payload = checkpoint_page_of(file->size, page, &offset);
    if (file->image)
        return file->image + offset;
    size_t size = *payload + CHECKPOINT_CHECK;
    return disk_read_at(file->fd, buffer, size, offset) == (ssize_t)size ? buffer : NULL;
}

static int
page_unread(const struct checkpoint_file *file, size_t page, struct why *why)
{
    return why_error(why, -EIO, "%s: page %zu of %zu cannot be read", file->name, page,
                     checkpoint_pages_of(file->size));
}

static int
check_page(const struct checkpoint_file *file, size_t page, const uint8_t *data, size_t payload,
           struct why *why)
{
    uint8_t key[crypto_shorthash_KEYBYTES];
    char what[64];
    memcpy(key, file->key, sizeof key);
    if (checkpoint_check_keyed(key, page, data, payload) == get64(data + payload))
        return 0;
    snprintf(what, sizeof what, "page %zu of %zu", page, checkpoint_pages_of(file->size));
    return damaged(file->name, what, why);
}

/* Every page whole, and the hash of all. The last one is the trailer. */
static int
check_pages(const struct checkpoint_file *file, struct why *why)
{
    uint8_t buffer[CHECKPOINT_PAGE], digest[DIGEST];
    const uint8_t *data = NULL;
    crypto_generichash_state hash;
    size_t pages = checkpoint_pages_of(file->size), payload;
    crypto_generichash_init(&hash, NULL, 0, DIGEST);
    for (size_t i = 0; i < pages; i++) {
        data = page_at(file, i, buffer, &payload);
        int rc = data ? check_page(file, i, data, payload, why) : page_unread(file, i, why);
        if (rc)
            return rc;
        crypto_generichash_update(&hash, data, i + 1 < pages ? payload : (size_t)HEAD);
    }
    crypto_generichash_final(&hash, digest, DIGEST);
    bool same = memcmp(digest, data + HEAD, DIGEST) == 0 &&
                memcmp(data + HEAD + DIGEST, end_magic, sizeof end_magic) == 0;
    return same ? 0 : damaged(file->name, "hash", why);
}

/* Do the first page and the trailer say the same? */
static int
check_ends(const struct checkpoint_file *file, const uint8_t *first, struct why *why)
{
    uint8_t buffer[CHECKPOINT_PAGE];
    size_t payload, last = checkpoint_pages_of(file->size) - 1;
    const uint8_t *trailer = page_at(file, last, buffer, &payload);
    if (!trailer)
        return page_unread(file, last, why);
    bool same = get64(first + 16) == file->size && memcmp(first, trailer, HEAD) == 0;
    return same ? 0 : damaged(file->name, "first page and trailer disagree", why);
}

/* The table, which is in the first page. */
static int
table_read(struct checkpoint_file *view, const uint8_t *data, struct why *why)
{
    const char *name = view->name;
    size_t body = checkpoint_body_of(view->size);
    size_t count = view->head.count, end = HEAD + count * ENTRY;
    if (count < 1 || count > CHECKPOINT_SECTIONS_MAX || body < end)
        return damaged(name, "number of sections", why);
    view->has.count = count;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *entry = data + HEAD + i * ENTRY;
        struct checkpoint_section *section = &view->has.section[i];
        uint64_t length = get64(entry + 24);
        memcpy(section->name, entry, CHECKPOINT_NAME);
        if (!checkpoint_name_valid(section->name))
            return damaged(name, "name of a section", why);
        if (get64(entry + 16) != end || length > body - end)
            return damaged(name, "section table", why);
        view->at[i] = end;
        section->size = (size_t)length;
        end += (size_t)length;
    }
    if (end != body)
        return damaged(name, "section table", why);
    return get64(data + 56) == checkpoint_layout(&view->has) ? 0
                                                             : damaged(name, "reserved bytes", why);
}

/* The first page, which has the head and the table. */
static int
read_first(struct checkpoint_file *file, const uint8_t *first, size_t payload, struct why *why)
{
    if (!vouches(first, payload, 0))
        return not_ours(file->name, first, payload, file->size, why);
    checkpoint_key(first, file->key);
    head_decode(first, &file->head);
    return 0;
}

/* The first page is not whole: is it the only one? */
static bool
trailer_vouches(const struct checkpoint_file *file)
{
    uint8_t buffer[CHECKPOINT_PAGE];
    size_t payload, last = checkpoint_pages_of(file->size) - 1;
    const uint8_t *trailer = page_at(file, last, buffer, &payload);
    return trailer && vouches(trailer, payload, last);
}

/* Too short for a checkpoint. */
static int
check_short(const struct checkpoint_file *file, struct why *why)
{
    uint8_t head[HEAD];
    size_t got = file->size < HEAD ? 0 : HEAD;
    if (got && file->image)
        memcpy(head, file->image, HEAD);
    else if (got && disk_read_at(file->fd, head, HEAD, 0) != HEAD)
        got = 0;
    return not_ours(file->name, head, got, file->size, why);
}

/* The head and *first, the page that has it: in the image, or in buffer[CHECKPOINT_PAGE]; NULL: there is none. */
static int
open_first(struct checkpoint_file *file, uint8_t *buffer, const uint8_t **first, struct why *why)
{
    size_t payload;
    *first = NULL;
    if (checkpoint_body_of(file->size) == SIZE_MAX)
        return check_short(file, why);
    *first = page_at(file, 0, buffer, &payload);
    return *first ? read_first(file, *first, payload, why) : page_unread(file, 0, why);
}

/* All of it. */
static int
check_file(struct checkpoint_file *file, struct why *why)
{
    uint8_t buffer[CHECKPOINT_PAGE];
    const uint8_t *first;
    int rc = open_first(file, buffer, &first, why);
    if (rc == -EBADMSG && first && trailer_vouches(file))
        return damaged(file->name, "page 0", why);
    rc = rc ? rc : check_ends(file, first, why);
    rc = rc ? rc : check_pages(file, why);
    return rc ? rc : table_read(file, first, why);
}

/* --- what the caller expects --- */

static int
fit_head(const struct checkpoint_head *head, const char *name, const struct checkpoint *checkpoint,
         struct why *why)
{
    if (head->job_hash != checkpoint->job_hash)
        return why_error(why, -EINVAL, "%s: checkpoint of another job (%016jx, this one is %016jx)",
                         name, head->job_hash, checkpoint->job_hash);
    if (head->numerics != checkpoint->numerics)
        return why_error(why, -ENOTSUP,
                         "%s: checkpoint made with other numerics (%016jx, this node has %016jx)",
                         name, head->numerics, checkpoint->numerics);
    return 0;
}

/* All that is expected lies within what the file has, of more or of the same parts. */
static bool
fit_parts(struct checkpoint_file *view, const struct checkpoint *checkpoint)
{
    for (size_t i = 0; i < checkpoint->count; i++) {
        size_t skip, k = checkpoint_find_part(&view->has, &checkpoint->section[i], &skip);
        if (k == view->has.count)
            return false;
        view->from[i] = view->at[k] + skip;
    }
    return true;
}

/* Each section as it is expected. */
static int
fit_whole(struct checkpoint_file *view, const char *name, const struct checkpoint *checkpoint,
          struct why *why)
{
    if (view->head.count < checkpoint->count ||
        (view->head.count > checkpoint->count && !checkpoint->part))
        return why_error(why, -ENOTSUP, "%s: %zu sections, expected %zu", name, view->head.count,
                         checkpoint->count);
    for (size_t i = 0; i < checkpoint->count; i++) {
        const struct checkpoint_section *section = &checkpoint->section[i];
        const struct checkpoint_section *has = &view->has.section[i];
        view->from[i] = view->at[i];
        if (strcmp(has->name, section->name) == 0 && has->size == section->size)
            continue;
        return why_error(why, -ENOTSUP, "%s: section %s of %zu bytes, expected %s of %zu bytes",
                         name, has->name, has->size, section->name, section->size);
    }
    return 0;
}

static int
fit(struct checkpoint_file *view, const char *name, const struct checkpoint *checkpoint,
    struct why *why)
{
    int rc = fit_head(&view->head, name, checkpoint, why);
    if (rc)
        return rc;
    if (checkpoint_in_parts(checkpoint) && fit_parts(view, checkpoint))
        return 0;
    uint64_t missing = checkpoint_missing(&view->has, checkpoint);
    if (checkpoint_in_parts(&view->has) && missing > 0)
        return why_error(why, -ENOTSUP,
                         "%s: a checkpoint of some stages of the model only: %ju bytes are "
                         "missing; other nodes of the run have them",
                         name, missing);
    return fit_whole(view, name, checkpoint, why);
}

/* Of the payloads, joined, from byte `at` on. */
static int
copy_out(const struct checkpoint_file *file, size_t at, uint8_t *to, size_t size, struct why *why)
{
    uint8_t buffer[CHECKPOINT_PAGE];
    while (size) {
        size_t page = at / PAYLOAD, in = at % PAYLOAD, payload;
        size_t n = PAYLOAD - in < size ? PAYLOAD - in : size;
        const uint8_t *data = page_at(file, page, buffer, &payload);
        int rc = data ? check_page(file, page, data, payload, why) : page_unread(file, page, why);
        if (rc)
            return rc;
        memcpy(to, data + in, n);
        to += n;
        at += n;
        size -= n;
    }
    return 0;
}

/* What is expected, of a file that was checked. */
static int
sections_take(struct checkpoint_file *file, const uint64_t *step, struct checkpoint *checkpoint,
              struct why *why)
{
    int rc = fit(file, file->name, checkpoint, why);
    if (rc)
        return rc;
    if (step && file->head.step != *step)
        return why_error(why, -EBADMSG, "%s: holds step %ju", file->name, file->head.step);
    checkpoint->step = file->head.step;
    checkpoint->round = file->head.round;
    for (size_t i = 0; i < checkpoint->count && !rc; i++)
        if (checkpoint->section[i].data)
            rc = copy_out(file, file->from[i], checkpoint->section[i].data,
                          checkpoint->section[i].size, why);
    return rc;
}

int
checkpoint_parse(const char *name, const uint8_t *data, size_t size, struct checkpoint *checkpoint,
                 struct why *why)
{
    struct checkpoint_file file = {.image = data, .fd = -1, .size = size};
    snprintf(file.name, sizeof file.name, "%s", name);
    checkpoint_arguments(checkpoint);
    int rc = check_file(&file, why);
    return rc ? rc : sections_take(&file, NULL, checkpoint, why);
}

/* --- files --- */

/* Trailer and first page of an open file. */
static int
probe(int fd, size_t size, const char *name, struct checkpoint_head *head, struct why *why)
{
    uint8_t page[CHECKPOINT_PAGE];
    size_t body = checkpoint_body_of(size), offset;
    if (body != SIZE_MAX && pread(fd, page, TRAILER, (off_t)(size - TRAILER)) == TRAILER &&
        vouches(page, TRAILER - CHECKPOINT_CHECK, checkpoint_pages_of(size) - 1)) {
        head_decode(page, head);
        return 0;
    }
    size_t payload = body == SIZE_MAX ? 0 : checkpoint_page_of(size, 0, &offset);
    ssize_t got = pread(fd, page, body == SIZE_MAX ? HEAD : payload + CHECKPOINT_CHECK, 0);
    if (got >= HEAD && memcmp(page, magic, sizeof magic) == 0)
        head_decode(page, head);
    if (payload && got == (ssize_t)(payload + CHECKPOINT_CHECK) && vouches(page, payload, 0))
        return 0;
    return not_ours(name, page, got < 0 ? 0 : (size_t)got, size, why);
}

int
checkpoint_probe(const char *path, struct checkpoint_head *head, struct why *why)
{
    int ready = sodium_init();
    assert(ready >= 0);
    *head = (struct checkpoint_head){.size = 0};
    uint64_t size;
    int fd = disk_open(path, &size, why);
    if (fd < 0)
        return fd;
    int rc = probe(fd, (size_t)size, path, head, why);
    close(fd);
    return rc;
}

static int
file_open(struct checkpoint_file *file, const char *path, struct why *why)
{
    uint64_t size;
    int ready = sodium_init();
    assert(ready >= 0);
    *file = (struct checkpoint_file){.fd = disk_open(path, &size, why)};
    snprintf(file->name, sizeof file->name, "%s", path);
    file->size = file->fd < 0 ? 0 : (size_t)size;
    return file->fd < 0 ? file->fd : 0;
}

/* The first page alone. */
static int
look_into(struct checkpoint_file *file, struct why *why)
{
    uint8_t buffer[CHECKPOINT_PAGE];
    const uint8_t *first;
    int rc = open_first(file, buffer, &first, why);
    if (!rc && file->head.size != file->size)
        rc = damaged(file->name, "its size", why);
    return rc ? rc : table_read(file, first, why);
}

int
checkpoint_sections(const char *path, struct checkpoint *out, struct why *why)
{
    struct checkpoint_file file;
    int rc = file_open(&file, path, why);
    if (rc)
        return rc;
    rc = look_into(&file, why);
    close(file.fd);
    *out = file.has;
    out->job_hash = file.head.job_hash;
    out->numerics = file.head.numerics;
    out->step = file.head.step;
    out->round = file.head.round;
    return rc;
}

int
checkpoint_open(struct checkpoint_file **out, const char *path, struct why *why)
{
    struct checkpoint_file *file = *out = malloc(sizeof *file);
    int rc = file ? file_open(file, path, why) : why_error(why, -ENOMEM, "%s: no memory", path);
    rc = rc ? rc : check_file(file, why);
    if (rc)
        checkpoint_close(out);
    return rc;
}

void
checkpoint_close(struct checkpoint_file **file)
{
    if (*file && (*file)->fd >= 0)
        close((*file)->fd);
    free(*file);
    *file = NULL;
}

const struct checkpoint_head *
checkpoint_head(const struct checkpoint_file *file)
{
    return &file->head;
}

int
checkpoint_take(struct checkpoint_file *file, struct checkpoint *checkpoint, struct why *why)
{
    checkpoint_arguments(checkpoint);
    return sections_take(file, NULL, checkpoint, why);
}

int
checkpoint_read_step(const char *path, const uint64_t *step, struct checkpoint *checkpoint,
                     struct why *why)
{
    struct checkpoint_head head;
    struct checkpoint_file *file;
    checkpoint_arguments(checkpoint);
    int rc = checkpoint_probe(path, &head, why);
    if (rc == 0)
        rc = fit_head(&head, path, checkpoint, why);
    if (rc && rc != -EBADMSG)
        return rc;
    rc = checkpoint_open(&file, path, why);
    rc = rc ? rc : sections_take(file, step, checkpoint, why);
    checkpoint_close(&file);
    return rc;
}

int
checkpoint_read(const char *path, struct checkpoint *checkpoint, struct why *why)
{
    return checkpoint_read_step(path, NULL, checkpoint, why);
}

bool
checkpoint_valid(const char *path, uint64_t step)
{
    struct checkpoint_file *file;
    bool good = checkpoint_open(&file, path, NULL) == 0 && file->head.step == step;
    checkpoint_close(&file);
    return good;
}

/* checkpoint.c - the state of a run as one file that cannot be half right. Format: files.h.
 *
 * Reading is three steps: open_view checks that every page is whole and where the sections lie; fit compares
 * that with what the caller expects; only then is anything copied. */
#include "nn/files/checkpoint.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nn/files/checkpoint_internal.h"
#include "nn/files/disk.h"

struct view {
    struct checkpoint_head head;
    const uint8_t *image;
    struct checkpoint has;                /* names and sizes of its sections */
    size_t at[CHECKPOINT_SECTIONS_MAX];   /* where these lie, */
    size_t from[CHECKPOINT_SECTIONS_MAX]; /* and the expected ones, in the payloads */
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
not_ours(const char *name, const uint8_t *data, size_t size, struct why *why)
{
    if (size < HEAD || memcmp(data, magic, sizeof magic) != 0)
        return why_error(why, -EBADMSG, "%s: damaged, or not a checkpoint", name);
    if (get32(data + 8) == VERSION)
        return damaged(name, "first page and trailer", why);
    return why_error(why, -EPROTONOSUPPORT, "%s: checkpoint version %u, expected %d", name,
                     get32(data + 8), VERSION);
}

/* Every page whole, and the hash of all. */
static int
view_pages(const char *name, const uint8_t *data, size_t size, struct why *why)
{
    uint8_t digest[DIGEST], key[crypto_shorthash_KEYBYTES];
    const uint8_t *trailer = data + size - TRAILER;
    if (get64(data + 16) != size || memcmp(data, trailer, HEAD) != 0)
        return damaged(name, "first page and trailer disagree", why);
    checkpoint_key(data, key);
    for (size_t i = 0; i < checkpoint_pages_of(size); i++) {
        char what[64];
        size_t offset, payload = checkpoint_page_of(size, i, &offset);
        if (checkpoint_check_keyed(key, i, data + offset, payload) ==
            get64(data + offset + payload))
            continue;
        snprintf(what, sizeof what, "page %zu of %zu", i, checkpoint_pages_of(size));
        return damaged(name, what, why);
    }
    checkpoint_digest(data, size, digest);
    if (memcmp(digest, trailer + HEAD, DIGEST) != 0 ||
        memcmp(trailer + HEAD + DIGEST, end_magic, sizeof end_magic) != 0)
        return damaged(name, "hash", why);
    return 0;
}

static int
view_sections(struct view *view, const char *name, size_t body, struct why *why)
{
    const uint8_t *data = view->image;
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

static int
open_view(struct view *view, const char *name, const uint8_t *data, size_t size, struct why *why)
{
    size_t body = checkpoint_body_of(size), offset;
    if (body == SIZE_MAX || !vouches(data, checkpoint_page_of(size, 0, &offset), 0)) {
        bool trailer =
            body != SIZE_MAX && vouches(data + size - TRAILER, TRAILER - CHECKPOINT_CHECK,
                                        checkpoint_pages_of(size) - 1);
        return trailer ? damaged(name, "page 0", why) : not_ours(name, data, size, why);
    }
    int rc = view_pages(name, data, size, why);
    view->image = data;
    head_decode(data, &view->head);
    return rc ? rc : view_sections(view, name, body, why);
}

/* --- what the caller expects --- */

static int
fit_head(const struct checkpoint_head *head, const char *name, const struct checkpoint *checkpoint,
         struct why *why)
{
    if (head->job_hash != checkpoint->job_hash)
        return why_error(
            why, -EINVAL, "%s: checkpoint of another job (%016llx, this one is %016llx)", name,
            (unsigned long long)head->job_hash, (unsigned long long)checkpoint->job_hash);
    if (head->numerics != checkpoint->numerics)
        return why_error(why, -ENOTSUP,
                         "%s: checkpoint made with other numerics (%016llx, this node has %016llx)",
                         name, (unsigned long long)head->numerics,
                         (unsigned long long)checkpoint->numerics);
    return 0;
}

/* All that is expected lies within what the file has, of more or of the same parts. */
static bool
fit_parts(struct view *view, const struct checkpoint *checkpoint)
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
fit_whole(struct view *view, const char *name, const struct checkpoint *checkpoint, struct why *why)
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
fit(struct view *view, const char *name, const struct checkpoint *checkpoint, struct why *why)
{
    int rc = fit_head(&view->head, name, checkpoint, why);
    if (rc)
        return rc;
    if (checkpoint_in_parts(checkpoint) && fit_parts(view, checkpoint))
        return 0;
    uint64_t missing = checkpoint_missing(&view->has, checkpoint);
    if (checkpoint_in_parts(&view->has) && missing > 0)
        return why_error(why, -ENOTSUP,
                         "%s: a checkpoint of some stages of the model only: %llu bytes are "
                         "missing; other nodes of the run have them",
                         name, (unsigned long long)missing);
    return fit_whole(view, name, checkpoint, why);
}

static int
parse(const char *name, const uint8_t *data, size_t size, const uint64_t *step,
      struct checkpoint *checkpoint, struct why *why)
{
    struct view view;
    int rc = open_view(&view, name, data, size, why);
    rc = rc ? rc : fit(&view, name, checkpoint, why);
    if (rc)
        return rc;
    if (step && view.head.step != *step)
        return why_error(why, -EBADMSG, "%s: holds step %llu", name,
                         (unsigned long long)view.head.step);
    checkpoint->step = view.head.step;
    checkpoint->round = view.head.round;
    for (size_t i = 0; i < checkpoint->count; i++)
        checkpoint_body_copy(NULL, data, checkpoint->section[i].data, view.from[i],
                             checkpoint->section[i].size);
    return 0;
}

int
checkpoint_parse(const char *name, const uint8_t *data, size_t size, struct checkpoint *checkpoint,
                 struct why *why)
{
    checkpoint_arguments(checkpoint);
    return parse(name, data, size, NULL, checkpoint, why);
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
    return not_ours(name, page, got < 0 ? 0 : (size_t)got, why);
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

/* The first page of an open file, which has the table. */
static int
read_first_page(int fd, size_t size, const char *name, struct view *view, struct why *why)
{
    uint8_t page[CHECKPOINT_PAGE];
    size_t body = checkpoint_body_of(size), offset;
    size_t payload = body == SIZE_MAX ? 0 : checkpoint_page_of(size, 0, &offset);
    ssize_t got = disk_read_at(fd, page, payload + CHECKPOINT_CHECK, 0);
    if (payload == 0 || got != (ssize_t)(payload + CHECKPOINT_CHECK) || !vouches(page, payload, 0))
        return not_ours(name, page, got < 0 ? 0 : (size_t)got, why);
    view->image = page;
    head_decode(page, &view->head);
    int rc = view->head.size == size ? view_sections(view, name, body, why)
                                     : damaged(name, "its size", why);
    view->image = NULL;
    return rc;
}

int
checkpoint_sections(const char *path, struct checkpoint *out, struct why *why)
{
    struct view view = {.image = NULL};
    uint64_t size;
    int ready = sodium_init();
    assert(ready >= 0);
    int fd = disk_open(path, &size, why);
    if (fd < 0)
        return fd;
    int rc = read_first_page(fd, (size_t)size, path, &view, why);
    close(fd);
    *out = view.has;
    out->job_hash = view.head.job_hash;
    out->numerics = view.head.numerics;
    out->step = view.head.step;
    out->round = view.head.round;
    return rc;
}

int
checkpoint_read_step(const char *path, const uint64_t *step, struct checkpoint *checkpoint,
                     struct why *why)
{
    uint8_t *data;
    size_t size;
    struct checkpoint_head head;
    checkpoint_arguments(checkpoint);
    int rc = checkpoint_probe(path, &head, why);
    if (rc == 0)
        rc = fit_head(&head, path, checkpoint, why);
    if (rc && rc != -EBADMSG)
        return rc;
    size_t expected = checkpoint_size(checkpoint);
    bool other = rc == 0 && head.size != expected;
    rc = disk_read(path, other ? (size_t)head.size : expected, &data, &size, why);
    if (rc == -EFBIG)
        return why_error(why, -EBADMSG, "%s: damaged, or not a checkpoint", path);
    if (rc)
        return rc;
    rc = parse(path, data, size, step, checkpoint, why);
    free(data);
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
    uint8_t *data;
    size_t size;
    struct view view;
    int ready = sodium_init();
    assert(ready >= 0);
    if (disk_read(path, SIZE_MAX, &data, &size, NULL))
        return false;
    bool good = open_view(&view, path, data, size, NULL) == 0 && view.head.step == step;
    free(data);
    return good;
}

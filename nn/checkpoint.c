/* checkpoint.c - the state of a run as one file that cannot be half right. Format: files.h.
 *
 * Reading is two steps: open_view checks that the bytes are a checkpoint at all and where its sections
 * lie; fit compares it with what the caller expects. Only then is anything copied. */
#include "nn/files.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>
#include <xxhash.h>

#include "nn/checkpoint.h"
#include "nn/disk.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "states are stored as they lie in memory");

enum {
    VERSION = 1,
    HEADER = 64,
    ENTRY = 40,
    DIGEST = 32,
    HEAD_MAX = HEADER + CHECKPOINT_SECTIONS_MAX * ENTRY,
};

static const char magic[8] = {'M', 'E', 'S', 'H', 'C', 'K', 'P', 'T'};

struct view {
    uint64_t job_hash, step;
    size_t count;
    struct {
        char name[CHECKPOINT_NAME];
        const uint8_t *data;
        size_t size;
    } section[CHECKPOINT_SECTIONS_MAX];
};

static void
put32(uint8_t *to, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(x >> 8 * i);
}

static void
put64(uint8_t *to, uint64_t x)
{
    for (int i = 0; i < 8; i++)
        to[i] = (uint8_t)(x >> 8 * i);
}

static uint32_t
get32(const uint8_t *from)
{
    uint32_t x = 0;
    for (int i = 4; i-- > 0;)
        x = x << 8 | from[i];
    return x;
}

static uint64_t
get64(const uint8_t *from)
{
    uint64_t x = 0;
    for (int i = 8; i-- > 0;)
        x = x << 8 | from[i];
    return x;
}

static bool
name_valid(const char name[CHECKPOINT_NAME])
{
    size_t length = strnlen(name, CHECKPOINT_NAME);
    for (size_t i = 0; i < CHECKPOINT_NAME; i++)
        if (i < length ? name[i] <= ' ' || name[i] > '~' : name[i] != 0)
            return false;
    return length > 0 && length < CHECKPOINT_NAME;
}

static size_t
file_size(const struct checkpoint *checkpoint)
{
    size_t size = HEADER + checkpoint->count * ENTRY + DIGEST;
    for (size_t i = 0; i < checkpoint->count; i++)
        size += checkpoint->section[i].size;
    return size;
}

/* Also lets libsodium choose its fastest BLAKE2b, which it does once. */
static void
check_arguments(const struct checkpoint *checkpoint)
{
    int ready = sodium_init();
    assert(ready >= 0);
    assert(checkpoint->count >= 1);
    assert(checkpoint->count <= CHECKPOINT_SECTIONS_MAX);
    for (size_t i = 0; i < checkpoint->count; i++)
        assert(name_valid(checkpoint->section[i].name));
}

/* Header and table; returns their size. */
static size_t
encode_head(const struct checkpoint *checkpoint, uint8_t head[HEAD_MAX])
{
    size_t offset = HEADER + checkpoint->count * ENTRY;
    memset(head, 0, HEAD_MAX);
    memcpy(head, magic, sizeof magic);
    put32(head + 8, VERSION);
    put32(head + 12, (uint32_t)checkpoint->count);
    put64(head + 16, file_size(checkpoint));
    put64(head + 24, checkpoint->job_hash);
    put64(head + 32, checkpoint->step);
    for (size_t i = 0; i < checkpoint->count; i++) {
        const struct checkpoint_section *section = &checkpoint->section[i];
        uint8_t *entry = head + HEADER + i * ENTRY;
        memcpy(entry, section->name, CHECKPOINT_NAME);
        put64(entry + 16, offset);
        put64(entry + 24, section->size);
        put64(entry + 32, XXH3_64bits(section->data, section->size));
        offset += section->size;
    }
    return HEADER + checkpoint->count * ENTRY;
}

int
checkpoint_write(const char *path, const struct checkpoint *checkpoint, char *why, size_t why_size)
{
    uint8_t head[HEAD_MAX], digest[DIGEST];
    struct disk_piece piece[CHECKPOINT_SECTIONS_MAX + 2];
    crypto_generichash_state hash;
    size_t n = 0;
    check_arguments(checkpoint);
    piece[n++] = (struct disk_piece){head, encode_head(checkpoint, head)};
    for (size_t i = 0; i < checkpoint->count; i++)
        piece[n++] = (struct disk_piece){checkpoint->section[i].data, checkpoint->section[i].size};
    crypto_generichash_init(&hash, NULL, 0, DIGEST);
    for (size_t i = 0; i < n; i++)
        crypto_generichash_update(&hash, piece[i].data, piece[i].size);
    crypto_generichash_final(&hash, digest, DIGEST);
    piece[n++] = (struct disk_piece){digest, DIGEST};
    return disk_write(path, piece, n, why, why_size);
}

static int
damaged(const char *name, const char *what, char *why, size_t why_size)
{
    snprintf(why, why_size, "%s: damaged checkpoint: %s", name, what);
    return -EBADMSG;
}

static int
view_header(struct view *view, const char *name, const uint8_t *data, size_t size, char *why,
            size_t why_size)
{
    if (size < HEADER + ENTRY + DIGEST || memcmp(data, magic, sizeof magic) != 0) {
        snprintf(why, why_size, "%s: not a checkpoint", name);
        return -EBADMSG;
    }
    if (get32(data + 8) != VERSION) {
        snprintf(why, why_size, "%s: checkpoint version %u, expected %d", name, get32(data + 8),
                 VERSION);
        return -EPROTONOSUPPORT;
    }
    view->count = get32(data + 12);
    view->job_hash = get64(data + 24);
    view->step = get64(data + 32);
    if (view->count < 1 || view->count > CHECKPOINT_SECTIONS_MAX ||
        size < HEADER + view->count * ENTRY + DIGEST)
        return damaged(name, "number of sections", why, why_size);
    if (get64(data + 16) != size) {
        snprintf(why, why_size, "%s: damaged checkpoint: %zu bytes, expected %llu", name, size,
                 (unsigned long long)get64(data + 16));
        return -EBADMSG;
    }
    for (size_t i = 40; i < HEADER; i++)
        if (data[i])
            return damaged(name, "reserved bytes", why, why_size);
    return 0;
}

static int
view_sections(struct view *view, const char *name, const uint8_t *data, size_t size, char *why,
              size_t why_size)
{
    size_t end = HEADER + view->count * ENTRY;
    for (size_t i = 0; i < view->count; i++) {
        const uint8_t *entry = data + HEADER + i * ENTRY;
        uint64_t length = get64(entry + 24);
        memcpy(view->section[i].name, entry, CHECKPOINT_NAME);
        if (!name_valid(view->section[i].name))
            return damaged(name, "name of a section", why, why_size);
        if (get64(entry + 16) != end || length > size - DIGEST - end)
            return damaged(name, "section table", why, why_size);
        view->section[i].data = data + end;
        view->section[i].size = (size_t)length;
        if (XXH3_64bits(data + end, (size_t)length) != get64(entry + 32))
            return damaged(name, view->section[i].name, why, why_size);
        end += (size_t)length;
    }
    return end == size - DIGEST ? 0 : damaged(name, "section table", why, why_size);
}

static int
open_view(struct view *view, const char *name, const uint8_t *data, size_t size, char *why,
          size_t why_size)
{
    uint8_t digest[DIGEST];
    int rc = view_header(view, name, data, size, why, why_size);
    if (!rc)
        rc = view_sections(view, name, data, size, why, why_size);
    if (rc)
        return rc;
    crypto_generichash(digest, DIGEST, data, size - DIGEST, NULL, 0);
    if (memcmp(digest, data + size - DIGEST, DIGEST) != 0)
        return damaged(name, "hash", why, why_size);
    return 0;
}

static int
other_job(const char *name, uint64_t job_hash, const struct checkpoint *checkpoint, char *why,
          size_t why_size)
{
    snprintf(why, why_size, "%s: checkpoint of another job (%016llx, this one is %016llx)", name,
             (unsigned long long)job_hash, (unsigned long long)checkpoint->job_hash);
    return -EINVAL;
}

static int
fit(const struct view *view, const char *name, const struct checkpoint *checkpoint, char *why,
    size_t why_size)
{
    if (view->job_hash != checkpoint->job_hash)
        return other_job(name, view->job_hash, checkpoint, why, why_size);
    if (view->count != checkpoint->count) {
        snprintf(why, why_size, "%s: %zu sections, expected %zu", name, view->count,
                 checkpoint->count);
        return -EINVAL;
    }
    for (size_t i = 0; i < view->count; i++) {
        const struct checkpoint_section *section = &checkpoint->section[i];
        if (strcmp(view->section[i].name, section->name) == 0 &&
            view->section[i].size == section->size)
            continue;
        snprintf(why, why_size, "%s: section %s of %zu bytes, expected %s of %zu bytes", name,
                 view->section[i].name, view->section[i].size, section->name, section->size);
        return -EINVAL;
    }
    return 0;
}

static int
parse(const char *name, const uint8_t *data, size_t size, const uint64_t *step,
      struct checkpoint *checkpoint, char *why, size_t why_size)
{
    struct view view;
    int rc = open_view(&view, name, data, size, why, why_size);
    if (!rc)
        rc = fit(&view, name, checkpoint, why, why_size);
    if (rc)
        return rc;
    if (step && view.step != *step) {
        snprintf(why, why_size, "%s: holds step %llu", name, (unsigned long long)view.step);
        return -EBADMSG;
    }
    checkpoint->step = view.step;
    for (size_t i = 0; i < view.count; i++)
        if (view.section[i].size)
            memcpy(checkpoint->section[i].data, view.section[i].data, view.section[i].size);
    return 0;
}

int
checkpoint_parse(const char *name, const uint8_t *data, size_t size, struct checkpoint *checkpoint,
                 char *why, size_t why_size)
{
    check_arguments(checkpoint);
    return parse(name, data, size, NULL, checkpoint, why, why_size);
}

int
checkpoint_read_step(const char *path, const uint64_t *step, struct checkpoint *checkpoint,
                     char *why, size_t why_size)
{
    uint8_t *data;
    size_t size;
    uint64_t job_hash;
    check_arguments(checkpoint);
    int rc = disk_read(path, file_size(checkpoint), &data, &size, why, why_size);
    if (rc == -EFBIG) {
        if (checkpoint_job(path, &job_hash) && job_hash != checkpoint->job_hash)
            other_job(path, job_hash, checkpoint, why, why_size);
        return -EINVAL;
    }
    if (rc)
        return rc;
    rc = parse(path, data, size, step, checkpoint, why, why_size);
    free(data);
    return rc;
}

int
checkpoint_read(const char *path, struct checkpoint *checkpoint, char *why, size_t why_size)
{
    return checkpoint_read_step(path, NULL, checkpoint, why, why_size);
}

bool
checkpoint_job(const char *path, uint64_t *job_hash)
{
    uint8_t head[HEADER];
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    bool whole = fread(head, 1, sizeof head, file) == sizeof head;
    fclose(file);
    *job_hash = whole ? get64(head + 24) : 0;
    return whole && memcmp(head, magic, sizeof magic) == 0;
}

bool
checkpoint_valid(const char *path, uint64_t step)
{
    char why[1];
    uint8_t *data;
    size_t size;
    struct view view;
    if (disk_read(path, SIZE_MAX, &data, &size, why, sizeof why))
        return false;
    bool good = open_view(&view, path, data, size, why, sizeof why) == 0 && view.step == step;
    free(data);
    return good;
}

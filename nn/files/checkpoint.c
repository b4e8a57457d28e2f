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

#include <sodium.h>

#include "nn/files/disk.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "states are stored as they lie in memory");

enum {
    VERSION = 2,
    HEAD = CHECKPOINT_HEAD,
    ENTRY = 32,
    DIGEST = 32,
    TABLE_END_MAX = HEAD + CHECKPOINT_SECTIONS_MAX * ENTRY,
    PAYLOAD = CHECKPOINT_PAYLOAD,
    TRAILER = CHECKPOINT_TRAILER,
    SIZE_MIN = HEAD + ENTRY + CHECKPOINT_CHECK + TRAILER,
};

_Static_assert(TABLE_END_MAX <= PAYLOAD, "the table lies in the first page");

static const char magic[8] = {'M', 'E', 'S', 'H', 'C', 'K', 'P', 'T'};
static const char end_magic[8] = {'M', 'E', 'S', 'H', 'D', 'O', 'N', 'E'};

/* --- numbers --- */

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

/* --- pages --- */

/* Payload before the trailer, in a file of this size; SIZE_MAX: no file has it. */
static size_t
body_of(size_t size)
{
    if (size < SIZE_MIN)
        return SIZE_MAX;
    size_t pages = (size - TRAILER + CHECKPOINT_PAGE - 1) / CHECKPOINT_PAGE;
    size_t last = size - TRAILER - (pages - 1) * CHECKPOINT_PAGE;
    return last <= CHECKPOINT_CHECK ? SIZE_MAX : size - TRAILER - pages * CHECKPOINT_CHECK;
}

static size_t
body_size(const struct checkpoint *checkpoint)
{
    size_t size = HEAD + checkpoint->count * ENTRY;
    for (size_t i = 0; i < checkpoint->count; i++)
        size += checkpoint->section[i].size;
    return size;
}

size_t
checkpoint_size(const struct checkpoint *checkpoint)
{
    size_t body = body_size(checkpoint);
    return body + (body + PAYLOAD - 1) / PAYLOAD * CHECKPOINT_CHECK + TRAILER;
}

static size_t
pages_of(size_t size)
{
    return (size - TRAILER + CHECKPOINT_PAGE - 1) / CHECKPOINT_PAGE + 1;
}

/* Where page i of a file lies; returns its bytes of payload. */
static size_t
page_of(size_t size, size_t i, size_t *offset)
{
    size_t body_pages = pages_of(size) - 1;
    *offset = i < body_pages ? i * CHECKPOINT_PAGE : size - TRAILER;
    if (i == body_pages)
        return TRAILER - CHECKPOINT_CHECK;
    size_t left = size - TRAILER - *offset;
    return (left < CHECKPOINT_PAGE ? left : CHECKPOINT_PAGE) - CHECKPOINT_CHECK;
}

static void
key_of(const uint8_t head[HEAD], uint8_t key[crypto_shorthash_KEYBYTES])
{
    uint8_t digest[crypto_generichash_BYTES_MIN];
    crypto_generichash(digest, sizeof digest, head, HEAD, NULL, 0);
    memcpy(key, digest, 8);
}

static uint64_t
check_keyed(uint8_t key[crypto_shorthash_KEYBYTES], uint64_t page, const uint8_t *data,
            size_t payload)
{
    uint8_t check[crypto_shorthash_BYTES];
    put64(key + 8, page);
    crypto_shorthash(check, data, payload, key);
    return get64(check);
}

uint64_t
checkpoint_check(const uint8_t head[HEAD], uint64_t page, const uint8_t *data, size_t payload)
{
    uint8_t key[crypto_shorthash_KEYBYTES];
    key_of(head, key);
    return check_keyed(key, page, data, payload);
}

/* Copy between the payloads, joined, and a block of memory. */
static void
body_copy(uint8_t *image, const uint8_t *from, uint8_t *data, size_t at, size_t size)
{
    while (size) {
        size_t in = at % PAYLOAD, offset = at / PAYLOAD * CHECKPOINT_PAGE + in;
        size_t n = PAYLOAD - in < size ? PAYLOAD - in : size;
        if (image)
            memcpy(image + offset, data, n);
        else
            memcpy(data, from + offset, n);
        data += n;
        at += n;
        size -= n;
    }
}

/* --- writing --- */

static void
head_encode(const struct checkpoint *checkpoint, uint8_t head[HEAD])
{
    memset(head, 0, HEAD);
    memcpy(head, magic, sizeof magic);
    head[8] = VERSION;
    head[12] = (uint8_t)checkpoint->count;
    put64(head + 16, checkpoint_size(checkpoint));
    put64(head + 24, checkpoint->job_hash);
    put64(head + 32, checkpoint->numerics);
    put64(head + 40, checkpoint->step);
    put64(head + 48, checkpoint->round);
}

void
checkpoint_fill(const struct checkpoint *checkpoint, uint8_t *image)
{
    check_arguments(checkpoint);
    size_t at = HEAD + checkpoint->count * ENTRY;
    head_encode(checkpoint, image);
    for (size_t i = 0; i < checkpoint->count; i++) {
        const struct checkpoint_section *section = &checkpoint->section[i];
        uint8_t *entry = image + HEAD + i * ENTRY;
        memset(entry, 0, ENTRY);
        memcpy(entry, section->name, CHECKPOINT_NAME);
        put64(entry + 16, at);
        put64(entry + 24, section->size);
        body_copy(image, NULL, section->data, at, section->size);
        at += section->size;
    }
}

/* BLAKE2b-256 of all payload before the digest. */
static void
digest_of(const uint8_t *image, size_t size, uint8_t digest[DIGEST])
{
    crypto_generichash_state hash;
    crypto_generichash_init(&hash, NULL, 0, DIGEST);
    for (size_t i = 0; i < pages_of(size); i++) {
        size_t offset, payload = page_of(size, i, &offset);
        crypto_generichash_update(&hash, image + offset,
                                  i + 1 < pages_of(size) ? payload : (size_t)HEAD);
    }
    crypto_generichash_final(&hash, digest, DIGEST);
}

void
checkpoint_seal(uint8_t *image, size_t size)
{
    uint8_t *trailer = image + size - TRAILER, key[crypto_shorthash_KEYBYTES];
    memcpy(trailer, image, HEAD);
    digest_of(image, size, trailer + HEAD);
    memcpy(trailer + HEAD + DIGEST, end_magic, sizeof end_magic);
    key_of(image, key);
    for (size_t i = 0; i < pages_of(size); i++) {
        size_t offset, payload = page_of(size, i, &offset);
        put64(image + offset + payload, check_keyed(key, i, image + offset, payload));
    }
}

int
checkpoint_store(const char *dir, uint64_t step, const uint8_t *image, size_t size, struct why *why)
{
    char path[DISK_PATH_MAX];
    checkpoint_path(path, dir, step);
    return disk_write(path, &(struct disk_piece){image, size}, 1, why);
}

/* --- reading --- */

struct view {
    struct checkpoint_head head;
    const uint8_t *image;
    struct {
        char name[CHECKPOINT_NAME];
        size_t at, size;
    } section[CHECKPOINT_SECTIONS_MAX];
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
    key_of(data, key);
    for (size_t i = 0; i < pages_of(size); i++) {
        char what[64];
        size_t offset, payload = page_of(size, i, &offset);
        if (check_keyed(key, i, data + offset, payload) == get64(data + offset + payload))
            continue;
        snprintf(what, sizeof what, "page %zu of %zu", i, pages_of(size));
        return damaged(name, what, why);
    }
    digest_of(data, size, digest);
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
    if (get64(data + 56) != 0)
        return damaged(name, "reserved bytes", why);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *entry = data + HEAD + i * ENTRY;
        uint64_t length = get64(entry + 24);
        memcpy(view->section[i].name, entry, CHECKPOINT_NAME);
        if (!name_valid(view->section[i].name))
            return damaged(name, "name of a section", why);
        if (get64(entry + 16) != end || length > body - end)
            return damaged(name, "section table", why);
        view->section[i].at = end;
        view->section[i].size = (size_t)length;
        end += (size_t)length;
    }
    return end == body ? 0 : damaged(name, "section table", why);
}

static int
open_view(struct view *view, const char *name, const uint8_t *data, size_t size, struct why *why)
{
    size_t body = body_of(size), offset;
    if (body == SIZE_MAX || !vouches(data, page_of(size, 0, &offset), 0)) {
        bool trailer = body != SIZE_MAX && vouches(data + size - TRAILER,
                                                   TRAILER - CHECKPOINT_CHECK, pages_of(size) - 1);
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

static int
fit(const struct view *view, const char *name, const struct checkpoint *checkpoint, struct why *why)
{
    int rc = fit_head(&view->head, name, checkpoint, why);
    if (rc)
        return rc;
    if (view->head.count != checkpoint->count)
        return why_error(why, -ENOTSUP, "%s: %zu sections, expected %zu", name, view->head.count,
                         checkpoint->count);
    for (size_t i = 0; i < checkpoint->count; i++) {
        const struct checkpoint_section *section = &checkpoint->section[i];
        if (strcmp(view->section[i].name, section->name) == 0 &&
            view->section[i].size == section->size)
            continue;
        return why_error(why, -ENOTSUP, "%s: section %s of %zu bytes, expected %s of %zu bytes",
                         name, view->section[i].name, view->section[i].size, section->name,
                         section->size);
    }
    return 0;
}

static int
parse(const char *name, const uint8_t *data, size_t size, const uint64_t *step,
      struct checkpoint *checkpoint, struct why *why)
{
    struct view view;
    int rc = open_view(&view, name, data, size, why);
    if (!rc)
        rc = fit(&view, name, checkpoint, why);
    if (rc)
        return rc;
    if (step && view.head.step != *step)
        return why_error(why, -EBADMSG, "%s: holds step %llu", name,
                         (unsigned long long)view.head.step);
    checkpoint->step = view.head.step;
    checkpoint->round = view.head.round;
    for (size_t i = 0; i < checkpoint->count; i++)
        body_copy(NULL, data, checkpoint->section[i].data, view.section[i].at,
                  view.section[i].size);
    return 0;
}

int
checkpoint_parse(const char *name, const uint8_t *data, size_t size, struct checkpoint *checkpoint,
                 struct why *why)
{
    check_arguments(checkpoint);
    return parse(name, data, size, NULL, checkpoint, why);
}

/* --- files --- */

/* Trailer and first page of an open file. */
static int
probe(int fd, const char *name, struct checkpoint_head *head, struct why *why)
{
    uint8_t page[CHECKPOINT_PAGE];
    struct stat stat;
    if (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode))
        return why_error(why, -EINVAL, "%s: not a regular file", name);
    size_t size = (size_t)stat.st_size, body = body_of(size), offset;
    if (body != SIZE_MAX && pread(fd, page, TRAILER, (off_t)(size - TRAILER)) == TRAILER &&
        vouches(page, TRAILER - CHECKPOINT_CHECK, pages_of(size) - 1)) {
        head_decode(page, head);
        return 0;
    }
    size_t payload = body == SIZE_MAX ? 0 : page_of(size, 0, &offset);
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
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        int error = errno;
        why_set(why, "%s: cannot open: %s", path, strerror(error));
        return -error;
    }
    int rc = probe(fd, path, head, why);
    close(fd);
    return rc;
}

int
checkpoint_read_step(const char *path, const uint64_t *step, struct checkpoint *checkpoint,
                     struct why *why)
{
    uint8_t *data;
    size_t size;
    struct checkpoint_head head;
    check_arguments(checkpoint);
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

/* --- repair --- */

size_t
checkpoint_pages(const struct checkpoint *checkpoint)
{
    return pages_of(checkpoint_size(checkpoint));
}

size_t
checkpoint_page(const struct checkpoint *checkpoint, size_t page, size_t *offset)
{
    assert(page < checkpoint_pages(checkpoint));
    return page_of(checkpoint_size(checkpoint), page, offset) + CHECKPOINT_CHECK;
}

bool
checkpoint_page_good(const struct checkpoint *checkpoint, size_t page, const uint8_t *data,
                     size_t size)
{
    uint8_t head[HEAD];
    size_t offset;
    if (size != checkpoint_page(checkpoint, page, &offset))
        return false;
    head_encode(checkpoint, head);
    size_t payload = size - CHECKPOINT_CHECK;
    return checkpoint_check(head, page, data, payload) == get64(data + payload);
}

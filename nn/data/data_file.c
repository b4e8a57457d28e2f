/* data_file.c - read a data file, plain or gzip, that may be anything.
 *
 *     disk or memory --raw_fill--> in[] --plain copy or inflate--> the caller's buffer
 *
 * gzip: RFC 1952, deflate: RFC 1951. */
#include "nn/data/data_file.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zlib.h>

#include "nn/files/disk.h"

enum {
    IN_SIZE = 64 << 10,
    DEFLATE_RATIO_MAX = 1032, /* 258 bytes from 2 bits */
    GZIP_WINDOW = 15 + 16,    /* zlib: 32 KiB window, gzip header expected */
};

struct data_file {
    const char *name;
    struct why *why;
    int fd;          /* -1: memory */
    uint64_t size;   /* on disk */
    uint64_t unread; /* of size */
    uint64_t offset; /* delivered */
    bool gzip;
    bool member_done; /* gzip: between two members */
    z_stream z;       /* next_in, avail_in are used for plain files too */
    uint8_t in[IN_SIZE];
};

int
data_file_refuse(struct data_file *f, int rc, const char *format, ...)
{
    assert(rc < 0);
    va_list args;
    va_start(args, format);
    why_verror(f->why, rc, f->name, format, args);
    va_end(args);
    return rc;
}

int
data_file_path(char path[DATA_PATH_SIZE], const char *dir, const char *folder, const char *name,
               struct why *why)
{
    const char *base = name[0] == '/' || !dir ? "" : dir;
    const char *below = name[0] == '/' ? "" : folder;
    int n = snprintf(path, DATA_PATH_SIZE, "%s%s%s%s%s", base, *base ? "/" : "", below,
                     *below ? "/" : "", name);
    if (n >= 0 && n < DATA_PATH_SIZE)
        return 0;
    return why_error(why, -ENAMETOOLONG, "data.dir: a path of %d characters, expected at most %d",
                     n, DATA_PATH_SIZE - 1);
}

/* Of the first byte not yet used, in the file as it lies on disk. */
static unsigned long long
raw_offset(const struct data_file *f)
{
    return f->size - f->unread - f->z.avail_in;
}

/* Get the next raw bytes into in[]; none left is not an error. A file that shrinks while it is read ends
 * early, one that grows is read to the size it had. */
static int
raw_fill(struct data_file *f)
{
    if (f->z.avail_in > 0 || f->unread == 0)
        return 0;
    size_t want = f->unread < IN_SIZE ? (size_t)f->unread : IN_SIZE;
    ssize_t got = disk_read_at(f->fd, f->in, want, f->size - f->unread);
    if (got < 0)
        return data_file_refuse(f, -errno, "byte %ju: %s", f->size - f->unread, strerror(errno));
    f->unread = got ? f->unread - (uint64_t)got : 0;
    f->z.next_in = f->in;
    f->z.avail_in = (uInt)got;
    return 0;
}

/* See by the first two bytes whether the file is gzip, and prepare for it. */
static int
sniff(struct data_file *f)
{
    int rc = raw_fill(f);
    if (rc)
        return rc;
    if (f->size == 0)
        return data_file_refuse(f, -EBADMSG, "the file is empty");
    f->gzip = f->z.avail_in >= 2 && f->in[0] == 0x1f && f->in[1] == 0x8b;
    if (f->gzip && inflateInit2(&f->z, GZIP_WINDOW) != Z_OK) {
        f->gzip = false;
        return data_file_refuse(f, -ENOMEM, "no memory to decompress");
    }
    return 0;
}

static struct data_file *
file_alloc(const char *name, struct why *why)
{
    struct data_file *f = calloc(1, sizeof *f);
    if (!f) {
        why_set(why, "%s: no memory", name);
        return NULL;
    }
    f->name = name;
    f->why = why;
    f->fd = -1;
    return f;
}

static int
open_regular(struct data_file *f)
{
    f->fd = disk_open(f->name, &f->size, f->why);
    if (f->fd < 0)
        return f->fd;
    f->unread = f->size;
    if (f->size > DATA_FILE_MAX)
        return data_file_refuse(f, -EFBIG, "%ju bytes, expected at most %ju", f->size,
                                DATA_FILE_MAX);
    return 0;
}

int
data_file_open(struct data_file **out, const char *path, struct why *why)
{
    assert(out && path && why);
    *out = NULL;
    struct data_file *f = file_alloc(path, why);
    if (!f)
        return -ENOMEM;
    int rc = open_regular(f);
    rc = rc ? rc : sniff(f);
    if (rc)
        data_file_close(&f);
    *out = f;
    return rc;
}

void
data_file_close(struct data_file **file)
{
    struct data_file *f = *file;
    if (!f)
        return;
    if (f->gzip)
        inflateEnd(&f->z);
    if (f->fd >= 0)
        close(f->fd);
    free(f);
    *file = NULL;
}

uint64_t
data_file_size(const struct data_file *f)
{
    return f->size;
}

int
data_file_is_gzip(const struct data_file *f)
{
    return f->gzip;
}

uint64_t
data_file_offset(const struct data_file *f)
{
    return f->offset;
}

int
data_file_holds(struct data_file *f, uint64_t total)
{
    if (total > DATA_FILE_MAX)
        return data_file_refuse(f, -EBADMSG, "its header announces %ju bytes, expected at most %ju",
                                total, DATA_FILE_MAX);
    if (f->gzip ? total > f->size * DEFLATE_RATIO_MAX : total != f->size)
        return data_file_refuse(f, -EBADMSG, "its header announces %ju bytes, the file has %ju%s",
                                total, f->size, f->gzip ? ", too few even when compressed" : "");
    return 0;
}

static int
plain_read(struct data_file *f, uint8_t *to, size_t *n)
{
    size_t take = f->z.avail_in < *n ? f->z.avail_in : *n;
    memcpy(to, f->z.next_in, take);
    f->z.next_in += take;
    f->z.avail_in -= (uInt)take;
    *n = take;
    return 0;
}

/* A member has ended and more bytes follow: only another member may. */
static int
gzip_next_member(struct data_file *f)
{
    if (*f->z.next_in != 0x1f || inflateReset(&f->z) != Z_OK)
        return data_file_refuse(f, -EBADMSG,
                                "compressed byte %llu: 0x%02x, expected the end of the file",
                                raw_offset(f), *f->z.next_in);
    f->member_done = false;
    return 0;
}

/* One call of inflate, into at most *n bytes; *n becomes what came out. */
static int
gzip_read(struct data_file *f, uint8_t *to, size_t *n)
{
    bool starved = f->z.avail_in == 0;
    int rc = f->member_done ? gzip_next_member(f) : 0;
    if (rc)
        return rc;
    uInt room = *n < (1U << 30) ? (uInt)*n : 1U << 30;
    f->z.next_out = to;
    f->z.avail_out = room;
    rc = inflate(&f->z, Z_NO_FLUSH);
    *n = room - f->z.avail_out;
    f->member_done = rc == Z_STREAM_END;
    if (rc != Z_STREAM_END && rc != Z_OK && rc != Z_BUF_ERROR)
        return data_file_refuse(f, -EBADMSG, "damaged gzip near compressed byte %llu: %s",
                                raw_offset(f), f->z.msg ? f->z.msg : "unknown error");
    if (starved && *n == 0 && !f->member_done)
        return data_file_refuse(f, -EBADMSG, "gzip data cut off at byte %llu (%llu expanded)",
                                raw_offset(f), (unsigned long long)f->offset);
    return 0;
}

/* Up to *n bytes; *n becomes 0 only at the end of the file. inflate may hold back output, so it is asked
 * once more when the input has run out. */
int
data_file_some(struct data_file *f, void *to, size_t *n)
{
    size_t room = *n;
    for (*n = 0; *n == 0;) {
        int rc = raw_fill(f);
        if (rc || (f->z.avail_in == 0 && (!f->gzip || f->member_done)))
            return rc;
        *n = room;
        rc = f->gzip ? gzip_read(f, to, n) : plain_read(f, to, n);
        if (rc)
            return rc;
        f->offset += *n;
    }
    return 0;
}

int
data_file_read(struct data_file *f, void *to, size_t n)
{
    uint8_t *p = to;
    while (n > 0) {
        size_t got = n;
        int rc = data_file_some(f, p, &got);
        if (rc)
            return rc;
        if (got == 0)
            return data_file_refuse(f, -EBADMSG, "cut off at byte %ju, %zu more expected",
                                    f->offset, n);
        p += got;
        n -= got;
    }
    return 0;
}

/* Of a plain file nothing is read. */
int
data_file_skip(struct data_file *f, uint64_t n)
{
    uint8_t passed[4096];
    int rc = 0;
    if (!f->gzip && n >= f->z.avail_in && n - f->z.avail_in <= f->unread) {
        f->unread -= n - f->z.avail_in;
        f->offset += n;
        f->z.avail_in = 0;
        return 0;
    }
    for (; n > 0 && !rc; n -= n < sizeof passed ? n : sizeof passed)
        rc = data_file_read(f, passed, n < sizeof passed ? (size_t)n : sizeof passed);
    return rc;
}

int
data_file_end(struct data_file *f)
{
    uint8_t extra;
    size_t n = 1;
    uint64_t end = f->offset;
    int rc = data_file_some(f, &extra, &n);
    if (rc)
        return rc;
    if (n > 0)
        return data_file_refuse(f, -EBADMSG, "byte %ju: 0x%02x, expected the end of the file", end,
                                extra);
    return 0;
}

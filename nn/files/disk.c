/* disk.c - see disk.h. */
#include "nn/files/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/fail.h"

enum { COMPARE_CHUNK = 1 << 16 };

/* One line about what failed; returns the negative errno. */
static int
failed(const char *path, const char *what, char *why, size_t why_size)
{
    int error = errno;
    snprintf(why, why_size, "%s: %s: %s", path, what, strerror(error));
    return error ? -error : -EIO;
}

static int
write_piece(int fd, const char *data, size_t size)
{
    while (size) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        data += n;
        size -= (size_t)n;
    }
    return 0;
}

/* Like read, but short only at the end of the file. */
static ssize_t
read_whole(int fd, void *buffer, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = read(fd, (char *)buffer + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

/* 0 when the next bytes of fd are the piece. */
static int
compare_piece(int fd, const char *data, size_t size)
{
    char buffer[COMPARE_CHUNK];
    for (size_t done = 0; done < size;) {
        size_t want = size - done < sizeof buffer ? size - done : sizeof buffer;
        ssize_t got = read_whole(fd, buffer, want);
        if (got < 0)
            return -1;
        if ((size_t)got != want || memcmp(buffer, data + done, want) != 0) {
            errno = EIO;
            return -1;
        }
        done += want;
    }
    return 0;
}

/* Read from the medium rather than from the cache, as far as the kernel follows the advice. */
static int
compare(int fd, const struct disk_piece *piece, size_t count)
{
    char beyond;
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    if (lseek(fd, 0, SEEK_SET) != 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (compare_piece(fd, piece[i].data, piece[i].size))
            return -1;
    ssize_t left = read_whole(fd, &beyond, 1);
    if (left > 0)
        errno = EIO;
    return left == 0 ? 0 : -1;
}

static int
fill(int fd, const char *path, const struct disk_piece *piece, size_t count, char *why,
     size_t why_size)
{
    for (size_t i = 0; i < count; i++)
        if (fail_hit(FAIL_FILE_WRITE, NULL, 0) || write_piece(fd, piece[i].data, piece[i].size))
            return failed(path, "cannot write", why, why_size);
    if (fail_hit(FAIL_FILE_SYNC, NULL, 0) || fsync(fd))
        return failed(path, "cannot sync", why, why_size);
    if (fail_hit(FAIL_FILE_VERIFY, NULL, 0) || compare(fd, piece, count))
        return failed(path, "reading back what was written", why, why_size);
    return 0;
}

static int
sync_directory(const char *path, char *why, size_t why_size)
{
    char dir[DISK_PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    if (!slash)
        strcpy(dir, ".");
    else
        snprintf(dir, sizeof dir, "%.*s", length ? (int)length : 1, path);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return failed(dir, "cannot open", why, why_size);
    int rc = fail_hit(FAIL_DIR_SYNC, NULL, 0) || fsync(fd)
                 ? failed(dir, "cannot sync", why, why_size)
                 : 0;
    close(fd);
    return rc;
}

int
disk_write(const char *path, const struct disk_piece *piece, size_t count, char *why,
           size_t why_size)
{
    char temp[DISK_PATH_MAX];
    if ((size_t)snprintf(temp, sizeof temp, "%s" DISK_TEMP, path) >= sizeof temp) {
        errno = ENAMETOOLONG;
        return failed(path, "cannot create", why, why_size);
    }
    unlink(temp); /* of a run that was killed here */
    int fd = fail_hit(FAIL_FILE_CREATE, NULL, 0)
                 ? -1
                 : open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return failed(path, "cannot create", why, why_size);
    int rc = fill(fd, path, piece, count, why, why_size);
    if (close(fd) && !rc)
        rc = failed(path, "cannot close", why, why_size);
    if (!rc && (fail_hit(FAIL_FILE_RENAME, NULL, 0) || rename(temp, path)))
        rc = failed(path, "cannot rename to it", why, why_size);
    if (rc) {
        unlink(temp);
        return rc;
    }
    rc = sync_directory(path, why, why_size);
    fail_hit(FAIL_FILE_DONE, NULL, 0);
    return rc;
}

static int
load(int fd, const char *path, size_t size_max, uint8_t **data, size_t *got, size_t *size,
     char *why, size_t why_size)
{
    struct stat stat;
    if (fstat(fd, &stat))
        return failed(path, "cannot read", why, why_size);
    if (!S_ISREG(stat.st_mode)) {
        snprintf(why, why_size, "%s: not a regular file", path);
        return -EINVAL;
    }
    size_t wanted = (uint64_t)stat.st_size > size_max ? size_max : (size_t)stat.st_size;
    uint8_t *buffer = malloc(wanted + 1);
    if (!buffer) {
        snprintf(why, why_size, "%s: no memory for %zu bytes", path, wanted);
        return -ENOMEM;
    }
    ssize_t done = read_whole(fd, buffer, wanted);
    if (fail_hit(FAIL_FILE_READ, buffer, wanted) || done < 0) {
        int rc = failed(path, "cannot read", why, why_size);
        free(buffer);
        return rc;
    }
    *data = buffer;
    *got = (size_t)done;
    *size = *got < wanted ? *got : (size_t)stat.st_size;
    return 0;
}

int
disk_read(const char *path, size_t size_max, uint8_t **data, size_t *size, char *why,
          size_t why_size)
{
    size_t got;
    int rc = disk_read_head(path, size_max, data, &got, size, why, why_size);
    if (rc || got == *size)
        return rc;
    free(*data);
    *data = NULL;
    snprintf(why, why_size, "%s: %zu bytes, expected at most %zu", path, *size, size_max);
    return -EFBIG;
}

int
disk_read_head(const char *path, size_t size_max, uint8_t **data, size_t *got, size_t *size,
               char *why, size_t why_size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block */
    if (fd < 0)
        return failed(path, "cannot open", why, why_size);
    int rc = load(fd, path, size_max, data, got, size, why, why_size);
    close(fd);
    return rc;
}

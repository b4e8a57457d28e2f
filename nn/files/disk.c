/* disk.c - see disk.h. */
#include "nn/files/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/fail.h"

enum { COMPARE_CHUNK = 1 << 16 };

/* One line about what failed; returns the negative errno. */
static int
failed(const char *path, const char *what, struct why *why)
{
    int error = errno;
    why_set(why, "%s: %s: %s", path, what, strerror(error));
    return error ? -error : -EIO;
}

int
disk_write_all(int fd, const void *data, size_t size)
{
    const char *at = data;
    while (size) {
        ssize_t n = write(fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        at += n;
        size -= (size_t)n;
    }
    return 0;
}

ssize_t
disk_read_at(int fd, void *to, size_t size, uint64_t offset)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = pread(fd, (char *)to + done, size - done, (off_t)(offset + done));
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

/* 0 when the bytes of fd from `offset` on are the piece. */
static int
compare_piece(int fd, uint64_t offset, const char *data, size_t size)
{
    char buffer[COMPARE_CHUNK];
    for (size_t done = 0; done < size;) {
        size_t want = size - done < sizeof buffer ? size - done : sizeof buffer;
        ssize_t got = disk_read_at(fd, buffer, want, offset + done);
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

static int
compare(int fd, const struct disk_bytes *piece, size_t count)
{
    char beyond;
    uint64_t offset = 0;
    for (size_t i = 0; i < count; offset += piece[i++].size)
        if (compare_piece(fd, offset, piece[i].data, piece[i].size))
            return -1;
    ssize_t left = disk_read_at(fd, &beyond, 1, offset);
    if (left > 0)
        errno = EIO;
    return left == 0 ? 0 : -1;
}

int
disk_begin(struct disk_file *file, const char *path, struct why *why)
{
    file->path = path;
    if ((size_t)snprintf(file->temp, sizeof file->temp, "%s" DISK_TEMP, path) >=
        sizeof file->temp) {
        errno = ENAMETOOLONG;
        return failed(path, "cannot create", why);
    }
    unlink(file->temp); /* of a run that was killed here */
    file->fd = fail_hit(FAIL_FILE_CREATE, NULL, 0)
                   ? -1
                   : open(file->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return file->fd < 0 ? failed(path, "cannot create", why) : 0;
}

int
disk_add(struct disk_file *file, const void *data, size_t size, struct why *why)
{
    bool bad = fail_hit(FAIL_FILE_WRITE, NULL, 0) || disk_write_all(file->fd, data, size);
    return bad ? failed(file->path, "cannot write", why) : 0;
}

int
disk_replace(struct disk_file *file, const void *data, size_t size, struct why *why)
{
    if (lseek(file->fd, 0, SEEK_SET) != 0)
        return failed(file->path, "cannot write", why);
    return disk_add(file, data, size, why);
}

int
disk_sync(struct disk_file *file, struct why *why)
{
    if (fail_hit(FAIL_FILE_SYNC, NULL, 0) || fsync(file->fd))
        return failed(file->path, "cannot sync", why);
    (void)posix_fadvise(file->fd, 0, 0, POSIX_FADV_DONTNEED);
    return 0;
}

void
disk_drop(struct disk_file *file)
{
    close(file->fd);
    unlink(file->temp);
}

/* What was renamed to `path` has that name after a power cut, too. */
static int
disk_sync_name(const char *path, struct why *why)
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
        return failed(dir, "cannot open", why);
    int rc = fail_hit(FAIL_DIR_SYNC, NULL, 0) || fsync(fd) ? failed(dir, "cannot sync", why) : 0;
    close(fd);
    return rc;
}

int
disk_end(struct disk_file *file, struct why *why)
{
    int rc = close(file->fd) ? failed(file->path, "cannot close", why) : 0;
    if (!rc && (fail_hit(FAIL_FILE_RENAME, NULL, 0) || rename(file->temp, file->path)))
        rc = failed(file->path, "cannot rename to it", why);
    if (rc) {
        unlink(file->temp);
        return rc;
    }
    rc = disk_sync_name(file->path, why);
    fail_hit(FAIL_FILE_DONE, NULL, 0);
    return rc;
}

static int
write_pieces(struct disk_file *file, const struct disk_bytes *piece, size_t count, struct why *why)
{
    int rc = 0;
    for (size_t i = 0; i < count && !rc; i++)
        rc = disk_add(file, piece[i].data, piece[i].size, why);
    rc = rc ? rc : disk_sync(file, why);
    if (!rc && (fail_hit(FAIL_FILE_VERIFY, NULL, 0) || compare(file->fd, piece, count)))
        rc = failed(file->path, "reading back what was written", why);
    return rc;
}

int
disk_write(const char *path, const struct disk_bytes *piece, size_t count, struct why *why)
{
    struct disk_file file;
    int rc = disk_begin(&file, path, why);
    if (rc)
        return rc;
    rc = write_pieces(&file, piece, count, why);
    if (!rc)
        return disk_end(&file, why);
    disk_drop(&file);
    return rc;
}

int
disk_open(const char *path, uint64_t *size, struct why *why)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), rc;
    if (fd < 0 || fstat(fd, &st) != 0) {
        rc = why_error(why, -errno, "%s: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        rc = why_error(why, -EINVAL, "%s: is %s, expected a regular file", path,
                       S_ISDIR(st.st_mode)    ? "a folder"
                       : S_ISFIFO(st.st_mode) ? "a pipe"
                                              : "a device or socket");
    } else {
        *size = (uint64_t)st.st_size;
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return rc;
}

static int
read_open(int fd, const char *path, uint64_t whole, size_t size_max, uint8_t **data, size_t *got,
          size_t *size, struct why *why)
{
    size_t wanted = whole > size_max ? size_max : (size_t)whole;
    uint8_t *buffer = malloc(wanted + 1);
    if (!buffer)
        return why_error(why, -ENOMEM, "%s: no memory for %zu bytes", path, wanted);
    ssize_t done = disk_read_at(fd, buffer, wanted, 0);
    if (fail_hit(FAIL_FILE_READ, buffer, wanted) || done < 0) {
        int rc = failed(path, "cannot read", why);
        free(buffer);
        return rc;
    }
    *data = buffer;
    *got = (size_t)done;
    *size = *got < wanted ? *got : (size_t)whole;
    return 0;
}

int
disk_read(const char *path, size_t size_max, uint8_t **data, size_t *size, struct why *why)
{
    size_t got;
    int rc = disk_read_head(path, size_max, data, &got, size, why);
    if (rc || got == *size)
        return rc;
    free(*data);
    *data = NULL;
    return why_error(why, -EFBIG, "%s: %zu bytes, expected at most %zu", path, *size, size_max);
}

int
disk_read_head(const char *path, size_t size_max, uint8_t **data, size_t *got, size_t *size,
               struct why *why)
{
    uint64_t whole;
    int fd = disk_open(path, &whole, why);
    if (fd < 0)
        return fd;
    int rc = read_open(fd, path, whole, size_max, data, got, size, why);
    close(fd);
    return rc;
}

int
disk_nameless(const char *dir)
{
    char folder[DISK_PATH_MAX], path[DISK_PATH_MAX + 32];
    snprintf(folder, sizeof folder, "%s", dir);
    while (access(folder, F_OK) != 0 && errno == ENOENT) {
        char *slash = strrchr(folder, '/');
        if (slash)
            slash[slash == folder] = '\0';
        else
            snprintf(folder, sizeof folder, ".");
        if (!slash)
            break;
    }
    snprintf(path, sizeof path, "%s/memory-XXXXXX", folder);
    int fd = mkstemp(path);
    if (fd < 0)
        return -errno;
    unlink(path);
    return fd;
}

/* metrics_file.c - the folder of a run: made, locked, written to, and made again when somebody deleted it. */
#include "node/results/metrics_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nn/files/disk.h"
#include "node/base/parse.h"
#include "node/results/verify_read.h"

int
metrics_make_dirs(const char *dir, size_t *kept)
{
    char path[METRICS_PATH_MAX];
    size_t size = strlen(dir);
    struct stat status;
    *kept = size;
    for (size_t i = 1; i <= size; i++) {
        if (dir[i] != '/' && dir[i] != '\0')
            continue;
        snprintf(path, sizeof path, "%.*s", (int)i, dir);
        if (mkdir(path, 0777) == 0)
            *kept = *kept < i ? *kept : i - 1;
        else if (errno != EEXIST)
            return -errno;
    }
    if (stat(dir, &status) != 0)
        return -errno;
    return S_ISDIR(status.st_mode) ? 0 : -ENOTDIR;
}

void
metrics_remove_empty(struct metrics *metrics)
{
    char path[METRICS_PATH_MAX + 32];
    struct stat status;
    snprintf(path, sizeof path, "%s/metrics.jsonl", metrics->dir);
    if (metrics->ours || fstat(metrics->fd, &status) != 0 || status.st_size > 0 ||
        unlink(path) != 0)
        return;
    for (size_t i = strlen(metrics->dir); i > metrics->kept; i--) {
        if (metrics->dir[i] == '/' || metrics->dir[i] == '\0') {
            metrics->dir[i] = '\0';
            rmdir(metrics->dir);
        }
    }
}

off_t
metrics_whole_lines(int fd)
{
    off_t end = lseek(fd, 0, SEEK_END);
    char tail[4096];
    while (end > 0) {
        size_t size = end < (off_t)sizeof tail ? (size_t)end : sizeof tail;
        if (pread(fd, tail, size, end - (off_t)size) != (ssize_t)size)
            return end;
        for (size_t i = size; i > 0; i--)
            if (tail[i - 1] == '\n')
                return end - (off_t)(size - i);
        end -= (off_t)size;
    }
    return 0;
}

static int
in_use(const struct metrics *metrics, struct why *why)
{
    char reason[128], who[48] = "another run";
    struct flock name = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(metrics->fd, F_GETLK, &name) == 0 && name.l_type != F_UNLCK && name.l_pid > 0)
        snprintf(who, sizeof who, "process %ld", (long)name.l_pid);
    snprintf(reason, sizeof reason, "in use by %s, choose another folder with --out", who);
    return parse_refuse(metrics->dir, EBUSY, reason, why);
}

int
metrics_open_file(struct metrics *metrics, bool resume, struct why *why)
{
    char path[METRICS_PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/metrics.jsonl", metrics->dir);
    metrics->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    struct stat status;
    if (metrics->fd < 0 || fstat(metrics->fd, &status) != 0)
        return parse_refuse(path, errno, strerror(errno), why);
    if (!S_ISREG(status.st_mode))
        return parse_refuse(path, EINVAL, "is not a regular file", why);
    if (flock(metrics->fd, LOCK_EX | LOCK_NB) != 0)
        return in_use(metrics, why);
    metrics->locked = true;
    struct flock name = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    (void)fcntl(metrics->fd, F_SETLK, &name); /* this kind of lock tells who holds it */
    metrics->resume = resume;
    metrics->at = resume ? metrics_whole_lines(metrics->fd) : 0;
    return 0;
}

json_t *
metrics_last_object(int fd, off_t at, off_t *begin_at)
{
    char line[VERIFY_LINE_MAX + 2]; /* and the ends of two */
    size_t size = at < (off_t)sizeof line ? (size_t)at : sizeof line;
    if (size == 0 || pread(fd, line, size, at - (off_t)size) != (ssize_t)size)
        return NULL;
    size_t begin = size - 1; /* the end of the line */
    while (begin > 0 && line[begin - 1] != '\n')
        begin--;
    *begin_at = at - (off_t)(size - begin);
    return json_loadb(line + begin, size - begin, 0, NULL);
}

off_t
metrics_last_line(int fd, off_t at, uint64_t *step)
{
    off_t begin;
    json_t *object = metrics_last_object(fd, at, &begin);
    const json_t *number = json_object_get(object, "step");
    bool good = json_is_integer(number);
    if (good)
        *step = (uint64_t)json_integer_value(number);
    json_decref(object);
    return good ? begin : -1;
}

int
metrics_write_whole(const char *dir, const char *name, const json_t *object, struct why *why)
{
    char path[METRICS_PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    char *text = json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(METRICS_DIGITS));
    if (!text)
        return parse_refuse(path, ENOMEM, "out of memory", why);
    int rc = disk_write(path, &(struct disk_bytes){text, strlen(text)}, 1, why);
    free(text);
    return rc;
}

void
metrics_write_job(struct metrics *metrics)
{
    struct why why;
    if (metrics->job && !metrics->job_written)
        metrics->job_written =
            metrics_write_whole(metrics->dir, "job.json", metrics->job, &why) == 0;
}

/* The model of an earlier run is not that of this one. */
static void
put_aside(const struct metrics *metrics)
{
    char path[METRICS_PATH_MAX + 32], aside[METRICS_PATH_MAX + 40];
    snprintf(path, sizeof path, "%s/model.safetensors", metrics->dir);
    snprintf(aside, sizeof aside, "%s.old", path);
    if (rename(path, aside) != 0 && errno != ENOENT)
        (void)unlink(path);
}

/* Behind the last whole line. */
static void
append_line(int fd, const char *line, size_t size)
{
    off_t at = metrics_whole_lines(fd);
    if (ftruncate(fd, at) == 0 && lseek(fd, at, SEEK_SET) == at &&
        disk_write_all(fd, line, size) == 0)
        return;
    int rc = ftruncate(fd, at);
    (void)rc; /* who reads passes over a part of a line */
}

void
metrics_pieces(struct metrics *metrics, const char *line, size_t size)
{
    char path[METRICS_PATH_MAX + 32];
    struct stat status;
    pthread_mutex_lock(&metrics->lock);
    snprintf(path, sizeof path, "%s/" RECORDING_FILE, metrics->dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
        append_line(fd, line, size);
    if (fd >= 0)
        close(fd);
    pthread_mutex_unlock(&metrics->lock);
}

/* With the first line, not before: a run that fails to start must not cost what an earlier one left. */
int
metrics_begin_file(struct metrics *metrics)
{
    char path[METRICS_PATH_MAX + 32];
    if (!metrics->resume) {
        put_aside(metrics);
        snprintf(path, sizeof path, "%s/" RECORDING_FILE, metrics->dir);
        (void)unlink(path);
    }
    snprintf(path, sizeof path, "%s/result.json", metrics->dir);
    if (ftruncate(metrics->fd, metrics->at) != 0 || (unlink(path) != 0 && errno != ENOENT))
        return errno;
    metrics->ours = true;
    return 0;
}

/* What the old file has, as far as it can still be read. */
static int
copy_lines(int from, int to, off_t end)
{
    char part[8192];
    for (off_t at = 0; at < end;) {
        size_t want = end - at < (off_t)sizeof part ? (size_t)(end - at) : sizeof part;
        ssize_t got = pread(from, part, want, at);
        if (got <= 0 || disk_write_all(to, part, (size_t)got) != 0)
            return -1;
        at += got;
    }
    return 0;
}

/* The lock is held. */
void
metrics_make_again(struct metrics *metrics)
{
    char path[METRICS_PATH_MAX + 32], line[METRICS_PATH_MAX + 96], shown[256];
    size_t kept;
    struct stat status;
    snprintf(path, sizeof path, "%s/metrics.jsonl", metrics->dir);
    if (stat(path, &status) == 0 || errno != ENOENT || metrics_make_dirs(metrics->dir, &kept))
        return;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 ||
        copy_lines(metrics->fd, fd, metrics->ours ? metrics->at : 0) != 0) {
        close(fd);
        unlink(path);
        return;
    }
    pthread_mutex_lock(&metrics->syncs);
    close(metrics->fd);
    metrics->fd = fd;
    pthread_mutex_unlock(&metrics->syncs);
    metrics->job_written = false;
    tensorboard_close(&metrics->board);
    if (metrics->ours)
        metrics_write_job(metrics);
    parse_escape(shown, sizeof shown, metrics->dir);
    snprintf(line, sizeof line, "%s was deleted: made again", shown);
    show_say(&metrics->show, 4, line);
}

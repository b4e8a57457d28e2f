/* metrics.c - the files a run leaves, and what is wrong with them told to people (show.h).
 *
 * metrics.jsonl has one object per step. Each is written with one write() at a known offset: what a full
 * disk cut off is overwritten by the next line, and an evaluation, which comes after its step, replaces
 * the step's line by one that also holds the test figures. A run that cannot write its metrics goes on.
 *
 * The file is locked while the run lasts, so that two nodes cannot share a folder. */
#include "node/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/audit.h"
#include "node/metrics_object.h"
#include "node/show.h"
#include "node/tensorboard.h"
#include "node/typed.h"
#include "proto/clock.h"

enum { METRICS_PATH_MAX = 1200, ALIVE_US = 1000000, DIGITS = 12 };

struct metrics {
    char dir[METRICS_PATH_MAX];
    size_t kept;   /* bytes of dir that were there before */
    int fd;        /* metrics.jsonl */
    bool locked;   /* it is ours */
    bool resume;   /* it continues what is there */
    bool begun;    /* and holds what this run wrote, or continues */
    off_t at;      /* where its next line begins */
    off_t last_at; /* where the last one does */
    json_t *job;   /* for job.json; NULL: none */
    bool job_written;
    json_t *last;              /* the last step's object; NULL before the first */
    uint64_t last_step;        /* its step */
    bool broken;               /* a write failed, and that was said */
    uint64_t alive_us;         /* no sign of life before */
    uint64_t started_us;       /* time of metrics_new: time_s counts from it */
    bool curves;               /* event files are wanted */
    bool curves_failed;        /* and that they cannot be written was said */
    struct tensorboard *board; /* NULL: not yet, or not any more */
    struct show show;
    pthread_mutex_t lock; /* over everything above */
};

static int
fail(const char *path, const char *reason, int error, char *why, size_t why_size)
{
    char shown[256];
    typed_escape(shown, sizeof shown, path);
    snprintf(why, why_size, "%s: %s", shown, reason);
    return -error;
}

/* --- folder and file --- */

/* mkdir -p; `kept` is the length of what was there before. */
static int
make_dirs(const char *dir, size_t *kept)
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

/* A run that came to nothing leaves nothing: its empty file goes, and the folders made for it. */
static void
remove_empty(struct metrics *metrics)
{
    char path[METRICS_PATH_MAX + 32];
    struct stat status;
    snprintf(path, sizeof path, "%s/metrics.jsonl", metrics->dir);
    if (metrics->begun || fstat(metrics->fd, &status) != 0 || status.st_size > 0 ||
        unlink(path) != 0)
        return;
    for (size_t i = strlen(metrics->dir); i > metrics->kept; i--) {
        if (metrics->dir[i] == '/' || metrics->dir[i] == '\0') {
            metrics->dir[i] = '\0';
            rmdir(metrics->dir);
        }
    }
}

/* Offset behind the last whole line: a node that was killed may have left half a line. */
static off_t
whole_lines(int fd)
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
in_use(const struct metrics *metrics, char *why, size_t why_size)
{
    char reason[128], who[48] = "another run";
    struct flock name = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(metrics->fd, F_GETLK, &name) == 0 && name.l_type != F_UNLCK && name.l_pid > 0)
        snprintf(who, sizeof who, "process %ld", (long)name.l_pid);
    snprintf(reason, sizeof reason, "in use by %s, choose another folder with --out", who);
    return fail(metrics->dir, reason, EBUSY, why, why_size);
}

static int
open_file(struct metrics *metrics, bool resume, char *why, size_t why_size)
{
    char path[METRICS_PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/metrics.jsonl", metrics->dir);
    metrics->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    struct stat status;
    if (metrics->fd < 0 || fstat(metrics->fd, &status) != 0)
        return fail(path, strerror(errno), errno, why, why_size);
    if (!S_ISREG(status.st_mode))
        return fail(path, "is not a regular file", EINVAL, why, why_size);
    if (flock(metrics->fd, LOCK_EX | LOCK_NB) != 0)
        return in_use(metrics, why, why_size);
    metrics->locked = true;
    struct flock name = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    (void)fcntl(metrics->fd, F_SETLK, &name); /* this kind of lock tells who holds it */
    metrics->resume = resume;
    metrics->at = resume ? whole_lines(metrics->fd) : 0;
    return 0;
}

/* Where the last of the lines before `at` begins, and its step; -1 when there is none that can be read. */
static off_t
last_line(int fd, off_t at, uint64_t *step)
{
    char line[AUDIT_LINE_MAX + 2]; /* and the ends of two */
    size_t size = at < (off_t)sizeof line ? (size_t)at : sizeof line;
    if (size == 0 || pread(fd, line, size, at - (off_t)size) != (ssize_t)size)
        return -1;
    size_t begin = size - 1; /* the end of the line */
    while (begin > 0 && line[begin - 1] != '\n')
        begin--;
    json_t *object = json_loadb(line + begin, size - begin, 0, NULL);
    const json_t *number = json_object_get(object, "step");
    bool good = json_is_integer(number);
    if (good)
        *step = (uint64_t)json_integer_value(number);
    json_decref(object);
    return good ? at - (off_t)(size - begin) : -1;
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

/* With the first line, not before: a run that fails to start must not cost what an earlier one left. */
static int
begin(struct metrics *metrics)
{
    char path[METRICS_PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/result.json", metrics->dir);
    if (!metrics->resume)
        put_aside(metrics);
    if (ftruncate(metrics->fd, metrics->at) != 0 || (unlink(path) != 0 && errno != ENOENT))
        return errno;
    metrics->begun = true;
    return 0;
}

int
metrics_new(struct metrics **out, const char *dir, bool resume, bool quiet, char *why,
            size_t why_size)
{
    *out = NULL;
    if (strlen(dir) >= METRICS_PATH_MAX)
        return fail(dir, "name too long", ENAMETOOLONG, why, why_size);
    size_t kept;
    int rc = make_dirs(dir, &kept);
    if (rc)
        return fail(dir, strerror(-rc), -rc, why, why_size);
    struct metrics *metrics = calloc(1, sizeof *metrics);
    if (!metrics)
        return fail(dir, "out of memory", ENOMEM, why, why_size);
    snprintf(metrics->dir, sizeof metrics->dir, "%s", dir);
    metrics->started_us = clock_us();
    metrics->fd = -1;
    metrics->kept = kept;
    show_init(&metrics->show, quiet);
    pthread_mutex_init(&metrics->lock, NULL);
    rc = open_file(metrics, resume, why, why_size);
    if (rc)
        metrics_destroy(&metrics);
    *out = metrics;
    return rc;
}

void
metrics_destroy(struct metrics **metrics)
{
    struct metrics *m = *metrics;
    if (!m)
        return;
    show_fini(&m->show);
    if (m->locked)
        remove_empty(m);
    if (m->fd >= 0)
        close(m->fd);
    tensorboard_close(&m->board);
    json_decref(m->last);
    json_decref(m->job);
    pthread_mutex_destroy(&m->lock);
    free(m);
    *metrics = NULL;
}

/* --- lines for people --- */

void
metrics_say(struct metrics *metrics, int level, const char *line)
{
    pthread_mutex_lock(&metrics->lock);
    show_say(&metrics->show, level, line);
    pthread_mutex_unlock(&metrics->lock);
}

void
metrics_alarm(struct metrics *metrics, const char *line)
{
    pthread_mutex_lock(&metrics->lock);
    show_alarm(&metrics->show, line);
    pthread_mutex_unlock(&metrics->lock);
}

void
metrics_doing(struct metrics *metrics, const char *what)
{
    uint64_t now = clock_us();
    pthread_mutex_lock(&metrics->lock);
    show_doing(&metrics->show, what, now);
    pthread_mutex_unlock(&metrics->lock);
}

/* --- steps --- */

/* The whole of `text` at `at`; 0 or a positive errno. */
static int
put_at(int fd, const char *text, size_t size, off_t at)
{
    while (size > 0) {
        ssize_t put = pwrite(fd, text, size, at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put < 0 ? errno : EIO;
        text += put;
        size -= (size_t)put;
        at += put;
    }
    return 0;
}

/* New name, sync, rename: the file is there whole or not at all. */
static int
write_whole(const char *dir, const char *name, const json_t *object, char *why, size_t why_size)
{
    char path[METRICS_PATH_MAX + 32], temp[METRICS_PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    snprintf(temp, sizeof temp, "%s/%s.new", dir, name);
    char *text = json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS));
    if (!text)
        return fail(path, "out of memory", ENOMEM, why, why_size);
    int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int error = fd < 0 ? errno : put_at(fd, text, strlen(text), 0);
    free(text);
    if (fd < 0)
        return fail(temp, strerror(error), error, why, why_size);
    if (error == 0 && fsync(fd) != 0)
        error = errno;
    if (close(fd) != 0 && error == 0)
        error = errno;
    if (error == 0 && rename(temp, path) != 0)
        error = errno;
    if (error == 0)
        return 0;
    unlink(temp);
    return fail(path, strerror(error), error, why, why_size);
}

/* Tried again with the next line when the disk is full. */
static void
write_job(struct metrics *metrics)
{
    char why[METRICS_PATH_MAX + 128];
    if (metrics->job && !metrics->job_written)
        metrics->job_written =
            write_whole(metrics->dir, "job.json", metrics->job, why, sizeof why) == 0;
}

static void
write_object(struct metrics *metrics, const json_t *object)
{
    char line[AUDIT_LINE_MAX + 1];
    size_t size =
        json_dumpb(object, line, sizeof line - 1, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
    if (size == 0 || size >= sizeof line)
        return;
    line[size++] = '\n';
    metrics->last_at = metrics->at;
    int error = metrics->begun ? 0 : begin(metrics);
    if (error == 0) {
        write_job(metrics);
        error = put_at(metrics->fd, line, size, metrics->at);
    }
    if (error == 0) {
        metrics->at += (off_t)size;
        metrics->broken = false;
        return;
    }
    if (metrics->begun && ftruncate(metrics->fd, metrics->at) != 0)
        error = errno;
    if (!metrics->broken) {
        char text[METRICS_PATH_MAX + 128];
        snprintf(text, sizeof text, "%s/metrics.jsonl: %s; training goes on", metrics->dir,
                 strerror(error));
        metrics->broken = true;
        show_say(&metrics->show, 4, text);
    }
}

/* --- event files --- */

static void
curves_fail(struct metrics *metrics, const char *why)
{
    char line[METRICS_PATH_MAX + 160];
    tensorboard_close(&metrics->board);
    snprintf(line, sizeof line, "no curves for TensorBoard: %s", why);
    if (!metrics->curves_failed)
        show_say(&metrics->show, 4, line);
    metrics->curves_failed = true;
}

/* Steps from `step` on are written from here on, whatever earlier files have. */
static void
curves_from(struct metrics *metrics, uint64_t step)
{
    int rc = metrics->board ? tensorboard_purge(metrics->board, step) : 0;
    if (rc)
        curves_fail(metrics, strerror(-rc));
}

static void
curves_add(struct metrics *metrics, const struct metrics_step *step)
{
    char why[METRICS_PATH_MAX + 128];
    double seconds = step->compute_s + step->wait_s;
    struct tensorboard_scalar scalar[TENSORBOARD_SCALARS_MAX];
    size_t count = 0;
    if (!metrics->curves)
        return;
    if (!metrics->board) {
        if (tensorboard_open(&metrics->board, metrics->dir, why, sizeof why))
            curves_fail(metrics, why);
        curves_from(metrics, step->step);
    }
    if (step->samples > 0) {
        scalar[count++] = (struct tensorboard_scalar){"loss", step->loss};
        if (step->accuracy >= 0)
            scalar[count++] = (struct tensorboard_scalar){"accuracy", step->accuracy};
        if (seconds > 0)
            scalar[count++] =
                (struct tensorboard_scalar){"samples_per_s", (double)step->samples / seconds};
        scalar[count++] = (struct tensorboard_scalar){"nodes", step->peers};
    }
    if (step->evaluated) {
        scalar[count++] = (struct tensorboard_scalar){"test_loss", step->test_loss};
        if (step->test_accuracy >= 0)
            scalar[count++] = (struct tensorboard_scalar){"test_accuracy", step->test_accuracy};
    }
    int rc = metrics->board ? tensorboard_add(metrics->board, step->step, scalar, count) : 0;
    if (rc)
        curves_fail(metrics, strerror(-rc));
}

void
metrics_tensorboard(struct metrics *metrics)
{
    metrics->curves = true;
}

/* An evaluation tells nothing new of its step: its figures join the step's line. */
static void
record(struct metrics *metrics, const struct metrics_step *step, uint64_t now)
{
    bool joins =
        metrics->last && step->evaluated && step->samples == 0 && metrics->last_step == step->step;
    if (joins) {
        metrics_test_set(metrics->last, step);
        metrics->at = metrics->last_at;
    } else {
        json_decref(metrics->last);
        metrics->last = metrics_step_object(step, (double)(now - metrics->started_us) / 1e6,
                                            metrics->show.alarm);
        metrics->last_step = step->step;
    }
    write_object(metrics, metrics->last);
}

void
metrics_job(struct metrics *metrics, const struct metrics_job *job)
{
    json_t *object = metrics_job_object(job);
    pthread_mutex_lock(&metrics->lock);
    json_decref(metrics->job);
    metrics->job = object;
    metrics->job_written = false;
    pthread_mutex_unlock(&metrics->lock);
}

void
metrics_keep(struct metrics *metrics, uint64_t steps)
{
    uint64_t last;
    off_t begin_at;
    pthread_mutex_lock(&metrics->lock);
    while ((begin_at = last_line(metrics->fd, metrics->at, &last)) >= 0 && last > steps)
        metrics->at = begin_at;
    pthread_mutex_unlock(&metrics->lock);
}

void
metrics_step(struct metrics *metrics, const struct metrics_step *step)
{
    uint64_t now = clock_us();
    pthread_mutex_lock(&metrics->lock);
    record(metrics, step, now);
    curves_add(metrics, step);
    show_step(&metrics->show, step, now);
    pthread_mutex_unlock(&metrics->lock);
}

void
metrics_withdraw(struct metrics *metrics)
{
    pthread_mutex_lock(&metrics->lock);
    if (metrics->last && metrics->begun) {
        bool evaluated = json_object_del(metrics->last, "test_loss") == 0;
        curves_from(metrics, metrics->last_step + evaluated);
        json_object_del(metrics->last, "test_accuracy");
        metrics->at = metrics->last_at;
        int rc = ftruncate(metrics->fd, metrics->at);
        (void)rc; /* what is written next covers it */
        if (evaluated) {
            write_object(metrics, metrics->last);
        } else {
            json_decref(metrics->last);
            metrics->last = NULL;
        }
    }
    pthread_mutex_unlock(&metrics->lock);
}

void
metrics_withdraw_from(struct metrics *metrics, uint64_t step)
{
    uint64_t last;
    off_t begin;
    pthread_mutex_lock(&metrics->lock);
    if (metrics->begun) {
        while ((begin = last_line(metrics->fd, metrics->at, &last)) >= 0 && last >= step)
            metrics->at = begin;
        curves_from(metrics, step);
        int rc = ftruncate(metrics->fd, metrics->at);
        (void)rc; /* what is written next covers it */
        json_decref(metrics->last);
        metrics->last = NULL;
    }
    pthread_mutex_unlock(&metrics->lock);
}

/* What the old file has, as far as it can still be read. */
static int
copy_lines(int from, int to, off_t end)
{
    char part[8192];
    for (off_t at = 0; at < end;) {
        size_t want = end - at < (off_t)sizeof part ? (size_t)(end - at) : sizeof part;
        ssize_t got = pread(from, part, want, at);
        if (got <= 0)
            return got < 0 ? errno : EIO;
        int error = put_at(to, part, (size_t)got, at);
        if (error)
            return error;
        at += got;
    }
    return 0;
}

/* The lock is held. */
static void
make_again(struct metrics *metrics)
{
    char path[METRICS_PATH_MAX + 32], line[METRICS_PATH_MAX + 96], shown[256];
    size_t kept;
    struct stat status;
    snprintf(path, sizeof path, "%s/metrics.jsonl", metrics->dir);
    if (stat(path, &status) == 0 || errno != ENOENT || make_dirs(metrics->dir, &kept))
        return;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 ||
        copy_lines(metrics->fd, fd, metrics->begun ? metrics->at : 0) != 0) {
        close(fd);
        unlink(path);
        return;
    }
    close(metrics->fd);
    metrics->fd = fd;
    metrics->job_written = false;
    tensorboard_close(&metrics->board);
    if (metrics->begun)
        write_job(metrics);
    typed_escape(shown, sizeof shown, metrics->dir);
    snprintf(line, sizeof line, "%s was deleted: made again", shown);
    show_say(&metrics->show, 4, line);
}

void
metrics_find(struct metrics *metrics)
{
    pthread_mutex_lock(&metrics->lock);
    make_again(metrics);
    pthread_mutex_unlock(&metrics->lock);
}

void
metrics_alive(struct metrics *metrics)
{
    uint64_t now = clock_us();
    pthread_mutex_lock(&metrics->lock);
    if (now >= metrics->alive_us) {
        metrics->alive_us = now + ALIVE_US;
        make_again(metrics);
        int rc = futimens(metrics->fd, NULL);
        (void)rc; /* a disk that is full or gone: a step says so */
    }
    pthread_mutex_unlock(&metrics->lock);
}

/* A node that took the last state from the others has done no step: its metrics.jsonl is empty, but it is there. */
static int
end_without_steps(struct metrics *metrics, char *why, size_t why_size)
{
    char path[METRICS_PATH_MAX + 32];
    if (metrics->begun)
        return 0;
    snprintf(path, sizeof path, "%s/metrics.jsonl", metrics->dir);
    if (ftruncate(metrics->fd, metrics->at) != 0)
        return fail(path, strerror(errno), errno, why, why_size);
    metrics->begun = true;
    write_job(metrics);
    if (metrics->at == 0)
        show_say(&metrics->show, 6,
                 "this node did no step: it took the last state from the others, and its "
                 "metrics.jsonl is empty");
    return 0;
}

int
metrics_result(struct metrics *metrics, const struct metrics_result *result, char *why,
               size_t why_size)
{
    pthread_mutex_lock(&metrics->lock);
    int rc = end_without_steps(metrics, why, why_size);
    json_t *object = metrics_result_object(result, metrics->show.warnings);
    pthread_mutex_unlock(&metrics->lock);
    if (!rc)
        rc = write_whole(metrics->dir, "result.json", object, why, why_size);
    json_decref(object);
    return rc;
}

void
metrics_show_result(struct metrics *metrics, const struct metrics_result *result)
{
    pthread_mutex_lock(&metrics->lock);
    show_result(&metrics->show, result, metrics->dir);
    pthread_mutex_unlock(&metrics->lock);
}

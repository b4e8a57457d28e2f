/* metrics.c - the files a run leaves, and what is wrong with them told to people (show.h).
 *
 * metrics.jsonl has one object per step. Each is written with one write() at a known offset: what a full
 * disk cut off is overwritten by the next line, and an evaluation, which comes after its step, replaces
 * the step's line by one that also holds the test figures. A run that cannot write its metrics goes on.
 *
 * The file is locked while the run lasts, so that two nodes cannot share a folder. */
#include "node/results/metrics_internal.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nn/files/disk.h"
#include "node/base/parse.h"
#include "node/results/metrics_object.h"
#include "node/results/verify_read.h"
#include "proto/clock.h"

enum { ALIVE_US = 1000000 };

int
metrics_new(struct metrics **out, const char *dir, bool resume, bool quiet, struct why *why)
{
    *out = NULL;
    if (strlen(dir) >= METRICS_PATH_MAX)
        return parse_refuse(dir, ENAMETOOLONG, "name too long", why);
    size_t kept;
    int rc = metrics_make_dirs(dir, &kept);
    if (rc)
        return parse_refuse(dir, -rc, strerror(-rc), why);
    struct metrics *metrics = calloc(1, sizeof *metrics);
    if (!metrics)
        return parse_refuse(dir, ENOMEM, "out of memory", why);
    snprintf(metrics->dir, sizeof metrics->dir, "%s", dir);
    metrics->started_us = clock_us();
    metrics->fd = -1;
    metrics->kept = kept;
    show_init(&metrics->show, quiet);
    pthread_mutex_init(&metrics->lock, NULL);
    pthread_mutex_init(&metrics->syncs, NULL);
    rc = metrics_open_file(metrics, resume, why);
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
        metrics_remove_empty(m);
    if (m->fd >= 0)
        close(m->fd);
    tensorboard_close(&m->board);
    json_decref(m->last);
    json_decref(m->job);
    pthread_mutex_destroy(&m->lock);
    pthread_mutex_destroy(&m->syncs);
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
metrics_use(struct metrics *metrics, const char *line, bool over, bool stops)
{
    uint64_t now = clock_us();
    pthread_mutex_lock(&metrics->lock);
    show_use(&metrics->show, line, over, stops, now);
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

static void
write_object(struct metrics *metrics, const json_t *object)
{
    char line[VERIFY_LINE_MAX + 1];
    size_t size = json_dumpb(object, line, sizeof line - 1,
                             JSON_COMPACT | JSON_REAL_PRECISION(METRICS_DIGITS));
    if (size == 0 || size >= sizeof line)
        return;
    line[size++] = '\n';
    metrics->last_at = metrics->at;
    int error = metrics->ours ? 0 : metrics_begin_file(metrics);
    if (error == 0) {
        metrics_write_job(metrics);
        if (lseek(metrics->fd, metrics->at, SEEK_SET) < 0 ||
            disk_write_all(metrics->fd, line, size) != 0)
            error = errno;
    }
    if (error == 0) {
        metrics->at += (off_t)size;
        metrics->broken = false;
        return;
    }
    if (metrics->ours && ftruncate(metrics->fd, metrics->at) != 0)
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
    char line[WHY_SIZE + 64];
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
curves_write(struct metrics *metrics, uint64_t step, const struct tensorboard_scalar *scalar,
             size_t count)
{
    int rc = metrics->board && count ? tensorboard_add(metrics->board, step, scalar, count) : 0;
    if (rc)
        curves_fail(metrics, strerror(-rc));
}

/* `again`: the curves have the test figures of this step. */
static void
curves_add(struct metrics *metrics, const struct metrics_step *step, bool again)
{
    struct why why;
    struct tensorboard_scalar scalar[TENSORBOARD_SCALARS_MAX];
    size_t count = 0;
    if (!metrics->curves)
        return;
    if (!metrics->board) {
        if (tensorboard_open(&metrics->board, metrics->dir, &why))
            curves_fail(metrics, why.line);
        curves_from(metrics, step->step + (step->samples == 0)); /* this step only had its test */
    }
    if (step->samples > 0) {
        scalar[count++] = (struct tensorboard_scalar){"loss", step->loss};
        if (step->accuracy >= 0)
            scalar[count++] = (struct tensorboard_scalar){"accuracy", step->accuracy};
        if (step->mesh_s > 0 && step->mesh_samples >= 0)
            scalar[count++] =
                (struct tensorboard_scalar){"samples_per_s", step->mesh_samples / step->mesh_s};
        scalar[count++] = (struct tensorboard_scalar){"nodes", step->peers};
    }
    curves_write(metrics, step->step, scalar, count);
    if (!step->evaluated || again)
        return;
    count = 0;
    scalar[count++] = (struct tensorboard_scalar){"test_loss", step->test_loss};
    if (step->test_accuracy >= 0)
        scalar[count++] = (struct tensorboard_scalar){"test_accuracy", step->test_accuracy};
    curves_write(metrics, step->test_of ? step->test_step : step->step, scalar, count);
}

/* An evaluation tells nothing new of its step: its figures join the step's line, but for those of something else. */
static void
record(struct metrics *metrics, const struct metrics_step *step, uint64_t now)
{
    bool joins = metrics->last && step->evaluated && step->samples == 0 &&
                 metrics->last_step == step->step &&
                 !(step->test_of && json_object_get(metrics->last, "test_of"));
    if (joins) {
        metrics_test_set(metrics->last, step);
        metrics->at = metrics->last_at;
        int rc = metrics->ours ? ftruncate(metrics->fd, metrics->at) : 0;
        (void)rc; /* its figures may have been longer than those that are written next */
    } else {
        json_decref(metrics->last);
        metrics->last = metrics_step_object(step, (double)(now - metrics->started_us) / 1e6,
                                            metrics->show.alarm);
        metrics->last_step = step->step;
    }
    write_object(metrics, metrics->last);
}

/* The next line covers those of steps behind this one. */
static void
forget_behind(struct metrics *metrics, uint64_t steps)
{
    uint64_t last;
    off_t begin_at;
    while ((begin_at = metrics_last_line(metrics->fd, metrics->at, &last)) >= 0 && last > steps)
        metrics->at = begin_at;
}

/* A run that goes on may evaluate first: did the run before have figures for that step? */
static bool
tested_before(const struct metrics *metrics, const struct metrics_step *step)
{
    uint64_t last = 0;
    off_t at = metrics->at, begin_at;
    if (metrics->ours || !metrics->resume || step->samples > 0 || step->test_of)
        return false;
    while ((begin_at = metrics_last_line(metrics->fd, at, &last)) >= 0 && last > step->step)
        at = begin_at;
    json_t *line = metrics_last_object(metrics->fd, at, &begin_at);
    bool tested = line && last == step->step && json_object_get(line, "test_loss");
    json_decref(line);
    return tested;
}

void
metrics_job(struct metrics *metrics, const struct metrics_job *job)
{
    json_t *object = metrics_job_object(job);
    pthread_mutex_lock(&metrics->lock);
    json_decref(metrics->job);
    metrics->job = object;
    metrics->job_written = false;
    metrics->inexact = job->inexact;
    metrics->curves = job->curves;
    if (job->kept)
        forget_behind(metrics, job->kept);
    pthread_mutex_unlock(&metrics->lock);
}

void
metrics_step(struct metrics *metrics, const struct metrics_step *step)
{
    uint64_t now = clock_us();
    pthread_mutex_lock(&metrics->lock);
    if (metrics->inexact && !metrics->ours)
        forget_behind(metrics, step->step - (step->samples > 0)); /* else only an evaluation */
    bool again = tested_before(metrics, step);
    record(metrics, step, now);
    curves_add(metrics, step, again);
    show_step(&metrics->show, step, now);
    pthread_mutex_unlock(&metrics->lock);
}

void
metrics_withdraw(struct metrics *metrics)
{
    pthread_mutex_lock(&metrics->lock);
    if (metrics->last && metrics->ours) {
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
    pthread_mutex_lock(&metrics->lock);
    if (metrics->ours) {
        forget_behind(metrics, step ? step - 1 : 0);
        curves_from(metrics, step);
        int rc = ftruncate(metrics->fd, metrics->at);
        (void)rc; /* what is written next covers it */
        json_decref(metrics->last);
        metrics->last = NULL;
    }
    pthread_mutex_unlock(&metrics->lock);
}

void
metrics_find(struct metrics *metrics)
{
    pthread_mutex_lock(&metrics->lock);
    metrics_make_again(metrics);
    pthread_mutex_unlock(&metrics->lock);
}

void
metrics_alive(struct metrics *metrics)
{
    uint64_t now = clock_us();
    pthread_mutex_lock(&metrics->lock);
    if (now >= metrics->alive_us) {
        metrics->alive_us = now + ALIVE_US;
        metrics_make_again(metrics);
        int rc = futimens(metrics->fd, NULL);
        (void)rc; /* a disk that is full or gone: a step says so */
    }
    pthread_mutex_unlock(&metrics->lock);
}

void
metrics_sync(struct metrics *metrics)
{
    pthread_mutex_lock(&metrics->lock);
    pthread_mutex_lock(&metrics->syncs);
    int fd = metrics->fd;
    pthread_mutex_unlock(&metrics->lock);
    int rc = fsync(fd);
    (void)rc; /* a disk that is full or gone: a step says so */
    pthread_mutex_unlock(&metrics->syncs);
}

/* A node that took the last state from the others has done no step: its metrics.jsonl is empty, but it is there. */
static int
end_without_steps(struct metrics *metrics, struct why *why)
{
    char path[METRICS_PATH_MAX + 32];
    if (metrics->ours)
        return 0;
    snprintf(path, sizeof path, "%s/metrics.jsonl", metrics->dir);
    if (ftruncate(metrics->fd, metrics->at) != 0)
        return parse_refuse(path, errno, strerror(errno), why);
    metrics->ours = true;
    metrics_write_job(metrics);
    if (metrics->at == 0)
        show_say(&metrics->show, 6,
                 "this node did no step: it took the last state from the others, and its "
                 "metrics.jsonl is empty");
    return 0;
}

int
metrics_result(struct metrics *metrics, const struct metrics_result *result, struct why *why)
{
    pthread_mutex_lock(&metrics->lock);
    int rc = end_without_steps(metrics, why);
    json_t *object = metrics_result_object(result, metrics->show.warnings);
    pthread_mutex_unlock(&metrics->lock);
    rc = rc ? rc : metrics_write_whole(metrics->dir, "result.json", object, why);
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

/* metrics.c - what a run leaves to read. See metrics.h.
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
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "node/term.h"
#include "node/typed.h"

enum { METRICS_PATH_MAX = 1200, PLAIN_MS = 1000, ALIVE_US = 1000000, DIGITS = 12 };
static const double rate_keep = 0.95; /* of the smoothed rates, per step */

struct metrics {
    char dir[METRICS_PATH_MAX];
    size_t kept; /* bytes of dir that were there before */
    bool quiet;
    int fd;                                /* metrics.jsonl */
    bool locked;                           /* it is ours */
    bool begun;                            /* and holds what this run wrote, or continues */
    off_t at;                              /* where its next line begins */
    off_t last_at;                         /* where the last one does */
    json_t *job;                           /* for job.json; NULL when it is written, or none */
    json_t *last;                          /* the last step's object; NULL before the first */
    uint64_t last_step;                    /* its step */
    bool broken;                           /* a write failed, and that was said */
    uint64_t warnings;                     /* lines said, of warnings and worse */
    char alarm[128];                       /* what is wrong at present; "" nothing */
    uint64_t plain_ms;                     /* no plain line before */
    uint64_t alive_us;                     /* no sign of life before */
    uint64_t started_us;                   /* time of metrics_new: time_s counts from it */
    uint64_t stepped_us;                   /* time of the last step; 0 before the first */
    double seconds, samples, bytes, steps; /* smoothed sums: their ratios are rates */
    struct term out, err;
    pthread_mutex_t lock; /* over everything above */
};

static uint64_t
now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

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
    if (fstat(metrics->fd, &status) != 0 || status.st_size > 0 || unlink(path) != 0)
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
    metrics->at = resume ? whole_lines(metrics->fd) : 0;
    return 0;
}

/* With the first line, not before: a run that fails to start must not cost what an earlier one left. */
static int
begin(struct metrics *metrics)
{
    char path[METRICS_PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/result.json", metrics->dir);
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
    metrics->quiet = quiet;
    metrics->started_us = now_us();
    metrics->fd = -1;
    metrics->kept = kept;
    term_init(&metrics->out, STDOUT_FILENO);
    term_init(&metrics->err, STDERR_FILENO);
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
    term_fini(&m->out);
    if (m->locked)
        remove_empty(m);
    if (m->fd >= 0)
        close(m->fd);
    json_decref(m->last);
    json_decref(m->job);
    pthread_mutex_destroy(&m->lock);
    free(m);
    *metrics = NULL;
}

/* --- lines for people --- */

static void
say(struct metrics *metrics, int level, const char *line)
{
    char text[TERM_LINE_MAX];
    bool bad = level <= 4;
    metrics->warnings += bad;
    if (metrics->quiet && !bad)
        return;
    snprintf(text, sizeof text, "%s%.*s",
             level <= 3   ? "error: "
             : level == 4 ? "warning: "
                          : "",
             TERM_LINE_MAX - 16, line);
    if (bad)
        term_hide(&metrics->out);
    term_line(bad ? &metrics->err : &metrics->out, text);
}

void
metrics_say(struct metrics *metrics, int level, const char *line)
{
    pthread_mutex_lock(&metrics->lock);
    say(metrics, level, line);
    pthread_mutex_unlock(&metrics->lock);
}

void
metrics_alarm(struct metrics *metrics, const char *line)
{
    pthread_mutex_lock(&metrics->lock);
    snprintf(metrics->alarm, sizeof metrics->alarm, "%s", line ? line : "");
    pthread_mutex_unlock(&metrics->lock);
}

/* "12.3 MB" */
static void
format_bytes(char *out, size_t size, double bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    size_t unit = 0;
    for (; bytes >= 1000 && unit < 4; unit++)
        bytes /= 1000;
    snprintf(out, size, "%.*f %s", unit == 0 || bytes >= 100 ? 0 : 1, bytes, units[unit]);
}

/* "1:02:03" or "2:03" */
static void
format_time(char *out, size_t size, double seconds)
{
    unsigned long long s = seconds < 3.6e9 ? (unsigned long long)(seconds + 0.5) : 3600000000ULL;
    if (s >= 3600)
        snprintf(out, size, "%llu:%02llu:%02llu", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, size, "%llu:%02llu", s / 60, s % 60);
}

static void
format_step(const struct metrics *metrics, const struct metrics_step *step, char *out, size_t size)
{
    char accuracy[32] = "", rate[32], left[32];
    double seconds = metrics->seconds > 0 ? metrics->seconds : 1e-9;
    uint64_t steps = step->steps_total > step->step ? step->steps_total - step->step : 0;
    if (step->accuracy >= 0)
        snprintf(accuracy, sizeof accuracy, "  accuracy %.1f %%", 100 * step->accuracy);
    format_bytes(rate, sizeof rate, metrics->bytes / seconds);
    format_time(left, sizeof left, (double)steps * seconds / fmax(metrics->steps, 1e-9));
    /* The most wanted first: a narrow terminal shows no more. */
    snprintf(out, size,
             "step %llu/%llu%s%s  loss %.4g%s  %u %s  ETA %s  %.0f samples/s  %s/s  epoch %llu",
             (unsigned long long)step->step, (unsigned long long)step->steps_total,
             metrics->alarm[0] ? "  " : "", metrics->alarm, step->loss, accuracy, step->peers,
             step->peers == 1 ? "node" : "nodes", left, metrics->samples / seconds, rate,
             (unsigned long long)step->epoch + 1);
}

static void
format_test(double loss, double accuracy, char *out, size_t size)
{
    int used = snprintf(out, size, "test loss %.4g", loss);
    if (isfinite(accuracy) && accuracy >= 0 && used > 0 && (size_t)used < size)
        snprintf(out + used, size - (size_t)used, ", test accuracy %.2f %%", 100 * accuracy);
}

/* --- objects --- */

static json_t *
number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* 0..1; negative means that there is none. */
static json_t *
share(double value)
{
    return value < 0 ? json_null() : number(value);
}

/* JSON's integers end at 2^63 - 1 here. */
static json_t *
whole(uint64_t value)
{
    return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

static json_t *
hash_text(uint64_t hash)
{
    char text[17];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    return json_string(text);
}

static json_t *
safe_text(const char *text)
{
    char safe[512];
    typed_escape(safe, sizeof safe, text ? text : "");
    return json_string(safe);
}

static void
set_test(json_t *object, const struct metrics_step *step)
{
    json_object_set_new(object, "test_loss", number(step->test_loss));
    json_object_set_new(object, "test_accuracy", share(step->test_accuracy));
}

static json_t *
step_object(const struct metrics_step *step, double time_s)
{
    double seconds = step->compute_s + step->wait_s;
    json_t *object = json_object();
    json_object_set_new(object, "step", whole(step->step));
    json_object_set_new(object, "time_s", number(time_s));
    json_object_set_new(object, "epoch", whole(step->epoch));
    json_object_set_new(object, "loss", number(step->loss));
    json_object_set_new(object, "accuracy", share(step->accuracy));
    json_object_set_new(object, "peers", whole(step->peers));
    json_object_set_new(object, "plan", hash_text(step->plan));
    json_object_set_new(object, "samples", whole(step->samples));
    json_object_set_new(object, "first", whole(step->first));
    json_object_set_new(object, "coverage", hash_text(step->coverage));
    json_object_set_new(object, "shards", hash_text(step->shards));
    json_object_set_new(object, "rows", hash_text(step->rows));
    json_object_set_new(object, "ledger", hash_text(step->ledger));
    json_object_set_new(object, "samples_per_s",
                        number((double)step->samples / fmax(seconds, 1e-9)));
    json_object_set_new(object, "compute_s", number(step->compute_s));
    json_object_set_new(object, "wait_s", number(step->wait_s));
    json_object_set_new(object, "tx_bytes", whole(step->tx_bytes));
    json_object_set_new(object, "rx_bytes", whole(step->rx_bytes));
    json_object_set_new(object, "state_hash", hash_text(step->state_hash));
    if (step->skipped)
        json_object_set_new(object, "skipped", json_true());
    if (step->evaluated)
        set_test(object, step);
    return object;
}

static json_t *
result_object(const struct metrics *metrics, const struct metrics_result *result)
{
    json_t *object = json_object();
    json_object_set_new(object, "run", safe_text(result->run));
    json_object_set_new(object, "node", safe_text(result->node));
    json_object_set_new(object, "steps", whole(result->steps));
    json_object_set_new(object, "epochs", whole(result->epochs));
    json_object_set_new(object, "samples", whole(result->samples));
    json_object_set_new(object, "train_loss", number(result->train_loss));
    json_object_set_new(object, "test_loss", number(result->test_loss));
    json_object_set_new(object, "test_accuracy", share(result->test_accuracy));
    json_object_set_new(object, "wall_s", number(result->wall_s));
    json_object_set_new(object, "exact", json_boolean(result->exact));
    json_object_set_new(object, "params_sha256", safe_text(result->params_sha256));
    json_object_set_new(object, "state_sha256", safe_text(result->state_sha256));
    json_object_set_new(object, "peers_max", whole(result->peers_max));
    json_object_set_new(object, "plans", whole(result->plans));
    json_object_set_new(object, "aborts", whole(result->aborts));
    json_object_set_new(object, "damages", whole(result->damages));
    json_object_set_new(object, "audits", whole(result->audits));
    json_object_set_new(object, "expelled", whole(result->expelled));
    json_object_set_new(object, "tx_bytes", whole(result->tx_bytes));
    json_object_set_new(object, "rx_bytes", whole(result->rx_bytes));
    json_object_set_new(object, "warnings", whole(metrics->warnings));
    return object;
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
    if (metrics->job && write_whole(metrics->dir, "job.json", metrics->job, why, sizeof why) == 0) {
        json_decref(metrics->job);
        metrics->job = NULL;
    }
}

static void
write_object(struct metrics *metrics, const json_t *object)
{
    char line[1024];
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
        say(metrics, 4, text);
    }
}

/* An evaluation tells nothing new of its step: its figures join the step's line. */
static void
record(struct metrics *metrics, const struct metrics_step *step, uint64_t now)
{
    bool joins =
        metrics->last && step->evaluated && step->samples == 0 && metrics->last_step == step->step;
    if (joins) {
        set_test(metrics->last, step);
        metrics->at = metrics->last_at;
    } else {
        json_decref(metrics->last);
        metrics->last = step_object(step, (double)(now - metrics->started_us) / 1e6);
        if (metrics->alarm[0])
            json_object_set_new(metrics->last, "alarm", safe_text(metrics->alarm));
        metrics->last_step = step->step;
    }
    write_object(metrics, metrics->last);
}

static void
smooth(struct metrics *metrics, const struct metrics_step *step, uint64_t now)
{
    double seconds = metrics->stepped_us ? (double)(now - metrics->stepped_us) / 1e6
                                         : step->compute_s + step->wait_s;
    metrics->stepped_us = now;
    metrics->seconds = rate_keep * metrics->seconds + seconds;
    metrics->samples = rate_keep * metrics->samples + (double)step->samples;
    metrics->bytes = rate_keep * metrics->bytes + (double)(step->tx_bytes + step->rx_bytes);
    metrics->steps = rate_keep * metrics->steps + 1;
}

static void
show(struct metrics *metrics, const struct metrics_step *step, uint64_t now)
{
    char line[TERM_LINE_MAX], test[128];
    uint64_t now_ms = now / 1000;
    if (metrics->quiet)
        return;
    if (step->samples > 0) {
        format_step(metrics, step, line, sizeof line);
        term_live(&metrics->out, now_ms, line);
        if (!metrics->out.tty && now_ms >= metrics->plain_ms) {
            metrics->plain_ms = now_ms + PLAIN_MS;
            term_line(&metrics->out, line);
        }
    }
    if (step->evaluated) {
        format_test(step->test_loss, step->test_accuracy, test, sizeof test);
        snprintf(line, sizeof line, "step %llu: %s", (unsigned long long)step->step, test);
        term_line(&metrics->out, line);
    }
}

void
metrics_job(struct metrics *metrics, const struct metrics_job *job)
{
    json_t *object = json_object();
    json_object_set_new(object, "run", safe_text(job->run));
    json_object_set_new(object, "job", hash_text(job->job));
    json_object_set_new(object, "seed", whole(job->seed));
    json_object_set_new(object, "train", whole(job->train));
    json_object_set_new(object, "batch", whole(job->batch));
    json_object_set_new(object, "shards", whole(job->shards));
    json_object_set_new(object, "steps", whole(job->steps));
    json_object_set_new(object, "local_steps", whole(job->local_steps));
    pthread_mutex_lock(&metrics->lock);
    json_decref(metrics->job);
    metrics->job = object;
    pthread_mutex_unlock(&metrics->lock);
}

void
metrics_step(struct metrics *metrics, const struct metrics_step *step)
{
    uint64_t now = now_us();
    pthread_mutex_lock(&metrics->lock);
    if (step->skipped)
        say(metrics, 4, "a gradient was not finite: this step changed nothing");
    record(metrics, step, now);
    if (step->samples > 0)
        smooth(metrics, step, now);
    show(metrics, step, now);
    pthread_mutex_unlock(&metrics->lock);
}

void
metrics_withdraw(struct metrics *metrics)
{
    pthread_mutex_lock(&metrics->lock);
    if (metrics->last && metrics->begun) {
        bool evaluated = json_object_del(metrics->last, "test_loss") == 0;
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

/* Where the last of the lines before `at` begins, and its step; -1 when there is none that can be read. */
static off_t
last_line(int fd, off_t at, uint64_t *step)
{
    char line[1024];
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

void
metrics_withdraw_from(struct metrics *metrics, uint64_t step)
{
    uint64_t last;
    off_t begin;
    pthread_mutex_lock(&metrics->lock);
    if (metrics->begun) {
        while ((begin = last_line(metrics->fd, metrics->at, &last)) >= 0 && last >= step)
            metrics->at = begin;
        int rc = ftruncate(metrics->fd, metrics->at);
        (void)rc; /* what is written next covers it */
        json_decref(metrics->last);
        metrics->last = NULL;
    }
    pthread_mutex_unlock(&metrics->lock);
}

void
metrics_alive(struct metrics *metrics)
{
    uint64_t now = now_us();
    pthread_mutex_lock(&metrics->lock);
    if (now >= metrics->alive_us) {
        metrics->alive_us = now + ALIVE_US;
        int rc = futimens(metrics->fd, NULL);
        (void)rc; /* a disk that is full or gone: a step says so */
    }
    pthread_mutex_unlock(&metrics->lock);
}

/* --- result --- */

static void
show_result(struct metrics *metrics, const struct metrics_result *result)
{
    char line[METRICS_PATH_MAX + 64], test[128];
    format_test(result->test_loss, result->test_accuracy, test, sizeof test);
    snprintf(line, sizeof line, "done: %llu steps, %s, %.1f s", (unsigned long long)result->steps,
             test, result->wall_s);
    say(metrics, 6, line);
    snprintf(line, sizeof line, "weights sha256 %s", result->params_sha256);
    say(metrics, 6, line);
    snprintf(line, sizeof line, "results in %s", metrics->dir);
    say(metrics, 6, line);
}

int
metrics_result(struct metrics *metrics, const struct metrics_result *result, char *why,
               size_t why_size)
{
    pthread_mutex_lock(&metrics->lock);
    json_t *object = result_object(metrics, result);
    pthread_mutex_unlock(&metrics->lock);
    int rc = write_whole(metrics->dir, "result.json", object, why, why_size);
    json_decref(object);
    return rc;
}

void
metrics_show_result(struct metrics *metrics, const struct metrics_result *result)
{
    pthread_mutex_lock(&metrics->lock);
    term_fini(&metrics->out);
    show_result(metrics, result);
    pthread_mutex_unlock(&metrics->lock);
}

/* health.c - the age of metrics.jsonl, and what its last line says. See health.h. */
#include "node/commands/health.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "nn/files/disk.h"
#include "node/base/parse.h"
#include "node/results/metrics_internal.h"

enum { HEALTH_PATH_MAX = 4096 + 256 + 32, SHOWN_MAX = 200, TOUCH_MS = 3000, LOOK_MS = 50 };

struct sign {
    char dir[HEALTH_PATH_MAX];
    struct timespec at;    /* of metrics.jsonl */
    struct timespec until; /* newer files are passed over; 0 none is */
    bool done; /* result.json is there: it is removed with the first step of the next run */
};

static bool
newer(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* Seconds since that time, below 0: it lies in the future. */
static double
age_of(const struct timespec *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)(now.tv_sec - at->tv_sec) + 1e-9 * (double)(now.tv_nsec - at->tv_nsec);
}

/* The sign of the run in `dir`, when there is one and it is newer than that in `best`. */
static bool
look(const char *dir, struct sign *best)
{
    char path[HEALTH_PATH_MAX + 32];
    struct stat status;
    snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode) ||
        (best->dir[0] && !newer(&status.st_mtim, &best->at)) ||
        (best->until.tv_sec && newer(&status.st_mtim, &best->until)))
        return false;
    best->at = status.st_mtim;
    snprintf(best->dir, sizeof best->dir, "%s", dir);
    snprintf(path, sizeof path, "%s/result.json", dir);
    best->done =
        stat(path, &status) == 0 && status.st_size > 0 && !newer(&best->at, &status.st_mtim);
    return true;
}

/* In the folders of `dir`, and in those of `more` levels below. 0 or -errno. */
static int
look_below(const char *dir, unsigned more, struct sign *best)
{
    char path[HEALTH_PATH_MAX];
    DIR *folder = opendir(dir);
    if (!folder)
        return -errno;
    for (struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.' &&
            snprintf(path, sizeof path, "%s/%s", dir, entry->d_name) < (int)sizeof path) {
            look(path, best);
            if (more > 0)
                look_below(path, more - 1, best);
        }
    closedir(folder);
    return best->dir[0] ? 0 : -ENOENT;
}

/* The last line of metrics.jsonl, or NULL. */
static json_t *
last_step(const char *dir)
{
    char path[HEALTH_PATH_MAX + 32];
    uint64_t size;
    off_t begin;
    snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
    int fd = disk_open(path, &size, NULL);
    if (fd < 0)
        return NULL;
    json_t *step = metrics_last_object(fd, metrics_whole_lines(fd), &begin);
    close(fd);
    return step;
}

/* null: it is not known. */
static double
loss_of(const json_t *step)
{
    const json_t *loss = json_object_get(step, "loss");
    return json_is_number(loss) ? json_number_value(loss) : (double)NAN;
}

/* " (stages 1 pc1; 2 pc2)" in a pipeline. */
static void
print_nodes(const json_t *step)
{
    char shown[SHOWN_MAX];
    const json_t *pipeline = json_object_get(step, "pipeline");
    const char *nodes = json_string_value(json_object_get(pipeline, "nodes"));
    if (!nodes)
        return;
    parse_escape(shown, sizeof shown, nodes);
    printf(" (stages %s)", shown);
}

static void
print_sign(const struct sign *sign, bool alive)
{
    char shown[SHOWN_MAX];
    double age = age_of(&sign->at);
    parse_escape(shown, sizeof shown, sign->dir);
    json_t *step = last_step(sign->dir);
    printf("%s: ", shown);
    long long peers = json_integer_value(json_object_get(step, "peers"));
    if (step)
        printf("step %lld, loss %.4g", (long long)json_integer_value(json_object_get(step, "step")),
               loss_of(step));
    else
        printf("no step yet");
    if (peers > 0)
        printf(", %lld %s", peers, peers == 1 ? "node" : "nodes");
    print_nodes(step);
    json_decref(step);
    if (sign->done)
        puts(", done");
    else if (age < 0 && !alive)
        printf(", dead or stopped (the time of its metrics.jsonl is %.0f s in the future)\n", -age);
    else
        printf(", last sign of life %.1f s ago%s\n", age > 0 ? age : 0,
               alive ? "" : ": dead or stopped");
}

/* In `dir`, or in runs/NAME/node-N below it. 0 or -errno. */
static int
find(const char *dir, struct sign *sign)
{
    return look(dir, sign) ? 0 : look_below(dir, 1, sign);
}

/* A time in the future says nothing of the age: a clock was set back, or a file server has another. A node that is
 * alive touches its file meanwhile. */
static bool
is_touched(const struct sign *sign)
{
    for (int ms = 0; ms < TOUCH_MS; ms += LOOK_MS) {
        struct sign now = {.done = false};
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
        if (look(sign->dir, &now) &&
            (now.done || newer(&now.at, &sign->at) || newer(&sign->at, &now.at)))
            return true;
    }
    return false;
}

/* Of a run that is not done. If it is dead, and its time in the future, another one may be the newest. */
static bool
is_alive(const char *dir, struct sign *sign)
{
    double age = age_of(&sign->at);
    if (age >= 0)
        return age <= HEALTH_AGE_S;
    if (is_touched(sign))
        return true;
    struct sign other = {.done = false};
    clock_gettime(CLOCK_REALTIME, &other.until);
    if (find(dir, &other) != 0)
        return false;
    *sign = other;
    return sign->done || age_of(&sign->at) <= HEALTH_AGE_S;
}

int
health_print(const char *dir)
{
    struct sign sign = {.done = false};
    int rc = find(dir, &sign);
    if (rc) {
        char shown[SHOWN_MAX];
        parse_escape(shown, sizeof shown, dir);
        printf("%s: no run here%s%s\n", shown, rc == -ENOENT ? "" : ": ",
               rc == -ENOENT ? "" : strerror(-rc));
        return 1;
    }
    bool alive = sign.done || is_alive(dir, &sign);
    print_sign(&sign, alive);
    return alive ? 0 : 1;
}

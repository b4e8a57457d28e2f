/* metrics_internal.h - shared by metrics.c, which has what a run tells, and metrics_file.c, which has its folder. */
#ifndef NODE_METRICS_INTERNAL_H
#define NODE_METRICS_INTERNAL_H

#include <jansson.h>
#include <pthread.h>
#include <sys/types.h>

#include "node/results/metrics.h"
#include "node/results/show.h"
#include "node/results/tensorboard.h"
#include "proto/why.h"

enum { METRICS_PATH_MAX = 1200, METRICS_DIGITS = 12 };

struct metrics {
    char dir[METRICS_PATH_MAX];
    size_t kept;   /* bytes of dir that were there before */
    int fd;        /* metrics.jsonl */
    bool locked;   /* it is ours */
    bool resume;   /* it continues what is there */
    bool inexact;  /* a step that is done again has other bits */
    bool ours;     /* and holds what this run wrote, or continues */
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
    pthread_mutex_t lock;  /* over everything above */
    pthread_mutex_t syncs; /* fd is not closed meanwhile; taken while `lock` is held */
};

/* mkdir -p; `kept` is the length of what was there before. Returns 0 or -errno. */
int metrics_make_dirs(const char *dir, size_t *kept);
/* A run that came to nothing leaves nothing: its empty file goes, and the folders made for it. */
void metrics_remove_empty(struct metrics *metrics);
/* Opens and locks metrics.jsonl. Returns 0 or -errno with `why`. */
int metrics_open_file(struct metrics *metrics, bool resume, struct why *why);
/* Offset behind the last whole line: a node that was killed may have left half a line. */
off_t metrics_whole_lines(int fd);
/* The last of the lines before `at`, the caller's to release, and where it begins; NULL when there is none that can be
 * read. */
json_t *metrics_last_object(int fd, off_t at, off_t *begin_at);
/* Where the last of the lines before `at` begins, and its step; -1 when there is none that can be read. */
off_t metrics_last_line(int fd, off_t at, uint64_t *step);
/* As disk.h says. Returns 0 or -errno with `why`. */
int metrics_write_whole(const char *dir, const char *name, const json_t *object, struct why *why);
/* Tries again with the next line when the disk is full. */
void metrics_write_job(struct metrics *metrics);
/* Before the first line. Returns 0 or a positive errno. */
int metrics_begin_file(struct metrics *metrics);
/* If the folder was deleted. The lock is held. */
void metrics_make_again(struct metrics *metrics);

#endif

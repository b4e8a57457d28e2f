/* verify_read.h - reads what a run writes of itself: job.json, and a line of metrics.jsonl. verify.h says what they
 * mean. */
#ifndef NODE_VERIFY_READ_H
#define NODE_VERIFY_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/why.h"

enum { VERIFY_LINE_MAX = 4096, VERIFY_JOB_MAX = 1 << 18, VERIFY_PARTS_MAX = 16 };

struct verify_job {
    char run[512]; /* its name */
    uint64_t job;  /* hash */
    uint64_t seed, train, batch, steps, local_steps;
    uint64_t span, warmup; /* as in struct metrics_job */
    uint64_t begun;        /* steps before the first one, of another run: train.from */
    uint64_t data, from;   /* hashes of the data and of model.from or train.from; 0: none */
    unsigned shards;
    uint64_t part[VERIFY_PARTS_MAX]; /* the last steps of parts, rising: config_parts.h */
    size_t part_count;
};

/* One step as a node reports it. */
struct verify_line {
    uint64_t step, epoch, first, samples;
    uint64_t coverage, shards; /* bitmaps: shards counted, shards computed by this node */
    unsigned stages;           /* of the plan; 1: the model is not divided */
    uint64_t mine;             /* stages through which this node computed its shards, bitmap */
    uint64_t rows, ledger, state_hash, plan;
    uint64_t peers;
    double loss, accuracy; /* NaN: none */
    double clipped;        /* elements that did not fit in the codec; below 0: it says nothing */
    bool skipped;          /* its gradient was not finite */
    bool
        evaluation; /* of no sample: it tells of the evaluation of the state after this step alone */
    bool tested;    /* the state after it was evaluated: */
    double test_loss, test_accuracy;
};

struct json_t;
/* The object in a text of JSON, the caller's to release; NULL with `why` if it is none, or more than `most` bytes. */
struct json_t *verify_object(const char *text, size_t size, size_t most, struct why *why);
/* An object that is read key by key. */
struct verify_reading {
    const struct json_t *object;
    const char *wrong; /* the first key that is missing or of another kind; NULL: none is */
    bool unknown;      /* there is a key that is not known */
};
uint64_t verify_number(struct verify_reading *reading, const char *name); /* whole, 0.. */
/* A number, or null: NaN. */
double verify_figure(struct verify_reading *reading, const char *name);
/* Sets `unknown` if a key is none of these, which have | between them. */
void verify_keys(struct verify_reading *reading, const char *keys);
/* So many hexadecimal digits; else "". */
const char *verify_hex(struct verify_reading *reading, const char *name, size_t digits);
/* Writes what is wrong, if anything is: returns 0 or -EBADMSG. */
int verify_reading_end(const struct verify_reading *reading, struct why *why);
/* Reads the object of a job.json. Returns 0, or -EBADMSG with `why`. */
int verify_read_job(struct verify_job *out, const struct json_t *object, struct why *why);
/* Reads a line of metrics.jsonl. Returns 0, or -EBADMSG with `why`. */
int verify_read_line(struct verify_line *out, const char *text, size_t size, struct why *why);

#endif

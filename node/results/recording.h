/* recording.h - which pieces of a step a node computed, and when: the file DIR/pieces.jsonl, for meshnode check
 * --timeline.
 *
 * Of a model in stages (mesh/core/pipeline/schedule.h). A line of JSON is about one step:
 *
 *     {"step":40,"job":"89..","plan":"3f..","node":"77..","name":"pc1","members":2,"stages":2,"begin_us":123,
 *      "end_us":456,"pieces":[["F",0,3,120,240],["I",0,3,260,300]]}
 *
 * A piece is its kind (F forward, B back, I gradient of the input, W of the weights, T tail), stage, shard, begin and
 * end. Pieces are in their order. Begin and end count from begin_us, when the node had the state before the step; by
 * end_us it had the sum of all nodes. Both are microseconds of the monotonic clock, which all processes of a machine
 * share, and no two machines do.
 *
 * All nodes record the same steps: those whose number has at most four significant binary digits, 1 to 16, then 18, 20
 * .. 32,
 * 36 .. 64 and so on. So the newest one is at most an eighth of the run ago, and the file stays small. A step is left
 * out if another plan came in the middle of it. Nothing depends on what is recorded. Only recording_new allocates. */
#ifndef NODE_RECORDING_H
#define NODE_RECORDING_H

#include "mesh/core/pipeline/steptime.h"
#include "proto/why.h"

#define RECORDING_FILE "pieces.jsonl" /* its name in the folder of a run */

enum {
    RECORDING_PIECES_MAX = STEPTIME_PIECES_MAX + 1, /* and the tail */
    RECORDING_FILE_MAX = 1 << 26,                   /* bytes of a file that is read */
};

struct recorded {
    uint64_t step, job, plan, node; /* job and plan: hashes; node: its id */
    char name[PROTO_NAME_MAX];      /* of the node, printable; "" nameless */
    unsigned members, stages;       /* of the plan */
    uint64_t begin_us, end_us;
    struct steptime_piece *pieces; /* times from begin_us on; `member` is the reader's */
    size_t count;
};

/* What a node did of a round. */
struct recording_times {
    uint64_t round_us; /* since it had the state before it */
    uint64_t busy_us;  /* with pieces */
    uint64_t waits_us; /* with none, until the last piece is computed */
};

/* --- Writing ------------------------------------------------------------------------------------ */

struct recording;

/* For plans of at most so many stages. Returns 0 or -ENOMEM. */
int recording_new(struct recording **out, unsigned stages, unsigned shards);
void recording_destroy(struct recording **recording);
/* Here is the state before a round. What was recorded so far is void. */
void recording_begin(struct recording *recording, uint64_t now_us);
/* A piece was computed, under the plan of this hash. Pieces come one after the other. */
void recording_piece(struct recording *recording, const struct schedule_piece *piece, uint64_t plan,
                     uint64_t begin_us, uint64_t end_us);
/* Of the round until now_us, when its sum is complete, whatever plans there were. */
struct recording_times recording_times(const struct recording *recording, uint64_t now_us);
/* The sum is complete; begin_us and pieces of `step` are ours. Returns its line, valid until the next call, with a line
 * break; NULL: the step is not to be recorded. */
const char *recording_end(struct recording *recording, const struct recorded *step, size_t *size);

/* --- Reading ------------------------------------------------------------------------------------ */

/* Is this step one of those that all nodes record? */
bool recording_has(uint64_t step);
/* Reads a line, without its line break. pieces[RECORDING_PIECES_MAX] of `out` is the caller's. Returns 0, or -EBADMSG
 * with `why`. */
int recording_read(struct recorded *out, const char *text, size_t size, struct why *why);

#endif

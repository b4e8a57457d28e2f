/* memory.h - what a node needs, part by part, and how it makes do with train.memory_max.
 *
 * When all does not fit, first fewer shards are computed at a time, one after the other with the same memory, though
 * no fewer than there are threads; then states, the checkpoint's copy and what is kept for others go to a file that
 * the kernel writes to when memory is short (as optimiser state and activations do in GeePS: Cui et al., EuroSys
 * 2016); then shards are computed down to one at a time. The result is the same each time. */
#ifndef NODE_MEMORY_H
#define NODE_MEMORY_H

#include "node/config.h"
#include "node/job.h"

struct memory {
    /* Bytes. */
    uint64_t program, data, weights, slots;
    uint64_t from;  /* weights of model.from, kept for when the state is lost */
    uint64_t sums;  /* gradients, their sums and what of them is on its way */
    uint64_t rest;  /* of a state */
    uint64_t shard; /* activations of one */
    uint64_t walk;  /* parameters and gradient of one, with train.local_steps */
    uint64_t team;  /* what threads that share out one shard need beside them */
    uint64_t log;   /* sums that are kept for nodes that catch up; only while one does */
    uint64_t most;  /* train.memory_max; 0: none */
    /* What is chosen: */
    unsigned lanes; /* shards computed at a time */
    bool spilled;   /* states and log are in a file */
};

/* Returns 0, or -ENOMEM with one line in `why` when it does not fit. */
int memory_plan(struct memory *memory, const struct config *config, const struct job *job,
                char *why, size_t why_size);
uint64_t memory_total(const struct memory *memory);
uint64_t memory_file(const struct memory *memory); /* bytes of the file; 0 without */
/* A table for people. */
void memory_print(const struct memory *memory, const struct config *config);

/* Memory of a file without a name in `dir`, which gets its room on the disk here. A disk that cannot be read later ends
 * the process (SIGBUS), as if the machine had failed; what it reads wrong, the hash of the state finds. */
struct spill {
    uint8_t *base;
    size_t size, used;
};
/* -EINVAL when `dir` is no place for it. */
int spill_open(struct spill *spill, const char *dir, uint64_t size, char *why, size_t why_size);
void *spill_take(struct spill *spill,
                 size_t size); /* zeros; never more in all than spill_open had */
void spill_close(struct spill *spill);

#endif

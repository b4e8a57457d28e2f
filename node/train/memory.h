/* memory.h - how much memory a node needs, part by part, and how it keeps within train.memory_max.
 *
 * If not everything fits, the node first computes fewer shards at a time, one after the other in the same memory,
 * but not fewer than it has threads. Then states, the checkpoint's copy and what is kept for others go to a file,
 * which the kernel writes to when memory is short (GeePS does this with optimizer state and activations: Cui et
 * al., EuroSys 2016). Then it computes even fewer shards, down to one at a time. The result is always the same.
 *
 * With mesh.stages, what does not fit even then may be divided: the node holds the segments (stages.h) that it has room
 * for, and computes one stage of the model. mesh.mirror = no has it so from the beginning. */
#ifndef NODE_MEMORY_H
#define NODE_MEMORY_H

#include "compress/exact.h"
#include "node/job/config.h"
#include "node/train/job.h"
#include "proto/why.h"

struct memory {
    /* Bytes. */
    uint64_t program, data, weights, slots;
    uint64_t sums; /* gradients, their sums, and those being sent */
    uint64_t kept; /* contributions of others that a server may have to keep */
    uint64_t
        left; /* with a codec that has a memory: feedback.h, and the state in which a span began */
    uint64_t rest;  /* the rest of a state */
    uint64_t model; /* the weights once more, as model.safetensors is written from them */
    uint64_t shard; /* activations of one shard */
    uint64_t
        stage; /* with mesh.stages: of the largest one, beside the activations of whole shards */
    uint64_t local;  /* parameters and gradient of one shard, with train.local_steps */
    uint64_t gossip; /* what a replica needs on top: its values, flows, and what a step changed */
    uint64_t told;   /* of it, with a codec: what neighbours know, of as many as a graph may have */
    uint64_t log;    /* sums for nodes that catch up; only while one does. Free modes: none */
    uint64_t log_file; /* room for them in a file */
    uint64_t most;     /* train.memory_max; 0: no limit */
    unsigned states;   /* copies of the state, the one that is trained included */
    /* For people: what copies of the state there are, what gradients, and of what the shards are. */
    const char *copies, *gradients, *of;
    /* With so many shards at a time: activations of them all, and what threads need that share the work on them. */
    uint64_t pass[EXACT_SHARDS_MAX + 1], team[EXACT_SHARDS_MAX + 1];
    /* The choice: */
    unsigned lanes;      /* shards computed at a time, */
    unsigned lanes_most; /* and how many there ever are */
    bool spilled;        /* states and log are in a file */
    /* With mesh.stages: */
    uint64_t
        segment[PROTO_STAGES_MAX]; /* all copies of one: states, gradients, sums kept for others */
    size_t segments;
    uint64_t room; /* for segments, beside the rest; at most all of them */
    bool
        part; /* the node holds some, as the mesh says; the fields above are then of a whole node */
};

/* Returns 0, or -ENOMEM with one line in `why` when it does not fit. */
int memory_plan(struct memory *memory, const struct config *config, const struct job *job,
                struct why *why);
/* The same for a part of the model, of a job with mesh.stages, in so many bytes. */
int memory_plan_part(struct memory *memory, const struct config *config, const struct job *job,
                     uint64_t most, struct why *why);
/* Has this machine or container what the plan needs? Of a job with mesh.stages a node that has less holds a part.
 * Returns 0, or -ENOMEM with `why`. */
int memory_machine(struct memory *memory, const struct config *config, const struct job *job,
                   uint64_t has, uint64_t swap, struct why *why);
/* Both, of this machine. */
int memory_here(struct memory *memory, const struct config *config, const struct job *job,
                struct why *why);
/* Bytes of a node that holds these segments: after memory_plan_part. */
uint64_t memory_part(const struct memory *memory, uint64_t segments);
/* Its share of the sums that are kept for others. */
uint64_t memory_part_log(const struct memory *memory);
/* Bytes of these segments. */
uint64_t memory_segments(const struct memory *memory, uint64_t segments);
/* Nodes of an estimate: mesh.peers, or an example. */
size_t memory_nodes(const struct config *config);
uint64_t memory_total(const struct memory *memory);
enum { MEMORY_TEXT = 32 };
/* "1.5 GiB": in the unit that fits. */
void memory_text(char out[MEMORY_TEXT], double bytes);
uint64_t memory_file(const struct memory *memory); /* bytes of the file; 0 if there is none */
/* Bytes that a run surely touches: less cannot be enough. */
uint64_t memory_least(const struct memory *memory);

/* Of one of k stages, the layers [first, end): activations of as many shards as mesh.schedule keeps. */
uint64_t memory_stage(const struct config *config, const struct job *job, unsigned k,
                      unsigned stage, size_t first, size_t end);
/* How many stages mesh.stages means. auto: as many as it takes until the activations of each fit into train.memory_max
 * beside all the rest; 1 where those of the whole model do; the most there can be where none fit. Returns 0: not enough
 * memory to say so. */
unsigned memory_stages(const struct config *config, const struct job *job);

/* From here on mesh.stages = auto is a number, also for nodes that get the job from this one. Returns 0 or -ENOMEM with
 * `why`. */
int memory_settle_stages(struct config *config, struct job *job, struct why *why);

/* Prints a table for people. */
void memory_print(const struct memory *memory, const struct config *config);

/* Memory in a file without a name in `dir`; its space on the disk is reserved here. If the disk cannot be read
 * later, the process ends (SIGBUS), as if the machine had failed. If it reads wrong data, the hash of the state
 * finds it. */
struct spill {
    uint8_t *base;
    size_t size, used;
};
/* Returns -EINVAL if `dir` cannot be used for this. */
int spill_open(struct spill *spill, const char *dir, uint64_t size, struct why *why);
void *spill_take(struct spill *spill, size_t size); /* zeros; in all at most what spill_open had */
void spill_close(struct spill *spill);

#endif

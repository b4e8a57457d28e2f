/* push.h - what the files of the simulated engine push share: push.c has the trainer, push_replay.c computes a run
 * again from its journal, push_judge.c judges. The journal is what the trainers of all nodes noted, those that died
 * included. */
#ifndef SIM_PUSH_H
#define SIM_PUSH_H

#include "mesh/core/push/push.h"
#include "tests/sim/engine.h"

enum {
    SIM_TICKETS_MAX = 1024,
    SIM_RANGES_MAX = 4,
    SIM_TAKEN_MAX = 1 << 15, /* records of a schedule */
    SIM_COMPUTED_MAX = 1 << 13,
};

/* A range as a worker sees it. */
struct sim_push_value {
    uint64_t params;
    uint64_t taken[SIM_TICKETS_MAX / 64]; /* a set of tickets */
    uint64_t twice;                       /* one that it has taken again, plus one */
};

static inline bool
sim_push_has(const struct sim_push_value *value, uint64_t ticket)
{
    return value->taken[ticket / 64] >> ticket % 64 & 1;
}

/* And as its owner and backup hold it. */
struct sim_push_copy {
    struct sim_push_value value;
    uint64_t optimizer;
    uint32_t pending; /* gradients since the last update */
};

/* A checkpoint, as a node's disk has it. */
struct sim_push_file {
    bool there;
    uint64_t tickets, taken[SIM_RANGES_MAX], history[SIM_RANGES_MAX];
    struct sim_push_copy range[SIM_RANGES_MAX];
};

struct sim_push_node {
    struct sim_push_copy held[SIM_RANGES_MAX];
    struct sim_push_value read[SIM_RANGES_MAX];
    uint64_t computed[SIM_RANGES_MAX], gradient[SIM_RANGES_MAX];
    unsigned computes;
    bool finished;
    uint64_t lost;                  /* tickets, it says */
    uint64_t final[SIM_RANGES_MAX]; /* histories */
    struct sim_push_file snapshot;  /* what has come of it */
    bool ends, ends_saved;          /* it was told to end, and may; */
    uint64_t end_from;              /* then, no ticket from this one on was leased */
};

struct sim_push_computed {
    struct proto_node who;
    uint64_t number, ticket;
    uint64_t history[SIM_RANGES_MAX];
};

struct sim_push_record {
    struct push_taken taken; /* restored: only range, before and after count */
    bool restored;
    uint64_t hash; /* of the bits after it */
    bool known;    /* state is what a replay made of it */
    bool final;    /* it is in the model that is judged */
    struct sim_push_copy state;
};

struct sim_push {
    struct push_config config;
    struct push_size size[SIM_RANGES_MAX];
    struct sim_push_node node[SIM_NODES_MAX];
    struct sim_push_file disk[SIM_NODES_MAX];
    struct push_saved begin; /* of the node that starts */
    struct sim_push_record record[SIM_TAKEN_MAX];
    size_t records;
    struct sim_push_computed computed[SIM_COMPUTED_MAX];
    size_t computeds;
    bool lost;    /* a core said that tickets were lost */
    bool hostile; /* some members say anything: only that nobody falls is judged */
    bool
        single; /* at most one node was taken away, or some were starved for a moment: nothing may be lost */
    bool power; /* or all at once */
    /* The trainer of this node hangs when it has computed so often, for so long (UINT64_MAX: for ever). */
    unsigned hangs, hangs_after;
    uint64_t hangs_us;
    /* These nodes are told to end, as with Ctrl-C: bitmap; those that were; after so many tickets; and when that
     * was. */
    unsigned end, told;
    bool end_calm; /* nothing else happens */
    uint64_t end_ticket, end_us;
    /* No ticket from this one on was leased, as far as those knew who have ended. */
    uint64_t left_end;
};

extern struct sim_push *sim_push_run; /* of the present schedule */

uint64_t sim_push_gradient(uint64_t ticket, unsigned range, const uint64_t *params,
                           unsigned ranges);
void sim_push_apply(struct sim_push_copy *copy, const struct push_taken *taken, uint64_t gradient);
uint64_t sim_push_hash(const struct sim_push_copy *copy);

/* push_replay.c: NULL, or what went wrong. Sets the final parameters of each range. `closed`: what is in the model was
 * computed only from what is in it. */
const char *sim_push_replay(struct sim_push *push, const uint64_t *final, bool closed,
                            uint64_t *params);

/* push_end.c: which nodes are to be told to end; that is done, and they do. */
void sim_push_end_plan(struct sim *sim);
void sim_push_end(struct sim *sim, struct sim_node *node);
/* As in struct core_trainer. */
void sim_push_ended(void *ctx, bool saved);

/* push_hostile.c: maybe this node is told something. */
void sim_push_hostile(struct sim *sim, struct sim_node *node);

/* push_judge.c */
/* Does this node's trainer hang for ever? Then it has nothing to say in the end. */
bool sim_push_hangs(const struct sim_node *node);
void sim_push_judge_compute(struct sim *sim, const struct sim_node *node, uint64_t ticket);
void sim_push_judge_taken(struct sim *sim, const struct sim_node *node,
                          const struct push_taken *taken, const struct sim_push_copy *after);
void sim_push_judge_event(struct sim *sim, struct sim_node *node, const struct sim_event *event);
void sim_push_judge_snapshot(struct sim *sim, const struct sim_node *node,
                             const struct sim_push_file *snapshot);
bool sim_push_done(const struct sim *sim);
void sim_push_judge_end(struct sim *sim);

#endif

/* rounds_state.h - the state of a node in rounds: what the mesh is told of it, to which older one it goes back when it
 * is wrong, and how it gets the rest of the last one for its files. For way_rounds.c. */
#ifndef NODE_ROUNDS_STATE_H
#define NODE_ROUNDS_STATE_H

#include "node/train/choice.h"
#include "node/train/stages_mesh.h"
#include "node/train/train_internal.h"

/* run->record in rounds. */
struct rounds_run {
    uint64_t round;           /* of the state that the mesh was told */
    bool damaged;             /* the state has changed in memory */
    uint64_t reported;        /* the last round in metrics.jsonl */
    bool before;              /* run->next is the state that the present one was made from */
    int32_t *scratch;         /* [vector] for audits, else NULL */
    struct state_event event; /* of the round that leads to run->next */
    bool early;               /* run->next may be built bucket by bucket */
    uint64_t shards;          /* shards computed here for the present round, as a whole */
    double caught_at;         /* when it was said that this node caught up; 0: never */
    bool no_data;             /* the data cannot be read any more */
    bool no_room;             /* it leaves: there is no memory, or the first state cannot be read */
    struct stages_mesh stages;        /* with mesh.stages */
    uint64_t parts[PROTO_STAGES_MAX]; /* of the present state, as the mesh was told */
    uint64_t computes;                /* shards of the running task */
    bool known;                       /* what this node holds */
    uint64_t missing;                 /* segments that run->gather has not got */
    /* of the steps in stages; NULL: there are none */
    struct recording *recording;
    /* With spans: the state in which the present span began, to go back to, and its hash; 0: this
     * node did not have it; and steps since the last state that may be written as a checkpoint */
    struct state span_start;
    uint64_t span_start_hash;
    uint64_t span_steps; /* of the present span, of which this node computed shards */
    uint64_t unsaved;
    double residual_norm; /* of the last step of a span: what had waited until it */
    double wait_s;        /* the least in a step with others */
    struct choice part;   /* what this node computed of a model in stages */
    /* what a shard takes without a codec, 0: none was computed as a whole; and to apply a sum */
    double shard_s, apply_s;
    double alone_s,
        alone_at; /* what a step took this node alone without a codec; when the last one ended; or 0 */
    double span_at;            /* when the codec was chosen or judged last, */
    uint64_t span_step;        /* and before which step */
    unsigned summed;           /* shards of the last step in own; 0: nothing of it */
    int32_t cost[CODEC_COSTS]; /* of the round in which a codec is chosen */
    bool told;                 /* what auto took was said */
    unsigned spans_again;      /* how often that was necessary */
    uint64_t replayed;         /* steps computed again so far, as shards of a span were gone */
};

/* Skipped steps, as the state counts them. */
void rounds_count_skips(struct run *run);

/* May nodes hold parts of the model? Then states go by their names, and the last bucket says what each part is. */
static inline bool
rounds_in_parts(const struct run *run)
{
    return run->job.ledgers > 1;
}

/* The present state is run->state, of this hash: the mesh is told. */
void rounds_announce(struct run *run, uint64_t hash);
/* Segments of the last state came, for the files of a node that is done; or nobody has them. */
void rounds_take_part(struct run *run, const struct mesh_task *task);

/* What was computed from the state counts only if that has not changed since: nothing is final before the last bucket.
 * Gradients do not depend on the slots of the optimizer. Each step looks at these when it uses them. */
bool rounds_computed_soundly(struct run *run);
/* The state has changed in memory. What is told of it counts no more; the others go on without it, and have what is
 * needed to catch up. */
void rounds_recover(struct run *run);
/* Other nodes hold another state before this round, or held another one before a round long ago: `wrong`. Or shards of
 * this span are gone, or nobody has a part of the model so late. */
void rounds_retreat(struct run *run, uint64_t round, bool wrong);
/* True: the data cannot be read, and this node leaves. What was computed is not handed over, as nothing is final before
 * the last bucket; the others go on without it. */
bool rounds_give_up(struct run *run);
/* This node cannot go on. */
void rounds_stop(struct run *run, const char *why);

#endif

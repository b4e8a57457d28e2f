/* gossip.h - the engine "gossip": each node trains its own replica, and neighbours average theirs.
 *
 * The values of a node are whole numbers (gossip_flow.h), divided into *parts* of config.chunk_elems. Everything happens part
 * by part. What moves is a flow. The taker asks for it, and the giver answers:
 *
 *     taker                                              giver
 *       ASK n, part, its values of the part ---------->    n = given + 1: flow from both values; takes it away from its own
 *       adds it: n = taken + 1           <---------- FLOW n
 *       ASK "taken n"                    ---------->    forgets the flow
 *
 * Each link (giver, taker; both incarnations) numbers the flows of each part. The giver keeps a flow until the taker has
 * it. So a flow is applied at both ends or at neither, and what comes twice is recognised by its number. When a session
 * is back, the taker asks "what became of n?" (SETTLE), and the giver sends the flow again, or a *void* one: n was not
 * given, and never will be. A giver has room for as many flows as a model has parts. When it needs the place of one whose
 * taker has no session, this one is lost, as if the taker had died, and void from then on. A flow belongs to the taker as soon as the giver has given it: with a node dies what it had,
 * and what was on its way to it. The sum over all nodes changes by nothing else.
 *
 *     average, bsp     D-PSGD (Lian et al., NIPS 2017): x_i <- sum_j W_ij x_j - update. In each *phase* of a plan a node
 *                      exchanges with its neighbours and computes meanwhile, both from the values at the beginning
 *     average, async   AD-PSGD (Lian et al., ICML 2018): one neighbour at a time is asked for half of the difference. It
 *                      answers at once, and nobody waits to compute
 *     push-sum, bsp    SGP (Assran et al., ICML 2019): directed; an ASK has no values, and the flow has a weight
 *
 * A plan says who has which rank (gossip_plan.c). The status of a node:
 *
 *     START --values--> NEW --a plan--> TRAINING --all steps done--> FROZEN --all are--> QUIET --+--> ENDING --> DONE
 *                        |                 ^                                                    |
 *                        +--> JOINING -----+                       the leader sums all copies --+-- others copy its result
 *                     others are ahead
 *
 * Checkpoints. Now and then the leader says a *snapshot*. All members stop to compute, as at the end of the run, and come to rest;
 * when all are, nothing is under way, and each has its journal on the disk and saves its own values. When all have, the leader makes another plan, and
 * they go on. So the values of one snapshot fit together to the last unit. When a member is lost meanwhile, the plan ends, and
 * all go on; who has saved keeps it. Nodes that begin with one snapshot go on together; with an older one, a node joins.
 *
 * Who joins copies a neighbour's values; with push-sum it begins with values and weight 0. At the end the leader adds up
 * exact copies of all members and divides by the weights. This is the model; the others copy it (gossip_copy.c).
 *
 * The files: gossip_graph.c who with whom; gossip_flow.c the arithmetic; gossip_link.c links and taking; gossip_give.c
 * giving; gossip_settle.c what is under way; gossip_count.c how much all have computed; gossip_wait.c who does not
 * answer; gossip_copy.c copies; gossip_plan.c ranks; gossip_snapshot.c checkpoints; gossip_run.c phases, and the status of a node;
 * gossip_engine.c the engine's table. */
#ifndef MESH_GOSSIP_H
#define MESH_GOSSIP_H

#include "mesh/core/gossip/gossip_flow.h"
#include "mesh/core/gossip/gossip_graph.h"
#include "mesh/core/sessions/clock.h"
#include "mesh/core/sessions/peers.h"

enum {
    GOSSIP_LINKS = PROTO_PEERS_MAX, /* nodes with which flows were exchanged, and still may be */
    GOSSIP_PASTS = 16,              /* plans that are over and remembered */
    GOSSIP_SLOTS_MIN = 8,           /* flows that are kept at a time, at least; else one per part */
    GOSSIP_WINDOW = 8,              /* parts that a taker asks a giver for at a time */
    GOSSIP_KEPT_MAX = 16,          /* early ASKs whose values are kept until they can be answered */
    GOSSIP_VOID_US = 20000,        /* after a void flow, the next ASK waits so long */
    GOSSIP_RETRY_US = 300000,      /* an ASK without an answer is settled after this time, */
    GOSSIP_RETRY_MAX_US = 8000000, /* then after twice the time, and so on */
    GOSSIP_PATIENCE_US =
        400000,          /* a member that owes something is silent for so long: it is left out, */
    GOSSIP_SLOW_MAX = 7, /* or, if it did answer later, for so many times twice as long, at most */
    GOSSIP_OUT_US = 1000000,      /* first for so long, */
    GOSSIP_OUT_MAX_US = 60000000, /* then for twice the time, and so on */
    GOSSIP_STARTS = 128,          /* starts of nodes whose counts are remembered */
    GOSSIP_HUNG_US = 2000000,     /* a member computes for so long, beside four steps: it hangs */
    GOSSIP_SNAPSHOT_MAX_US = 60000000, /* who does not come to rest in this time goes without, */
    GOSSIP_END_US = 4000000,           /* and who is told to end, in this time; */
    GOSSIP_WANTED_US = 500000,         /* not sooner after the last one, whoever asks */
};
/* Instead of the name of a snapshot: the member is told to end, and wants one. */
#define GOSSIP_SNAPSHOT_WANTED UINT64_MAX

/* What happened to the values, for the journal: told before any message says so. With the job, these are enough to
 * compute the run again. */
enum gossip_event {
    GOSSIP_BEGAN = 2, /* the values are those of the trainer; `weight`: of each part */
    GOSSIP_READ, /* the trainer was given the values, to compute `step` with `shards`; `part`: rank of `number` */
    GOSSIP_UPDATED, /* its update was added */
    GOSSIP_PHASE, /* the values now are those that this phase exchanges; `part`: rank of `number` */
    GOSSIP_ASKED, /* flow `number` of `part` was asked for; values went to `peer` */
    GOSSIP_GAVE,  /* flow `number` of `part` was given: one part in `share` */
    GOSSIP_LOST,  /* flow `number` was given, and is kept no longer: its taker is away */
    GOSSIP_TOOK,  /* it was taken */
    GOSSIP_COPIED, /* `peer` got a copy of `part`; `number` counts the copies, `share` is the kind of the ASK */
    GOSSIP_GOT,     /* its copy came */
    GOSSIP_ADOPTED, /* all copies of a joiner have come, and are its values now; `step`, `total` */
    GOSSIP_MEAN_BEGAN, /* the values as int32 are what the copies are added to */
    GOSSIP_MEAN_VOID,  /* the last mean is not made: the values are as before */
    GOSSIP_MEAN,       /* the copies of the last mean are complete: this is the result */
    GOSSIP_RESULT,     /* the copies of a result are complete */
    GOSSIP_SAVED,      /* the values are saved as those of snapshot `number` */
};

struct gossip_note {
    enum gossip_event event;
    struct proto_node peer;
    uint64_t link, number;
    uint64_t plan, phase;
    uint64_t step, shards, total;
    uint32_t part, share;
    int64_t weight;
    const int32_t *body; /* GAVE: the flow [count]; borrowed; else NULL */
    size_t count;
};

/* What a start of a node has computed: one node is another one after each start. */
struct gossip_start {
    struct proto_node node;
    uint64_t units; /* shards; 0: unused */
};

/* What a checkpoint has of the values. */
struct gossip_saved {
    uint64_t snapshot, step, total;    /* as in struct gossip */
    const int64_t *values;             /* [count] */
    const int64_t *weight;             /* [parts] */
    const struct gossip_start *starts; /* [GOSSIP_STARTS + 1] with that of the node that saves */
};

/* Who keeps journal and checkpoints, beside struct core_trainer: it answers at once. Called from within core_on_*, none may
 * call the core. */
struct gossip_keeper {
    void (*note)(void *ctx, const struct gossip_note *note); /* NULL: nobody keeps a journal */
    /* trainer->compute follows: the parts of the values in `sum` have these weights, which stay as long as the values do. NULL:
     * nobody asks. */
    void (*weigh)(void *ctx, const int64_t *weight);
    /* Save this, and the trainer's own state: it computes nothing meanwhile. NULL: nobody saves. Before, it is asked, again and
     * again, whether what it noted so far is on the disk. NULL: yes. So when flows are noted after `save`, what all members
     * noted is, or some went without. */
    bool (*synced)(void *ctx);
    void (*save)(void *ctx, const struct gossip_saved *saved);
};

struct gossip_config {
    const struct gossip_keeper *keeper;
    void *keeper_ctx;
    enum gossip_kind graph;
    bool push_sum;
    bool async;          /* average only */
    uint64_t steps;      /* of the run: it ends when so many were done, of all shards together */
    size_t count;        /* values: the first elements of own and sum; >= 1 */
    uint64_t save_every; /* steps between checkpoints; 0: by time */
    const struct gossip_saved
        *saved; /* begin with this; NULL: with what is in own. Borrowed until core_on_applied */
};

enum gossip_status {
    GOSSIP_START,
    GOSSIP_JOINING,
    GOSSIP_NEW, /* it has values, and nobody has computed anything */
    GOSSIP_TRAINING,
    GOSSIP_FROZEN,
    GOSSIP_QUIET,
    GOSSIP_ENDING, /* the trainer has the result */
    GOSSIP_DONE,
    GOSSIP_STATUSES,
};

/* Was this node told to end? */
enum gossip_end {
    GOSSIP_GOES_ON,
    GOSSIP_ENDS,       /* yes: it wants a snapshot, */
    GOSSIP_ENDS_SAVED, /* and has one: when that is over, it begins nothing any more */
};

/* One part of a link. */
struct gossip_part {
    /* as taker */
    uint64_t taken;               /* flows so far, void ones too */
    bool open;                    /* flow taken + 1 was asked for */
    uint64_t plan, phase;         /* for this phase */
    bool got;                     /* the last one that was not void was */
    uint64_t got_plan, got_phase; /* for this phase */
    /* as giver */
    uint64_t given;
    uint64_t gave_plan, gave_phase; /* the last one that was not void was for this phase */
    int slot;                       /* where flow `given` is kept; -1: it is not */
    bool nothing;                   /* flow `given` was void */
    bool fresh;              /* the link is new to us: the first ASK says how many were given */
    bool waits;              /* an ASK waits, */
    struct proto_ask ask;    /* this one, */
    struct core_frame frame; /* with the taker's values; handle NULL: it has none */
};

struct gossip_link {
    struct proto_node node; /* id 0: unused */
    uint64_t mine, theirs;  /* numbers of the link where we take, and give: they rise */
    struct awake used_at;
    struct awake retry_at; /* when what is under way is settled */
    uint64_t retry_us;
    struct awake ask_at;     /* no ASK before, since the last answer was a void flow */
    struct awake heard_at;   /* when something came of it that counts */
    struct awake owes_since; /* it owed nothing until then */
    struct awake out_until;  /* it is left out, */
    uint64_t out_us;         /* for so long */
    struct awake out_at;     /* when that began */
    unsigned slow;           /* so often it was only slow: the next time waits twice as long each */
    struct gossip_part *parts; /* [part_count] */
};

struct gossip_slot {
    bool used;
    unsigned share; /* one part in so many */
    struct proto_flow head;
    int32_t *flow; /* [chunk_elems] */
};

/* What a peer last said of itself. */
struct gossip_peer {
    bool known;   /* in this session */
    bool refused; /* what it said could not be */
    struct proto_replica said;
};

struct gossip_plan {
    bool active;
    struct proto_plan now;
    uint64_t hash;
    unsigned rank;
    uint64_t past[GOSSIP_PASTS];
    unsigned past_next;
    uint64_t counter, plans, aborts;
    struct awake idle_at; /* without a plan since */
    struct awake adopted_at;
    struct awake told_at; /* when the plan was last sent */
};

enum gossip_fetch {
    GOSSIP_FETCH_NONE,
    GOSSIP_FETCH_VALUES,
    GOSSIP_FETCH_RESULT,
    GOSSIP_FETCH_MEAN
};

/* Parts that one donor was asked for. */
struct gossip_donor {
    uint32_t next, under; /* the next one to ask for, and how many are under way */
};

/* Copies under way to this node. */
struct gossip_copy {
    enum gossip_fetch what;
    struct proto_node from;                  /* VALUES, RESULT */
    uint64_t plan;                           /* MEAN: with its members */
    uint64_t *got;                           /* [part_count] MEAN: bitmap of ranks; else 1 */
    struct gossip_donor of[PROTO_PEERS_MAX]; /* MEAN: by rank; else the first one */
    uint64_t left;                           /* parts */
    struct awake retry_at;
    uint64_t retry_us;
    uint64_t sent;        /* copies that this node has sent, */
    struct awake sent_at; /* the last one */
};

struct gossip {
    enum gossip_status status;
    uint64_t step;         /* the next one here */
    uint64_t units, total; /* shards computed here, and by all as far as known */
    uint64_t base; /* before all starts that count: by those that this node's values come from */
    struct gossip_start starts[GOSSIP_STARTS + 1]; /* other ones; the last: this one, as saved */
    unsigned start_next;                           /* to be told */
    uint64_t result;                               /* its hash */
    uint64_t begun;                                /* `total` when this node began */
    /* Checkpoints: the one that this node rests for, 0: none; the last one; how far the mesh was then, and when; since
     * when the leader waits for one, and how long it did. */
    uint64_t snapshot, saved, saved_step;
    struct awake saved_at, snapshot_at;
    uint64_t snapshot_us;
    size_t part_count;
    int64_t *values;             /* [count] */
    int64_t *weight, *weight_at; /* [part_count] now, and when `sum` was read */
    struct gossip_link links[GOSSIP_LINKS];
    struct gossip_part *parts; /* of all links */
    struct gossip_slot *slots;
    size_t slot_count;
    int32_t *flows, *scratch; /* of all slots; [chunk_elems] */
    uint64_t link_next;
    unsigned kept; /* frames */
    struct gossip_peer of[PEERS_MAX];
    struct gossip_plan plan;
    struct gossip_copy copy;
    bool on; /* a phase runs */
    uint64_t phase;
    uint64_t takes, gives;           /* ranks */
    uint64_t takes_left, gives_left; /* parts */
    bool computing;
    uint64_t shards; /* of the present compute */
    struct awake compute_at;
    uint64_t compute_us;
    struct proto_node partner; /* async: whom we ask now; id 0: nobody */
    bool due;                  /* async: there was an update since the last exchange */
    double distance,
        square; /* root mean square difference from neighbours; sums for the next one */
    uint64_t square_count;
    uint64_t shared;  /* flows given or taken */
    uint64_t lost;    /* flows to nodes that were away, whose place was needed */
    uint64_t damaged; /* messages with a wrong check */
    uint64_t without; /* id of the node that this one leaves out; 0: nobody */
    uint64_t told_plan, told_snapshot, told_saved, told_without;
    enum gossip_status told_status;
    enum gossip_end ends;
    bool ended; /* the trainer was told */
    bool waits; /* it was said that this node is alone and has no model */
    struct awake ends_at;
};

/* Bytes that the engine holds at most for so many values, in parts of chunk_elems, with the ASKs that it keeps. */
uint64_t gossip_size(size_t count, uint32_t chunk_elems);

/* For tests: the values [config.gossip->count], and the weights of the parts. */
const int64_t *gossip_values(const struct core *core);
const int64_t *gossip_weights(const struct core *core);

/* --- gossip_link.c -------------------------------------------------------------------------------- */

/* The link with this node; it is made when there is none. */
struct gossip_link *gossip_link_of(struct gossip *g, const struct core *core,
                                   struct proto_node node);
/* Asks peers[i] for the next flow of every part that has none under way and none of this phase. */
void gossip_link_ask(struct gossip *g, const struct core *core, int i);
void gossip_link_on_flow(struct gossip *g, const struct core *core, int i,
                         const struct proto_flow *flow, const struct core_frame *frame);
/* Sends an ASK for the next flow, or about the last one. */
void gossip_link_send(struct gossip *g, const struct core *core, int i,
                      const struct gossip_link *link, size_t p, enum proto_ask_kind kind);
/* The check of an ASK or a FLOW: the linear checksum of the body (compress/check.h), mixed with the other fields. So a
 * bit that flips on the way is seen wherever it was. */
uint64_t gossip_link_check(const struct proto_msg *msg, const void *body, size_t count);
/* Sends an ASK or a FLOW with its check. */
void gossip_link_post(const struct core *core, int i, struct proto_msg *msg, const int32_t *body,
                      size_t count);
/* Is it as it was sent? */
bool gossip_link_sound(struct gossip *g, const struct core *core, int i,
                       const struct proto_msg *msg, const struct core_frame *frame);
/* A session has ended: what waits without one is dropped. */
void gossip_link_gone(struct gossip *g, const struct core *core);
/* Is anything open with this node? */
bool gossip_link_open(const struct gossip *g, struct proto_node node);
void gossip_link_end(struct gossip *g, const struct core *core); /* releases all frames */

/* The weight of the edge to this member is one part in so many. Pairs average. */
unsigned gossip_link_share(const struct gossip *g, const struct core *core, struct proto_node node);
/* An ASK that waits is dropped; a kept flow is not needed any more; a kept flow is lost, as its taker is away. */
void gossip_link_drop_waiting(struct gossip *g, const struct core *core, struct gossip_part *part);
void gossip_link_drop_kept(struct gossip *g, struct gossip_part *part);
void gossip_link_lose(struct gossip *g, const struct core *core, const struct gossip_link *link,
                      size_t p);
/* Something is under way; when nothing is heard of it for so long, it is settled. */
void gossip_link_retry_later(const struct core *core, struct gossip_link *link);

/* --- gossip_give.c -------------------------------------------------------------------------------- */

void gossip_give_on_ask(struct gossip *g, const struct core *core, int i,
                        const struct proto_ask *ask, struct core_frame *frame);
/* What waits is answered, if it can be now. */
void gossip_give_waiting(struct gossip *g, const struct core *core);
/* Sends again what the taker has not taken. */
void gossip_give_again(const struct gossip *g, const struct core *core, int i,
                       const struct gossip_link *link, size_t p);

/* --- gossip_settle.c ------------------------------------------------------------------------------ */

/* The phase is over, or will not end: what is open must be settled. */
void gossip_settle_all(struct gossip *g, const struct core *core);
/* Settles what is open with peers[i], and sends again what it has not taken. */
void gossip_settle(struct gossip *g, const struct core *core, int i);
void gossip_settle_tick(struct gossip *g, const struct core *core);

/* --- gossip_copy.c -------------------------------------------------------------------------------- */

/* Peers are asked for what is missing. Begins and ends fetches. */
void gossip_copy_step(struct gossip *g, const struct core *core);
void gossip_copy_on_ask(struct gossip *g, const struct core *core, int i,
                        const struct proto_ask *ask);
void gossip_copy_on_flow(struct gossip *g, const struct core *core, int i,
                         const struct proto_flow *flow, const struct core_frame *frame);
/* Does another node have another result, which is to be ours, too? */
bool gossip_copy_other(const struct gossip *g, const struct core *core);
/* The plan has changed: a mean that was being made is void. */
void gossip_copy_break(struct gossip *g, const struct core *core);

/* --- gossip_count.c ------------------------------------------------------------------------------- */

/* More than this cannot be computed, nor told by a node that does as it should: shards, and steps. */
uint64_t gossip_count_most(const struct core *core);
/* This start of a node says, or another one says of it, that it has computed so many shards. */
void gossip_count_hear(struct gossip *g, const struct core *core, struct proto_node node,
                       uint64_t units);
/* g->total is at least what all known starts have computed. */
void gossip_count_add(struct gossip *g);
/* The next start to tell the others of; units 0: there is none. */
struct gossip_start gossip_count_tell(struct gossip *g);
/* Where a node begins that joins now: the lower median of what those say who train. One that lies moves it only between
 * what others say. */
void gossip_count_join(const struct gossip *g, const struct core *core, uint64_t *step,
                       uint64_t *total);

/* --- gossip_wait.c -------------------------------------------------------------------------------- */

/* Who stays connected and does not answer is left out. */
void gossip_wait_tick(struct gossip *g, const struct core *core);
/* Who cannot be in a plan, by what all say: bit i is peers[i], bit PEERS_MAX this node. */
uint64_t gossip_wait_left_out(const struct gossip *g, const struct core *core);

/* --- gossip_plan.c -------------------------------------------------------------------------------- */

/* Makes, repeats or drops a plan. True: another plan, or none, is in force. */
bool gossip_plan_step(struct gossip *g, const struct core *core);
bool gossip_plan_on_plan(struct gossip *g, const struct core *core, int from,
                         const struct proto_plan *plan);
bool gossip_plan_was(const struct gossip *g, uint64_t hash); /* is it over? */
/* The first plan waits for config.peers_min nodes. */
bool gossip_plan_waits(const struct gossip *g, const struct core *core);

/* The ranks are made anew, though the members are the same. */
void gossip_plan_again(struct gossip *g, const struct core *core);

/* --- gossip_snapshot.c --------------------------------------------------------------------------------- */

/* Is it time for a checkpoint, is this node to rest for one, has it come to? True: all have saved it, and this node, which
 * leads, is to make the plan again. `trained`: this node has done its part of the run. */
bool gossip_snapshot_step(struct gossip *g, const struct core *core, bool trained);
/* The node begins with config.saved. */
void gossip_snapshot_begin(struct gossip *g, const struct core *core);
/* This node is told to end. False: it may at once. */
bool gossip_snapshot_end(struct gossip *g, const struct core *core);
/* True: it was, and it has saved a snapshot that is over, or waited long enough. The trainer is told. */
bool gossip_snapshot_ends(struct gossip *g, const struct core *core);
/* What heartbeats say: the name of the present snapshot, GOSSIP_SNAPSHOT_WANTED, or 0. */
uint64_t gossip_snapshot_say(const struct gossip *g);
/* Does a node that says this rest for a snapshot? */
static inline bool
gossip_snapshot_rests(const struct proto_replica *said)
{
    return said->snapshot && said->snapshot != GOSSIP_SNAPSHOT_WANTED;
}

/* --- gossip_run.c --------------------------------------------------------------------------------- */

/* Whatever is possible now. */
void gossip_step(struct gossip *g, const struct core *core);
/* Another plan, or none, is in force. */
void gossip_plan_changed(struct gossip *g, const struct core *core);

/* --- Small questions ------------------------------------------------------------------------------ */

static inline size_t
gossip_first(const struct core_config *config, size_t part)
{
    return part * config->chunk_elems;
}

static inline size_t
gossip_count(const struct core_config *config, size_t part)
{
    size_t rest = config->gossip->count - gossip_first(config, part);
    return rest < config->chunk_elems ? rest : config->chunk_elems;
}

/* How far apart two neighbours are, from a flow between them: a sum of squares of so many values. */
static inline void
gossip_measure(struct gossip *g, double square, size_t count)
{
    g->square += square;
    g->square_count += count;
}

/* The rank of this node in the plan, or -1. */
static inline int
gossip_rank(const struct gossip *g, struct proto_node node)
{
    for (size_t r = 0; g->plan.active && r < g->plan.now.count; r++)
        if (proto_node_equal(g->plan.now.members[r].node, node))
            return (int)r;
    return -1;
}

/* Is the other end of the link left out now? */
static inline bool
gossip_link_out(const struct gossip_link *link, struct awake now)
{
    return awake_before(now, link->out_until);
}

/* Does this node leave out `node` now? */
static inline bool
gossip_wait_out(const struct gossip *g, struct proto_node node, struct awake now)
{
    for (int l = 0; l < GOSSIP_LINKS; l++)
        if (proto_node_equal(g->links[l].node, node))
            return gossip_link_out(&g->links[l], now);
    return false;
}

/* Something came from the other end that it owed. */
static inline void
gossip_wait_heard(struct gossip_link *link, struct awake now)
{
    link->heard_at = now;
    if (!gossip_link_out(link, now))
        return;
    link->out_until = now; /* it is back */
    link->slow += link->slow < GOSSIP_SLOW_MAX;
}

static inline struct gossip_graph
gossip_graph_of(const struct gossip *g, const struct core_config *config)
{
    return (struct gossip_graph){config->gossip->graph, config->gossip->push_sum, g->plan.hash};
}

static inline void
gossip_note(const struct core_config *config, const struct gossip_note *note)
{
    if (config->gossip->keeper->note)
        config->gossip->keeper->note(config->gossip->keeper_ctx, note);
}

#endif

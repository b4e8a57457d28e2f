/* push.h - the engine *push*: elected servers hold the parameters, workers pull them, compute, and push gradients.
 *
 * The parameters are cut into *ranges*. In a *group* of nodes each range has an owner, and a backup if there are two
 * nodes: the two of highest weight, a hash of node and range. All that serve are alike; who is much slower does not
 * serve. Of R ranges each of k owners has R / k, give or take sqrt(R / k). Owner and backup hold a range's parameters,
 * optimizer state and the set of tickets that it has taken. Work is tickets (see push_tickets.h). A worker does this
 * again and again:
 *
 *     leader                worker                 owner of a range          its backup
 *     |<- TAKE(finished) ----|                         |                        |
 *     |-- LEASE(ticket) ---->|                         |                        |
 *     |                      |-- PULL ---------------->|   each range           |
 *     |                      |<- VALUE(taken) ---------|                        |
 *     |                 computes                       |                        |
 *     |                      |-- PUSH(ticket, read) -->|   each range           |
 *     |                      |                         |-- PUSH(taken + 1) ---->| applies it
 *     |                      |                         |<- APPLIED(hash) -------|
 *     |                      |<- APPLIED --------------| applies it: the hashes are equal
 *
 * A worker reads for its next ticket when all ranges have the last one. So of n workers a gradient is at most about n updates
 * old. (To read while it computes, for which it had up to three tickets in hand, gained nothing at 100 Mbit/s.)
 *
 * (Li et al., Scaling Distributed Machine Learning with the Parameter Server, OSDI 2014.) A gradient that was computed
 * from parameters tau updates old is scaled by 1 / max(1, tau) (Zhang et al., IJCAI 2016). With `group` = c, a range
 * makes one update of every c gradients (softsync).
 *
 * Three nets, each independent of the others: the *fence* (messages name their group, and only those of the present one
 * count), the *set* (a range takes a ticket once, whoever pushes it and how often), and the *count* (the backup takes only
 * what follows what it has). A wrong view of who is there costs time. It never makes a range take a ticket twice.
 *
 * Groups. The leader is the lowest id among those that hold something. It makes a new group when a member is lost or a
 * node has come. Each member tells all others what it holds of each range, and nothing is served before all have told.
 * Then the owner of a range takes over the newest copy, gives one to its backup, and serves. Nodes of one history belong
 * together; after a split there are two. The side with more tickets done stays. The other one forgets what it holds, and
 * its nodes come as new ones: what they did is handed out again. A node that was starved and finds that members of its
 * group have gone on without it is no side: it forgets, however many tickets it knows of.
 *
 * If owner and backup of a range were lost together, the next owner begins with what somebody pulled last, and says how
 * many tickets are lost.
 *
 * All members own ranges, or as many as the job says. A member on a much slower line than the others, or whose tickets take
 * more than three times as long as those of the fastest one, owns none, if there are others: all wait for the slowest owner.
 *
 * When all tickets are done, each node pulls all ranges: one model, with one hash. Who comes later pulls them from any
 * node that has them.
 *
 * Checkpoints. Now and then the leader *holds* the tickets of the steps from some step on. When all before them are done,
 * nothing is under way, and each range has taken exactly these: a *cut*. The leader names it in its CLAIM. Every member
 * then copies all ranges from their owners, has its journal on the disk, saves them, and says so; then the leader goes on. So all members save the same
 * bits, any of them can begin a mesh again, and nothing in a checkpoint was computed from what is not in it. When a member
 * is lost meanwhile, the next group makes the cut; who has copied all keeps it. A member that is told to end (Ctrl-C) asks the
 * leader for a cut with TAKE(leaves), computes nothing after it, and ends when the others have saved it, too. A node that begins with a checkpoint holds
 * all ranges as of the cut, and its base is a hash of their histories: nodes with the same one belong together. */
#ifndef MESH_PUSH_H
#define MESH_PUSH_H

#include <xxhash.h>

#include "mesh/core/core.h"
#include "mesh/core/mutant.h"
#include "mesh/core/push/push_tickets.h"
#include "mesh/core/sessions/clock.h"
#include "mesh/core/sessions/peers.h"
#include "proto/bits.h"
#include "proto/mix.h"

/* Of groups: more than there can be. The next one after any that is believed can be sent. */
#define PUSH_COUNTER_MAX (PROTO_ROUND_MAX / 2)

enum {
    PUSH_RANGES_MAX = 1 << 16, /* their holdings fit into a block */
    PUSH_QUEUE_MAX = 1024,  /* pushes that wait at one node; more are dropped, and pushed again */
    PUSH_AGAIN_US = 100000, /* what is not answered is asked again after this time; */
    /* bodies after twice the time before, at most this: on a slow line they are only late */
    PUSH_AGAIN_MAX_US = 1600000,
    PUSH_LEAVE_US = 300000, /* a member that others do not hear is left out after this time, */
    PUSH_LOSE_US = 350000,  /* one who is silent, if a range is lost with it, */
    PUSH_BEHIND_US =
        2000000,            /* and who went on without this node, which will hear of their leader */
    PUSH_SETTLE_US = 10000, /* two histories are judged when they have been two for so long */
    PUSH_JOIN_US = 100000,  /* between two groups when nobody was lost */
    PUSH_ELECT_US = 1000000, /* the leader looks so often whether members have become slow, */
    PUSH_ELECT_AGAIN_US = 20000000, /* but not sooner after it has elected others */
    PUSH_CUT_MAX_US = 60000000,     /* who cannot get a cut in this time goes without, */
    PUSH_END_US = 4000000,          /* and who is told to end, in this time */
    PUSH_PAST = 256,                /* groups that a node remembers */
};

/* --- Between engine and trainer ------------------------------------------------------------------- */

struct push_size {
    size_t gradient, value, copy; /* bytes of a range; with PUSH_SET_SIZE at most PROTO_BLOCK_MAX */
};

/* One gradient in the order in which a range took it. */
struct push_taken {
    unsigned range;
    uint64_t ticket, number; /* number: of the compute, by who computed it */
    struct proto_node who;
    uint64_t count;         /* how many the range had taken before */
    uint64_t tau;           /* how many updates old what it was computed from is */
    bool updates;           /* it completes an update */
    uint64_t before, after; /* hash of the range's history */
};

/* The history of a range that has taken this, too: `after`. That of a range before its first ticket. */
static inline uint64_t
push_taken_after(const struct push_taken *taken)
{
    uint64_t what = mix64_pair(taken->ticket, 2 * taken->tau + taken->updates);
    uint64_t whose = mix64_pair(mix64_pair(taken->who.id, taken->who.incarnation), taken->number);
    return mix64_pair(mix64_pair(taken->before, what), whose);
}

static inline uint64_t
push_first_history(unsigned range)
{
    return mix64(range);
}

/* Who keeps ranges, journal and checkpoints, beside struct core_trainer: it answers at once, as the next message may need
 * what it did. Called from within core_on_*, none may call the core, and none takes long. */
struct push_keeper {
    /* trainer->compute of this ticket follows. Take a copy of what was read last: ranges are read for the next ticket
     * meanwhile. `history[ranges]`: of what was read. */
    void (*begin)(void *ctx, uint64_t ticket, uint64_t number, const uint64_t *history);
    /* What was computed is now to be pushed: it is what `gradient` gives. */
    void (*collect)(void *ctx);
    /* What is pushed to a range; unchanged until `collect`. */
    const void *(*gradient)(void *ctx, unsigned range);
    /* The range that this node holds takes a gradient. */
    void (*take)(void *ctx, const struct push_taken *taken, const void *gradient);
    uint64_t (*hash)(void *ctx, unsigned range); /* of the bits that this node holds */
    void (*copy)(void *ctx, unsigned range,
                 void *out); /* all of it, for another who is to hold it, */
    void (*adopt)(void *ctx, unsigned range, const void *copy); /* and who is to */
    void (*value)(void *ctx, unsigned range, void *out);        /* what a worker needs of it, */
    void (*read)(void *ctx, unsigned range, const void *value); /* and the worker */
    /* Hold a range as it is before the first ticket; or as this node read it last, with a new optimizer. `before`: the
     * history of what was read, `after`: that of what is held from now on. */
    void (*initial)(void *ctx, unsigned range);
    void (*restore)(void *ctx, unsigned range, uint64_t before, uint64_t after);
    /* Of a cut: a copy of a range, as in `adopt`, with its count and history; it also is what was read last. Then, when
     * all have come: these tickets are done, save it. The trainer computes nothing meanwhile. NULL: nobody saves. Before
     * `save` the keeper is asked, again and again, whether what it was told so far is on the disk. NULL: yes. So when it is
     * told anything after `save`, that of all members is, or some went without. */
    void (*save_range)(void *ctx, unsigned range, const void *copy, uint64_t taken,
                       uint64_t history);
    bool (*synced)(void *ctx);
    void (*save)(void *ctx, uint64_t tickets);
    /* trainer->commit follows: all ranges were read, and all tickets are in them. */
    void (*end)(void *ctx, const uint64_t *history);
};

/* What a checkpoint says of the ranges. The trainer holds them as of then when the core begins. */
struct push_saved {
    uint64_t tickets;          /* all below are done */
    uint64_t *taken, *history; /* [ranges] */
};

struct push_config {
    const struct push_keeper *keeper;
    void *keeper_ctx;
    uint64_t tickets;             /* of the run; 1.. */
    unsigned per_step;            /* tickets of a step; 1.. */
    uint64_t bound;               /* of staleness, in steps; PUSH_UNBOUND: none */
    unsigned group;               /* gradients of an update; 1.. */
    unsigned servers;             /* members that own ranges; 0: all */
    unsigned range_count;         /* 1..PUSH_RANGES_MAX */
    const struct push_size *size; /* [range_count]; borrowed */
    uint64_t first;               /* ticket of the run: those before were done by another one */
    uint64_t save_every;          /* steps; 0: by time */
    const struct push_saved
        *saved; /* begin with this; NULL: with the first ticket. Borrowed until core_on_applied */
};

/* --- The record ----------------------------------------------------------------------------------- */

/* At the owner: what it does for a range. */
enum push_stage {
    PUSH_ELSEWHERE, /* nothing: another one owns it, or not all have told what they hold */
    PUSH_FETCHING,  /* takes over the newest copy */
    PUSH_COPYING,   /* gives one to its backup */
    PUSH_SERVING,
};

struct push_range {
    /* What this node holds: */
    bool held;
    uint64_t taken, history, hash;
    struct push_set set;
    /* What its worker read last: */
    bool read;
    uint64_t read_taken, read_history;
    struct push_set read_set;
    bool pulled; /* for the ticket that it reads for, or the final model, */
    bool known;  /* which it has taken already */
    /* Of the ticket that is computed, and of the one that is pushed: what the range had taken when it was read. */
    uint64_t now_read, behind_read;
    bool now_known;
    bool pushed; /* the range has the ticket that is pushed */
    /* In the group: */
    unsigned owner, backup; /* ranks; backup == owner: there is none */
    /* Bitmaps of ranks of the base group: who has the newest copy if the range was not served there yet, and if it was. */
    uint64_t base_before, base_served;
    enum push_stage stage;
    unsigned best;           /* rank with the newest copy, */
    uint64_t best_holding;   /* as in HOLDINGS */
    uint64_t backup_history; /* 0: it holds none */
    struct awake asked_at;
    int first, last; /* of the pushes that wait; -1: none */
    bool offered;    /* the first one was sent to the backup */
    bool cut_here;   /* its copy of the cut has come */
};

struct push_waiting {
    int next;
    unsigned rank;
    uint64_t ticket, read, number;
    struct proto_node who;
    const void *gradient;
    void *handle; /* NULL: it is of this node's trainer */
};

enum push_work_state {
    PUSH_WORKING,
    PUSH_GATHERING, /* all tickets are done: reads all ranges */
    PUSH_FINISHING, /* the trainer is told */
    PUSH_FINISHED,
};

/* A ticket of this node's worker. */
enum push_place { PUSH_READS, PUSH_COMPUTES, PUSH_PUSHES };

struct push_job {
    uint64_t in_hand;   /* the ticket, plus one; 0: none */
    uint64_t number;    /* of the compute */
    uint64_t leased_in; /* hash of the group in which it was leased */
};

/* Was this node told to end? */
enum push_end {
    PUSH_GOES_ON,
    PUSH_ENDS,       /* yes: it wants a cut, */
    PUSH_ENDS_SAVED, /* and has one: from now on it computes, reads and saves nothing */
};

/* In the mean of the last some 32 tickets. */
struct push_mean {
    uint64_t us, count; /* count 0: of none */
};

/* From the first question, or the first gradient, for a ticket to the first answer of another node. That is the quickest one:
 * who has a slow line waits with all, and the others only with it. */
struct push_trip {
    struct wall at;
    bool waits;
    struct push_mean mean;
};

struct push_claim {
    bool known;
    struct proto_claim said;
};

struct push {
    struct push_config config;
    bool started;
    struct push_claim of[PEERS_MAX]; /* index: as in struct peers */
    /* The group: */
    struct proto_group group;
    uint64_t group_hash, base;     /* 0: none; it holds nothing */
    struct proto_group base_group; /* with base */
    uint64_t past[PUSH_PAST];      /* hashes of the groups so far; the n-th one: n % PUSH_PAST */
    uint64_t begun; /* the base with which this node began; 0: it began with nothing */
    unsigned rank;
    bool leads;
    uint64_t told;    /* bitmap of ranks whose holdings came */
    uint64_t counter; /* highest one known */
    uint64_t claim_number;
    /* When the group began, when it was told last, and since when somebody is to be left out, or another history to stay. */
    struct awake grouped_at, told_at, tell_at, left_out_at, yields_at;
    uint64_t left_out_us;   /* for how long that may wait */
    struct awake elect_at;  /* when the leader is to look who has become slow */
    struct awake forgot_at; /* what it held; 0: never */
    uint64_t groups;        /* so far, */
    uint64_t shared;        /* of these, with others */
    struct push_leases leases;
    /* Ranges: */
    struct push_range *range; /* [range_count] */
    uint8_t *body;            /* one message's; also the holdings of this node */
    uint64_t *history;        /* [range_count], for the trainer */
    struct push_waiting waiting[PUSH_QUEUE_MAX];
    int spare;
    /* Work: */
    enum push_work_state work;
    struct push_job job[PUSH_HANDS]; /* [enum push_place] */
    bool forget;                     /* what the trainer computes is not wanted any more */
    bool computed;                   /* it has computed its ticket */
    bool again; /* a range does not take the ticket that is pushed: compute it again */
    unsigned to_pull, to_push; /* ranges that did not answer yet */
    uint64_t number;           /* of computes */
    uint64_t got;              /* leases in this group */
    /* When the last question was sent, or answered in part; 0: now is the time for it. */
    struct awake take_at, pull_at, push_at;
    uint64_t again_us;       /* after this time bodies are asked for, or sent, again */
    bool reading;            /* for a ticket, and not all has come yet */
    struct push_mean ticket; /* of a compute, with what this node was starved; */
    struct wall ticket_at;   /* when the present one began */
    struct push_trip reads, pushes;
    bool wanted;    /* the leader was asked for a ticket */
    int source;     /* gathering from peers[source]; -1: from the owners */
    uint64_t model; /* what is gathered: hash of the final model of that peer, or of the group */
    /* Checkpoints: the cut that is being copied, 0: none; under which number; and the last one that was. */
    uint64_t cut, cut_number, saved;
    struct awake saved_at,
        held_at;     /* when that was; the leader: since when it holds tickets back */
    uint64_t cut_us; /* how long it did */
    uint64_t leave;  /* the leader: bitmap of ranks that are told to end, and want a cut */
    enum push_end ends;
    bool ended; /* the trainer was told */
    struct awake ends_at;
    uint64_t final_hash;
    /* Counted: */
    uint64_t lost, differ, refused;
    uint64_t missing; /* in the final model: tickets that ranges have not taken */
};

/* A body was asked for, or sent, again. */
static inline void
push_slower(struct push *push)
{
    push->again_us =
        push->again_us < PUSH_AGAIN_MAX_US / 2 ? 2 * push->again_us : PUSH_AGAIN_MAX_US;
}

/* --- push_group.c: who belongs together ----------------------------------------------------------- */

enum push_verdict {
    PUSH_AS_BEFORE,
    PUSH_REGROUPED, /* this node has taken up another group */
    PUSH_FORGET,    /* another history stays: this node is to forget what it holds */
};

enum push_verdict push_group_step(struct push *push, const struct core *core);
enum push_verdict push_group_on_group(struct push *push, const struct core *core, int from,
                                      const struct proto_group *group);
enum push_verdict push_group_on_claim(struct push *push, const struct core *core, int from,
                                      const struct proto_claim *claim);
/* What push_group_* said is carried out: no group, nothing held. */
void push_group_forget(struct push *push);
/* Is peers[i], which is to be counted on, one that has the final model? */
bool push_group_finished(const struct push *push, const struct core *core, int i);
/* A range of the present group is served: its owner has the newest copy, and its backup, too. */
static inline void
push_group_served(const struct push *push, struct push_range *range)
{
    if (push->base == push->group_hash)
        range->base_before = range->base_served;
}
/* This node holds ranges of the present group. */
static inline void
push_group_hold(struct push *push)
{
    if (push->base == push->group_hash)
        return;
    push->base = push->group_hash;
    push->base_group = push->group;
    for (unsigned k = 0; k < push->config.range_count; k++) {
        struct push_range *r = &push->range[k];
        r->base_served = UINT64_C(1) << r->owner | UINT64_C(1) << r->backup;
        r->base_before = r->best_holding ? UINT64_C(1) << r->best : r->base_served;
    }
}
/* Was this node in this group, or did it begin with this base? */
static inline bool
push_group_was_in(const struct push *push, uint64_t group)
{
    for (size_t k = 0; k < PUSH_PAST && k < push->groups; k++)
        if (push->past[k] == group)
            return true;
    return push->begun != 0 && push->begun == group;
}
/* Has everybody in the group told what it holds? */
static inline bool
push_group_stands(const struct push *push)
{
    uint64_t all = bits_below(push->group.count);
    return push->group_hash != 0 && push->told == all;
}
/* Rank of peers[i] in the group, or -1. */
int push_group_rank(const struct push *push, const struct core *core, int i);
/* Sends to a member, which may be gone. */
void push_group_send(const struct push *push, const struct core *core, unsigned rank,
                     const struct proto_msg *msg);
void push_group_bulk(const struct push *push, const struct core *core, unsigned rank,
                     const struct proto_msg *msg, const void *body, size_t size);

/* --- push_elect.c: who owns ranges ---------------------------------------------------------------- */

enum { PUSH_MEAN_OF = 32 /* tickets */, PUSH_MEAN_MOST = 16 };

/* One that took very long, since the node was stopped, counts as PUSH_MEAN_MOST. */
static inline void
push_mean_learn(struct push_mean *mean, uint64_t us)
{
    uint64_t most = PUSH_MEAN_MOST * mean->us;
    us = most > 0 && us > most ? most : us;
    mean->count += mean->count < PUSH_MEAN_OF;
    mean->us = ((mean->count - 1) * mean->us + us) / mean->count;
}
static inline void
push_trip_begin(struct push_trip *trip, struct wall now)
{
    trip->at = now;
    trip->waits = true;
}
static inline void
push_trip_end(struct push_trip *trip, struct wall now)
{
    if (trip->waits)
        push_mean_learn(&trip->mean, wall_since(now, trip->at));
    trip->waits = false;
}
/* How long a ticket takes this node (`self`) or peers[i]; 0: nobody knows. */
static inline uint64_t
push_ticket_us(const struct push *push, bool self, int i)
{
    if (self)
        return push->ticket.us;
    return i >= 0 && push->of[i].known ? push->of[i].said.compute_us : 0;
}
/* The same of its trips, one with another. */
static inline uint64_t
push_line_us(const struct push *push, bool self, int i)
{
    if (self)
        return push->reads.mean.us + push->pushes.mean.us;
    return i >= 0 && push->of[i].known ? push->of[i].said.line_us : 0;
}
/* Says which members of a group that is being made serve. */
void push_elect(const struct push *push, const struct core *core, struct proto_group *group);
/* Is it time for a group of the same members, in which others serve? */
bool push_elect_due(struct push *push, const struct core *core);
/* Bitmaps of ranks of the base group: who stays, and who has a session. Would all who have the newest copy of a range be
 * lost, and may one of them still come back? In the group that served it last: the present one may not serve yet. */
bool push_elect_loses(const struct push *push, uint64_t stay, uint64_t there);

/* --- push_copy.c: what this node holds, tells, gives and takes over ---------------------------------- */

/* What this node has of the ranges raises leases.end. */
void push_copy_end(struct push *push);
/* As in HOLDINGS; 0: nothing. */
uint64_t push_copy_holding(const struct push_range *range);
/* Tells member `rank` what this node holds; `question`: and asks it, too. */
void push_copy_tell(struct push *push, const struct core *core, unsigned rank, bool question);
/* The owner asks for the newest copy; gives one to its backup; begins, as everybody has told what it holds. */
void push_copy_ask(struct push *push, const struct core *core, unsigned range);
void push_copy_give(struct push *push, const struct core *core, unsigned range);
void push_copy_begin(struct push *push, const struct core *core, unsigned range);
/* All was read, and is final: from now on this node holds all of it. */
void push_copy_keep(struct push *push);
void push_copy_on_holdings(struct push *push, const struct core *core, int from,
                           const struct proto_holdings *holdings, const uint8_t *body, size_t size);
void push_copy_on_pull(struct push *push, const struct core *core, int from,
                       const struct proto_pull *pull);
void push_copy_on_copy(struct push *push, const struct core *core, int from,
                       const struct proto_value *value, const struct core_frame *frame);

/* The check of a body: `which` is the ticket of a PUSH, the number of a VALUE. */
static inline uint64_t
push_body_check(uint64_t group, unsigned range, uint64_t which, const void *body, size_t size)
{
    return XXH3_64bits_withSeed(body, size, mix64_pair(mix64_pair(group, range), which));
}

/* --- push_cut.c: checkpoints ------------------------------------------------------------------------ */

void push_cut_step(struct push *push, const struct core *core);
/* The cut that this node, which leads, wants all to save now; 0: none. */
static inline uint64_t
push_cut_told(const struct push *push)
{
    const struct push_leases *leases = &push->leases;
    bool done = leases->done.floor >= leases->hold || core_mutant(MUTANT_PUSH_CUT);
    return push->leads && leases->hold && done ? leases->hold : 0;
}
/* Has a range with this set taken all below the cut, and no other? */
static inline bool
push_cut_exact(const struct push_set *set, uint64_t cut)
{
    return (set->floor == cut && push_set_count(set) == cut) || core_mutant(MUTANT_PUSH_CUT);
}
void push_cut_on_copy(struct push *push, const struct core *core, int from,
                      const struct proto_value *value, const struct core_frame *frame);
/* This node is told to end. False: it may at once. */
bool push_cut_end(struct push *push, const struct core *core);
/* A group begins, or this node has forgotten what it held. */
void push_cut_group(struct push *push);
void push_cut_forget(struct push *push);
/* The node begins with config.saved. */
void push_cut_begin(struct push *push, const struct core *core);

/* --- push_range.c: what an owner and its backup do with pushes --------------------------------------- */

void push_range_init(struct push *push);
/* A group begins, or ended: nothing waits, and each range has another owner. */
void push_range_group(struct push *push, const struct core *core);
void push_range_forget(struct push *push, const struct core *core); /* this node holds nothing */
void push_range_step(struct push *push, const struct core *core);
void push_range_on_push(struct push *push, const struct core *core, int from,
                        const struct proto_push *msg, struct core_frame *frame);
void push_range_on_applied(struct push *push, const struct core *core, int from,
                           const struct proto_applied *applied);
/* The same as PUSH, from this node's own worker. */
void push_range_own(struct push *push, const struct core *core, unsigned range);

/* --- push_lease.c: the leader, who leases tickets --------------------------------------------------- */

void push_lease_on_take(struct push *push, const struct core *core, int from,
                        const struct proto_take *take);
/* This node leads, and its own worker says what is done and what it wants. Returns the answer. */
struct proto_lease push_lease_own(struct push *push, const struct core *core,
                                  const struct proto_take *take);

/* Those who wait get the tickets that have become free. */
void push_lease_more(struct push *push, const struct core *core);

/* --- push_work.c: the worker ------------------------------------------------------------------------- */

void push_work_group(struct push *push, const struct core *core); /* another group */
void push_work_forget(struct push *push);
/* What it reads for is not needed any more. */
void push_work_drop_read(struct push *push);
/* Is it time to ask for bodies, for the first time (0) or again? Then it is as if that was done. */
bool push_work_due(struct push *push, const struct core *core, struct awake *asked_at);
void push_work_step(struct push *push, const struct core *core);
void push_work_on_lease(struct push *push, const struct core *core, int from,
                        const struct proto_lease *lease);
void push_work_on_value(struct push *push, const struct core *core, int from,
                        const struct proto_value *value, const struct core_frame *frame);
void push_work_on_applied(struct push *push, const struct core *core, int from,
                          const struct proto_applied *applied);
void push_work_computed(struct push *push, const struct core *core);
/* The final model is there, and has this hash. */
void push_work_finished(struct push *push, uint64_t hash);
/* The range has the ticket behind. */
static inline void
push_work_pushed(struct push *push, struct push_range *range)
{
    if (range->pushed)
        return;
    range->pushed = true;
    if (--push->to_push == 0)
        push->take_at.us = 0; /* tell the leader now */
}

#endif

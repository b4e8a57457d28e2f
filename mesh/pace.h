/* pace.h - a member that makes the others wait is left out, for a while.
 *
 *     measured   by each member, per round and neighbour: how long the neighbour's chunks were on their way,
 *                beyond what its quickest message needs; how long the trainer takes to apply a sum
 *     reported   in heartbeats
 *     decided    by the leader: would a round without some members be shorter by a clear margin?
 *     obeyed     ASIDE: who is left out says so in its heartbeats, and nobody plans for it. It follows
 *                the others like any node that is behind (fetch.h), and comes back by itself after PACE_REST_US,
 *                doubled each time.
 *
 *     predicted round = makespan of the shards by measured speeds + longest apply + longest time on a line
 *
 * A stamp of the sender's clock travels with chunks and heartbeats. The smallest difference of clocks ever seen
 * (in the last half minute: clocks drift) is taken for a message that did not have to wait, as in LEDBAT (RFC
 * 6817); what a chunk takes beyond it is what the line needs for it, whatever buffers are between. The
 * smallest of the last rounds counts: a machine that was busy for a moment is not a slow line.
 *
 * The worst member is taken out of the prediction, then the worst of the rest, and so on; to the best of all these
 * sets is added again who costs nothing. It wins if it is PACE_GAIN quarters as fast as the whole by prediction, and
 * than what rounds take in fact, for PACE_SURE_US. With two members it may be one of them alone. A prediction is no
 * proof: where processors are rationed, a node that computes more is stopped more often. So rounds are counted for
 * PACE_JUDGE_US before and after, and when they did not become shorter by the same margin, who was left out is called
 * back. How much longer rounds took than was predicted is remembered for PACE_ERR_US: later predictions are taken to be
 * as wrong. Who comes back is sent away again when rounds took clearly less without it, if need be in the middle of a
 * round.
 *
 * A node that catches up and says that it is ready, but keeps a held plan waiting in vain again and again, is left
 * out, too. A node that was left out does not believe it when none of the others gets any further. */
#ifndef MESH_PACE_H
#define MESH_PACE_H

#include "mesh/core.h"

enum {
    PACE_GAIN = 5,           /* quarters: without it a round must be 5/4 as fast */
    PACE_GAIN_US = 5000,     /* and gain as much */
    PACE_RECENT = 4,         /* rounds whose smallest times count */
    PACE_ROUNDS = 3,         /* of a plan before it is judged */
    PACE_LOOK_US = 200000,   /* between two decisions */
    PACE_JUDGE_US = 1000000, /* rounds of at least so long, all together, ... */
    PACE_JUDGE_ROUNDS = 8,   /* and as many, say how long one takes on average */
    PACE_SURE_US = 600000,   /* for so long the decision is the same: not the noise of a moment */
    PACE_BASE_US = 15000000, /* quickest messages are remembered for one to two of these */
    PACE_ERR_US = 300000000, /* what was predicted and what came is remembered for so long */
    PACE_REST_US = 2000000,  /* who is left out comes back, doubled each time */
    PACE_REST_MAX_US = 300000000,
    PACE_FORGIVE_US = 60000000, /* in plans for so long: the next rest is a short one again */
    PACE_TOLD_US = 2000000,     /* told so long ago and still not aside: told again */
    PACE_MOVED_US = 5000000,    /* nobody got any further for so long: not aside any more */
    PACE_TRIAL_ROUNDS = 8,      /* of who has come back */
    PACE_TRIAL_US = 100000,     /* a round with it may take so much longer than three without */
    PACE_COURTS = 4,            /* plans held in vain for who said it was ready: left out */
};

/* What is known of the members of a plan. */
struct pace_view {
    size_t n;
    unsigned shards;
    uint64_t round_us; /* what a round takes in fact */
    uint32_t speed[PROTO_PEERS_MAX], apply_us[PROTO_PEERS_MAX];
    uint32_t lag_us[PROTO_PEERS_MAX][PROTO_PEERS_MAX]; /* [to][from] */
};

/* Microseconds of a round of the members in `set`, a bitmap. */
uint64_t pace_predict(const struct pace_view *view, uint64_t set);
/* Whom to leave out, a bitmap; 0 nobody. */
uint64_t pace_decide(const struct pace_view *view);

/* What comes from one peer. */
struct pace_line {
    int64_t base_us[2]; /* quickest difference of clocks, in this time window and the one before */
    uint64_t base_at_us;
    bool known;
    uint64_t arrived_us; /* now; the last chunk */
    uint64_t busy_us[2]; /* of the chunks of even and odd rounds */
    uint32_t recent_us[PACE_RECENT];
    unsigned count;
};

struct pace {
    struct pace_line lines[PROTO_PEERS_MAX];
    bool full;             /* the round under way is of all buckets */
    uint64_t commit_at_us; /* now */
    uint32_t apply_us;
    uint64_t round_us[PACE_RECENT]; /* of full rounds of the plan */
    unsigned rounds;
    uint64_t window_us; /* of full rounds since the last average */
    unsigned window_rounds;
    uint64_t average_us; /* of a full round of the plan, 0 unknown */
    uint64_t look_at_us; /* awake */
    uint64_t slow;       /* bitmap of ranks: what was decided at the last look, and first */
    uint64_t slow_at_us; /* awake; then */
    uint64_t without_us; /* a round without those who were left out, 0 unknown */
    uint64_t
        before_us; /* a round with those who were left out last, until it is seen whether it helped */
    uint64_t immune_at_us;          /* awake; nobody is left out before */
    uint64_t predicted_us, came_us; /* a round without those who were left out last; 0 not known */
    uint64_t err_at_us;             /* awake; until then that is remembered */

    bool rests;          /* this node is left out */
    uint64_t rest_at_us; /* awake; until then */
    uint64_t rest_us;    /* how long, the last time */
};

void pace_init(struct core *core);
/* A session with peers[i] begins. */
void pace_meet(struct core *core, int i);
/* A message of peers[i] that it sent at `sent_us` of its clock. */
void pace_heard(struct core *core, int i, uint64_t sent_us);
/* The same, a chunk. */
void pace_chunk(struct core *core, int i, const struct proto_chunk *chunk);
/* What chunks of peers[i] take in a round, 0 unknown. */
uint32_t pace_lag_us(const struct core *core, int i);
void pace_commit(struct core *core);
void pace_applied(struct core *core);
/* A plan begins; a round of it; it was committed after `us`: true when the plan is to be held. */
void pace_plan(struct core *core);
void pace_begin(struct core *core);
bool pace_round(struct core *core, uint64_t us);
/* A prediction, made as much longer as the last one was too short. */
uint64_t pace_sober(const struct core *core, uint64_t us);
void pace_tick(struct core *core);
void pace_on_aside(struct core *core, const struct proto_aside *msg);
/* A plan was held for peers[i], which did not get in. */
void pace_courted(struct core *core, int i);
/* Is peers[i] not to be planned for? */
bool pace_aside(const struct core *core, int i);
/* Is this node left out? */
bool pace_rests(const struct core *core);

#endif

/* straggler.h - leaves out, for a while, a member that makes the others wait.
 *
 *     measured   by each member, per round: how long the chunks of each neighbour were under way (lag.h), and how
 *                long the own trainer takes to apply a sum
 *     reported   in heartbeats
 *     decided    by the leader: would a round without some members be shorter by a clear margin?
 *     obeyed     BENCH: the node that is left out says so in its heartbeats, and nobody plans with it. It follows
 *                the others like any node that is behind (fetch.h). It comes back by itself after STRAGGLER_REST_US,
 *                doubled each time.
 *
 *     predicted round = makespan of the shards by measured speeds + longest apply + longest time on a line
 *
 * The decision: take the slowest member out of the prediction, then the slowest of the rest, and so on. To the best
 * of all these sets, add again the members that cost nothing. The set wins if for STRAGGLER_SURE_US it is STRAGGLER_GAIN
 * quarters as fast as the whole mesh, both by prediction and against the measured time of rounds. With two members
 * the set may be one of them.
 *
 * A prediction is no proof: where CPU time is rationed, a node that computes more is stopped more often. So the
 * leader counts rounds for STRAGGLER_JUDGE_US before and after. If rounds did not become shorter by the same margin, it
 * calls the members back. It remembers for STRAGGLER_ERR_US how much longer rounds were than predicted, and expects the
 * same error of later predictions. A node that has come back is sent away again if rounds clearly took less time
 * without it, if necessary in the middle of a round.
 *
 * A node that catches up, says that it is ready, and makes a held plan wait in vain again and again, is left out,
 * too. A node that was left out ignores this when no other node makes progress. */
#ifndef MESH_STRAGGLER_H
#define MESH_STRAGGLER_H

#include "mesh/core/group/lag.h"
#include "mesh/core/sessions/clock.h"
#include "mesh/core/sessions/peers.h"

enum {
    STRAGGLER_GAIN = 5,           /* quarters: without the member a round must be 5/4 as fast */
    STRAGGLER_GAIN_US = 5000,     /* and must save this much */
    STRAGGLER_RECENT = 4,         /* rounds whose shortest counts */
    STRAGGLER_ROUNDS = 3,         /* rounds of a plan before it is judged */
    STRAGGLER_LOOK_US = 200000,   /* between two decisions */
    STRAGGLER_JUDGE_US = 1000000, /* the average is taken over rounds of at least this total time */
    STRAGGLER_JUDGE_ROUNDS = 8,   /* and at least this many rounds */
    /* the decision must be the same for this long, so that a moment does not decide */
    STRAGGLER_SURE_US = 600000,
    STRAGGLER_ERR_US = 300000000, /* how long the error of a prediction is remembered */
    /* a node that is left out comes back after this time, doubled each time */
    STRAGGLER_REST_US = 2000000,
    STRAGGLER_REST_MAX_US = 300000000,
    STRAGGLER_FORGIVE_US = 60000000, /* after this long in plans, the next rest is short again */
    /* a node that was told this long ago and is still not benched is told again */
    STRAGGLER_TOLD_US = 2000000,
    STRAGGLER_MOVED_US =
        5000000, /* nobody made progress for this long: the node is no longer benched */
    STRAGGLER_TRIAL_ROUNDS = 8, /* rounds of a node that has come back */
    STRAGGLER_TRIAL_US =
        100000, /* how much longer a round with it may take than three rounds without it */
    STRAGGLER_VAIN_MAX = 4, /* a node is left out after this many plans were held for it in vain */
};

/* What is known about the members of a plan. */
struct straggler_input {
    size_t n;
    unsigned shards;
    uint64_t round_us; /* measured time of a round */
    uint32_t speed[PROTO_PEERS_MAX], apply_us[PROTO_PEERS_MAX];
    uint32_t lag_us[PROTO_PEERS_MAX][PROTO_PEERS_MAX]; /* [to][from] */
};

/* Predicted time in microseconds of a round of the members in `set`, a bitmap. */
uint64_t straggler_predict(const struct straggler_input *view, uint64_t set);
/* Bitmap of the members to leave out; 0: none. */
uint64_t straggler_decide(const struct straggler_input *view);

struct straggler_peer {
    struct lag lag;
    struct awake told_at; /* when it was told that it is left out */
    bool trial;           /* it was left out and has come back */
    unsigned vain;        /* how many plans were held for it in vain */
};

struct straggler {
    struct straggler_peer of[PEERS_MAX]; /* index: as in struct peers */
    bool full;                           /* the present round has all buckets */
    uint32_t apply_us;
    uint64_t round_us[STRAGGLER_RECENT]; /* full rounds of the plan */
    unsigned rounds;
    uint64_t window_us; /* time of the full rounds since the last average */
    unsigned window_rounds;
    uint64_t average_us; /* average of a full round of the plan; 0: unknown */
    struct awake look_at;
    uint64_t slow;        /* bitmap of ranks: the decision at the last look */
    struct awake slow_at; /* when this was first decided */
    uint64_t without_us;  /* time of a round without those who were left out; 0: unknown */
    /* time of a round with those who were left out last, until it is known whether this helped */
    uint64_t before_us;
    struct awake immune_at; /* no node is left out before this time */
    /* predicted and measured time of a round without those who were left out last; 0: unknown */
    uint64_t predicted_us, came_us;
    struct awake err_at; /* until when these two are remembered */

    bool benched;         /* this node is left out */
    struct awake rest_at; /* until when */
    uint64_t rest_us;     /* length of the last rest */
};

/* What the caller has to do. */
enum straggler_verdict {
    STRAGGLER_GO_ON,
    STRAGGLER_HOLD,    /* hold the plan: members were told that they are left out */
    STRAGGLER_BENCHED, /* this node is left out now: say so, and hold the plan if it leads one */
    STRAGGLER_BACK,    /* this node is no longer left out: say so */
    STRAGGLER_ABORT,   /* abort the plan: a member that has come back is too slow */
};

/* A session with peers[i] begins. */
void straggler_up(struct straggler *s, int i);
/* A heartbeat of peers[i] came; `back`: it is not left out any more. */
void straggler_beat(struct straggler *s, const struct core *core, int i, bool back);
/* peers[i] sent a chunk of a sum. */
void straggler_chunk(struct straggler *s, const struct core *core, int i,
                     const struct proto_chunk *chunk);
/* The trainer has applied a total. */
void straggler_applied(struct straggler *s, const struct core *core);
/* A plan begins, with its first round. */
void straggler_plan(struct straggler *s, const struct core *core);
/* A round of the plan was applied after `us`, and core->round is the next one. */
enum straggler_verdict straggler_round(struct straggler *s, const struct core *core, uint64_t us);
/* `step_us` is the time of the longest recent round or compute. */
enum straggler_verdict straggler_tick(struct straggler *s, const struct core *core,
                                      uint64_t step_us);
enum straggler_verdict straggler_on_bench(struct straggler *s, const struct core *core,
                                          const struct proto_bench *msg);
/* A plan was held for peers[i], but it did not join. */
void straggler_not_joined(struct straggler *s, const struct core *core, int i);
/* A prediction, made longer by the factor by which the last one was too short. */
uint64_t straggler_sober(const struct straggler *s, const struct core *core, uint64_t us);

#endif

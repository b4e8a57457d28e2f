/* straggler.h - who is too slow to take part: the leader takes the members with which a round takes least, and leaves
 * out the others for a while (group.h says what else decides about it).
 *
 *     measured   by each member: how fast chunks come from each other one (line.h), and what its trainer takes to apply
 *                a sum
 *     reported   in heartbeats
 *     decided    by the leader alone: with which members is a round shortest? The time of a set that has trained
 *                together is remembered, that of any other set is predicted (cost.h)
 *     obeyed     BENCH: who is left out says so in its heartbeats, and nobody plans with it: it watches. Now and then
 *                it catches up like any node that is behind (fetch.h). It comes back by itself after
 *                STRAGGLER_REST_ROUNDS of the rounds with it, at least STRAGGLER_REST_US, doubled each time. Where all
 *                found that one node alone is the fastest (core_state.alone), STRAGGLER_REST_MAX_US later
 *
 * The decision: the set that cost_best says, if it is COST_GAIN quarters as fast as the present members for
 * STRAGGLER_SURE_US, or was measured. In the first rounds of a plan each must take COST_FAR times as long, or half of
 * that if the round is over, and measured, or the prediction for all explains the time, and something is known of each
 * member's line: who knows one slow line alone takes all for as slow. Then the round is aborted.
 *
 * The first round with a codec does not count: its unit has yet to settle, so sums are long, and it makes room for what
 * the codec keeps.
 *
 * A prediction is no proof: where CPU time is rationed, a node that computes more is stopped more often. So the
 * leader counts rounds for STRAGGLER_JUDGE_US before and after. If rounds did not become shorter by the same margin, it
 * calls the members back, and for STRAGGLER_FORGIVE_US only what was measured counts. Both times are remembered for
 * STRAGGLER_REMEMBER_US, so a node that has come back is soon sent away again if rounds took less time without it.
 *
 * Until a codec begins (core_state.warms) sums are long. Who is left out then computes all shards by itself, as all do:
 * all come to the same state without a byte, and meet there. So no line need be known to give up a round that takes
 * COST_GAIN quarters of what it takes the leader alone.
 *
 * A node watches, too, when as many nodes with lower ids take part as there are shards. When one is gone or left out,
 * it comes back at once. A member too slow for one shard makes room. A node that catches up, is ready, and makes
 * a held plan wait in vain again and again, is left out, too, but not when no other node makes progress. */
#ifndef MESH_STRAGGLER_H
#define MESH_STRAGGLER_H

#include "mesh/core/group/cost.h"
#include "mesh/core/sessions/clock.h"
#include "mesh/core/sessions/line.h"
#include "mesh/core/sessions/peers.h"

enum {
    STRAGGLER_RECENT = 4,         /* rounds whose shortest counts */
    STRAGGLER_QUICK = 500000000,  /* bytes per second: more than a line of 4 Gbit/s */
    STRAGGLER_CODES = 200000000,  /* on a faster line bodies are written quickly: packed.h */
    STRAGGLER_ROUNDS = 3,         /* rounds of a plan before it is judged */
    STRAGGLER_LOOK_US = 200000,   /* between two decisions */
    STRAGGLER_JUDGE_US = 1000000, /* the average is taken over rounds of at least this total time */
    STRAGGLER_JUDGE_ROUNDS = 8,   /* and at least this many rounds */
    STRAGGLER_SURE_US = 600000,   /* the decision must be the same for so long */
    STRAGGLER_REMEMBER_US = 300000000,
    /* a node that is left out comes back after this time, doubled each time, and after so many of the rounds with it */
    STRAGGLER_REST_US = 2000000,
    STRAGGLER_REST_ROUNDS = 20,
    STRAGGLER_REST_MAX_US = 300000000,
    STRAGGLER_FORGIVE_US = 60000000, /* after this long in plans, the next rest is short again */
    STRAGGLER_TOLD_US = 2000000,     /* who is still not benched then is told again */
    STRAGGLER_MOVED_US = 5000000,    /* nobody made progress for so long: it is benched no more */
    STRAGGLER_VAIN_MAX = 4, /* a node is left out after this many plans were held for it in vain */
};

struct straggler_peer {
    struct awake told_at; /* when it was told that it is left out */
    unsigned vain;        /* how many plans were held for it in vain */
};

struct straggler {
    struct straggler_peer of[PEERS_MAX]; /* index: as in struct peers */
    bool full;                           /* the present round has all buckets */
    uint32_t apply_us;                   /* what the trainer takes to apply a total; 0: unknown */
    uint64_t came, came_plain; /* bytes of the chunks of this round, and before they were packed */
    uint64_t starved_us,
        busy_us;         /* in this plan: this node waited for a processor; lines were busy */
    uint32_t packed;     /* the share of the last round, in 4096ths; 0: unknown */
    bool parted;         /* core->alone was acted upon */
    uint64_t changed_at; /* the first round with other sums (straggler_changes), and 1; 0: none */
    uint64_t round_us[STRAGGLER_RECENT]; /* full rounds of the plan */
    unsigned rounds;
    uint64_t window_us; /* time of the full rounds since the last average */
    unsigned window_rounds;
    uint64_t average_us; /* average of a full round of the plan; 0: unknown */
    struct awake look_at;
    uint64_t best;        /* bitmap of ranks: the decision at the last look; 0: none */
    struct awake best_at; /* when this was first decided */
    /* time of a round with those who were left out last, until it is known whether this helped those who were kept */
    uint64_t before_us;
    uint64_t kept, gone; /* bitmaps of peers, bit PEERS_MAX: this node; as in `times` */
    struct cost_time times[COST_TIMES];
    struct awake distrust_at; /* before this time no node is left out by a prediction */

    bool benched;         /* this node is left out */
    bool surplus;         /* since there is no shard for it */
    struct awake need_at; /* before this time it is needed all the same */
    struct awake rest_at; /* until when */
    uint64_t rest_us;     /* length of the last rest */
};

/* What the caller has to do. */
enum straggler_verdict {
    STRAGGLER_GO_ON,
    STRAGGLER_HOLD,    /* hold the plan: members were told that they are left out */
    STRAGGLER_BENCHED, /* this node is left out now: say so, and hold the plan if it leads one */
    STRAGGLER_BACK,    /* this node is no longer left out: say so */
    STRAGGLER_ABORT,   /* abort the plan: members were told that they are left out */
};

/* A session with peers[i] begins. */
void straggler_up(struct straggler *s, int i);
/* peers[i] is not left out any more. */
void straggler_back(struct straggler *s, int i);
/* Sums are short from core->round on, or no longer, or soon: what was measured means nothing; who was apart is back. */
enum straggler_verdict straggler_changes(struct straggler *s, const struct core *core);
/* For collective_packs, by the slowest line that is known: at STRAGGLER_QUICK a body is to be shorter by a quarter, at
 * STRAGGLER_CODES it is written quickly; while none is known, lines are measured with what was not packed. */
unsigned straggler_packs(const struct core *core, bool *quick);
/* A chunk of a sum came, in so many bytes; its line was busy with it for so long. */
void straggler_chunk(struct straggler *s, const struct proto_chunk *chunk, size_t size,
                     uint64_t busy_us);
/* This node waited for a processor for `us`: what looks like a slow line may be that. */
void straggler_starved(struct straggler *s, uint64_t us);
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
/* What is known about those who are to be members: peer[n], by rank, -1: this node. `view` is filled but for duties. */
void straggler_see(const struct straggler *s, const struct core *core, size_t n, const int *peer,
                   struct cost_view *view);

/* Must plans leave out peers[i]? It says that it was left out, or was told so a moment ago. */
bool straggler_benched(const struct core *core, int i);
/* This node was left out, but computes all shards by itself until sums are short. */
bool straggler_apart(const struct core *core);

#endif

/* rounds_judge.c - the oracle of the engine rounds: every state is the reference's, every sum is its sum, each shard
 * was added exactly once, plans begin where they should, and in the end everybody has done all rounds. */
#include <inttypes.h>
#include <string.h>

#include "mesh/core/internal.h"
#include "tests/sim/shell.h"
#include "tests/sim/stages.h"

void
sim_rounds_judge_counters(struct sim *sim, const struct sim_node *node)
{
    const struct sim_profile *p = &sim->profile;
    if (node->index == p->liar)
        return;
    for (unsigned c = 0; c < p->counters; c++)
        if (node->state.words[p->words + c] != node->round * sim_rounds_counted(p, c))
            sim_fail(sim,
                     "node %u: counter %u says %" PRIu64 " after %" PRIu64 " rounds of %" PRIu64
                     " shards",
                     node->index, c, node->state.words[p->words + c], node->round,
                     sim_rounds_counted(p, c));
}

/* What says which state somebody has or had: heartbeats, chunks of sums, totals and lists. Nothing else does. A chunk
 * of a plan that is over says nothing: nobody knows any more of which part of the model it speaks. */
static uint64_t
named(const struct sim_node *node, const struct proto_msg *msg, uint64_t *round)
{
    bool present;
    switch (msg->type) {
    case PROTO_HEARTBEAT:
        *round = msg->heartbeat.round;
        return msg->heartbeat.state_hash;
    case PROTO_REDUCE:
    case PROTO_GATHER:
        *round = msg->chunk.round;
        present = node->core->plan.active && msg->chunk.plan_hash == node->core->plan.hash;
        return present ? msg->chunk.state_hash : 0;
    case PROTO_GIVE:
        *round = msg->give.round;
        return msg->give.object == PROTO_OBJECT_LIST || msg->give.object == PROTO_OBJECT_TOTAL
                   ? msg->give.label
                   : 0;
    default:
        return 0;
    }
}

uint64_t
sim_rounds_told(const struct sim_node *node)
{
    uint64_t told = 0;
    for (unsigned i = 0; i < SIM_NODES_MAX; i++)
        told = node->told[i] > told ? node->told[i] : told;
    return told;
}

/* It is noted here what came, whatever the core makes of it. Who goes back says so with a heartbeat, and what it said
 * before is void. */
void
sim_rounds_came(struct sim *sim, struct sim_node *node, unsigned from, const struct proto_msg *msg)
{
    uint64_t round = 0, hash = named(node, msg, &round);
    if (!(sim->profile.fault_mask >> SIM_FLIP))
        return;
    bool right = hash != 0 && round <= sim->profile.rounds &&
                 hash == sim_rounds_hash(sim, &sim->reference[round]);
    if (msg->type == PROTO_HEARTBEAT)
        node->told[from] = right ? round + 1 : 0;
    if (right && round + 1 > node->told[from])
        node->told[from] = round + 1;
    bool back = node->busy == SIM_GOING_BACK; /* soon it is not there any more */
    if (right && !back && round <= node->round && round + 1 > node->told_there)
        node->told_there = round + 1;
}

static bool
is_astray(const struct sim_node *node)
{
    return node->wrong || node->strayed;
}

/* Who gave it that wrong state has it still, or nobody else had come to where it went wrong, this node included. */
static bool
is_source(const struct sim *sim, const struct sim_node *node)
{
    bool has = false, right = node->right_round >= sim->astray_since;
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        const struct sim_node *other = &sim->nodes[i];
        if (other == node || !other->up)
            continue;
        has = has || (is_astray(other) && other->round == node->round &&
                      memcmp(&other->state, &node->state, sizeof node->state) == 0);
        right = right || (!is_astray(other) && other->round >= sim->astray_since);
    }
    return has || !right;
}

/* It took the wrong state of a node, and nobody else had told it of that round before it began to. Others may have
 * computed it meanwhile, and be rounds ahead: as long as no message with the hash of their state before this round is
 * the newest, the node cannot compare. It must find out later. But who gave up a right state must not get the wrong one
 * in its place for which it gave it up. When a bit has flipped since, that one was nowhere any more. */
static bool
taken_unseen(const struct sim *sim, const struct sim_node *node)
{
    uint64_t told = node->busy == SIM_ADOPTING ? node->task_told : sim_rounds_told(node);
    bool in_place = node->given_up > 0 && node->given_up_flips == sim->state_flips;
    bool unseen = told != node->round + 1 && !in_place;
    return unseen && is_source(sim, node) && node->round <= sim->profile.rounds &&
           segments_of_either(&sim->profile, node, &sim->reference[node->round],
                              &sim->astray[node->round]);
}

static unsigned
count_astray(const struct sim *sim, unsigned *up)
{
    unsigned astray = 0;
    *up = 0;
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        astray += sim->nodes[i].up && is_astray(&sim->nodes[i]);
        *up += sim->nodes[i].up;
    }
    return astray;
}

/* Nobody goes on from a wrong state together with others, or with a total of theirs, which names the right one. As long
 * as no message with the hash of the right state before this round has come while it was there, or is the newest, it
 * has nothing to compare. Then a node alone may go on, and when it is the leader and one node is faster than all, or
 * among those that took its state. It has strayed, with those who take its state, and they must have found out by the
 * end. */
void
sim_rounds_judge_wrong(struct sim *sim, struct sim_node *node, uint64_t members)
{
    unsigned up, astray = count_astray(sim, &up);
    bool among_them = members == 1 || (astray > 1 && members <= astray);
    bool told = sim_rounds_told(node) == node->round + 1 || node->told_there == node->round + 1;
    bool unseen = (sim->followers_flip || members == 1 || astray > 1) && !told;
    if (is_astray(node) && (!among_them || (node->wrong && !unseen)))
        sim_fail(sim, "node %u: goes on from a wrong state before round %" PRIu64, node->index,
                 node->round);
    node->strayed = node->strayed || node->wrong;
}

/* A node that held the right state goes back: it must have that state again before it takes another one. What it was
 * told is void, as those who said it may go back, too. */
void
sim_rounds_gives_up(const struct sim *sim, struct sim_node *node)
{
    memset(node->told, 0, sizeof node->told);
    node->told_there = 0;
    bool flips = sim->profile.fault_mask >> SIM_FLIP;
    if (!flips || is_astray(node))
        return;
    if (node->round + 1 > node->given_up)
        node->given_up = node->round + 1;
    node->given_up_flips = sim->state_flips;
}

/* All have gone back, nobody to a wrong state: what was given up is nowhere any more, and is computed again. */
static void
forget_given_up(struct sim *sim)
{
    uint64_t newest = 0;
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        const struct sim_node *node = &sim->nodes[i];
        if (node->up && is_astray(node))
            return;
        newest = node->up && node->round > newest ? node->round : newest;
    }
    for (unsigned i = 0; i < sim->profile.nodes; i++)
        if (sim->nodes[i].given_up > newest + 1)
            sim->nodes[i].given_up = 0;
}

static bool
is_right(const struct sim *sim, const struct sim_node *node)
{
    return node->round <= sim->profile.rounds &&
           segments_equal(&sim->profile, node, &sim->reference[node->round]);
}

/* The limit that README names: all have taken the state of the one that had computed it, and it is wrong. */
static void
stray(struct sim *sim, struct sim_node *node)
{
    unsigned up;
    node->strayed = true;
    sim->counts.astray++;
    sim->limit = count_astray(sim, &up) == up;
}

/* Nor do audits help a node that takes the state of a liar who trains alone since it was found out, having met nobody
 * else yet. */
static bool
led_astray(const struct sim *sim, const struct sim_node *node)
{
    return sim->profile.liar < SIM_NODES_MAX && node->round <= sim->profile.rounds &&
           sim->liar_hash[node->round] == sim_rounds_hash(sim, &node->state);
}

void
sim_rounds_judge(struct sim *sim, struct sim_node *node, const char *how, bool flipped)
{
    node->wrong = flipped;
    if (node->index == sim->profile.liar && node->round <= sim->profile.rounds)
        sim->liar_hash[node->round] = sim_rounds_hash(sim, &node->state);
    bool right = is_right(sim, node);
    node->strayed = node->strayed && !right;
    if (is_astray(node) && node->round <= sim->profile.rounds)
        sim->astray[node->round] = node->state;
    if (right && node->round + 1 >= node->given_up)
        node->given_up = 0;
    if (right)
        node->right_round = node->round;
    forget_given_up(sim);
    if (node->index != sim->profile.liar && !flipped && !node->strayed && !right) {
        if (taken_unseen(sim, node))
            stray(sim, node);
        else if (led_astray(sim, node))
            sim->limit = true;
        else
            sim_fail(sim,
                     "node %u: state before round %" PRIu64 " differs from the reference after %s",
                     node->index, node->round, how);
    }
    if (!sim->limit)
        sim_rounds_judge_counters(sim, node);
    sim->trace = mix64_pair(sim->trace, node->state.words[0] ^ node->round);
}

/* Is the ledger wrong? A contribution was damaged in memory, or two chunks changed places: the checksum of a hop
 * does not depend on the range, that of the ledger does. */
bool
sim_rounds_flipped(const struct sim *sim, uint64_t round)
{
    return round < 64 && ((sim->flipped >> round & 1) || sim->moved[round] > 1);
}

/* As led_astray: by a total of the liar's that it was sent, not by one of a plan. */
static bool
follows_liar(const struct sim *sim, const struct sim_node *node, uint64_t round)
{
    struct core_stats stats;
    core_stats(node->core, &stats);
    return sim->profile.liar < SIM_NODES_MAX && stats.members == 0 &&
           round <= sim->profile.rounds &&
           sim_rounds_sum_hash(sim, &node->state, node->sum) == sim->liar_sum[round];
}

/* Is the total to be committed the reference's? Returns false when the ledger tells the trainer that it is damaged. */
bool
sim_rounds_judge_total(struct sim *sim, const struct sim_node *node, uint64_t round)
{
    uint64_t hash = sim_rounds_sum_hash(sim, &node->state, node->sum);
    bool liar = node->index == sim->profile.liar;
    bool parts = sim->profile.stages.parts;
    if (hash == sim->reference_sum[round] && (!parts || segments_total_right(sim, node)))
        return true;
    if (sim_rounds_flipped(sim, round))
        return false;
    if (liar && round <= sim->profile.rounds)
        sim->liar_sum[round] = hash;
    if (liar || node->strayed)
        return true; /* it believes itself */
    if (follows_liar(sim, node, round))
        sim->limit = true;
    else
        sim_fail(sim, "node %u: wrong sum committed in round %" PRIu64, node->index, round);
    return true;
}

const struct rounds_oracle sim_rounds_oracle = {
    .state = sim_rounds_judge,
    .total = sim_rounds_judge_total,
    .bucket = sim_rounds_bucket_right,
};

/* Whoever is to make the next plan keeps the others no longer than a step, or than nobody minds; where steps are short,
 * no longer than somebody needs to come near. */
static void
judge_wait(struct sim *sim, const struct sim_node *node, const struct core_stats *stats)
{
    uint64_t most_us = stats->step_us > CORE_WAIT_US ? stats->step_us : CORE_WAIT_US;
    if (stats->step_us < LEAD_SHORT_US)
        most_us = LEAD_CHASE_US;
    if (stats->waits_us > most_us + CORE_TICK_US)
        sim_fail(sim, "node %u keeps the others waiting for %" PRIu64 " ms, a step takes %" PRIu64,
                 node->index, stats->waits_us / 1000, stats->step_us / 1000);
}

/* Where shards must not change hands, a member has those that it had in the plan of the round before. Except what
 * somebody else had, too: two plans made the same round, one on each side of a split. That somebody may be gone by now,
 * and the leader not know it yet. */
static void
judge_hands(struct sim *sim, const struct sim_node *node, const struct core_stats *stats)
{
    uint64_t lost = node->held & ~stats->mine;
    if (node->held_round != stats->round || !sim_rounds_pinned(sim, &node->state))
        return;
    for (unsigned i = 0; i < sim->profile.nodes; i++)
        if (i != node->index && (sim->claimed[i][stats->round % 64] & node->held))
            return;
    if (lost)
        sim_fail(sim, "node %u: shards %" PRIx64 " change hands before round %" PRIu64, node->index,
                 lost, stats->round);
}

/* A plan begins at the round of who takes it up, and nobody takes one up again that he has dropped not long ago. */
static void
judge_plan(struct sim *sim, struct sim_node *node, const struct core_stats *stats)
{
    if (stats->round != node->core->plan.now.round)
        sim_fail(sim, "node %u: takes up a plan of round %" PRIu64 " at %" PRIu64, node->index,
                 node->core->plan.now.round, stats->round);
    for (unsigned k = 0; k < SIM_PLANS; k++)
        if (node->plans[k] == stats->plan)
            sim_fail(sim, "node %u: takes up a plan again in round %" PRIu64, node->index,
                     stats->round);
    judge_hands(sim, node, stats);
    node->plans[node->plan_count++ % SIM_PLANS] = stats->plan;
}

/* What must hold after every event, whatever comes of it. */
void
sim_rounds_judge_event(struct sim *sim, struct sim_node *node, const struct sim_event *event)
{
    struct core_stats stats;
    core_stats(node->core, &stats);
    if (event->kind == SIM_TICK) {
        judge_wait(sim, node, &stats);
        network_judge_kept(sim, node);
    }
    if (stats.plan && stats.plan != node->plan)
        judge_plan(sim, node, &stats);
    node->plan = stats.plan;
    segments_note(sim);
}

bool
sim_rounds_done(const struct sim *sim)
{
    for (unsigned i = 0; i < sim->profile.nodes; i++)
        if (sim->nodes[i].up && (!sim->nodes[i].done || is_astray(&sim->nodes[i])) &&
            i != sim->profile.liar)
            return false;
    return !segments_awaited(sim);
}

void
sim_rounds_judge_end(struct sim *sim)
{
    sim->limit = sim->limit || segments_alone(sim);
    for (unsigned i = 0; i < sim->profile.nodes && !sim->limit; i++)
        if (segments_left_alone(sim, &sim->nodes[i]))
            sim_fail(sim, "node %u came back, and others had ended without it", i);
        else if (segments_idles(sim, &sim->nodes[i]))
            sim_fail(sim, "node %u does not take what nobody holds", i);
    sim->limit =
        sim->limit || !segments_held(sim); /* who chose before cannot know what would be lost */
    for (unsigned i = 0; i < sim->profile.nodes && !sim->failed && !sim->limit; i++)
        if (sim->nodes[i].up && (!sim->nodes[i].done || is_astray(&sim->nodes[i])) &&
            i != sim->profile.liar)
            sim_fail(sim, "node %u hangs at round %" PRIu64 " of %u%s", i, sim->nodes[i].round,
                     sim->profile.rounds, is_astray(&sim->nodes[i]) ? " with a wrong state" : "");
}

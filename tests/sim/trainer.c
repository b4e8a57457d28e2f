/* trainer.c - a training run as a pure function, small enough to run millions of times.
 *
 * state(t+1) = F(state(t), sum over shards). The gradient of a shard is a function of (state, shard,
 * element), except for the first elements, which count: element c gets 1 from each shard that is c
 * modulo the number of counters, so their sums are known beforehand. Which buckets a round exchanges is a function of the state, too, like an evaluation that
 * needs only the last one. The reference runs the same function without a mesh. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/mix.h"
#include "tests/sim/sim.h"

/* Shards that counter c counts. */
static uint64_t
counted(const struct sim_profile *p, unsigned c)
{
    return (p->shards + p->counters - 1 - c) / p->counters;
}

static int32_t
gradient(const struct sim_profile *p, const struct sim_state *state, uint64_t round, unsigned shard,
         size_t element)
{
    if (element < p->counters)
        return shard % p->counters == element;
    unsigned owner;
    if (audit_claim_of(p, element, &owner) && owner != shard)
        return 0;
    uint64_t bits = mix64(state->words[0] + round * 1000003 + shard * 10007 + element);
    return (int32_t)(bits >> 40) - (1 << 23);
}

uint64_t
trainer_hash(const struct sim *sim, const struct sim_state *state)
{
    uint64_t hash = 1;
    for (unsigned w = 0; w < sim->profile.words + sim->profile.counters; w++)
        hash = mix64_pair(hash, state->words[w]);
    return hash | 1;
}

/* Every sixth round is an evaluation, every sixth begins in the middle. */
static size_t
first_bucket(const struct sim *sim, const struct sim_state *state)
{
    switch (state->words[0] % 6) {
    case 0:
        return sim->profile.buckets - 1;
    case 1:
        return sim->profile.buckets / 2;
    default:
        return 0;
    }
}

static uint64_t
sum_hash(const struct sim *sim, const struct sim_state *state, const int32_t *sum)
{
    uint64_t hash = 2;
    for (size_t b = first_bucket(sim, state); b < sim->profile.buckets; b++)
        for (uint64_t e = 0; e < sim->profile.bucket[b].count; e++)
            hash = hash * 0x9e3779b97f4a7c15u + (uint32_t)sum[sim->profile.bucket[b].first + e];
    return mix64(hash);
}

static void
apply(const struct sim *sim, struct sim_state *state, uint64_t total, const int32_t *sum)
{
    for (unsigned w = 0; w < sim->profile.words; w++)
        state->words[w] = mix64_pair(state->words[w], total + w);
    for (unsigned c = 0; c < sim->profile.counters; c++)
        state->words[sim->profile.words + c] += (uint64_t)sum[c];
}

void
trainer_reference(struct sim *sim)
{
    int32_t sum[SIM_VECTOR_MAX];
    if (sim->profile.rounds + 1 > sim->reference_room) {
        sim->reference_room = sim->profile.rounds + 1;
        free(sim->reference);
        free(sim->reference_sum);
        free(sim->liar_hash);
        free(sim->liar_sum);
        sim->liar_hash = calloc(sim->reference_room, sizeof *sim->liar_hash);
        sim->liar_sum = calloc(sim->reference_room, sizeof *sim->liar_sum);
        sim->reference = calloc(sim->reference_room, sizeof *sim->reference);
        sim->reference_sum = calloc(sim->reference_room, sizeof *sim->reference_sum);
        if (!sim->reference || !sim->reference_sum || !sim->liar_hash || !sim->liar_sum)
            abort();
    }
    memset(sim->liar_hash, 0, sim->reference_room * sizeof *sim->liar_hash);
    memset(sim->liar_sum, 0, sim->reference_room * sizeof *sim->liar_sum);
    memset(sim->reference, 0, sizeof *sim->reference);
    for (unsigned w = 0; w < sim->profile.words; w++)
        sim->reference[0].words[w] = mix64_pair(sim->seed, w);
    for (unsigned t = 0; t < sim->profile.rounds; t++) {
        const struct sim_state *state = &sim->reference[t];
        for (size_t e = 0; e < sim->profile.vector; e++) {
            uint32_t total = 0;
            for (unsigned s = 0; s < sim->profile.shards; s++)
                total += (uint32_t)gradient(&sim->profile, state, t, s, e);
            sum[e] = (int32_t)total;
        }
        sim->reference_sum[t] = sum_hash(sim, state, sum);
        sim->reference[t + 1] = *state;
        apply(sim, &sim->reference[t + 1], sim->reference_sum[t], sum);
    }
}

static void
judge_counters(struct sim *sim, const struct sim_node *node)
{
    const struct sim_profile *p = &sim->profile;
    if (node->index == p->liar)
        return;
    for (unsigned c = 0; c < p->counters; c++)
        if (node->state.words[p->words + c] != node->round * counted(p, c))
            sim_fail(sim,
                     "node %u: counter %u says %" PRIu64 " after %" PRIu64 " rounds of %" PRIu64
                     " shards",
                     node->index, c, node->state.words[p->words + c], node->round, counted(p, c));
}

/* The limit that README names: it took the wrong state of a node before anybody else had computed that round. */
static bool
taken_unseen(const struct sim *sim, const struct sim_node *node)
{
    bool taken = false;
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        const struct sim_node *other = &sim->nodes[i];
        if (other == node || !other->up)
            continue;
        if (other->wrong && other->round == node->round &&
            memcmp(&other->state, &node->state, sizeof node->state) == 0)
            taken = true;
        else if (other->round >= node->round)
            return false;
    }
    return taken;
}

/* Nor do audits help a node that takes the state of a liar who trains alone since it was found out, having met nobody
 * else yet. */
static bool
led_astray(const struct sim *sim, const struct sim_node *node)
{
    return sim->profile.liar < SIM_NODES_MAX && node->round <= sim->profile.rounds &&
           sim->liar_hash[node->round] == trainer_hash(sim, &node->state);
}

static void
judge(struct sim *sim, struct sim_node *node, const char *how, bool flipped)
{
    node->wrong = flipped;
    if (node->index == sim->profile.liar && node->round <= sim->profile.rounds)
        sim->liar_hash[node->round] = trainer_hash(sim, &node->state);
    if (node->strayed && node->round <= sim->profile.rounds &&
        memcmp(&node->state, &sim->reference[node->round], sizeof node->state) == 0)
        node->strayed = false;
    if (node->index != sim->profile.liar && !flipped && !node->strayed &&
        (node->round > sim->profile.rounds ||
         memcmp(&node->state, &sim->reference[node->round], sizeof node->state) != 0)) {
        if (taken_unseen(sim, node) || led_astray(sim, node))
            sim->limit = true;
        else
            sim_fail(sim,
                     "node %u: state before round %" PRIu64 " differs from the reference after %s",
                     node->index, node->round, how);
    }
    if (!sim->limit)
        judge_counters(sim, node);
    sim->trace = mix64_pair(sim->trace, node->state.words[0] ^ node->round);
}

static void
tell(struct sim *sim, struct sim_node *node)
{
    node->done = node->round == sim->profile.rounds;
    if (node->done && !node->done_us)
        node->done_us = sim->now;
    node->busy = SIM_FREE;
    if (rand_below(&sim->rand, 3) == 0)
        sim_disk_write(sim, node);
    core_on_applied(node->core, sim->now, node->round, trainer_hash(sim, &node->state),
                    first_bucket(sim, &node->state), node->done);
}

void
trainer_start(struct sim *sim, struct sim_node *node)
{
    judge(sim, node, "a start", false);
    tell(sim, node);
}

/* When it has returned what it borrowed. */
static uint64_t
free_at(const struct sim *sim, const struct sim_node *node)
{
    return node->lent_until > sim->now ? node->lent_until : sim->now;
}

void
trainer_compute(struct sim *sim, struct sim_node *node, uint64_t round, uint64_t shards, bool fresh)
{
    if (node->busy != SIM_FREE)
        sim_fail(sim, "node %u: asked to compute while busy", node->index);
    if (round != node->round)
        sim_fail(sim, "node %u: asked to compute round %" PRIu64 " at %" PRIu64, node->index, round,
                 node->round);
    node->busy = SIM_COMPUTING;
    node->task_round = round;
    node->task_shards = shards;
    if (fresh)
        memset(node->own, 0, sizeof node->own);
    size_t first = first_bucket(sim, &node->state), last = sim->profile.buckets - 1;
    uint64_t each_us = sim->profile.compute_us[node->index] *
                       (uint64_t)__builtin_popcountll(shards) / (last - first + 1);
    uint64_t at = free_at(sim, node);
    for (size_t b = first; b <= last; b++) {
        at += 1 + each_us / 2 + rand_below(&sim->rand, each_us + 1);
        sim_push(sim, at, SIM_BUCKET, node->index, b, 0, NULL);
    }
}

static bool
memory_flips(struct sim *sim)
{
    return !sim->faults_over && sim_permille(sim, sim->profile.memory_permille);
}

static void
flip(struct sim *sim, int32_t *vector, uint64_t count)
{
    uint64_t bit = rand_below(&sim->rand, count * 32);
    sim->counts.flips++;
    vector[bit / 32] = (int32_t)((uint32_t)vector[bit / 32] ^ 1u << bit % 32);
}

/* Is the ledger wrong? A contribution was damaged in memory, or two chunks changed places: the checksum of a hop
 * does not depend on the range, that of the ledger does. */
static bool
round_flipped(const struct sim *sim, uint64_t round)
{
    return round < 64 && ((sim->flipped >> round & 1) || sim->moved[round] > 1);
}

void
trainer_bucket(struct sim *sim, struct sim_node *node, size_t bucket)
{
    const struct core_bucket *b = &sim->profile.bucket[bucket];
    for (unsigned s = 0; s < sim->profile.shards; s++)
        for (uint64_t e = b->first; (node->task_shards >> s & 1) && e < b->first + b->count; e++)
            node->own[e] += gradient(&sim->profile, &node->state, node->task_round, s, e);
    audit_lie(sim, node, bucket, first_bucket(sim, &node->state));
    if (b->count > 0 && node->task_shards && memory_flips(sim)) {
        flip(sim, node->own + b->first, b->count);
        sim->flipped |= 1ull << node->task_round;
    }
    if (bucket + 1 == sim->profile.buckets)
        node->busy = SIM_FREE;
    core_on_bucket(node->core, sim->now, bucket);
}

/* What is lent is marked, so that it shows when somebody writes there, and put right at the end. */
static void
mark(struct sim *sim, struct sim_node *node, size_t bucket)
{
    const struct core_bucket *b = &sim->profile.bucket[bucket];
    memcpy(node->lent_copy, node->sum + b->first, b->count * sizeof *node->sum);
    memset(node->sum + b->first, 0x6b, b->count * sizeof *node->sum);
    node->lent_bucket = bucket;
    node->marked = true;
}

static void
unmark(struct sim *sim, struct sim_node *node)
{
    const struct core_bucket *b = &sim->profile.bucket[node->lent_bucket];
    for (uint64_t e = b->first; node->marked && e < b->first + b->count; e++)
        if (node->sum[e] != 0x6b6b6b6b)
            sim_fail(sim, "node %u: bucket %zu of the sum changed while the trainer had it",
                     node->index, node->lent_bucket);
    if (node->marked)
        memcpy(node->sum + b->first, node->lent_copy, b->count * sizeof *node->sum);
    node->marked = false;
}

/* As led_astray: by a total of the liar's that it was sent, not by one of a plan. */
static bool
follows_liar(const struct sim *sim, const struct sim_node *node, uint64_t round)
{
    struct core_stats stats;
    core_stats(node->core, &stats);
    return sim->profile.liar < SIM_NODES_MAX && stats.members == 0 &&
           round <= sim->profile.rounds &&
           sum_hash(sim, &node->state, node->sum) == sim->liar_sum[round];
}

void
trainer_commit(struct sim *sim, struct sim_node *node, uint64_t round)
{
    unmark(sim, node);
    if (node->wrong)
        sim_fail(sim, "node %u: goes on from a wrong state before round %" PRIu64, node->index,
                 round);
    if (node->busy != SIM_FREE || round != node->round)
        sim_fail(sim, "node %u: commit of round %" PRIu64 " at %" PRIu64, node->index, round,
                 node->round);
    else if (memory_flips(sim)) {
        const struct core_bucket *last = &sim->profile.bucket[sim->profile.buckets - 1];
        flip(sim, node->sum + last->first, last->count);
        node->total_bad = true;
    } else if (sum_hash(sim, &node->state, node->sum) == sim->reference_sum[round])
        node->total_bad = false;
    else if (round_flipped(sim, round))
        node->total_bad = true;
    else if (node->index == sim->profile.liar || node->strayed) {
        node->total_bad = false; /* it believes itself */
        if (node->index == sim->profile.liar && round <= sim->profile.rounds)
            sim->liar_sum[round] = sum_hash(sim, &node->state, node->sum);
    } else if (follows_liar(sim, node, round))
        sim->limit = true;
    else
        sim_fail(sim, "node %u: wrong sum committed in round %" PRIu64, node->index, round);
    node->busy = SIM_COMMITTING;
    sim_push(sim, free_at(sim, node) + 1 + rand_below(&sim->rand, 300), SIM_APPLIED, node->index, 0,
             0, NULL);
}

void
trainer_adopt(struct sim *sim, struct sim_node *node, uint64_t round, uint64_t hash)
{
    if (node->busy != SIM_FREE || round <= node->round)
        sim_fail(sim, "node %u: asked to adopt round %" PRIu64 " at %" PRIu64, node->index, round,
                 node->round);
    node->busy = SIM_ADOPTING;
    node->task_round = round;
    node->task_hash = hash;
    sim_push(sim, free_at(sim, node) + 1 + rand_below(&sim->rand, 300), SIM_APPLIED, node->index, 0,
             0, NULL);
}

static bool
bucket_right(const struct sim *sim, const struct sim_node *node, size_t bucket)
{
    const struct core_bucket *b = &sim->profile.bucket[bucket];
    for (uint64_t e = b->first; e < b->first + b->count; e++) {
        uint32_t total = 0;
        for (unsigned s = 0; s < sim->profile.shards; s++)
            total += (uint32_t)gradient(&sim->profile, &node->state, node->round, s, e);
        if ((int32_t)total != node->sum[e])
            return false;
    }
    return true;
}

/* Now and then a trainer with nothing to do works ahead with a bucket that is final before the others. */
void
trainer_borrow(struct sim *sim, struct sim_node *node)
{
    size_t bucket;
    if (node->busy != SIM_FREE || node->lent || rand_below(&sim->rand, 4) == 0 ||
        !core_lend(node->core, sim->now, &bucket))
        return;
    if (!bucket_right(sim, node, bucket) && !round_flipped(sim, node->round) &&
        sim->profile.liar == SIM_NODES_MAX)
        sim_fail(sim, "node %u: bucket %zu of round %" PRIu64 " is said to be final and is wrong",
                 node->index, bucket, node->round);
    mark(sim, node, bucket);
    node->lent = true;
    node->older_valid = false; /* the next state is being made in its place */
    node->lent_until =
        sim->now + 1 + rand_below(&sim->rand, rand_below(&sim->rand, 8) ? 3000 : 100000);
    sim_push(sim, node->lent_until, SIM_READ, node->index, 0, 0, NULL);
}

void
trainer_read(struct sim *sim, struct sim_node *node)
{
    unmark(sim, node);
    node->lent = false;
    core_on_returned(node->core, sim->now);
}

/* Who lost a member goes on; who came late counts once it computes together with others. */
static void
drill_note(struct sim *sim, struct sim_node *node)
{
    struct core_stats stats;
    core_stats(node->core, &stats);
    bool joins = sim->drill_kind == SIM_RESTART;
    bool counts = !joins || (node->index + 1 == sim->profile.nodes && stats.members > 1);
    if (sim->drill_at_us && !node->recovered_us && counts)
        node->recovered_us = sim->now - sim->drill_at_us;
}

/* How long the nodes that run go without a new round once nothing happens to them any more. */
static void
note_wait(struct sim *sim, struct sim_node *node)
{
    uint64_t from_us = node->progress_us > sim->over_us ? node->progress_us : sim->over_us;
    from_us = node->paused_until > from_us ? node->paused_until : from_us;
    from_us = node->hung_until > from_us ? node->hung_until : from_us;
    uint64_t alone_us = sim->profile.compute_us[node->index] * sim->profile.shards * 3 / 2;
    if (sim->faults_over && !(sim->profile.fault_mask >> SIM_FLIP) && /* some come late */
        sim->now > from_us + alone_us + sim->counts.worst_us)
        sim->counts.worst_us = sim->now - from_us - alone_us;
    node->progress_us = sim->now;
}

/* Compute a shard of another member apart, and compare what it said of it. */
void
trainer_audit(struct sim *sim, struct sim_node *node, uint64_t round, uint64_t shard, int32_t claim)
{
    const struct sim_profile *p = &sim->profile;
    unsigned s = (unsigned)__builtin_ctzll(shard);
    size_t element = p->bucket[p->buckets - 2].first + s;
    if (node->busy != SIM_FREE || round != node->round)
        sim_fail(sim, "node %u: asked to audit round %" PRIu64 " at %" PRIu64, node->index, round,
                 node->round);
    node->busy = SIM_PROBING;
    node->claim_right = gradient(p, &node->state, round, s, element) == claim;
    sim_push(sim, free_at(sim, node) + 1 + p->compute_us[node->index], SIM_APPLIED, node->index, 0,
             0, NULL);
}

/* One at a time, and where all can see it: whoever computes alone cannot. */
static bool
state_flips(struct sim *sim, struct sim_node *node)
{
    struct core_stats stats;
    core_stats(node->core, &stats);
    bool flips = node->flip && stats.members == sim->profile.nodes;
    if (sim->alone)
        flips = alone_flips(node);
    for (unsigned i = 0; i < sim->profile.nodes; i++)
        flips = flips && !sim->nodes[i].wrong;
    if (!flips)
        return false;
    uint64_t bit = rand_below(&sim->rand, sim->profile.words * 64);
    node->state.words[bit / 64] ^= 1ull << bit % 64;
    node->flip = false;
    sim->counts.flips++;
    sim->counts.states++;
    node->strayed = sim->alone;
    return !sim->alone;
}

/* To what the present state was made of, or else to a checkpoint that is older. */
void
trainer_back(struct sim *sim, struct sim_node *node, uint64_t round)
{
    if (node->busy != SIM_FREE || round > node->round)
        sim_fail(sim, "node %u: asked to go back from round %" PRIu64 " at %" PRIu64, node->index,
                 round, node->round);
    node->busy = SIM_GOING_BACK;
    node->task_round = round;
    sim_push(sim, free_at(sim, node) + 1 + rand_below(&sim->rand, 3000), SIM_APPLIED, node->index,
             0, 0, NULL);
}

static void
went_back(struct sim *sim, struct sim_node *node)
{
    unmark(sim, node);
    sim_disk_withdraw(node, node->task_round);
    if (node->older_valid && node->older_round < node->task_round) {
        node->state = node->older;
        node->round = node->older_round;
    } else {
        sim_disk_load(sim, node);
    }
    node->older_valid = false;
    judge(sim, node, "going back", false);
    if (!sim->failed)
        tell(sim, node);
}

void
trainer_applied(struct sim *sim, struct sim_node *node)
{
    if (node->busy == SIM_PROBING) {
        node->busy = SIM_FREE;
        core_on_audited(node->core, sim->now, node->claim_right);
        return;
    }
    if (node->busy == SIM_GOING_BACK) {
        went_back(sim, node);
        return;
    }
    if (node->busy == SIM_ADOPTING) {
        if (trainer_hash(sim, &node->state_in) != node->task_hash) {
            if (sim->profile.liar == SIM_NODES_MAX)
                sim_fail(sim, "node %u: blocks of a state that is not the one offered",
                         node->index);
            node->busy = SIM_FREE;
            core_on_state_bad(node->core, sim->now);
            return;
        }
        node->state = node->state_in;
        node->round = node->task_round;
        node->older_valid = false;
        sim->counts.adoptions++;
        judge(sim, node, "an adoption", false);
    } else if (node->total_bad) {
        node->busy = SIM_FREE;
        node->total_bad = false;
        core_on_total_bad(node->core, sim->now);
        return;
    } else {
        node->older = node->state;
        node->older_round = node->round;
        node->older_valid = true;
        apply(sim, &node->state, sum_hash(sim, &node->state, node->sum), node->sum);
        node->round++;
        sim->counts.commits++;
        drill_note(sim, node);
        judge(sim, node, "a commit", state_flips(sim, node));
    }
    if (sim->play.scenario)
        play_progress(sim, node);
    note_wait(sim, node);
    if (!sim->failed)
        tell(sim, node);
}

/* rounds.c - the engine rounds: what the trainer of each node does when its core asks for it.
 *
 * It computes bucket by bucket, applies totals, takes over states, goes back, audits, and works ahead with what it is
 * lent. Each takes its time. Bits may flip meanwhile: in what it computed, in totals, in states. */
#include <inttypes.h>
#include <string.h>

#include "tests/sim/stages.h"
#include "tests/support/mutant.h"

static const struct rounds_oracle *
oracle(const struct sim *sim)
{
    return sim->profile.inexact ? &sim_inexact_oracle : &sim_rounds_oracle;
}

/* Where shards must not change hands, what a node keeps of its shards goes from round to round: their residuals. Where
 * they may, there is nothing to keep: that state is the one to go back to. */
static void
keep(struct sim *sim, struct sim_node *node)
{
    bool next = node->committing_from == node->round && node->round > 0;
    bool pinned = sim_rounds_pinned(sim, &node->state), moves = !mutant(MUTANT_CODING_KEPT);
    uint64_t some = 0;
    node->committing_from = node->computed = 0;
    for (size_t s = 0; s <= sim->profile.stages.core.cut_count; s++) {
        node->keeps[s] = !pinned ? UINT64_MAX : next ? node->keeps[s] & node->applies[s] : 0;
        some |= node->keeps[s];
    }
    for (unsigned s = 0; s < sim->profile.shards && moves; s++)
        if (some >> s & 1)
            node->residual[s] = sim_rounds_residual(sim, &node->state, s);
    if (pinned)
        return;
    node->span = node->state;
    node->span_round = node->round;
    node->span_valid = true;
}

static bool
pins_next(const struct sim *sim, const struct sim_node *node)
{
    return node->round < sim->profile.rounds &&
           sim_rounds_pinned(sim, sim_state_at(sim, node->round + 1));
}

/* The round in which a codec begins; 0: there is none. */
static uint64_t
coded_from(const struct sim *sim)
{
    return sim->coded ? 2 + sim->seed % 12 : 0;
}

static uint64_t
plans_of_all(const struct sim *sim)
{
    uint64_t plans = 0;
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        struct core_stats stats = {0};
        if (sim->nodes[i].up)
            core_stats(sim->nodes[i].core, &stats);
        plans += stats.plans;
    }
    return plans;
}

static void
tell(struct sim *sim, struct sim_node *node)
{
    uint64_t from = coded_from(sim);
    keep(sim, node);
    node->held = node->committing;
    node->held_round = node->round;
    sim->claimed[node->index][node->round % 64] |= node->held;
    node->committing = 0;
    node->done = node->round == sim->profile.rounds;
    node->was_done = node->was_done || node->done;
    if (node->done && !node->done_us) {
        node->done_us = sim->now;
        node->done_plans = plans_of_all(sim);
    }
    node->busy = SIM_FREE;
    if (rand_below(&sim->rand, 3) == 0 && !sim_rounds_pinned(sim, &node->state) &&
        node->round >= sim->profile.stages.saves_from)
        sim_disk_write(sim, node);
    uint64_t parts[PROTO_STAGES_MAX] = {0};
    for (size_t s = 0; sim->profile.stages.parts && s <= sim->profile.stages.core.cut_count; s++)
        parts[s] = node->holds >> s & 1 ? segments_part(&node->state, s) : 0;
    core_on_applied(node->core, sim->now,
                    &(struct core_state){.holds = node->holds,
                                         .parts = sim->profile.stages.parts ? parts : NULL,
                                         .late = sim->profile.stages.parts && sim->seed % 2,
                                         .round = node->round,
                                         .hash = sim_rounds_hash(sim, &node->state),
                                         .first_bucket = sim_rounds_first_bucket(sim, &node->state),
                                         .done = node->done,
                                         .pinned = sim_rounds_pinned(sim, &node->state),
                                         .pins_next = pins_next(sim, node),
                                         .warms = node->round < from ? from - node->round : 0,
                                         .coded = from && node->round >= from && sim->seed % 3,
                                         .alone = from && node->round > from && !(sim->seed % 3),
                                         .rows = stages_rows(&sim->profile, &node->state)});
    segments_told(sim, node);
}

static void
started(struct sim *sim, struct sim_node *node)
{
    if (node->round == 0)
        node->state = *sim_state_at(sim, 0);
    segments_mask(&sim->profile, &node->state, node->holds);
    oracle(sim)->state(sim, node, "a start", false);
    tell(sim, node);
}

/* It may meet others before it has told its own core what it has. */
void
sim_rounds_start(struct sim *sim, struct sim_node *node)
{
    if (segments_waits(sim, node))
        return;
    if (!sim->profile.stages.parts || sim->seed % 8 > 1) {
        started(sim, node);
        return;
    }
    node->busy = SIM_STARTING;
    sim_push(sim, sim->now + rand_below(&sim->rand, 300000), SIM_APPLIED, node->index, 0, 0, NULL);
}

/* When it has returned what it borrowed. */
uint64_t
sim_rounds_free_at(const struct sim *sim, const struct sim_node *node)
{
    return node->lent_until > sim->now ? node->lent_until : sim->now;
}

/* Then nodes may not agree where shards may change hands; the hashes of their states tell it with the sums. */
static bool
somebody_is_wrong(const struct sim *sim)
{
    for (unsigned i = 0; i < sim->profile.nodes; i++)
        if (sim->nodes[i].up && (sim->nodes[i].wrong || sim->nodes[i].strayed))
            return true;
    return false;
}

void
sim_rounds_judge_kept(struct sim *sim, const struct sim_node *node, size_t segment, uint64_t shards)
{
    uint64_t keeps = node->keeps[segment];
    if ((shards & ~keeps) && !somebody_is_wrong(sim))
        sim_fail(sim,
                 "node %u: asked to compute shards %" PRIx64 " of round %" PRIu64 ", has %" PRIx64
                 " of segment %zu",
                 node->index, shards, node->round, keeps, segment);
}

static void
on_compute(void *ctx, const struct core_task *task)
{
    struct shell *shell = ctx;
    struct sim *sim = shell->sim;
    struct sim_node *node = shell->node;
    if (node->busy != SIM_FREE)
        sim_fail(sim, "node %u: asked to compute while busy", node->index);
    if (task->round != node->round)
        sim_fail(sim, "node %u: asked to compute round %" PRIu64 " at %" PRIu64, node->index,
                 task->round, node->round);
    for (size_t s = 0; s <= sim->profile.stages.core.cut_count; s++)
        sim_rounds_judge_kept(sim, node, s, task->shards);
    node->computed = task->shards | (task->fresh ? 0 : node->computed);
    stages_whole(sim, node);
    node->busy = SIM_COMPUTING;
    node->task_round = task->round;
    node->task_shards = task->shards;
    if (task->fresh)
        memset(node->own, 0, sizeof node->own);
    size_t first = sim_rounds_first_bucket(sim, &node->state), last = sim->profile.buckets - 1;
    uint64_t each_us = sim->profile.compute_us[node->index] *
                       (uint64_t)__builtin_popcountll(task->shards) / (last - first + 1);
    uint64_t at = sim_rounds_free_at(sim, node);
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

void
sim_rounds_own_flips(struct sim *sim, struct sim_node *node, const struct core_bucket *b)
{
    if (b->count == 0 || !memory_flips(sim))
        return;
    flip(sim, node->own + b->first, b->count);
    sim->flipped |= 1ull << node->task_round;
}

static void
bucket_ready(struct sim *sim, struct sim_node *node, size_t bucket)
{
    const struct core_bucket *b = &sim->profile.bucket[bucket];
    for (uint64_t left = node->task_shards; left; left &= left - 1) {
        unsigned s = (unsigned)__builtin_ctzll(left);
        sim_rounds_add(sim, &node->state, node->task_round, bucket, s, node->residual[s],
                       node->own);
        if (mutant(MUTANT_CODING_RESIDUAL) && bucket + 1 == sim->profile.buckets &&
            sim_rounds_pinned(sim, &node->state))
            node->residual[s]++;
    }
    for (uint64_t e = b->first; node->task_shards && e < b->first + b->count; e++)
        node->own[e] += sim_rounds_rounding(&sim->profile, &node->state, node->task_shards, e);
    audit_lie(sim, node, bucket, sim_rounds_first_bucket(sim, &node->state));
    if (node->task_shards)
        sim_rounds_own_flips(sim, node, b);
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

static void
on_commit(void *ctx, uint64_t round)
{
    struct shell *shell = ctx;
    struct sim *sim = shell->sim;
    struct sim_node *node = shell->node;
    unmark(sim, node);
    struct core_stats stats;
    core_stats(node->core, &stats);
    sim_rounds_judge_wrong(sim, node, stats.members);
    if (node->busy != SIM_FREE || round != node->round) {
        sim_fail(sim, "node %u: commit of round %" PRIu64 " at %" PRIu64, node->index, round,
                 node->round);
    } else if (memory_flips(sim)) {
        const struct core_bucket *last = &sim->profile.bucket[sim->profile.buckets - 1];
        flip(sim, node->sum + last->first, last->count);
        node->total_bad = true;
    } else {
        node->total_bad = !oracle(sim)->total(sim, node, round);
    }
    /* else the total came from others */
    node->committing = stats.members ? stats.mine : node->computed;
    for (size_t s = 0; s <= sim->profile.stages.core.cut_count; s++) {
        node->applies[s] = node->computed | stages_has(sim, node, s);
        sim->claimed[node->index][(round + 1) % 64] |= node->applies[s];
    }
    node->committing_from = node->round + 1;
    node->busy = SIM_COMMITTING;
    sim_push(sim, sim_rounds_free_at(sim, node) + 1 + rand_below(&sim->rand, 300), SIM_APPLIED,
             node->index, 0, 0, NULL);
}

static void
on_adopt(void *ctx, uint64_t round, uint64_t hash, const uint64_t *parts)
{
    struct shell *shell = ctx;
    struct sim *sim = shell->sim;
    struct sim_node *node = shell->node;
    memcpy(node->task_parts, parts, sizeof node->task_parts);
    if (node->busy != SIM_FREE || round <= node->round)
        sim_fail(sim, "node %u: asked to adopt round %" PRIu64 " at %" PRIu64, node->index, round,
                 node->round);
    node->busy = SIM_ADOPTING;
    node->task_round = round;
    node->task_hash = hash;
    node->task_told = sim_rounds_told(node);
    sim_push(sim, sim_rounds_free_at(sim, node) + 1 + rand_below(&sim->rand, 300), SIM_APPLIED,
             node->index, 0, 0, NULL);
}

/* Now and then a trainer with nothing to do works ahead with a bucket that is final before the others. */
void
sim_rounds_borrow(struct sim *sim, struct sim_node *node)
{
    size_t bucket;
    if (node->busy != SIM_FREE || node->lent || rand_below(&sim->rand, 4) == 0 ||
        !core_lend(node->core, sim->now, &bucket))
        return;
    if (!oracle(sim)->bucket(sim, node, bucket) && !sim_rounds_flipped(sim, node->round) &&
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

static void
returned(struct sim *sim, struct sim_node *node)
{
    unmark(sim, node);
    node->lent = false;
    core_on_returned(node->core, sim->now);
}

/* Who lost a member goes on; who came late counts once it computes together with others. Who watches when it commits
 * next is not timed, as in drill_begin. */
static void
drill_note(struct sim *sim, struct sim_node *node)
{
    struct core_stats stats;
    core_stats(node->core, &stats);
    bool joins = sim->drill_kind == SIM_RESTART;
    bool counts = !joins || (node->index + 1 == sim->profile.nodes && stats.members > 1);
    if (sim->drill_at_us && !node->recovered_us && counts)
        node->recovered_us = stats.benched ? SIM_WATCHES : sim->now - sim->drill_at_us;
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
static void
on_audit(void *ctx, uint64_t round, uint64_t shard, const int32_t *claim, size_t words)
{
    struct shell *shell = ctx;
    struct sim *sim = shell->sim;
    struct sim_node *node = shell->node;
    const struct sim_profile *p = &sim->profile;
    unsigned s = (unsigned)__builtin_ctzll(shard);
    size_t element = p->bucket[p->buckets - 2].first + s;
    if (words != 1)
        sim_fail(sim, "a claim of %zu words", words);
    if (node->busy != SIM_FREE || round != node->round)
        sim_fail(sim, "node %u: asked to audit round %" PRIu64 " at %" PRIu64, node->index, round,
                 node->round);
    node->busy = SIM_PROBING;
    node->claim_right =
        sim_rounds_gradient(sim, &node->state, round, p->buckets - 2, s, element) == *claim;
    sim_push(sim, sim_rounds_free_at(sim, node) + 1 + p->compute_us[node->index], SIM_APPLIED,
             node->index, 0, 0, NULL);
}

/* One at a time, and where it can be seen: by all members, or by a node that follows others and hears all, with
 * --followers-flip also if it does not. Who computes alone cannot see it. Of many flips, those of followers are in the
 * word that says which buckets the round has. */
static bool
state_flips(struct sim *sim, struct sim_node *node)
{
    struct core_stats stats;
    core_stats(node->core, &stats);
    bool hears = stats.peers + 1 == sim->profile.nodes && stats.ahead > node->round;
    bool follows = stats.members == 0 && stats.catching_up && (hears || sim->followers_flip);
    bool flips =
        node->flip && !sim->profile.inexact && (stats.members == sim->profile.nodes || follows);
    if (sim->alone)
        flips = alone_flips(node);
    for (unsigned i = 0; i < sim->profile.nodes; i++)
        flips = flips && !sim->nodes[i].wrong && !sim->nodes[i].strayed;
    if (!flips)
        return false;
    uint64_t words = sim->many_flips && follows ? 1 : sim->profile.words;
    uint64_t bit = rand_below(&sim->rand, words * 64);
    node->state.words[bit / 64] ^= 1ull << bit % 64;
    node->flip = false;
    sim->counts.flips++;
    sim->counts.states++;
    sim->state_flips++;
    node->strayed = sim->alone;
    sim->astray_since = node->round;
    return !sim->alone;
}

/* To what the present state was made of, or else to a checkpoint that is older. */
static void
on_back(void *ctx, uint64_t round, bool wrong)
{
    struct shell *shell = ctx;
    struct sim *sim = shell->sim;
    struct sim_node *node = shell->node;
    if (node->busy != SIM_FREE || round > node->round)
        sim_fail(sim, "node %u: asked to go back from round %" PRIu64 " at %" PRIu64, node->index,
                 round, node->round);
    sim_rounds_gives_up(sim, node);
    sim->counts.begun_again += !wrong && round == 1 && node->round > 0;
    node->busy = SIM_GOING_BACK;
    node->task_round = round;
    node->committing = 0;
    sim_push(sim, sim_rounds_free_at(sim, node) + 1 + rand_below(&sim->rand, 3000), SIM_APPLIED,
             node->index, 0, 0, NULL);
}

static const uint8_t *
on_state(void *ctx)
{
    struct shell *shell = ctx;
    if (shell->node->busy == SIM_COMMITTING || shell->node->busy == SIM_ADOPTING ||
        shell->node->busy == SIM_GOING_BACK)
        sim_fail(shell->sim, "node %u: state read while it changes", shell->node->index);
    return (const uint8_t *)&shell->node->state;
}

static void
went_back(struct sim *sim, struct sim_node *node)
{
    unmark(sim, node);
    sim_disk_withdraw(node, node->task_round);
    bool older = node->older_valid && node->older_round < node->task_round;
    if (older && !sim_rounds_pinned(sim, &node->older)) {
        node->state = node->older;
        node->round = node->older_round;
    } else if (sim->profile.pins && node->span_valid && node->span_round < node->task_round) {
        node->state = node->span;
        node->round = node->span_round;
    } else {
        sim_disk_load(sim, node);
    }
    node->older_valid = false;
    oracle(sim)->state(sim, node, "going back", false);
    if (!sim->failed)
        tell(sim, node);
}

/* Are the segments that were received those that were offered? */
static bool
parts_right(const struct sim *sim, const struct sim_node *node)
{
    for (size_t s = 0; sim->profile.stages.parts && s <= sim->profile.stages.core.cut_count; s++)
        if ((node->holds >> s & 1) && segments_part(&node->state_in, s) != node->task_parts[s])
            return false;
    return true;
}

static void
held(struct sim *sim, struct sim_node *node)
{
    node->round = 0;
    node->older_valid = false;
    node->state = *sim_state_at(sim, 0);
    segments_mask(&sim->profile, &node->state, node->holds);
    oracle(sim)->state(sim, node, "a choice", false);
    if (!sim->failed)
        tell(sim, node);
}

static void
grown(struct sim *sim, struct sim_node *node)
{
    if (!segments_grown(sim, node)) {
        node->busy = SIM_FREE;
        core_on_damaged(node->core, sim->now, CORE_COPY_DAMAGED);
        return;
    }
    oracle(sim)->state(sim, node, "growing", false);
    if (!sim->failed)
        tell(sim, node);
}

static void
applied(struct sim *sim, struct sim_node *node)
{
    if (node->busy == SIM_STARTING) {
        started(sim, node);
        return;
    }
    if (node->busy == SIM_HOLDING) {
        held(sim, node);
        return;
    }
    if (node->busy == SIM_PROBING) {
        node->busy = SIM_FREE;
        core_on_audited(node->core, sim->now, node->claim_right);
        return;
    }
    if (node->busy == SIM_GOING_BACK) {
        went_back(sim, node);
        return;
    }
    if (node->busy == SIM_GROWING) {
        grown(sim, node);
        return;
    }
    if (node->busy == SIM_ADOPTING) {
        if (sim_rounds_hash(sim, &node->state_in) != node->task_hash || !parts_right(sim, node)) {
            if (sim->profile.liar == SIM_NODES_MAX)
                sim_fail(sim, "node %u: blocks of a state that is not the one offered",
                         node->index);
            node->busy = SIM_FREE;
            core_on_damaged(node->core, sim->now, CORE_COPY_DAMAGED);
            return;
        }
        node->state = node->state_in;
        segments_mask(&sim->profile, &node->state, node->holds);
        node->round = node->task_round;
        node->older_valid = false;
        sim->counts.adoptions++;
        oracle(sim)->state(sim, node, "an adoption", false);
    } else if (node->total_bad) {
        node->busy = SIM_FREE;
        node->total_bad = false;
        node->committing = 0;
        core_on_damaged(node->core, sim->now, CORE_TOTAL_DAMAGED);
        return;
    } else {
        node->older = node->state;
        node->older_round = node->round;
        node->older_valid = true;
        sim_rounds_apply(sim, &node->state, sim_rounds_sum_hash(sim, &node->state, node->sum),
                         node->sum);
        segments_mask(&sim->profile, &node->state, node->holds);
        node->round++;
        sim->counts.commits++;
        drill_note(sim, node);
        oracle(sim)->state(sim, node, "a commit", state_flips(sim, node));
    }
    if (sim->play.scenario)
        play_progress(sim, node);
    note_wait(sim, node);
    if (!sim->failed)
        tell(sim, node);
}

void
sim_rounds_event(struct sim *sim, struct sim_node *node, const struct sim_event *event)
{
    if (event->kind == SIM_BUCKET)
        bucket_ready(sim, node, (size_t)event->a);
    else if (event->kind == SIM_PIECE)
        stages_computed(sim, node);
    else if (event->kind == SIM_APPLIED && event->a)
        segments_gather(sim, node);
    else if (event->kind == SIM_APPLIED)
        applied(sim, node);
    else if (event->kind == SIM_READ)
        returned(sim, node);
}

static void
on_forget(void *ctx)
{
    struct shell *shell = ctx;
    memset(shell->node->log, 0x55, sizeof shell->node->log); /* as before anything was in it */
}

static void
on_page(void *ctx, uint64_t round, const void *data, size_t size)
{
    struct shell *shell = ctx;
    repair_page(shell->sim, shell->node, round, data, size);
}

void
sim_rounds_trainer(struct core_config *config, struct shell *shell)
{
    static const struct core_trainer callbacks = {
        .compute = on_compute,
        .commit = on_commit,
        .job_offered = shell_job_offered,
        .page = on_page,
        .adopt = on_adopt,
        .back = on_back,
        .audit = on_audit,
        .state = on_state,
        .forget = on_forget,
        .piece = stages_ask,
        .hold = segments_hold,
        .part = segments_take,
    };
    config->trainer = &callbacks;
    config->trainer_ctx = shell;
    stages_trainer(config, shell);
}

const struct sim_state *
sim_rounds_state(const struct sim *sim, uint64_t round)
{
    return &sim->reference[round];
}

static void
begin(struct sim *sim)
{
    stages_profile(sim);
    sim->counts.staged += sim->profile.stages.core.count > 0;
    numbers_profile(sim);
    sim_rounds_reference(sim);
}

static void
idle(struct sim *sim, struct sim_node *node)
{
    sim_rounds_borrow(sim, node);
    stages_hostile(sim, node);
}

const struct sim_engine sim_engine_rounds = {
    .name = "rounds",
    .begin = begin,
    .end = sim_rounds_end,
    .state = sim_rounds_state,
    .hash = sim_rounds_hash,
    .trainer = sim_rounds_trainer,
    .start = sim_rounds_start,
    .event = sim_rounds_event,
    .idle = idle,
    .came = sim_rounds_came,
    .judge = sim_rounds_judge_event,
    .done = sim_rounds_done,
    .judge_end = sim_rounds_judge_end,
};

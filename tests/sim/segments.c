/* segments.c - in half of the schedules with stages nodes have room for a part of the model only: what they hold of a
 * state, and what the core may ask of a trainer then.
 *
 * Word 0 of a state is its name, as all know it: it comes of the last bucket. Word 1 + s is segment s, and comes of the
 * buckets of that segment. What a node does not hold is marked. */
#include <inttypes.h>
#include <string.h>

#include "proto/bits.h"
#include "proto/mix.h"
#include "tests/sim/stages.h"

enum {
    NOT_HELD = 0x5a,
    STRIKES = 58,      /* stages.c has those before */
    SURE_US = 1000000, /* what was lost for so long is known to all, once the faults are over */
};

/* --- Profile -------------------------------------------------------------------------------------- */

static void
spans(struct sim_profile *p)
{
    struct sim_stages *s = &p->stages;
    size_t n = s->core.cut_count + 1, word = sizeof(uint64_t);
    s->spans[0] = (struct core_span){0, word, CORE_ALL_HOLD};
    for (size_t k = 0; k < n; k++)
        s->spans[1 + k] = (struct core_span){(1 + k) * word, word, (int)k};
    s->spans[1 + n] = (struct core_span){(1 + n) * word, p->counters * word, CORE_ALL_HOLD};
    s->core.spans = s->spans;
    s->core.span_count = n + 1 + (p->counters > 0);
}

/* So much that the nodes hold everything about twice, or one of them all and the others something. */
static void
rooms(struct rand *rand, struct sim_profile *p)
{
    struct sim_stages *s = &p->stages;
    uint64_t all = 0, most = 0;
    for (size_t k = 0; k <= s->core.cut_count; k++) {
        all += s->bytes[k];
        most = s->bytes[k] > most ? s->bytes[k] : most;
    }
    bool one = rand_bool(rand);
    for (unsigned i = 0; i < p->nodes; i++)
        s->room[i] =
            one ? rand_range(rand, 2 * most, all + 2 * most) : 2 * all / p->nodes + 2 * most;
    if (one)
        s->room[rand_below(rand, p->nodes)] = all;
}

/* In half of them a node dies before anything is saved, in the last rounds, or when it is done, and comes back. */
static void
strike(struct sim_profile *p, uint64_t seed)
{
    struct rand rand = {mix64_pair(seed, STRIKES)};
    struct sim_stages *s = &p->stages;
    if (rand_bool(&rand))
        return;
    bool first = rand_below(&rand, 3) == 0;
    uint64_t round = first ? rand_below(&rand, p->rounds < 4 ? p->rounds : 4)
                           : p->rounds - rand_below(&rand, p->rounds < 4 ? p->rounds : 4);
    s->strike.phase = SIM_STRIKES;
    s->strike.node = (unsigned)rand_below(&rand, p->nodes);
    s->strike.round = round;
    s->strike.after_us = rand_below(&rand, rand_bool(&rand) ? 3000 : 300000);
    s->strike.down_us = rand_range(&rand, 1000, rand_bool(&rand) ? 500000 : 6000000);
    s->strike.silent = rand_bool(&rand);
    s->strike.disk = rand_below(&rand, 4) > 0;
    s->saves_from = first ? p->rounds + 1 : 0;
    p->leave = rand_bool(&rand);
    if (p->leave) { /* who comes back may find nobody */
        p->peers_min = 1;
        p->gathers = false;
    }
}

void
segments_profile(struct rand *rand, struct sim_profile *p, uint64_t seed)
{
    struct sim_stages *s = &p->stages;
    s->parts = true;
    p->words = (unsigned)s->core.cut_count + 2;
    p->page_words = 0;
    p->cuts_stay = p->leave =
        false; /* who hears only some, or comes late, may find nobody who has what it holds */
    for (size_t k = 0; k <= s->core.cut_count; k++)
        s->bytes[k] = rand_range(rand, 1, 4);
    s->core.bytes = s->bytes;
    s->core.mirror = rand_below(rand, 8) > 0;
    spans(p);
    rooms(rand, p);
    strike(p, seed);
}

uint64_t
segments_all(const struct sim_profile *p)
{
    return core_segments(&p->stages.core);
}

static uint64_t
bytes_of(const struct sim_profile *p, uint64_t segments)
{
    uint64_t sum = 0;
    for (; segments; segments &= segments - 1)
        sum += p->stages.bytes[__builtin_ctzll(segments)];
    return sum;
}

/* Every second machine has memory for all when it comes back. */
uint64_t
segments_room(const struct sim_profile *p, const struct sim_node *node)
{
    bool more = p->stages.parts && node->index % 2 && node->incarnation > 1;
    return more ? bytes_of(p, segments_all(p)) : p->stages.room[node->index];
}

/* --- A state -------------------------------------------------------------------------------------- */

uint64_t
segments_part(const struct sim_state *state, size_t segment)
{
    return mix64_pair(state->words[1 + segment], segment) | 1;
}

void
segments_mask(const struct sim_profile *p, struct sim_state *state, uint64_t holds)
{
    for (size_t s = 0; p->stages.parts && s <= p->stages.core.cut_count; s++)
        if (!(holds >> s & 1))
            memset(&state->words[1 + s], NOT_HELD, sizeof state->words[1 + s]);
}

bool
segments_equal(const struct sim_profile *p, const struct sim_node *node,
               const struct sim_state *state)
{
    struct sim_state held = *state;
    segments_mask(p, &held, node->holds);
    return memcmp(&node->state, &held, sizeof held) == 0;
}

bool
segments_of_either(const struct sim_profile *p, const struct sim_node *node,
                   const struct sim_state *one, const struct sim_state *other)
{
    struct sim_state a = *one, b = *other;
    segments_mask(p, &a, node->holds);
    segments_mask(p, &b, node->holds);
    size_t count = sizeof a.words / sizeof *a.words, w = 0;
    while (w < count && (node->state.words[w] == a.words[w] || node->state.words[w] == b.words[w]))
        w++;
    return w == count;
}

void
segments_apply(const struct sim_profile *p, struct sim_state *state, const int32_t *sum)
{
    for (size_t s = 0; s <= p->stages.core.cut_count; s++) {
        uint64_t hash = s;
        for (size_t b = 0; b + 1 < p->buckets; b++)
            for (uint64_t e = 0; core_segment_of(&p->stages.core, b) == s && e < p->bucket[b].count;
                 e++)
                hash = hash * 0x9e3779b97f4a7c15u + (uint32_t)sum[p->bucket[b].first + e];
        state->words[1 + s] = mix64_pair(state->words[1 + s], hash);
    }
}

/* Are the sums of what it holds those of the reference? */
bool
segments_total_right(const struct sim *sim, const struct sim_node *node)
{
    const struct sim_profile *p = &sim->profile;
    for (size_t b = sim_rounds_first_bucket(sim, &node->state); b + 1 < p->buckets; b++)
        if ((node->holds >> core_segment_of(&p->stages.core, b) & 1) &&
            !sim_rounds_bucket_right(sim, node, b))
            return false;
    return true;
}

/* --- What is asked of a trainer ------------------------------------------------------------------- */

bool
segments_waits(const struct sim *sim, struct sim_node *node)
{
    const struct sim_profile *p = &sim->profile;
    uint64_t all = segments_all(p);
    if (!p->stages.parts || node->holds)
        return false;
    if (p->stages.core.mirror && bytes_of(p, all) <= segments_room(p, node))
        node->holds = all;
    return node->holds == 0;
}

/* Segments that nobody has held for so long since the faults were over, while all were awake. */
static uint64_t
lost_for(const struct sim *sim, const struct sim_node *node, uint64_t us)
{
    uint64_t lost = 0, from_us = sim->over_us;
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        const struct sim_node *of = &sim->nodes[i];
        from_us = of->paused_until > from_us ? of->paused_until : from_us;
        from_us = of->hung_until > from_us ? of->hung_until : from_us;
    }
    from_us = node->progress_us > from_us ? node->progress_us : from_us; /* its start, too */
    for (size_t s = 0; s <= sim->profile.stages.core.cut_count; s++) {
        uint64_t since_us = sim->lost_us[s] > from_us ? sim->lost_us[s] : from_us;
        bool is = sim->lost_us[s] && sim->faults_over && sim->now >= since_us + us;
        lost |= (uint64_t)is << s;
    }
    return lost;
}

/* Has the node room for a place of which all is lost? */
static bool
fits_some(const struct sim_profile *p, const struct sim_node *node, uint64_t lost)
{
    uint64_t ends = UINT64_C(1) | UINT64_C(1) << p->stages.core.cut_count;
    for (size_t s = 0; s <= p->stages.core.cut_count; s++) {
        uint64_t place = UINT64_C(1) << s;
        place = p->stages.core.tied && (place & ends) ? ends : place;
        if (!(place & ~lost) && bytes_of(p, place) <= segments_room(p, node))
            return true;
    }
    return false;
}

/* Nobody has begun, and those with lower ids hold all that it holds. */
static bool
is_spare(const struct sim *sim, const struct sim_node *node)
{
    uint64_t held = 0;
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        const struct sim_node *other = &sim->nodes[i];
        if (other->up && other->round > 0)
            return false;
        held |= other->up && other->id < node->id ? other->holds : 0;
    }
    return !(node->holds & ~held);
}

bool
segments_idles(const struct sim *sim, const struct sim_node *node)
{
    return node->up && (node->holds == 0 || is_spare(sim, node)) &&
           fits_some(&sim->profile, node, lost_for(sim, node, 0));
}

/* It must be of the last state, as the reference has it. */
static void
gathered(struct sim *sim, struct sim_node *node, uint64_t segments, const uint64_t *parts)
{
    for (size_t s = 0; s <= sim->profile.stages.core.cut_count; s++) {
        uint64_t right = segments_part(sim_state_at(sim, node->round), s);
        if ((segments >> s & 1) &&
            (parts[s] != right || segments_part(&node->state_in, s) != right))
            sim_fail(sim, "node %u: segment %zu for its file is of another state", node->index, s);
    }
    node->gathered |= segments ? segments : segments_all(&sim->profile);
    sim_push(sim, sim->now + 1 + rand_below(&sim->rand, 300), SIM_APPLIED, node->index, 1, 0, NULL);
}

void
segments_gather(struct sim *sim, struct sim_node *node)
{
    uint64_t missing = segments_all(&sim->profile) & ~node->gathered;
    if (node->done)
        core_part(node->core, sim->now, missing & -missing);
}

void
segments_told(struct sim *sim, struct sim_node *node)
{
    struct sim_stages *s = &sim->profile.stages;
    bool due = s->strike.phase == SIM_STRIKES && node->index == s->strike.node &&
               node->round == s->strike.round;
    if (!s->parts)
        return;
    node->gathered = node->holds;
    if (sim->profile.leave && node->done && node->holds != segments_all(&sim->profile))
        segments_gather(sim, node);
    if (!due)
        return;
    s->strike.phase = SIM_STRUCK;
    sim_push(sim, sim->now + s->strike.after_us, SIM_FAULT, 0, true, 1, NULL);
    sim_push(sim, sim->now + s->strike.after_us + s->strike.down_us, SIM_FAULT, 0, false, 1, NULL);
}

void
segments_struck(struct sim *sim, bool falls)
{
    struct sim_stages *s = &sim->profile.stages;
    struct sim_node *node = &sim->nodes[s->strike.node];
    if (sim->verbose)
        printf("%9.3f ms  strike: node %u %s\n", (double)sim->now / 1000, node->index,
               falls ? "dies" : "comes back");
    sim->fault_us = sim->now;
    s->strike.done = s->strike.done || (falls && node->done);
    if (falls && node->up)
        shell_crash(sim, node->index, s->strike.silent);
    if (falls)
        return;
    s->strike.phase = SIM_CAME_BACK;
    sim->counts.strikes++;
    if (!node->up && !node->left)
        shell_boot(sim, node->index, s->strike.disk);
    if (sim->faults_over)
        fault_deadline(sim);
}

bool
segments_awaited(const struct sim *sim)
{
    return sim->profile.stages.strike.phase == SIM_STRUCK;
}

void
segments_note(struct sim *sim)
{
    uint64_t held = 0;
    if (!sim->profile.stages.parts)
        return;
    for (unsigned i = 0; i < sim->profile.nodes; i++)
        held |= sim->nodes[i].up ? sim->nodes[i].holds : 0;
    for (size_t s = 0; s <= sim->profile.stages.core.cut_count; s++)
        sim->lost_us[s] = held >> s & 1 ? 0 : sim->lost_us[s] ? sim->lost_us[s] : sim->now;
}

void
segments_hold(void *ctx, uint64_t segments)
{
    struct shell *shell = ctx;
    struct sim *sim = shell->sim;
    struct sim_node *node = shell->node;
    const struct sim_profile *p = &sim->profile;
    bool ends = (segments & 1) == (segments >> p->stages.core.cut_count & 1);
    if (node->busy != SIM_FREE)
        sim_fail(sim, "node %u: asked to hold segments while busy", node->index);
    if (!segments || (segments & ~segments_all(p)) || (p->stages.core.tied && !ends) ||
        bytes_of(p, segments) > segments_room(p, node))
        sim_fail(sim, "node %u: asked to hold segments %" PRIx64 ", which it cannot", node->index,
                 segments);
    uint64_t lost = lost_for(sim, node, SURE_US);
    bool at_once = sim->chose_us && sim->now < sim->chose_us + SURE_US / 2; /* with another node */
    sim->chose_us = sim->now;
    if (!at_once && fits_some(p, node, lost) && !(segments & lost_for(sim, node, 0)))
        sim_fail(sim, "node %u: takes segments %" PRIx64 ", though nobody holds %" PRIx64,
                 node->index, segments, lost);
    node->busy = SIM_HOLDING;
    node->holds = segments;
    node->committing = 0;
    sim_push(sim, sim_rounds_free_at(sim, node) + 1 + rand_below(&sim->rand, 3000), SIM_APPLIED,
             node->index, 0, 0, NULL);
}

void
segments_take(void *ctx, uint64_t round, uint64_t segments, const uint64_t *parts)
{
    struct shell *shell = ctx;
    struct sim *sim = shell->sim;
    struct sim_node *node = shell->node;
    const struct sim_profile *p = &sim->profile;
    if (node->done) {
        gathered(sim, node, segments, parts);
        return;
    }
    if (node->busy != SIM_FREE || round != node->round || !segments || (segments & node->holds) ||
        bytes_of(p, segments | node->holds) > segments_room(p, node))
        sim_fail(sim, "node %u: asked to hold segments %" PRIx64 " more, with %" PRIx64,
                 node->index, segments, node->holds);
    node->busy = SIM_GROWING;
    node->task_holds = segments;
    memcpy(node->task_parts, parts, sizeof node->task_parts);
    sim_push(sim, sim_rounds_free_at(sim, node) + 1 + rand_below(&sim->rand, 300), SIM_APPLIED,
             node->index, 0, 0, NULL);
}

bool
segments_grown(struct sim *sim, struct sim_node *node)
{
    for (size_t s = 0; s <= sim->profile.stages.core.cut_count; s++) {
        if (!(node->task_holds >> s & 1))
            continue;
        if (segments_part(&node->state_in, s) != node->task_parts[s])
            return false;
        node->state.words[1 + s] = node->state_in.words[1 + s];
        node->holds |= UINT64_C(1) << s;
    }
    node->older_valid = false;
    sim->counts.grown++;
    return true;
}

bool
segments_alone(const struct sim *sim)
{
    unsigned up = 0;
    for (unsigned i = 0; i < sim->profile.nodes; i++)
        up += sim->nodes[i].up;
    return sim->profile.leave && sim->profile.stages.strike.done && up == 1;
}

bool
segments_left_alone(const struct sim *sim, const struct sim_node *node)
{
    const struct sim_stages *s = &sim->profile.stages;
    bool left = false, others = false;
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        left = left || sim->nodes[i].left;
        others = others || (i != node->index && sim->nodes[i].incarnation > 1);
    }
    return left && !others && node->up && !node->was_done && s->strike.phase == SIM_CAME_BACK &&
           node->index == s->strike.node && s->strike.round > 0;
}

bool
segments_held(const struct sim *sim)
{
    uint64_t held = 0;
    for (unsigned i = 0; i < sim->profile.nodes; i++)
        held |= sim->nodes[i].up ? sim->nodes[i].holds : 0;
    return !sim->profile.stages.parts || held == segments_all(&sim->profile);
}

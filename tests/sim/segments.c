/* segments.c - in half of the schedules with stages nodes have room for a part of the model only: what they hold of a state, and
 * what the core may ask of a trainer then.
 *
 * Word 0 of a state is its name, as all know it: it comes of the last bucket. Word 1 + s is segment s, and comes of the buckets
 * of that segment. What a node does not hold is marked. */
#include <inttypes.h>
#include <string.h>

#include "proto/bits.h"
#include "proto/mix.h"
#include "tests/sim/shell.h"
#include "tests/sim/stages.h"

enum { NOT_HELD = 0x5a };

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

void
segments_profile(struct rand *rand, struct sim_profile *p)
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
segments_held(const struct sim *sim)
{
    uint64_t held = 0;
    for (unsigned i = 0; i < sim->profile.nodes; i++)
        held |= sim->nodes[i].up ? sim->nodes[i].holds : 0;
    return !sim->profile.stages.parts || held == segments_all(&sim->profile);
}

/* schedule.c - see schedule.h. */
#include "mesh/core/pipeline/schedule.h"

#include <assert.h>

/* What is tried first. */
static const enum schedule_kind order_of[][3] = {
    [SCHEDULE_GPIPE] = {SCHEDULE_FORWARD, SCHEDULE_BACKWARD, SCHEDULE_BACKWARD},
    [SCHEDULE_1F1B] = {SCHEDULE_BACKWARD, SCHEDULE_FORWARD, SCHEDULE_FORWARD},
    [SCHEDULE_ZB] = {SCHEDULE_FORWARD, SCHEDULE_INPUT, SCHEDULE_WEIGHT},
    [SCHEDULE_EVALUATE] = {SCHEDULE_FORWARD, SCHEDULE_FORWARD, SCHEDULE_FORWARD},
};

static unsigned
shards_in(uint64_t bits)
{
    return (unsigned)__builtin_popcountll(bits);
}

static unsigned
fewer(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

struct schedule_room
schedule_room(enum schedule_rule rule, unsigned stages, unsigned stage, unsigned shards)
{
    assert(stages > 0 && stages <= PROTO_STAGES_MAX);
    assert(stage < stages);
    if (rule == SCHEDULE_GPIPE || rule == SCHEDULE_EVALUATE)
        return (struct schedule_room){shards, shards};
    unsigned held = fewer(shards, stages - stage);
    return (struct schedule_room){held, rule == SCHEDULE_ZB ? fewer(shards, stages) : held};
}

void
schedule_init(struct schedule *schedule, enum schedule_rule rule, unsigned stages)
{
    assert(stages > 0 && stages <= PROTO_STAGES_MAX);
    *schedule = (struct schedule){.rule = rule, .stages = stages};
}

void
schedule_tie(struct schedule *schedule)
{
    schedule->tied = schedule->stages > 1;
}

/* Do all members of a stage give their shards to one member each of the next? */
static bool
one_for_each(const uint8_t *owner, const uint8_t *next, unsigned shards)
{
    uint8_t to[PROTO_PEERS_MAX];
    uint64_t known = 0;
    for (unsigned shard = 0; shard < shards; shard++) {
        unsigned from = owner[shard];
        assert(from < PROTO_PEERS_MAX);
        if ((known >> from & 1) && to[from] != next[shard])
            return false;
        known |= UINT64_C(1) << from;
        to[from] = next[shard];
    }
    return true;
}

void
schedule_wait(struct schedule *schedule, unsigned shards, const uint8_t (*owner)[PROTO_SHARDS_MAX])
{
    schedule->waits = 1;
    for (unsigned s = 1; s < schedule->stages && one_for_each(owner[s - 1], owner[s], shards); s++)
        schedule->waits |= UINT64_C(1) << s;
}

void
schedule_add(struct schedule *schedule, unsigned stage, uint64_t shards)
{
    assert(stage < schedule->stages);
    schedule->of[stage].mine |= shards;
    if (stage == 0)
        schedule->of[stage].input |= shards;
}

static bool
is_mine(const struct schedule *schedule, unsigned stage, unsigned shard)
{
    return stage < schedule->stages && shard < PROTO_SHARDS_MAX &&
           (schedule->of[stage].mine >> shard & 1);
}

/* Sets the bit. False: it was set. */
static bool
set_new(uint64_t *bits, unsigned bit)
{
    uint64_t before = *bits;
    *bits |= UINT64_C(1) << bit;
    return *bits != before;
}

bool
schedule_on_input(struct schedule *schedule, unsigned stage, unsigned shard)
{
    return is_mine(schedule, stage, shard) && set_new(&schedule->of[stage].input, shard);
}

bool
schedule_on_gradient(struct schedule *schedule, unsigned stage, unsigned shard)
{
    return is_mine(schedule, stage, shard) && stage + 1 < schedule->stages &&
           set_new(&schedule->of[stage].gradient, shard);
}

/* What was computed of these shards is void. */
static void
shards_forget(struct schedule *schedule, unsigned stage, uint64_t shards)
{
    assert(stage < schedule->stages);
    struct schedule_stage *of = &schedule->of[stage];
    if (stage + 1 == schedule->stages) /* the loss */
        of->gradient &= ~shards;
    of->forward &= ~shards;
    of->backward &= ~shards;
    of->weight &= ~shards;
    if (schedule->busy && schedule->now.stage == stage && (shards >> schedule->now.shard & 1))
        schedule->dropped = true;
}

void
schedule_drop(struct schedule *schedule, unsigned stage, uint64_t shards)
{
    struct schedule_stage *of = &schedule->of[stage];
    shards_forget(schedule, stage, shards);
    of->mine &= ~shards;
    of->input &= ~shards;
    of->gradient &= ~shards;
}

void
schedule_again(struct schedule *schedule, unsigned stage)
{
    shards_forget(schedule, stage, UINT64_MAX);
}

/* --- The choice ----------------------------------------------------------------------------------- */

static bool
all_forward(const struct schedule *schedule)
{
    for (unsigned stage = 0; stage < schedule->stages; stage++)
        if (schedule->of[stage].mine & ~schedule->of[stage].forward)
            return false;
    return true;
}

/* Before a gradient of the input comes; has_room: and now. */
static bool
will_have_room(const struct schedule *schedule, unsigned stage)
{
    const struct schedule_stage *of = &schedule->of[stage];
    struct schedule_room room =
        schedule_room(schedule->rule, schedule->stages, stage, PROTO_SHARDS_MAX);
    return shards_in(of->forward & ~of->backward) < room.held;
}

static bool
has_room(const struct schedule *schedule, unsigned stage)
{
    const struct schedule_stage *of = &schedule->of[stage];
    struct schedule_room room =
        schedule_room(schedule->rule, schedule->stages, stage, PROTO_SHARDS_MAX);
    return will_have_room(schedule, stage) && shards_in(of->forward & ~of->weight) < room.all;
}

/* Shards that the weights of the stage can be used for, going back. */
static uint64_t
tie_ready(const struct schedule *schedule, unsigned stage)
{
    bool waits = schedule->tied && stage == 0;
    return waits ? schedule->of[schedule->stages - 1].backward : UINT64_MAX;
}

/* A member that has other stages, too, need not wait for a neighbour. */
static bool
has_others(const struct schedule *schedule, unsigned stage)
{
    bool others = false;
    for (unsigned s = 0; s < schedule->stages; s++)
        others = others || (s != stage && schedule->of[s].mine);
    return others;
}

/* Gradients of weights that a stage keeps until its last gradient of the input: see schedule.h. */
static unsigned
weights_kept(const struct schedule *schedule, unsigned stage)
{
    bool last = !(schedule->of[stage].mine & ~schedule->of[stage].backward);
    return last || has_others(schedule, stage) ? 0 : stage;
}

/* Does a gradient of the input wait for a forward? */
static bool
forward_first(const struct schedule *schedule, unsigned stage)
{
    const struct schedule_stage *of = &schedule->of[stage];
    return schedule->rule == SCHEDULE_ZB && (schedule->waits >> stage & 1) &&
           (of->mine & ~of->forward) && will_have_room(schedule, stage) &&
           !has_others(schedule, stage);
}

/* Shards of which such a piece can be computed now. */
static uint64_t
schedule_ready(const struct schedule *schedule, unsigned stage, enum schedule_kind kind)
{
    const struct schedule_stage *of = &schedule->of[stage];
    if (kind == SCHEDULE_FORWARD)
        return has_room(schedule, stage) ? of->input & ~of->forward : 0;
    if (kind == SCHEDULE_WEIGHT)
        return shards_in(of->backward & ~of->weight) > weights_kept(schedule, stage)
                   ? of->backward & ~of->weight & tie_ready(schedule, stage)
                   : 0;
    if ((schedule->rule == SCHEDULE_GPIPE && !all_forward(schedule)) ||
        forward_first(schedule, stage))
        return 0;
    return of->forward & of->gradient & ~of->backward & tie_ready(schedule, stage);
}

static unsigned
shard_of(const struct schedule *schedule, enum schedule_kind kind, uint64_t shards)
{
    bool last = schedule->rule == SCHEDULE_GPIPE && kind == SCHEDULE_BACKWARD;
    return (unsigned)(last ? 63 - __builtin_clzll(shards) : __builtin_ctzll(shards));
}

bool
schedule_next(struct schedule *schedule, struct schedule_piece *piece)
{
    for (int i = 0; i < 3 && !schedule->busy; i++)
        for (unsigned stage = schedule->stages; stage-- > 0 && !schedule->busy;) {
            enum schedule_kind kind = order_of[schedule->rule][i];
            uint64_t mine = schedule->of[stage].mine;
            uint64_t shards = mine ? schedule_ready(schedule, stage, kind) : 0;
            if (shards == 0)
                continue;
            schedule->now = (struct schedule_piece){kind, stage, shard_of(schedule, kind, shards)};
            schedule->busy = true;
            *piece = schedule->now;
            return true;
        }
    return false;
}

bool
schedule_done(struct schedule *schedule)
{
    assert(schedule->busy);
    bool counts = !schedule->dropped;
    schedule->busy = schedule->dropped = false;
    if (!counts)
        return false;
    struct schedule_stage *of = &schedule->of[schedule->now.stage];
    uint64_t bit = UINT64_C(1) << schedule->now.shard;
    enum schedule_kind kind = schedule->now.kind;
    if (kind == SCHEDULE_FORWARD) {
        of->forward |= bit;
        of->gradient |= schedule->now.stage + 1 == schedule->stages ? bit : 0;
    }
    bool all = kind == SCHEDULE_BACKWARD || schedule->rule == SCHEDULE_EVALUATE;
    of->backward |= all || kind == SCHEDULE_INPUT ? bit : 0;
    of->weight |= all || kind == SCHEDULE_WEIGHT ? bit : 0;
    return true;
}

bool
schedule_complete(const struct schedule *schedule)
{
    for (unsigned stage = 0; stage < schedule->stages; stage++)
        if (schedule->of[stage].mine & ~schedule->of[stage].weight)
            return false;
    return true;
}

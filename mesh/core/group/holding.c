/* holding.c - see holding.h. Of a model whose ends share a weight, both ends are one place: place 0. */
#include "mesh/core/group/holding.h"

#include <assert.h>
#include <string.h>

#include "mesh/core/group/group.h"
#include "mesh/core/internal.h"
#include "proto/bits.h"
#include "proto/hash.h"

/* --- Places -------------------------------------------------------------------------------------- */

struct choosing {
    const struct core_stages *stages;
    size_t places;
    uint64_t segments[PROTO_STAGES_MAX]; /* of a place */
    uint64_t bytes[PROTO_STAGES_MAX];    /* of a place */
    unsigned held[PROTO_STAGES_MAX];     /* by how many others */
    uint64_t from;                       /* only segments among these */
    uint64_t room;                       /* for so many bytes */
};

static void
place_add(struct choosing *c, size_t place, size_t segment)
{
    c->segments[place] |= UINT64_C(1) << segment;
    c->bytes[place] += c->stages->bytes[segment];
}

static void
places_find(struct choosing *c, const struct core *core)
{
    size_t last = core->config.stages.cut_count;
    assert(last < PROTO_STAGES_MAX && core->config.stages.bytes);
    *c = (struct choosing){.stages = &core->config.stages,
                           .from = UINT64_MAX,
                           .places = last + 1,
                           .room = core->config.stages.room};
    if (c->stages->tied && last > 0)
        c->places = last;
    for (size_t s = 0; s <= last; s++)
        place_add(c, s < c->places ? s : 0, s);
    for (int i = 0; i < core->peers.high; i++)
        for (size_t p = 0; p < c->places && view_usable(core, i); p++)
            c->held[p] += (core->view.of[i].beat.holds & c->segments[p]) != 0;
}

static bool
may_hold(const struct choosing *c, size_t place)
{
    return !(c->segments[place] & ~c->from);
}

/* Places [first, end) that fit into the room, from `first` on and then before it. */
static uint64_t
places_grow(const struct choosing *c, size_t first)
{
    uint64_t room = c->room, chosen = 0;
    size_t end = first, begin = first;
    for (; end < c->places && may_hold(c, end) && c->bytes[end] <= room; end++) {
        room -= c->bytes[end];
        chosen |= c->segments[end];
    }
    for (; begin > 0 && end > first && may_hold(c, begin - 1) && c->bytes[begin - 1] <= room;
         begin--) {
        room -= c->bytes[begin - 1];
        chosen |= c->segments[begin - 1];
    }
    return chosen;
}

/* The first place that fewest hold; `places` if this node may hold none. */
static size_t
place_least(const struct choosing *c)
{
    size_t best = c->places;
    for (size_t p = c->places; p-- > 0;)
        if (may_hold(c, p) && c->bytes[p] <= c->room &&
            (best == c->places || c->held[p] <= c->held[best]))
            best = p;
    return best;
}

/* The stage of an equal division in which the place is. */
static uint64_t
stage_around(const struct choosing *c, size_t place)
{
    uint64_t all = 0, before = 0, chosen = 0, bytes = 0, count = c->stages->count;
    for (size_t p = 0; p < c->places; p++)
        all += c->bytes[p];
    uint64_t at[PROTO_STAGES_MAX];
    for (size_t p = 0; p < c->places; p++) {
        at[p] = (before + c->bytes[p] / 2) * count / (all + 1);
        before += c->bytes[p];
    }
    for (size_t p = 0; p < c->places; p++)
        if (at[p] == at[place] && may_hold(c, p)) {
            chosen |= c->segments[p];
            bytes += c->bytes[p];
        }
    return bytes <= c->room ? chosen : 0;
}

static uint64_t
holding_choose(const struct choosing *c)
{
    size_t least = place_least(c);
    uint64_t chosen = 0;
    if (least == c->places)
        return 0;
    if (!c->stages->mirror)
        chosen = stage_around(c, least);
    return chosen ? chosen : places_grow(c, least);
}

/* --- Who holds what ------------------------------------------------------------------------------ */

/* What usable nodes hold that are at this round or later, with this node; `earlier`: at an earlier one. */
static uint64_t
held_at(const struct core *core, bool earlier)
{
    uint64_t held = earlier ? 0 : core->holds;
    for (int i = 0; i < core->peers.high; i++) {
        const struct proto_heartbeat *said = &core->view.of[i].beat;
        if (view_usable(core, i) && !divergence_excludes(core, i) &&
            (said->round < core->round) == earlier)
            held |= said->holds;
    }
    return held;
}

/* Segments that nobody at this round or later holds. */
static uint64_t
lacking(const struct core *core)
{
    return core_segments(&core->config.stages) & ~held_at(core, false);
}

/* Segments that nobody holds, whatever round he is at. */
static uint64_t
nowhere(const struct core *core)
{
    return lacking(core) & ~held_at(core, true);
}

unsigned
holding_missing(const struct core *core)
{
    const struct core_stages *stages = &core->config.stages;
    if (!stages->bytes)
        return 0;
    uint64_t lost = nowhere(core), all = 0, missing = 0;
    for (size_t s = 0; s <= stages->cut_count; s++) {
        all += stages->bytes[s];
        missing += lost >> s & 1 ? stages->bytes[s] : 0;
    }
    uint64_t percent = all ? 100 * missing / all : 0;
    return missing > 0 && percent == 0 ? 1 : (unsigned)percent;
}

/* --- Choosing ------------------------------------------------------------------------------------ */

/* Have all chosen who are to choose before this node, and have those come who are waited for? */
static bool
is_my_turn(const struct core *core)
{
    size_t here = 1;
    for (int i = 0; i < core->peers.high; i++) {
        if (!view_usable(core, i))
            continue;
        here++;
        if (core->view.of[i].beat.holds == 0 && core->peers.peers[i].node.id < core->config.self.id)
            return false;
    }
    return group_gathered(core, here);
}

/* Does peers[i] train now, or has it the newest state? */
static bool
leads_on(const struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    bool newest = true;
    for (int k = 0; k < core->peers.high; k++)
        newest = newest && (!view_usable(core, k) || core->view.of[k].beat.round <= said->round);
    return view_usable(core, i) && said->round > core->round && (newest || !said->idle);
}

/* What fewest hold of what one other node holds, which has a later state. */
static uint64_t
choose_of_others(const struct core *core)
{
    uint64_t best = 0;
    unsigned best_held = UINT32_MAX;
    for (int i = 0; i < core->peers.high; i++) {
        struct choosing c;
        if (!leads_on(core, i))
            continue;
        places_find(&c, core);
        c.from = core->view.of[i].beat.holds;
        size_t least = place_least(&c);
        if (least == c.places)
            continue;
        uint64_t chosen = holding_choose(&c);
        bool better = c.held[least] < best_held ||
                      (c.held[least] == best_held &&
                       __builtin_popcountll(chosen) > __builtin_popcountll(best));
        best = better ? chosen : best;
        best_held = better ? c.held[least] : best_held;
    }
    return best;
}

static bool
somebody_trains(const struct core *core)
{
    for (int i = 0; i < core->peers.high; i++)
        if (view_usable(core, i) && core->view.of[i].beat.round > 0)
            return true;
    return false;
}

/* How long a node that is to choose waits for whoever had what nobody here holds. It grows with what would be lost. */
static uint64_t
lost_after_us(const struct core *core)
{
    uint64_t round = 0;
    for (int i = 0; i < core->peers.high; i++)
        if (view_usable(core, i) && core->view.of[i].beat.round > round)
            round = core->view.of[i].beat.round;
    uint64_t us = round * HOLDING_LOST_ROUND_US;
    us = us < HOLDING_LOST_LEAST_US ? HOLDING_LOST_LEAST_US : us;
    return us < HOLDING_LOST_MOST_US ? us : HOLDING_LOST_MOST_US;
}

/* Some of the model is nowhere, though somebody trains, and has been for that long. */
static bool
is_lost(struct holding *holding, const struct core *core, bool lacks)
{
    uint64_t us = lost_after_us(core);
    if (lacks && holding->lost_at.us == 0)
        core_log(core, 5,
                 "nobody here holds %u %% of the model: if nobody who does comes within %.0f s, "
                 "this node takes it, and all begin again from step 0",
                 holding_missing(core), 1e-6 * (double)us);
    return awake_lasts(&holding->lost_at, core->awake, lacks, us) && !mutant(MUTANT_LOST);
}

/* Nobody has begun, and those with lower ids hold all that this node holds: they chose without hearing one another. */
static bool
is_spare(const struct core *core)
{
    uint64_t held = 0;
    for (int i = 0; i < core->peers.high; i++)
        if (view_usable(core, i) && core->peers.peers[i].node.id < core->config.self.id)
            held |= core->view.of[i].beat.holds;
    return core->round == 0 && !somebody_trains(core) && !(core->holds & ~held);
}

static uint64_t
choose_again(struct holding *holding, const struct core *core, bool idle)
{
    struct choosing c;
    bool lacks = idle && is_spare(core) && nowhere(core) != 0;
    if (!awake_lasts(&holding->lost_at, core->awake, lacks, HOLDING_LOST_LEAST_US))
        return 0;
    places_find(&c, core);
    uint64_t chosen = holding_choose(&c);
    return chosen & nowhere(core) ? chosen : 0; /* else there is no room for what is lacking */
}

static uint64_t
choose_first(struct holding *holding, const struct core *core)
{
    struct choosing c;
    bool trains = somebody_trains(core), lacks = trains && nowhere(core) != 0;
    bool lost = is_lost(holding, core, lacks);
    if (trains && !lacks)
        return choose_of_others(core);
    if (lacks != lost || !is_my_turn(core))
        return 0;
    places_find(&c, core);
    return holding_choose(&c);
}

/* --- More, later --------------------------------------------------------------------------------- */

/* Can peers[i] give more of the state that this node has, or will have? */
static bool
may_add(const struct core *core, int i)
{
    return view_usable(core, i) && !divergence_excludes(core, i) && !core->plan.of[i].stuck &&
           core->view.of[i].beat.round >= core->round;
}

/* Nobody waits for a trainer that still computes, nor within a span of rounds in which nothing changes hands. */
static bool
may_want(const struct core *core)
{
    const struct core_stages *stages = &core->config.stages;
    bool computes = !core->plan.active && core->trainer.state == TRAINER_COMPUTING;
    return stages->bytes && stages->mirror && core->holds != core_segments(stages) &&
           core->state_hash != 0 && !core->done && !computes &&
           !(core->pinned && core->pins_next) && !awake_before(core->awake, core->holding.again_at);
}

/* The place that fewest hold, of what others hold and this node has room for. */
static uint64_t
choose_more(const struct core *core)
{
    const struct core_stages *stages = &core->config.stages;
    struct choosing c;
    uint64_t others = 0;
    if (!may_want(core))
        return 0;
    for (int i = 0; i < core->peers.high; i++)
        others |= may_add(core, i) ? core->view.of[i].beat.holds : 0;
    places_find(&c, core);
    c.from = others & ~core->holds;
    for (size_t s = 0; s <= stages->cut_count; s++)
        if (core->holds >> s & 1)
            c.room -= c.room < stages->bytes[s] ? c.room : stages->bytes[s];
    size_t least = place_least(&c);
    return least < c.places ? c.segments[least] : 0;
}

static bool
wants_more(const struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    return may_add(core, i) && said->needs && !said->done && said->round == core->round;
}

static bool
others_want(const struct core *core)
{
    for (int i = 0; i < core->peers.high && core->config.stages.cut_count > 0; i++)
        if (wants_more(core, i))
            return true;
    return false;
}

bool
holding_grows(const struct core *core)
{
    struct awake since = core->holding.waits_at;
    bool patient = since.us == 0 || awake_since(core->awake, since) < HOLDING_WAIT_US;
    return !core->pinned && (core->holding.wants != 0 || (patient && others_want(core)));
}

/* Not while somebody with a lower id takes more, or has gone on without this node. */
static bool
may_grow(const struct core *core)
{
    for (int i = 0; i < core->peers.high; i++)
        if ((wants_more(core, i) && core->peers.peers[i].node.id < core->config.self.id) ||
            (may_add(core, i) && core->view.of[i].beat.round > core->round))
            return false;
    return awake_since(core->awake, core->holding.more_at) >= HOLDING_TURN_US;
}

/* --- Who is missing ------------------------------------------------------------------------------ */

/* This node went back because shards were missing, and they are idle at a round where the same is missing. */
static bool
goes_back_too(const struct core *core, const struct proto_heartbeat *said)
{
    return said->idle && !said->done && core->round < core->keeping.left &&
           said->round <= core->keeping.left;
}

bool
holding_whole_with(const struct core *core, int i)
{
    uint64_t held = 0, round = core->view.of[i].beat.round;
    if (goes_back_too(core, &core->view.of[i].beat))
        return false;
    for (int k = 0; k < core->peers.high; k++) {
        const struct proto_heartbeat *said = &core->view.of[k].beat;
        if (view_usable(core, k) && (said->round >= round || !said->idle))
            held |= said->holds;
    }
    return !(core_segments(&core->config.stages) & ~held);
}

bool
holding_short(const struct core *core)
{
    return lacking(core) != 0;
}

bool
holding_covers(const struct core *core, const struct group_choice *choice)
{
    uint64_t held = 0;
    for (size_t k = 0; k < choice->count; k++)
        held |= choice->peer[k] < 0 ? core->holds : core->view.of[choice->peer[k]].beat.holds;
    return !(core_segments(&core->config.stages) & ~held);
}

bool
holding_alone(const struct core *core)
{
    uint64_t held = 0;
    bool waited = false;
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        const struct heard *heard = &core->view.of[i];
        const bool stays = heard->beat.away && peer->node.id < core->config.self.id;
        if (peer->state != PEER_UP || !peer->announced)
            continue;
        waited |= !heard->beat.away;
        const bool has = (stays || !heard->suspected) && heard->beat.round >= core->round;
        held |= has ? heard->beat.holds : 0;
    }
    return waited && core->config.stages.bytes && (core->holds & ~held);
}

/* The latest round before which a node is that holds some of these. */
static uint64_t
latest_of(const struct core *core, uint64_t segments)
{
    uint64_t latest = 0;
    for (int i = 0; i < core->peers.high; i++) {
        const struct proto_heartbeat *said = &core->view.of[i].beat;
        if (view_usable(core, i) && !divergence_excludes(core, i) && (said->holds & segments) &&
            said->round < core->round && said->round > latest)
            latest = said->round;
    }
    return latest;
}

/* Could somebody ahead give this node its state, or does nobody need it to? */
static bool
is_led(const struct core *core)
{
    uint64_t ahead = 0;
    bool any = false;
    for (int i = 0; i < core->peers.high; i++) {
        const struct proto_heartbeat *said = &core->view.of[i].beat;
        if (!divergence_ahead(core, i))
            continue;
        any = true;
        ahead |= said->holds;
        if (!(core->holds & ~said->holds))
            return true;
    }
    return !any || (core->holds & ~ahead) != 0;
}

void
holding_differs(struct holding *holding)
{
    holding->differs++;
}

void
holding_applied(struct holding *holding)
{
    holding->asked = 0;
    holding->differs = 0;
    holding->short_at = holding->unled_at = (struct awake){0};
}

static uint64_t
host_of(const struct core *core, int i)
{
    const char *host = core->peers.peers[i].at.host;
    return hash64(host, strlen(host));
}

/* It may come back with a part: also who holds all, if it took some of that later (parts.h). */
void
holding_gone(struct holding *holding, const struct core *core, int i)
{
    const struct core_stages *stages = &core->config.stages;
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    bool whole = said->holds == 0 || said->holds == core_segments(stages);
    bool wrote = said->done && core->peers.peers[i].state == PEER_FREE; /* it said goodbye */
    if (wrote || (whole && !stages->bytes) || holding->gone_count == PROTO_PEERS_MAX)
        return;
    holding->gone[holding->gone_count++] = host_of(core, i);
    holding->gone_at = core->awake;
}

void
holding_came(struct holding *holding, const struct core *core, int i)
{
    const uint64_t host = host_of(core, i);
    unsigned k = 0;
    while (k < holding->gone_count && holding->gone[k] != host)
        k++;
    if (k < holding->gone_count)
        holding->gone[k] = holding->gone[--holding->gone_count];
}

bool
holding_stays(const struct core *core)
{
    return core->holding.gone_count > 0 && !mutant(MUTANT_ENDS) &&
           awake_since(core->awake, core->holding.gone_at) < HOLDING_STAY_US;
}

bool
holding_tick(struct holding *holding, const struct core *core)
{
    uint64_t before = holding->wants;
    bool waits = plan_idle(core) && others_want(core);
    if (!waits || holding->waits_at.us == 0)
        holding->waits_at = waits ? core->awake : (struct awake){0};
    holding->wants = choose_more(core);
    if (!holding->wants || !before)
        holding->more_at = core->awake;
    return holding->wants != before;
}

void
holding_fails(struct holding *holding, const struct core *core)
{
    holding->wants = 0;
    holding->again_us = holding->again_us ? 2 * holding->again_us : HOLDING_AGAIN_US;
    holding->again_at = awake_after(core->awake, holding->again_us);
}

struct holding_verdict
holding_step(struct holding *holding, const struct core *core, bool idle)
{
    struct holding_verdict verdict = {.hold = 0};
    if (core->config.stages.cut_count == 0 || holding->asked)
        return verdict;
    bool begins = core->trainer.state == TRAINER_START && core->config.stages.choose;
    uint64_t lacks = idle ? lacking(core) : 0;
    bool chooses = idle && core->config.stages.bytes;
    if (begins)
        verdict.hold = choose_first(holding, core);
    else if (awake_lasts(&holding->unled_at, core->awake, chooses && !is_led(core),
                         HOLDING_SURE_US))
        verdict.hold = choose_of_others(core);
    else
        verdict.hold = choose_again(holding, core, chooses);
    if (awake_lasts(&holding->short_at, core->awake, lacks && (lacks & held_at(core, true)) != 0,
                    HOLDING_SURE_US)) {
        verdict.back = true;
        verdict.round = latest_of(core, lacks);
    }
    if (idle && holding->differs >= HOLDING_DIFFERS && core->round > 0) {
        verdict.back = verdict.wrong = true;
        verdict.round = core->round - 1;
    }
    if (idle && !core->pinned && !verdict.hold && !verdict.back && holding->wants && may_grow(core))
        verdict.part = holding->wants;
    holding->asked = verdict.hold;
    return verdict;
}

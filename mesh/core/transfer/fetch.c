/* fetch.c - the states of catching up, how each begins, and whom this node may learn from: see fetch.h. What is done in
 * them is in fetch_copy.c and fetch_follow.c, which stand on this file. */
#include "mesh/core/transfer/fetch.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mesh/core/internal.h"

int
fetch_init(struct fetch *fetch, const struct core *core)
{
    *fetch = (struct fetch){.from = -1, .blocks = calloc(core->transfer.blocks, 1)};
    take_init(&fetch->take, fetch->blocks, FETCH_BLOCK_US);
    fetch->pace = pace_begin(core->transfer.block_size);
    return fetch->blocks ? 0 : -ENOMEM;
}

void
fetch_kept_remove(struct fetch *fetch, const struct core *core)
{
    assert(fetch->kept_count > 0);
    core->config.wire->release(core->config.wire_ctx, fetch->kept[0].frame.handle);
    memmove(fetch->kept, fetch->kept + 1, --fetch->kept_count * sizeof *fetch->kept);
}

void
fetch_kept_drop(struct fetch *fetch, const struct core *core)
{
    while (fetch->kept_count > 0)
        fetch_kept_remove(fetch, core);
}

void
fetch_fini(struct fetch *fetch, const struct core *core)
{
    fetch_kept_drop(fetch, core);
    free(fetch->blocks);
}

void
fetch_enter(struct fetch *fetch, const struct core *core, enum fetch_state next)
{
    if (fetch->state == FETCH_FOLLOWING)
        fetch_kept_drop(fetch, core);
    assert(fetch->kept_count == 0);
    if (fetch->state == FETCH_NONE)
        fetch->begun_at = core->awake;
    fetch->state = next;
    fetch->sure = false;
    fetch->since = core->awake;
    fetch->progress_at = core->awake;
    fetch->asked_at = core->awake;
    fetch->from = -1;
    fetch->tried = 0;
    fetch->block = 0;
}

void
fetch_reset(struct fetch *fetch, const struct core *core)
{
    if (fetch->state != FETCH_NONE)
        fetch_enter(fetch, core, FETCH_NONE);
    fetch->listed = false;
    fetch->adopted = false;
    fetch->part = 0;
    fetch->given = false;
}

void
fetch_planned(struct fetch *fetch, const struct core *core)
{
    fetch_reset(fetch, core);
    fetch->overtaken = false;
    fetch->copies = 0;
}

void
fetch_forget(struct fetch *fetch, int i)
{
    assert(fetch->from != i);
    fetch->of[i] = (struct fetch_peer){0};
}

/* Usable, and its trainer goes on. */
static bool
fetch_runs(const struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    const struct plan_peer *planned = &core->plan.of[i];
    return view_usable(core, i) && !plan_says_idle(core, i) && !said->done && !planned->stuck;
}

uint64_t
fetch_segments(const struct core *core)
{
    return core->fetch.part ? core->fetch.part : core->holds;
}

bool
fetch_fit(const struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    const struct fetch_peer *fetched = &core->fetch.of[i];
    return view_usable(core, i) && awake_reached(core->awake, fetched->avoid_at) &&
           awake_reached(core->awake, fetched->apart_at) &&
           !(fetch_segments(core) & ~said->holds) && divergence_takeable(core, i);
}

bool
fetch_ahead(const struct core *core, int i)
{
    return divergence_ahead(core, i) && fetch_fit(core, i) && holding_whole_with(core, i);
}

bool
fetch_may_give(const struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    if (!core->fetch.part)
        return fetch_ahead(core, i);
    return said->round == core->round && said->state_hash == core->state_hash && fetch_fit(core, i);
}

bool
fetch_gives(const struct core *core, int i)
{
    const struct fetch_peer *donor = &core->fetch.of[i];
    return donor->offered && fetch_list_equal(&donor->list, &core->fetch.list) &&
           fetch_fit(core, i) && divergence_trusts(core, donor->list.round, donor->list.label);
}

bool
fetch_anybody(const struct core *core, bool (*is)(const struct core *core, int i))
{
    for (int i = 0; i < core->peers.high; i++)
        if (is(core, i))
            return true;
    return false;
}

bool
fetch_moving(const struct core *core, uint64_t us)
{
    const struct fetch *fetch = &core->fetch;
    if (fetch->state == FETCH_NONE)
        return awake_before(core->awake, fetch->retry_at) && fetch_anybody(core, fetch_runs);
    bool later = fetch->state == FETCH_FOLLOWING ? fetch->from >= 0 && fetch_runs(core, fetch->from)
                                                 : fetch_anybody(core, fetch_runs);
    return later ||
           awake_since(core->awake, fetch->progress_at) < us + pace_patience_us(&fetch->pace);
}

bool
fetch_ready(const struct core *core)
{
    const struct fetch *fetch = &core->fetch;
    bool sure = fetch->sure || awake_since(core->awake, fetch->since) >= FETCH_SURE_US;
    if (fetch->state != FETCH_FOLLOWING || fetch->from < 0 || !sure || core->plan.active ||
        core->done)
        return false;
    for (int i = 0; i < core->peers.high; i++)
        if (divergence_ahead(core, i) && core->view.of[i].beat.round > core->round + 1 &&
            awake_reached(core->awake, fetch->of[i].apart_at))
            return false;
    return true;
}

void
fetch_applied(struct fetch *fetch, const struct core *core, uint64_t round)
{
    bool follows_on = fetch->state == FETCH_FOLLOWING && round == core->round + 1;
    fetch->full = false;
    fetch->moved_at = core->awake;
    if (fetch->state == FETCH_COMPLETE && round == fetch->list.round && !fetch->part) {
        fetch_enter(fetch, core, FETCH_FOLLOWING);
        fetch->listed = false;
        fetch->adopted = fetch->sure = true;
        fetch->copies = 0;
    } else if (follows_on && !core->plan.active) {
        fetch->block = 0;
    } else if (fetch->state != FETCH_NONE) {
        fetch_reset(fetch, core);
    }
}

void
fetch_ask_begin(struct fetch *fetch, const struct core *core, uint64_t round)
{
    fetch_enter(fetch, core, FETCH_ASKING);
    fetch->wanted = round;
    fetch->offered_at.us = 0;
    fetch->ask_us = FETCH_ASK_US;
    for (int i = 0; i < core->peers.high; i++)
        fetch->of[i].asked = fetch->of[i].offered = false;
}

uint64_t
fetch_name_round(const struct core *core)
{
    uint64_t most = core->fetch.part ? core->round : 0;
    for (int i = 0; i < core->peers.high; i++) {
        const struct heard *heard = &core->view.of[i];
        if (!fetch_ahead(core, i))
            continue;
        uint64_t more =
            fetch_runs(core, i) && heard->round_us ? FETCH_AHEAD_US / heard->round_us : 0;
        uint64_t round = heard->beat.round + (more < FETCH_AHEAD_MAX ? more : FETCH_AHEAD_MAX);
        most = round > most ? round : most;
    }
    return most < PROTO_ROUND_MAX ? most : PROTO_ROUND_MAX;
}

static bool
runs_here(const struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    return fetch_runs(core, i) && said->round == core->round && !(core->holds & ~said->holds);
}

/* Who was let go and is at rest, perhaps for our sake, can be followed. False: nobody. */
static bool
take_up(struct fetch *fetch, const struct core *core)
{
    bool any = false;
    for (int i = 0; i < core->peers.high; i++) {
        struct fetch_peer *peer = &fetch->of[i];
        if (awake_reached(core->awake, peer->apart_at) || !plan_says_idle(core, i) ||
            (core->plan.active && !core->view.of[i].beat.done))
            continue;
        peer->apart_at.us = 0;
        any = true;
    }
    return any;
}

/* Somebody may have the totals already: that would be the shortest way. */
static void
none_step(struct fetch *fetch, const struct core *core)
{
    bool waits = awake_since(core->awake, core->plan.idle_at) >= FETCH_IDLE_US;
    bool retries = take_up(fetch, core) || awake_reached(core->awake, fetch->retry_at);
    if (fetch->copies && fetch_anybody(core, fetch_ahead))
        fetch_ask_begin(fetch, core, fetch_name_round(core));
    else if (retries &&
             (fetch_anybody(core, fetch_ahead) || (waits && fetch_anybody(core, runs_here))))
        fetch_enter(fetch, core, FETCH_FOLLOWING);
}

static bool
trains(const struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    return view_usable(core, i) && !said->benched && !said->done;
}

/* Left out, while others train? */
static bool
watches(const struct core *core)
{
    return core->straggler.benched && fetch_anybody(core, trains);
}

/* Does it need no copy yet, while it watches? Where one node alone is the fastest it does not come back soon. */
static bool
pauses(const struct fetch *fetch, const struct core *core)
{
    bool fresh = core->alone && awake_since(core->awake, core->plan.idle_at) < FETCH_WATCH_US;
    return watches(core) && (fresh || awake_before(core->awake, fetch->pause_at));
}

uint64_t
fetch_pause_us(const struct core *core)
{
    uint64_t us = FETCH_PAUSE * awake_since(core->awake, core->fetch.begun_at);
    return us < FETCH_PAUSE_MAX_US ? us : FETCH_PAUSE_MAX_US;
}

static void
pause_watching(struct fetch *fetch, const struct core *core)
{
    fetch->pause_at = awake_after(core->awake, fetch_pause_us(core));
    fetch_reset(fetch, core);
}

void
fetch_part(struct fetch *fetch, const struct core *core, uint64_t segments)
{
    assert(!(segments & core->holds));
    fetch_reset(fetch, core);
    fetch->full = segments == 0;
    fetch->part = segments;
    fetch->bad = 0;
    fetch->moved_at = core->awake;
    if (segments)
        fetch_ask_begin(fetch, core, core->round);
}

uint64_t
fetch_waits_us(const struct core *core)
{
    struct awake moved_at = core->fetch.moved_at;
    for (int i = 0; i < core->peers.high; i++)
        if (core->peers.peers[i].state == PEER_UP &&
            !(core->fetch.part & ~core->view.of[i].beat.holds))
            moved_at = awake_later(moved_at, core->view.of[i].moved_at);
    return awake_since(core->awake, moved_at);
}

bool
fetch_needs(const struct core *core)
{
    return core->done && core->holds != core->transfer.all && !core->fetch.full;
}

bool
fetch_step(struct fetch *fetch, const struct core *core)
{
    bool adopting = core->trainer.state == TRAINER_ADOPTING;
    if (fetch->part && !core->leaving)
        return core->trainer.state == TRAINER_FREE && !fetch->given;
    if (core->plan.active || core->leaving || core->done) {
        take_up(fetch, core);
        if (fetch->state != FETCH_NONE && !adopting)
            fetch_reset(fetch, core);
        return false;
    }
    if (fetch->state == FETCH_COMPLETE && !adopting &&
        !divergence_trusts(core, fetch->list.round, fetch->list.label))
        fetch_reset(fetch, core);
    if (!trainer_settled(&core->trainer))
        return false;
    if (fetch->state == FETCH_FOLLOWING && (fetch->adopted || fetch_ready(core)) && watches(core))
        pause_watching(fetch, core);
    if (fetch->state == FETCH_NONE && !pauses(fetch, core))
        none_step(fetch, core);
    return true;
}

/* fetch.c - the stages of catching up, and whom it may be learnt from: see fetch.h. What is done in them is in
 * fetch_copy.c and fetch_follow.c. */
#include <errno.h>
#include <stdlib.h>

#include "mesh/core/fetch_internal.h"

int
fetch_init(struct core *core)
{
    core->fetch = (struct fetch){.from = -1};
    core->fetch.blocks = calloc(serve_blocks(core), 1);
    return core->fetch.blocks ? 0 : -ENOMEM;
}

void
fetch_fini(struct core *core)
{
    fetch_follow_drop(core);
    free(core->fetch.blocks);
}

void
fetch_enter(struct core *core, enum fetch_stage next)
{
    struct fetch *fetch = &core->fetch;
    if (fetch->stage == FETCH_FOLLOWING)
        fetch_follow_drop(core);
    fetch->stage = next;
    fetch->sure = false;
    fetch->since_us = core->awake;
    fetch->progress_at_us = core->awake;
    fetch->asked_at_us = core->awake;
    fetch->from = -1;
    fetch->tried = 0;
    fetch->block = 0;
}

void
fetch_reset(struct core *core)
{
    if (core->fetch.stage != FETCH_NONE)
        fetch_enter(core, FETCH_NONE);
    core->fetch.listed = false;
    core->fetch.adopted = false;
}

void
fetch_planned(struct core *core)
{
    fetch_reset(core);
    core->fetch.rest_us = 0;
    core->fetch.copies = false;
}

void
fetch_needs_copy(struct core *core)
{
    core->fetch.copies = true;
}

bool
fetch_uses_state_in(const struct core *core)
{
    return core->fetch.stage == FETCH_ASKING || core->fetch.stage == FETCH_BLOCKS ||
           core->fetch.stage == FETCH_COMPLETE;
}

void
fetch_yield(struct core *core)
{
    core->fetch.listed = false;
}

bool
fetch_runs(const struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    const struct plan_peer *planned = &core->plan.of[i];
    return peers_usable(core, i) && !said->idle && !said->done && !planned->stuck;
}

bool
fetch_fit(const struct core *core, int i)
{
    const struct peer *peer = &core->peers.peers[i];
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    const struct fetch_peer *fetched = &core->fetch.of[i];
    return peers_usable(core, i) && core->awake >= fetched->avoid_at_us && said->state_hash != 0 &&
           !divergence_excludes(core, i) && !audit_suspects(&core->audit, peer->node.id) &&
           divergence_trusts(core, said->round, said->state_hash);
}

bool
fetch_ahead(const struct core *core, int i)
{
    return fetch_fit(core, i) && core->view.of[i].beat.round > core->round;
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
    if (fetch->stage == FETCH_NONE)
        return core->awake < fetch->rest_at_us && fetch_anybody(core, fetch_runs);
    bool later = fetch->stage == FETCH_FOLLOWING ? fetch->from >= 0 && fetch_runs(core, fetch->from)
                                                 : fetch_anybody(core, fetch_runs);
    return later || core->awake - fetch->progress_at_us < us;
}

bool
fetch_ready(const struct core *core)
{
    const struct fetch *fetch = &core->fetch;
    bool sure = fetch->sure || core->awake - fetch->since_us >= FETCH_SURE_US;
    if (fetch->stage != FETCH_FOLLOWING || fetch->from < 0 || !sure || core->plan.active ||
        core->done)
        return false;
    for (int i = 0; i < core->peers.high; i++)
        if (peers_usable(core, i) && core->view.of[i].beat.round > core->round + 1)
            return false;
    return true;
}

void
fetch_peer_lost(struct core *core, int i)
{
    fetch_copy_lost(core, i);
    if (core->fetch.from == i)
        core->fetch.from = -1;
}

void
fetch_applied(struct core *core, uint64_t round)
{
    struct fetch *fetch = &core->fetch;
    bool follows_on = fetch->stage == FETCH_FOLLOWING && round == core->round + 1;
    if (fetch->stage == FETCH_COMPLETE && round == fetch->list.round) {
        fetch_enter(core, FETCH_FOLLOWING);
        fetch->listed = false;
        fetch->adopted = fetch->sure = true;
        fetch->copies = false;
    } else if (follows_on && !core->plan.active) {
        fetch->block = 0;
    } else if (fetch->stage != FETCH_NONE) {
        fetch_reset(core);
    }
}

static bool
runs_here(const struct core *core, int i)
{
    return fetch_runs(core, i) && core->view.of[i].beat.round == core->round;
}

/* It is at rest, perhaps for our sake. */
static bool
rests_ahead(const struct core *core, int i)
{
    return fetch_ahead(core, i) && core->view.of[i].beat.idle;
}

/* Somebody may have the totals already: that would be the shortest way. */
static void
none_step(struct core *core)
{
    bool waits = core->awake - core->plan.idle_at_us >= FETCH_IDLE_US;
    bool rested = core->awake >= core->fetch.rest_at_us || fetch_anybody(core, rests_ahead);
    if (core->fetch.copies && fetch_anybody(core, fetch_ahead))
        fetch_copy_begin(core);
    else if (rested &&
             (fetch_anybody(core, fetch_ahead) || (waits && fetch_anybody(core, runs_here))))
        fetch_enter(core, FETCH_FOLLOWING);
}

struct fetch_conflict
fetch_step(struct core *core)
{
    struct fetch *fetch = &core->fetch;
    struct fetch_conflict conflict = {.found = false};
    if (core->plan.active || core->leaving || core->done) {
        if (fetch->stage != FETCH_NONE && core->contribution.state != TRAINER_ADOPTING)
            fetch_reset(core);
        return conflict;
    }
    if (fetch->stage == FETCH_COMPLETE && core->contribution.state != TRAINER_ADOPTING &&
        !divergence_trusts(core, fetch->list.round, fetch->list.hash))
        fetch_reset(core);
    if (!contribution_settled(core) || (fetch->stage != FETCH_COMPLETE && divergence_wary(core)))
        return conflict;
    if (fetch->stage == FETCH_NONE)
        none_step(core);
    if (fetch->stage == FETCH_FOLLOWING)
        conflict = fetch_follow_step(core);
    if (fetch_uses_state_in(core))
        fetch_copy_step(core);
    return conflict;
}

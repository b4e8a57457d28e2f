/* straggler.c - see straggler.h for what is measured and who decides. */
#include "mesh/core/straggler.h"

#include <string.h>

#include "mesh/core/divide.h"
#include "mesh/core/internal.h"

void
straggler_init(struct core *core)
{
    core->straggler = (struct straggler){0};
}

/* --- Measuring --------------------------------------------------------------------------------- */

void
straggler_meet(struct core *core, int i)
{
    core->straggler.lines[i] = (struct straggler_line){0};
}

static int64_t
base_of(const struct straggler_line *line)
{
    return line->base_us[0] < line->base_us[1] ? line->base_us[0] : line->base_us[1];
}

void
straggler_heard(struct core *core, int i, uint64_t sent_us)
{
    struct straggler_line *line = &core->straggler.lines[i];
    int64_t difference_us = (int64_t)(core->now - sent_us);
    if (!line->known) {
        *line = (struct straggler_line){.known = true, .base_at_us = core->now};
        line->base_us[0] = line->base_us[1] = difference_us;
    } else if (core->now - line->base_at_us > STRAGGLER_BASE_US) {
        line->base_at_us = core->now;
        line->base_us[1] = line->base_us[0];
        line->base_us[0] = difference_us;
    } else if (difference_us < line->base_us[0]) {
        line->base_us[0] = difference_us;
    }
}

void
straggler_chunk(struct core *core, int i, const struct proto_chunk *chunk)
{
    struct straggler_line *line = &core->straggler.lines[i];
    straggler_heard(core, i, chunk->sent_us);
    uint64_t begin_us = chunk->sent_us + (uint64_t)base_of(line);
    if (begin_us < line->arrived_us)
        begin_us = line->arrived_us; /* the line was not free before */
    if (begin_us < core->now)
        line->busy_us[chunk->round & 1] += core->now - begin_us;
    line->arrived_us = core->now;
}

uint32_t
straggler_lag_us(const struct core *core, int i)
{
    const struct straggler_line *line = &core->straggler.lines[i];
    unsigned known = line->count < STRAGGLER_RECENT ? line->count : STRAGGLER_RECENT;
    uint32_t least_us = known < 2 ? 0 : UINT32_MAX;
    for (unsigned k = 0; k < known; k++)
        if (line->recent_us[k] < least_us)
            least_us = line->recent_us[k];
    return least_us;
}

void
straggler_commit(struct core *core)
{
    core->straggler.commit_at_us = core->now;
}

void
straggler_applied(struct core *core)
{
    struct straggler *straggler = &core->straggler;
    if (straggler->commit_at_us == 0)
        return;
    uint64_t us = core->now - straggler->commit_at_us;
    uint32_t new_us = us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
    straggler->apply_us = straggler->apply_us == 0
                              ? new_us
                              : (uint32_t)((3 * (uint64_t)straggler->apply_us + new_us) / 4);
    straggler->commit_at_us = 0;
}

void
straggler_plan(struct core *core)
{
    core->straggler.rounds = 0;
    core->straggler.window_us = core->straggler.window_rounds = 0;
    core->straggler.average_us = 0;
    core->straggler.slow = 0;
    for (int i = 0; i < core->peers.high; i++)
        core->straggler.lines[i].count = 0;
}

void
straggler_begin(struct core *core)
{
    core->straggler.full = core->first_bucket == 0;
}

/* The round before core->round is over: what the lines needed for it. */
static void
lines_note(struct core *core)
{
    unsigned parity = (core->round - 1) & 1;
    for (int i = 0; i < core->peers.high; i++) {
        struct straggler_line *line = &core->straggler.lines[i];
        uint64_t us = line->busy_us[parity];
        line->busy_us[parity] = 0;
        if (core->straggler.full)
            line->recent_us[line->count++ % STRAGGLER_RECENT] =
                us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
    }
}

static void
round_note(struct straggler *straggler, uint64_t us)
{
    straggler->round_us[straggler->rounds++ % STRAGGLER_RECENT] = us;
    straggler->window_us += us;
    if (++straggler->window_rounds < STRAGGLER_JUDGE_ROUNDS ||
        straggler->window_us < STRAGGLER_JUDGE_US)
        return;
    straggler->average_us = straggler->window_us / straggler->window_rounds;
    straggler->window_us = straggler->window_rounds = 0;
}

/* The shortest of the last rounds, 0 when there were not enough. */
static uint64_t
round_us(const struct straggler *straggler)
{
    uint64_t least_us = UINT64_MAX;
    if (straggler->rounds < STRAGGLER_ROUNDS)
        return 0;
    for (unsigned k = 0; k < straggler->rounds && k < STRAGGLER_RECENT; k++)
        if (straggler->round_us[k] < least_us)
            least_us = straggler->round_us[k];
    return least_us;
}

/* --- Deciding ---------------------------------------------------------------------------------- */

static uint64_t
makespan_us(const struct straggler_view *view, uint64_t set)
{
    uint64_t none[PROTO_PEERS_MAX] = {0}, shards[PROTO_PEERS_MAX] = {0};
    uint32_t speed[PROTO_PEERS_MAX] = {0}, least = UINT32_MAX;
    size_t n = 0;
    for (size_t m = 0; m < view->n; m++)
        if (view->speed[m] > 0 && view->speed[m] < least)
            least = view->speed[m];
    for (size_t m = 0; m < view->n; m++)
        if (set >> m & 1)
            speed[n++] = view->speed[m] ? view->speed[m] : least; /* it has computed nothing yet */
    uint64_t all = view->shards == 64 ? UINT64_MAX : (UINT64_C(1) << view->shards) - 1;
    divide_shards(all, n, none, speed, shards);
    return divide_makespan_us(n, shards, speed);
}

uint64_t
straggler_predict(const struct straggler_view *view, uint64_t set)
{
    uint64_t apply_us = 0, lag_us = 0;
    for (size_t a = 0; a < view->n; a++) {
        if (!(set >> a & 1))
            continue;
        apply_us = view->apply_us[a] > apply_us ? view->apply_us[a] : apply_us;
        for (size_t b = 0; b < view->n; b++)
            if (b != a && (set >> b & 1) && view->lag_us[a][b] > lag_us)
                lag_us = view->lag_us[a][b];
    }
    return makespan_us(view, set) + apply_us + lag_us;
}

/* How much the lines of a member and its trainer cost. Each line has two ends: who is slow has many bad ones. */
static uint64_t
cost_of(const struct straggler_view *view, uint64_t set, size_t m)
{
    uint64_t all_us = 0;
    for (size_t k = 0; k < view->n; k++)
        if (k != m && (set >> k & 1))
            all_us +=
                (uint64_t)view->lag_us[m][k] + view->lag_us[k][m] + 2 * (uint64_t)view->apply_us[m];
    return all_us;
}

static size_t
worst_of(const struct straggler_view *view, uint64_t set)
{
    size_t worst = PROTO_PEERS_MAX;
    uint64_t worst_us = 0;
    bool pair = __builtin_popcountll(set) == 2; /* of which the lines say nothing */
    for (size_t m = 0; m < view->n; m++) {
        if (!(set >> m & 1))
            continue;
        uint64_t us = pair ? straggler_predict(view, UINT64_C(1) << m) : cost_of(view, set, m);
        if (worst == PROTO_PEERS_MAX || us >= worst_us) {
            worst = m;
            worst_us = us;
        }
    }
    return worst;
}

static bool
clearly_less(uint64_t then_us, uint64_t now_us)
{
    return 4 * now_us > STRAGGLER_GAIN * then_us && now_us > then_us + STRAGGLER_GAIN_US;
}

uint64_t
straggler_decide(const struct straggler_view *view)
{
    uint64_t all = view->n == 64 ? UINT64_MAX : (UINT64_C(1) << view->n) - 1;
    bool known = false;
    for (size_t m = 0; m < view->n; m++)
        known = known || view->speed[m] > 0;
    if (!known || view->n < 2)
        return 0;
    uint64_t set = all, best = all, now_us = straggler_predict(view, all), best_us = now_us;
    while (set & (set - 1)) {
        set &= ~(UINT64_C(1) << worst_of(view, set));
        uint64_t us = straggler_predict(view, set);
        if (us < best_us) {
            best = set;
            best_us = us;
        }
    }
    for (size_t m = 0; m < view->n; m++) { /* one end of a slow line may stay */
        uint64_t us = best >> m & 1 ? UINT64_MAX : straggler_predict(view, best | UINT64_C(1) << m);
        if (us <= best_us) {
            best |= UINT64_C(1) << m;
            best_us = us;
        }
    }
    bool better = clearly_less(best_us, now_us) && clearly_less(best_us, view->round_us);
    return better ? all & ~best : 0;
}

/* --- Leading ----------------------------------------------------------------------------------- */

static void
view_fill(const struct core *core, struct straggler_view *view)
{
    const struct plan *plan = &core->plan;
    memset(view, 0, sizeof *view);
    view->n = plan->now.count;
    view->shards = core->config.shards;
    view->round_us = round_us(&core->straggler);
    for (size_t a = 0; a < view->n; a++) {
        int i = plan->peer[a];
        const struct peer *peer = i < 0 ? NULL : &core->peers.peers[i];
        const struct proto_heartbeat *said = i < 0 ? NULL : &core->view.of[i].beat;
        const struct heard *heard = i < 0 ? NULL : &core->view.of[i];
        view->speed[a] = peer ? said->speed : core->contribution.speed;
        view->apply_us[a] = peer ? said->apply_us : core->straggler.apply_us;
        for (size_t b = 0; b < view->n; b++) {
            int from = plan->peer[b] < 0 ? PEERS_MAX : plan->peer[b];
            if (b != a)
                view->lag_us[a][b] = peer ? heard->lag_us[from] : straggler_lag_us(core, from);
        }
    }
}

static void
tell(struct core *core, int i, uint64_t with_us, uint64_t without_us)
{
    struct peer *peer = &core->peers.peers[i];
    struct proto_msg msg = {.type = PROTO_ASIDE,
                            .aside = {.with_us = with_us, .without_us = without_us}};
    peer->told_at_us = core->awake;
    peer->trial = false;
    peers_send(core, i, &msg);
}

static void
leave_out(struct core *core, int i, uint64_t with_us, uint64_t without_us)
{
    char who[PROTO_WHO_MAX];
    core_log(core, 5,
             "%s is left out for a while: a step takes %u ms with it, about %u ms without it",
             report_who(core, i, who), (unsigned)(with_us / 1000), (unsigned)(without_us / 1000));
    tell(core, i, with_us, without_us);
}

uint64_t
straggler_sober(const struct core *core, uint64_t us)
{
    const struct straggler *straggler = &core->straggler;
    bool known = straggler->came_us > straggler->predicted_us && core->awake < straggler->err_at_us;
    return known ? us * straggler->came_us / straggler->predicted_us : us;
}

static bool
decide(struct core *core, bool trial)
{
    struct straggler *straggler = &core->straggler;
    struct straggler_view view;
    view_fill(core, &view);
    uint64_t out = straggler_decide(&view);
    uint64_t all = view.n == 64 ? UINT64_MAX : (UINT64_C(1) << view.n) - 1;
    uint64_t without_us = straggler_predict(&view, all & ~out);
    if (!clearly_less(straggler_sober(core, without_us), view.round_us))
        out = 0;
    bool again = out && !(out & ~straggler->slow);
    if (!again)
        straggler->slow_at_us = core->awake;
    straggler->slow = out;
    bool proved =
        trial && (straggler->without_us == 0 || clearly_less(straggler->without_us, view.round_us));
    bool sure = proved || (again && core->awake - straggler->slow_at_us >= STRAGGLER_SURE_US);
    if (!out || !sure)
        return false;
    if (without_us == 0)
        without_us = 1;
    uint64_t then_us = straggler_sober(core, without_us);
    for (size_t m = 0; m < view.n; m++) {
        int i = core->plan.peer[m];
        if (!(out >> m & 1))
            continue;
        if (i >= 0)
            leave_out(core, i, view.round_us, then_us);
        else
            straggler_on_bench(core, &(struct proto_aside){view.round_us, then_us});
    }
    straggler->before_us = straggler->average_us > 0 ? straggler->average_us : view.round_us;
    straggler->predicted_us = without_us;
    straggler->came_us = 0;
    if (straggler->rests) /* another node leads */
        straggler->before_us = 0;
    return true;
}

/* It did not help: whoever was left out may come back. */
static void
call_back(struct core *core)
{
    core->straggler.immune_at_us = core->awake + STRAGGLER_FORGIVE_US;
    core_log(core, 6,
             "steps are no faster without the nodes that were left out: they may come back");
    for (int i = 0; i < core->peers.high; i++)
        if (core->peers.peers[i].state == PEER_UP && straggler_benched(core, i))
            tell(core, i, 0, 0);
    for (int i = 0; i < core->peers.high; i++)
        core->peers.peers[i].told_at_us = 0;
}

static bool
trial_in_plan(const struct core *core)
{
    for (size_t m = 0; m < core->plan.now.count; m++)
        if (core->plan.peer[m] >= 0 && core->peers.peers[core->plan.peer[m]].trial)
            return true;
    return false;
}

/* Did it help to leave somebody out? */
static void
judge(struct core *core, bool trial)
{
    struct straggler *straggler = &core->straggler;
    if (straggler->before_us == 0 || straggler->average_us == 0 || trial)
        return;
    straggler->came_us = straggler->average_us;
    straggler->err_at_us = core->awake + STRAGGLER_ERR_US;
    if (!clearly_less(straggler->average_us, straggler->before_us))
        call_back(core);
    straggler->before_us = 0;
}

/* After a round of a plan that this node leads. */
static bool
lead(struct core *core)
{
    struct straggler *straggler = &core->straggler;
    uint64_t us = round_us(straggler);
    bool trial = trial_in_plan(core);
    if (trial && straggler->rounds >= STRAGGLER_TRIAL_ROUNDS)
        for (size_t m = 0; m < core->plan.now.count; m++)
            if (core->plan.peer[m] >= 0)
                core->peers.peers[core->plan.peer[m]].trial = false;
    if (us == 0 || core->plan.hold != UINT64_MAX)
        return false;
    if (!trial)
        straggler->without_us = straggler->average_us > 0 ? straggler->average_us : us;
    judge(core, trial);
    if (core->awake < straggler->look_at_us || core->awake < straggler->immune_at_us ||
        core->config.keep_all || core_mutant(MUTANT_PACE))
        return false;
    straggler->look_at_us = core->awake + STRAGGLER_LOOK_US;
    return decide(core, trial);
}

bool
pace_round(struct core *core, uint64_t us)
{
    struct straggler *straggler = &core->straggler;
    lines_note(core);
    if (!straggler->full)
        return false;
    round_note(straggler, us);
    return plan_leader(core) && lead(core);
}

/* Who has come back makes the plan crawl: no need to see the round's end. */
static void
trial_ends(struct core *core)
{
    struct straggler *straggler = &core->straggler;
    uint64_t most_us = 3 * straggler->without_us + STRAGGLER_TRIAL_US;
    uint64_t us = core->awake - core->plan.round_at_us;
    if (!plan_leader(core) || straggler->without_us == 0 || us <= most_us ||
        core->contribution.state != TRAINER_FREE || !trial_in_plan(core))
        return;
    for (size_t m = 0; m < core->plan.now.count; m++) {
        int i = core->plan.peer[m];
        if (i >= 0 && core->peers.peers[i].trial)
            leave_out(core, i, us, straggler->without_us);
    }
    plan_abort(core, "a member that has come back is too slow");
}

void
straggler_courted(struct core *core, int i)
{
    struct peer *peer = &core->peers.peers[i];
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    if (!said->ready || ++peer->courts < STRAGGLER_COURTS || core_mutant(MUTANT_PACE))
        return;
    char who[PROTO_WHO_MAX];
    core_log(core, 5, "%s is left out for a while: it does not catch up", report_who(core, i, who));
    tell(core, i, 0, 1);
}

bool
straggler_benched(const struct core *core, int i)
{
    const struct peer *peer = &core->peers.peers[i];
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    return said->aside ||
           (peer->told_at_us > 0 && core->awake - peer->told_at_us < STRAGGLER_TOLD_US);
}

/* --- Being left out ---------------------------------------------------------------------------- */

/* Does somebody get on without us? What we fetch may be in the way of heartbeats: silence for a moment is no
 * reason to doubt it. */
static bool
others_go_on(const struct core *core)
{
    uint64_t most_us = STRAGGLER_MOVED_US + 4 * plan_recent_max(core);
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        const struct proto_heartbeat *said = &core->view.of[i].beat;
        const struct heard *heard = &core->view.of[i];
        const struct plan_peer *planned = &core->plan.of[i];
        if (peer->state == PEER_UP && !said->aside && !planned->stuck &&
            (said->done || core->awake - heard->moved_at_us < most_us))
            return true;
    }
    return false;
}

bool
straggler_rests(const struct core *core)
{
    return core->straggler.rests;
}

static void
rest_ends(struct core *core, const char *why)
{
    core_log(core, 6, "this node is no longer left out: %s", why);
    core->straggler.rests = false;
    core->plan.idle_at_us = core->awake;
    heartbeat_send(core);
}

void
straggler_on_bench(struct core *core, const struct proto_aside *msg)
{
    struct straggler *straggler = &core->straggler;
    if (msg->without_us == 0) { /* a mistake */
        straggler->rest_us = 0;
        if (straggler->rests)
            rest_ends(core, "the others called it back");
        return;
    }
    if (straggler->rests || core->done)
        return;
    bool again =
        straggler->rest_us > 0 && core->awake < straggler->rest_at_us + STRAGGLER_FORGIVE_US;
    straggler->rest_us = again ? 2 * straggler->rest_us : STRAGGLER_REST_US;
    if (straggler->rest_us > STRAGGLER_REST_MAX_US)
        straggler->rest_us = STRAGGLER_REST_MAX_US;
    straggler->rest_at_us = core->awake + straggler->rest_us;
    straggler->rests = true;
    unsigned seconds = (unsigned)(straggler->rest_us / 1000000);
    if (msg->with_us == 0)
        core_log(core, 4, "the others leave this node out for %u s: it does not catch up", seconds);
    else
        core_log(
            core, 4,
            "the others leave this node out for %u s: its network or CPU is too slow (a step takes "
            "%u ms with it, about %u ms without it)",
            seconds, (unsigned)(msg->with_us / 1000), (unsigned)(msg->without_us / 1000));
    heartbeat_send(core);
}

void
straggler_tick(struct core *core)
{
    struct straggler *straggler = &core->straggler;
    if (straggler->rests && !core->plan.active) {
        if (core->awake >= straggler->rest_at_us)
            rest_ends(core, "it tries again");
        else if (!others_go_on(core))
            rest_ends(core, "nobody else goes on");
    }
    if (core->plan.active)
        trial_ends(core);
}

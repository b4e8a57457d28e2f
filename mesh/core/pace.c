/* pace.c - see pace.h for what is measured and who decides. */
#include "mesh/core/pace.h"

#include <string.h>

#include "mesh/core/inside.h"

void
pace_init(struct core *core)
{
    core->pace = (struct pace){0};
}

/* --- Measuring --------------------------------------------------------------------------------- */

void
pace_meet(struct core *core, int i)
{
    core->pace.lines[i] = (struct pace_line){0};
}

static int64_t
base_of(const struct pace_line *line)
{
    return line->base_us[0] < line->base_us[1] ? line->base_us[0] : line->base_us[1];
}

void
pace_heard(struct core *core, int i, uint64_t sent_us)
{
    struct pace_line *line = &core->pace.lines[i];
    int64_t difference_us = (int64_t)(core->now - sent_us);
    if (!line->known) {
        *line = (struct pace_line){.known = true, .base_at_us = core->now};
        line->base_us[0] = line->base_us[1] = difference_us;
    } else if (core->now - line->base_at_us > PACE_BASE_US) {
        line->base_at_us = core->now;
        line->base_us[1] = line->base_us[0];
        line->base_us[0] = difference_us;
    } else if (difference_us < line->base_us[0]) {
        line->base_us[0] = difference_us;
    }
}

void
pace_chunk(struct core *core, int i, const struct proto_chunk *chunk)
{
    struct pace_line *line = &core->pace.lines[i];
    pace_heard(core, i, chunk->sent_us);
    uint64_t begin_us = chunk->sent_us + (uint64_t)base_of(line);
    if (begin_us < line->arrived_us)
        begin_us = line->arrived_us; /* the line was not free before */
    if (begin_us < core->now)
        line->busy_us[chunk->round & 1] += core->now - begin_us;
    line->arrived_us = core->now;
}

uint32_t
pace_lag_us(const struct core *core, int i)
{
    const struct pace_line *line = &core->pace.lines[i];
    unsigned known = line->count < PACE_RECENT ? line->count : PACE_RECENT;
    uint32_t least_us = known < 2 ? 0 : UINT32_MAX;
    for (unsigned k = 0; k < known; k++)
        if (line->recent_us[k] < least_us)
            least_us = line->recent_us[k];
    return least_us;
}

void
pace_commit(struct core *core)
{
    core->pace.commit_at_us = core->now;
}

void
pace_applied(struct core *core)
{
    struct pace *pace = &core->pace;
    if (pace->commit_at_us == 0)
        return;
    uint64_t us = core->now - pace->commit_at_us;
    uint32_t new_us = us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
    pace->apply_us =
        pace->apply_us == 0 ? new_us : (uint32_t)((3 * (uint64_t)pace->apply_us + new_us) / 4);
    pace->commit_at_us = 0;
}

void
pace_plan(struct core *core)
{
    core->pace.rounds = 0;
    core->pace.window_us = core->pace.window_rounds = 0;
    core->pace.average_us = 0;
    core->pace.slow = 0;
    for (int i = 0; i < core->peers.high; i++)
        core->pace.lines[i].count = 0;
}

void
pace_begin(struct core *core)
{
    core->pace.full = core->first_bucket == 0;
}

/* The round before core->round is over: what the lines needed for it. */
static void
lines_note(struct core *core)
{
    unsigned parity = (core->round - 1) & 1;
    for (int i = 0; i < core->peers.high; i++) {
        struct pace_line *line = &core->pace.lines[i];
        uint64_t us = line->busy_us[parity];
        line->busy_us[parity] = 0;
        if (core->pace.full)
            line->recent_us[line->count++ % PACE_RECENT] =
                us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
    }
}

static void
round_note(struct pace *pace, uint64_t us)
{
    pace->round_us[pace->rounds++ % PACE_RECENT] = us;
    pace->window_us += us;
    if (++pace->window_rounds < PACE_JUDGE_ROUNDS || pace->window_us < PACE_JUDGE_US)
        return;
    pace->average_us = pace->window_us / pace->window_rounds;
    pace->window_us = pace->window_rounds = 0;
}

/* The shortest of the last rounds, 0 when there were not enough. */
static uint64_t
round_us(const struct pace *pace)
{
    uint64_t least_us = UINT64_MAX;
    if (pace->rounds < PACE_ROUNDS)
        return 0;
    for (unsigned k = 0; k < pace->rounds && k < PACE_RECENT; k++)
        if (pace->round_us[k] < least_us)
            least_us = pace->round_us[k];
    return least_us;
}

/* --- Deciding ---------------------------------------------------------------------------------- */

static uint64_t
makespan_us(const struct pace_view *view, uint64_t set)
{
    uint64_t none[PROTO_PEERS_MAX] = {0}, shards[PROTO_PEERS_MAX] = {0}, most_us = 0;
    uint32_t speed[PROTO_PEERS_MAX] = {0}, least = UINT32_MAX;
    size_t n = 0;
    for (size_t m = 0; m < view->n; m++)
        if (view->speed[m] > 0 && view->speed[m] < least)
            least = view->speed[m];
    for (size_t m = 0; m < view->n; m++)
        if (set >> m & 1)
            speed[n++] = view->speed[m] ? view->speed[m] : least; /* it has computed nothing yet */
    uint64_t all = view->shards == 64 ? UINT64_MAX : (UINT64_C(1) << view->shards) - 1;
    plan_divide(all, n, none, speed, shards);
    for (size_t m = 0; m < n; m++) {
        uint64_t us =
            UINT64_C(1000000) * 1000000 * (uint64_t)__builtin_popcountll(shards[m]) / speed[m];
        most_us = us > most_us ? us : most_us;
    }
    return most_us;
}

uint64_t
pace_predict(const struct pace_view *view, uint64_t set)
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
cost_of(const struct pace_view *view, uint64_t set, size_t m)
{
    uint64_t all_us = 0;
    for (size_t k = 0; k < view->n; k++)
        if (k != m && (set >> k & 1))
            all_us +=
                (uint64_t)view->lag_us[m][k] + view->lag_us[k][m] + 2 * (uint64_t)view->apply_us[m];
    return all_us;
}

static size_t
worst_of(const struct pace_view *view, uint64_t set)
{
    size_t worst = PROTO_PEERS_MAX;
    uint64_t worst_us = 0;
    bool pair = __builtin_popcountll(set) == 2; /* of which the lines say nothing */
    for (size_t m = 0; m < view->n; m++) {
        if (!(set >> m & 1))
            continue;
        uint64_t us = pair ? pace_predict(view, UINT64_C(1) << m) : cost_of(view, set, m);
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
    return 4 * now_us > PACE_GAIN * then_us && now_us > then_us + PACE_GAIN_US;
}

uint64_t
pace_decide(const struct pace_view *view)
{
    uint64_t all = view->n == 64 ? UINT64_MAX : (UINT64_C(1) << view->n) - 1;
    bool known = false;
    for (size_t m = 0; m < view->n; m++)
        known = known || view->speed[m] > 0;
    if (!known || view->n < 2)
        return 0;
    uint64_t set = all, best = all, now_us = pace_predict(view, all), best_us = now_us;
    while (set & (set - 1)) {
        set &= ~(UINT64_C(1) << worst_of(view, set));
        uint64_t us = pace_predict(view, set);
        if (us < best_us) {
            best = set;
            best_us = us;
        }
    }
    for (size_t m = 0; m < view->n; m++) { /* one end of a slow line may stay */
        uint64_t us = best >> m & 1 ? UINT64_MAX : pace_predict(view, best | UINT64_C(1) << m);
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
view_fill(const struct core *core, struct pace_view *view)
{
    const struct plan *plan = &core->plan;
    memset(view, 0, sizeof *view);
    view->n = plan->now.count;
    view->shards = core->config.shards;
    view->round_us = round_us(&core->pace);
    for (size_t a = 0; a < view->n; a++) {
        int i = plan->peer[a];
        const struct peer *peer = i < 0 ? NULL : &core->peers.peers[i];
        view->speed[a] = peer ? peer->speed : core->own.speed;
        view->apply_us[a] = peer ? peer->apply_us : core->pace.apply_us;
        for (size_t b = 0; b < view->n; b++) {
            int from = plan->peer[b] < 0 ? PEERS_MAX : plan->peer[b];
            if (b != a)
                view->lag_us[a][b] = peer ? peer->lag_us[from] : pace_lag_us(core, from);
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
pace_sober(const struct core *core, uint64_t us)
{
    const struct pace *pace = &core->pace;
    bool known = pace->came_us > pace->predicted_us && core->awake < pace->err_at_us;
    return known ? us * pace->came_us / pace->predicted_us : us;
}

static bool
decide(struct core *core, bool trial)
{
    struct pace *pace = &core->pace;
    struct pace_view view;
    view_fill(core, &view);
    uint64_t out = pace_decide(&view);
    uint64_t all = view.n == 64 ? UINT64_MAX : (UINT64_C(1) << view.n) - 1;
    uint64_t without_us = pace_predict(&view, all & ~out);
    if (!clearly_less(pace_sober(core, without_us), view.round_us))
        out = 0;
    bool again = out && !(out & ~pace->slow);
    if (!again)
        pace->slow_at_us = core->awake;
    pace->slow = out;
    bool proved = trial && (pace->without_us == 0 || clearly_less(pace->without_us, view.round_us));
    bool sure = proved || (again && core->awake - pace->slow_at_us >= PACE_SURE_US);
    if (!out || !sure)
        return false;
    if (without_us == 0)
        without_us = 1;
    uint64_t then_us = pace_sober(core, without_us);
    for (size_t m = 0; m < view.n; m++) {
        int i = core->plan.peer[m];
        if (!(out >> m & 1))
            continue;
        if (i >= 0)
            leave_out(core, i, view.round_us, then_us);
        else
            pace_on_aside(core, &(struct proto_aside){view.round_us, then_us});
    }
    pace->before_us = pace->average_us > 0 ? pace->average_us : view.round_us;
    pace->predicted_us = without_us;
    pace->came_us = 0;
    if (pace->rests) /* another node leads */
        pace->before_us = 0;
    return true;
}

/* It did not help: whoever was left out may come back. */
static void
call_back(struct core *core)
{
    core->pace.immune_at_us = core->awake + PACE_FORGIVE_US;
    core_log(core, 6,
             "steps are no faster without the nodes that were left out: they may come back");
    for (int i = 0; i < core->peers.high; i++)
        if (core->peers.peers[i].state == PEER_UP && pace_aside(core, i))
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
    struct pace *pace = &core->pace;
    if (pace->before_us == 0 || pace->average_us == 0 || trial)
        return;
    pace->came_us = pace->average_us;
    pace->err_at_us = core->awake + PACE_ERR_US;
    if (!clearly_less(pace->average_us, pace->before_us))
        call_back(core);
    pace->before_us = 0;
}

/* After a round of a plan that this node leads. */
static bool
lead(struct core *core)
{
    struct pace *pace = &core->pace;
    uint64_t us = round_us(pace);
    bool trial = trial_in_plan(core);
    if (trial && pace->rounds >= PACE_TRIAL_ROUNDS)
        for (size_t m = 0; m < core->plan.now.count; m++)
            if (core->plan.peer[m] >= 0)
                core->peers.peers[core->plan.peer[m]].trial = false;
    if (us == 0 || core->plan.hold != UINT64_MAX)
        return false;
    if (!trial)
        pace->without_us = pace->average_us > 0 ? pace->average_us : us;
    judge(core, trial);
    if (core->awake < pace->look_at_us || core->awake < pace->immune_at_us ||
        core->config.keep_all || core_mutant(core, MUTANT_PACE))
        return false;
    pace->look_at_us = core->awake + PACE_LOOK_US;
    return decide(core, trial);
}

bool
pace_round(struct core *core, uint64_t us)
{
    struct pace *pace = &core->pace;
    lines_note(core);
    if (!pace->full)
        return false;
    round_note(pace, us);
    return plan_leader(core) && lead(core);
}

/* Who has come back makes the plan crawl: no need to see the round's end. */
static void
trial_ends(struct core *core)
{
    struct pace *pace = &core->pace;
    uint64_t most_us = 3 * pace->without_us + PACE_TRIAL_US;
    uint64_t us = core->awake - core->plan.round_at_us;
    if (!plan_leader(core) || pace->without_us == 0 || us <= most_us ||
        core->own.state != OWN_FREE || !trial_in_plan(core))
        return;
    for (size_t m = 0; m < core->plan.now.count; m++) {
        int i = core->plan.peer[m];
        if (i >= 0 && core->peers.peers[i].trial)
            leave_out(core, i, us, pace->without_us);
    }
    plan_abort(core, "a member that has come back is too slow");
}

void
pace_courted(struct core *core, int i)
{
    struct peer *peer = &core->peers.peers[i];
    if (!peer->ready || ++peer->courts < PACE_COURTS || core_mutant(core, MUTANT_PACE))
        return;
    char who[PROTO_WHO_MAX];
    core_log(core, 5, "%s is left out for a while: it does not catch up", report_who(core, i, who));
    tell(core, i, 0, 1);
}

bool
pace_aside(const struct core *core, int i)
{
    const struct peer *peer = &core->peers.peers[i];
    return peer->aside || (peer->told_at_us > 0 && core->awake - peer->told_at_us < PACE_TOLD_US);
}

/* --- Being left out ---------------------------------------------------------------------------- */

/* Does somebody get on without us? What we fetch may be in the way of heartbeats: silence for a moment is no
 * reason to doubt it. */
static bool
others_go_on(const struct core *core)
{
    uint64_t most_us = PACE_MOVED_US + 4 * plan_recent_max(core);
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        if (peer->state == PEER_UP && !peer->aside && !peer->stuck &&
            (peer->done || core->awake - peer->moved_at_us < most_us))
            return true;
    }
    return false;
}

bool
pace_rests(const struct core *core)
{
    return core->pace.rests;
}

static void
rest_ends(struct core *core, const char *why)
{
    core_log(core, 6, "this node is no longer left out: %s", why);
    core->pace.rests = false;
    core->plan.idle_at_us = core->awake;
    heartbeat_send(core);
}

void
pace_on_aside(struct core *core, const struct proto_aside *msg)
{
    struct pace *pace = &core->pace;
    if (msg->without_us == 0) { /* a mistake */
        pace->rest_us = 0;
        if (pace->rests)
            rest_ends(core, "the others called it back");
        return;
    }
    if (pace->rests || core->done)
        return;
    bool again = pace->rest_us > 0 && core->awake < pace->rest_at_us + PACE_FORGIVE_US;
    pace->rest_us = again ? 2 * pace->rest_us : PACE_REST_US;
    if (pace->rest_us > PACE_REST_MAX_US)
        pace->rest_us = PACE_REST_MAX_US;
    pace->rest_at_us = core->awake + pace->rest_us;
    pace->rests = true;
    unsigned seconds = (unsigned)(pace->rest_us / 1000000);
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
pace_tick(struct core *core)
{
    struct pace *pace = &core->pace;
    if (pace->rests && !core->plan.active) {
        if (core->awake >= pace->rest_at_us)
            rest_ends(core, "it tries again");
        else if (!others_go_on(core))
            rest_ends(core, "nobody else goes on");
    }
    if (core->plan.active)
        trial_ends(core);
}

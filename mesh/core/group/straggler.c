/* straggler.c - see straggler.h for what is measured and who decides. */
#include "mesh/core/group/straggler.h"

#include <assert.h>
#include <string.h>

#include "mesh/core/group/cost.h"
#include "mesh/core/internal.h"
#include "proto/bits.h"

void
straggler_up(struct straggler *s, int i)
{
    s->of[i] = (struct straggler_peer){0};
}

/* --- Measuring --------------------------------------------------------------------------------- */

void
straggler_beat(struct straggler *s, const struct core *core, int i, bool back)
{
    lag_heard(&s->of[i].lag, core->now, core->view.of[i].beat.sent_us);
    if (back) {
        s->of[i].trial = true;
        s->of[i].vain = 0;
    }
}

void
straggler_chunk(struct straggler *s, const struct core *core, int i,
                const struct proto_chunk *chunk)
{
    lag_chunk(&s->of[i].lag, core->now, chunk->sent_us, chunk->round);
}

void
straggler_applied(struct straggler *s, const struct core *core)
{
    uint64_t us = wall_since(core->now, core->contribution.commit_at);
    uint32_t new_us = us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
    s->apply_us = s->apply_us == 0 ? new_us : (uint32_t)((3 * (uint64_t)s->apply_us + new_us) / 4);
}

void
straggler_plan(struct straggler *s, const struct core *core)
{
    s->full = core->first_bucket == 0;
    s->rounds = 0;
    s->window_us = s->window_rounds = 0;
    s->average_us = 0;
    s->slow = 0;
    for (int i = 0; i < core->peers.high; i++)
        lag_forget(&s->of[i].lag);
    for (size_t m = 0; m < core->plan.now.count; m++)
        if (core->plan.peer[m] >= 0)
            s->of[core->plan.peer[m]].vain = 0;
}

static void
round_note(struct straggler *s, uint64_t us)
{
    s->round_us[s->rounds++ % STRAGGLER_RECENT] = us;
    s->window_us += us;
    if (++s->window_rounds < STRAGGLER_JUDGE_ROUNDS || s->window_us < STRAGGLER_JUDGE_US)
        return;
    s->average_us = s->window_us / s->window_rounds;
    s->window_us = s->window_rounds = 0;
}

/* The shortest of the last rounds, 0 when there were not enough. */
static uint64_t
round_us(const struct straggler *s)
{
    uint64_t least_us = UINT64_MAX;
    if (s->rounds < STRAGGLER_ROUNDS)
        return 0;
    for (unsigned k = 0; k < s->rounds && k < STRAGGLER_RECENT; k++)
        if (s->round_us[k] < least_us)
            least_us = s->round_us[k];
    return least_us;
}

/* --- Deciding ---------------------------------------------------------------------------------- */

static uint64_t
makespan_us(const struct straggler_input *view, uint64_t set)
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
    uint64_t all = bits_below(view->shards);
    cost_divide(all, n, none, speed, shards);
    return cost_computed_us(n, shards, speed);
}

uint64_t
straggler_predict(const struct straggler_input *view, uint64_t set)
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

/* The longest time on a line of the members in `set`; and its ends. */
static uint64_t
longest_of(const struct straggler_input *view, uint64_t set, size_t ends[2])
{
    uint64_t most_us = 0;
    for (size_t a = 0; a < view->n; a++)
        for (size_t b = 0; b < view->n; b++)
            if (a != b && (set >> a & 1) && (set >> b & 1) && view->lag_us[a][b] > most_us) {
                most_us = view->lag_us[a][b];
                ends[0] = a;
                ends[1] = b;
            }
    return most_us;
}

/* How much a line of a member takes on average, and its trainer. Each line has two ends: who is slow has bad ones only.
 * Of those that sent nothing nothing is known: between members that are no servers, for example. */
static uint64_t
cost_of(const struct straggler_input *view, uint64_t set, size_t m)
{
    uint64_t all_us = 0, lines = 0;
    for (size_t k = 0; k < view->n; k++) {
        if (k == m || !(set >> k & 1))
            continue;
        all_us += (uint64_t)view->lag_us[m][k] + view->lag_us[k][m];
        lines += (view->lag_us[m][k] > 0) + (view->lag_us[k][m] > 0);
    }
    return (lines ? all_us / lines : 0) + view->apply_us[m];
}

static bool
clearly_less(uint64_t then_us, uint64_t now_us)
{
    return 4 * now_us > STRAGGLER_GAIN * then_us && now_us > then_us + STRAGGLER_GAIN_US;
}

/* An end of the longest line, if all lines are clearly shorter without it, but not without the other end: a slow member
 * that serves all others. PROTO_PEERS_MAX: there is none. */
static size_t
slow_end(const struct straggler_input *view, uint64_t set)
{
    size_t ends[2] = {0}, others[2];
    if (longest_of(view, set, ends) == 0)
        return PROTO_PEERS_MAX;
    uint64_t without_us[2];
    for (int e = 0; e < 2; e++)
        without_us[e] = longest_of(view, set & ~(UINT64_C(1) << ends[e]), others);
    if (clearly_less(without_us[0], without_us[1]))
        return ends[0];
    return clearly_less(without_us[1], without_us[0]) ? ends[1] : PROTO_PEERS_MAX;
}

static size_t
worst_of(const struct straggler_input *view, uint64_t set)
{
    uint64_t worst_us = 0;
    bool pair = __builtin_popcountll(set) == 2; /* of which the lines say nothing */
    size_t worst = pair ? PROTO_PEERS_MAX : slow_end(view, set);
    for (size_t m = 0, end = worst; m < view->n && end == PROTO_PEERS_MAX; m++) {
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

uint64_t
straggler_decide(const struct straggler_input *view)
{
    uint64_t all = bits_below(view->n);
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
view_fill(const struct straggler *s, const struct core *core, struct straggler_input *view)
{
    const struct plan *plan = &core->plan;
    memset(view, 0, sizeof *view);
    view->n = plan->now.count;
    view->shards = core->config.shards;
    view->round_us = round_us(s);
    for (size_t a = 0; a < view->n; a++) {
        int i = plan->peer[a];
        const struct heard *heard = i < 0 ? NULL : &core->view.of[i];
        view->speed[a] = heard ? heard->beat.speed : core->contribution.speed;
        view->apply_us[a] = heard ? heard->beat.apply_us : s->apply_us;
        for (size_t b = 0; b < view->n; b++) {
            int from = plan->peer[b] < 0 ? PEERS_MAX : plan->peer[b];
            if (b != a)
                view->lag_us[a][b] = heard ? heard->lag_us[from] : s->of[from].lag.us;
        }
    }
}

static void
tell(struct straggler *s, const struct core *core, int i, uint64_t with_us, uint64_t without_us)
{
    struct proto_msg msg = {.type = PROTO_BENCH,
                            .bench = {.with_us = with_us, .without_us = without_us}};
    s->of[i].told_at = core->awake;
    s->of[i].trial = false;
    peers_send(core, i, &msg);
}

static void
leave_out(struct straggler *s, const struct core *core, int i, uint64_t with_us,
          uint64_t without_us)
{
    char who[PROTO_WHO_MAX];
    core_log(core, 5,
             "%s is left out for a while: a step takes %u ms with it, about %u ms without it",
             report_who(core, i, who), (unsigned)(with_us / 1000), (unsigned)(without_us / 1000));
    tell(s, core, i, with_us, without_us);
}

uint64_t
straggler_sober(const struct straggler *s, const struct core *core, uint64_t us)
{
    bool known = s->came_us > s->predicted_us && awake_before(core->awake, s->err_at);
    return known ? us * s->came_us / s->predicted_us : us;
}

/* The members in `out` are left out: the others, and then this node, are told. */
static enum straggler_verdict
send_away(struct straggler *s, const struct core *core, uint64_t out, uint64_t with_us,
          uint64_t without_us)
{
    enum straggler_verdict verdict = STRAGGLER_HOLD;
    s->before_us = s->average_us > 0 ? s->average_us : with_us;
    s->predicted_us = without_us;
    uint64_t then_us = straggler_sober(s, core, without_us);
    s->came_us = 0;
    for (size_t m = 0; m < core->plan.now.count; m++) {
        int i = core->plan.peer[m];
        if (!(out >> m & 1))
            continue;
        if (i >= 0)
            leave_out(s, core, i, with_us, then_us);
        else
            verdict = straggler_on_bench(s, core, &(struct proto_bench){with_us, then_us});
    }
    if (s->benched) /* another node leads */
        s->before_us = 0;
    return verdict;
}

static enum straggler_verdict
decide(struct straggler *s, const struct core *core, bool trial)
{
    struct straggler_input view;
    view_fill(s, core, &view);
    uint64_t out = straggler_decide(&view);
    uint64_t all = bits_below(view.n);
    uint64_t without_us = straggler_predict(&view, all & ~out);
    if (!clearly_less(straggler_sober(s, core, without_us), view.round_us))
        out = 0;
    bool again = out && !(out & ~s->slow);
    if (!again)
        s->slow_at = core->awake;
    s->slow = out;
    bool proved = trial && (s->without_us == 0 || clearly_less(s->without_us, view.round_us));
    bool sure = proved || (again && awake_since(core->awake, s->slow_at) >= STRAGGLER_SURE_US);
    if (!out || !sure)
        return STRAGGLER_GO_ON;
    return send_away(s, core, out, view.round_us, without_us == 0 ? 1 : without_us);
}

/* It did not help: whoever was left out may come back. */
static void
call_back(struct straggler *s, const struct core *core)
{
    s->immune_at = awake_after(core->awake, STRAGGLER_FORGIVE_US);
    core_log(core, 6,
             "steps are no faster without the nodes that were left out: they may come back");
    for (int i = 0; i < core->peers.high; i++) {
        if (core->peers.peers[i].state == PEER_UP && straggler_benched(core, i))
            tell(s, core, i, 0, 0);
        s->of[i].told_at.us = 0;
    }
}

static bool
trial_in_plan(const struct straggler *s, const struct core *core)
{
    for (size_t m = 0; m < core->plan.now.count; m++)
        if (core->plan.peer[m] >= 0 && s->of[core->plan.peer[m]].trial)
            return true;
    return false;
}

static void
trials_over(struct straggler *s, const struct core *core)
{
    for (size_t m = 0; m < core->plan.now.count; m++)
        if (core->plan.peer[m] >= 0)
            s->of[core->plan.peer[m]].trial = false;
}

/* Did it help to leave somebody out? */
static void
judge(struct straggler *s, const struct core *core)
{
    if (s->before_us == 0 || s->average_us == 0)
        return;
    s->came_us = s->average_us;
    s->err_at = awake_after(core->awake, STRAGGLER_ERR_US);
    if (!clearly_less(s->average_us, s->before_us))
        call_back(s, core);
    s->before_us = 0;
}

/* After a round of a plan that this node leads. */
static enum straggler_verdict
lead(struct straggler *s, const struct core *core)
{
    uint64_t us = round_us(s);
    bool trial = trial_in_plan(s, core);
    if (trial && s->rounds >= STRAGGLER_TRIAL_ROUNDS)
        trials_over(s, core);
    if (us == 0 || core->plan.hold != UINT64_MAX)
        return STRAGGLER_GO_ON;
    if (!trial) {
        s->without_us = s->average_us > 0 ? s->average_us : us;
        judge(s, core);
    }
    if (awake_before(core->awake, s->look_at) || awake_before(core->awake, s->immune_at) ||
        core->config.keep_all || core->config.even || core->pinned || core_mutant(MUTANT_PACE))
        return STRAGGLER_GO_ON;
    s->look_at = awake_after(core->awake, STRAGGLER_LOOK_US);
    return decide(s, core, trial);
}

enum straggler_verdict
straggler_round(struct straggler *s, const struct core *core, uint64_t us)
{
    bool full = s->full;
    assert(core->plan.active);
    for (int i = 0; i < core->peers.high; i++)
        lag_round(&s->of[i].lag, core->round - 1, full);
    s->full = core->first_bucket == 0;
    if (!full)
        return STRAGGLER_GO_ON;
    round_note(s, us);
    return plan_leads(&core->plan, core->config.self) ? lead(s, core) : STRAGGLER_GO_ON;
}

/* Who has come back makes the plan crawl: no need to see the round's end. */
static bool
crawls(struct straggler *s, const struct core *core)
{
    uint64_t most_us = 3 * s->without_us + STRAGGLER_TRIAL_US;
    uint64_t us = awake_since(core->awake, core->plan.round_at);
    if (!plan_leads(&core->plan, core->config.self) || s->without_us == 0 || us <= most_us ||
        core->contribution.state != TRAINER_FREE || !trial_in_plan(s, core))
        return false;
    for (size_t m = 0; m < core->plan.now.count; m++) {
        int i = core->plan.peer[m];
        if (i >= 0 && s->of[i].trial)
            leave_out(s, core, i, us, s->without_us);
    }
    return true;
}

void
straggler_not_joined(struct straggler *s, const struct core *core, int i)
{
    if (!core->view.of[i].beat.ready || ++s->of[i].vain < STRAGGLER_VAIN_MAX ||
        core_mutant(MUTANT_PACE))
        return;
    char who[PROTO_WHO_MAX];
    core_log(core, 5, "%s is left out for a while: it does not catch up", report_who(core, i, who));
    tell(s, core, i, 0, 1);
}

/* --- Being left out ---------------------------------------------------------------------------- */

/* Does somebody get on without us? What we fetch may be in the way of heartbeats: silence for a moment is no
 * reason to doubt it. */
static bool
others_go_on(const struct core *core, uint64_t step_us)
{
    uint64_t most_us = STRAGGLER_MOVED_US + 4 * step_us;
    for (int i = 0; i < core->peers.high; i++) {
        const struct heard *heard = &core->view.of[i];
        if (core->peers.peers[i].state == PEER_UP && !heard->beat.benched &&
            !core->plan.of[i].stuck &&
            (heard->beat.done || awake_since(core->awake, heard->moved_at) < most_us))
            return true;
    }
    return false;
}

static enum straggler_verdict
come_back(struct straggler *s, const struct core *core, const char *why)
{
    core_log(core, 6, "this node is no longer left out: %s", why);
    s->benched = false;
    return STRAGGLER_BACK;
}

/* For how long this node is left out now: twice as long as the last time, if that was not long ago. */
static uint64_t
next_rest_us(const struct straggler *s, const struct core *core)
{
    bool again =
        s->rest_us > 0 && awake_before(core->awake, awake_after(s->rest_at, STRAGGLER_FORGIVE_US));
    return backoff_us(again ? s->rest_us : 0, STRAGGLER_REST_US, STRAGGLER_REST_MAX_US);
}

enum straggler_verdict
straggler_on_bench(struct straggler *s, const struct core *core, const struct proto_bench *msg)
{
    if (msg->without_us == 0) { /* a mistake */
        s->rest_us = 0;
        return s->benched ? come_back(s, core, "the others called it back") : STRAGGLER_GO_ON;
    }
    if (s->benched || core->done)
        return STRAGGLER_GO_ON;
    s->rest_us = next_rest_us(s, core);
    s->rest_at = awake_after(core->awake, s->rest_us);
    s->benched = true;
    unsigned seconds = (unsigned)(s->rest_us / 1000000);
    if (msg->with_us == 0)
        core_log(core, 4, "the others leave this node out for %u s: it does not catch up", seconds);
    else
        core_log(
            core, 4,
            "the others leave this node out for %u s: its network or CPU is too slow (a step takes "
            "%u ms with it, about %u ms without it)",
            seconds, (unsigned)(msg->with_us / 1000), (unsigned)(msg->without_us / 1000));
    return STRAGGLER_BENCHED;
}

enum straggler_verdict
straggler_tick(struct straggler *s, const struct core *core, uint64_t step_us)
{
    if (core->plan.active)
        return crawls(s, core) ? STRAGGLER_ABORT : STRAGGLER_GO_ON;
    if (!s->benched)
        return STRAGGLER_GO_ON;
    if (awake_reached(core->awake, s->rest_at))
        return come_back(s, core, "it tries again");
    if (!others_go_on(core, step_us))
        return come_back(s, core, "nobody else goes on");
    return STRAGGLER_GO_ON;
}

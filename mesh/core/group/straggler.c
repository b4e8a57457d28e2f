/* straggler.c - see straggler.h for what is measured and who decides. */
#include "mesh/core/group/straggler.h"

#include <assert.h>
#include <string.h>

#include "mesh/core/internal.h"
#include "proto/bits.h"

enum {
    PACKED_BITS = 12, /* of straggler.packed */
};

bool
straggler_benched(const struct core *core, int i)
{
    struct awake told_at = core->straggler.of[i].told_at;
    return core->view.of[i].beat.benched ||
           (told_at.us > 0 && awake_since(core->awake, told_at) < STRAGGLER_TOLD_US);
}

bool
straggler_apart(const struct core *core)
{
    return core->straggler.benched && !core->straggler.surplus && core->warms > 0;
}

/* Of a peer, -1: of this node, in bitmaps of members. */
static uint64_t
member_bit(int peer)
{
    return UINT64_C(1) << (peer < 0 ? PEERS_MAX : peer);
}

/* --- Measuring --------------------------------------------------------------------------------- */

void
straggler_up(struct straggler *s, int i)
{
    s->of[i] = (struct straggler_peer){0};
    for (int k = 0; k < COST_TIMES; k++)
        if (s->times[k].who >> i & 1)
            s->times[k] = (struct cost_time){.who = 0};
}

void
straggler_back(struct straggler *s, int i)
{
    s->of[i].vain = 0;
}

void
straggler_chunk(struct straggler *s, const struct proto_chunk *chunk, size_t size, uint64_t busy_us)
{
    s->busy_us += busy_us;
    s->came += size;
    s->came_plain += chunk->count * sizeof(int32_t);
}

void
straggler_starved(struct straggler *s, uint64_t us)
{
    s->starved_us += us;
}

/* Were lines busy because of this machine? While nothing came nobody knows. */
static bool
starves(const struct straggler *s)
{
    return s->busy_us > 0 && 2 * s->starved_us > s->busy_us;
}

/* Of so many bytes per second, those of sums, before they are packed: as in the last round. */
static uint32_t
plain_rate(const struct straggler *s, uint32_t rate)
{
    if (s->packed == 0 || rate == LINE_FAST)
        return rate;
    uint64_t plain = ((uint64_t)rate << PACKED_BITS) / s->packed;
    return plain < LINE_FAST ? (uint32_t)plain : LINE_FAST - 1;
}

static uint32_t
slowest_member(const struct core *core)
{
    uint32_t least = 0;
    for (size_t m = 0; m < core->plan.now.count; m++)
        if (core->plan.peer[m] >= 0)
            least = line_slower(least, core->lines.of[core->plan.peer[m]].rate);
    return least;
}

unsigned
straggler_packs(const struct core *core, bool *quick)
{
    uint32_t least = slowest_member(core);
    *quick = least >= STRAGGLER_CODES;
    if (least == 0)
        return core->warms > 0 || core->alone ? 4 : 0; /* what is packed does not lend own[] */
    return least >= STRAGGLER_QUICK ? 3 : 4;
}

void
straggler_applied(struct straggler *s, const struct core *core)
{
    uint64_t us = wall_since(core->now, core->trainer.commit_at);
    uint32_t new_us = us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
    bool less =
        s->apply_us == 0 || new_us < s->apply_us; /* who was busy for a moment is not slow */
    s->apply_us = less ? new_us : (uint32_t)((3 * (uint64_t)s->apply_us + new_us) / 4);
}

static void
forget_rounds(struct straggler *s)
{
    s->rounds = 0;
    s->window_us = s->window_rounds = 0;
    s->average_us = 0;
}

void
straggler_plan(struct straggler *s, const struct core *core)
{
    s->full = core->first_bucket == 0;
    forget_rounds(s);
    s->starved_us = s->busy_us = 0;
    s->best = 0;
    for (size_t m = 0; m < core->plan.now.count; m++)
        if (core->plan.peer[m] >= 0)
            s->of[core->plan.peer[m]].vain = 0;
}

/* How much shorter the bodies of the round were than what they hold. */
static void
packed_note(struct straggler *s)
{
    if (s->came_plain > 0)
        s->packed = (uint32_t)(1 + (s->came << PACKED_BITS) / s->came_plain);
    s->came = s->came_plain = 0;
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

/* The shortest of the last rounds; UINT64_MAX: there was none. */
static uint64_t
shortest_so_far_us(const struct straggler *s)
{
    uint64_t least_us = UINT64_MAX;
    for (unsigned k = 0; k < s->rounds && k < STRAGGLER_RECENT; k++)
        if (s->round_us[k] < least_us)
            least_us = s->round_us[k];
    return least_us;
}

/* The same, 0 when there were not enough. */
static uint64_t
shortest_us(const struct straggler *s)
{
    return s->rounds < STRAGGLER_ROUNDS ? 0 : shortest_so_far_us(s);
}

/* The members of the plan, a bitmap of peers. */
static uint64_t
members_of(const struct core *core)
{
    uint64_t who = 0;
    for (size_t m = 0; m < core->plan.now.count; m++)
        who |= member_bit(core->plan.peer[m]);
    return who;
}

/* The members of the plan took so long for a round: this replaces what was known of them, or the oldest time. */
static void
time_note(struct straggler *s, const struct core *core, uint64_t us)
{
    struct cost_time now = {members_of(core), us, core->awake}, *place = s->times;
    for (int k = 1; k < COST_TIMES && place->who != now.who; k++)
        if (s->times[k].who == now.who || awake_before(s->times[k].at, place->at))
            place = &s->times[k];
    *place = now;
}

/* --- Leading ----------------------------------------------------------------------------------- */

/* The times of sets of which all are here. */
static void
times_fill(const struct straggler *s, const struct core *core, size_t n, const int *peer,
           struct cost_view *view)
{
    for (int k = 0; k < COST_TIMES; k++) {
        const struct cost_time *time = &s->times[k];
        uint64_t left = time->who, set = 0;
        for (size_t m = 0; m < n; m++) {
            set |= (uint64_t)((left & member_bit(peer[m])) > 0) << m;
            left &= ~member_bit(peer[m]);
        }
        bool fresh = awake_since(core->awake, time->at) < STRAGGLER_REMEMBER_US;
        view->times[k] = (struct cost_time){left || !fresh ? 0 : set, time->us, time->at};
    }
}

void
straggler_see(const struct straggler *s, const struct core *core, size_t n, const int *peer,
              struct cost_view *view)
{
    *view = (struct cost_view){.cost = {.n = n,
                                        .shards = core->config.shards,
                                        .even = core->config.even,
                                        .buckets = core->buckets,
                                        .bucket_count = core->config.bucket_count,
                                        .chunk_elems = core->config.chunk_elems,
                                        .direct_bytes = core->config.direct_bytes}};
    for (size_t a = 0; a < n; a++) {
        const struct heard *heard = peer[a] < 0 ? NULL : &core->view.of[peer[a]];
        view->self = heard ? view->self : a;
        view->cost.of[a].speed = heard ? heard->beat.speed : core->trainer.speed;
        view->cost.of[a].apply_us = heard ? heard->beat.apply_us : s->apply_us;
        for (size_t b = 0; b < n; b++) {
            int from = peer[b] < 0 ? PEERS_MAX : peer[b];
            if (b != a)
                view->rate[a][b] =
                    plain_rate(s, heard ? heard->rate[from] : core->lines.of[from].rate);
        }
    }
    cost_lines(view);
    times_fill(s, core, n, peer, view);
}

static void
tell_bench(struct straggler *s, const struct core *core, int i, const struct proto_bench *bench)
{
    struct proto_msg msg = {.type = PROTO_BENCH, .bench = *bench};
    s->of[i].told_at = core->awake;
    peers_send(core, i, &msg);
}

static const char *
bench_words(char out[96], const struct proto_bench *b)
{
    snprintf(out, 96, "%u node%s %.2f s a step, %u nodes %.2f s", b->without,
             b->without == 1 ? "" : "s", (double)b->without_us / 1e6, b->with,
             (double)b->with_us / 1e6);
    return out;
}

static void
leave_out(struct straggler *s, const struct core *core, int i, const struct proto_bench *bench,
          const char *why)
{
    char who[PROTO_WHO_MAX];
    core_log(core, core->warms > 0 ? 6 : 5, "%s %s: %s", report_who(core, i, who),
             core->warms > 0 ? "computes by itself until the codec begins"
                             : "is left out for a while",
             why);
    tell_bench(s, core, i, bench);
}

/* The members that are not in `best` are left out: the others, and then this node, are told. What a round with all
 * takes is remembered: they come back one day. `why` NULL: rounds take less without them. */
static void
send_away(struct straggler *s, const struct core *core, const struct cost_view *view, uint64_t best,
          const char *why)
{
    uint64_t all = bits_below(view->cost.n), then_us = cost_expect_us(view, best);
    struct cost_round with = cost_round(&view->cost, all);
    uint64_t more_us = view->round_us > then_us ? view->round_us - then_us : 0;
    struct proto_bench bench = {.with_us = view->round_us,
                                .without_us = then_us ? then_us : 1,
                                .with = (uint16_t)view->cost.n,
                                .without = (uint16_t)__builtin_popcountll(best),
                                .line = 2 * with.lines_us > more_us && !starves(s)};
    time_note(s, core, view->round_us);
    s->before_us = view->round_us;
    s->kept = s->gone = 0;
    char words[96];
    for (size_t m = 0; m < view->cost.n; m++) {
        int i = core->plan.peer[m];
        *(best >> m & 1 ? &s->kept : &s->gone) |= member_bit(i);
        if (best >> m & 1)
            continue;
        if (i >= 0)
            leave_out(s, core, i, &bench, why ? why : bench_words(words, &bench));
        else
            straggler_on_bench(s, core, &bench);
    }
}

/* May this node, which leads, leave somebody out now? */
static bool
may_decide(const struct core *core)
{
    return core->plan.hold == UINT64_MAX && !core->config.keep_all &&
           core->config.stages.count <= 1 && !core->config.even && !core->pinned &&
           !mutant(MUTANT_PACE);
}

/* Until a codec begins nobody is lost who computes by itself: no line need be known to see that a round takes longer
 * than one of this node alone. And where the trainer found that one node alone is the fastest, nobody need try
 * first. */
static enum straggler_verdict
part(struct straggler *s, const struct core *core, uint64_t us)
{
    struct cost_view view;
    if ((core->warms == 0 && !core->alone) || !may_decide(core) || core->plan.now.count < 2 ||
        core->trainer.speed == 0)
        return STRAGGLER_GO_ON;
    straggler_see(s, core, core->plan.now.count, core->plan.peer, &view);
    uint64_t self = UINT64_C(1) << view.self, alone_us = cost_round_us(&view.cost, self);
    uint64_t least_us = COST_GAIN * alone_us / 4 + COST_GAIN_US,
             all_us = cost_round_us(&view.cost, bits_below(view.cost.n));
    bool at_once = core->alone && !s->parted;
    if (us < least_us && !at_once)
        return STRAGGLER_GO_ON;
    s->parted = core->alone;
    view.round_us = !at_once ? us : all_us > least_us ? all_us : least_us;
    send_away(s, core, &view, self, NULL);
    s->before_us = 0; /* they come back when the codec begins, or long after */
    return STRAGGLER_ABORT;
}

/* Does peers[i] only watch for want of a shard? Whom this node left out is too slow. */
static bool
could_help(const struct core *core, int i)
{
    return view_usable(core, i) && core->view.of[i].beat.benched && !core->view.of[i].beat.done &&
           core->straggler.of[i].told_at.us == 0 && !core->plan.of[i].stuck &&
           !divergence_excludes(core, i);
}

/* Members, a bitmap of ranks, that are too slow for a shard and keep somebody out who could have one. */
static uint64_t
in_the_way(const struct core *core, const struct cost_view *view)
{
    uint64_t who = 0;
    unsigned others = 0;
    if (core->plan.now.count < core->members_max)
        return 0;
    for (int i = 0; i < core->peers.high; i++)
        others += could_help(core, i);
    for (size_t m = 0; m < view->cost.n && others > 0; m++) {
        bool idle = core->plan.now.members[m].shards == 0 && view->cost.of[m].speed > 0;
        who |= (uint64_t)idle << m;
        others -= idle;
    }
    return who;
}

/* Is this the first round since sums became short, or no longer, or has it just ended? */
static bool
sums_change(const struct straggler *s, const struct core *core)
{
    return s->changed_at > 0 && core->round + 1 - s->changed_at <= 1;
}

/* A round took `us`, or still runs after so long. In the first rounds of a plan only what is far too long counts. Then
 * it must be a moment's decision no more, or one by what was measured. */
static enum straggler_verdict
decide(struct straggler *s, const struct core *core, uint64_t us, bool over)
{
    bool first = s->rounds < STRAGGLER_ROUNDS;
    struct cost_view view;
    enum straggler_verdict apart = part(s, core, us);
    if (apart != STRAGGLER_GO_ON || sums_change(s, core))
        return apart;
    if (first && shortest_so_far_us(s) < us) /* that this one is long says nothing */
        us = shortest_so_far_us(s);
    if (!may_decide(core) ||
        (first ? !cost_far_less(0, 2 * us) : awake_before(core->awake, s->look_at)))
        return STRAGGLER_GO_ON;
    s->look_at = awake_after(core->awake, STRAGGLER_LOOK_US);
    straggler_see(s, core, core->plan.now.count, core->plan.peer, &view);
    view.round_us = shortest_us(s);
    view.measured_only = awake_before(core->awake, s->distrust_at);
    uint64_t all = bits_below(view.cost.n), best = cost_best(&view);
    uint64_t all_us = cost_expect_us(&view, all), then_us = cost_expect_us(&view, best);
    bool known = cost_measured_us(&view, best) > 0;
    if (best != s->best)
        s->best_at = core->awake;
    s->best = best;
    bool explained = known || (view.lines_known && all_us >= us / 2);
    bool far = explained && cost_far_less(then_us, over || known ? 2 * us : us);
    bool sure = known || awake_since(core->awake, s->best_at) >= STRAGGLER_SURE_US;
    if (best == all || (!far && (first || !sure)))
        return STRAGGLER_GO_ON;
    if (first)
        view.round_us = view.measured_only || us > all_us ? us : all_us;
    send_away(s, core, &view, best, NULL);
    return far ? STRAGGLER_ABORT : s->benched ? STRAGGLER_BENCHED : STRAGGLER_HOLD;
}

/* Who has no shard gives its place to who could have one. */
static enum straggler_verdict
free_places(struct straggler *s, const struct core *core)
{
    struct cost_view view;
    if (!may_decide(core))
        return STRAGGLER_GO_ON;
    straggler_see(s, core, core->plan.now.count, core->plan.peer, &view);
    view.round_us = shortest_us(s);
    uint64_t out = in_the_way(core, &view);
    if (out == 0)
        return STRAGGLER_GO_ON;
    send_away(s, core, &view, bits_below(view.cost.n) & ~out,
              "it is too slow for a shard, and another node has none");
    s->before_us = 0; /* it is not to help by itself */
    return s->benched ? STRAGGLER_BENCHED : STRAGGLER_HOLD;
}

/* It did not help: those who were left out last may come back, and for a while nobody is left out by a prediction. */
static void
recall(struct straggler *s, const struct core *core)
{
    const struct proto_bench back = {.without_us = 0};
    s->distrust_at = awake_after(core->awake, STRAGGLER_FORGIVE_US);
    core_log(core, 6,
             "steps are no faster without the nodes that were left out: they may come back");
    for (int i = 0; i < core->peers.high; i++) {
        if (!(s->gone >> i & 1))
            continue;
        if (core->peers.peers[i].state == PEER_UP && straggler_benched(core, i))
            tell_bench(s, core, i, &back);
        s->of[i].told_at.us = 0;
    }
}

/* After a round of a plan that this node leads. Did it help to leave somebody out? */
static enum straggler_verdict
lead(struct straggler *s, const struct core *core, uint64_t us)
{
    uint64_t least_us = shortest_us(s);
    if (least_us > 0 && core->plan.hold == UINT64_MAX)
        time_note(s, core, s->average_us > 0 ? s->average_us : least_us);
    if (s->before_us > 0 && s->average_us > 0 && members_of(core) == s->kept) {
        if (!cost_clearly_less(s->average_us, s->before_us))
            recall(s, core);
        s->before_us = 0;
    }
    enum straggler_verdict verdict = decide(s, core, us, true);
    return verdict == STRAGGLER_GO_ON && least_us > 0 ? free_places(s, core) : verdict;
}

enum straggler_verdict
straggler_round(struct straggler *s, const struct core *core, uint64_t us)
{
    bool full = s->full;
    assert(core->plan.active);
    packed_note(s);
    s->full = core->first_bucket == 0;
    if (!full)
        return plan_leads(core) && core->alone && !s->parted ? part(s, core, 0) : STRAGGLER_GO_ON;
    if (!sums_change(s, core))
        round_note(s, us);
    return plan_leads(core) ? lead(s, core, us) : STRAGGLER_GO_ON;
}

void
straggler_not_joined(struct straggler *s, const struct core *core, int i)
{
    const struct proto_bench bench = {.without_us = 1};
    if (core->view.of[i].beat.ready && ++s->of[i].vain >= STRAGGLER_VAIN_MAX &&
        !mutant(MUTANT_PACE))
        leave_out(s, core, i, &bench, "it does not catch up");
}

/* --- Being left out ---------------------------------------------------------------------------- */

/* Does somebody get on without us? Not one from whom we take nothing, as our states differ. What we fetch may be in the
 * way of heartbeats: silence for a moment is no reason to doubt it. */
static bool
others_go_on(const struct core *core, uint64_t step_us)
{
    uint64_t most_us = STRAGGLER_MOVED_US + 4 * step_us;
    for (int i = 0; i < core->peers.high; i++) {
        const struct heard *heard = &core->view.of[i];
        if (core->peers.peers[i].state == PEER_UP && !heard->beat.benched &&
            !core->plan.of[i].stuck && !divergence_excludes(core, i) &&
            (heard->beat.done || awake_since(core->awake, heard->moved_at) < most_us))
            return true;
    }
    return false;
}

static enum straggler_verdict
come_back(struct straggler *s, const struct core *core, const char *why)
{
    core_log(core, 6, "this node is no longer left out: %s", why);
    s->benched = s->surplus = false;
    return STRAGGLER_BACK;
}

enum straggler_verdict
straggler_changes(struct straggler *s, const struct core *core)
{
    memset(s->times, 0, sizeof s->times);
    s->before_us = s->rest_us = 0;
    forget_rounds(s);
    s->changed_at = core->round + 1;
    s->distrust_at.us = 0;
    for (int i = 0; i < core->peers.high; i++)
        s->of[i].told_at.us = 0;
    bool apart = core->meets && s->benched && !s->surplus;
    return apart ? come_back(s, core, "the codec begins") : STRAGGLER_GO_ON;
}

/* Has a node gone on to where sums are short, while this one still computes by itself? */
static bool
met_without_us(const struct core *core)
{
    for (int i = 0; i < core->peers.high && core->warms > 0; i++)
        if (divergence_ahead(core, i) && core->view.of[i].beat.round > core->round + core->warms)
            return true;
    return false;
}

/* For how long this node is left out now: twice as long as the last time, if that was not long ago, and for many of the
 * rounds with it: the next try takes one of them at least. */
static uint64_t
next_rest_us(const struct straggler *s, const struct core *core, uint64_t with_us)
{
    uint64_t many_us = with_us < STRAGGLER_REST_MAX_US / STRAGGLER_REST_ROUNDS
                           ? STRAGGLER_REST_ROUNDS * with_us
                           : STRAGGLER_REST_MAX_US;
    bool again =
        s->rest_us > 0 && awake_before(core->awake, awake_after(s->rest_at, STRAGGLER_FORGIVE_US));
    uint64_t us = backoff_us(again ? s->rest_us : 0, STRAGGLER_REST_US, STRAGGLER_REST_MAX_US);
    return us > many_us ? us : many_us;
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
    s->rest_us = next_rest_us(s, core, msg->with_us);
    s->rest_at = awake_after(core->awake, s->rest_us);
    s->benched = true;
    char words[96];
    if (straggler_apart(core))
        core_log(core, 5,
                 "this node computes by itself until the codec begins (%s; mesh.compress_warmup)",
                 bench_words(words, msg));
    else if (msg->with_us == 0)
        core_log(core, 4, "watching for %u s: this node does not catch up with the others",
                 (unsigned)(s->rest_us / 1000000));
    else
        core_log(core, 4, "watching: this %s is too slow to help (%s)",
                 msg->line && !starves(s) ? "line" : "CPU", bench_words(words, msg));
    return STRAGGLER_BENCHED;
}

/* Does it train, and not in the plan of those who are ahead? Its heartbeats may be as old as the time that they are
 * ahead. */
static bool
trains_behind(const struct core *core, int i)
{
    const struct proto_heartbeat *said = &core->view.of[i].beat;
    for (int k = 0; k < core->peers.high && !said->idle; k++) {
        const struct heard *heard = &core->view.of[k];
        uint64_t more = heard->beat.round > said->round ? heard->beat.round - said->round : 0;
        uint64_t each_us = heard->round_us ? heard->round_us : CORE_HEARTBEAT_US; /* or longer */
        if (view_usable(core, k) && more * each_us > CORE_SUSPECT_US)
            return true;
    }
    return false;
}

/* Do nodes with lower ids take all shards? Who is left out takes none, nor does who trains by itself. */
static bool
is_surplus(const struct straggler *s, const struct core *core)
{
    unsigned lower = 0;
    for (int i = 0; i < core->peers.high; i++)
        lower += view_usable(core, i) && !core->plan.of[i].stuck && !divergence_excludes(core, i) &&
                 !core->view.of[i].beat.benched && !trains_behind(core, i) &&
                 core->peers.peers[i].node.id < core->config.self.id;
    return core->others_train && !core->done && lower >= core->members_max &&
           awake_reached(core->awake, s->need_at);
}

/* This node is in no plan. */
static enum straggler_verdict
rest(struct straggler *s, const struct core *core, uint64_t step_us)
{
    bool surplus = is_surplus(s, core);
    if (!s->benched && !surplus)
        return STRAGGLER_GO_ON;
    if (!s->benched) {
        s->benched = s->surplus = true;
        core_log(core, 5, "watching: other nodes compute all %u shards (train.shards)",
                 core->config.shards);
        return STRAGGLER_BENCHED;
    }
    uint64_t more_us = core->alone ? STRAGGLER_REST_MAX_US : 0; /* all found it the fastest */
    if (s->surplus ? !surplus : awake_reached(core->awake, awake_after(s->rest_at, more_us)))
        return come_back(s, core, s->surplus ? "there is a shard for it" : "it tries again");
    if (met_without_us(core))
        return come_back(s, core, "the codec has begun");
    if (others_go_on(core, step_us))
        return STRAGGLER_GO_ON;
    s->need_at = awake_after(core->awake, STRAGGLER_FORGIVE_US);
    return come_back(s, core, "nobody else goes on");
}

enum straggler_verdict
straggler_tick(struct straggler *s, const struct core *core, uint64_t step_us)
{
    if (plan_leads(core) && core->alone && !s->parted) /* before anything is sent */
        return part(s, core, 0);
    /* in the first rounds of a plan: no need to see the round's end */
    if (plan_leads(core) && s->full && s->rounds < STRAGGLER_ROUNDS &&
        core->trainer.state == TRAINER_FREE)
        return decide(s, core, awake_since(core->awake, core->plan.round_at), false);
    return core->plan.active ? STRAGGLER_GO_ON : rest(s, core, step_us);
}

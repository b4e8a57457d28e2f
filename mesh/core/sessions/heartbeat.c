/* heartbeat.c - see heartbeat.h for what silence means. */
#include "mesh/core/sessions/heartbeat.h"

#include <assert.h>

#include "mesh/core/internal.h"

enum {
    RATE = 1000,       /* bytes per second: a rate that changes by less is not worth a word, */
    RATES_US = 250000, /* and rates alone this often at most, but for those that were unknown */
};

/* Again and again: who is asked may have been killed, or may not have had our HELLO yet. */
static void
ask_for_job(const struct core *core)
{
    struct proto_msg ask = {.type = PROTO_JOB};
    for (int i = 0; i < core->peers.high; i++)
        if (core->peers.peers[i].state == PEER_UP)
            peers_send(core, i, &ask);
}

/* --- Whom we hear --------------------------------------------------------------------------------- */

/* Has the rate changed so much that the others should know? */
static bool
rate_moved(uint32_t from, uint32_t to)
{
    uint32_t less = from < to ? from : to, more = from < to ? to : from;
    return more - less > RATE + less / 4;
}

static void
list_heard(const struct core *core, struct proto_hears *out)
{
    out->count = 0;
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        if (peer->state == PEER_UP && !core->view.of[i].suspected && !peer->hello.wants_job)
            out->nodes[out->count++] = (struct proto_hearing){peer->node, core->lines.of[i].rate};
    }
}

/* The interval between lists grows with the square of their length. */
static uint64_t
rarely(const struct core *core, uint64_t heard)
{
    return 1 + heard * heard / ((uint64_t)core->config.crowd * core->config.crowd);
}

/* Are others heard than those that we told of, is a rate known now, or, after a while, have rates changed? */
static bool
list_changed(const struct view *view, const struct core *core, const struct proto_hears *now)
{
    bool rates = wall_since(core->now, view->told_at) >= RATES_US * rarely(core, now->count);
    if (now->count != view->told.count)
        return true;
    for (size_t k = 0; k < now->count; k++) {
        const struct proto_hearing *a = &now->nodes[k], *b = &view->told.nodes[k];
        bool tells = (rates || (a->rate > 0 && b->rate == 0)) && rate_moved(a->rate, b->rate);
        if (!proto_node_equal(a->node, b->node) || tells)
            return true;
    }
    return false;
}

/* Tells the list before the heartbeat that names it. When many come or go, one list tells of several. */
static void
tell_list(struct view *view, const struct core *core)
{
    struct proto_msg msg = {.type = PROTO_HEARS};
    list_heard(core, &msg.hears);
    bool due = view->told_hash == 0 || wall_reached(core->now, view->list_at);
    if (!due || (view->told_hash != 0 && !list_changed(view, core, &msg.hears)))
        return;
    view->told = msg.hears;
    view->told_hash = proto_hears_hash(&msg.hears);
    if (msg.hears.count > 0) { /* else nobody trains with this node */
        view->told_at = core->now;
        view->list_at = wall_after(core->now, CORE_HEARTBEAT_US * rarely(core, msg.hears.count));
    }
    for (int i = 0; i < core->peers.high; i++)
        peers_send(core, i, &msg);
}

/* Another list is due: with the next heartbeat, which comes as soon as a list may follow the last one. */
static void
list_soon(struct view *view)
{
    if (wall_before(view->list_at, view->beat_at))
        view->beat_at = view->list_at;
}

void
heartbeat_whom(struct view *view, const struct core *core, int i)
{
    struct heard *heard = &view->of[i];
    if (view->told_hash == 0 || wall_since(core->now, heard->asked_at) < CORE_TICK_US)
        return;
    heard->asked_at = core->now;
    peers_send(core, i, &(struct proto_msg){.type = PROTO_HEARS, .hears = view->told});
}

/* --- Sending ---------------------------------------------------------------------------------------- */

/* The highest id among the leaders, who exchange heartbeats with all nodes at the full rate. Who is left out does not
 * lead; `benched`: this node is. */
static uint64_t
leaders_end(const struct core *core, bool benched)
{
    uint64_t lowest[HEARTBEAT_LEADERS + 1] = {benched ? 0 : core->config.self.id};
    size_t count = !benched;
    unsigned nodes = 1;
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        if (peer->state != PEER_UP || core->view.of[i].suspected || peer->hello.wants_job)
            continue;
        nodes++;
        if (core->view.of[i].beat.benched)
            continue;
        size_t k = count;
        for (; k > 0 && lowest[k - 1] > peer->node.id; k--)
            lowest[k] = lowest[k - 1];
        lowest[k] = peer->node.id;
        count += count < HEARTBEAT_LEADERS;
    }
    return nodes <= core->config.crowd ? UINT64_MAX : count > 0 ? lowest[count - 1] : 0;
}

static void
send_to(struct view *view, const struct core *core, bool all, struct proto_msg *msg)
{
    const bool benched = msg->heartbeat.benched;
    const uint64_t end = leaders_end(core, benched), pause_us = msg->heartbeat.pause_us;
    for (int i = 0; i < core->peers.high; i++) {
        const bool looks = core->peers.peers[i].hello.wants_job;
        bool near = !looks && ((core->config.self.id <= end && !benched) ||
                               (core->peers.peers[i].node.id <= end && !view->of[i].beat.benched));
        if (!near && (looks || !all) && wall_before(core->now, view->of[i].due_at))
            continue;
        msg->heartbeat.pause_us = (uint32_t)(near ? pause_us : HEARTBEAT_FAR_US);
        view->of[i].due_at = wall_after(core->now, msg->heartbeat.pause_us);
        peers_send(core, i, msg);
    }
}

void
heartbeat_send(struct view *view, const struct core *core, const struct proto_heartbeat *beat)
{
    struct proto_msg msg = {.type = PROTO_HEARTBEAT, .heartbeat = *beat};
    const bool early = wall_before(core->now, view->beat_at);
    view->pause_us = beat->pause_us;
    view->beat_at = wall_after(core->now, beat->pause_us);
    if (core->leaving)
        return;
    if (core->config.hello.wants_job) {
        ask_for_job(core);
        return;
    }
    tell_list(view, core);
    msg.heartbeat.sent_us = core->now.us;
    msg.heartbeat.away &= !beat->done; /* others may copy the result */
    msg.heartbeat.hears_hash = view->told_hash;
    send_to(view, core, early, &msg);
}

/* --- Hearing ---------------------------------------------------------------------------------------- */

bool
heartbeat_heard(struct view *view, const struct core *core, int i)
{
    struct heard *heard = &view->of[i];
    bool healed = heard->suspected && !heard->beat.away;
    if (healed)
        list_soon(view);
    heard->heard_at = core->awake;
    heard->suspected = heard->beat.away;
    return healed;
}

/* How fast its rounds are, from two heartbeats with some time between. */
static void
take_round(struct heard *heard, const struct core *core, uint64_t round)
{
    uint64_t us = wall_since(core->now, heard->counted_at);
    if (heard->beat.round != round)
        heard->moved_at = core->awake;
    if (heard->counted_at.us && us < CORE_HEARTBEAT_US)
        return;
    bool moved = heard->counted_at.us && round > heard->counted_round;
    heard->round_us = moved ? us / (round - heard->counted_round) : 0;
    heard->counted_at = core->now;
    heard->counted_round = round;
}

void
heartbeat_hears(struct view *view, int i, const struct proto_hears *hears)
{
    view->of[i].list = *hears;
    view->of[i].list_hash = proto_hears_hash(hears);
}

/* Reads the list of peers[i]. Returns a bitmap of those who are worth a hold, as one hears another again. */
static uint64_t
read_heard(struct heard *heard, const struct core *core, int i)
{
    uint64_t before = heard->hears;
    bool deaf = !heard->hears_me;
    heard->hears = 0;
    heard->hears_me = false;
    for (size_t h = 0; h < heard->list.count; h++) {
        const struct proto_hearing *hearing = &heard->list.nodes[h];
        if (proto_node_equal(hearing->node, core->config.self)) {
            heard->hears_me = true;
            heard->rate[PEERS_MAX] = hearing->rate;
        }
        int j = peers_find(core, hearing->node);
        if (j < 0)
            continue;
        heard->hears |= UINT64_C(1) << j;
        heard->rate[j] = hearing->rate;
    }
    uint64_t healed = heard->hears & ~before;
    return healed || (deaf && heard->hears_me) ? healed | UINT64_C(1) << i : 0;
}

/* Whom peers[i] hears, by the list that its heartbeat names. We do not have that one: it is asked for it, and until it
 * comes the one before counts. */
static uint64_t
take_hears(struct heard *heard, const struct core *core, int i, uint64_t hash)
{
    if (hash == heard->counts_hash)
        return 0;
    if (hash != heard->list_hash) {
        peers_send(core, i, &(struct proto_msg){.type = PROTO_WHOM});
        return 0;
    }
    heard->counts_hash = hash;
    return read_heard(heard, core, i);
}

/* It is away from now on, or not any more. */
static void
take_away(struct view *view, const struct core *core, int i)
{
    char who[PROTO_WHO_MAX];
    struct heard *heard = &view->of[i];
    heard->suspected = heard->beat.away;
    list_soon(view);
    core_log(core, 6, heard->beat.away ? "%s is in use and does not compute" : "%s is back",
             report_who(core, i, who));
}

enum { HEARTBEAT_LATE_US = 1000000 };

/* Did a newer one overtake it? One that is much older is not late: a bit of the newer one's time flipped. */
static bool
beat_is_late(const struct proto_heartbeat *last, const struct proto_heartbeat *beat)
{
    return beat->sent_us < last->sent_us && last->sent_us - beat->sent_us < HEARTBEAT_LATE_US;
}

struct heartbeat_news
heartbeat_take(struct view *view, const struct core *core, int i,
               const struct proto_heartbeat *beat)
{
    struct heard *heard = &view->of[i];
    const bool was_away = heard->beat.away;
    if (beat_is_late(&heard->beat, beat))
        return (struct heartbeat_news){.leaves = false};
    struct heartbeat_news news = {.moves = beat->busy_us < heard->beat.busy_us,
                                  .leaves = beat->away && !was_away,
                                  .back = heard->beat.benched && !beat->benched};
    take_round(heard, core, beat->round);
    heard->beat = *beat;
    heard->beat.have &= core->all;
    heard->beat.have_segments &= core_segments(&core->config.stages);
    news.healed = take_hears(heard, core, i, beat->hears_hash);
    if (beat->away != was_away)
        take_away(view, core, i);
    if (news.back || (was_away && !beat->away))
        news.healed |= UINT64_C(1) << i;
    return news;
}

void
heartbeat_state(struct view *view, const struct core *core, int i, uint64_t state)
{
    view->of[i].beat.round = core->round;
    view->of[i].beat.state_hash = state;
}

void
heartbeat_up(struct view *view, const struct core *core, int i)
{
    assert(core->peers.peers[i].state == PEER_UP);
    view->of[i] = (struct heard){.heard_at = core->awake, .moved_at = core->awake};
    for (int j = 0; j < PEERS_MAX; j++)
        view->of[j].counts_hash = 0; /* its list may name the new one: read it again */
    if (core->peers.peers[i].announced || core->config.hello.wants_job)
        list_soon(view);
}

/* Nobody hears peers[i], as far as we know. */
static void
heard_by_none(struct view *view, int i)
{
    for (int j = 0; j < PEERS_MAX; j++)
        view->of[j].hears &= ~(UINT64_C(1) << i);
}

void
heartbeat_gone(struct view *view, int i)
{
    struct heard *heard = &view->of[i];
    heard->hears_me = false;
    heard->hears = 0;
    heard->beat.idle = false;
    heard->beat.ready = false;
    heard->counted_at.us = 0;
    heard_by_none(view, i);
    list_soon(view);
}

void
heartbeat_forget(struct view *view, int i)
{
    heard_by_none(view, i);
    view->of[i] = (struct heard){.suspected = false};
}

/* A limit for silence, for a node that beats as often as most do: longer for one that says that it beats more
 * slowly. */
static uint64_t
heartbeat_limit_us(const struct heard *heard, uint64_t us)
{
    uint64_t pause_us = heard->beat.pause_us;
    return pause_us > CORE_HEARTBEAT_US ? us * pause_us / CORE_HEARTBEAT_US : us;
}

/* When more than half of the mesh is silent at once, we may be the one that does not hear. */
static bool
mostly_quiet(const struct core *core)
{
    unsigned mesh = 1, silent = 0;
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        const struct heard *heard = &core->view.of[i];
        if (peer->state != PEER_UP || peer->hello.wants_job)
            continue;
        mesh++;
        silent += awake_since(core->awake, heard->heard_at) >
                  heartbeat_limit_us(heard, HEARTBEAT_QUIET_US);
    }
    return 2 * silent > mesh && !mutant(MUTANT_HALF);
}

/* Has peers[i] been silent for so long that it is not to be counted on? */
static bool
lost(const struct core *core, int i)
{
    const struct peer *peer = &core->peers.peers[i];
    const struct heard *heard = &core->view.of[i];
    uint64_t silent_us = awake_since(core->awake, heard->heard_at);
    if (silent_us <= heartbeat_limit_us(heard, CORE_SUSPECT_US) || peer->hello.wants_job ||
        mutant(MUTANT_SILENCE))
        return false;
    return silent_us > heartbeat_limit_us(heard, CORE_SPLIT_US) || !mostly_quiet(core);
}

enum heartbeat_verdict
heartbeat_watch(struct view *view, const struct core *core, int i)
{
    struct heard *heard = &view->of[i];
    uint64_t silent_us = awake_since(core->awake, heard->heard_at);
    char who[PROTO_WHO_MAX];
    if (silent_us > CORE_FORGET_US && !mutant(MUTANT_FORGET))
        return HEARTBEAT_LOST;
    if (heard->suspected || !lost(core, i))
        return HEARTBEAT_AS_BEFORE;
    heard->suspected = true;
    list_soon(view);
    core_log(core, 7, "%s is silent for %u ms", report_who(core, i, who),
             (unsigned)(silent_us / 1000));
    return HEARTBEAT_SUSPECTED;
}

/* --- Questions -------------------------------------------------------------------------------------- */

bool
view_usable(const struct core *core, int i)
{
    assert(i >= 0 && i < core->peers.high);
    const struct peer *peer = &core->peers.peers[i];
    const struct heard *heard = &core->view.of[i];
    if (peer->state != PEER_UP || heard->suspected || peer->hello.wants_job)
        return false;
    return heard->hears_me || mutant(MUTANT_HEARING);
}

bool
view_lags(const struct core *core, int i, struct awake served_at, uint64_t round_us)
{
    const struct peer *peer = &core->peers.peers[i];
    struct awake seen = awake_later(served_at, core->view.of[i].moved_at);
    seen = awake_later(seen, core->applied_at);
    return peer->state == PEER_UP && !peer->hello.wants_job &&
           awake_since(core->awake, seen) < CORE_LINGER_US + 4 * round_us;
}

bool
view_mutual(const struct core *core, int a, int b)
{
    const struct heard *of = core->view.of;
    return ((of[a].hears >> b & 1) && (of[b].hears >> a & 1)) || mutant(MUTANT_CLIQUE);
}

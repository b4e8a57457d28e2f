/* core.c - every event of a node: set the clocks, tell the part it concerns, settle. */
#include "mesh/core/core.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mesh/core/engine.h"
#include "mesh/core/internal.h"
#include "proto/bits.h"
#include "proto/text.h"

/* --- Life -------------------------------------------------------------------------------------- */

int
core_new(struct core **out, const struct core_config *config, uint64_t now)
{
    assert(config->wire && config->program);
    assert(config->self.id != 0);
    assert(config->shards >= 1 || config->hello.wants_job);
    assert(config->shards <= PROTO_SHARDS_MAX);
    assert(config->state_size <= PROTO_STATE_MAX);
    assert(config->bucket_count == 0 || config->buckets[config->bucket_count - 1].count > 0);
    struct core *core = calloc(1, sizeof *core);
    if (!core)
        return -ENOMEM;
    core->config = *config;
    core->now = core->tick_at = (struct wall){now};
    core->awake = core->tick_awake = (struct awake){1}; /* 0 says never */
    core->tick_us = CORE_TICK_US;
    if (core->config.chunk_elems == 0)
        core->config.chunk_elems = PROTO_CHUNK_MAX;
    if (core->config.crowd == 0)
        core->config.crowd = HEARTBEAT_CROWD;
    assert(core->config.crowd >= HEARTBEAT_LEADERS);
    core->all = bits_below(config->shards);
    files_init(&core->files);
    /* in a pipeline, who computes nothing may hold what nobody else does */
    core->members_max = config->stages.count > 1 ? PROTO_PEERS_MAX : config->shards;
    core->placement = config->stages.count > 1 ? malloc(sizeof *core->placement) : NULL;
    core->buckets = calloc(config->bucket_count + 1, sizeof *core->buckets);
    if (core->buckets && config->bucket_count > 0)
        memcpy(core->buckets, config->buckets, config->bucket_count * sizeof *core->buckets);
    core->engine = config->engine ? config->engine : &engine_rounds;
    if (!core->engine->led)
        core->config.crowd = PROTO_PEERS_MAX;
    if (!core->buckets || (config->stages.count > 1 && !core->placement) ||
        core->engine->start(core) != 0) {
        core_destroy(&core);
        return -ENOMEM;
    }
    sessions_init(&core->peers, core);
    *out = core;
    return 0;
}

void
core_destroy(struct core **core)
{
    if (!*core)
        return;
    (*core)->engine->end(*core);
    free((*core)->buckets);
    free((*core)->placement);
    free(*core);
    *core = NULL;
}

/* --- Events ------------------------------------------------------------------------------------ */

/* How much of the time since the last tick this node was able to hear the others. Ticks are due every core_tick_us;
 * where they come late, since our threads wait for a processor or have much to add, what others send waits, too. So a
 * late one counts as if it had been in time, which stretches each deadline by as much as we are late. */
static uint64_t
awake_passed(const struct core *core, uint64_t passed)
{
    uint64_t due = core->tick_us + CORE_GAP_US, most = CORE_GAPS_MAX * core->tick_us;
    uint64_t least = passed / CORE_STRETCH_MAX, us = passed < due ? passed : due;
    us = us > least ? us : least;
    if (mutant(MUTANT_LATE))
        us = passed;
    return us < most ? us : most;
}

static void
core_clock(struct core *core, uint64_t now)
{
    if (now > core->now.us)
        core->now.us = now;
    struct awake before = core->awake;
    core->awake =
        awake_after(core->tick_awake, awake_passed(core, wall_since(core->now, core->tick_at)));
    assert(!awake_before(core->awake, before));
}

/* Every event begins and ends with these two. No callback may start another event meanwhile. Returns false when we have
 * said goodbye. */
static bool
event_begin(struct core *core, uint64_t now)
{
    assert(!core->inside);
    core->inside = true;
    core_clock(core, now);
    return !core->leaving;
}

static void
event_end(struct core *core)
{
    assert(core->inside);
    core->inside = false;
}

/* peers[i] is suspected, or its session has ended. */
static void
core_lost(struct core *core, int i, const char *why)
{
    if (core->engine->peer_lost)
        core->engine->peer_lost(core, i, why);
}

/* Sessions began and ended: the parts are told. */
static void
core_sessions(struct core *core)
{
    const struct peers_news news = peers_take_news(&core->peers);
    for (uint64_t left = news.gone; left; left &= left - 1) {
        int i = __builtin_ctzll(left);
        heartbeat_gone(&core->view, i);
        files_gone(&core->files, i);
        core->engine->peer_gone(core, i);
        core_lost(core, i, news.why[i]);
    }
    for (uint64_t left = news.forgotten; left; left &= left - 1) {
        heartbeat_forget(&core->view, __builtin_ctzll(left));
        core->engine->peer_forget(core, __builtin_ctzll(left));
    }
    for (uint64_t left = news.up; left; left &= left - 1) {
        int i = __builtin_ctzll(left);
        heartbeat_up(&core->view, core, i);
        core->engine->peer_up(core, i);
    }
}

static void
core_news(struct core *core)
{
    core_sessions(core);
    if (wall_reached(core->now, core->view.beat_at))
        core_tell(core);
}

/* A message of peers[i] came. */
static void
core_heard(struct core *core, int i)
{
    bool back = heartbeat_heard(&core->view, core, i);
    if (back && core->engine->peer_back)
        core->engine->peer_back(core, i);
}

/* Who is silent? */
static void
core_watch(struct core *core)
{
    for (int i = 0; i < core->peers.high; i++) {
        if (core->peers.peers[i].state != PEER_UP)
            continue;
        enum heartbeat_verdict verdict = heartbeat_watch(&core->view, core, i);
        if (verdict == HEARTBEAT_SUSPECTED)
            core_lost(core, i, "silent");
        else if (verdict == HEARTBEAT_LOST)
            sessions_silent(&core->peers, core, i, "silent");
    }
}

/* Is this node away, as its machine is in use? Not when somebody has the result: that is copied; and not when the
 * others could do nothing without it. */
static bool
is_away(const struct core *core)
{
    bool result = core->done;
    for (int i = 0; i < core->peers.high; i++)
        result |= core->peers.peers[i].state == PEER_UP && core->view.of[i].beat.done;
    return core->in_use && !result && !(core->engine->needed && core->engine->needed(core));
}

/* Goes away as if it said goodbye, but its sessions last; or comes back. */
static void
core_away(struct core *core)
{
    if (is_away(core) == core->away)
        return;
    core->away = !core->away;
    if (core->away && core->engine->leave)
        core->engine->leave(core);
    core_tell(core);
}

/* Who gives data files sends large messages: only who has a bulk connection from us may (sessions.h). */
static void
core_meet_donors(struct core *core)
{
    for (int i = 0; core->files.takes && core->config.hello.wants_job && i < core->peers.high; i++)
        sessions_open_bulk(&core->peers, core, i);
}

/* Let every part do what has become possible. */
static void
core_settle(struct core *core)
{
    core_news(core);
    if (core->leaving)
        return;
    core_meet_donors(core);
    files_step(&core->files, core);
    if (core->config.hello.wants_job)
        return;
    core_away(core);
    core->engine->step(core);
    core_sessions(core); /* a step may end a session: with who computes other gradients */
    core->finished = core->finished || core->engine->may_end(core);
    if (core->view.pause_us > CORE_HEARTBEAT_US && core_pause_us(core) == CORE_HEARTBEAT_US)
        core_tell(core); /* what it waited for has come: from now on others depend on it */
}

static void
core_tick(struct core *core)
{
    core_watch(core);
    sessions_tick(&core->peers, core);
    core_news(core);
    if (core->engine->tick)
        core->engine->tick(core);
    core_settle(core);
}

void
core_on_tick(struct core *core, uint64_t now)
{
    bool here = event_begin(core, now);
    core->tick_at = core->now;
    core->tick_awake = core->awake;
    core->tick_us = core_tick_due_us(core);
    if (here)
        core_tick(core);
    event_end(core);
}

void
core_on_starved(struct core *core, uint64_t now, uint64_t us)
{
    event_begin(core, now);
    if (core->engine->starved)
        core->engine->starved(core, us);
    event_end(core);
}

void
core_on_found(struct core *core, uint64_t now, const struct proto_endpoint *at,
              struct proto_node node)
{
    if (event_begin(core, now)) {
        sessions_found(&core->peers, core, at, node, true);
        core_settle(core);
    }
    event_end(core);
}

void
core_on_known(struct core *core, uint64_t now, const struct proto_endpoint *at)
{
    if (event_begin(core, now)) {
        sessions_found(&core->peers, core, at, (struct proto_node){0, 0}, false);
        core_settle(core);
    }
    event_end(core);
}

void
core_on_link_up(struct core *core, uint64_t now, unsigned link)
{
    if (event_begin(core, now) && link < LINK_MAX) {
        sessions_link(&core->peers, core, link, true);
        core_settle(core);
    }
    event_end(core);
}

void
core_on_link_down(struct core *core, uint64_t now, unsigned link)
{
    if (event_begin(core, now) && link < LINK_MAX) {
        sessions_link(&core->peers, core, link, false);
        core_settle(core);
    }
    event_end(core);
}

static void
core_job(struct core *core, int from, const void *body, size_t body_size)
{
    if (body_size > 0) {
        char who[PROTO_WHO_MAX];
        if (core->config.hello.wants_job && core->config.trainer->job_offered)
            core->config.trainer->job_offered(core->config.trainer_ctx, report_who(core, from, who),
                                              core->peers.peers[from].hello.job_hash, body,
                                              body_size);
        return;
    }
    const char *text = core->config.job;
    struct proto_msg msg = {.type = PROTO_JOB};
    if (text && core->peers.peers[from].state == PEER_UP)
        core->config.wire->send(core->config.wire_ctx, (unsigned)core->peers.peers[from].link, &msg,
                                text, strlen(text));
}

static void
core_peer_list(struct core *core, const struct proto_peers *peers)
{
    for (size_t k = 0; k < peers->count; k++)
        sessions_found(&core->peers, core, &peers->endpoints[k], (struct proto_node){0, 0}, false);
}

static void
core_hello(struct core *core, struct proto_node from, const char *host,
           const struct proto_hello *hello)
{
    size_t length = strlen(host);
    if (length >= PROTO_HOST_MAX || !text_host(host, length))
        return; /* it would go into peer lists */
    sessions_hello(&core->peers, core, from, host, hello);
    core_news(core);
    int i = peers_find(core, from);
    if (i >= 0)
        core_heard(core, i);
}

/* A node without a job hears who is alive, and how fast their lines are. */
static void
core_overheard(struct core *core, int i, const struct proto_msg *msg)
{
    if (!core->config.hello.wants_job || core->peers.peers[i].hello.wants_job)
        return;
    if (msg->type == PROTO_HEARTBEAT)
        heartbeat_take(&core->view, core, i, &msg->heartbeat);
    else if (msg->type == PROTO_HEARS)
        heartbeat_hears(&core->view, i, &msg->hears);
}

/* A message of a peer with a session; it is only a helper when it wants a job. */
static void
core_session_message(struct core *core, int i, const struct proto_msg *msg, const void *body,
                     size_t body_size)
{
    struct heartbeat_news news;
    core_heard(core, i);
    if (msg->type == PROTO_JOB) {
        core_job(core, i, body, body_size);
        return;
    }
    if (msg->type == PROTO_BYE) {
        files_bye(&core->files, core, i, msg->bye.done);
        sessions_bye(&core->peers, core, i, msg->bye.done || core->view.of[i].beat.done);
        return;
    }
    if (msg->type == PROTO_FETCH && files_object(msg->fetch.object)) {
        if (msg->fetch.object != PROTO_OBJECT_PAGE)
            sessions_open_bulk(&core->peers, core, i);
        files_on_fetch(&core->files, core, i, &msg->fetch);
        return;
    }
    if (msg->type == PROTO_WHOM) {
        heartbeat_whom(&core->view, core, i);
        return;
    }
    if (!core->peers.peers[i].announced) {
        core_overheard(core, i, msg);
        return;
    }
    switch (msg->type) {
    case PROTO_PEERS:
        core_peer_list(core, &msg->peers);
        break;
    case PROTO_HEARTBEAT:
        news = heartbeat_take(&core->view, core, i, &msg->heartbeat);
        if (news.leaves)
            core_lost(core, i, "its machine is in use");
        core->engine->beat(core, i, &news);
        break;
    case PROTO_HEARS:
        heartbeat_hears(&core->view, i, &msg->hears);
        break;
    case PROTO_SCORE:
        scores_on_score(core, &msg->score);
        break;
    default:
        core->engine->message(core, i, msg);
        break;
    }
}

static void
core_message(struct core *core, struct proto_node from, const char *host,
             const struct proto_msg *msg, const void *body, size_t body_size)
{
    if (msg->type == PROTO_HELLO) {
        core_hello(core, from, host, &msg->hello);
    } else if (msg->type == PROTO_REFUSE) {
        sessions_refused(&core->peers, core, from, host, &msg->refuse, body,
                         body_size < PROTO_JOB_MAX ? body_size : 0);
    } else {
        int i = peers_find(core, from);
        if (i >= 0)
            core_session_message(core, i, msg, body, body_size);
    }
    core_settle(core);
}

void
core_on_message(struct core *core, uint64_t now, struct proto_node from, const char *from_host,
                const struct proto_msg *msg, const void *body, size_t body_size)
{
    if (event_begin(core, now) && from.id != 0)
        core_message(core, from, from_host, msg, body, body_size);
    event_end(core);
}

static void
core_bulk(struct core *core, struct proto_node from, const struct proto_msg *msg,
          struct core_frame *frame)
{
    int i = peers_find(core, from);
    bool file = msg->type == PROTO_GIVE && files_object(msg->give.object);
    if (i < 0 || !(core->peers.peers[i].announced || file))
        return;
    core_heard(core, i);
    if (file)
        files_on_give(&core->files, core, i, &msg->give, frame->data, frame->size);
    else
        core->engine->bulk(core, i, msg, frame);
    core_settle(core);
}

void
core_on_bulk(struct core *core, uint64_t now, struct proto_node from, const struct proto_msg *msg,
             struct core_frame *frame)
{
    if (event_begin(core, now))
        core_bulk(core, from, msg, frame);
    event_end(core);
}

void
core_on_sent(struct core *core, uint64_t now)
{
    event_begin(core, now);
    if (core->engine->sent && core->engine->sent(core))
        core_settle(core);
    event_end(core);
}

void
core_on_bucket(struct core *core, uint64_t now, size_t bucket)
{
    event_begin(core, now);
    core->engine->bucket(core, bucket);
    core_settle(core);
    event_end(core);
}

void
core_on_piece(struct core *core, uint64_t now)
{
    event_begin(core, now);
    core->engine->piece(core);
    core_settle(core);
    event_end(core);
}

bool
core_lend(struct core *core, uint64_t now, size_t *bucket)
{
    event_begin(core, now);
    bool any = core->engine->lend && core->engine->lend(core, bucket);
    event_end(core);
    return any;
}

void
core_on_returned(struct core *core, uint64_t now)
{
    event_begin(core, now);
    assert(core->engine->returned);
    core->engine->returned(core);
    core_settle(core);
    event_end(core);
}

void
core_on_applied(struct core *core, uint64_t now, const struct core_state *state)
{
    event_begin(core, now);
    assert(state->first_bucket < core->config.bucket_count);
    core->engine->applied(core, state);
    core_settle(core);
    event_end(core);
}

void
core_on_damaged(struct core *core, uint64_t now, enum core_damage what)
{
    event_begin(core, now);
    assert(core->engine->damaged);
    core->engine->damaged(core, what);
    core_settle(core);
    event_end(core);
}

void
core_on_audited(struct core *core, uint64_t now, bool equal)
{
    event_begin(core, now);
    assert(core->engine->audited);
    core->engine->audited(core, equal);
    core_settle(core);
    event_end(core);
}

void
core_want(struct core *core, uint64_t now, uint64_t step, uint64_t round, uint64_t page)
{
    event_begin(core, now);
    assert(core->engine == &engine_rounds);
    assert(step <= PROTO_ROUND_MAX);
    assert(round <= PROTO_ROUND_MAX);
    assert(page < PROTO_FILE_MAX / PROTO_PAGE_MAX);
    files_want(&core->files, core,
               &(struct proto_fetch){
                   .object = PROTO_OBJECT_PAGE, .round = round, .label = step, .block = page},
               1);
    core_settle(core);
    event_end(core);
}

void
core_on_page(struct core *core, uint64_t now, uint64_t round, const void *data, size_t size)
{
    if (event_begin(core, now)) {
        files_read(&core->files, core, round, 0, data, size);
        core_settle(core);
    }
    event_end(core);
}

void
core_want_files(struct core *core, uint64_t now, const struct core_files *want)
{
    if (event_begin(core, now)) {
        assert(core->config.hello.wants_job);
        files_want(
            &core->files, core,
            &(struct proto_fetch){.object = want->names ? PROTO_OBJECT_NAMES : PROTO_OBJECT_FILES,
                                  .round = want->group,
                                  .label = want->job,
                                  .block = want->first},
            want->count);
        core_settle(core);
    }
    event_end(core);
}

bool
core_files_here(const struct core *core)
{
    return !core->files.takes;
}

bool
core_files_over(const struct core *core)
{
    return files_over(&core->files, core);
}

void
core_on_file(struct core *core, uint64_t now, uint64_t blocks, const void *data, size_t size)
{
    if (event_begin(core, now)) {
        files_read(&core->files, core, core->files.read.round, blocks, data, size);
        files_rest(&core->files, core, core->engine->members(core), size);
        core_settle(core);
    }
    event_end(core);
}

void
core_part(struct core *core, uint64_t now, uint64_t segments)
{
    if (event_begin(core, now)) {
        assert(core->engine->part);
        core->engine->part(core, segments);
        core_settle(core);
    }
    event_end(core);
}

bool
core_on_interrupt(struct core *core, uint64_t now)
{
    bool later = event_begin(core, now) && core->engine->interrupt && core->engine->interrupt(core);
    event_end(core);
    return later;
}

void
core_in_use(struct core *core, uint64_t now, bool in_use)
{
    if (event_begin(core, now)) {
        core->in_use = in_use;
        core_settle(core);
    }
    event_end(core);
}

void
core_leave(struct core *core, uint64_t now)
{
    if (event_begin(core, now)) {
        if (core->engine->leave)
            core->engine->leave(core);
        const struct proto_msg bye = {.type = PROTO_BYE, .bye.done = core->finished};
        for (int i = 0; i < core->peers.high; i++)
            peers_send(core, i, &bye);
        core->leaving = true;
    }
    event_end(core);
}

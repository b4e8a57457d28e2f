/* lone.c - see lone.h. */
#include "tests/support/lone.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/mutant.h"

struct proto_node
lone_node(const struct lone *lone, unsigned id)
{
    return (struct proto_node){id, lone->incarnation[id]};
}

/* 0: a stranger's endpoint. */
static unsigned
leads(void *ctx, const struct proto_endpoint *to)
{
    struct lone *lone = ctx;
    unsigned id = to->control_port - 20000u;
    id = id < LONE_IDS ? id : 0;
    lone->connects[id]++;
    return id;
}

static void
remember(void *ctx, unsigned link, const struct proto_msg *msg, const void *body, size_t size,
         bool bulk)
{
    struct lone *lone = ctx;
    (void)bulk;
    unsigned to = lone->wire.links[link].to;
    if (msg->type == PROTO_HELLO && msg->hello.asks != 0)
        lone->asked[to] = msg->hello.asks;
    struct lone_sent *sent = &lone->sent[lone->sent_count++ % LONE_SENT_MAX];
    *sent = (struct lone_sent){.to = to, .msg = *msg, .body_size = size};
    if (size > 0)
        memcpy(sent->body, body, size < LONE_BODY_MAX ? size : LONE_BODY_MAX);
}

static void
on_peer_up(void *ctx, unsigned link, struct proto_node node, uint16_t bulk_port)
{
    struct wire *wire = ctx;
    wire_peer_up(wire, link, node, bulk_port);
    wire_demand(node.id == wire->links[link].to, "peer_up of somebody else");
}

static void
on_pass_on(void *ctx, const unsigned *links, size_t count, const struct proto_msg *msg,
           struct core_frame *frame)
{
    for (size_t k = 0; k < count; k++)
        wire_send_bulk(ctx, links[k], msg, frame->data, frame->size, false);
}

static bool
on_make(void *ctx, size_t most, bool must, struct core_frame *frame)
{
    (void)must;
    *frame = wire_made(ctx, most);
    return true;
}

static void
on_compute(void *ctx, const struct core_task *task)
{
    struct lone *lone = ctx;
    wire_demand(!lone->compute && !lone->commit && !lone->adopt && !lone->back,
                "compute while busy");
    wire_demand(lone->wire.in_flight == 0, "compute while own is being sent");
    lone->compute = true;
    lone->fresh = task->fresh;
    lone->round = task->round;
    lone->shards = task->shards;
}

static void
on_piece(void *ctx, const struct core_piece *piece)
{
    struct lone *lone = ctx;
    wire_demand(!lone->compute && !lone->commit && !lone->adopt && !lone->back && !lone->piece,
                "a piece while busy");
    lone->piece = true;
    lone->asked_piece = *piece;
}

static void
on_commit(void *ctx, uint64_t round)
{
    struct lone *lone = ctx;
    wire_demand(!lone->compute && !lone->commit && !lone->adopt && !lone->piece,
                "commit while busy");
    lone->commit = true;
    lone->round = round;
}

static void
on_adopt(void *ctx, uint64_t round, uint64_t hash, const uint64_t *parts)
{
    struct lone *lone = ctx;
    wire_demand(!lone->compute && !lone->commit && !lone->adopt, "adopt while busy");
    memcpy(lone->parts, parts, sizeof lone->parts);
    lone->adopt = true;
    lone->round = round;
    lone->hash = hash;
}

static void
on_part(void *ctx, uint64_t round, uint64_t segments, const uint64_t *parts)
{
    struct lone *lone = ctx;
    wire_demand(!lone->part, "a part while the trainer has another one");
    memcpy(lone->parts, parts, sizeof lone->parts);
    lone->part = true;
    lone->round = round;
    lone->segments = segments;
}

static void
on_back(void *ctx, uint64_t round, bool wrong)
{
    (void)wrong;
    struct lone *lone = ctx;
    wire_demand(!lone->compute && !lone->commit && !lone->adopt && !lone->back, "back while busy");
    lone->back = true;
    lone->round = round;
}

static const uint8_t *
on_state(void *ctx)
{
    struct lone *lone = ctx;
    wire_demand(!lone->commit && !lone->adopt, "state read while it changes");
    return lone->state;
}

static void
on_differ(void *ctx, const char *theirs, size_t size, char *out, size_t out_size)
{
    (void)ctx;
    snprintf(out, out_size, "'%.*s' there, ours here", (int)size, theirs);
}

static void
on_job_offered(void *ctx, const char *from, uint64_t job, const char *text, size_t size)
{
    struct lone *lone = ctx;
    (void)from, (void)job;
    snprintf(lone->job, sizeof lone->job, "%.*s", (int)size, text);
}

static void
on_audit(void *ctx, uint64_t round, uint64_t shard, const int32_t *claim, size_t words)
{
    struct lone *lone = ctx;
    wire_demand(!lone->audit && !lone->compute && !lone->commit && words > 0, "one task at a time");
    lone->audit = true;
    lone->round = round;
    lone->audited = shard;
    lone->claim = claim[0];
}

static void
on_log(void *ctx, int level, const char *line)
{
    struct lone *lone = ctx;
    (void)level;
    size_t room = LONE_LOG_MAX - lone->log_size;
    int size = snprintf(lone->log + lone->log_size, room, "%s\n", line);
    if (size > 0 && (size_t)size < room)
        lone->log_size += (size_t)size;
}

static void
on_page(void *ctx, uint64_t round, const void *data, size_t size)
{
    struct lone *lone = ctx;
    wire_demand(!lone->page_came, "a page that nobody asked for");
    wire_demand(size <= PROTO_PAGE_MAX, "a page that is too large");
    lone->page_came = true;
    lone->page.round = round;
    lone->page_size = size;
    if (size)
        memcpy(lone->page_body, data,
               size < sizeof lone->page_body ? size : sizeof lone->page_body);
}

static bool
on_want(void *ctx, uint64_t step, uint64_t round, uint64_t page)
{
    struct lone *lone = ctx;
    wire_demand(!lone->page_wanted, "a second page wanted before the first was read");
    lone->page_wanted = true;
    lone->page = (struct lone_page){step, round, page};
    return true;
}

static void
on_forget(void *ctx)
{
    struct lone *lone = ctx;
    lone->forgets++;
    memset(lone->totals, 0x55, sizeof lone->totals);
}

static const struct core_wire wire = {
    .connect = wire_connect,
    .disconnect = wire_disconnect,
    .send = wire_send,
    .send_bulk = wire_send_bulk,
    .make = on_make,
    .pass_on = on_pass_on,
    .peer_up = on_peer_up,
    .peer_down = wire_peer_down,
    .keep = wire_keep,
    .release = wire_release,
};

static void
on_file_wanted(void *ctx, const struct core_file_block *wanted)
{
    struct lone *lone = ctx;
    lone->files_wanted++;
    lone->file = *wanted;
}

static bool
on_file_came(void *ctx, const struct core_file_block *came)
{
    struct lone *lone = ctx;
    lone->files_came++;
    lone->file = *came;
    return !lone->file_wrong;
}

static void
on_twin(void *ctx, const char *who)
{
    struct lone *lone = ctx;
    assert(strstr(who, "10.0.0.7"));
    lone->twins++;
}

static const struct core_program program = {
    .twin = on_twin,
    .file_wanted = on_file_wanted,
    .file_came = on_file_came,
    .differ = on_differ,
    .want = on_want,
    .log = on_log,
};

static const struct core_trainer trainer = {
    .job_offered = on_job_offered,
    .page = on_page,
    .compute = on_compute,
    .piece = on_piece,
    .commit = on_commit,
    .adopt = on_adopt,
    .back = on_back,
    .part = on_part,
    .audit = on_audit,
    .state = on_state,
    .forget = on_forget,
};

static struct proto_hello
hello_of(unsigned id)
{
    return (struct proto_hello){.run = "lone",
                                .job_hash = 1,
                                .numerics = 2,
                                .kernel = "plain",
                                .control_port = (uint16_t)(20000 + id),
                                .bulk_port = (uint16_t)(30000 + id)};
}

struct lone *
lone_new(const struct lone_setup *setup)
{
    static const struct core_bucket whole[] = {{10, 90}, {0, 10}};
    static const struct core_bucket in_two[] = {{60, 40}, {10, 50}, {0, 10}};
    static const struct core_cut cut = {.bucket = 1, .words = 1};
    static const uint64_t costs[] = {1, 1};
    bool two = setup->spans != NULL;
    struct lone *lone = calloc(1, sizeof *lone);
    wire_demand(lone != NULL, "memory");
    lone->now = 1000000;
    wire_init(&lone->wire, remember, leads, lone);
    mutants_planted = setup->planted;
    lone->id = (unsigned)setup->id;
    lone->state_size = setup->state_size ? setup->state_size : 16;
    lone->state = calloc(1, lone->state_size);
    lone->state_in = calloc(1, lone->state_size);
    for (unsigned id = 0; id < LONE_IDS; id++)
        lone->incarnation[id] = 1;
    struct core_config config = {
        .wire = &wire,
        .wire_ctx = &lone->wire,
        .program = &program,
        .program_ctx = lone,
        .trainer = &trainer,
        .trainer_ctx = lone,
        .job = "run: {name: lone}\n",
        .self = {setup->id, setup->incarnation ? setup->incarnation : 1},
        .hello = hello_of((unsigned)setup->id),
        .shards = setup->shards ? setup->shards : LONE_SHARDS,
        .peers_min = setup->peers_min ? setup->peers_min : 1,
        .crowd = setup->crowd,
        .servers = setup->servers,
        .bucket_count = two ? 3 : 2,
        .buckets = two ? in_two : whole,
        .stages = {.cuts = two ? &cut : NULL,
                   .cut_count = two,
                   .spans = setup->spans,
                   .span_count = setup->span_count},
        .block_size = setup->block_size,
        .own = lone->own,
        .sum = lone->sum,
        .state_size = lone->state_size,
        .state_in = lone->state_in,
        .log = lone->totals,
        .log_size = sizeof lone->totals,
        .chunk_elems = 16,
        .direct_bytes = setup->audit_share || setup->stages ? 4096 : 40,
        .audit_share = setup->audit_share,
        .inexact = setup->inexact,
        .even = setup->even,
        .audit_seed = 99,
        .items = lone->items,
    };
    if (setup->stages)
        config.stages = (struct core_stages){.count = 2,
                                             .schedule = SCHEDULE_ZB,
                                             .cuts = &cut,
                                             .cut_count = 1,
                                             .cost = costs,
                                             .item_words = 1};
    config.hello.identity = setup->identity;
    if (setup->wants_job)
        config.hello = (struct proto_hello){.wants_job = true,
                                            .control_port = config.hello.control_port,
                                            .bulk_port = config.hello.bulk_port};
    wire_demand(core_new(&lone->core, &config, lone->now) == 0, "memory");
    lone->holds = setup->holds;
    if (!setup->unstarted && !setup->wants_job)
        lone_applied(lone, 0, 77, false);
    return lone;
}

void
lone_applied(struct lone *lone, uint64_t round, uint64_t hash, bool done)
{
    const uint64_t parts[PROTO_STAGES_MAX] = {lone_part_hash(round, 0), lone_part_hash(round, 1)};
    core_on_applied(
        lone->core, lone->now,
        &(struct core_state){.round = round,
                             .hash = hash,
                             .done = done,
                             .pinned = lone->pinned,
                             .warms = round < lone->coded_from ? lone->coded_from - round : 0,
                             .coded = lone->coded_from && round >= lone->coded_from,
                             .alone = lone->alone,
                             .rows = lone->core->config.shards,
                             .holds = lone->holds,
                             .parts = lone->holds ? parts : NULL});
}

void
lone_destroy(struct lone **lone)
{
    core_destroy(&(*lone)->core);
    wire_demand((*lone)->wire.kept == 0, "a frame was never released");
    free((*lone)->state);
    free((*lone)->state_in);
    free(*lone);
    *lone = NULL;
}

void
lone_run(struct lone *lone, unsigned ms)
{
    for (uint64_t end = lone->now + ms * 1000ull; lone->now < end;) {
        lone->now += CORE_TICK_US;
        core_on_tick(lone->core, lone->now);
    }
}

void
lone_run_with(struct lone *lone, unsigned ms, const unsigned *ids, size_t count, uint64_t round,
              bool idle)
{
    for (unsigned t = 0; t < ms; t += 50) {
        for (size_t k = 0; k < count; k++)
            lone_beat(lone, ids[k], round, idle);
        lone_run(lone, 50);
    }
}

void
lone_say_with(struct lone *lone, unsigned id, const struct proto_msg *msg, const void *body,
              size_t body_size)
{
    char host[32];
    snprintf(host, sizeof host, "10.0.0.%u", id);
    core_on_message(lone->core, lone->now, lone_node(lone, id), host, msg, body, body_size);
}

void
lone_say_bulk(struct lone *lone, unsigned id, const struct proto_msg *msg, const void *body,
              size_t body_size)
{
    wire_deliver(&lone->wire, lone->core, lone->now, lone_node(lone, id), msg, body, body_size);
}

struct proto_endpoint
lone_endpoint(unsigned id)
{
    struct proto_endpoint at = {.control_port = (uint16_t)(20000 + id)};
    snprintf(at.host, sizeof at.host, "10.0.0.%u", id);
    return at;
}

void
lone_found(struct lone *lone, unsigned id)
{
    struct proto_endpoint at = lone_endpoint(id);
    core_on_found(lone->core, lone->now, &at, lone_node(lone, id));
}

void
lone_named(struct lone *lone, unsigned id)
{
    struct proto_endpoint at = lone_endpoint(id);
    core_on_found(lone->core, lone->now, &at, (struct proto_node){0, 0});
}

void
lone_say(struct lone *lone, unsigned id, const struct proto_msg *msg)
{
    struct proto_msg said = *msg;
    if (said.type == PROTO_HEARTBEAT && said.heartbeat.holds == 0)
        said.heartbeat.holds = core_segments(&lone->core->config.stages); /* as most nodes do */
    lone_say_with(lone, id, &said, NULL, 0);
}

void
lone_hello(struct lone *lone, unsigned id, bool answer)
{
    struct proto_msg msg = {.type = PROTO_HELLO, .hello = hello_of(id)};
    msg.hello.asks = answer ? 0 : 900 + id;
    msg.hello.answers = answer ? lone->asked[id] : 0;
    lone_say(lone, id, &msg);
}

void
lone_up(struct lone *lone, unsigned id)
{
    for (unsigned l = 0; l < WIRE_LINKS; l++)
        if (lone->wire.links[l].open && !lone->wire.links[l].up && lone->wire.links[l].to == id) {
            lone->wire.links[l].up = true;
            core_on_link_up(lone->core, lone->now, l);
        }
}

void
lone_down(struct lone *lone, unsigned id)
{
    for (unsigned l = 0; l < WIRE_LINKS; l++)
        if (lone->wire.links[l].open && lone->wire.links[l].to == id) {
            core_on_link_down(lone->core, lone->now, l);
            return;
        }
}

void
lone_meet(struct lone *lone, unsigned id)
{
    lone_hello(lone, id, false);
    lone_up(lone, id);
    lone_hello(lone, id, true);
}

void
lone_say_beat(struct lone *lone, unsigned id, struct proto_msg *beat,
              const struct proto_hears *hears)
{
    struct proto_msg list = {.type = PROTO_HEARS, .hears = *hears};
    beat->heartbeat.hears_hash = proto_hears_hash(hears);
    lone_say(lone, id, &list);
    lone_say(lone, id, beat);
}

void
lone_beat(struct lone *lone, unsigned id, uint64_t round, bool idle)
{
    struct proto_msg msg = {.type = PROTO_HEARTBEAT,
                            .heartbeat = {.round = round,
                                          .idle = idle,
                                          .ready = lone->ready,
                                          .benched = lone->benched,
                                          .holds = lone->theirs[id],
                                          .state_hash = 77 + round,
                                          .speed = lone->speed}};
    struct proto_hears hears = {0};
    for (unsigned l = 0; l < WIRE_LINKS; l++)
        if (lone->wire.links[l].peer && lone->wire.links[l].to != id)
            hears.nodes[hears.count++].node = lone_node(lone, lone->wire.links[l].to);
    if (hears.count < PROTO_PEERS_MAX)
        hears.nodes[hears.count++].node = lone_node(lone, lone->id);
    lone_say_beat(lone, id, &msg, &hears);
}

static const struct lone_sent *
sent_at(const struct lone *lone, uint64_t back)
{
    return &lone->sent[(lone->sent_count - 1 - back) % LONE_SENT_MAX];
}

static bool
is_of(const struct lone_sent *sent, unsigned id, enum proto_type type, unsigned objects)
{
    if (sent->to != id || sent->msg.type != type)
        return false;
    unsigned object = type == PROTO_FETCH  ? 1u << sent->msg.fetch.object
                      : type == PROTO_GIVE ? 1u << sent->msg.give.object
                                           : UINT_MAX;
    return (object & objects) != 0;
}

static const struct lone_sent *
last_of(const struct lone *lone, unsigned id, enum proto_type type, unsigned objects)
{
    for (uint64_t k = 0; k < lone->sent_count && k < LONE_SENT_MAX; k++)
        if (is_of(sent_at(lone, k), id, type, objects))
            return sent_at(lone, k);
    return NULL;
}

static size_t
count_of(const struct lone *lone, unsigned id, enum proto_type type, unsigned objects)
{
    size_t count = 0;
    for (uint64_t k = 0; k < lone->sent_count && k < LONE_SENT_MAX; k++)
        count += is_of(sent_at(lone, k), id, type, objects);
    return count;
}

const struct lone_sent *
lone_sent(const struct lone *lone, unsigned id, enum proto_type type)
{
    return last_of(lone, id, type, UINT_MAX);
}

size_t
lone_sent_count(const struct lone *lone, unsigned id, enum proto_type type)
{
    return count_of(lone, id, type, UINT_MAX);
}

const struct lone_sent *
lone_asked(const struct lone *lone, unsigned id, unsigned objects)
{
    return last_of(lone, id, PROTO_FETCH, objects);
}

size_t
lone_asked_count(const struct lone *lone, unsigned id, unsigned objects)
{
    return count_of(lone, id, PROTO_FETCH, objects);
}

const struct lone_sent *
lone_gave(const struct lone *lone, unsigned id, unsigned objects)
{
    return last_of(lone, id, PROTO_GIVE, objects);
}

size_t
lone_gave_count(const struct lone *lone, unsigned id, unsigned objects)
{
    return count_of(lone, id, PROTO_GIVE, objects);
}

void
lone_forget_sent(struct lone *lone)
{
    lone->sent_count = 0;
}

size_t
lone_logged(const struct lone *lone, const char *text)
{
    size_t count = 0;
    for (const char *at = lone->log; (at = strstr(at, text)) != NULL; at++)
        count++;
    return count;
}

unsigned
lone_members(const struct lone *lone)
{
    struct core_stats stats;
    core_stats(lone->core, &stats);
    return stats.members;
}

void
lone_return(struct lone *lone)
{
    while (lone->wire.in_flight > 0) {
        lone->wire.in_flight--;
        core_on_sent(lone->core, lone->now);
    }
}

void
lone_train(struct lone *lone)
{
    if (lone->compute) {
        lone->compute = false;
        for (size_t b = 0; b < lone->core->config.bucket_count; b++)
            core_on_bucket(lone->core, lone->now, b);
    }
    if (lone->commit) {
        lone->commit = false;
        lone_applied(lone, lone->round + 1, 78 + lone->round, false);
    }
    if (lone->back) {
        lone->back = false;
        uint64_t round = lone->round > 0 ? lone->round - 1 : 0;
        lone_applied(lone, round, 77 + round, false);
    }
    if (lone->adopt) {
        lone->adopt = false;
        lone_applied(lone, lone->round, lone->hash, false);
    }
}

/* core_world.h - for fuzz_core.c and prop_core.c: one core among hostile peers, with any sequence of messages, links,
 * times and trainer steps.
 *
 * The input is a list of actions (see `actions`), each a byte and its arguments. Peers send well-formed
 * messages with any content, and raw frames. Whatever the core sends goes through the encoder, which asserts on
 * fields outside their limits; memory is exact, for sanitizers; the trainer is told nothing that is out of turn,
 * and a round that is committed must have been computed. The last byte says how sums travel, and whether the model is
 * in stages: then peers hand over items, and a piece must find those of its round, state, cut and shard. It also says
 * whether nodes hold parts of the model: then this one computes no stage that it does not hold, and has room for what
 * it is to hold; and whether shards may not change hands before some rounds. */
#ifndef FUZZ_CORE_WORLD_H
#define FUZZ_CORE_WORLD_H

#include <xxhash.h>

#include "compress/check.h"
#include "mesh/core/rounds/route.h"
#include "mesh/core/transfer/transfer.h"
#include "proto/bits.h"
#include "proto/bytes.h"
#include "proto/mix.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/judged.h"
#include "tests/support/wire.h"

enum {
    NODES = 8,
    CHUNK = 4, /* elements */
    SELF = 2,  /* two have a lower id */
    ELEMS = 40,
    SHARDS = 4,
    CUTS = 3, /* where the model may be cut */
    SEGMENTS = CUTS + 1,
    ROOM = 4, /* of 5 */
    BUCKETS_MAX = CUTS + 2,
    ITEM_MAX = 12, /* words */
    STATE_SIZE = 1500,
    ACTIONS_MAX = 4096,
};

static const struct core_bucket buckets[] = {{0, 24}, {24, 12}, {36, 4}};
static const struct core_bucket stage_buckets[] = {{0, 10}, {10, 14}, {24, 8}, {32, 4}, {36, 4}};
static const struct core_cut cuts[CUTS] = {{1, 3}, {2, 6}, {3, 1}};
static const uint64_t costs[SEGMENTS] = {4, 1, 2, 3}, weighs[SEGMENTS] = {1, 2, 1, 1};
/* Where the segments are in a state. */
static const struct core_span spans[] = {{0, 100, CORE_ALL_HOLD}, {100, 400, 0},
                                         {500, 300, 1},           {800, 300, 2},
                                         {1100, 300, 3},          {1400, 100, CORE_ALL_HOLD}};
/* How plans of this node cut the model. */
static const struct core_stages ways[] = {{.count = 1},
                                          {.count = 2, .schedule = SCHEDULE_ZB},
                                          {.count = 3, .schedule = SCHEDULE_1F1B},
                                          {.count = 2, .schedule = SCHEDULE_GPIPE, .tied = true}};

struct world {
    struct core *core;
    struct bytes_in in;
    uint64_t now;
    uint64_t plan; /* hash of the last plan sent to or by the core */
    int32_t own[ELEMS], sum[ELEMS];
    uint8_t log[3 * ELEMS * sizeof(int32_t)];
    uint8_t state[STATE_SIZE], state_in[STATE_SIZE];
    struct wire wire;
    uint64_t touched; /* hash of all bodies */
    const void *made; /* the frame that the core writes */
    bool started, computing, committing, adopting, back, done;
    bool piece; /* it computes one of a round in stages */
    bool pins;  /* before some rounds shards may not change hands */
    bool waits; /* the trainer holds nothing yet, and waits for what it is to hold */
    bool part;  /* segments came beside those that it holds: */
    uint64_t holds, came, missing; /* the last are those that it still needs at the end */
    const struct core_bucket *buckets;
    size_t bucket_count, bucket;
    struct core_stages stages;
    int32_t *items;
    uint64_t round, adopt_round, back_round, hash;
    struct proto_endpoint endpoints[PROTO_PEERS_MAX];
};

/* ---- what the core asks for ---- */

static unsigned
leads(void *ctx, const struct proto_endpoint *to)
{
    (void)ctx;
    return to->control_port;
}

/* Touch all of what would be sent. */
static void
on_sent(void *ctx, unsigned link, const struct proto_msg *msg, const void *body, size_t size,
        bool bulk)
{
    struct world *world = ctx;
    (void)link;
    demand(bulk || size <= PROTO_JOB_MAX);
    world->touched ^= size ? XXH3_64bits(body, size) : 0;
    if (msg->type == PROTO_PLAN)
        world->plan = proto_plan_hash(&msg->plan);
}

/* Nobody may look at what was passed on. */
static void
on_pass_on(void *ctx, const unsigned *links, size_t count, const struct proto_msg *msg,
           struct core_frame *frame)
{
    demand(count > 0);
    for (size_t k = 0; k < count; k++)
        wire_send_bulk(ctx, links[k], msg, frame->data, frame->size, false);
    memset(frame->data, 0x5a, frame->size);
}

/* A buffer is not always free. */
static bool
on_make(void *ctx, size_t most, bool must, struct core_frame *frame)
{
    struct wire *wire = ctx;
    struct world *world = wire->owner;
    demand(!world->made);
    if (!must && world->touched % 8 == 0)
        return false;
    *frame = wire_made(wire, most);
    world->made = frame->handle;
    return true;
}

static void
on_release(void *ctx, void *handle)
{
    struct wire *wire = ctx;
    struct world *world = wire->owner;
    world->made = handle == world->made ? NULL : world->made;
    wire_release(wire, handle);
}

static void
on_compute(void *ctx, const struct core_task *task)
{
    struct world *world = ctx;
    demand(!world->computing && !world->committing && !world->adopting && !world->back);
    demand(task->round == world->round && task->shards != 0);
    demand(world->wire.in_flight == 0);
    memset(world->own, 1, sizeof world->own);
    world->computing = true;
    world->bucket = 0;
}

static bool
in_parts(const struct world *world)
{
    return world->stages.bytes != NULL;
}

/* Is there room for these segments? */
static bool
has_room(const struct world *world, uint64_t segments)
{
    uint64_t bytes = 0;
    for (unsigned s = 0; s < SEGMENTS; s++)
        bytes += segments >> s & 1 ? weighs[s] : 0;
    return !(segments & ~core_segments(&world->stages)) && bytes <= world->stages.room;
}

/* Segments of a stage of the plan. */
static uint64_t
segments_of(const struct world *world, const struct proto_plan *plan, unsigned stage)
{
    uint64_t segments = 0;
    for (size_t b = 0; b + 1 < world->bucket_count; b++) {
        size_t above = 0;
        while (above < plan->cut_count && plan->cuts[above].bucket <= b)
            above++;
        if (plan->cut_count - above == stage)
            segments |= UINT64_C(1) << core_segment_of(&world->stages, b);
    }
    return segments;
}

/* The rows of a round. */
static uint64_t
rows_of(uint64_t round)
{
    return round % 3 == 0 ? 3 : 8;
}

static uint64_t
item_size(const struct proto_item *item)
{
    uint64_t rows = core_shard_rows(rows_of(item->round), SHARDS, item->shard);
    return rows ? rows * cuts[item->bucket - 1].words : 1;
}

/* Word k of an item: of its round, state, cut, kind and shard, and of no other one. */
static int32_t
item_word(const struct proto_item *item, uint64_t k)
{
    uint64_t which = mix64_pair(mix64_pair(item->round, item->state_hash), item->bucket);
    return (int32_t)mix64_pair(mix64_pair(which, item->shard * 2u + item->gradient), k);
}

/* The item of this round for a stage of the plan. */
static struct proto_item
item_of(const struct world *world, const struct core_piece *piece, unsigned stage, bool gradient)
{
    size_t cut = piece->plan->cut_count - stage - gradient;
    demand(cut < piece->plan->cut_count);
    return (struct proto_item){.round = world->round,
                               .state_hash = world->hash,
                               .bucket = piece->plan->cuts[cut].bucket,
                               .gradient = gradient,
                               .shard = (uint16_t)piece->shard};
}

/* The trainer reads or writes the item. */
static void
item_use(struct world *world, const struct core_piece *piece, unsigned stage, bool gradient,
         bool reads)
{
    struct proto_item item = item_of(world, piece, stage, gradient);
    int32_t *words = world->items + ITEM_MAX * core_item_at(SHARDS, stage, piece->shard, gradient);
    for (uint64_t k = 0; k < item_size(&item); k++) {
        demand(!reads || words[k] == item_word(&item, k));
        words[k] = item_word(&item, k);
    }
}

static void
on_piece(void *ctx, const struct core_piece *piece)
{
    struct world *world = ctx;
    unsigned stage = piece->stage, last = (unsigned)piece->plan->cut_count;
    bool forward = piece->kind == SCHEDULE_FORWARD;
    bool back = piece->kind == SCHEDULE_INPUT || piece->kind == SCHEDULE_BACKWARD;
    demand(!world->computing && !world->committing && !world->adopting && !world->back);
    demand(!world->piece && world->stages.count > 1 && last > 0 && piece->round == world->round);
    demand(stage <= last && piece->shard < SHARDS);
    demand(!in_parts(world) || !(segments_of(world, piece->plan, stage) & ~world->holds));
    world->piece = true;
    if (forward && stage > 0)
        item_use(world, piece, stage, false, true);
    if (forward && stage < last)
        item_use(world, piece, stage + 1, false, false);
    if (back && stage < last)
        item_use(world, piece, stage, true, true);
    if (back && stage > 0)
        item_use(world, piece, stage - 1, true, false);
}

static void
on_commit(void *ctx, uint64_t round)
{
    struct world *world = ctx;
    demand(round == world->round && !world->computing && !world->adopting && !world->committing &&
           !world->piece);
    world->committing = true;
}

static void
on_adopt(void *ctx, uint64_t round, uint64_t state_hash, const uint64_t *parts)
{
    struct world *world = ctx;
    (void)state_hash;
    (void)parts;
    demand(round > world->round && !world->computing && !world->committing && !world->adopting &&
           !world->piece);
    world->adopting = true;
    world->adopt_round = round;
}

/* Of nothing that it holds. */
static void
on_hold(void *ctx, uint64_t segments)
{
    struct world *world = ctx;
    demand(in_parts(world) && segments && has_room(world, segments));
    demand(!world->computing && !world->committing && !world->adopting && !world->back &&
           !world->piece && !world->part);
    world->holds = segments;
    world->waits = false;
    world->back = true;
    world->back_round = 0;
}

/* While it trains, it is to hold them as well. */
static void
on_part(void *ctx, uint64_t round, uint64_t segments, const uint64_t *parts)
{
    struct world *world = ctx;
    demand(in_parts(world) && round == world->round && !(segments & world->holds));
    demand(!world->computing && !world->committing && !world->adopting && !world->back &&
           !world->piece && !world->part);
    demand(world->done || (segments && has_room(world, segments | world->holds)));
    for (unsigned s = 0; s < SEGMENTS; s++)
        world->touched ^= segments >> s & 1 ? parts[s] : 0;
    world->part = true;
    world->came = segments;
}

static void
on_back(void *ctx, uint64_t round, bool wrong)
{
    (void)wrong;
    struct world *world = ctx;
    demand(round <= world->round + 1 && !world->computing && !world->committing &&
           !world->adopting && !world->back && !world->piece);
    world->back = true;
    world->back_round = round > 0 && round <= world->round ? round - 1 : world->round;
    world->done = world->part = false;
}

static const uint8_t *
on_state(void *ctx)
{
    struct world *world = ctx;
    demand(!world->committing && !world->adopting && !world->back);
    return world->state;
}

/* Reads all of it. */
static void
on_differ(void *ctx, const char *theirs, size_t size, char *out, size_t out_size)
{
    struct world *world = ctx;
    world->touched ^= XXH3_64bits(theirs, size);
    demand(size > 0 && size < PROTO_JOB_MAX);
    memset(out, 'x', out_size - 1);
    out[out_size - 1] = 0;
}

static void
on_job_offered(void *ctx, const char *from, uint64_t job, const char *text, size_t size)
{
    (void)ctx, (void)from, (void)job, (void)text, (void)size;
    demand(false); /* we have one */
}

static void
on_forget(void *ctx)
{
    struct world *world = ctx;
    memset(world->log, 0x55, sizeof world->log);
}

static const struct core_wire wire = {
    .connect = wire_connect,
    .disconnect = wire_disconnect,
    .send = wire_send,
    .send_bulk = wire_send_bulk,
    .make = on_make,
    .pass_on = on_pass_on,
    .peer_up = wire_peer_up,
    .peer_down = wire_peer_down,
    .keep = wire_keep,
    .release = on_release,
};

static const struct core_program program = {
    .differ = on_differ,
    .log = demand_line,
};

static const struct core_trainer trainer = {
    .job_offered = on_job_offered,
    .compute = on_compute,
    .piece = on_piece,
    .commit = on_commit,
    .adopt = on_adopt,
    .part = on_part,
    .hold = on_hold,
    .back = on_back,
    .state = on_state,
    .forget = on_forget,
};

/* ---- actions ---- */

static uint8_t
u8(struct world *world)
{
    return bytes_u8(&world->in);
}

static struct proto_node
node_of(uint8_t byte)
{
    return (struct proto_node){10 + byte % NODES, 5 + byte / 64};
}

/* Near what the core expects, or anywhere. */
static uint64_t
near(struct world *world, uint64_t value)
{
    int8_t delta = (int8_t)u8(world);
    if (delta == INT8_MIN)
        return mix64(value) & PROTO_ROUND_MAX;
    uint64_t moved = value + (uint64_t)(int64_t)delta;
    return moved > PROTO_ROUND_MAX ? 0 : moved;
}

/* Only what would have passed the decoder. */
static void
deliver(struct world *world, uint8_t from, const struct proto_msg *msg, const void *body,
        size_t body_size)
{
    char host[] = "10.0.0.0";
    host[7] = (char)('0' + from % NODES);
    if (msg->type == PROTO_PLAN)
        world->plan = proto_plan_hash(&msg->plan);
    core_on_message(world->core, world->now, node_of(from), host, msg, body, body_size);
}

static void
act_tick(struct world *world)
{
    world->now += 1000ull * u8(world);
    core_on_tick(world->core, world->now);
}

static void
act_time(struct world *world)
{
    for (unsigned n = u8(world); n > 0; n--) {
        world->now += CORE_TICK_US;
        core_on_tick(world->core, world->now);
    }
}

static void
act_raw(struct world *world)
{
    uint8_t from = u8(world);
    size_t size = u8(world);
    const uint8_t *frame = bytes_raw(&world->in, size);
    struct proto_msg msg;
    struct why why;
    if (frame && proto_decode(&msg, world->endpoints, frame, size, &why) == 0)
        deliver(world, from, &msg, "x", frame[0] & 1);
}

static void
act_hello(struct world *world)
{
    uint8_t from = u8(world), flags = u8(world);
    struct proto_msg msg = {
        .type = PROTO_HELLO,
        .hello = {.asks = flags & 1,
                  .answers = flags & 2 ? world->wire.links[from % WIRE_LINKS].asked : 0,
                  .wants_job = (flags & 0x0e) == 0x0e,
                  .run = "fuzz",
                  .job_hash = 1 + ((flags & 0x30) == 0x30),
                  .numerics = 1 + ((flags & 0xc0) == 0xc0),
                  .control_port = 1000 + from % NODES,
                  .bulk_port = 2000}};
    if (msg.hello.wants_job) {
        msg.hello.run[0] = 0;
        msg.hello.job_hash = 0;
    }
    deliver(world, from, &msg, NULL, 0);
}

/* What a peer holds: some segments, where nodes hold parts of the model. */
static uint64_t
said_holds(const struct world *world, uint8_t which)
{
    uint64_t all = core_segments(&world->stages);
    return in_parts(world) && which % 3 ? which & all : all;
}

static void
act_heartbeat(struct world *world)
{
    uint8_t from = u8(world), flags = u8(world), hears = u8(world);
    struct proto_msg msg = {.type = PROTO_HEARTBEAT,
                            .heartbeat = {.round = near(world, world->round),
                                          .idle = flags & 1,
                                          .done = (flags & 6) == 6,
                                          .have = flags >> 4,
                                          .have_segments = world->pins ? flags % 16 : 0,
                                          .state_hash = flags & 8 ? 1 : 0,
                                          .holds = said_holds(world, hears),
                                          .speed = flags}};
    struct proto_msg list = {.type = PROTO_HEARS};
    for (uint8_t k = 0; k < NODES; k++)
        if (hears >> k & 1)
            list.hears.nodes[list.hears.count++].node = node_of(k);
    msg.heartbeat.hears_hash = proto_hears_hash(&list.hears);
    deliver(world, from, &list, NULL, 0);
    deliver(world, from, &msg, NULL, 0);
}

/* The members of a group compute its stages, and share the shards. */
static void
stages_deal(const struct world *world, struct proto_plan *plan, size_t groups, unsigned turn,
            uint8_t holds)
{
    for (size_t k = 0; k < plan->count; k++) {
        struct proto_member *member = &plan->members[k];
        member->holds = said_holds(world, (uint8_t)(holds + 5 * k));
        member->holds += member->holds == 0;
        member->computes = member->shards = 0;
        for (size_t stage = 0; stage <= plan->cut_count; stage++)
            member->computes |= (uint64_t)(stage % groups == k % groups) << stage;
    }
    for (size_t group = 0; group < groups; group++)
        for (unsigned shard = 0; shard < SHARDS; shard++) {
            size_t in = (plan->count - group + groups - 1) / groups;
            plan->members[group + (shard + turn) % in * groups].shards |= UINT64_C(1) << shard;
        }
}

/* Does the decoder take what its members compute? */
static bool
stages_decode(const struct proto_plan *plan)
{
    for (size_t stage = 0; stage <= plan->cut_count; stage++) {
        uint64_t seen = 0;
        for (size_t m = 0; m < plan->count; m++) {
            uint64_t adds = proto_plan_computes(plan, m, stage);
            if ((adds & seen) ||
                (plan->members[m].computes & ~bits_below((unsigned)plan->cut_count + 1)))
                return false;
            seen |= adds;
        }
        if (plan->complete & ~seen)
            return false;
    }
    return true;
}

/* A plan with cuts; or what comes of one with another word, if the decoder takes it. */
static void
deliver_stages(struct world *world, uint8_t from, struct proto_msg *msg)
{
    struct proto_plan *plan = &msg->plan;
    uint8_t where = u8(world), how = u8(world);
    for (uint16_t bucket = 1; bucket < BUCKETS_MAX; bucket++)
        if (where >> (bucket - 1) & 1)
            plan->cuts[plan->cut_count++].bucket = bucket;
    size_t groups = 1 + (how & 3) % (plan->cut_count + 1);
    stages_deal(world, plan, groups < plan->count ? groups : plan->count, how >> 4, how);
    struct proto_member *one = &plan->members[(how >> 2 & 1) % plan->count];
    if (where & 0x40)
        one->computes ^= where >> 4 & 3;
    if (where & 0x80)
        one->shards ^= where >> 4 & 3;
    if (stages_decode(plan))
        deliver(world, from, msg, NULL, 0);
}

/* Members by bitmap, shards dealt out in turn, perhaps one too few. */
static void
act_plan(struct world *world)
{
    uint8_t from = u8(world), members = u8(world), turn = u8(world), flags = u8(world);
    struct proto_msg msg = {.type = PROTO_PLAN,
                            .plan = {.round = near(world, world->round),
                                     .counter = flags,
                                     .leader = node_of(from),
                                     .complete = flags & 1 ? 7 : 15}};
    struct proto_plan *plan = &msg.plan;
    bool leads = false;
    for (uint8_t k = 0; k < NODES; k++) {
        uint8_t who = (uint8_t)((k + turn) % NODES);
        if (members >> who & 1)
            plan->members[plan->count].holds = plan->members[plan->count].computes = 1,
            plan->members[plan->count++].node = who == from % NODES ? node_of(from) : node_of(who);
        leads |= (members >> who & 1) && who == from % NODES;
    }
    if (!leads)
        return;
    for (size_t shard = 0; shard < (flags & 1 ? 3 : 4); shard++)
        plan->members[(shard + turn) % plan->count].shards |= UINT64_C(1) << shard;
    for (size_t k = 0; k < plan->count && (flags & 2); k++) /* servers, or nonsense */
        plan->members[k].duties = flags & 4        ? UINT64_MAX >> turn % 64
                                  : flags >> k & 8 ? 8 | 63 << 16
                                                   : 0;
    if (world->stages.count <= 1)
        deliver(world, from, &msg, NULL, 0);
    else
        deliver_stages(world, from, &msg);
}

static void
act_plan_word(struct world *world)
{
    uint8_t from = u8(world), flags = u8(world);
    struct core_stats stats;
    core_stats(world->core, &stats);
    uint64_t plan = flags & 1 && stats.plan ? stats.plan : world->plan;
    struct proto_msg msg = {.type = PROTO_ABORT, .abort.plan_hash = plan};
    if (flags & 2)
        msg = (struct proto_msg){.type = PROTO_HOLD, .hold = {plan, near(world, world->round)}};
    deliver(world, from, &msg, NULL, 0);
}

static void
act_word(struct world *world)
{
    uint8_t from = u8(world), which = u8(world);
    struct proto_msg msg = {.type = PROTO_BYE, .bye.done = which >> 7};
    if (which % 8 == 1)
        msg.type = PROTO_JOB;
    else if (which % 8 == 5)
        msg = (struct proto_msg){.type = PROTO_FETCH,
                                 .fetch = {.object = PROTO_OBJECT_TOTAL,
                                           .round = near(world, world->round),
                                           .block = which >> 6,
                                           .count = 1 + (which >> 4),
                                           .again = which >> 3 & 1,
                                           .holds = said_holds(world, which)}};
    else if (which % 4 == 2)
        msg = (struct proto_msg){.type = PROTO_FETCH,
                                 .fetch = {.object = which >> 2 & 3,
                                           .round = near(world, world->round),
                                           .label = world->core->give.hash,
                                           .block = which >> 6,
                                           .count = 1 + (which >> 4 & 3),
                                           .holds = said_holds(world, which)}};
    else if (which % 4 == 3)
        msg = (struct proto_msg){
            .type = PROTO_REFUSE,
            .refuse = {.reason = (enum proto_refusal)(1 + which / 4 % 6), .yours = "a"}};
    deliver(world, from, &msg, "text", which & 0x10 ? 4 : 0);
}

/* Whom a peer knows. */
static void
act_peers(struct world *world)
{
    uint8_t from = u8(world), count = u8(world) % 5;
    struct proto_endpoint endpoint[4];
    struct proto_msg msg = {.type = PROTO_PEERS, .peers = {.endpoints = endpoint, .count = count}};
    for (uint8_t k = 0; k < count; k++)
        endpoint[k] = (struct proto_endpoint){{(char)('a' + u8(world) % 26)}, 1 + u8(world)};
    deliver(world, from, &msg, NULL, 0);
}

static void
deliver_bulk(struct world *world, uint8_t from, const struct proto_msg *msg, const void *body,
             size_t size)
{
    wire_deliver(&world->wire, world->core, world->now, node_of(from), msg, body, size);
}

/* A chunk of some segment of some bucket for the present number of members, or all of the bucket. */
static void
act_chunk(struct world *world)
{
    int32_t body[ELEMS + 1];
    uint8_t from = u8(world), flags = u8(world), place = u8(world), coverage = u8(world);
    struct core_stats stats;
    core_stats(world->core, &stats);
    uint64_t bucket = place % world->bucket_count, n = stats.members ? stats.members : 1,
             s = place / 4 % n;
    uint64_t first = world->buckets[bucket].count * s / n + CHUNK * (uint64_t)(place >> 5);
    uint64_t end = world->buckets[bucket].count * (s + 1) / n;
    if (end > first + CHUNK)
        end = first + CHUNK;
    if (flags & 1 || first > end)
        first = 0, end = world->buckets[bucket].count;
    memset(body, coverage, sizeof body);
    struct proto_msg msg = {.type = flags & 2 ? PROTO_GATHER : PROTO_REDUCE,
                            .chunk = {.plan_hash = stats.plan ? stats.plan : world->plan,
                                      .round = flags & 4 ? near(world, world->round) : world->round,
                                      .bucket = (uint16_t)bucket,
                                      .hop = flags >> 5,
                                      .direct = (flags & 3) == 1,
                                      .first = world->buckets[bucket].first + first,
                                      .count = (uint32_t)(end - first),
                                      .coverage = coverage & 0x0f}};
    if (flags & 2)
        msg.chunk.coverage = 0x0f;
    msg.chunk.state_hash = world->hash + ((flags & 0xe0) == 0xe0);
    msg.chunk.check = check_of(body, 0, msg.chunk.count) + (flags >> 3 & 1);
    if (msg.chunk.plan_hash == 0)
        return;
    deliver_bulk(world, from, &msg, body,
                 (msg.chunk.count + (size_t)((flags >> 4 & 1) && (coverage & 0x80))) *
                     sizeof *body);
}

/* The member of the present plan that makes an item; -1: none does. */
static int
maker_of(const struct world *world, const struct proto_item *item)
{
    const struct proto_plan *plan = &world->core->plan.now;
    for (size_t k = 0; world->core->plan.active && k < plan->cut_count; k++)
        for (size_t r = 0; r < plan->count && plan->cuts[k].bucket == item->bucket; r++)
            if (proto_plan_computes(plan, r, plan->cut_count - k - !item->gradient) >> item->shard &
                1)
                return (int)r;
    return -1;
}

/* A chunk of an item, mostly from who makes it. Some field may be another one, and then the check does not fit. */
static void
act_item(struct world *world)
{
    uint8_t from = u8(world), flags = u8(world), place = u8(world), wrong = u8(world);
    struct proto_msg msg = {.type = PROTO_ITEM};
    struct proto_item *item = &msg.item;
    *item = (struct proto_item){.round = flags & 1 ? near(world, world->round) : world->round,
                                .state_hash = world->hash ^ (flags >> 1 & 1),
                                .bucket = 1 + (place & 3) % CUTS,
                                .gradient = place >> 2 & 1,
                                .shard = place >> 3 & 3};
    item->size = item_size(item);
    item->first = CHUNK * (uint64_t)(place >> 5 & 3);
    item->first = item->first < item->size ? item->first : 0;
    item->count = item->size - item->first < CHUNK ? (uint32_t)(item->size - item->first) : CHUNK;
    int32_t body[CHUNK];
    for (uint32_t k = 0; k < item->count; k++)
        body[k] = item_word(item, item->first + k);
    int maker = maker_of(world, item);
    if (maker >= 0 && !(flags & 4)) { /* `from` sends as this node */
        const struct proto_node node = world->core->plan.now.members[maker].node;
        from = (uint8_t)(node.id - 10 + 64 * (node.incarnation - 5));
    }
    item->check = check_of(body, 0, item->count) ^ pieces_item_mix(item);
    body[0] ^= wrong & 1;
    item->size += wrong >> 1 & 1;
    item->shard = wrong & 4 ? (uint16_t)(place % PROTO_SHARDS_MAX) : item->shard;
    item->bucket = (uint16_t)(item->bucket + (wrong & 8 ? CUTS : 0));
    item->gradient ^= wrong >> 4 & 1;
    item->round ^= wrong >> 5 & 1;
    deliver_bulk(world, from, &msg, body, (item->count - (wrong >> 6 & 1u)) * sizeof *body);
}

static void
act_need(struct world *world)
{
    uint8_t from = u8(world), flags = u8(world), shards = u8(world);
    struct proto_msg msg = {.type = PROTO_NEED,
                            .need = {.round = flags & 1 ? near(world, world->round) : world->round,
                                     .bucket = 1 + (flags >> 1 & 3),
                                     .gradient = flags >> 3 & 1,
                                     .shards = shards ? shards : UINT64_MAX}};
    deliver(world, from, &msg, NULL, 0);
}

static const uint8_t zeros[STATE_SIZE + 1];

/* Hashes of the segments, then of the blocks that are of these or of all. */
static void
deliver_offer(struct world *world, uint8_t from, uint64_t round, uint64_t segments, uint8_t flags)
{
    const struct transfer *transfer = &world->core->transfer;
    uint64_t list[SEGMENTS + sizeof spans / sizeof *spans] = {0}, *next = list + transfer->segments;
    for (uint64_t b = 0; b < transfer->blocks; b++) {
        struct transfer_block block = transfer_state_block(transfer, b);
        if (transfer_has(segments, block.segment))
            *next++ = XXH3_64bits(zeros, block.size);
    }
    for (unsigned s = 0; in_parts(world) && s < SEGMENTS; s++)
        list[s] = segments >> s & 1 ? 1 + (flags >> 4 & 1) : 0;
    size_t size = (size_t)(next - list) * sizeof *list;
    struct proto_msg msg = {.type = PROTO_GIVE,
                            .give = {.object = PROTO_OBJECT_LIST,
                                     .round = round,
                                     .label = world->core->fetch.part ? world->hash : 7}};
    msg.give.check = transfer_check(&msg.give, segments, list, size) + (flags >> 3 & 1);
    deliver_bulk(world, from, &msg, list, size);
}

static void
deliver_total(struct world *world, uint8_t from, uint64_t round, uint64_t segments, uint8_t flags)
{
    size_t whole = transfer_total_size(&world->core->transfer, 0, segments),
           size = (flags & 7) == 6 ? 0 : whole;
    struct proto_msg msg = {
        .type = PROTO_GIVE,
        .give = {.object = PROTO_OBJECT_TOTAL, .round = round, .label = flags >> 4 & 1 ? 9 : 7}};
    msg.give.check = transfer_check(&msg.give, segments, world->sum, size) + (flags >> 3 & 1);
    deliver_bulk(world, from, &msg, world->sum, size);
}

static void
act_state(struct world *world)
{
    uint8_t from = u8(world), flags = u8(world);
    uint64_t round = near(world, world->round);
    uint64_t asked = world->core->fetch.part ? world->core->fetch.part : world->core->holds;
    uint64_t segments = in_parts(world) ? asked : core_segments(&world->stages);
    struct proto_msg msg = {.type = PROTO_GIVE,
                            .give = {.object = PROTO_OBJECT_STATE,
                                     .round = round,
                                     .label = world->core->fetch.list.label}};
    if (flags >> 6 == 1) {
        deliver_offer(world, from, round, segments, flags);
    } else if (flags >> 6 == 2) {
        deliver_total(world, from, round, segments, flags);
    } else {
        size_t blocks = in_parts(world) ? sizeof spans / sizeof *spans : 1;
        msg.give.block = flags / 8 % blocks;
        struct transfer_block block = transfer_state_block(&world->core->transfer, msg.give.block);
        deliver_bulk(world, from, &msg, zeros, block.size + ((flags & 7) == 7));
    }
}

static void
link_up(struct world *world, unsigned link)
{
    world->wire.links[link].up = true;
    core_on_link_up(world->core, world->now, link);
}

static void
act_link(struct world *world)
{
    uint8_t which = u8(world);
    unsigned link = which >> 1;
    if (!world->wire.links[link].open)
        return;
    if (which & 1)
        link_up(world, link);
    else
        core_on_link_down(world->core, world->now, link);
}

static void
act_found(struct world *world)
{
    uint8_t who = u8(world);
    struct proto_endpoint at = {"10.0.0.0", (uint16_t)(1000 + who % NODES)};
    struct proto_node node = who & 0x20 ? (struct proto_node){0, 0} : node_of(who);
    at.host[7] = (char)('0' + who % NODES);
    core_on_found(world->core, world->now, &at, node);
}

static void
applied(struct world *world, uint64_t round, uint8_t flags)
{
    static const uint64_t parts[SEGMENTS] = {1, 1, 1, 1};
    world->round = round;
    world->done |= (flags & 0xf0) == 0xf0;
    world->committing = world->adopting = world->back = false;
    world->missing = core_segments(&world->stages) & ~world->holds;
    world->hash = flags & 1;
    core_on_applied(
        world->core, world->now,
        &(struct core_state){.round = round,
                             .hash = world->hash,
                             .first_bucket = flags >> 1 & 1 ? world->bucket_count - 1 : 0,
                             .done = world->done,
                             .pinned = world->pins && (flags >> 2 & 1),
                             .pins_next = world->pins && (flags >> 3 & 1),
                             .rows = rows_of(round),
                             .holds = world->holds,
                             .parts = parts});
}

/* Once it is done it needs the other segments for its files, one after the other. */
static void
part_came(struct world *world, uint8_t flags)
{
    bool damaged = world->came && (flags & 0x0c) == 0x0c;
    world->part = false;
    if (damaged)
        core_on_damaged(world->core, world->now, CORE_COPY_DAMAGED);
    else if (!world->done)
        world->holds |= world->came, applied(world, world->round, flags & 0x0f);
    else
        world->missing &= world->came ? ~world->came : 0;
    if (world->done && !damaged)
        core_part(world->core, world->now, world->missing & -world->missing);
}

static void
act_trainer(struct world *world)
{
    uint8_t flags = u8(world);
    if (world->waits) {
        return;
    } else if (!world->started) {
        world->started = true;
        applied(world, flags & 0x0f, flags & 1);
    } else if (world->part) {
        part_came(world, flags);
    } else if (world->back) {
        applied(world, world->back_round, flags);
    } else if (flags == 0xe8) {
        world->computing = world->committing = world->adopting = world->piece = false;
        world->back = true;
        world->back_round = world->round ? world->round - 1 : 0;
        world->done = world->part = false;
        core_on_damaged(world->core, world->now, CORE_STATE_DAMAGED);
    } else if (world->piece) {
        world->piece = false;
        core_on_piece(world->core, world->now);
    } else if (world->computing) {
        size_t bucket = world->bucket++;
        world->computing = world->bucket < world->bucket_count;
        core_on_bucket(world->core, world->now, bucket);
    } else if (world->committing && flags == 0xc4) {
        world->committing = false;
        core_on_damaged(world->core, world->now, CORE_TOTAL_DAMAGED);
    } else if (world->committing) {
        applied(world, world->round + 1, flags);
    } else if (world->adopting && (flags & 0x0c) == 0x0c) {
        world->adopting = false;
        core_on_damaged(world->core, world->now, CORE_COPY_DAMAGED);
    } else if (world->adopting) {
        applied(world, world->adopt_round, flags);
    } else if (world->done && in_parts(world)) {
        core_part(world->core, world->now, world->missing & -world->missing);
    }
}

static void
act_sent(struct world *world)
{
    for (unsigned left = 1 + u8(world) % 2; left > 0 && world->wire.in_flight > 0; left--) {
        world->wire.in_flight--;
        core_on_sent(world->core, world->now);
    }
}

/* What a well-behaved peer does to get a session, in one action. */
static void
act_meet(struct world *world)
{
    uint8_t who = u8(world);
    struct proto_msg msg = {.type = PROTO_HELLO,
                            .hello = {.asks = 1,
                                      .run = "fuzz",
                                      .job_hash = 1,
                                      .numerics = 1,
                                      .control_port = 1000 + who % NODES,
                                      .bulk_port = 2000}};
    deliver(world, who, &msg, NULL, 0);
    for (unsigned link = 0; link < WIRE_LINKS; link++) {
        if (!world->wire.links[link].open)
            continue;
        link_up(world, link);
        msg.hello.answers = world->wire.links[link].asked;
        deliver(world, who, &msg, NULL, 0);
    }
}

/* Everybody hears everybody and waits at the same round. */
static void
act_agree(struct world *world)
{
    uint8_t idle = u8(world);
    for (uint8_t who = 0; who < NODES; who++) {
        struct proto_msg msg = {.type = PROTO_HEARTBEAT,
                                .heartbeat = {.round = world->round,
                                              .idle = idle & 1,
                                              .holds = said_holds(world, (uint8_t)(idle + who))}};
        struct proto_msg list = {.type = PROTO_HEARS};
        for (uint8_t k = 0; k < NODES; k++)
            list.hears.nodes[list.hears.count++].node = node_of(k);
        msg.heartbeat.hears_hash = proto_hears_hash(&list.hears);
        if (!(idle & 2)) /* it may not have said which list its heartbeat names */
            deliver(world, who, &list, NULL, 0);
        deliver(world, who, &msg, NULL, 0);
    }
}

static void (*const actions[])(struct world *) = {
    act_tick, act_time,  act_raw,   act_hello, act_heartbeat, act_plan,    act_plan_word,
    act_word, act_chunk, act_state, act_link,  act_found,     act_trainer, act_sent,
    act_meet, act_agree, act_item,  act_need,  act_peers,
};

enum { ACTIONS = sizeof actions / sizeof actions[0] };

/* This node has room for a part of the model. It chooses which one, or comes back with some. */
static void
world_parts(struct world *world, uint8_t way)
{
    struct core_stages *stages = &world->stages;
    stages->bytes = weighs;
    stages->room = ROOM;
    stages->mirror = way >> 5 & 1;
    stages->choose = world->waits = world->started = way >> 6 & 1;
    stages->spans = spans;
    stages->span_count = sizeof spans / sizeof *spans;
    world->holds = stages->choose ? 0 : stages->tied ? 0x9 : 0x6;
}

/* `servers`: as in core_config. */
static void
world_open(struct world *world, unsigned servers, const struct core_stages *stages, uint8_t way)
{
    bool cut = stages->count > 1;
    wire_init(&world->wire, on_sent, leads, world);
    world->buckets = cut ? stage_buckets : buckets;
    world->bucket_count = cut ? BUCKETS_MAX : sizeof buckets / sizeof buckets[0];
    world->stages = *stages;
    world->stages.cuts = cuts;
    world->stages.cut_count = cut ? CUTS : 0;
    world->stages.cost = costs;
    world->stages.item_words = ITEM_MAX;
    world->holds = core_segments(&world->stages);
    world->pins = way >> 4 & 1;
    if (cut && way >> 7)
        world_parts(world, way);
    world->items = malloc(CORE_ITEMS(CUTS + 1, SHARDS) * ITEM_MAX * sizeof *world->items);
    demand(world->items != NULL);
    const struct core_config config = {
        .wire = &wire,
        .wire_ctx = &world->wire,
        .program = &program,
        .program_ctx = world,
        .trainer = &trainer,
        .trainer_ctx = world,
        .job = "run: {}",
        .self = node_of(SELF),
        .hello = {.run = "fuzz", .job_hash = 1, .numerics = 1, .control_port = 1, .bulk_port = 2},
        .shards = SHARDS,
        .peers_min = 1,
        .gather_us = 500000,
        .bucket_count = world->bucket_count,
        .buckets = world->buckets,
        .own = world->own,
        .sum = world->sum,
        .state_size = STATE_SIZE,
        .state_in = world->state_in,
        .log = world->log,
        .log_size = sizeof world->log,
        .chunk_elems = CHUNK,
        .pack_all = true,
        .direct_bytes = 16,
        .servers = servers,
        .stages = world->stages,
        .items = world->items,
    };
    demand(core_new(&world->core, &config, 0) == 0);
}

static void
world_close(struct world *world)
{
    core_leave(world->core, world->now);
    core_destroy(&world->core);
    free(world->items);
    demand(world->wire.kept == 0);
}

/* What comes of an input. */
struct outcome {
    uint64_t plans;
    unsigned kept_most; /* frames */
};

static struct outcome
world_run(const uint8_t *data, size_t size)
{
    static struct world world;
    struct outcome outcome = {0};
    struct core_stats stats;
    memset(&world, 0, sizeof world);
    world.in = bytes_in(data, size);
    static const unsigned servers[] = {0, 1, 2, CORE_SERVERS_AUTO};
    uint8_t way = size ? data[size - 1] : 0;
    world_open(&world, servers[way % 4], &ways[way / 4 % 4], way);
    for (int i = 0; i < ACTIONS_MAX && bytes_left(&world.in) > 0; i++) {
        actions[u8(&world) % ACTIONS](&world);
        demand(world.wire.kept <= world.core->collective->kept_max);
        outcome.kept_most =
            outcome.kept_most < world.wire.kept ? world.wire.kept : outcome.kept_most;
    }
    core_stats(world.core, &stats);
    outcome.plans = stats.plans;
    world_close(&world);
    return outcome;
}

#endif

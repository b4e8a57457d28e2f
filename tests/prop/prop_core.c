/* Whatever peers, links and the clock do, a core breaks no contract, reads nothing beyond its memory and
 * keeps its tables in bounds.
 *
 * Messages pass the decoder's range checks (numbers within their limits, plans that add up) but mean
 * anything: rounds far away, members unknown, sums of nothing. What the core asks of its shell is
 * checked in tests/support/lone.c. */
#include "mesh/core/internal.h"
#include "mesh/core/rounds/route.h"
#include "tests/support/lone.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

enum { RUNS = 500, STEPS = 3000, NODES = 8 };

static int32_t junk[LONE_VECTOR + 1];

/* Near what the core expects, or anywhere. */
static uint64_t
near(struct rand *rand, uint64_t value)
{
    switch (rand_below(rand, 6)) {
    case 0:
        return rand_any(rand);
    case 1:
        return value + 1;
    case 2:
        return value - 1;
    default:
        return value;
    }
}

static void
fill_hears(struct lone *lone, struct rand *rand, struct proto_hears *hears)
{
    for (unsigned id = 1; id <= NODES; id++)
        if (rand_below(rand, 4) > 0)
            hears->nodes[hears->count++].node = lone_node(lone, id);
}

/* It names the list that the sender said last, mostly. */
static void
fill_heartbeat(struct lone *lone, struct rand *rand, unsigned from, struct proto_heartbeat *beat)
{
    int i = peers_find(lone->core, lone_node(lone, from));
    uint64_t hash = i < 0 ? 0 : lone->core->view.of[i].list_hash;
    beat->hears_hash = hash && rand_below(rand, 8) ? hash : 1 + rand_below(rand, 4);
    beat->pause_us = (uint32_t)rand_below(rand, PROTO_PAUSE_MAX_US + 1);
    beat->round = near(rand, lone->core->round);
    beat->idle = rand_bool(rand);
    beat->done = rand_below(rand, 8) == 0;
    beat->have = rand_any(rand);
    beat->state_hash = rand_any(rand);
    beat->speed = (uint32_t)rand_any(rand);
}

static void
fill_plan(struct lone *lone, struct rand *rand, unsigned from, struct proto_plan *plan)
{
    uint64_t left = rand_below(rand, 8) == 0 ? rand_any(rand) : lone->core->all;
    plan->round = near(rand, lone->core->round);
    plan->counter = rand_any(rand);
    plan->leader = lone_node(lone, rand_below(rand, 6) == 0 ? lone->id : from);
    for (unsigned id = 1; id <= NODES; id++) {
        if (rand_below(rand, 3) == 0 && id != from && id != lone->id)
            continue;
        struct proto_member *member = &plan->members[plan->count++];
        member->node = lone_node(lone, id);
        member->holds = rand_below(rand, 16) == 0 ? rand_any(rand) : 1;
        member->shards = id == NODES ? left : left & rand_u64(rand);
        left &= ~member->shards;
    }
    plan->members[plan->count - 1].shards |= left;
    plan->cut_count = rand_below(rand, 16) == 0;
    plan->cuts[0].bucket = 1;
    plan->complete = rand_below(rand, 8) == 0 ? 1 : lone->core->all;
}

static void
fill_chunk(struct lone *lone, struct rand *rand, struct proto_chunk *chunk)
{
    const struct core_bucket *bucket = &lone->core->buckets[rand_below(rand, 2)];
    chunk->plan_hash = near(rand, lone->core->plan.hash);
    chunk->round = near(rand, lone->core->round);
    chunk->bucket = (uint16_t)near(rand, rand_below(rand, 2));
    chunk->hop = (uint16_t)rand_below(rand, 6);
    chunk->direct = rand_bool(rand);
    chunk->first = near(rand, bucket->first + rand_below(rand, bucket->count));
    chunk->count = (uint32_t)rand_below(rand, rand_bool(rand) ? 17 : LONE_VECTOR);
    chunk->coverage = rand_bool(rand) ? lone->core->all : rand_any(rand);
}

/* What each object has for a body. */
static size_t
give_size(const struct lone *lone, struct rand *rand, unsigned object)
{
    return object == PROTO_OBJECT_LIST    ? sizeof(uint64_t)
           : object == PROTO_OBJECT_TOTAL ? sizeof lone->sum
                                          : (size_t)near(rand, lone->state_size);
}

static void
fill_give(struct lone *lone, struct rand *rand, struct proto_give *give)
{
    *give = (struct proto_give){.object = (uint16_t)rand_below(rand, PROTO_OBJECTS_END),
                                .round = near(rand, lone->core->round) & PROTO_ROUND_MAX};
    give->label = rand_bool(rand) ? lone->core->state_hash : rand_any(rand);
    if (give->object == PROTO_OBJECT_STATE)
        give->block = near(rand, 0) % 128;
    if (give->object != PROTO_OBJECT_TOTAL)
        give->round = near(rand, lone->core->round + 1) & PROTO_ROUND_MAX;
    if (give->object == PROTO_OBJECT_LIST || give->object == PROTO_OBJECT_TOTAL)
        give->check =
            transfer_check(give, lone->core->holds, junk, give_size(lone, rand, give->object));
}

static struct proto_msg
any_message(struct lone *lone, struct rand *rand, unsigned from)
{
    static struct proto_endpoint endpoints[4];
    struct proto_msg msg = {.type = (enum proto_type)rand_range(rand, 1, PROTO_TYPES_END - 1)};
    switch (msg.type) {
    case PROTO_HELLO:
        msg.hello = lone->core->config.hello;
        msg.hello.control_port = (uint16_t)(20000 + from);
        msg.hello.asks = (uint32_t)rand_below(rand, 3);
        msg.hello.answers = rand_bool(rand) ? lone->asked[from] : 0;
        msg.hello.numerics += rand_below(rand, 64) == 0;
        break;
    case PROTO_REFUSE:
        msg.refuse.reason = (enum proto_refusal)rand_range(rand, 1, PROTO_REFUSALS_END - 1);
        break;
    case PROTO_PEERS:
        msg.peers.endpoints = endpoints;
        msg.peers.count = (size_t)rand_below(rand, 5);
        for (size_t k = 0; k < msg.peers.count; k++) {
            endpoints[k].host[0] = (char)rand_range(rand, 'a', 'z');
            endpoints[k].control_port = (uint16_t)rand_range(rand, 1, UINT16_MAX);
        }
        break;
    case PROTO_HEARTBEAT:
        fill_heartbeat(lone, rand, from, &msg.heartbeat);
        break;
    case PROTO_HEARS:
        fill_hears(lone, rand, &msg.hears);
        break;
    case PROTO_PLAN:
        fill_plan(lone, rand, from, &msg.plan);
        break;
    case PROTO_HOLD:
        msg.hold =
            (struct proto_hold){near(rand, lone->core->plan.hash), near(rand, lone->core->round)};
        break;
    case PROTO_ABORT:
        msg.abort.plan_hash = near(rand, lone->core->plan.hash);
        break;
    case PROTO_REDUCE:
    case PROTO_GATHER:
        fill_chunk(lone, rand, &msg.chunk);
        break;
    case PROTO_FETCH:
        msg.fetch =
            (struct proto_fetch){.object = (uint16_t)rand_below(rand, PROTO_OBJECTS_END),
                                 .round = near(rand, lone->core->round) & PROTO_ROUND_MAX,
                                 .label = rand_bool(rand) ? lone->core->give.hash : rand_any(rand),
                                 .block = near(rand, 0) % 128,
                                 .count = (uint16_t)(1 + rand_below(rand, 5)),
                                 .again = rand_bool(rand),
                                 .holds = rand_below(rand, 8) ? lone->core->holds : rand_any(rand)};
        break;
    case PROTO_GIVE:
        fill_give(lone, rand, &msg.give);
        break;
    default:
        break;
    }
    return msg;
}

static void
say_anything(struct lone *lone, struct rand *rand)
{
    unsigned from = (unsigned)rand_range(rand, 1, NODES + 1);
    struct proto_msg msg = any_message(lone, rand, from);
    /* REFUSE and BYE end sessions: rarely, or nothing else would happen. */
    bool ends = msg.type == PROTO_REFUSE || msg.type == PROTO_BYE;
    if (ends && rand_below(rand, 40) > 0)
        return;
    bool bulk = msg.type == PROTO_REDUCE || msg.type == PROTO_GATHER || msg.type == PROTO_GIVE;
    if (!bulk) {
        lone_say(lone, from, &msg);
        return;
    }
    size_t size = msg.type == PROTO_GIVE ? give_size(lone, rand, msg.give.object)
                                         : msg.chunk.count * sizeof(int32_t);
    if (rand_below(rand, 16) == 0 || size > sizeof junk)
        size = (size_t)rand_below(rand, sizeof junk);
    lone_say_bulk(lone, from, &msg, junk, size);
}

static void
one_thing(struct lone *lone, struct rand *rand)
{
    unsigned id = (unsigned)rand_range(rand, 1, NODES);
    switch (rand_below(rand, 24)) {
    case 0:
        lone_run(lone, 10);
        break;
    case 1:
        lone->now += rand_below(rand, 300000);
        lone_run(lone, 10);
        break;
    case 2:
        lone_up(lone, id);
        break;
    case 3:
        if (rand_below(rand, 8) == 0)
            lone_down(lone, id);
        break;
    case 4:
        lone->incarnation[id] += rand_below(rand, 16) == 0;
        break;
    case 5:
        lone_return(lone);
        break;
    case 6:
        lone_train(lone);
        break;
    case 7:
        if (id != lone->id)
            lone_meet(lone, id);
        break;
    default:
        say_anything(lone, rand);
        break;
    }
}

TEST(no_course_of_events_breaks_a_core)
{
    uint64_t plans = 0, kept_most = 0;
    for (uint64_t run = 0; run < RUNS; run++) {
        struct rand rand = {run << 32};
        OWNED(lone_destroy)
        struct lone *lone = LONE(.id = rand_range(&rand, 1, NODES),
                                 .shards = (unsigned)rand_range(&rand, 1, PROTO_SHARDS_MAX));
        for (int k = 0; k < STEPS; k++) {
            one_thing(lone, &rand);
            assert_true(lone->wire.kept <= lone->core->collective->kept_max);
            kept_most = lone->wire.kept > kept_most ? lone->wire.kept : kept_most;
        }
        struct core_stats stats;
        core_stats(lone->core, &stats);
        plans += stats.plans;
        core_leave(lone->core, lone->now);
        lone_return(lone);
    }
    assert_true(plans > RUNS); /* it was not all refused */
    assert_true(kept_most > 0);
}

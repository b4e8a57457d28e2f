/* test_gossip_public.c - with a codec: both ends of a link have the same public copy of the taker's values, whatever is
 * lost; changes to another copy, and bodies that are none, get no flow; nothing of the values is lost. */
#include "tests/support/mutant.h"
#include "tests/support/test.h"

#include "mesh/core/gossip/gossip_give.h"
#include "proto/mix.h"
#include "tests/support/gossip_lone.h"

enum { VALUES = GOSSIP_LONE_VALUES, BODY_MAX = 1024 };

/* The last ASK and FLOW that were sent. */
static struct letter {
    struct proto_msg msg;
    uint8_t body[BODY_MAX];
    size_t size;
    unsigned count;
} ask, flow;

static void
on_send_bulk(void *ctx, unsigned link, const struct proto_msg *msg, const void *body, size_t size,
             bool lent)
{
    bool news = msg->type == PROTO_FLOW || msg->ask.kind == PROTO_ASK_VALUES ||
                msg->ask.kind == PROTO_ASK_CHANGES;
    struct letter *letter = msg->type == PROTO_FLOW ? &flow : &ask;
    (void)ctx, (void)link, (void)lent;
    if (!news)
        return;
    assert_true(size <= BODY_MAX);
    letter->msg = *msg;
    letter->size = size;
    letter->count++;
    if (size > 0)
        memcpy(letter->body, body, size);
}

static void
on_handle(void *ctx, void *handle)
{
    (void)ctx, (void)handle;
}

static const struct core_wire wire = {.send_bulk = on_send_bulk, .release = on_handle};
static const struct gossip_keeper keeper = {.note = NULL};
static struct codec one; /* of four values */

static struct core *
open_with(bool async)
{
    static struct gossip_config configs[2];
    struct gossip_config *gossip = &configs[async];
    one = *codec_of(CODEC_topk);
    *gossip = (struct gossip_config){.keeper = &keeper,
                                     .graph = GOSSIP_RING,
                                     .async = async,
                                     .codec = &one,
                                     .steps = 9,
                                     .count = VALUES};
    ask.count = flow.count = 0;
    struct core *core = gossip_lone(gossip, &wire, 1);
    core->gossip.status = GOSSIP_TRAINING;
    return core;
}

/* All values, in one range: each time another pass. */
static void
asks(struct core *taker)
{
    taker->gossip.run.phase++;
    gossip_link_ask(&taker->gossip.links, taker, 0);
}

static void
hears(struct core *giver)
{
    struct core_frame frame = {ask.body, ask.size, NULL};
    gossip_give_on_ask(&giver->gossip.links, &giver->gossip.replica, giver, 0, &ask.msg.ask,
                       &frame);
}

static void
takes(struct core *taker)
{
    struct core_frame frame = {flow.body, flow.size, NULL};
    gossip_link_on_flow(&taker->gossip.links, &taker->gossip.replica, taker, 0, &flow.msg.flow,
                        &frame);
    taker->gossip.links.of[0].ask_at = (struct awake){0};
}

/* What this core has first: only as taker, or only as giver. */
static const int32_t *
copy_of(const struct core *core)
{
    return core->gossip.links.publics.copies;
}

static int64_t
sum_of(const struct core *a, const struct core *b)
{
    int64_t sum = 0;
    for (size_t k = 0; k < VALUES; k++)
        sum += a->gossip.replica.values[k] + b->gossip.replica.values[k];
    return sum;
}

static void
move(struct core *core, uint64_t seed)
{
    for (size_t k = 0; k < VALUES; k++)
        core->gossip.replica.values[k] += (int64_t)(mix64_pair(seed, k) & 0xffff) - 0x8000;
}

TEST(both_ends_have_one_copy_and_nothing_is_lost)
{
    OWNED(core_destroy) struct core *taker = open_with(true), *giver = open_with(true);
    for (uint64_t round = 0; round < 60; round++) {
        if (round < 40) {
            move(taker, round);
            move(giver, 1000 + round);
        }
        int64_t sum = sum_of(taker, giver);
        asks(taker);
        assert_int_equal(ask.msg.ask.kind, round ? PROTO_ASK_CHANGES : PROTO_ASK_VALUES);
        hears(giver);
        takes(taker);
        assert_int_equal(flow.msg.flow.kind, PROTO_FLOW_GIVEN);
        assert_int_equal(sum_of(taker, giver), sum);
        assert_memory_equal(copy_of(taker), copy_of(giver), VALUES * sizeof(int32_t));
    }
    assert_int_equal(flow.count, 60);
    for (size_t k = 0; k < VALUES; k++) /* what was left out has come meanwhile */
        assert_in_range(taker->gossip.replica.values[k] - giver->gossip.replica.values[k] + 1, 0,
                        2);
}

/* The second ASK is lost, and settled; then it has all values again, whatever the copies are like. */
TEST(after_a_void_flow_all_values_are_told)
{
    OWNED(core_destroy) struct core *taker = open_with(true), *giver = open_with(true);
    for (unsigned round = 0; round < 4; round++) {
        move(taker, round);
        asks(taker);
        assert_int_equal(ask.msg.ask.kind, round % 2 ? PROTO_ASK_CHANGES : PROTO_ASK_VALUES);
        if (round == 1) {
            ask.msg.ask.kind = PROTO_ASK_SETTLE;
            ask.msg.ask.number = 1;
            ask.msg.ask.range = 1;
            ask.size = 0;
        }
        hears(giver);
        assert_int_equal(flow.msg.flow.kind, round == 1 ? PROTO_FLOW_VOID : PROTO_FLOW_GIVEN);
        takes(taker);
    }
    assert_memory_equal(copy_of(taker), copy_of(giver), VALUES * sizeof(int32_t));
}

/* The giver said that flow 2 is void, and gets changes for flow 3 all the same. */
static bool
gives_to_another_copy(uint64_t planted)
{
    struct core *taker = open_with(true), *giver = open_with(true);
    mutants_planted = planted;
    asks(taker);
    hears(giver);
    takes(taker);
    asks(taker);
    giver->gossip.links.of[0].give.number = 2;
    giver->gossip.links.publics.places[0].same[0] = false; /* another link had its place */
    ask.msg.ask.number = 3;
    hears(giver);
    bool gave = flow.msg.flow.kind == PROTO_FLOW_GIVEN;
    assert_int_equal(flow.msg.flow.number, 3);
    core_destroy(&taker);
    core_destroy(&giver);
    mutants_planted = 0;
    return gave;
}

TEST(changes_to_another_copy_get_no_flow)
{
    assert_false(gives_to_another_copy(0));
    assert_true(gives_to_another_copy(MUTANT_GOSSIP_COPY));
}

TEST(what_is_no_body_gets_no_flow_and_is_none)
{
    OWNED(core_destroy) struct core *taker = open_with(true), *giver = open_with(true);
    for (uint64_t round = 0; round < 200; round++) {
        move(giver, round);
        asks(taker);
        for (size_t k = 0; k < ask.size && round % 2; k++)
            ask.body[k] ^= k < 4 ? 0x55 : 0; /* the width of the elements, and what must be 0 */
        ask.size -= round % 4 == 2 ? 4 : 0;
        ask.size = round % 8 == 4 ? 0 : ask.size;
        bool whole = round % 8 == 0;
        int64_t sum = sum_of(taker, giver);
        hears(giver);
        assert_int_equal(flow.msg.flow.kind, whole ? PROTO_FLOW_GIVEN : PROTO_FLOW_VOID);
        if (whole) {
            struct letter was = flow;
            flow.body[1] = 1;
            takes(taker);
            assert_true(gossip_link_open(&taker->gossip.links.of[0]));
            flow = was;
        }
        takes(taker);
        assert_int_equal(sum_of(taker, giver), sum);
    }
}

/* A ring has two neighbours. The copies under way to this node stay; a third one is asked with all values and gets no
 * copy, until a flow has come. */
TEST(places_are_taken_again)
{
    OWNED(core_destroy) struct core *core = open_with(false);
    const struct gossip_place *places = core->gossip.links.publics.places;
    assert_int_equal(core->gossip.links.publics.count, 2);
    for (int i = 1; i < 3; i++)
        core->peers.peers[i] =
            (struct peer){.state = PEER_UP, .node = {2 + (uint64_t)i, 1}, .announced = true};
    core->peers.high = 3;
    for (int i = 0; i < 3; i++) {
        gossip_link_ask(&core->gossip.links, core, i);
        assert_int_equal(ask.msg.ask.kind, PROTO_ASK_VALUES);
    }
    assert_true(places[0].node.id == 2 && places[1].node.id == 3);
    for (int l = 0; l < 3; l++) { /* void flows */
        struct gossip_take *take = &core->gossip.links.of[l].take;
        take->number = take->asked;
    }
    gossip_link_ask(&core->gossip.links, core, 2);
    assert_true(places[0].node.id == 4 && places[1].node.id == 3);
}

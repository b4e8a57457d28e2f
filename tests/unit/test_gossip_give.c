/* test_gossip_give.c - the giver's end of a flow: what it keeps until the taker says that it has it. And both ends,
 * when a message was for the process that had this node's port before. */
#include "tests/support/mutant.h"
#include "tests/support/test.h"

#include "mesh/core/gossip/gossip_give.h"
#include "tests/support/gossip_lone.h"

enum { VALUES = GOSSIP_LONE_VALUES };

static struct core *core;
static unsigned flows;         /* that were sent with values */
static struct proto_ask asked; /* the last one that was sent */
static unsigned voids;

static void
on_send_bulk(void *ctx, unsigned link, const struct proto_msg *msg, const void *body, size_t size,
             bool lent)
{
    (void)ctx, (void)link, (void)body, (void)lent;
    flows += msg->type == PROTO_FLOW && msg->flow.kind == PROTO_FLOW_GIVEN && size > 0;
    voids += msg->type == PROTO_FLOW && msg->flow.kind == PROTO_FLOW_VOID;
    asked = msg->type == PROTO_ASK ? msg->ask : asked;
}

static void
on_handle(void *ctx, void *handle)
{
    (void)ctx, (void)handle;
}

/* This node trains with mesh.sync async, and hears node 2. */
static void
open_with(uint64_t planted)
{
    static const struct core_wire wire = {.send_bulk = on_send_bulk, .release = on_handle};
    static const struct gossip_keeper keeper = {.note = NULL};
    static const struct gossip_config gossip = {
        .keeper = &keeper, .async = true, .steps = 9, .count = VALUES};
    mutants_planted = planted;
    flows = 0;
    core = gossip_lone(&gossip, &wire, 1);
    core->gossip.status = GOSSIP_TRAINING;
}

/* In this phase: each has another pass. */
static void
asks(enum proto_ask_kind kind, uint64_t number, uint64_t phase)
{
    static int32_t values[VALUES] = {8, 16, 24, 32};
    bool next = kind == PROTO_ASK_VALUES;
    const struct proto_ask ask = {
        .kind = (uint16_t)kind, .link = 1, .number = number, .phase = phase};
    struct core_frame frame = {values, next ? sizeof values : 0, NULL};
    gossip_give_on_ask(&core->gossip.links, &core->gossip.replica, core, 0, &ask, &frame);
}

/* So many flows after this one have not come. */
static void
settles(uint64_t number, uint32_t open)
{
    const struct proto_ask ask = {
        .kind = PROTO_ASK_SETTLE, .link = 1, .number = number, .range = open};
    struct core_frame frame = {NULL, 0, NULL};
    gossip_give_on_ask(&core->gossip.links, &core->gossip.replica, core, 0, &ask, &frame);
}

/* The news that flow 1 was taken comes again when flow 2 is under way, and that one is lost: can it be sent again? */
static bool
is_kept(uint64_t planted)
{
    open_with(planted);
    asks(PROTO_ASK_VALUES, 1, 1);
    asks(PROTO_ASK_TAKEN, 1, 1);
    asks(PROTO_ASK_VALUES, 2, 2);
    assert_int_equal(flows, 2);
    asks(PROTO_ASK_TAKEN, 1, 1);
    settles(1, 1);
    bool again = flows == 3;
    core_destroy(&core);
    mutants_planted = 0;
    return again;
}

TEST(an_old_flow_that_was_taken_does_not_drop_the_present_one)
{
    assert_true(is_kept(0));
    assert_false(is_kept(MUTANT_GOSSIP_STALE));
}

/* Does this node, whose incarnation is 1, give what node 2 asks process `to` for? */
static bool
gives(uint64_t to, uint64_t planted)
{
    static int32_t values[VALUES] = {8, 16, 24, 32};
    struct proto_msg msg = {.type = PROTO_ASK,
                            .ask = {.kind = PROTO_ASK_VALUES, .to = to, .link = 1, .number = 1}};
    struct core_frame frame = {values, sizeof values, NULL};
    open_with(planted);
    msg.ask.check = gossip_link_check(&msg, values, VALUES);
    core->engine->bulk(core, 0, &msg, &frame);
    bool any = flows == 1;
    core_destroy(&core);
    mutants_planted = 0;
    return any;
}

/* It has asked node 2. Does it take the flow that was given to process `to`, on a link of the same number? */
static bool
takes(uint64_t to, uint64_t planted)
{
    static int32_t values[VALUES] = {8, 16, 24, 32};
    struct proto_msg msg = {.type = PROTO_FLOW,
                            .flow = {.kind = PROTO_FLOW_GIVEN, .to = to, .number = 1}};
    struct core_frame frame = {values, sizeof values, NULL};
    open_with(planted);
    gossip_link_ask(&core->gossip.links, core, 0);
    msg.flow.link = gossip_link_of(&core->gossip.links, core, (struct proto_node){2, 1})->mine;
    msg.flow.check = gossip_link_check(&msg, values, VALUES);
    core->engine->bulk(core, 0, &msg, &frame);
    bool any = core->gossip.replica.values[0] != 0;
    assert_int_equal(core->gossip.links.shared, any);
    core_destroy(&core);
    mutants_planted = 0;
    return any;
}

TEST(what_was_sent_to_a_former_process_does_not_count)
{
    assert_true(gives(1, 0));
    assert_false(gives(9, 0));
    assert_true(gives(9, MUTANT_GOSSIP_GHOST));
    assert_true(takes(1, 0));
    assert_false(takes(9, 0));
    assert_true(takes(9, MUTANT_GOSSIP_GHOST));
}

static void
on_keep(void *ctx, struct core_frame *frame)
{
    (void)ctx, (void)frame;
}

/* Node 2 asks for a phase that this node is not in yet, with `size` bytes of values, and gets its answer when the phase
 * begins: is it a flow? */
static bool
gives_later(size_t size)
{
    static const struct core_wire wire = {
        .send_bulk = on_send_bulk, .keep = on_keep, .release = on_handle};
    static const struct gossip_keeper keeper = {.note = NULL};
    static const struct gossip_config gossip = {
        .keeper = &keeper, .graph = GOSSIP_RING, .steps = 9, .count = VALUES};
    static const struct proto_plan plan = {.count = 2,
                                           .members = {{.node = {1, 1}}, {.node = {2, 1}}}};
    static int32_t values[VALUES] = {8, 16, 24, 32};
    const struct proto_ask ask = {
        .kind = PROTO_ASK_VALUES, .link = 1, .number = 1, .plan_hash = 5, .phase = 1};
    struct core_frame frame = {values, size, values};
    flows = 0;
    core = gossip_lone(&gossip, &wire, 1);
    struct gossip *g = &core->gossip;
    g->status = GOSSIP_TRAINING;
    g->plan.active = true;
    g->plan.hash = 5;
    g->plan.now = plan;
    gossip_give_on_ask(&g->links, &g->replica, core, 0, &ask, &frame);
    assert_int_equal(g->links.of[0].give.waits, 1);
    g->run.on = true;
    g->run.phase = 1;
    g->run.gives = 2;
    gossip_give_waiting(&g->links, &g->replica, core);
    assert_int_equal(g->links.of[0].give.waits, 0);
    bool any = flows == 1;
    core_destroy(&core);
    return any;
}

TEST(an_early_ask_of_another_size_gets_no_flow)
{
    assert_true(gives_later(VALUES * sizeof(int32_t)));
    assert_false(gives_later(sizeof(int32_t)));
    assert_false(gives_later(2 * VALUES * sizeof(int32_t)));
    assert_false(gives_later(0));
}

/* --- A flow in ranges ----------------------------------------------------------------------------- */

enum { RANGES = 4 }; /* of one value each */

static void
open_in_ranges(void)
{
    static const struct core_wire wire = {
        .send_bulk = on_send_bulk, .keep = on_keep, .release = on_handle};
    static const struct gossip_keeper keeper = {.note = NULL};
    static const struct gossip_config gossip = {
        .keeper = &keeper, .async = true, .steps = 9, .count = VALUES};
    core = gossip_lone_in(&gossip, &wire, 1, 1);
    core->gossip.status = GOSSIP_TRAINING;
    flows = voids = 0;
}

static void
asks_range(enum proto_ask_kind kind, uint64_t number, uint32_t range)
{
    static int32_t value = -8;
    const struct proto_ask ask = {
        .kind = (uint16_t)kind, .link = 1, .number = number, .range = range};
    struct core_frame frame = {&value, kind == PROTO_ASK_VALUES ? sizeof value : 0, NULL};
    gossip_give_on_ask(&core->gossip.links, &core->gossip.replica, core, 0, &ask, &frame);
}

static int64_t
sum(void)
{
    int64_t sum = 0;
    for (size_t k = 0; k < VALUES; k++)
        sum += core->gossip.replica.values[k];
    return sum;
}

TEST(each_range_is_given_at_once)
{
    open_in_ranges();
    for (uint32_t p = 0; p < RANGES; p++) {
        assert_int_equal(sum(), -4 * (int)p); /* half of the difference is 4 */
        asks_range(PROTO_ASK_VALUES, p + 1, p);
        assert_int_equal(flows, p + 1);
    }
    asks_range(PROTO_ASK_VALUES, 3, 2); /* it comes again */
    assert_int_equal(flows, RANGES);
    settles(1, 3); /* all but the first one are lost */
    assert_int_equal(flows, RANGES + 3);
    assert_int_equal(sum(), -4 * RANGES);
    core_destroy(&core);
}

TEST(what_was_not_asked_for_in_its_order_is_not_given)
{
    open_in_ranges();
    asks_range(PROTO_ASK_VALUES, 1, 0);
    asks_range(PROTO_ASK_VALUES, 3, 2); /* flow 2 was lost on its way */
    assert_int_equal(flows + voids, 1);
    settles(1, 2);
    assert_int_equal(voids, 2);
    asks_range(PROTO_ASK_VALUES, 4, 2); /* not the next range */
    assert_int_equal(voids, 3);
    asks_range(PROTO_ASK_VALUES, 5, 1);
    assert_int_equal(flows, 2);
    assert_int_equal(sum(), -2 * 4);
    core_destroy(&core);
}

TEST(an_ask_without_a_place_for_its_flow_waits)
{
    open_in_ranges();
    struct gossip_links *links = &core->gossip.links;
    const struct proto_node other = {3, 1};
    core->peers.peers[1] = (struct peer){.state = PEER_UP, .node = other, .announced = true};
    core->peers.high = 2;
    const struct gossip_link *link = gossip_link_of(links, core, other);
    for (size_t s = 1; s < links->slot_count; s++) { /* it has not taken them yet */
        links->slots[s].of = link;
        links->slots[s].head.number = s;
    }
    asks_range(PROTO_ASK_VALUES, 1, 0);
    asks_range(PROTO_ASK_VALUES, 2, 1);
    assert_int_equal(flows, 1);
    asks_range(PROTO_ASK_TAKEN, 1, 0);
    gossip_give_waiting(links, &core->gossip.replica, core);
    assert_int_equal(flows, 2);
    asks_range(PROTO_ASK_VALUES, 3, 2);
    assert_int_equal(flows, 2);
    core->peers.high = 1; /* it is away: it counts as dead */
    gossip_give_waiting(links, &core->gossip.replica, core);
    assert_int_equal(flows, 3);
    assert_int_equal(voids, 0);
    core_destroy(&core);
}

/* The giver sends a flow of 4. */
static void
gives_range(uint64_t number, uint32_t range)
{
    static const int32_t value = 4;
    const struct proto_flow flow = {
        .kind = PROTO_FLOW_GIVEN, .link = asked.link, .number = number, .range = range};
    struct core_frame frame = {(void *)(uintptr_t)&value, sizeof value, NULL};
    struct gossip *g = &core->gossip;
    gossip_link_on_flow(&g->links, &g->replica, core, 0, &flow, &frame);
}

TEST(flows_are_taken_in_their_order)
{
    open_in_ranges();
    gossip_link_ask(&core->gossip.links, core, 0);
    assert_int_equal(asked.range, RANGES - 1); /* all at once */
    gives_range(1, 0);
    assert_int_equal(sum(), 4);
    assert_int_equal(asked.kind, PROTO_ASK_TAKEN);
    gives_range(3, 2); /* not the next one */
    gives_range(1, 0);
    gives_range(2, 2);
    assert_int_equal(sum(), 4);
    for (uint32_t p = 1; p < RANGES; p++)
        gives_range(p + 1, p);
    assert_int_equal(sum(), 4 * RANGES);
    assert_int_equal(asked.number, RANGES);
    core_destroy(&core);
}

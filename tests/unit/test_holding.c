/* test_holding.c - nodes choose which segments of a model they hold: never more than they have room for, together all
 * of it, and who comes later what one other node can give it. */
#include "mesh/core/group/group.h"
#include "mesh/core/internal.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

enum { NODES = 8, SEGMENTS = 12, CASES = 3000 };

static struct core *node;
static uint64_t bytes[SEGMENTS];
static struct core_cut cuts[SEGMENTS - 1];

static uint64_t
bytes_of(uint64_t segments)
{
    uint64_t sum = 0;
    for (; segments; segments &= segments - 1)
        sum += bytes[__builtin_ctzll(segments)];
    return sum;
}

/* A model of some segments, and a node that knows `others` nodes, which hold nothing yet. */
static void
draw(struct rand *rand, size_t others)
{
    static const struct core_program program = {.log = NULL};
    memset(node, 0, sizeof *node);
    node->config.program = &program;
    node->config.stages = (struct core_stages){.count = (unsigned)rand_range(rand, 2, 4),
                                               .cuts = cuts,
                                               .cut_count = rand_range(rand, 1, SEGMENTS - 1),
                                               .bytes = bytes,
                                               .tied = rand_bool(rand),
                                               .mirror = rand_bool(rand)};
    for (size_t k = 0; k < SEGMENTS - 1; k++)
        cuts[k].bucket = (uint16_t)(k + 1);
    for (size_t s = 0; s < SEGMENTS; s++)
        bytes[s] = rand_range(rand, 1, 20);
    node->awake.us = 1000000000;
    node->config.peers_min = others + 1;
    node->peers.high = (int)others;
    for (size_t i = 0; i < others; i++) {
        node->peers.peers[i].state = PEER_UP;
        node->view.of[i].hears_me = true;
    }
}

static bool
is_idle(void)
{
    return plan_idle(node) && node->trainer.state == TRAINER_FREE;
}

static struct holding_verdict
step(void)
{
    return holding_step(&node->holding, node, is_idle());
}

/* Node `id` chooses, as one of those; the others have the ids below and above. */
static uint64_t
chooses(size_t id, uint64_t room)
{
    node->trainer.state = TRAINER_START;
    node->holds = 0;
    node->holding = (struct holding){0};
    node->config.self.id = id + 1;
    node->config.stages.room = room;
    node->config.stages.choose = true;
    for (size_t i = 0; i < (size_t)node->peers.high; i++)
        node->peers.peers[i].node.id = i < id ? i + 1 : i + 2;
    return step().hold;
}

TEST(those_who_start_hold_all_of_it_together)
{
    struct rand rand = {1};
    for (int c = 0; c < CASES; c++) {
        size_t others = rand_range(&rand, 1, NODES - 1);
        draw(&rand, others);
        const struct core_stages *stages = &node->config.stages;
        uint64_t all = core_segments(stages), held = 0, of[NODES] = {0};
        /* so much that as many as there are hold it all, however the segments fall */
        uint64_t room = bytes_of(all) / (stages->mirror ? others + 1 : stages->count) + 60;
        assert_int_equal(others > 0 ? chooses(1, room) : 0, 0); /* not before node 0 */
        for (size_t id = 0; id <= others; id++) {
            for (size_t i = 0; i < others; i++)
                node->view.of[i].beat.holds = of[i < id ? i : i + 1];
            of[id] = chooses(id, room);
            assert_true(of[id] && bytes_of(of[id]) <= room && !(of[id] & ~all));
            if (stages->tied)
                assert_int_equal(of[id] & 1, of[id] >> stages->cut_count & 1);
            held |= of[id];
        }
        if (stages->mirror || others + 1 >= stages->count)
            assert_int_equal(held, all);
    }
}

/* It may meet nodes that train before it has told its core what it has. */
TEST(who_has_a_part_already_is_told_nothing)
{
    draw(&(struct rand){4}, 2);
    for (size_t i = 0; i < 2; i++)
        node->view.of[i].beat =
            (struct proto_heartbeat){.round = 7, .holds = core_segments(&node->config.stages)};
    assert_true(chooses(1, 60) != 0);
    node->config.stages.choose = false;
    node->holding = (struct holding){0};
    assert_int_equal(step().hold, 0);
}

TEST(who_joins_takes_what_one_other_node_can_give)
{
    struct rand rand = {2};
    for (int c = 0; c < CASES; c++) {
        size_t others = rand_range(&rand, 1, NODES - 1), gives = 0;
        uint64_t held = 0;
        draw(&rand, others);
        node->config.stages.tied = false;
        uint64_t all = core_segments(&node->config.stages), room = rand_range(&rand, 20, 100);
        for (size_t i = 0; i < others; i++) {
            node->view.of[i].beat.round = 7;
            node->view.of[i].beat.holds = rand_u64(&rand) & all;
            node->view.of[i].beat.holds |= node->view.of[i].beat.holds ? 0 : 1;
            held |= node->view.of[i].beat.holds;
        }
        node->view.of[0].beat.holds |= all & ~held; /* nothing is lost */
        uint64_t holds = chooses(rand_below(&rand, others + 1), room);
        assert_true(holds && bytes_of(holds) <= room);
        for (size_t i = 0; i < others; i++)
            gives += !(holds & ~node->view.of[i].beat.holds);
        assert_true(gives > 0);
    }
}

/* Two nodes are at round 9, with segment 1 of 2; the only one with segment 0 is at `theirs`. */
static struct holding_verdict
with_one_at(uint64_t theirs, uint64_t us)
{
    struct rand rand = {3};
    struct holding_verdict verdict;
    draw(&rand, 2);
    node->config.stages.cut_count = 1;
    node->trainer.state = TRAINER_FREE;
    node->round = 9;
    node->holds = 2;
    node->view.of[0].beat = (struct proto_heartbeat){.round = 9, .holds = 2};
    node->view.of[1].beat = (struct proto_heartbeat){.round = theirs, .holds = 1};
    step();
    node->awake.us += us;
    verdict = step();
    return verdict;
}

/* Node 2 is to choose. Node 1 has segment 1 of 2 and is at this round; of segment 0 there is nothing. */
static void
lost_at(uint64_t round)
{
    draw(&(struct rand){8}, 1);
    node->config.stages.cut_count = 1;
    node->config.stages.tied = false;
    node->view.of[0].beat = (struct proto_heartbeat){.round = round, .holds = 2, .idle = true};
    assert_int_equal(chooses(1, bytes[0] + bytes[1]), 0);
}

static uint64_t
chosen_after(uint64_t us)
{
    node->awake.us += us;
    uint64_t hold = step().hold;
    node->holding.asked = 0;
    return hold;
}

TEST(who_is_to_choose_takes_what_was_lost_if_nobody_comes_who_has_it)
{
    const struct {
        uint64_t round, us;
    } waits[] = {{1, HOLDING_LOST_LEAST_US},
                 {5, HOLDING_LOST_LEAST_US},
                 {200, 200 * HOLDING_LOST_ROUND_US},
                 {100000, HOLDING_LOST_MOST_US}};
    for (size_t k = 0; k < sizeof waits / sizeof *waits; k++) {
        lost_at(waits[k].round);
        assert_int_equal(chosen_after(waits[k].us - 1), 0);
        assert_true(chosen_after(1) & 1);
    }
    lost_at(5);
    node->config.stages.room =
        bytes[1]; /* it has no room for segment 0: let it help with what there is */
    if (bytes[1] < bytes[0])
        assert_int_equal(chosen_after(HOLDING_LOST_LEAST_US), 2);
    lost_at(5); /* whoever had it comes back, at an earlier round */
    assert_int_equal(chosen_after(HOLDING_LOST_LEAST_US / 2), 0);
    node->peers.high = 2;
    node->peers.peers[1] = (struct peer){.state = PEER_UP, .node = {.id = 9}};
    node->view.of[1].hears_me = true;
    node->view.of[1].beat = (struct proto_heartbeat){.round = 3, .holds = 1, .idle = true};
    assert_int_equal(chosen_after(HOLDING_LOST_LEAST_US), 2);
}

/* Nodes 1 and 2 have the same segment: they did not hear one another when they chose. */
TEST(before_the_first_round_one_of_two_with_the_same_part_chooses_again)
{
    for (uint64_t id = 1; id <= 2; id++) {
        draw(&(struct rand){9}, 1);
        node->config.stages.cut_count = 1;
        node->config.stages.tied = false;
        node->config.stages.room = bytes[0] + bytes[1];
        node->config.self.id = id;
        node->peers.peers[0].node.id = 3 - id;
        node->trainer.state = TRAINER_FREE;
        node->holds = 2;
        node->view.of[0].beat = (struct proto_heartbeat){.holds = 2, .idle = true};
        assert_int_equal(chosen_after(1), 0);
        uint64_t again = chosen_after(HOLDING_LOST_LEAST_US);
        assert_int_equal(again & 1, id == 2);
        node->config.stages.room = bytes[0] - 1; /* what it would take instead is here, too */
        bytes[1] = 1;
        assert_int_equal(chosen_after(HOLDING_LOST_LEAST_US), 0);
        node->holding = (struct holding){0};
        node->round = node->view.of[0].beat.round = 4; /* what it has is worth something */
        assert_int_equal(chosen_after(1) | chosen_after(HOLDING_LOST_MOST_US), 0);
    }
}

static bool
stays_for(uint64_t holds, bool done)
{
    node->holding = (struct holding){0};
    node->view.of[0].beat = (struct proto_heartbeat){.holds = holds, .done = done};
    holding_gone(&node->holding, node, 0);
    return holding_stays(node);
}

TEST(who_is_done_stays_for_a_part_that_was_lost_before_its_files)
{
    draw(&(struct rand){10}, 1);
    node->config.stages.cut_count = 1;
    assert_true(stays_for(2, true)); /* killed while it wrote its files */
    node->peers.peers[0].state = PEER_FREE;
    assert_false(stays_for(2, true)); /* it said goodbye */
    assert_true(stays_for(2, false));
    assert_true(
        stays_for(3, false)); /* it may have taken some of it later: only a part is on its disk */
    node->config.stages.bytes = NULL;
    assert_false(stays_for(3, false));
    assert_true(stays_for(2, false));
    strcpy(node->peers.peers[1].at.host, "10.0.0.9");
    holding_came(&node->holding, node, 1); /* some other node */
    assert_true(holding_stays(node));
    holding_came(&node->holding, node, 0); /* it is back, or another node in its place */
    assert_false(holding_stays(node));
    holding_came(&node->holding, node, 0);
    assert_true(stays_for(2, false));
    node->awake.us += HOLDING_STAY_US;
    assert_false(holding_stays(node));
}

TEST(all_go_back_to_the_round_of_the_only_one_with_a_segment)
{
    assert_false(with_one_at(8, HOLDING_SURE_US - 1).back);
    assert_true(with_one_at(8, HOLDING_SURE_US).back);
    assert_false(with_one_at(8, HOLDING_SURE_US).wrong);
    assert_int_equal(with_one_at(8, HOLDING_SURE_US).round, 8);
    assert_false(with_one_at(9, HOLDING_SURE_US).back);
    assert_false(with_one_at(10, HOLDING_SURE_US).back);
    struct group_choice choice = {.count = 2, .peer = {-1, 0, 1}};
    assert_false(holding_covers(node, &choice));
    choice.count = 3;
    assert_true(holding_covers(node, &choice));
}

/* A node in the mesh has room for `room` beside what it holds, of what the others hold; what does it want? */
static uint64_t
wants(struct rand *rand, uint64_t room)
{
    uint64_t all = core_segments(&node->config.stages), has = rand_u64(rand) & all;
    node->config.stages.tied = false;
    node->config.stages.mirror = true;
    node->trainer.state = TRAINER_FREE;
    node->config.self.id = 3;
    node->round = 7;
    node->state_hash = 1;
    node->holds = has ? has : 1;
    node->config.stages.room = bytes_of(node->holds) + room;
    for (int i = 0; i < node->peers.high; i++) {
        node->peers.peers[i].node.id = (uint64_t)(i < 2 ? i + 1 : i + 2);
        node->view.of[i].beat = (struct proto_heartbeat){.round = 7, .holds = rand_u64(rand) & all};
    }
    holding_tick(&node->holding, node);
    return node->holding.wants;
}

static unsigned
count_of(uint64_t segment)
{
    unsigned count = 0;
    for (int i = 0; i < node->peers.high; i++)
        count += (node->view.of[i].beat.holds & segment) != 0;
    return count;
}

TEST(who_has_room_takes_what_fewest_hold)
{
    struct rand rand = {4};
    for (int c = 0; c < CASES; c++) {
        draw(&rand, rand_range(&rand, 1, NODES - 1));
        uint64_t room = rand_below(&rand, 25), more = wants(&rand, room);
        assert_true(!(more & node->holds) && bytes_of(more) <= room);
        for (size_t s = 0; s <= node->config.stages.cut_count; s++) {
            uint64_t one = UINT64_C(1) << s;
            unsigned held = count_of(one);
            if (!(node->holds & one) && held > 0 && bytes_of(one) <= room)
                assert_true(more && count_of(more) <= held);
        }
        node->config.stages.mirror = false;
        holding_tick(&node->holding, node);
        assert_int_equal(node->holding.wants, 0);
    }
}

static uint64_t
takes(void)
{
    return step().part;
}

TEST(more_is_taken_one_after_the_other_while_nobody_has_a_plan)
{
    struct rand rand = {5};
    uint64_t more = 0;
    do
        draw(&rand, 3);
    while ((more = wants(&rand, 200)) == 0);
    struct proto_heartbeat *lower = &node->view.of[0].beat, *higher = &node->view.of[2].beat;
    assert_int_equal(takes(), 0);
    node->awake.us += HOLDING_TURN_US;
    assert_int_equal(takes(), more);
    node->plan.active = true;
    assert_int_equal(takes(), 0);
    node->plan.active = false;
    lower->needs = true;
    assert_int_equal(takes(), 0);
    lower->done = true; /* it needs it for its files */
    assert_int_equal(takes(), more);
    lower->needs = lower->done = false;
    higher->needs = true;
    assert_int_equal(takes(), more);
    higher->round++;
    assert_int_equal(takes(), 0);
    higher->round--;
    assert_true(holding_grows(node));
    holding_tick(&node->holding, node);
    node->holding.wants = 0;
    node->awake.us += HOLDING_WAIT_US - 1;
    assert_true(holding_grows(node));
    node->awake.us++;
    assert_false(holding_grows(node)); /* whoever says it for ever */
    holding_fails(&node->holding, node);
    higher->needs = false;
    assert_false(holding_grows(node));
    node->awake.us += HOLDING_AGAIN_US - 1;
    assert_false(holding_tick(&node->holding, node));
    node->awake.us++;
    assert_true(holding_tick(&node->holding, node));
}

/* Within a span of a codec with a memory: this node keeps `own`, the others what they say. */
static void
pin(struct keeps own, const struct keeps *others, size_t count)
{
    draw(&(struct rand){6}, count);
    node->config.stages.cut_count = 3;
    node->config.shards = 4;
    node->pinned = true;
    node->round = 7;
    node->holds = 0xf;
    node->trainer.state = TRAINER_FREE;
    node->contribution.before = own;
    node->config.self.id = 1;
    for (size_t i = 0; i < count; i++) {
        node->peers.peers[i].node.id = i + 2;
        node->view.of[i].beat = (struct proto_heartbeat){.round = 7,
                                                         .holds = 0xf,
                                                         .have = others[i].shards,
                                                         .have_segments = others[i].segments};
    }
}

static bool
misses(void)
{
    const struct keeps mine = contribution_keeps(&node->contribution, node);
    return kept_missing(node, &mine);
}

static bool
goes_back(void)
{
    const struct keeps mine = contribution_keeps(&node->contribution, node);
    return kept_step(&node->keeping, node, &mine, is_idle());
}

static bool
keeps(size_t count, struct proto_plan *plan)
{
    struct group_choice choice = {.count = count, .peer = {-1, 0, 1, 2}};
    *plan = (struct proto_plan){.count = count};
    const struct keeps mine = contribution_keeps(&node->contribution, node);
    bool kept = kept_divide(node, &mine, &choice, plan);
    assert_int_equal(kept_covers(node, &mine, &choice), kept);
    return kept;
}

TEST(within_a_span_each_node_computes_what_it_keeps)
{
    struct proto_plan plan;
    pin((struct keeps){0xf, 3}, (struct keeps[]){{0x9, 0xc}, {0x6, 0xc}, {0, 0xf}}, 3);
    assert_false(misses());
    assert_true(keeps(4, &plan));
    assert_int_equal(plan.cut_count, 1);
    assert_int_equal(plan.cuts[0].bucket, cuts[1].bucket); /* between segments 1 and 2 of 0 to 3 */
    assert_int_equal(plan.members[0].shards, 0xf);
    assert_int_equal(plan.members[0].computes, 1);
    assert_int_equal(plan.members[2].shards, 0x6);
    assert_int_equal(plan.members[2].computes, 2);
    assert_int_equal(plan.members[3].shards, 0); /* it came later */
    assert_int_equal(plan.members[3].computes, 0);
    assert_int_equal(plan.members[3].holds, 0xf);
    pin((struct keeps){0x5, 0xf}, (struct keeps[]){{0xa, 0xf}}, 1);
    assert_true(keeps(2, &plan));
    assert_int_equal(plan.cut_count, 0); /* nobody computes a part alone */
}

/* Two plans of a round were made, and both came to the sum. */
TEST(what_two_nodes_keep_is_computed_once)
{
    struct proto_plan plan;
    pin((struct keeps){0x3, 0xf}, (struct keeps[]){{0x7, 3}, {0x7, 0xc}, {0x8, 0xf}}, 3);
    assert_true(keeps(4, &plan));
    assert_int_equal(plan.members[0].shards, 0x3);
    assert_int_equal(plan.members[1].shards, 0x4);
    assert_int_equal(plan.members[2].shards, 0x4);
    assert_int_equal(plan.members[3].shards, 0x8);
}

TEST(who_lacks_a_stage_of_a_shard_goes_back)
{
    struct proto_plan plan;
    pin((struct keeps){0xf, 3}, (struct keeps[]){{0x9, 0xc}, {0x2, 0xc}}, 2);
    assert_false(keeps(3, &plan));
    assert_true(misses());
    assert_false(goes_back());
    node->awake.us += KEPT_SURE_US;
    assert_true(goes_back());
    node->pinned = false;
    assert_false(misses());
    for (int again = 1; again <= KEPT_DOUBLINGS + 1; again++) { /* longer each time, */
        uint64_t us = KEPT_SURE_US << (again < KEPT_DOUBLINGS ? again : KEPT_DOUBLINGS);
        node->pinned = true;
        kept_applied(&node->keeping, 6, true);
        assert_true(node->keeping.left == node->round); /* and who idles there has no more */
        assert_false(goes_back());
        node->awake.us += us - 1;
        assert_false(goes_back());
        node->awake.us++;
        assert_true(goes_back());
    }
    kept_applied(&node->keeping, 8, true); /* until that round is done */
    assert_true(node->keeping.left == 0);
    assert_false(goes_back());
    node->awake.us += KEPT_SURE_US;
    assert_true(goes_back());
}

TEST(within_a_span_nobody_takes_more)
{
    struct rand rand = {7};
    do
        draw(&rand, 3);
    while (wants(&rand, 200) == 0);
    node->pinned = node->pins_next = true;
    holding_tick(&node->holding, node);
    assert_int_equal(node->holding.wants, 0);
    node->pins_next = false; /* the last round of it: the leader is to hold the plan, */
    holding_tick(&node->holding, node);
    assert_true(node->holding.wants != 0);
    node->awake.us += HOLDING_TURN_US;
    assert_false(holding_grows(node)); /* but this round comes first */
    node->contribution.before = (struct keeps){UINT64_MAX, UINT64_MAX};
    assert_int_equal(takes(), 0);
}

int
main(void)
{
    node = calloc(1, sizeof *node);
    return node ? test_run() : 1;
}

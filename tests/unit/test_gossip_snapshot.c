/* test_gossip_snapshot.c - two snapshots have one name only if they are one. */
#include "tests/support/gossip_lone.h"
#include "tests/support/test.h"

static void
on_save(void *ctx, const struct gossip_saved *saved)
{
    (void)ctx, (void)saved;
}

/* The name that a leader in this plan gives to the snapshot after `last`, when it knows `total` shards as computed. */
static uint64_t
name(uint64_t plan, uint64_t total, uint64_t last)
{
    static const struct core_wire wire = {.send_bulk = NULL};
    static const struct gossip_keeper keeper = {.save = on_save};
    static const struct gossip_config gossip = {
        .keeper = &keeper, .steps = 99, .save_every = 1, .count = GOSSIP_LONE_VALUES};
    OWNED(core_destroy) struct core *core = gossip_lone(&gossip, &wire, 1);
    struct gossip *g = &core->gossip;
    g->status = GOSSIP_TRAINING;
    g->plan.active = true;
    g->plan.hash = plan;
    g->plan.now = (struct proto_plan){.leader = {1, 1}, .count = 1, .members = {{.node = {1, 1}}}};
    g->run.step = 1;
    g->count.total = total;
    g->snapshot.last = last;
    assert_false(gossip_snapshot_step(&g->snapshot, core, false));
    uint64_t now = g->snapshot.now;
    assert_true(now > last);
    return now;
}

/* They left out each other, and each goes on alone. */
TEST(two_leaders_that_are_equally_far_name_two_snapshots)
{
    assert_true(name(0xfdf60e564a80632b, 182, 0) != name(0x9afeda4214e8632b, 182, 0));
    assert_true(name(5, 182, 0) == name(5, 182, 0));
    assert_true(name(5, 186, 0) > name(6, 182, 0));
}

/* The last snapshot was of both, and nothing was computed since. */
TEST(two_leaders_that_are_no_further_name_two_snapshots)
{
    uint64_t last = name(0xffffffffffffffff, 182, 0);
    assert_true(name(5, 182, last) != name(6, 182, last));
}

static unsigned ended;
static bool with_snapshot;

static void
on_ended(void *ctx, bool saved)
{
    (void)ctx;
    ended++;
    with_snapshot = saved;
}

/* This node and node 2 rest for snapshot 7. This node has saved it, if `saved`, and is told to end. When it
 * may: at once (0), when the snapshot is over (1), after it has saved another one (2). */
static int
ends(bool saved)
{
    static const struct core_wire wire = {.send_bulk = NULL};
    static const struct core_trainer trainer = {.ended = on_ended};
    static const struct gossip_keeper keeper = {.save = on_save};
    static const struct gossip_config gossip = {
        .keeper = &keeper, .steps = 99, .count = GOSSIP_LONE_VALUES};
    struct core *core = gossip_lone(&gossip, &wire, 1);
    struct gossip *g = &core->gossip;
    ended = 0;
    core->config.trainer = &trainer;
    g->status = GOSSIP_QUIET;
    g->plan.active = true;
    g->snapshot.now = 7;
    g->snapshot.last = saved ? 7 : 0;
    if (!gossip_snapshot_end(&g->snapshot, core)) {
        core_destroy(&core);
        return 0;
    }
    for (int k = 0; k < 3; k++)
        assert_false(gossip_snapshot_ends(&g->snapshot, core)); /* others still save it */
    g->snapshot.now = 0;
    g->status = GOSSIP_TRAINING;
    bool over = gossip_snapshot_ends(&g->snapshot, core);
    assert_true(over || gossip_snapshot_say(core) == GOSSIP_SNAPSHOT_WANTED);
    core->awake.us += GOSSIP_END_US;
    assert_true(gossip_snapshot_ends(&g->snapshot, core));
    assert_int_equal(ended, 1);
    assert_int_equal(with_snapshot, over);
    core_destroy(&core);
    return over ? 1 : 2;
}

TEST(who_has_a_snapshot_that_others_save_ends_when_it_is_over)
{
    assert_int_equal(ends(true), 1);
    assert_int_equal(ends(false), 2);
}

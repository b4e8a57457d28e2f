/* Which shards of a step a ticket has: all of them once, whatever mesh.ticket_shards is. */
#include "node/train/push_shard.h"
#include "tests/support/test.h"

#include "proto/proto.h"

static struct push_step
step_of(unsigned shards, unsigned each)
{
    static struct config config;
    config.train.shards = shards;
    config.mesh.ticket_shards = each;
    return push_step_of(&config);
}

TEST(each_shard_of_a_step_is_in_one_ticket)
{
    for (unsigned shards = 1; shards <= PROTO_SHARDS_MAX; shards++)
        for (unsigned each = CONFIG_TICKET_AUTO; each <= shards; each++) {
            struct push_step step = step_of(shards, each);
            uint64_t all = 0;
            for (unsigned k = 0; k < step.tickets; k++) {
                uint64_t own = push_step_shards(&step, 7 * (uint64_t)step.tickets + k);
                assert_true(own != 0 && (all & own) == 0);
                all |= own;
            }
            assert_true(all == UINT64_MAX >> (64 - shards));
        }
}

TEST(a_ticket_has_as_many_shards_as_the_job_says_but_the_last_one)
{
    struct push_step step = step_of(12, 5);
    assert_int_equal(step.tickets, 3);
    assert_int_equal(push_step_shards(&step, 0), 0x01f);
    assert_int_equal(push_step_shards(&step, 4), 0x3e0);
    assert_int_equal(push_step_shards(&step, 8), 0xc00);
}

TEST(by_itself_a_step_keeps_six_tickets_if_it_has_as_many_shards)
{
    for (unsigned shards = 1; shards <= PROTO_SHARDS_MAX; shards++)
        assert_true(step_of(shards, CONFIG_TICKET_AUTO).tickets >=
                    (shards < PUSH_STEP_TICKETS ? shards : PUSH_STEP_TICKETS));
    assert_int_equal(step_of(24, CONFIG_TICKET_AUTO).each, 4);
    assert_int_equal(step_of(64, CONFIG_TICKET_AUTO).each, 10);
    assert_int_equal(step_of(11, CONFIG_TICKET_AUTO).each, 1);
    assert_int_equal(step_of(12, CONFIG_TICKET_AUTO).each, 2);
}

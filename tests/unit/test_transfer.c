/* What both sides of catching up compute in the same way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mesh/core/internal.h"
#include "tests/support/lone.h"

static void
an_empty_state_is_one_empty_block(void **state)
{
    (void)state;
    struct core_config config = {.state_size = 0, .block_size = 16};
    struct transfer transfer;
    assert_int_equal(transfer_init(&transfer, &config), 0);
    assert_int_equal(transfer.blocks, 1);
    assert_int_equal(transfer_block_size(&config, 0), 0);
    transfer_fini(&transfer);
}

static void
the_blocks_are_the_state_without_gap_or_overlap(void **state)
{
    (void)state;
    uint8_t memory[100];
    for (size_t size = 1; size <= sizeof memory; size++) {
        struct core_config config = {.state_size = size, .block_size = 16, .state_in = memory};
        struct transfer transfer;
        size_t at = 0;
        assert_int_equal(transfer_init(&transfer, &config), 0);
        for (uint64_t b = 0; b < transfer.blocks; b++) {
            assert_ptr_equal(transfer_block(&config, b), memory + at);
            assert_in_range(transfer_block_size(&config, b), 1, 16);
            at += transfer_block_size(&config, b);
        }
        assert_int_equal(at, size);
        transfer_fini(&transfer);
    }
}

static void
a_total_has_the_buckets_that_the_round_exchanges(void **state)
{
    (void)state;
    struct lone *lone = lone_new(&(struct lone_setup){.id = 5});
    const struct core *core = lone->core;
    size_t last = core->config.bucket_count - 1;
    uint64_t all = 0;
    for (size_t b = 0; b <= last; b++)
        all += 4 * core->buckets[b].count;
    assert_int_equal(transfer_total_size(core->buckets, 0, core->config.bucket_count), all);
    assert_int_equal(transfer_total_size(core->buckets, last, core->config.bucket_count),
                     4 * core->buckets[last].count);
    lone_destroy(&lone);
}

static void
checksums_are_over_the_body_and_each_field(void **state)
{
    (void)state;
    const struct proto_offer offer = {.round = 3, .state_hash = 4, .size = 5};
    const struct proto_total total = {.round = 3, .block = 4, .state_hash = 5, .commit = 6};
    struct proto_offer o[] = {offer, offer, offer};
    struct proto_total t[] = {total, total, total, total};
    o[0].round++, o[1].state_hash++, o[2].size++;
    t[0].round++, t[1].block++, t[2].state_hash++, t[3].commit++;
    for (int k = 0; k < 3; k++)
        assert_true(transfer_offer_check(&o[k], "abc", 3) !=
                    transfer_offer_check(&offer, "abc", 3));
    for (int k = 0; k < 4; k++)
        assert_true(transfer_total_check(&t[k], "abc", 3) !=
                    transfer_total_check(&total, "abc", 3));
    assert_true(transfer_offer_check(&offer, "abd", 3) != transfer_offer_check(&offer, "abc", 3));
    assert_true(transfer_total_check(&total, "abd", 3) != transfer_total_check(&total, "abc", 3));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_state_is_one_empty_block),
        cmocka_unit_test(the_blocks_are_the_state_without_gap_or_overlap),
        cmocka_unit_test(a_total_has_the_buckets_that_the_round_exchanges),
        cmocka_unit_test(checksums_are_over_the_body_and_each_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

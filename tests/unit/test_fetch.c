/* A node that is behind fetches a state of several blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <xxhash.h>

#include "mesh/fetch.h"
#include "tests/support/lone.h"

enum { BLOCKS = 11, SIZE = 10 * PROTO_BLOCK_MAX + 12345 };

static uint8_t *
state_of(uint64_t round)
{
    uint8_t *state = malloc(SIZE);
    assert_non_null(state);
    for (size_t k = 0; k < SIZE; k++)
        state[k] = (uint8_t)(k * 7 + (k >> 12) + round);
    return state;
}

static struct proto_msg
block_of(const uint8_t *state, uint64_t round, uint64_t block, size_t *size)
{
    *size = block + 1 == BLOCKS ? SIZE % PROTO_BLOCK_MAX : PROTO_BLOCK_MAX;
    return (struct proto_msg){
        .type = PROTO_STATE,
        .state = {.round = round,
                  .state_hash = 77 + round,
                  .size = SIZE,
                  .block = block,
                  .check = XXH3_64bits(state + block * PROTO_BLOCK_MAX, *size)}};
}

static void
give(struct lone *lone, unsigned from, uint8_t *state, uint64_t round, uint64_t block)
{
    size_t size;
    struct proto_msg msg = block_of(state, round, block, &size);
    struct core_frame frame = {state + block * PROTO_BLOCK_MAX, size, lone};
    core_on_bulk(lone->core, lone->now, lone_node(lone, from), &msg, &frame);
}

/* Node 5 at round 0; node 7 is idle at round 9. */
static struct lone *
behind(void)
{
    struct lone *lone = lone_new(&(struct lone_setup){.id = 5, .peers_min = 2, .state_size = SIZE});
    lone_meet(lone, 7);
    lone_beat(lone, 7, 9, true);
    return lone;
}

static uint64_t
asked(const struct lone *lone, unsigned id)
{
    const struct lone_sent *sent = lone_sent(lone, id, PROTO_FETCH);
    return sent ? sent->msg.fetch.block : UINT64_MAX;
}

static void
blocks_come_in_windows_and_make_the_whole(void **state)
{
    (void)state;
    struct lone *lone = behind();
    uint8_t *want = state_of(9);
    assert_int_equal(asked(lone, 7), 0);
    for (uint64_t b = 0; b < BLOCKS; b++) {
        give(lone, 7, want, 9, b);
        uint64_t windows = 2 + (b + 1) / FETCH_WINDOW;
        uint64_t most = (BLOCKS + FETCH_WINDOW - 1) / FETCH_WINDOW;
        assert_int_equal(lone_sent_count(lone, 7, PROTO_FETCH), windows < most ? windows : most);
    }
    assert_true(lone->adopt);
    assert_int_equal(lone->round, 9);
    assert_int_equal(lone->hash, 77 + 9);
    assert_memory_equal(lone->state_in, want, SIZE);
    lone_train(lone);
    struct core_stats stats;
    core_stats(lone->core, &stats);
    assert_int_equal(stats.round, 9);
    free(want);
    lone_destroy(&lone);
}

static void
what_is_lost_or_broken_is_asked_for_again(void **state)
{
    (void)state;
    struct lone *lone = behind();
    uint8_t *want = state_of(9);
    give(lone, 7, want, 9, 0);
    give(lone, 7, want, 9, 2); /* 1 was lost */
    want[PROTO_BLOCK_MAX + 5] ^= 1;
    size_t size;
    struct proto_msg msg = block_of(want, 9, 1, &size);
    want[PROTO_BLOCK_MAX + 5] ^= 1;
    struct core_frame frame = {want + PROTO_BLOCK_MAX, size, lone};
    core_on_bulk(lone->core, lone->now, lone_node(lone, 7), &msg, &frame);
    assert_int_equal(lone_logged(lone, "wrong checksum"), 1);
    lone_forget_sent(lone);
    lone_run_with(lone, 150, (unsigned[]){7}, 1, 9, true);
    assert_int_equal(asked(lone, 7), 1);
    for (uint64_t b = 1; b < BLOCKS; b++)
        give(lone, 7, want, 9, b);
    assert_true(lone->adopt);
    assert_memory_equal(lone->state_in, want, SIZE);
    free(want);
    lone_destroy(&lone);
}

static void
a_donor_that_goes_on_makes_it_begin_anew(void **state)
{
    (void)state;
    struct lone *lone = behind();
    uint8_t *old = state_of(9), *want = state_of(10);
    for (uint64_t b = 0; b < 3; b++)
        give(lone, 7, old, 9, b);
    give(lone, 7, want, 10, 3);
    assert_int_equal(asked(lone, 7), 0);
    give(lone, 7, old, 9, 3); /* late */
    for (uint64_t b = 0; b < BLOCKS; b++)
        give(lone, 7, want, 10, b);
    assert_int_equal(lone->round, 10);
    assert_memory_equal(lone->state_in, want, SIZE);
    free(old);
    free(want);
    lone_destroy(&lone);
}

static void
a_silent_donor_is_left_for_another(void **state)
{
    (void)state;
    struct lone *lone = behind();
    lone_meet(lone, 8);
    lone_run_with(lone, 700, (unsigned[]){7, 8}, 2, 9, true);
    assert_int_equal(lone_sent_count(lone, 7, PROTO_FETCH), FETCH_TRIES);
    assert_true(lone_sent_count(lone, 8, PROTO_FETCH) > 0);
    lone_destroy(&lone);
}

static void
a_state_with_a_wrong_hash_is_thrown_away(void **state)
{
    (void)state;
    struct lone *lone = behind();
    uint8_t *want = state_of(9);
    for (uint64_t b = 0; b < BLOCKS; b++)
        give(lone, 7, want, 9, b);
    assert_true(lone->adopt);
    lone->adopt = false;
    lone_forget_sent(lone);
    core_on_state_bad(lone->core, lone->now);
    lone_run_with(lone, 500, (unsigned[]){7}, 1, 9, true);
    assert_null(lone_sent(lone, 7, PROTO_FETCH));
    lone_meet(lone, 8);
    lone_beat(lone, 8, 9, true);
    assert_int_equal(asked(lone, 8), 0);
    free(want);
    lone_destroy(&lone);
}

static void
blocks_that_nobody_asked_for_are_ignored(void **state)
{
    (void)state;
    struct lone *lone = behind();
    lone_meet(lone, 8);
    uint8_t *want = state_of(9);
    give(lone, 8, want, 9, 0); /* not the donor */
    give(lone, 7, want, 0, 0); /* not ahead */
    size_t size;
    struct proto_msg msg = block_of(want, 9, 0, &size);
    struct core_frame frame = {want, size, lone};
#define SPOILT(field, value)                                                                       \
    do {                                                                                           \
        struct proto_msg bad = msg;                                                                \
        bad.state.field = (value);                                                                 \
        core_on_bulk(lone->core, lone->now, lone_node(lone, 7), &bad, &frame);                     \
    } while (0)
    SPOILT(size, SIZE - 1);
    SPOILT(size, UINT64_MAX);
    SPOILT(block, BLOCKS);
    SPOILT(block, UINT64_MAX);
    SPOILT(block, BLOCKS - 1); /* which is shorter */
#undef SPOILT
    frame.size--;
    core_on_bulk(lone->core, lone->now, lone_node(lone, 7), &msg, &frame);
    uint8_t nothing[64] = {0};
    assert_memory_equal(lone->state_in, nothing, sizeof nothing);
    for (uint64_t b = 0; b < BLOCKS; b++)
        give(lone, 7, want, 9, b);
    assert_memory_equal(lone->state_in, want, SIZE);
    free(want);
    lone_destroy(&lone);
}

static void
a_state_is_served_by_windows_and_not_while_it_changes(void **state)
{
    (void)state;
    struct lone *lone =
        lone_new(&(struct lone_setup){.id = 5, .state_size = SIZE, .unstarted = true});
    lone_meet(lone, 7);
    struct proto_msg ask = {.type = PROTO_FETCH, .fetch = {.round = 0, .block = 8}};
    lone_say(lone, 7, &ask);
    assert_null(lone_sent(lone, 7, PROTO_STATE)); /* nothing to give yet */
    core_on_applied(lone->core, lone->now, 4, 1004, 0, false);
    lone_say(lone, 7, &ask);
    assert_int_equal(lone_sent_count(lone, 7, PROTO_STATE), BLOCKS - 8);
    const struct lone_sent *sent = lone_sent(lone, 7, PROTO_STATE);
    assert_int_equal(sent->body_size, SIZE % PROTO_BLOCK_MAX);
    assert_int_equal(sent->msg.state.round, 4);
    assert_int_equal(sent->buffer, -1);
    for (int k = 0; k < 1000; k++)
        lone_say(lone, 7, &ask); /* a storm */
    assert_int_equal(lone_sent_count(lone, 7, PROTO_STATE), BLOCKS - 8);
    ask.fetch.round = 4; /* not behind */
    lone_run(lone, 100);
    lone_say(lone, 7, &ask);
    assert_int_equal(lone_sent_count(lone, 7, PROTO_STATE), BLOCKS - 8);
    lone_destroy(&lone);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_come_in_windows_and_make_the_whole),
        cmocka_unit_test(what_is_lost_or_broken_is_asked_for_again),
        cmocka_unit_test(a_donor_that_goes_on_makes_it_begin_anew),
        cmocka_unit_test(a_silent_donor_is_left_for_another),
        cmocka_unit_test(a_state_with_a_wrong_hash_is_thrown_away),
        cmocka_unit_test(blocks_that_nobody_asked_for_are_ignored),
        cmocka_unit_test(a_state_is_served_by_windows_and_not_while_it_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

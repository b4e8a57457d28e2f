/* Sets of tickets, and leases: each ticket to one member at a time, none beyond the bound, none twice. */
#include "mesh/core/push/push_tickets.h"
#include "tests/support/test.h"

#include "tests/support/rand.h"

enum { WIDE = 3 * PUSH_WINDOW };

TEST(a_set_has_what_was_added_and_its_floor_follows)
{
    struct push_set set = {0};
    assert_true(push_set_add(&set, 1));
    assert_false(push_set_add(&set, 1));
    assert_int_equal(set.floor, 0);
    assert_int_equal(push_set_count(&set), 1);
    assert_true(push_set_add(&set, 0));
    assert_int_equal(set.floor, 2);
    assert_true(push_set_has(&set, 0) && push_set_has(&set, 1) && !push_set_has(&set, 2));
    assert_false(push_set_add(&set, 2 + PUSH_WINDOW)); /* beyond the window */
    assert_true(push_set_add(&set, 1 + PUSH_WINDOW));
    assert_int_equal(push_set_count(&set), 3);
}

TEST(a_set_agrees_with_a_list_of_all_tickets)
{
    static bool has[WIDE];
    struct push_set set = {0};
    struct rand rand = {.state = 5};
    uint64_t count = 0, floor = 0;
    for (int k = 0; k < 200000; k++) {
        uint64_t ticket = floor + rand_below(&rand, rand_below(&rand, 2) ? 8 : PUSH_WINDOW + 100);
        if (ticket >= WIDE)
            continue;
        bool fits = !has[ticket] && ticket - floor < PUSH_WINDOW;
        assert_int_equal(push_set_has(&set, ticket), has[ticket]);
        assert_int_equal(push_set_add(&set, ticket), fits);
        count += fits;
        has[ticket] |= fits;
        while (floor < WIDE && has[floor])
            floor++;
        assert_int_equal(set.floor, floor);
        if (k % 97 == 0)
            assert_int_equal(push_set_count(&set), count);
    }
}

TEST(a_set_travels_as_bytes_and_any_bytes_are_a_set)
{
    uint8_t bytes[PUSH_SET_SIZE];
    struct push_set set = {0}, got;
    push_set_raise(&set, 5000);
    push_set_add(&set, 5003);
    push_set_write(&set, bytes);
    push_set_read(&got, bytes);
    assert_memory_equal(&set, &got, sizeof set);
    memset(bytes, 0xff, sizeof bytes);
    push_set_read(&got, bytes);
    assert_false(push_set_has(&got, got.floor)); /* a floor is never in the set */
    assert_true(push_set_add(&got, got.floor));
}

TEST(raising_a_set_keeps_what_lies_above)
{
    struct push_set set = {0};
    push_set_add(&set, 10);
    push_set_add(&set, 12);
    push_set_raise(&set, 10);
    assert_int_equal(set.floor, 11);
    assert_true(push_set_has(&set, 12));
    push_set_raise(&set, 3);
    assert_int_equal(set.floor, 11);
    push_set_raise(&set, 11 + 2 * PUSH_WINDOW);
    assert_int_equal(push_set_count(&set), 11 + 2 * PUSH_WINDOW);
}

static struct push_leases *
leases_of(uint64_t tickets, unsigned per_step, uint64_t bound)
{
    struct push_leases *leases = calloc(1, sizeof *leases);
    assert_non_null(leases);
    leases->tickets = tickets;
    leases->per_step = per_step;
    leases->bound = bound;
    return leases;
}

static struct awake now = {1000};

/* Another one, as it has got all that it was given. */
static uint64_t
take(struct push_leases *leases, unsigned rank)
{
    return push_leases_take(leases, rank, leases->of[rank].number, now);
}

TEST(a_ticket_is_leased_to_one_member_until_it_is_done)
{
    OWNED(memory_free) struct push_leases *leases = leases_of(5, 2, PUSH_UNBOUND);
    assert_int_equal(take(leases, 0), 1);
    assert_int_equal(take(leases, 1), 2);
    assert_int_equal(push_leases_take(leases, 0, 0, now), 1); /* it did not get it: the same */
    assert_false(push_leases_done(leases, 1, 0, false, now)); /* not its ticket */
    assert_true(push_leases_done(leases, 0, 0, false, now));
    assert_false(push_leases_done(leases, 0, 0, false, now));
    assert_int_equal(push_leases_take(leases, 0, 0, now), 3); /* it is done: another one */
    assert_int_equal(take(leases, 2), 4);
    assert_int_equal(take(leases, 0), 5);
    assert_int_equal(take(leases, 3), 0); /* all are leased: it waits */
    assert_int_equal(leases->waiting, 1 << 3);
    assert_false(push_leases_done(leases, 2, 3, true, now)); /* given back */
    assert_int_equal(take(leases, 3), 4);
    assert_int_equal(leases->waiting, 0);
}

TEST(with_bound_0_a_step_begins_when_the_one_before_is_done)
{
    OWNED(memory_free) struct push_leases *leases = leases_of(6, 2, 0);
    assert_int_equal(take(leases, 0), 1);
    assert_int_equal(take(leases, 1), 2);
    assert_true(push_leases_done(leases, 1, 1, false, now));
    assert_int_equal(take(leases, 1), 0);
    assert_true(push_leases_done(leases, 0, 0, false, now));
    assert_int_equal(take(leases, 1), 3);
}

TEST(nobody_is_ever_ahead_by_more_than_the_bound)
{
    struct rand rand = {.state = 9};
    for (uint64_t bound = 0; bound < 4; bound++) {
        OWNED(memory_free) struct push_leases *leases = leases_of(400, 5, bound);
        uint64_t left = 400;
        while (left > 0) {
            unsigned rank = (unsigned)rand_below(&rand, 7);
            uint64_t had = leases->of[rank].number; /* the last one again, until it is done */
            uint64_t in_hand = push_leases_take(leases, rank, had ? had - 1 : 0, now);
            if (in_hand)
                assert_true((in_hand - 1) / 5 <= leases->done.floor / 5 + bound);
            if (in_hand && rand_below(&rand, 3) == 0)
                left -= push_leases_done(leases, rank, in_hand - 1, false, now);
        }
        assert_int_equal(leases->done.floor, 400);
    }
}

TEST(what_members_have_in_hand_is_leased_to_them_in_a_new_group)
{
    OWNED(memory_free) struct push_leases *leases = leases_of(10, 2, PUSH_UNBOUND);
    push_leases_give(leases, 3, 1, now);
    push_leases_give(leases, 4, 10, now); /* there is no such ticket */
    assert_int_equal(take(leases, 0), 1);
    assert_int_equal(take(leases, 1), 3); /* not 2: member 3 has it */
    assert_int_equal(take(leases, 3), 4); /* beside 2 */
    push_leases_clear(leases);
    assert_int_equal(take(leases, 5), 1);
}

TEST(a_member_has_at_most_three_in_hand)
{
    OWNED(memory_free) struct push_leases *leases = leases_of(10, 2, PUSH_UNBOUND);
    for (uint64_t in_hand = 1; in_hand <= PUSH_HANDS; in_hand++)
        assert_int_equal(take(leases, 0), in_hand);
    assert_int_equal(take(leases, 0), 0);
    assert_int_equal(leases->waiting, 0); /* nobody's fault but its own */
    push_leases_give(leases, 0, 7, now);
    assert_int_equal(take(leases, 1), PUSH_HANDS + 1);
    assert_true(push_leases_done(leases, 0, 1, false, now));
    assert_int_equal(take(leases, 0), PUSH_HANDS + 2);
}

/* Member 0 takes 1 s for a ticket, member 1 takes 2 s, member 2 does none. */
TEST(what_a_member_has_had_for_too_long_is_leased_again_when_nothing_else_is_left)
{
    OWNED(memory_free) struct push_leases *leases = leases_of(5, 5, 0);
    struct awake at = {1};
    for (unsigned rank = 0; rank < 3; rank++)
        assert_int_equal(push_leases_take(leases, rank, 0, at), rank + 1);
    at.us += 1000000;
    assert_true(push_leases_done(leases, 0, 0, false, at));
    at.us += 1000000;
    assert_true(push_leases_done(leases, 1, 1, false, at));
    at.us += 8000000 - 2000000; /* 4 * 2 s since member 2 has its ticket */
    assert_int_equal(push_leases_take(leases, 1, 1, at), 4); /* there is another one */
    assert_int_equal(push_leases_take(leases, 0, 1, at), 5);
    assert_int_equal(push_leases_take(leases, 0, 2, at), 0); /* not yet */
    at.us++;
    assert_int_equal(push_leases_take(leases, 0, 2, at), 3);
    assert_int_equal(leases->overdue, 1);
    assert_false(push_leases_done(leases, 2, 2, false, at)); /* too late: it is member 0's */
    assert_true(push_leases_done(leases, 0, 2, false, at));
}

TEST(nobody_knows_how_long_the_first_ticket_takes)
{
    OWNED(memory_free) struct push_leases *leases = leases_of(1, 1, 0);
    struct awake at = {1};
    assert_int_equal(push_leases_take(leases, 0, 0, at), 1);
    at.us += PUSH_OVERDUE_FIRST_US;
    assert_int_equal(push_leases_take(leases, 1, 0, at), 0);
    at.us++;
    assert_int_equal(push_leases_take(leases, 1, 0, at), 1);
}

TEST(nothing_is_leased_from_the_held_ticket_on)
{
    OWNED(memory_free) struct push_leases *leases = leases_of(8, 2, PUSH_UNBOUND);
    const struct awake at = {1};
    leases->hold = 2;
    assert_int_equal(push_leases_take(leases, 0, 0, at), 1);
    assert_int_equal(push_leases_take(leases, 1, 0, at), 2);
    assert_int_equal(leases->end, 2);
    assert_int_equal(push_leases_take(leases, 2, 0, at), 0);
    assert_true(push_leases_done(leases, 0, 0, false, at) &&
                push_leases_done(leases, 1, 1, false, at));
    assert_int_equal(leases->done.floor, leases->hold);
    assert_int_equal(push_leases_take(leases, 2, 0, at), 0);
    leases->hold = 0;
    assert_int_equal(push_leases_take(leases, 2, 0, at), 3);
    assert_int_equal(leases->end, 3);
    push_leases_clear(leases);
    assert_int_equal(leases->end, 3); /* a new group, too, must know what was leased */
}

TEST(the_end_of_a_set_is_behind_its_highest_ticket)
{
    struct push_set set = {.floor = 0};
    assert_int_equal(push_set_end(&set), 0);
    set.floor = PUSH_WINDOW - 3;
    assert_int_equal(push_set_end(&set), PUSH_WINDOW - 3);
    for (uint64_t t = PUSH_WINDOW - 2; t < 2 * PUSH_WINDOW - 3; t += 61) {
        assert_true(push_set_add(&set, t));
        assert_int_equal(push_set_end(&set), t + 1);
    }
}

TEST(who_hangs_gets_nothing_before_it_has_done_something)
{
    OWNED(memory_free) struct push_leases *leases = leases_of(8, 2, PUSH_UNBOUND);
    struct awake at = {1};
    leases->hold = 1;
    assert_int_equal(push_leases_take(leases, 0, 0, at), 1);
    at.us += PUSH_OVERDUE_FIRST_US + 1;
    assert_int_equal(push_leases_take(leases, 1, 0, at), 1);
    leases->hold = 0;
    assert_int_equal(push_leases_take(leases, 0, 1, at), 0);
    assert_false(push_leases_done(leases, 0, 0, false, at)); /* too late, but it works */
    assert_int_equal(push_leases_take(leases, 0, 1, at), 2);
}

/* Records of what a node did with servers that do not wait: read as they were written, a few bytes each, and refused
 * when no node wrote them. */
#include "node/train/push_journal.h"
#include "tests/support/test.h"

#include "tests/support/rand.h"

enum { RANGES = 5, RECORDS = 20000 };

static struct push_journal writer, reader;

FIXTURE(setup)
{
    push_journal_fini(&writer);
    push_journal_fini(&reader);
    return push_journal_init(&writer, RANGES) || push_journal_init(&reader, RANGES);
}

FIXTURE(teardown)
{
    push_journal_fini(&writer);
    push_journal_fini(&reader);
    return 0;
}

TEST_EACH(setup, NULL)
TEST_ALL(NULL, teardown)

/* What a range takes next: mostly it goes on, sometimes it was adopted from another node, or any values. */
static struct push_taken
next(struct rand *rand, const struct push_taken *last)
{
    struct push_taken taken = {.range = last->range,
                               .ticket = last->ticket + rand_below(rand, 9),
                               .number = last->number + rand_below(rand, 3),
                               .who = {1 + rand_below(rand, 80), rand_below(rand, 2)},
                               .count = last->count + 1,
                               .tau = rand_below(rand, 4),
                               .updates = rand_below(rand, 2),
                               .before = last->after};
    if (rand_below(rand, 20) == 0) {
        taken.before = rand_u64(rand);
        taken.count = rand_u64(rand) >> 16;
        taken.ticket = rand_u64(rand) >> 16;
        taken.number = rand_u64(rand) >> 16;
        taken.tau = rand_u64(rand) >> 16;
    }
    taken.after = push_taken_after(&taken);
    return taken;
}

static void
assert_same(const struct push_taken *a, const struct push_taken *b)
{
    assert_true(a->range == b->range && a->updates == b->updates);
    assert_true(a->ticket == b->ticket && a->number == b->number);
    assert_true(a->who.id == b->who.id && a->who.incarnation == b->who.incarnation);
    assert_true(a->count == b->count && a->tau == b->tau);
    assert_true(a->before == b->before && a->after == b->after);
}

TEST(what_is_written_is_read)
{
    struct rand rand = {.state = 4};
    struct push_taken last[RANGES] = {{0}}, got;
    const uint8_t *histories;
    uint64_t ticket, number;
    for (int k = 0; k < RECORDS; k++) {
        uint8_t out[PUSH_TAKEN_MAX], computed[PUSH_COMPUTED_HEAD_MAX + 8 * RANGES] = {0};
        unsigned range = (unsigned)rand_below(&rand, RANGES);
        last[range].range = range;
        struct push_taken taken = last[range] = next(&rand, &last[range]);
        size_t size = push_journal_put_taken(&writer, &taken, out);
        assert_true(push_journal_get_taken(&reader, out, size, &got));
        assert_same(&got, &taken);
        size = push_journal_put_computed(&writer, taken.ticket / 2, taken.number / 2, computed);
        assert_true(push_journal_get_computed(&reader, computed, size + 8 * RANGES, &ticket,
                                              &number, &histories));
        assert_true(ticket == taken.ticket / 2 && number == taken.number / 2);
        assert_ptr_equal(histories, computed + size);
        if (rand_below(&rand, 500) == 0) {
            push_journal_start(&writer);
            push_journal_start(&reader);
        }
    }
}

TEST(a_gradient_after_the_other_is_a_few_bytes)
{
    uint8_t out[PUSH_TAKEN_MAX];
    struct push_taken taken = {.range = 3, .ticket = 100000, .number = 30000, .who = {7, 1}};
    for (int k = 0; k < 10; k++) {
        size_t size = push_journal_put_taken(&writer, &taken, out);
        assert_true(k == 0 || size == 5);
        taken.before = push_taken_after(&taken);
        taken.count++;
        taken.ticket += 3;
        taken.number++;
    }
}

TEST(a_record_that_is_cut_off_or_goes_on_from_nothing_is_refused)
{
    struct push_taken taken = {.range = 1, .ticket = 5, .who = {7, 1}, .count = 2, .before = 9},
                      got;
    uint8_t out[PUSH_TAKEN_MAX + 1];
    size_t size = push_journal_put_taken(&writer, &taken, out);
    for (size_t cut = 0; cut < size; cut++, push_journal_start(&reader))
        assert_false(push_journal_get_taken(&reader, out, cut, &got));
    assert_false(push_journal_get_taken(&reader, out, size + 1, &got));
    push_journal_start(&reader);
    assert_true(push_journal_get_taken(&reader, out, size, &got));
    taken.before = push_taken_after(&taken);
    taken.count++;
    size = push_journal_put_taken(&writer, &taken, out);
    assert_true(push_journal_get_taken(&reader, out, size, &got));
    push_journal_start(&reader); /* this start knows of no gradient before */
    assert_false(push_journal_get_taken(&reader, out, size, &got));
    out[0] = 4 * RANGES; /* there is no such range */
    push_journal_start(&reader);
    assert_false(push_journal_get_taken(&reader, out, size, &got));
}

/* Any bytes: nothing is read beyond them. */
TEST(any_bytes_are_read_or_refused)
{
    struct rand rand = {.state = 8};
    struct push_taken got;
    const uint8_t *histories;
    uint64_t ticket, number;
    for (int k = 0; k < 200000; k++) {
        size_t size = rand_below(&rand, PUSH_TAKEN_MAX);
        OWNED(memory_free) uint8_t *data = malloc(size ? size : 1);
        assert_non_null(data);
        for (size_t b = 0; b < size; b++)
            data[b] = (uint8_t)(rand_below(&rand, 3) ? rand_below(&rand, 8) : rand_u64(&rand));
        push_journal_get_taken(&reader, data, size, &got);
        assert_true(got.range < RANGES);
        push_journal_get_restored(&reader, data, size, &got);
        assert_true(got.range < RANGES);
        push_journal_get_computed(&reader, data, size, &ticket, &number, &histories);
    }
}

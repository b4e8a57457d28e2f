/* What the slots of a total say, and that what contradicts the job is refused. */
#include <errno.h>

#include "nn/data.h"
#include "node/train/ledger.h"
#include "tests/support/test.h"

enum { SHARDS = 5, TRAIN = 3000 };

static const struct ledger_step step = {.seed = 9,
                                        .train = TRAIN,
                                        .shards = SHARDS,
                                        .epoch = 2,
                                        .first = 600,
                                        .rows = 1357,
                                        .batch = 1357};

/* A shard's samples, `shift` positions from where they are. */
static uint64_t
rows_of(unsigned shard, uint64_t shift)
{
    static uint32_t index[TRAIN];
    size_t n = 0;
    uint64_t end = step.first + step.rows * (shard + 1) / SHARDS;
    for (uint64_t at = step.first + step.rows * shard / SHARDS; at < end; at++)
        index[n++] = data_shuffle(step.seed, step.epoch, (uint32_t)(at + shift), TRAIN);
    return ledger_rows(shard, index, n);
}

static void
fill(int32_t slots[SHARDS * LEDGER_WORDS])
{
    memset(slots, 0, sizeof(int32_t) * ledger_words(SHARDS));
    for (unsigned s = 0; s < SHARDS; s++)
        ledger_add(slots, s, rows_of(s, 0), UINT64_C(0x80000001fffffff0) + s);
}

TEST(the_samples_of_the_step_pass)
{
    int32_t slots[SHARDS * LEDGER_WORDS];
    struct why why;
    fill(slots);
    assert_int_equal(ledger_verify(slots, 1, &step, &why), 0);
    assert_int_equal(ledger_coverage(slots, SHARDS), 0x1f);
    assert_true(ledger_shard_check(slots, 3) == UINT64_C(0x80000001fffffff3));
    /* 5 * 0xfffffff0 + 10 and 5 * 0x80000001, each modulo 2^32 */
    assert_true(ledger_check(slots, SHARDS) == UINT64_C(0x80000005ffffffba));
}

TEST(a_shard_that_is_missing_or_counted_twice_is_named)
{
    int32_t slots[SHARDS * LEDGER_WORDS];
    struct why why;
    fill(slots);
    ledger_add(slots, 3, 0, 0);
    assert_int_equal(ledger_verify(slots, 1, &step, &why), -EBADMSG);
    assert_string_equal(why.line, "shard 3 was counted 2 times");
    assert_int_equal(ledger_coverage(slots, SHARDS), 0x17);
    memset(slots, 0, sizeof slots);
    assert_int_equal(ledger_verify(slots, 1, &step, &why), -EBADMSG);
    assert_string_equal(why.line, "shard 0 was counted 0 times");
}

TEST(other_samples_are_refused)
{
    int32_t slots[SHARDS * LEDGER_WORDS];
    struct why why;
    for (unsigned wrong = 0; wrong < SHARDS; wrong++) {
        memset(slots, 0, sizeof slots);
        for (unsigned s = 0; s < SHARDS; s++)
            ledger_add(slots, s, rows_of(s, s == wrong), 0);
        assert_int_equal(ledger_verify(slots, 1, &step, &why), -EBADMSG);
        assert_non_null(strstr(why.line, "from other samples than its own"));
    }
}

TEST(every_flipped_bit_of_counts_and_rows_is_refused)
{
    int32_t slots[SHARDS * LEDGER_WORDS];
    struct why why;
    for (unsigned bit = 0; bit < SHARDS * LEDGER_WORDS * 32; bit++) {
        fill(slots);
        uint64_t check = ledger_check(slots, SHARDS);
        slots[bit / 32] = (int32_t)((uint32_t)slots[bit / 32] ^ 1u << bit % 32);
        assert_true(ledger_verify(slots, 1, &step, &why) != 0 ||
                    ledger_check(slots, SHARDS) != check);
    }
}

TEST(steps_of_other_samples_have_other_hashes)
{
    struct ledger_step other = step;
    uint64_t hash = ledger_step_expected(&step);
    assert_true(ledger_step_expected(&other) == hash);
    other.epoch++;
    assert_true(ledger_step_expected(&other) != hash);
    other = step, other.first++;
    assert_true(ledger_step_expected(&other) != hash);
    other = step, other.rows--;
    assert_true(ledger_step_expected(&other) != hash);
}

TEST(the_chain_tells_every_order_apart)
{
    uint64_t a = ledger_chain(ledger_chain(0, 0, 11), 1, 12);
    assert_true(a != ledger_chain(ledger_chain(0, 0, 12), 1, 11));
    assert_true(a != ledger_chain(0, 1, 12));
    assert_true(a != ledger_chain(a, 1, 12));
}

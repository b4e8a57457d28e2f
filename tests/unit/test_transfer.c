/* What both sides of catching up compute in the same way. */
#include "mesh/core/internal.h"
#include "tests/support/lone.h"
#include "tests/support/test.h"

enum { BLOCK = 16, SIZE_MAX_HERE = 100 };

TEST(an_empty_state_is_one_empty_block)
{
    struct core_config config = {.state_size = 0, .block_size = BLOCK};
    OWNED(transfer_fini) struct transfer transfer;
    assert_int_equal(transfer_init(&transfer, &config, NULL), 0);
    assert_int_equal(transfer.blocks, 1);
    assert_int_equal(transfer_state_block(&transfer, 0).size, 0);
    assert_int_equal(transfer_state_count(&transfer, 1), 1);
}

TEST(the_blocks_are_the_state_without_gap_or_overlap)
{
    for (size_t size = 1; size <= SIZE_MAX_HERE; size++) {
        struct core_config config = {.state_size = size, .block_size = BLOCK};
        OWNED(transfer_fini) struct transfer transfer;
        size_t at = 0;
        assert_int_equal(transfer_init(&transfer, &config, NULL), 0);
        for (uint64_t b = 0; b < transfer.blocks; b++) {
            struct transfer_block block = transfer_state_block(&transfer, b);
            assert_int_equal(block.offset, at);
            assert_int_equal(block.segment, CORE_ALL_HOLD);
            assert_in_range(block.size, 1, BLOCK);
            at += block.size;
        }
        assert_int_equal(at, size);
        assert_int_equal(transfer_state_count(&transfer, 1), transfer.blocks);
    }
}

/* A header, two vectors of three segments, of which one has nothing in the second. */
static const struct core_span spans[] = {{0, 20, CORE_ALL_HOLD},
                                         {20, 40, 0},
                                         {60, 1, 1},
                                         {61, 33, 2},
                                         {94, 6, 0},
                                         {100, 0, 1},
                                         {100, 16, 2}};
enum { SPANS = sizeof spans / sizeof spans[0], SEGMENTS = 3 };

TEST(the_blocks_of_each_span_are_it_and_no_block_is_of_two)
{
    struct core_config config = {
        .state_size = 116,
        .block_size = BLOCK,
        .stages = {.spans = spans, .span_count = SPANS},
    };
    OWNED(transfer_fini) struct transfer transfer;
    uint64_t b = 0, of[SEGMENTS] = {0}, all = 0;
    assert_int_equal(transfer_init(&transfer, &config, NULL), 0);
    for (size_t k = 0; k < SPANS; k++)
        for (size_t at = 0; at < spans[k].size; at += BLOCK, b++) {
            struct transfer_block block = transfer_state_block(&transfer, b);
            size_t rest = spans[k].size - at;
            assert_int_equal(block.offset, spans[k].offset + at);
            assert_int_equal(block.size, rest < BLOCK ? rest : BLOCK);
            assert_int_equal(block.segment, spans[k].segment);
            all += block.segment == CORE_ALL_HOLD;
            for (int s = 0; s < SEGMENTS; s++)
                of[s] += block.segment == s;
        }
    assert_int_equal(b, transfer.blocks);
    for (uint64_t held = 1; held < 1 << SEGMENTS; held++) {
        uint64_t count = all;
        for (int s = 0; s < SEGMENTS; s++)
            count += held >> s & 1 ? of[s] : 0;
        assert_int_equal(transfer_state_count(&transfer, held), count);
    }
}

TEST(a_total_has_the_buckets_that_the_round_exchanges)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    const struct core *core = lone->core;
    size_t last = core->config.bucket_count - 1;
    uint64_t all = 0;
    for (size_t b = 0; b <= last; b++)
        all += 4 * core->buckets[b].count;
    assert_int_equal(transfer_total_size(&core->transfer, 0, 1), all);
    assert_int_equal(transfer_total_size(&core->transfer, last, 1), 4 * core->buckets[last].count);
}

/* Six buckets of three segments: 5 of the output's, none of the middle one's, 20 and 3 of the input's; the last is of
 * all. */
static const struct core_bucket buckets[] = {{26, 4}, {25, 1}, {25, 0}, {5, 20}, {2, 3}, {0, 2}};
static const struct core_cut cuts[] = {{2, 1}, {3, 1}};
enum { BUCKETS = sizeof buckets / sizeof buckets[0] };

static int
segment_of(size_t bucket)
{
    return bucket < 2 ? 2 : bucket < 3 ? 1 : bucket < 5 ? 0 : CORE_ALL_HOLD;
}

static const struct core_config in_segments = {
    .block_size = BLOCK,
    .bucket_count = BUCKETS,
    .stages = {.cuts = cuts, .cut_count = 2},
};

/* The words of a total that a node gets which holds these segments, in their order; each says where it is in a total of
 * all. */
static size_t
words_of(size_t first, uint64_t segments, size_t *words)
{
    size_t count = 0, at = 0;
    for (size_t b = 0; b < BUCKETS; b++)
        for (uint64_t e = 0; e < buckets[b].count; e++, at++)
            if (b >= first && transfer_has(segments, segment_of(b)))
                words[count++] = at;
    return count;
}

TEST(a_total_of_some_segments_has_their_buckets_and_the_last_one)
{
    OWNED(transfer_fini) struct transfer transfer;
    size_t words[64];
    assert_int_equal(transfer_init(&transfer, &in_segments, buckets), 0);
    for (uint64_t held = 0; held < 1 << SEGMENTS; held++)
        for (size_t first = 0; first < BUCKETS; first += BUCKETS - 1) {
            size_t count = words_of(first, held, words), k = 0;
            uint64_t blocks = transfer_total_count(&transfer, first, held);
            assert_int_equal(transfer_total_size(&transfer, first, held), 4 * count);
            for (uint64_t b = 0; b < blocks; b++) {
                struct transfer_block block = transfer_total_block(&transfer, first, held, b);
                assert_in_range(block.size, 4, BLOCK);
                assert_int_equal(transfer_total_before(&transfer, first, held, block.offset),
                                 4 * k);
                for (size_t at = 0; at < block.size; at += 4)
                    assert_int_equal(4 * words[k++], block.offset + at);
            }
            assert_int_equal(k, count);
            assert_int_equal(transfer_total_block(&transfer, first, held, blocks).size, 0);
        }
}

TEST(the_check_is_over_the_body_and_each_field)
{
    const struct proto_give give = {
        .object = PROTO_OBJECT_TOTAL, .round = 3, .label = 4, .block = 5};
    const uint64_t check = transfer_check(&give, 1, "abc", 3);
    struct proto_give other[] = {give, give, give, give, give, give};
    other[0].object++, other[1].round++, other[2].label++, other[3].block++;
    other[4].commit++, other[5].coding++;
    for (int k = 0; k < 6; k++)
        assert_true(transfer_check(&other[k], 1, "abc", 3) != check);
    assert_true(transfer_check(&give, 2, "abc", 3) != check);
    assert_true(transfer_check(&give, 1, "abd", 3) != check);
}

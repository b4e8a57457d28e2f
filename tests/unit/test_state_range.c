/* test_state_range.c - states that hold ranges of one vector: together they are the whole state, and what they do not
 * hold takes no memory. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compress/check.h"
#include "nn/data.h"
#include "node/train/ledger.h"
#include "node/train/state.h"
#include "tests/support/rand.h"
#include "tests/support/saver.h"
#include "tests/support/test.h"

enum { SHARDS = 4, TENSORS = 7, CUT = 4, ROUNDS = 12, WHOLE = 2, POISON = 0x3fffffff };
enum { HALVES = (1 << CUT) - 1, ALL = (1 << TENSORS) - 1, LEDGERS = TENSORS + 1, RANDOM = 4 };

/* The cut is at block 101: 64 blocks are one item of work. */
static const size_t elements[TENSORS] = {70000, 5, 30000, 1, 90000, 60000, 45001};

static struct exact *exact;
static struct pool *pool;
static size_t params, blocks;

/* Of two parts and of the whole. */
struct trio {
    struct state now[3], next[3];
    struct state_event event[3];
    struct state_stages stages; /* those of each part by turns */
    int32_t *total[3];          /* what a part does not hold is poison */
    int32_t *own[2];            /* for the summary */
    size_t vector;
    float *average;
    struct rand rand;
};

static struct state_job
job_of(const struct optim_spec *optim, const float *average)
{
    return (struct state_job){
        .rules.optim = *optim,
        .rules.epochs = 9,
        .rules.eval_every = 1,
        .shards = SHARDS,
        .ledgers = LEDGERS,
        .batch = 8,
        .local_steps = 1,
        .train = 20,
        .test = 6,
        .average = average,
        .labels = 1,
    };
}

static size_t
first_of(const struct state *state)
{
    return state->held[0].first;
}

static size_t
end_of(const struct state *state)
{
    return state->held[state->held_count - 1].end;
}

static struct state_range
tensor_range(size_t tensor)
{
    return (struct state_range){exact_block_first(exact, exact_tensor_first(exact, tensor)),
                                exact_block_first(exact, exact_tensor_first(exact, tensor + 1))};
}

/* The tensors of a bitmap, each by itself. */
static size_t
ranges_of(unsigned tensors, struct state_range range[TENSORS])
{
    size_t count = 0;
    for (size_t t = 0; t < TENSORS; t++)
        if (tensors >> t & 1)
            range[count++] = tensor_range(t);
    return count;
}

static bool
holds_element(const struct state *state, size_t element)
{
    return state_holds(state, &(struct state_range){element, element + 1});
}

/* Large pages would be there as a whole. */
static void
hold(struct state *state, const struct state_job *job, unsigned tensors)
{
    struct state_range range[TENSORS];
    assert_int_equal(state_init(state, job, exact, params), 0);
    madvise(state->block, state->size, MADV_NOHUGEPAGE);
    state_hold(state, range, ranges_of(tensors, range));
}

/* As before the first round. */
static void
start(struct state *state)
{
    state_start(state);
    for (size_t i = 0; i < state->held_count; i++)
        for (size_t k = state->held[i].first; k < state->held[i].end; k++)
            state->params[k] = (float)(k % 1000) * 1e-3f - 0.5f;
    state_rehash(state, pool);
}

/* A stage ends where a tensor of the other part begins. */
static void
cut(struct state_stages *stages, unsigned tensors)
{
    stages->count = 0;
    for (size_t t = 0; t < TENSORS; t++) {
        if (t == 0 || (tensors >> t & 1) != (tensors >> (t - 1) & 1))
            stages->stage[stages->count++] = tensor_range(t);
        stages->stage[stages->count - 1].end = tensor_range(t).end;
    }
}

/* One part has these tensors, the other one the rest. */
static void
begin(struct trio *trio, const struct optim_spec *optim, unsigned tensors)
{
    const unsigned held[] = {tensors, ALL & ~tensors, ALL};
    *trio = (struct trio){.rand = {11 + tensors}, .average = calloc(blocks, sizeof(float))};
    trio->average[exact_tensor_first(exact, 2)] = 0.25f;
    struct state_job job = job_of(optim, trio->average);
    trio->vector = params + state_tail(blocks) + state_behind(&job, blocks);
    cut(&trio->stages, tensors);
    for (size_t i = 0; i < 3; i++) {
        hold(&trio->now[i], &job, held[i]);
        hold(&trio->next[i], &job, held[i]);
        start(&trio->now[i]);
        trio->total[i] = calloc(trio->vector, sizeof(int32_t));
    }
    for (size_t i = 0; i < 2; i++)
        trio->own[i] = calloc(trio->vector, sizeof(int32_t));
}

static void
finish(struct trio *trio)
{
    for (size_t i = 0; i < 3; i++) {
        state_fini(&trio->now[i]);
        state_fini(&trio->next[i]);
        free(trio->total[i]);
    }
    free(trio->own[0]);
    free(trio->own[1]);
    free(trio->average);
}

static uint64_t
rows_of(const struct state *state, unsigned shard)
{
    uint32_t index[8];
    uint64_t first = state->header->epoch_step * 8, rows = state_rows(state), n = 0;
    for (uint64_t at = rows * shard / SHARDS; at < rows * (shard + 1) / SHARDS; at++)
        index[n++] = data_shuffle(0, state->header->epoch, (uint32_t)(first + at), 20);
    return ledger_rows(shard, index, n);
}

/* Each shard in each stage. The first one has the checksum of them all. */
static void
count_shards(const struct trio *trio, int32_t *total)
{
    const struct state *whole = &trio->now[WHOLE];
    int32_t *slots = total + params + state_tail(blocks);
    for (size_t s = 0; s < trio->stages.count; s++, slots += ledger_words(SHARDS)) {
        const struct state_range *range = &trio->stages.stage[s];
        for (unsigned shard = 0; shard < SHARDS; shard++)
            ledger_add(
                slots, shard, rows_of(whole, shard),
                shard ? 0
                      : check_of(total + range->first, range->first, range->end - range->first));
    }
}

/* The total of a round: some are too large for a block of the second range, one is not finite. */
static void
make_totals(struct trio *trio, size_t round)
{
    const struct state *whole = &trio->now[WHOLE];
    int32_t *total = trio->total[WHOLE], *tail = total + params;
    OWNED(memory_free) float *g = malloc(params * sizeof *g);
    for (size_t k = 0; k < params; k++)
        g[k] = (float)rand_real(&trio->rand) - 0.5f;
    if (round == 2)
        g[params - 7] = 1e5f;
    if (round == 5 || round == 6) /* one of them is no evaluation */
        g[3] = NAN;
    memset(total, 0, trio->vector * sizeof *total);
    if (whole->header->phase == STATE_TRAIN) {
        exact_add(exact, whole->exponent, 0, g, params, 1, 0, total, tail + TAIL_OVER,
                  tail + TAIL_BAD, NULL);
        count_shards(trio, total);
    }
    state_tail_add(tail, state_rows(whole), &(struct nn_result){.loss = 2, .correct = 3});
    state_tail_seal(tail, blocks, 0);
    for (size_t i = 0; i < 2; i++) {
        memcpy(trio->total[i], total, trio->vector * sizeof *total);
        for (size_t k = 0; k < params; k++)
            if (!holds_element(&trio->now[i], k))
                trio->total[i][k] = POISON;
    }
}

/* Tensor after tensor, from the last one down, as they come in a run, but for every third. */
static void
apply_early(struct trio *trio, size_t i)
{
    for (size_t t = TENSORS; t-- > 0;) {
        struct state_range range = tensor_range(t);
        if (t % 3 && state_holds(&trio->now[i], &range))
            state_apply(&trio->next[i], &trio->now[i], trio->total[i], range.first,
                        range.end - range.first, pool);
    }
}

/* Stages are spoken of by their holders, the whole by nobody: the last bucket adds that up. */
static void
exchange_summaries(struct trio *trio)
{
    size_t first = params + state_tail(blocks) + LEDGERS * ledger_words(SHARDS);
    for (size_t i = 0; i < 2; i++) {
        uint64_t mine = 0;
        for (size_t s = 0; s < trio->stages.count; s++)
            mine |= (uint64_t)state_holds(&trio->now[i], &trio->stages.stage[s]) << s;
        memset(trio->own[i] + first, POISON, (trio->vector - first) * sizeof(int32_t));
        state_summary_write(&trio->next[i], &trio->now[i], &trio->stages, mine,
                            state_needs_squares(&trio->now[i]), trio->own[i]);
    }
    for (size_t i = 0; i < 3; i++)
        for (size_t k = first; k < trio->vector; k++)
            trio->total[i][k] = (int32_t)((uint32_t)trio->own[0][k] + (uint32_t)trio->own[1][k]);
}

static void
same_as_whole(const struct state *part, const struct state *whole)
{
    struct state_extent extent[STATE_EXTENTS_MAX];
    size_t count = state_extents(part, extent);
    bool from_first = part->held[0].first == 0, to_last = end_of(part) == params;
    size_t joined = from_first + (from_first && to_last ? part->slot_count + 1 : 0);
    assert_int_equal(count, 1 + part->held_count * (part->slot_count + 2) - joined);
    for (size_t i = 0; i < count; i++)
        assert_memory_equal(part->block + extent[i].offset, whole->block + extent[i].offset,
                            extent[i].size);
}

static void
one_round(struct trio *trio, size_t round)
{
    uint64_t hash[3], coverage, before = state_hash(&trio->now[WHOLE], pool);
    struct why why;
    struct state_stages stages;
    bool early = false;
    make_totals(trio, round);
    for (size_t i = 0; i < 3; i++)
        state_squares(&trio->next[i], &trio->now[i], trio->total[i], pool);
    exchange_summaries(trio);
    for (size_t i = 0; i < 3; i++) {
        early = state_begin(&trio->next[i], &trio->now[i], trio->total[i], &trio->event[i]);
        if (early)
            apply_early(trio, i);
        assert_in_range(state_known(&trio->next[i]), first_of(&trio->now[i]), params);
        assert_int_equal(state_summary_stages(&trio->now[i], trio->total[i], &stages, &why), 0);
        assert_int_equal(stages.count, trio->stages.count);
        assert_memory_equal(stages.stage, trio->stages.stage, stages.count * sizeof *stages.stage);
        assert_int_equal(
            state_summary_take(&trio->next[i], &trio->now[i], &stages, trio->total[i], &why), 0);
    }
    for (size_t i = 0; i < 3; i++) {
        hash[i] = state_finish(&trio->next[i], &trio->now[i], trio->total[i], pool);
        assert_int_equal(hash[i], state_hash(&trio->next[i], pool));
        assert_int_equal(trio->next[i].header->parent, before);
        if (trio->event[i].stepped && !trio->event[i].skipped)
            assert_int_equal(state_known(&trio->next[i]), params);
        assert_memory_equal(&trio->event[i], &trio->event[WHOLE], sizeof trio->event[i]);
        assert_int_equal(
            state_check_counts(&trio->now[i], &trio->stages, trio->total[i], &coverage, &why), 0);
        assert_int_equal(state_check_gradients(&trio->next[i], &trio->now[i], &trio->stages,
                                               trio->total[i], &why),
                         0);
        state_swap(&trio->now[i], &trio->next[i]);
        assert_true(state_params_sound(&trio->now[i], pool));
    }
    uint64_t parts = trio->now[0].part + trio->now[1].part;
    assert_int_equal(parts, trio->now[WHOLE].part);
    assert_int_equal(state_hash_whole(&trio->now[1], parts), hash[WHOLE]);
    assert_int_not_equal(hash[0], hash[WHOLE]);
    for (size_t i = 0; i < 2; i++)
        same_as_whole(&trio->now[i], &trio->now[WHOLE]);
}

/* Pages of the block of which no byte is held, that are there nevertheless; *all: how many there are of them. */
static size_t
resident(const struct state *state, size_t *all)
{
    struct state_extent extent[STATE_EXTENTS_MAX];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), count = state_extents(state, extent), there = 0;
    *all = 0;
    for (size_t i = 0; i < count; i++) {
        size_t from = (extent[i].offset + extent[i].size + page - 1) / page;
        size_t end = (i + 1 < count ? extent[i + 1].offset : state->size) / page;
        OWNED(memory_free) unsigned char *in = malloc(end + 1);
        if (end > from) {
            assert_int_equal(mincore(state->block + from * page, (end - from) * page, in), 0);
            for (size_t k = 0; k < end - from; k++)
                there += in[k] & 1;
            *all += end - from;
        }
    }
    return there;
}

TEST(test_ranges_are_together_the_whole)
{
    static const struct optim_spec optim[] = {
        {.kind = OPTIM_SGD, .rate = 0.5f, .momentum = 0.5f, .ema = 0.9f},
        {.kind = OPTIM_ADAMW,
         .rate = 0.01f,
         .beta1 = 0.9f,
         .beta2 = 0.99f,
         .epsilon = 1e-8f,
         .weight_decay = 0.1f,
         .clip_norm = 1},
        {.kind = OPTIM_LARS, .rate = 0.5f, .momentum = 0.9f, .trust = 0.01f},
        {.kind = OPTIM_LAMB,
         .rate = 0.01f,
         .beta1 = 0.9f,
         .beta2 = 0.99f,
         .epsilon = 1e-8f,
         .clip_norm = 0.5f,
         .ema = 0.5f},
    };
    /* cut once at each place, and several times: neighbours, the first and the last one, every second one */
    static const unsigned tensors[] = {0x01, 0x03, 0x07, 0x0f, 0x1f, 0x3f,
                                       0x43, 0x12, 0x5d, 0x55, 0x2a};
    struct rand rand = {99};
    for (size_t o = 0; o < sizeof optim / sizeof *optim; o++)
        for (size_t h = 0; h < sizeof tensors / sizeof *tensors + RANDOM; h++) {
            struct trio trio;
            size_t kinds = 0, all;
            begin(&trio, &optim[o],
                  h < RANDOM ? 1 + (unsigned)rand_below(&rand, ALL - 1) : tensors[h - RANDOM]);
            for (size_t round = 0; round < ROUNDS; round++) {
                one_round(&trio, round);
                const struct state_event *event = &trio.event[WHOLE];
                kinds |= event->evaluated ? 1 : event->skipped ? 2 : event->raised ? 4 : 8;
            }
            assert_int_equal(kinds, 15);
            for (size_t i = 0; i < 2; i++) {
                assert_int_equal(resident(&trio.now[i], &all), 0);
                assert_true(all > 0 || h < RANDOM);
                assert_int_equal(resident(&trio.next[i], &all), 0);
            }
            finish(&trio);
        }
}

/* A bit that flips is seen by the holder of its block alone, in a parameter, a slot, an exponent; one in the header by
 * all. */
TEST(test_a_change_is_noticed_where_it_is_held)
{
    static const struct optim_spec optim = {.kind = OPTIM_SGD, .rate = 0.5f, .momentum = 0.5f};
    struct trio trio;
    begin(&trio, &optim, HALVES);
    one_round(&trio, 0);
    make_totals(&trio, 1);
    for (size_t i = 0; i < 2; i++) {
        struct state *now = &trio.now[i], *next = &trio.next[i];
        void *part[] = {NULL,
                        &now->params[first_of(now)],
                        &now->params[end_of(now) - 1],
                        &now->slot[0][end_of(now) - 1],
                        &now->exponent[exact_block_of(exact, first_of(now))],
                        &now->exponent[exact_block_of(exact, end_of(now) - 1)],
                        &now->header->samples};
        for (size_t p = 0; p < sizeof part / sizeof *part; p++) {
            struct state_event event;
            unsigned char *byte = part[p];
            if (byte)
                *byte ^= 1;
            assert_int_equal(state_advance(next, now, trio.total[i], &event, pool) == 0, p > 0);
            assert_int_equal(state_params_sound(now, pool), p == 0 || p == 3);
            if (byte)
                *byte ^= 1;
        }
    }
    finish(&trio);
}

/* The shards' checksums of a range are of its gradients alone. So its holder sees a bit that flips there, in a step and
 * in a round that is done again, and nobody looks at the rest. */
TEST(test_a_damaged_total_is_noticed_where_it_is_held)
{
    static const struct optim_spec optim = {.kind = OPTIM_SGD, .rate = 0.5f};
    struct trio trio;
    begin(&trio, &optim, HALVES);
    size_t cut = first_of(&trio.now[1]);
    for (size_t round = 1; round <= 2; round++) { /* the second one overflows */
        make_totals(&trio, round);
        for (size_t i = 0; i < 2; i++) {
            const size_t at[] = {0, cut - 1, cut, params - 1};
            for (size_t k = 0; k < 4; k++) {
                struct state_event event;
                struct why why;
                trio.total[i][at[k]] ^= 1;
                state_advance(&trio.next[i], &trio.now[i], trio.total[i], &event, pool);
                assert_int_equal(event.stepped, round == 1);
                assert_int_equal(state_check_gradients(&trio.next[i], &trio.now[i], &trio.stages,
                                                       trio.total[i], &why),
                                 (at[k] >= cut) == (i == 1) ? -EBADMSG : 0);
                trio.total[i][at[k]] ^= 1;
            }
        }
    }
    finish(&trio);
}

/* Each shard must be counted once in each stage of the plan, held or not, and in no other. */
TEST(test_each_stage_counts_each_shard)
{
    static const struct optim_spec optim = {.kind = OPTIM_SGD, .rate = 0.5f};
    struct trio trio;
    struct why why;
    uint64_t coverage;
    begin(&trio, &optim, 0x2d);
    make_totals(&trio, 1);
    assert_int_equal(trio.stages.count, 6);
    for (size_t i = 0; i < 3; i++) {
        int32_t *total = trio.total[i], *slots = total + params + state_tail(blocks);
        assert_int_equal(state_check_counts(&trio.now[i], &trio.stages, total, &coverage, &why), 0);
        assert_int_equal(coverage, (1 << SHARDS) - 1);
        for (size_t s = 0; s < LEDGERS; s++)
            for (size_t word = 0; word < 3; word++) {
                char stage[32];
                int32_t *at = slots + s * ledger_words(SHARDS) + ledger_words(2) + word;
                *at += 1;
                assert_int_equal(
                    state_check_counts(&trio.now[i], &trio.stages, total, &coverage, &why),
                    -EBADMSG);
                snprintf(stage, sizeof stage, s < 6 ? "in stage %zu" : "its plan has not", s + 1);
                assert_non_null(strstr(why.line, stage));
                *at -= 1;
            }
    }
    finish(&trio);
}

/* Who holds all need not know the stages: it sees how many there were, and a stage that is missing or counted twice, a
 * shard of a stage, and a bit that flips anywhere. */
TEST(test_the_whole_is_checked_without_the_plan)
{
    static const struct optim_spec optim = {.kind = OPTIM_SGD, .rate = 0.5f};
    struct trio trio;
    struct why why;
    uint64_t coverage;
    begin(&trio, &optim, 0x2d);
    make_totals(&trio, 1);
    struct state *now = &trio.now[WHOLE], *next = &trio.next[WHOLE];
    int32_t *total = trio.total[WHOLE], *slots = total + params + state_tail(blocks);
    assert_int_equal(state_check_counts(now, NULL, total, &coverage, &why), 0);
    state_advance(next, now, total, &trio.event[WHOLE], pool);
    assert_int_equal(state_check_gradients(next, now, NULL, total, &why), 0);
    for (size_t s = 0; s < LEDGERS; s++)
        for (size_t shard = 0; shard < SHARDS; shard++) {
            int32_t *at = slots + s * ledger_words(SHARDS) + ledger_words((unsigned)shard);
            *at ^= 1;
            assert_int_equal(state_check_counts(now, NULL, total, &coverage, &why), -EBADMSG);
            *at ^= 1;
        }
    for (size_t s = 0; s + 1 < trio.stages.count; s++) { /* the last one has the samples, too */
        int32_t *ledger = slots + s * ledger_words(SHARDS), kept[SHARDS * LEDGER_WORDS];
        memcpy(kept, ledger, sizeof kept);
        memset(ledger, 0, sizeof kept);
        assert_int_equal(state_check_counts(now, NULL, total, &coverage, &why), -EBADMSG);
        memcpy(ledger, kept, sizeof kept);
    }
    for (size_t s = 0; s < trio.stages.count; s++) {
        total[trio.stages.stage[s].first] ^= 1;
        state_advance(next, now, total, &trio.event[WHOLE], pool);
        assert_int_equal(state_check_gradients(next, now, NULL, total, &why), -EBADMSG);
        total[trio.stages.stage[s].first] ^= 1;
    }
    finish(&trio);
}

/* A word of a summary is another one, and its checksum is that of what it says then. */
static void
summary_says(int32_t *summary, size_t word, int32_t says)
{
    size_t words = 2 + 4 * LEDGERS + 2 * blocks;
    summary[word] = says;
    uint64_t check = check_of(summary + 2, 2, words - 2);
    memcpy(summary, &check, sizeof check);
}

/* A word that changed on its way, and squares that are not those of the sum, as who holds them sees. */
TEST(test_a_damaged_summary_is_noticed)
{
    static const struct optim_spec optim = {.kind = OPTIM_SGD, .rate = 0.5f, .clip_norm = 1};
    struct trio trio;
    struct why why;
    struct state_stages stages;
    begin(&trio, &optim, 0x2d);
    make_totals(&trio, 0);
    for (size_t i = 0; i < 3; i++)
        state_squares(&trio.next[i], &trio.now[i], trio.total[i], pool);
    exchange_summaries(&trio);
    size_t first = params + state_tail(blocks) + LEDGERS * ledger_words(SHARDS);
    assert_int_equal(trio.vector - first, 2 + 4 * LEDGERS + 2 * blocks);
    for (size_t k = first; k < trio.vector; k++) {
        trio.total[0][k] ^= (int32_t)(UINT32_C(1) << k % 32);
        assert_int_equal(state_summary_stages(&trio.now[0], trio.total[0], &stages, &why),
                         -EBADMSG);
        trio.total[0][k] ^= (int32_t)(UINT32_C(1) << k % 32);
    }
    const struct {
        size_t word;
        int32_t says;
    } wrong[] = {{4, 0}, {4, 2}, {8, 1}, {8, 0}, {12, (int32_t)blocks + 1}, {8, -1}};
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        summary_says(trio.total[0] + first, wrong[w].word, wrong[w].says);
        assert_int_equal(state_summary_stages(&trio.now[0], trio.total[0], &stages, &why),
                         -EBADMSG);
        exchange_summaries(&trio);
    }
    memset(trio.total[0] + first, 0, (trio.vector - first) * sizeof(int32_t));
    assert_int_equal(state_summary_stages(&trio.now[0], trio.total[0], &stages, &why), -EBADMSG);
    exchange_summaries(&trio);
    summary_says(trio.total[0] + first, 5,
                 0); /* the squares of the first stage, which is held: not needed */
    summary_says(trio.total[0] + first, 9, 0); /* those of the second one are */
    assert_int_equal(state_holds(&trio.now[0], &trio.stages.stage[0]), 1);
    assert_int_equal(
        state_summary_take(&trio.next[0], &trio.now[0], &trio.stages, trio.total[0], &why),
        -EBADMSG);
    exchange_summaries(&trio);
    summary_says(trio.total[WHOLE] + first, 2, trio.total[WHOLE][first + 2] ^ 1);
    assert_int_equal(state_summary_take(&trio.next[WHOLE], &trio.now[WHOLE], &trio.stages,
                                        trio.total[WHOLE], &why),
                     -EBADMSG);
    size_t held = exact_block_of(exact, first_of(&trio.now[0]));
    trio.next[0].square[held] = nextafter(trio.next[0].square[held], 0);
    exchange_summaries(&trio);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(
            state_summary_take(&trio.next[i], &trio.now[i], &trio.stages, trio.total[i], &why),
            i == WHOLE ? -EBADMSG : 0);
    finish(&trio);
}

/* What a node is to hold it learns late, and it may change: nothing is left of what was held before, in memory of the
 * state's own or given to it. */
TEST(test_other_ranges_begin_anew)
{
    static const struct optim_spec optim = {.kind = OPTIM_SGD, .rate = 0.5f, .momentum = 0.5f};
    struct trio trio;
    begin(&trio, &optim, 0x2d);
    struct state_job job = job_of(&optim, trio.average);
    struct state_range range[TENSORS];
    void *given = NULL;
    size_t size = trio.now[0].size, all;
    assert_int_equal(posix_memalign(&given, (size_t)sysconf(_SC_PAGESIZE), size), 0);
    memset(given, 0, size);
    for (size_t own = 0; own < 2; own++) {
        OWNED(state_fini) struct state state;
        job.block = own ? NULL : given;
        hold(&state, &job, ALL);
        start(&state);
        for (size_t h = 0; h < 4; h++) {
            const unsigned tensors[] = {0x01, 0x2d, 0x52, 0x2d};
            state_hold(&state, range, ranges_of(tensors[h], range));
            for (size_t k = 0; k < size; k++)
                assert_int_equal(state.block[k], 0);
            if (own)
                state_hold(&state, range, ranges_of(tensors[h], range)); /* looking made pages */
            start(&state);
            assert_true(!own || resident(&state, &all) == 0);
        }
        assert_int_equal(state.part, trio.now[0].part);
        same_as_whole(&state, &trio.now[WHOLE]);
    }
    free(given);
    finish(&trio);
}

TEST(test_a_range_is_taken_from_the_block_of_another_node)
{
    static const struct optim_spec optim = {.kind = OPTIM_SGD, .rate = 0.5f, .momentum = 0.5f};
    struct trio trio;
    size_t all;
    begin(&trio, &optim, 0x2d);
    one_round(&trio, 0);
    const struct state *whole = &trio.now[WHOLE];
    for (size_t i = 0; i < 2; i++) {
        struct state *taker = &trio.next[i];
        uint64_t hash = state_hash(&trio.now[i], pool);
        taker->header->round = 99;
        whole->params[first_of(taker)] += 1;
        assert_int_equal(state_take(taker, whole->block, hash, pool), -EBADMSG);
        assert_int_equal(taker->header->round, 99);
        whole->params[first_of(taker)] = trio.now[i].params[first_of(taker)];
        assert_int_equal(state_take(taker, whole->block, hash, pool), 0);
        same_as_whole(taker, whole);
        assert_int_equal(taker->part, trio.now[i].part);
        assert_true(state_params_sound(taker, pool));
        assert_int_equal(resident(taker, &all), 0);
    }
    finish(&trio);
}

/* By the name of the state, which all can say, and what each says of what it holds. */
TEST(test_a_state_is_taken_by_name_and_parts)
{
    static const struct optim_spec optim = {.kind = OPTIM_SGD, .rate = 0.5f, .momentum = 0.5f};
    struct trio trio;
    begin(&trio, &optim, 0x2d);
    one_round(&trio, 0);
    const struct state *whole = &trio.now[WHOLE];
    uint64_t parts[PROTO_STAGES_MAX], own[PROTO_STAGES_MAX], name = state_name(whole);
    state_parts(whole, &trio.stages, parts);
    for (size_t i = 0; i < 2; i++) {
        struct state *taker = &trio.next[i];
        assert_int_equal(state_name(&trio.now[i]), name);
        state_parts(&trio.now[i], &trio.stages, own);
        size_t mine = 0;
        while (!state_holds(taker, &trio.stages.stage[mine]))
            mine++;
        for (size_t s = 0; s < trio.stages.count; s++)
            assert_true(own[s] == (state_holds(taker, &trio.stages.stage[s]) ? parts[s] : 0));
        taker->header->round = 99;
        float *changed = &whole->params[first_of(taker)];
        int16_t *exponent = &whole->exponent[exact_block_of(exact, trio.stages.stage[mine].first)];
#define TAKE(name, parts) state_take_segments(taker, &trio.stages, whole->block, name, parts, pool)
        assert_int_equal(TAKE(name + 1, parts), -EBADMSG);
        own[mine] ^= 1;
        assert_int_equal(TAKE(name, own), -EBADMSG);
        own[mine] = 0;
        assert_int_equal(TAKE(name, own), -EBADMSG);
        *changed += 1;
        assert_int_equal(TAKE(name, parts), -EBADMSG);
        *changed = trio.now[i].params[first_of(taker)];
        int16_t was = *exponent;
        *exponent = EXACT_EXPONENT_MAX + 1;
        struct state other = *whole;
        state_rehash(&other, pool);
        state_parts(&other, &trio.stages, own);
        assert_int_equal(TAKE(name, own), -EBADMSG);
        *exponent = was;
        state_rehash(&other, pool);
        assert_int_equal(taker->header->round, 99);
        assert_int_equal(TAKE(name, parts), 0);
#undef TAKE
        same_as_whole(taker, whole);
        assert_true(state_sound(taker, pool));
        taker->params[first_of(taker)] += 1;
        assert_false(state_sound(taker, pool));
    }
    finish(&trio);
}

/* The largest double above 4 that gives the same factor as 4. */
static double
edge_of(const struct optim_spec *optim)
{
    double low = 4, high = 5;
    while (nextafter(low, high) < high) {
        double middle = low + (high - low) / 2;
        if (optim_clip(optim, middle) == optim_clip(optim, 4))
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Four quarters of a unit in the last place are one if they are added first, as an item, and nothing one by one. */
TEST(test_squares_are_added_item_by_item)
{
    static const struct optim_spec optim = {.kind = OPTIM_SGD, .rate = 0.5f, .clip_norm = 1};
    struct trio trio;
    begin(&trio, &optim, HALVES);
    struct state *next = &trio.next[1];
    double edge = edge_of(&optim), unit = nextafter(edge, 5) - edge;
    make_totals(&trio, 0);
    memset(trio.total[1] + first_of(next), 0, (params - first_of(next)) * sizeof(int32_t));
    assert_false(state_begin(next, &trio.now[1], trio.total[1], &trio.event[1]));
    state_squares(next, &trio.now[1], trio.total[1], pool);
    next->square[63] = edge;
    for (size_t b = 64; b < 68; b++)
        next->square[b] = unit / 4;
    state_finish(next, &trio.now[1], trio.total[1], pool);
    assert_true(optim_clip(&optim, edge) != optim_clip(&optim, edge + unit));
    assert_true(next->factor == optim_clip(&optim, edge + unit));
    finish(&trio);
}

/* It has what is held and no more, and does not fit another range. */
TEST(test_a_checkpoint_is_of_a_range)
{
    static const struct optim_spec optim = {.kind = OPTIM_SGD, .rate = 0.5f, .momentum = 0.5f};
    char dir[] = "/tmp/test_state_range_XXXXXX";
    struct trio trio;
    struct why why;
    struct checkpoint_found found;
    size_t all;
    assert_non_null(mkdtemp(dir));
    begin(&trio, &optim, HALVES);
    one_round(&trio, 0);
    struct state *taker = &trio.next[1];
    struct save *save = saver_open(dir, taker, 3, 4), *other = saver_open(dir, &trio.now[0], 3, 4);
    assert_int_equal(save_last(save, &trio.now[1], &why), 0);
    struct checkpoint file = save_file(save, taker->block);
    for (size_t i = 1; i < file.count; i++) /* it is of this place */
        assert_ptr_equal(taker->block + strtoul(file.section[i].name + 6, NULL, 16),
                         file.section[i].data);
    size_t held = (params - first_of(taker)) * 2 * sizeof(float);
    assert_in_range(checkpoint_size(&file), held, held + held / 100);
    memset(taker->params + first_of(taker), 0, (params - first_of(taker)) * sizeof(float));
    assert_int_equal(save_find(save, taker, &found, &why), 0);
    assert_int_equal(state_rehash(taker, pool), state_hash(&trio.now[1], pool));
    same_as_whole(taker, &trio.now[WHOLE]);
    assert_int_equal(resident(taker, &all), 0);
    assert_int_equal(save_find(other, &trio.next[0], &found, &why), -ENOENT);
    assert_true(found.unfit);
    save_destroy(&save);
    save_destroy(&other);
    checkpoint_forget(dir, 3, false);
    assert_int_equal(rmdir(dir), 0);
    finish(&trio);
}

FIXTURE(set_up)
{
    if (pool_new(&pool, 2) || exact_new(&exact, elements, TENSORS, SHARDS))
        return -1;
    blocks = exact_blocks(exact);
    params = exact_block_first(exact, blocks);
    return exact_tensor_first(exact, CUT) == 101 ? 0 : -1;
}

FIXTURE(tear_down)
{
    exact_destroy(&exact);
    pool_destroy(&pool);
    return 0;
}

TEST_ALL(set_up, tear_down)

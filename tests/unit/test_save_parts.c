/* test_save_parts.c - checkpoints of a node that holds only some stages: what a folder has is found, and is never taken
 * for the whole. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nn/files/checkpoint.h"
#include "nn/files/disk.h"
#include "tests/support/folder.h"
#include "tests/support/saver.h"
#include "tests/support/test.h"

enum { TENSORS = 5, ALL = (1 << TENSORS) - 1, JOB = 3, NUMERICS = 4, PART = 0x0d, OTHER = 0x12 };

/* The second and the third one are of a size. */
static const size_t elements[TENSORS] = {30000, 20000, 20000, 5, 40001};

static struct exact *exact;
static struct pool *pool;
static size_t params;

FOLDER_EACH

static size_t
ranges_of(unsigned tensors, struct state_range range[TENSORS])
{
    size_t count = 0, first = 0;
    for (size_t t = 0; t < TENSORS; first += elements[t++])
        if (tensors >> t & 1)
            range[count++] = (struct state_range){first, first + elements[t]};
    return count;
}

static void
hold(struct state *state, unsigned tensors)
{
    struct state_range range[TENSORS];
    state_hold(state, range, ranges_of(tensors, range));
}

static void
open_state(struct state *state, unsigned tensors)
{
    const struct state_job job = {.rules.optim = {.kind = OPTIM_SGD, .momentum = 0.5f},
                                  .shards = 1,
                                  .batch = 8,
                                  .local_steps = 1,
                                  .train = 20};
    assert_int_equal(state_init(state, &job, exact, params), 0);
    hold(state, tensors);
    state_start(state);
}

/* The same numbers everywhere, of this step. */
static void
fill(struct state *state, uint64_t step)
{
    state->header->step = state->header->round = step;
    for (size_t i = 0; i < state->held_count; i++)
        for (size_t k = state->held[i].first; k < state->held[i].end; k++) {
            state->params[k] = (float)(k * step);
            state->slot[0][k] = (float)(k + step);
        }
}

/* Leaves a checkpoint of this step. */
static void
write_part(unsigned tensors, uint64_t step, uint64_t job)
{
    OWNED(state_fini) struct state state;
    struct why why;
    open_state(&state, tensors);
    fill(&state, step);
    OWNED(save_destroy) struct save *save = saver_open(folder.path, &state, job, NUMERICS);
    assert_int_equal(save_last(save, &state, &why), 0);
}

/* Reads the newest one into a state that holds these tensors: 0, or why it does not fit. */
static int
find(unsigned tensors, uint64_t step, struct why *why)
{
    OWNED(state_fini) struct state state, expected;
    struct checkpoint_found found;
    open_state(&state, tensors);
    open_state(&expected, tensors);
    OWNED(save_destroy) struct save *save = saver_open(folder.path, &state, JOB, NUMERICS);
    int rc = save_find(save, &state, &found, why);
    if (!rc) {
        fill(&expected, step);
        assert_int_equal(state_hash(&state, pool), state_hash(&expected, pool));
    } else {
        assert_int_equal(state_hash(&state, pool), state_hash(&expected, pool));
    }
    return rc;
}

TEST(test_ranges_are_known_by_their_spans)
{
    OWNED(state_fini) struct state state;
    struct state_extent extent[STATE_EXTENTS_MAX];
    struct state_range range[STATE_RANGES_MAX];
    open_state(&state, ALL);
    for (unsigned tensors = 1; tensors <= ALL; tensors++) {
        hold(&state, tensors);
        size_t count = state_extents(&state, extent);
        assert_int_equal(state_ranges(&state, extent, count, range), state.held_count);
        assert_memory_equal(range, state.held, state.held_count * sizeof *range);
        for (size_t i = 0; i < count; i++) {
            const size_t moved[] = {1, 4, (size_t)-4, 4096, SIZE_MAX / 2};
            for (size_t k = 0; k < 5; k++) {
                extent[i].offset += moved[k];
                assert_int_equal(state_ranges(&state, extent, count, range), 0);
                extent[i].offset -= moved[k];
                extent[i].size += moved[k];
                assert_int_equal(state_ranges(&state, extent, count, range), 0);
                extent[i].size -= moved[k];
            }
        }
        assert_int_equal(state_ranges(&state, extent, count - 1, range), 0);
    }
    hold(&state, 0x0a); /* its two ranges in the other order, in parameters, slots and exponents */
    size_t count = state_extents(&state, extent);
    assert_int_equal(count, 7);
    for (size_t i = 1; i < count; i += 2) {
        struct state_extent first = extent[i];
        extent[i] = extent[i + 1];
        extent[i + 1] = first;
        assert_int_equal(state_ranges(&state, extent, count, range), 0);
    }
}

/* A node that starts again first asks what it has, and then holds that. */
TEST(test_a_part_is_resumed)
{
    OWNED(state_fini) struct state state, expected;
    struct checkpoint_found found;
    struct state_range range[STATE_RANGES_MAX];
    struct why why;
    open_state(&state, ALL);
    open_state(&expected, PART);
    fill(&expected, 7);
    struct save *save = saver_open(folder.path, &state, JOB, NUMERICS);
    assert_int_equal(save_ranges(save, JOB, &state, range), 0);
    write_part(PART, 7, JOB);
    assert_int_equal(save_find(save, &state, &found, &why), -ENOENT);
    assert_true(found.unfit);
    size_t count = save_ranges(save, JOB, &state, range);
    assert_int_equal(count, 2);
    state_hold(&state, range, count);
    assert_int_equal(save_hold(save, &state, &why), 0);
    assert_int_equal(save_find(save, &state, &found, &why), 0);
    assert_int_equal(state_rehash(&state, pool), state_rehash(&expected, pool));
    fill(&state, 8);
    assert_int_equal(save_last(save, &state, &why), 0);
    save_destroy(&save);
    assert_int_equal(find(PART, 8, &why), 0);
}

/* It is used by whoever holds some of it, and of the whole by all. The others are told what is missing. */
TEST(test_a_part_is_not_taken_for_more)
{
    struct why why;
    write_part(PART, 7, JOB);
    assert_int_equal(find(0x01, 7, &why), 0);
    assert_int_equal(find(0x0c, 7, &why), 0);
    assert_int_equal(find(0x09, 7, &why), 0);
    for (unsigned tensors = 1; tensors <= ALL; tensors++)
        assert_int_equal(find(tensors, 7, &why), tensors & ~PART ? -ENOENT : 0);
    assert_int_equal(find(ALL, 7, &why), -ENOENT);
    assert_non_null(
        strstr(why.line, "checkpoint-7: a checkpoint of some stages of the model only: "));
    char bytes
        [64]; /* of parameters, slots and exponents; the last tensor has the padding of these */
    struct state state;
    open_state(&state, ALL);
    size_t blocks = 20 + 40, end = params * sizeof(float), padding = -end % 64;
    size_t exponents = (size_t)((uint8_t *)state.exponent - state.block);
    snprintf(bytes, sizeof bytes, " %zu bytes are missing",
             2 * (60001 * sizeof(float) + padding) + blocks * sizeof(int16_t) + state.size -
                 exponents - exact_blocks(exact) * sizeof(int16_t));
    assert_non_null(strstr(why.line, bytes));
    state_fini(&state);
    write_part(ALL, 9, JOB);
    for (unsigned tensors = 1; tensors <= ALL; tensors++)
        assert_int_equal(find(tensors, 9, &why), 0);
}

/* As train.from, verify and convert read it. */
TEST(test_a_part_is_refused_where_the_whole_is_read)
{
    struct why why;
    OWNED(state_fini) struct state state;
    char path[DISK_PATH_MAX];
    write_part(0x01, 7, JOB);
    checkpoint_path(path, folder.path, 7);
    open_state(&state, ALL);
    struct checkpoint file = {.job_hash = JOB,
                              .numerics = NUMERICS,
                              .count = 1,
                              .part = true,
                              .section[0] = {"state", state.block, state.size}};
    assert_int_equal(checkpoint_read(path, &file, &why), -ENOTSUP);
    assert_non_null(strstr(why.line, "of some stages of the model only"));
}

TEST(test_half_a_file_and_that_of_another_run_are_passed_over)
{
    OWNED(state_fini) struct state state;
    struct why why;
    struct stat status;
    struct state_range range[STATE_RANGES_MAX];
    char path[DISK_PATH_MAX];
    open_state(&state, ALL);
    OWNED(save_destroy) struct save *save = saver_open(folder.path, &state, JOB, NUMERICS);
    write_part(0x03, 5, JOB); /* writing one deletes those of other runs: so it comes first */
    write_part(PART, 7, JOB);
    checkpoint_path(path, folder.path, 7);
    assert_int_equal(stat(path, &status), 0);
    for (off_t size = status.st_size - 1; size > 0; size -= size / 7 + 1) {
        assert_int_equal(truncate(path, size), 0);
        assert_int_equal(save_ranges(save, JOB, &state, range), 1);
        assert_int_equal(range[0].end, 50000);
        assert_int_equal(find(0x03, 5, &why), 0);
        assert_true(strstr(why.line, "is cut off at byte") || strstr(why.line, "damaged"));
    }
    write_part(OTHER, 9, JOB + 1);
    assert_int_equal(save_ranges(save, JOB, &state, range), 0);
    assert_int_equal(find(OTHER, 9, &why), -ENOENT);
    assert_non_null(strstr(why.line, "another job"));
}

/* Files of one step and size, of other parts: no page of one is taken for one of the other. */
TEST(test_pages_of_other_parts_do_not_fit)
{
    struct state state[2];
    struct checkpoint file[2];
    uint8_t *image[2];
    for (size_t i = 0; i < 2; i++) {
        open_state(&state[i], 2u << i);
        fill(&state[i], 7);
        OWNED(save_destroy) struct save *save = saver_open(folder.path, &state[i], JOB, NUMERICS);
        file[i] = save_file(save, state[i].block);
        file[i].step = file[i].round = 7;
        image[i] = malloc(checkpoint_size(&file[i]));
        checkpoint_fill(&file[i], image[i]);
        checkpoint_seal(image[i], checkpoint_size(&file[i]));
    }
    assert_int_equal(checkpoint_size(&file[0]), checkpoint_size(&file[1]));
    for (size_t page = 0; page < checkpoint_pages(&file[0]); page++)
        for (size_t i = 0; i < 2; i++) {
            size_t offset, size = checkpoint_page(&file[i], page, &offset);
            assert_true(checkpoint_page_good(&file[i], page, image[i] + offset, size));
            assert_false(checkpoint_page_good(&file[i], page, image[!i] + offset, size));
        }
    for (size_t i = 0; i < 2; i++) {
        free(image[i]);
        state_fini(&state[i]);
    }
}

FIXTURE(set_up)
{
    if (pool_new(&pool, 1) || exact_new(&exact, elements, TENSORS, 1))
        return -1;
    params = exact_block_first(exact, exact_blocks(exact));
    return 0;
}

FIXTURE(tear_down)
{
    exact_destroy(&exact);
    pool_destroy(&pool);
    return 0;
}

TEST_ALL(set_up, tear_down)

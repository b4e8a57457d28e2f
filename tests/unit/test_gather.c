/* test_gather.c - the files of a node that holds a part of the model are those of one that holds all. */
#include "node/train/gather.h"

#include <signal.h>
#include <sys/resource.h>

#include "nn/files/disk.h"
#include "tests/support/folder.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

enum { TENSORS = 4 }; /* weights and biases of two layers */

static const char text[] =
    "data: {source: glyphs, train: 24, test: 12}\n"
    "model: [flatten, dense: 500, relu, dense: 10]\n"
    "train: {batch: 12, ema: 0.9, optimizer: {sgd: {rate: 0.1, momentum: 0.9}}}\n";

static struct {
    struct folder folder;
    struct config *config;
    struct job job;
    struct state whole, held, others; /* the same state: all of it, a part, the rest */
    struct model_file file;
} t;
static struct why why;

static void
open_state(struct state *state)
{
    const struct state_job rules = job_rules(&t.job, t.config);
    assert_int_equal(state_init(state, &rules, t.job.exact, nn_param_count(t.job.model)), 0);
}

FIXTURE(make)
{
    struct rand rand = {3};
    t.folder = folder_new();
    assert_int_equal(config_parse(&t.config, "test", text, strlen(text), &why), 0);
    assert_int_equal(config_check(t.config, &why), 0);
    assert_int_equal(job_open(&t.job, t.config, &why), 0);
    open_state(&t.whole);
    open_state(&t.held);
    open_state(&t.others);
    state_start(&t.whole);
    t.whole.header->step = 5;
    for (size_t i = 0; i < t.whole.param_count; i++)
        for (size_t s = 0; s <= t.whole.slot_count; s++)
            (s ? t.whole.slot[s - 1] : t.whole.params)[i] = (float)rand_below(&rand, 1000) / 7;
    t.file = model_file_of(t.whole.header, true, state_weights(&t.whole), t.whole.param_count);
    return 0;
}

FIXTURE(unmake)
{
    state_fini(&t.whole);
    state_fini(&t.held);
    state_fini(&t.others);
    job_close(&t.job);
    config_destroy(&t.config);
    folder_fini(&t.folder);
    return 0;
}

TEST_ALL(make, unmake)

/* The state holds these tensors, as the whole has them. */
static void
hold(struct state *state, unsigned tensors)
{
    struct state_range range[TENSORS];
    struct state_extent extent[STATE_EXTENTS_MAX];
    size_t count = 0, first = 0;
    for (size_t n = 0, end; n < TENSORS; n++, first = end) {
        end = first + nn_tensor(t.job.model, n)->count;
        if (tensors >> n & 1)
            range[count++] = (struct state_range){first, end};
    }
    state_hold(state, range, count);
    for (size_t i = state_extents(state, extent); i-- > 0;)
        memcpy(state->block + extent[i].offset, t.whole.block + extent[i].offset, extent[i].size);
}

static void
same_file(const char *a, const char *b)
{
    const char *path[2] = {a, b};
    uint8_t *data[2];
    size_t size[2];
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(disk_read(path[i], SIZE_MAX, &data[i], &size[i], &why), 0);
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(data[0], data[1], size[0]);
    free(data[0]);
    free(data[1]);
}

TEST(what_others_hold_makes_it_whole)
{
    char a[FOLDER_PATH_MAX], b[FOLDER_PATH_MAX], params[65], state[65], wanted[65];
    assert_true(state_weights(&t.whole) != t.whole.params);
    strcpy(a, folder_path(&t.folder, "a"));
    strcpy(b, folder_path(&t.folder, "b"));
    assert_int_equal(model_file_write(a, t.config, &t.job, &t.file, state_weights(&t.whole), &why),
                     0);
    for (unsigned tensors = 1; tensors + 1 < 1 << TENSORS; tensors++) {
        struct gather *gather;
        hold(&t.held, tensors);
        hold(&t.others, ~tensors);
        assert_int_equal(gather_open(&gather, t.folder.path, &t.held, &why), 0);
        for (size_t i = 0; i < t.others.held_count; i++)
            assert_int_equal(gather_add(gather, t.others.block, &t.others.held[i], &why), 0);
        assert_int_equal(gather_sha256(gather, params, state, &why), 0);
        assert_string_equal(params, t.file.params_sha256);
        model_file_sha256(t.whole.block, t.whole.size, wanted);
        assert_string_equal(state, wanted);
        for (int again = 0; again < 2; again++) /* a disk may have been full */
            assert_int_equal(gather_write_model(gather, b, t.config, &t.job, &t.file, &why), 0);
        same_file(a, b);
        gather_close(&gather);
        assert_null(gather);
    }
}

TEST(without_room_there_is_no_file)
{
    struct gather *gather;
    struct rlimit before, small;
    hold(&t.held, 1);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = t.whole.size - 1;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int rc = gather_open(&gather, t.folder.path, &t.held, &why);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_true(rc < 0);
    assert_null(gather);
    assert_non_null(strstr(why.line, "no room for a file of "));
    assert_true(gather_open(&gather, "/proc/none", &t.held, &why) < 0);
    assert_null(gather);
}

/* test_way_gossip.c - what a trainer makes of the tasks of the mesh in gossip: a step gives what its values changed by,
 * whatever the replica was before; what is saved is what it begins with; the result is the mean, on all nodes alike. */
#include <xxhash.h>

#include "mesh/core/gossip/gossip.h"
#include "mesh/core/gossip/gossip_flow.h"
#include "tests/support/a_run.h"
#include "tests/support/folder.h"
#include "tests/support/npy_make.h"

enum { ALL = 0xf, STEPS = 8, HALF = 1 << 23, ROWS = 120 };

#define JOB(gossip)                                                                                \
    "data: {source: glyphs, train: 96, test: 24}\n"                                                \
    "model: [flatten, dense: 12, relu, dense: 10]\n"                                               \
    "train: {epochs: 2, batch: 24, shards: 4, eval_every: 0, optimizer: {sgd: {rate: 0.05, "       \
    "momentum: 0.9}}}\n"                                                                           \
    "mesh: {topology: gossip}\n" gossip

static const char plain[] = JOB(""), push_sum[] = JOB("gossip: {method: push_sum}\n");

FOLDER_EACH

static void
begin(struct a_run *a, const char *text, const char *name)
{
    a_run_open(a, text, folder_path(&folder, name), TRAIN_AUTO);
}

static const struct gossip_keeper *
keeper_of(const struct a_run *a)
{
    return a->mesh->setup.gossip->keeper;
}

/* Step `k` of this node with the values in sum. True: it is to stop. */
static bool
step(struct a_run *a, uint64_t k)
{
    bool stop = a_run_follow(
        a, &(struct mesh_task){
               .kind = MESH_COMPUTE, .round = k, .shards = ALL, .mine = ALL, .members = 2});
    assert_int_equal(a->mesh->buckets, UINT64_C(1) << (a->mesh->bucket_count - 1)); /* once */
    return stop;
}

/* The values that a node begins with, and what a step makes of them. */
static void
take_values(struct a_run *a, const struct a_run *from)
{
    memcpy(a->mesh->sum, from->mesh->own, a->run.state.param_count * sizeof(int32_t));
}

TEST(a_step_gives_what_changed_and_depends_on_its_values_alone)
{
    OWNED(a_run_fini) struct a_run a, b;
    begin(&a, plain, "a");
    begin(&b, plain, "b");
    size_t count = a.run.state.param_count, moved = 0;
    assert_memory_equal(a.mesh->own, b.mesh->own, count * sizeof(int32_t));
    assert_true(a.mesh->setup.gossip->count == count && a.mesh->setup.gossip->steps == STEPS);
    take_values(&a, &a);
    take_values(&b, &b);
    step(&a, 0);
    for (size_t k = 0; k < count; k++) { /* what it trained with moved by this */
        double now = (double)a.run.state.params[k] * GOSSIP_ONE;
        double made = (double)a.mesh->sum[k] + a.mesh->own[k];
        assert_true(now - made <= 0.5 && made - now <= 0.5);
        moved += a.mesh->own[k] != 0;
    }
    assert_true(moved > count / 4);
    for (size_t k = 0; k < count; k++)
        b.run.state.params[k] = 77; /* the mesh holds the values, not the node */
    step(&b, 0);
    assert_memory_equal(a.mesh->own, b.mesh->own, count * sizeof(int32_t));
    assert_memory_equal(a.run.state.params, b.run.state.params, count * sizeof(float));
}

/* Of the only range. */
static const int64_t one = GOSSIP_ONE, half = GOSSIP_ONE / 2;

/* A value of push-sum is a sum of weights of so many nodes: what it trains with is their mean. */
TEST(with_push_sum_it_trains_with_values_by_weight)
{
    OWNED(a_run_fini) struct a_run a, b;
    begin(&a, push_sum, "a");
    begin(&b, push_sum, "b");
    size_t count = a.run.state.param_count;
    for (size_t k = 0; k < count; k++) { /* an even number, so that its half is one */
        a.mesh->sum[k] = a.mesh->own[k] & ~1;
        b.mesh->sum[k] = a.mesh->sum[k] / 2;
    }
    keeper_of(&a)->weigh(&a.run, &one);
    keeper_of(&b)->weigh(&b.run, &half);
    step(&a, 0);
    step(&b, 0);
    assert_memory_equal(a.run.state.params, b.run.state.params, count * sizeof(float));
}

/* Features so large that their products are infinite. */
TEST(gradients_that_are_not_finite_change_nothing_and_end_the_node)
{
    static const char wild[] = "data: {source: npy, test_share: 0.2}\n"
                               "model: [dense: 12, relu, dense: 3]\n"
                               "train: {epochs: 9, batch: 24, shards: 4, eval_every: 0}\n"
                               "mesh: {topology: gossip}\n";
    static double x[ROWS * 4], y[ROWS];
    OWNED(a_run_fini) struct a_run a;
    for (size_t k = 0; k < ROWS; k++)
        y[k] = (double)(k % 3);
    for (size_t k = 0; k < ROWS * 4; k++)
        x[k] = 3e38;
    npy_make_file(&folder, "features.npy", &(struct npy_make){"<f4", 2, {ROWS, 4}}, x);
    npy_make_file(&folder, "labels.npy", &(struct npy_make){"<i4", 1, {ROWS}}, y);
    a_run_open(&a, wild, folder.path, TRAIN_AUTO);
    for (unsigned k = 0; k < a.run.state.param_count; k++)
        a.mesh->sum[k] = 100 * GOSSIP_ONE - k;
    for (unsigned k = 1; k <= STATE_SKIPS_MAX; k++) {
        assert_int_equal(step(&a, k), k == STATE_SKIPS_MAX);
        assert_int_equal(a.run.skips.row, k);
        for (size_t i = 0; i < a.run.state.param_count; i++)
            assert_int_equal(a.mesh->own[i], 0);
    }
}

/* The sums of its values are in own while it is idle. */
static struct gossip_saved
save(struct a_run *a, uint64_t snapshot, uint64_t at, const int64_t *weight, int64_t *values)
{
    static const struct gossip_start starts[GOSSIP_STARTS + 1] = {{.node = {7, 1}, .computed = 12}};
    for (size_t k = 0; k < a->run.state.param_count; k++)
        values[k] = (int64_t)(k % 1000) * 4096;
    const struct gossip_saved saved = {.snapshot = snapshot,
                                       .step = at,
                                       .total = at * 4,
                                       .values = values,
                                       .weight = weight,
                                       .starts = starts};
    keeper_of(a)->save(&a->run, &saved);
    return saved;
}

static void
release(struct a_run *a)
{
    const struct gossip_note note = {.event = GOSSIP_UPDATED};
    keeper_of(a)->note(&a->run, &note);
    save_wait(a->run.save);
}

TEST(it_begins_with_what_all_saved)
{
    OWNED(a_run_fini) struct a_run a;
    begin(&a, push_sum, "a");
    size_t count = a.run.state.param_count;
    OWNED(memory_free) int64_t *values = malloc(count * sizeof *values);
    take_values(&a, &a);
    keeper_of(&a)->weigh(&a.run, &one);
    for (unsigned k = 0; k < 3; k++)
        step(&a, k);
    const struct state_header before = *a.run.state.header;
    save(&a, 8, 2, &(int64_t){0}, values); /* it has got nothing yet: nothing is saved */
    const struct gossip_saved saved = save(&a, 9, 3, &half, values);
    assert_memory_equal(a.run.state.header, &before, sizeof before);
    release(&a);
    a_run_fini(&a);
    begin(&a, push_sum, "a");
    const struct gossip_saved *got = a.mesh->setup.gossip->saved;
    assert_non_null(got);
    assert_true(got->snapshot == 9 && got->step == 3 && got->total == 12);
    assert_true(*got->weight == half && got->starts[0].node.id == 7);
    assert_memory_equal(got->values, saved.values, count * sizeof *values);
    for (size_t k = 0; k < count; k++) /* for who only has the file: by weight */
        assert_true(a.run.state.params[k] == (float)((double)(k % 1000) * 4096 * 2 / GOSSIP_ONE));
}

/* A file that passed its checksums, and yet says what no node can have saved. */
TEST(what_cannot_be_is_not_begun_with)
{
    static const struct {
        uint64_t step;
        int64_t weight;
        bool good;
    } row[] = {{3, GOSSIP_WEIGHT_MAX, true},
               {3, GOSSIP_WEIGHT_MAX + 1, false},
               {PROTO_ROUND_MAX / 4 + 1, GOSSIP_ONE, false}}; /* its shards are too many */
    for (unsigned k = 0; k < sizeof row / sizeof *row; k++) {
        struct a_run a;
        const char name[] = {(char)('a' + k), 0};
        begin(&a, push_sum, name);
        OWNED(memory_free) int64_t *values = malloc(a.run.state.param_count * sizeof *values);
        save(&a, 9, row[k].step, &row[k].weight, values);
        release(&a);
        bool good = a.run.way->resume(&a.run);
        assert_int_equal(good, row[k].good);
        a_run_fini(&a);
    }
}

/* Two nodes that trained differently, one of which has not trained at all. */
TEST(the_result_is_the_mean_and_the_same_state_on_all)
{
    OWNED(a_run_fini) struct a_run a, b;
    begin(&a, plain, "a");
    begin(&b, plain, "b");
    size_t count = a.run.state.param_count;
    take_values(&a, &a);
    for (unsigned k = 0; k < STEPS; k++)
        step(&a, k);
    for (size_t k = 0; k < count; k++)
        a.mesh->sum[k] = b.mesh->sum[k] = (int32_t)(k % 100) * HALF;
    const struct mesh_task commit = {.kind = MESH_COMMIT, .members = 2};
    a_run_follow(&a, &commit);
    a_run_follow(&b, &commit);
    uint64_t mean = XXH3_64bits(a.mesh->sum, count * sizeof(int32_t)) | 1;
    assert_true(a.mesh->told.done && b.mesh->told.done);
    assert_true(a.mesh->told.round == 1 && b.mesh->told.round == 1);
    assert_true(a.mesh->told.hash == mean && b.mesh->told.hash == mean);
    for (size_t k = 0; k < count; k++)
        assert_true(a.run.state.params[k] == (float)(k % 100) / 2);
    assert_memory_equal(a.run.state.params, b.run.state.params, count * sizeof(float));
    for (size_t k = 0; k < count; k++) /* the optimizer is a new one */
        assert_true(a.run.state.slot[0][k] == 0);
    assert_true(a.run.state.header->step == STEPS && b.run.state.header->step == STEPS);
}

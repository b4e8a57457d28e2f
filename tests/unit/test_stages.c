/* test_stages.c - where models may be cut, and that buckets end there. */
#include <math.h>

#include "node/train/stages.h"
#include "node/train/work.h"
#include "tests/support/spec.h"
#include "tests/support/test.h"

enum { SHARDS = 4, LAYERS = 24, TENSORS = 64 };

#define CONV(n)                                                                                    \
    {                                                                                              \
        .kind = NN_CONV2D, .units = n, .kernel = 3, .stride = 1, .pad = 1                          \
    }
#define NORM                                                                                       \
    {                                                                                              \
        .kind = NN_LAYERNORM, .epsilon = 1e-5F                                                     \
    }
#define BLOCK                                                                                      \
    LAYER(RESIDUAL), NORM, DENSE(24), LAYER(ATTENTION, .units = 2), DENSE(8), LAYER(RESIDUAL_END)

struct net {
    const char *name;
    struct nn_shape input;
    struct nn_layer_spec layer[LAYERS];
    size_t cut[LAYERS], words[LAYERS]; /* expected, from the output on; 0 ends them */
    bool tied;
};

static const struct net nets[] = {
    {"dense",
     {1, {4}},
     {DENSE(30), LAYER(RELU), DENSE(20), LAYER(TANH), DENSE(3)},
     {4, 2},
     {20, 30},
     false},
    {"one layer", {1, {4}}, {DENSE(3), LAYER(TANH)}, {0}, {0}, false},
    {"the pool gives less than the layer above it takes",
     {3, {1, 8, 8}},
     {LAYER(TANH), CONV(6), LAYER(MAXPOOL, .kernel = 2), LAYER(SIGMOID), CONV(2), LAYER(FLATTEN),
      DENSE(3)},
     {6, 4},
     {32, 96},
     false},
    {"tied, without a weight above the norm",
     {1, {7}},
     {LAYER(EMBEDDING, .units = 8, .tokens = 11), BLOCK, BLOCK, NORM,
      LAYER(DENSE, .units = 11, .tied = true, .no_bias = true)},
     {13, 7, 1},
     {56, 56, 56},
     true},
    {"nothing is cut off above the tied layer",
     {1, {7}},
     {LAYER(EMBEDDING, .units = 8, .tokens = 8), DENSE(8), LAYER(DENSE, .units = 8, .tied = true),
      DENSE(8), LAYER(TANH), DENSE(8)},
     {2, 1},
     {56, 56},
     true},
};

struct bench {
    struct nn_model *model;
    struct exact *exact;
    struct buckets buckets;
    struct stages stages;
};

static void
bench_init(struct bench *bench, const struct net *net, size_t bucket_bytes, bool stages)
{
    struct why why;
    size_t layers = 0, count[TENSORS];
    while (net->layer[layers].units > 0 || net->layer[layers].kind != NN_DENSE)
        layers++;
    if (nn_model_new(&bench->model, &net->input, net->layer, layers, NN_CROSS_ENTROPY, &why))
        fail_msg("%s: %s", net->name, why.line);
    size_t tensors = nn_tensor_count(bench->model);
    assert_true(tensors <= TENSORS);
    for (size_t i = 0; i < tensors; i++)
        count[i] = nn_tensor(bench->model, i)->count;
    assert_int_equal(exact_new(&bench->exact, count, tensors, SHARDS), 0);
    const struct work_setup setup = {
        .model = bench->model,
        .exact = bench->exact,
        .shards = SHARDS,
        .bucket_bytes = bucket_bytes,
        .stages = stages,
    };
    assert_int_equal(buckets_init(&bench->buckets, &setup), 0);
    stages_of(&bench->stages, bench->model, &bench->buckets);
}

static void
bench_fini(struct bench *bench)
{
    buckets_fini(&bench->buckets);
    exact_destroy(&bench->exact);
    nn_model_destroy(&bench->model);
}

TEST(the_cuts_are_where_parts_may_begin)
{
    for (size_t n = 0; n < sizeof nets / sizeof *nets; n++) {
        OWNED(bench_fini) struct bench bench;
        bench_init(&bench, &nets[n], 1 << 20, true);
        const struct stages *stages = &bench.stages;
        assert_int_equal(stages->tied, nets[n].tied);
        for (size_t c = 0; c < stages->cut_count; c++) {
            assert_int_equal(stages->cut[c].layer, nets[n].cut[c]);
            assert_int_equal(stages->cut[c].words, nets[n].words[c]);
            assert_true(nn_may_begin(bench.model, stages->cut[c].layer));
        }
        assert_int_equal(nets[n].cut[stages->cut_count], 0);
    }
}

/* The first parameter of the layers from `layer` on. */
static size_t
first_above(const struct nn_model *model, size_t layer)
{
    size_t first = 0;
    while (buckets_of_layer(model, layer, &first) == 0)
        layer++;
    return first;
}

/* The buckets before that of a cut have the parameters of the layers above it, and no others. Small ones and large
 * ones. */
TEST(a_bucket_ends_at_every_cut)
{
    for (size_t n = 0; n < 2 * sizeof nets / sizeof *nets; n++) {
        OWNED(bench_fini) struct bench bench;
        bench_init(&bench, &nets[n / 2], n % 2 ? 512 : 1 << 20, true);
        for (size_t c = 0; c < bench.stages.cut_count; c++) {
            const struct stages_cut *cut = &bench.stages.cut[c];
            size_t first = first_above(bench.model, cut->layer), count = 0;
            for (size_t b = 0; b < cut->bucket; b++) {
                assert_true(bench.buckets.bucket[b].first >= first);
                count += bench.buckets.bucket[b].count;
            }
            assert_int_equal(count, nn_param_count(bench.model) - first);
        }
    }
}

/* All of a small model in one bucket. */
TEST(a_job_without_stages_keeps_its_buckets)
{
    OWNED(bench_fini) struct bench bench;
    bench_init(&bench, &nets[0], 1 << 20, false);
    assert_int_equal(bench.buckets.bucket_count, 2);
    bench_fini(&bench);
    bench_init(&bench, &nets[0], 1 << 20, true);
    assert_int_equal(bench.buckets.bucket_count, 4);
}

TEST(costs_are_those_of_all_layers)
{
    for (size_t n = 0; n < sizeof nets / sizeof *nets; n++) {
        OWNED(bench_fini) struct bench bench;
        double layers = 0, segments = 0;
        bench_init(&bench, &nets[n], 1 << 20, true);
        for (size_t layer = 0; layer < nn_layer_count(bench.model); layer++)
            layers += nn_layer_train_flops(bench.model, layer);
        for (size_t c = 0; c <= bench.stages.cut_count; c++)
            segments += bench.stages.cost[c];
        assert_true(fabs(layers - segments) <= 1e-9 * layers);
    }
}

/* What a node may hold: they cover the parameters, and end at the cuts. */
TEST(segments_lie_between_the_cuts)
{
    for (size_t n = 0; n < sizeof nets / sizeof *nets; n++) {
        OWNED(bench_fini) struct bench bench;
        struct state_stages segments;
        size_t end = 0;
        bench_init(&bench, &nets[n], 1 << 20, true);
        stages_segments(&bench.stages, bench.model, &segments);
        assert_int_equal(segments.count, bench.stages.cut_count + 1);
        for (size_t s = 0; s < segments.count; s++) {
            size_t cut = bench.stages.cut_count - s;
            if (s > 0)
                assert_int_equal(segments.stage[s].first,
                                 first_above(bench.model, bench.stages.cut[cut].layer));
            assert_int_equal(segments.stage[s].first, end);
            end = segments.stage[s].end;
            assert_true(end > segments.stage[s].first);
        }
        assert_int_equal(end, nn_param_count(bench.model));
    }
}

/* There are no more segments than bits in a bitmap of them. */
TEST(a_deep_model_has_fewer_cuts_than_layers)
{
    enum { DEEP = 150 };
    struct nn_layer_spec layer[DEEP];
    size_t count[2 * DEEP];
    const struct nn_shape input = {1, {3}};
    OWNED(bench_fini) struct bench bench;
    struct state_stages segments;
    struct why why;
    for (size_t l = 0; l < DEEP; l++)
        layer[l] = (struct nn_layer_spec)DENSE(3);
    assert_int_equal(nn_model_new(&bench.model, &input, layer, DEEP, NN_CROSS_ENTROPY, &why), 0);
    for (size_t i = 0; i < 2 * DEEP; i++)
        count[i] = nn_tensor(bench.model, i)->count;
    assert_int_equal(exact_new(&bench.exact, count, 2 * DEEP, SHARDS), 0);
    const struct work_setup setup = {.model = bench.model,
                                     .exact = bench.exact,
                                     .shards = SHARDS,
                                     .bucket_bytes = 1 << 20,
                                     .stages = true};
    assert_int_equal(buckets_init(&bench.buckets, &setup), 0);
    stages_of(&bench.stages, bench.model, &bench.buckets);
    assert_int_equal(bench.stages.cut_count, PROTO_STAGES_MAX - 1);
    stages_segments(&bench.stages, bench.model, &segments);
    double cost = 0, all = 0;
    for (size_t l = 0; l < DEEP; l++)
        all += nn_layer_train_flops(bench.model, l);
    for (size_t s = 0; s < segments.count; s++) {
        size_t params = segments.stage[s].end - segments.stage[s].first;
        assert_in_range(params, 2 * (3 * 3 + 3), 3 * (3 * 3 + 3)); /* two layers or three */
        cost += bench.stages.cost[s];
    }
    assert_true(fabs(cost - all) < 1e-6 * all);
}

/* test_segment.c - activations that are computed again: the same bits in less memory; and a model in parts, with
 * gradients of weights at once or late: the same bits. So it is where the model rounds what crosses cuts, beside parts
 * between which the test rounds. */
#include <stdio.h>

#include "nn/layers/layer.h"
#include "nn/nn.h"
#include "nn/pass.h"
#include "tests/support/bf16.h"
#include "tests/support/rand.h"
#include "tests/support/spec.h"
#include "tests/support/test.h"

enum { ROWS = 6, LAYERS = 48, PARAMS_MAX = 20000 };

struct net {
    const char *name;
    struct nn_shape input;
    unsigned tokens; /* above 0: the input is that many, and each position has a label */
    struct nn_layer_spec layer[LAYERS];
    bool smaller; /* it has something to compute again */
};

#define CONV(n, s)                                                                                 \
    {                                                                                              \
        .kind = NN_CONV2D, .units = n, .kernel = 3, .pad = 1, .stride = s                          \
    }
#define NORM(k)                                                                                    \
    {                                                                                              \
        .kind = k, .epsilon = 1e-5F, .momentum = 0.1F                                              \
    }
#define DROP                                                                                       \
    {                                                                                              \
        .kind = NN_DROPOUT, .drop = 0.3F                                                           \
    }
#define BLOCK                                                                                      \
    LAYER(RESIDUAL), CONV(4, 1), NORM(NN_BATCHNORM), LAYER(RELU), CONV(4, 1), NORM(NN_BATCHNORM),  \
        LAYER(RESIDUAL_END), LAYER(RELU)
#define GPT                                                                                        \
    LAYER(RESIDUAL), NORM(NN_LAYERNORM), DENSE(24), LAYER(ATTENTION, .units = 2), DENSE(8), DROP,  \
        LAYER(RESIDUAL_END), LAYER(RESIDUAL), NORM(NN_LAYERNORM), DENSE(32), LAYER(GELU),          \
        DENSE(8), LAYER(RESIDUAL_END)

static const struct net nets[] = {
    {.name = "one layer", .input = {1, {5}}, .layer = {DENSE(4)}},
    {.name = "in place",
     .input = {1, {12}},
     .layer = {DENSE(20), LAYER(RELU), DROP, DENSE(20), LAYER(GELU), DENSE(20), LAYER(TANH), DROP,
               DENSE(20), LAYER(SILU), DENSE(20), LAYER(SIGMOID), DENSE(4)},
     .smaller = true},
    {.name = "images",
     .input = {3, {2, 8, 8}},
     .layer = {CONV(4, 1), LAYER(RELU), LAYER(MAXPOOL, .kernel = 2), CONV(4, 1), NORM(NN_BATCHNORM),
               LAYER(RELU), LAYER(AVGPOOL, .kernel = 2), LAYER(FLATTEN), LAYER(RELU), DENSE(9),
               NORM(NN_RMSNORM), DENSE(4)},
     .smaller = true},
    {.name = "view first",
     .input = {3, {1, 4, 4}},
     .layer = {LAYER(FLATTEN), LAYER(TANH), DENSE(9), LAYER(TANH), DENSE(4)}},
    {.name = "residual",
     .input = {3, {2, 8, 8}},
     .layer = {CONV(4, 1), NORM(NN_BATCHNORM), LAYER(RELU), BLOCK, BLOCK, BLOCK, CONV(4, 2), BLOCK,
               LAYER(GLOBALPOOL), DENSE(4)},
     .smaller = true},
    {.name = "gpt",
     .input = {1, {7}},
     .tokens = 11,
     .layer = {LAYER(EMBEDDING, .units = 8, .tokens = 11), LAYER(POSITIONS), GPT, GPT,
               NORM(NN_LAYERNORM), LAYER(DENSE, .units = 11, .tied = true, .no_bias = true)},
     .smaller = true},
    {.name = "tied in a residual",
     .input = {1, {7}},
     .tokens = 8,
     .layer = {LAYER(EMBEDDING, .units = 8, .tokens = 8), GPT, LAYER(RESIDUAL), DENSE(8),
               LAYER(DENSE, .units = 8, .tied = true, .no_bias = true), LAYER(RESIDUAL_END)}},
    {.name = "recurrent",
     .input = {1, {7}},
     .tokens = 11,
     .layer = {LAYER(EMBEDDING, .units = 8, .tokens = 11), LAYER(LSTM, .units = 8),
               LAYER(GRU, .units = 8), LAYER(RNN, .units = 8), DENSE(11)},
     .smaller = true},
};

struct gradient {
    float g[PARAMS_MAX];
    struct nn_result result;
    size_t bytes;
};

static void
take(void *ctx, size_t first, const float *g, size_t n)
{
    struct gradient *out = ctx;
    for (size_t i = 0; i < n; i++)
        out->g[first + i] += g[i];
}

static void
batch_make(const struct net *net, const struct nn_model *model, struct nn_batch *batch)
{
    struct rand rand = {7};
    batch->rows = ROWS;
    for (size_t i = 0; i < ROWS * nn_input_size(model); i++)
        batch->x[i] = net->tokens ? (float)(rand_u64(&rand) % net->tokens)
                                  : (float)(rand_u64(&rand) % 2000) / 1000 - 1;
    for (size_t i = 0; i < ROWS * nn_label_count(model); i++)
        batch->label[i] = (int32_t)(rand_u64(&rand) % (net->tokens ? net->tokens : 4));
}

/* How the model is computed. */
struct way {
    bool again;           /* activations are computed again */
    bool late;            /* gradients of weights come after those of inputs */
    bool rounds, by_hand; /* what crosses cuts: by the model; here */
    bool evaluates;       /* forward is all */
    size_t parts, begin[LAYERS + 1];
};

struct parts {
    const struct nn_model *model;
    const struct way *way;
    const float *params;
    struct nn_context context;
    struct nn_sink sink;
    struct nn_pass *pass[LAYERS];
};

static void
parts_new(struct parts *p)
{
    const struct way *way = p->way;
    for (size_t i = 0; i < way->parts; i++) {
        const struct nn_room room = {.first = way->begin[i],
                                     .end = way->begin[i + 1],
                                     .rows_max = ROWS,
                                     .training = !way->evaluates,
                                     .late = way->late};
        assert_int_equal(nn_pass_new_room(&p->pass[i], p->model, &room), 0);
        nn_pass_batch(p->pass[i])->rows = ROWS;
    }
    nn_pass_tied(p->pass[0], p->pass[way->parts - 1]);
}

static void
round_by_hand(const struct parts *p, float *x, size_t n)
{
    for (size_t i = 0; p->way->by_hand && i < n; i++)
        x[i] = bf16_nearest(x[i]);
}

static void
part_forward(struct parts *p, size_t i)
{
    size_t end = p->way->begin[i + 1];
    for (size_t l = p->way->begin[i]; l < end; l++)
        nn_forward(p->model, l, p->pass[i], p->params, &p->context);
    if (i + 1 == p->way->parts)
        return;
    size_t n = ROWS * nn_shape_size(nn_layer_output(p->model, end - 1));
    round_by_hand(p, p->pass[i]->out[end - 1], n);
    memcpy(nn_pass_batch(p->pass[i + 1])->x, nn_pass_output(p->pass[i]), n * sizeof(float));
}

/* As work.c does: the gradient of a layer, then that of its input; or late. */
static void
part_backward(struct parts *p, size_t i)
{
    size_t first = p->way->begin[i];
    for (size_t l = p->way->begin[i + 1]; l-- > first;) {
        if (!p->way->late || !nn_late(p->model, l))
            nn_gradient(p->model, l, p->pass[i], p->params, &p->context, &p->sink);
        nn_backward(p->model, l, p->pass[i], p->params, &p->context, NULL);
    }
    const float *gradient = nn_pass_input_gradient(p->pass[i]);
    if (i == 0 || gradient == NULL)
        return;
    size_t n = ROWS * nn_shape_size(nn_layer_output(p->model, first - 1));
    float *below = nn_pass_gradient(p->pass[i - 1], 1.0F / ROWS);
    memcpy(below, gradient, n * sizeof *below);
    round_by_hand(p, below, n);
}

static void
part_late(struct parts *p, size_t i)
{
    for (size_t l = p->way->begin[i]; p->way->late && l < p->way->begin[i + 1]; l++)
        if (nn_late(p->model, l))
            nn_gradient(p->model, l, p->pass[i], p->params, &p->context, &p->sink);
}

/* Twice, so that one step follows another. */
static void
parts_run(const struct net *net, struct parts *p, struct gradient *out)
{
    size_t parts = p->way->parts;
    for (p->context.step = 0; p->context.step < 2; p->context.step++) {
        struct nn_batch batch = *nn_pass_batch(p->pass[parts - 1]);
        batch.x = nn_pass_batch(p->pass[0])->x;
        batch_make(net, p->model, &batch);
        for (size_t i = 0; i < parts; i++)
            part_forward(p, i);
        nn_loss(p->model, p->pass[parts - 1], 1.0F / ROWS, &out->result);
        for (size_t i = parts; !p->way->evaluates && i-- > 0;)
            part_backward(p, i);
        for (size_t i = 0; !p->way->evaluates && i < parts; i++)
            part_late(p, i);
    }
}

static struct nn_model *
model_of(const struct net *net, bool again, bool rounds)
{
    struct why why = {""};
    struct nn_model *model;
    size_t count = 0;
    while (count < LAYERS &&
           (count == 0 || net->layer[count].kind != NN_DENSE || net->layer[count].units > 0))
        count++;
    if (nn_model_new(&model, &net->input, net->layer, count, NN_CROSS_ENTROPY, &why))
        fail_msg("%s: %s", net->name, why.line);
    if (again)
        nn_model_recompute(model);
    if (rounds)
        nn_model_round_cuts(model);
    return model;
}

/* `way` NULL: the whole model as one, out->bytes with it. */
static void
gradient_of(const struct net *net, bool again, const struct way *way, struct gradient *out)
{
    static float params[PARAMS_MAX];
    OWNED(nn_model_destroy)
    struct nn_model *model = model_of(net, again, way != NULL && way->rounds);
    const struct way whole = {.parts = 1, .begin = {0, nn_layer_count(model)}};
    struct parts p = {.model = model,
                      .way = way == NULL ? &whole : way,
                      .params = params,
                      .context = {.seed = 1, .training = way == NULL || !way->evaluates},
                      .sink = {.add = take, .ctx = out}};
    assert_true(nn_param_count(model) <= PARAMS_MAX);
    nn_init_params(model, 3, params);
    memset(out, 0, sizeof *out);
    out->bytes = nn_pass_bytes(model, ROWS, true);
    parts_new(&p);
    parts_run(net, &p, out);
    for (size_t i = 0; i < p.way->parts; i++)
        nn_pass_destroy(&p.pass[i]);
}

static void
compare(const struct net *net, bool again, const struct way *way, const struct gradient *plain)
{
    static struct gradient parts;
    gradient_of(net, again, way, &parts);
    if (memcmp(plain->g, parts.g, sizeof parts.g) != 0 || plain->result.loss != parts.result.loss)
        fail_msg("%s: another gradient in %zu parts, the second from layer %zu%s%s", net->name,
                 way->parts, way->begin[1], again ? ", again" : "", way->late ? ", late" : "");
}

/* In one part, in two at each place, and in as many as there can be, all other things as in `way`. */
static size_t
parts_compare(const struct net *net, bool again, const struct way *way,
              const struct gradient *plain)
{
    OWNED(nn_model_destroy) struct nn_model *model = model_of(net, again, false);
    size_t count = nn_layer_count(model), cuts = 0;
    struct way two = *way, most = *way;
    most.parts = 1;
    most.begin[1] = count;
    compare(net, again, &most, plain);
    for (size_t l = 1; l < count; l++) {
        if (!nn_may_begin(model, l))
            continue;
        cuts++;
        two.parts = 2;
        two.begin[1] = l;
        two.begin[2] = count;
        compare(net, again, &two, plain);
        most.begin[most.parts++] = l;
    }
    most.begin[most.parts] = count;
    compare(net, again, &most, plain);
    return cuts;
}

TEST(parts_give_the_gradient_of_the_whole)
{
    static struct gradient plain;
    size_t cuts = 0;
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
        gradient_of(&nets[i], false, NULL, &plain);
        for (size_t k = 0; k < 4; k++)
            cuts += parts_compare(&nets[i], k % 2, &(struct way){.late = k / 2}, &plain);
    }
    assert_true(cuts > 4 * 30);
}

/* In parts at every cut, between which the test rounds one number after the other. */
static size_t
by_hand(const struct net *net, bool evaluates, struct gradient *out)
{
    OWNED(nn_model_destroy) struct nn_model *model = model_of(net, false, false);
    struct way way = {.parts = 1, .by_hand = true, .evaluates = evaluates};
    for (size_t t = 0; t < nn_tensor_count(model); t++) {
        size_t cut = nn_cut_below(model, nn_tensor(model, t)->layer);
        if (cut > way.begin[way.parts - 1])
            way.begin[way.parts++] = cut;
    }
    way.begin[way.parts] = nn_layer_count(model);
    gradient_of(net, false, &way, out);
    return way.parts - 1;
}

TEST(what_crosses_cuts_is_rounded_in_every_division)
{
    static struct gradient plain, rounded;
    size_t cuts = 0;
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
        size_t here = by_hand(&nets[i], false, &rounded);
        gradient_of(&nets[i], false, NULL, &plain);
        if ((memcmp(plain.g, rounded.g, sizeof plain.g) == 0) != (here == 0))
            fail_msg("%s: %zu cuts, and rounding does something else", nets[i].name, here);
        for (size_t k = 0; k < 4; k++)
            parts_compare(&nets[i], k % 2, &(struct way){.rounds = true, .late = k / 2}, &rounded);
        by_hand(&nets[i], true, &rounded);
        parts_compare(&nets[i], false, &(struct way){.rounds = true, .evaluates = true}, &rounded);
        cuts += here;
    }
    assert_true(cuts > 25);
}

/* Nearest to the layer above, or where fewer floats cross; none within a residual or between layers that are computed
 * as one, nor where nothing below has parameters. */
TEST(cuts_are_between_layers_with_parameters)
{
    static const struct {
        size_t net, layer, cut;
    } at[] = {
        {0, 0, 0},   {1, 3, 3}, {1, 5, 0},   {2, 3, 3},   {2, 9, 9}, {3, 2, 0},
        {3, 4, 4},   {4, 4, 3}, {4, 5, 0},   {4, 29, 28}, {5, 1, 0}, {5, 3, 2},
        {5, 28, 28}, {6, 9, 8}, {6, 15, 14}, {7, 1, 1},
    };
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        OWNED(nn_model_destroy) struct nn_model *model = model_of(&nets[at[i].net], false, false);
        size_t cut = nn_cut_below(model, at[i].layer);
        if (cut != at[i].cut)
            fail_msg("%s: below %zu at %zu, expected %zu", nets[at[i].net].name, at[i].layer, cut,
                     at[i].cut);
    }
}

/* A half of a GPT has about its share of the memory. */
TEST(a_part_has_its_share_of_the_memory)
{
    static const struct net deep = {
        .name = "deep",
        .input = {1, {7}},
        .tokens = 11,
        .layer = {LAYER(EMBEDDING, .units = 8, .tokens = 11), GPT, GPT, GPT, DENSE(11)}};
    OWNED(nn_model_destroy) struct nn_model *model = model_of(&deep, false, false);
    size_t half = nn_layer_count(model) / 2;
    while (!nn_may_begin(model, half))
        half++;
    struct nn_room lower = {.end = half, .rows_max = 64, .training = true};
    struct nn_room upper = {.first = half, .rows_max = 64, .training = true};
    size_t all = nn_pass_bytes(model, 64, true), one = nn_pass_room_bytes(model, &lower),
           other = nn_pass_room_bytes(model, &upper);
    assert_true(one < all);
    assert_true(other < all);
    assert_true(one + other < all + all / 4);
}

TEST(the_gradient_is_the_same_in_less_memory)
{
    static struct gradient plain, again;
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
        gradient_of(&nets[i], false, NULL, &plain);
        gradient_of(&nets[i], true, NULL, &again);
        if (memcmp(plain.g, again.g, sizeof plain.g) != 0 || plain.result.loss != again.result.loss)
            fail_msg("%s: another gradient", nets[i].name);
        if (nets[i].smaller ? again.bytes >= plain.bytes : again.bytes > plain.bytes)
            fail_msg("%s: %zu bytes, before %zu", nets[i].name, again.bytes, plain.bytes);
    }
}

/* A chain of n equal layers needs about 2 sqrt(n) of their buffers. */
TEST(memory_grows_with_the_root_of_the_depth)
{
    enum { DEPTH = 100, WIDTH = 1000 };
    static struct nn_layer_spec layer[DEPTH];
    struct why why = {""};
    const struct nn_shape input = {1, {WIDTH}};
    OWNED(nn_model_destroy) struct nn_model *model;
    for (size_t l = 0; l < DEPTH; l++)
        layer[l] = (struct nn_layer_spec){.kind = NN_DENSE, .units = WIDTH};
    assert_int_equal(nn_model_new(&model, &input, layer, DEPTH, NN_CROSS_ENTROPY, &why), 0);
    double row = WIDTH * sizeof(float);
    size_t scratch = nn_team_scratch(model, &(struct nn_room){.rows_max = 64}) * sizeof(float);
    double before = (double)(nn_pass_bytes(model, 64, true) - scratch) / 64 / row;
    nn_model_recompute(model);
    double after = (double)(nn_pass_bytes(model, 64, true) - scratch) / 64 / row;
    assert_true(before > 100 && before < 110);
    assert_true(after > 18 && after < 26);
}

/* fuzz_bodies.c - the trainers of all ways, and bodies that no trainer makes: totals, values of gossip. The core lets
 * each pass whose size and check fit.
 *
 * The first byte chooses the optimizer, and what else a job may ask for. The rest is a list of actions, each a byte
 * and its arguments. A body is a few bytes again and again, with others in some places. Whatever comes: no assertion
 * fails, a step ends, and what is kept could be saved and loaded: exponents are within their limits, and a node that
 * is sent the state takes it. */
#include "node/train/replica.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"
#include "tests/support/spec.h"

enum { SHARDS = 3, BATCH = 6, TRAIN = 24, ACTIONS_MAX = 64, ROUNDS_MAX = 64 };

/* Opened once: none of it changes. */
static struct {
    struct data_set *data;
    struct nn_model *model;
    struct exact *exact;
    struct pool *pool;
    struct work *work;
    size_t params, vector;
} set;

struct trainers {
    struct state state, next, other; /* `other`: as a node that is sent the state */
    struct replica replica;
    float *before;
    int32_t *own, *values;
};

static uint64_t
number(struct input *in)
{
    uint64_t x = 0;
    for (unsigned n = byte(in) % 9; n > 0; n--)
        x = x << 8 | byte(in);
    return x;
}

static void
open_set(void)
{
    const struct nn_layer_spec layers[] = {LAYER(MAXPOOL, .kernel = 7), LAYER(FLATTEN),
                                           LAYER(BATCHNORM, .epsilon = 1e-5f, .momentum = 0.1f),
                                           DENSE(10)};
    const struct data_spec spec = {.source = DATA_GLYPHS, .seed = 3, .train = TRAIN, .test = BATCH};
    size_t count[NN_LAYERS_MAX], tensors = 0;
    struct why why;
    nn_init("portable");
    if (data_open(&set.data, &spec, &why) ||
        nn_model_new(&set.model, &data_info(set.data)->input, layers,
                     sizeof layers / sizeof *layers, NN_CROSS_ENTROPY, &why))
        abort();
    for (; tensors < nn_tensor_count(set.model); tensors++)
        count[tensors] = nn_tensor(set.model, tensors)->count;
    if (exact_new(&set.exact, count, tensors, SHARDS) || pool_new(&set.pool, 1))
        abort();
    const struct work_setup setup = {
        .model = set.model,
        .data = set.data,
        .exact = set.exact,
        .pool = set.pool,
        .threads = 1,
        .shards = SHARDS,
        .batch = BATCH,
        .local_steps = 1,
        .exact_mode = true,
        .bucket_bytes = 1000,
    };
    if (work_new(&set.work, &setup))
        abort();
    set.params = nn_param_count(set.model);
    set.vector = work_vector_count(set.work);
}

static void
open_trainers(struct trainers *t, unsigned modes)
{
    static const struct optim_spec rules[] = {
        {.kind = OPTIM_SGD, .rate = 0.5f},
        {.kind = OPTIM_SGD, .rate = 0.5f, .momentum = 0.9f, .nesterov = true},
        {.kind = OPTIM_ADAM, .rate = 0.1f, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-8f},
        {.kind = OPTIM_SGD, .rate = 0.5f, .momentum = 0.9f, .clip_norm = 1},
    };
    const struct state_job job = {
        .rules = {.optim = rules[modes & 3], .epochs = 3, .eval_every = modes >> 2 & 1},
        .shards = SHARDS,
        .batch = BATCH,
        .local_steps = 1,
        .train = TRAIN,
        .test = BATCH,
        .labels = 1,
    };
    struct state *all[] = {&t->state, &t->next, &t->other};
    memset(t, 0, sizeof *t);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        assert(state_init(all[k], &job, set.exact, set.params) == 0);
        state_start(all[k]);
    }
    nn_init_params(set.model, 7, t->state.params);
    t->before = calloc(set.params, sizeof *t->before);
    t->own = calloc(set.vector, sizeof *t->own);
    t->values = calloc(set.params, sizeof *t->values);
    t->replica = (struct replica){
        .state = &t->state,
        .next = &t->next,
        .work = set.work,
        .pool = set.pool,
        .before = t->before,
        .async = modes >> 5 & 1,
    };
}

static void
close_trainers(struct trainers *t)
{
    struct state *all[] = {&t->state, &t->next, &t->other};
    free(t->before);
    free(t->own);
    free(t->values);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        state_fini(all[k]);
}

/* --- What may come ---------------------------------------------------------------------------------- */

/* Another node is sent the state, or this one begins with a checkpoint of it. */
static void
could_be_saved(struct trainers *t)
{
    uint64_t hash = state_rehash(&t->state, set.pool);
    assert(exact_valid(set.exact, t->state.exponent));
    assert(state_take(&t->other, t->state.block, hash, set.pool) == 0);
}

/* A total whose gradients and losses are any, and whose sums fit: what members do who agree to lie. */
static void
total(struct trainers *t, struct input *in)
{
    struct state_event event;
    struct state_header *h = t->state.header;
    int32_t *tail = t->own + set.params;
    h->done = 0;
    state_place(&t->state, number(in) % state_steps_total(&t->state));
    state_rehash(&t->state, set.pool);
    memset(t->own, 0, set.vector * sizeof *t->own);
    if (h->phase == STATE_TRAIN)
        fill(in, t->own, set.params * sizeof *t->own);
    fill(in, tail + TAIL_CORRECT, 4 * sizeof *tail);
    tail[TAIL_SAMPLES] = (int32_t)state_rows(&t->state);
    tail[TAIL_BAD] = byte(in) % 8 == 0;
    for (size_t b = 0; b < t->state.block_count && byte(in) % 4 == 0; b++)
        tail[TAIL_OVER + b] = 1;
    assert(state_advance(&t->next, &t->state, t->own, &event, set.pool) != 0);
    state_swap(&t->state, &t->next);
    could_be_saved(t);
}

/* A replica's step from values that its neighbours made. */
static void
gossips(struct trainers *t, struct input *in)
{
    struct state_event event = {.stepped = false};
    struct core_task task = {.round = number(in) % PROTO_ROUND_MAX,
                             .shards = 1 + byte(in) % ((1 << SHARDS) - 1),
                             .known = number(in) % PROTO_ROUND_MAX};
    unsigned rounds = 0;
    fill(in, t->values, set.params * sizeof *t->values);
    replica_begin(&t->replica, &task, t->values);
    do
        replica_round(&t->replica, replica_shards(&t->replica, &task), t->own, &event, NULL, NULL);
    while (!event.stepped && ++rounds < ROUNDS_MAX);
    assert(event.stepped);
    t->state.header->phase = STATE_TRAIN;
    replica_update(&t->replica, t->values);
    could_be_saved(t);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct trainers t;
    if (!set.model)
        open_set();
    open_trainers(&t, byte(&in));
    for (unsigned k = 0; k < ACTIONS_MAX && in.left > 0; k++) {
        if (byte(&in) % 2 == 0)
            total(&t, &in);
        else
            gossips(&t, &in);
    }
    close_trainers(&t);
    return 0;
}

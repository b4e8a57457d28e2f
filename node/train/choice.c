/* choice.c - see choice.h. */
#include "node/train/choice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "compress/coding.h"
#include "nn/arithmetic/vmath.h"
#include "proto/clock.h"

enum {
    PART = 1 << 16, /* elements that are tried, at most */
    SHARDS = 3,
    SETTLES = 5,
    SETTLES_MAX = 32, /* steps until a unit has come to rest */
    MEASURES = 2,     /* steps after these, of which the shortest counts */
    UNIT_US = 8,      /* of a cost: so that those of many nodes have room in 32 bits */
    COST_MAX = 1 << 24,
    FLUSH_BYTES = 2, /* of an element in the last step of a span */
    /* times as long with a memory: the gradient is stored first; neither it nor what waits is in a cache any more */
    KEPT = 4,
};

/* Per element, of one shard, or of the sum. */
struct measured {
    const struct codec *codec; /* NULL: without one */
    double encode_s, pack_s, decode_s, bytes;
};

/* Some rows of a weight, by themselves. */
struct trial {
    size_t first, rows, cols;  /* of the whole weight in the vector */
    const struct exact *exact; /* of one tensor */
    size_t n;                  /* elements that are tried */
    float *g;                  /* [n] */
    float *rest;               /* [SHARDS][n] what waits */
    float *a, *product;        /* [n] */
    float *basis, *next;       /* [n] */
    int32_t *q;                /* [n] */
    uint8_t *body;             /* [coding_most(n)] */
    int16_t exponent[PART / EXACT_BLOCK + 1];
    int32_t over[PART / EXACT_BLOCK + 1];
};

static size_t
trial_blocks(const struct trial *trial)
{
    return exact_blocks(trial->exact);
}

/* What a codec with memory does with a shard. */
static void
trial_keep(struct trial *trial, float *a)
{
    const struct lowrank *matrix = exact_matrix(trial->exact, 0);
    float *left = trial->next;
    int32_t bad = 0;
    uint64_t check = 0;
    if (!matrix) {
        exact_add_kept(trial->exact, trial->exponent, 0, a, trial->n, 0, trial->q, trial->over,
                       &bad, &check);
        return;
    }
    size_t n = lowrank_project(matrix, trial->basis, a, trial->product);
    memcpy(left, trial->product, n * sizeof *left);
    exact_add_kept(trial->exact, trial->exponent, 0, left, n, 0, trial->q, trial->over, &bad,
                   &check);
    lowrank_take(matrix, trial->basis, trial->product, left, a);
}

/* Of this thread: others that run beside it do not count. */
static double
used_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Shifts the gradient by s elements for shard s, so that shards differ and keep their local structure. */
static void
trial_turn(struct trial *trial, size_t s)
{
    size_t from = s < trial->n ? s : 0, rest = trial->n - from;
    memcpy(trial->a, trial->g + from, rest * sizeof *trial->a);
    memcpy(trial->a + rest, trial->g, from * sizeof *trial->a);
}

/* Returns the seconds of all shards. */
static double
trial_encode(struct trial *trial, const struct codec *codec, uint32_t key)
{
    int32_t bad = 0;
    uint64_t check = 0;
    double encode_s = 0;
    memset(trial->q, 0, trial->n * sizeof *trial->q);
    memset(trial->over, 0, sizeof trial->over);
    for (size_t s = 0; s < SHARDS; s++) {
        float *rest = trial->rest + s * trial->n;
        trial_turn(trial, s);
        double start = used_s();
        if (codec->memory) {
            vmath_add(rest, trial->a, rest, trial->n);
            trial_keep(trial, rest);
        } else {
            exact_add(trial->exact, trial->exponent, 0, trial->a, trial->n, 1, key + (uint32_t)s,
                      trial->q, trial->over, &bad, &check);
        }
        encode_s += used_s() - start;
    }
    return encode_s;
}

/* Of a product also the next basis. */
static void
trial_decode(struct trial *trial, uint32_t key)
{
    const struct lowrank *matrix = exact_matrix(trial->exact, 0);
    if (!matrix) {
        exact_read(trial->exact, trial->exponent, trial->q, 0, trial->a, trial->n);
        return;
    }
    lowrank_read(matrix, trial->basis, trial->q, exact_unit(trial->exact, trial->exponent, 0), 0,
                 trial->a, trial->n);
    lowrank_next(matrix, trial->basis, trial->q, key, trial->next);
    memcpy(trial->basis, trial->next, trial->n * sizeof *trial->basis);
}

/* The next exponents. */
static void
trial_follow(struct trial *trial)
{
    uint64_t squares[PART / EXACT_BLOCK + 1];
    float block[EXACT_BLOCK];
    uint32_t bits;
    for (size_t b = 0; b < trial_blocks(trial); b++) {
        exact_take(trial->exact, trial->exponent, trial->q, b, block, &bits);
        exact_follow(trial->exact, b, bits, true, trial->exponent);
        squares[b] = exact_squares(trial->exact, trial->q, b);
    }
    if (exact_adapts(trial->exact, 0))
        exact_adapt(trial->exact, 0, squares, trial->over, trial->exponent);
    exact_floor(trial->exact, trial->exponent);
}

static double
shorter(double a, double b)
{
    return b == 0 || a < b ? a : b;
}

/* One step, and the next exponents; its times, if they are less than those before. */
static void
trial_step(struct trial *trial, const struct codec *codec, uint32_t key, struct measured *measured)
{
    uint64_t check;
    double n = (double)trial->n, encode_s = trial_encode(trial, codec, key), start = used_s(),
           packed;
    size_t size = coding_pack(trial->body, trial->q, trial->n, SIZE_MAX, false, &check);
    coding_copy(trial->q, PROTO_CODING_PACKED, trial->body, trial->n, &check);
    packed = used_s();
    trial_decode(trial, key);
    measured->encode_s = shorter(encode_s / n / SHARDS, measured->encode_s);
    measured->pack_s = shorter((packed - start) / n, measured->pack_s);
    measured->decode_s = shorter((used_s() - packed) / n, measured->decode_s);
    measured->bytes = (double)size / n;
    trial_follow(trial);
}

static void
trial_begin(struct trial *trial)
{
    double squares[PART / EXACT_BLOCK + 1];
    const struct lowrank *matrix = exact_matrix(trial->exact, 0);
    for (size_t b = 0; b < trial_blocks(trial); b++) {
        squares[b] = 0;
        for (size_t i = exact_block_first(trial->exact, b);
             i < exact_block_first(trial->exact, b + 1); i++)
            squares[b] += SHARDS * SHARDS * (double)trial->g[i] * (double)trial->g[i];
    }
    exact_begin(trial->exact, squares, trial->exponent);
    memset(trial->rest, 0, SHARDS * trial->n * sizeof *trial->rest);
    if (matrix)
        lowrank_draw(matrix, 1, trial->basis);
}

static void
trial_measure(struct trial *trial, const struct codec *codec, const int16_t *exponent,
              struct measured *measured)
{
    memcpy(trial->exponent, exponent, trial_blocks(trial) * sizeof *exponent);
    if (codec->memory)
        trial_begin(trial);
    uint32_t key = 0;
    for (int16_t before = 0; key < SETTLES || (key < SETTLES_MAX && trial->exponent[0] != before);
         key++) {
        before = trial->exponent[0];
        trial_step(trial, codec, key * 0x9e3779b9u, measured);
    }
    *measured = (struct measured){0};
    for (const uint32_t end = key + MEASURES; key < end; key++)
        trial_step(trial, codec, key * 0x9e3779b9u, measured);
}

/* --- Costs ---------------------------------------------------------------------------------------- */

static int
trial_new(struct trial *trial)
{
    size_t n = trial->n;
    float *floats = calloc((SHARDS + 5) * n + 1, sizeof *floats);
    trial->rest = floats;
    trial->q = calloc(n + 1, sizeof *trial->q);
    trial->body = malloc(coding_most(n) + 1);
    if (!floats || !trial->q || !trial->body)
        return -1;
    trial->a = floats + SHARDS * n;
    trial->product = trial->a + n;
    trial->basis = trial->product + n;
    trial->next = trial->basis + n;
    trial->g = trial->next + n;
    return 0;
}

static void
trial_free(struct trial *trial)
{
    free(trial->rest);
    free(trial->q);
    free(trial->body);
}

/* Of this part; NULL: there is none. */
static const struct nn_tensor *
largest_weight(const struct nn_model *model, const struct state_range *part)
{
    const struct nn_tensor *largest = NULL;
    for (size_t t = 0; t < nn_tensor_count(model); t++) {
        const struct nn_tensor *tensor = nn_tensor(model, t);
        bool inside = tensor->first >= part->first && tensor->first + tensor->count <= part->end;
        if (inside && tensor->average == 0 && (!largest || tensor->count > largest->count))
            largest = tensor;
    }
    return largest;
}

/* Of the largest weight. No rows: not even one of it is to be tried. */
static void
trial_choose(struct trial *trial, const struct nn_model *model, const struct state_range *part)
{
    const struct nn_tensor *largest = largest_weight(model, part);
    if (!largest)
        return;
    trial->first = largest->first;
    trial->rows = largest->dims > 0 && largest->dim[0] > 0 ? largest->dim[0] : 1;
    trial->cols = largest->count / trial->rows;
    size_t most = trial->cols > 0 ? PART / trial->cols : 0;
    trial->n = trial->cols * (trial->rows < most ? trial->rows : most);
}

/* Elements of two products, as share of those of the matrix. */
static double
share_of_products(size_t rows, size_t cols)
{
    return (double)(rows + cols) / ((double)rows * (double)cols);
}

/* What is measured of a codec; NULL: of none. False: there is no memory, or the weight is too small for it. */
static bool
try_codec(struct trial *trial, const struct codec *codec, unsigned shards,
          const struct state *state, struct measured *measured)
{
    const int16_t *exponent = state->exponent + exact_block_of(state->exact, trial->first);
    static const struct codec none;
    struct exact *exact = NULL;
    size_t rows = trial->n / trial->cols;
    bool may = exact_new(&exact, &trial->n, 1, shards) == 0 &&
               (!codec || codec_takes(codec, trial->n, rows, false));
    if (may && codec)
        exact_code(exact, 0, codec, rows, false);
    trial->exact = exact;
    if (may)
        trial_measure(trial, codec ? codec : &none, exponent, measured);
    if (may && exact_matrix(exact, 0))
        measured->bytes *=
            share_of_products(trial->rows, trial->cols) / share_of_products(rows, trial->cols);
    measured->codec = codec;
    if (may && codec && codec->memory)
        measured->bytes += (double)FLUSH_BYTES / (double)state->job.span;
    exact_destroy(&exact);
    return may;
}

/* What the shards of this node take here, about; 0: unknown. */
static double
shards_s(const struct choice *choice)
{
    return choice->alone_s / (choice->members - 1);
}

/* Seconds of a step of all elements. crowded: times as long as on a processor of its own. */
static double
seconds_of(const struct choice *choice, const struct measured *of, const struct measured *none,
           double crowded)
{
    double elements = (double)choice->elements;
    double passes = 2.0 * (choice->members - 1) / choice->members;
    double line_s = elements * passes * of->bytes / choice->line,
           share = of->bytes / none->bytes; /* of the bytes that it has waited for until now */
    bool waited = choice->wait_s > 0 && choice->wait_s * share < line_s;
    double waits = waited ? choice->wait_s * share : fmax(0, line_s - shards_s(choice) / 2);
    bool keeps = of->codec && of->codec->memory;
    double encode = keeps ? KEPT * of->encode_s : fmax(0, of->encode_s - none->encode_s);
    return shards_s(choice) + waits +
           elements * crowded * (encode * choice->shards + of->pack_s * passes + of->decode_s);
}

static int32_t
units(double seconds)
{
    double units = seconds * 1e6 / UNIT_US;
    return units < 1 ? 1 : units < COST_MAX ? (int32_t)units : COST_MAX;
}

double
choice_counts(const struct codec *codec, double seconds)
{
    int tenths = !codec ? 10 : codec->memory ? 12 : 11;
    return seconds * tenths / 10;
}

/* One node alone must save a tenth, too, and so what is in use must be a tenth slower to be given up. */
static int32_t
alone_counts(double seconds)
{
    return units(seconds * 11 / 10);
}

void
choice_judge(unsigned codec, double step_s, double alone_s, int32_t cost[CODEC_COSTS])
{
    memset(cost, 0, CODEC_COSTS * sizeof *cost);
    if (codec >= CODECS || step_s <= 0 || alone_s <= 0)
        return;
    cost[codec] = units(step_s);
    cost[CODEC_none] = COST_MAX;
    cost[CODEC_ALONE] = alone_counts(alone_s);
}

/* What is measured of each codec that may be chosen, and of none; a codec that the weight is too small for goes as none
 * does. False: nothing could be tried. */
static bool
try_all(struct trial *trial, const struct choice *choice, const struct job *job,
        const struct state *state, struct measured of[CODECS])
{
    unsigned all = choice->shards * choice->members,
             shards = all < EXACT_SHARDS_MAX ? all : EXACT_SHARDS_MAX;
    if (!try_codec(trial, NULL, shards, state, &of[CODEC_none]))
        return false;
    for (unsigned kind = 1; kind < CODECS; kind++)
        if (job->codec[kind].coded && !try_codec(trial, codec_of(kind), shards, state, &of[kind]))
            of[kind] = of[CODEC_none];
    return true;
}

void
choice_costs(const struct choice *choice, const struct job *job, const struct state *state,
             const int32_t *own, int32_t cost[CODEC_COSTS])
{
    struct trial trial = {0};
    memset(cost, 0, CODEC_COSTS * sizeof *cost);
    trial_choose(&trial, job->model, &choice->part);
    if (choice->line == 0 || choice->shards == 0 || choice->summed == 0 || choice->members < 2 ||
        trial.n == 0)
        return;
    if (trial_new(&trial) == 0) {
        struct measured of[CODECS];
        double start = clock_s(), used = used_s();
        exact_read(state->exact, state->exponent, own, trial.first, trial.g, trial.n);
        for (size_t k = 0; k < trial.n; k++)
            trial.g[k] *= (float)choice->shards / (float)choice->summed;
        bool tried = try_all(&trial, choice, job, state, of);
        double crowded = (clock_s() - start) / (used_s() - used);
        for (unsigned kind = 0; tried && kind < CODECS; kind++)
            if (kind == CODEC_none || job->codec[kind].coded)
                cost[kind] = units(choice_counts(
                    of[kind].codec, seconds_of(choice, &of[kind], &of[CODEC_none], crowded)));
        if (tried && choice->alone_s > 0)
            cost[CODEC_ALONE] = alone_counts(shards_s(choice) + choice->alone_s);
    }
    trial_free(&trial);
}

/* estimate_codecs.c - see estimate_codecs.h. */
#include "node/commands/estimate_codecs.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "compress/codec.h"
#include "node/commands/bench.h"
#include "node/job/config_rules.h"
#include "node/train/memory.h"

enum {
    GROUPS = 3,
    ROUNDS = 8,       /* an exponent follows the sum of the round before; */
    ROUNDS_MOST = 48, /* a unit of a whole tensor moves by a bit in a round, until it is at rest */
    SPAN = 64,        /* defaults of these keys */
    WARMUP = 16,
};
static const double STEP_MAX_S = 0.25; /* so all codecs take a minute */
/* Bytes of what waits of all shards, as they are all computed here. */
static const double LEFT_MAX = 1 << 30;
static const unsigned nodes_of[GROUPS] = {2, 4, 8};

/* Of the bytes that a ring sends in 32 bits, those that it sends. */
struct shares {
    double of[GROUPS];
};

/* Adds those of the present round, of which own holds all shards: half of the way a chunk is the sum of some shards, then of all. */
static void
add_round(struct bench *bench, unsigned all, double weight, struct shares *shares)
{
    double total = fmin(bench_share(bench), 1);
    for (unsigned g = 0; g < GROUPS && !bench->failed; g++) {
        bench_compute(bench, (all + nodes_of[g] - 1) / nodes_of[g]);
        shares->of[g] += weight * fmin((fmin(bench_share(bench), 1) + 3 * total) / 4, 1);
    }
}

/* The units of whole tensors: they did not move in the last round. */
static bool
at_rest(const struct bench *bench)
{
    const struct state *now = &bench->now, *before = &bench->next;
    for (size_t b = 0; b < now->block_count; b++)
        if (exact_adapts(now->exact, b) && now->exponent[b] != before->exponent[b])
            return false;
    return true;
}

static void
next_round(struct bench *bench, unsigned all)
{
    bench_apply(bench);
    bench_compute(bench, all);
}

/* Of all shards, until exponents are those of a training run. What waits in a memory moves them for long. */
static void
settle_units(struct bench *bench, unsigned all, bool memory)
{
    bench_compute(bench, all);
    for (unsigned r = 1; r < ROUNDS_MOST && !bench->failed; r++) {
        if (r >= ROUNDS && !memory && at_rest(bench))
            return;
        next_round(bench, all);
    }
}

/* A codec that sends products sends another one in every second round. */
static int
measure_codec(const struct config *config, const struct job *job, unsigned lanes,
              struct shares *shares, struct why *why)
{
    struct bench bench;
    const struct codec *codec = codec_of(config->mesh.compress);
    unsigned all = config->train.shards;
    bool twice = codec && codec->rounding == CODEC_PRODUCT;
    int rc = bench_open(&bench, config, job, lanes, why);
    if (!rc) {
        settle_units(&bench, all, codec && codec->memory && codec->percent > 0);
        add_round(&bench, all, twice ? 0.5 : 1, shares);
    }
    if (!rc && twice && !bench.failed) {
        bench_compute(&bench, all);
        next_round(&bench, all);
        add_round(&bench, all, 0.5, shares);
    }
    rc = bench.failed ? -ENOMEM : rc;
    bench_close(&bench);
    return rc;
}

/* The job with this codec. False: a rule forbids it. */
static bool
with_codec(const struct config *config, unsigned kind, struct config *with)
{
    struct why why;
    *with = *config;
    with->mesh.compress = kind;
    if (kind != config->mesh.compress) { /* they are of the other codec */
        with->mesh.compress_k = 0;
        with->mesh.compress_rank = 0;
        with->mesh.compress_bits = 0;
    }
    with->mesh.compress_warmup = WARMUP; /* what is set of them is for some codecs only */
    with->mesh.compress_span = SPAN;
    bool may = kind == CODEC_none || !config_rules_check(with, &why);
    with->mesh.compress_span = config->mesh.compress_span;
    return may;
}

/* Does it need more memory here than may be taken for a try? */
static bool
left_out(const struct config *with, const struct job *job)
{
    const struct codec *codec = codec_of(with->mesh.compress);
    double bytes = 2.0 * sizeof(float) * (double)nn_param_count(job->model) * with->train.shards;
    return codec && codec->memory && bytes > LEFT_MAX;
}

static void
print_codec(const struct config *with, const struct job *job, const struct shares *shares)
{
    char text[MEMORY_TEXT];
    const struct codec *codec = codec_of(with->mesh.compress);
    double ring = (double)nn_param_count(job->model) * sizeof(int32_t);
    struct config some = *with;
    printf("  %-9s", codec ? codec->name : "none");
    for (unsigned g = 0; g < GROUPS; g++) {
        double sends = 2.0 * (nodes_of[g] - 1) / nodes_of[g] * shares->of[g];
        memory_text(text, sends * ring);
        printf(" %11s", sends > 0 ? text : "not tried");
    }
    for (unsigned g = 0; g < GROUPS; g++) {
        struct memory memory;
        some.mesh.peers = nodes_of[g];
        bool fits = !memory_plan(&memory, &some, job, NULL);
        memory_text(text, fits ? (double)memory_total(&memory) : 0);
        printf(" %11s", fits ? text : "too much");
    }
    printf("\n");
    fflush(stdout);
}

/* The last round of a span sends all that waits, on 16 bits. */
static void
add_span_end(const struct config *with, const struct shares *ends, struct shares *shares)
{
    double rounds = ceil((double)with->mesh.compress_span / (double)with->train.local_steps);
    for (unsigned g = 0; g < GROUPS; g++)
        shares->of[g] += (ends->of[g] - shares->of[g]) / rounds;
}

int
estimate_codecs(const struct config *config, struct job *job, unsigned lanes, double step_s,
                struct why *why)
{
    struct config with;
    struct shares shares, ends = {{1, 1, 1}};
    int rc = 0;
    if (step_s > STEP_MAX_S) {
        printf(
            "codecs  not tried, as a step takes %.1f s here: compress/README.md has their bytes\n",
            step_s);
        return 0;
    }
    printf("codecs  what a node sends in a step, about         and the memory it needs\n");
    printf("  %-9s %11s %11s %11s %11s %11s %11s\n", "", "2 nodes", "4 nodes", "8 nodes", "2 nodes",
           "4 nodes", "8 nodes");
    for (unsigned kind = CODEC_none; kind < CODECS && !rc; kind++) {
        if (!with_codec(config, kind, &with))
            continue;
        rc = job_code(job, &with, why);
        if (rc == -EINVAL) { /* the model is too small for it */
            rc = 0;
            continue;
        }
        shares = (struct shares){{0}};
        bool tried = !left_out(&with, job);
        if (!rc && tried)
            rc = measure_codec(&with, job, lanes, &shares, why);
        if (kind == CODEC_int16)
            ends = shares;
        if (!rc && tried && codec_of(kind) && codec_of(kind)->memory)
            add_span_end(&with, &ends, &shares);
        if (!rc)
            print_codec(&with, job, &shares);
    }
    int again = job_code(job, config, why);
    return rc ? rc : again;
}

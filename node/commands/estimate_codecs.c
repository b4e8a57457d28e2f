/* estimate_codecs.c - see estimate_codecs.h. */
#include "node/commands/estimate_codecs.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/codec.h"
#include "node/commands/bench.h"
#include "node/job/config_rules.h"
#include "node/train/memory.h"

enum {
    GROUPS = 3,
    ROUNDS = 8,       /* an exponent follows the sum of the round before; */
    ROUNDS_MOST = 48, /* a unit of a whole tensor moves by a bit in a round, until it is at rest */
    TIMED = 2,
    SPAN = 64, /* defaults of these keys */
    WARMUP = 16,
};
/* A step that takes longer is computed about so often with a codec, and not with those of the literature. */
static const double STEP_LONG_S = 0.25, TRY_S = 6;
/* Bytes of what waits of all shards, as they are all computed here. */
static const double LEFT_MAX = 1 << 30;
static const unsigned nodes_of[GROUPS] = {2, 4, 8};

/* Of the bytes that a ring sends in 32 bits, those that it sends. */
struct shares {
    double of[GROUPS];
};

/* Adds those of the present round, of which own holds all shards: half of the way a chunk is the sum of some shards,
 * then of all. */
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
settle_units(struct bench *bench, unsigned all, bool memory, double step_s)
{
    unsigned most = step_s > STEP_LONG_S ? (unsigned)fmax(TRY_S / step_s, 3) : ROUNDS_MOST;
    bench_compute(bench, all);
    for (unsigned r = 1; r < most && !bench->failed; r++) {
        if (r >= ROUNDS && !memory && at_rest(bench))
            return;
        next_round(bench, all);
    }
}

/* The quicker of two. */
static void
time_round(struct bench *bench, const struct config *config, struct estimate_codec *of)
{
    unsigned all = config->train.shards, peers = (unsigned)config->mesh.peers;
    *of = (struct estimate_codec){HUGE_VAL, HUGE_VAL, HUGE_VAL, 0};
    for (unsigned k = 0; k < TIMED && !bench->failed; k++) {
        of->few_s = fmin(of->few_s, bench_compute(bench, (all + peers - 1) / peers));
        double few = fmin(bench_share(bench), 1);
        of->all_s = fmin(of->all_s, bench_compute(bench, all));
        of->share = (few + 3 * fmin(bench_share(bench), 1)) / 4;
        of->apply_s = fmin(of->apply_s, bench_apply(bench));
    }
}

/* A codec that sends products sends another one in every second round. */
static int
measure_codec(const struct config *config, const struct job *job, unsigned lanes, double step_s,
              struct shares *shares, struct estimate_codec *of, struct why *why)
{
    struct bench bench;
    const struct codec *codec = codec_of(config->mesh.compress);
    unsigned all = config->train.shards;
    bool twice = codec && codec->rounding == CODEC_PRODUCT;
    int rc = bench_open(&bench, config, job, lanes, why);
    if (!rc) {
        settle_units(&bench, all, codec && codec->memory && codec->percent > 0, step_s);
        add_round(&bench, all, twice ? 0.5 : 1, shares);
    }
    if (!rc && twice && !bench.failed) {
        bench_compute(&bench, all);
        next_round(&bench, all);
        add_round(&bench, all, 0.5, shares);
    }
    if (!rc && !bench.failed) {
        bench_compute(&bench, all);
        time_round(&bench, config, of);
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

/* Does it need more memory here than may be taken for a try, or too long? */
static bool
left_out(const struct config *with, const struct job *job, double step_s)
{
    static const enum codec_kind kinds[] = {CODEC_none, CODECS_OF_AUTO};
    const struct codec *codec = codec_of(with->mesh.compress);
    double bytes = 2.0 * sizeof(float) * (double)nn_param_count(job->model) * with->train.shards;
    bool some = step_s <= STEP_LONG_S;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        some = some || kinds[i] == with->mesh.compress;
    return !some || (codec && codec->memory && bytes > LEFT_MAX);
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

/* Of one codec, if the job may have it. */
static int
estimate_codec(const struct config *with, struct job *job, unsigned lanes, double step_s,
               struct shares *ends, struct estimate_codec *of, struct why *why)
{
    unsigned kind = with->mesh.compress;
    struct shares shares = {{0}};
    int rc = job_code(job, with, why);
    if (rc == -EINVAL) /* the model is too small for it */
        return 0;
    bool tried = !rc && !left_out(with, job, step_s);
    if (tried)
        rc = measure_codec(with, job, lanes, step_s, &shares, of, why);
    if (kind == CODEC_int16 && tried)
        *ends = shares;
    if (!rc && tried && codec_of(kind) && codec_of(kind)->memory) {
        double rounds = ceil((double)with->mesh.compress_span / (double)with->train.local_steps);
        add_span_end(with, ends, &shares);
        of->share += (ends->of[GROUPS - 1] - of->share) / rounds;
    }
    if (!rc)
        print_codec(with, job, &shares);
    return rc;
}

int
estimate_codecs(const struct config *config, struct job *job, unsigned lanes, double step_s,
                struct estimate_codec of[CODECS], struct why *why)
{
    struct config with;
    struct shares ends = {{0.25, 0.25, 0.25}}; /* those of int16, about, until it is tried */
    int rc = 0;
    memset(of, 0, CODECS * sizeof *of);
    printf("codecs  what a node sends in a step, about         and the memory it needs\n");
    printf("  %-9s %11s %11s %11s %11s %11s %11s\n", "", "2 nodes", "4 nodes", "8 nodes", "2 nodes",
           "4 nodes", "8 nodes");
    for (unsigned kind = CODEC_none; kind < CODECS && !rc; kind++)
        if (with_codec(config, kind, &with))
            rc = estimate_codec(&with, job, lanes, step_s, &ends, &of[kind], why);
    int again = job_code(job, config, why);
    return rc ? rc : again;
}

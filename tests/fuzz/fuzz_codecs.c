/* fuzz_codecs.c - mesh.compress, each codec and auto, and a model in stages: totals that no trainer makes, what auto is
 * told that steps cost, what stages say of themselves, and activations of other nodes in the real work_pieces.
 *
 * The first byte chooses the codec, and whether the model is in two stages. The rest is a list of actions, each a byte
 * and its arguments. Numbers are a few bytes again and again, with others in some places; checksums fit, as if members
 * agreed to lie. Whatever comes: no assertion fails, a total is refused or applied, and what it makes could be saved
 * and loaded: exponents are within their limits, bases are finite. */
#include <errno.h>
#include <math.h>

#include "compress/check.h"
#include "node/train/job.h"
#include "node/train/ledger.h"
#include "node/train/state_internal.h"
#include "node/train/work_pieces.h"
#include "proto/bits.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"

enum { SHARDS = 3, ITEM = 1024, ACTIONS_MAX = 24, WORDS = 2 };

static const char *const codecs[] = {"int8", "fp16",   "qsgd",  "terngrad", "sparse",
                                     "topk", "onebit", "randk", "powersgd", "auto"};
enum { KINDS = sizeof codecs / sizeof *codecs, MEMORY = 5 /* those from here on */ };

/* A job, opened once: none of it changes but what `work` remembers of shards. */
struct set {
    struct config *config;
    struct job job;
    struct stages stages;
    struct work *work;
    struct state_job rules;
    struct state state, next, other; /* `other`: as a node that is sent the state */
    int32_t *own;
    size_t params, vector;
};

static struct set *sets[2 * KINDS];
static struct pool *pool;

/* --- The job ------------------------------------------------------------------------------------------ */

static void
open_work(struct set *set)
{
    struct work_setup setup = job_work(&set->job, set->config);
    setup.pool = pool;
    setup.threads = 1;
    assert(work_new(&set->work, &setup) == 0);
    set->vector = work_vector_count(set->work);
    set->own = calloc(set->vector, sizeof *set->own);
    assert(set->own);
}

static struct set *
open_set(unsigned kind, bool staged)
{
    static const char form[] = "run: {name: fuzz, seed: 3}\n"
                               "data: {source: glyphs, train: 24, test: 6}\n"
                               "model: [{input: [1, 28, 28]}, {maxpool: 7}, flatten, {dense: 64}, "
                               "tanh, {dense: 40}, relu,\n"
                               "  {dense: 10}]\n"
                               "train: {epochs: 3, batch: 6, shards: 3, eval_every: 1,\n"
                               "  optimizer: {sgd: {rate: 0.5, momentum: 0.9}}, clip_norm: 1}\n"
                               "mesh: {compress: %s, compress_warmup: 1%s%s}\n";
    char text[1024];
    struct why why;
    struct set *set = calloc(1, sizeof *set);
    int length =
        snprintf(text, sizeof text, form, codecs[kind], kind >= MEMORY ? ", compress_span: 3" : "",
                 staged ? ", stages: 2, activations: bf16" : "");
    assert(set && (pool || pool_new(&pool, 1) == 0));
    if (config_parse(&set->config, "fuzz", text, (size_t)length, &why) ||
        config_check(set->config, &why) || job_open(&set->job, set->config, &why)) {
        fprintf(stderr, "%s\n", why.line);
        abort();
    }
    set->rules = job_rules(&set->job, set->config);
    set->params = nn_param_count(set->job.model);
    struct state *all[] = {&set->state, &set->next, &set->other};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        assert(state_init(all[k], &set->rules, set->job.exact, set->params) == 0);
    assert(!staged || job_stages(&set->job, set->config, &set->stages) == 0);
    open_work(set);
    return set;
}

/* As before the first round. */
static void
restart(struct set *set)
{
    struct why why;
    struct state *all[] = {&set->next, &set->other};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        state_start(all[k]);
    assert(job_state(&set->job, set->config, &set->state, &why) == 0);
    state_rehash(&set->state, pool);
    work_forget(set->work);
}

/* --- Totals ------------------------------------------------------------------------------------------- */

static void
could_be_saved(struct set *set)
{
    const struct state *state = &set->state;
    uint64_t hash = state_rehash(&set->state, pool);
    assert(exact_valid(set->job.exact, state->exponent));
    for (size_t k = 0; state->basis && k < set->params; k++)
        assert(isfinite(state->basis[k]));
    assert(state_take(&set->other, state->block, hash, pool) == 0);
}

/* Where the two stages begin. */
static void
stages_here(const struct set *set, struct state_stages *out)
{
    stages_segments(&set->stages, set->job.model, out);
    if (out->count > 2)
        out->stage[1].end = out->stage[out->count - 1].end;
    out->count = out->count < 2 ? out->count : 2;
}

/* What the stages say, or anything, under a checksum that fits. */
static void
say_summary(struct set *set, struct input *in)
{
    struct state_stages stages;
    size_t at = set->params + state_tail(set->state.block_count) +
                ledger_words(set->rules.ledgers * SHARDS);
    size_t words = set->vector - at - (set->rules.choose ? CODECS : 0);
    int32_t *summary = set->own + at;
    stages_here(set, &stages);
    state_squares(&set->next, &set->state, set->own, pool);
    state_summary_write(&set->next, &set->state, &stages, bits_below((unsigned)stages.count), true,
                        set->own);
    for (unsigned pokes = byte(in) % POKES_MAX; pokes > 0; pokes--) {
        size_t word = WORDS + (byte(in) << 8 | byte(in)) % (words - WORDS);
        fill(in, summary + word, sizeof *summary);
    }
    uint64_t check = check_of(summary + WORDS, WORDS, words - WORDS);
    memcpy(summary, &check, sizeof check);
}

/* The total in own[] is refused, or applied as in way_rounds.c, which would refuse it by its ledger as well. */
static void
advance(struct set *set)
{
    struct state_event event;
    struct state_stages divided, *stages = set->rules.ledgers > 1 ? &divided : NULL;
    struct why why;
    uint64_t coverage;
    if (stages && state_summary_stages(&set->state, set->own, stages, &why))
        return;
    state_check_counts(&set->state, stages, set->own, &coverage, &why);
    state_begin(&set->next, &set->state, set->own, &event);
    state_squares(&set->next, &set->state, set->own, pool);
    if (stages && state_summary_take(&set->next, &set->state, stages, set->own, &why))
        return;
    assert(state_finish(&set->next, &set->state, set->own, pool) != 0);
    state_check_gradients(&set->next, &set->state, stages, set->own, &why);
    state_swap(&set->state, &set->next);
    work_applied(set->work, &set->state, &set->next, &event);
    could_be_saved(set);
}

static void
total(struct set *set, struct input *in)
{
    int32_t *tail = set->own + set->params;
    size_t blocks = set->state.block_count;
    memset(set->own, 0, set->vector * sizeof *set->own);
    if (set->state.header->phase == STATE_TRAIN)
        fill(in, set->own, set->params * sizeof *set->own);
    fill(in, tail + TAIL_CORRECT, 4 * sizeof *tail);
    tail[TAIL_SAMPLES] = (int32_t)state_rows(&set->state);
    tail[TAIL_BAD] = byte(in) % 16 == 0;
    for (size_t b = 0; b < blocks && byte(in) % 16 == 0; b++)
        tail[TAIL_OVER + b] = 1;
    state_tail_seal(tail, blocks, 0);
    if (set->rules.choose)
        fill(in, set->own + state_costs(&set->state), CODECS * sizeof *tail);
    if (set->rules.ledgers > 1)
        say_summary(set, in);
    if (!set->state.header->done)
        advance(set);
}

/* --- Activations ---------------------------------------------------------------------------------------- */

static void
stage_computes(struct set *set, struct work_stages *plan, unsigned stage)
{
    bool trains = set->state.header->phase == STATE_TRAIN;
    for (unsigned shard = 0; shard < SHARDS; shard++) {
        struct work_piece piece = {SCHEDULE_FORWARD, stage, shard, shard == 0, 7};
        enum schedule_kind rest[] = {SCHEDULE_INPUT, SCHEDULE_WEIGHT};
        int rc = work_piece(set->work, &set->state, plan, &piece, set->own);
        if (plan->rule != SCHEDULE_ZB)
            rest[0] = SCHEDULE_BACKWARD;
        for (unsigned k = 0; k < (plan->rule == SCHEDULE_ZB ? 2 : 1) && rc == 0 && trains; k++) {
            piece.kind = rest[k];
            piece.fresh = shard == 0 && k == 0;
            rc = work_piece(set->work, &set->state, plan, &piece, set->own);
        }
        assert(rc == 0 || rc == -ENODATA);
    }
}

/* This node computes one of two stages, or both; what it is handed is anything. */
static void
pieces(struct set *set, struct input *in)
{
    static int32_t items[CORE_ITEMS(2, SHARDS) * ITEM];
    struct state_stages stages;
    unsigned how = byte(in);
    struct work_stages plan = {.count = 2,
                               .first = {0, set->stages.cut[set->stages.cut_count - 1].layer},
                               .mine = 1 + how % 3,
                               .shards = SHARDS,
                               .rule = how / 4 % 2 ? SCHEDULE_ZB : SCHEDULE_1F1B,
                               .items = items,
                               .item_words = ITEM};
    fill(in, items, sizeof items);
    memset(set->own, 0, set->vector * sizeof *set->own);
    for (unsigned stage = 0; stage < 2; stage++)
        if (plan.mine >> stage & 1)
            stage_computes(set, &plan, stage);
    assert(work_pieces_tail(set->work, &set->state, &plan, set->own) == 0);
    if (set->rules.choose)
        fill(in, set->own + state_costs(&set->state), CODECS * sizeof *set->own);
    say_summary(set, in);
    stages_here(set, &stages);
    set->own[set->params + TAIL_SAMPLES] = (int32_t)state_rows(&set->state);
    advance(set);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    unsigned kind = byte(&in) % (2 * KINDS);
    if (!sets[kind])
        sets[kind] = open_set(kind / 2, kind & 1);
    struct set *set = sets[kind];
    restart(set);
    for (unsigned k = 0; k < ACTIONS_MAX && in.left > 0; k++)
        if (byte(&in) % 2 && (kind & 1) && !set->state.header->done)
            pieces(set, &in);
        else
            total(set, &in);
    return 0;
}

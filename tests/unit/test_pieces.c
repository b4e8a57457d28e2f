/* A round in pieces gives the total of work_round, bit for bit, whoever computes which piece, and in which order.
 * LDFLAGS: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc
 *
 *     build/gcc/tests/unit/test_pieces 1000       so many random courses of each network */
#include <errno.h>
#include <math.h>

#include "compress/check.h"
#include "node/train/ledger.h"
#include "node/train/work_pieces.h"
#include "tests/support/alloc.h"
#include "tests/support/cases.h"
#include "tests/support/folder.h"
#include "tests/support/rand.h"
#include "tests/support/spec.h"
#include "tests/support/test.h"

enum {
    SHARDS = 5,
    BATCH = 20,
    TRAIN = 43, /* the third step of an epoch has 3 rows: some shards have none */
    TEST = 48,  /* a shard of it is more rows than one of a step */
    STAGES = 4,
    GROUP = 3, /* members that share the shards of a stage, at most */
    MEMBERS = STAGES * GROUP,
    LAYERS = 32,
    MAIL = 4096,
    TEXT = 600,
    TOKENS = 16,
};
#define ALL ((UINT64_C(1) << SHARDS) - 1)

static size_t courses = 15;

void *__real_aligned_alloc(size_t align, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);

static size_t passes; /* that were made: nothing else is aligned */

void *
__wrap_aligned_alloc(size_t align, size_t size)
{
    passes++;
    return alloc_fails() ? NULL : __real_aligned_alloc(align, size);
}

/* --- Networks ------------------------------------------------------------------------------------- */

struct net {
    const char *name;
    bool text; /* else images of digits */
    bool tied;
    struct nn_layer_spec layer[LAYERS];
    size_t count;
};

#define DROP(p)                                                                                    \
    {                                                                                              \
        .kind = NN_DROPOUT, .drop = p                                                              \
    }
#define NORM(k)                                                                                    \
    {                                                                                              \
        .kind = k, .epsilon = 1e-5f, .momentum = 0.1f                                              \
    }
#define BLOCK                                                                                      \
    LAYER(RESIDUAL), NORM(NN_LAYERNORM), DENSE(24), LAYER(ATTENTION, .units = 2), DENSE(8),        \
        DROP(0.2f), LAYER(RESIDUAL_END), LAYER(RESIDUAL), NORM(NN_LAYERNORM), DENSE(32),           \
        LAYER(GELU), DENSE(8), LAYER(RESIDUAL_END)

static const struct net nets[] = {
    {.name = "mlp",
     .layer = {LAYER(FLATTEN), DENSE(40), LAYER(RELU), DROP(0.3f), DENSE(33), LAYER(TANH),
               DENSE(30), LAYER(GELU), DENSE(20), LAYER(SIGMOID), DENSE(10)},
     .count = 11},
    {.name = "cnn",
     .layer = {LAYER(CONV2D, .units = 4, .kernel = 5, .pad = 2, .stride = 2), LAYER(RELU),
               LAYER(MAXPOOL, .kernel = 2), LAYER(CONV2D, .units = 6, .kernel = 3, .pad = 1),
               NORM(NN_BATCHNORM), LAYER(RELU), LAYER(MAXPOOL, .kernel = 2), LAYER(FLATTEN),
               DENSE(60), LAYER(RELU), DROP(0.2f), DENSE(10)},
     .count = 12},
    {.name = "gpt",
     .text = true,
     .tied = true,
     .layer = {LAYER(EMBEDDING, .units = 8, .tokens = TOKENS), LAYER(POSITIONS), BLOCK, BLOCK,
               NORM(NN_LAYERNORM), LAYER(DENSE, .units = TOKENS, .tied = true, .no_bias = true)},
     .count = 30},
    {.name = "lstm",
     .text = true,
     .layer = {LAYER(EMBEDDING, .units = 8, .tokens = TOKENS), LAYER(LSTM, .units = 12), DROP(0.2f),
               LAYER(LSTM, .units = 12), DENSE(20), LAYER(TANH), DENSE(TOKENS)},
     .count = 7},
};

/* What all members share. `whole` computes rounds as one. */
static struct {
    const struct net *net;
    bool rounds; /* the model rounds what crosses cuts, */
    bool again;  /* or computes activations again */
    struct folder folder;
    struct data_set *data;
    struct nn_model *model;
    struct exact *exact;
    struct pool *pool;
    struct work *whole;
    struct state now, next;
    int32_t *own;
    size_t cuts, cut[LAYERS],
        words; /* layers before which the model may be cut; of an item, at most */
} all;

struct member {
    struct pool *pool;
    struct work *work;
    int32_t *own, *items;
    /* of the present course: */
    unsigned group;
    bool dead;
    uint64_t shards, begun; /* stages whose sum has begun */
    unsigned most;          /* shards at a time */
    struct schedule schedule;
    struct work_stages plan;
};
static struct member member[MEMBERS];

struct mail {
    unsigned from, to, stage, shard;
    bool gradient;
};

static struct {
    struct rand rand;
    enum schedule_rule rule;
    bool accidents, torture;
    unsigned k, groups, n; /* stages, groups, members */
    size_t first[STAGES];
    unsigned group[STAGES]; /* that computes the stage */
    unsigned owner[STAGES][SHARDS];
    int32_t *total;
    int32_t *truth; /* items as they were first written, */
    bool written[STAGES][2][SHARDS];
    struct mail mail[MAIL];
    size_t stop; /* above 0: the round ends after so many steps */
    size_t mails, pieces, restarts, moves, deaths, failures;
} w;

static struct work *
work_of(struct pool *pool, unsigned threads)
{
    struct work *work;
    const struct work_setup setup = {
        .model = all.model,
        .data = all.data,
        .exact = all.exact,
        .pool = pool,
        .threads = threads,
        .shards = SHARDS,
        .batch = BATCH,
        .local_steps = 1,
        .seed = 7,
        .behind = state_behind(&all.now.job, exact_blocks(all.exact)),
        .exact_mode = true,
        .claims = true, /* the ledger has the checksum of each shard, not of several */
        .bucket_bytes = 1000,
    };
    assert_int_equal(work_new(&work, &setup), 0);
    return work;
}

static void
open_data(void)
{
    uint8_t text[TEXT];
    struct why why = {""};
    struct rand rand = {5};
    struct data_spec spec = {.source = DATA_GLYPHS, .seed = 3, .train = TRAIN, .test = TEST};
    for (size_t i = 0; i < TEXT; i++)
        text[i] = (uint8_t)rand_below(&rand, TOKENS);
    all.folder = folder_new();
    folder_write(&all.folder, "text", text, TEXT);
    if (all.net->text)
        spec = (struct data_spec){.source = DATA_TEXT,
                                  .dir = all.folder.path,
                                  .file = "text",
                                  .context = 7,
                                  .test_share = 0.4,
                                  .train = TRAIN};
    if (data_open(&all.data, &spec, &why))
        fail_msg("%s", why.line);
}

static void
open_model(void)
{
    struct why why = {""};
    size_t count[2 * NN_LAYERS_MAX], tensors = 0;
    if (nn_model_new(&all.model, &data_info(all.data)->input, all.net->layer, all.net->count,
                     NN_CROSS_ENTROPY, &why))
        fail_msg("%s: %s", all.net->name, why.line);
    if (all.again)
        nn_model_recompute(all.model);
    if (all.rounds)
        nn_model_round_cuts(all.model);
    for (; tensors < nn_tensor_count(all.model); tensors++)
        count[tensors] = nn_tensor(all.model, tensors)->count;
    assert_int_equal(exact_new(&all.exact, count, tensors, SHARDS), 0);
    all.cuts = all.words = 0;
    for (size_t l = nn_tensor(all.model, 0)->layer + 1; l < all.net->count; l++) {
        if (!nn_may_begin(all.model, l))
            continue;
        size_t tested = (data_info(all.data)->test + SHARDS - 1) / SHARDS;
        size_t rows = tested > BATCH / SHARDS ? tested : BATCH / SHARDS;
        size_t words = rows * nn_cut_words(all.model, l);
        all.cut[all.cuts++] = l;
        all.words = words > all.words ? words : all.words;
    }
}

static void
open_state(void)
{
    const struct state_job job = {
        .rules.optim =
            {.kind = OPTIM_SGD, .rate = 0.05f, .momentum = 0.9f, .clip_norm = 1, .ema = 0.5f},
        .rules.epochs = 1000000,
        .seed = 7,
        .shards = SHARDS,
        .batch = BATCH,
        .local_steps = 1,
        .train = TRAIN,
        .test = data_info(all.data)->test,
        .labels = 1,
        .claims = true,
        .ledgers = STAGES,
    };
    size_t params = nn_param_count(all.model);
    assert_int_equal(state_init(&all.now, &job, all.exact, params), 0);
    assert_int_equal(state_init(&all.next, &job, all.exact, params), 0);
    state_start(&all.now);
    nn_init_params(all.model, 7, all.now.params);
    state_rehash(&all.now, all.pool);
}

static size_t
vector(void)
{
    return work_vector_count(all.whole);
}

static size_t
items(void)
{
    return STAGES * 2 * SHARDS * all.words;
}

/* Every second member has two threads. */
FIXTURE(set_up)
{
    nn_init("portable");
    assert_int_equal(pool_new(&all.pool, 1), 0);
    open_data();
    open_model();
    open_state();
    all.whole = work_of(all.pool, 1);
    all.own = calloc(vector(), sizeof *all.own);
    w.total = calloc(vector(), sizeof *w.total);
    w.truth = calloc(items(), sizeof *w.truth);
    for (size_t i = 0; i < MEMBERS; i++) {
        member[i] = (struct member){.group = 0};
        assert_int_equal(pool_new(&member[i].pool, 1 + i % 2), 0);
        member[i].work = work_of(member[i].pool, 1 + i % 2);
        member[i].own = calloc(vector(), sizeof(int32_t));
        member[i].items = calloc(items(), sizeof(int32_t));
    }
    return 0;
}

FIXTURE(tear_down)
{
    for (size_t i = 0; i < MEMBERS; i++) {
        work_destroy(&member[i].work);
        pool_destroy(&member[i].pool);
        free(member[i].own);
        free(member[i].items);
    }
    work_destroy(&all.whole);
    state_fini(&all.next);
    state_fini(&all.now);
    exact_destroy(&all.exact);
    nn_model_destroy(&all.model);
    data_close(&all.data);
    folder_fini(&all.folder);
    pool_destroy(&all.pool);
    free(all.own);
    free(w.total);
    free(w.truth);
    return 0;
}

/* --- A course: members, messages, accidents ------------------------------------------------------- */

static size_t
below(size_t n)
{
    return (size_t)rand_below(&w.rand, n);
}

/* One in n, if there are accidents at all. */
static bool
accident(size_t n)
{
    return w.accidents && below(n) == 0;
}

static size_t
item_at(unsigned stage, bool gradient, unsigned shard)
{
    return ((stage * 2 + (size_t)gradient) * SHARDS + shard) * all.words;
}

static bool
computes(const struct member *m, unsigned stage)
{
    return m->group == w.group[stage];
}

static void
post(unsigned stage, unsigned shard, bool gradient)
{
    unsigned from = w.owner[gradient ? stage + 1 : stage - 1][shard];
    assert_true(w.mails < MAIL);
    w.mail[w.mails++] = (struct mail){from, w.owner[stage][shard], stage, shard, gradient};
}

/* Once more what the neighbours have given to the stage. */
static void
post_again(unsigned stage, unsigned shard)
{
    if (stage > 0 &&
        (member[w.owner[stage - 1][shard]].schedule.of[stage - 1].forward >> shard & 1))
        post(stage, shard, false);
    if (stage + 1 < w.k &&
        (member[w.owner[stage + 1][shard]].schedule.of[stage + 1].backward >> shard & 1))
        post(stage, shard, true);
}

static void
post_all_again(const struct member *m)
{
    for (unsigned stage = 0; stage < w.k; stage++)
        for (unsigned shard = 0; shard < SHARDS; shard++)
            if (computes(m, stage) && (m->shards >> shard & 1))
                post_again(stage, shard);
}

/* Any message may be the next one. What a member sent before it died may be lost. */
static void
deliver(void)
{
    size_t i = below(w.mails);
    struct mail mail = w.mail[i];
    struct member *from = &member[mail.from], *to = &member[mail.to];
    w.mail[i] = w.mail[--w.mails];
    if (from->dead || to->dead)
        return;
    bool wanted = (mail.gradient ? schedule_on_gradient
                                 : schedule_on_input)(&to->schedule, mail.stage, mail.shard);
    size_t at = item_at(mail.stage, mail.gradient, mail.shard);
    if (wanted)
        memmove(to->items + at, from->items + at, all.words * sizeof(int32_t));
}

static unsigned
shards_in(uint64_t shards)
{
    return (unsigned)__builtin_popcountll(shards);
}

static void
plan_member(struct member *m)
{
    m->plan = (struct work_stages){
        .count = w.k,
        .shards = shards_in(m->shards),
        .rule = w.rule,
        .tied = all.net->tied,
        .items = m->items,
        .item_words = all.words,
    };
    memcpy(m->plan.first, w.first, sizeof w.first);
    m->most = m->plan.shards > m->most ? m->plan.shards : m->most;
    for (unsigned stage = 0; stage < w.k; stage++)
        m->plan.mine |= computes(m, stage) && m->shards ? UINT64_C(1) << stage : 0;
}

static size_t
params_before(unsigned stage)
{
    size_t count = 0;
    for (size_t t = 0; t < nn_tensor_count(all.model); t++)
        count += stage == w.k || nn_tensor(all.model, t)->layer < w.first[stage]
                     ? nn_tensor(all.model, t)->count
                     : 0;
    return count;
}

static bool
evaluates(void)
{
    return all.now.header->phase == STATE_EVALUATE;
}

/* The member begins its round: what it does not compute is zero, else there is garbage. */
static void
member_begin(struct member *m)
{
    plan_member(m);
    m->begun = 0;
    rand_fill(&w.rand, m->own, vector() * sizeof *m->own);
    schedule_init(&m->schedule, evaluates() ? SCHEDULE_EVALUATE : w.rule, w.k);
    if (all.net->tied)
        schedule_tie(&m->schedule);
    for (unsigned stage = 0; stage < w.k; stage++) {
        size_t first = params_before(stage), end = params_before(stage + 1);
        if (m->plan.mine >> stage & 1)
            schedule_add(&m->schedule, stage, m->shards);
        else
            memset(m->own + first, 0, (end - first) * sizeof *m->own);
    }
}

/* An item is a function of the state, the cut and the shard. */
static void
check_item(const struct member *m, unsigned stage, bool gradient, unsigned shard)
{
    size_t at = item_at(stage, gradient, shard), size = all.words * sizeof(int32_t);
    if (w.written[stage][gradient][shard])
        assert_memory_equal(w.truth + at, m->items + at, size);
    memcpy(w.truth + at, m->items + at, size);
    w.written[stage][gradient][shard] = true;
}

/* All that the member has computed is void. */
static void
restart(struct member *m)
{
    w.restarts++;
    member_begin(m);
    post_all_again(m);
}

/* What the stage has added is void. Of two that share a weight, the first one needs the last one's pass. */
static void
restart_stage(struct member *m)
{
    unsigned stage = (unsigned)below(w.k);
    if (!(m->plan.mine >> stage & 1))
        return;
    w.restarts++;
    for (unsigned s = 0; s < w.k; s++)
        if (s == stage || (all.net->tied && stage == 0 && s + 1 == w.k)) {
            schedule_again(&m->schedule, s);
            m->begun &= ~(UINT64_C(1) << s);
        }
}

/* Another one that computes the same stages, or NULL. */
static struct member *
sibling(const struct member *m)
{
    for (size_t tries = 0; tries < 8; tries++) {
        struct member *other = &member[below(w.n)];
        if (other != m && !other->dead && other->group == m->group)
            return other;
    }
    return NULL;
}

static void
take_over(struct member *m, uint64_t shards)
{
    m->shards |= shards;
    plan_member(m);
    for (unsigned stage = 0; stage < w.k; stage++) {
        if (!computes(m, stage))
            continue;
        schedule_add(&m->schedule, stage, shards);
        for (unsigned shard = 0; shard < SHARDS; shard++)
            if (shards >> shard & 1)
                w.owner[stage][shard] = (unsigned)(m - member);
    }
    post_all_again(m);
}

static void
die(struct member *m)
{
    struct member *other = sibling(m);
    if (!other)
        return;
    w.deaths++;
    m->dead = true;
    take_over(other, m->shards);
    m->shards = 0;
}

/* Some of its shards go to another one: its own sum begins again. */
static void
move(struct member *m)
{
    struct member *other = sibling(m);
    uint64_t moved = m->shards & rand_u64(&w.rand);
    if (!other || moved == 0 || moved == m->shards) /* without shards it would free its passes */
        return;
    w.moves++;
    m->shards &= ~moved;
    member_begin(m);
    take_over(other, moved);
    post_all_again(m);
}

static void
tail(struct member *m)
{
    assert_int_equal(work_pieces_tail(m->work, &all.now, &m->plan, m->own), 0);
}

/* With w.torture each allocation fails once. */
static void
compute_piece(struct member *m, const struct work_piece *piece)
{
    int rc;
    for (size_t n = 1; w.torture; n++) {
        alloc_calls = 0;
        alloc_fail_at = n;
        rc = work_piece(m->work, &all.now, &m->plan, piece, m->own);
        alloc_fail_at = 0;
        if (rc == 0)
            return;
        assert_int_equal(rc, -ENOMEM);
        w.failures++;
    }
    assert_int_equal(work_piece(m->work, &all.now, &m->plan, piece, m->own), 0);
}

/* False: there is nothing to compute. */
static bool
compute(struct member *m)
{
    struct schedule_piece next;
    if (m->dead || !schedule_next(&m->schedule, &next))
        return false;
    uint64_t stage = UINT64_C(1) << next.stage;
    bool scores = evaluates() && next.stage + 1 == w.k;
    bool adds = next.kind != SCHEDULE_FORWARD || scores;
    const struct work_piece piece = {
        .kind = next.kind,
        .stage = next.stage,
        .shard = next.shard,
        .fresh = adds && !(m->begun & stage),
        .held = m->schedule.of[next.stage].forward & ~m->schedule.of[next.stage].weight,
    };
    if (accident(100))
        restart_stage(m); /* while the piece is computed */
    w.pieces++;
    compute_piece(m, &piece);
    if (!schedule_done(&m->schedule))
        return true;
    bool forward = next.kind == SCHEDULE_FORWARD;
    m->begun |= adds ? stage : 0;
    if (forward && next.stage + 1 < w.k) {
        check_item(m, next.stage + 1, false, next.shard);
        post(next.stage + 1, next.shard, false);
    } else if (!forward && next.kind != SCHEDULE_WEIGHT && next.stage > 0) {
        check_item(m, next.stage - 1, true, next.shard);
        post(next.stage - 1, next.shard, true);
    }
    return true;
}

static bool
complete(void)
{
    for (size_t i = 0; i < w.n; i++)
        if (!member[i].dead && !schedule_complete(&member[i].schedule))
            return false;
    return true;
}

static void
all_pieces(void)
{
    for (size_t idle = 0, steps = 0; !complete() && (w.stop == 0 || steps < w.stop); steps++) {
        struct member *m = &member[below(w.n)];
        bool mail = w.mails > 0 && below(2);
        if (mail)
            deliver();
        idle = compute(m) || mail ? 0 : idle + 1;
        if (idle == 100000)
            fail_msg("nothing to compute, and the round is not complete");
        if (!m->dead && accident(60))
            restart(m);
        if (!m->dead && accident(60))
            restart_stage(m);
        if (!m->dead && accident(150))
            die(m);
        if (!m->dead && accident(60))
            move(m);
        if (!m->dead && accident(20))
            tail(m);
        if (accident(20))
            work_drop(m->work); /* of no concern */
        if (!m->dead && accident(400))
            w.mails < MAIL / 2 ? post_all_again(m) : (void)0;
    }
}

static void
add_vector(int32_t *to, const int32_t *from)
{
    for (size_t i = 0; i < vector(); i++)
        to[i] = (int32_t)((uint32_t)to[i] + (uint32_t)from[i]);
}

/* The sum of all members is in total. */
static void
round_in_pieces(int32_t *total)
{
    w.mails = 0;
    memset(w.written, 0, sizeof w.written);
    for (size_t i = 0; i < w.n; i++) {
        memset(member[i].items, 0xff, items() * sizeof(int32_t)); /* NaN */
        if (!member[i].dead)
            member_begin(&member[i]);
    }
    all_pieces();
    memset(total, 0, vector() * sizeof *total);
    for (size_t i = 0; i < w.n; i++)
        if (!member[i].dead) {
            tail(&member[i]);
            add_vector(total, member[i].own);
        }
}

/* The ledger of each stage is that of the whole, but for the checksums: these add up. */
static void
compare_ledgers(const int32_t *ledger, const int32_t *whole, size_t count)
{
    for (unsigned shard = 0; shard < SHARDS; shard++) {
        uint64_t check = 0;
        for (unsigned stage = 0; stage < w.k; stage++) {
            const int32_t *of = ledger + ledger_words(stage * SHARDS);
            size_t at = ledger_words(shard);
            assert_memory_equal(of + at, whole + at, 3 * sizeof *of);
            check = check_add(check, ledger_shard_check(of, shard));
        }
        assert_true(check == ledger_shard_check(whole, shard));
    }
    for (size_t i = ledger_words(w.k * SHARDS); i < count; i++)
        assert_int_equal(ledger[i], 0);
}

static struct state_stages
ranges(void)
{
    struct state_stages stages = {.count = w.k};
    for (unsigned s = 0; s < w.k; s++)
        stages.stage[s] = (struct state_range){params_before(s), params_before(s + 1)};
    return stages;
}

static void
compare(const int32_t *total)
{
    struct why why = {""};
    uint64_t coverage;
    const struct state_stages stages = ranges();
    size_t params = nn_param_count(all.model);
    size_t end = params + state_tail(exact_blocks(all.exact));
    compare_ledgers(total + end, all.own + end, vector() - end);
    if (state_check_counts(&all.now, &stages, total, &coverage, &why) ||
        state_check_gradients(&(struct state){.moves = false}, &all.now, &stages, total, &why))
        fail_msg("%s", why.line);
    assert_true(coverage == ALL);
    for (size_t i = 0; i < end; i++)
        if (total[i] != all.own[i])
            fail_msg("%s, rule %d, %u stages, %u members: word %zu of %zu parameters and %zu words "
                     "is %d, expected %d",
                     all.net->name, (int)w.rule, w.k, w.n, i, params, end, total[i], all.own[i]);
}

/* Some elements do not fit their exponents any more. */
static void
lower_exponents(void)
{
    for (size_t b = 0; b < exact_blocks(all.exact); b++)
        if (below(3) == 0)
            all.now.exponent[b] = exact_clamp(all.now.exponent[b] - (int)below(12));
    state_rehash(&all.now, all.pool);
}

static void
apply(void)
{
    struct state_event event;
    assert_true(state_advance(&all.next, &all.now, all.own, &event, all.pool) != 0);
    state_swap(&all.now, &all.next);
}

/* Cuts, groups of members, and who computes which shards. */
static void
draw_plan(void)
{
    size_t most = all.cuts + 1 < STAGES ? all.cuts + 1 : STAGES;
    w.k = 1 + (unsigned)below(most);
    w.rule = (enum schedule_rule)below(3);
    size_t layer[STAGES], left = w.k - 1;
    for (size_t c = 0, n = 0; c < all.cuts; c++)
        if (below(all.cuts - c) < left) {
            layer[n++] = all.cut[c];
            left--;
        }
    w.groups = 0;
    for (unsigned stage = 0; stage < w.k; stage++) {
        w.first[stage] = stage ? layer[stage - 1] : 0;
        w.groups += stage == 0 || below(4) > 0;
        w.group[stage] = w.groups - 1;
    }
    if (all.net->tied)
        w.group[w.k - 1] = 0;
    w.n = 0;
    for (unsigned g = 0; g < w.groups; g++) {
        size_t size = 1 + below(GROUP);
        uint64_t shards[GROUP] = {0};
        for (unsigned shard = 0; shard < SHARDS; shard++) {
            size_t i = below(size);
            shards[i] |= UINT64_C(1) << shard;
            for (unsigned stage = 0; stage < w.k; stage++)
                if (w.group[stage] == g)
                    w.owner[stage][shard] = w.n + (unsigned)i;
        }
        for (size_t i = 0; i < size; i++, w.n++) {
            member[w.n].group = g;
            member[w.n].dead = false;
            member[w.n].most = 0;
            member[w.n].shards = shards[i];
        }
    }
}

/* A member may also compute a whole round, before or after. */
static void
whole_round(struct member *m)
{
    work_round(m->work, &all.now, ALL, true, m->own, NULL, NULL);
    assert_memory_equal(m->own, all.own, vector() * sizeof *m->own);
}

/* As many as the schedule says; with a shared weight the last stage has as many as the first. */
static size_t
passes_wanted(void)
{
    size_t count = 0;
    for (size_t i = 0; i < w.n; i++)
        for (unsigned stage = 0; stage < w.k; stage++) {
            bool shared = all.net->tied && stage + 1 == w.k;
            if (computes(&member[i], stage))
                count += schedule_room(w.rule, w.k, shared ? 0 : stage, member[i].most).all;
        }
    return count;
}

TEST(any_division_gives_the_same_total)
{
    for (size_t i = 0, n = cases(courses); i < n; i++) {
        w.rand = (struct rand){i};
        w.accidents = i % 3 > 0;
        passes = 0;
        draw_plan();
        for (int round = 0; round < 3; round++) {
            if (below(4) == 0)
                lower_exponents();
            work_round(all.whole, &all.now, ALL, true, all.own, NULL, NULL);
            round_in_pieces(w.total);
            compare(w.total);
            if (below(4) == 0)
                whole_round(&member[below(w.n)]);
            apply();
        }
        assert_true(all.net->tied || passes <= passes_wanted());
    }
    print_message("%s: %zu pieces, %zu restarts, %zu moves, %zu deaths\n", all.net->name, w.pieces,
                  w.restarts, w.moves, w.deaths);
}

/* The test part goes through the stages: of the average of the weights, and the same words in the last bucket. */
TEST(an_evaluation_in_pieces_is_that_of_the_whole)
{
    struct why why = {""};
    uint64_t coverage;
    size_t params = nn_param_count(all.model);
    work_round(all.whole, &all.now, ALL, true, all.own, NULL, NULL);
    apply();
    for (size_t i = 0, n = cases(courses); i < n; i++) {
        w.rand = (struct rand){i};
        w.accidents = i % 3 > 0;
        draw_plan();
        all.now.header->phase = STATE_TRAIN;
        state_rehash(&all.now, all.pool);
        round_in_pieces(w.total);
        all.now.header->phase = STATE_EVALUATE;
        state_rehash(&all.now, all.pool);
        assert_true(state_weights(&all.now) != all.now.params);
        work_round(all.whole, &all.now, ALL, true, all.own, NULL, NULL);
        passes = 0;
        round_in_pieces(w.total);
        assert_true(w.accidents || passes == 0);
        if (state_check_counts(&all.now, NULL, w.total, &coverage, &why))
            fail_msg("%s: %s", all.net->name, why.line);
        assert_memory_equal(w.total + params, all.own + params,
                            state_tail(exact_blocks(all.exact)) * sizeof *all.own);
        assert_int_equal(w.total[params + TAIL_SAMPLES], all.now.job.test);
    }
}

/* Each member gets as many others. */
static void
turn_shards(void)
{
    for (size_t i = 0; i < w.n; i++)
        member[i].shards = (member[i].shards << 2 | member[i].shards >> (SHARDS - 2)) & ALL;
    for (size_t i = 0; i < w.n; i++)
        for (unsigned stage = 0; stage < w.k; stage++)
            for (unsigned shard = 0; shard < SHARDS && computes(&member[i], stage); shard++)
                if (member[i].shards >> shard & 1)
                    w.owner[stage][shard] = (unsigned)i;
}

/* Also after one that was given up, since others had completed it. */
TEST(only_the_first_round_allocates)
{
    for (size_t i = 0; i < 6; i++) {
        w.rand = (struct rand){i};
        tear_down(NULL);
        set_up(NULL);
        draw_plan();
        for (int round = 0; round < 6; round++) {
            work_round(all.whole, &all.now, ALL, true, all.own, NULL, NULL);
            passes = alloc_calls = 0;
            w.stop = round % 2 ? 1 + below(80) : 0;
            round_in_pieces(w.total);
            if (w.stop == 0)
                compare(w.total);
            assert_int_equal(passes, round ? 0 : passes_wanted());
            assert_true(round == 0 || alloc_calls == 0);
            turn_shards();
            apply();
        }
        w.stop = 0;
    }
}

TEST(without_memory_a_piece_can_be_asked_for_again)
{
    w.rand = (struct rand){1};
    w.torture = true;
    draw_plan();
    work_round(all.whole, &all.now, ALL, true, all.own, NULL, NULL);
    round_in_pieces(w.total);
    compare(w.total);
    assert_true(w.failures > 3);
}

static uint64_t
skipped(const int32_t *total)
{
    struct state_event event;
    const struct state_stages stages = ranges();
    struct why why = {""};
    uint64_t coverage, hash = state_advance(&all.next, &all.now, total, &event, all.pool);
    if (state_check_counts(&all.now, total == all.own ? NULL : &stages, total, &coverage, &why))
        fail_msg("%s", why.line);
    assert_true(event.skipped);
    return hash;
}

/* Wherever the number is that is none, and whoever sees it. */
TEST(a_step_that_is_not_finite_is_skipped)
{
    size_t params = nn_param_count(all.model);
    for (size_t i = 0; i < 12; i++) {
        w.rand = (struct rand){i};
        draw_plan();
        float *at = &all.now.params[below(params)], before = *at;
        *at = NAN;
        state_rehash(&all.now, all.pool);
        work_round(all.whole, &all.now, ALL, true, all.own, NULL, NULL);
        round_in_pieces(w.total);
        assert_true(skipped(w.total) == skipped(all.own));
        *at = before;
        state_rehash(&all.now, all.pool);
    }
}

FIXTURE(begin_test)
{
    w.accidents = w.torture = false;
    w.pieces = w.restarts = w.moves = w.deaths = w.failures = 0;
    return set_up(test_state);
}

TEST_EACH(begin_test, tear_down)

int
main(int argc, char **argv)
{
    if (argc > 1)
        courses = strtoull(argv[1], NULL, 10);
    int failed = 0;
    for (size_t i = 0; i < 3 * sizeof nets / sizeof *nets; i++) {
        all.net = &nets[i / 3];
        all.rounds = i % 3 == 1;
        all.again = i % 3 == 2;
        failed += test_run();
    }
    return failed;
}

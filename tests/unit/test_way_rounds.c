/* test_way_rounds.c - what a trainer makes of the tasks of the mesh in rounds: the same bits alone, together and ahead;
 * and nothing is final that was computed from what changed in memory. */
#include <unistd.h>

#include "node/train/ledger.h"
#include "tests/support/a_run.h"
#include "tests/support/folder.h"
#include "tests/support/npy_make.h"

enum { ALL = 0xf, MINE = 0x3, THEIRS = 0xc, TRAIN_ROWS = 480 };

static const char text[] =
    "data: {source: glyphs, train: 96, test: 24}\n"
    "model: [flatten, dense: 12, relu, dense: 10]\n"
    "train: {epochs: 2, batch: 24, shards: 4, checkpoint_every: 1000, optimizer: {adam: 0.01}}\n"
    "mesh: {audit: 0.5, bucket: 4096}\n";

FOLDER_EACH

static void
start(struct a_run *a, const char *name)
{
    a_run_open(a, text, folder_path(&folder, name), TRAIN_AUTO);
}

/* A round of one node. */
static void
alone(struct a_run *a)
{
    a_run_compute(a, ALL, true);
    memcpy(a->mesh->sum, a->mesh->own, a->mesh->vector * sizeof(int32_t));
    a_run_commit(a, true);
}

/* The sum of what both computed. */
static void
add(struct a_run *a, struct a_run *b)
{
    for (size_t k = 0; k < a->mesh->vector; k++)
        a->mesh->sum[k] = b->mesh->sum[k] =
            (int32_t)((uint32_t)a->mesh->own[k] + (uint32_t)b->mesh->own[k]);
}

/* Buckets become final one by one before the round ends. */
static void
apply_ahead(struct a_run *a)
{
    for (size_t bucket = 0; bucket < a->mesh->bucket_count; bucket++)
        a_run_follow(a, &(struct mesh_task){.kind = MESH_SUMMED,
                                            .round = a->mesh->told.round,
                                            .bucket = bucket,
                                            .fresh = bucket == 0});
}

TEST(one_node_and_two_of_which_one_computes_ahead_come_to_the_same_states)
{
    OWNED(a_run_fini) struct a_run one, a, b;
    unsigned evaluations = 0;
    start(&one, "one");
    start(&a, "a");
    start(&b, "b");
    while (!one.mesh->told.done) {
        bool step = one.run.state.header->phase == STATE_TRAIN;
        evaluations += !step;
        assert_int_equal(one.mesh->told.first_bucket, step ? 0 : one.mesh->bucket_count - 1);
        alone(&one);
        a_run_compute(&a, MINE & 1, true);
        a_run_compute(&a, MINE & 2, false); /* of one more that is gone */
        assert_int_equal(a.mesh->buckets,
                         step ? a_run_all(&a) : UINT64_C(1) << (a.mesh->bucket_count - 1));
        a_run_compute(&b, THEIRS, true);
        add(&a, &b);
        apply_ahead(&b);
        a_run_commit(&a, true);
        a_run_commit(&b, false);
        assert_true(a.mesh->told.round == one.mesh->told.round && one.mesh->told.round > 0);
        assert_true(a.mesh->told.hash == one.mesh->told.hash);
        assert_true(b.mesh->told.hash == one.mesh->told.hash);
        assert_true(state_hash(&one.run.state, one.run.pool) == one.mesh->told.hash);
    }
    assert_true(a.mesh->told.done && b.mesh->told.done);
    assert_int_equal(evaluations, 2);
    assert_int_equal(one.run.state.header->step, 8);
}

/* A bit flips before the third round. Whatever it is, the last bucket or the next state is not given to others. The
 * node goes back to the state before the second round or, where the third one was built in its place, to the first one.
 * From there all comes as it was to come. */
TEST(what_was_computed_from_a_changed_state_is_not_handed_over)
{
    enum { HEADER, PARAMETER, SLOT, KINDS };
    for (unsigned kind = 0; kind < KINDS; kind++) {
        OWNED(a_run_fini) struct a_run right, a;
        const char name[] = {(char)('a' + kind), 0};
        start(&right, "right");
        start(&a, name);
        uint64_t first = a.mesh->told.hash;
        alone(&right);
        alone(&a);
        uint64_t hash[] = {first, a.mesh->told.hash}, back = kind != SLOT;
        alone(&right);
        alone(&a);
        struct state *state = &a.run.state;
        unsigned char *byte[KINDS] = {(unsigned char *)&state->header->samples,
                                      (unsigned char *)&state->params[7],
                                      (unsigned char *)&state->slot[0][7]};
        *byte[kind] ^= 4;
        uint64_t most = kind == HEADER ? 0 : a_run_all(&a);
        most &= kind == PARAMETER ? most >> 1 : most; /* it is final with the last one */
        a_run_compute(&a, ALL, true);
        assert_int_equal(a.mesh->buckets, most);
        if (kind == SLOT) {
            memcpy(a.mesh->sum, a.mesh->own, a.mesh->vector * sizeof(int32_t));
            assert_int_equal(a.mesh->damaged[CORE_STATE_DAMAGED], 0);
            a_run_commit(&a, true);
        }
        assert_int_equal(a.mesh->damaged[CORE_STATE_DAMAGED], 1);
        assert_int_equal(a.mesh->told.round, back);
        assert_true(a.mesh->told.hash == hash[back]);
        while (a.mesh->told.round < 2)
            alone(&a);
        assert_true(a.mesh->told.hash == right.mesh->told.hash);
    }
}

/* In a gradient, in what the tail counts, in a word of the ledger: a wrong total changes nothing, and the right one is
 * applied, also where the wrong one was begun with. */
TEST(a_damaged_total_is_told_and_the_right_one_is_applied)
{
    OWNED(a_run_fini) struct a_run right, a;
    start(&right, "right");
    start(&a, "a");
    alone(&right);
    a_run_compute(&a, ALL, true);
    size_t params = a.run.state.param_count, size = a.mesh->vector * sizeof(int32_t);
    const size_t at[] = {11, params + TAIL_SAMPLES,
                         params + state_tail(a.run.state.block_count) + 1};
    unsigned damaged = 0;
    for (size_t k = 0; k < sizeof at / sizeof *at; k++)
        for (int ahead = 0; ahead < 2; ahead++) {
            memcpy(a.mesh->sum, a.mesh->own, size);
            a.mesh->sum[at[k]] ^= 1;
            if (ahead)
                apply_ahead(&a);
            a_run_commit(&a, !ahead);
            assert_int_equal(a.mesh->damaged[CORE_TOTAL_DAMAGED], ++damaged);
            assert_int_equal(a.mesh->told.round, 0);
        }
    memcpy(a.mesh->sum, a.mesh->own, size);
    a_run_commit(&a, true);
    assert_int_equal(a.mesh->damaged[CORE_STATE_DAMAGED], 0);
    assert_true(a.mesh->told.hash == right.mesh->told.hash);
}

TEST(a_copy_that_is_not_what_was_said_is_asked_for_again)
{
    OWNED(a_run_fini) struct a_run ahead, a;
    start(&ahead, "ahead");
    start(&a, "a");
    for (unsigned k = 0; k < 3; k++)
        alone(&ahead);
    struct mesh_task task = {
        .kind = MESH_ADOPT, .round = ahead.mesh->told.round, .state_hash = ahead.mesh->told.hash};
    memcpy(a.mesh->state_in, ahead.run.state.block, ahead.run.state.size);
    a.mesh->state_in[a.mesh->state_size / 2] ^= 1;
    a_run_follow(&a, &task);
    assert_int_equal(a.mesh->damaged[CORE_COPY_DAMAGED], 1);
    assert_int_equal(a.mesh->states, 1);
    a.mesh->state_in[a.mesh->state_size / 2] ^= 1;
    a_run_follow(&a, &task);
    assert_int_equal(a.mesh->damaged[CORE_COPY_DAMAGED], 1);
    assert_true(a.mesh->told.round == task.round && a.mesh->told.hash == task.state_hash);
    alone(&ahead);
    alone(&a);
    assert_true(a.mesh->told.hash == ahead.mesh->told.hash);
}

/* The claim of a shard is its words of the ledger. */
TEST(an_audit_finds_another_gradient_and_changes_nothing)
{
    OWNED(a_run_fini) struct a_run liar, a;
    start(&liar, "liar");
    start(&a, "a");
    a_run_compute(&liar, THEIRS, true);
    a_run_compute(&a, MINE, true);
    const int32_t *slots =
        liar.mesh->own + liar.run.state.param_count + state_tail(liar.run.state.block_count);
    size_t size = a.mesh->vector * sizeof(int32_t);
    OWNED(memory_free) int32_t *own = malloc(size);
    memcpy(own, a.mesh->own, size);
    for (unsigned lie = 0; lie <= LEDGER_WORDS; lie++) {
        struct mesh_task task = {.kind = MESH_AUDIT, .shards = 1 << 2};
        memcpy(task.claim, slots + (size_t)LEDGER_WORDS * 2, LEDGER_WORDS * sizeof *slots);
        if (lie)
            task.claim[lie - 1] ^= 1;
        a_run_follow(&a, &task);
        assert_int_equal(a.mesh->audits, lie + 1);
        assert_int_equal(a.mesh->equal, 1);
    }
    assert_memory_equal(a.mesh->own, own, size);
}

/* The file is cut off while the node trains. */
TEST(who_cannot_read_its_data_leaves_and_hands_over_nothing)
{
    static const char npy[] =
        "data: {source: npy}\n"
        "model: [dense: 3]\n"
        "train: {epochs: 9, batch: 24, shards: 4, eval_every: 0, loss: cross_entropy}\n";
    static double value[TRAIN_ROWS * 20];
    OWNED(a_run_fini) struct a_run a;
    for (size_t k = 0; k < TRAIN_ROWS; k++)
        value[k] = (double)(k % 3);
    npy_make_file(&folder, "features.npy", &(struct npy_make){"<f4", 2, {TRAIN_ROWS, 20}}, value);
    npy_make_file(&folder, "labels.npy", &(struct npy_make){"<i4", 1, {TRAIN_ROWS}}, value);
    a_run_open(&a, npy, folder.path, TRAIN_AUTO);
    a_run_compute(&a, ALL, true);
    assert_true(a.mesh->buckets == a_run_all(&a) && !a.mesh->interrupted);
    assert_int_equal(truncate(folder_path(&folder, "features.npy"), 200), 0);
    a_run_compute(&a, ALL, true);
    assert_false(a.mesh->buckets >> (a.mesh->bucket_count - 1) & 1);
    assert_true(a.mesh->interrupted);
    assert_int_equal(a.mesh->damaged[CORE_STATE_DAMAGED], 0);
}

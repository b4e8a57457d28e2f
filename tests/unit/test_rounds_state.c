/* test_rounds_state.c - to which state a node goes back: the one before, one that a span began with, a checkpoint, the
 * first one; and how a node that held a part gets the rest of the last one. */
#include "node/train/gather.h"
#include "node/train/rounds_state.h"
#include "tests/support/a_run.h"
#include "tests/support/folder.h"

enum { ALL = 0xf, STEPS = 6 };

#define JOB(train, mesh)                                                                           \
    "data: {source: glyphs, train: 240, test: 24}\n"                                               \
    "model: [flatten, dense: 30, relu, dense: 20, relu, dense: 10, relu, dense: 10]\n"             \
    "train: {epochs: 1, batch: 24, shards: 4, eval_every: 0, steps: 6, " train                     \
    ", optimizer: {sgd: {rate: 0.05, momentum: 0.9}}}\n"                                           \
    "mesh: {" mesh "}\n"

static const char plain[] = JOB("checkpoint_every: 1000", "bucket: 4096"),
                  saves[] = JOB("checkpoint_every: 1", "bucket: 4096"),
                  spans[] = JOB("checkpoint_every: 1000",
                                "compress: topk, compress_warmup: 1, compress_span: 3"),
                  parts[] = JOB("checkpoint_every: 1000", "stages: 3");

static uint64_t told[STEPS + 2]; /* hashes of the states before these rounds, undisturbed */

FOLDER_EACH

static void
alone(struct a_run *a)
{
    a_run_compute(a, ALL, true);
    memcpy(a->mesh->sum, a->mesh->own, a->mesh->vector * sizeof(int32_t));
    a_run_commit(a, true);
    save_wait(a->run.save);
}

/* So many rounds of a new run; what each state was is known from then on. */
static void
begin(struct a_run *a, const char *text, const char *name, unsigned rounds)
{
    a_run_open(a, text, folder_path(&folder, name), TRAIN_AUTO);
    for (unsigned k = 0; k < rounds; k++) {
        told[k] = a->mesh->told.hash;
        alone(a);
    }
    told[rounds] = a->mesh->told.hash;
}

static void
back(struct a_run *a, uint64_t round, bool wrong)
{
    a_run_follow(a, &(struct mesh_task){.kind = MESH_BACK, .round = round, .wrong = wrong});
}

/* The mesh was told of the state before this round, and it is the one that it was. */
static void
is_at(const struct a_run *a, uint64_t round)
{
    assert_int_equal(a->mesh->told.round, round);
    assert_true(a->mesh->told.hash == told[round]);
    assert_true(state_hash(&a->run.state, a->run.pool) == told[round]);
}

/* Steps in metrics.jsonl. */
static unsigned
lines(struct a_run *a)
{
    char line[4096];
    unsigned count = 0;
    metrics_sync(a->run.metrics);
    FILE *file = fopen(folder_path(&folder, "a/metrics.jsonl"), "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        count++;
    fclose(file);
    return count;
}

TEST(the_state_before_is_there_once_and_then_only_the_first_one)
{
    OWNED(a_run_fini) struct a_run a;
    begin(&a, plain, "a", 4);
    assert_int_equal(lines(&a), 4);
    back(&a, 4, true);
    is_at(&a, 3);
    assert_int_equal(lines(&a), 3); /* the step is done again */
    back(&a, 3, true);              /* the other one of the two was a state before round 4 */
    is_at(&a, 0);
    assert_int_equal(a.mesh->damaged[CORE_STATE_DAMAGED], 0);
    for (unsigned k = 0; k < 4; k++)
        alone(&a);
    is_at(&a, 4);
}

/* Also when it is the present one that is asked to be given up, long after. */
TEST(a_state_that_is_not_old_enough_is_not_gone_back_to)
{
    OWNED(a_run_fini) struct a_run a;
    begin(&a, plain, "a", 4);
    back(&a, 3, true);
    is_at(&a, 0);
    assert_int_equal(lines(&a), 0);
}

TEST(a_state_before_that_changed_in_memory_is_not_gone_back_to)
{
    OWNED(a_run_fini) struct a_run a;
    begin(&a, plain, "a", 3);
    a.run.next.params[100] += 1;
    back(&a, 3, true);
    is_at(&a, 0);
}

TEST(the_newest_checkpoint_below_the_round_is_taken)
{
    OWNED(a_run_fini) struct a_run a;
    begin(&a, saves, "a", 5);
    back(&a, 4, true);
    is_at(&a, 3);
    assert_int_equal(lines(&a), 3);
    alone(&a);
    is_at(&a, 4);
}

/* But not what another run left, to which this one does not belong. */
TEST(a_run_that_begins_again_goes_back_to_no_checkpoint)
{
    OWNED(a_run_fini) struct a_run other;
    begin(&other, saves, "a", 3);
    uint64_t first = told[0], third = told[3];
    a_run_fini(&other);
    begin(&other, plain, "b", 3); /* who is ahead */
    for (int fresh = 0; fresh < 2; fresh++) {
        OWNED(a_run_fini) struct a_run a;
        a_run_open(&a, saves, folder_path(&folder, "a"), fresh ? TRAIN_FRESH : TRAIN_AUTO);
        assert_int_equal(a.mesh->told.round, fresh ? 0 : 3);
        memcpy(a.mesh->state_in, other.run.state.block, other.run.state.size);
        a_run_follow(&a, &(struct mesh_task){
                             .kind = MESH_ADOPT, .round = 3, .state_hash = other.mesh->told.hash});
        back(&a, 4, true);
        assert_int_equal(a.mesh->told.round, fresh ? 0 : 3);
        assert_true(a.mesh->told.hash == (fresh ? first : third));
    }
}

/* A node that had shards of the span is gone: what the span left out of gradients is gone, too. */
TEST(a_span_is_computed_again_from_where_it_began)
{
    OWNED(a_run_fini) struct a_run a;
    begin(&a, spans, "a", 3);
    const struct rounds_run *rounds = a.run.record;
    assert_true(a.mesh->told.pinned);
    back(&a, 3, false);
    is_at(&a, 1);
    assert_false(a.mesh->told.pinned);
    assert_int_equal(rounds->replayed, 2);
    assert_int_equal(lines(&a), 1);
    alone(&a);
    is_at(&a, 2);
    alone(&a);
    is_at(&a, 3);
    rounds->span_start.params[5] += 1; /* and not from there if that changed */
    back(&a, 3, false);
    is_at(&a, 0);
}

/* Whole spans are no matter of who has shards. */
TEST(checkpoints_are_not_of_states_within_a_span)
{
    static const char text[] =
        JOB("checkpoint_every: 1", "compress: topk, compress_warmup: 1, compress_span: 2");
    OWNED(a_run_fini) struct a_run a;
    begin(&a, text, "a", 0);
    for (unsigned round = 1; round <= 5; round++) {
        char name[32];
        alone(&a);
        snprintf(name, sizeof name, "a/checkpoint-%u", round);
        FILE *file = fopen(folder_path(&folder, name), "rb");
        assert_true((file != NULL) == !a.mesh->told.pinned);
        assert_true(a.mesh->told.pinned == (round % 2 == 0));
        if (file)
            fclose(file);
    }
}

/* --- Parts ------------------------------------------------------------------------------------------ */

static void
hold(struct a_run *a, uint64_t segments)
{
    a_run_follow(a, &(struct mesh_task){.kind = MESH_HOLD, .holds = segments});
    assert_true(a->mesh->told.holds == segments && a->mesh->told.round == 0);
}

/* The last state of `whole` comes to a node that holds these segments, and then the others of it. */
static void
adopt(struct a_run *a, struct a_run *whole)
{
    memcpy(a->mesh->state_in, whole->run.state.block, whole->run.state.size);
    a_run_follow(a, &(struct mesh_task){.kind = MESH_ADOPT,
                                        .round = whole->mesh->told.round,
                                        .state_hash = whole->mesh->told.hash,
                                        .parts = whole->mesh->parts});
    assert_true(a->mesh->told.done && a->mesh->told.hash == whole->mesh->told.hash);
}

static void
give(struct a_run *a, uint64_t segments, const uint64_t *hashes)
{
    a_run_follow(a, &(struct mesh_task){.kind = MESH_PART, .holds = segments, .parts = hashes});
}

TEST(who_is_done_asks_for_one_segment_after_the_other)
{
    OWNED(a_run_fini) struct a_run whole, a, b;
    begin(&whole, parts, "whole", STEPS);
    while (!whole.mesh->told.done)
        alone(&whole);
    begin(&a, parts, "a", 0);
    hold(&a, 1 << 1);
    adopt(&a, &whole);
    assert_int_equal(a.mesh->part, 1 << 0);
    give(&a, 1 << 0, whole.mesh->parts);
    assert_int_equal(a.mesh->part, 1 << 2);
    uint64_t wrong[PROTO_STAGES_MAX];
    memcpy(wrong, whole.mesh->parts, sizeof wrong);
    wrong[2]++;
    give(&a, 1 << 2, wrong);
    assert_int_equal(a.mesh->damaged[CORE_COPY_DAMAGED], 1);
    give(&a, 1 << 2, whole.mesh->parts);
    assert_int_equal(a.mesh->part, 1 << 3);
    assert_string_equal(a.run.no_model.line, "");
    give(&a, 1 << 3, whole.mesh->parts);
    assert_int_equal(a.mesh->part, 0);
    assert_non_null(a.run.gather);

    begin(&b, parts, "b", 0); /* nobody has the rest */
    hold(&b, 1 << 1);
    adopt(&b, &whole);
    give(&b, 0, NULL);
    assert_int_equal(b.mesh->part, 0);
    assert_null(b.run.gather);
    assert_non_null(strstr(b.run.no_model.line, "no other node has the rest of the last state"));
}

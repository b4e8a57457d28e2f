/* test_parts.c - what a node that holds a part of the model begins with: its checkpoint says what it holds, or the mesh
 * does. */
#include <errno.h>
#include <stdio.h>

#include "node/train/parts.h"
#include "tests/support/folder.h"
#include "tests/support/saver.h"
#include "tests/support/test.h"

enum { STEP = 7, ALL = 15 };

static const char text[] =
    "data: {source: glyphs, train: 240, test: 24}\n"
    "model: [flatten, dense: 30, relu, dense: 20, relu, dense: 10, relu, dense: 10]\n"
    "train: {batch: 240, shards: 4, optimizer: {adam: 0.001}}\n"
    "mesh: {stages: 3}\n"
    "node: {log: error}\n";

static struct why why;

FOLDER_EACH
/* As train_open makes it, but for workers, metrics and mesh. */
struct node {
    struct run run;
    struct stages_mesh mesh;
};

static void
node_init(struct node *node, bool part)
{
    struct run *run = &node->run;
    *node = (struct node){.run.job_hash = 5};
    assert_int_equal(config_parse(&run->config, "test", text, strlen(text), &why), 0);
    assert_int_equal(config_check(run->config, &why), 0);
    assert_int_equal(job_open(&run->job, run->config, &why), 0);
    assert_int_equal(pool_new(&run->pool, 1), 0);
    assert_int_equal(stages_mesh_init(&node->mesh, &run->job, run->config), 0);
    assert_int_equal(node->mesh.segments.count, 4);
    assert_int_equal(memory_plan(&run->memory, run->config, &run->job, &why), 0);
    run->memory.part = part;
    const struct state_job job = job_rules(&run->job, run->config);
    size_t params = nn_param_count(run->job.model);
    assert_int_equal(state_init(&run->state, &job, run->job.exact, params), 0);
    assert_int_equal(state_init(&run->next, &job, run->job.exact, params), 0);
    if (!part)
        assert_int_equal(job_state(&run->job, run->config, &run->state, &why), 0);
    run->save = saver_open(folder.path, &run->state, run->job_hash, 1);
}

static void
node_fini(struct node *node)
{
    struct run *run = &node->run;
    save_destroy(&run->save);
    state_fini(&run->state);
    state_fini(&run->next);
    pool_destroy(&run->pool);
    job_close(&run->job);
    config_destroy(&run->config);
}

/* Leaves a checkpoint of what it holds. */
static void
node_save(struct node *node)
{
    struct state *state = &node->run.state;
    state->header->round = state->header->step = STEP;
    for (size_t i = 0; i < state->held_count; i++)
        for (size_t k = state->held[i].first; k < state->held[i].end; k++)
            state->params[k] = (float)k;
    assert_int_equal(save_last(node->run.save, state, &why), 0);
}

/* It has these segments and no others, and parameters of that checkpoint or the first ones. */
static void
node_has(struct node *node, uint64_t segments, bool saved)
{
    struct run *run = &node->run;
    OWNED(memory_free) float *first = malloc(run->state.param_count * sizeof *first);
    assert_int_equal(stages_mesh_held(&node->mesh, &run->state), segments);
    assert_int_equal(stages_mesh_held(&node->mesh, &run->next), segments);
    assert_int_equal(run->state.header->step, saved ? STEP : 0);
    nn_init_params(run->job.model, run->config->run.seed, first);
    for (size_t s = 0; s < node->mesh.segments.count; s++) {
        const struct state_range *range = &node->mesh.segments.stage[s];
        bool held = segments >> s & 1;
        for (size_t k = range->first; k < range->end; k++)
            assert_true(run->state.params[k] == (!held ? 0 : saved ? (float)k : first[k]));
    }
}

static void
node_again(struct node *node, bool part)
{
    node_fini(node);
    node_init(node, part);
}

static void
node_holds(struct node *node, uint64_t segments, bool saved)
{
    assert_int_equal(parts_hold(&node->run, &node->mesh, segments, &why), 0);
    node_has(node, segments, saved);
}

/* `unread`: of a checkpoint of the whole. */
static void
node_knows_nothing(struct node *node, bool unread)
{
    assert_false(parts_known(&node->run, &node->mesh));
    assert_int_equal(node->run.folder.unread, unread);
}

TEST(the_mesh_says_what_is_held_where_not_all_fits)
{
    OWNED(node_fini) struct node node;
    node_init(&node, false);
    assert_true(parts_known(&node.run, &node.mesh));
    node_has(&node, ALL, false);
    node_again(&node, true);
    node_knows_nothing(&node, false);
    node_holds(&node, 5, false);
    node_holds(&node, 2, false);
}

/* Even where there is room for more; --fresh knows nothing of it. */
TEST(a_node_holds_what_its_checkpoint_has)
{
    OWNED(node_fini) struct node node;
    struct checkpoint_found found;
    node_init(&node, true);
    assert_int_equal(parts_hold(&node.run, &node.mesh, 6, &why), 0);
    node_save(&node);
    for (int part = 0; part < 2; part++) {
        node_again(&node, part);
        assert_true(parts_known(&node.run, &node.mesh));
        assert_false(node.run.folder.unread);
        assert_int_equal(train_read(&node.run, &found, &why), 0);
        node_has(&node, 6, true);
    }
    node_again(&node, true);
    node.run.folder.fresh = true;
    assert_false(parts_known(&node.run, &node.mesh));
    node_holds(&node, 6, false);
}

/* Once: when it is to hold others later, there is a mesh that is ahead. */
TEST(a_whole_checkpoint_is_read_in_part_when_the_mesh_says_which)
{
    OWNED(node_fini) struct node node;
    node_init(&node, false);
    node_save(&node);
    node_again(&node, true);
    node_knows_nothing(&node, true);
    node_holds(&node, 9, true);
    node_holds(&node, 2, false);
}

/* Of a checkpoint whose parts do not begin and end where segments do, as those of other cuts, nothing counts: not the
 * segments that are whole in it either, and not when a node is to go back. */
TEST(a_checkpoint_of_other_cuts_is_of_no_part)
{
    for (int late = 0; late < 2; late++) {
        OWNED(node_fini) struct node node;
        node_init(&node, true);
        struct run *run = &node.run;
        const struct state_range *segment = node.mesh.segments.stage;
        const struct nn_tensor *bias =
            nn_tensor(run->job.model, 3); /* behind the weights of segment 1 */
        struct state_range range = {segment[0].first, segment[1].end - bias->count};
        if (late) /* or there is one more tensor in front */
            range = (struct state_range){segment[1].end - bias->count, segment[2].end};
        state_hold(&run->state, &range, 1);
        assert_int_equal(save_hold(run->save, &run->state, &why), 0);
        node_save(&node);
        assert_int_equal(parts_hold(run, &node.mesh, ALL, &why), 0);
        assert_false(parts_back(run, &node.mesh, STEP + 1));
        node_again(&node, true);
        node_knows_nothing(&node, false);
        folder_fini(&folder);
        folder = folder_new();
    }
}

TEST(more_segments_of_the_present_state_are_held_beside_the_others)
{
    OWNED(node_fini) struct node node, other;
    uint64_t parts[PROTO_STAGES_MAX], hash;
    struct checkpoint_found found;
    node_init(&other, false);
    node_save(&other);
    hash = state_rehash(&other.run.state, other.run.pool);
    state_parts(&other.run.state, &other.mesh.segments, parts);
    const uint8_t *block = other.run.state.block;
    node_init(&node, true);
    assert_false(parts_known(&node.run, &node.mesh));
    assert_int_equal(parts_hold(&node.run, &node.mesh, 2, &why), 0);
    state_rehash(&node.run.state, node.run.pool);
    parts[3]++;
    assert_int_equal(parts_hold_more(&node.run, &node.mesh, 9, block, parts, &why), -EBADMSG);
    node_has(&node, 2, true);
    parts[3]--;
    assert_int_equal(parts_hold_more(&node.run, &node.mesh, 9, block, parts, &why), 0);
    node_has(&node, 11, true);
    assert_int_equal(parts_hold_more(&node.run, &node.mesh, 4, block, parts, &why), 0);
    node_has(&node, ALL, true);
    assert_true(state_whole(&node.run.state));
    assert_int_equal(state_hash_rest(&node.run.state, node.run.pool), hash);
    node.run.state.header->round = node.run.state.header->step = STEP + 1;
    assert_int_equal(save_last(node.run.save, &node.run.state, &why), 0);
    assert_int_equal(save_find(node.run.save, &node.run.state, &found, &why), 0);
}

/* Whose round is below the one to go back to, and whose parts are fewer than those held by now. */
TEST(a_node_that_goes_back_holds_what_it_had)
{
    OWNED(node_fini) struct node node, other;
    uint64_t parts[PROTO_STAGES_MAX];
    node_init(&other, false);
    node_init(&node, true);
    assert_int_equal(parts_hold(&node.run, &node.mesh, 6, &why), 0);
    node_save(&node);
    state_rehash(&other.run.state, other.run.pool);
    state_parts(&other.run.state, &other.mesh.segments, parts);
    const uint8_t *block = other.run.state.block;
    assert_int_equal(parts_hold_more(&node.run, &node.mesh, 8, block, parts, &why), 0);
    node.run.state.header->round = node.run.state.header->step = STEP + 1;
    assert_int_equal(save_last(node.run.save, &node.run.state, &why), 0);
    assert_false(parts_back(&node.run, &node.mesh, STEP + 1)); /* the newest has all */
    assert_false(save_find_below(node.run.save, &node.run.state, STEP + 1));
    assert_true(parts_back(&node.run, &node.mesh, STEP + 1));
    node_has(&node, 6, true);
    assert_false(parts_back(&node.run, &node.mesh, STEP + 1));
}

/* One of those that compute a stage says in the last bucket what it has of it: of two it would be counted twice, of
 * none not at all. */
TEST(one_member_speaks_for_each_stage)
{
    OWNED(node_fini) struct node node;
    unsigned several = 0;
    node_init(&node, false);
    for (unsigned nodes = 1; nodes <= 12; nodes++)
        for (unsigned k = 1; k <= 4; k++) {
            struct proto_plan plan;
            uint64_t spoken = 0;
            stages_mesh_divide(&node.mesh, 12, k, nodes, &plan);
            for (unsigned rank = 0; rank < nodes; rank++) {
                uint64_t speaks = stages_mesh_speaks(&plan, rank);
                assert_true((speaks & spoken) == 0);
                spoken |= speaks;
                several += plan.members[rank].shards && !speaks;
                for (unsigned s = 0; s <= plan.cut_count; s++)
                    assert_true(!(speaks >> s & 1) || proto_plan_computes(&plan, rank, s));
            }
            assert_true(spoken == (UINT64_C(2) << plan.cut_count) - 1);
        }
    assert_true(several > 12); /* in most plans a stage has several members */
}

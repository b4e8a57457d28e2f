/* a_run.h - a run of the trainer whose mesh is the test's: what the mesh is told is remembered, and the test says what
 * there is to do.
 *
 *     OWNED(a_run_fini) struct a_run a;
 *     a_run_open(&a, text, folder.path, TRAIN_AUTO);         // and the first state is announced
 *     a_run_compute(&a, 3, true);                            // two shards; a.mesh->buckets: which ones are complete
 *     memcpy(a.mesh->sum, a.mesh->own, ...); a_run_commit(&a);
 *     a.mesh->told.round                                     // of the state that the mesh was told
 *
 * The functions of mesh.h are defined here, so a program that includes this has no other mesh. */
#ifndef SUPPORT_A_RUN_H
#define SUPPORT_A_RUN_H

#include <stdio.h>

#include "node/train/train_internal.h"
#include "tests/support/test.h"

enum { A_RUN_PARTS = PROTO_STAGES_MAX };

struct mesh {
    int32_t *own, *sum;
    uint8_t *state_in;
    size_t vector, bucket_count, state_size;
    struct mesh_setup setup;
    struct core_state told; /* of the last state, */
    uint64_t parts[A_RUN_PARTS];
    unsigned states;     /* of so many */
    uint64_t buckets;    /* bitmap, since the last task */
    unsigned damaged[3]; /* how often, by enum core_damage */
    uint64_t part;       /* of the last mesh_part */
    unsigned audits, equal;
    bool interrupted;
    struct mesh_stats stats;
};

int
mesh_new(struct mesh **out, const struct mesh_setup *setup, struct why *why)
{
    struct mesh *mesh = *out = calloc(1, sizeof *mesh);
    assert_non_null(mesh);
    (void)why;
    *mesh = (struct mesh){.own = calloc(setup->vector_count, sizeof(int32_t)),
                          .sum = calloc(setup->vector_count, sizeof(int32_t)),
                          .state_in = calloc(1, setup->state_size),
                          .vector = setup->vector_count,
                          .bucket_count = setup->bucket_count,
                          .state_size = setup->state_size,
                          .setup = *setup};
    return 0;
}

void
mesh_destroy(struct mesh **mesh)
{
    if (*mesh) {
        free((*mesh)->own);
        free((*mesh)->sum);
        free((*mesh)->state_in);
    }
    free(*mesh);
    *mesh = NULL;
}

int32_t *
mesh_own(struct mesh *mesh)
{
    return mesh->own;
}

const int32_t *
mesh_sum(const struct mesh *mesh)
{
    return mesh->sum;
}

const uint8_t *
mesh_state_in(const struct mesh *mesh)
{
    return mesh->state_in;
}

void
mesh_bucket(struct mesh *mesh, size_t bucket)
{
    assert_true(bucket < mesh->bucket_count && !(mesh->buckets >> bucket & 1));
    mesh->buckets |= UINT64_C(1) << bucket;
}

void
mesh_state(struct mesh *mesh, const void *block, const struct core_state *state)
{
    assert_non_null(block);
    mesh->told = *state;
    if (state->parts)
        memcpy(mesh->parts, state->parts, sizeof mesh->parts);
    mesh->states++;
}

void
mesh_damaged(struct mesh *mesh, enum core_damage what)
{
    mesh->damaged[what]++;
}

void
mesh_part(struct mesh *mesh, uint64_t segments)
{
    mesh->part = segments;
}

void
mesh_audited(struct mesh *mesh, bool equal)
{
    mesh->audits++;
    mesh->equal += equal;
}

void
mesh_interrupt(struct mesh *mesh)
{
    mesh->interrupted = true;
}

void
mesh_stats(struct mesh *mesh, struct mesh_stats *out)
{
    *out = mesh->stats;
}

void
mesh_known(struct mesh *mesh, const struct proto_endpoint *at)
{
    (void)mesh;
    (void)at;
}

void
mesh_status(struct mesh *mesh, struct mesh_status *out)
{
    (void)mesh;
    *out = (struct mesh_status){.control_port = 1};
}

/* What no test here asks for. */
void
mesh_next(struct mesh *mesh, struct mesh_task *task)
{
    (void)mesh, (void)task;
    fail();
}

bool
mesh_ends_later(struct mesh *mesh)
{
    (void)mesh;
    return false;
}

void
mesh_piece(struct mesh *mesh)
{
    (void)mesh;
    fail();
}

float *
mesh_item(const struct mesh *mesh, unsigned stage, unsigned shard, bool gradient)
{
    (void)mesh, (void)stage, (void)shard, (void)gradient;
    return NULL;
}

void
mesh_want(struct mesh *mesh, uint64_t step, uint64_t round, uint64_t page)
{
    (void)mesh, (void)step, (void)round, (void)page;
}

const uint8_t *
mesh_page_in(const struct mesh *mesh)
{
    (void)mesh;
    return NULL;
}

void
mesh_page(struct mesh *mesh, uint64_t round, const void *data, size_t size)
{
    (void)mesh, (void)round, (void)data, (void)size;
}

void
mesh_in_use(struct mesh *mesh, bool in_use)
{
    (void)mesh, (void)in_use;
}

void
mesh_file(struct mesh *mesh, uint64_t blocks, const void *data, size_t size)
{
    (void)mesh, (void)blocks, (void)data, (void)size;
}

int
mesh_files_take(const struct mesh_setup *setup, bool (*next)(void *ctx, struct core_files *want),
                struct why *why)
{
    (void)setup, (void)next, (void)why;
    return 0;
}

size_t
mesh_log_size(size_t vector)
{
    return vector;
}

size_t
mesh_idle_size(size_t state, size_t vector)
{
    return state + vector;
}

/* --- The run ---------------------------------------------------------------------------------------- */

struct a_run {
    struct run run;
    struct mesh *mesh;
};

/* Data files are in the folder `out`, too. */
static inline void
a_run_open(struct a_run *a, const char *text, const char *out, enum train_start start)
{
    struct why why = {""};
    struct config *config;
    if (config_parse(&config, "test", text, strlen(text), &why))
        fail_msg("%s", why.line);
    snprintf(config->out, sizeof config->out, "%s", out);
    snprintf(config->data.dir, sizeof config->data.dir, "%s", out);
    config->quiet = true;
    config->log_level = -1;
    if (config_check(config, &why))
        fail_msg("%s", why.line);
    *a = (struct a_run){.run = {.config = config, .way = way_of(config)}};
    if (train_open(&a->run, start, &why))
        fail_msg("%s", why.line);
    a->mesh = a->run.mesh;
    a->run.way->start(&a->run);
}

static inline void
a_run_fini(struct a_run *a)
{
    train_close(&a->run);
    config_destroy(&a->run.config);
}

/* True: it is to stop. */
static inline bool
a_run_follow(struct a_run *a, const struct mesh_task *task)
{
    a->mesh->buckets = 0;
    return a->run.way->follow(&a->run, task);
}

static inline bool
a_run_compute(struct a_run *a, uint64_t shards, bool fresh)
{
    return a_run_follow(a, &(struct mesh_task){.kind = MESH_COMPUTE,
                                               .round = a->mesh->told.round,
                                               .shards = shards,
                                               .mine = shards,
                                               .members = 2,
                                               .fresh = fresh});
}

/* `fresh`: nothing was made of this sum before. */
static inline void
a_run_commit(struct a_run *a, bool fresh)
{
    a_run_follow(a, &(struct mesh_task){.kind = MESH_COMMIT,
                                        .round = a->mesh->told.round,
                                        .members = 2,
                                        .mine = 1,
                                        .fresh = fresh});
}

/* All buckets. */
static inline uint64_t
a_run_all(const struct a_run *a)
{
    return (UINT64_C(1) << a->mesh->bucket_count) - 1;
}

#endif

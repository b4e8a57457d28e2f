/* train.c - the loop of a run: do what the mesh says until the state is done. */
#include "node/train/train_internal.h"

#include "node/base/term.h"
#include "proto/clock.h"
#include "proto/fail.h"

void
train_tell_mesh(struct run *run, struct core_state *state)
{
    size_t count;
    const struct state_header *h = run->state.header;
    work_buckets(run->work, &count);
    state->first_bucket = h->phase != STATE_TRAIN ? count - 1 : 0;
    state->done = h->done;
    state->rows = state_rows(&run->state);
    mesh_state(run->mesh, run->state.block, state);
}

void
train_announce(struct run *run, uint64_t round, uint64_t hash)
{
    train_tell_mesh(run, &(struct core_state){.round = round, .hash = hash});
}

void
train_begin_fresh(struct run *run)
{
    if (run->folder.fresh)
        checkpoint_forget(run->config->out, run->job_hash, false);
    run->folder.fresh = false;
}

/* True: the run is done. Else this node ends; `saved` as in struct mesh_task. */
static bool
follow_mesh(struct run *run, bool *saved)
{
    for (bool ends = false;;) {
        struct mesh_task task;
        double start = clock_s();
        mesh_next(run->mesh, &task);
        run->meter.wait_s += clock_s() - start;
        train_tell_lonely(run);
        switch (task.kind) {
        case MESH_IDLE:
            metrics_alive(run->metrics);
            train_tell_doing(run);
            break;
        case MESH_PAGE: /* asked for and not waited for */
            break;
        case MESH_INTERRUPTED:
            *saved = task.saved;
            if (ends || !mesh_ends_later(run->mesh))
                return false;
            ends = true;
            break;
        case MESH_DONE:
            return true;
        default:
            if (run->way->follow(run, &task))
                return false;
        }
    }
}

int
train_leave(struct run *run, bool model)
{
    struct why why = {""};
    save_wait(run->save);
    if (train_tell_hopeless(run))
        return 1;
    if (model && run->state.header->round && state_whole(&run->state) &&
        save_model_last(run->save, &run->state, &why))
        train_say(run, 4, "%s", why.line);
    train_tell_left(run);
    return 130;
}

static int
run_mesh(struct run *run)
{
    struct why why = {""};
    int status = 0;
    bool saved = false;
    if (run->folder.found.damaged_count)
        status = run->way->repair ? run->way->repair(run) : train_tell_damaged(run);
    if (status)
        return status;
    fail_hit(FAIL_START, NULL, 0);
    run->way->start(run);
    bool done = follow_mesh(run, &saved);
    if (!done && run->way->ends && (status = run->way->ends(run, saved)) >= 0)
        return status;
    fail_hit(FAIL_DONE, run->state.block, run->state.size);
    if (!state_sound(&run->state, run->pool)) {
        train_say(run, 3,
                  "the state changed in memory: no checkpoint and no results were written; start "
                  "again to "
                  "go on from the other nodes or the last checkpoint");
        return 1;
    }
    metrics_find(run->metrics);
    int failed = save_last(run->save, &run->state, &why);
    if (done && train_tell_hopeless(run))
        return 1;
    if (!done && !failed && run->state.header->round && state_whole(&run->state))
        failed = save_model_last(run->save, &run->state, &why);
    if (!done) {
        train_tell_stopped(run, failed ? why.line : NULL);
        return data_failed(run->job.data) ? 1 : 130;
    }
    int rc = train_results(run);
    fail_hit(FAIL_RESULT, NULL, 0);
    return rc ? 1 : 0;
}

int
train_run(struct config *config, enum train_start start)
{
    struct run run = {.config = config, .way = way_of(config), .meter.started = clock_s()};
    struct why why = {""};
    int status = 2;
    if (train_open(&run, start, &why) == 0) {
        train_interruptible(run.mesh);
        status = run_mesh(&run);
    } else {
        term_fail("%s", why.line);
    }
    train_interruptible(NULL);
    train_close(&run);
    return status;
}

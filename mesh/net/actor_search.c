/* actor_search.c - the short life of a node without a job, which has no thread of its own: it looks for a job, or takes
 * the files of one. */
#include "mesh/net/actor.h"

#include <errno.h>
#include <string.h>

enum { SEARCH_US = 1000000 }; /* between two calls of setup.searching */

static atomic_int wake_fd = -1; /* of the search that runs */
static atomic_bool interrupted;

bool
mesh_job_interrupt(void)
{
    uint64_t one = 1;
    int fd = atomic_load(&wake_fd);
    atomic_store(&interrupted, true);
    if (fd < 0)
        return false;
    ssize_t rc = write(fd, &one, sizeof one);
    (void)rc;
    return true;
}

/* Returns when to tell again. */
static uint64_t
search_tell(const struct mesh *mesh, uint64_t since_us)
{
    struct mesh_status status;
    uint64_t searching_us = clock_us() - since_us;
    if (mesh->setup.searching) {
        actor_status(mesh, &status);
        mesh->setup.searching(mesh->setup.ctx, &status, searching_us);
    }
    return since_us + (searching_us / SEARCH_US + 1) * SEARCH_US;
}

/* A search: has it found all that it looks for? */
typedef bool search_over(struct mesh *mesh, void *ctx);

static int
search_run(struct mesh *mesh, uint64_t timeout_ms, search_over *over, void *ctx)
{
    uint64_t since = clock_us(), end = since + timeout_ms * 1000, tell_at = since;
    bool found = false;
    atomic_store(&wake_fd, mesh->wake_fd);
    while (!(found = over(mesh, ctx)) && !atomic_load(&interrupted) && clock_us() < end) {
        if (clock_us() >= tell_at)
            tell_at = search_tell(mesh, since);
        actor_turn(mesh, true);
    }
    atomic_store(&wake_fd, -1);
    if (found)
        return 0;
    return atomic_load(&interrupted) ? -EINTR : -ETIMEDOUT;
}

int
actor_open_observer(struct mesh **out, const struct mesh_setup *setup, struct why *why)
{
    struct mesh_setup only = {
        .group = setup->group,
        .interface = setup->interface,
        .port = setup->port,
        .beacon_port = setup->beacon_port,
        .seeds = setup->seeds,
        .seed_count = setup->seed_count,
        .program = {.log = setup->program.log, .file_came = setup->program.file_came},
        .searching = setup->searching,
        .offered = setup->offered,
        .curious = setup->curious,
        .ctx = setup->ctx,
        .hello = {.wants_job = true},
        .shards = 1,
        .peers_min = PROTO_PEERS_MAX,
    };
    memcpy(only.hello.name, setup->hello.name, sizeof only.hello.name);
    return actor_open(out, &only, why);
}

static int
search(const struct mesh_setup *setup, struct mesh_job *job, uint64_t timeout_ms, search_over *over,
       void *ctx, struct why *why)
{
    struct mesh *mesh;
    int rc = actor_open_observer(&mesh, setup, why);
    if (rc != 0)
        return rc;
    mesh->job = job;
    pthread_mutex_lock(&mesh->lock);
    rc = search_run(mesh, timeout_ms, over, ctx);
    actor_goodbye(mesh);
    pthread_mutex_unlock(&mesh->lock);
    if (rc == -ETIMEDOUT)
        why_set(why, "no mesh with a job was found within %llu ms", (unsigned long long)timeout_ms);
    else if (rc == -EINTR)
        why_set(why, "interrupted");
    atomic_store(&interrupted, false);
    actor_close(&mesh, ACTOR_GOODBYE_MS);
    return rc;
}

static bool
job_is_here(struct mesh *mesh, void *ctx)
{
    (void)ctx;
    return mesh->job_found;
}

int
mesh_job_find(const struct mesh_setup *setup, uint64_t timeout_ms, struct mesh_job *job,
              struct why *why)
{
    return search(setup, job, timeout_ms, job_is_here, NULL, why);
}

struct taking {
    bool (*next)(void *ctx, struct core_files *want);
    bool ended; /* the run */
};

static bool
files_are_here(struct mesh *mesh, void *ctx)
{
    struct taking *taking = ctx;
    struct core_files want;
    taking->ended = core_files_over(mesh->core);
    while (core_files_here(mesh->core)) {
        if (!taking->next(mesh->setup.ctx, &want)) {
            taking->ended = false;
            return true;
        }
        if (want.count == 0)
            return taking->ended;
        core_want_files(mesh->core, clock_us(), &want);
    }
    return taking->ended;
}

int
mesh_files_take(const struct mesh_setup *setup, bool (*next)(void *ctx, struct core_files *want),
                struct why *why)
{
    struct taking taking = {next, false};
    int rc = search(setup, NULL, UINT64_MAX / 2000, files_are_here, &taking, why);
    if (rc || !taking.ended)
        return rc;
    return why_error(why, -ECANCELED, "the run has ended before its files were here");
}

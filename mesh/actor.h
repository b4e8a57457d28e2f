/* actor.h - what actor.c, which runs a node, and actor_life.c, which opens and closes it, share. Not for others. */
#ifndef MESH_ACTOR_H
#define MESH_ACTOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "mesh/actor_wire.h"
#include "mesh/mesh.h"
#include "proto/clock.h"

enum { ACTOR_TASKS_MAX = 8 }; /* the core has at most one compute and one commit or adopt out */

#define ACTOR_TAG_WAKE UINT64_C(1)

struct mesh {
    struct mesh_setup setup;
    pthread_mutex_t lock; /* core, wire, discover and everything down to `stop` */
    pthread_cond_t rest;  /* the actor thread rests here */
    struct core *core;
    struct wire *wire;
    struct discover *discover;
    struct proto_node self;
    char address[64]; /* on which wire listens */
    int epoll_fd, wake_fd;
    uint64_t tick_at, discover_at; /* us */
    uint64_t trim_at;              /* us; 0: no peer has come or gone since the last time */
    bool more_control, more_bulk;  /* read again before sleeping */
    struct mesh_task tasks[ACTOR_TASKS_MAX];
    size_t task_first, task_count;
    const uint8_t *state;           /* the trainer's, as it told us last */
    size_t first_bucket;            /* that this round exchanges */
    bool lent;                      /* the trainer has a bucket of the sum */
    uint64_t lent_plan, lent_round; /* of the last that it had */
    bool finished;
    uint64_t wait_us;
    bool stop;

    pthread_mutex_t bucket_lock; /* the three below */
    size_t *buckets;             /* [bucket_count], a ring: finished, not yet told to the core */
    size_t bucket_first, bucket_waiting;

    atomic_bool trainer_drives; /* the trainer is in mesh_next */
    atomic_bool interrupted;
    pthread_t thread;
    bool thread_runs;
    int32_t *own, *sum;
    uint8_t *state_in, *log;
    size_t log_size;
    uint8_t page_in[PROTO_PAGE_MAX];
    bool *express; /* [bucket_count]: is small */
    bool *quick;   /* [bucket_count]: telling the core is little work */
    char *job;     /* mesh_job_find: where the text goes */
    bool job_found;
};

static inline void
actor_wake(struct mesh *mesh)
{
    uint64_t one = 1;
    ssize_t rc = write(mesh->wake_fd, &one, sizeof one);
    (void)rc; /* full means that it is awake */
}

/* What the core asks for, and what the sockets tell it; ctx: the mesh. */
extern const struct core_ops actor_core_ops;
extern const struct wire_events actor_wire_events;
void actor_log(void *ctx, int level, const char *line);

/* The actor thread; ctx: the mesh. */
void *actor_run(void *ctx);
/* Both with the lock. One turn of the loop, by the trainer or the actor thread: sleep without the lock until something
 * happens, then deal with it. */
void actor_turn(struct mesh *mesh, bool trainer);
/* Tell the core what has gathered on the side, until nothing more comes of it. */
void actor_settle(struct mesh *mesh);
/* With the lock. */
void actor_status(const struct mesh *mesh, struct mesh_status *out);

/* Room for the threads of the libraries and some memory for them? 0, -ENOMEM or -EAGAIN with `why`. */
int actor_room(char *why, size_t why_size);

#endif

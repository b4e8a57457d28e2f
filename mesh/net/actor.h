/* actor.h - shared by actor.c, which runs a node, actor_trainer.c, which talks to its trainer, and actor_life.c, which
 * opens and closes it. Not for other files. */
#ifndef MESH_ACTOR_H
#define MESH_ACTOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "mesh/mesh.h"
#include "mesh/net/actor_pulse.h"
#include "mesh/net/actor_starve.h"
#include "mesh/net/actor_wire.h"
#include "proto/clock.h"
#include "proto/why.h"

enum { ACTOR_TASKS_MAX = 8 }; /* the core has at most one compute and one commit or adopt open */

#define ACTOR_TAG_WAKE UINT64_C(1)

struct mesh {
    struct mesh_setup setup;
    pthread_mutex_t lock; /* protects core, wire, discover and everything down to `stop` */
    pthread_cond_t rest;  /* the actor thread waits here */
    struct core *core;
    struct wire *wire;
    struct pulse *pulse;
    struct discover *discover;
    struct proto_node self;
    char address[64]; /* the address on which wire listens */
    int epoll_fd, wake_fd;
    uint64_t tick_at, discover_at; /* us */
    uint64_t left_at;              /* us; when the trainer last left mesh_next */
    uint64_t starve_at;            /* us; when to look again how long the threads waited, */
    uint64_t starve_left_at;       /* for the trainer that left at this time */
    struct starve starve;
    bool more_control, more_bulk; /* read again before sleeping */
    struct mesh_task tasks[ACTOR_TASKS_MAX];
    size_t task_first, task_count;
    const uint8_t *state;           /* the trainer's state, as it told us last */
    size_t first_bucket;            /* the first bucket that this round exchanges */
    bool lent;                      /* the trainer has a bucket of the sum */
    uint64_t lent_plan, lent_round; /* plan and round of the last lent bucket */
    uint64_t wait_us;
    bool stop;

    pthread_mutex_t bucket_lock; /* protects the three below */
    size_t *buckets; /* [bucket_count], a ring: finished buckets that the core does not know yet */
    size_t bucket_first, bucket_waiting;

    atomic_bool trainer_drives; /* the trainer is in mesh_next */
    atomic_bool interrupted;
    pthread_t thread;
    int32_t *own, *sum;
    int32_t *items; /* address space: what is not used takes no memory */
    size_t items_size;
    struct proto_plan piece_plan;     /* of the present piece */
    uint64_t parts[PROTO_STAGES_MAX]; /* of the state to adopt, or of the part that came */
    uint64_t part;                    /* what mesh_part asked for last */
    uint8_t *state_in, *log;
    size_t log_size;
    uint8_t page_in[PROTO_PAGE_MAX];
    bool *express;        /* [bucket_count]: the bucket is small */
    bool *quick;          /* [bucket_count]: telling the core costs little time */
    struct mesh_job *job; /* of mesh_job_find: where to write it */
    bool job_found;
};

enum { ACTOR_GOODBYE_MS = 500 }; /* for the last control messages to leave */

/* Everything but the actor thread, and its end; a goodbye to all before that. Returns as mesh_new. */
int actor_open(struct mesh **out, const struct mesh_setup *setup, struct why *why);
/* The same as a node without a job, of what such a one needs of `setup`. */
int actor_open_observer(struct mesh **out, const struct mesh_setup *setup, struct why *why);
void actor_goodbye(struct mesh *mesh);
void actor_close(struct mesh **out, int linger_ms);

static inline void
actor_wake(struct mesh *mesh)
{
    uint64_t one = 1;
    ssize_t rc = write(mesh->wake_fd, &one, sizeof one);
    (void)rc; /* a full descriptor means that the actor is awake */
}

/* What the core asks of us, beside the wire, and what the sockets report; ctx: the mesh. */
extern const struct core_trainer actor_trainer;
extern const struct wire_events actor_wire_events;
void actor_log(void *ctx, int level, const char *line);

/* The actor thread; ctx: the mesh. */
void *actor_run(void *ctx);
/* Call both with the lock. One turn of the loop, by the trainer or the actor thread: sleeps without the lock until
 * something happens, then handles it. */
void actor_turn(struct mesh *mesh, bool trainer);
/* Tells the core everything that is waiting, until nothing more follows; or at most a few buckets. */
void actor_settle(struct mesh *mesh);
void actor_settle_some(struct mesh *mesh);
bool actor_buckets_wait(struct mesh *mesh);
/* With the lock. */
void actor_status(const struct mesh *mesh, struct mesh_status *out);

/* Room for the threads of the libraries and some memory for them? 0, -ENOMEM or -EAGAIN with `why`. */
int actor_room(struct why *why);

#endif

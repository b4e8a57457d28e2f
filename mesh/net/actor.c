/* actor.c - which thread runs the core, and the loop that tells it what happens.
 *
 * One lock guards the core and every socket. Whoever holds it may call into them; between two turns of
 * the loop the one who drives sleeps in epoll without it.
 *
 *     trainer in mesh_next     the trainer drives: what a peer sent wakes it directly, with no second
 *                              thread in between; the actor thread rests
 *     trainer computing        the actor thread drives, at the latest REST_US after the trainer left
 *     mesh_bucket              the caller tells the core itself when that is little work (a small or the
 *                              last bucket) and nobody is busy with it, else it wakes the driver
 *
 * A wake-up of a thread costs more than a small all-reduce over raw TCP, so the small path has none but
 * those of ZeroMQ. Epoll is level-triggered: an event that one thread leaves wakes the next.
 *
 * No callback of the core may call it: the wire marks what failed and counts the bodies of zero-copy sends as ZeroMQ
 * returns them, and the core hears of them when its event is over (settle). */
#include "mesh/net/actor.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#include "mesh/net/discover.h"

enum {
    STARVE_AFTER_US = 50000, /* of computing; shorter ones nobody takes for a hang */
    STARVE_EVERY_US = 50000,
    REST_US =
        2000, /* how long the actor thread rests before it looks for work, if nodes are not waited for */
    EVENTS_MAX = 32, /* epoll events per turn */
    BUCKETS_MAX = 4, /* told to the core per turn: each may be megabytes to be checked */
};

/* ---- what happens to the core ---- */

static void
actor_link_up(void *ctx, unsigned link)
{
    struct mesh *mesh = ctx;
    core_on_link_up(mesh->core, clock_us(), link);
}

static void
actor_link_down(void *ctx, unsigned link)
{
    struct mesh *mesh = ctx;
    core_on_link_down(mesh->core, clock_us(), link);
}

static void
actor_message(void *ctx, struct proto_node from, const char *host, const struct proto_msg *msg,
              const void *body, size_t size)
{
    struct mesh *mesh = ctx;
    core_on_message(mesh->core, clock_us(), from, host, msg, body, size);
}

static void
actor_bulk(void *ctx, struct proto_node from, const struct proto_msg *msg, struct core_frame *frame)
{
    struct mesh *mesh = ctx;
    core_on_bulk(mesh->core, clock_us(), from, msg, frame);
}

static void
actor_found(void *ctx, const struct proto_endpoint *at, struct proto_node node)
{
    struct mesh *mesh = ctx;
    core_on_found(mesh->core, clock_us(), at, node);
}

void
actor_log(void *ctx, int level, const char *line)
{
    struct mesh *mesh = ctx;
    if (mesh->setup.program.log)
        mesh->setup.program.log(mesh->setup.ctx, level, line);
}

const struct wire_events actor_wire_events = {
    .link_up = actor_link_up,
    .link_down = actor_link_down,
    .message = actor_message,
    .bulk = actor_bulk,
    .log = actor_log,
};

/* ---- the loop; everything here holds the lock ---- */

static bool
actor_take_bucket(struct mesh *mesh, size_t *bucket)
{
    pthread_mutex_lock(&mesh->bucket_lock);
    bool any = mesh->bucket_waiting > 0;
    if (any) {
        *bucket = mesh->buckets[mesh->bucket_first];
        mesh->bucket_first = (mesh->bucket_first + 1) % mesh->setup.bucket_count;
        mesh->bucket_waiting--;
    }
    pthread_mutex_unlock(&mesh->bucket_lock);
    return any;
}

bool
actor_buckets_wait(struct mesh *mesh)
{
    pthread_mutex_lock(&mesh->bucket_lock);
    bool any = mesh->bucket_waiting > 0;
    pthread_mutex_unlock(&mesh->bucket_lock);
    return any;
}

static void
settle(struct mesh *mesh, size_t left)
{
    size_t bucket;
    bool any = true;
    while (any) {
        any = wire_settle(mesh->wire);
        for (; left > 0 && actor_take_bucket(mesh, &bucket); left--, any = true)
            core_on_bucket(mesh->core, clock_us(), bucket);
        for (unsigned n = wire_sent(mesh->wire); n > 0; n--, any = true)
            core_on_sent(mesh->core, clock_us());
    }
}

void
actor_settle(struct mesh *mesh)
{
    settle(mesh, SIZE_MAX);
}

void
actor_settle_some(struct mesh *mesh)
{
    settle(mesh, BUCKETS_MAX);
}

/* The address of the one interface that was asked for may change. */
static void
follow_address(struct mesh *mesh)
{
    const char *address = discover_address(mesh->discover);
    if (strcmp(address, mesh->address) == 0)
        return;
    int rc = wire_move(mesh->wire, address);
    char line[128];
    snprintf(line, sizeof line, "listening on %s instead of %s%s%s", address, mesh->address,
             rc == 0 ? "" : ": ", rc == 0 ? "" : strerror(-rc));
    actor_log(mesh, rc == 0 ? 5 : 4, line);
    if (rc == 0)
        snprintf(mesh->address, sizeof mesh->address, "%s", address);
}

/* While the trainer computes for long: how much of that did it wait for a processor? */
static void
look_starved(struct mesh *mesh, uint64_t now)
{
    if (atomic_load(&mesh->trainer_drives) || now < mesh->starve_at ||
        now < mesh->left_at + STARVE_AFTER_US)
        return;
    uint64_t us = starve_us(&mesh->starve);
    if (mesh->starve_left_at == mesh->left_at)
        core_on_starved(mesh->core, now, us);
    mesh->starve_left_at = mesh->left_at;
    mesh->starve_at = now + STARVE_EVERY_US;
}

/* What has come meanwhile is read before the core judges who is silent. */
static void
actor_tick(struct mesh *mesh)
{
    uint64_t now = clock_us();
    if (now >= mesh->tick_at) {
        mesh->more_control = wire_ready(mesh->wire, WIRE_TAG_CONTROL);
        now = clock_us();
        look_starved(mesh, now);
        core_on_tick(mesh->core, now);
        if (wire_tick(mesh->wire, now))
            mesh->more_control = mesh->more_bulk = true;
        discover_read(mesh->discover, actor_found, mesh);
        mesh->tick_at = now + core_tick_us(mesh->core);
    }
    if (now < mesh->discover_at)
        return;
    mesh->discover_at = discover_tick(mesh->discover, now, actor_found, mesh);
    follow_address(mesh);
}

static void
handle(struct mesh *mesh, uint64_t tag)
{
    uint64_t count;
    if (tag == WIRE_TAG_BULK)
        mesh->more_bulk = true;
    else if (tag == WIRE_TAG_CONTROL)
        mesh->more_control = true;
    else if (tag & WIRE_TAG)
        wire_ready(mesh->wire, tag);
    else if (read(mesh->wake_fd, &count, sizeof count) < 0)
        assert(errno == EAGAIN);
}

/* Control first: it is short and others wait for it. */
static void
actor_read_all(struct mesh *mesh)
{
    if (mesh->more_control)
        mesh->more_control = wire_ready(mesh->wire, WIRE_TAG_CONTROL);
    if (mesh->more_bulk || wire_stalled(mesh->wire))
        mesh->more_bulk = wire_ready(mesh->wire, WIRE_TAG_BULK);
}

static int
sleep_ms(struct mesh *mesh)
{
    if (mesh->more_control || mesh->more_bulk || actor_buckets_wait(mesh))
        return 0;
    uint64_t now = clock_us(),
             until = mesh->tick_at < mesh->discover_at ? mesh->tick_at : mesh->discover_at;
    return until <= now ? 0 : (int)((until - now + 999) / 1000);
}

/* One turn: sleep without the lock until something happens, then deal with it. */
void
actor_turn(struct mesh *mesh, bool trainer)
{
    struct epoll_event events[EVENTS_MAX];
    int timeout = wire_sleep(mesh->wire, true) ? sleep_ms(mesh) : 0;
    pthread_mutex_unlock(&mesh->lock);
    int count = epoll_wait(mesh->epoll_fd, events, EVENTS_MAX, timeout);
    pthread_mutex_lock(&mesh->lock);
    if (!trainer && atomic_load(&mesh->trainer_drives))
        return; /* it finds the same events */
    wire_sleep(mesh->wire, false);
    for (int i = 0; i < count; i++)
        handle(mesh, events[i].data.u64);
    actor_read_all(mesh);
    actor_tick(mesh);
    actor_settle_some(mesh);
}

static uint64_t
rest_us(const struct mesh *mesh)
{
    uint64_t tick_us = core_tick_us(mesh->core);
    return tick_us > CORE_TICK_US ? tick_us : REST_US;
}

void *
actor_run(void *arg)
{
    struct mesh *mesh = arg;
    prctl(PR_SET_NAME, "mesh");
    pthread_mutex_lock(&mesh->lock);
    while (!mesh->stop)
        if (atomic_load(&mesh->trainer_drives))
            clock_wait(&mesh->rest, &mesh->lock, rest_us(mesh));
        else
            actor_turn(mesh, false);
    pthread_mutex_unlock(&mesh->lock);
    return NULL;
}

/* actor_life.c - a node's life: its memory and sockets are opened, the actor thread starts, goodbye is said. */
#include "mesh/net/actor.h"

#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "mesh/core/engine.h"
#include "mesh/core/group/servers.h"
#include "mesh/net/discover.h"
#include "proto/fail.h"
#include "proto/mix.h"
#include "proto/text.h"

enum {
    EXPRESS_BYTES = 256 << 10, /* buckets up to this size do not wait for larger ones */
    FRAMES_SPARE = 256,        /* received bodies kept, beside those of two rounds */
    VECTOR_ALIGN = 4096,
    LOG_ROUNDS = 8,       /* totals kept for a node that catches up, at least, */
    LOG_BYTES = 32 << 20, /* and as many as fit; memory that is taken only when one comes */
    HUGE_PAGE = 2 << 20,
    ARENAS_MAX = 4, /* heaps: each keeps the most that it ever held, some threads come late */
};

/* Keeps the memory of received frames in the heap instead of mapping and unmapping each frame: mapping costs more than
 * filling it. For the whole process, once. */
static void
tune_malloc(void)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;
    struct rlimit limit;
    if (atomic_flag_test_and_set(&done))
        return;
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 512 << 20);
    mallopt(M_TOP_PAD, 16 << 20);
    mallopt(M_ARENA_MAX, ARENAS_MAX);
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        mallopt(M_ARENA_MAX, 1); /* each further one takes 64 MiB of address space */
}

static uint64_t
group_hash(const char *group)
{
    uint64_t hash = mix64(0);
    for (const char *c = group ? group : ""; *c; c++)
        hash = mix64_pair(hash, (uint8_t)*c);
    return hash;
}

/* Nanoseconds since 1970, the lowest 16 bits random: rises with every start, and two starts in the same
 * instant still differ. */
static int
name_self(struct proto_node *out)
{
    uint16_t noise;
    struct timespec t;
    if (getrandom(&out->id, sizeof out->id, 0) != sizeof out->id ||
        getrandom(&noise, sizeof noise, 0) != sizeof noise)
        return -EIO;
    clock_gettime(CLOCK_REALTIME, &t);
    out->id |= out->id == 0;
    out->id = fail_node_id(out->id);
    out->incarnation =
        (((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec) & ~UINT64_C(0xffff)) | noise;
    return 0;
}

/* Zeros. Large pages, where the system gives them, save a good part of what adding and sending costs. They take no
 * memory before they are written: a node may hold only a part of the model. */
static void *
new_block(size_t size)
{
    size_t align = size < HUGE_PAGE ? VECTOR_ALIGN : HUGE_PAGE;
    size_t whole = (size / align + 1) * align;
    void *block = aligned_alloc(align, whole);
    if (!block)
        return NULL;
    if (align == HUGE_PAGE)
        madvise(block, whole, MADV_HUGEPAGE);
    if (align != HUGE_PAGE || madvise(block, whole, MADV_DONTNEED))
        memset(block, 0, whole);
    return block;
}

/* For sums. What no engine touches costs no memory. */
static void *
sum_block(const struct mesh_setup *setup, size_t size)
{
    return setup->engine->sums ? new_block(size) : malloc(size);
}

static int
open_locks(struct mesh *mesh)
{
    clock_cond_init(&mesh->rest);
    pthread_mutex_init(&mesh->lock, NULL);
    pthread_mutex_init(&mesh->bucket_lock, NULL);
    mesh->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    mesh->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return mesh->epoll_fd < 0 || mesh->wake_fd < 0 ? -errno : 0;
}

size_t
mesh_log_size(size_t vector)
{
    return LOG_ROUNDS * vector > LOG_BYTES ? LOG_ROUNDS * vector : LOG_BYTES;
}

static size_t
whole_pages(size_t size)
{
    return (size + VECTOR_ALIGN - 1) / VECTOR_ALIGN * VECTOR_ALIGN;
}

size_t
mesh_idle_size(size_t state, size_t vector)
{
    return whole_pages(state) + mesh_log_size(vector);
}

static int
open_items(struct mesh *mesh)
{
    const struct core_stages *stages = &mesh->setup.stages;
    if (stages->count <= 1)
        return 0;
    size_t items = CORE_ITEMS(stages->cut_count + 1, mesh->setup.shards);
    mesh->items_size = items * stages->item_words * sizeof *mesh->items;
    void *block = mmap(NULL, mesh->items_size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    mesh->items = block == MAP_FAILED ? NULL : block;
    return mesh->items ? 0 : -ENOMEM;
}

static int
actor_open_memory(struct mesh *mesh)
{
    const struct mesh_setup *setup = &mesh->setup;
    mesh->own = new_block(setup->vector_count * sizeof *mesh->own);
    mesh->sum = sum_block(setup, setup->vector_count * sizeof *mesh->sum);
    mesh->log_size =
        setup->log_size ? setup->log_size : mesh_log_size(setup->vector_count * sizeof *mesh->sum);
    mesh->state_in = setup->idle ? setup->idle : sum_block(setup, setup->state_size);
    mesh->log =
        setup->idle ? mesh->state_in + whole_pages(setup->state_size) : malloc(mesh->log_size);
    mesh->buckets = calloc(setup->bucket_count + 1, sizeof *mesh->buckets);
    mesh->quick = calloc(setup->bucket_count + 1, sizeof *mesh->quick);
    mesh->express = calloc(setup->bucket_count + 1, sizeof *mesh->express);
    if (!mesh->own || !mesh->sum || !mesh->state_in || !mesh->log || !mesh->buckets ||
        !mesh->quick || !mesh->express || open_items(mesh))
        return -ENOMEM;
    for (size_t b = 0; b < setup->bucket_count; b++)
        mesh->express[b] = setup->buckets[b].count * sizeof(int32_t) <= EXPRESS_BYTES;
    for (size_t b = 0; b < setup->bucket_count; b++) /* the last: mesh_next follows anyway */
        mesh->quick[b] = b + 1 == setup->bucket_count ||
                         setup->buckets[b].count * sizeof(int32_t) <= setup->direct_bytes;
    return 0;
}

static int
open_discover(struct mesh *mesh, struct why *why)
{
    const struct mesh_setup *setup = &mesh->setup;
    struct discover_setup discover = {
        .interface = setup->interface,
        .port = setup->beacon_port,
        .self = mesh->self,
        .group = group_hash(setup->group),
        .seeds = setup->seeds,
        .seed_count = setup->seed_count,
        .curious = setup->curious,
        .log = actor_log,
        .log_ctx = mesh,
    };
    return discover_new(&mesh->discover, &discover, why);
}

static size_t
items_chunks(const struct mesh_setup *setup)
{
    const struct core_stages *stages = &setup->stages;
    size_t each = stages->item_words / setup->chunk_elems + 1;
    return stages->count > 1 ? CORE_ITEMS(stages->cut_count + 1, setup->shards) * each : 0;
}

/* Chunks of a round that may go to one node: items, and of the ring, or one for each range and direction. */
static size_t
actor_chunks_max(const struct mesh_setup *setup)
{
    size_t ring = setup->vector_count / setup->chunk_elems + setup->bucket_count + 1, star = 0;
    for (size_t b = 0; b < setup->bucket_count; b++)
        star += servers_ranges_max(&setup->buckets[b], setup->chunk_elems);
    star = ring > star ? ring : star;
    star += items_chunks(setup);
    return setup->chunks > star ? setup->chunks : star;
}

/* Frames of ranges that wait for our own bucket: at a server one of each other member. */
static size_t
frames_max(const struct mesh_setup *setup)
{
    size_t ranges = 0;
    for (size_t b = 0; b < setup->bucket_count; b++)
        ranges += servers_ranges_max(&setup->buckets[b], setup->chunk_elems);
    return 2 * actor_chunks_max(setup) + PROTO_PEERS_MAX * ranges + setup->frames;
}

static int
open_wire(struct mesh *mesh, struct why *why)
{
    const struct mesh_setup *setup = &mesh->setup;
    struct wire_setup wire = {
        .self = mesh->self,
        .address = discover_address(mesh->discover),
        .port = setup->port,
        .port_first = MESH_PORT_FIRST,
        .port_last = MESH_PORT_LAST,
        .epoll_fd = mesh->epoll_fd,
        .wake_fd = mesh->wake_fd,
        .frames = frames_max(setup) + FRAMES_SPARE,
        .queue_size = 2 * actor_chunks_max(setup) + FRAMES_SPARE,
        .express = mesh->express,
        .bucket_count = setup->bucket_count,
    };
    snprintf(mesh->address, sizeof mesh->address, "%s", wire.address);
    return wire_new(&mesh->wire, &wire, &actor_wire_events, mesh, why);
}

static int
open_core(struct mesh *mesh)
{
    const struct mesh_setup *setup = &mesh->setup;
    struct core_config config = {
        .wire = &wire_for_core,
        .wire_ctx = mesh->wire,
        .program = &setup->program,
        .program_ctx = setup->ctx,
        .engine = setup->engine,
        .gossip = setup->gossip,
        .trainer = &actor_trainer,
        .trainer_ctx = mesh,
        .job = setup->job,
        .self = mesh->self,
        .hello = setup->hello,
        .shards = setup->shards,
        .peers_min = setup->peers_min,
        .keep_all = setup->keep_all,
        .even = setup->even,
        .servers = setup->servers,
        .gather_us = setup->gather_ms * 1000,
        .bucket_count = setup->bucket_count,
        .buckets = setup->buckets,
        .own = mesh->own,
        .sum = mesh->sum,
        .state_size = setup->state_size,
        .state_in = mesh->state_in,
        .log = mesh->log,
        .log_size = mesh->log_size,
        .chunk_elems = setup->chunk_elems,
        .direct_bytes = setup->direct_bytes,
        .audit_share = (uint64_t)(setup->audit * 4294967296.0),
        .audit_bucket = setup->audit_bucket,
        .inexact = setup->inexact,
        .stages = setup->stages,
        .items = mesh->items,
    };
    if (getrandom(&config.audit_seed, sizeof config.audit_seed, 0) != sizeof config.audit_seed)
        return -EIO;
    text_copy(config.hello.mesh, sizeof config.hello.mesh, setup->group ? setup->group : "");
    text_copy(config.hello.name, sizeof config.hello.name, setup->hello.name);
    config.hello.control_port = wire_control_port(mesh->wire);
    config.hello.bulk_port = wire_bulk_port(mesh->wire);
    return core_new(&mesh->core, &config, clock_us());
}

static void
watch(struct mesh *mesh, int fd, uint64_t tag)
{
    struct epoll_event event = {.events = EPOLLIN};
    event.data.u64 = tag;
    int rc = epoll_ctl(mesh->epoll_fd, EPOLL_CTL_ADD, fd, &event);
    assert(rc == 0);
}

static void
watch_all(struct mesh *mesh)
{
    watch(mesh, mesh->wake_fd, ACTOR_TAG_WAKE);
    mesh->more_bulk = mesh->more_control = true;
}

static int
open_parts(struct mesh *mesh, struct why *why)
{
    int rc = open_locks(mesh);
    if (rc == 0)
        rc = name_self(&mesh->self);
    if (rc == 0)
        rc = actor_open_memory(mesh);
    if (rc != 0)
        return why_error(why, rc, "the network of the mesh: %s%s", strerror(-rc),
                         rc == -ENOMEM ? " (is it limited by ulimit -v?)" : "");
    rc = actor_room(why);
    if (rc == 0)
        rc = open_discover(mesh, why);
    if (rc == 0)
        rc = open_wire(mesh, why);
    if (rc != 0)
        return rc;
    rc = open_core(mesh);
    if (rc != 0)
        why_set(why, "the network of the mesh: %s", strerror(-rc));
    return rc;
}

void
actor_close(struct mesh **out, int linger_ms)
{
    struct mesh *mesh = *out;
    pulse_destroy(&mesh->pulse);
    core_destroy(&mesh->core);
    wire_destroy(&mesh->wire, linger_ms);
    discover_destroy(&mesh->discover);
    if (mesh->epoll_fd >= 0)
        close(mesh->epoll_fd);
    if (mesh->wake_fd >= 0)
        close(mesh->wake_fd);
    pthread_mutex_destroy(&mesh->bucket_lock);
    pthread_mutex_destroy(&mesh->lock);
    pthread_cond_destroy(&mesh->rest);
    free(mesh->quick);
    free(mesh->express);
    free(mesh->buckets);
    if (!mesh->setup.idle) {
        free(mesh->state_in);
        free(mesh->log);
    }
    if (mesh->items)
        munmap(mesh->items, mesh->items_size);
    free(mesh->sum);
    free(mesh->own);
    free(mesh);
    *out = NULL;
}

int
actor_open(struct mesh **out, const struct mesh_setup *setup, struct why *why)
{
    *out = NULL;
    tune_malloc();
    struct mesh *mesh = calloc(1, sizeof *mesh);
    if (!mesh)
        return why_error(why, -ENOMEM, "no memory for the network (ulimit -v)");
    mesh->setup = *setup;
    if (!mesh->setup.engine)
        mesh->setup.engine = &engine_rounds;
    if (mesh->setup.chunk_elems == 0)
        mesh->setup.chunk_elems = MESH_CHUNK_ELEMS;
    if (mesh->setup.direct_bytes == 0)
        mesh->setup.direct_bytes = MESH_DIRECT_BYTES;
    if (mesh->setup.beacon_port == 0)
        mesh->setup.beacon_port = MESH_BEACON_PORT;
    mesh->epoll_fd = mesh->wake_fd = -1;
    int rc = open_parts(mesh, why);
    if (rc != 0) {
        actor_close(&mesh, 0);
        return rc;
    }
    watch_all(mesh);
    discover_publish(mesh->discover, clock_us(), wire_control_port(mesh->wire));
    *out = mesh;
    return 0;
}

int
mesh_new(struct mesh **out, const struct mesh_setup *setup, struct why *why)
{
    int rc = actor_open(out, setup, why);
    if (rc != 0)
        return rc;
    rc = pulse_new(&(*out)->pulse, (*out)->wire);
    if (rc == 0)
        rc = -pthread_create(&(*out)->thread, NULL, actor_run, *out);
    if (rc != 0) {
        why_set(why, "no thread for the network (ulimit -u, ulimit -v): %s", strerror(-rc));
        actor_close(out, 0);
        return rc;
    }
    return 0;
}

void
actor_goodbye(struct mesh *mesh)
{
    core_leave(mesh->core, clock_us());
    actor_settle(mesh);
    discover_leave(mesh->discover);
}

void
mesh_destroy(struct mesh **out)
{
    struct mesh *mesh = out ? *out : NULL;
    if (!mesh)
        return;
    pthread_mutex_lock(&mesh->lock);
    mesh->stop = true;
    pulse_destroy(&mesh->pulse);
    actor_goodbye(mesh);
    pthread_mutex_unlock(&mesh->lock);
    pthread_cond_signal(&mesh->rest);
    actor_wake(mesh);
    pthread_join(mesh->thread, NULL);
    actor_close(out, ACTOR_GOODBYE_MS);
}

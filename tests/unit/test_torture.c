/* test_torture.c - every constructor of mesh and compress with each of its allocations failing in turn: all
 * or nothing. And what must not allocate does not: messages, and a core once it is there.
 * LDFLAGS: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=free
 * Method: "How SQLite Is Tested", out-of-memory testing. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "compress/exact.h"
#include "mesh/mesh.h"
#include "mesh/net/discover.h"
#include "mesh/net/discover_resolve.h"
#include "tests/support/alloc.h"
#include "tests/support/judged.h"
#include "tests/support/local_name.h"
#include "tests/support/messages.h"
#include "tests/support/test.h"

enum { ELEMS = 100, BUCKETS = 3, STATE_SIZE = 5000, ROUNDS = 50 };

static const struct core_bucket buckets[BUCKETS] = {{0, 60}, {100, 0}, {60, 40}};
static struct why why;

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

void *
__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return alloc_fails() ? NULL : __real_aligned_alloc(alignment, size);
}

static size_t frees;

void __real_free(void *block);
void __wrap_free(void *block);

void
__wrap_free(void *block)
{
    frees += block != NULL;
    __real_free(block);
}

/* A constructor; returns its rc and leaves what it made in *out. */
typedef int (*make)(void **out);
typedef void (*unmake)(void **out);

/* NAME_unmake of NAME_destroy. */
#define UNMAKE(name)                                                                               \
    static void name##_unmake(void **out)                                                          \
    {                                                                                              \
        struct name *made = *out;                                                                  \
        name##_destroy(&made);                                                                     \
        *out = made;                                                                               \
    }
UNMAKE(exact)
UNMAKE(core)
UNMAKE(resolve)
UNMAKE(discover)
UNMAKE(mesh)

/* Construct with the n-th allocation failing, destroy what came of it. False: there were fewer. */
static bool
fail_at(size_t n, make construct, unmake destruct)
{
    void *made = NULL;
    why.line[0] = 0;
    alloc_calls = frees = 0;
    alloc_fail_at = n;
    int rc = construct(&made);
    alloc_fail_at = 0;
    if (rc != 0) {
        assert_int_equal(rc, -ENOMEM);
        assert_null(made);
        assert_true(alloc_calls >= n);
        return true;
    }
    assert_non_null(made);
    destruct(&made);
    assert_null(made);
    destruct(&made); /* twice does no harm */
    return false;
}

/* Returns how many allocations the constructor makes. */
static size_t
torture(make construct, unmake destruct)
{
    size_t n = 1;
    while (fail_at(n, construct, destruct))
        n++;
    return n - 1;
}

/* For parts that get no memory from libraries: what they took they gave back. */
static size_t
torture_exactly(make construct, unmake destruct)
{
    size_t n = 1;
    for (bool failed = true; failed; n++) {
        failed = fail_at(n, construct, destruct);
        assert_int_equal(frees, alloc_calls - failed);
    }
    return n - 2;
}

/* ---- exact ---- */

static int
make_exact(void **out)
{
    static const size_t counts[] = {10, 2000, 3};
    struct exact *made = NULL;
    int rc = exact_new(&made, counts, 3, 12);
    *out = made;
    return rc;
}

TEST(exact_is_made_whole_or_not_at_all)
{
    assert_true(torture_exactly(make_exact, exact_unmake) >= 2);
}

/* ---- core: one node alone, computing at once what it is asked for ---- */

struct alone {
    struct core *core;
    int32_t own[ELEMS], sum[ELEMS];
    uint8_t state_in[STATE_SIZE];
    bool compute, commit;
    uint64_t rounds;
};

static struct alone alone;

static void
on_compute(void *ctx, const struct core_task *task)
{
    struct alone *node = ctx;
    (void)task;
    node->compute = true;
}

static void
on_commit(void *ctx, uint64_t round)
{
    struct alone *node = ctx;
    assert_int_equal(round, node->rounds);
    node->commit = true;
}

/* It has no peers, so nothing is sent. */
static const struct core_wire no_wire;
static const struct core_program no_program;
static const struct core_trainer trainer = {.compute = on_compute, .commit = on_commit};

static int
make_core(void **out)
{
    const struct core_config config = {
        .wire = &no_wire,
        .program = &no_program,
        .trainer = &trainer,
        .trainer_ctx = &alone,
        .self = {1, 1},
        .hello = {.run = "torture", .job_hash = 1, .control_port = 1, .bulk_port = 1},
        .shards = 12,
        .peers_min = 1,
        .bucket_count = BUCKETS,
        .buckets = buckets,
        .own = alone.own,
        .sum = alone.sum,
        .state_size = STATE_SIZE,
        .state_in = alone.state_in,
        .chunk_elems = 16,
        .direct_bytes = 16,
    };
    struct core *made = NULL;
    int rc = core_new(&made, &config, 0);
    *out = made;
    return rc;
}

TEST(core_is_made_whole_or_not_at_all)
{
    assert_true(torture_exactly(make_core, core_unmake) >= 3);
}

TEST(a_core_allocates_nothing_once_it_is_there)
{
    void *made = NULL;
    uint64_t now = 0;
    assert_int_equal(make_core(&made), 0);
    alone.core = made;
    alloc_calls = 0;
    core_on_applied(alone.core, now, &(struct core_state){.round = 0, .hash = 1});
    while (alone.rounds < ROUNDS) {
        now += CORE_TICK_US;
        assert_true(now < 60000000);
        core_on_tick(alone.core, now);
        if (alone.compute) {
            alone.compute = false;
            for (size_t b = 0; b < BUCKETS; b++)
                core_on_bucket(alone.core, now, b);
        }
        if (alone.commit) {
            alone.commit = false;
            core_on_applied(alone.core, now,
                            &(struct core_state){.round = ++alone.rounds, .hash = 1});
        }
    }
    core_leave(alone.core, now);
    assert_int_equal(alloc_calls, 0);
    core_unmake(&made);
}

/* ---- messages ---- */

TEST(messages_cost_no_allocation)
{
    static struct messages_sample sample;
    static struct proto_endpoint endpoints[PROTO_PEERS_MAX];
    static struct proto_msg got;
    struct rand rand = {1};
    uint8_t frame[PROTO_FRAME_MAX];
    alloc_calls = 0;
    for (enum proto_type type = PROTO_HELLO; type < PROTO_TYPES_END; type++)
        for (int size = 0; size < MESSAGES_SIZES; size++) {
            messages_make(&sample, type, (enum messages_size)size, &rand);
            size_t length = proto_encode(&sample.msg, frame);
            assert_int_equal(proto_decode(&got, endpoints, frame, length, &why), 0);
            frame[length / 2] ^= 0x55;
            (void)proto_decode(&got, endpoints, frame, length, &why);
        }
    assert_int_equal(alloc_calls, 0);
}

/* ---- parts with sockets ---- */

static int
make_resolve(void **out)
{
    static const struct proto_endpoint names[] = {{"127.0.0.1", 1}, {"::1", 2}};
    struct resolve *made = NULL;
    int rc = resolve_new(&made, names, 2);
    *out = made;
    return rc;
}

TEST(resolve_is_made_whole_or_not_at_all)
{
    assert_true(torture(make_resolve, resolve_unmake) >= 2);
}

static int
make_discover(void **out)
{
    static const struct proto_endpoint seeds[] = {{"127.0.0.1", 1}};
    const struct discover_setup setup = {.interface = "lo",
                                         .port = free_udp_port(),
                                         .self = {1, 1},
                                         .seeds = seeds,
                                         .seed_count = 1};
    struct discover *made = NULL;
    int rc = discover_new(&made, &setup, &why);
    assert_int_equal(rc == 0, why.line[0] == 0);
    *out = made;
    return rc;
}

TEST(discover_is_made_whole_or_not_at_all)
{
    assert_true(torture(make_discover, discover_unmake) >= 2);
}

static void
on_log(void *ctx, int level, const char *line)
{
    (void)ctx, (void)level, (void)line;
}

static int
make_mesh(void **out)
{
    const struct mesh_setup setup = {
        .hello = {.run = "torture", .job_hash = 1},
        .group = "torture",
        .interface = "lo",
        .beacon_port = free_udp_port(),
        .shards = 12,
        .peers_min = 1,
        .buckets = buckets,
        .bucket_count = BUCKETS,
        .vector_count = ELEMS,
        .state_size = STATE_SIZE,
        .program.log = on_log,
    };
    struct mesh *made = NULL;
    int rc = mesh_new(&made, &setup, &why);
    assert_int_equal(rc == 0, why.line[0] == 0);
    *out = made;
    return rc;
}

static size_t
open_files(void)
{
    size_t count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

TEST(mesh_is_made_whole_or_not_at_all)
{
    size_t before = open_files();
    assert_true(torture(make_mesh, mesh_unmake) >= 10);
    assert_int_equal(open_files(), before);
}

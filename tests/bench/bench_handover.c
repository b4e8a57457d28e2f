/* bench_handover.c - how long an item takes from one stage to the next, beside the same bytes on bare TCP.
 *
 *     bench_handover RANK GROUP            two processes with one GROUP meet, with the calls that a trainer uses
 *     bench_handover RANK PORT HOST        the same bytes there and back on one TCP connection; rank 0 listens on HOST
 *
 * Two stages, one shard, pieces that compute nothing: from the end of the first stage's forward to its backward an item
 * goes there and its gradient comes back, and the second stage is asked for two pieces. Rank 0 prints half of that as
 * the line of measure.h; the rank with the first stage measures. BENCH_BYTES (1 MiB), BENCH_ROUNDS, BENCH_INTERFACE
 * (lo). */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mesh/mesh.h"
#include "tests/bench/measure.h"

enum { WARM = 10, ROUNDS_MAX = 10000, PAGE = 4096 };

static double seconds[ROUNDS_MAX];

static void
die(const char *what, const char *why)
{
    fprintf(stderr, "bench_handover: %s: %s\n", what, why);
    exit(1);
}

static int
rounds_wanted(void)
{
    double rounds = measure_setting("BENCH_ROUNDS", 200);
    return rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : (int)rounds;
}

/* --- The mesh ------------------------------------------------------------------------------------- */

static void
state_is(struct mesh *mesh, uint64_t round, int rounds)
{
    const struct core_state state = {
        .round = round, .hash = round + 1, .rows = 1, .done = round == (uint64_t)(rounds + WARM)};
    mesh_state(mesh, mesh, &state);
}

/* Returns whether this node has the first stage. */
static bool
train(struct mesh *mesh, int rounds)
{
    struct mesh_task task;
    bool first = false;
    double sent = 0;
    state_is(mesh, 0, rounds);
    for (mesh_next(mesh, &task); task.kind != MESH_DONE; mesh_next(mesh, &task)) {
        if (task.kind == MESH_COMMIT) {
            if (task.members != 2)
                die("not a pipeline", "a round was computed by one node");
            state_is(mesh, task.round + 1, rounds);
        }
        if (task.kind != MESH_PIECE)
            continue;
        if (task.piece.kind == SCHEDULE_BACKWARD && task.piece.stage == 0 && task.round >= WARM)
            seconds[task.round - WARM] = (measure_now() - sent) / 2;
        if (task.piece.kind == SCHEDULE_FORWARD && task.piece.stage == 0) {
            first = true;
            sent = measure_now();
        }
        mesh_piece(mesh);
    }
    return first;
}

static void
run_mesh(const char *group, size_t bytes, int rounds)
{
    static const struct core_bucket buckets[] = {{0, 4}, {4, 4}, {8, 4}};
    static const uint64_t cost[] = {1, 1};
    const struct core_cut cut = {1, (uint32_t)(bytes / sizeof(int32_t))};
    const char *interface = getenv("BENCH_INTERFACE");
    const struct mesh_setup setup = {
        .hello = {.run = "bench", .job_hash = 1, .numerics = 1, .kernel = "none"},
        .group = group,
        .interface = interface ? interface : "lo",
        .shards = 1,
        .peers_min = 2,
        .keep_all = true,
        .buckets = buckets,
        .bucket_count = 3,
        .vector_count = 12,
        .state_size = 1,
        .chunk_elems = (uint32_t)measure_setting("BENCH_CHUNK", 0),
        .stages = {.count = 2,
                   .schedule = SCHEDULE_GPIPE,
                   .cuts = &cut,
                   .cut_count = 1,
                   .cost = cost,
                   .item_words = cut.words},
    };
    struct mesh *mesh;
    struct why why;
    if (mesh_new(&mesh, &setup, &why) != 0)
        die("mesh_new", why.line);
    if (train(mesh, rounds))
        measure_print("meshnode", 2, bytes, seconds, rounds);
    mesh_destroy(&mesh);
}

/* --- Bare TCP ------------------------------------------------------------------------------------- */

static int
connected(int rank, uint16_t port, const char *host)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    int s = socket(AF_INET, SOCK_STREAM, 0), one = 1, other = -1;
    inet_pton(AF_INET, host, &at.sin_addr);
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (rank == 0) {
        if (bind(s, (struct sockaddr *)&at, sizeof at) || listen(s, 1) ||
            (other = accept(s, NULL, NULL)) < 0)
            die("listen", host);
        close(s);
        s = other;
    }
    for (int i = 0; rank == 1 && connect(s, (struct sockaddr *)&at, sizeof at); i++) {
        if (i == 500)
            die("connect", host);
        usleep(10000);
    }
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return s;
}

static void
move(int s, char *bytes, size_t size, bool out)
{
    while (size > 0) {
        ssize_t n = out ? send(s, bytes, size, 0) : recv(s, bytes, size, 0);
        if (n <= 0)
            die("connection", "it broke");
        bytes += n;
        size -= (size_t)n;
    }
}

static void
run_tcp(int rank, uint16_t port, const char *host, size_t bytes, int rounds)
{
    int s = connected(rank, port, host);
    char *item = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);
    if (!item)
        die("item", "out of memory");
    memset(item, 0, bytes);
    for (int i = -WARM; i < rounds; i++) {
        double start = measure_now();
        move(s, item, bytes, rank == 0);
        move(s, item, bytes, rank == 1);
        if (i >= 0)
            seconds[i] = (measure_now() - start) / 2;
    }
    if (rank == 0)
        measure_print("tcp", 2, bytes, seconds, rounds);
    free(item);
    close(s);
}

int
main(int argc, char **argv)
{
    size_t bytes = measure_bytes(getenv("BENCH_BYTES") ? getenv("BENCH_BYTES") : "1m");
    if (argc == 3)
        run_mesh(argv[2], bytes, rounds_wanted());
    else if (argc == 4)
        run_tcp(atoi(argv[1]), (uint16_t)atoi(argv[2]), argv[3], bytes, rounds_wanted());
    else
        return fprintf(stderr, "usage: bench_handover RANK GROUP | RANK PORT HOST\n"), 2;
    return 0;
}

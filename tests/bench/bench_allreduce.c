/* bench_allreduce.c - the mesh's exact all-reduce, one process per rank, through the calls a trainer uses.
 *
 *     bench_allreduce RANK RANKS GROUP        RANKS processes with one GROUP meet on loopback
 *
 * A round here is: told to compute, all buckets complete at once, sum committed, applied. What it times
 * is round to round, so it counts everything that happens between two steps of a training. A round that was not
 * summed by all RANKS ends the program with status 1, for its time says nothing. Prints the line of measure.h;
 * BENCH_CHUNK=elements and BENCH_DIRECT=bytes try other cuts, BENCH_SERVERS=n servers (65: auto), BENCH_INTERFACE
 * others than lo. */
#include <stdbool.h>
#include <stdint.h>

#include "mesh/mesh.h"
#include "proto/mix.h"
#include "tests/bench/measure.h"

enum { WARM = 4 /* rounds before the timed ones; the last agrees on how many */ };

struct bench {
    int rank, ranks, rounds;
    size_t count;
    struct mesh *mesh;
    uint64_t filled; /* shards in own */
    double budget, last, estimate;
    double *seconds;
};

static void
die(const char *what, const char *why)
{
    fprintf(stderr, "bench_allreduce: %s: %s\n", what, why);
    exit(1);
}

static void
log_line(void *ctx, int level, const char *line)
{
    (void)ctx;
    if (level <= (int)measure_setting("BENCH_LOG", 4))
        fprintf(stderr, "%d: %s\n", (int)level, line);
}

/* About normally distributed, as gradients are: with 4 ranks a group of 128 needs 25 bits of a contribution, 27 of the
 * sum. */
static int32_t
element(size_t i)
{
    uint64_t random = mix64(i);
    int32_t bell = -1020;
    for (int k = 0; k < 64; k += 8)
        bell += (int32_t)(random >> k & 255);
    return bell * (1 << 14);
}

/* Element i of shard s is element(i) + s, but element 0 says how many rounds this rank can afford. */
static void
fill(struct bench *bench, uint64_t shards)
{
    int32_t *own = mesh_own(bench->mesh), many = 0, numbers = 0;
    for (int s = 0; s < 64; s++)
        if (shards >> s & 1) {
            many++;
            numbers += s;
        }
    for (size_t i = 0; i < bench->count; i++)
        own[i] = element(i) * many + numbers;
    bench->filled = shards;
}

static void
verify(const struct bench *bench)
{
    const int32_t *sum = mesh_sum(bench->mesh);
    for (size_t i = 0; i < bench->count; i++)
        if (sum[i] != element(i) * bench->ranks + bench->ranks * (bench->ranks - 1) / 2)
            die("wrong sum", "this is a bug");
}

/* Every round that is timed, and the ones before it, is one of all ranks. */
static void
all_took_part(const struct bench *bench, const struct mesh_task *task)
{
    char why[128];
    if (task->members == (unsigned)bench->ranks)
        return;
    snprintf(why, sizeof why, "round %ju of %zu bytes was summed by %u of %d ranks", task->round,
             bench->count * sizeof(int32_t), task->members, bench->ranks);
    die("not an all-reduce", why);
}

/* As many rounds as fit the budget, within the limits. */
static int32_t
affordable(double budget, double seconds)
{
    const double low = measure_setting("BENCH_MIN", 3), high = measure_setting("BENCH_MAX", 2000);
    const double want = budget / seconds;
    return (int32_t)(want < low ? low : want > high ? high : want);
}

static void
compute(struct bench *bench, const struct mesh_task *task)
{
    const uint64_t shards = task->fresh ? task->shards : bench->filled | task->shards;
    if (bench->filled != shards)
        fill(bench, shards);
    if (task->round == 1)
        bench->last = measure_now();
    if (task->round == WARM - 1) {
        const double now = measure_now();
        mesh_own(bench->mesh)[0] =
            affordable(bench->budget, (now - bench->last) / (double)(WARM - 2));
    }
    mesh_bucket(bench->mesh, 0);
}

static void
commit(struct bench *bench, const struct mesh_task *task)
{
    const double now = measure_now();
    const uint64_t round = task->round;
    all_took_part(bench, task);
    if (round == 0)
        verify(bench);
    if (round == WARM - 1) {
        bench->rounds = mesh_sum(bench->mesh)[0] / bench->ranks;
        bench->seconds = malloc(sizeof *bench->seconds * (size_t)bench->rounds);
        if (!bench->seconds)
            die("rounds", "out of memory");
    }
    if (round >= WARM)
        bench->seconds[round - WARM] = now - bench->last;
    if (round >= WARM - 1)
        bench->last = now;
    const bool done = bench->seconds && round + 1 == WARM + (uint64_t)bench->rounds;
    mesh_state(bench->mesh, bench,
               &(struct core_state){.round = round + 1, .hash = round + 1, .done = done});
}

static void
run(struct bench *bench)
{
    struct mesh_task task;
    mesh_state(bench->mesh, bench, &(struct core_state){.round = 0, .hash = 0});
    for (mesh_next(bench->mesh, &task); task.kind != MESH_DONE; mesh_next(bench->mesh, &task))
        switch (task.kind) {
        case MESH_COMPUTE:
            compute(bench, &task);
            break;
        case MESH_COMMIT:
            commit(bench, &task);
            break;
        case MESH_PAGE:
        case MESH_AUDIT:
        case MESH_BACK:
        case MESH_IDLE:
            break;
        default:
            die("unexpected task", "a rank joined late or was interrupted");
        }
}

static void
measure(struct bench *bench, const char *group, size_t bytes)
{
    char name[128];
    struct why why;
    snprintf(name, sizeof name, "%s-%zu", group, bytes);
    const struct core_bucket bucket = {0, bytes / sizeof(int32_t)};
    const char *interface = getenv("BENCH_INTERFACE");
    const struct mesh_setup setup = {
        .hello = {.run = "bench", .job_hash = 1, .numerics = 1, .kernel = "none"},
        .group = name,
        .interface = interface ? interface : "lo",
        .shards = (unsigned)bench->ranks,
        .peers_min = (size_t)bench->ranks,
        .keep_all = true,
        .buckets = &bucket,
        .bucket_count = 1,
        .vector_count = bucket.count,
        .state_size = 1,
        .chunk_elems = (uint32_t)measure_setting("BENCH_CHUNK", 0),
        .direct_bytes = (uint64_t)measure_setting("BENCH_DIRECT", 0),
        .servers = (unsigned)measure_setting("BENCH_SERVERS", 0),
        .program.log = log_line,
    };
    bench->count = bucket.count;
    bench->filled = 0;
    bench->seconds = NULL;
    if (mesh_new(&bench->mesh, &setup, &why) != 0)
        die("mesh_new", why.line);
    run(bench);
    if (bench->rank == 0)
        measure_print("meshnode", bench->ranks, bytes, bench->seconds, bench->rounds);
    free(bench->seconds);
    mesh_destroy(&bench->mesh);
}

int
main(int argc, char **argv)
{
    const char *list = getenv("BENCH_SIZES");
    char sizes[256], *rest = NULL;
    if (argc != 4)
        return fprintf(stderr, "usage: bench_allreduce RANK RANKS GROUP\n"), 2;
    struct bench bench = {.rank = atoi(argv[1]),
                          .ranks = atoi(argv[2]),
                          .budget = measure_setting("BENCH_BUDGET", 0.5)};
    if (bench.ranks < 1 || bench.ranks > 64 || bench.rank < 0 || bench.rank >= bench.ranks)
        return fprintf(stderr, "usage: bench_allreduce RANK RANKS GROUP, 1..64 ranks\n"), 2;
    snprintf(sizes, sizeof sizes, "%s", list && *list ? list : "4k,64k,1m,16m,100m");
    for (char *s = strtok_r(sizes, ",", &rest); s; s = strtok_r(NULL, ",", &rest))
        measure(&bench, argv[3], measure_bytes(s));
    return 0;
}

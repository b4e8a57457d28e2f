/* estimate.c - see estimate.h. */
#include "node/commands/estimate.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "mesh/core/group/cost.h"
#include "mesh/mesh.h"
#include "nn/data.h"
#include "node/base/host.h"
#include "node/commands/bench.h"
#include "node/commands/estimate_codecs.h"
#include "node/commands/estimate_stages.h"
#include "node/commands/estimate_ways.h"
#include "node/train/choice.h"
#include "node/train/meeting.h"
#include "node/train/way.h"
#include "node/train/work.h"
#include "proto/bits.h"
#include "proto/clock.h"

enum {
    LISTED = 4, /* then only powers of two */
    NETWORKS = 4
};
static const double GOODPUT = 0.94; /* of a line, without the headers of Ethernet, IP and TCP */
static const double OTHERS = 0.1;   /* of the machine: so much is said */
static const double MEASURE_S = 1;

/* What a round takes here. */
struct times {
    double all_s, few_s, apply_s; /* to compute all shards and `few` of them, to apply the sum */
    unsigned few;
    uint64_t steps; /* of a round */
    double packed;  /* bytes of a sum on its way (compress/coding.h), of those of its int32 */
};

/* The rows of the table: what is not tried has no time. */
enum { ROW_ALONE = CODECS, ROW_AUTO, ROW_GOSSIP, ROW_STAGES, ROW_LOCAL, ROWS };

/* What is advised for a network. */
struct advice {
    unsigned row;
    unsigned local; /* steps, with ROW_LOCAL */
};

struct networks {
    struct network_row {
        const char *name;
        uint32_t rate; /* bytes per second that a line carries */
        double row_s[ROWS];
        struct advice best;
    } of[NETWORKS];
    size_t count;
};

/* --- Networks ------------------------------------------------------------------------------------- */

static void
add_network(struct networks *networks, const char *name, uint32_t rate)
{
    networks->of[networks->count++] = (struct network_row){.name = name, .rate = rate};
}

/* The slowest line of a mesh that runs here, as its nodes measured it; 0: there is none, or they do not know. */
static uint32_t
line_here(const struct config *config)
{
    struct why why;
    struct mesh_setup setup = {.shards = 1};
    struct mesh_status *status = calloc(1, sizeof *status);
    meeting_setup(config, &setup);
    setup.port = 0; /* a node that runs here may have that of the job */
    /* Without descriptors ZeroMQ would end the program. */
    int rc = status ? host_descriptors(&why) : why_error(&why, -ENOMEM, "no memory to look for it");
    rc = rc ? rc : mesh_probe(&setup, status, &why);
    uint32_t line = rc ? 0 : status->core.line;
    if (rc)
        printf("lines   of a mesh that runs here: unknown: %s\n", why.line);
    free(status);
    return line;
}

static void
look_at_networks(struct networks *networks, const struct config *config)
{
    uint32_t here = line_here(config);
    *networks = (struct networks){.count = 0};
    add_network(networks, "10 Mbit/s", (uint32_t)(GOODPUT * 1e7 / 8));
    add_network(networks, "100 Mbit/s", (uint32_t)(GOODPUT * 1e8 / 8));
    add_network(networks, "1 Gbit/s", (uint32_t)(GOODPUT * 1e9 / 8));
    if (here == UINT32_MAX)
        printf("lines   of the mesh that runs here: so fast that they cost it no time\n");
    if (here == 0 || here == UINT32_MAX)
        return;
    add_network(networks, "lines here", here);
    printf("lines   of the mesh that runs here: the slowest carries %.3g Mbit/s\n", 8e-6 * here);
}

/* As if sums were int32 on a faster line. */
static uint32_t
packed_rate(uint32_t line, double packed)
{
    return (uint32_t)fmin(line / packed, UINT32_MAX);
}

/* --- Measuring ------------------------------------------------------------------------------------ */

/* Trains a few rounds; the quickest whole one counts. The first one is seldom it: exponents are not set, caches are
 * empty. The last one of an epoch may have fewer samples. */
static struct times
measure_work(struct bench *bench, unsigned shards, unsigned nodes)
{
    struct times times = {
        HUGE_VAL, HUGE_VAL, HUGE_VAL, (shards + nodes - 1) / nodes, state_steps(&bench->now), 1};
    uint64_t rows = state_rows(&bench->now);
    double end = clock_s() + MEASURE_S;
    for (unsigned r = 0; r < BENCH_ROUNDS || clock_s() < end; r++) {
        bool whole = state_rows(&bench->now) == rows;
        double few_s = bench_compute(bench, times.few), few = bench_share(bench),
               all_s = bench_compute(bench, shards), all = bench_share(bench),
               apply_s = bench_apply(bench);
        times.packed =
            fmin((few + all) / 2, 1); /* half of what travels is on its way to the total */
        times.few_s = whole ? fmin(times.few_s, few_s) : times.few_s;
        times.all_s = whole ? fmin(times.all_s, all_s) : times.all_s;
        times.apply_s = whole ? fmin(times.apply_s, apply_s) : times.apply_s;
    }
    return times;
}

/* --- Asking --------------------------------------------------------------------------------------- */

static uint32_t
micros(double seconds)
{
    return seconds > 0 ? (uint32_t)fmin(1e6 * seconds, UINT32_MAX) : 0;
}

/* `most` members like this machine; what a round costs beside its shards follows from the two times. */
static struct cost
cost_here(const struct config *config, const struct work *work, const struct times *times,
          unsigned most)
{
    struct cost cost = {.n = most,
                        .shards = config->train.shards,
                        .even = config->mesh.even,
                        .chunk_elems = MESH_CHUNK_ELEMS,
                        .direct_bytes = MESH_DIRECT_BYTES};
    unsigned more = cost.shards - times->few;
    double shard_s = more ? (times->all_s - times->few_s) / more : times->all_s / cost.shards;
    shard_s = shard_s > 0 ? fmin(shard_s, times->all_s / cost.shards) : times->all_s / cost.shards;
    cost.fixed_us = micros(times->all_s - cost.shards * shard_s);
    cost.buckets = work_buckets(work, &cost.bucket_count);
    for (unsigned m = 0; m < most; m++) {
        cost.of[m].speed = (uint32_t)fmin(1e6 / (shard_s + 1e-9), UINT32_MAX);
        cost.of[m].apply_us = micros(times->apply_s);
    }
    return cost;
}

/* Seconds of a step; `stages`: NULL or of a job that has some. With servers: auto, sums go by the quicker way. */
static double
step_s(const struct config *config, struct cost *cost, struct estimate_stages *stages,
       uint32_t line, unsigned nodes, uint64_t steps)
{
    uint64_t staged_us = stages ? estimate_stages_us(stages, nodes, line) : 0;
    bool server = config_servers(config) > 0;
    bool automatic = config->mesh.servers == CORE_SERVERS_AUTO;
    if (staged_us)
        return (double)(staged_us + cost->of[0].apply_us) / 1e6;
    cost->n = nodes;
    cost->upto = 0;
    uint64_t us = cost_round_us(cost, bits_below(nodes));
    if (server) {
        for (unsigned m = 0; m < nodes; m++)
            cost->of[m].weight = automatic || m < config->mesh.servers;
        cost->upto = UINT64_MAX;
        uint64_t star_us = cost_round_us(cost, bits_below(nodes));
        us = automatic && us < star_us ? us : star_us;
    }
    return (double)us / 1e6 / (double)steps;
}

/* --- Telling -------------------------------------------------------------------------------------- */

static bool
listed(unsigned nodes, unsigned most, unsigned best)
{
    return nodes <= LISTED || (nodes & (nodes - 1)) == 0 || nodes == most || nodes == best;
}

static void
print_line(const struct config *config, struct cost *cost, struct estimate_stages *stages,
           const struct times *times, const char *name, uint32_t line)
{
    unsigned most = (unsigned)config->mesh.peers, best = 1;
    double took_s[PROTO_PEERS_MAX + 1];
    for (unsigned m = 0; m < most; m++) /* as if sums were int32 on a faster line */
        cost->of[m].line = packed_rate(line, times->packed);
    for (unsigned n = 1; n <= most; n++) {
        took_s[n] = step_s(config, cost, stages, line, n, times->steps);
        best = took_s[n] < took_s[best] ? n : best;
    }
    printf("  on %s:", name);
    for (unsigned n = 1; n <= most; n++)
        if (listed(n, most, best))
            printf("%s %u node%s %.3g s", n > 1 ? "," : "", n, n > 1 ? "s" : "", took_s[n]);
    if (best == 1)
        printf(": one node alone is the fastest\n");
    else
        printf(": %u nodes are the fastest\n", best);
}

static void
print_lines(const struct config *config, const struct work *work, struct estimate_stages *stages,
            const struct times *times, const struct networks *networks)
{
    struct cost cost = cost_here(config, work, times, (unsigned)config->mesh.peers);
    printf("nodes   a step with nodes like this machine, measured here, %u thread%s\n",
           config->threads, config->threads > 1 ? "s" : "");
    for (size_t i = 0; i < networks->count; i++)
        print_line(config, &cost, stages, times, networks->of[i].name, networks->of[i].rate);
}

/* --- Which codec ------------------------------------------------------------------------------------ */

/* Of a step of all nodes with a codec, on a line of so many bytes per second; 0: it was not tried. */
static double
codec_s(const struct config *config, const struct work *work, const struct estimate_codec *of,
        uint64_t steps, uint32_t line)
{
    unsigned peers = (unsigned)config->mesh.peers;
    if (of->all_s <= 0)
        return 0;
    struct times times = {of->all_s, of->few_s, of->apply_s, 0, steps, of->share};
    times.few = (config->train.shards + peers - 1) / peers;
    struct cost cost = cost_here(config, work, &times, peers);
    for (unsigned m = 0; m < peers; m++)
        cost.of[m].line = packed_rate(line, times.packed);
    return step_s(config, &cost, NULL, line, peers, steps);
}

static const unsigned local_steps[] = {4, 16, 64};
enum { LOCALS = sizeof local_steps / sizeof *local_steps };

/* Gossip waits for one neighbour: about, by the bytes that configs/README.md says. */
static void
gossip_row(const struct job *job, const struct estimate_codec *none, uint32_t line,
           double row_s[ROWS])
{
    double bytes = (double)nn_param_count(job->model) * sizeof(float);
    row_s[ROW_GOSSIP] = none->few_s + none->apply_s + bytes / line;
}

/* Of the codecs that auto may take. Returns the row of the best. */
static unsigned
auto_row(double row_s[ROWS])
{
    static const enum codec_kind kinds[] = {CODECS_OF_AUTO};
    unsigned best = row_s[CODEC_none] < row_s[ROW_ALONE] ? CODEC_none : ROW_ALONE;
    double best_s = row_s[best];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        double s = choice_counts(codec_of(kinds[i]), row_s[kinds[i]]);
        if (s > 0 && s < best_s) {
            best = kinds[i];
            best_s = s;
        }
    }
    row_s[ROW_AUTO] = row_s[best];
    return best;
}

/* A way is worth a change of the job if it is so much quicker: as other members are in a mesh. */
static bool
pays(double then_s, double now_s)
{
    return then_s > 0 && COST_GAIN * then_s <= (COST_GAIN - 1) * now_s;
}

/* Local steps one after the other, then one sum of all weights. */
static double
local_s(const struct config *config, const struct work *work, const struct estimate_ways *ways,
        const struct estimate_codec *none, unsigned steps, uint32_t line)
{
    struct estimate_codec of = *none;
    of.few_s = steps * ways->local_s;
    of.all_s = of.few_s * none->all_s / none->few_s;
    return codec_s(config, work, &of, steps, line);
}

static double
staged_s(const struct config *config, const struct estimate_ways *ways, uint32_t line)
{
    uint64_t us =
        ways->stages ? estimate_stages_us(ways->stages, (unsigned)config->mesh.peers, line) : 0;
    return us > 0 ? 1e-6 * (double)us + ways->staged_apply_s : 0;
}

/* From what changes least: one PC, all of them, a codec, stages, and local steps, which give other weights. */
static struct advice
advise(const struct config *config, const struct work *work, const struct estimate_ways *ways,
       const struct estimate_codec *none, double row_s[ROWS], uint32_t line)
{
    struct advice best = {.row = ROW_ALONE};
    unsigned codec = auto_row(row_s);
    if (pays(row_s[CODEC_none], row_s[best.row]))
        best.row = CODEC_none;
    if (pays(row_s[codec], row_s[best.row]))
        best.row = codec;
    row_s[ROW_STAGES] = staged_s(config, ways, line);
    if (pays(row_s[ROW_STAGES], row_s[best.row]))
        best.row = ROW_STAGES;
    for (unsigned k = 0; k < LOCALS && ways->local_s > 0; k++) {
        double s = local_s(config, work, ways, none, local_steps[k], line);
        if (k > 0 && !pays(s, row_s[ROW_LOCAL]))
            break;
        row_s[ROW_LOCAL] = s;
        best.local = local_steps[k];
    }
    if (pays(row_s[ROW_LOCAL], row_s[best.row]))
        best.row = ROW_LOCAL;
    return best;
}

static void
print_steps(const char *name, const struct networks *networks, unsigned row)
{
    bool any = false;
    for (size_t i = 0; i < networks->count; i++)
        any = any || networks->of[i].row_s[row] > 0;
    if (!any)
        return;
    printf("  %-9s", name);
    for (size_t i = 0; i < networks->count; i++)
        printf(" %9.3g s", networks->of[i].row_s[row]);
    printf("\n");
}

static const char *
row_name(unsigned row)
{
    static const char *const names[] = {"alone", "auto", "gossip", "stages", "local"};
    return row < CODECS ? codec_name(row) : names[row - CODECS];
}

/* "mesh.compress: sparse" */
static void
advice_text(const struct config *config, struct advice advice, char *out, size_t size)
{
    unsigned peers = (unsigned)config->mesh.peers;
    if (advice.row == ROW_ALONE)
        snprintf(out, size, "one PC alone");
    else if (advice.row == ROW_STAGES)
        snprintf(out, size, "mesh.stages: %u", peers);
    else if (advice.row == ROW_LOCAL)
        snprintf(out, size, "train.local_steps: %u", advice.local);
    else
        snprintf(out, size, "mesh.compress: %s", row_name(advice.row));
}

/* The last line: what to set, and how many times as fast as one PC alone that is. */
static void
print_advice(const struct config *config, const struct networks *networks)
{
    char text[64];
    printf("set     ");
    for (size_t i = 0; i < networks->count; i++) {
        const struct network_row *network = &networks->of[i];
        advice_text(config, network->best, text, sizeof text);
        printf("%s%s on %s", i > 0 ? "; " : "", text, network->name);
        if (network->best.row != ROW_ALONE)
            printf(" (%.1f times one PC)",
                   network->row_s[ROW_ALONE] / network->row_s[network->best.row]);
    }
    printf("\n");
}

/* A table of all ways, for each network; and what is best there. */
static void
print_ways(const struct config *config, const struct job *job, const struct work *work,
           const struct times *times, const struct estimate_codec of[CODECS],
           const struct estimate_ways *ways, struct networks *networks)
{
    for (size_t i = 0; i < networks->count; i++) {
        struct network_row *network = &networks->of[i];
        for (unsigned kind = 0; kind < CODECS; kind++)
            network->row_s[kind] = codec_s(config, work, &of[kind], times->steps, network->rate);
        network->row_s[ROW_ALONE] =
            (of[CODEC_none].all_s + of[CODEC_none].apply_s) / (double)times->steps;
        if (times->steps == 1)
            gossip_row(job, &of[CODEC_none], network->rate, network->row_s);
        network->best = advise(config, work, ways, &of[CODEC_none], network->row_s, network->rate);
    }
    printf("steps   of %u nodes like this machine, about; alone: one of them without a codec\n",
           (unsigned)config->mesh.peers);
    printf("  %-9s", "");
    for (size_t i = 0; i < networks->count; i++)
        printf(" %11s", networks->of[i].name);
    printf("\n");
    for (unsigned row = 0; row < ROWS; row++)
        print_steps(row_name(row), networks, row);
}

/* --- Who else works here ---------------------------------------------------------------------------- */

/* Seconds of all processors since the machine started, and of this program. */
struct busy {
    double machine_s, own_s, at_s;
};

static struct busy
busy_now(void)
{
    struct busy busy = {.at_s = clock_s()};
    unsigned long long t[8] = {0};
    struct timespec own;
    FILE *file = fopen("/proc/stat", "r");
    if (file && fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2],
                       &t[3], &t[4], &t[5], &t[6], &t[7]) == 8)
        busy.machine_s = (double)(t[0] + t[1] + t[2] + t[5] + t[6]) / (double)sysconf(_SC_CLK_TCK);
    if (file)
        fclose(file);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
    busy.own_s = (double)own.tv_sec + 1e-9 * (double)own.tv_nsec;
    return busy;
}

static void
tell_others(const struct busy *before)
{
    struct busy now = busy_now();
    double all_s = (now.at_s - before->at_s) * (double)sysconf(_SC_NPROCESSORS_ONLN),
           others_s = now.machine_s - before->machine_s - (now.own_s - before->own_s);
    if (all_s > 0 && others_s > OTHERS * all_s)
        printf(
            "warning other programs used %.0f %% of this machine: steps are shorter without them\n",
            100 * others_s / all_s);
}

/* --- All of it -------------------------------------------------------------------------------------- */

/* What the last line above said of all nodes, in detail. */
static int
tell_stages(struct estimate_stages *stages, const char *timeline, struct why *why)
{
    bool divided = estimate_stages_print(stages);
    if (!timeline)
        return 0;
    if (!divided)
        return why_error(why, -EINVAL,
                         "--timeline: there is nothing to draw, as no stage ends "
                         "within the model");
    return estimate_stages_draw(stages, timeline, why);
}

/* With its stages, if it has some. */
static int
tell_nodes(const struct config *config, const struct job *job, struct bench *bench,
           struct times *times, const struct networks *networks, const char *timeline,
           struct why *why)
{
    struct estimate_stages *stages = NULL;
    *times = measure_work(bench, config->train.shards, (unsigned)config->mesh.peers);
    const char *failed = data_failed(job->data);
    int rc = bench->failed ? -ENOMEM : failed ? why_error(why, -EIO, "%s", failed) : 0;
    if (!rc && config->mesh.stages != 1)
        rc = estimate_stages_new(&stages, config, job, bench->work, &bench->now, bench->own,
                                 times->packed);
    if (!rc)
        print_lines(config, bench->work, stages, times, networks);
    if (!rc && stages)
        rc = tell_stages(stages, timeline, why);
    estimate_stages_destroy(&stages);
    return rc;
}

int
estimate_print(const struct config *config, struct job *job, const struct memory *memory,
               const char *timeline, struct why *why)
{
    struct estimate_codec of[CODECS];
    struct estimate_ways ways = {.stages = NULL};
    struct networks networks;
    struct times times = {0};
    struct bench bench = {0};
    if (way_of(config)->free || config->mesh.peers < 2)
        return 0;
    look_at_networks(&networks, config);
    struct busy before = busy_now();
    int rc = bench_open(&bench, config, job, memory->lanes, why);
    rc = rc ? rc : tell_nodes(config, job, &bench, &times, &networks, timeline, why);
    rc = rc ? rc : estimate_codecs(config, job, memory->lanes, times.all_s, of, why);
    rc = rc ? rc : estimate_ways(&ways, config, job, memory->lanes, of[CODEC_none].share, why);
    if (!rc) {
        print_ways(config, job, bench.work, &times, of, &ways, &networks);
        tell_others(&before);
        print_advice(config, &networks);
    }
    estimate_ways_fini(&ways);
    bench_close(&bench);
    return rc;
}

/* way_check.c - for `meshnode check`: what a step sends, in each way, and who would serve how many bytes of a sum
 * (mesh.topology: server). The election is that of the mesh, among nodes that are equally fast. */
#include "node/train/way.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "compress/codec.h"
#include "mesh/core/gossip/gossip_graph.h"
#include "mesh/core/group/plan_elect.h"
#include "mesh/core/group/servers.h"
#include "mesh/mesh.h"
#include "node/job/config_key.h"
#include "node/train/buckets.h"
#include "node/train/memory.h"
#include "node/train/stages_mesh.h"

enum {
    PHASES = 16, /* of a graph that are looked at */
};

/* What a node does in a round, in bytes of sums. */
struct member_bytes {
    uint64_t sums;  /* of ranges that it serves */
    uint64_t other; /* of ranges that others serve */
};

static void
elect(const struct config *config, size_t nodes, struct proto_plan *plan)
{
    const struct cost cost = {
        .n = nodes, .chunk_elems = MESH_CHUNK_ELEMS, .direct_bytes = MESH_DIRECT_BYTES};
    *plan = (struct proto_plan){.count = nodes};
    for (size_t m = 0; m < nodes; m++)
        plan->members[m].node.id = m + 1;
    plan_elect_duties(&cost, config->mesh.servers, plan);
}

/* Adds what each node does of a bucket. Returns its bytes that have a server. */
static uint64_t
take_bucket(const struct proto_plan *plan, const struct core_bucket *bucket, size_t b,
            struct member_bytes *bytes_of)
{
    uint64_t bytes = bucket->count * sizeof(int32_t);
    if (!servers_take(plan, bytes))
        return 0;
    struct servers_ranges ranges = servers_divide(bucket, MESH_CHUNK_ELEMS, plan);
    struct servers_deal deal;
    servers_deal(&deal, plan, bytes, b, ranges.count);
    for (size_t r = 0; r < ranges.count; r++) {
        uint64_t part = servers_end(&ranges, bucket, r) - servers_begin(&ranges, bucket, r);
        unsigned owner = servers_deal_next(&deal);
        for (size_t m = 0; m < plan->count; m++)
            *(m == owner ? &bytes_of[m].sums : &bytes_of[m].other) += part * sizeof(int32_t);
    }
    return bytes;
}

static void
print_shares(const struct proto_plan *plan, const struct member_bytes *bytes_of)
{
    for (size_t m = 0; m < plan->count; m++) {
        char sums[MEMORY_TEXT], each_way[MEMORY_TEXT];
        memory_text(sums, (double)bytes_of[m].sums);
        memory_text(each_way, (double)(bytes_of[m].other + (plan->count - 1) * bytes_of[m].sums));
        printf("  node %-2zu sums %s, sends and receives %s of a step\n", m + 1, sums, each_way);
    }
}

static int
print_buckets(const struct config *config, const struct buckets *buckets)
{
    size_t nodes = memory_nodes(config);
    struct member_bytes bytes_of[PROTO_PEERS_MAX] = {{0}};
    struct proto_plan plan;
    char served[MEMORY_TEXT], all[MEMORY_TEXT];
    uint64_t bytes = 0;
    elect(config, nodes, &plan);
    for (size_t b = 0; b < buckets->bucket_count; b++)
        bytes += take_bucket(&plan, &buckets->bucket[b], b, bytes_of);
    size_t servers = 0;
    for (size_t m = 0; m < nodes; m++)
        servers += bytes_of[m].sums > 0;
    memory_text(served, (double)bytes);
    memory_text(all, (double)(buckets->vector_count * sizeof(int32_t)));
    printf("servers %zu of %zu nodes%s sum %s of the %s of a step%s\n", servers, nodes,
           config->mesh.peers ? "" : " (for example)", served, all,
           config->mesh.servers == CORE_SERVERS_AUTO ? "; the rest goes round the ring or directly"
                                                     : "");
    if (bytes > 0)
        print_shares(&plan, bytes_of);
    return 0;
}

static const char *
word(const struct config *config, const char *path)
{
    return config_key_word(config_key_find(NULL, path), config);
}

/* --- Gossip --- */

/* The most that a node sends to, or hears from, in a phase. */
static unsigned
neighbours(const struct config *config, unsigned nodes)
{
    const struct gossip_graph graph = {(enum gossip_kind)config->gossip.graph,
                                       config->gossip.push_sum, config->run.seed};
    unsigned most = 0;
    for (unsigned phase = 0; phase < PHASES; phase++)
        for (unsigned rank = 0; rank < nodes; rank++) {
            unsigned to =
                (unsigned)__builtin_popcountll(gossip_graph_to(&graph, nodes, rank, phase));
            most = to > most ? to : most;
        }
    return most;
}

/* Of a model, about: with a codec ASKs have its share of the elements, and flows up to twice as many, each of some 30
 * bits. */
static uint64_t
exchanged(const struct config *config, const struct job *job)
{
    struct codec codec;
    double params = (double)nn_param_count(job->model), bytes = params * sizeof(int32_t);
    if (job_codec(config, &codec))
        bytes = fmin(bytes, 1.5 * params * codec.share * sizeof(int32_t) + params / 128);
    return (uint64_t)bytes;
}

/* A pair sends a model each way: one asks with its values, the other one answers with what flows. */
int
way_check_gossip(const struct config *config, const struct job *job)
{
    unsigned nodes = (unsigned)memory_nodes(config);
    bool async = config->mesh.sync == CONFIG_ASYNC;
    unsigned to = async ? nodes > 1 : neighbours(config, nodes);
    uint64_t model = exchanged(config, job);
    const char *coded = config->mesh.compress ? " with mesh.compress" : "";
    char bytes[MEMORY_TEXT];
    memory_text(bytes, (double)(async ? 2 * to * model : to * model));
    printf("gossip  graph %s, method %s, %u nodes%s: after each step a node ",
           word(config, "gossip.graph"), word(config, "gossip.method"), nodes,
           config->mesh.peers ? "" : " (for example)");
    if (async)
        printf(
            "asks %u neighbour and answers about as many, without waiting; it sends about %s%s\n",
            to, bytes, coded);
    else
        printf("%s %u %s, and waits for %s; it sends %s%s\n",
               config->gossip.push_sum ? "sends to" : "averages with", to,
               to == 1 ? "node" : "nodes",
               config->gossip.push_sum ? "those that send to it" : "them", bytes, coded);
    return 0;
}

/* --- Exact sums, round a ring or by servers --- */

static void
print_stage(const struct config *config, const struct job *job, const struct proto_plan *plan,
            unsigned stage, size_t first, size_t end)
{
    char weights[MEMORY_TEXT], passes[MEMORY_TEXT];
    const struct nn_model *model = job->model;
    double all = 0, own = 0;
    size_t params = 0, at;
    unsigned k = (unsigned)plan->cut_count + 1;
    for (size_t layer = 0; layer < nn_layer_count(model); layer++) {
        bool in = layer >= first && layer < end;
        all += nn_layer_train_flops(model, layer);
        own += in ? nn_layer_train_flops(model, layer) : 0;
        params += in ? buckets_of_layer(model, layer, &at) : 0;
    }
    memory_text(weights, (double)(params * sizeof(float)));
    memory_text(passes, (double)memory_stage(config, job, k, stage, first, end));
    printf("  stage %-2u %4.1f %% of the work, layers %s to %s: weights %s, activations %s; node",
           stage + 1, 100 * own / all, nn_layer_name(model, first), nn_layer_name(model, end - 1),
           weights, passes);
    for (size_t m = 0; m < plan->count; m++)
        if (proto_plan_computes(plan, m, stage))
            printf(" %zu", m + 1);
    printf("\n");
}

/* The segments of a stage. */
static uint64_t
stage_segments(const struct stages_mesh *mesh, const struct proto_plan *plan, unsigned stage)
{
    struct state_stages params;
    uint64_t segments = 0;
    stages_mesh_params(mesh, plan, &params);
    for (size_t s = 0; s < mesh->segments.count; s++)
        segments |= (uint64_t)(mesh->segments.stage[s].first >= params.stage[stage].first &&
                               mesh->segments.stage[s].end <= params.stage[stage].end)
                    << s;
    return segments;
}

/* What a node needs that holds only what it computes. */
static void
print_least(const struct config *config, const struct job *job, const struct stages_mesh *mesh,
            const struct proto_plan *plan)
{
    struct memory memory;
    struct why why;
    uint64_t most = 0, whole;
    char part[MEMORY_TEXT], all[MEMORY_TEXT];
    if (plan->cut_count == 0 || memory_plan_part(&memory, config, job, UINT64_MAX, &why))
        return;
    whole = memory_total(&memory);
    for (size_t m = 0; m < plan->count; m++) {
        uint64_t segments = 0;
        for (unsigned stage = 0; stage <= plan->cut_count; stage++)
            if (plan->members[m].computes >> stage & 1)
                segments |= stage_segments(mesh, plan, stage);
        uint64_t bytes = memory_part(&memory, segments);
        most = bytes > most ? bytes : most;
    }
    memory_text(part, (double)most);
    memory_text(all, (double)whole);
    printf("  a node that holds only what it computes needs at most %s, one that holds all %s\n",
           part, all);
}

/* As nodes that are equally fast divide the model. */
static void
print_division(const struct config *config, const struct job *job, const struct stages_mesh *mesh,
               unsigned wanted)
{
    struct proto_plan plan;
    size_t nodes = memory_nodes(config);
    stages_mesh_divide(mesh, config->train.shards, wanted, nodes, &plan);
    unsigned k = (unsigned)plan.cut_count + 1;
    printf("stages  %u on %zu nodes%s, mesh.schedule: %s\n", k, nodes,
           config->mesh.peers ? "" : " (for example)", word(config, "mesh.schedule"));
    for (unsigned stage = 0; stage < k; stage++)
        print_stage(config, job, &plan, stage, stages_mesh_layer(mesh, &plan, stage),
                    stage + 1 < k ? stages_mesh_layer(mesh, &plan, stage + 1)
                                  : nn_layer_count(job->model));
    print_least(config, job, mesh, &plan);
    printf("  can be cut %s", mesh->stages.cut_count ? "before layers" : "nowhere");
    for (size_t c = mesh->stages.cut_count; c-- > 0;)
        printf(" %s", nn_layer_name(job->model, mesh->stages.cut[c].layer));
    printf("\n");
}

static int
print_stages(const struct config *config, const struct job *job)
{
    struct stages_mesh mesh;
    unsigned wanted = memory_stages(config, job);
    if (wanted == 0 || stages_mesh_init(&mesh, job, config))
        return -ENOMEM;
    print_division(config, job, &mesh, wanted);
    return 0;
}

int
way_check_rounds(const struct config *config, const struct job *job)
{
    struct buckets buckets = {0};
    const struct work_setup setup = job_work(job, config);
    int rc = config->mesh.stages == 1 ? 0 : print_stages(config, job);
    if (config_servers(config) == 0)
        return rc;
    rc = rc ? rc : buckets_init(&buckets, &setup);
    rc = rc ? rc : print_buckets(config, &buckets);
    buckets_fini(&buckets);
    return rc;
}

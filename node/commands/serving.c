/* serving.c - see serving.h. The election is that of the mesh, among nodes that are equally fast. */
#include "node/commands/serving.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mesh/core/servers.h"
#include "mesh/mesh.h"
#include "node/train/buckets.h"
#include "node/train/memory.h"

enum { EXAMPLE_NODES = 4 };

/* What a node does in a round, in bytes of sums. */
struct share {
    uint64_t sums;  /* of ranges that it serves */
    uint64_t other; /* of ranges that others serve */
};

static void
elect(const struct config *config, size_t nodes, struct proto_plan *plan)
{
    struct servers_view view = {.n = nodes,
                                .wanted = config->mesh.servers,
                                .chunk_elems = MESH_CHUNK_ELEMS,
                                .direct_bytes = MESH_DIRECT_BYTES};
    *plan = (struct proto_plan){.count = nodes};
    for (size_t m = 0; m < nodes; m++)
        plan->members[m].node.id = m + 1;
    servers_elect(&view, plan);
}

/* Adds what each node does of a bucket. Returns its bytes that have a server. */
static uint64_t
take_bucket(const struct proto_plan *plan, const struct core_bucket *bucket, size_t b,
            struct share *share)
{
    uint64_t bytes = bucket->count * sizeof(int32_t);
    struct servers_cut cut = servers_cut(bucket, MESH_CHUNK_ELEMS);
    if (!servers_take(plan, bytes))
        return 0;
    for (size_t r = 0; r < cut.count; r++) {
        uint64_t part = servers_end(&cut, bucket, r) - servers_begin(&cut, bucket, r);
        unsigned owner = servers_owner(plan, bytes, b, r);
        for (size_t m = 0; m < plan->count; m++)
            *(m == owner ? &share[m].sums : &share[m].other) += part * sizeof(int32_t);
    }
    return bytes;
}

static void
print_shares(const struct proto_plan *plan, const struct share *share)
{
    for (size_t m = 0; m < plan->count; m++) {
        char sums[MEMORY_TEXT], each_way[MEMORY_TEXT];
        memory_text(sums, (double)share[m].sums);
        memory_text(each_way, (double)(share[m].other + (plan->count - 1) * share[m].sums));
        printf("  node %-2zu sums %s, sends and receives %s of a step\n", m + 1, sums, each_way);
    }
}

static int
print_cut(const struct config *config, const struct buckets *cut)
{
    size_t nodes = config->mesh.peers ? config->mesh.peers : EXAMPLE_NODES;
    struct share share[PROTO_PEERS_MAX] = {{0}};
    struct proto_plan plan;
    char served[MEMORY_TEXT], all[MEMORY_TEXT];
    uint64_t bytes = 0;
    elect(config, nodes, &plan);
    for (size_t b = 0; b < cut->bucket_count; b++)
        bytes += take_bucket(&plan, &cut->bucket[b], b, share);
    size_t servers = 0;
    for (size_t m = 0; m < nodes; m++)
        servers += share[m].sums > 0;
    memory_text(served, (double)bytes);
    memory_text(all, (double)(cut->vector_count * sizeof(int32_t)));
    printf("servers %zu of %zu nodes%s sum %s of the %s of a step%s\n", servers, nodes,
           config->mesh.peers ? "" : " (for example)", served, all,
           config->mesh.servers == CORE_SERVERS_AUTO ? "; the rest goes round the ring or directly"
                                                     : "");
    if (bytes > 0)
        print_shares(&plan, share);
    return 0;
}

int
serving_print(const struct config *config, const struct job *job)
{
    struct buckets cut = {0};
    const struct buckets_setup setup = {
        .model = job->model,
        .exact = job->exact,
        .shards = config->train.shards,
        .bytes = config->mesh.bucket,
        .claims = config->mesh.audit > 0,
    };
    if (strcmp(config->mesh.topology, "server") != 0)
        return 0;
    int rc = buckets_init(&cut, &setup);
    if (!rc)
        rc = print_cut(config, &cut);
    buckets_fini(&cut);
    return rc;
}

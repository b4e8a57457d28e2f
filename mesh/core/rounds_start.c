/* rounds_start.c - the engine "rounds" begins and ends, and its collective gets to the sessions. */
#include <assert.h>

#include "mesh/core/internal.h"
#include "mesh/core/rounds.h"

/* --- The collective sends to ranks; sessions are peers -------------------------------------------- */

/* A chunk as it leaves. */
static struct proto_msg
stamp(const struct core *core, const struct proto_msg *msg)
{
    struct proto_msg stamped = {.type = msg->type, .chunk = msg->chunk};
    stamped.chunk.sent_us = core->now.us;
    return stamped;
}

static void
on_send(void *ctx, unsigned rank, const struct proto_msg *msg, const void *body, size_t body_size)
{
    struct core *core = ctx;
    const struct peer *peer = &core->peers.peers[core->plan.peer[rank]];
    assert(core->plan.active && rank != core->plan.rank);
    if (peer->state != PEER_UP || !peer->announced)
        return;
    core->contribution.in_flight++;
    struct proto_msg stamped = stamp(core, msg);
    core->config.wire->send_bulk(core->config.wire_ctx, (unsigned)peer->link, &stamped, body,
                                 body_size, true);
}

static void
on_pass_on(void *ctx, uint64_t ranks, const struct proto_msg *msg, struct core_frame *frame)
{
    struct core *core = ctx;
    unsigned links[PROTO_PEERS_MAX];
    size_t count = 0;
    assert(core->plan.active && !(ranks >> core->plan.rank & 1));
    for (uint64_t left = ranks; left; left &= left - 1) {
        const struct peer *peer = &core->peers.peers[core->plan.peer[__builtin_ctzll(left)]];
        if (peer->state == PEER_UP && peer->announced)
            links[count++] = (unsigned)peer->link;
    }
    struct proto_msg stamped = stamp(core, msg);
    if (count > 0)
        core->config.wire->pass_on(core->config.wire_ctx, links, count, &stamped, frame);
}

static void
on_keep(void *ctx, struct core_frame *frame)
{
    struct core *core = ctx;
    core->config.wire->keep(core->config.wire_ctx, frame);
}

static void
on_release(void *ctx, void *handle)
{
    struct core *core = ctx;
    core->config.wire->release(core->config.wire_ctx, handle);
}

int
rounds_start(struct core *core)
{
    const struct collective_setup setup = {
        .bucket_count = core->config.bucket_count,
        .buckets = core->buckets,
        .own = core->config.own,
        .sum = core->config.sum,
        .chunk_elems = core->config.chunk_elems,
        .direct_bytes = core->config.direct_bytes,
    };
    assert(core->config.trainer || core->config.hello.wants_job);
    static const struct collective_ops ops = {on_send, on_pass_on, on_keep, on_release};
    plan_init(&core->plan);
    divergence_init(&core->divergence);
    int error = transfer_init(&core->transfer, &core->config);
    error = error ? error : collective_new(&core->collective, &setup, &ops, core);
    return error ? error : fetch_init(&core->fetch, core);
}

void
rounds_end(struct core *core)
{
    collective_destroy(&core->collective);
    fetch_fini(&core->fetch, core);
    transfer_fini(&core->transfer);
}

/* gossip_world.h - for fuzz_gossip.c: the world of its cores, their wires, and their trainer.
 *
 * What a core sends becomes a letter; the newest ones are remembered. The trainer computes nothing that makes sense.
 * It demands that the core asks for nothing out of turn. */
#ifndef FUZZ_GOSSIP_WORLD_H
#define FUZZ_GOSSIP_WORLD_H

#include "mesh/core/engine.h"
#include "mesh/core/gossip/gossip_give.h"
#include "proto/bytes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/judged.h"
#include "tests/support/made_up.h"
#include "tests/support/wire.h"

enum {
    NODES = 3,
    LETTERS = 128, /* remembered, whether delivered or not */
    ENDPOINTS = 8, /* of a letter */
    SHARDS = 4,
    STEPS = 6,
    VALUES = 10,
    CHUNK = 4,
    BODY_MAX = 640,
    ACTIONS_MAX = 512,
    TICKS_MAX = 400,
    BEACON_TICKS = 25,
};

struct letter {
    unsigned from, to;
    struct proto_node who;
    bool due, bulk;
    struct proto_msg msg;
    struct proto_endpoint endpoints[ENDPOINTS];
    size_t size;
    uint8_t body[BODY_MAX];
};

enum busy { FREE, COMPUTING, FINISHING };

struct world;

struct node {
    struct world *world;
    unsigned index;
    uint64_t incarnation;
    struct core *core;
    struct gossip_config gossip;
    struct wire wire; /* links lead to index + NODES * incarnation */
    enum busy busy;
    bool told_to_end, ended;
    uint64_t scored;
    uint64_t late_until;
    int32_t own[VALUES], sum[VALUES];
    uint8_t state[8];
};

struct world {
    struct bytes_in in;
    uint64_t now;
    uint8_t modes;
    unsigned ticks;
    bool cut[NODES][NODES];
    uint64_t incarnations;
    struct node nodes[NODES];
    struct letter letters[LETTERS];
    unsigned next;
};

static uint8_t
u8(struct world *world)
{
    return bytes_u8(&world->in);
}

static struct proto_node
who(const struct node *node)
{
    return (struct proto_node){10 + node->index, node->incarnation};
}

static struct proto_endpoint
endpoint(unsigned index)
{
    struct proto_endpoint at = {"10.0.0.0", (uint16_t)(1000 + index)};
    at.host[7] = (char)('0' + index);
    return at;
}

/* --- The wire ------------------------------------------------------------------------------------- */

static unsigned
leads(void *ctx, const struct proto_endpoint *to)
{
    const struct node *node = ctx;
    for (unsigned k = 0; k < NODES; k++)
        if (to->control_port == endpoint(k).control_port && strcmp(to->host, endpoint(k).host) == 0)
            return k + NODES * (unsigned)node->world->nodes[k].incarnation;
    return WIRE_NOBODY;
}

/* What is sent takes the place of the oldest letter. */
static void
post(void *ctx, unsigned link, const struct proto_msg *msg, const void *body, size_t size,
     bool bulk)
{
    struct node *node = ctx;
    static uint8_t frame[PROTO_FRAME_MAX];
    static struct proto_endpoint endpoints[PROTO_PEERS_MAX];
    struct world *world = node->world;
    const struct wire_link *l = &node->wire.links[link];
    unsigned to = l->to % NODES;
    struct proto_msg got;
    struct why why;
    demand(proto_decode(&got, endpoints, frame, proto_encode(msg, frame), &why) == 0);
    if (l->to == WIRE_NOBODY || world->cut[node->index][to] || size > BODY_MAX)
        return;
    struct letter *letter = &world->letters[world->next++ % LETTERS];
    letter->from = node->index;
    letter->to = to;
    letter->who = who(node);
    letter->due = true;
    letter->bulk = bulk;
    letter->msg = got;
    if (got.type == PROTO_PEERS) {
        if (got.peers.count > ENDPOINTS)
            letter->msg.peers.count = ENDPOINTS;
        memcpy(letter->endpoints, endpoints, sizeof letter->endpoints);
        letter->msg.peers.endpoints = letter->endpoints;
    }
    letter->size = size;
    if (size > 0)
        memcpy(letter->body, body, size);
}

static void
on_send_bulk(void *ctx, unsigned link, const struct proto_msg *msg, const void *body, size_t size,
             bool lent)
{
    demand(!lent && size <= BODY_MAX);
    wire_send_bulk(ctx, link, msg, body, size, lent);
}

static void
on_keep(void *ctx, struct core_frame *frame)
{
    struct wire *wire = ctx;
    wire_keep(wire, frame);
    demand(wire->kept <= GOSSIP_KEPT_MAX);
}

static const struct core_wire wire = {
    .connect = wire_connect,
    .disconnect = wire_disconnect,
    .send = wire_send,
    .send_bulk = on_send_bulk,
    .peer_up = wire_peer_up,
    .peer_down = wire_peer_down,
    .keep = on_keep,
    .release = wire_release,
};
/* Each node has one shard to tell of. */
static bool
on_scored(void *ctx, struct proto_score *out)
{
    struct node *node = ctx;
    *out = (struct proto_score){.evaluation = 1, .loss = node->scored};
    return node->scored++ == 0;
}

static void
on_hear_score(void *ctx, const struct proto_score *score)
{
    (void)ctx;
    demand(score->evaluation != 0 && score->shard < SHARDS);
}

static const struct core_program program = {
    .log = demand_line, .scored = on_scored, .hear_score = on_hear_score};

/* --- The trainer --------------------------------------------------------------------------------- */

static void
commit(void *ctx, uint64_t round)
{
    struct node *node = ctx;
    (void)round;
    demand(node->busy == FREE);
    node->busy = FINISHING;
}

static void
gossip_compute(void *ctx, const struct core_task *task)
{
    struct node *node = ctx;
    demand(node->busy == FREE && task->shards != 0 && task->shards >> SHARDS == 0);
    node->busy = COMPUTING;
}

static void
gossip_noted(void *ctx, const struct gossip_note *note)
{
    (void)ctx;
    bool of_flow = note->event == GOSSIP_ASKED || note->event == GOSSIP_GAVE ||
                   note->event == GOSSIP_LOST || note->event == GOSSIP_TOOK;
    demand(!of_flow || (note->peer.id != 0 && note->number > 0));
    demand(note->event != GOSSIP_GAVE || (note->body && note->count > 0));
}

static void
gossip_save(void *ctx, const struct gossip_saved *saved)
{
    const struct node *node = ctx;
    demand(node->busy == FREE && saved->snapshot != 0);
}

static void
gossip_ended(void *ctx, bool saved)
{
    struct node *node = ctx;
    (void)saved;
    demand(node->told_to_end && !node->ended);
    node->ended = true;
}

static const struct core_trainer gossip_trainer = {
    .compute = gossip_compute,
    .commit = commit,
    .ended = gossip_ended,
};

static const struct gossip_keeper gossip_keeper = {
    .note = gossip_noted,
    .save = gossip_save,
};

static void
train(struct node *node)
{
    const struct world *world = node->world;
    enum busy was = node->busy;
    struct core_state done = {.round = STEPS, .hash = 1, .done = true};
    node->busy = FREE;
    if (was == COMPUTING) {
        for (unsigned k = 0; k < VALUES; k++)
            node->own[k] = (int32_t)(uint32_t)mix64_pair(world->now, k);
        core_on_bucket(node->core, world->now, 0);
    } else if (was == FINISHING) {
        done.hash = made_up_hash(node->sum, VALUES);
        core_on_applied(node->core, world->now, &done);
    }
}

#endif

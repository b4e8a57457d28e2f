/* star_hostile.c - a member that sends servers what no member sends, beside what it must: a contribution or a total
 * again, with a body that does not fit its check, of other shards, in the place of another. Its own gradients are
 * right, and a server's totals are, too: of these nobody but an audit or the ledger could say that they are not. So
 * whatever it sends, every state must still be the reference's. */
#include "compress/check.h"
#include "compress/coding.h"
#include "mesh/core/internal.h"
#include "mesh/core/rounds/route.h"
#include "proto/mix.h"
#include "tests/sim/shell.h"

enum { ONE_IN = 8, EARLY_US = 200 };

enum forgery {
    AGAIN,
    DAMAGED,      /* another body, with the check of the right one */
    OTHER_SHARDS, /* of all, in a contribution; of fewer, in a total */
    OTHER_END,    /* a contribution comes as a total, a total as a contribution; the check fits */
    FORGERIES,
};

/* Is the chunk of a bucket that servers sum, in the plan that its sender has? */
static bool
is_served(const struct core *core, const struct proto_chunk *chunk)
{
    const struct collective *c = core->collective;
    return core->plan.active && chunk->plan_hash == core->plan.hash && !chunk->direct &&
           c->layouts[chunk->bucket].served;
}

static void
turn(struct proto_msg *msg, const struct holders *h, int32_t *body)
{
    bool total = msg->type == PROTO_GATHER;
    msg->type = total ? PROTO_REDUCE : PROTO_GATHER;
    msg->chunk.coverage = total ? h->mine : h->complete;
    body[0] += 7;
    msg->chunk.check = check_of(body, 0, msg->chunk.count);
}

static void
forge(struct proto_msg *msg, const struct holders *h, enum forgery forgery, int32_t *body)
{
    if (forgery == DAMAGED)
        body[0]++;
    else if (forgery == OTHER_SHARDS)
        msg->chunk.coverage = msg->type == PROTO_GATHER ? h->complete >> 1 : h->complete;
    else if (forgery == OTHER_END)
        turn(msg, h, body);
}

void
sim_star_hostile(struct sim *sim, const struct sim_message *m, uint64_t at)
{
    const struct sim_node *node = &sim->nodes[m->from_index];
    uint64_t bits = mix64_pair(mix64_pair(sim->seed, at), m->to); /* the other draws stay */
    struct proto_msg msg;
    if (m->from_index + 1 != sim->profile.hostile || sim->faults_over || !node->up ||
        bits % ONE_IN || m->size == 0 || !network_header(sim, m, &msg) ||
        !coding_fits(msg.chunk.coding, m->body, m->size, msg.chunk.count) ||
        !is_served(node->core, &msg.chunk))
        return;
    const struct holders *h = holders_of(node->core->collective, msg.chunk.bucket);
    enum forgery forgery = (enum forgery)(bits / ONE_IN % FORGERIES);
    if (forgery == OTHER_SHARDS && msg.type == PROTO_GATHER && h->complete == 1)
        return; /* no total has none */
    int32_t body[SIM_VECTOR_MAX];
    uint64_t check;
    struct sim_message *twin = network_spare();
    coding_copy(body, msg.chunk.coding, m->body, msg.chunk.count, &check);
    msg.chunk.coding = PROTO_CODING_RAW;
    forge(&msg, h, forgery, body);
    *twin = *m;
    twin->uses = 1;
    twin->size = coding_raw(msg.chunk.count);
    memcpy(twin->body, body, twin->size);
    network_header_set(sim, twin, &msg);
    sim->counts.forgeries++;
    uint64_t early_us = at - sim->now < EARLY_US ? at - sim->now : EARLY_US;
    sim_push(sim, bits >> 32 & 1 ? at - early_us : at + early_us, SIM_ARRIVES, m->to, 0, 0, twin);
}

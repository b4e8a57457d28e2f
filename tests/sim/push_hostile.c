/* push_hostile.c - a member that says anything: messages of the engine push with random fields, some of them right,
 * from a peer that has a session. Nothing is promised then but that no core fails an assertion or an invariant: in
 * these schedules nothing else is judged. */
#include <string.h>

#include "mesh/core/internal.h"
#include "tests/sim/push.h"
#include "tests/sim/shell.h"

static uint64_t
pick(struct sim *sim, uint64_t below)
{
    return rand_below(&sim->rand, below);
}

/* A number near what is right, or any. */
static uint64_t
near(struct sim *sim, uint64_t right, uint64_t most)
{
    uint64_t any = rand_u64(&sim->rand) >> pick(sim, 64);
    uint64_t value = pick(sim, 4) ? right + pick(sim, 4) - 1 : any;
    return value > most ? most : value;
}

static void
make(struct sim *sim, const struct push *push, struct proto_msg *msg)
{
    uint64_t group = pick(sim, 8) ? push->group.hash : rand_u64(&sim->rand);
    uint64_t in_hand = near(sim, push->work.job[pick(sim, PUSH_HANDS)].in_hand, PROTO_ROUND_MAX);
    uint16_t range = (uint16_t)near(sim, pick(sim, push->config.range_count), UINT16_MAX);
    uint64_t taken =
        near(sim, push->ranges.of[range % push->config.range_count].taken, PROTO_ROUND_MAX);
    *msg = (struct proto_msg){.type = PROTO_GROUP + pick(sim, PROTO_LEASE - PROTO_GROUP + 1)};
    if (pick(sim, 9) == 0)
        msg->type = PROTO_HEARTBEAT;
    group = group ? group : 1;
    switch (msg->type) {
    case PROTO_HEARTBEAT: /* of a list that was not said, mostly */
        msg->heartbeat.hears_hash = 1 + pick(sim, 3);
        msg->heartbeat.pause_us = (uint32_t)pick(sim, PROTO_PAUSE_MAX_US);
        msg->heartbeat.claim_count = pick(sim, 8) != 0;
        msg->heartbeat.claims[0] =
            (struct proto_claim){group,
                                 pick(sim, 2) * group,
                                 near(sim, push->group.counter, PROTO_ROUND_MAX),
                                 near(sim, push->group.counter, PROTO_ROUND_MAX),
                                 1 + pick(sim, 10000),
                                 pick(sim, 200),
                                 pick(sim, 20) ? 0 : rand_u64(&sim->rand),
                                 pick(sim, 2),
                                 pick(sim, 2) ? near(sim, in_hand, PROTO_ROUND_MAX) : 0,
                                 pick(sim, 300),
                                 pick(sim, 1 << 20),
                                 pick(sim, 1 << 20)};
        break;
    case PROTO_HOLDINGS:
        msg->holdings =
            (struct proto_holdings){group,          pick(sim, 2),   in_hand, in_hand + pick(sim, 3),
                                    pick(sim, 300), pick(sim, 300), 0};
        break;
    case PROTO_PULL:
        msg->pull = (struct proto_pull){pick(sim, 4) ? group : push->final_hash, range,
                                        push->work.number, in_hand, pick(sim, 2)};
        break;
    case PROTO_APPLIED:
        msg->applied = (struct proto_applied){group, range, pick(sim, 4) ? in_hand : 0, taken,
                                              rand_u64(&sim->rand)};
        break;
    case PROTO_TAKE:
        msg->take = (struct proto_take){group,        in_hand,
                                        pick(sim, 2), pick(sim, 2),
                                        pick(sim, 2), near(sim, push->work.got, PROTO_ROUND_MAX)};
        break;
    case PROTO_LEASE:
        msg->lease =
            (struct proto_lease){group, pick(sim, 2) * in_hand, in_hand,
                                 near(sim, push->work.got + 1, PROTO_ROUND_MAX), pick(sim, 300)};
        break;
    case PROTO_PUSH:
        msg->push = (struct proto_push){group,
                                        range,
                                        in_hand,
                                        taken,
                                        pick(sim, 3) ? taken + 1 : 0,
                                        push->work.number,
                                        {1 + pick(sim, 9), 1},
                                        0};
        break;
    case PROTO_VALUE:
        msg->value = (struct proto_value){pick(sim, 4) ? group : push->work.model,
                                          range,
                                          push->work.number,
                                          taken,
                                          rand_u64(&sim->rand),
                                          pick(sim, 2),
                                          pick(sim, 2),
                                          0};
        break;
    default: /* a group that it leads, with this node */
        msg->type = PROTO_GROUP;
        break;
    }
}

static void
make_group(struct sim *sim, const struct sim_node *node, struct proto_node from,
           struct proto_msg *msg)
{
    const struct push *push = &node->core->push;
    struct proto_node self = {node->id, node->incarnation};
    bool first = self.id < from.id;
    msg->group =
        (struct proto_group){.counter = near(sim, push->group.counter + 1, PROTO_ROUND_MAX),
                             .leader = from,
                             .parent = push->group.hash,
                             .base = push->group.base,
                             .count = 2};
    msg->group.counter += msg->group.counter == 0;
    msg->group.seats[first ? 0 : 1] = (struct proto_seat){self, pick(sim, 2)};
    msg->group.seats[first ? 1 : 0] = (struct proto_seat){from, pick(sim, 2)};
}

/* Its check is right, its size mostly. */
static void
deliver_bulk(struct sim *sim, struct sim_node *node, struct proto_node from, struct proto_msg *msg)
{
    static uint8_t body[SIM_BODY_MAX];
    const struct push_size *size = &sim_push_run->size[0];
    size_t bytes = msg->type == PROTO_PUSH       ? size->gradient
                   : msg->type == PROTO_HOLDINGS ? 16 * sim_push_run->config.range_count
                   : msg->value.whole            ? PUSH_SET_SIZE + size->copy
                                                 : PUSH_SET_SIZE + size->value;
    bytes = pick(sim, 20) ? bytes : pick(sim, SIM_BODY_MAX);
    for (size_t k = 0; k < bytes; k++)
        body[k] = (uint8_t)(pick(sim, 8) ? 0 : rand_u64(&sim->rand));
    if (msg->type == PROTO_PUSH)
        msg->push.check =
            push_body_check(msg->push.group_hash, msg->push.range, msg->push.ticket, body, bytes);
    else if (msg->type == PROTO_VALUE)
        msg->value.check = push_body_check(msg->value.group_hash, msg->value.range,
                                           msg->value.number, body, bytes);
    else
        msg->holdings.check =
            push_body_check(msg->holdings.group_hash, 0, msg->holdings.in_hand, body, bytes);
    struct sim_message *message = network_spare();
    memcpy(message->body, body, bytes);
    struct core_frame frame = {message->body, bytes, message};
    core_on_bulk(node->core, sim->now, from, msg, &frame);
    shell_message_free(message);
}

void
sim_push_hostile(struct sim *sim, struct sim_node *node)
{
    const struct sim_node *other = &sim->nodes[pick(sim, sim->profile.nodes)];
    struct proto_node from = {other->id, other->incarnation};
    struct proto_msg msg;
    if (!sim_push_run->hostile || pick(sim, 10) || other == node || !other->up)
        return;
    make(sim, &node->core->push, &msg);
    if (msg.type == PROTO_GROUP)
        make_group(sim, node, from, &msg);
    if (msg.type == PROTO_PUSH || msg.type == PROTO_VALUE || msg.type == PROTO_HOLDINGS)
        deliver_bulk(sim, node, from, &msg);
    else
        core_on_message(node->core, sim->now, from, sim_link_hosts[sim->address[other->index]],
                        &msg, NULL, 0);
}

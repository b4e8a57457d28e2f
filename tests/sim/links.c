/* links.c - connections between nodes: opened, accepted, broken, closed.
 *
 * A link is a pair of TCP connections (control, bulk) to a process. Each keeps its order unless the profile says
 * otherwise. */
#include <string.h>

#include "tests/sim/shell.h"

enum { CONNECT_US = 400000 }; /* what actor_wire_link.c gives a connection to come up */

const char *const sim_link_hosts[SIM_NODES_MAX] = {"10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3",
                                                   "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7"};

/* The node that has this address now. */
static unsigned
sim_link_holder(const struct sim *sim, unsigned address)
{
    unsigned i = 0;
    while (sim->address[i] != address)
        i++;
    return i;
}

void
sim_link_connect(void *ctx, unsigned link, const struct proto_endpoint *to)
{
    struct shell *shell = ctx;
    struct sim_link *l = &shell->node->links[link];
    unsigned address = 0;
    while (address < shell->sim->profile.nodes && strcmp(to->host, sim_link_hosts[address]) != 0)
        address++;
    if (l->open || address == shell->sim->profile.nodes) {
        sim_fail(shell->sim, "node %u: link %u opened twice or to nowhere", shell->node->index,
                 link);
        return;
    }
    uint64_t generation = l->generation + 1;
    *l = (struct sim_link){.open = true,
                           .address = address,
                           .to = sim_link_holder(shell->sim, address),
                           .generation = generation};
    sim_push(shell->sim, shell->sim->now + 2 * network_delay(shell->sim), SIM_LINK_UP,
             shell->node->index, link, generation, NULL);
}

/* Bodies that have not left yet never will; their memory is free. */
static void
link_close(struct sim *sim, struct sim_node *node, unsigned link)
{
    struct sim_link *l = &node->links[link];
    if (!l->open) {
        sim_fail(sim, "node %u: link %u closed twice", node->index, link);
        return;
    }
    l->open = l->up = l->bulk = false;
    size_t count;
    struct sim_event *events = sim_queued(sim, &count);
    for (size_t k = 0; k < count; k++) {
        struct sim_message *m = events[k].message;
        if (!m || events[k].kind != SIM_LEAVES || m->from_index != node->index ||
            events[k].incarnation != node->incarnation || m->link != link || m->dead)
            continue;
        m->dead = true;
        events[k].message = NULL; /* now only the return of the memory */
        shell_message_free(m);
        sim_push(sim, sim->now + rand_below(&sim->rand, 200), SIM_RETURNED, node->index, 0, 0,
                 NULL);
        events = sim_queued(sim, &count);
    }
}

void
sim_link_disconnect(void *ctx, unsigned link)
{
    struct shell *shell = ctx;
    link_close(shell->sim, shell->node, link);
}

void
sim_link_peer_up(void *ctx, unsigned link, struct proto_node node, uint16_t bulk_port)
{
    struct shell *shell = ctx;
    (void)node;
    struct sim_link *l = &shell->node->links[link];
    if (!l->open || !l->up || l->bulk || bulk_port != 30000u + l->to)
        sim_fail(shell->sim, "node %u: peer up on a link that is not", shell->node->index);
    if ((l->to == shell->sim->profile.stranger) !=
        (shell->node->index == shell->sim->profile.stranger))
        sim_fail(shell->sim, "node %u: accepted a peer of another job", shell->node->index);
    l->bulk = true;
}

void
sim_link_peer_down(void *ctx, unsigned link)
{
    struct shell *shell = ctx;
    if (!shell->node->links[link].bulk)
        sim_fail(shell->sim, "node %u: peer down that was not up", shell->node->index);
    link_close(shell->sim, shell->node, link);
}

/* The stream ends at some byte of what is under way: whole messages before it arrive, the others never.
 * It takes a moment until somebody is told; ZeroMQ may have connected again by then. */
static void
link_break(struct sim *sim, unsigned index, unsigned link, uint64_t most_us)
{
    struct sim_link *l = &sim->nodes[index].links[link];
    uint64_t last[2];
    for (int stream = 0; stream < 2; stream++)
        last[stream] = l->fifo_us[stream] > sim->now
                           ? sim->now + rand_below(&sim->rand, l->fifo_us[stream] - sim->now + 1)
                           : sim->now;
    size_t count;
    struct sim_event *events = sim_queued(sim, &count);
    for (size_t k = 0; k < count; k++) {
        struct sim_message *m = events[k].message;
        if (m && m->from_index == index && m->link == link && m->generation == l->generation &&
            m->from.incarnation == sim->nodes[index].incarnation && events[k].at > last[m->bulk])
            m->lost = true;
    }
    l->broken = true;
    sim_push(sim, sim->now + rand_below(&sim->rand, most_us), SIM_LINK_DOWN, index, link,
             l->generation, NULL);
}

void
shell_reset(struct sim *sim, unsigned index, unsigned link)
{
    struct sim_link *l = &sim->nodes[index].links[link];
    for (unsigned k = 0; k < SIM_LINKS_MAX && !(l->open && l->up); k++)
        l = &sim->nodes[index].links[link = (link + 1) % SIM_LINKS_MAX];
    if (sim->nodes[index].up && l->open && l->up)
        link_break(sim, index, link, 5000);
}

void
shell_move(struct sim *sim, unsigned a, unsigned b)
{
    unsigned address = sim->address[a];
    uint64_t most_us = rand_bool(&sim->rand) ? 5000 : 500000;
    sim->address[a] = sim->address[b];
    sim->address[b] = address;
    for (unsigned i = 0; i < sim->profile.nodes && a != b; i++)
        for (unsigned l = 0; l < SIM_LINKS_MAX && sim->nodes[i].up; l++) {
            const struct sim_link *link = &sim->nodes[i].links[l];
            bool concerned = i == a || i == b || link->to == a || link->to == b;
            if (link->open && link->up && concerned)
                link_break(sim, i, l, most_us);
        }
}

void
sim_link_event_up(struct sim *sim, struct sim_node *node, const struct sim_event *event)
{
    struct sim_link *link = &node->links[event->a];
    if (!link->open || link->generation != event->b || link->up)
        return;
    link->to = sim_link_holder(sim, link->address);
    struct sim_node *target = &sim->nodes[link->to];
    bool cut = sim->cut[node->index][link->to] || sim->cut[link->to][node->index];
    if (cut) {
        sim_push(sim, sim->now + CONNECT_US, SIM_LINK_DOWN, node->index, event->a, event->b, NULL);
        return;
    }
    if (!target->up) {
        core_on_link_down(node->core, sim->now, (unsigned)event->a);
        return;
    }
    if (target->paused_until > sim->now) {
        sim_push(sim, target->paused_until + network_delay(sim), SIM_LINK_UP, node->index, event->a,
                 event->b, NULL);
        return;
    }
    link->up = true;
    link->incarnation = target->incarnation;
    core_on_link_up(node->core, sim->now, (unsigned)event->a);
}

void
sim_link_event_down(struct sim *sim, struct sim_node *node, const struct sim_event *event)
{
    const struct sim_link *link = &node->links[event->a];
    if (link->open && link->generation == event->b)
        core_on_link_down(node->core, sim->now, (unsigned)event->a);
}

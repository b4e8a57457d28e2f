/* rendezvous.c - see rendezvous.h for the life of a seed. */
#include "mesh/core/sessions/rendezvous.h"

#include <assert.h>

#include "mesh/core/internal.h"

void
rendezvous_init(struct rendezvous *all, const struct core *core)
{
    for (int s = 0; s < RENDEZVOUS_SEEDS_MAX; s++)
        all->seeds[s].link = -1;
    all->list_at = wall_after(core->now, RENDEZVOUS_LIST_US);
}

void
rendezvous_add(struct rendezvous *all, const struct core *core, const struct proto_endpoint *at,
               bool forever)
{
    struct rendezvous_seed *room = NULL;
    for (int s = 0; s < all->high; s++) {
        struct rendezvous_seed *seed = &all->seeds[s];
        if (seed->used && link_endpoint_equal(&seed->at, at)) {
            seed->forever = seed->forever || forever;
            return;
        }
        if (!seed->used && !room)
            room = seed;
    }
    if (!room && all->high < RENDEZVOUS_SEEDS_MAX)
        room = &all->seeds[all->high++];
    if (room)
        *room = (struct rendezvous_seed){.used = true,
                                         .forever = forever,
                                         .at = *at,
                                         .link = -1,
                                         .retry_at = core->now,
                                         .retry_us = LINK_RETRY_US};
}

/* Its node is known, or 0 when the link ended without an answer. */
static void
seed_close(struct link_table *links, const struct core *core, struct rendezvous_seed *seed,
           struct proto_node node)
{
    int link = seed->link;
    seed->link = -1;
    seed->link_up = false;
    if (node.id != 0) {
        seed->node = node;
        seed->retry_us = LINK_RETRY_US;
    }
    if (node.id == core->config.self.id) /* addresses move: later it may lead to another node */
        seed->retry_at = wall_after(core->now, RENDEZVOUS_HERE_US);
    link_close(links, core, link);
}

const struct rendezvous_seed *
rendezvous_oldest(const struct rendezvous *all)
{
    const struct rendezvous_seed *best = NULL;
    for (int s = 0; s < all->high; s++) {
        const struct rendezvous_seed *seed = &all->seeds[s];
        if (seed->used && seed->link_up && (!best || wall_before(seed->since, best->since)))
            best = seed;
    }
    return best;
}

void
rendezvous_answered(struct rendezvous *all, struct link_table *links, const struct core *core,
                    struct proto_node from, uint32_t number)
{
    for (int s = 0; s < all->high; s++) {
        struct rendezvous_seed *seed = &all->seeds[s];
        if (seed->used && seed->link_up && seed->number == number)
            seed_close(links, core, seed, from);
    }
}

void
rendezvous_link_up(struct rendezvous *all, const struct core *core, int s)
{
    struct rendezvous_seed *seed = &all->seeds[s];
    assert(s < all->high && all->seeds[s].link >= 0);
    seed->link_up = true;
    if (!seed->reached) /* now it may answer */
        seed->alone_at = core->awake;
    seed->reached = true;
    seed->since = core->now;
    link_hello(core, seed->link, seed->number, 0);
}

void
rendezvous_link_down(struct rendezvous *all, struct link_table *links, const struct core *core,
                     int s)
{
    seed_close(links, core, &all->seeds[s], (struct proto_node){0, 0});
}

static bool
leads_here(const struct core *core, const struct rendezvous_seed *seed)
{
    return seed->node.id == core->config.self.id;
}

/* Is there nothing to be gained by trying it just now? */
static bool
seed_satisfied(const struct core *core, const struct rendezvous_seed *seed)
{
    int answered = seed->node.id == 0 ? -1 : peers_by_id(core, seed->node.id);
    if (answered >= 0 && proto_node_equal(core->peers.peers[answered].node, seed->node) &&
        (core->peers.peers[answered].state == PEER_UP ||
         core->peers.peers[answered].state == PEER_REFUSED))
        return true;
    for (int i = 0; i < core->peers.high; i++)
        if (core->peers.peers[i].state == PEER_UP &&
            link_endpoint_equal(&core->peers.peers[i].at, &seed->at))
            return true;
    return false;
}

static void
seed_complain(const struct core *core, const struct rendezvous_seed *seed)
{
    unsigned seconds = RENDEZVOUS_PATIENCE_US / 1000000;
    if (seed->reached)
        core_log(core, 4,
                 "%s:%u (--peer) can be reached, but has not answered for %u s. Does a firewall "
                 "here block TCP port %u and the next? Behind NAT, forward both",
                 seed->at.host, seed->at.control_port, seconds, core->config.hello.control_port);
    else
        core_log(core, 4,
                 "no answer from %s:%u (--peer) for %u s: trying again. Does meshnode run there? "
                 "Does a firewall block the port?",
                 seed->at.host, seed->at.control_port, seconds);
}

/* The user named it, and wants to know when nothing comes of it. */
static void
seed_watch(const struct core *core, struct rendezvous_seed *seed)
{
    if (!seed->forever || seed->met)
        return;
    if (seed->alone_at.us == 0)
        seed->alone_at = core->awake;
    seed->met = leads_here(core, seed) || seed_satisfied(core, seed);
    if (seed->met && seed->said)
        core_log(core, 5, "%s:%u (--peer) answers now", seed->at.host, seed->at.control_port);
    bool silent = seed->said && seed->said_reached == seed->reached;
    if (seed->met || silent || awake_since(core->awake, seed->alone_at) < RENDEZVOUS_PATIENCE_US)
        return;
    seed->said = true;
    seed->said_reached = seed->reached;
    seed_complain(core, seed);
}

static void
seed_tick(struct rendezvous *all, struct link_table *links, const struct core *core, int s)
{
    struct rendezvous_seed *seed = &all->seeds[s];
    if (!seed->used)
        return;
    seed_watch(core, seed);
    if (seed->link >= 0) {
        if (wall_since(core->now, seed->since) > LINK_CONNECT_US)
            seed_close(links, core, seed, (struct proto_node){0, 0});
        return;
    }
    if (wall_before(core->now, seed->retry_at))
        return;
    bool over = leads_here(core, seed) || seed->tries >= RENDEZVOUS_TRIES;
    if (seed_satisfied(core, seed) || (!seed->forever && over)) {
        if (seed->forever)
            seed->retry_at = wall_after(core->now, LINK_RETRY_MAX_US);
        else
            seed->used = false;
        return;
    }
    seed->tries++;
    seed->since = core->now;
    seed->retry_at = wall_after(core->now, seed->retry_us);
    seed->retry_us = backoff_us(seed->retry_us, LINK_RETRY_US, LINK_RETRY_MAX_US);
    seed->number = link_number(links);
    seed->link = link_open(links, core, LINK_SEED, s, &seed->at);
}

void
rendezvous_tick(struct rendezvous *all, struct link_table *links, const struct core *core)
{
    for (int s = 0; s < all->high; s++)
        seed_tick(all, links, core, s);
}

/* Whoever floods the network with beacons of nodes that are none costs us a bounded number of connections a second,
 * and nobody who is there: a node that we do not believe yet says so again, and says HELLO when it hears us. */
bool
rendezvous_believes(struct rendezvous *all, const struct core *core)
{
    struct wall *until = &all->news_until;
    if (wall_before(wall_after(core->now, RENDEZVOUS_NEWS_MAX * RENDEZVOUS_NEWS_US), *until))
        return false;
    *until = wall_after(wall_later(*until, core->now), RENDEZVOUS_NEWS_US);
    return true;
}

void
rendezvous_tell(struct rendezvous *all, const struct core *core, int to)
{
    struct proto_endpoint *list = all->list;
    struct proto_msg msg = {.type = PROTO_PEERS};
    msg.peers.endpoints = list;
    for (int i = 0; i < core->peers.high; i++)
        if (i != to && core->peers.peers[i].state == PEER_UP)
            list[msg.peers.count++] = core->peers.peers[i].at;
    if (msg.peers.count > 0)
        peers_send(core, to, &msg);
}

void
rendezvous_tell_tick(struct rendezvous *all, const struct core *core)
{
    if (wall_before(core->now, all->list_at) || core->config.hello.wants_job)
        return;
    uint64_t told = 0, crowd = core->config.crowd;
    for (int i = 0; i < core->peers.high; i++)
        if (core->peers.peers[i].state == PEER_UP && !core->peers.peers[i].hello.wants_job) {
            rendezvous_tell(all, core, i);
            told++;
        }
    all->list_at = wall_after(core->now, RENDEZVOUS_LIST_US * (1 + told * told / (crowd * crowd)));
}

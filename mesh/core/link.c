/* link.c - the table of links; see link.h. */
#include "mesh/core/link.h"

#include "mesh/core/internal.h"
#include "proto/mix.h"

void
link_init(struct core *core)
{
    const struct proto_node *self = &core->config.self;
    core->links.number = (uint32_t)mix64_pair(self->id, self->incarnation);
}

int
link_open(struct core *core, enum link_use use, int index, const struct proto_endpoint *at)
{
    struct link_table *table = &core->links;
    for (unsigned k = 0; k < LINK_MAX; k++) {
        unsigned link = (table->next + k) % LINK_MAX;
        if (table->links[link].use != LINK_FREE)
            continue;
        table->next = link + 1;
        table->links[link].use = use;
        table->links[link].index = index;
        core->ops.connect(core->ctx, link, at);
        return (int)link;
    }
    return -1;
}

void
link_close(struct core *core, int link)
{
    core->links.links[link].use = LINK_FREE;
    core->ops.disconnect(core->ctx, (unsigned)link);
}

void
link_close_announced(struct core *core, int link, struct proto_node node)
{
    core->links.links[link].use = LINK_FREE;
    core->ops.peer_down(core->ctx, (unsigned)link, node);
}

uint32_t
link_number(struct core *core)
{
    core->links.number += core->links.number == UINT32_MAX ? 2 : 1;
    return core->links.number;
}

void
link_hello(struct core *core, int link, uint32_t asks, uint32_t answers)
{
    struct proto_msg msg = {.type = PROTO_HELLO, .hello = core->config.hello};
    msg.hello.asks = asks;
    msg.hello.answers = answers;
    core->ops.send(core->ctx, (unsigned)link, &msg, NULL, 0);
}

uint64_t
link_retry_next(uint64_t us)
{
    return us * 2 > LINK_RETRY_MAX_US ? LINK_RETRY_MAX_US : us * 2;
}

void
link_up(struct core *core, unsigned link)
{
    int index = core->links.links[link].index;
    switch (core->links.links[link].use) {
    case LINK_FREE:
        break;
    case LINK_PEER:
        peers_link_up(core, index);
        break;
    case LINK_SEED:
        rendezvous_link_up(core, index);
        break;
    case LINK_AWAY:
        admit_link_up(core);
        break;
    }
}

void
link_down(struct core *core, unsigned link)
{
    int index = core->links.links[link].index;
    switch (core->links.links[link].use) {
    case LINK_FREE:
        break;
    case LINK_PEER:
        peers_link_down(core, index);
        break;
    case LINK_SEED:
        rendezvous_link_down(core, index);
        break;
    case LINK_AWAY:
        admit_link_down(core);
        break;
    }
}

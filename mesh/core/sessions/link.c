/* link.c - the table of links; see link.h. */
#include "mesh/core/sessions/link.h"

#include <assert.h>

#include "mesh/core/internal.h"
#include "proto/mix.h"

void
link_init(struct link_table *table, const struct core *core)
{
    const struct proto_node *self = &core->config.self;
    table->number = (uint32_t)mix64_pair(self->id, self->incarnation);
}

int
link_open(struct link_table *table, const struct core *core, enum link_use use, int index,
          const struct proto_endpoint *at)
{
    assert(use != LINK_FREE);
    for (unsigned k = 0; k < LINK_MAX; k++) {
        unsigned link = (table->next + k) % LINK_MAX;
        if (table->links[link].use != LINK_FREE)
            continue;
        table->next = link + 1;
        table->links[link].use = use;
        table->links[link].index = index;
        core->config.wire->connect(core->config.wire_ctx, link, at);
        return (int)link;
    }
    return -1;
}

void
link_close(struct link_table *table, const struct core *core, int link)
{
    assert(table->links[link].use != LINK_FREE);
    table->links[link].use = LINK_FREE;
    core->config.wire->disconnect(core->config.wire_ctx, (unsigned)link);
}

void
link_close_announced(struct link_table *table, const struct core *core, int link)
{
    assert(table->links[link].use == LINK_PEER);
    table->links[link].use = LINK_FREE;
    core->config.wire->peer_down(core->config.wire_ctx, (unsigned)link);
}

uint32_t
link_number(struct link_table *table)
{
    table->number += table->number == UINT32_MAX ? 2 : 1;
    return table->number;
}

void
link_hello(const struct core *core, int link, uint32_t asks, uint32_t answers)
{
    struct proto_msg msg = {.type = PROTO_HELLO, .hello = core->config.hello};
    msg.hello.asks = asks;
    msg.hello.answers = answers;
    core->config.wire->send(core->config.wire_ctx, (unsigned)link, &msg, NULL, 0);
}

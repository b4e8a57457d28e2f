/* gossip_count.c - how many shards were computed by all. See gossip_count.h.
 *
 * Every start of a node counts what it computed itself, and nobody counts for another one: a grow-only counter (Shapiro
 * et al., SSS 2011). Each node keeps the highest count that it heard of each start. It hears those of its peers from
 * themselves, and those of the dead from others: each REPLICA tells one more start, in turn. So the sum never counts
 * anything twice, however many nodes die and come back, and it is never above what was really computed. Who has not
 * heard of a dead start trains a little more.
 *
 * A checkpoint has all of these counts. So a node that goes on from one counts the starts before it, its own among
 * them, each for itself, like any other. */
#include <assert.h>

#include "mesh/core/gossip/gossip_count.h"
#include "mesh/core/gossip/gossip_internal.h"

uint64_t
gossip_count_most(const struct core *core)
{
    uint64_t due = core->config.gossip->steps * core->config.shards;
    return due + PEERS_MAX * (uint64_t)core->config.shards; /* all end with their present step */
}

/* The place of this start: its own, a free one, or that with the least. */
static struct gossip_start *
place_of(struct gossip_count *count, struct proto_node node)
{
    struct gossip_start *least = &count->starts[0];
    for (int k = 0; k < GOSSIP_STARTS; k++) {
        if (proto_node_equal(count->starts[k].node, node) && !mutant(MUTANT_GOSSIP_COUNT))
            return &count->starts[k];
        if (count->starts[k].computed < least->computed)
            least = &count->starts[k];
    }
    return least;
}

void
gossip_count_hear(struct gossip_count *count, const struct core *core, struct proto_node node,
                  uint64_t computed)
{
    if (node.id == 0 || proto_node_equal(node, core->config.self) || computed == 0 ||
        computed > gossip_count_most(core))
        return;
    struct gossip_start *start = place_of(count, node);
    if (computed <= start->computed)
        return; /* known, or an earlier snapshot; or there is no place, and the others have more */
    *start = (struct gossip_start){node, computed};
}

void
gossip_count_own(struct gossip_count *count, const struct core *core, unsigned shards)
{
    count->computed += shards;
    count->starts[GOSSIP_STARTS] = (struct gossip_start){core->config.self, count->computed};
}

void
gossip_count_begin(struct gossip_count *count, const struct core *core,
                   const struct gossip_saved *saved)
{
    count->total = saved->total;
    count->base = 0;
    for (int k = 0; k <= GOSSIP_STARTS; k++)
        gossip_count_hear(count, core, saved->starts[k].node, saved->starts[k].computed);
}

void
gossip_count_add(struct gossip_count *count, const struct core *core)
{
    uint64_t computed = count->base + count->computed;
    if (core->gossip.status < GOSSIP_TRAINING)
        return;
    for (int k = 0; k < GOSSIP_STARTS; k++)
        computed += count->starts[k].computed;
    if (computed > count->total)
        count->total = computed;
}

struct gossip_start
gossip_count_tell(struct gossip_count *count)
{
    for (int k = 0; k < GOSSIP_STARTS; k++) {
        const struct gossip_start *start = &count->starts[count->next++ % GOSSIP_STARTS];
        if (start->computed > 0)
            return *start;
    }
    return (struct gossip_start){.computed = 0};
}

static void
insert(uint64_t *sorted, unsigned count, uint64_t value)
{
    while (count > 0 && sorted[count - 1] > value) {
        sorted[count] = sorted[count - 1];
        count--;
    }
    sorted[count] = value;
}

void
gossip_count_join(const struct core *core, uint64_t *step, uint64_t *total)
{
    uint64_t steps[PEERS_MAX], totals[PEERS_MAX];
    uint64_t due = core->config.gossip->steps * core->config.shards;
    unsigned count = 0;
    assert(step && total);
    for (int i = 0; i < core->peers.high; i++) {
        const struct proto_replica *said = gossip_said(core, i);
        if (!view_usable(core, i) || !said || said->status < GOSSIP_TRAINING)
            continue;
        insert(steps, count, said->step);
        insert(totals, count, said->known < due ? said->known : due);
        count++;
    }
    *step = count ? steps[(count - 1) / 2] : 0;
    *total = count ? totals[(count - 1) / 2] : 0;
}

/* gossip_public.c - see gossip_public.h. */
#include <assert.h>

#include "mesh/core/gossip/gossip_internal.h"
#include "mesh/core/gossip/gossip_public.h"

/* --- Places -------------------------------------------------------------------------------------- */

static int32_t *
copy_at(const struct gossip_publics *publics, const struct core *core,
        const struct gossip_place *place)
{
    return publics->copies + (size_t)(place - publics->places) * core->config.chunk_elems;
}

static struct gossip_place *
find_copy(struct gossip_publics *publics, const struct gossip_link *link, size_t p, bool gives)
{
    uint64_t number = gives ? link->theirs : link->mine;
    for (size_t k = p * publics->each; k < (p + 1) * publics->each; k++) {
        struct gossip_place *place = &publics->places[k];
        if (place->link == number && place->gives == gives &&
            proto_node_equal(place->node, link->node))
            return place;
    }
    return NULL;
}

/* A flow of this copy is under way to this node. */
static bool
must_stay(const struct core *core, const struct gossip_place *place, size_t p)
{
    const struct gossip_link *link = place->link ? gossip_link_find(core, place->node) : NULL;
    return link && !place->gives && link->mine == place->link && link->ranges[p].open;
}

/* Its place, or another one that it gets. NULL: there is none. */
static struct gossip_place *
take_place(struct gossip_publics *publics, const struct core *core, const struct gossip_link *link,
           size_t p, bool gives)
{
    struct gossip_place *oldest = find_copy(publics, link, p, gives);
    if (oldest)
        return oldest;
    for (size_t k = p * publics->each; k < (p + 1) * publics->each; k++) {
        struct gossip_place *place = &publics->places[k];
        if ((!oldest || place->used < oldest->used) && !must_stay(core, place, p))
            oldest = place;
    }
    if (oldest)
        *oldest = (struct gossip_place){
            .node = link->node, .link = gives ? link->theirs : link->mine, .gives = gives};
    return oldest;
}

/* --- The taker ----------------------------------------------------------------------------------- */

const int32_t *
gossip_public_tell(struct gossip_publics *publics, const struct core *core,
                   const struct gossip_link *link, size_t p, const int32_t *mine)
{
    size_t count = gossip_range_elems(&core->config, p);
    uint64_t taken = link->ranges[p].taken;
    struct gossip_place *place = find_copy(publics, link, p, false);
    bool known = place && (place->number == taken || mutant(MUTANT_GOSSIP_COPY));
    place = known ? place : take_place(publics, core, link, p, false);
    if (!place)
        return NULL;
    place->used = ++publics->uses;
    if (!known) { /* if the flow is void, its number is taken, and this one is an old one */
        memcpy(copy_at(publics, core, place), mine, count * sizeof *mine);
        place->number = taken;
        return NULL;
    }
    gossip_flow_tell(publics->elements, copy_at(publics, core, place), mine,
                     core->config.gossip->codec, count);
    return publics->elements;
}

void
gossip_public_took(struct gossip_publics *publics, const struct core *core,
                   const struct gossip_link *link, const struct proto_flow *flow, const void *body)
{
    struct gossip_place *place = find_copy(publics, link, flow->range, false);
    if (!place)
        return; /* when it was asked for, there was none */
    gossip_flow_follow(copy_at(publics, core, place), body,
                       gossip_range_elems(&core->config, flow->range));
    place->number = flow->number;
}

/* --- The giver ----------------------------------------------------------------------------------- */

const void *
gossip_public_read(struct gossip_publics *publics, const struct core *core,
                   const struct core_frame *frame, size_t p)
{
    size_t count = gossip_range_elems(&core->config, p);
    if (!core->config.gossip->codec)
        return frame->size == count * sizeof(int32_t) ? frame->data : NULL;
    if (!packed_fits(frame->data, frame->size, count))
        return NULL;
    struct packed_in in = packed_open(frame->data, count);
    for (size_t k = 0; k < count; k += PACKED_BLOCK)
        if (!packed_get(&in, publics->elements + k, packed_block(count, k)))
            return NULL;
    return publics->elements;
}

bool
gossip_public_has(struct gossip_publics *publics, const struct gossip_link *link,
                  const struct proto_ask *ask)
{
    const struct gossip_place *place = find_copy(publics, link, ask->range, true);
    return place && (place->number == ask->number - 1 || mutant(MUTANT_GOSSIP_COPY));
}

void
gossip_public_give(struct gossip_publics *publics, const struct core *core,
                   const struct gossip_link *link, const struct proto_ask *ask, const void *body,
                   int32_t *flow, int64_t *values, const int32_t *mine, unsigned share)
{
    size_t count = gossip_range_elems(&core->config, ask->range);
    struct gossip_place *place = take_place(publics, core, link, ask->range, true);
    int32_t *copy = place ? copy_at(publics, core, place) : NULL;
    if (ask->kind == PROTO_ASK_CHANGES) {
        assert(copy);
        gossip_flow_few(flow, values, copy, mine, body, core->config.gossip->codec, share, count);
    } else {
        gossip_flow_average(flow, values, mine, body, share, count);
    }
    if (!place)
        return;
    if (ask->kind != PROTO_ASK_CHANGES) {
        memcpy(copy, body, count * sizeof *copy);
        gossip_flow_follow(copy, flow, count);
    }
    place->number = ask->number;
    place->used = ++publics->uses;
}

/* gossip_public.c - see gossip_public.h. */
#include <assert.h>

#include "compress/packed.h"
#include "mesh/core/gossip/gossip_internal.h"
#include "mesh/core/gossip/gossip_public.h"

/* --- Places -------------------------------------------------------------------------------------- */

void
gossip_public_init(struct gossip_publics *publics, size_t count)
{
    for (size_t k = 0; k < publics->count; k++)
        publics->places[k].values = publics->copies + k * count;
}

static struct gossip_place *
find_copy(struct gossip_publics *publics, const struct gossip_link *link, bool gives)
{
    uint64_t number = gives ? link->theirs : link->mine;
    for (size_t k = 0; k < publics->count; k++) {
        struct gossip_place *place = &publics->places[k];
        if (place->link == number && place->gives == gives &&
            proto_node_equal(place->node, link->node))
            return place;
    }
    return NULL;
}

/* A flow of this copy is under way to this node. */
static bool
must_stay(const struct core *core, const struct gossip_place *place)
{
    const struct gossip_link *link = place->link ? gossip_link_find(core, place->node) : NULL;
    return link && !place->gives && link->mine == place->link && link->take.open;
}

/* Its place, or another one that it gets. NULL: there is none. */
static struct gossip_place *
take_place(struct gossip_publics *publics, const struct core *core, const struct gossip_link *link,
           bool gives)
{
    struct gossip_place *oldest = find_copy(publics, link, gives);
    if (oldest)
        return oldest;
    for (size_t k = 0; k < publics->count; k++) {
        struct gossip_place *place = &publics->places[k];
        if ((!oldest || place->used < oldest->used) && !must_stay(core, place))
            oldest = place;
    }
    if (oldest)
        *oldest = (struct gossip_place){.node = link->node,
                                        .link = gives ? link->theirs : link->mine,
                                        .gives = gives,
                                        .values = oldest->values};
    return oldest;
}

/* --- The taker ----------------------------------------------------------------------------------- */

bool
gossip_public_ask(struct gossip_publics *publics, const struct core *core,
                  const struct gossip_link *link, const int32_t *mine)
{
    const struct gossip_take *take = &link->take;
    struct gossip_place *place = find_copy(publics, link, false);
    bool known = place && (place->number == take->number || mutant(MUTANT_GOSSIP_COPY));
    place = known ? place : take_place(publics, core, link, false);
    if (!place)
        return false;
    place->used = ++publics->uses;
    if (known)
        return true;
    /* if the flow is void, its number is taken, and this one is an old one */
    memcpy(place->values, mine, core->config.gossip->count * sizeof *place->values);
    place->number = take->number;
    return false;
}

const int32_t *
gossip_public_tell(struct gossip_publics *publics, const struct core *core,
                   const struct gossip_link *link, size_t p, const int32_t *mine)
{
    const struct gossip_place *place = find_copy(publics, link, false);
    assert(place);
    gossip_flow_tell(publics->elements, place->values + gossip_range_first(&core->config, p), mine,
                     core->config.gossip->codec, gossip_range_elems(&core->config, p));
    return publics->elements;
}

void
gossip_public_took(struct gossip_publics *publics, const struct core *core,
                   const struct gossip_link *link, uint64_t number, const int32_t *flow)
{
    struct gossip_place *place = find_copy(publics, link, false);
    if (!place)
        return; /* when it was asked for, there was none */
    gossip_flow_follow(place->values, flow, core->config.gossip->count);
    place->number = number;
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
    const struct gossip_place *place = find_copy(publics, link, true);
    uint64_t number = ask->range == 0 ? ask->number - 1 : UINT64_MAX;
    return place && (place->number == number || mutant(MUTANT_GOSSIP_COPY));
}

void
gossip_public_give(struct gossip_publics *publics, const struct core *core,
                   const struct gossip_link *link, const struct proto_ask *ask, const void *body,
                   int32_t *flow, const int32_t *mine, unsigned share)
{
    size_t first = gossip_range_first(&core->config, ask->range);
    size_t count = gossip_range_elems(&core->config, ask->range);
    struct gossip_place *place =
        ask->range == 0 ? take_place(publics, core, link, true) : find_copy(publics, link, true);
    int32_t *copy = place ? place->values + first : NULL;
    if (place) {
        place->used = ++publics->uses;
        place->number = UINT64_MAX;
    }
    if (ask->kind == PROTO_ASK_CHANGES) {
        assert(copy);
        gossip_flow_few(flow, copy, mine, body, core->config.gossip->codec, share, count);
        return;
    }
    gossip_flow_average(flow, mine, body, share, count);
    if (!copy)
        return;
    memcpy(copy, body, count * sizeof *copy);
    gossip_flow_follow(copy, flow, count);
}

void
gossip_public_gave(struct gossip_publics *publics, const struct gossip_link *link)
{
    struct gossip_place *place = find_copy(publics, link, true);
    if (place)
        place->number = link->give.number;
}

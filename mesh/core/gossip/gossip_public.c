/* gossip_public.c - see gossip_public.h. */
#include <assert.h>

#include "compress/packed.h"
#include "mesh/core/gossip/gossip_internal.h"
#include "mesh/core/gossip/gossip_public.h"

/* --- Places -------------------------------------------------------------------------------------- */

void
gossip_public_init(struct gossip_publics *publics, size_t count, size_t ranges)
{
    for (size_t k = 0; k < publics->count; k++) {
        publics->places[k].values = publics->copies + k * count;
        publics->places[k].same = publics->sames + k * ranges;
    }
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
    return link && !place->gives && link->mine == place->link &&
           link->take.asked > link->take.number;
}

/* Its place, or another one that it gets. NULL: there is none. */
static struct gossip_place *
take_place(struct gossip_publics *publics, const struct core *core, const struct gossip_link *link,
           bool gives)
{
    struct gossip_place *oldest = find_copy(publics, link, gives);
    for (size_t k = 0; k < publics->count && !find_copy(publics, link, gives); k++) {
        struct gossip_place *place = &publics->places[k];
        if ((!oldest || place->used < oldest->used) && !must_stay(core, place))
            oldest = place;
    }
    if (!oldest)
        return NULL;
    if (oldest != find_copy(publics, link, gives)) {
        oldest->node = link->node;
        oldest->link = gives ? link->theirs : link->mine;
        oldest->gives = gives;
        memset(oldest->same, 0, core->gossip.range_count * sizeof *oldest->same);
    }
    oldest->used = ++publics->uses;
    return oldest;
}

/* --- The taker ----------------------------------------------------------------------------------- */

bool
gossip_public_ask(struct gossip_publics *publics, const struct core *core,
                  const struct gossip_link *link, size_t p, const int32_t *mine)
{
    bool known = find_copy(publics, link, false) != NULL;
    struct gossip_place *place = take_place(publics, core, link, false);
    if (!place)
        return false;
    bool same = place->same[p] || (known && mutant(MUTANT_GOSSIP_COPY));
    if (!same)
        memcpy(place->values + gossip_range_first(&core->config, p), mine,
               gossip_range_elems(&core->config, p) * sizeof *mine);
    place->same[p] = false; /* until the flow has come */
    return same;
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
                   const struct gossip_link *link, size_t p, const int32_t *flow)
{
    struct gossip_place *place = find_copy(publics, link, false);
    if (!place)
        return; /* when it was asked for, there was none */
    gossip_flow_follow(place->values + gossip_range_first(&core->config, p), flow,
                       gossip_range_elems(&core->config, p));
    place->same[p] = true;
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
gossip_public_has(struct gossip_publics *publics, const struct gossip_link *link, size_t p)
{
    const struct gossip_place *place = find_copy(publics, link, true);
    return place && (place->same[p] || mutant(MUTANT_GOSSIP_COPY));
}

void
gossip_public_give(struct gossip_publics *publics, const struct core *core,
                   const struct gossip_link *link, const struct proto_ask *ask, const void *body,
                   int32_t *flow, const int32_t *mine, unsigned share)
{
    size_t count = gossip_range_elems(&core->config, ask->range);
    struct gossip_place *place = take_place(publics, core, link, true);
    int32_t *copy = place ? place->values + gossip_range_first(&core->config, ask->range) : NULL;
    if (place)
        place->same[ask->range] = true;
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

/* gossip_journal.c - see gossip_journal.h. */
#include "node/train/gossip_journal.h"

#include <assert.h>

/* The numbers of a record in their order, and what else it may have. */
enum { LINK = 1, NUMBER = 2, RANGE = 4, SHARE = 8, STEP = 16, TOTAL = 32, SHARDS = 64 };
enum { NUMBERS = 7, PEER = 128, NOTHING = 256, EVENTS = GOSSIP_EMPTY + 1 };
enum { FLOW = PEER | LINK | NUMBER };

/* What an event's record has; 0: there is none. */
static const unsigned fields[EVENTS] = {
    [GOSSIP_BEGAN] = NUMBER,       [GOSSIP_READ] = STEP | TOTAL | SHARDS,
    [GOSSIP_UPDATED] = NOTHING,    [GOSSIP_PHASE] = NOTHING,
    [GOSSIP_ASKED] = FLOW,         [GOSSIP_GAVE] = FLOW | RANGE | SHARE,
    [GOSSIP_TOOK] = FLOW,          [GOSSIP_COPIED] = NUMBER | RANGE,
    [GOSSIP_GOT] = PEER | NUMBER,  [GOSSIP_ADOPTED] = NOTHING,
    [GOSSIP_MEAN_BEGAN] = NOTHING, [GOSSIP_MEAN_VOID] = NOTHING,
    [GOSSIP_MEAN] = NOTHING,       [GOSSIP_RESULT] = NOTHING,
    [GOSSIP_SAVED] = NUMBER,       [GOSSIP_ASKED_WHOLE] = FLOW,
    [GOSSIP_EMPTY] = NOTHING,
};

bool
gossip_journal_has(unsigned type)
{
    return type < EVENTS && fields[type] != 0;
}

/* --- The plan of a READ --------------------------------------------------------------------------- */

static void
put_plan(struct bytes_out *out, struct gossip_names *names, const struct gossip_note *note)
{
    bool same =
        note->plan == names->plan && note->number == names->members && note->rank == names->rank;
    varint_put(out, !same);
    if (same)
        return;
    names->plan = note->plan;
    names->members = note->number;
    names->rank = note->rank;
    bytes_put_u64(out, note->plan);
    varint_put(out, note->number);
    varint_put(out, note->rank);
}

static void
get_plan(struct bytes_in *in, struct gossip_names *names, struct gossip_note *note)
{
    if (varint_get(in, 1)) {
        names->plan = bytes_u64(in);
        names->members = varint_get(in, PROTO_PEERS_MAX);
        names->rank = (uint32_t)varint_get(in, PROTO_PEERS_MAX);
    }
    note->plan = names->plan;
    note->number = names->members;
    note->rank = names->rank;
}

/* --- Records -------------------------------------------------------------------------------------- */

size_t
gossip_journal_put(struct gossip_names *names, const struct gossip_note *note,
                   uint8_t data[GOSSIP_RECORD_MAX])
{
    assert(gossip_journal_has(note->event));
    unsigned has = fields[note->event];
    const uint64_t number[NUMBERS] = {note->link, note->number, note->range, note->share,
                                      note->step, note->total,  note->shards};
    bool fresh;
    struct bytes_out out = bytes_out(data, GOSSIP_RECORD_MAX);
    if (has & PEER)
        journal_peers_put(&out, &names->peers, note->peer, &fresh);
    for (unsigned i = 0; i < NUMBERS; i++)
        if (has >> i & 1)
            varint_put(&out, number[i]);
    if (note->event == GOSSIP_READ)
        put_plan(&out, names, note);
    assert(!out.overrun);
    return bytes_written(&out, data);
}

bool
gossip_journal_get(struct gossip_names *names, unsigned type, const uint8_t *data, size_t size,
                   struct gossip_note *note)
{
    if (!gossip_journal_has(type))
        return false;
    unsigned has = fields[type];
    uint64_t number[NUMBERS] = {0};
    bool fresh;
    struct bytes_in in = bytes_in(data, size);
    *note = (struct gossip_note){.event = (enum gossip_event)type};
    if (has & PEER)
        note->peer = names->peers.node[journal_peers_get(&in, &names->peers, &fresh)];
    for (unsigned i = 0; i < NUMBERS; i++)
        if (has >> i & 1)
            number[i] = varint_get(&in, 1U << i & (RANGE | SHARE) ? UINT32_MAX : UINT64_MAX);
    note->link = number[0];
    note->number = number[1];
    note->range = (uint32_t)number[2];
    note->share = (uint32_t)number[3];
    note->step = number[4];
    note->total = number[5];
    note->shards = number[6];
    if (note->event == GOSSIP_READ)
        get_plan(&in, names, note);
    return bytes_done(&in);
}

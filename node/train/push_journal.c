/* push_journal.c - see push_journal.h. */
#include "node/train/push_journal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int
push_journal_init(struct push_journal *journal, unsigned ranges)
{
    *journal = (struct push_journal){.ranges = ranges};
    journal->range = calloc(ranges, sizeof *journal->range);
    return journal->range ? 0 : -ENOMEM;
}

void
push_journal_fini(struct push_journal *journal)
{
    free(journal->range);
    journal->range = NULL;
}

void
push_journal_start(struct push_journal *journal)
{
    struct push_journal_range *range = journal->range;
    memset(range, 0, journal->ranges * sizeof *range);
    *journal = (struct push_journal){.ranges = journal->ranges, .range = range};
}

/* --- Differences ---------------------------------------------------------------------------------- */

static void
put_difference(struct bytes_out *out, uint64_t *last, uint64_t value)
{
    uint64_t up = value - *last, down = *last - value - 1;
    varint_put(out, value >= *last ? up << 1 : down << 1 | 1);
    *last = value;
}

/* Numbers that go beyond what messages allow are of no node. */
static uint64_t
get_difference(struct bytes_in *in, uint64_t *last)
{
    uint64_t coded = varint_get(in, UINT64_MAX), d = coded >> 1;
    uint64_t value = coded & 1 ? *last - d - 1 : *last + d;
    in->overrun |= value > PROTO_ROUND_MAX;
    return *last = in->overrun ? *last : value;
}

/* --- Gradients that a range took ------------------------------------------------------------------ */

size_t
push_journal_put_taken(struct push_journal *journal, const struct push_taken *taken,
                       uint8_t out[PUSH_TAKEN_MAX])
{
    struct bytes_out to = bytes_out(out, PUSH_TAKEN_MAX);
    assert(taken->range < journal->ranges);
    struct push_journal_range *r = &journal->range[taken->range];
    bool goes_on = r->after && r->after == taken->before && r->count + 1 == taken->count;
    varint_put(&to, 4 * (uint64_t)taken->range + 2 * taken->updates + goes_on);
    if (!goes_on) {
        bytes_put_u64(&to, taken->before);
        varint_put(&to, taken->count);
    }
    bool fresh;
    uint64_t *number =
        &journal->number_of[journal_peers_put(&to, &journal->peers, taken->who, &fresh)];
    *number = fresh ? 0 : *number;
    put_difference(&to, &journal->ticket, taken->ticket);
    put_difference(&to, number, taken->number);
    varint_put(&to, taken->tau);
    *r = (struct push_journal_range){push_taken_after(taken), taken->count};
    assert(!to.overrun);
    return bytes_written(&to, out);
}

bool
push_journal_get_taken(struct push_journal *journal, const uint8_t *data, size_t size,
                       struct push_taken *taken)
{
    struct bytes_in in = bytes_in(data, size);
    uint64_t head = varint_get(&in, 4 * (uint64_t)journal->ranges - 1);
    struct push_journal_range *r = &journal->range[head / 4];
    *taken = (struct push_taken){.range = (unsigned)(head / 4), .updates = head >> 1 & 1};
    if (head & 1) {
        in.overrun |= r->after == 0;
        taken->before = r->after;
        taken->count = r->count + 1;
    } else {
        taken->before = bytes_u64(&in);
        taken->count = varint_get(&in, PROTO_ROUND_MAX);
    }
    in.overrun |= taken->count > PROTO_ROUND_MAX;
    bool fresh;
    unsigned place = journal_peers_get(&in, &journal->peers, &fresh);
    taken->who = journal->peers.node[place];
    journal->number_of[place] = fresh ? 0 : journal->number_of[place];
    taken->ticket = get_difference(&in, &journal->ticket);
    taken->number = get_difference(&in, &journal->number_of[place]);
    taken->tau = varint_get(&in, PROTO_ROUND_MAX);
    taken->after = push_taken_after(taken);
    *r = (struct push_journal_range){taken->after, taken->count};
    return bytes_done(&in);
}

/* --- The others ------------------------------------------------------------------------------------ */

size_t
push_journal_put_computed(struct push_journal *journal, uint64_t ticket, uint64_t number,
                          uint8_t out[PUSH_COMPUTED_HEAD_MAX])
{
    struct bytes_out to = bytes_out(out, PUSH_COMPUTED_HEAD_MAX);
    put_difference(&to, &journal->ticket, ticket);
    put_difference(&to, &journal->number, number);
    assert(!to.overrun);
    return bytes_written(&to, out);
}

bool
push_journal_get_computed(struct push_journal *journal, const uint8_t *data, size_t size,
                          uint64_t *ticket, uint64_t *number, const uint8_t **histories)
{
    struct bytes_in in = bytes_in(data, size);
    *ticket = get_difference(&in, &journal->ticket);
    *number = get_difference(&in, &journal->number);
    *histories = bytes_raw(&in, 8 * (size_t)journal->ranges);
    return bytes_done(&in);
}

size_t
push_journal_put_restored(struct push_journal *journal, unsigned range, uint64_t before,
                          uint64_t after, uint8_t out[PUSH_RESTORED_MAX])
{
    struct bytes_out to = bytes_out(out, PUSH_RESTORED_MAX);
    assert(range < journal->ranges);
    varint_put(&to, range);
    bytes_put_u64(&to, before);
    bytes_put_u64(&to, after);
    assert(!to.overrun);
    return bytes_written(&to, out);
}

bool
push_journal_get_restored(struct push_journal *journal, const uint8_t *data, size_t size,
                          struct push_taken *taken)
{
    struct bytes_in in = bytes_in(data, size);
    *taken = (struct push_taken){.range = (unsigned)varint_get(&in, journal->ranges - 1)};
    taken->before = bytes_u64(&in);
    taken->after = bytes_u64(&in);
    return bytes_done(&in);
}

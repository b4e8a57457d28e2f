/* replay_flows.c - see replay_actor.h. */
#include "node/commands/replay_actor.h"

#include <stdlib.h>

/* --- Public copies -------------------------------------------------------------------------------- */

/* Of the link that the event is about; NULL: there is none yet. */
static struct replay_public *
find_public(const struct actor *a)
{
    struct replay_public *known = a->publics;
    while (known && known->link != a->note.link)
        known = known->next;
    return known;
}

static void
free_public(struct replay_public *known)
{
    free(known->copy);
    free(known->taken);
    free(known);
}

static struct replay_public *
add_public(const struct replay *r, struct actor *a)
{
    struct replay_public *known = calloc(1, sizeof *known);
    if (!known)
        return NULL;
    *known = (struct replay_public){.next = a->publics,
                                    .link = a->note.link,
                                    .copy = calloc(r->count, sizeof *known->copy),
                                    .taken = calloc(r->range_count, sizeof *known->taken)};
    if (!known->copy || !known->taken) {
        free_public(known);
        return NULL;
    }
    for (size_t p = 0; p < r->range_count; p++)
        known->taken[p] = UINT64_MAX;
    return a->publics = known;
}

void
replay_flows_forget(struct actor *a)
{
    while (a->publics) {
        struct replay_public *next = a->publics->next;
        free_public(a->publics);
        a->publics = next;
    }
}

/* --- Flows ---------------------------------------------------------------------------------------- */

static int32_t *
new_body(const struct replay *r, const struct replay_piece *piece)
{
    return calloc(count_of(r, piece->range), sizeof(int32_t));
}

/* What an exchange of this range is about: the values now, or those of the phase. */
static void
values_of_flow(const struct replay *r, const struct actor *a, size_t range, int32_t *out)
{
    size_t first = first_of(r, range), n = count_of(r, range);
    if (r->async)
        gossip_flow_clamp(out, a->values + first, n);
    else
        memcpy(out, a->read + first, n * sizeof *out);
}

/* The values that an ASK has are the public copy from now on. */
static int
begin_public(const struct replay *r, struct actor *a, const int32_t *values)
{
    size_t p = a->note.range;
    struct replay_public *known = find_public(a);
    if (!known && !(known = add_public(r, a)))
        return -ENOMEM;
    memcpy(known->copy + first_of(r, p), values, count_of(r, p) * sizeof *values);
    known->taken[p] = a->note.number - 1;
    return DONE;
}

/* It tells changes to the copy after the flow before it. */
static int
tell_changes(struct replay *r, struct actor *a, struct replay_piece *piece)
{
    size_t p = piece->range, n = count_of(r, p);
    struct replay_public *known = find_public(a);
    if (!known || known->taken[p] != piece->number - 1)
        return IMPOSSIBLE;
    int32_t *copy = known->copy + first_of(r, p);
    piece->change = new_body(r, piece);
    if (!piece->change)
        return -ENOMEM;
    values_of_flow(r, a, p, r->scratch);
    memcpy(piece->theirs, copy, n * sizeof *copy);
    gossip_flow_tell(piece->change, copy, r->scratch, &r->codec, n);
    return DONE;
}

static int
on_asked(struct replay *r, struct actor *a, struct replay_piece *piece)
{
    if (!piece || r->push_sum) /* it was not answered, or its values do not matter */
        return DONE;
    piece->theirs = new_body(r, piece);
    if (!piece->theirs)
        return -ENOMEM;
    if (r->codes && a->note.event == GOSSIP_ASKED)
        return tell_changes(r, a, piece);
    values_of_flow(r, a, piece->range, piece->theirs);
    return r->codes ? begin_public(r, a, piece->theirs) : DONE;
}

static void
forget_asked(struct replay_piece *piece)
{
    free(piece->theirs);
    free(piece->change);
    piece->theirs = piece->change = NULL;
}

static int
on_gave(const struct replay *r, struct actor *a, struct replay_piece *piece)
{
    size_t first = first_of(r, piece->range), n = count_of(r, piece->range);
    if (!r->push_sum && !piece->theirs)
        return BLOCKED;
    if (!(piece->body = new_body(r, piece)))
        return -ENOMEM;
    values_of_flow(r, a, piece->range, r->scratch);
    if (r->push_sum) {
        gossip_flow_share(piece->body, a->values + first, r->scratch, a->note.share, n);
        piece->weight = a->read_weight[piece->range] / a->note.share;
        a->weight[piece->range] -= piece->weight;
    } else if (piece->change) {
        gossip_flow_few(piece->body, a->values + first, piece->theirs, r->scratch, piece->change,
                        &r->codec, a->note.share, n);
    } else {
        gossip_flow_average(piece->body, a->values + first, r->scratch, piece->theirs,
                            a->note.share, n);
    }
    forget_asked(piece);
    return DONE;
}

static int
on_took(const struct replay *r, struct actor *a, const struct replay_piece *piece)
{
    struct replay_public *known = find_public(a);
    if (!piece->body)
        return BLOCKED;
    if (!gossip_flow_fits(a->weight[piece->range], piece->weight))
        return IMPOSSIBLE;
    gossip_flow_add(a->values + first_of(r, piece->range), piece->body, count_of(r, piece->range));
    a->weight[piece->range] += piece->weight;
    if (known) {
        gossip_flow_follow(known->copy + first_of(r, piece->range), piece->body,
                           count_of(r, piece->range));
        known->taken[piece->range] = piece->number;
    }
    return DONE;
}

/* --- Copies --------------------------------------------------------------------------------------- */

static int
on_copied(const struct replay *r, const struct actor *a, struct replay_piece *piece)
{
    if (!(piece->body = new_body(r, piece)))
        return -ENOMEM;
    gossip_flow_clamp(piece->body, a->values + first_of(r, piece->range),
                      count_of(r, piece->range));
    piece->weight = a->weight[piece->range];
    return DONE;
}

static int
on_got(const struct replay *r, struct actor *a, const struct replay_piece *piece)
{
    size_t first = first_of(r, piece->range), n = count_of(r, piece->range);
    if (!piece->body)
        return BLOCKED;
    if (a->mean) {
        gossip_flow_add(a->values + first, piece->body, n);
        a->weight[piece->range] += piece->weight;
    } else {
        memcpy(a->copied + first, piece->body, n * sizeof *a->copied);
    }
    return DONE;
}

static int
on_adopted(const struct replay *r, struct actor *a)
{
    if (!r->push_sum) {
        gossip_flow_set(a->values, a->copied, r->count);
        return DONE;
    }
    memset(a->values, 0, r->count * sizeof *a->values);
    set_weights(r, a, 0);
    return DONE;
}

/* --- The end -------------------------------------------------------------------------------------- */

static int
on_mean_began(const struct replay *r, struct actor *a)
{
    if (a->computing)
        return IMPOSSIBLE;
    read_values(r, a);
    gossip_flow_set(a->values, a->read, r->count);
    a->mean = true;
    return DONE;
}

static int
on_mean_void(const struct replay *r, struct actor *a)
{
    gossip_flow_set(a->values, a->read, r->count);
    memcpy(a->weight, a->read_weight, r->range_count * sizeof *a->weight);
    a->mean = false;
    return DONE;
}

/* The values are the result. */
static int
end(struct replay *r, struct actor *a)
{
    set_weights(r, a, GOSSIP_ONE);
    a->mean = false;
    a->ended = true;
    gossip_flow_clamp(r->scratch, a->values, r->count);
    replica_result(&r->next, r->scratch);
    model_file_sha256(r->next.params, r->count * sizeof(float), a->hex);
    return DONE;
}

static int
on_mean(struct replay *r, struct actor *a)
{
    if (!a->mean)
        return IMPOSSIBLE;
    for (size_t p = 0; p < r->range_count; p++)
        if (a->weight[p] > 0)
            gossip_flow_mean(a->values + first_of(r, p), a->weight[p], count_of(r, p));
    return end(r, a);
}

static int
on_result(struct replay *r, struct actor *a)
{
    gossip_flow_set(a->values, a->copied, r->count);
    return end(r, a);
}

/* --- Events --------------------------------------------------------------------------------------- */

int
replay_flows_exchange(struct replay *r, struct actor *a)
{
    struct replay_piece *piece = replay_pieces_find(&r->pieces, a->start->node, &a->note);
    bool made = a->note.event == GOSSIP_GAVE || a->note.event == GOSSIP_COPIED;
    bool took = a->note.event == GOSSIP_TOOK || a->note.event == GOSSIP_GOT;
    int rc = replay_pieces_asks(&a->note)     ? on_asked(r, a, piece)
             : a->note.event == GOSSIP_GAVE   ? on_gave(r, a, piece)
             : a->note.event == GOSSIP_TOOK   ? on_took(r, a, piece)
             : a->note.event == GOSSIP_COPIED ? on_copied(r, a, piece)
                                              : on_got(r, a, piece);
    if (rc == DONE && (took || (made && !piece->wanted))) {
        free(piece->body);
        piece->body = NULL;
    }
    return rc;
}

int
replay_flows_adopt(struct replay *r, struct actor *a)
{
    switch (a->note.event) {
    case GOSSIP_ADOPTED:
        return on_adopted(r, a);
    case GOSSIP_MEAN_BEGAN:
        return on_mean_began(r, a);
    case GOSSIP_MEAN_VOID:
        return on_mean_void(r, a);
    case GOSSIP_MEAN:
        return on_mean(r, a);
    case GOSSIP_RESULT:
        return on_result(r, a);
    default:
        return IMPOSSIBLE;
    }
}

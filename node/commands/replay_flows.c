/* replay_flows.c - see replay_actor.h. */
#include "node/commands/replay_actor.h"

#include <stdlib.h>

/* --- Flows ---------------------------------------------------------------------------------------- */

static int32_t *
new_values(const struct replay *r)
{
    return calloc(r->count, sizeof(int32_t));
}

/* What an exchange is about: the values now, or those of the phase. */
static void
values_of_flow(const struct replay *r, const struct actor *a, int32_t *out)
{
    if (r->async)
        gossip_flow_clamp(out, a->values, r->count);
    else
        memcpy(out, a->read, r->count * sizeof *out);
}

static void
forget_theirs(struct replay_piece *piece)
{
    free(piece->theirs);
    piece->theirs = NULL;
}

/* It tells changes to the public copy after the flow before it, which was taken (gossip_public.h). */
static int
tell_changes(struct replay *r, const struct actor *a, struct replay_piece *piece,
             struct replay_piece *last)
{
    if (!last || !last->made || !last->wanted || last->body || !last->theirs)
        return IMPOSSIBLE;
    piece->theirs = last->theirs;
    last->theirs = NULL;
    piece->change = new_values(r);
    if (!piece->change)
        return -ENOMEM;
    values_of_flow(r, a, r->scratch);
    memcpy(r->update, piece->theirs, r->count * sizeof *piece->theirs);
    gossip_flow_tell(piece->change, r->update, r->scratch, &r->codec, r->count);
    return DONE;
}

/* Without a piece it was not answered. */
static int
on_asked(struct replay *r, struct actor *a, struct replay_piece *piece)
{
    struct gossip_note before = a->note;
    before.number--;
    struct replay_piece *last = replay_pieces_find(&r->pieces, a->start->node, &before);
    if (r->push_sum) /* its values do not matter */
        return DONE;
    if (piece && r->codes && a->note.event == GOSSIP_ASKED)
        return tell_changes(r, a, piece, last);
    if (last && last->made)
        forget_theirs(last);
    if (!piece)
        return DONE;
    piece->theirs = new_values(r);
    if (!piece->theirs)
        return -ENOMEM;
    values_of_flow(r, a, piece->theirs);
    return DONE;
}

/* The values of which it is given. Of a flow that came to nothing there is no piece. */
static int
on_gives(const struct replay *r, const struct actor *a, struct replay_piece *piece)
{
    if (!piece || piece->body)
        return piece ? IMPOSSIBLE : DONE;
    if (!(piece->body = new_values(r)))
        return -ENOMEM;
    values_of_flow(r, a, piece->body);
    return DONE;
}

static int
on_gave(const struct replay *r, struct actor *a, struct replay_piece *piece)
{
    if (!r->push_sum && !piece->theirs)
        return BLOCKED;
    int rc = r->async ? DONE : on_gives(r, a, piece);
    if (rc || !piece->body)
        return rc ? rc : IMPOSSIBLE;
    if (r->push_sum) {
        gossip_flow_share(piece->body, piece->body, a->note.share, r->count);
        piece->weight = a->read_weight / a->note.share;
    } else if (piece->change) {
        gossip_flow_few(piece->body, piece->theirs, piece->body, piece->change, &r->codec,
                        a->note.share, r->count);
    } else {
        gossip_flow_average(piece->body, piece->body, piece->theirs, a->note.share, r->count);
        gossip_flow_follow(piece->theirs, piece->body, r->count);
    }
    gossip_flow_give(a->values, piece->body, r->count);
    a->weight -= piece->weight;
    piece->made = true;
    if (!r->codes)
        forget_theirs(piece);
    free(piece->change);
    piece->change = NULL;
    return DONE;
}

static int
on_took(const struct replay *r, struct actor *a, const struct replay_piece *piece)
{
    if (!piece->made)
        return BLOCKED;
    if (!gossip_flow_fits(a->weight, piece->weight))
        return IMPOSSIBLE;
    gossip_flow_add(a->values, piece->body, r->count);
    a->weight += piece->weight;
    return DONE;
}

/* --- Copies --------------------------------------------------------------------------------------- */

static int
on_copied(const struct replay *r, const struct actor *a, struct replay_piece *piece)
{
    if (piece->body) /* a flow of this name was begun */
        return IMPOSSIBLE;
    if (!(piece->body = new_values(r)))
        return -ENOMEM;
    gossip_flow_clamp(piece->body, a->values, r->count);
    piece->weight = a->weight;
    piece->made = true;
    return DONE;
}

/* The values are the result. */
static int
end(struct replay *r, struct actor *a)
{
    a->weight = GOSSIP_ONE;
    a->mean = false;
    a->ended = true;
    gossip_flow_clamp(r->scratch, a->values, r->count);
    replica_result(&r->next, r->scratch);
    model_file_sha256(r->next.params, r->count * sizeof(float), a->hex);
    return DONE;
}

/* A copy has come: it is added to the mean, or is the values. */
static int
on_copy_came(struct replay *r, struct actor *a, const struct replay_piece *piece)
{
    if (!piece->made)
        return BLOCKED;
    if (a->note.event == GOSSIP_GOT) {
        gossip_flow_add(a->values, piece->body, r->count);
        a->weight += piece->weight;
        return a->mean ? DONE : IMPOSSIBLE;
    }
    gossip_flow_set(a->values, piece->body, r->count);
    return a->note.event == GOSSIP_RESULT ? end(r, a) : DONE;
}

static int
on_empty(const struct replay *r, struct actor *a)
{
    memset(a->values, 0, r->count * sizeof *a->values);
    a->weight = 0;
    return DONE;
}

/* --- The last mean -------------------------------------------------------------------------------- */

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
    a->weight = a->read_weight;
    a->mean = false;
    return DONE;
}

static int
on_mean(struct replay *r, struct actor *a)
{
    if (!a->mean)
        return IMPOSSIBLE;
    if (a->weight > 0)
        gossip_flow_mean(a->values, a->weight, r->count);
    return end(r, a);
}

/* --- Events --------------------------------------------------------------------------------------- */

static int
flow_event(struct replay *r, struct actor *a, struct replay_piece *piece)
{
    switch (a->note.event) {
    case GOSSIP_ASKED:
    case GOSSIP_ASKED_WHOLE:
        return on_asked(r, a, piece);
    case GOSSIP_GIVES:
        return on_gives(r, a, piece);
    case GOSSIP_GAVE:
        return on_gave(r, a, piece);
    case GOSSIP_TOOK:
        return on_took(r, a, piece);
    case GOSSIP_COPIED:
        return on_copied(r, a, piece);
    case GOSSIP_GOT:
    case GOSSIP_ADOPTED:
    case GOSSIP_RESULT:
        return on_copy_came(r, a, piece);
    case GOSSIP_EMPTY:
        return on_empty(r, a);
    case GOSSIP_MEAN_BEGAN:
        return on_mean_began(r, a);
    case GOSSIP_MEAN_VOID:
        return on_mean_void(r, a);
    case GOSSIP_MEAN:
        return on_mean(r, a);
    default:
        return IMPOSSIBLE;
    }
}

int
replay_flows_do(struct replay *r, struct actor *a)
{
    struct replay_piece *piece = replay_pieces_find(&r->pieces, a->start->node, &a->note);
    int rc = flow_event(r, a, piece);
    if (rc == DONE && piece &&
        (replay_pieces_takes(&a->note) || (replay_pieces_makes(&a->note) && !piece->wanted))) {
        free(piece->body);
        piece->body = NULL;
    }
    return rc;
}

/* replay_flows.c - see replay_actor.h. */
#include "node/commands/replay_actor.h"

#include <stdlib.h>

#include "node/train/model_file.h"

/* --- Flows ---------------------------------------------------------------------------------------- */

static size_t
first_of(const struct replay *r, const struct replay_move *move)
{
    return move->range * r->chunk;
}

static size_t
count_of(const struct replay *r, const struct replay_move *move)
{
    size_t rest = r->count - first_of(r, move);
    return rest < r->chunk ? rest : r->chunk;
}

/* What an exchange is about: the values now, or those of the phase. NULL: there is no memory. */
static int32_t *
values_of_flow(const struct replay *r, const struct actor *a, const struct replay_move *move)
{
    size_t first = first_of(r, move), count = count_of(r, move);
    int32_t *values = malloc(count * sizeof *values);
    if (values && (r->async || a->note.event == GOSSIP_COPIED))
        gossip_flow_clamp(values, a->values + first, count);
    else if (values)
        memcpy(values, a->read + first, count * sizeof *values);
    return values;
}

static void
forget_theirs(struct replay_move *move)
{
    free(move->theirs);
    move->theirs = NULL;
}

/* It tells changes to the public copy after the flow before it, which was taken (gossip_public.h). The values, in
 * `move->change`, become the changes. */
static int
tell_changes(struct replay *r, struct replay_move *move, struct replay_move *last)
{
    size_t count = count_of(r, move);
    if (!last || !last->made || !last->wanted || last->body || !last->theirs)
        return IMPOSSIBLE;
    move->theirs = last->theirs;
    last->theirs = NULL;
    memcpy(r->update, move->theirs, count * sizeof *move->theirs);
    gossip_flow_tell(move->change, r->update, move->change, &r->codec, count);
    return DONE;
}

/* Without a move it was not answered. */
static int
on_asked(struct replay *r, const struct actor *a, struct replay_move *move)
{
    if (!move || r->push_sum) /* its values do not matter */
        return DONE;
    struct replay_move *last =
        r->codes ? replay_moves_before(&r->moves, a->start->node, &a->note, move->range) : NULL;
    bool tells = r->codes && a->note.event == GOSSIP_ASKED;
    int32_t *values = values_of_flow(r, a, move);
    if (!values)
        return -ENOMEM;
    *(tells ? &move->change : &move->theirs) = values;
    if (tells)
        return tell_changes(r, move, last);
    if (last && last->made)
        forget_theirs(last);
    return DONE;
}

static int
on_gave(const struct replay *r, struct actor *a, struct replay_move *move)
{
    size_t first = first_of(r, move), count = count_of(r, move);
    if (!r->push_sum && !move->theirs)
        return BLOCKED;
    if (move->body)
        return IMPOSSIBLE;
    if (!(move->body = values_of_flow(r, a, move)))
        return -ENOMEM;
    if (r->push_sum) {
        gossip_flow_share(move->body, move->body, a->note.share, count);
        move->weight = a->read_weight[move->range] / a->note.share;
    } else if (move->change) {
        gossip_flow_few(move->body, move->theirs, move->body, move->change, &r->codec,
                        a->note.share, count);
    } else {
        gossip_flow_average(move->body, move->body, move->theirs, a->note.share, count);
        gossip_flow_follow(move->theirs, move->body, count);
    }
    gossip_flow_give(a->values + first, move->body, count);
    a->weight[move->range] -= move->weight;
    move->made = true;
    if (!r->codes)
        forget_theirs(move);
    free(move->change);
    move->change = NULL;
    return DONE;
}

static int
on_took(const struct replay *r, struct actor *a, const struct replay_move *move)
{
    if (!move->made)
        return BLOCKED;
    if (!gossip_flow_fits(a->weight[move->range], move->weight))
        return IMPOSSIBLE;
    gossip_flow_add(a->values + first_of(r, move), move->body, count_of(r, move));
    a->weight[move->range] += move->weight;
    return DONE;
}

/* --- Copies --------------------------------------------------------------------------------------- */

static int
on_copied(const struct replay *r, const struct actor *a, struct replay_move *move)
{
    if (!(move->body = values_of_flow(r, a, move)))
        return -ENOMEM;
    move->weight = a->weight[move->range];
    move->made = true;
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

/* A copy has come: it is added to the mean, or kept until all have come. */
static int
on_got(const struct replay *r, struct actor *a, const struct replay_move *move)
{
    size_t first = first_of(r, move), count = count_of(r, move);
    if (!move->made)
        return BLOCKED;
    if (a->mean) {
        gossip_flow_add(a->values + first, move->body, count);
        a->weight[move->range] += move->weight;
        return DONE;
    }
    if (!a->copied && !(a->copied = calloc(r->count, sizeof *a->copied)))
        return -ENOMEM;
    memcpy(a->copied + first, move->body, count * sizeof *a->copied);
    return DONE;
}

static int
on_adopted(struct replay *r, struct actor *a)
{
    if (!a->copied)
        return IMPOSSIBLE;
    gossip_flow_set(a->values, a->copied, r->count);
    free(a->copied);
    a->copied = NULL;
    return a->note.event == GOSSIP_RESULT ? end(r, a) : DONE;
}

static int
on_empty(const struct replay *r, struct actor *a)
{
    memset(a->values, 0, r->count * sizeof *a->values);
    set_weights(r, a, 0);
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
    memcpy(a->weight, a->read_weight, r->ranges * sizeof *a->weight);
    a->mean = false;
    return DONE;
}

static int
on_mean(struct replay *r, struct actor *a)
{
    if (!a->mean)
        return IMPOSSIBLE;
    gossip_flow_mean(a->values, a->weight, r->chunk, r->count);
    return end(r, a);
}

/* --- Events --------------------------------------------------------------------------------------- */

static int
flow_event(struct replay *r, struct actor *a, struct replay_move *move)
{
    switch (a->note.event) {
    case GOSSIP_ASKED:
    case GOSSIP_ASKED_WHOLE:
        return on_asked(r, a, move);
    case GOSSIP_GAVE:
        return on_gave(r, a, move);
    case GOSSIP_TOOK:
        return on_took(r, a, move);
    case GOSSIP_COPIED:
        return on_copied(r, a, move);
    case GOSSIP_GOT:
        return on_got(r, a, move);
    case GOSSIP_ADOPTED:
    case GOSSIP_RESULT:
        return on_adopted(r, a);
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
    struct replay_move *move = replay_moves_find(&r->moves, a->start->node, &a->note);
    int rc = flow_event(r, a, move);
    if (rc == DONE && move &&
        (replay_moves_takes(&a->note) || (replay_moves_makes(&a->note) && !move->wanted))) {
        free(move->body);
        move->body = NULL;
    }
    return rc;
}

/* replay_gossip.c - see replay_gossip.h. How a run follows from its events: mesh/core/gossip.h. */
#include "node/commands/replay_gossip.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "mesh/core/gossip_flow.h"
#include "mesh/mesh.h"
#include "node/commands/replay_base.h"
#include "node/commands/replay_pieces.h"
#include "node/train/replica.h"

/* One start of a node. */
struct actor {
    const struct replay_start *start;
    struct replay_cursor cursor;
    struct gossip_note note; /* the next event */
    bool over;               /* there is none */
    bool keeps;              /* its last state is needed: a later start went on from it */
    /* A later start in its folder goes on from the checkpoint of this cut; the following is of then: */
    uint64_t cut;
    int64_t *cut_values, *cut_weight; /* NULL: not yet */
    uint8_t *cut_state;
    bool began, computing, mean;
    int64_t *values;
    int64_t *weight, *read_weight; /* [part_count] now, and when `read` was set */
    int32_t *read, *copied;        /* values that were read last; copies that have come */
    struct gossip_task task;
    struct state state;
    bool ended; /* it has a result: */
    char hex[REPLAY_HEX_SIZE];
};

struct replay {
    struct replay_base base;
    struct replay_pieces pieces;
    struct actor *actor; /* [pieces.start_count] */
    bool async, push_sum;
    size_t count, part_size, part_count;
    struct state next; /* scratch, as are the following */
    float *before;
    int32_t *scratch;
    uint64_t steps;
};

enum { DONE = 0, BLOCKED = 1, IMPOSSIBLE = -EBADMSG };

static size_t
first_of(const struct replay *r, size_t part)
{
    return part * r->part_size;
}

static size_t
count_of(const struct replay *r, size_t part)
{
    size_t rest = r->count - first_of(r, part);
    return rest < r->part_size ? rest : r->part_size;
}

/* --- Memory of a node ----------------------------------------------------------------------------- */

static void
forget_values(struct actor *a)
{
    free(a->values);
    free(a->weight);
    free(a->read);
    free(a->copied);
    a->values = a->weight = NULL;
    a->read = a->copied = NULL;
}

static void
forget_cut(struct actor *a)
{
    free(a->cut_values);
    free(a->cut_weight);
    free(a->cut_state);
    a->cut_values = a->cut_weight = NULL;
    a->cut_state = NULL;
}

static void
forget_state(struct actor *a)
{
    if (a->state.block)
        state_fini(&a->state);
}

static int
allocate(const struct replay *r, struct actor *a)
{
    struct state_job job = job_rules(&r->base.job, r->base.config);
    a->values = calloc(r->count, sizeof *a->values);
    a->weight = calloc(2 * r->part_count, sizeof *a->weight);
    a->read_weight = a->weight ? a->weight + r->part_count : NULL;
    a->read = calloc(r->count, sizeof *a->read);
    a->copied = calloc(r->count, sizeof *a->copied);
    if (!a->values || !a->weight || !a->read || !a->copied)
        return -ENOMEM;
    return state_init(&a->state, &job, r->base.job.exact, r->count);
}

static void
set_weights(const struct replay *r, struct actor *a, int64_t weight)
{
    for (size_t p = 0; p < r->part_count; p++)
        a->weight[p] = weight;
}

static void
read_values(const struct replay *r, struct actor *a)
{
    gossip_flow_snapshot(a->read, a->values, r->count);
    memcpy(a->read_weight, a->weight, r->part_count * sizeof *a->weight);
}

/* --- Steps ---------------------------------------------------------------------------------------- */

/* The task that was read, with the values that were read then. base.own gets the update. */
static void
compute(struct replay *r, struct actor *a)
{
    const struct replica replica = {&a->state,    &r->next,  r->base.work,
                                    r->base.pool, r->before, r->async};
    struct state_event event;
    const int32_t *values = a->read;
    if (r->push_sum) {
        gossip_flow_debias(r->scratch, a->read, a->read_weight, r->part_size, r->count);
        values = r->scratch;
    }
    replica_begin(&replica, &a->task, values);
    do
        replica_round(&replica, replica_shards(&replica, &a->task), r->base.own, &event, NULL,
                      NULL);
    while (!event.stepped);
    replica_update(&replica, r->base.own);
    a->computing = false;
    r->steps++;
}

static int
on_read(const struct replay *r, struct actor *a)
{
    if (r->async)
        read_values(r, a);
    for (size_t p = 0; p < r->part_count; p++)
        if (a->read_weight[p] <= 0)
            return IMPOSSIBLE;
    if (a->computing)
        return IMPOSSIBLE;
    a->task = (struct gossip_task){a->note.step, a->note.shards, a->note.total};
    a->computing = true;
    return DONE;
}

static int
on_updated(struct replay *r, struct actor *a)
{
    if (!a->computing)
        return IMPOSSIBLE;
    compute(r, a);
    gossip_flow_add(a->values, r->base.own, r->count);
    return DONE;
}

static int
on_phase(const struct replay *r, struct actor *a)
{
    if (a->computing)
        return IMPOSSIBLE;
    read_values(r, a);
    return DONE;
}

/* --- Beginning, and going on from a checkpoint ---------------------------------------------------- */

/* Is there a time behind the last event of `old` at which its trainer had a state with this hash? It may have computed what
 * its node did not hear any more, or had the result. */
static bool
had_state(struct replay *r, struct actor *old, uint64_t hash)
{
    if (!old->began || !old->state.block)
        return false;
    if (replica_hash(&old->state) == hash)
        return true;
    if (old->computing) {
        compute(r, old);
    } else if (old->ended) {
        gossip_flow_snapshot(r->scratch, old->values, r->count);
        replica_result(&old->state, r->scratch);
    }
    return replica_hash(&old->state) == hash;
}

/* A later start goes on from here. A cut has one name in the whole run, and this node saves it once. */
static int
on_saved(const struct replay *r, struct actor *a)
{
    bool needed = false;
    for (const struct actor *later = a + 1;
         later < r->actor + r->pieces.start_count && later->start->folder == a->start->folder;
         later++)
        needed = needed || later->start->from == a->note.number;
    if (a->computing)
        return IMPOSSIBLE;
    if (!needed)
        return DONE;
    forget_cut(a);
    a->cut = a->note.number;
    a->cut_values = malloc(r->count * sizeof *a->cut_values);
    a->cut_weight = malloc(r->part_count * sizeof *a->cut_weight);
    a->cut_state = malloc(a->state.size);
    if (!a->cut_values || !a->cut_weight || !a->cut_state)
        return -ENOMEM;
    memcpy(a->cut_values, a->values, r->count * sizeof *a->cut_values);
    memcpy(a->cut_weight, a->weight, r->part_count * sizeof *a->cut_weight);
    memcpy(a->cut_state, a->state.block, a->state.size);
    return DONE;
}

/* The start that saved this cut, and went on with another one later or not at all. */
static struct actor *
saver(const struct replay *r, const struct actor *a)
{
    for (struct actor *old = r->actor + (a - r->actor);
         old-- > r->actor && old->start->folder == a->start->folder;)
        if (old->cut == a->note.number && old->cut_values)
            return old;
    return NULL;
}

static void
take_cut(const struct replay *r, struct actor *a, const struct actor *from)
{
    memcpy(a->state.block, from->cut_state, a->state.size);
    memcpy(a->values, from->cut_values, r->count * sizeof *a->values);
    memcpy(a->weight, from->cut_weight, r->part_count * sizeof *a->weight);
    a->began = true;
}

/* The state that the checkpoint had. An earlier start in the same folder made it. */
static int
go_on(struct replay *r, struct actor *a)
{
    for (struct actor *old = a; old-- > r->actor && old->start->folder == a->start->folder;) {
        if (!old->over)
            return BLOCKED;
        if (had_state(r, old, a->note.number)) {
            memcpy(a->state.block, old->state.block, a->state.size);
            return DONE;
        }
    }
    return IMPOSSIBLE;
}

static int
on_began(struct replay *r, struct actor *a)
{
    if (a->began)
        return IMPOSSIBLE;
    int rc = a->values ? 0 : allocate(r, a);
    if (rc)
        return rc;
    const struct actor *from = a->note.number ? saver(r, a) : NULL;
    if (from) {
        take_cut(r, a, from);
        return DONE;
    }
    if (a->note.number == 0)
        job_state(&r->base.job, r->base.config, &a->state);
    else if ((rc = go_on(r, a)) != DONE)
        return rc;
    replica_values(&a->state, r->scratch);
    gossip_flow_set(a->values, r->scratch, r->count);
    set_weights(r, a, GOSSIP_ONE);
    a->began = true;
    return DONE;
}

/* --- Flows ---------------------------------------------------------------------------------------- */

static int32_t *
new_body(const struct replay *r, const struct replay_piece *piece)
{
    return calloc(count_of(r, piece->part), sizeof(int32_t));
}

/* What an exchange of this part is about: the values now, or those of the phase. */
static void
values_of(const struct replay *r, const struct actor *a, size_t part, int32_t *out)
{
    size_t first = first_of(r, part), n = count_of(r, part);
    if (r->async)
        gossip_flow_snapshot(out, a->values + first, n);
    else
        memcpy(out, a->read + first, n * sizeof *out);
}

static int
on_asked(const struct replay *r, const struct actor *a, struct replay_piece *piece)
{
    if (!piece || r->push_sum) /* it was not answered, or its values do not matter */
        return DONE;
    piece->theirs = new_body(r, piece);
    if (!piece->theirs)
        return -ENOMEM;
    values_of(r, a, piece->part, piece->theirs);
    return DONE;
}

static int
on_gave(const struct replay *r, struct actor *a, struct replay_piece *piece)
{
    size_t first = first_of(r, piece->part), n = count_of(r, piece->part);
    if (!r->push_sum && !piece->theirs)
        return BLOCKED;
    if (!(piece->body = new_body(r, piece)))
        return -ENOMEM;
    values_of(r, a, piece->part, r->scratch);
    if (r->push_sum) {
        gossip_flow_share(piece->body, a->values + first, r->scratch, a->note.share, n);
        piece->weight = a->read_weight[piece->part] / a->note.share;
        a->weight[piece->part] -= piece->weight;
    } else {
        gossip_flow_average(piece->body, a->values + first, r->scratch, piece->theirs,
                            a->note.share, n);
    }
    free(piece->theirs);
    piece->theirs = NULL;
    return DONE;
}

static int
on_took(const struct replay *r, struct actor *a, struct replay_piece *piece)
{
    if (!piece->body)
        return BLOCKED;
    if (!gossip_flow_fits(a->weight[piece->part], piece->weight))
        return IMPOSSIBLE;
    gossip_flow_add(a->values + first_of(r, piece->part), piece->body, count_of(r, piece->part));
    a->weight[piece->part] += piece->weight;
    return DONE;
}

/* --- Copies --------------------------------------------------------------------------------------- */

static int
on_copied(const struct replay *r, const struct actor *a, struct replay_piece *piece)
{
    if (!(piece->body = new_body(r, piece)))
        return -ENOMEM;
    gossip_flow_snapshot(piece->body, a->values + first_of(r, piece->part),
                         count_of(r, piece->part));
    piece->weight = a->weight[piece->part];
    return DONE;
}

static int
on_got(const struct replay *r, struct actor *a, const struct replay_piece *piece)
{
    size_t first = first_of(r, piece->part), n = count_of(r, piece->part);
    if (!piece->body)
        return BLOCKED;
    if (a->mean) {
        gossip_flow_add(a->values + first, piece->body, n);
        a->weight[piece->part] += piece->weight;
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
    memcpy(a->weight, a->read_weight, r->part_count * sizeof *a->weight);
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
    gossip_flow_snapshot(r->scratch, a->values, r->count);
    replica_result(&r->next, r->scratch);
    replay_hex(r->next.params, r->count, a->hex);
    return DONE;
}

static int
on_mean(struct replay *r, struct actor *a)
{
    if (!a->mean)
        return IMPOSSIBLE;
    for (size_t p = 0; p < r->part_count; p++)
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

/* --- Doing it again ------------------------------------------------------------------------------- */

static int
exchange(struct replay *r, struct actor *a)
{
    struct replay_piece *piece = replay_pieces_find(&r->pieces, a->start->node, &a->note);
    bool made = a->note.event == GOSSIP_GAVE || a->note.event == GOSSIP_COPIED;
    bool took = a->note.event == GOSSIP_TOOK || a->note.event == GOSSIP_GOT;
    int rc = a->note.event == GOSSIP_ASKED    ? on_asked(r, a, piece)
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

static int
do_event(struct replay *r, struct actor *a)
{
    if (a->note.event != GOSSIP_BEGAN && !a->began)
        return IMPOSSIBLE;
    switch (a->note.event) {
    case GOSSIP_BEGAN:
        return on_began(r, a);
    case GOSSIP_READ:
        return on_read(r, a);
    case GOSSIP_UPDATED:
        return on_updated(r, a);
    case GOSSIP_PHASE:
        return on_phase(r, a);
    case GOSSIP_ASKED:
    case GOSSIP_GAVE:
    case GOSSIP_TOOK:
    case GOSSIP_COPIED:
    case GOSSIP_GOT:
        return exchange(r, a);
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
    case GOSSIP_SAVED:
        return on_saved(r, a);
    case GOSSIP_LOST:
        break;
    }
    return IMPOSSIBLE;
}

static void
go_to_next(const struct replay *r, struct actor *a)
{
    a->over = !replay_pieces_next(&r->pieces, a->start->folder, &a->cursor, &a->note);
    if (!a->over)
        return;
    if (!a->keeps) {
        forget_values(a);
        forget_state(a);
    }
}

/* As far as what it needs is there. Returns how many events were done, or a negative errno. */
static long
advance(struct replay *r, struct actor *a)
{
    long done = 0;
    int rc = DONE;
    while (!a->over && (rc = do_event(r, a)) == DONE) {
        go_to_next(r, a);
        done++;
    }
    return rc < 0 ? rc : done;
}

static int
do_all(struct replay *r, struct why *why)
{
    size_t starts = r->pieces.start_count;
    for (long all = 1, done; all > 0;) {
        all = 0;
        for (size_t s = 0; s < starts; s++, all += done)
            if ((done = advance(r, &r->actor[s])) == -ENOMEM)
                return why_error(why, -ENOMEM, "not enough memory for a replay");
            else if (done < 0)
                return why_error(why, -EBADMSG,
                                 "%s/" JOURNAL_FILE ": the event at byte %zu cannot follow from "
                                 "those before it",
                                 r->pieces.dir[r->actor[s].start->folder],
                                 r->actor[s].cursor.record.at);
    }
    for (size_t s = 0; s < starts; s++)
        if (!r->actor[s].over)
            return why_error(why, -EBADMSG,
                             "the journals contradict one another: the event at byte %zu of "
                             "%s/" JOURNAL_FILE " waits forever",
                             r->actor[s].cursor.record.at,
                             r->pieces.dir[r->actor[s].start->folder]);
    return 0;
}

/* --- Life ----------------------------------------------------------------------------------------- */

static int
open_actors(struct replay *r, struct why *why)
{
    const struct replay_pieces *pieces = &r->pieces;
    r->actor = calloc(pieces->start_count + 1, sizeof *r->actor);
    if (!r->actor)
        return why_error(why, -ENOMEM, "not enough memory for the journals");
    bool keeps = false;
    for (size_t s = pieces->start_count; s-- > 0;) {
        struct actor *a = &r->actor[s];
        a->start = &pieces->start[s];
        a->cursor.record = (struct journal_record){.at = a->start->at, .size = JOURNAL_START_SIZE};
        a->keeps =
            s + 1 < pieces->start_count && pieces->start[s + 1].folder == a->start->folder && keeps;
        keeps = a->keeps || a->start->resumes;
        go_to_next(r, a);
    }
    return 0;
}

static int
open_replay(struct replay *r, const char *const *dir, size_t count, struct why *why)
{
    const struct config *config = r->base.config;
    struct state_job job = job_rules(&r->base.job, config);
    r->count = nn_param_count(r->base.job.model);
    r->part_size = r->count < MESH_CHUNK_ELEMS ? r->count : MESH_CHUNK_ELEMS;
    r->part_count = (r->count + r->part_size - 1) / r->part_size;
    r->async = config->mesh.sync == CONFIG_ASYNC;
    r->push_sum = config->gossip.push_sum;
    r->before = calloc(r->count, sizeof *r->before);
    r->scratch = calloc(r->count, sizeof *r->scratch);
    if (!r->before || !r->scratch || state_init(&r->next, &job, r->base.job.exact, r->count))
        return why_error(why, -ENOMEM, "not enough memory for %zu parameters", r->count);
    const struct replay_rules rules = {
        .job_hash = job_hash(&r->base.job, config),
        .push_sum = r->push_sum,
        .part_count = r->part_count,
        .shards = config->train.shards,
    };
    int rc = replay_pieces_init(&r->pieces, dir, count, &rules, why);
    return rc ? rc : open_actors(r, why);
}

static void
close_replay(struct replay *r)
{
    for (size_t s = 0; r->actor && s < r->pieces.start_count; s++) {
        forget_values(&r->actor[s]);
        forget_state(&r->actor[s]);
        forget_cut(&r->actor[s]);
    }
    if (r->next.block)
        state_fini(&r->next);
    free(r->actor);
    free(r->before);
    free(r->scratch);
    replay_pieces_fini(&r->pieces);
    replay_base_close(&r->base);
}

/* Of each folder the result of its last start that has one. */
static int
tell(const struct replay *r, FILE *out, const char *const *dir, size_t count)
{
    const char *hex[VERIFY_DIRS_MAX] = {NULL};
    for (size_t s = 0; s < r->pieces.start_count; s++)
        if (r->actor[s].ended)
            hex[r->actor[s].start->folder] = r->actor[s].hex;
    fprintf(out, "replay: %llu steps of replicas, by %zu starts of nodes in %zu folders\n",
            (unsigned long long)r->steps, r->pieces.start_count, count);
    return replay_compare(out, hex, dir, count) == 0 ? 0 : 1;
}

int
replay_gossip_run(FILE *out, const struct config *config, const char *const *dir, size_t count)
{
    struct replay replay = {.steps = 0};
    struct why why = {""};
    int rc = sodium_init() < 0 ? -ENOSYS : replay_base_open(&replay.base, config, &why);
    rc = rc ? rc : open_replay(&replay, dir, count, &why);
    rc = rc ? rc : do_all(&replay, &why);
    if (rc)
        fprintf(stderr, "meshnode: %s\n", why.line);
    int status = rc ? 2 : tell(&replay, out, dir, count);
    close_replay(&replay);
    return status;
}

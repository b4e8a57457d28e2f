/* replay_gossip.c - see replay_gossip.h. How a run follows from its events: mesh/core/gossip/gossip.h. */
#include "node/commands/replay_gossip.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "mesh/mesh.h"
#include "node/base/term.h"
#include "node/commands/replay_actor.h"
#include "node/commands/replay_cover.h"

/* --- Memory of a node ----------------------------------------------------------------------------- */

static void
forget_values(struct actor *a)
{
    free(a->values);
    free(a->read);
    free(a->copied);
    a->values = NULL;
    a->read = a->copied = NULL;
}

static void
forget_snapshot(struct actor *a)
{
    free(a->snapshot_values);
    free(a->snapshot_state);
    a->snapshot_values = NULL;
    a->snapshot_state = NULL;
}

static int
allocate(const struct replay *r, struct actor *a)
{
    struct state_job job = job_rules(&r->base.job, r->base.config);
    a->values = calloc(r->count + 2 * r->ranges, sizeof *a->values);
    a->read = calloc(r->count, sizeof *a->read);
    if (!a->values || !a->read)
        return -ENOMEM;
    a->weight = a->values + r->count;
    a->read_weight = a->weight + r->ranges;
    return state_init(&a->state, &job, r->base.job.exact, r->count);
}

/* --- Steps ---------------------------------------------------------------------------------------- */

/* What a line says of a step of a replica, but for the hash of its state, which has the last evaluation in it. */
static struct verify_line
due_line(const struct state_header *h, const struct state_event *event)
{
    return (struct verify_line){.epoch = h->epoch_step ? h->epoch : h->epoch - 1,
                                .first = event->first,
                                .samples = event->samples,
                                .coverage = event->coverage,
                                .rows = event->rows,
                                .ledger = h->ledger,
                                .accuracy = event->accuracy < 0 ? (double)NAN : event->accuracy};
}

static bool
is_last_start(const struct replay *r, const struct replay_start *start)
{
    const struct replay_start *end = r->pieces.start + r->pieces.start_count;
    return start + 1 == end || start[1].folder != start->folder;
}

/* The task that was read, with the values that were read then. `update` gets the update. */
static void
compute_update(struct replay *r, struct actor *a)
{
    const struct replica replica = {&a->state,    &r->next,  r->base.work,
                                    r->base.pool, r->before, r->async};
    struct state_event event;
    const int32_t *values = a->read;
    if (r->push_sum) {
        gossip_flow_debias(r->scratch, a->read, a->read_weight, r->chunk, r->count);
        values = r->scratch;
    }
    replica_begin(&replica, &a->task, values);
    do
        replica_round(&replica, replica_shards(&replica, &a->task), r->base.own, &event, NULL,
                      NULL);
    while (!event.stepped);
    replica_update(&replica, r->update);
    a->computing = false;
    replay_lines_add(&r->lines, &(struct replay_step){.journal = a->start->folder,
                                                      .step = a->state.header->step,
                                                      .loss = replay_lines_loss(event.loss),
                                                      .whole = true,
                                                      .due = due_line(a->state.header, &event),
                                                      .last = is_last_start(r, a->start)});
    replay_progress(&r->base, ++r->steps, r->pieces.read_count, "steps");
}

static int
on_read(const struct replay *r, struct actor *a)
{
    if (r->async)
        read_values(r, a);
    if (!gossip_flow_weighs(a->read_weight, r->ranges) || a->computing)
        return IMPOSSIBLE;
    a->task =
        (struct core_task){.round = a->note.step, .shards = a->note.shards, .known = a->note.total};
    a->computing = true;
    return DONE;
}

static int
on_updated(struct replay *r, struct actor *a)
{
    if (!a->computing)
        return IMPOSSIBLE;
    compute_update(r, a);
    gossip_flow_add(a->values, r->update, r->count);
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

/* Is there a time behind the last event of `old` at which its trainer had a state with this hash? It may have computed
 * what its node did not hear any more, or had the result. */
static bool
had_state(struct replay *r, struct actor *old, uint64_t hash)
{
    if (!old->began || !old->state.block)
        return false;
    if (replica_hash(&old->state) == hash)
        return true;
    if (old->computing) {
        compute_update(r, old);
    } else if (old->ended) {
        gossip_flow_clamp(r->scratch, old->values, r->count);
        replica_result(&old->state, r->scratch);
    }
    return replica_hash(&old->state) == hash;
}

/* A later start goes on from here. A snapshot has one name in the whole run, and this node saves it once. */
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
    forget_snapshot(a);
    a->snapshot = a->note.number;
    a->snapshot_values = malloc((r->count + r->ranges) * sizeof *a->snapshot_values);
    a->snapshot_state = malloc(a->state.size);
    if (!a->snapshot_values || !a->snapshot_state)
        return -ENOMEM;
    memcpy(a->snapshot_values, a->values, (r->count + r->ranges) * sizeof *a->values);
    memcpy(a->snapshot_state, a->state.block, a->state.size);
    return DONE;
}

/* The start that saved this snapshot, and went on with another one later or not at all. */
static struct actor *
saver(const struct replay *r, const struct actor *a)
{
    for (struct actor *old = r->actor + (a - r->actor);
         old-- > r->actor && old->start->folder == a->start->folder;)
        if (old->snapshot == a->note.number && old->snapshot_values)
            return old;
    return NULL;
}

static void
restore(const struct replay *r, struct actor *a, const struct actor *from)
{
    memcpy(a->state.block, from->snapshot_state, a->state.size);
    memcpy(a->values, from->snapshot_values, (r->count + r->ranges) * sizeof *a->values);
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
        restore(r, a, from);
        return DONE;
    }
    struct why why;
    if (a->note.number == 0 && job_state(&r->base.job, r->base.config, &a->state, &why))
        return -EIO;
    if (a->note.number > 0 && (rc = go_on(r, a)) != DONE)
        return rc;
    replica_values(&a->state, r->scratch);
    gossip_flow_set(a->values, r->scratch, r->count);
    set_weights(r, a, GOSSIP_ONE);
    a->began = true;
    return DONE;
}

/* --- Doing it again ------------------------------------------------------------------------------- */

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
    case GOSSIP_SAVED:
        return on_saved(r, a);
    default:
        return replay_flows_do(r, a);
    }
}

static void
go_to_next(const struct replay *r, struct actor *a)
{
    a->over = !replay_pieces_next(&r->pieces, a->start, &a->cursor, &a->note);
    if (!a->over)
        return;
    if (!a->keeps) {
        forget_values(a);
        state_fini(&a->state);
    }
}

/* As far as what it needs is there. Returns how many events were done, or a negative errno. */
static long
advance_actor(struct replay *r, struct actor *a)
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
            if ((done = advance_actor(r, &r->actor[s])) == -ENOMEM)
                return why_error(why, -ENOMEM, "not enough memory for a replay");
            else if (done == -EIO)
                return why_error(why, -EIO, "what the job starts from cannot be read any more");
            else if (done < 0)
                return why_error(why, -EBADMSG,
                                 "%s/" JOURNAL_FILE ": the event at byte %zu cannot follow from "
                                 "those before it",
                                 r->journals.dir[r->actor[s].start->folder],
                                 r->actor[s].cursor.record.at);
    }
    for (size_t s = 0; s < starts; s++)
        if (!r->actor[s].over)
            return why_error(why, -EBADMSG,
                             "the journals contradict one another: the event at byte %zu of "
                             "%s/" JOURNAL_FILE " waits forever",
                             r->actor[s].cursor.record.at,
                             r->journals.dir[r->actor[s].start->folder]);
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
gossip_open_replay(struct replay *r, const struct verify_folders *folders, struct why *why)
{
    const struct config *config = r->base.config;
    struct state_job job = job_rules(&r->base.job, config);
    r->count = nn_param_count(r->base.job.model);
    r->chunk = MESH_CHUNK_ELEMS;
    r->ranges = gossip_flow_ranges(r->count, r->chunk);
    r->async = config->mesh.sync == CONFIG_ASYNC;
    r->push_sum = config->gossip.push_sum;
    r->codes = job_codec(config, &r->codec);
    r->before = calloc(r->count, sizeof *r->before);
    r->scratch = calloc(r->count, sizeof *r->scratch);
    r->update = calloc(r->count, sizeof *r->update);
    if (!r->before || !r->scratch || !r->update ||
        state_init(&r->next, &job, r->base.job.exact, r->count))
        return why_error(why, -ENOMEM, "not enough memory for %zu parameters", r->count);
    const struct replay_rules rules = {
        .push_sum = r->push_sum,
        .shards = config->train.shards,
        .ranges = r->ranges,
    };
    const struct replay_parts parts = replay_parts_of(&r->base.job, config);
    int rc = replay_journals_load(&r->journals, folders, &parts, why);
    rc = rc ? rc : replay_pieces_init(&r->pieces, &r->journals, &rules, why);
    return rc ? rc : open_actors(r, why);
}

static void
gossip_close_replay(struct replay *r)
{
    for (size_t s = 0; r->actor && s < r->pieces.start_count; s++) {
        forget_values(&r->actor[s]);
        state_fini(&r->actor[s].state);
        forget_snapshot(&r->actor[s]);
    }
    state_fini(&r->next);
    free(r->actor);
    free(r->before);
    free(r->scratch);
    free(r->update);
    replay_pieces_fini(&r->pieces);
    replay_journals_unload(&r->journals);
    replay_lines_fini(&r->lines);
    replay_base_close(&r->base);
}

/* A step that the replay did not compute may have a line: its update did not come to the replica any more, or the start
 * ends before it (replay_pieces.h). */
static void
add_begun(struct replay *r, const struct replay_start *start, uint64_t step, uint64_t total)
{
    uint64_t steps = state_steps_total(&r->next), shards = r->base.config->train.shards;
    uint64_t at = r->async ? total / shards : step;
    replay_lines_add(&r->lines, &(struct replay_step){.journal = start->folder,
                                                      .step = at < steps ? at + 1 : steps,
                                                      .loss = (double)NAN});
}

static void
add_behind_end(struct replay *r, const struct replay_start *start)
{
    struct replay_cursor cursor = {.record = {.at = start->at, .size = JOURNAL_START_SIZE}};
    struct replay_start whole = *start;
    struct gossip_note note;
    whole.end = SIZE_MAX;
    while (start->end != SIZE_MAX && replay_pieces_next(&r->pieces, &whole, &cursor, &note))
        if (note.event == GOSSIP_READ && cursor.record.at >= start->end)
            add_begun(r, start, note.step, note.total);
}

static void
gossip_judge_lines(struct replay *r, struct verify_folders *folders)
{
    const struct replay_pieces *pieces = &r->pieces;
    for (size_t k = 0; k < pieces->read_count; k++)
        if (!pieces->read[k].updated)
            add_begun(r, &pieces->start[pieces->read[k].start], pieces->read[k].step,
                      pieces->read[k].total);
    for (size_t s = 0; s < pieces->start_count; s++)
        add_behind_end(r, &pieces->start[s]);
    replay_lines_judge(&r->lines, &r->journals, folders);
}

/* Of each folder the result of its last start that has one. */
static int
gossip_tell_results(struct replay *r, struct verify_folders *folders)
{
    const struct replay_cover cover = {r->base.job.begun, state_steps_total(&r->next),
                                       r->base.config->train.shards, r->async, r->push_sum};
    const char *hex[VERIFY_DIRS_MAX] = {NULL}, *shown = NULL;
    for (size_t s = 0; s < r->pieces.start_count; s++)
        if (r->actor[s].ended)
            shown = hex[r->actor[s].start->folder] = r->actor[s].hex;
    for (size_t k = 0; k < r->journals.count; k++)
        replay_compare(folders, r->journals.dir[k], hex[k]);
    gossip_judge_lines(r, folders);
    verify_amount(folders->out, "replay: ", r->steps, "step of replicas", "steps of replicas");
    verify_amount(folders->out, ", by ", r->pieces.start_count, "start of a node",
                  "starts of nodes");
    verify_amount(folders->out, " in ", folders->count, "folder\n", "folders\n");
    if (replay_cover(&r->pieces, &cover, folders)) {
        term_fail("not enough memory to count shards");
        return 2;
    }
    return replay_verdict(folders, shown);
}

int
replay_gossip_run(struct verify_folders *folders, const struct config *config)
{
    struct replay replay = {.steps = 0};
    struct why why = {""};
    int rc = sodium_init() < 0 ? -ENOSYS
                               : replay_base_open(&replay.base, config, config->train.shards, &why);
    rc = rc ? rc : gossip_open_replay(&replay, folders, &why);
    rc = rc ? rc : do_all(&replay, &why);
    term_fini(&replay.base.term);
    if (rc)
        term_fail("%s", why.line);
    int status = rc ? 2 : gossip_tell_results(&replay, folders);
    gossip_close_replay(&replay);
    return status;
}

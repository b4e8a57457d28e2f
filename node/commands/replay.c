/* replay.c - see replay.h. How a run follows from its events: mesh/core/gossip/gossip.h. */
#include "node/commands/replay.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

#include "mesh/mesh.h"
#include "node/commands/replay_actor.h"
#include "node/commands/replay_cover.h"
#include "proto/clock.h"

enum { PLAIN_MS = 10000 /* between lines on a pipe */ };

/* Less is done before another thread has woken up. */
static const double THREAD_FLOP = 1e8;

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
    struct state_job job = job_rules(&r->job, r->config);
    a->values = calloc(r->count + 2 * r->ranges, sizeof *a->values);
    a->read = calloc(r->count, sizeof *a->read);
    if (!a->values || !a->read)
        return -ENOMEM;
    a->weight = a->values + r->count;
    a->read_weight = a->weight + r->ranges;
    return state_init(&a->state, &job, r->job.exact, r->count);
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
    const struct replay_start *end = r->moves.start + r->moves.start_count;
    return start + 1 == end || start[1].folder != start->folder;
}

/* How far it is: on a terminal in the live line, else once in a while in a line. */
static void
say_steps(struct replay *r)
{
    char line[TERM_LINE_MAX];
    uint64_t done = ++r->steps, all = r->moves.read_count;
    uint64_t now = clock_ms();
    if (!r->term.tty && now < r->next_ms)
        return;
    double left = 1e-3 * (double)(now - r->begun_ms) / (double)done * (double)(all - done);
    snprintf(line, sizeof line, "replay: %ju of %ju steps, %.0f s left", done, all, left);
    if (r->term.tty)
        term_live(&r->term, now, line);
    else
        term_line(&r->term, line);
    r->next_ms = now + PLAIN_MS;
}

/* The task that was read, with the values that were read then. `update` gets the update. */
static void
compute_update(struct replay *r, struct actor *a)
{
    const struct replica replica = {&a->state, &r->next, r->work, r->pool, r->before, r->async};
    struct state_event event;
    const int32_t *values = a->read;
    if (r->push_sum) {
        gossip_flow_debias(r->scratch, a->read, a->read_weight, r->chunk, r->count);
        values = r->scratch;
    }
    replica_begin(&replica, &a->task, values);
    do
        replica_round(&replica, replica_shards(&replica, &a->task), r->own, &event, NULL, NULL);
    while (!event.stepped);
    replica_update(&replica, r->update);
    a->computing = false;
    replay_lines_add(&r->lines, &(struct replay_step){.journal = a->start->folder,
                                                      .step = a->state.header->step,
                                                      .loss = replay_lines_loss(event.loss),
                                                      .whole = true,
                                                      .due = due_line(a->state.header, &event),
                                                      .last = is_last_start(r, a->start)});
    say_steps(r);
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
    if (a->computing)
        return IMPOSSIBLE;
    if (!replay_moves_resumed(&r->moves, a->start, a->note.number))
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
    if (a->note.number == 0 && job_state(&r->job, r->config, &a->state, &why))
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
    a->over = !replay_moves_next(&r->moves, a->start, &a->cursor, &a->note);
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
    size_t starts = r->moves.start_count;
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
    const struct replay_moves *moves = &r->moves;
    r->actor = calloc(moves->start_count + 1, sizeof *r->actor);
    if (!r->actor)
        return why_error(why, -ENOMEM, "not enough memory for the journals");
    bool keeps = false;
    for (size_t s = moves->start_count; s-- > 0;) {
        struct actor *a = &r->actor[s];
        a->start = &moves->start[s];
        a->cursor = replay_moves_begin(a->start);
        a->keeps =
            s + 1 < moves->start_count && moves->start[s + 1].folder == a->start->folder && keeps;
        keeps = a->keeps || a->start->resumes;
        go_to_next(r, a);
    }
    return 0;
}

/* As many threads as the work of a step is worth: they wait for one another a few times in each layer. */
static unsigned
threads_for(const struct replay *r)
{
    double flop = 0;
    for (size_t layer = 0; layer < nn_layer_count(r->job.model); layer++)
        flop += 3.0 * r->config->train.batch * nn_layer_flops(r->job.model, layer);
    double worth = flop / THREAD_FLOP;
    return worth < 1 ? 1 : worth < r->config->threads ? (unsigned)worth : r->config->threads;
}

static int
open_work_again(struct replay *r, struct why *why)
{
    struct work_setup setup = job_work(&r->job, r->config);
    setup.threads = threads_for(r);
    int rc = pool_new(&r->pool, setup.threads);
    setup.pool = r->pool;
    rc = rc ? rc : work_new(&r->work, &setup);
    if (!rc)
        r->own = calloc(work_vector_count(r->work), sizeof *r->own);
    return rc || !r->own ? why_error(why, -ENOMEM, "not enough memory to compute") : 0;
}

static int
open_replay(struct replay *r, const struct verify_folders *folders, struct why *why)
{
    const struct config *config = r->config;
    r->begun_ms = clock_ms();
    r->next_ms = r->begun_ms + PLAIN_MS;
    int rc = job_open(&r->job, config, why);
    rc = rc ? rc : job_start(&r->job, config, why);
    rc = rc ? rc : open_work_again(r, why);
    if (rc)
        return rc;
    struct state_job job = job_rules(&r->job, config);
    r->count = nn_param_count(r->job.model);
    r->chunk = MESH_CHUNK_ELEMS;
    r->ranges = gossip_flow_ranges(r->count, r->chunk);
    r->async = config->mesh.sync == CONFIG_ASYNC;
    r->push_sum = config->gossip.push_sum;
    r->codes = job_codec(config, &r->codec);
    r->before = calloc(r->count, sizeof *r->before);
    r->scratch = calloc(r->count, sizeof *r->scratch);
    r->update = calloc(r->count, sizeof *r->update);
    if (!r->before || !r->scratch || !r->update ||
        state_init(&r->next, &job, r->job.exact, r->count))
        return why_error(why, -ENOMEM, "not enough memory for %zu parameters", r->count);
    const struct replay_rules rules = {
        .push_sum = r->push_sum,
        .shards = config->train.shards,
        .ranges = r->ranges,
    };
    const struct replay_parts parts = replay_parts_of(&r->job, config);
    rc = replay_journals_load(&r->journals, folders, &parts, why);
    rc = rc ? rc : replay_moves_init(&r->moves, &r->journals, &rules, why);
    return rc ? rc : open_actors(r, why);
}

static void
close_replay(struct replay *r)
{
    for (size_t s = 0; r->actor && s < r->moves.start_count; s++) {
        forget_values(&r->actor[s]);
        state_fini(&r->actor[s].state);
        forget_snapshot(&r->actor[s]);
    }
    state_fini(&r->next);
    free(r->actor);
    free(r->before);
    free(r->scratch);
    free(r->update);
    replay_moves_fini(&r->moves);
    replay_journals_unload(&r->journals);
    replay_lines_fini(&r->lines);
    work_destroy(&r->work);
    pool_destroy(&r->pool);
    job_close(&r->job);
    free(r->own);
}

/* A step that the replay did not compute may have a line: its update did not come to the replica any more, or the start
 * ends before it (replay_moves.h). */
static void
add_begun(struct replay *r, const struct replay_start *start, uint64_t step, uint64_t total)
{
    uint64_t steps = state_steps_total(&r->next), shards = r->config->train.shards;
    uint64_t at = r->async ? total / shards : step;
    replay_lines_add(&r->lines, &(struct replay_step){.journal = start->folder,
                                                      .step = at < steps ? at + 1 : steps,
                                                      .loss = (double)NAN});
}

static void
add_behind_end(struct replay *r, const struct replay_start *start)
{
    struct replay_cursor cursor = replay_moves_begin(start);
    struct replay_start whole = *start;
    struct gossip_note note;
    whole.end = SIZE_MAX;
    while (start->end != SIZE_MAX && replay_moves_next(&r->moves, &whole, &cursor, &note))
        if (note.event == GOSSIP_READ && cursor.record.at >= start->end)
            add_begun(r, start, note.step, note.total);
}

static void
judge_lines(struct replay *r, struct verify_folders *folders)
{
    const struct replay_moves *moves = &r->moves;
    for (size_t k = 0; k < moves->read_count; k++)
        if (!moves->read[k].updated)
            add_begun(r, &moves->start[moves->read[k].start], moves->read[k].step,
                      moves->read[k].total);
    for (size_t s = 0; s < moves->start_count; s++)
        add_behind_end(r, &moves->start[s]);
    replay_lines_judge(&r->lines, &r->journals, folders);
}

/* Prints what differs between a folder's result.json and what the replay made of its journal; NULL: no result. */
static void
judge_result(struct verify_folders *folders, const char *dir, const char *hex)
{
    size_t d = 0;
    while (d < folders->count && folders->folder[d].dir != dir)
        d++;
    if (d == folders->count || !folders->folder[d].ended)
        return;
    const char *theirs = folders->folder[d].result.params_sha256;
    if (!hex)
        verify_find(folders, dir, "result.json",
                    "params_sha256 is %s, but the folder's journal does not come to the end",
                    theirs);
    else if (strcmp(theirs, hex) != 0)
        verify_find(folders, dir, "result.json", "params_sha256 is %s, the replay's %s", theirs,
                    hex);
}

/* Of each folder the result of its last start that has one. Returns the exit status. */
static int
tell_results(struct replay *r, struct verify_folders *folders)
{
    const struct replay_cover cover = {r->job.begun, state_steps_total(&r->next),
                                       r->config->train.shards, r->async, r->push_sum};
    const char *hex[VERIFY_DIRS_MAX] = {NULL}, *shown = NULL;
    for (size_t s = 0; s < r->moves.start_count; s++)
        if (r->actor[s].ended)
            shown = hex[r->actor[s].start->folder] = r->actor[s].hex;
    for (size_t k = 0; k < r->journals.count; k++)
        judge_result(folders, r->journals.dir[k], hex[k]);
    judge_lines(r, folders);
    verify_amount(folders->out, "replay: ", r->steps, "step of replicas", "steps of replicas");
    verify_amount(folders->out, ", by ", r->moves.start_count, "start of a node",
                  "starts of nodes");
    verify_amount(folders->out, " in ", folders->count, "folder\n", "folders\n");
    if (replay_cover(&r->moves, &cover, folders)) {
        term_fail("not enough memory to count shards");
        return 2;
    }
    verify_folders_tell(folders);
    if (verify_folders_verdict(folders))
        fprintf(folders->out, "; the replay's sha256 %s\n", shown ? shown : "none");
    else
        fprintf(folders->out, "replay: sha256 %s, %s\n", shown ? shown : "none",
                folders->results ? "as in every result" : "as no folder has a result");
    return folders->findings || folders->results == 0;
}

int
replay_run(struct verify_folders *folders, const struct config *config)
{
    struct replay replay = {.config = config};
    struct why why = {""};
    if (config_way(config) != CONFIG_GOSSIP) {
        term_fail("%s: mesh.sync = bsp needs no replay: its result is the same whatever happens",
                  folders->folder[folders->first].dir);
        return 2;
    }
    term_init(&replay.term, STDERR_FILENO);
    int rc = sodium_init() < 0 ? -ENOSYS : open_replay(&replay, folders, &why);
    rc = rc ? rc : do_all(&replay, &why);
    term_fini(&replay.term);
    if (rc)
        term_fail("%s", why.line);
    int status = rc ? 2 : tell_results(&replay, folders);
    close_replay(&replay);
    return status;
}

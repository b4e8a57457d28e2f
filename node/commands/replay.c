/* replay.c - see replay.h. */
#include "node/commands/replay.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "node/base/term.h"
#include "node/commands/replay_base.h"
#include "node/commands/replay_gossip.h"
#include "node/commands/replay_index.h"
#include "node/commands/replay_lines.h"
#include "node/commands/replay_staleness.h"
#include "node/train/push_ranges.h"
#include "node/train/state_internal.h"

struct replay {
    struct replay_base base;
    struct replay_journals journals;
    struct state state, store; /* a worker's, and the memory of `held` */
    struct push_ranges ranges;
    struct push_held held;
    struct replay_index index;
    size_t *at;     /* [ranges] links of its chain that are done */
    size_t **next;  /* [ranges]: places at which gradients were computed, and whose: readers_of */
    size_t *served; /* [ranges] readers that are served */
    size_t reader_count;
    size_t computed;
};

/* --- Computing ---------------------------------------------------------------------------------------- */

/* What was computed with base.own, for each range. */
static int
keep_gradient(struct replay *replay, struct replay_computed *c)
{
    const struct push_ranges *ranges = &replay->ranges;
    size_t most = 0;
    for (unsigned r = 0; r < ranges->count; r++)
        most += ranges->size[r].gradient;
    c->at = calloc(ranges->count + 1, sizeof *c->at);
    c->gradient = malloc(most);
    if (!c->at || !c->gradient)
        return -ENOMEM;
    for (unsigned r = 0; r < ranges->count; r++)
        c->at[r + 1] =
            c->at[r] + push_ranges_gradient(ranges, r, replay->base.own, replay->state.exponent,
                                            c->gradient + c->at[r]);
    uint8_t *less = realloc(c->gradient, c->at[ranges->count]);
    c->gradient = less ? less : c->gradient;
    return 0;
}

static void
drop_gradient(struct replay_computed *c)
{
    free(c->gradient);
    free(c->at);
    c->gradient = NULL;
    c->at = NULL;
}

/* All that it was computed from is there. */
static int
compute_ticket(struct replay *replay, struct replay_computed *c)
{
    const struct push_ranges *ranges = &replay->ranges;
    memcpy(replay->state.params, c->params, ranges->param_count * sizeof *c->params);
    push_shard_compute(replay->base.work, &replay->state, &replay->ranges.step, c->exponent,
                       c->ticket, replay->base.own);
    const int32_t *tail = replay->base.own + ranges->param_count;
    c->loss = replay_lines_loss(state_tail_mean(tail));
    c->samples = (uint64_t)tail[TAIL_SAMPLES];
    double labels = (double)c->samples * (double)replay->state.job.labels;
    c->accuracy = labels > 0 ? tail[TAIL_CORRECT] / labels : (double)NAN;
    int rc = keep_gradient(replay, c);
    free(c->params);
    free(c->exponent);
    c->params = NULL;
    c->exponent = NULL;
    replay_progress(&replay->base, ++replay->computed, replay->reader_count, "gradients");
    return rc;
}

/* A worker reads a range as it is now. */
static int
give_range(struct replay *replay, struct replay_computed *c, unsigned range)
{
    const struct push_ranges *ranges = &replay->ranges;
    if (!c->params) {
        c->params = calloc(ranges->param_count, sizeof *c->params);
        c->exponent = calloc(ranges->block_count, sizeof *c->exponent);
    }
    uint8_t *value = malloc(ranges->size[range].value);
    if (!c->params || !c->exponent || !value) {
        free(value);
        return -ENOMEM;
    }
    push_ranges_value(ranges, &replay->held, range, false, value);
    push_ranges_read(ranges, range, false, value, c->params, c->exponent);
    free(value);
    return --c->missing == 0 ? compute_ticket(replay, c) : 0;
}

/* --- Readers: which gradients were computed from which place of a chain ------------------------------- */

static int
pair_order(const void *a, const void *b)
{
    const size_t *x = a, *y = b;
    return replay_order(x[0], y[0]);
}

/* Pairs of place and index of the gradient, by place. */
static int
readers_of(struct replay *replay, unsigned range, struct why *why)
{
    struct replay_index *index = &replay->index;
    size_t *pair = calloc(2 * replay->reader_count + 2, sizeof *pair), n = 0;
    if (!pair)
        return why_error(why, -ENOMEM, "not enough memory for the journals");
    replay->next[range] = pair;
    for (size_t k = 0; k < index->computed_count; k++) {
        if (!index->computed[k].needed)
            continue;
        size_t place = replay_index_place(index, &index->computed[k], range);
        if (place == SIZE_MAX)
            return why_error(why, -ENOTSUP,
                             "ticket %llu was computed from values of range %u that were lost "
                             "later: what is not in the model cannot be replayed",
                             (unsigned long long)index->computed[k].ticket, range);
        pair[2 * n] = place;
        pair[2 * n++ + 1] = k;
    }
    qsort(pair, n, 2 * sizeof *pair, pair_order);
    return 0;
}

static int
serve(struct replay *replay, unsigned range)
{
    const size_t *pair = replay->next[range];
    size_t *served = &replay->served[range];
    int rc = 0;
    for (; *served < replay->reader_count && pair[2 * *served] == replay->at[range] && !rc;
         ++*served)
        rc = give_range(replay, &replay->index.computed[pair[2 * *served + 1]], range);
    return rc;
}

/* --- Replaying ---------------------------------------------------------------------------------------- */

static void
take_update(struct replay *replay, unsigned range, struct replay_link *link)
{
    struct replay_computed *c = link->computed;
    const struct push_ranges *ranges = &replay->ranges;
    if (link->restored) {
        push_ranges_restore(ranges, &replay->held, range, replay->held.params,
                            replay->held.exponent);
        return;
    }
    push_ranges_take(ranges, &replay->held, &link->taken, c->gradient + c->at[range],
                     c->at[range + 1] - c->at[range]);
    if (link->ends_part)
        push_ranges_begin(ranges, &replay->held, range, replay->held.params, NULL,
                          replay->held.exponent);
    if (--c->left == 0)
        drop_gradient(c);
}

/* As far as the gradients are there. Returns how many links, or a negative errno. */
static long
advance_range(struct replay *replay, unsigned range)
{
    struct replay_index *index = &replay->index;
    long done = 0;
    int rc = serve(replay, range);
    while (!rc && replay->at[range] < index->length[range]) {
        struct replay_link *link = index->chain[range][replay->at[range]];
        if (!link->restored && !link->computed->gradient)
            break;
        take_update(replay, range, link);
        replay->at[range]++;
        done++;
        rc = serve(replay, range);
    }
    return rc ? rc : done;
}

static int
run_chains(struct replay *replay, struct why *why)
{
    long done, all = 1;
    for (; all > 0;) {
        all = 0;
        for (unsigned r = 0; r < replay->ranges.count; r++, all += done)
            if ((done = advance_range(replay, r)) < 0)
                return why_error(why, (int)done, "not enough memory for a replay");
    }
    for (unsigned r = 0; r < replay->ranges.count; r++)
        if (replay->at[r] < replay->index.length[r])
            return why_error(why, -EBADMSG, "the journals contradict one another in range %u", r);
    return 0;
}

/* --- Tickets ------------------------------------------------------------------------------------------ */

/* Of a range: how many it has not, and how many it has more than once. */
static void
count_tickets(const struct replay_index *index, unsigned range, uint8_t *seen, uint64_t first,
              uint64_t tickets, uint64_t *missing, uint64_t *doubled)
{
    uint64_t taken = first;
    memset(seen, 0, tickets);
    memset(seen, 1, first);
    for (size_t k = 0; k < index->length[range]; k++) {
        const struct replay_link *link = index->chain[range][k];
        if (link->restored)
            continue;
        taken += seen[link->taken.ticket] == 0;
        *doubled += seen[link->taken.ticket] == 1;
        seen[link->taken.ticket] += seen[link->taken.ticket] < 2;
    }
    *missing += tickets - taken;
}

/* What the results say is lost of the model. */
static void
judge_lost(struct verify_folders *folders, uint64_t missing)
{
    for (size_t d = 0; d < folders->count; d++) {
        const struct verify_folder *folder = &folders->folder[d];
        if (folder->ended && folder->result.lost != missing)
            verify_find(folders, folder->dir, "result.json",
                        "lost is %llu, but %llu tickets are not in the model",
                        (unsigned long long)folder->result.lost, (unsigned long long)missing);
    }
}

/* Says whether each ticket is in the model, once. False: there is no memory for it. */
static bool
tell_tickets(const struct replay *replay, struct verify_folders *folders)
{
    uint64_t tickets = state_steps_total(&replay->store) * replay->ranges.step.tickets;
    uint64_t missing = 0, doubled = 0, first = replay->ranges.first;
    unsigned ranges = replay->ranges.count;
    uint8_t *seen = malloc(tickets);
    if (!seen) {
        term_fail("not enough memory to count %llu tickets", (unsigned long long)tickets);
        return false;
    }
    for (unsigned r = 0; r < ranges; r++)
        count_tickets(&replay->index, r, seen, first, tickets, &missing, &doubled);
    free(seen);
    if (missing || doubled)
        fprintf(folders->out,
                "replay: of %llu tickets in each of %u ranges, %llu are lost and %llu doubled\n",
                (unsigned long long)(tickets - first), ranges, (unsigned long long)missing,
                (unsigned long long)doubled);
    else
        fprintf(folders->out, "replay: %llu tickets, each once in each of %u ranges\n",
                (unsigned long long)(tickets - first), ranges);
    folders->findings += doubled > 0;
    if (!doubled)
        judge_lost(folders, missing);
    return true;
}

/* --- Life --------------------------------------------------------------------------------------------- */

static int
open_states(struct replay *replay, struct why *why)
{
    const struct config *config = replay->base.config;
    struct state_job job = job_rules(&replay->base.job, config);
    size_t params = nn_param_count(replay->base.job.model);
    const struct push_step step = push_step_of(config);
    if (state_init(&replay->state, &job, replay->base.job.exact, params) ||
        state_init(&replay->store, &job, replay->base.job.exact, params) ||
        push_ranges_init(&replay->ranges, &replay->store, &step, replay->base.job.begun) ||
        push_held_init(&replay->held, &replay->store, &replay->ranges))
        return why_error(why, -ENOMEM, "not enough memory for %zu parameters", params);
    int rc = job_state(&replay->base.job, config, &replay->store, why);
    if (rc)
        return rc;
    replay->at = calloc(replay->ranges.count, sizeof *replay->at);
    replay->next = calloc(replay->ranges.count, sizeof *replay->next);
    replay->served = calloc(replay->ranges.count, sizeof *replay->served);
    return replay->at && replay->next && replay->served
               ? 0
               : why_error(why, -ENOMEM, "not enough memory for a replay");
}

static int
open_readers(struct replay *replay, struct why *why)
{
    struct replay_index *index = &replay->index;
    int rc = 0;
    uint64_t tickets = state_steps_total(&replay->store) * replay->ranges.step.tickets;
    for (size_t k = 0; k < index->computed_count; k++) {
        if (index->computed[k].needed && index->computed[k].ticket >= tickets)
            return why_error(why, -EBADMSG, "a journal has ticket %llu, the job only %llu",
                             (unsigned long long)index->computed[k].ticket,
                             (unsigned long long)tickets);
        replay->reader_count += index->computed[k].needed;
        index->computed[k].missing = index->ranges;
    }
    for (unsigned r = 0; r < index->ranges && !rc; r++)
        rc = readers_of(replay, r, why);
    return rc;
}

static int
open_replay(struct replay *replay, const struct config *config,
            const struct verify_folders *folders, struct why *why)
{
    const struct push_step step = push_step_of(config);
    int rc = replay_base_open(&replay->base, config, step.each, why);
    rc = rc ? rc : open_states(replay, why);
    const struct replay_parts parts =
        rc ? (struct replay_parts){.count = 0} : replay_parts_of(&replay->base.job, config);
    rc = rc ? rc : replay_journals_load(&replay->journals, folders, &parts, why);
    const struct replay_job job = {.ranges = replay->ranges.count,
                                   .group = replay->ranges.step.group,
                                   .hash = parts.job[0],
                                   .first = replay->ranges.first};
    rc = rc ? rc : replay_index_init(&replay->index, &replay->journals, &job, why);
    return rc ? rc : open_readers(replay, why);
}

static void
close_replay(struct replay *replay)
{
    for (unsigned r = 0; replay->next && r < replay->ranges.count; r++)
        free(replay->next[r]);
    replay_index_fini(&replay->index);
    replay_journals_unload(&replay->journals);
    push_ranges_fini(&replay->ranges);
    state_fini(&replay->state);
    state_fini(&replay->store);
    replay_base_close(&replay->base);
    free(replay->held.sum);
    free(replay->at);
    free(replay->next);
    free(replay->served);
}

static struct verify_line
due_of(const struct replay *replay, const struct replay_computed *c)
{
    uint64_t step = c->ticket / replay->ranges.step.tickets;
    return (struct verify_line){.epoch = step / state_epoch_steps(&replay->store.job),
                                .samples = c->samples,
                                .accuracy = c->accuracy};
}

/* By the last start of its node? */
static bool
by_last_start(const struct replay_index *index, const struct replay_computed *c)
{
    return proto_node_equal(index->last[c->journal], c->who);
}

static void
judge_lines(const struct replay *replay, struct verify_folders *folders)
{
    const struct replay_index *index = &replay->index;
    struct replay_lines lines = {.count = 0};
    for (size_t k = 0; k < index->computed_count; k++) {
        const struct replay_computed *c = &index->computed[k];
        const struct replay_step step = {.journal = c->journal,
                                         .step = c->ticket / replay->ranges.step.tickets + 1,
                                         .shards =
                                             push_step_shards(&replay->ranges.step, c->ticket),
                                         .loss = c->loss,
                                         .whole = !isnan(c->loss),
                                         .due = due_of(replay, c),
                                         .last = by_last_start(index, c)};
        replay_lines_add(&lines, &step);
    }
    replay_lines_judge(&lines, &replay->journals, folders);
    replay_lines_fini(&lines);
}

static int
tell_results(struct replay *replay, struct verify_folders *folders)
{
    char hex[REPLAY_HEX_SIZE];
    FILE *out = folders->out;
    model_file_sha256(replay->held.params, replay->ranges.param_count * sizeof(float), hex);
    for (size_t k = 0; k < replay->journals.count; k++)
        replay_compare(folders, replay->journals.dir[k], replay->index.ended[k] ? hex : NULL);
    judge_lines(replay, folders);
    verify_amount(out, "replay: ", replay->computed, "gradient", "gradients");
    verify_amount(out, ", by ", replay->index.starts, "start of a node", "starts of nodes");
    verify_amount(out, " in ", folders->count, "folder\n", "folders\n");
    bool told = tell_tickets(replay, folders);
    replay_staleness(out, &replay->index);
    return told ? replay_verdict(folders, hex) : 2;
}

static int
replay_push(struct verify_folders *folders, const struct config *config)
{
    struct replay replay = {.reader_count = 0};
    struct why why = {""};
    int rc = sodium_init() < 0 ? -ENOSYS : open_replay(&replay, config, folders, &why);
    if (!rc)
        replay_staleness_judge(&replay.index, folders);
    rc = rc ? rc : run_chains(&replay, &why);
    term_fini(&replay.base.term);
    if (rc)
        term_fail("%s", why.line);
    int status = rc ? 2 : tell_results(&replay, folders);
    close_replay(&replay);
    return status;
}

static int
replay_rounds(struct verify_folders *folders, const struct config *config)
{
    (void)config;
    term_fail("%s: mesh.sync = bsp needs no replay: its result is the same whatever happens",
              folders->folder[folders->first].dir);
    return 2;
}

int
replay_run(struct verify_folders *folders, const struct config *config)
{
    static int (*const replays[])(struct verify_folders *, const struct config *) = {
        [CONFIG_ROUNDS] = replay_rounds,
        [CONFIG_PUSH] = replay_push,
        [CONFIG_GOSSIP] = replay_gossip_run,
    };
    return replays[config_way(config)](folders, config);
}

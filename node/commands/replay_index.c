/* replay_index.c - see replay_index.h. */
#include "node/commands/replay_index.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "node/commands/replay_base.h"
#include "proto/bytes.h"

/* --- Reading ---------------------------------------------------------------------------------------- */

static uint64_t
index_word(const uint8_t *data, size_t k)
{
    struct bytes_in in = bytes_in(data + 8 * k, 8);
    return bytes_u64(&in);
}

/* First pass: how many there are. Second: what they say. */
static void
add_link(struct replay_index *index, size_t journal, const struct journal_record *r,
         const struct push_taken *taken)
{
    if (index->link)
        index->link[index->link_count] = (struct replay_link){
            .taken = *taken,
            .restored = r->type == PUSH_NOTE_RESTORED,
            .journal = journal,
            .at = r->at,
        };
    index->link_count++;
}

static bool
add_computed(struct replay_index *index, size_t journal, const struct journal_record *r)
{
    struct replay_computed computed = {
        .who = {r->id, r->incarnation}, .journal = journal, .loss = (double)NAN};
    bool good = push_journal_get_computed(&index->said, r->data, r->size, &computed.ticket,
                                          &computed.number, &computed.history);
    if (index->computed)
        index->computed[index->computed_count] = computed;
    index->computed_count++;
    return good;
}

static bool
add_final(struct replay_index *index, size_t journal, const struct journal_record *r)
{
    if (r->size != 8 * (size_t)index->ranges)
        return false;
    if (r->job_hash != index->job.hash) {
        if (index->earlier)
            index->earlier[index->earlier_count] = r->data;
        index->earlier_count++;
        return true;
    }
    index->ended[journal] = true;
    for (unsigned k = 0; k < index->ranges; k++)
        index->final[k] = index_word(r->data, k);
    return true;
}

/* False: no node of this job wrote it. */
static bool
add_record(struct replay_index *index, size_t journal, const struct journal_record *r)
{
    struct push_taken taken;
    bool good = r->type == JOURNAL_START;
    if (r->type == JOURNAL_START) {
        index->starts++;
        index->last[journal] = (struct proto_node){r->id, r->incarnation};
        push_journal_start(&index->said);
    } else if (r->type == PUSH_NOTE_COMPUTED) {
        good = add_computed(index, journal, r);
    } else if (r->type == PUSH_NOTE_TAKEN) {
        good = push_journal_get_taken(&index->said, r->data, r->size, &taken);
        add_link(index, journal, r, &taken);
    } else if (r->type == PUSH_NOTE_RESTORED) {
        good = push_journal_get_restored(&index->said, r->data, r->size, &taken);
        add_link(index, journal, r, &taken);
    } else if (r->type == PUSH_NOTE_FINAL) {
        good = add_final(index, journal, r);
    }
    return good;
}

static int
pass(struct replay_index *index, struct why *why)
{
    const struct replay_journals *journals = index->journals;
    index->link_count = index->computed_count = index->earlier_count = index->starts = 0;
    for (size_t t = 0; t < journals->count; t++) {
        struct journal_record record = {0};
        while (journal_next(&journals->text[t], &record))
            if (!add_record(index, t, &record))
                return why_error(why, -EBADMSG,
                                 "%s/" JOURNAL_FILE
                                 ": the record of type %u at byte %zu is not of this job",
                                 journals->dir[t], record.type, record.at);
    }
    return 0;
}

/* --- Finding ---------------------------------------------------------------------------------------- */

static int
link_order(const void *a, const void *b)
{
    const struct replay_link *x = a, *y = b;
    int by_range = replay_order(x->taken.range, y->taken.range);
    return by_range ? by_range : replay_order(x->taken.after, y->taken.after);
}

static int
computed_order(const void *a, const void *b)
{
    const struct replay_computed *x = a, *y = b;
    int rc = replay_node_order(x->who, y->who);
    return rc ? rc : replay_order(x->number, y->number);
}

static struct replay_link *
find_link(const struct replay_index *index, unsigned range, uint64_t after)
{
    const struct replay_link key = {.taken = {.range = range, .after = after}};
    return bsearch(&key, index->link, index->link_count, sizeof key, link_order);
}

static struct replay_computed *
find_computed(const struct replay_index *index, const struct push_taken *taken)
{
    const struct replay_computed key = {.who = taken->who, .number = taken->number};
    return bsearch(&key, index->computed, index->computed_count, sizeof key, computed_order);
}

/* Of links that say the same, written by owner and backup, one stays. */
static void
drop_twins(struct replay_index *index)
{
    size_t count = 0;
    for (size_t k = 0; k < index->link_count; k++)
        if (count == 0 || link_order(&index->link[count - 1], &index->link[k]) != 0)
            index->link[count++] = index->link[k];
    index->link_count = count;
}

/* Something is in no journal. */
static int
missing(const struct replay_index *index, struct why *why)
{
    struct replay_names names = {.count = 0};
    for (size_t k = 0; k < index->link_count; k++)
        if (!index->link[k].restored)
            replay_names_add(&names, index->link[k].taken.who.id);
    replay_names_tell(&names, index->journals, why);
    return -ENOENT;
}

static int
chain_length(struct replay_index *index, unsigned range, struct why *why)
{
    uint64_t history = index->final[range];
    size_t length = 0;
    for (; history != push_first_history(range); length++) {
        struct replay_link *link = find_link(index, range, history);
        if (!link || length > index->link_count) {
            why_set(why, "no journal says how range %u came to history %016llx", range,
                    (unsigned long long)history);
            return missing(index, why);
        }
        history = link->taken.before;
    }
    index->length[range] = length;
    return 0;
}

/* Finds the gradient that a link took. */
static int
join(struct replay_index *index, struct replay_link *link, struct why *why)
{
    const struct push_taken *taken = &link->taken;
    struct replay_computed *computed = link->computed = find_computed(index, taken);
    if (!computed) {
        why_set(why, "no journal says from what node %016llx computed ticket %llu",
                (unsigned long long)taken->who.id, (unsigned long long)taken->ticket);
        return missing(index, why);
    }
    if (computed->ticket != taken->ticket)
        return why_error(
            why, -EBADMSG, "the journals contradict one another: ticket %llu or %llu in range %u",
            (unsigned long long)taken->ticket, (unsigned long long)computed->ticket, taken->range);
    computed->needed = true;
    computed->left++;
    return 0;
}

static bool
ends_part(const struct replay_index *index, const struct replay_link *link)
{
    for (size_t k = 0; k < index->earlier_count; k++)
        if (index_word(index->earlier[k], link->taken.range) == link->taken.after)
            return true;
    return false;
}

static int
chain_of(struct replay_index *index, unsigned range, struct why *why)
{
    int rc = chain_length(index, range, why);
    if (rc)
        return rc;
    struct replay_link **chain = calloc(index->length[range] + 1, sizeof *chain);
    if (!chain)
        return why_error(why, -ENOMEM, "not enough memory for the journals");
    index->chain[range] = chain;
    uint64_t history = index->final[range], count = index->job.first;
    for (size_t k = index->length[range]; k > 0; k--) {
        struct replay_link *link = chain[k - 1] = find_link(index, range, history);
        history = link->taken.before;
        link->place = k;
        link->ends_part = ends_part(index, link);
        if (!link->restored && (rc = join(index, link, why)))
            return rc;
    }
    for (size_t k = 0; k < index->length[range]; k++)
        chain[k]->count = count += !chain[k]->restored;
    return 0;
}

size_t
replay_index_place(const struct replay_index *index, const struct replay_computed *computed,
                   unsigned range)
{
    uint64_t history = index_word(computed->history, range);
    if (history == push_first_history(range))
        return 0;
    const struct replay_link *link = find_link(index, range, history);
    return link && link->place ? link->place : SIZE_MAX;
}

uint64_t
replay_index_tau(const struct replay_index *index, const struct replay_link *link)
{
    unsigned range = link->taken.range, group = index->job.group;
    size_t place = replay_index_place(index, link->computed, range);
    uint64_t before = link->count - 1;
    uint64_t read = place ? index->chain[range][place - 1]->count : index->job.first;
    return before / group - (read < before ? read : before) / group;
}

/* The last one of a part of the run completes an update that has fewer gradients. */
bool
replay_index_updates(const struct replay_index *index, const struct replay_link *link)
{
    bool last = link->place == index->length[link->taken.range];
    return link->count % index->job.group == 0 ||
           ((last || link->ends_part) && link->taken.updates);
}

/* --- Life --------------------------------------------------------------------------------------------- */

static int
fill_index(struct replay_index *index, struct why *why)
{
    bool any = false;
    int rc = pass(index, why);
    if (rc)
        return rc;
    index->link = calloc(index->link_count + 1, sizeof *index->link);
    index->computed = calloc(index->computed_count + 1, sizeof *index->computed);
    index->earlier = calloc(index->earlier_count + 1, sizeof *index->earlier);
    if (!index->link || !index->computed || !index->earlier)
        return why_error(why, -ENOMEM, "not enough memory for the journals");
    rc = pass(index, why);
    for (unsigned r = 0; r < index->ranges; r++)
        any |= index->final[r] != 0;
    if (rc || !any)
        return rc ? rc : why_error(why, -ENOENT, "no journal has the end of the run");
    qsort(index->link, index->link_count, sizeof *index->link, link_order);
    qsort(index->computed, index->computed_count, sizeof *index->computed, computed_order);
    drop_twins(index);
    for (unsigned r = 0; r < index->ranges && !rc; r++)
        rc = chain_of(index, r, why);
    return rc;
}

int
replay_index_init(struct replay_index *index, const struct replay_journals *journals,
                  const struct replay_job *job, struct why *why)
{
    *index = (struct replay_index){.journals = journals, .job = *job, .ranges = job->ranges};
    int said = push_journal_init(&index->said, job->ranges);
    index->final = calloc(job->ranges, sizeof *index->final);
    index->chain = calloc(job->ranges, sizeof *index->chain);
    index->length = calloc(job->ranges, sizeof *index->length);
    if (said || !index->final || !index->chain || !index->length)
        return why_error(why, -ENOMEM, "not enough memory for the journals");
    return fill_index(index, why);
}

void
replay_index_fini(struct replay_index *index)
{
    for (size_t k = 0; index->computed && k < index->computed_count; k++) {
        free(index->computed[k].params);
        free(index->computed[k].exponent);
        free(index->computed[k].gradient);
    }
    for (unsigned r = 0; index->chain && r < index->ranges; r++)
        free(index->chain[r]);
    push_journal_fini(&index->said);
    free(index->link);
    free(index->computed);
    free(index->earlier);
    free(index->final);
    free(index->chain);
    free(index->length);
}

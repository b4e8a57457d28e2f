/* gossip_judge.c - the oracle of the engine gossip: it keeps the books of all values.
 *
 * It follows the journal of each node with arithmetic of its own: whatever a core says that it did is done here, too,
 * and after each event the core must have the values and weights that follow. A flow must be the one that the values of
 * its two ends give, with the weight of the graph; it is taken once, by whom it was given to, as it was given. When
 * values go into the last mean, nothing is under way to them. gossip_verdict.c says what must be so at the end. */
#include <inttypes.h>
#include <string.h>

#include "mesh/core/internal.h"
#include "proto/mix.h"
#include "tests/sim/gossip_books.h"

struct gossip_book sim_gossip_book;

void
sim_gossip_judge_begin(struct sim *sim)
{
    (void)sim;
    for (unsigned r = 0; r < sim_gossip_book.used; r++)
        sim_gossip_book.records[sim_gossip_book.name[r]].key = 0;
    sim_gossip_book.used = 0;
    sim_gossip_book.computed = 0;
    memset(&sim_gossip_book.snapshot, 0, sizeof sim_gossip_book.snapshot);
    memset(sim_gossip_book.of, 0, sizeof sim_gossip_book.of);
    memset(sim_gossip_book.ledger, 0, sizeof sim_gossip_book.ledger);
    memset(sim_gossip_book.dead, 0, sizeof sim_gossip_book.dead);
}

static size_t
first_of(size_t range)
{
    return range * sim_gossip_chunk;
}

static size_t
count_of(size_t range)
{
    size_t rest = sim_gossip_config.count - first_of(range);
    return rest < sim_gossip_chunk ? rest : sim_gossip_chunk;
}

static int32_t
clamp(int64_t value)
{
    return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (int32_t)value;
}

static uint64_t
key_of(struct proto_node from, struct proto_node to, const struct gossip_note *note)
{
    uint64_t ends =
        mix64_pair(mix64_pair(from.id, from.incarnation), mix64_pair(to.id, to.incarnation));
    return mix64_pair(mix64_pair(ends, note->link), note->number) | 1;
}

/* Each node numbers the copies that it gives. */
static uint64_t
copy_key(struct proto_node from, const struct gossip_note *note)
{
    const struct gossip_note copy = {.number = note->number};
    return key_of(from, (struct proto_node){0, 0}, &copy);
}

/* The record of this name; NULL if there is none. */
static struct record *
look_up(uint64_t key)
{
    uint64_t at = key >> 1;
    while (sim_gossip_book.records[at % RECORDS].key &&
           sim_gossip_book.records[at % RECORDS].key != key)
        at++;
    return sim_gossip_book.records[at % RECORDS].key ? &sim_gossip_book.records[at % RECORDS]
                                                     : NULL;
}

/* NULL: there is no more room. */
static struct record *
record_new(struct sim *sim, uint64_t key)
{
    uint64_t at = key >> 1;
    while (sim_gossip_book.records[at % RECORDS].key)
        at++;
    if (sim_gossip_book.used == RECORDS / 4 * 3) {
        sim_fail(sim, "the oracle has no more room");
        return NULL;
    }
    sim_gossip_book.name[sim_gossip_book.used++] = at % RECORDS;
    sim_gossip_book.records[at % RECORDS] = (struct record){.key = key};
    return &sim_gossip_book.records[at % RECORDS];
}

static struct proto_node
self_of(const struct sim_node *node)
{
    return (struct proto_node){node->id, node->incarnation};
}

/* --- What happens at one node -------------------------------------------------------------------- */

/* Values that are there without an update. */
static void
appear(struct books *books, size_t k, int64_t value)
{
    sim_gossip_book.ledger[k] += value - books->value[k];
    books->value[k] = value;
}

static void
set_weights(struct books *books, int64_t weight)
{
    for (size_t p = 0; p < sim_gossip_ranges(); p++)
        books->weight[p] = weight;
}

static void
on_began(struct sim *sim, struct sim_node *node)
{
    struct books *books = &sim_gossip_book.of[node->index];
    for (size_t k = 0; k < sim_gossip_config.count; k++)
        sim_gossip_book.dead[k] += books->value[k];
    memset(books, 0, sizeof *books);
    books->incarnation = node->incarnation;
    const struct sim_gossip_file *disk = &sim_gossip_disk[node->index];
    for (size_t k = 0; k < sim_gossip_config.count; k++)
        appear(books, k, disk->there ? disk->values[k] : sim_gossip_initial(sim, k));
    set_weights(books, GOSSIP_ONE);
    if (disk->there)
        memcpy(books->weight, disk->weight, sim_gossip_ranges() * sizeof *books->weight);
}

static void
on_read(struct sim *sim, struct sim_node *node)
{
    struct books *books = &sim_gossip_book.of[node->index];
    for (size_t k = 0; k < sim_gossip_config.count; k++) {
        books->read[k] = clamp(books->value[k]);
        if (node->sum[k] != books->read[k])
            sim_fail(sim, "node %u: value %zu is read as %d, it is %d", node->index, k,
                     node->sum[k], books->read[k]);
    }
    memcpy(books->read_weight, books->weight, sizeof books->weight);
}

static void
on_phase(struct sim *sim, struct sim_node *node, const struct gossip_note *note)
{
    struct books *books = &sim_gossip_book.of[node->index];
    on_read(sim, node);
    books->plan = note->plan;
    books->phase = note->phase;
    books->n = (unsigned)note->number;
    books->rank = note->rank;
    if (books->n == 1 && !gossip_flow_weighs(books->weight, sim_gossip_ranges()))
        sim_fail(sim, "node %u: goes on alone and has no model", node->index);
}

static void
on_updated(struct sim *sim, struct sim_node *node, const struct gossip_note *note)
{
    struct books *books = &sim_gossip_book.of[node->index];
    sim_gossip_book.computed += (unsigned)__builtin_popcountll(books->shards);
    for (size_t k = 0; k < sim_gossip_config.count; k++) {
        int32_t update = sim_gossip_update(sim, node, note->step, books->shards, books->read[k], k);
        appear(books, k, books->value[k] + update);
    }
}

/* --- Flows --------------------------------------------------------------------------------------- */

/* Is |d[k]| one of the largest of d[count]? */
static bool
among_largest(const int64_t *d, size_t count, size_t k)
{
    size_t before = 0, few = codec_few(sim_gossip_config.codec, count);
    int64_t size = d[k] < 0 ? -d[k] : d[k];
    for (size_t j = 0; j < count; j++) {
        int64_t other = d[j] < 0 ? -d[j] : d[j];
        before += other > size || (other == size && j < k);
    }
    return before < few;
}

/* The flow of the same range that was asked for before, on the same link; NULL: there is none. */
static const struct record *
asked_before(const struct sim_node *node, const struct gossip_note *note)
{
    struct gossip_note last = *note;
    while (--last.number > 0) {
        const struct record *before = look_up(key_of(note->peer, self_of(node), &last));
        if (before && before->first == first_of(note->range))
            return before;
    }
    return NULL;
}

/* The values of who asks become what both ends know of them after the flow before. */
static void
tell(struct sim *sim, const struct sim_node *node, const struct gossip_note *note,
     struct record *record)
{
    int64_t change[VALUES];
    const struct record *before = asked_before(node, note);
    if (!before || !before->taken) {
        sim_fail(sim, "node %u: tells changes and did not take the flow before flow %" PRIu64,
                 node->index, note->number);
        return;
    }
    for (size_t k = 0; k < record->count; k++)
        change[k] =
            clamp((int64_t)record->theirs[k] - ((int64_t)before->theirs[k] + before->body[k]));
    for (size_t k = 0; k < record->count; k++) {
        record->told[k] = change[k] != 0 && among_largest(change, record->count, k);
        record->theirs[k] =
            before->theirs[k] + before->body[k] + (record->told[k] ? (int32_t)change[k] : 0);
    }
    record->tells = true;
}

static void
on_asked(struct sim *sim, struct sim_node *node, const struct gossip_note *note)
{
    const struct books *books = &sim_gossip_book.of[node->index];
    uint64_t key = key_of(note->peer, self_of(node), note);
    if (look_up(key))
        sim_fail(sim, "node %u: flow %" PRIu64 " is asked for twice", node->index, note->number);
    struct record *record = record_new(sim, key);
    if (!record)
        return;
    *record = (struct record){.key = key,
                              .to = node->index,
                              .to_incarnation = node->incarnation,
                              .plan = books->plan,
                              .phase = books->phase,
                              .rank = books->rank,
                              .first = first_of(note->range),
                              .count = count_of(note->range)};
    for (size_t k = 0; k < record->count; k++)
        record->theirs[k] = sim_gossip_config.async ? clamp(books->value[record->first + k])
                                                    : books->read[record->first + k];
    if (sim_gossip_config.codec && note->event == GOSSIP_ASKED)
        tell(sim, node, note, record);
}

/* One part in how many flows along this edge, counted from the graph. */
static unsigned
share_of(const struct books *giver, unsigned taker)
{
    struct gossip_graph graph = {sim_gossip_config.graph, sim_gossip_config.push_sum, giver->plan};
    uint64_t to = gossip_graph_to(&graph, giver->n, giver->rank, giver->phase);
    unsigned mine = (unsigned)__builtin_popcountll(to), theirs = mine;
    if (!graph.directed)
        theirs =
            (unsigned)__builtin_popcountll(gossip_graph_to(&graph, giver->n, taker, giver->phase));
    return to >> taker & 1 ? 1 + (mine > theirs ? mine : theirs) : 0;
}

/* All elements of a flow: of changes those that were told, and the largest few others. */
static void
flow_of(const struct books *books, struct record *record, unsigned share)
{
    int64_t whole[VALUES];
    for (size_t k = 0; k < record->count; k++) {
        size_t at = record->first + k;
        int64_t mine = sim_gossip_config.async ? clamp(books->value[at]) : books->read[at];
        whole[k] = sim_gossip_config.push_sum ? mine : mine - record->theirs[k];
        whole[k] = record->tells ? clamp(whole[k]) : whole[k];
    }
    for (size_t k = 0; k < record->count; k++) {
        int64_t size = whole[k] < 0 ? -whole[k] : whole[k];
        bool flows = !record->tells || record->told[k] || among_largest(whole, record->count, k);
        size = flows ? size / share : 0;
        record->body[k] = (int32_t)(whole[k] < 0 ? -size : size);
    }
}

static void
on_gave(struct sim *sim, struct sim_node *node, const struct gossip_note *note)
{
    struct books *books = &sim_gossip_book.of[node->index];
    struct record *record = look_up(key_of(self_of(node), note->peer, note));
    if (!record || record->given || record->first != first_of(note->range)) {
        sim_fail(sim, "node %u: gives flow %" PRIu64 " %s", node->index, note->number,
                 record ? "twice, or of another range" : "that nobody asked for");
        return;
    }
    if (!sim_gossip_config.async && (record->plan != books->plan || record->phase != books->phase))
        sim_fail(sim, "node %u: answers for another phase than was asked", node->index);
    unsigned share = sim_gossip_config.async ? 2 : share_of(books, record->rank);
    if (share != note->share)
        sim_fail(sim, "node %u: gives one part in %u, it should be %u", node->index, note->share,
                 share);
    record->given = true;
    record->from = node->index;
    record->from_incarnation = node->incarnation;
    if (!sim->failed)
        flow_of(books, record, share);
    for (size_t k = 0; k < record->count && !sim->failed; k++) {
        books->value[record->first + k] -= record->body[k];
        if (note->body[k] != record->body[k])
            sim_fail(sim, "node %u: gives %d, it should be %d", node->index, note->body[k],
                     record->body[k]);
    }
    if (sim_gossip_config.push_sum)
        record->weight = books->read_weight[note->range] / (share ? share : 1);
    books->weight[note->range] -= record->weight;
    if (note->weight != record->weight)
        sim_fail(sim, "node %u: gives the weight %" PRId64 ", it should be %" PRId64, node->index,
                 note->weight, record->weight);
}

static void
on_took(struct sim *sim, struct sim_node *node, const struct gossip_note *note)
{
    struct books *books = &sim_gossip_book.of[node->index];
    struct record *record = look_up(key_of(note->peer, self_of(node), note));
    if (!record || !record->given || record->taken) {
        sim_fail(sim, "node %u: takes flow %" PRIu64 " %s", node->index, note->number,
                 record && record->given ? "twice" : "that was not given to it");
        return;
    }
    record->taken = true;
    for (size_t k = 0; k < record->count; k++)
        books->value[record->first + k] += record->body[k];
    books->weight[record->first / sim_gossip_chunk] += record->weight;
}

static void
on_lost(struct sim *sim, struct sim_node *node, const struct gossip_note *note)
{
    struct record *record = look_up(key_of(self_of(node), note->peer, note));
    if (!record || !record->given)
        sim_fail(sim, "node %u: loses a flow that it did not give", node->index);
    else
        record->lost = true;
}

/* --- Copies -------------------------------------------------------------------------------------- */

/* Are flows under way to this node from another one in its plan? */
static bool
flows_to(const struct sim *sim, const struct sim_node *node)
{
    struct core_stats mine, its;
    core_stats(node->core, &mine);
    for (unsigned r = 0; r < sim_gossip_book.used; r++) {
        const struct record *record = &sim_gossip_book.records[sim_gossip_book.name[r]];
        const struct sim_node *from = &sim->nodes[record->from];
        if (!record->given || record->taken || record->lost || record->to != node->index ||
            record->to_incarnation != node->incarnation || !from->up ||
            from->incarnation != record->from_incarnation)
            continue;
        core_stats(from->core, &its);
        if (its.plan == mine.plan)
            return true;
    }
    return false;
}

static void
on_copied(struct sim *sim, struct sim_node *node, const struct gossip_note *note)
{
    const struct books *books = &sim_gossip_book.of[node->index];
    uint64_t key = copy_key(self_of(node), note);
    if (look_up(key))
        sim_fail(sim, "node %u: copy %" PRIu64 " is made twice", node->index, note->number);
    struct record *record = record_new(sim, key);
    if (!record)
        return;
    *record = (struct record){.key = key,
                              .from = node->index,
                              .given = true,
                              .taken = true,
                              .first = first_of(note->range),
                              .count = count_of(note->range),
                              .weight = books->weight[note->range]};
    for (size_t k = 0; k < record->count; k++)
        record->body[k] = clamp(books->value[record->first + k]);
    if (note->share == PROTO_OBJECT_LAST && flows_to(sim, node))
        sim_fail(sim, "node %u: gives its values to the last mean while a flow is under way to it",
                 node->index);
}

/* A range of a member's values is added to the mean. */
static void
add_range(struct sim *sim, const struct sim_node *node, struct proto_node member,
          const struct record *record)
{
    struct books *books = &sim_gossip_book.of[node->index];
    unsigned *ranges = &books->added_ranges[record->from];
    unsigned bit = 1u << record->first / sim_gossip_chunk;
    if ((*ranges & bit) || record->from == node->index || books->added_count == SIM_NODES_MAX)
        sim_fail(sim, "node %u: a copy for the mean twice", node->index);
    *ranges |= bit;
    if (!sim->failed && *ranges + 1 == 1u << sim_gossip_ranges())
        books->added[books->added_count++] = member;
}

/* A copy has come: it is added to the mean, or kept until all have come. */
static void
on_got(struct sim *sim, struct sim_node *node, const struct gossip_note *note)
{
    struct books *books = &sim_gossip_book.of[node->index];
    const struct record *record = look_up(copy_key(note->peer, note));
    if (!record) {
        sim_fail(sim, "node %u: a copy that nobody sent", node->index);
        return;
    }
    for (size_t k = 0; k < record->count; k++) {
        size_t at = record->first + k;
        if (books->mean)
            appear(books, at, record->body[k] + books->value[at]);
        else
            books->copied[at] = record->body[k];
    }
    if (!books->mean)
        return;
    books->weight[record->first / sim_gossip_chunk] += record->weight;
    add_range(sim, node, note->peer, record);
}

static void
on_adopted(struct sim_node *node, enum gossip_event event)
{
    struct books *books = &sim_gossip_book.of[node->index];
    for (size_t k = 0; k < sim_gossip_config.count; k++)
        appear(books, k, books->copied[k]);
    if (event == GOSSIP_RESULT)
        set_weights(books, GOSSIP_ONE);
}

static void
on_empty(struct sim_node *node)
{
    struct books *books = &sim_gossip_book.of[node->index];
    for (size_t k = 0; k < sim_gossip_config.count; k++)
        appear(books, k, 0);
    set_weights(books, 0);
}

static void
on_mean_began(struct sim *sim, struct sim_node *node)
{
    struct books *books = &sim_gossip_book.of[node->index];
    if (flows_to(sim, node))
        sim_fail(sim, "node %u: makes the last mean while a flow is under way to it", node->index);
    books->mean = true;
    books->added_count = 0;
    memset(books->added_ranges, 0, sizeof books->added_ranges);
    for (size_t k = 0; k < sim_gossip_config.count; k++) {
        books->read[k] = clamp(books->value[k]);
        appear(books, k, books->read[k]);
    }
    memcpy(books->read_weight, books->weight, sizeof books->weight);
}

static void
on_mean_void(struct sim_node *node)
{
    struct books *books = &sim_gossip_book.of[node->index];
    books->mean = false;
    for (size_t k = 0; k < sim_gossip_config.count; k++)
        appear(books, k, books->read[k]);
    memcpy(books->weight, books->read_weight, sizeof books->weight);
}

/* Are the values of all other members of this plan in the mean, and no others? */
static bool
whole(const struct books *books, const struct proto_plan *plan)
{
    for (size_t k = 0; k < books->added_count; k++)
        if (proto_plan_rank(plan, books->added[k]) < 0)
            return false;
    return books->added_count + 1 == plan->count;
}

static void
on_mean(struct sim *sim, struct sim_node *node, const struct gossip_note *note)
{
    struct books *books = &sim_gossip_book.of[node->index];
    struct core_stats stats;
    core_stats(node->core, &stats);
    books->mean = false;
    for (size_t k = 0; k < sim_gossip_config.count; k++) {
        int64_t weight = books->weight[k / sim_gossip_chunk];
        wide sum = (wide)books->value[k] * GOSSIP_ONE;
        if (weight > 0)
            appear(books, k, (int64_t)(sum / weight));
    }
    if (stats.plan != note->plan || !whole(books, &node->core->gossip.plan.now))
        sim_fail(sim, "node %u: a last mean of another plan, or of others than its members",
                 node->index);
    set_weights(books, GOSSIP_ONE);
}

void
sim_gossip_judge_note(struct sim *sim, struct sim_node *node, const struct gossip_note *note)
{
    if (sim->failed)
        return;
    sim->trace = mix64_pair(sim->trace, (uint64_t)note->event << 32 | node->index << 16 |
                                            (note->number & 0xffff));
    switch (note->event) {
    case GOSSIP_BEGAN:
        on_began(sim, node);
        break;
    case GOSSIP_READ:
        sim_gossip_book.of[node->index].shards = note->shards;
        if (sim_gossip_config.async)
            on_read(sim, node);
        break;
    case GOSSIP_UPDATED:
        on_updated(sim, node, note);
        break;
    case GOSSIP_PHASE:
        on_phase(sim, node, note);
        break;
    case GOSSIP_ASKED:
    case GOSSIP_ASKED_WHOLE:
        on_asked(sim, node, note);
        break;
    case GOSSIP_GAVE:
        on_gave(sim, node, note);
        break;
    case GOSSIP_LOST:
        on_lost(sim, node, note);
        break;
    case GOSSIP_TOOK:
        on_took(sim, node, note);
        break;
    case GOSSIP_COPIED:
        on_copied(sim, node, note);
        break;
    case GOSSIP_GOT:
        on_got(sim, node, note);
        break;
    case GOSSIP_ADOPTED:
    case GOSSIP_RESULT:
        on_adopted(node, note->event);
        break;
    case GOSSIP_EMPTY:
        on_empty(node);
        break;
    case GOSSIP_MEAN_BEGAN:
        on_mean_began(sim, node);
        break;
    case GOSSIP_MEAN_VOID:
        on_mean_void(node);
        break;
    case GOSSIP_MEAN:
        on_mean(sim, node, note);
        break;
    case GOSSIP_SAVED: /* nothing changes: sim_gossip_judge_saved */
        break;
    }
}

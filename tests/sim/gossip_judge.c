/* gossip_judge.c - the oracle of the engine gossip: it keeps the books of all values.
 *
 * It follows the journal of each node with arithmetic of its own: whatever a core says that it did is done here, too, and
 * after each event the core must have the values and weights that follow. A flow must be the one that the values of its
 * two ends give, with the weight of the graph; it is taken once, by whom it was given to, as it was given. When
 * values go into the last mean, nothing is under way to them. At the end all have one result; and the sum of the values of all nodes, of the
 * dead when they died, and of what was on the way to them, is to the last unit that of all beginnings and updates. */
#include <inttypes.h>
#include <string.h>

#include "mesh/core/internal.h"
#include "proto/mix.h"
#include "tests/sim/gossip.h"

enum { VALUES = 32, PARTS = 32, RECORDS = 1 << 15 };

__extension__ typedef __int128 wide;

/* What a node must have. */
struct books {
    uint64_t incarnation;
    int64_t value[VALUES], weight[PARTS];
    int32_t read[VALUES]; /* when it was read last */
    int64_t read_weight[PARTS];
    int32_t copied[VALUES]; /* copies that have come */
    bool mean;
    uint64_t plan, phase, shards;
    unsigned n, rank;
};

/* A flow that was asked for, or a copy that was sent. */
struct record {
    uint64_t key; /* 0: free */
    unsigned from, to;
    uint64_t from_incarnation, to_incarnation;
    uint64_t plan, phase;
    unsigned rank; /* of the taker */
    bool given, taken, lost;
    size_t first, count;
    int32_t theirs[VALUES], body[VALUES];
    int64_t weight;
};

static struct {
    struct books of[SIM_NODES_MAX];
    struct record records[RECORDS];
    uint32_t name[RECORDS]; /* places of the records in use, */
    unsigned used;          /* as many */
    int64_t ledger[VALUES]; /* beginnings, updates and adoptions */
    int64_t dead[VALUES];   /* what the dead had */
    uint64_t units;         /* shards computed by anybody */
    /* The last cut: who was in its plan, and what they had when the first one saved it. */
    struct {
        uint64_t name, members;
        int64_t value[SIM_NODES_MAX][VALUES], weight[SIM_NODES_MAX][PARTS];
    } cut;
} book;

void
sim_gossip_judge_begin(struct sim *sim)
{
    (void)sim;
    for (unsigned r = 0; r < book.used; r++)
        book.records[book.name[r]].key = 0;
    book.used = 0;
    book.units = 0;
    memset(&book.cut, 0, sizeof book.cut);
    memset(book.of, 0, sizeof book.of);
    memset(book.ledger, 0, sizeof book.ledger);
    memset(book.dead, 0, sizeof book.dead);
}

static size_t
first_of(size_t part)
{
    return part * sim_gossip_chunk;
}

static size_t
count_of(size_t part)
{
    size_t rest = sim_gossip_config.count - first_of(part);
    return rest < sim_gossip_chunk ? rest : sim_gossip_chunk;
}

static int32_t
cut_off(int64_t value)
{
    return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (int32_t)value;
}

static uint64_t
key_of(struct proto_node from, struct proto_node to, const struct gossip_note *note)
{
    uint64_t ends =
        mix64_pair(mix64_pair(from.id, from.incarnation), mix64_pair(to.id, to.incarnation));
    return mix64_pair(mix64_pair(ends, note->link), mix64_pair(note->number, note->part)) | 1;
}

/* The record of this name; NULL if there is none. */
static struct record *
look_up(uint64_t key)
{
    uint64_t at = key >> 1;
    while (book.records[at % RECORDS].key && book.records[at % RECORDS].key != key)
        at++;
    return book.records[at % RECORDS].key ? &book.records[at % RECORDS] : NULL;
}

static struct record *
record_new(struct sim *sim, uint64_t key)
{
    uint64_t at = key >> 1;
    while (book.records[at % RECORDS].key)
        at++;
    if (book.used == RECORDS / 4 * 3) {
        sim_fail(sim, "the oracle has no more room");
        return &book.records[at % RECORDS];
    }
    book.name[book.used++] = at % RECORDS;
    book.records[at % RECORDS] = (struct record){.key = key};
    return &book.records[at % RECORDS];
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
    book.ledger[k] += value - books->value[k];
    books->value[k] = value;
}

static void
set_weights(struct books *books, int64_t weight)
{
    for (size_t p = 0; p < sim_gossip_parts(); p++)
        books->weight[p] = weight;
}

static void
on_began(struct sim *sim, struct sim_node *node)
{
    struct books *books = &book.of[node->index];
    for (size_t k = 0; k < sim_gossip_config.count; k++)
        book.dead[k] += books->value[k];
    memset(books, 0, sizeof *books);
    books->incarnation = node->incarnation;
    const struct sim_gossip_file *disk = &sim_gossip_disk[node->index];
    for (size_t k = 0; k < sim_gossip_config.count; k++)
        appear(books, k, disk->there ? disk->values[k] : sim_gossip_initial(sim, k));
    set_weights(books, GOSSIP_ONE);
    if (disk->there)
        memcpy(books->weight, disk->weight, sim_gossip_parts() * sizeof *books->weight);
}

static void
on_read(struct sim *sim, struct sim_node *node)
{
    struct books *books = &book.of[node->index];
    for (size_t k = 0; k < sim_gossip_config.count; k++) {
        books->read[k] = cut_off(books->value[k]);
        if (node->sum[k] != books->read[k])
            sim_fail(sim, "node %u: value %zu is read as %d, it is %d", node->index, k,
                     node->sum[k], books->read[k]);
    }
    memcpy(books->read_weight, books->weight, sizeof books->weight);
}

static void
on_phase(struct sim *sim, struct sim_node *node, const struct gossip_note *note)
{
    struct books *books = &book.of[node->index];
    on_read(sim, node);
    books->plan = note->plan;
    books->phase = note->phase;
    books->n = (unsigned)note->number;
    books->rank = note->part;
}

static void
on_updated(struct sim *sim, struct sim_node *node, const struct gossip_note *note)
{
    struct books *books = &book.of[node->index];
    book.units += (unsigned)__builtin_popcountll(books->shards);
    for (size_t k = 0; k < sim_gossip_config.count; k++) {
        int32_t update = sim_gossip_update(sim, node, note->step, books->shards, books->read[k], k);
        appear(books, k, books->value[k] + update);
    }
}

/* --- Flows --------------------------------------------------------------------------------------- */

static void
on_asked(struct sim *sim, struct sim_node *node, const struct gossip_note *note)
{
    const struct books *books = &book.of[node->index];
    uint64_t key = key_of(note->peer, self_of(node), note);
    if (look_up(key))
        sim_fail(sim, "node %u: flow %" PRIu64 " is asked for twice", node->index, note->number);
    struct record *record = record_new(sim, key);
    *record = (struct record){.key = key,
                              .to = node->index,
                              .to_incarnation = node->incarnation,
                              .plan = books->plan,
                              .phase = books->phase,
                              .rank = books->rank,
                              .first = first_of(note->part),
                              .count = count_of(note->part)};
    for (size_t k = 0; k < record->count; k++)
        record->theirs[k] = sim_gossip_config.async ? cut_off(books->value[record->first + k])
                                                    : books->read[record->first + k];
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

static int32_t
flow_of(const struct books *books, const struct record *record, size_t k, unsigned share)
{
    size_t at = record->first + k;
    int64_t mine = sim_gossip_config.async ? cut_off(books->value[at]) : (int64_t)books->read[at];
    int64_t whole = sim_gossip_config.push_sum ? mine : mine - record->theirs[k];
    int64_t size = whole < 0 ? -whole : whole;
    return (int32_t)(whole < 0 ? -(size / share) : size / share);
}

static void
on_gave(struct sim *sim, struct sim_node *node, const struct gossip_note *note)
{
    struct books *books = &book.of[node->index];
    struct record *record = look_up(key_of(self_of(node), note->peer, note));
    if (!record || record->given) {
        sim_fail(sim, "node %u: gives flow %" PRIu64 " %s", node->index, note->number,
                 record ? "twice" : "that nobody asked for");
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
    for (size_t k = 0; k < record->count && !sim->failed; k++) {
        record->body[k] = flow_of(books, record, k, share);
        books->value[record->first + k] -= record->body[k];
        if (note->body[k] != record->body[k])
            sim_fail(sim, "node %u: gives %d, it should be %d", node->index, note->body[k],
                     record->body[k]);
    }
    if (sim_gossip_config.push_sum)
        record->weight = books->read_weight[note->part] / (share ? share : 1);
    books->weight[note->part] -= record->weight;
    if (note->weight != record->weight)
        sim_fail(sim, "node %u: gives the weight %" PRId64 ", it should be %" PRId64, node->index,
                 note->weight, record->weight);
}

static void
on_took(struct sim *sim, struct sim_node *node, const struct gossip_note *note)
{
    struct books *books = &book.of[node->index];
    struct record *record = look_up(key_of(note->peer, self_of(node), note));
    if (!record || !record->given || record->taken) {
        sim_fail(sim, "node %u: takes flow %" PRIu64 " %s", node->index, note->number,
                 record && record->given ? "twice" : "that was not given to it");
        return;
    }
    record->taken = true;
    for (size_t k = 0; k < record->count; k++)
        books->value[record->first + k] += record->body[k];
    books->weight[note->part] += record->weight;
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
    for (unsigned r = 0; r < book.used; r++) {
        const struct record *record = &book.records[book.name[r]];
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
    const struct books *books = &book.of[node->index];
    struct gossip_note name = {.number = note->number};
    uint64_t key = key_of(self_of(node), self_of(node), &name);
    struct record *record = record_new(sim, key);
    *record = (struct record){.key = key,
                              .given = true,
                              .taken = true,
                              .first = first_of(note->part),
                              .count = count_of(note->part),
                              .weight = books->weight[note->part]};
    for (size_t k = 0; k < record->count; k++)
        record->body[k] = cut_off(books->value[record->first + k]);
    if (note->share == PROTO_ASK_LAST && flows_to(sim, node))
        sim_fail(sim, "node %u: gives its values to the last mean while a flow is under way to it",
                 node->index);
}

static void
on_got(struct sim *sim, struct sim_node *node, const struct gossip_note *note)
{
    struct books *books = &book.of[node->index];
    struct gossip_note name = {.number = note->number};
    const struct record *record = look_up(key_of(note->peer, note->peer, &name));
    if (!record || record->first != first_of(note->part)) {
        sim_fail(sim, "node %u: a copy that nobody sent", node->index);
        return;
    }
    for (size_t k = 0; k < record->count; k++) {
        size_t at = record->first + k;
        if (books->mean)
            appear(books, at, books->value[at] + record->body[k]);
        else
            books->copied[at] = record->body[k];
    }
    books->weight[note->part] += books->mean ? record->weight : 0;
}

static void
on_adopted(struct sim *sim, struct sim_node *node)
{
    struct books *books = &book.of[node->index];
    (void)sim;
    for (size_t k = 0; k < sim_gossip_config.count; k++)
        appear(books, k, sim_gossip_config.push_sum ? 0 : books->copied[k]);
    if (sim_gossip_config.push_sum)
        set_weights(books, 0);
}

static void
on_mean_began(struct sim *sim, struct sim_node *node)
{
    struct books *books = &book.of[node->index];
    if (flows_to(sim, node))
        sim_fail(sim, "node %u: makes the last mean while a flow is under way to it", node->index);
    books->mean = true;
    for (size_t k = 0; k < sim_gossip_config.count; k++) {
        books->read[k] = cut_off(books->value[k]);
        appear(books, k, books->read[k]);
    }
    memcpy(books->read_weight, books->weight, sizeof books->weight);
}

static void
on_mean_void(struct sim_node *node)
{
    struct books *books = &book.of[node->index];
    books->mean = false;
    for (size_t k = 0; k < sim_gossip_config.count; k++)
        appear(books, k, books->read[k]);
    memcpy(books->weight, books->read_weight, sizeof books->weight);
}

static void
on_mean(struct sim *sim, struct sim_node *node, const struct gossip_note *note)
{
    struct books *books = &book.of[node->index];
    struct core_stats stats;
    core_stats(node->core, &stats);
    books->mean = false;
    for (size_t k = 0; k < sim_gossip_config.count; k++) {
        int64_t weight = books->weight[k / sim_gossip_chunk];
        wide sum = (wide)books->value[k] * GOSSIP_ONE;
        if (weight > 0)
            appear(books, k, (int64_t)(sum / weight));
    }
    if (stats.plan != note->plan)
        sim_fail(sim, "node %u: a last mean of a plan that is over", node->index);
    set_weights(books, GOSSIP_ONE);
}

static void
on_result(struct sim_node *node)
{
    struct books *books = &book.of[node->index];
    for (size_t k = 0; k < sim_gossip_config.count; k++)
        appear(books, k, books->copied[k]);
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
        book.of[node->index].shards = note->shards;
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
        on_adopted(sim, node);
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
    case GOSSIP_RESULT:
        on_result(node);
        break;
    case GOSSIP_SAVED: /* nothing changes: sim_gossip_judge_saved */
        break;
    }
}

/* --- Checkpoints --------------------------------------------------------------------------------- */

static bool
is_member(const struct sim *sim, const struct sim_node *node, unsigned i)
{
    const struct sim_node *other = &sim->nodes[i];
    return other->up && book.of[i].incarnation == other->incarnation &&
           other->core->gossip->plan.active &&
           other->core->gossip->plan.hash == node->core->gossip->plan.hash;
}

/* The first one saves: what all have now is the cut, and nothing is under way between them. */
static void
begin_cut(struct sim *sim, const struct sim_node *node, uint64_t name)
{
    book.cut.name = name;
    book.cut.members = 0;
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        book.cut.members |= (uint64_t)is_member(sim, node, i) << i;
        memcpy(book.cut.value[i], book.of[i].value, sizeof book.cut.value[i]);
        memcpy(book.cut.weight[i], book.of[i].weight, sizeof book.cut.weight[i]);
    }
    for (unsigned r = 0; r < book.used; r++) {
        const struct record *record = &book.records[book.name[r]];
        bool both = (book.cut.members >> record->from & book.cut.members >> record->to & 1) &&
                    record->from_incarnation == sim->nodes[record->from].incarnation &&
                    record->to_incarnation == sim->nodes[record->to].incarnation;
        if (both && record->given && !record->taken && !record->lost)
            sim_fail(sim, "node %u: saves a cut while a flow from node %u to %u is under way",
                     node->index, record->from, record->to);
    }
}

/* What the members save fits together: what each has is what it had when the first one saved. So the sum over those that
 * begin with it is that of then, without the others'. */
void
sim_gossip_judge_saved(struct sim *sim, const struct sim_node *node,
                       const struct gossip_saved *saved)
{
    if (sim->failed)
        return;
    if (book.cut.name != saved->cut)
        begin_cut(sim, node, saved->cut);
    for (size_t k = 0; k < sim_gossip_config.count; k++)
        if (saved->values[k] != book.cut.value[node->index][k])
            sim_fail(sim, "node %u: saves value %zu as %" PRId64 ", in the cut it is %" PRId64,
                     node->index, k, saved->values[k], book.cut.value[node->index][k]);
    for (size_t p = 0; p < sim_gossip_parts(); p++)
        if (saved->weight[p] != book.cut.weight[node->index][p])
            sim_fail(sim, "node %u: saves weight %zu as %" PRId64 ", in the cut it is %" PRId64,
                     node->index, p, saved->weight[p], book.cut.weight[node->index][p]);
}

/* --- Verdicts ------------------------------------------------------------------------------------ */

void
sim_gossip_judge_event(struct sim *sim, struct sim_node *node, const struct sim_event *event)
{
    const struct books *books = &book.of[node->index];
    (void)event;
    if (books->incarnation != node->incarnation)
        return;
    const int64_t *values = gossip_values(node->core), *weights = gossip_weights(node->core);
    for (size_t k = 0; k < sim_gossip_config.count; k++)
        if (values[k] != books->value[k])
            sim_fail(sim, "node %u: value %zu is %" PRId64 ", by its journal it is %" PRId64,
                     node->index, k, values[k], books->value[k]);
    for (size_t p = 0; p < sim_gossip_parts(); p++)
        if (weights[p] != books->weight[p])
            sim_fail(sim, "node %u: weight %zu is %" PRId64 ", by its journal it is %" PRId64,
                     node->index, p, weights[p], books->weight[p]);
}

static bool
lives(const struct sim *sim, unsigned i, uint64_t incarnation)
{
    return sim->nodes[i].up && sim->nodes[i].incarnation == incarnation;
}

/* Nothing comes from nowhere, and nothing is lost but with a node. */
static void
judge_sum(struct sim *sim)
{
    for (size_t k = 0; k < sim_gossip_config.count; k++) {
        int64_t sum = book.dead[k];
        for (unsigned i = 0; i < sim->profile.nodes; i++)
            sum += lives(sim, i, book.of[i].incarnation) ? gossip_values(sim->nodes[i].core)[k]
                                                         : book.of[i].value[k];
        for (unsigned r = 0; r < book.used; r++) {
            const struct record *record = &book.records[book.name[r]];
            if (record->given && !record->taken && k >= record->first &&
                k < record->first + record->count)
                sum += record->body[k - record->first];
        }
        if (sum != book.ledger[k])
            sim_fail(sim, "the sum of all values %zu is %" PRId64 ", it should be %" PRId64, k, sum,
                     book.ledger[k]);
    }
}

/* Who never met the others has a result of its own. */
static bool
hears_all(const struct sim *sim, const struct sim_node *node)
{
    unsigned others = 0;
    struct core_stats stats;
    core_stats(node->core, &stats);
    for (unsigned i = 0; i < sim->profile.nodes; i++)
        others += sim->nodes[i].up && i != node->index && i != sim->profile.stranger;
    return stats.peers >= others;
}

void
sim_gossip_judge_end(struct sim *sim)
{
    uint64_t result = 0;
    for (unsigned i = 0; i < sim->profile.nodes && (!sim->failed || sim->verbose); i++) {
        const struct sim_node *node = &sim->nodes[i];
        if (!node->up || i == sim->profile.stranger)
            continue;
        if (!node->done)
            sim_fail(sim,
                     "node %u hangs at stage %d, step %" PRIu64 ", %" PRIu64
                     " shards, plan %" PRIx64 ", cut %" PRIx64 ", saved %" PRIx64,
                     i, (int)node->core->gossip->stage, node->core->gossip->step,
                     node->core->gossip->total, node->core->gossip->plan.hash,
                     node->core->gossip->cut, node->core->gossip->saved);
        else if (result && node->task_hash != result && hears_all(sim, node))
            sim_fail(sim, "node %u has another result than those before it", i);
        result = hears_all(sim, node) ? node->task_hash : result;
    }
    /* Where faults come upon one another, the dead may be counted twice. */
    uint64_t due = sim_gossip_config.steps * sim->profile.shards;
    if (!sim->failed && sim->play.scenario && sim_gossip_config.async && book.units < due)
        sim_fail(sim, "the run ended after %" PRIu64 " of %" PRIu64 " shards", book.units, due);
    if (sim->failed)
        return;
    judge_sum(sim);
}

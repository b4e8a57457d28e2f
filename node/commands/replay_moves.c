/* replay_moves.c - see replay_moves.h. */
#include "node/commands/replay_moves.h"

#include <errno.h>
#include <stdlib.h>

#include "node/commands/replay_journals.h"
#include "proto/bits.h"

/* --- Names ---------------------------------------------------------------------------------------- */

static int
move_order(const void *a, const void *b)
{
    const struct replay_move *x = a, *y = b;
    int rc = replay_node_order(x->whose, y->whose);
    rc = rc ? rc : replay_order(x->link, y->link);
    return rc ? rc : replay_order(x->number, y->number);
}

static int
start_order(const void *a, const void *b)
{
    const struct replay_start *const *x = a, *const *y = b;
    return replay_node_order((*x)->node, (*y)->node);
}

/* The name of the move that an event is about. */
static struct replay_move
name_of(struct proto_node self, const struct gossip_note *note)
{
    bool ours = replay_moves_makes(note) == replay_moves_copies(note);
    return (struct replay_move){
        .whose = ours ? self : note->peer, .link = note->link, .number = note->number};
}

struct replay_move *
replay_moves_find(const struct replay_moves *moves, struct proto_node self,
                  const struct gossip_note *note)
{
    const struct replay_move name = name_of(self, note);
    return bsearch(&name, moves->move, moves->move_count, sizeof name, move_order);
}

struct replay_move *
replay_moves_before(const struct replay_moves *moves, struct proto_node self,
                    const struct gossip_note *note, uint32_t range)
{
    size_t low = 0, high = moves->move_count;
    const struct replay_move name = name_of(self, note);
    while (low < high) { /* the first one that is not before it */
        size_t middle = (low + high) / 2;
        if (move_order(&moves->move[middle], &name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low > 0; low--) {
        struct replay_move *move = &moves->move[low - 1];
        if (replay_node_order(move->whose, self) != 0 || move->link != note->link)
            return NULL;
        if (move->asked && move->range == range)
            return move;
    }
    return NULL;
}

static const struct replay_start *
find_start(const struct replay_moves *moves, struct proto_node node)
{
    const struct replay_start key = {.node = node}, *name = &key;
    const struct replay_start **found =
        bsearch(&name, moves->by_node, moves->start_count, sizeof *moves->by_node, start_order);
    return found ? *found : NULL;
}

/* --- Reading -------------------------------------------------------------------------------------- */

bool
replay_moves_next(const struct replay_moves *moves, const struct replay_start *start,
                  struct replay_cursor *cursor, struct gossip_note *note)
{
    struct journal_record next = cursor->record;
    if (!journal_next(&moves->journals->text[start->folder], &next) || next.type == JOURNAL_START ||
        next.at >= start->end)
        return false;
    cursor->record = next;
    return gossip_journal_get(&cursor->names, next.type, next.data, next.size, note);
}

/* Can a node of this job have written it? */
static bool
sound_note(const struct gossip_note *note, const struct replay_rules *rules)
{
    bool makes = replay_moves_makes(note);
    bool flow = replay_moves_asks(note) || makes || replay_moves_takes(note);
    uint64_t all = bits_below(rules->shards);
    if (note->event == GOSSIP_READ)
        return note->shards != 0 && (note->shards & ~all) == 0 && note->plan != 0 &&
               note->rank < note->number;
    if (note->event == GOSSIP_GAVE && note->share < 2)
        return false;
    return (!flow || (note->link > 0 || replay_moves_copies(note))) &&
           (!makes || note->range < rules->ranges);
}

typedef int visit(struct replay_moves *moves, const struct replay_start *start,
                  const struct gossip_note *note, struct why *why);

/* Every event of every start, in the order of each journal. A start ends where the visitor returns -ENOENT. */
static int
each(struct replay_moves *moves, visit *fn, struct why *why)
{
    int rc = 0;
    for (size_t s = 0; s < moves->start_count && !rc; s++) {
        struct replay_start *start = &moves->start[s];
        struct replay_cursor cursor = replay_moves_begin(start);
        struct gossip_note note;
        while (!rc && replay_moves_next(moves, start, &cursor, &note))
            rc = fn(moves, start, &note, why);
        if (rc != -ENOENT)
            continue;
        start->end = cursor.record.at;
        moves->cuts++;
        moves->lost = moves->lost.line[0] ? moves->lost : *why;
        rc = 0;
    }
    return rc;
}

/* Counts the starts and moves of a journal, and refuses what no node of this job wrote. */
static int
count(struct replay_moves *moves, size_t folder, const struct replay_rules *rules, struct why *why)
{
    struct journal_record record = {0};
    struct gossip_names names = {.plan = 0};
    struct gossip_note note;
    while (journal_next(&moves->journals->text[folder], &record)) {
        if (record.type == JOURNAL_START) {
            names = (struct gossip_names){.plan = 0};
            moves->start_count++;
            continue;
        }
        if (!gossip_journal_get(&names, record.type, record.data, record.size, &note) ||
            !sound_note(&note, rules))
            return why_error(why, -EBADMSG,
                             "%s/" JOURNAL_FILE ": the record of type %u at byte %zu is not of "
                             "this job",
                             moves->journals->dir[folder], record.type, record.at);
        moves->move_count += replay_moves_makes(&note);
        moves->read_count += note.event == GOSSIP_READ;
    }
    return 0;
}

/* --- Starts --------------------------------------------------------------------------------------- */

static int
two_journals(const struct replay_moves *moves, const struct replay_start *a,
             const struct replay_start *b, struct why *why)
{
    return why_error(why, -EINVAL, "%s and %s have the journal of the same node",
                     moves->journals->dir[a->folder], moves->journals->dir[b->folder]);
}

static int
find_starts(struct replay_moves *moves, struct why *why)
{
    size_t n = 0;
    for (size_t t = 0; t < moves->journals->count; t++) {
        struct journal_record record = {0};
        while (journal_next(&moves->journals->text[t], &record))
            if (record.type == JOURNAL_START) {
                moves->by_node[n] = &moves->start[n];
                moves->start[n++] = (struct replay_start){.node = {record.id, record.incarnation},
                                                          .folder = t,
                                                          .at = record.at,
                                                          .end = SIZE_MAX};
            }
    }
    qsort(moves->by_node, n, sizeof *moves->by_node, start_order);
    for (size_t k = 1; k < n; k++)
        if (start_order(&moves->by_node[k - 1], &moves->by_node[k]) == 0)
            return two_journals(moves, moves->by_node[k - 1], moves->by_node[k], why);
    return 0;
}

/* --- Moves ---------------------------------------------------------------------------------------- */

/* Events come start by start. */
static int
add_event(struct replay_moves *moves, const struct replay_start *start,
          const struct gossip_note *note, struct why *why)
{
    size_t s = (size_t)(start - moves->start), n = moves->read_count;
    struct replay_read *next = &moves->read[n], *last = n && next[-1].start == s ? next - 1 : NULL;
    (void)why;
    if (note->event == GOSSIP_BEGAN) {
        moves->start[s].resumes = note->number != 0;
        moves->start[s].from = note->number;
    }
    if (replay_moves_makes(note)) {
        struct replay_move *move = &moves->move[moves->move_count++];
        *move = name_of(start->node, note);
        move->giver = start->node;
        move->range = note->range;
    }
    moves->start[s].idle += note->event == GOSSIP_PHASE;
    if (note->event == GOSSIP_ADOPTED || note->event == GOSSIP_EMPTY)
        moves->joined = s + 1;
    if (note->event == GOSSIP_UPDATED && last)
        last->updated = true;
    if (note->event != GOSSIP_READ)
        return 0;
    *next = (struct replay_read){.start = s,
                                 .step = note->step,
                                 .total = note->total,
                                 .shards = note->shards,
                                 .plan = note->plan,
                                 .members = note->number,
                                 .rank = note->rank,
                                 .joined = moves->joined == s + 1};
    moves->joined = 0;
    moves->start[s].idle -= moves->start[s].idle > 0; /* the phase of this step */
    moves->read_count++;
    return 0;
}

static int
contradiction(struct why *why)
{
    return why_error(why, -EBADMSG, "the journals contradict one another: are they of one run?");
}

static int
add_peer(struct replay_moves *moves, const struct replay_start *start,
         const struct gossip_note *note, struct why *why)
{
    (void)start;
    (void)why;
    if (note->peer.id)
        replay_names_add(&moves->names, note->peer.id);
    return 0;
}

static void
tell_move_names(struct replay_moves *moves, struct why *why)
{
    (void)each(moves, add_peer, why);
    replay_names_tell(&moves->names, moves->journals, why);
}

/* `start` has something from a node whose journal does not say that it gave it. */
static int
unknown(struct replay_moves *moves, const struct replay_start *start, struct proto_node node,
        struct why *why)
{
    const struct replay_start *other = find_start(moves, node);
    const char *dir = moves->journals->dir[start->folder];
    if (other)
        return why_error(why, -ENOENT,
                         "%s/" JOURNAL_FILE " is cut off: %s has values from that node which are "
                         "not in it",
                         moves->journals->dir[other->folder], dir);
    why_set(why, "%s/" JOURNAL_FILE " has values from node %016jx, whose journal is missing", dir,
            node.id);
    tell_move_names(moves, why);
    return -ENOENT;
}

/* Marks what was asked for and taken. */
static int
match(struct replay_moves *moves, const struct replay_start *start, const struct gossip_note *note,
      struct why *why)
{
    bool took = replay_moves_takes(note);
    if (!took && !replay_moves_asks(note))
        return 0;
    struct replay_move *move = replay_moves_find(moves, start->node, note);
    if (!move)
        return took ? unknown(moves, start, note->peer, why) : 0;
    if (replay_node_order(move->giver, note->peer) != 0 || (took ? move->wanted : move->asked))
        return contradiction(why);
    move->asked |= !took;
    move->wanted |= took;
    return 0;
}

/* Of what was given, the other end is needed. */
static int
check_asked(struct replay_moves *moves, const struct replay_start *start,
            const struct gossip_note *note, struct why *why)
{
    if (note->event != GOSSIP_GAVE)
        return 0;
    const struct replay_move *move = replay_moves_find(moves, start->node, note);
    return move->asked ? 0 : unknown(moves, start, note->peer, why);
}

static int
find_moves(struct replay_moves *moves, bool push_sum, struct why *why)
{
    for (size_t k = 0; k < moves->move_count; k++)
        moves->move[k] = (struct replay_move){.body = NULL};
    for (size_t k = 0; k < moves->start_count; k++)
        moves->start[k].idle = 0;
    moves->move_count = moves->read_count = moves->joined = 0;
    int rc = each(moves, add_event, why);
    if (rc)
        return rc;
    qsort(moves->move, moves->move_count, sizeof *moves->move, move_order);
    for (size_t k = 1; k < moves->move_count; k++)
        if (move_order(&moves->move[k - 1], &moves->move[k]) == 0)
            return contradiction(why);
    rc = each(moves, match, why);
    return rc || push_sum ? rc : each(moves, check_asked, why);
}

bool
replay_moves_resumed(const struct replay_moves *moves, const struct replay_start *start,
                     uint64_t snapshot)
{
    const struct replay_start *later = start + 1, *end = moves->start + moves->start_count;
    for (; later < end && later->folder == start->folder; later++)
        if (later->from == snapshot)
            return true;
    return false;
}

/* Does anything come of what a start did after its end? */
static bool
matters(const struct replay_moves *moves, const struct replay_start *start)
{
    struct replay_start whole = *start;
    struct replay_cursor cursor = replay_moves_begin(start);
    struct gossip_note note;
    whole.end = SIZE_MAX;
    while (replay_moves_next(moves, &whole, &cursor, &note))
        if (cursor.record.at >= start->end &&
            (note.event == GOSSIP_MEAN || note.event == GOSSIP_RESULT ||
             (note.event == GOSSIP_SAVED && replay_moves_resumed(moves, start, note.number))))
            return true;
    return false;
}

static int
find_ends(struct replay_moves *moves, bool push_sum, struct why *why)
{
    size_t before;
    int rc;
    do { /* what a start did after its end, others may have needed */
        before = moves->cuts;
        rc = find_moves(moves, push_sum, why);
    } while (!rc && moves->cuts != before);
    for (size_t s = 0; s < moves->start_count && !rc; s++)
        if (moves->start[s].end != SIZE_MAX && matters(moves, &moves->start[s]))
            rc = why_error(why, -ENOENT, "%s", moves->lost.line);
    return rc;
}

/* --- Life ----------------------------------------------------------------------------------------- */

int
replay_moves_init(struct replay_moves *moves, const struct replay_journals *journals,
                  const struct replay_rules *rules, struct why *why)
{
    int rc = 0;
    *moves = (struct replay_moves){.journals = journals};
    for (size_t t = 0; t < journals->count && !rc; t++)
        rc = count(moves, t, rules, why);
    if (rc)
        return rc;
    moves->start = calloc(moves->start_count + 1, sizeof *moves->start);
    moves->by_node = calloc(moves->start_count + 1, sizeof *moves->by_node);
    moves->move = calloc(moves->move_count + 1, sizeof *moves->move);
    moves->read = calloc(moves->read_count + 1, sizeof *moves->read);
    if (!moves->start || !moves->by_node || !moves->move || !moves->read)
        return why_error(why, -ENOMEM, "not enough memory for the journals");
    rc = find_starts(moves, why);
    return rc ? rc : find_ends(moves, rules->push_sum, why);
}

void
replay_moves_fini(struct replay_moves *moves)
{
    for (size_t k = 0; moves->move && k < moves->move_count; k++) {
        free(moves->move[k].theirs);
        free(moves->move[k].change);
        free(moves->move[k].body);
    }
    free(moves->move);
    free(moves->read);
    free(moves->start);
    free(moves->by_node);
}

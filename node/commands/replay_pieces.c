/* replay_pieces.c - see replay_pieces.h. */
#include "node/commands/replay_pieces.h"

#include <errno.h>
#include <stdlib.h>

#include "node/commands/replay_journals.h"
#include "proto/bits.h"

/* --- Names ---------------------------------------------------------------------------------------- */

static int
piece_order(const void *a, const void *b)
{
    const struct replay_piece *x = a, *y = b;
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

/* The name of the piece that an event is about. */
static struct replay_piece
name_of(struct proto_node self, const struct gossip_note *note)
{
    bool ours = replay_pieces_makes(note) == replay_pieces_copies(note);
    return (struct replay_piece){
        .whose = ours ? self : note->peer, .link = note->link, .number = note->number};
}

struct replay_piece *
replay_pieces_find(const struct replay_pieces *pieces, struct proto_node self,
                   const struct gossip_note *note)
{
    const struct replay_piece name = name_of(self, note);
    return bsearch(&name, pieces->piece, pieces->piece_count, sizeof name, piece_order);
}

struct replay_piece *
replay_pieces_before(const struct replay_pieces *pieces, struct proto_node self,
                     const struct gossip_note *note, uint32_t range)
{
    size_t low = 0, high = pieces->piece_count;
    const struct replay_piece name = name_of(self, note);
    while (low < high) { /* the first one that is not before it */
        size_t middle = (low + high) / 2;
        if (piece_order(&pieces->piece[middle], &name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low > 0; low--) {
        struct replay_piece *piece = &pieces->piece[low - 1];
        if (replay_node_order(piece->whose, self) != 0 || piece->link != note->link)
            return NULL;
        if (piece->asked && piece->range == range)
            return piece;
    }
    return NULL;
}

static const struct replay_start *
find_start(const struct replay_pieces *pieces, struct proto_node node)
{
    const struct replay_start key = {.node = node}, *name = &key;
    const struct replay_start **found =
        bsearch(&name, pieces->by_node, pieces->start_count, sizeof *pieces->by_node, start_order);
    return found ? *found : NULL;
}

/* --- Reading -------------------------------------------------------------------------------------- */

bool
replay_pieces_next(const struct replay_pieces *pieces, const struct replay_start *start,
                   struct replay_cursor *cursor, struct gossip_note *note)
{
    struct journal_record next = cursor->record;
    if (!journal_next(&pieces->journals->text[start->folder], &next) ||
        next.type == JOURNAL_START || next.at >= start->end)
        return false;
    cursor->record = next;
    return gossip_journal_get(&cursor->names, next.type, next.data, next.size, note);
}

/* Can a node of this job have written it? */
static bool
sound_note(const struct gossip_note *note, const struct replay_rules *rules)
{
    bool makes = replay_pieces_makes(note);
    bool flow = replay_pieces_asks(note) || makes || replay_pieces_takes(note);
    uint64_t all = bits_below(rules->shards);
    if (note->event == GOSSIP_READ)
        return note->shards != 0 && (note->shards & ~all) == 0 && note->plan != 0 &&
               note->rank < note->number;
    if (note->event == GOSSIP_GAVE && note->share < 2)
        return false;
    return (!flow || (note->link > 0 || replay_pieces_copies(note))) &&
           (!makes || note->range < rules->ranges);
}

typedef int visit(struct replay_pieces *pieces, const struct replay_start *start,
                  const struct gossip_note *note, struct why *why);

/* Every event of every start, in the order of each journal. A start ends where the visitor returns -ENOENT. */
static int
each(struct replay_pieces *pieces, visit *fn, struct why *why)
{
    int rc = 0;
    for (size_t s = 0; s < pieces->start_count && !rc; s++) {
        struct replay_start *start = &pieces->start[s];
        struct replay_cursor cursor = replay_pieces_begin(start);
        struct gossip_note note;
        while (!rc && replay_pieces_next(pieces, start, &cursor, &note))
            rc = fn(pieces, start, &note, why);
        if (rc != -ENOENT)
            continue;
        start->end = cursor.record.at;
        pieces->cuts++;
        pieces->lost = pieces->lost.line[0] ? pieces->lost : *why;
        rc = 0;
    }
    return rc;
}

/* Counts the starts and pieces of a journal, and refuses what no node of this job wrote. */
static int
count(struct replay_pieces *pieces, size_t folder, const struct replay_rules *rules,
      struct why *why)
{
    struct journal_record record = {0};
    struct gossip_names names = {.plan = 0};
    struct gossip_note note;
    while (journal_next(&pieces->journals->text[folder], &record)) {
        if (record.type == JOURNAL_START) {
            names = (struct gossip_names){.plan = 0};
            pieces->start_count++;
            continue;
        }
        if (!gossip_journal_get(&names, record.type, record.data, record.size, &note) ||
            !sound_note(&note, rules))
            return why_error(why, -EBADMSG,
                             "%s/" JOURNAL_FILE ": the record of type %u at byte %zu is not of "
                             "this job",
                             pieces->journals->dir[folder], record.type, record.at);
        pieces->piece_count += replay_pieces_makes(&note);
        pieces->read_count += note.event == GOSSIP_READ;
    }
    return 0;
}

/* --- Starts --------------------------------------------------------------------------------------- */

static int
two_journals(const struct replay_pieces *pieces, const struct replay_start *a,
             const struct replay_start *b, struct why *why)
{
    return why_error(why, -EINVAL, "%s and %s have the journal of the same node",
                     pieces->journals->dir[a->folder], pieces->journals->dir[b->folder]);
}

static int
find_starts(struct replay_pieces *pieces, struct why *why)
{
    size_t n = 0;
    for (size_t t = 0; t < pieces->journals->count; t++) {
        struct journal_record record = {0};
        while (journal_next(&pieces->journals->text[t], &record))
            if (record.type == JOURNAL_START) {
                pieces->by_node[n] = &pieces->start[n];
                pieces->start[n++] = (struct replay_start){.node = {record.id, record.incarnation},
                                                           .folder = t,
                                                           .at = record.at,
                                                           .end = SIZE_MAX};
            }
    }
    qsort(pieces->by_node, n, sizeof *pieces->by_node, start_order);
    for (size_t k = 1; k < n; k++)
        if (start_order(&pieces->by_node[k - 1], &pieces->by_node[k]) == 0)
            return two_journals(pieces, pieces->by_node[k - 1], pieces->by_node[k], why);
    return 0;
}

/* --- Pieces --------------------------------------------------------------------------------------- */

/* Events come start by start. */
static int
add_event(struct replay_pieces *pieces, const struct replay_start *start,
          const struct gossip_note *note, struct why *why)
{
    size_t s = (size_t)(start - pieces->start), n = pieces->read_count;
    struct replay_read *next = &pieces->read[n], *last = n && next[-1].start == s ? next - 1 : NULL;
    (void)why;
    if (note->event == GOSSIP_BEGAN) {
        pieces->start[s].resumes = note->number != 0;
        pieces->start[s].from = note->number;
    }
    if (replay_pieces_makes(note)) {
        struct replay_piece *piece = &pieces->piece[pieces->piece_count++];
        *piece = name_of(start->node, note);
        piece->giver = start->node;
        piece->range = note->range;
    }
    pieces->start[s].idle += note->event == GOSSIP_PHASE;
    if (note->event == GOSSIP_ADOPTED || note->event == GOSSIP_EMPTY)
        pieces->joined = s + 1;
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
                                 .joined = pieces->joined == s + 1};
    pieces->joined = 0;
    pieces->start[s].idle -= pieces->start[s].idle > 0; /* the phase of this step */
    pieces->read_count++;
    return 0;
}

static int
contradiction(struct why *why)
{
    return why_error(why, -EBADMSG, "the journals contradict one another: are they of one run?");
}

static int
add_peer(struct replay_pieces *pieces, const struct replay_start *start,
         const struct gossip_note *note, struct why *why)
{
    (void)start;
    (void)why;
    if (note->peer.id)
        replay_names_add(&pieces->names, note->peer.id);
    return 0;
}

static void
tell_piece_names(struct replay_pieces *pieces, struct why *why)
{
    (void)each(pieces, add_peer, why);
    replay_names_tell(&pieces->names, pieces->journals, why);
}

/* `start` has something from a node whose journal does not say that it gave it. */
static int
unknown(struct replay_pieces *pieces, const struct replay_start *start, struct proto_node node,
        struct why *why)
{
    const struct replay_start *other = find_start(pieces, node);
    const char *dir = pieces->journals->dir[start->folder];
    if (other)
        return why_error(why, -ENOENT,
                         "%s/" JOURNAL_FILE " is cut off: %s has values from that node which are "
                         "not in it",
                         pieces->journals->dir[other->folder], dir);
    why_set(why, "%s/" JOURNAL_FILE " has values from node %016llx, whose journal is missing", dir,
            (unsigned long long)node.id);
    tell_piece_names(pieces, why);
    return -ENOENT;
}

/* Marks what was asked for and taken. */
static int
match(struct replay_pieces *pieces, const struct replay_start *start,
      const struct gossip_note *note, struct why *why)
{
    bool took = replay_pieces_takes(note);
    if (!took && !replay_pieces_asks(note))
        return 0;
    struct replay_piece *piece = replay_pieces_find(pieces, start->node, note);
    if (!piece)
        return took ? unknown(pieces, start, note->peer, why) : 0;
    if (replay_node_order(piece->giver, note->peer) != 0 || (took ? piece->wanted : piece->asked))
        return contradiction(why);
    piece->asked |= !took;
    piece->wanted |= took;
    return 0;
}

/* Of what was given, the other end is needed. */
static int
check_asked(struct replay_pieces *pieces, const struct replay_start *start,
            const struct gossip_note *note, struct why *why)
{
    if (note->event != GOSSIP_GAVE)
        return 0;
    const struct replay_piece *piece = replay_pieces_find(pieces, start->node, note);
    return piece->asked ? 0 : unknown(pieces, start, note->peer, why);
}

static int
find_pieces(struct replay_pieces *pieces, bool push_sum, struct why *why)
{
    for (size_t k = 0; k < pieces->piece_count; k++)
        pieces->piece[k] = (struct replay_piece){.body = NULL};
    for (size_t k = 0; k < pieces->start_count; k++)
        pieces->start[k].idle = 0;
    pieces->piece_count = pieces->read_count = pieces->joined = 0;
    int rc = each(pieces, add_event, why);
    if (rc)
        return rc;
    qsort(pieces->piece, pieces->piece_count, sizeof *pieces->piece, piece_order);
    for (size_t k = 1; k < pieces->piece_count; k++)
        if (piece_order(&pieces->piece[k - 1], &pieces->piece[k]) == 0)
            return contradiction(why);
    rc = each(pieces, match, why);
    return rc || push_sum ? rc : each(pieces, check_asked, why);
}

bool
replay_pieces_resumed(const struct replay_pieces *pieces, const struct replay_start *start,
                      uint64_t snapshot)
{
    const struct replay_start *later = start + 1, *end = pieces->start + pieces->start_count;
    for (; later < end && later->folder == start->folder; later++)
        if (later->from == snapshot)
            return true;
    return false;
}

/* Does anything come of what a start did after its end? */
static bool
matters(const struct replay_pieces *pieces, const struct replay_start *start)
{
    struct replay_start whole = *start;
    struct replay_cursor cursor = replay_pieces_begin(start);
    struct gossip_note note;
    whole.end = SIZE_MAX;
    while (replay_pieces_next(pieces, &whole, &cursor, &note))
        if (cursor.record.at >= start->end &&
            (note.event == GOSSIP_MEAN || note.event == GOSSIP_RESULT ||
             (note.event == GOSSIP_SAVED && replay_pieces_resumed(pieces, start, note.number))))
            return true;
    return false;
}

static int
find_ends(struct replay_pieces *pieces, bool push_sum, struct why *why)
{
    size_t before;
    int rc;
    do { /* what a start did after its end, others may have needed */
        before = pieces->cuts;
        rc = find_pieces(pieces, push_sum, why);
    } while (!rc && pieces->cuts != before);
    for (size_t s = 0; s < pieces->start_count && !rc; s++)
        if (pieces->start[s].end != SIZE_MAX && matters(pieces, &pieces->start[s]))
            rc = why_error(why, -ENOENT, "%s", pieces->lost.line);
    return rc;
}

/* --- Life ----------------------------------------------------------------------------------------- */

int
replay_pieces_init(struct replay_pieces *pieces, const struct replay_journals *journals,
                   const struct replay_rules *rules, struct why *why)
{
    int rc = 0;
    *pieces = (struct replay_pieces){.journals = journals};
    for (size_t t = 0; t < journals->count && !rc; t++)
        rc = count(pieces, t, rules, why);
    if (rc)
        return rc;
    pieces->start = calloc(pieces->start_count + 1, sizeof *pieces->start);
    pieces->by_node = calloc(pieces->start_count + 1, sizeof *pieces->by_node);
    pieces->piece = calloc(pieces->piece_count + 1, sizeof *pieces->piece);
    pieces->read = calloc(pieces->read_count + 1, sizeof *pieces->read);
    if (!pieces->start || !pieces->by_node || !pieces->piece || !pieces->read)
        return why_error(why, -ENOMEM, "not enough memory for the journals");
    rc = find_starts(pieces, why);
    return rc ? rc : find_ends(pieces, rules->push_sum, why);
}

void
replay_pieces_fini(struct replay_pieces *pieces)
{
    for (size_t k = 0; pieces->piece && k < pieces->piece_count; k++) {
        free(pieces->piece[k].theirs);
        free(pieces->piece[k].change);
        free(pieces->piece[k].body);
    }
    free(pieces->piece);
    free(pieces->read);
    free(pieces->start);
    free(pieces->by_node);
}

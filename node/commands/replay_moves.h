/* replay_moves.h - what the journals of a run that gossiped say: who started, and which values moved from whom to
 * whom: in flows, and in copies. For replay.c.
 *
 * A journal may have lost its end: the power failed, and all went on from a checkpoint before. What others did with the
 * values that were lost came to nothing, too. So a start ends where it needs what is in no journal. If something later
 * needs what it did from there on, a result or a checkpoint from which another start goes on, the journals are
 * refused. */
#ifndef NODE_REPLAY_MOVES_H
#define NODE_REPLAY_MOVES_H

#include "node/commands/replay_journals.h"
#include "node/train/gossip_journal.h"

/* One start of a node. */
struct replay_start {
    struct proto_node node;
    size_t folder;
    size_t at;     /* its place in the journal of the folder */
    size_t end;    /* the first event that needs what is in no journal; SIZE_MAX: there is none */
    bool resumes;  /* it went on from a checkpoint, */
    uint64_t from; /* with this number in BEGAN */
    uint64_t idle; /* phases in which it exchanged values and began no step */
};

/* One step that a start computed, and the plan that gave it its shards. */
struct replay_read {
    size_t start; /* whose; reads are by start, in the order of its journal */
    uint64_t step, total, shards, plan, members;
    unsigned rank;
    bool joined;  /* before it, and after the read before it, the node joined others */
    bool updated; /* it was added to the replica */
};

/* A flow, or a copy, of one range. */
struct replay_move {
    struct proto_node whose; /* who asked for the flow; of a copy, who made it: its link is 0 */
    uint64_t link, number;
    uint32_t range;
    struct proto_node giver;
    bool asked;  /* its taker's values are known */
    bool wanted; /* somebody took it */
    bool made;   /* it was given, or copied */
    /* NULL: not yet, or not any more: */
    int32_t *theirs; /* values of who asked, or the public copy, which follows the flow */
    int32_t *change; /* to the public copy */
    int32_t *body;
    int64_t weight;
};

static inline bool
replay_moves_copies(const struct gossip_note *note)
{
    return note->event == GOSSIP_COPIED || note->event == GOSSIP_GOT;
}

/* The kinds of events that are about a move: of who asks for it, makes it, has it. */
static inline bool
replay_moves_makes(const struct gossip_note *note)
{
    return note->event == GOSSIP_GAVE || note->event == GOSSIP_COPIED;
}

static inline bool
replay_moves_takes(const struct gossip_note *note)
{
    return note->event == GOSSIP_TOOK || note->event == GOSSIP_GOT;
}

static inline bool
replay_moves_asks(const struct gossip_note *note)
{
    return note->event == GOSSIP_ASKED || note->event == GOSSIP_ASKED_WHOLE;
}

struct replay_moves {
    const struct replay_journals *journals; /* borrowed */
    struct replay_start *start;             /* [start_count], by folder and place */
    size_t start_count;
    struct replay_move *move; /* [move_count], by name */
    size_t move_count;
    struct replay_read *read; /* [read_count] */
    size_t read_count;
    size_t cuts;                         /* so often a start was found to end early; */
    struct why lost;                     /* what the first one needs; "" if none does */
    const struct replay_start **by_node; /* [start_count] */
    /* While they are read: */
    struct replay_names names;
    size_t joined; /* the start that has joined others since its last read, plus one */
};

/* What a journal must agree with. */
struct replay_rules {
    bool push_sum; /* an ASK has no values */
    unsigned shards;
    size_t ranges; /* in which values travel */
};

/* Where somebody reads. */
struct replay_cursor {
    struct journal_record record;
    struct gossip_names names;
};

/* Before the first event of a start. */
static inline struct replay_cursor
replay_moves_begin(const struct replay_start *start)
{
    return (struct replay_cursor){.record = {.at = start->at, .size = JOURNAL_START_SIZE}};
}

/* Finds for each move who made it. Refuses journals that cannot be all journals of one run. Returns 0 or a negative
 * errno with `why`; replay_moves_fini follows in both cases. */
int replay_moves_init(struct replay_moves *moves, const struct replay_journals *journals,
                      const struct replay_rules *rules, struct why *why);
void replay_moves_fini(struct replay_moves *moves);
/* The next event of a start, before its end.
 * False: there is none. */
bool replay_moves_next(const struct replay_moves *moves, const struct replay_start *start,
                       struct replay_cursor *cursor, struct gossip_note *note);
/* Does a later start in the same folder go on from this snapshot? */
bool replay_moves_resumed(const struct replay_moves *moves, const struct replay_start *start,
                          uint64_t snapshot);
/* The move that an event of `self` is about. */
struct replay_move *replay_moves_find(const struct replay_moves *moves, struct proto_node self,
                                      const struct gossip_note *note);
/* The last one of this range that `self` asked for on the link of an event, before the one that this is about. */
struct replay_move *replay_moves_before(const struct replay_moves *moves, struct proto_node self,
                                        const struct gossip_note *note, uint32_t range);

#endif

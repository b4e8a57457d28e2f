/* mutant.h - bugs planted on purpose, one bit each in core_config.mutant.
 *
 * The simulator must find them: a check that nobody ever saw hold something may have a hole. Always 0 in real
 * nodes. Uses nothing. */
#ifndef MESH_MUTANT_H
#define MESH_MUTANT_H

enum {
    MUTANT_FENCE = 1 << 0,        /* chunks of any plan of this round are taken */
    MUTANT_COVERAGE = 1 << 1,     /* overlapping and incomplete sums are taken */
    MUTANT_RANGE = 1 << 2,        /* a chunk may begin and end anywhere in its bucket */
    MUTANT_CHECK = 1 << 3,        /* checksums are not compared */
    MUTANT_STATE = 1 << 4,        /* a state is announced one round too high */
    MUTANT_TWICE = 1 << 5,        /* the leader gives a shard to two members, and members accept */
    MUTANT_PROGRESS = 1 << 6,     /* a plan without progress is never aborted */
    MUTANT_SENT = 1 << 7,         /* buffers are rewritten while being sent */
    MUTANT_HEARING = 1 << 8,      /* peers that do not hear us count as usable */
    MUTANT_CLIQUE = 1 << 9,       /* members need not hear one another */
    MUTANT_SILENCE = 1 << 10,     /* silent peers are never suspected */
    MUTANT_DONE = 1 << 11,        /* finished nodes do not serve their state */
    MUTANT_STARVED = 1 << 12,     /* a node without plans never plans by itself */
    MUTANT_FRESH = 1 << 13,       /* own shards that are not assigned stay in the contribution */
    MUTANT_INCARNATION = 1 << 14, /* a restarted node continues the session of its former self */
    MUTANT_HOLD = 1 << 15,        /* a plan is never held for a joiner */
    MUTANT_LENT = 1 << 16,        /* a part of the sum is rewritten while the trainer reads it */
    MUTANT_GHOST = 1 << 17,       /* a node is not deleted when another one has got its port */
    MUTANT_STUCK = 1 << 18,       /* a hung trainer's node is given shards again and again */
    MUTANT_LINK = 1 << 19,        /* any HELLO of a node makes a session of our link */
    MUTANT_ODD = 1 << 20,         /* states are not compared */
    MUTANT_BLOCK = 1 << 21,       /* blocks of a state are not compared with their hashes */
    MUTANT_TOTAL = 1 << 22,       /* a node that follows gets the total of the round before */
    MUTANT_PACE = 1 << 23,        /* a slow member is never left out */
    MUTANT_PAST = 1 << 24,        /* states of rounds long ago are not compared */
    MUTANT_LATE = 1 << 25,        /* deadlines are not stretched when this node is late */
    MUTANT_HALF = 1 << 26,        /* most of the mesh is suspected as quickly as one node */
    MUTANT_WAIT = 1 << 27,        /* a held plan waits for a joiner without a limit */
};

#endif

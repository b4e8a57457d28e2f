/* probe.h - now and then, recompute a shard of another member before the round may be committed.
 *
 * With each contribution a member commits itself: the claims bucket, exchanged before the last one, holds a
 * few words for every shard (a checksum of its gradient: node/ledger.h). In a fraction of all (round, member)
 * pairs, drawn by a hash of a private seed that no other node knows, this node keeps its last bucket back
 * until it has computed one of the member's shards itself and found the very words that were claimed. So
 * nobody can commit a round that is being audited, nobody knows in advance which one is, and the claims
 * are out before anybody could find out.
 *
 *     claims final --due--> PROBING --equal--> last bucket goes out
 *                              +--differ--> ACCUSE to all, last bucket stays --grace--> expelled, plan aborted
 *
 * Who is accused by another member is audited by everyone, in this plan at once and in every round from
 * then on, so each node expels on its own evidence alone, and a false accusation costs time. A node that was
 * expelled is refused by its id for the rest of the run.
 *
 * What it guards against is a node that computes wrongly and commits itself to it. A forger who adds to
 * sums that pass through his hands, or finds a wrong gradient with the right checksum, is another matter. */
#ifndef MESH_PROBE_H
#define MESH_PROBE_H

#include "mesh/core.h"

enum { PROBE_GRACE_US = 100000 }; /* for the others to see for themselves what is wrong */

struct probe {
    uint64_t plan; /* that `due` is of */
    uint64_t round;
    uint64_t due;              /* shards to be recomputed before the last bucket goes out */
    uint64_t asked;            /* the one being recomputed, 0 none */
    struct proto_node owner;   /* whose it is */
    uint64_t owner_plan;       /* and in which plan */
    struct proto_node accused; /* by us; id 0 nobody */
    uint64_t accused_at_us;    /* awake */
    uint64_t suspect[PROTO_PEERS_MAX];
    uint64_t expelled[PROTO_PEERS_MAX];
    unsigned suspects, expulsions; /* ever: the last PROTO_PEERS_MAX are remembered */
    uint64_t probes;
};

void probe_init(struct core *core);
/* A round of the present plan begins: draw. */
void probe_round(struct core *core);
/* Is the last bucket to be kept back? */
bool probe_holds(const struct core *core);
void probe_step(struct core *core);
void probe_tick(struct core *core);
/* The trainer's answer. */
void probe_answer(struct core *core, bool equal);
void probe_on_accuse(struct core *core, int from, const struct proto_accuse *msg);
/* Was it accused, by us or by another? No state is taken from it. */
bool probe_suspects(const struct core *core, uint64_t id);
bool probe_expelled(const struct core *core, uint64_t id);

#endif

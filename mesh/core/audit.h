/* audit.h - audits: sometimes a node computes a shard of another member again before the round may be committed.
 *
 * Each member commits itself with its contribution. The claims bucket, which is exchanged before the last bucket,
 * has a few words for every shard (a checksum of its gradient: node/train/ledger.h). For a share of all (round, member)
 * pairs, this node keeps its last bucket back until it has computed one of the member's shards itself and got the
 * claimed words. It draws the pairs with a hash of a private seed that no other node knows. So nobody can commit a
 * round that is being audited, nobody knows beforehand which round is audited, and the claims are sent before
 * anybody can find out.
 *
 *     claims final --due--> AUDITING --equal--> last bucket goes out
 *                              +--differ--> ACCUSE to all, last bucket stays --grace--> expelled, plan aborted
 *
 * When a member accuses another one, every node audits the accused, in this plan at once and in every later round.
 * So each node expels only on its own evidence, and a false accusation only costs time. An expelled node is refused
 * by its id for the rest of the run.
 *
 * Audits find a node that computes wrongly and commits itself to it. They do not find a forger that changes sums on
 * their way through it, or that finds a wrong gradient with the right checksum. */
#ifndef MESH_AUDIT_H
#define MESH_AUDIT_H

#include "mesh/core/core.h"

enum { AUDIT_GRACE_US = 100000 }; /* time for the others to check the accused themselves */

struct audit {
    uint64_t plan; /* the plan that `due` belongs to */
    uint64_t round;
    uint64_t due;              /* shards to compute again before the last bucket may be sent */
    uint64_t asked;            /* the shard that is being computed again; 0: none */
    struct proto_node owner;   /* the node whose shard it is */
    uint64_t owner_plan;       /* and the plan in which it is */
    struct proto_node accused; /* the node that we accuse; id 0: none */
    uint64_t accused_at_us;    /* awake */
    uint64_t suspect[PROTO_PEERS_MAX];
    uint64_t expelled[PROTO_PEERS_MAX];
    unsigned suspects,
        expulsions; /* counted since the start; only the last PROTO_PEERS_MAX are remembered */
    uint64_t audits;
};

void audit_init(struct core *core);
/* A round of the present plan begins: draws what to audit. */
void audit_round(struct core *core);
/* Must the last bucket be kept back? */
bool audit_holds(const struct core *core);
void audit_step(struct core *core);
void audit_tick(struct core *core);
/* The trainer's answer. */
void audit_answer(struct core *core, bool equal);
void audit_on_accuse(struct core *core, int from, const struct proto_accuse *msg);
/* Did we or another node accuse it? Then no state is taken from it. */
bool audit_suspects(const struct core *core, uint64_t id);
bool audit_expelled(const struct core *core, uint64_t id);

#endif

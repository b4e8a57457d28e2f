/* audit.h - audits: sometimes a node computes a shard of another member again before the round may be committed.
 *
 * Each member says what it computed before it can know who checks it. One bucket, which is exchanged before the last
 * one, has the claims: a few words for every shard (a checksum of its gradient: node/train/ledger.h). In some rounds
 * this node audits some members, by chance: it computes one shard of each again, and does not send its own last bucket
 * before the words are those of the claim. Nobody can commit a round without the last bucket of every member. A private
 * seed decides who is audited when, so nobody else knows it beforehand.
 *
 *     claims final --due--> AUDITING --equal--> last bucket goes out
 *                              +--differ--> ACCUSE to all, last bucket stays --grace--> expelled, plan aborted
 *
 * When a member accuses another one, every node audits the accused, in this round and in every later one. Each node
 * expels only a node that it has audited itself, so a false accusation costs time and nothing else. An expelled node is
 * refused by its id for the rest of the run.
 *
 * Audits find a node whose claim is of a wrong gradient. They do not find one that changes the sums of others that pass
 * through it, or that has found a wrong gradient with the right checksum. */
#ifndef MESH_AUDIT_H
#define MESH_AUDIT_H

#include "mesh/core/group/plan.h"
#include "mesh/core/sessions/clock.h"

enum { AUDIT_GRACE_US = 100000 }; /* time for the others to check the accused themselves */

struct audit {
    uint64_t plan; /* the plan that `due` belongs to */
    uint64_t round;
    uint64_t due;              /* shards to compute again before the last bucket may be sent */
    uint64_t asked;            /* the shard that is being computed again; 0: none */
    struct proto_node owner;   /* the node whose shard it is */
    uint64_t owner_plan;       /* and the plan in which it is */
    struct proto_node accused; /* the node that we accuse; id 0: none */
    struct awake accused_at;
    uint64_t suspect[PROTO_PEERS_MAX];
    unsigned suspects; /* counted since the start; only the last PROTO_PEERS_MAX are remembered */
    uint64_t audits;
};

/* What the trainer is to compute again. */
struct audit_task {
    uint64_t shard;       /* one bit */
    const int32_t *claim; /* [words]: what its owner says; a part of config.sum */
    size_t words;
};

/* What is to be done about an accused node. */
struct audit_verdict {
    struct proto_node expel; /* refuse this node for good; id 0: nobody */
    bool abort;              /* and abort the plan: the accused is a member */
};

/* A round of the present plan begins: chooses what to audit. */
void audit_round(struct audit *audit, const struct core *core);
/* audit_wants, and the trainer is free. */
struct audit_task audit_begin(struct audit *audit, const struct core *core);
/* The trainer's answer. */
struct audit_verdict audit_answer(struct audit *audit, const struct core *core, bool equal);
struct audit_verdict audit_tick(struct audit *audit, const struct core *core);
void audit_on_accuse(struct audit *audit, const struct core *core, int from,
                     const struct proto_accuse *msg);

/* Is `due` of the present round and plan? */
static inline bool
audit_present(const struct audit *audit, const struct plan *plan, uint64_t round)
{
    return plan->active && audit->plan == plan->hash && audit->round == round;
}

/* Must the last bucket be kept back? */
static inline bool
audit_withholds(const struct audit *audit, const struct plan *plan, uint64_t round)
{
    return audit->asked || audit->accused.id || (audit_present(audit, plan, round) && audit->due);
}

/* Is a shard to be computed again, when its claim is final and the trainer free? */
static inline bool
audit_wants(const struct audit *audit, const struct plan *plan, uint64_t round)
{
    return audit_present(audit, plan, round) && audit->due && !audit->asked && !audit->accused.id;
}

static inline bool
audit_listed(const uint64_t *list, unsigned count, uint64_t id)
{
    for (unsigned i = 0; i < count && i < PROTO_PEERS_MAX; i++)
        if (list[i] == id)
            return true;
    return false;
}

/* Did we or another node accuse it? Then no state is taken from it. */
static inline bool
audit_suspects(const struct audit *audit, uint64_t id)
{
    return audit->accused.id == id || audit_listed(audit->suspect, audit->suspects, id);
}

#endif

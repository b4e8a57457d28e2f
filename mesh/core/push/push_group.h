/* push_group.h - who belongs together: claims, the leader's choice, who owns ranges, which of two histories stays.
 *
 * A node's *standing* is the group that it took up last, and its base: the group whose ranges it holds. Base is set
 * when everybody in a group has told what it holds, for nothing is served before. So two nodes have one history if they
 * took up the same group, or hold ranges of the same one, or one holds those of a group in which the other told. A node
 * without a base holds nothing and goes with everybody. */
#ifndef MESH_PUSH_GROUP_H
#define MESH_PUSH_GROUP_H

#include "mesh/core/sessions/clock.h"
#include "mesh/core/sessions/peers.h"
#include "proto/bits.h"

struct core;
struct push;

/* Of groups: more than there can be. The next one after any that is believed can be sent. */
#define PUSH_COUNTER_MAX (PROTO_ROUND_MAX / 2)

enum {
    /* A member that others do not hear is left out after this time; and who forgot what it held takes up no group of
     * those who hold it yet, */
    PUSH_LEAVE_US = 300000,
    PUSH_LOSE_US = 350000,    /* one who is silent, if a range is lost with it, */
    PUSH_BEHIND_US = 2000000, /* who went on without this node, which will hear of their leader */
    PUSH_SETTLE_US = 10000,   /* two histories are judged when they have been two for so long */
    PUSH_JOIN_US = 100000,    /* between two groups when nobody was lost */
    PUSH_ELECT_US = 1000000,  /* the leader looks so often whether members have become slow, */
    PUSH_ELECT_AGAIN_US = 20000000, /* but not sooner after it has elected others */
    PUSH_PAST = 256,                /* groups that a node remembers */
};

struct push_claim {
    bool known;
    struct proto_claim said;
};

struct push_group {
    struct push_claim of[PEERS_MAX]; /* index: as in struct peers */
    struct proto_group now;
    uint64_t hash, base;           /* 0: no group; it holds nothing */
    struct proto_group base_group; /* with base */
    uint64_t past[PUSH_PAST];      /* hashes of the groups so far; the n-th one: n % PUSH_PAST */
    uint64_t begun; /* the base with which this node began; 0: it began with nothing */
    uint64_t apart; /* tickets done when it began, or lost a member; UINT64_MAX: others had begun */
    unsigned rank;
    bool leads;
    uint64_t told;    /* bitmap of ranks whose holdings came */
    uint64_t counter; /* highest one known */
    uint64_t claim_number;
    /* When the group began, when it was told last, and since when somebody is to be left out, or another history to
     * stay. */
    struct awake grouped_at, told_at, tell_at, left_out_at, yields_at;
    uint64_t left_out_us;   /* for how long that may wait */
    struct awake elect_at;  /* when the leader is to look who has become slow */
    struct awake forgot_at; /* what it held; 0: never */
    uint64_t groups;        /* so far, */
    uint64_t shared;        /* of these, with others */
};

enum push_verdict {
    PUSH_AS_BEFORE,
    PUSH_REGROUPED, /* this node has taken up another group */
    PUSH_FORGET,    /* another history stays: this node is to forget what it holds */
};

enum push_verdict push_group_step(struct push_group *group, const struct core *core);
enum push_verdict push_group_on_group(struct push_group *group, const struct core *core, int from,
                                      const struct proto_group *msg);
enum push_verdict push_group_on_claim(struct push_group *group, const struct core *core, int from,
                                      const struct proto_claim *claim);
/* What they said is carried out: no group, nothing held. */
void push_group_forget(struct push_group *group);
/* Does peers[i] lead this group, and say that all tickets are done? */
bool push_group_all_done(const struct core *core, int i);
/* Is peers[i], which is to be counted on, one that has the final model? */
bool push_group_finished(const struct core *core, int i);

/* Was this node in this group, or did it begin with this base? */
static inline bool
push_group_was_in(const struct push_group *group, uint64_t hash)
{
    for (size_t k = 0; k < PUSH_PAST && k < group->groups; k++)
        if (group->past[k] == hash)
            return true;
    return group->begun != 0 && group->begun == hash;
}

/* Has everybody in the group told what it holds? */
static inline bool
push_group_stands(const struct push_group *group)
{
    return group->hash != 0 && group->told == bits_below(group->now.count);
}

/* Rank of peers[i] in the group, or -1. */
int push_group_rank(const struct core *core, int i);
/* Sends to a member, which may be gone. */
void push_group_send(const struct core *core, unsigned rank, const struct proto_msg *msg);
void push_group_bulk(const struct core *core, unsigned rank, const struct proto_msg *msg,
                     const void *body, size_t size);

/* How long a ticket takes this node (`self`) or peers[i], in the mean; 0: nobody knows. And its trips. */
uint64_t push_group_ticket_us(const struct core *core, bool self, int i);
uint64_t push_group_line_us(const struct core *core, bool self, int i);
/* Says which members of a group that is being made serve. */
void push_group_elect(const struct core *core, struct proto_group *group);

#endif

/* admit.h - which nodes this node works with: it judges HELLOs, sends and receives refusals, and logs them.
 *
 * Only nodes of one mesh, run and job whose kernels compute the same bits may add up their gradients. A node that
 * differs gets a REFUSE with both values on a link that carries nothing else. Then it is left alone for
 * ADMIT_REFUSED_US. Each side prints one line about each incarnation of the other.
 *
 * A mesh has at most PROTO_PEERS_MAX nodes. When no slot is left, a newcomer is told so, one newcomer after
 * another, on a link for this purpose only. No member loses its slot; a node without a job, which only looks, gives
 * way to one that trains. */
#ifndef MESH_ADMIT_H
#define MESH_ADMIT_H

#include "mesh/core/core.h"
#include "mesh/core/sessions/clock.h"

enum {
    ADMIT_REFUSED_US = 30000000, /* a refused incarnation is left alone for this long */
    ADMIT_FULL_US = 30000000,    /* time between two log lines about this, for each direction */
};

/* What is known about peers[i]. */
struct admit_peer {
    struct proto_refuse refuse; /* what to send to it, when reason != 0 */
    bool unsaid;                /* it is refused for its job, and no line was printed yet */
};

/* The newcomer that is being told that the mesh is full. */
struct admit_away {
    int link; /* -1: none */
    struct proto_node node;
    struct wall since;
};

struct admit {
    struct admit_peer of[PROTO_PEERS_MAX]; /* index: as in struct peers */
    struct admit_away away;
    struct proto_node said[PROTO_PEERS_MAX]; /* the last that were refused with a line in the log */
    unsigned said_next;
    struct wall full_at[2]; /* when it was last logged: for this mesh, and for another one */
    uint64_t expelled[PROTO_PEERS_MAX]; /* ids of nodes that are refused for the rest of the run */
    unsigned expulsions; /* since the start; only the last PROTO_PEERS_MAX are remembered */
};

struct link_table;

void admit_init(struct admit *admit);
/* The reason to refuse `from`, which sent `hello`; 0: none. */
enum proto_refusal admit_judge(const struct admit *admit, const struct core *core,
                               struct proto_node from, const struct proto_hello *hello);
/* peers[i], which sent `hello`, is refused from now on. Logs once per incarnation. */
void admit_refuse(struct admit *admit, const struct core *core, int i, enum proto_refusal reason,
                  const struct proto_hello *hello);
/* The link to peers[i], which we refuse, is up: tells it why. */
void admit_say(const struct admit *admit, const struct core *core, int i);
/* peers[i], whose job is another one, did not tell it in time. */
void admit_silent(struct admit *admit, const struct core *core, int i);
/* peers[i] refuses us: logs it once per incarnation. `job` is its job, when it refuses us for that. */
void admit_refused(struct admit *admit, const struct core *core, int i,
                   const struct proto_refuse *refuse, const void *job, size_t job_size);
/* It wants to say how the jobs differ, too: it is to get ours. */
void admit_refuse_back(struct admit *admit, const struct core *core, int i);
/* The node with this id is refused for the rest of the run. */
void admit_expel(struct admit *admit, uint64_t id);
/* There is no slot for `node`: tells it so if no other newcomer is being told. It repeats its HELLO until then. */
void admit_turn_away(struct admit *admit, struct link_table *links, const struct core *core,
                     struct proto_node node, const struct proto_endpoint *at);
void admit_link_up(struct admit *admit, const struct core *core);
void admit_link_down(struct admit *admit, struct link_table *links, const struct core *core);
void admit_tick(struct admit *admit, struct link_table *links, const struct core *core);

static inline bool
admit_expelled(const struct admit *admit, uint64_t id)
{
    for (unsigned k = 0; k < admit->expulsions && k < PROTO_PEERS_MAX; k++)
        if (admit->expelled[k] == id)
            return true;
    return false;
}

/* Slot i will be another node. */
static inline void
admit_forget(struct admit *admit, int i)
{
    admit->of[i] = (struct admit_peer){.unsaid = false};
}

#endif

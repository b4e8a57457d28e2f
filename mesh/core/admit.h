/* admit.h - which nodes this node works with: it judges HELLOs, sends and receives refusals, and logs them.
 *
 * Only nodes of one mesh, run and job whose kernels compute the same bits may add up their gradients. A node that
 * differs gets a REFUSE with both values on a link that carries nothing else. Then it is left alone for
 * ADMIT_REFUSED_US. Each side prints one line about each incarnation of the other.
 *
 * A mesh has at most PROTO_PEERS_MAX nodes. When no slot is left, a newcomer is told so, one newcomer after
 * another, on a link for this purpose only. No member loses its slot. */
#ifndef MESH_ADMIT_H
#define MESH_ADMIT_H

#include "mesh/core/core.h"

enum {
    ADMIT_REFUSED_US = 30000000, /* a refused incarnation is left alone for this long */
    ADMIT_FULL_US = 30000000,    /* time between two log lines about this, for each direction */
};

/* The newcomer that is being told that the mesh is full. */
struct admit_away {
    int link; /* -1: none */
    struct proto_node node;
    uint64_t since_us;
};

struct admit {
    struct admit_away away;
    struct proto_node said[PROTO_PEERS_MAX]; /* the last that were refused with a line in the log */
    unsigned said_next;
    uint64_t full_at_us[2]; /* when it was last logged: for this mesh, and for another one */
};

void admit_init(struct core *core);
/* The reason to refuse `from`, which sent `hello`; 0: none. */
enum proto_refusal admit_judge(const struct core *core, struct proto_node from,
                               const struct proto_hello *hello);
/* Refuses peers[i], which sent `hello`, from now on. Logs once per incarnation. */
void admit_refuse(struct core *core, int i, enum proto_refusal reason,
                  const struct proto_hello *hello);
/* Refuses an accepted peer from now on, because of a wrong contribution. */
void admit_expel(struct core *core, int i);
/* The link to peers[i], which we refuse, is up: tell it why. */
void admit_say(struct core *core, int i);
/* peers[i], whose job is another one, did not tell it in time. */
void admit_silent(struct core *core, int i);
/* `from` refuses us. */
void admit_refused(struct core *core, struct proto_node from, const char *host,
                   const struct proto_refuse *refuse, const void *job, size_t job_size);
/* There is no slot for `node`: tells it so if no other newcomer is being told. It repeats its HELLO until then. */
void admit_turn_away(struct core *core, struct proto_node node, const struct proto_endpoint *at);
void admit_link_up(struct core *core);
void admit_link_down(struct core *core);
void admit_tick(struct core *core);

#endif

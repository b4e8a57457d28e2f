/* admit.h - with whom this node mixes: HELLOs are judged, refusals are said, heard and logged.
 *
 * Only nodes of one mesh, run and job whose kernels compute the same bits may add up their gradients. Who differs gets
 * a REFUSE with both values, on a link that carries nothing else, and is left alone for ADMIT_REFUSED_US; each side
 * prints one line about each incarnation of the other.
 *
 * A mesh has at most PROTO_PEERS_MAX nodes. Who comes when there is no slot left is told so on a link that is
 * used for nothing else, one newcomer after another; nobody loses a slot for it. */
#ifndef MESH_ADMIT_H
#define MESH_ADMIT_H

#include "mesh/core.h"

enum {
    ADMIT_REFUSED_US = 30000000, /* a refused incarnation is left alone for so long */
    ADMIT_FULL_US = 30000000,    /* between two lines that say so, each way */
};

/* The newcomer that is told that there is no room. */
struct admit_away {
    int link; /* -1 none */
    struct proto_node node;
    uint64_t since_us;
};

struct admit {
    struct admit_away away;
    uint64_t full_at_us[2]; /* when it was last said: of this mesh, of another */
};

void admit_init(struct core *core);
/* Why we do not mix with `from`, which says `hello`; 0 when we do. */
enum proto_refusal admit_judge(const struct core *core, struct proto_node from,
                               const struct proto_hello *hello);
/* Refuse peers[i], which said `hello`, from now on; the line is printed once per incarnation. */
void admit_refuse(struct core *core, int i, enum proto_refusal reason,
                  const struct proto_hello *hello);
/* Refuse an accepted peer from now on, for what it contributed. */
void admit_expel(struct core *core, int i);
/* The link to peers[i], which we refuse, is up: tell it why. */
void admit_say(struct core *core, int i);
/* It refuses us. */
void admit_refused(struct core *core, struct proto_node from, const char *host,
                   const struct proto_refuse *refuse);
/* No slot for `node`: say so, when nobody else is being told just now. It repeats its HELLO until then. */
void admit_turn_away(struct core *core, struct proto_node node, const struct proto_endpoint *at);
void admit_link_up(struct core *core);
void admit_link_down(struct core *core);
void admit_tick(struct core *core);

#endif

/* contact.h - which nodes were heard, and whether a session ever came of it: for people, who ask why a mesh does not
 * form. No decision of the core depends on it.
 *
 * A node is heard through its beacons and its HELLOs. Who is heard for CONTACT_PATIENCE_US without a session gets one
 * line in the log, which says how far the two came and what to check. A node that was refused, or that left, is no
 * riddle and gets none. Nor does a node that is not heard any more. */
#ifndef MESH_CONTACT_H
#define MESH_CONTACT_H

#include "mesh/core.h"

enum {
    CONTACTS_MAX = 64, /* then the one heard longest ago that was never met makes room */
    CONTACT_PATIENCE_US = 5000000, /* heard for so long without a session: said */
    CONTACT_HEARD_US = 3000000,    /* who was silent for so long is not heard any more */
    CONTACT_LINES_MAX = 8, /* lines in a run: whoever sends false beacons does not fill the log */
};

struct contact {
    struct proto_node node; /* id 0: free */
    struct proto_endpoint at;
    char name[PROTO_NAME_MAX];
    uint64_t since_us; /* awake, all of them; heard without a session since then */
    uint64_t heard_us; /* the last beacon or HELLO */
    uint64_t hello_us; /* the last HELLO: its connections reach us; 0 none */
    uint64_t link_us;  /* our connection to it was up; 0 never */
    bool here;         /* there is a session */
    bool met;          /* there was one, with this node or one before it at this address */
    bool settled;      /* refused, or gone with a goodbye: nothing to wonder about */
    bool said;
};

struct contacts {
    struct contact list[CONTACTS_MAX];
    unsigned said;
    unsigned unreached; /* heard for CONTACT_PATIENCE_US, at present */
};

/* A beacon of `node`, which listens at `at`. */
void contact_heard(struct core *core, struct proto_node node, const struct proto_endpoint *at);
/* Its HELLO came, in which it calls itself `name`. */
void contact_hello(struct core *core, struct proto_node node, const struct proto_endpoint *at,
                   const char *name);
/* Our connection to it is up. */
void contact_link(struct core *core, struct proto_node node);
/* A session begins, ends. */
void contact_met(struct core *core, struct proto_node node);
void contact_lost(struct core *core, struct proto_node node);
/* It was refused, or refused us, or said goodbye. */
void contact_settled(struct core *core, struct proto_node node);
/* Once for each node that is heard and not met. */
void contact_tick(struct core *core);

/* Those that were heard, those of a session first. */
void contact_list(const struct core *core, struct core_status *out);
/* How far we came with it, see core.h. */
enum core_gap contact_gap(const struct core *core, const struct contact *contact);

#endif

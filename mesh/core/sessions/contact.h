/* contact.h - which nodes were heard, and whether a session with them ever began. It answers people who ask why a
 * mesh does not form. No decision of the core depends on it.
 *
 * A node is heard through its beacons and its HELLOs. If it is heard for CONTACT_PATIENCE_US without a session, one
 * log line says how far the connection got and what to check. There is no line for a node that was refused, that
 * left, or that is not heard any more. */
#ifndef MESH_CONTACT_H
#define MESH_CONTACT_H

#include "mesh/core/core.h"
#include "mesh/core/sessions/clock.h"

enum {
    CONTACTS_MAX = 64, /* then the entry that was heard longest ago, and never met, is replaced */
    CONTACT_PATIENCE_US = 5000000, /* heard for this long without a session: log it */
    CONTACT_HEARD_US = 3000000,    /* a node that is silent for this long is not heard any more */
    CONTACT_LINES_MAX = 8,         /* lines per run, so that false beacons cannot fill the log */
};

struct contact {
    struct proto_node node; /* id 0: unused */
    struct proto_endpoint at;
    struct proto_hello hello;   /* the last one that came; its name also as others tell it */
    enum proto_refusal refused; /* why, and what it has there instead; 0: it is not */
    char theirs[PROTO_TEXT_MAX];
    struct awake since;    /* heard without a session since then */
    struct awake heard_at; /* the last beacon or HELLO */
    struct awake hello_at; /* the last HELLO, so its connections reach us; 0: none */
    struct awake link_at;  /* when our connection to it was up; 0: never */
    bool here;             /* there is a session */
    bool met;              /* there was one, with this node or an earlier one at this address */
    bool settled;          /* it was refused, or said goodbye: needs no explanation */
    bool said;
};

struct contacts {
    struct contact list[CONTACTS_MAX];
    unsigned said;
    unsigned unreached; /* it is being heard, for CONTACT_PATIENCE_US */
};

/* A beacon of `node`, which listens at `at`, came. */
void contact_heard(struct contacts *contacts, const struct core *core, struct proto_node node,
                   const struct proto_endpoint *at);
/* Its HELLO came. */
void contact_hello(struct contacts *contacts, const struct core *core, struct proto_node node,
                   const struct proto_endpoint *at, const struct proto_hello *hello);
/* Our connection to it is up. */
void contact_link(struct contacts *contacts, const struct core *core, struct proto_node node);
/* A session with it begins; a session with it ends. */
void contact_met(struct contacts *contacts, struct proto_node node);
void contact_lost(struct contacts *contacts, const struct core *core, struct proto_node node);
/* It was refused, or it refused us: it has `theirs` where we have something else. */
void contact_refused(struct contacts *contacts, struct proto_node node, enum proto_refusal reason,
                     const char *theirs);
/* It said goodbye, or has no job. */
void contact_settled(struct contacts *contacts, struct proto_node node);
/* Logs once each node that is heard and not met. */
void contact_tick(struct contacts *contacts, const struct core *core);

/* Lists the nodes that were heard; those with a session first. */
void contact_list(const struct core *core, struct core_status *out);

#endif

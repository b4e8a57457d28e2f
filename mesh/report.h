/* report.h - what people are told of the other nodes: who joined, who left, who does not answer and is back; each once,
 * by name.
 *
 * Nodes that only look for a job come and go without a word. What happens within seconds (a heartbeat that is late, a
 * plan that is dropped) is for debugging alone. */
#ifndef MESH_REPORT_H
#define MESH_REPORT_H

#include "mesh/core.h"

enum {
    REPORT_PORT_USUAL = 20000, /* not shown */
};

enum report_end {
    REPORT_CLOSED,  /* its connection ended: most likely it was killed */
    REPORT_SILENT,  /* for CORE_FORGET_US */
    REPORT_LEFT,    /* it said BYE */
    REPORT_REFUSED, /* one of us refuses the other, which is told elsewhere */
};

struct report {
    struct {
        bool here; /* it was said to have joined, or to be back, */
        bool lost; /* or to be gone */
    } said[PROTO_PEERS_MAX];
};

/* What people call peers[i]: "pc3 (192.168.7.13)", with the port when it is not the usual one, as on one machine; its
 * address alone while its name is unknown. Returns `out`. */
const char *report_who(const struct core *core, int i, char out[PROTO_WHO_MAX]);
/* The same of an address. */
const char *report_where(const struct proto_endpoint *at, char out[PROTO_WHO_MAX]);
/* The session with peers[i], which has a job, begins. */
void report_here(struct core *core, int i);
/* It has ended. */
void report_gone(struct core *core, int i, enum report_end end);
/* Slot i may be given to another node. */
void report_forget(struct core *core, int i);

#endif

/* report.h - what people are told about the other nodes: which joined, left, do not answer or are back; each once,
 * by name.
 *
 * Nodes that only look for a job are not mentioned. Events that are over within seconds (a late heartbeat, a
 * dropped plan) are logged at debug level only. */
#ifndef MESH_REPORT_H
#define MESH_REPORT_H

#include <stdio.h>
#include <string.h>

#include "mesh/core/core.h"

enum {
    REPORT_PORT_USUAL = 20000, /* not shown */
};

enum report_end {
    REPORT_CLOSED,  /* its connection ended: most likely it was killed */
    REPORT_SILENT,  /* silent for CORE_FORGET_US */
    REPORT_LEFT,    /* it said BYE, */
    REPORT_DONE,    /* after it had finished */
    REPORT_REFUSED, /* one of us refuses the other; another line says so */
};

struct report {
    struct {
        bool here; /* a line said that it joined, or is back, */
        bool lost; /* or that it is gone */
    } said[PROTO_PEERS_MAX];
};

/* A session with peers[i], which has a job, begins. */
void report_here(struct report *report, const struct core *core, int i);
/* The session has ended. */
void report_gone(struct report *report, const struct core *core, int i, enum report_end end);
/* Slot i may be used for another node from now on. */
void report_forget(struct report *report, int i);

/* How people call an address: with the port if it is not the usual one (several nodes on one machine). Returns
 * `out`. */
static inline const char *
report_where(const struct proto_endpoint *at, char out[PROTO_WHO_MAX])
{
    bool v6 = strchr(at->host, ':') != NULL;
    if (at->control_port == REPORT_PORT_USUAL || at->control_port == 0)
        snprintf(out, PROTO_WHO_MAX, "%s", at->host);
    else
        snprintf(out, PROTO_WHO_MAX, v6 ? "[%s]:%u" : "%s:%u", at->host, at->control_port);
    return out;
}

/* How people call peers[i]: "pc3 (192.168.7.13)"; only its address while its name is unknown. Returns `out`. */
const char *report_who(const struct core *core, int i, char out[PROTO_WHO_MAX]);

#endif

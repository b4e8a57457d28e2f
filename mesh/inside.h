/* inside.h - a core from inside: the parts of one node, for the files of mesh/ that make it up.
 *
 * Each event sets the clocks, goes to the part it concerns, and ends in core_settle (core.c), which lets
 * every part do what has become possible. */
#ifndef MESH_INSIDE_H
#define MESH_INSIDE_H

#include <string.h>

#include "mesh/admit.h"
#include "mesh/contact.h"
#include "mesh/core.h"
#include "mesh/doubt.h"
#include "mesh/fetch.h"
#include "mesh/heartbeat.h"
#include "mesh/link.h"
#include "mesh/mend.h"
#include "mesh/mutant.h"
#include "mesh/own.h"
#include "mesh/pace.h"
#include "mesh/peers.h"
#include "mesh/plan.h"
#include "mesh/probe.h"
#include "mesh/rendezvous.h"
#include "mesh/ring.h"
#include "mesh/serve.h"

enum {
    CORE_DUE_US = CORE_TICK_US + 2000, /* a longer gap between two events: this node is late */
    CORE_LATE_MAX = 8,                 /* and its deadlines are so many times as long at most; */
    CORE_NAP_US = 3 * CORE_TICK_US,    /* no gap counts for more: then this node did not run */
    CORE_LINE_MAX = 512,               /* bytes of a log line */
    CORE_SWEEP_US = 500000,            /* between two sweeps of frames no plan wants */
};

struct core {
    struct core_config config;
    struct core_ops ops;
    void *ctx;
    struct core_bucket *buckets;
    uint64_t all;           /* bitmap of all shards */
    uint64_t now;           /* us, of the event being handled */
    uint64_t awake;         /* us this node has been running: what deadlines are measured in */
    uint64_t started_at_us; /* awake when the trainer gave its first state */

    uint64_t round; /* next to be committed */
    uint64_t applied_at_us,
        round_us; /* awake; when `round` began, and how long the one before took */
    uint64_t state_hash;
    size_t first_bucket;
    bool done;
    bool leaving;
    bool finished;

    struct link_table links;
    struct rendezvous rendezvous;
    struct admit admit;
    struct peers peers;
    struct contacts contacts;
    struct plan plan;
    struct own own;
    struct fetch fetch;
    struct serve serve;
    uint64_t *hashes; /* [serve_blocks] of the state in state_in: being fetched, or being given */
    struct mend mend;
    struct probe probe;
    struct doubt doubt;
    struct pace pace;
    uint64_t damages;
    uint64_t shared; /* rounds that others took part in */
    struct ring *ring;
    uint64_t sweep_at_us; /* awake; when frames no plan wants are released */
};

void core_log(struct core *core, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static inline bool
core_mutant(const struct core *core, uint32_t bit)
{
    return (core->config.mutant & bit) != 0;
}

static inline bool
core_node_equal(struct proto_node a, struct proto_node b)
{
    return a.id == b.id && a.incarnation == b.incarnation;
}

static inline bool
core_endpoint_equal(const struct proto_endpoint *a, const struct proto_endpoint *b)
{
    return a->control_port == b->control_port && strcmp(a->host, b->host) == 0;
}

static inline struct proto_endpoint
core_endpoint(const char *host, uint16_t port)
{
    struct proto_endpoint at = {.control_port = port};
    memcpy(at.host, host, strnlen(host, sizeof at.host - 1));
    return at;
}

#endif

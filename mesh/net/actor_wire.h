/* actor_wire.h - the ZeroMQ sockets of a node: control and bulk links, and what arrives on them.
 *
 *     others' DEALERs --> ROUTER (control port)      DEALER  --> a peer's ROUTER    control context
 *     others' PUSHes  --> PULL   (bulk port)         PUSH    --> a peer's PULL      bulk context
 *
 *     (two of them: express)
 *
 * A node receives on the two bound sockets and sends on one DEALER and one PUSH per link (the pattern of ZRE, RFC
 * 36 of ZeroMQ). There are two contexts, so that a small control message never queues behind bulk data in an I/O
 * thread. There are two PUSHes per link, so that small buckets do not queue behind megabytes of others: the next
 * step needs them first, and they are ready last. TCP divides the network between the two.
 *
 * A link is one connection, and ZeroMQ never reconnects it. When it breaks, its sockets are closed with everything
 * that is queued, wire_events.link_down is called, and the core decides what to do. So a message for a dead peer
 * never reaches the next program that listens on its port. The routing id is that of the node (proto_node_encode) plus
 * four bytes that number our connections: ZeroMQ silently ignores a second connection with an id that it knows, and
 * a half-open first one may still exist. PUSH has no routing id, so the node's 17 bytes precede each bulk header in
 * the same frame.
 *
 * One thread at a time makes all calls. Changing the thread needs a full fence (a mutex). Only wire_pulse and
 * wire_beat_at may be called by another thread at the same time. */
#ifndef MESH_ACTOR_WIRE_H
#define MESH_ACTOR_WIRE_H

#include "mesh/core/core.h"
#include "proto/proto.h"
#include "proto/why.h"

struct wire;

enum { WIRE_LINKS_MAX = 2 * PROTO_PEERS_MAX };

struct wire_setup {
    struct proto_node self;
    /* Address to listen on; our connections come from it, too; "*": any. Borrowed for the call. */
    const char *address;
    uint16_t port; /* control port; 0: the first free one */
    uint16_t port_first, port_last;
    int epoll_fd; /* wire adds its descriptors; call wire_ready for their events */
    /* eventfd; written when zero-copy buffers come back while somebody waits for them */
    int wake_fd;
    size_t frames;     /* how many received bodies the core may keep at a time */
    size_t queue_size; /* messages per link that may wait for room in its PUSH */
    /* [bucket_count]: chunks of this bucket use the express socket; borrowed */
    const bool *express;
    size_t bucket_count;
};

struct wire_events {
    void (*link_up)(void *ctx, unsigned link);
    void (*link_down)(void *ctx, unsigned link);
    void (*message)(void *ctx, struct proto_node from, const char *host,
                    const struct proto_msg *msg, const void *body, size_t size);
    void (*bulk)(void *ctx, struct proto_node from, const struct proto_msg *msg,
                 struct core_frame *frame);
    void (*log)(void *ctx, int level, const char *line);
};

struct wire_counts {
    uint64_t tx_bytes, rx_bytes; /* headers and bodies */
    uint64_t dropped;            /* not sent: queue full or no connection */
    uint64_t bad;                /* received but not understood */
};

/* Returns 0, or -EADDRINUSE and others with one line in `why` that names the address and port. */
int wire_new(struct wire **out, const struct wire_setup *setup, const struct wire_events *events,
             void *ctx, struct why *why);
/* Control messages that were already sent get `linger_ms` to leave. Returns when every zero-copy buffer is free and
 * none of our threads is left. */
void wire_destroy(struct wire **wire, int linger_ms);

/* Listens on another address, with the same ports, and makes new connections from there. Returns 0 or -errno. After an
 * error the sockets may listen nowhere: call it again. */
int wire_move(struct wire *wire, const char *address);

uint16_t wire_control_port(const struct wire *wire);
uint16_t wire_bulk_port(const struct wire *wire);
void wire_counts(const struct wire *wire, struct wire_counts *out);

/* Tell every peer that has had a heartbeat from us, and for which the next one is overdue, that we are alive. */
void wire_pulse(struct wire *wire);
/* When the last heartbeat was sent, in us of clock_us; 0: none yet. */
uint64_t wire_beat_at(struct wire *wire);

/* What the core asks of its wire, see core.h; ctx: a struct wire. None of them calls an event: wire_settle reports
 * failures. */
extern const struct core_wire wire_for_core;
void wire_connect(void *ctx, unsigned link, const struct proto_endpoint *to);
void wire_disconnect(void *ctx, unsigned link);
void wire_send(void *ctx, unsigned link, const struct proto_msg *msg, const void *body,
               size_t size);
void wire_send_bulk(void *ctx, unsigned link, const struct proto_msg *msg, const void *body,
                    size_t size, bool lent);
bool wire_make(void *ctx, size_t most, bool must, struct core_frame *frame);
void wire_pass_on(void *ctx, const unsigned *links, size_t count, const struct proto_msg *msg,
                  struct core_frame *frame);
void wire_peer_up(void *ctx, unsigned link, struct proto_node node, uint16_t bulk_port);
void wire_peer_down(void *ctx, unsigned link);
void wire_keep(void *ctx, struct core_frame *frame);
void wire_release(void *ctx, void *handle);

/* For an epoll event whose data.u64 has WIRE_TAG set. True when more may be waiting: then call wire_ready with the
 * same tag again before sleeping, because ZeroMQ's descriptors only report changes. */
#define WIRE_TAG (UINT64_C(1) << 63)
bool wire_ready(struct wire *wire, uint64_t tag);
#define WIRE_TAG_CONTROL WIRE_TAG
#define WIRE_TAG_BULK    (WIRE_TAG | UINT64_C(1) << 32)
/* True when reading bulk had stopped because the core kept every frame, and can go on now: call wire_ready with
 * WIRE_TAG_BULK. */
bool wire_stalled(const struct wire *wire);

/* Ends connections on which a message has no end, and gives memory back some time after peers came or went. Call it at
 * least every CORE_TICK_US; time in microseconds. True: call wire_ready with WIRE_TAG_CONTROL and WIRE_TAG_BULK before
 * you sleep, as if more were waiting. */
bool wire_tick(struct wire *wire, uint64_t now);
/* Reports links that failed. True when there were any. */
bool wire_settle(struct wire *wire);
/* How many lent bodies came back since the last call. */
unsigned wire_sent(struct wire *wire);
/* True: the caller is about to sleep; wake it when zero-copy buffers come back. Returns false when some already
 * have. */
bool wire_sleep(struct wire *wire, bool sleep);

#endif

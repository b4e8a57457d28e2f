/* actor_guard.h - ends connections on which a message never ends.
 *
 * ZeroMQ limits the size of a frame and the number of messages in a queue, but not the number of frames in a
 * message. A peer that always says "more follows" fills the memory, and we never see any of it. No option and no
 * socket type of ZeroMQ prevents this. So the guard compares two things for each connection: the bytes that ZeroMQ
 * took from it, which the kernel counts (TCP_INFO), and the whole messages that we read.
 *
 *     guard_check    looks at the counters: a connection is suspected when ZeroMQ took more than one message of
 *                     the largest size since we last read a whole one
 *     (we read on until ZeroMQ has no whole message left)
 *     guard_empty    ends each suspected connection from which no whole message came meanwhile
 *
 * A message that was complete at guard_check has been read by then. So it does not matter how busy our thread is:
 * it may come late to both calls, and a connection with valid messages is never ended.
 *
 * A connection belongs to a member if a valid message of a node came on it and we have, or get, a session with that
 * node. Its address does not matter. All other connections belong to strangers. A stranger may send less, and all
 * strangers together at most GUARD_STRANGERS_MAX, because ZeroMQ may need 64 bytes of memory for two received
 * bytes. Nodes do not prove their identity: a program that uses the id of a member has the limit of a member on each
 * of its connections.
 *
 * The descriptors belong to ZeroMQ, which may close one and get it again for another connection at any time. The
 * kernel's number of a socket (SO_COOKIE) tells them apart. The guard ends a connection through a duplicate of its
 * descriptor, after it has checked that this is the right socket. Not thread-safe. */
#ifndef MESH_ACTOR_GUARD_H
#define MESH_ACTOR_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/proto.h"

struct guard;

enum {
    GUARD_LINES_MAX = 4096,
    GUARD_PERIOD_US = 10000,
    GUARD_LOOKS = 16, /* at connections of members, and that we made, in each period */
    GUARD_STRANGERS_MAX = 1 << 20,
    GUARD_SPARE = 64,   /* free bytes per second on GUARD_OUT: answers to ZeroMQ's own heartbeats */
    GUARD_WHO_MAX = 80, /* "HOST:PORT" with the final 0 */
};

/* Where a connection leads. */
enum guard_plane {
    GUARD_CONTROL, /* to the socket that receives control messages */
    GUARD_BULK,    /* to the one that receives bulk messages */
    GUARD_OUT,     /* away from us: no message may come on it */
    GUARD_PLANES
};

/* Bytes that ZeroMQ may hold for one connection. */
struct guard_limits {
    uint64_t stranger; /* for one message of a stranger */
    uint64_t message;  /* of a member: the largest one, and what ZeroMQ reads ahead */
    uint64_t queue;    /* for all messages while we do not read; for all strangers together, too */
};

struct guard_setup {
    struct guard_limits limits[GUARD_PLANES];
    /* A connection was ended: whose it was ("HOST:PORT"), and how many bytes of its message came. */
    void (*ended)(void *ctx, const char *who, uint64_t bytes);
    void *ctx;
};

/* Returns 0 or -errno. */
int guard_new(struct guard **out, const struct guard_setup *setup);
void guard_destroy(struct guard **guard);

/* A connection was accepted or made. It is ended at once if its descriptor is not below GUARD_LINES_MAX. */
void guard_add(struct guard *guard, int fd, enum guard_plane plane);
/* A whole message was read from it. `from` is the node that sent it; id 0: the message was not valid. `member`: we
 * have a session with that node. It may be called before guard_add. */
void guard_heard(struct guard *guard, int fd, enum guard_plane plane, struct proto_node from,
                 bool member);
/* A session with this node has begun: its connections belong to a member from now on. */
void guard_met(struct guard *guard, struct proto_node node);

/* Looks at the counters, at most every GUARD_PERIOD_US; at those of members in turn, so each has its turn within 0.25 s
 * in the largest mesh. True: a connection is suspected; read both sockets until
 * they are empty. */
bool guard_check(struct guard *guard, uint64_t now_us);
/* ZeroMQ has no whole message left for this plane. */
void guard_empty(struct guard *guard, enum guard_plane plane);

#endif

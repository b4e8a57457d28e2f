/* actor_guard.h - ends connections on which a message comes without an end.
 *
 * ZeroMQ bounds the frames of a message and the messages in a queue, but not the number of frames in a message. Who
 * says "more follows" for ever fills the memory, and nothing of it is ever handed to us. No option of ZeroMQ and no
 * type of socket bounds that. So the guard compares two things for each connection: the bytes that ZeroMQ took from
 * it, which the kernel counts (TCP_INFO), and the whole messages that we read.
 *
 *     guard_check    looks at the counters: a connection is suspected when ZeroMQ took more than one message of
 *                    the largest size since we last read a whole one
 *     (we read on until ZeroMQ has no whole message left)
 *     guard_empty    ends each suspected connection from which no whole message came meanwhile
 *
 * A message that was complete when we looked has been read by then. So it does not matter how busy our thread is: it
 * may come late to both, and never ends a connection on which messages come as they should.
 *
 * A connection belongs to a member when a valid message of a node came on it and we have, or get, a session with that
 * node. Its address does not matter. All other connections are strangers'. They may send less each, and together no
 * more than GUARD_STRANGERS_MAX, since ZeroMQ may need 64 bytes of memory for two that came. Nodes do not prove who
 * they are: a program that takes the id of a member has a member's limit on each of its connections.
 *
 * The descriptors are ZeroMQ's, which may close one and get it again for another connection at any moment. The
 * kernel's number of a socket (SO_COOKIE) tells them apart. A connection is ended through a duplicate of its
 * descriptor that was found to be the right socket. Not thread-safe. */
#ifndef MESH_ACTOR_GUARD_H
#define MESH_ACTOR_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/proto.h"

struct guard;

enum {
    GUARD_LINES_MAX = 4096,
    GUARD_PERIOD_US = 10000,
    GUARD_STRANGERS_MAX = 1 << 20,
    GUARD_SPARE =
        64, /* bytes a second that are free on GUARD_OUT: answers to ZeroMQ's own heartbeats */
    GUARD_WHO_MAX = 80, /* "HOST:PORT" with the final 0 */
};

/* Where a connection leads. */
enum guard_plane {
    GUARD_CONTROL, /* to the socket that receives control messages */
    GUARD_BULK,    /* to the one that receives bulk messages */
    GUARD_OUT,     /* away from us: no message is to come on it */
    GUARD_PLANES
};

/* Bytes that ZeroMQ may hold of one connection. */
struct guard_limits {
    uint64_t stranger; /* of one message of a stranger */
    uint64_t message; /* of one message of a member: the largest one, and what ZeroMQ reads ahead */
    uint64_t queue;   /* of all messages, while we do not read; of all strangers together, too */
};

struct guard_setup {
    struct guard_limits limits[GUARD_PLANES];
    /* A connection was ended: of whom ("HOST:PORT"), and how many bytes came of its message. */
    void (*ended)(void *ctx, const char *who, uint64_t bytes);
    void *ctx;
};

/* 0 or -errno. */
int guard_new(struct guard **out, const struct guard_setup *setup);
void guard_destroy(struct guard **guard);

/* A connection has come, or was made. One whose descriptor is not below GUARD_LINES_MAX is ended at once. */
void guard_add(struct guard *guard, int fd, enum guard_plane plane);
/* A whole message was read from it. `from` is the node that sent it, id 0 when the message was not valid. `member`:
 * we have a session with that node. May come before guard_add. */
void guard_heard(struct guard *guard, int fd, enum guard_plane plane, struct proto_node from,
                 bool member);
/* A session with this node has begun: its connections are a member's from now on. */
void guard_met(struct guard *guard, struct proto_node node);

/* Look at the counters, at most every GUARD_PERIOD_US. True: some connection is suspected, so read both sockets until
 * they are empty. */
bool guard_check(struct guard *guard, uint64_t now_us);
/* ZeroMQ has no whole message left on this plane. */
void guard_empty(struct guard *guard, enum guard_plane plane);

#endif

/* actor_guard.h - ends connections on which something comes without an end.
 *
 * ZeroMQ bounds the frames of a message and the messages in a queue, but not the frames in a message: who says
 * "more follows" for ever fills the memory, and nothing of it is ever handed to us. So the bytes of each
 * connection are counted by the kernel (TCP_INFO), and what ZeroMQ took of them since the last whole message
 * may not exceed a limit that no node comes near to: a small one for hosts on which we never knew a node,
 * since ZeroMQ may need 64 bytes of memory for two that came. Commands of ZMTP are no messages: GUARD_SPARE bytes
 * a second are free.
 *
 * The descriptors are ZeroMQ's. Shutting one down makes it close the connection and drop what it holds. One
 * that it closed meanwhile, and that is another connection by now, costs that connection: links are made
 * anew. Not thread-safe. */
#ifndef MESH_ACTOR_GUARD_H
#define MESH_ACTOR_GUARD_H

#include <stdbool.h>
#include <stdint.h>

struct guard;

enum {
    GUARD_LINES_MAX = 4096,
    GUARD_PERIOD_US = 20000,
    GUARD_SPARE = 1024,
    GUARD_STRANGER_MAX = 1 << 16
};

/* Do we know a node on this host, or did we? An address as text, IPv4 also where it came as IPv6. */
typedef bool guard_known(void *ctx, const char *host);

/* 0 or -ENOMEM. */
int guard_new(struct guard **out, guard_known *known, void *ctx);
void guard_destroy(struct guard **guard);

/* A connection has come. One whose descriptor is not below GUARD_LINES_MAX is one too many, and is ended.
 * `bytes_max` is for hosts that are known. */
void guard_add(struct guard *guard, int fd, uint64_t bytes_max);
void guard_remove(struct guard *guard, int fd); /* both may be none */
/* A whole message has come on it. Descriptors that are not known are ignored. */
void guard_heard(struct guard *guard, int fd);
/* Does something every GUARD_PERIOD_US. Returns how many connections it ended. */
unsigned guard_check(struct guard *guard, uint64_t now_us);

#endif

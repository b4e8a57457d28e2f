/* discover_resolve.h - looks up the host names of seeds in a thread of its own.
 *
 * A look-up can take many seconds, and neither ZeroMQ's I/O threads nor the actor may wait that long. One thread
 * looks up all names every RESOLVE_PERIOD_MS. Numeric hosts need no thread. A look-up cannot be cancelled: if
 * resolve_destroy is called during one, it leaves the thread alone, and the thread frees the shared memory when it
 * ends. Uses libc and proto/proto.h. */
#ifndef MESH_DISCOVER_RESOLVE_H
#define MESH_DISCOVER_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>

#include "mesh/network.h"
#include "proto/proto.h"

enum { RESOLVE_PERIOD_MS = 5000, RESOLVE_ADDRESSES_MAX = 64 /* per name */ };

struct resolve;

/* `names` is copied. Returns 0, -ENOMEM or -EAGAIN (no thread). */
int resolve_new(struct resolve **out, const struct proto_endpoint *names, size_t count);
void resolve_destroy(struct resolve **resolve);

/* Copies the addresses known so far to out[max] and returns their number. */
size_t resolve_known(struct resolve *resolve, struct proto_endpoint *out, size_t max);

/* News of a name, each told once: its first look-up failed (`address` is ""), or a later one found `address`. Returns
 * false if there are none. */
bool resolve_news(struct resolve *resolve, struct proto_endpoint *name,
                  char address[PROTO_HOST_MAX]);

/* What became of the names, in their order: all but `answers`. Returns their number. */
size_t resolve_names(struct resolve *resolve, struct network_name *out, size_t max);

/* Is `host` an IPv4 or IPv6 address (with or without %zone)? */
bool resolve_numeric(const char *host);

#endif

/* discover_resolve.h - host names of seeds to addresses, off everybody's way.
 *
 * Looking a name up can take many seconds, and neither ZeroMQ's I/O threads nor the actor may stand
 * still for that long. One thread looks all names up every RESOLVE_PERIOD_MS; numeric hosts need no
 * thread. A look-up cannot be cancelled: destroying while one goes on leaves the thread alone, and it
 * frees what it shared with us when it ends. Uses libc and proto/proto.h. */
#ifndef MESH_DISCOVER_RESOLVE_H
#define MESH_DISCOVER_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/proto.h"

enum { RESOLVE_PERIOD_MS = 5000, RESOLVE_ADDRESSES_MAX = 4 /* per name */ };

struct resolve;

/* `names` is copied. Returns 0, -ENOMEM or -EAGAIN (no thread). */
int resolve_new(struct resolve **out, const struct proto_endpoint *names, size_t count);
void resolve_destroy(struct resolve **resolve);

/* The addresses known by now, into out[max]; returns their number. */
size_t resolve_known(struct resolve *resolve, struct proto_endpoint *out, size_t max);

/* Is it an IPv4 or IPv6 address (with or without %zone)? */
bool resolve_numeric(const char *host);

#endif

/* messages.h - sample messages for tests: each field small, large or random within its limits.
 *
 * A sample owns its lists, so a copy of the struct is not a sample: pass pointers. */
#ifndef SUPPORT_MESSAGES_H
#define SUPPORT_MESSAGES_H

#include "proto/proto.h"
#include "tests/support/rand.h"

enum messages_size { MESSAGES_SMALL, MESSAGES_LARGE, MESSAGES_RANDOM, MESSAGES_SIZES };

struct messages_sample {
    struct proto_msg msg;
    struct proto_endpoint endpoints[PROTO_PEERS_MAX];
};

/* MESSAGES_SMALL takes each field's smallest value and empty lists, MESSAGES_LARGE the largest. */
void messages_make(struct messages_sample *out, enum proto_type type, enum messages_size size,
                   struct rand *rand);
/* Field by field; texts up to their end. */
bool messages_equal(const struct proto_msg *a, const struct proto_msg *b);

#endif

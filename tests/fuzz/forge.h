/* forge.h - changes one field of a message to another value that the decoder lets pass, whatever the type is.
 *
 * messages.def lists all fields with their limits, so nothing here knows any type. Fields of list items count, too;
 * texts do not. What breaks a rule about several fields is for the caller to refuse. */
#ifndef FUZZ_FORGE_H
#define FUZZ_FORGE_H

#include "proto/proto.h"

struct forge {
    unsigned field; /* which one; counts down */
    uint8_t
        value; /* a quarter each: near the present one, near the smallest, near the largest, a power of two */
    uint8_t item; /* of a list */
};

static inline uint64_t
forge_value(const struct forge *forge, uint64_t now, uint64_t min, uint64_t max)
{
    unsigned k = forge->value % 64;
    uint64_t value[] = {now + k - 32, min + k, max - k, UINT64_C(1) << k};
    uint64_t chosen = value[forge->value / 64];
    return chosen >= min && chosen <= max ? chosen : k & 1 ? max : min;
}

struct proto_nothing;

/* clang-format off */
#define FIELDS(list)                                                                               \
    static inline void forge_in_##list(struct proto_##list *x, struct forge *forge)                   \
    {                                                                                              \
        (void)x, (void)forge;
#define END(list) }
#define UINT(list, m, min, max)                                                                    \
        if (forge->field-- == 0)                                                                   \
            x->m = forge_value(forge, x->m, min, max);
#define BOOL(list, m)                                                                              \
        if (forge->field-- == 0)                                                                   \
            x->m = !x->m;
#define TEXT(list, m, min)
#define HOST(list, m)
#define LIST(list, m, count, min, max, item_list, indirect)                                        \
        if (forge->field-- == 0 && x->count > (min))                                               \
            x->count--;                                                                            \
        if (x->count > 0)                                                                          \
            forge_in_##item_list(&x->m[forge->item % x->count], forge);
/* clang-format on */
#include "proto/messages.def"

static inline void
forge_field(struct proto_msg *msg, struct forge forge)
{
    void *fields = &msg->hello; /* where every type of the union lies */
    switch (msg->type) {
#define MESSAGE(symbol, number, list, meaning)                                                     \
    case PROTO_##symbol:                                                                           \
        forge_in_##list(fields, &forge);                                                           \
        break;
#include "proto/messages.def"
    default:
        break;
    }
}

#endif

/* fields.h - a struct as a table of fields, and the one walker that writes and reads such tables.
 *
 *     static const struct field hold_fields[] = {
 *         FIELD_UINT(proto_hold, plan, 1, UINT64_MAX),        // member, smallest, largest
 *         FIELD_UINT(proto_hold, round, 0, PROTO_ROUND_MAX),
 *     };
 *
 * A row says what a field is, where it lies in the struct and what it may hold: each limit is written
 * once, asserted when we write and refused when a peer broke it. For msg.c. Uses pack.h, text.h. */
#ifndef PROTO_FIELDS_H
#define PROTO_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/pack.h"

enum field_kind { FIELD_BOOL, FIELD_UINT, FIELD_TEXT, FIELD_HOST, FIELD_LIST };

struct field {
    const char *name;
    enum field_kind kind;
    size_t offset;             /* in the struct of the type, or of the list's item */
    size_t width;              /* bytes: of the number, the text's buffer, the list's item */
    uint64_t min, max;         /* of the number, the text's length, the list's count */
    const struct field *items; /* list: the fields of an item, each item being a list itself */
    size_t item_fields;
    size_t count_offset; /* list: where its count lies */
    bool indirect;       /* list: `offset` holds a pointer to the items */
};

#define FIELD_WIDTH(s, member) sizeof(((struct s *)0)->member)
#define FIELD_BOOL(s, member)                                                                      \
    {                                                                                              \
        .name = #member, .kind = FIELD_BOOL, .offset = offsetof(struct s, member)                  \
    }
#define FIELD_UINT(s, member, low, high)                                                           \
    {                                                                                              \
        .name = #member, .kind = FIELD_UINT, .offset = offsetof(struct s, member),                 \
        .width = FIELD_WIDTH(s, member), .min = (low), .max = (high)                               \
    }
#define FIELD_TEXT(s, member, form, least)                                                         \
    {                                                                                              \
        .name = #member, .kind = (form), .offset = offsetof(struct s, member),                     \
        .width = FIELD_WIDTH(s, member), .min = (least), .max = FIELD_WIDTH(s, member) - 1         \
    }
#define FIELD_LIST(s, member, counter, low, high, item, pointer)                                   \
    {                                                                                              \
        .name = #member, .kind = FIELD_LIST, .offset = offsetof(struct s, member),                 \
        .width = FIELD_WIDTH(s, member[0]), .min = (low), .max = (high), .items = (item),          \
        .item_fields = sizeof(item) / sizeof(item)[0],                                             \
        .count_offset = offsetof(struct s, counter), .indirect = (pointer)                         \
    }

/* Append the fields of `base`, the struct of the table, to `out`. */
void fields_write(struct pack_out *out, const struct field *fields, size_t count,
                  const uint8_t *base);

struct reader {
    struct pack_in in;
    const char *type; /* of the message, for `why` */
    const char *list; /* the list we are in, NULL outside of one */
    size_t index;     /* in that list */
    char *why;
    size_t why_size;
};

/* Read the fields into `base`. Returns 0, -EMSGSIZE (list or text over its limit) or -EBADMSG, with the
 * line in reader->why. */
int fields_read(struct reader *reader, const struct field *fields, size_t count, uint8_t *base);
/* Head of a list of min..max elements; `field` names it, NULL the message or item itself. */
int fields_read_head(struct reader *reader, const char *field, size_t min, size_t max,
                     size_t *count);
/* Fill `why` with "PLAN.members[3].shards <what>"; returns rc. */
__attribute__((format(printf, 4, 5))) int fields_refuse(const struct reader *reader, int rc,
                                                        const char *field, const char *what, ...);

#endif

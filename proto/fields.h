/* fields.h - describes a struct as a table of fields; one function writes such tables, one reads them.
 *
 *     static const struct field hold_fields[] = {
 *         FIELD_UINT(proto_hold, plan, 1, UINT64_MAX),        // member, smallest, largest
 *         FIELD_UINT(proto_hold, round, 0, PROTO_ROUND_MAX),
 *         {0},                                                // ends each table
 *     };
 *
 * msg.c makes such a table of each message in messages.def.
 *
 * A row says what a field is, where it is in the struct and which values it may have. So each limit is written once:
 * it is asserted when we write, and checked when we read the message of a peer. For msg.c. Uses pack.h and text.h. */
#ifndef PROTO_FIELDS_H
#define PROTO_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/pack.h"
#include "proto/why.h"

enum field_kind { FIELD_BOOL, FIELD_UINT, FIELD_TEXT, FIELD_HOST, FIELD_LIST };

struct field {
    const char *name;
    enum field_kind kind;
    size_t offset;     /* in the struct of the message type, or in the list's item */
    size_t width;      /* bytes: of the number, of the text's buffer, or of the list's item */
    uint64_t min, max; /* limits of the number, of the text's length, or of the list's count */
    const struct field *items; /* list: the fields of an item; each item is a list itself */
    size_t item_fields;
    size_t count_offset; /* list: offset of its count */
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
/* Rows of a table: the last one is empty. */
#define FIELDS_COUNT(table) (sizeof(table) / sizeof(table)[0] - 1)
#define FIELD_LIST(s, member, counter, low, high, item, pointer)                                   \
    {                                                                                              \
        .name = #member, .kind = FIELD_LIST, .offset = offsetof(struct s, member),                 \
        .width = FIELD_WIDTH(s, member[0]), .min = (low), .max = (high), .items = (item),          \
        .item_fields = FIELDS_COUNT(item), .count_offset = offsetof(struct s, counter),            \
        .indirect = (pointer)                                                                      \
    }

/* Appends the fields of the struct at `base` to `out`. */
void fields_write(struct pack_out *out, const struct field *fields, size_t count,
                  const uint8_t *base);

/* Of all numbers of the struct at `base`, and of those of its lists, in order: a chain that begins with the first one.
 * It has no texts. */
uint64_t fields_hash(const struct field *fields, size_t count, const uint8_t *base);

struct reader {
    struct pack_in in;
    const char *type; /* name of the message type, for `why` */
    const char *list; /* the list that is being read; NULL outside of a list */
    size_t index;     /* in that list */
    struct why *why;
};

/* Reads the fields into `base`. Returns 0, -EMSGSIZE (a list or text is over its limit) or -EBADMSG; on error
 * reader->why has the line. */
int fields_read(struct reader *reader, const struct field *fields, size_t count, uint8_t *base);
/* Reads the head of a list of min..max elements. `field` is its name; NULL means the message or item itself. */
int fields_read_head(struct reader *reader, const char *field, size_t min, size_t max,
                     size_t *count);
/* Fills `why` with "PLAN.members[3].shards <what>" and returns rc. */
__attribute__((format(printf, 4, 5))) int fields_refuse(const struct reader *reader, int rc,
                                                        const char *field, const char *what, ...);

#endif

/* msg.c - every type of message is a table of fields; one walker writes them, one reads them.
 *
 *     frame = [version, type, field, field, ...]      msgpack; PROTOCOL.md has the grammar
 *
 * A table row says what a field is, where it lies in the struct and what it may hold. The few rules that
 * tie fields together (`rule_`) follow the tables. Encoder and decoder use the same rows and rules:
 * whatever leaves us would be accepted by us. */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/mix.h"
#include "proto/pack.h"
#include "proto/proto.h"
#include "proto/text.h"

enum kind { KIND_BOOL, KIND_UINT, KIND_TEXT, KIND_HOST, KIND_LIST };

struct field {
    const char *name;
    enum kind kind;
    size_t offset;             /* in the struct of the type, or of the list's item */
    size_t width;              /* bytes: of the number, the text's buffer, the list's item */
    uint64_t min, max;         /* of the number, the text's length, the list's count */
    const struct field *items; /* list: the fields of an item, each item being a list itself */
    size_t item_fields;
    size_t count_offset; /* list: where its count lies */
    bool indirect;       /* list: `offset` holds a pointer to the items */
};

#define WIDTH(s, member) sizeof(((struct s *)0)->member)
#define BOOL(s, member)                                                                            \
    {                                                                                              \
        .name = #member, .kind = KIND_BOOL, .offset = offsetof(struct s, member)                   \
    }
#define UINT(s, member, low, high)                                                                 \
    {                                                                                              \
        .name = #member, .kind = KIND_UINT, .offset = offsetof(struct s, member),                  \
        .width = WIDTH(s, member), .min = (low), .max = (high)                                     \
    }
#define TEXT(s, member, form, least)                                                               \
    {                                                                                              \
        .name = #member, .kind = (form), .offset = offsetof(struct s, member),                     \
        .width = WIDTH(s, member), .min = (least), .max = WIDTH(s, member) - 1                     \
    }
#define LIST(s, member, counter, low, item, pointer)                                               \
    {                                                                                              \
        .name = #member, .kind = KIND_LIST, .offset = offsetof(struct s, member),                  \
        .width = WIDTH(s, member[0]), .min = (low), .max = PROTO_PEERS_MAX, .items = (item),       \
        .item_fields = sizeof(item) / sizeof(item)[0],                                             \
        .count_offset = offsetof(struct s, counter), .indirect = (pointer)                         \
    }

static const struct field node_fields[] = {
    UINT(proto_node, id, 1, UINT64_MAX),
    UINT(proto_node, incarnation, 0, UINT64_MAX),
};

static const struct field endpoint_fields[] = {
    TEXT(proto_endpoint, host, KIND_HOST, 1),
    UINT(proto_endpoint, control_port, 1, UINT16_MAX),
};

static const struct field member_fields[] = {
    UINT(proto_member, node.id, 1, UINT64_MAX),
    UINT(proto_member, node.incarnation, 0, UINT64_MAX),
    UINT(proto_member, shards, 0, UINT64_MAX),
};

static const struct field hello_fields[] = {
    BOOL(proto_hello, reply),
    BOOL(proto_hello, wants_job),
    TEXT(proto_hello, run, KIND_TEXT, 0),
    UINT(proto_hello, job_hash, 0, UINT64_MAX),
    UINT(proto_hello, numerics, 0, UINT64_MAX),
    TEXT(proto_hello, kernel, KIND_TEXT, 0),
    UINT(proto_hello, control_port, 1, UINT16_MAX),
    UINT(proto_hello, bulk_port, 0, UINT16_MAX),
};

static const struct field refuse_fields[] = {
    UINT(proto_refuse, reason, 1, PROTO_REFUSALS_END - 1),
    TEXT(proto_refuse, yours, KIND_TEXT, 0),
    TEXT(proto_refuse, mine, KIND_TEXT, 0),
};

static const struct field peers_fields[] = {
    LIST(proto_peers, endpoints, count, 0, endpoint_fields, true),
};

static const struct field heartbeat_fields[] = {
    UINT(proto_heartbeat, round, 0, PROTO_ROUND_MAX),
    BOOL(proto_heartbeat, idle),
    BOOL(proto_heartbeat, done),
    UINT(proto_heartbeat, have, 0, UINT64_MAX),
    UINT(proto_heartbeat, state_hash, 0, UINT64_MAX),
    UINT(proto_heartbeat, speed, 0, UINT32_MAX),
    LIST(proto_heartbeat, hears, hears_count, 0, node_fields, false),
};

static const struct field plan_fields[] = {
    UINT(proto_plan, round, 0, PROTO_ROUND_MAX),
    UINT(proto_plan, counter, 0, UINT64_MAX),
    UINT(proto_plan, leader.id, 1, UINT64_MAX),
    UINT(proto_plan, leader.incarnation, 0, UINT64_MAX),
    LIST(proto_plan, members, count, 1, member_fields, false),
};

static const struct field hold_fields[] = {
    UINT(proto_hold, plan, 1, UINT64_MAX),
    UINT(proto_hold, round, 0, PROTO_ROUND_MAX),
};

static const struct field abort_fields[] = {
    {.name = "plan", .kind = KIND_UINT, .width = sizeof(uint64_t), .min = 1, .max = UINT64_MAX},
};

static const struct field chunk_fields[] = {
    UINT(proto_chunk, plan, 1, UINT64_MAX),
    UINT(proto_chunk, round, 0, PROTO_ROUND_MAX),
    UINT(proto_chunk, bucket, 0, UINT16_MAX),
    UINT(proto_chunk, hop, 0, PROTO_PEERS_MAX - 1),
    BOOL(proto_chunk, direct),
    UINT(proto_chunk, first, 0, PROTO_VECTOR_MAX),
    UINT(proto_chunk, count, 0, PROTO_CHUNK_MAX),
    UINT(proto_chunk, coverage, 0, UINT64_MAX),
    UINT(proto_chunk, check, 0, UINT64_MAX),
};

static const struct field fetch_fields[] = {
    UINT(proto_fetch, round, 0, PROTO_ROUND_MAX),
    UINT(proto_fetch, block, 0, PROTO_STATE_MAX / PROTO_BLOCK_MAX - 1),
};

static const struct field state_fields[] = {
    UINT(proto_state, round, 0, PROTO_ROUND_MAX),
    UINT(proto_state, state_hash, 0, UINT64_MAX),
    UINT(proto_state, size, 0, PROTO_STATE_MAX),
    UINT(proto_state, block, 0, PROTO_STATE_MAX / PROTO_BLOCK_MAX - 1),
    UINT(proto_state, check, 0, UINT64_MAX),
};

/* Shards 0..S-1 for some S: a bitmap without gaps from the lowest bit on. */
static bool
is_all_shards(uint64_t shards)
{
    return shards != 0 && (shards & (shards + 1)) == 0;
}

/* Rules return 0, or -EBADMSG with the line in `why`. */
static int
rule_hello(const struct proto_msg *msg, char *why, size_t why_size)
{
    const struct proto_hello *hello = &msg->hello;
    if (hello->wants_job && (hello->run[0] || hello->job_hash)) {
        snprintf(why, why_size, "HELLO.run = \"%s\", job_hash = %llx, expected none with wants_job",
                 hello->run, (unsigned long long)hello->job_hash);
        return -EBADMSG;
    }
    if (!hello->wants_job && hello->bulk_port == 0) {
        snprintf(why, why_size, "HELLO.bulk_port = 0, expected 1..65535 without wants_job");
        return -EBADMSG;
    }
    return 0;
}

static int
rule_member(const struct proto_plan *plan, size_t index, uint64_t taken, char *why, size_t why_size)
{
    const struct proto_member *member = &plan->members[index];
    if (member->shards & taken) {
        snprintf(why, why_size, "PLAN.members[%zu].shards = %llx, expected none of %llx", index,
                 (unsigned long long)member->shards, (unsigned long long)taken);
        return -EBADMSG;
    }
    for (size_t i = 0; i < index; i++)
        if (plan->members[i].node.id == member->node.id) {
            snprintf(why, why_size,
                     "PLAN.members[%zu].id = %llx, expected another than members[%zu]", index,
                     (unsigned long long)member->node.id, i);
            return -EBADMSG;
        }
    return 0;
}

static int
rule_plan(const struct proto_msg *msg, char *why, size_t why_size)
{
    const struct proto_plan *plan = &msg->plan;
    uint64_t shards = 0;
    bool leads = false;
    for (size_t i = 0; i < plan->count; i++) {
        int rc = rule_member(plan, i, shards, why, why_size);
        if (rc)
            return rc;
        const struct proto_node *node = &plan->members[i].node;
        leads |= node->id == plan->leader.id && node->incarnation == plan->leader.incarnation;
        shards |= plan->members[i].shards;
    }
    if (!leads) {
        snprintf(why, why_size, "PLAN.leader = %llx, expected one of the %zu members",
                 (unsigned long long)plan->leader.id, plan->count);
        return -EBADMSG;
    }
    if (!is_all_shards(shards)) {
        snprintf(why, why_size, "PLAN.members: shards %llx in all, expected no gap from bit 0 on",
                 (unsigned long long)shards);
        return -EBADMSG;
    }
    return 0;
}

static int
rule_chunk(const struct proto_msg *msg, char *why, size_t why_size)
{
    const struct proto_chunk *chunk = &msg->chunk;
    if (chunk->first > PROTO_VECTOR_MAX - chunk->count) {
        snprintf(why, why_size, "%s.first = %llu, count = %u, expected an end of at most 2^48",
                 proto_type_name(msg->type), (unsigned long long)chunk->first,
                 (unsigned)chunk->count);
        return -EBADMSG;
    }
    if (msg->type == PROTO_GATHER && (chunk->direct || !is_all_shards(chunk->coverage))) {
        snprintf(why, why_size, "GATHER.direct = %d, coverage = %llx, expected 0 and all shards",
                 chunk->direct, (unsigned long long)chunk->coverage);
        return -EBADMSG;
    }
    return 0;
}

static int
rule_state(const struct proto_msg *msg, char *why, size_t why_size)
{
    const struct proto_state *state = &msg->state;
    if (state->block == 0 || state->block * PROTO_BLOCK_MAX < state->size)
        return 0;
    snprintf(why, why_size, "STATE.block = %llu, expected less than %llu bytes have",
             (unsigned long long)state->block, (unsigned long long)state->size);
    return -EBADMSG;
}

struct type {
    const char *name;
    const struct field *fields;
    size_t field_count;
    int (*rule)(const struct proto_msg *msg, char *why, size_t why_size); /* NULL: none */
};

#define FIELDS(list) list, sizeof(list) / sizeof(list)[0]

static const struct type types[PROTO_TYPES_END] = {
    [PROTO_HELLO] = {"HELLO", FIELDS(hello_fields), rule_hello},
    [PROTO_REFUSE] = {"REFUSE", FIELDS(refuse_fields), NULL},
    [PROTO_PEERS] = {"PEERS", FIELDS(peers_fields), NULL},
    [PROTO_HEARTBEAT] = {"HEARTBEAT", FIELDS(heartbeat_fields), NULL},
    [PROTO_PLAN] = {"PLAN", FIELDS(plan_fields), rule_plan},
    [PROTO_HOLD] = {"HOLD", FIELDS(hold_fields), NULL},
    [PROTO_ABORT] = {"ABORT", FIELDS(abort_fields), NULL},
    [PROTO_REDUCE] = {"REDUCE", FIELDS(chunk_fields), rule_chunk},
    [PROTO_GATHER] = {"GATHER", FIELDS(chunk_fields), rule_chunk},
    [PROTO_FETCH] = {"FETCH", FIELDS(fetch_fields), NULL},
    [PROTO_STATE] = {"STATE", FIELDS(state_fields), rule_state},
    [PROTO_JOB] = {"JOB", NULL, 0, NULL},
    [PROTO_BYE] = {"BYE", NULL, 0, NULL},
};

const char *
proto_type_name(enum proto_type type)
{
    return type >= PROTO_HELLO && type < PROTO_TYPES_END ? types[type].name : "?";
}

static uint64_t
load(const void *from, size_t width)
{
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    switch (width) {
    case sizeof u16:
        memcpy(&u16, from, sizeof u16);
        return u16;
    case sizeof u32:
        memcpy(&u32, from, sizeof u32);
        return u32;
    default:
        assert(width == sizeof u64);
        memcpy(&u64, from, sizeof u64);
        return u64;
    }
}

static void
store(void *to, size_t width, uint64_t value)
{
    uint16_t u16 = (uint16_t)value;
    uint32_t u32 = (uint32_t)value;
    switch (width) {
    case sizeof u16:
        memcpy(to, &u16, sizeof u16);
        break;
    case sizeof u32:
        memcpy(to, &u32, sizeof u32);
        break;
    default:
        assert(width == sizeof value);
        memcpy(to, &value, sizeof value);
    }
}

/* ---- encoding ---- */

static void write_fields(struct pack_out *out, const struct field *fields, size_t count,
                         const uint8_t *base);

static void
write_text(struct pack_out *out, const struct field *field, const char *text)
{
    size_t size = strnlen(text, field->width);
    assert(size >= field->min);
    assert(size <= field->max);
    assert(field->kind == KIND_HOST ? text_host(text, size) : text_printable(text, size));
    pack_text(out, text, size);
}

/* Bytes an endpoint takes: head of its list, head and bytes of the host, the longest port. */
static size_t
endpoint_size(const struct proto_endpoint *endpoint)
{
    size_t host = strnlen(endpoint->host, sizeof endpoint->host);
    size_t port = endpoint->control_port;
    return 1 + (host < 32 ? 1 : 2) + host + (port < 0x80 ? 1 : port < 0x100 ? 2 : 3);
}

/* How many of the endpoints fit a frame; more than 15 need a head of 3 bytes, fewer fit anyway. */
static size_t
endpoints_fit(const struct proto_endpoint *endpoints, size_t count, size_t room)
{
    enum { HEAD = 3 };
    _Static_assert(15 * (PROTO_HOST_MAX + 6) < PROTO_FRAME_MAX / 2, "short lists always fit");
    size_t size = HEAD;
    for (size_t i = 0; i < count; i++) {
        size += endpoint_size(&endpoints[i]);
        if (size > room)
            return i;
    }
    return count;
}

static void
write_list(struct pack_out *out, const struct field *field, const uint8_t *base)
{
    const uint8_t *items = base + field->offset;
    uint64_t count = load(base + field->count_offset, sizeof(size_t));
    assert(count >= field->min);
    assert(count <= field->max);
    if (field->indirect) {
        const struct proto_endpoint *endpoints;
        memcpy(&endpoints, items, sizeof endpoints);
        items = (const uint8_t *)endpoints;
        count = endpoints_fit(endpoints, (size_t)count, out->max - out->size);
    }
    pack_list(out, (size_t)count);
    for (size_t i = 0; i < count; i++) {
        pack_list(out, field->item_fields);
        write_fields(out, field->items, field->item_fields, items + i * field->width);
    }
}

static void
write_uint(struct pack_out *out, const struct field *field, uint64_t value)
{
    assert(value >= field->min);
    assert(value <= field->max);
    pack_uint(out, value);
}

static void
write_fields(struct pack_out *out, const struct field *fields, size_t count, const uint8_t *base)
{
    for (const struct field *field = fields; field < fields + count; field++) {
        const uint8_t *from = base + field->offset;
        switch (field->kind) {
        case KIND_BOOL:
            pack_bool(out, *(const bool *)from);
            break;
        case KIND_UINT:
            write_uint(out, field, load(from, field->width));
            break;
        case KIND_TEXT:
        case KIND_HOST:
            write_text(out, field, (const char *)from);
            break;
        case KIND_LIST:
            write_list(out, field, base);
            break;
        }
    }
}

size_t
proto_encode(const struct proto_msg *msg, uint8_t *out)
{
    assert(msg->type >= PROTO_HELLO);
    assert(msg->type < PROTO_TYPES_END);
    const struct type *type = &types[msg->type];
    assert(!type->rule || type->rule(msg, NULL, 0) == 0);
    struct pack_out to = {.data = out, .max = PROTO_FRAME_MAX};
    pack_list(&to, 2 + type->field_count);
    pack_uint(&to, PROTO_VERSION);
    pack_uint(&to, msg->type);
    write_fields(&to, type->fields, type->field_count, (const uint8_t *)&msg->hello);
    return to.size;
}

/* ---- decoding ---- */

struct reader {
    struct pack_in in;
    const char *type;
    const char *list; /* the list we are in, NULL outside of one */
    size_t index;     /* in that list */
    char *why;
    size_t why_size;
};

/* Fill `why` with "PLAN.members[3].shards <what>"; returns rc. */
__attribute__((format(printf, 4, 5))) static int
refuse(const struct reader *reader, int rc, const char *field, const char *what, ...)
{
    char place[64] = "", text[128];
    if (reader->list)
        snprintf(place, sizeof place, ".%s[%zu]", reader->list, reader->index);
    va_list args;
    va_start(args, what);
    vsnprintf(text, sizeof text, what, args);
    va_end(args);
    snprintf(reader->why, reader->why_size, "%s%s%s%s %s", reader->type, place, field ? "." : "",
             field ? field : "", text);
    return rc;
}

static int
refuse_kind(const struct reader *reader, const char *field, const char *expected)
{
    return refuse(reader, -EBADMSG, field, "is %s, expected %s, whole and in its shortest form",
                  pack_found(&reader->in), expected);
}

static int read_fields(struct reader *reader, const struct field *fields, size_t count,
                       uint8_t *base);

static int
read_uint(struct reader *reader, const struct field *field, uint8_t *to)
{
    uint64_t value;
    if (!pack_read_uint(&reader->in, &value))
        return refuse_kind(reader, field->name, "an unsigned integer");
    if (value < field->min || value > field->max)
        return refuse(reader, -EBADMSG, field->name, "= %llu, expected %llu..%llu",
                      (unsigned long long)value, (unsigned long long)field->min,
                      (unsigned long long)field->max);
    store(to, field->width, value);
    return 0;
}

static int
read_text(struct reader *reader, const struct field *field, char *to)
{
    const char *text;
    size_t size;
    if (!pack_read_text(&reader->in, &text, &size))
        return refuse_kind(reader, field->name, "a text");
    if (size > field->max)
        return refuse(reader, -EMSGSIZE, field->name, "has %zu bytes, expected at most %llu", size,
                      (unsigned long long)field->max);
    if (field->kind == KIND_HOST && !text_host(text, size))
        return refuse(reader, -EBADMSG, field->name, "has %zu bytes, expected a name or address",
                      size);
    if (!text_printable(text, size))
        return refuse(reader, -EBADMSG, field->name,
                      "has %zu bytes, expected UTF-8 without control characters", size);
    memcpy(to, text, size);
    to[size] = 0;
    return 0;
}

static int
read_head(struct reader *reader, const char *field, size_t min, size_t max, size_t *count)
{
    if (!pack_read_list(&reader->in, count))
        return refuse_kind(reader, field, "a list");
    if (*count < min || *count > max)
        return refuse(reader, *count > max ? -EMSGSIZE : -EBADMSG, field,
                      "has %zu elements, expected %zu..%zu", *count, min, max);
    return 0;
}

static int
read_list(struct reader *reader, const struct field *field, uint8_t *base)
{
    uint8_t *items = base + field->offset;
    size_t count, fields = field->item_fields;
    int rc = read_head(reader, field->name, (size_t)field->min, (size_t)field->max, &count);
    if (rc)
        return rc;
    if (field->indirect)
        memcpy(&items, base + field->offset, sizeof items);
    store(base + field->count_offset, sizeof count, count);
    reader->list = field->name;
    for (reader->index = 0; reader->index < count; reader->index++) {
        rc = read_head(reader, NULL, fields, fields, &fields);
        if (!rc)
            rc = read_fields(reader, field->items, fields, items + reader->index * field->width);
        if (rc)
            return rc;
    }
    reader->list = NULL;
    return 0;
}

static int
read_field(struct reader *reader, const struct field *field, uint8_t *base)
{
    uint8_t *to = base + field->offset;
    switch (field->kind) {
    case KIND_BOOL:
        return pack_read_bool(&reader->in, (bool *)to)
                   ? 0
                   : refuse_kind(reader, field->name, "a boolean");
    case KIND_UINT:
        return read_uint(reader, field, to);
    case KIND_LIST:
        return read_list(reader, field, base);
    default:
        return read_text(reader, field, (char *)to);
    }
}

static int
read_fields(struct reader *reader, const struct field *fields, size_t count, uint8_t *base)
{
    for (size_t i = 0; i < count; i++) {
        int rc = read_field(reader, &fields[i], base);
        if (rc)
            return rc;
    }
    return 0;
}

/* [version, type: of how many elements the list is, is checked against the type. */
static int
read_start(struct reader *reader, enum proto_type *type, size_t *count)
{
    static const struct field version = {"version", KIND_UINT, .width = 8, .max = UINT64_MAX};
    static const struct field number = {"type", KIND_UINT, .width = 8, .min = PROTO_HELLO,
                                        .max = PROTO_TYPES_END - 1};
    uint64_t theirs, which;
    int rc = read_head(reader, NULL, 2, SIZE_MAX, count);
    if (!rc)
        rc = read_uint(reader, &version, (uint8_t *)&theirs);
    if (!rc && theirs != PROTO_VERSION)
        return refuse(reader, -EPROTONOSUPPORT, "version", "= %llu, expected %d",
                      (unsigned long long)theirs, PROTO_VERSION);
    if (!rc)
        rc = read_uint(reader, &number, (uint8_t *)&which);
    if (!rc)
        *type = (enum proto_type)which;
    return rc;
}

int
proto_decode(struct proto_msg *msg, struct proto_endpoint *endpoints, const uint8_t *frame,
             size_t size, char *why, size_t why_size)
{
    struct reader reader = {
        .in = {frame, frame + size}, .type = "message", .why = why, .why_size = why_size};
    if (size > PROTO_FRAME_MAX)
        return refuse(&reader, -EMSGSIZE, NULL, "has %zu bytes, expected at most %d", size,
                      PROTO_FRAME_MAX);
    size_t count;
    int rc = read_start(&reader, &msg->type, &count);
    if (rc)
        return rc;
    const struct type *type = &types[msg->type];
    reader.type = type->name;
    if (count != 2 + type->field_count)
        return refuse(&reader, -EBADMSG, NULL, "has %zu elements, expected %zu", count,
                      2 + type->field_count);
    if (msg->type == PROTO_PEERS) {
        if (!endpoints)
            return refuse(&reader, -EBADMSG, NULL, "came where no peer list is expected");
        msg->peers.endpoints = endpoints;
    }
    rc = read_fields(&reader, type->fields, type->field_count, (uint8_t *)&msg->hello);
    if (!rc && reader.in.at != reader.in.end)
        rc = refuse(&reader, -EBADMSG, NULL, "ends %td bytes before its frame",
                    reader.in.end - reader.in.at);
    return rc || !type->rule ? rc : type->rule(msg, why, why_size);
}

uint64_t
proto_plan_hash(const struct proto_plan *plan)
{
    uint64_t hash = mix64_pair(plan->round, plan->counter);
    hash = mix64_pair(hash, plan->leader.id);
    hash = mix64_pair(hash, plan->leader.incarnation);
    hash = mix64_pair(hash, plan->count);
    for (size_t i = 0; i < plan->count; i++) {
        const struct proto_member *member = &plan->members[i];
        hash = mix64_pair(hash, member->node.id);
        hash = mix64_pair(hash, member->node.incarnation);
        hash = mix64_pair(hash, member->shards);
    }
    return hash ? hash : 1;
}

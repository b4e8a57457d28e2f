/* msg.c - every type of message is a table of fields; one walker writes them, one reads them.
 *
 *     frame = [version, type, field, field, ...]      msgpack; PROTOCOL.md has the grammar
 *
 * messages.def lists the fields of each type. Its rows become rows of a table here, which say what a field is, where it
 * is in the struct and which values it may have. The few rules about several fields (`rule_`) follow. Encoder and
 * decoder use the same rows and rules, so they accept whatever they send. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "proto/bits.h"
#include "proto/fields.h"
#include "proto/pack.h"
#include "proto/proto.h"

/* clang-format off */
#define FIELDS(list)            static const struct field list##_fields[] = {
#define END(list)               {0}};
#define UINT(list, m, min, max) FIELD_UINT(proto_##list, m, min, max),
#define BOOL(list, m)           FIELD_BOOL(proto_##list, m),
#define TEXT(list, m, min)      FIELD_TEXT(proto_##list, m, FIELD_TEXT, min),
#define HOST(list, m)           FIELD_TEXT(proto_##list, m, FIELD_HOST, 1),
#define LIST(list, m, count, min, max, item, indirect)                                             \
    FIELD_LIST(proto_##list, m, count, min, max, item##_fields, indirect),
/* clang-format on */
#include "proto/messages.def"

/* Rules return 0, or -EBADMSG with the line in `why`. */
static int
rule_hello(const struct proto_hello *hello, struct why *why)
{
    if (hello->wants_job && (hello->run[0] || hello->job_hash))
        return why_error(why, -EBADMSG,
                         "HELLO.run = \"%s\", job_hash = %llx, expected none with wants_job",
                         hello->run, (unsigned long long)hello->job_hash);
    if (!hello->wants_job && hello->bulk_port == 0)
        return why_error(why, -EBADMSG, "HELLO.bulk_port = 0, expected 1..65535 without wants_job");
    return 0;
}

static int
rule_member(const struct proto_plan *plan, size_t index, struct why *why)
{
    const struct proto_member *member = &plan->members[index];
    if (member->computes & ~bits_below((unsigned)plan->cut_count + 1))
        return why_error(why, -EBADMSG, "PLAN.members[%zu].computes = %llx, expected some of %zu",
                         index, (unsigned long long)member->computes, plan->cut_count + 1);
    for (size_t i = 0; i < index; i++)
        if (plan->members[i].node.id == member->node.id)
            return why_error(why, -EBADMSG,
                             "PLAN.members[%zu].id = %llx, expected another than members[%zu]",
                             index, (unsigned long long)member->node.id, i);
    return 0;
}

/* Each shard goes through the stage once. */
static int
rule_stage(const struct proto_plan *plan, size_t stage, struct why *why)
{
    uint64_t shards = 0;
    for (size_t i = 0; i < plan->count; i++) {
        uint64_t adds = proto_plan_computes(plan, i, stage);
        if (adds & shards)
            return why_error(why, -EBADMSG,
                             "PLAN.members[%zu].shards = %llx, expected none of %llx", i,
                             (unsigned long long)adds, (unsigned long long)shards);
        shards |= adds;
    }
    if (plan->complete & ~shards)
        return why_error(why, -EBADMSG,
                         "PLAN.complete = %llx, expected some of the shards %llx of stage %zu",
                         (unsigned long long)plan->complete, (unsigned long long)shards, stage);
    return 0;
}

static int
rule_plan(const struct proto_plan *plan, struct why *why)
{
    int rc = 0;
    bool leads = false;
    for (size_t i = 0; i < plan->count && !rc; i++) {
        const struct proto_node *node = &plan->members[i].node;
        leads |= node->id == plan->leader.id && node->incarnation == plan->leader.incarnation;
        rc = rule_member(plan, i, why);
    }
    for (size_t i = 1; i < plan->cut_count && !rc; i++)
        if (plan->cuts[i].bucket <= plan->cuts[i - 1].bucket)
            rc = why_error(why, -EBADMSG, "PLAN.cuts[%zu].bucket = %u, expected more than %u", i,
                           plan->cuts[i].bucket, plan->cuts[i - 1].bucket);
    for (size_t stage = 0; stage <= plan->cut_count && !rc; stage++)
        rc = rule_stage(plan, stage, why);
    if (!rc && !leads)
        rc = why_error(why, -EBADMSG, "PLAN.leader = %llx, expected one of the %zu members",
                       (unsigned long long)plan->leader.id, plan->count);
    return rc;
}

static int
rule_item(const struct proto_item *item, struct why *why)
{
    if (item->first > item->size || item->count > item->size - item->first)
        return why_error(
            why, -EBADMSG, "ITEM.first = %llu, count = %u, expected an end of at most %llu",
            (unsigned long long)item->first, (unsigned)item->count, (unsigned long long)item->size);
    return 0;
}

static int
rule_chunk(const struct proto_msg *msg, struct why *why)
{
    const struct proto_chunk *chunk = &msg->chunk;
    if (chunk->first > PROTO_VECTOR_MAX - chunk->count)
        return why_error(
            why, -EBADMSG, "%s.first = %llu, count = %u, expected an end of at most 2^48",
            proto_type_name(msg->type), (unsigned long long)chunk->first, (unsigned)chunk->count);
    if (msg->type == PROTO_GATHER && (chunk->direct || chunk->coverage == 0))
        return why_error(
            why, -EBADMSG,
            "GATHER.direct = %d, coverage = %llx, expected 0 and the shards of the sum",
            chunk->direct, (unsigned long long)chunk->coverage);
    return 0;
}

struct type {
    const char *name;
    const struct field *fields;
    size_t field_count;
};

static const struct type types[PROTO_TYPES_END] = {
#define MESSAGE(symbol, number, list, meaning)                                                     \
    [number] = {#symbol, list##_fields, FIELDS_COUNT(list##_fields)},
#include "proto/messages.def"
};

/* The rule of a type, in a message whose fields are all within their limits. */
static int
check_rule(const struct proto_msg *msg, struct why *why)
{
    switch (msg->type) {
    case PROTO_HELLO:
        return rule_hello(&msg->hello, why);
    case PROTO_PLAN:
        return rule_plan(&msg->plan, why);
    case PROTO_REDUCE:
    case PROTO_GATHER:
        return rule_chunk(msg, why);
    case PROTO_ITEM:
        return rule_item(&msg->item, why);
    default:
        return 0;
    }
}

const char *
proto_type_name(enum proto_type type)
{
    return type >= PROTO_HELLO && type < PROTO_TYPES_END ? types[type].name : "?";
}

/* Bytes an endpoint takes: head of its list, host, port. */
static size_t
endpoint_size(const struct proto_endpoint *endpoint)
{
    size_t host = strnlen(endpoint->host, sizeof endpoint->host);
    size_t port = endpoint->control_port;
    return 1 + (host < 32 ? 1 : 2) + host + (port < 0x80 ? 1 : port < 0x100 ? 2 : 3);
}

/* How many of the endpoints fit a frame. More than 15 have a head of 3 bytes, fewer fit anyway. */
static size_t
peers_fit(const struct proto_peers *peers)
{
    enum { HEADS = 3 + 3 };
    _Static_assert(15 * (PROTO_HOST_MAX + 6) < PROTO_FRAME_MAX / 2, "short lists always fit");
    size_t size = HEADS;
    for (size_t i = 0; i < peers->count; i++) {
        size += endpoint_size(&peers->endpoints[i]);
        if (size > PROTO_FRAME_MAX)
            return i;
    }
    return peers->count;
}

size_t
proto_encode(const struct proto_msg *msg, uint8_t *out)
{
    assert(msg->type >= PROTO_HELLO);
    assert(msg->type < PROTO_TYPES_END);
    const struct type *type = &types[msg->type];
    assert(check_rule(msg, NULL) == 0);
    struct pack_out to = {.data = out, .max = PROTO_FRAME_MAX};
    const void *base = &msg->hello; /* where every type of the union lies */
    struct proto_peers cut;
    if (msg->type == PROTO_PEERS) {
        cut = (struct proto_peers){peers_fit(&msg->peers), msg->peers.endpoints};
        base = &cut;
    }
    pack_list(&to, 2 + type->field_count);
    pack_uint(&to, PROTO_VERSION);
    pack_uint(&to, msg->type);
    fields_write(&to, type->fields, type->field_count, base);
    return to.size;
}

/* The head of the list, version and type; the version first, since another one may go on differently. */
static int
read_start(struct reader *reader, enum proto_type *type, size_t *count)
{
    static const struct field start[] = {
        {"version", FIELD_UINT, .width = 8, .max = UINT64_MAX},
        {"type", FIELD_UINT, .width = 8, .min = PROTO_HELLO, .max = PROTO_TYPES_END - 1},
    };
    uint64_t value;
    int rc = fields_read_head(reader, NULL, 2, UINT16_MAX, count);
    rc = rc ? rc : fields_read(reader, &start[0], 1, (uint8_t *)&value);
    if (!rc && value != PROTO_VERSION)
        rc = fields_refuse(reader, -EPROTONOSUPPORT, "version", "= %llu, expected %d",
                           (unsigned long long)value, PROTO_VERSION);
    rc = rc ? rc : fields_read(reader, &start[1], 1, (uint8_t *)&value);
    if (!rc)
        *type = (enum proto_type)value;
    return rc;
}

static int
read_rest(struct reader *reader, const struct type *type, size_t count, struct proto_msg *msg)
{
    reader->type = type->name;
    if (count != 2 + type->field_count)
        return fields_refuse(reader, -EBADMSG, NULL, "has %zu elements, expected %zu", count,
                             2 + type->field_count);
    int rc = fields_read(reader, type->fields, type->field_count, (uint8_t *)&msg->hello);
    if (!rc && reader->in.at != reader->in.end)
        rc = fields_refuse(reader, -EBADMSG, NULL, "ends %td bytes before its frame",
                           reader->in.end - reader->in.at);
    return rc;
}

int
proto_decode(struct proto_msg *msg, struct proto_endpoint *endpoints, const uint8_t *frame,
             size_t size, struct why *why)
{
    struct reader reader = {
        .in = {frame, size ? frame + size : frame}, .type = "message", .why = why};
    if (size > PROTO_FRAME_MAX)
        return fields_refuse(&reader, -EMSGSIZE, NULL, "has %zu bytes, expected at most %d", size,
                             PROTO_FRAME_MAX);
    size_t count;
    int rc = read_start(&reader, &msg->type, &count);
    if (rc)
        return rc;
    if (msg->type == PROTO_PEERS) {
        if (!endpoints)
            return fields_refuse(&reader, -EBADMSG, NULL, "is PEERS, expected no list of peers");
        msg->peers.endpoints = endpoints;
    }
    const struct type *type = &types[msg->type];
    rc = read_rest(&reader, type, count, msg);
    return rc ? rc : check_rule(msg, why);
}

/* Of all fields but the last ones. Never 0. */
static uint64_t
hash_of(enum proto_type type, const void *fields, size_t but)
{
    uint64_t hash = fields_hash(types[type].fields, types[type].field_count - but, fields);
    return hash ? hash : 1;
}

uint64_t
proto_plan_hash(const struct proto_plan *plan)
{
    return hash_of(PROTO_PLAN, plan, 0);
}

uint64_t
proto_hears_hash(const struct proto_hears *hears)
{
    return hash_of(PROTO_HEARS, hears, 0);
}

uint64_t
proto_flow_hash(const struct proto_msg *msg)
{
    assert(msg->type == PROTO_ASK || msg->type == PROTO_FLOW);
    return hash_of(msg->type, &msg->ask, 1);
}

/* msg.c - every type of message is a table of fields; one walker writes them, one reads them.
 *
 *     frame = [version, type, field, field, ...]      msgpack; PROTOCOL.md has the grammar
 *
 * A table row says what a field is, where it lies in the struct and what it may hold. The few rules that
 * tie fields together (`rule_`) follow the tables. Encoder and decoder use the same rows and rules:
 * whatever leaves us would be accepted by us. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/fields.h"
#include "proto/mix.h"
#include "proto/pack.h"
#include "proto/proto.h"

static const struct field endpoint_fields[] = {
    FIELD_TEXT(proto_endpoint, host, FIELD_HOST, 1),
    FIELD_UINT(proto_endpoint, control_port, 1, UINT16_MAX),
};

static const struct field member_fields[] = {
    FIELD_UINT(proto_member, node.id, 1, UINT64_MAX),
    FIELD_UINT(proto_member, node.incarnation, 0, UINT64_MAX),
    FIELD_UINT(proto_member, shards, 0, UINT64_MAX),
};

static const struct field hello_fields[] = {
    FIELD_UINT(proto_hello, asks, 0, UINT32_MAX),
    FIELD_UINT(proto_hello, answers, 0, UINT32_MAX),
    FIELD_BOOL(proto_hello, wants_job),
    FIELD_TEXT(proto_hello, mesh, FIELD_TEXT, 0),
    FIELD_TEXT(proto_hello, run, FIELD_TEXT, 0),
    FIELD_UINT(proto_hello, job_hash, 0, UINT64_MAX),
    FIELD_UINT(proto_hello, numerics, 0, UINT64_MAX),
    FIELD_TEXT(proto_hello, kernel, FIELD_TEXT, 0),
    FIELD_TEXT(proto_hello, name, FIELD_TEXT, 0),
    FIELD_UINT(proto_hello, control_port, 1, UINT16_MAX),
    FIELD_UINT(proto_hello, bulk_port, 0, UINT16_MAX),
};

static const struct field refuse_fields[] = {
    FIELD_UINT(proto_refuse, reason, 1, PROTO_REFUSALS_END - 1),
    FIELD_TEXT(proto_refuse, yours, FIELD_TEXT, 0),
    FIELD_TEXT(proto_refuse, mine, FIELD_TEXT, 0),
};

static const struct field peers_fields[] = {
    FIELD_LIST(proto_peers, endpoints, count, 0, PROTO_PEERS_MAX, endpoint_fields, true),
};

static const struct field hearing_fields[] = {
    FIELD_UINT(proto_hearing, node.id, 1, UINT64_MAX),
    FIELD_UINT(proto_hearing, node.incarnation, 0, UINT64_MAX),
    FIELD_UINT(proto_hearing, lag_us, 0, UINT32_MAX),
};

static const struct field heartbeat_fields[] = {
    FIELD_UINT(proto_heartbeat, round, 0, PROTO_ROUND_MAX),
    FIELD_BOOL(proto_heartbeat, idle),
    FIELD_BOOL(proto_heartbeat, ready),
    FIELD_BOOL(proto_heartbeat, done),
    FIELD_BOOL(proto_heartbeat, aside),
    FIELD_UINT(proto_heartbeat, have, 0, UINT64_MAX),
    FIELD_UINT(proto_heartbeat, state_hash, 0, UINT64_MAX),
    FIELD_UINT(proto_heartbeat, speed, 0, UINT32_MAX),
    FIELD_UINT(proto_heartbeat, busy_us, 0, PROTO_ROUND_MAX),
    FIELD_UINT(proto_heartbeat, apply_us, 0, UINT32_MAX),
    FIELD_UINT(proto_heartbeat, sent_us, 0, UINT64_MAX),
    FIELD_LIST(proto_heartbeat, hears, hears_count, 0, PROTO_PEERS_MAX, hearing_fields, false),
};

static const struct field plan_fields[] = {
    FIELD_UINT(proto_plan, round, 0, PROTO_ROUND_MAX),
    FIELD_UINT(proto_plan, counter, 0, UINT64_MAX),
    FIELD_UINT(proto_plan, leader.id, 1, UINT64_MAX),
    FIELD_UINT(proto_plan, leader.incarnation, 0, UINT64_MAX),
    FIELD_LIST(proto_plan, members, count, 1, PROTO_PEERS_MAX, member_fields, false),
};

static const struct field hold_fields[] = {
    FIELD_UINT(proto_hold, plan, 1, UINT64_MAX),
    FIELD_UINT(proto_hold, round, 0, PROTO_ROUND_MAX),
};

static const struct field abort_fields[] = {
    FIELD_UINT(proto_abort, plan, 1, UINT64_MAX),
    FIELD_BOOL(proto_abort, differ),
};

static const struct field chunk_fields[] = {
    FIELD_UINT(proto_chunk, plan, 1, UINT64_MAX),
    FIELD_UINT(proto_chunk, round, 0, PROTO_ROUND_MAX),
    FIELD_UINT(proto_chunk, bucket, 0, UINT16_MAX),
    FIELD_UINT(proto_chunk, hop, 0, PROTO_PEERS_MAX - 1),
    FIELD_BOOL(proto_chunk, direct),
    FIELD_UINT(proto_chunk, first, 0, PROTO_VECTOR_MAX),
    FIELD_UINT(proto_chunk, count, 0, PROTO_CHUNK_MAX),
    FIELD_UINT(proto_chunk, coverage, 0, UINT64_MAX),
    FIELD_UINT(proto_chunk, check, 0, UINT64_MAX),
    FIELD_UINT(proto_chunk, state, 0, UINT64_MAX),
    FIELD_UINT(proto_chunk, sent_us, 0, UINT64_MAX),
};

static const struct field fetch_fields[] = {
    FIELD_UINT(proto_fetch, round, 0, PROTO_ROUND_MAX),
    FIELD_UINT(proto_fetch, block, 0, PROTO_STATE_MAX / PROTO_BLOCK_MAX - 1),
    FIELD_UINT(proto_fetch, count, 0, PROTO_COUNT_MAX - 1),
};

static const struct field offer_fields[] = {
    FIELD_UINT(proto_offer, round, 0, PROTO_ROUND_MAX),
    FIELD_UINT(proto_offer, state_hash, 0, UINT64_MAX),
    FIELD_UINT(proto_offer, size, 0, PROTO_STATE_MAX),
    FIELD_UINT(proto_offer, check, 0, UINT64_MAX),
};

static const struct field state_fields[] = {
    FIELD_UINT(proto_state, round, 0, PROTO_ROUND_MAX),
    FIELD_UINT(proto_state, block, 0, PROTO_STATE_MAX / PROTO_BLOCK_MAX - 1),
};

static const struct field follow_fields[] = {
    FIELD_UINT(proto_follow, round, 0, PROTO_ROUND_MAX),
    FIELD_UINT(proto_follow, block, 0, PROTO_STATE_MAX / PROTO_BLOCK_MAX - 1),
    FIELD_UINT(proto_follow, count, 1, PROTO_COUNT_MAX - 1),
    FIELD_BOOL(proto_follow, again),
};

static const struct field total_fields[] = {
    FIELD_UINT(proto_total, round, 0, PROTO_ROUND_MAX),
    FIELD_UINT(proto_total, block, 0, PROTO_STATE_MAX / PROTO_BLOCK_MAX - 1),
    FIELD_UINT(proto_total, state_hash, 0, UINT64_MAX),
    FIELD_UINT(proto_total, check, 0, UINT64_MAX),
};

static const struct field page_fields[] = {
    FIELD_UINT(proto_page, step, 0, PROTO_ROUND_MAX),
    FIELD_UINT(proto_page, round, 0, PROTO_ROUND_MAX),
    FIELD_UINT(proto_page, page, 0, PROTO_FILE_MAX / PROTO_PAGE_MAX - 1),
};

static const struct field accuse_fields[] = {
    FIELD_UINT(proto_accuse, plan, 1, UINT64_MAX),
    FIELD_UINT(proto_accuse, round, 0, PROTO_ROUND_MAX),
    FIELD_UINT(proto_accuse, id, 1, UINT64_MAX),
    FIELD_UINT(proto_accuse, shard, 0, PROTO_SHARDS_MAX - 1),
};

static const struct field aside_fields[] = {
    FIELD_UINT(proto_aside, with_us, 0, PROTO_ROUND_MAX),
    FIELD_UINT(proto_aside, without_us, 0, PROTO_ROUND_MAX),
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
    [PROTO_STATE] = {"STATE", FIELDS(state_fields), NULL},
    [PROTO_JOB] = {"JOB", NULL, 0, NULL},
    [PROTO_BYE] = {"BYE", NULL, 0, NULL},
    [PROTO_WANT] = {"WANT", FIELDS(page_fields), NULL},
    [PROTO_PAGE] = {"PAGE", FIELDS(page_fields), NULL},
    [PROTO_ACCUSE] = {"ACCUSE", FIELDS(accuse_fields), NULL},
    [PROTO_OFFER] = {"OFFER", FIELDS(offer_fields), NULL},
    [PROTO_FOLLOW] = {"FOLLOW", FIELDS(follow_fields), NULL},
    [PROTO_TOTAL] = {"TOTAL", FIELDS(total_fields), NULL},
    [PROTO_ASIDE] = {"ASIDE", FIELDS(aside_fields), NULL},
};

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
    assert(!type->rule || type->rule(msg, NULL, 0) == 0);
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
    if (!rc)
        rc = fields_read(reader, &start[0], 1, (uint8_t *)&value);
    if (!rc && value != PROTO_VERSION)
        rc = fields_refuse(reader, -EPROTONOSUPPORT, "version", "= %llu, expected %d",
                           (unsigned long long)value, PROTO_VERSION);
    if (!rc)
        rc = fields_read(reader, &start[1], 1, (uint8_t *)&value);
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
             size_t size, char *why, size_t why_size)
{
    struct reader reader = {.in = {frame, size ? frame + size : frame},
                            .type = "message",
                            .why = why,
                            .why_size = why_size};
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

/* messages.c - sample messages of every type, and their comparison: both walk the fields that proto/messages.def lists.
 * After that, `fit_` makes a sample obey the rules about several fields (proto/msg.c). */
#include "tests/support/messages.h"

#include <stdio.h>
#include <string.h>

#include "proto/bits.h"

struct source {
    enum messages_size size;
    struct rand *rand;
};

static uint64_t
number(struct source *from, uint64_t low, uint64_t high)
{
    if (from->size != MESSAGES_RANDOM)
        return from->size == MESSAGES_SMALL ? low : high;
    uint64_t any = rand_any(from->rand);
    return any >= low && any <= high ? any : rand_range(from->rand, low, high);
}

static bool
flag(struct source *from)
{
    return number(from, 0, 1);
}

/* Letters of one to four bytes, at least `least` bytes. */
static void
text(struct source *from, char *out, size_t out_size, size_t least)
{
    static const char *const letters[] = {
        "a", "Z", "-", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    size_t length = (size_t)number(from, least, out_size - 1), used = 0;
    while (used < length) {
        size_t which = from->size == MESSAGES_RANDOM ? (size_t)rand_below(from->rand, 6) : 1;
        size_t step = strlen(letters[which]);
        if (used + step > length)
            which = 0, step = 1;
        memcpy(out + used, letters[which], step);
        used += step;
    }
    out[used] = 0;
}

static void
host(struct source *from, char *out)
{
    static const char letters[] = "az09.:-_%AZ";
    size_t length = (size_t)number(from, 1, PROTO_HOST_MAX - 1);
    for (size_t i = 0; i < length; i++)
        out[i] = letters[number(from, 0, sizeof letters - 2)];
    out[length] = 0;
}

/* --- Any values, each within its limits --------------------------------------------------------- */

/* clang-format off */
#define FIELDS(list) \
    static void make_##list(struct source *from, void *out) \
    { \
        struct proto_##list *m = out; \
        (void)from, (void)m;
#define END(list) }
#define UINT(list, member, min, max) m->member = (__typeof__(m->member))number(from, min, max);
#define BOOL(list, member)           m->member = flag(from);
#define TEXT(list, member, min)      text(from, m->member, sizeof m->member, min);
#define HOST(list, member)           host(from, m->member);
#define LIST(list, member, count, min, max, item, indirect) LIST_##indirect(member, count, min, max, item)
#define LIST_false(member, count, min, max, item) \
    m->count = (size_t)number(from, min, max); \
    for (size_t i = 0; i < m->count; i++) \
        make_##item(from, &m->member[i]);
#define LIST_true(member, count, min, max, item) m->count = 0; /* it has no memory yet */
/* clang-format on */
#include "proto/messages.def"

/* --- The rules about several fields ------------------------------------------------------------- */

static void
fit_hello(struct source *from, struct proto_hello *hello)
{
    hello->wants_job =
        from->size == MESSAGES_RANDOM ? rand_bool(from->rand) : from->size == MESSAGES_SMALL;
    if (hello->wants_job) {
        memset(hello->run, 0, sizeof hello->run);
        hello->job_hash = 0;
    } else if (hello->bulk_port == 0) {
        hello->bulk_port = 1;
    }
}

static void
fit_peers(struct source *from, struct messages_sample *out)
{
    out->msg.peers.endpoints = out->endpoints;
    out->msg.peers.count = (size_t)number(from, 0, 8); /* 64 long hosts would be cut */
    for (size_t i = 0; i < out->msg.peers.count; i++)
        make_endpoint(from, &out->endpoints[i]);
}

/* The i-th of ids that rise from about `id` on. */
static uint64_t
rising(uint64_t id, size_t i)
{
    uint64_t first = id - id % PROTO_PEERS_MAX;
    return (first ? first : PROTO_PEERS_MAX) + i;
}

/* All shards dealt out to members with different ids, some perhaps left without. All hold all stages, or each stage but
 * the last is held by one member alone. */
static void
fit_plan(struct source *from, struct proto_plan *plan)
{
    uint64_t shards = number(from, 1, PROTO_SHARDS_MAX);
    bool together = plan->cut_count >= plan->count || number(from, 0, 1);
    size_t alone = together ? 0 : plan->cut_count;
    for (size_t i = 0; i < plan->cut_count; i++)
        plan->cuts[i].bucket = (uint16_t)(plan->cuts[i].bucket % 1000 + 1000 * i + 1);
    for (size_t i = 0; i < plan->count; i++) {
        plan->members[i].node.id = rising(plan->members[i].node.id, i);
        plan->members[i].holds = together    ? bits_below(plan->cut_count + 1)
                                 : i < alone ? UINT64_C(1) << i
                                             : UINT64_C(1) << alone;
        plan->members[i].computes = plan->members[i].holds;
        plan->members[i].shards = i < alone ? bits_below(shards) : 0;
    }
    for (uint64_t shard = 0; shard < shards; shard++)
        plan->members[number(from, alone, plan->count - 1)].shards |= UINT64_C(1) << shard;
    plan->leader = plan->members[number(from, 0, plan->count - 1)].node;
    plan->complete = UINT64_MAX >> (PROTO_SHARDS_MAX - number(from, 1, shards));
}

static void
fit_chunk(struct source *from, struct proto_chunk *chunk, bool gather)
{
    chunk->first = number(from, 0, PROTO_VECTOR_MAX - chunk->count);
    if (!gather)
        return;
    chunk->direct = false;
    chunk->coverage = UINT64_MAX >> number(from, 0, PROTO_SHARDS_MAX - 1);
}

static void
fit(struct source *from, struct messages_sample *out)
{
    switch (out->msg.type) {
    case PROTO_HELLO:
        fit_hello(from, &out->msg.hello);
        break;
    case PROTO_PEERS:
        fit_peers(from, out);
        break;
    case PROTO_PLAN:
        fit_plan(from, &out->msg.plan);
        break;
    case PROTO_ITEM:
        out->msg.item.first = number(from, 0, PROTO_VECTOR_MAX - out->msg.item.count);
        out->msg.item.size =
            number(from, out->msg.item.first + out->msg.item.count, PROTO_VECTOR_MAX);
        break;
    case PROTO_REDUCE:
    case PROTO_GATHER:
        fit_chunk(from, &out->msg.chunk, out->msg.type == PROTO_GATHER);
        break;
    default:
        break;
    }
}

void
messages_make(struct messages_sample *out, enum proto_type type, enum messages_size size,
              struct rand *rand)
{
    struct source from = {size, rand};
    memset(out, 0, sizeof *out);
    out->msg.type = type;
    switch (type) {
#define MESSAGE(symbol, number, list, meaning)                                                     \
    case PROTO_##symbol:                                                                           \
        make_##list(&from, &out->msg.hello); /* all members of the union begin there */            \
        break;
#include "proto/messages.def"
    default:
        break;
    }
    fit(&from, out);
}

/* --- Comparison --------------------------------------------------------------------------------- */

/* clang-format off */
#define FIELDS(list) \
    static bool same_##list(const void *one, const void *other) \
    { \
        const struct proto_##list *a = one, *b = other; \
        bool same = true; \
        (void)a, (void)b;
#define END(list) return same; }
#define UINT(list, member, min, max) same = same && a->member == b->member;
#define BOOL(list, member)           same = same && a->member == b->member;
#define TEXT(list, member, min)      same = same && strcmp(a->member, b->member) == 0;
#define HOST(list, member)           same = same && strcmp(a->member, b->member) == 0;
#define LIST(list, member, count, min, max, item, indirect) \
    same = same && a->count == b->count; \
    for (size_t i = 0; same && i < a->count; i++) \
        same = same_##item(&a->member[i], &b->member[i]);
/* clang-format on */
#include "proto/messages.def"

bool
messages_equal(const struct proto_msg *a, const struct proto_msg *b)
{
    if (a->type != b->type)
        return false;
    switch (a->type) {
#define MESSAGE(symbol, number, list, meaning)                                                     \
    case PROTO_##symbol:                                                                           \
        return same_##list(&a->hello, &b->hello);
#include "proto/messages.def"
    default:
        return true;
    }
}

/* messages.c - sample messages of every type, and their comparison. */
#include "tests/support/messages.h"

#include <stdio.h>
#include <string.h>

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

static struct proto_node
node(struct source *from)
{
    return (struct proto_node){number(from, 1, UINT64_MAX), number(from, 0, UINT64_MAX)};
}

static void
make_hello(struct source *from, struct proto_hello *hello)
{
    hello->asks = (uint32_t)number(from, 0, UINT32_MAX);
    hello->answers = (uint32_t)number(from, 0, UINT32_MAX);
    hello->wants_job =
        from->size == MESSAGES_RANDOM ? rand_bool(from->rand) : from->size == MESSAGES_SMALL;
    text(from, hello->mesh, sizeof hello->mesh, 0);
    if (!hello->wants_job) {
        text(from, hello->run, sizeof hello->run, 0);
        hello->job_hash = number(from, 0, UINT64_MAX);
    }
    hello->numerics = number(from, 0, UINT64_MAX);
    text(from, hello->kernel, sizeof hello->kernel, 0);
    text(from, hello->name, sizeof hello->name, 0);
    hello->control_port = (uint16_t)number(from, 1, UINT16_MAX);
    hello->bulk_port = (uint16_t)number(from, !hello->wants_job, UINT16_MAX);
}

static void
make_heartbeat(struct source *from, struct proto_heartbeat *heartbeat)
{
    heartbeat->round = number(from, 0, PROTO_ROUND_MAX);
    heartbeat->idle = flag(from);
    heartbeat->ready = flag(from);
    heartbeat->done = flag(from);
    heartbeat->benched = flag(from);
    heartbeat->have = number(from, 0, UINT64_MAX);
    heartbeat->state_hash = number(from, 0, UINT64_MAX);
    heartbeat->speed = (uint32_t)number(from, 0, UINT32_MAX);
    heartbeat->busy_us = number(from, 0, PROTO_ROUND_MAX);
    heartbeat->apply_us = (uint32_t)number(from, 0, UINT32_MAX);
    heartbeat->sent_us = number(from, 0, UINT64_MAX);
    heartbeat->hears_count = (size_t)number(from, 0, PROTO_PEERS_MAX);
    for (size_t i = 0; i < heartbeat->hears_count; i++)
        heartbeat->hears[i] =
            (struct proto_hearing){node(from), (uint32_t)number(from, 0, UINT32_MAX)};
}

/* All shards dealt out to members with rising ids, some perhaps left without. */
static void
make_plan(struct source *from, struct proto_plan *plan)
{
    plan->round = number(from, 0, PROTO_ROUND_MAX);
    plan->counter = number(from, 0, UINT64_MAX);
    plan->count = (size_t)number(from, 1, PROTO_PEERS_MAX);
    for (size_t i = 0; i < plan->count; i++) {
        plan->members[i].node = node(from);
        plan->members[i].node.id -= plan->members[i].node.id % PROTO_PEERS_MAX;
        plan->members[i].node.id += i;
        if (plan->members[i].node.id == 0)
            plan->members[i].node.id = PROTO_PEERS_MAX;
    }
    uint64_t shards = number(from, 1, PROTO_SHARDS_MAX);
    for (uint64_t shard = 0; shard < shards; shard++)
        plan->members[number(from, 0, plan->count - 1)].shards |= UINT64_C(1) << shard;
    for (size_t i = 0; i < plan->count; i++)
        plan->members[i].duties = number(from, 0, UINT64_MAX);
    plan->leader = plan->members[number(from, 0, plan->count - 1)].node;
    plan->complete = UINT64_MAX >> (PROTO_SHARDS_MAX - number(from, 1, shards));
}

static void
make_chunk(struct source *from, struct proto_chunk *chunk, bool gather)
{
    chunk->plan_hash = number(from, 1, UINT64_MAX);
    chunk->round = number(from, 0, PROTO_ROUND_MAX);
    chunk->bucket = (uint16_t)number(from, 0, UINT16_MAX);
    chunk->hop = (uint16_t)number(from, 0, PROTO_PEERS_MAX - 1);
    chunk->direct = !gather && flag(from);
    chunk->count = (uint32_t)number(from, 0, PROTO_CHUNK_MAX);
    chunk->first = number(from, 0, PROTO_VECTOR_MAX - chunk->count);
    chunk->coverage =
        gather ? UINT64_MAX >> number(from, 0, PROTO_SHARDS_MAX - 1) : number(from, 0, UINT64_MAX);
    chunk->check = number(from, 0, UINT64_MAX);
    chunk->state_hash = number(from, 0, UINT64_MAX);
    chunk->sent_us = number(from, 0, UINT64_MAX);
}

static void
make_state(struct source *from, struct proto_state *state)
{
    state->round = number(from, 0, PROTO_ROUND_MAX);
    state->block = number(from, 0, PROTO_STATE_MAX / PROTO_BLOCK_MAX - 1);
}

static void
make_offer(struct source *from, struct proto_offer *offer)
{
    offer->round = number(from, 0, PROTO_ROUND_MAX);
    offer->state_hash = number(from, 0, UINT64_MAX);
    offer->size = number(from, 0, PROTO_STATE_MAX);
    offer->check = number(from, 0, UINT64_MAX);
}

static void
make_follow(struct source *from, struct proto_follow *follow)
{
    follow->round = number(from, 0, PROTO_ROUND_MAX);
    follow->block = number(from, 0, PROTO_STATE_MAX / PROTO_BLOCK_MAX - 1);
    follow->count = (uint16_t)number(from, 1, PROTO_COUNT_MAX - 1);
    follow->again = flag(from);
}

static void
make_total(struct source *from, struct proto_total *total)
{
    total->round = number(from, 0, PROTO_ROUND_MAX);
    total->block = number(from, 0, PROTO_STATE_MAX / PROTO_BLOCK_MAX - 1);
    total->state_hash = number(from, 0, UINT64_MAX);
    total->check = number(from, 0, UINT64_MAX);
}

static void
make_peers(struct source *from, struct messages_sample *out)
{
    out->msg.peers.endpoints = out->endpoints;
    out->msg.peers.count = (size_t)number(from, 0, 8); /* 64 long hosts would be cut */
    for (size_t i = 0; i < out->msg.peers.count; i++) {
        host(from, out->endpoints[i].host);
        out->endpoints[i].control_port = (uint16_t)number(from, 1, UINT16_MAX);
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
    case PROTO_HELLO:
        make_hello(&from, &out->msg.hello);
        break;
    case PROTO_REFUSE:
        out->msg.refuse.reason = (enum proto_refusal)number(&from, 1, PROTO_REFUSALS_END - 1);
        text(&from, out->msg.refuse.yours, PROTO_TEXT_MAX, 0);
        text(&from, out->msg.refuse.mine, PROTO_TEXT_MAX, 0);
        break;
    case PROTO_PEERS:
        make_peers(&from, out);
        break;
    case PROTO_HEARTBEAT:
        make_heartbeat(&from, &out->msg.heartbeat);
        break;
    case PROTO_PLAN:
        make_plan(&from, &out->msg.plan);
        break;
    case PROTO_BENCH:
        out->msg.bench.with_us = number(&from, 0, PROTO_ROUND_MAX);
        out->msg.bench.without_us = number(&from, 0, PROTO_ROUND_MAX);
        break;
    case PROTO_REPLICA:
        out->msg.replica.plan_hash = number(&from, 0, UINT64_MAX);
        out->msg.replica.stage = (uint16_t)number(&from, 0, PROTO_STAGES_MAX - 1);
        out->msg.replica.step = number(&from, 0, PROTO_ROUND_MAX);
        out->msg.replica.units = number(&from, 0, PROTO_ROUND_MAX);
        out->msg.replica.known = number(&from, 0, PROTO_ROUND_MAX);
        out->msg.replica.result = number(&from, 0, UINT64_MAX);
        break;
    case PROTO_ASK:
        out->msg.ask.kind = (uint16_t)number(&from, 0, PROTO_ASKS_END - 1);
        out->msg.ask.to = number(&from, 0, UINT64_MAX);
        out->msg.ask.link = number(&from, 1, PROTO_ROUND_MAX);
        out->msg.ask.number = number(&from, 0, PROTO_ROUND_MAX);
        out->msg.ask.part = (uint32_t)number(&from, 0, PROTO_PARTS_MAX - 1);
        out->msg.ask.plan_hash = number(&from, 0, UINT64_MAX);
        out->msg.ask.phase = number(&from, 0, PROTO_ROUND_MAX);
        break;
    case PROTO_FLOW:
        out->msg.flow.kind = (uint16_t)number(&from, 0, PROTO_FLOWS_END - 1);
        out->msg.flow.to = number(&from, 0, UINT64_MAX);
        out->msg.flow.link = number(&from, 1, PROTO_ROUND_MAX);
        out->msg.flow.number = number(&from, 0, PROTO_ROUND_MAX);
        out->msg.flow.part = (uint32_t)number(&from, 0, PROTO_PARTS_MAX - 1);
        out->msg.flow.plan_hash = number(&from, 0, UINT64_MAX);
        out->msg.flow.phase = number(&from, 0, PROTO_ROUND_MAX);
        out->msg.flow.weight = number(&from, 0, PROTO_ROUND_MAX);
        break;
    case PROTO_HOLD:
        out->msg.hold.plan_hash = number(&from, 1, UINT64_MAX);
        out->msg.hold.round = number(&from, 0, PROTO_ROUND_MAX);
        break;
    case PROTO_ABORT:
        out->msg.abort.plan_hash = number(&from, 1, UINT64_MAX);
        out->msg.abort.differ = flag(&from);
        break;
    case PROTO_REDUCE:
    case PROTO_GATHER:
        make_chunk(&from, &out->msg.chunk, type == PROTO_GATHER);
        break;
    case PROTO_FETCH:
        out->msg.fetch.round = number(&from, 0, PROTO_ROUND_MAX);
        out->msg.fetch.block = number(&from, 0, PROTO_STATE_MAX / PROTO_BLOCK_MAX - 1);
        out->msg.fetch.count = (uint16_t)number(&from, 0, PROTO_COUNT_MAX - 1);
        break;
    case PROTO_OFFER:
        make_offer(&from, &out->msg.offer);
        break;
    case PROTO_FOLLOW:
        make_follow(&from, &out->msg.follow);
        break;
    case PROTO_TOTAL:
        make_total(&from, &out->msg.total);
        break;
    case PROTO_STATE:
        make_state(&from, &out->msg.state);
        break;
    case PROTO_WANT:
    case PROTO_PAGE:
        out->msg.page.step = number(&from, 0, PROTO_ROUND_MAX);
        out->msg.page.round = number(&from, 0, PROTO_ROUND_MAX);
        out->msg.page.page_number = number(&from, 0, PROTO_FILE_MAX / PROTO_PAGE_MAX - 1);
        break;
    case PROTO_ACCUSE:
        out->msg.accuse.plan_hash = number(&from, 1, UINT64_MAX);
        out->msg.accuse.round = number(&from, 0, PROTO_ROUND_MAX);
        out->msg.accuse.accused = number(&from, 1, UINT64_MAX);
        out->msg.accuse.shard = (uint16_t)number(&from, 0, PROTO_SHARDS_MAX - 1);
        break;
    default:
        break;
    }
}

static bool
same_hello(const struct proto_hello *a, const struct proto_hello *b)
{
    return a->asks == b->asks && a->answers == b->answers && a->wants_job == b->wants_job &&
           !strcmp(a->run, b->run) && a->job_hash == b->job_hash && a->numerics == b->numerics &&
           !strcmp(a->kernel, b->kernel) && !strcmp(a->name, b->name) &&
           a->control_port == b->control_port && a->bulk_port == b->bulk_port;
}

static bool
same_node(const struct proto_node *a, const struct proto_node *b)
{
    return a->id == b->id && a->incarnation == b->incarnation;
}

static bool
same_peers(const struct proto_peers *a, const struct proto_peers *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = !strcmp(a->endpoints[i].host, b->endpoints[i].host) &&
               a->endpoints[i].control_port == b->endpoints[i].control_port;
    return same;
}

static bool
same_heartbeat(const struct proto_heartbeat *a, const struct proto_heartbeat *b)
{
    bool same = a->round == b->round && a->idle == b->idle && a->ready == b->ready &&
                a->done == b->done && a->benched == b->benched && a->have == b->have &&
                a->state_hash == b->state_hash && a->speed == b->speed &&
                a->busy_us == b->busy_us && a->apply_us == b->apply_us &&
                a->sent_us == b->sent_us && a->hears_count == b->hears_count;
    for (size_t i = 0; same && i < a->hears_count; i++)
        same = same_node(&a->hears[i].node, &b->hears[i].node) &&
               a->hears[i].lag_us == b->hears[i].lag_us;
    return same;
}

static bool
same_plan(const struct proto_plan *a, const struct proto_plan *b)
{
    bool same = a->round == b->round && a->counter == b->counter &&
                same_node(&a->leader, &b->leader) && a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = same_node(&a->members[i].node, &b->members[i].node) &&
               a->members[i].shards == b->members[i].shards;
    return same;
}

static bool
same_chunk(const struct proto_chunk *a, const struct proto_chunk *b)
{
    return a->plan_hash == b->plan_hash && a->round == b->round && a->bucket == b->bucket &&
           a->hop == b->hop && a->direct == b->direct && a->first == b->first &&
           a->count == b->count && a->coverage == b->coverage && a->check == b->check &&
           a->state_hash == b->state_hash && a->sent_us == b->sent_us;
}

static bool
same_offer(const struct proto_offer *a, const struct proto_offer *b)
{
    return a->round == b->round && a->state_hash == b->state_hash && a->size == b->size &&
           a->check == b->check;
}

static bool
same_follow(const struct proto_follow *a, const struct proto_follow *b)
{
    return a->round == b->round && a->block == b->block && a->count == b->count &&
           a->again == b->again;
}

static bool
same_total(const struct proto_total *a, const struct proto_total *b)
{
    return a->round == b->round && a->block == b->block && a->state_hash == b->state_hash &&
           a->check == b->check;
}

bool
messages_equal(const struct proto_msg *a, const struct proto_msg *b)
{
    if (a->type != b->type)
        return false;
    switch (a->type) {
    case PROTO_HELLO:
        return same_hello(&a->hello, &b->hello);
    case PROTO_REFUSE:
        return a->refuse.reason == b->refuse.reason && !strcmp(a->refuse.yours, b->refuse.yours) &&
               !strcmp(a->refuse.mine, b->refuse.mine);
    case PROTO_PEERS:
        return same_peers(&a->peers, &b->peers);
    case PROTO_HEARTBEAT:
        return same_heartbeat(&a->heartbeat, &b->heartbeat);
    case PROTO_PLAN:
        return same_plan(&a->plan, &b->plan);
    case PROTO_HOLD:
        return a->hold.plan_hash == b->hold.plan_hash && a->hold.round == b->hold.round;
    case PROTO_ABORT:
        return a->abort.plan_hash == b->abort.plan_hash && a->abort.differ == b->abort.differ;
    case PROTO_REDUCE:
    case PROTO_GATHER:
        return same_chunk(&a->chunk, &b->chunk);
    case PROTO_FETCH:
        return a->fetch.round == b->fetch.round && a->fetch.block == b->fetch.block &&
               a->fetch.count == b->fetch.count;
    case PROTO_STATE:
        return a->state.round == b->state.round && a->state.block == b->state.block;
    case PROTO_OFFER:
        return same_offer(&a->offer, &b->offer);
    case PROTO_FOLLOW:
        return same_follow(&a->follow, &b->follow);
    case PROTO_TOTAL:
        return same_total(&a->total, &b->total);
    case PROTO_WANT:
    case PROTO_PAGE:
        return a->page.step == b->page.step && a->page.round == b->page.round &&
               a->page.page_number == b->page.page_number;
    case PROTO_ACCUSE:
        return a->accuse.plan_hash == b->accuse.plan_hash && a->accuse.round == b->accuse.round &&
               a->accuse.accused == b->accuse.accused && a->accuse.shard == b->accuse.shard;
    case PROTO_BENCH:
        return a->bench.with_us == b->bench.with_us && a->bench.without_us == b->bench.without_us;
    case PROTO_REPLICA:
        return a->replica.plan_hash == b->replica.plan_hash &&
               a->replica.stage == b->replica.stage && a->replica.step == b->replica.step &&
               a->replica.units == b->replica.units && a->replica.known == b->replica.known &&
               a->replica.result == b->replica.result;
    case PROTO_ASK:
        return a->ask.kind == b->ask.kind && a->ask.to == b->ask.to && a->ask.link == b->ask.link &&
               a->ask.number == b->ask.number && a->ask.part == b->ask.part &&
               a->ask.plan_hash == b->ask.plan_hash && a->ask.phase == b->ask.phase;
    case PROTO_FLOW:
        return a->flow.kind == b->flow.kind && a->flow.to == b->flow.to &&
               a->flow.link == b->flow.link && a->flow.number == b->flow.number &&
               a->flow.part == b->flow.part && a->flow.plan_hash == b->flow.plan_hash &&
               a->flow.phase == b->flow.phase && a->flow.weight == b->flow.weight;
    default:
        return true;
    }
}

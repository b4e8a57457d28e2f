/* serve.c - see serve.h for the states and the log. */
#include "mesh/core/transfer/serve.h"

#include <assert.h>
#include <string.h>

#include "compress/coding.h"
#include "mesh/core/internal.h"
#include "proto/hash.h"

/* --- The copy ------------------------------------------------------------------------------------ */

void
serve_reset(struct serve *serve, const struct core *core)
{
    bool logs = serve->logs;
    *serve = (struct serve){.state = SERVE_NONE, .commits = serve->commits};
    if (logs)
        core->config.trainer->forget(core->config.trainer_ctx);
}

static void
log_begin(struct serve *serve, const struct core *core)
{
    serve->logs = true;
    serve->first = core->round;
    serve->next = 0;
}

/* Can who takes the copy go on from it? */
static bool
copy_counts(const struct serve *serve)
{
    return serve_uses_state_in(serve) && serve->logs && serve->first <= serve->round;
}

static bool
may_copy(const struct serve *serve, const struct core *core)
{
    bool rests =
        !core->plan.active && awake_since(core->awake, core->plan.idle_at) >= SERVE_REST_US;
    bool waited = awake_since(core->awake, serve->wanted_at) >= SERVE_WAIT_US;
    return contribution_settled(&core->contribution) && !divergence_open(core) &&
           !fetch_uses_state_in(&core->fetch) &&
           (core->round >= serve->round || core->done || rests || waited);
}

static void
copy_begin(struct serve *serve, const struct core *core)
{
    if (!serve->logs)
        log_begin(serve, core);
    serve->state = SERVE_COPYING;
    serve->round = core->round + mutant(MUTANT_STATE);
    serve->hash = core->state_hash;
    memcpy(serve->parts, core->parts, sizeof serve->parts);
    serve->copied = 0;
}

static void
copy_some(struct serve *serve, const struct core *core, uint64_t most)
{
    assert(!fetch_uses_state_in(&core->fetch));
    const uint8_t *state = core->config.trainer->state(core->config.trainer_ctx);
    for (; most > 0 && serve->copied < core->transfer.blocks; serve->copied++) {
        struct transfer_block block = transfer_state_block(&core->transfer, serve->copied);
        if (!transfer_has(core->holds, block.segment))
            continue;
        uint8_t *to = core->config.state_in + block.offset;
        memcpy(to, state + block.offset, block.size);
        core->transfer.hashes[serve->copied] = hash64(to, block.size);
        most--;
    }
    if (serve->copied == core->transfer.blocks)
        serve->state = SERVE_COPIED;
}

void
serve_finish(struct serve *serve, const struct core *core)
{
    if (serve->state == SERVE_COPYING && !mutant(MUTANT_TORN))
        copy_some(serve, core, UINT64_MAX);
}

/* The hashes of these segments and of their blocks. */
static size_t
offer_list(const struct serve *serve, const struct core *core, uint64_t segments)
{
    const struct transfer *transfer = &core->transfer;
    uint64_t *list = transfer->offer;
    for (size_t s = 0; s < transfer->segments; s++)
        *list++ = segments >> s & 1 ? serve->parts[s] : 0;
    for (uint64_t b = 0; b < transfer->blocks; b++)
        if (transfer_has(segments, transfer_state_block(transfer, b).segment))
            *list++ = transfer->hashes[b];
    return (size_t)(list - transfer->offer) * sizeof *list;
}

static void
offer_send(struct serve *serve, const struct core *core, int to)
{
    assert(serve->copied == core->transfer.blocks);
    struct serve_peer *served = &serve->of[to];
    struct proto_msg msg = {.type = PROTO_OFFER,
                            .offer = {.round = serve->round,
                                      .state_hash = serve->hash,
                                      .size = core->config.state_size}};
    size_t size = offer_list(serve, core, served->segments);
    msg.offer.check =
        transfer_offer_check(&msg.offer, served->segments, core->transfer.offer, size);
    served->served_at = core->awake;
    served->served_block = UINT64_MAX; /* none */
    peers_send_bulk(core, to, &msg, core->transfer.offer, size);
}

static void
send_blocks(const struct serve *serve, const struct core *core, int to,
            const struct proto_fetch *fetch)
{
    uint64_t count = fetch->count < SERVE_BLOCKS_MAX ? fetch->count : SERVE_BLOCKS_MAX;
    for (uint64_t b = fetch->block; b < fetch->block + count && b < core->transfer.blocks; b++) {
        struct transfer_block block = transfer_state_block(&core->transfer, b);
        struct proto_msg msg = {.type = PROTO_STATE, .state = {.round = serve->round, .block = b}};
        if (transfer_has(fetch->holds, block.segment))
            peers_send_bulk(core, to, &msg, core->config.state_in + block.offset, block.size);
    }
}

/* The copy is not here any more. */
static void
send_none(const struct core *core, int to, const struct proto_fetch *fetch)
{
    struct proto_msg msg = {.type = PROTO_STATE,
                            .state = {.round = fetch->round, .block = fetch->block}};
    peers_send_bulk(core, to, &msg, core->transfer.hashes, 0);
}

/* Of a copy before which round can it make use? Of what it does not hold, the present one. */
static uint64_t
copy_least(const struct core *core, int from, const struct proto_fetch *fetch)
{
    const struct proto_heartbeat *said = &core->view.of[from].beat;
    bool more = !(said->holds & fetch->holds);
    return more && mutant(MUTANT_GROWN) ? 0 : said->round + !more;
}

/* A copy is asked for: the one that there is, if its owner can still go on from it, or a new one. */
static void
copy_want(struct serve *serve, const struct core *core, int from, const struct proto_fetch *fetch)
{
    uint64_t least = copy_least(core, from, fetch);
    if (least > core->round)
        return;
    bool useful = copy_counts(serve) && serve->round >= least;
    bool sooner = serve->state == SERVE_WANTED && fetch->round < serve->round;
    if (sooner || (serve->state != SERVE_WANTED && !useful)) {
        serve->state = SERVE_WANTED;
        serve->round = fetch->round;
        serve->wanted_at = core->awake;
    }
    serve->of[from].segments = fetch->holds;
    serve->due |= 1ull << from;
}

void
serve_on_fetch(struct serve *serve, const struct core *core, int from,
               const struct proto_fetch *fetch)
{
    const struct peer *peer = &core->peers.peers[from];
    struct serve_peer *served = &serve->of[from];
    if (!peer->announced || core->contribution.state == TRAINER_START || divergence_open(core) ||
        (fetch->holds & ~core->holds) || (core->done && mutant(MUTANT_DONE)))
        return;
    serve->asked_at = core->awake;
    if (fetch->count == 0) {
        copy_want(serve, core, from, fetch);
        return;
    }
    bool again = served->served_at.us > 0 && served->served_block == fetch->block &&
                 awake_since(core->awake, served->served_at) < SERVE_REPEAT_US;
    if (again)
        return;
    served->served_at = core->awake;
    served->served_block = fetch->block;
    if (serve->state == SERVE_COPIED && serve->round == fetch->round)
        send_blocks(serve, core, from, fetch);
    else
        send_none(core, from, fetch);
}

/* --- The log of totals --------------------------------------------------------------------------- */

static struct serve_total *
total_of(struct serve *serve, uint64_t round)
{
    return &serve->totals[round % SERVE_ROUNDS_MAX];
}

static void
drop_overlapping(struct serve *serve, const struct core *core, size_t at, size_t end)
{
    while (serve->first < core->round) {
        const struct serve_total *oldest = total_of(serve, serve->first);
        bool room = oldest->at >= end || oldest->at + oldest->size <= at;
        if (room && core->round - serve->first < SERVE_ROUNDS_MAX)
            return;
        serve->first++;
    }
}

void
serve_committed(struct serve *serve, const struct core *core)
{
    serve->commits++;
    if (!serve->logs)
        return;
    size_t size = transfer_total_size(&core->transfer, core->first_bucket, core->holds),
           at = serve->next;
    if (size > core->config.log_size) { /* nobody can follow */
        serve->first = core->round + 1;
        return;
    }
    if (at + size > core->config.log_size) {
        drop_overlapping(serve, core, at, core->config.log_size);
        at = 0;
    }
    drop_overlapping(serve, core, at, at + size);
    assert(at + size <= core->config.log_size);
    *total_of(serve, core->round) =
        (struct serve_total){at, size, core->first_bucket, core->state_hash, serve->commits};
    serve->next = at + size;
    for (size_t b = core->first_bucket; b < core->config.bucket_count; b++) {
        size_t bytes = core->buckets[b].count * sizeof(int32_t);
        if (!transfer_sums(&core->transfer, core->holds, b))
            continue;
        memcpy(core->config.log + at, core->config.sum + core->buckets[b].first, bytes);
        at += bytes;
    }
}

/* A block of a total, if packing makes it shorter and a buffer is free. */
static bool
send_total_packed(const struct core *core, int to, struct proto_msg *msg, uint64_t segments,
                  const uint8_t *body, size_t size)
{
    const struct core_wire *wire = core->config.wire;
    unsigned link = (unsigned)core->peers.peers[to].link;
    size_t count = size / sizeof(int32_t), most = core->config.pack_all ? SIZE_MAX : size - 1;
    struct core_frame frame;
    uint64_t check;
    if (count < (core->config.pack_all ? 1 : CODING_LEAST) || size % sizeof(int32_t) != 0 ||
        (uintptr_t)body % sizeof(int32_t) != 0 ||
        !wire->make(core->config.wire_ctx, coding_most(count), false, &frame))
        return false;
    size_t packed =
        coding_pack(frame.data, (const int32_t *)(const void *)body, count, most, false, &check);
    msg->total.coding = packed > 0 ? PROTO_CODING_PACKED : PROTO_CODING_RAW;
    msg->total.check = transfer_total_check(&msg->total, segments, frame.data, packed);
    if (packed > 0)
        wire->pass_on(core->config.wire_ctx, &link, 1, msg,
                      &(struct core_frame){frame.data, packed, frame.handle});
    wire->release(core->config.wire_ctx, frame.handle);
    return packed > 0;
}

/* The block that this follower gets next; nothing of a total that is no longer in the log. */
static void
send_total(struct serve *serve, const struct core *core, int to)
{
    struct serve_peer *served = &serve->of[to];
    const struct serve_follower *f = &serve->followers[to];
    struct proto_msg msg = {.type = PROTO_TOTAL, .total = {.round = f->round, .block = f->block}};
    uint64_t round = f->round - (mutant(MUTANT_TOTAL) && f->round > serve->first);
    struct transfer_block block = {.size = 0};
    const uint8_t *body = core->config.log;
    msg.total.state_hash = divergence_past(core, round);
    if (serve->logs && round >= serve->first) {
        const struct serve_total *total = total_of(serve, round);
        block = transfer_total_block(&core->transfer, total->first_bucket, f->segments, f->block);
        body += total->at + transfer_total_before(&core->transfer, total->first_bucket, core->holds,
                                                  block.offset);
        msg.total.state_hash = total->state_hash;
        msg.total.commit = total->commit;
    }
    served->served_at = core->awake;
    if (send_total_packed(core, to, &msg, f->segments, body, block.size))
        return;
    msg.total.check = transfer_total_check(&msg.total, f->segments, body, block.size);
    peers_send_bulk(core, to, &msg, body, block.size);
}

/* Push what this follower may have and there is. */
static void
totals_send(struct serve *serve, const struct core *core, int to)
{
    struct serve_follower *f = &serve->followers[to];
    while (f->on && f->round < core->round &&
           (f->round < f->end_round || (f->round == f->end_round && f->block < f->end_block))) {
        send_total(serve, core, to);
        if (!serve->logs || f->round < serve->first) {
            f->on = false; /* it was told */
            return;
        }
        f->block++;
        if (f->block >= transfer_total_count(&core->transfer,
                                             total_of(serve, f->round)->first_bucket,
                                             f->segments)) {
            f->round++;
            f->block = 0;
        }
    }
}

void
serve_on_follow(struct serve *serve, const struct core *core, int from,
                const struct proto_follow *follow)
{
    struct serve_follower *f = &serve->followers[from];
    bool has_state =
        contribution_settled(&core->contribution) || core->contribution.state == TRAINER_COMMITTING;
    if (!core->peers.peers[from].announced || !has_state || follow->round > core->round ||
        (follow->holds & ~core->holds) || (core->done && mutant(MUTANT_DONE)))
        return;
    serve->asked_at = core->awake;
    if (!serve->logs)
        log_begin(serve, core);
    uint64_t all = transfer_total_count(&core->transfer, 0, follow->holds);
    bool skips =
        follow->round > f->round || (follow->round == f->round && follow->block > f->block);
    if (!f->on || follow->again || skips || follow->holds != f->segments) {
        f->round = follow->round;
        f->block = follow->block;
    }
    f->on = true;
    f->segments = follow->holds;
    f->end_round = follow->round + (follow->block + follow->count) / all;
    f->end_block = (follow->block + follow->count) % all;
    totals_send(serve, core, from);
}

/* --- Steps --------------------------------------------------------------------------------------- */

void
serve_gone(struct serve *serve, int i)
{
    serve->due &= ~(1ull << i);
    serve->followers[i].on = false;
}

void
serve_forget(struct serve *serve, int i)
{
    assert(!serve->followers[i].on && !(serve->due >> i & 1));
    serve->of[i] = (struct serve_peer){0};
}

void
serve_moves(struct serve *serve, const struct core *core, int i)
{
    if (core->done && core->view.of[i].beat.needs)
        serve->of[i].moved_at = core->awake;
}

void
serve_step(struct serve *serve, const struct core *core)
{
    if (serve->state == SERVE_NONE && !serve->logs)
        return;
    if (awake_since(core->awake, serve->asked_at) > SERVE_IDLE_US) {
        serve_reset(serve, core);
        return;
    }
    if (serve->state == SERVE_WANTED && may_copy(serve, core))
        copy_begin(serve, core);
    if (serve->state == SERVE_COPYING && contribution_settled(&core->contribution))
        copy_some(serve, core, SERVE_COPY_BLOCKS);
    for (; serve->state == SERVE_COPIED && serve->due; serve->due &= serve->due - 1)
        offer_send(serve, core, __builtin_ctzll(serve->due));
    for (int i = 0; serve->logs && i < core->peers.high; i++)
        totals_send(serve, core, i);
}

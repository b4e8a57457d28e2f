/* serve.c - see serve.h for the states and the log. */
#include "mesh/core/serve.h"

#include <assert.h>
#include <string.h>

#include <xxhash.h>

#include "mesh/core/internal.h"
#include "proto/hash.h"
#include "proto/mix.h"

void
serve_init(struct core *core)
{
    core->serve = (struct serve){.state = SERVE_NONE};
}

/* --- What both sides count alike ----------------------------------------------------------------- */

uint64_t
serve_blocks(const struct core *core)
{
    uint64_t blocks =
        (core->config.state_size + core->config.block_size - 1) / core->config.block_size;
    return blocks == 0 ? 1 : blocks;
}

size_t
serve_block_size(const struct core *core, uint64_t block)
{
    size_t rest = core->config.state_size - (size_t)block * core->config.block_size;
    return rest < core->config.block_size ? rest : core->config.block_size;
}

uint64_t
serve_total_size(const struct core *core, size_t first_bucket)
{
    uint64_t count = 0;
    for (size_t b = first_bucket; b < core->config.bucket_count; b++)
        count += core->buckets[b].count;
    return count * sizeof(int32_t);
}

uint64_t
serve_offer_check(const struct proto_offer *offer, const void *body, size_t size)
{
    uint64_t seed = mix64_pair(mix64_pair(offer->round, offer->state_hash), offer->size);
    return XXH3_64bits_withSeed(body, size, seed);
}

uint64_t
serve_total_check(const struct proto_total *total, const void *body, size_t size)
{
    uint64_t seed = mix64_pair(mix64_pair(total->round, total->block), total->state_hash);
    return XXH3_64bits_withSeed(body, size, seed);
}

/* --- The copy ------------------------------------------------------------------------------------ */

void
serve_yield(struct core *core)
{
    if (core->serve.state == SERVE_COPYING || core->serve.state == SERVE_COPIED)
        core->serve.state = SERVE_NONE;
}

void
serve_reset(struct core *core)
{
    bool logs = core->serve.logs;
    serve_init(core);
    if (logs)
        core->ops.forget(core->ctx);
}

static void
log_begin(struct core *core)
{
    core->serve.logs = true;
    core->serve.first = core->round;
    core->serve.next = 0;
}

/* Can who takes the copy go on from it? */
static bool
copy_counts(const struct core *core)
{
    const struct serve *serve = &core->serve;
    return (serve->state == SERVE_COPYING || serve->state == SERVE_COPIED) && serve->logs &&
           serve->first <= serve->round;
}

static bool
may_copy(const struct core *core)
{
    const struct serve *serve = &core->serve;
    bool rests = !core->plan.active && core->awake - core->plan.idle_at_us >= SERVE_REST_US;
    bool waited = core->awake - serve->wanted_at_us >= SERVE_WAIT_US;
    return contribution_settled(core) && !core->divergence.open && !fetch_uses_state_in(core) &&
           (core->round >= serve->round || core->done || rests || waited);
}

static void
copy_begin(struct core *core)
{
    struct serve *serve = &core->serve;
    if (!serve->logs)
        log_begin(core);
    fetch_yield(core);
    serve->state = SERVE_COPYING;
    serve->round = core->round + core_mutant(MUTANT_STATE);
    serve->hash = core->state_hash;
    serve->copied = 0;
}

static void
copy_some(struct core *core, uint64_t most)
{
    struct serve *serve = &core->serve;
    const uint8_t *state = core->ops.state(core->ctx);
    for (; most > 0 && serve->copied < serve_blocks(core); most--) {
        size_t size = serve_block_size(core, serve->copied);
        uint8_t *to = core->config.state_in + (size_t)serve->copied * core->config.block_size;
        memcpy(to, state + (to - core->config.state_in), size);
        core->hashes[serve->copied++] = hash64(to, size);
    }
    if (serve->copied == serve_blocks(core))
        serve->state = SERVE_COPIED;
}

void
serve_finish(struct core *core)
{
    if (core->serve.state == SERVE_COPYING && !core_mutant(MUTANT_TORN))
        copy_some(core, UINT64_MAX);
}

static void
offer(struct core *core, int to)
{
    struct peer *peer = &core->peers.peers[to];
    struct serve_peer *served = &core->serve.of[to];
    struct proto_msg msg = {.type = PROTO_OFFER,
                            .offer = {.round = core->serve.round,
                                      .state_hash = core->serve.hash,
                                      .size = core->config.state_size}};
    size_t size = (size_t)serve_blocks(core) * sizeof *core->hashes;
    msg.offer.check = serve_offer_check(&msg.offer, core->hashes, size);
    served->served_at_us = core->awake;
    served->served_block = UINT64_MAX; /* none */
    core->ops.send_bulk(core->ctx, (unsigned)peer->link, &msg, core->hashes, size, false);
}

static void
send_blocks(struct core *core, int to, uint64_t first, uint64_t count)
{
    const struct peer *peer = &core->peers.peers[to];
    for (uint64_t b = first; b < first + count && b < serve_blocks(core); b++) {
        struct proto_msg msg = {.type = PROTO_STATE,
                                .state = {.round = core->serve.round, .block = b}};
        core->ops.send_bulk(core->ctx, (unsigned)peer->link, &msg,
                            core->config.state_in + (size_t)b * core->config.block_size,
                            serve_block_size(core, b), false);
    }
}

/* The copy is not here any more. */
static void
send_none(struct core *core, int to, const struct proto_fetch *fetch)
{
    struct proto_msg msg = {.type = PROTO_STATE,
                            .state = {.round = fetch->round, .block = fetch->block}};
    core->ops.send_bulk(core->ctx, (unsigned)core->peers.peers[to].link, &msg, core->hashes, 0,
                        false);
}

/* A copy is asked for: the one that there is, if its owner can still go on from it, or a new one. */
static void
ask(struct core *core, int from, uint64_t round)
{
    struct serve *serve = &core->serve;
    uint64_t his = core->view.of[from].beat.round;
    if (his >= core->round)
        return;
    bool useful = copy_counts(core) && serve->round > his;
    bool sooner = serve->state == SERVE_WANTED && round < serve->round;
    if (sooner || (serve->state != SERVE_WANTED && !useful)) {
        serve->state = SERVE_WANTED;
        serve->round = round;
        serve->wanted_at_us = core->awake;
    }
    serve->due |= 1ull << from;
}

void
serve_on_fetch(struct core *core, int from, const struct proto_fetch *fetch)
{
    struct serve *serve = &core->serve;
    struct peer *peer = &core->peers.peers[from];
    struct serve_peer *served = &core->serve.of[from];
    if (!peer->announced || core->contribution.state == TRAINER_START || core->divergence.open ||
        (core->done && core_mutant(MUTANT_DONE)))
        return;
    serve->asked_at_us = core->awake;
    if (fetch->count == 0) {
        ask(core, from, fetch->round);
        return;
    }
    bool again = served->served_at_us > 0 && served->served_block == fetch->block &&
                 core->awake - served->served_at_us < SERVE_REPEAT_US;
    if (again)
        return;
    served->served_at_us = core->awake;
    served->served_block = fetch->block;
    if (serve->state == SERVE_COPIED && serve->round == fetch->round)
        send_blocks(core, from, fetch->block,
                    fetch->count < SERVE_BLOCKS_MAX ? fetch->count : SERVE_BLOCKS_MAX);
    else
        send_none(core, from, fetch);
}

/* --- The log of totals --------------------------------------------------------------------------- */

static void
drop_overlapping(struct core *core, size_t at, size_t end)
{
    struct serve *serve = &core->serve;
    while (serve->first < core->round) {
        size_t k = serve->first % SERVE_ROUNDS_MAX;
        bool room = serve->totals[k].at >= end || serve->totals[k].at + serve->totals[k].size <= at;
        if (room && core->round - serve->first < SERVE_ROUNDS_MAX)
            return;
        serve->first++;
    }
}

void
serve_committed(struct core *core)
{
    struct serve *serve = &core->serve;
    if (!serve->logs)
        return;
    size_t size = (size_t)serve_total_size(core, core->first_bucket), at = serve->next;
    if (size > core->config.log_size) { /* nobody can follow */
        serve->first = core->round + 1;
        return;
    }
    if (at + size > core->config.log_size) {
        drop_overlapping(core, at, core->config.log_size);
        at = 0;
    }
    drop_overlapping(core, at, at + size);
    serve->totals[core->round % SERVE_ROUNDS_MAX].at = at;
    serve->totals[core->round % SERVE_ROUNDS_MAX].size = size;
    serve->totals[core->round % SERVE_ROUNDS_MAX].state_hash = core->state_hash;
    serve->next = at + size;
    for (size_t b = core->first_bucket; b < core->config.bucket_count; b++) {
        size_t bytes = core->buckets[b].count * sizeof(int32_t);
        memcpy(core->config.log + at, core->config.sum + core->buckets[b].first, bytes);
        at += bytes;
    }
}

static void
send_total(struct core *core, int to, uint64_t round, uint64_t block)
{
    struct peer *peer = &core->peers.peers[to];
    struct serve_peer *served = &core->serve.of[to];
    struct serve *serve = &core->serve;
    struct proto_msg msg = {.type = PROTO_TOTAL, .total = {.round = round, .block = block}};
    if (core_mutant(MUTANT_TOTAL) && round > serve->first)
        round--;
    size_t size = 0;
    const uint8_t *body = core->config.log;
    msg.total.state_hash = divergence_past(core, round);
    if (serve->logs && round >= serve->first) {
        size_t skip = (size_t)block * core->config.block_size;
        size_t whole = serve->totals[round % SERVE_ROUNDS_MAX].size;
        size = skip < whole ? whole - skip : 0;
        size = size < core->config.block_size ? size : core->config.block_size;
        body += serve->totals[round % SERVE_ROUNDS_MAX].at + skip;
        msg.total.state_hash = serve->totals[round % SERVE_ROUNDS_MAX].state_hash;
    }
    msg.total.check = serve_total_check(&msg.total, body, size);
    served->served_at_us = core->awake;
    core->ops.send_bulk(core->ctx, (unsigned)peer->link, &msg, body, size, false);
}

/* Push what this follower may have and there is. */
static void
push(struct core *core, int to)
{
    struct serve *serve = &core->serve;
    struct serve_follower *f = &serve->followers[to];
    while (f->on && f->round < core->round &&
           (f->round < f->end_round || (f->round == f->end_round && f->block < f->end_block))) {
        send_total(core, to, f->round, f->block);
        if (!serve->logs || f->round < serve->first) {
            f->on = false; /* it was told */
            return;
        }
        f->block++;
        if (f->block * core->config.block_size >= serve->totals[f->round % SERVE_ROUNDS_MAX].size) {
            f->round++;
            f->block = 0;
        }
    }
}

void
serve_on_follow(struct core *core, int from, const struct proto_follow *follow)
{
    struct serve *serve = &core->serve;
    struct serve_follower *f = &serve->followers[from];
    bool has_state = contribution_settled(core) || core->contribution.state == TRAINER_COMMITTING;
    if (!core->peers.peers[from].announced || !has_state || follow->round > core->round ||
        (core->done && core_mutant(MUTANT_DONE)))
        return;
    serve->asked_at_us = core->awake;
    if (!serve->logs)
        log_begin(core);
    uint64_t all =
        (serve_total_size(core, 0) + core->config.block_size - 1) / core->config.block_size;
    bool skips =
        follow->round > f->round || (follow->round == f->round && follow->block > f->block);
    if (!f->on || follow->again || skips) {
        f->round = follow->round;
        f->block = follow->block;
    }
    f->on = true;
    f->end_round = follow->round + (follow->block + follow->count) / all;
    f->end_block = (follow->block + follow->count) % all;
    push(core, from);
}

/* --- Steps --------------------------------------------------------------------------------------- */

void
serve_peer_lost(struct core *core, int i)
{
    core->serve.due &= ~(1ull << i);
    core->serve.followers[i].on = false;
}

void
serve_step(struct core *core)
{
    struct serve *serve = &core->serve;
    if (serve->state == SERVE_NONE && !serve->logs)
        return;
    if (core->awake - serve->asked_at_us > SERVE_IDLE_US) {
        serve_reset(core);
        return;
    }
    if (serve->state == SERVE_WANTED && may_copy(core))
        copy_begin(core);
    if (serve->state == SERVE_COPYING && contribution_settled(core))
        copy_some(core, SERVE_COPY_BLOCKS);
    for (; serve->state == SERVE_COPIED && serve->due; serve->due &= serve->due - 1)
        offer(core, __builtin_ctzll(serve->due));
    for (int i = 0; serve->logs && i < core->peers.high; i++)
        push(core, i);
}

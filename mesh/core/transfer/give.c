/* give.c - see give.h for the states and the log. */
#include "mesh/core/transfer/give.h"

#include <assert.h>
#include <string.h>

#include "compress/coding.h"
#include "mesh/core/internal.h"
#include "proto/hash.h"

/* --- The copy ------------------------------------------------------------------------------------ */

void
give_reset(struct give *give, const struct core *core)
{
    bool logs = give->logs;
    *give = (struct give){.state = GIVE_NONE, .commits = give->commits};
    if (logs)
        core->config.trainer->forget(core->config.trainer_ctx);
}

static void
log_begin(struct give *give, const struct core *core)
{
    give->logs = true;
    give->first = core->round;
}

static bool
may_copy(const struct give *give, const struct core *core)
{
    bool rests = !core->plan.active && awake_since(core->awake, core->plan.idle_at) >= GIVE_REST_US;
    bool waited = awake_since(core->awake, give->wanted_at) >= GIVE_WAIT_US;
    return trainer_settled(&core->trainer) && !divergence_open(core) &&
           (core->round >= give->round || core->done || rests || waited);
}

static void
copy_begin(struct give *give, const struct core *core)
{
    if (!give->logs)
        log_begin(give, core);
    give->state = GIVE_COPYING;
    give->round = core->round + mutant(MUTANT_STATE);
    give->hash = core->state_hash;
    memcpy(give->parts, core->parts, sizeof give->parts);
    give->copied = 0;
}

static void
copy_some(struct give *give, const struct core *core, uint64_t most)
{
    const uint8_t *state = core->config.trainer->state(core->config.trainer_ctx);
    for (; most > 0 && give->copied < core->transfer.blocks; give->copied++) {
        struct transfer_block block = transfer_state_block(&core->transfer, give->copied);
        if (!transfer_has(core->holds, block.segment))
            continue;
        uint8_t *to = core->config.state_in + block.offset;
        memcpy(to, state + block.offset, block.size);
        core->transfer.hashes[give->copied] = hash64(to, block.size);
        most--;
    }
    if (give->copied == core->transfer.blocks)
        give->state = GIVE_COPIED;
}

void
give_finish(struct give *give, const struct core *core)
{
    if (give->state == GIVE_COPYING && !mutant(MUTANT_TORN))
        copy_some(give, core, UINT64_MAX);
}

static void
give_send(const struct core *core, int to, const struct proto_give *give, uint64_t segments,
          const void *body, size_t size)
{
    struct proto_msg msg = {.type = PROTO_GIVE, .give = *give};
    msg.give.check = transfer_check(give, segments, body, size);
    peers_send_bulk(core, to, &msg, body, size);
}

/* The hashes of these segments and of their blocks. */
static size_t
list_write(const struct give *give, const struct core *core, uint64_t segments)
{
    const struct transfer *transfer = &core->transfer;
    uint64_t *list = transfer->list;
    for (size_t s = 0; s < transfer->segments; s++)
        *list++ = segments >> s & 1 ? give->parts[s] : 0;
    for (uint64_t b = 0; b < transfer->blocks; b++)
        if (transfer_has(segments, transfer_state_block(transfer, b).segment))
            *list++ = transfer->hashes[b];
    return (size_t)(list - transfer->list) * sizeof *list;
}

static void
list_send(struct give *give, const struct core *core, int to)
{
    assert(give->copied == core->transfer.blocks);
    uint64_t segments = give->of[to].listed;
    const struct proto_give list = {
        .object = PROTO_OBJECT_LIST, .round = give->round, .label = give->hash};
    size_t size = list_write(give, core, segments);
    give->of[to].served_at = core->awake;
    give->of[to].served_block = UINT64_MAX; /* none */
    give_send(core, to, &list, segments, core->transfer.list, size);
}

/* Blocks of the copy; none if it is not here any more. */
static void
blocks_send(struct give *give, const struct core *core, int to, const struct proto_fetch *fetch)
{
    bool here = give->state == GIVE_COPIED && give->round == fetch->round;
    uint64_t count = fetch->count < TRANSFER_RUN ? fetch->count : TRANSFER_RUN;
    struct proto_msg msg = {.type = PROTO_GIVE,
                            .give = {.object = PROTO_OBJECT_STATE,
                                     .round = fetch->round,
                                     .label = fetch->label,
                                     .block = fetch->block}};
    struct give_peer *served = &give->of[to];
    if (served->served_at.us > 0 && served->served_block == fetch->block &&
        awake_since(core->awake, served->served_at) < GIVE_REPEAT_US)
        return;
    served->served_at = core->awake;
    served->served_block = fetch->block;
    if (!here || fetch->label != give->hash) {
        peers_send_bulk(core, to, &msg, core->transfer.hashes, 0);
        return;
    }
    for (uint64_t b = fetch->block; b < fetch->block + count && b < core->transfer.blocks; b++) {
        struct transfer_block block = transfer_state_block(&core->transfer, b);
        msg.give.block = b;
        if (transfer_has(fetch->holds, block.segment))
            peers_send_bulk(core, to, &msg, core->config.state_in + block.offset, block.size);
    }
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
copy_want(struct give *give, const struct core *core, int from, const struct proto_fetch *fetch)
{
    uint64_t least = copy_least(core, from, fetch);
    if (least > core->round)
        return;
    bool useful = give_uses_state_in(give) && give->logs && give->first <= give->round &&
                  give->round >= least;
    bool sooner = give->state == GIVE_WANTED && fetch->round < give->round;
    if (sooner || (give->state != GIVE_WANTED && !useful)) {
        give->state = GIVE_WANTED;
        give->round = fetch->round;
        give->wanted_at = core->awake;
    }
    give->of[from].listed = fetch->holds;
    give->due |= 1ull << from;
}

/* --- The log of totals --------------------------------------------------------------------------- */

static struct give_total *
total_of(struct give *give, uint64_t round)
{
    return &give->totals[round % GIVE_ROUNDS_MAX];
}

/* How many totals the log has room for; 0: nobody can follow. */
static uint64_t
log_rounds(const struct core *core)
{
    size_t rounds = core->config.log_size / transfer_total_size(&core->transfer, 0, core->holds);
    return rounds < GIVE_ROUNDS_MAX ? rounds : GIVE_ROUNDS_MAX;
}

/* Where it has the total of a round. */
static uint8_t *
log_at(const struct core *core, uint64_t round)
{
    size_t slot = (size_t)(round % log_rounds(core));
    return core->config.log + slot * transfer_total_size(&core->transfer, 0, core->holds);
}

void
give_committed(struct give *give, const struct core *core)
{
    const struct transfer *transfer = &core->transfer;
    size_t first = core->first_bucket;
    uint64_t rounds = log_rounds(core);
    give->commits++;
    if (!give->logs)
        return;
    if (core->round + 1 - give->first > rounds)
        give->first = core->round + 1 - rounds;
    if (rounds == 0)
        return;
    *total_of(give, core->round) = (struct give_total){first, core->state_hash, give->commits};
    for (size_t b = first; b < core->config.bucket_count; b++) {
        size_t at = transfer_total_before(transfer, first, core->holds, transfer->bucket_at[b]);
        size_t end =
            transfer_total_before(transfer, first, core->holds, transfer->bucket_at[b + 1]);
        memcpy(log_at(core, core->round) + at, core->config.sum + core->buckets[b].first, end - at);
    }
}

/* A block of a total, if packing makes it shorter and a buffer is free. */
static bool
total_send_packed(const struct core *core, int to, const struct proto_give *give, uint64_t segments,
                  const uint8_t *body, size_t size)
{
    struct proto_msg msg = {.type = PROTO_GIVE, .give = *give};
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
    msg.give.coding = PROTO_CODING_PACKED;
    msg.give.check = transfer_check(&msg.give, segments, frame.data, packed);
    if (packed > 0)
        wire->pass_on(core->config.wire_ctx, &link, 1, &msg,
                      &(struct core_frame){frame.data, packed, frame.handle});
    wire->release(core->config.wire_ctx, frame.handle);
    return packed > 0;
}

/* The block that this follower gets next; nothing of a total that is no longer in the log. */
static void
total_send(struct give *give, const struct core *core, int to)
{
    struct give_peer *f = &give->of[to];
    struct proto_give total = {.object = PROTO_OBJECT_TOTAL, .round = f->round, .block = f->block};
    uint64_t round = f->round - (mutant(MUTANT_TOTAL) && f->round > give->first);
    struct transfer_block block = {.size = 0};
    const uint8_t *body = NULL;
    total.label = divergence_past(core, round);
    if (give->logs && round >= give->first) {
        const struct give_total *in = total_of(give, round);
        block = transfer_total_block(&core->transfer, in->first_bucket, f->segments, f->block);
        body = log_at(core, round) +
               transfer_total_before(&core->transfer, in->first_bucket, core->holds, block.offset);
        total.label = in->state_hash;
        total.commit = in->commit;
    }
    f->served_at = core->awake;
    if (!total_send_packed(core, to, &total, f->segments, body, block.size))
        give_send(core, to, &total, f->segments, body, block.size);
}

/* Push what this follower may have and there is. */
static void
totals_send(struct give *give, const struct core *core, int to)
{
    struct give_peer *f = &give->of[to];
    for (; f->left > 0 && f->round < core->round; f->left--) {
        total_send(give, core, to);
        if (!give->logs || f->round < give->first) {
            f->left = 0; /* it was told */
            return;
        }
        f->block++;
        if (f->block >= transfer_total_count(&core->transfer,
                                             total_of(give, f->round)->first_bucket, f->segments)) {
            f->round++;
            f->block = 0;
        }
    }
}

static void
follow_want(struct give *give, const struct core *core, int from, const struct proto_fetch *fetch)
{
    struct give_peer *f = &give->of[from];
    if (!give->logs)
        log_begin(give, core);
    if (fetch->again || fetch->holds != f->segments) {
        f->segments = fetch->holds;
        f->round = fetch->round;
        f->block = fetch->block;
        f->left = 0;
    }
    f->left = f->left + fetch->count < PROTO_COUNT_MAX ? f->left + fetch->count : PROTO_COUNT_MAX;
    totals_send(give, core, from);
}

/* --- Questions ----------------------------------------------------------------------------------- */

/* Has this node what is asked for, at present? */
static bool
may_give(const struct core *core, int to, const struct proto_fetch *fetch)
{
    enum trainer_state state = core->trainer.state;
    if (!core->peers.peers[to].announced || (fetch->holds & ~core->holds) ||
        (core->done && mutant(MUTANT_DONE)))
        return false;
    if (fetch->object == PROTO_OBJECT_TOTAL)
        return fetch->round <= core->round &&
               (trainer_settled(&core->trainer) || state == TRAINER_COMMITTING);
    return state != TRAINER_START && !divergence_open(core);
}

void
give_on_fetch(struct give *give, const struct core *core, int from, const struct proto_fetch *fetch)
{
    if (!may_give(core, from, fetch))
        return;
    give->asked_at = core->awake;
    if (fetch->object == PROTO_OBJECT_LIST)
        copy_want(give, core, from, fetch);
    else if (fetch->object == PROTO_OBJECT_STATE)
        blocks_send(give, core, from, fetch);
    else
        follow_want(give, core, from, fetch);
}

/* --- Steps --------------------------------------------------------------------------------------- */

void
give_gone(struct give *give, int i)
{
    give->due &= ~(1ull << i);
    give->of[i].segments = give->of[i].left = 0;
}

void
give_forget(struct give *give, int i)
{
    assert(!give->of[i].left && !(give->due >> i & 1));
    give->of[i] = (struct give_peer){0};
}

void
give_moves(struct give *give, const struct core *core, int i)
{
    if (core->done && core->view.of[i].beat.needs)
        give->of[i].moved_at = core->awake;
}

void
give_step(struct give *give, const struct core *core, bool room)
{
    if (give->state == GIVE_NONE && !give->logs)
        return;
    if (awake_since(core->awake, give->asked_at) > GIVE_IDLE_US) {
        give_reset(give, core);
        return;
    }
    if (give->state == GIVE_WANTED && room && may_copy(give, core))
        copy_begin(give, core);
    if (give->state == GIVE_COPYING && trainer_settled(&core->trainer))
        copy_some(give, core, GIVE_COPY_BLOCKS);
    for (; give->state == GIVE_COPIED && give->due; give->due &= give->due - 1)
        list_send(give, core, __builtin_ctzll(give->due));
    for (int i = 0; give->logs && i < core->peers.high; i++)
        totals_send(give, core, i);
}

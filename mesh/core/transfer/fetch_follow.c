/* fetch_follow.c - the totals of the rounds since, one after the other, from one donor who has them in its log. */
#include "mesh/core/transfer/fetch.h"

#include <assert.h>
#include <string.h>

#include "compress/coding.h"
#include "mesh/core/internal.h"

/* Blocks of totals may come: as many as the window has room for, or all of it from here on. */
static void
follow_ask(struct fetch *fetch, const struct core *core, bool again)
{
    uint64_t window = fetch->pace.window;
    struct proto_msg msg = {.type = PROTO_FETCH,
                            .fetch = {.object = PROTO_OBJECT_TOTAL,
                                      .round = core->round,
                                      .holds = core->holds,
                                      .block = fetch->block,
                                      .count = (uint16_t)(again ? window : window - fetch->left),
                                      .again = again}};
    if (again)
        fetch_kept_drop(fetch, core);
    if (again || fetch->left == 0)
        fetch->came_at = core->awake;
    fetch->left = window;
    fetch->anew = false;
    fetch->asked_at = core->awake;
    peers_send(core, fetch->from, &msg);
}

static void
follow_begin(struct fetch *fetch, const struct core *core)
{
    bool behind = fetch_anybody(core, fetch_ahead);
    int best = -1;
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        const struct proto_heartbeat *said = &core->view.of[i].beat;
        const struct plan_peer *planned = &core->plan.of[i];
        if (!fetch_fit(core, i) || planned->stuck || (fetch->tried >> i & 1) ||
            said->round < core->round + behind)
            continue;
        uint64_t self = core->config.self.id; /* who join together go to different donors */
        if (best < 0 || (peer->node.id ^ self) < (core->peers.peers[best].node.id ^ self))
            best = i;
    }
    fetch->from = best;
    if (core->config.inexact)
        fetch->block = 0; /* its total of this round may be the sum of other members */
    fetch->progress_at = core->awake;
    if (best >= 0)
        follow_ask(fetch, core, true);
}

/* Those who gave the state that this node has: they train faster than it receives. */
static void
fetch_let_go(struct fetch *fetch, const struct core *core)
{
    uint64_t pause_us = fetch_pause_us(core);
    if (!fetch->overtaken)
        core_log(core, 4, "this node receives more slowly than the others train: trying again");
    fetch->overtaken = true;
    fetch->retry_at = awake_after(core->awake, pause_us < FETCH_REST_US ? pause_us : FETCH_REST_US);
    for (int i = 0; i < core->peers.high; i++)
        if (fetch_ahead(core, i) && fetch_gives(core, i))
            fetch->of[i].apart_at = awake_after(core->awake, pause_us);
}

/* Nobody has the totals, or has them no more. */
static void
follow_fail(struct fetch *fetch, const struct core *core)
{
    if (!fetch->adopted && fetch_anybody(core, fetch_ahead)) {
        fetch_ask_begin(fetch, core, fetch_name_round(core));
        return;
    }
    fetch->retry_at = awake_after(core->awake, FETCH_AGAIN_US);
    if (fetch->adopted && fetch->tried)
        fetch_let_go(fetch, core);
    fetch_reset(fetch, core);
}

/* `at`: where the block begins in a total of all buckets. */
static void
total_scatter(const struct core *core, size_t at, const uint8_t *body, size_t size)
{
    const size_t *bucket_at = core->transfer.bucket_at;
    for (size_t b = core->first_bucket; b < core->config.bucket_count && size > 0; b++) {
        if (bucket_at[b + 1] <= at)
            continue;
        size_t skip = at - bucket_at[b], rest = bucket_at[b + 1] - at;
        size_t part = rest < size ? rest : size;
        memcpy((uint8_t *)(core->config.sum + core->buckets[b].first) + skip, body, part);
        body += part;
        size -= part;
        at += part;
    }
}

/* Has the body the size of this block? */
static bool
total_fits(const struct proto_give *total, struct transfer_block block, const void *body,
           size_t size)
{
    if (total->coding == PROTO_CODING_RAW)
        return size == block.size;
    return block.size % sizeof(int32_t) == 0 &&
           coding_fits(total->coding, body, size, block.size / sizeof(int32_t));
}

/* False: it has bits that must be zero. */
static bool
total_unpack(const struct core *core, struct transfer_block block, const void *body)
{
    struct packed_in in = packed_open(body, block.size / sizeof(int32_t));
    int32_t some[PACKED_BLOCK];
    bool good = true;
    for (size_t at = 0; at < block.size; at += sizeof some) {
        size_t size = block.size - at < sizeof some ? block.size - at : sizeof some;
        good &= packed_get(&in, some, size / sizeof *some);
        total_scatter(core, block.offset + at, (const uint8_t *)some, size);
    }
    return good;
}

/* Which state the one that we follow had. If it is another one, ours has changed since it was adopted, or its has. Of
 * one that is gone only totals are left, which were kept: nobody is there to differ from. */
static struct fetch_verdict
total_compare(struct fetch *fetch, const struct core *core, uint64_t hash)
{
    struct fetch_verdict verdict = {.told = fetch->from >= 0, .from = fetch->from, .hash = hash};
    if (mutant(MUTANT_FOLLOW_STATE))
        verdict.told = false;
    else if (hash != core->state_hash)
        fetch_reset(fetch, core);
    return verdict;
}

void
fetch_total_bad(struct fetch *fetch)
{
    fetch->block = 0;
    fetch->anew = true;
}

/* Is it of another total than the blocks before it? The donor went back, and the round was summed again; only exact
 * sums are equal then. */
static bool
total_is_other(const struct core *core, const struct proto_give *total)
{
    const struct fetch *fetch = &core->fetch;
    return core->config.inexact && fetch->block > 0 && total->commit != fetch->commit &&
           !mutant(MUTANT_TWO_TOTALS);
}

/* The block whose turn it is; the last one completes the total. */
static struct fetch_verdict
total_take(struct fetch *fetch, const struct core *core, const struct proto_give *total,
           const void *body, size_t size)
{
    struct transfer_block block =
        transfer_total_block(&core->transfer, core->first_bucket, core->holds, fetch->block);
    assert(block.size > 0);
    bool fits = total_fits(total, block, body, size);
    if (transfer_check(total, core->holds, body, size) != total->check ||
        (!fits && mutant(MUTANT_TOTAL_SIZE)))
        return (struct fetch_verdict){.commit = false};
    struct fetch_verdict verdict = total_compare(fetch, core, total->label);
    /* The size comes last: which buckets a round has, and so the size of its total, is a part of the state. */
    if (fetch->state != FETCH_FOLLOWING || !fits)
        return verdict;
    if (total_is_other(core, total)) {
        fetch_total_bad(fetch);
        return verdict;
    }
    if (total->coding == PROTO_CODING_RAW)
        total_scatter(core, block.offset, body, size);
    else if (!total_unpack(core, block, body))
        return verdict;
    fetch->commit = total->commit;
    fetch->block++;
    fetch->left -= fetch->left > 0;
    fetch->sure = true;
    fetch->progress_at = core->awake;
    verdict.commit =
        fetch->block == transfer_total_count(&core->transfer, core->first_bucket, core->holds);
    return verdict;
}

/* May sum be written, and the trainer be asked? */
static bool
may_take_total(const struct core *core)
{
    return core->fetch.state == FETCH_FOLLOWING && core->trainer.state == TRAINER_FREE &&
           !core->trainer.lent && !core->plan.active;
}

static bool
total_is_next(const struct core *core, const struct proto_give *total)
{
    bool before = mutant(MUTANT_FOLLOW_ROUND) && total->round + 1 == core->round;
    return (total->round == core->round || before) && total->block == core->fetch.block;
}

/* Does it come before this block? */
static bool
total_before(const struct proto_give *total, uint64_t round, uint64_t block)
{
    return total->round < round || (total->round == round && total->block < block);
}

static struct fetch_verdict
kept_take(struct fetch *fetch, const struct core *core)
{
    struct fetch_verdict verdict = {.commit = false};
    while (fetch->kept_count > 0 && may_take_total(core) && !verdict.commit) {
        const struct fetch_kept *kept = &fetch->kept[0];
        if (total_is_next(core, &kept->give))
            verdict = total_take(fetch, core, &kept->give, kept->frame.data, kept->frame.size);
        else if (!total_before(&kept->give, core->round, fetch->block))
            return verdict;                  /* one is missing */
        if (fetch->state == FETCH_FOLLOWING) /* else nothing is kept any more */
            fetch_kept_remove(fetch, core);
    }
    return verdict;
}

static void
total_keep(struct fetch *fetch, const struct core *core, const struct proto_give *total,
           struct core_frame *frame)
{
    const struct fetch_kept *end = &fetch->kept[fetch->kept_count];
    if (fetch->kept_count >= fetch->pace.most || total_before(total, core->round, fetch->block) ||
        (fetch->kept_count > 0 && !total_before(&end[-1].give, total->round, total->block)) ||
        frame->size > coding_most(core->transfer.block_size / sizeof(int32_t) + 1))
        return;
    core->config.wire->keep(core->config.wire_ctx, frame);
    fetch->kept[fetch->kept_count++] = (struct fetch_kept){*total, *frame};
}

/* The donor does not have the total: its state was another one before this round, or its log is shorter. */
static struct fetch_verdict
total_absent(struct fetch *fetch, const struct core *core, const struct proto_give *total)
{
    struct fetch_verdict verdict = {.told = false};
    if (total->label != 0 && transfer_check(total, core->holds, "", 0) == total->check)
        verdict = total_compare(fetch, core, total->label);
    if (fetch->state != FETCH_FOLLOWING)
        return verdict;
    /* when not even the first total came, the others hardly have more */
    fetch->tried |= fetch->sure ? 1ull << fetch->from : UINT64_MAX;
    fetch->from = -1;
    return verdict;
}

/* Of a node that is not followed, or no more: which state it had before this round. */
static struct fetch_verdict
total_tells(const struct core *core, int from, const struct proto_give *total,
            const struct core_frame *frame)
{
    struct fetch_verdict verdict = {.from = from, .hash = total->label};
    verdict.told = total->round == core->round && total->label != 0 &&
                   total->label != core->state_hash && !core->config.inexact &&
                   !mutant(MUTANT_FOLLOW_STATE) &&
                   transfer_check(total, core->holds, frame->data, frame->size) == total->check;
    return verdict;
}

struct fetch_verdict
fetch_on_total(struct fetch *fetch, const struct core *core, int from,
               const struct proto_give *total, struct core_frame *frame)
{
    struct fetch_verdict nothing = {.commit = false};
    if (fetch->state != FETCH_FOLLOWING || fetch->from != from)
        return total_tells(core, from, total, frame);
    if (frame->size == 0)
        return total_is_next(core, total) ? total_absent(fetch, core, total) : nothing;
    pace_came(&fetch->pace, awake_since(core->awake, fetch->came_at));
    fetch->came_at = core->awake;
    if (may_take_total(core) && total_is_next(core, total))
        return total_take(fetch, core, total, frame->data, frame->size);
    total_keep(fetch, core, total, frame);
    return nothing;
}

/* Half of the window has come, or nothing for long. */
static void
follow_more(struct fetch *fetch, const struct core *core)
{
    struct awake since = awake_later(fetch->asked_at, fetch->progress_at);
    bool ahead = fetch_ahead(core, fetch->from); /* else it has nothing */
    uint64_t line_us = pace_patience_us(&fetch->pace);
    uint64_t patience_us = line_us + (fetch->sure && ahead ? FETCH_LOST_US : FETCH_SURE_US);
    if (fetch->anew) {
        follow_ask(fetch, core, true);
    } else if (2 * fetch->left <= fetch->pace.window) {
        follow_ask(fetch, core, false);
    } else if (awake_since(core->awake, fetch->progress_at) > patience_us &&
               fetch_anybody(core, fetch_ahead)) {
        fetch->tried |= 1ull << fetch->from;
        fetch->from = -1;
    } else if (awake_since(core->awake, since) >= FETCH_BLOCK_US + line_us) {
        follow_ask(fetch, core, true);
    }
}

struct fetch_verdict
fetch_follow_step(struct fetch *fetch, const struct core *core)
{
    assert(fetch->state == FETCH_FOLLOWING);
    struct fetch_verdict verdict = kept_take(fetch, core);
    if (verdict.commit || fetch->state != FETCH_FOLLOWING)
        return verdict;
    if (fetch->from >= 0 && (!fetch_fit(core, fetch->from) || core->plan.of[fetch->from].stuck))
        fetch->from = -1;
    if (fetch->from < 0)
        follow_begin(fetch, core);
    if (fetch->from >= 0)
        follow_more(fetch, core);
    else
        follow_fail(fetch, core);
    return verdict;
}

/* fetch_copy.c - a copy of the state of those ahead: asked for, chosen by what most offer, and taken. */
#include "mesh/core/transfer/fetch.h"

#include <assert.h>
#include <string.h>

#include "mesh/core/internal.h"
#include "proto/hash.h"
#include "proto/mutant.h"

/* --- Asking -------------------------------------------------------------------------------------- */

static void
offer_ask(struct fetch *fetch, const struct core *core, int i)
{
    fetch->of[i].asked = true;
    struct proto_msg msg = {.type = PROTO_FETCH,
                            .fetch = {.object = PROTO_OBJECT_LIST,
                                      .round = fetch->wanted,
                                      .count = 1,
                                      .holds = fetch_segments(core)}};
    peers_send(core, i, &msg);
}

static void
offers_ask(struct fetch *fetch, const struct core *core)
{
    bool again = awake_since(core->awake, fetch->asked_at) >= fetch->ask_us;
    for (int i = 0; i < core->peers.high; i++) {
        const struct fetch_peer *donor = &fetch->of[i];
        if (fetch_may_give(core, i) &&
            (!donor->asked || (again && (!donor->offered || !fetch->listed))))
            offer_ask(fetch, core, i);
    }
    if (!again)
        return;
    fetch->asked_at = core->awake;
    fetch->ask_us = backoff_us(fetch->ask_us, FETCH_ASK_US, FETCH_ASK_MAX_US);
}

/* Is this block fetched? Of what all hold, a node that is done has its own. */
static bool
block_wanted(const struct fetch *fetch, const struct core *core, uint64_t block)
{
    int segment = transfer_state_block(&core->transfer, block).segment;
    return transfer_has(fetch_segments(core), segment) &&
           !(fetch->part && segment == CORE_ALL_HOLD);
}

/* Bytes of a LIST of what is fetched. */
static size_t
list_size(const struct core *core)
{
    const struct transfer *transfer = &core->transfer;
    return (transfer->segments + transfer_state_count(transfer, fetch_segments(core))) *
           sizeof *transfer->hashes;
}

/* The hashes of the segments come first, then those of the blocks that are listed. */
static void
list_take(struct fetch *fetch, const struct core *core, const struct proto_give *list,
          const uint8_t *body, size_t size)
{
    const struct transfer *transfer = &core->transfer;
    const uint8_t *end = body + size;
    memcpy(fetch->parts, body, transfer->segments * sizeof *fetch->parts);
    body += transfer->segments * sizeof *fetch->parts;
    fetch->list = *list;
    fetch->listed = true;
    take_begin(&fetch->take,
               &(struct proto_fetch){.object = PROTO_OBJECT_STATE,
                                     .round = list->round,
                                     .label = list->label,
                                     .holds = fetch_segments(core)},
               0, transfer->blocks, transfer->block_size);
    for (uint64_t b = 0; b < transfer->blocks; b++) {
        if (block_wanted(fetch, core, b))
            memcpy(transfer->hashes + b, body, sizeof *transfer->hashes);
        else
            take_skip(&fetch->take, b);
        if (transfer_has(fetch_segments(core), transfer_state_block(transfer, b).segment))
            body += sizeof *transfer->hashes;
    }
    assert(body == end);
}

/* Has peers[i] gone on from the state that ours differed from? */
static bool
has_gone_on(const struct core *core, int i)
{
    return fetch_fit(core, i) && core->view.of[i].beat.round >= core->fetch.copies;
}

/* One that has got no further than this node had may have the state that this node gave up. It gives none while
 * somebody who has got further may offer his: he may be far away, and be the last to answer. */
static bool
offer_too_early(const struct core *core, int i)
{
    bool early = core->fetch.copies && awake_since(core->awake, core->fetch.since) < FETCH_LOST_US;
    return early && !has_gone_on(core, i) && fetch_anybody(core, has_gone_on);
}

/* A later state than ours; or, of what a node that is done does not hold, the same one. */
static bool
list_of_use(const struct core *core, const struct proto_give *list, bool also_equal)
{
    if (core->fetch.part)
        return (list->round == core->round && list->label == core->state_hash) ||
               mutant(MUTANT_GROWN);
    return list->round + also_equal > core->round;
}

void
fetch_on_list(struct fetch *fetch, const struct core *core, int from, const struct proto_give *give,
              const void *body, size_t size)
{
    bool asks = fetch->state == FETCH_ASKING || fetch->state == FETCH_BLOCKS;
    if (!asks || !list_of_use(core, give, mutant(MUTANT_OFFER_ROUND)) || size != list_size(core) ||
        transfer_check(give, fetch_segments(core), body, size) != give->check ||
        offer_too_early(core, from))
        return;
    struct fetch_peer *donor = &fetch->of[from];
    donor->offered = true;
    donor->list = *give;
    fetch->progress_at = core->awake;
    if (fetch->offered_at.us == 0)
        fetch->offered_at = core->awake;
    bool wanted = fetch->state == FETCH_BLOCKS
                      ? !fetch->listed && fetch_list_equal(&donor->list, &fetch->list)
                      : !fetch->listed || fetch->take.here == 0;
    if (wanted)
        list_take(fetch, core, &donor->list, body, size);
}

/* How many offer the same as peers[i], if that is of use. */
static unsigned
offer_votes(const struct fetch *fetch, const struct core *core, int i)
{
    unsigned count = 0;
    const struct fetch_peer *donors = fetch->of;
    for (int k = 0; k < core->peers.high; k++)
        count += fetch_may_give(core, k) && donors[k].offered &&
                 fetch_list_equal(&donors[k].list, &donors[i].list);
    return list_of_use(core, &donors[i].list, mutant(MUTANT_OFFER_VOTES)) ? count : 0;
}

/* Whose list most offer, the one of the highest round among equals; -1: nobody's. `all`: have all offered? */
static int
best_offer(const struct fetch *fetch, const struct core *core, unsigned *most, bool *all)
{
    int best = -1;
    *most = 0;
    *all = true;
    for (int i = 0; i < core->peers.high; i++) {
        if (!fetch_may_give(core, i))
            continue;
        *all &= fetch->of[i].offered;
        unsigned count = fetch->of[i].offered ? offer_votes(fetch, core, i) : 0;
        bool later = best >= 0 && fetch->of[i].list.round > fetch->of[best].list.round;
        if (count > *most || (count == *most && later && count > 0)) {
            *most = count;
            best = i;
        }
    }
    return best;
}

/* This list, whose hashes are not here: those who offer it send it again. */
static void
list_request(struct fetch *fetch, const struct core *core, const struct proto_give *list)
{
    fetch->listed = false;
    fetch->list = *list;
    fetch->wanted = list->round;
    for (int i = 0; i < core->peers.high; i++)
        fetch->of[i].asked &= !fetch_gives(core, i);
    offers_ask(fetch, core);
}

/* What most offer; one who has offered nothing yet is waited for a moment. */
static void
offer_choose(struct fetch *fetch, const struct core *core)
{
    unsigned most;
    bool all;
    int best = best_offer(fetch, core, &most, &all);
    if (best < 0 || (!all && awake_since(core->awake, fetch->offered_at) < FETCH_VOTE_US))
        return;
    const struct proto_give *list = &fetch->of[best].list;
    if (!fetch->listed || !fetch_list_equal(&fetch->list, list))
        list_request(fetch, core, list);
    take_again(&fetch->take);
    fetch->state = FETCH_BLOCKS;
    if (fetch->part ||
        (fetch->said_at.us && awake_since(core->awake, fetch->said_at) < FETCH_SAY_US))
        return;
    fetch->said_at = core->awake;
    core_log(core, 6, "catching up: copying the current weights from %u %s", most,
             most == 1 ? "node" : "nodes");
}

static void
asking_step(struct fetch *fetch, const struct core *core)
{
    if (!fetch->part && !fetch_anybody(core, fetch_ahead)) {
        fetch_enter(fetch, core, FETCH_NONE);
        return;
    }
    offers_ask(fetch, core);
    offer_choose(fetch, core);
}

/* --- Blocks -------------------------------------------------------------------------------------- */

void
fetch_gone(struct fetch *fetch, const struct core *core, int i)
{
    assert(i < core->peers.high);
    if (fetch->from == i)
        fetch->from = -1;
    take_gone(&fetch->take, i);
    fetch->of[i].asked = fetch->of[i].offered = false;
}

static void
donor_avoid(struct fetch *fetch, const struct core *core, int i, uint64_t us)
{
    fetch->of[i].avoid_at = awake_after(core->awake, us);
}

static void
blocks_step(struct fetch *fetch, const struct core *core)
{
    uint64_t gives = 0;
    for (int i = 0; i < core->peers.high; i++) /* it may offer another state by now */
        gives |= (uint64_t)fetch_gives(core, i) << i;
    if (!gives) {
        bool same = fetch->listed && list_of_use(core, &fetch->list, false);
        if (fetch->listed)
            take_ask(&fetch->take, core, 0);
        fetch_ask_begin(fetch, core, same ? fetch->list.round : fetch_name_round(core));
        return;
    }
    if (!fetch->listed) {
        offers_ask(fetch, core);
        return;
    }
    uint64_t spent = take_ask(&fetch->take, core, gives);
    for (; spent; spent &= spent - 1) {
        donor_avoid(fetch, core, __builtin_ctzll(spent), FETCH_AVOID_US);
        fetch->of[__builtin_ctzll(spent)].offered = false;
    }
    if (fetch->take.here == fetch->take.whole) /* a segment without parameters has none */
        fetch->state = FETCH_COMPLETE;
}

/* Another donor is to send it, if there is one. Of one alone that sends what it did not offer again and again, the
 * list may be what is wrong. */
static void
block_bad(struct fetch *fetch, const struct core *core, int from, uint64_t block)
{
    char who[PROTO_WHO_MAX];
    core_log(core, 4, "block %llu of the weights from %s is damaged: asking again",
             (unsigned long long)block, report_who(core, from, who));
    if (!take_bad(&fetch->take, from, block))
        return;
    donor_avoid(fetch, core, from, FETCH_AVOID_US);
    fetch->listed = fetch_anybody(core, fetch_gives);
}

static void
block_good(struct fetch *fetch, const struct core *core, int from, uint64_t block, const void *body)
{
    struct transfer_block where = transfer_state_block(&core->transfer, block);
    if (mutant(MUTANT_SPAN) && where.segment > 0)
        where.offset -= sizeof(uint64_t);
    memcpy(core->config.state_in + where.offset, body, where.size);
    fetch->progress_at = fetch->moved_at = core->awake;
    if (take_good(&fetch->take, core, from, block))
        fetch->state = FETCH_COMPLETE;
    fetch->pace = fetch->take.of[from].pace; /* so totals will come */
}

void
fetch_on_block(struct fetch *fetch, const struct core *core, int from,
               const struct proto_give *give, const void *body, size_t size)
{
    if (fetch->state != FETCH_BLOCKS || !fetch->listed || !fetch_gives(core, from) ||
        give->round != fetch->list.round || give->label != fetch->list.label)
        return;
    if (size == 0 && core->config.state_size > 0) { /* it has the copy no more */
        fetch->of[from].offered = false;
        return;
    }
    if (!take_wants(&fetch->take, give->block) ||
        size != transfer_state_block(&core->transfer, give->block).size)
        return;
    if (hash64(body, size) != core->transfer.hashes[give->block] && !mutant(MUTANT_BLOCK))
        block_bad(fetch, core, from, give->block);
    else
        block_good(fetch, core, from, give->block, body);
}

bool
fetch_copy_lost(const struct core *core)
{
    const struct fetch *fetch = &core->fetch;
    uint64_t patience_us = FETCH_LOST_US + pace_patience_us(&fetch->pace);
    return fetch->bad >= FETCH_BAD_MAX || awake_since(core->awake, fetch->moved_at) >= patience_us;
}

/* Nothing of the part has come for long, nor has anybody who holds it got further; or what came was wrong each time. */
static bool
part_lost(const struct fetch *fetch, const struct core *core)
{
    bool late = fetch_waits_us(core) >= HOLDING_STAY_US + 4 * core->round_us;
    return fetch->part && core->done && fetch->state != FETCH_COMPLETE &&
           (late || fetch->bad >= FETCH_BAD_MAX);
}

/* The trainer is told of a part once. */
static struct fetch_verdict
part_tell(struct fetch *fetch, const struct core *core, bool lost)
{
    assert(!fetch->given);
    fetch->given = true;
    fetch->moved_at = core->awake;
    return (struct fetch_verdict){
        .part = true,
        .round = core->round,
        .segments = lost ? 0 : fetch->part,
        .parts = fetch->parts,
    };
}

static struct fetch_verdict
complete_step(const struct fetch *fetch, const struct core *core)
{
    return (struct fetch_verdict){
        .adopt = core->trainer.state == TRAINER_FREE && !core->plan.active,
        .round = fetch->list.round,
        .hash = fetch->list.label,
        .parts = fetch->parts,
    };
}

struct fetch_verdict
fetch_copy_step(struct fetch *fetch, const struct core *core)
{
    if (fetch->state == FETCH_ASKING)
        asking_step(fetch, core);
    if (fetch->state == FETCH_BLOCKS)
        blocks_step(fetch, core);
    bool lost = part_lost(fetch, core);
    if (lost || (fetch->part && fetch->state == FETCH_COMPLETE))
        return part_tell(fetch, core, lost);
    if (fetch->state == FETCH_COMPLETE)
        return complete_step(fetch, core);
    return (struct fetch_verdict){.adopt = false};
}

void
fetch_copy_bad(struct fetch *fetch, const struct core *core)
{
    core_log(core, 3, "the weights that were received do not match their hash: asking again");
    for (int i = 0; i < core->peers.high; i++)
        if (fetch_gives(core, i))
            donor_avoid(fetch, core, i, fetch->part ? FETCH_AVOID_US : FETCH_BAD_US);
    if (!fetch->part) {
        fetch_reset(fetch, core);
        return;
    }
    fetch->bad++;
    fetch->given = fetch->listed = false;
    fetch_ask_begin(fetch, core, core->round);
}

/* fetch_copy.c - a copy of the state of those ahead, asked for, chosen by what most offer, and put together from blocks
 * of several donors. */
#include "mesh/core/transfer/fetch_copy.h"

#include <assert.h>
#include <string.h>

#include "mesh/core/internal.h"
#include "mesh/core/transfer/fetch_internal.h"
#include "proto/hash.h"
#include "proto/mutant.h"

enum { FETCH_HERE = 255, FETCH_MISSING = 254 }; /* no index in peers is so high */

/* --- Asking -------------------------------------------------------------------------------------- */

static void
offer_ask(struct fetch *fetch, const struct core *core, int i)
{
    fetch->donors[i].asked = true;
    struct proto_msg msg = {.type = PROTO_FETCH,
                            .fetch = {.round = fetch->wanted, .holds = fetch_segments(core)}};
    peers_send(core, i, &msg);
}

static void
offers_ask(struct fetch *fetch, const struct core *core)
{
    bool again = awake_since(core->awake, fetch->asked_at) >= fetch->ask_us;
    for (int i = 0; i < core->peers.high; i++) {
        const struct fetch_donor *donor = &fetch->donors[i];
        if (fetch_may_give(core, i) &&
            (!donor->asked || (again && (!donor->offered || !fetch->listed))))
            offer_ask(fetch, core, i);
    }
    if (!again)
        return;
    fetch->asked_at = core->awake;
    fetch_ask_later(fetch);
}

/* Is this block fetched? Of what all hold, a node that is done has its own. */
static bool
block_wanted(const struct fetch *fetch, const struct core *core, uint64_t block)
{
    int segment = transfer_state_block(&core->transfer, block).segment;
    return transfer_has(fetch_segments(core), segment) &&
           !(fetch->part && segment == CORE_ALL_HOLD);
}

/* Bytes of an OFFER of what is fetched. */
static size_t
list_size(const struct core *core)
{
    const struct transfer *transfer = &core->transfer;
    return (transfer->segments + transfer_state_count(transfer, fetch_segments(core))) *
           sizeof *transfer->hashes;
}

/* The hashes of the segments come first, then those of the blocks that are listed. */
static void
list_take(struct fetch *fetch, const struct core *core, const struct fetch_list *list,
          const uint8_t *body, size_t size)
{
    const struct transfer *transfer = &core->transfer;
    const uint8_t *end = body + size;
    memcpy(fetch->parts, body, transfer->segments * sizeof *fetch->parts);
    body += transfer->segments * sizeof *fetch->parts;
    fetch->list = *list;
    fetch->listed = true;
    fetch->here = fetch->whole = fetch->next = 0;
    for (uint64_t b = 0; b < transfer->blocks; b++) {
        bool wanted = block_wanted(fetch, core, b);
        fetch->blocks[b] = wanted ? FETCH_MISSING : FETCH_HERE;
        fetch->whole += wanted;
        if (wanted)
            memcpy(transfer->hashes + b, body, sizeof *transfer->hashes);
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
list_of_use(const struct core *core, const struct fetch_list *list, bool also_equal)
{
    if (core->fetch.part)
        return (list->round == core->round && list->hash == core->state_hash) ||
               mutant(MUTANT_GROWN);
    return list->round + also_equal > core->round;
}

void
fetch_on_offer(struct fetch *fetch, const struct core *core, int from,
               const struct proto_offer *offer, const void *body, size_t size)
{
    bool asks = fetch->state == FETCH_ASKING || fetch->state == FETCH_BLOCKS;
    struct fetch_list list = {offer->round, offer->state_hash, offer->check};
    if (!asks || !list_of_use(core, &list, mutant(MUTANT_OFFER_ROUND)) ||
        offer->size != core->config.state_size || size != list_size(core) ||
        transfer_offer_check(offer, fetch_segments(core), body, size) != offer->check ||
        offer_too_early(core, from))
        return;
    struct fetch_donor *donor = &fetch->donors[from];
    donor->offered = true;
    donor->list = list;
    fetch->progress_at = core->awake;
    if (fetch->offered_at.us == 0)
        fetch->offered_at = core->awake;
    bool wanted = fetch->state == FETCH_BLOCKS
                      ? !fetch->listed && fetch_list_equal(&donor->list, &fetch->list)
                      : !fetch->listed || fetch->here == 0;
    if (wanted)
        list_take(fetch, core, &donor->list, body, size);
}

static unsigned
offer_votes(const struct fetch *fetch, const struct core *core, int i)
{
    unsigned count = 0;
    const struct fetch_donor *donors = fetch->donors;
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
        bool offers = fetch_may_give(core, i) && fetch->donors[i].offered;
        unsigned count = offers ? offer_votes(fetch, core, i) : 0;
        *all = *all && (offers || !fetch_may_give(core, i));
        if (count > *most || (count > 0 && count == *most &&
                              fetch->donors[i].list.round > fetch->donors[best].list.round)) {
            *most = count;
            best = i;
        }
    }
    return best;
}

/* This list, whose hashes are not here: those who offer it send it again. */
static void
list_request(struct fetch *fetch, const struct core *core, const struct fetch_list *list)
{
    fetch->listed = false;
    fetch->list = *list;
    fetch->wanted = list->round;
    fetch->asked_at = core->awake;
    for (int i = 0; i < core->peers.high; i++)
        if (fetch_gives(core, i))
            offer_ask(fetch, core, i);
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
    const struct fetch_list *list = &fetch->donors[best].list;
    if (!fetch->listed || !fetch_list_equal(&fetch->list, list))
        list_request(fetch, core, list);
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

/* What is under way from `i` may be asked of others. */
static void
blocks_free(struct fetch *fetch, const struct core *core, int i)
{
    uint64_t count = fetch->donors[i].under_way;
    for (uint64_t b = 0; count > 0 && b < core->transfer.blocks; b++)
        if (fetch->blocks[b] == i) {
            fetch->blocks[b] = FETCH_MISSING;
            fetch->next = b < fetch->next ? b : fetch->next;
            count--;
        }
    fetch->donors[i].under_way = 0;
}

void
fetch_gone(struct fetch *fetch, const struct core *core, int i)
{
    if (fetch->from == i)
        fetch->from = -1;
    if (fetch->listed)
        blocks_free(fetch, core, i);
    fetch->donors[i] = (struct fetch_donor){.ask_us = FETCH_BLOCK_US};
}

/* The next run of missing blocks, at most a window. */
static uint64_t
blocks_missing(const struct fetch *fetch, const struct core *core, uint64_t *first)
{
    uint64_t all = core->transfer.blocks, count = 0;
    for (*first = fetch->next; *first < all && fetch->blocks[*first] != FETCH_MISSING; ++*first)
        ;
    while (count < FETCH_WINDOW && *first + count < all &&
           fetch->blocks[*first + count] == FETCH_MISSING)
        count++;
    return count;
}

static void
blocks_ask(struct fetch *fetch, const struct core *core, int i, uint64_t first, uint64_t count)
{
    struct fetch_donor *donor = &fetch->donors[i];
    struct proto_msg msg = {.type = PROTO_FETCH,
                            .fetch = {.round = fetch->list.round,
                                      .block = first,
                                      .count = (uint16_t)count,
                                      .holds = fetch_segments(core)}};
    if (donor->under_way == 0)
        donor->since = core->awake;
    assert(first + count <= core->transfer.blocks);
    memset(fetch->blocks + first, i, count);
    donor->under_way += count;
    peers_send(core, i, &msg);
}

/* Nothing is missing, but a slow donor has two or more to send: take over one of them. */
static void
blocks_help(struct fetch *fetch, const struct core *core, int i)
{
    for (uint64_t b = core->transfer.blocks; b-- > 0;) {
        int owner = fetch->blocks[b];
        if (owner == FETCH_HERE || owner == FETCH_MISSING || fetch->donors[owner].under_way < 2)
            continue;
        fetch->donors[owner].under_way--;
        blocks_ask(fetch, core, i, b, 1);
        return;
    }
}

static void
donor_step(struct fetch *fetch, const struct core *core, int i)
{
    struct fetch_donor *donor = &fetch->donors[i];
    if (donor->under_way > 0 && awake_since(core->awake, donor->since) >= donor->ask_us) {
        blocks_free(fetch, core, i);
        donor->ask_us *= 2;
        if (++donor->tries == FETCH_TRIES) {
            fetch->of[i].avoid_at = awake_after(core->awake, FETCH_AVOID_US);
            donor->offered = false;
        }
        return; /* the others first */
    }
    uint64_t first, count;
    while (donor->under_way <= FETCH_WINDOW && (count = blocks_missing(fetch, core, &first)) > 0) {
        fetch->next = first;
        blocks_ask(fetch, core, i, first, count);
    }
    if (donor->under_way == 0)
        blocks_help(fetch, core, i);
}

static void
blocks_step(struct fetch *fetch, const struct core *core)
{
    for (int i = 0; i < core->peers.high && fetch->listed; i++)
        if (!fetch_gives(core, i)) /* it may offer another state by now */
            blocks_free(fetch, core, i);
    if (!fetch_anybody(core, fetch_gives)) {
        bool same = fetch->listed && list_of_use(core, &fetch->list, false);
        fetch_ask_begin(fetch, core, same ? fetch->list.round : fetch_name_round(core));
        return;
    }
    if (!fetch->listed) {
        offers_ask(fetch, core);
        return;
    }
    if (fetch->here == fetch->whole) /* a segment without parameters has none */
        fetch->state = FETCH_COMPLETE;
    for (int i = 0; i < core->peers.high; i++)
        if (fetch_gives(core, i))
            donor_step(fetch, core, i);
}

/* Another donor is to send it, if there is one. Of one alone that sends what it did not offer again and again, the
 * list may be what is wrong. */
static void
block_bad(struct fetch *fetch, const struct core *core, int from, uint64_t block)
{
    bool others = false;
    char who[PROTO_WHO_MAX];
    core_log(core, 4, "block %llu of the weights from %s is damaged: asking again",
             (unsigned long long)block, report_who(core, from, who));
    if (fetch->blocks[block] == from) {
        fetch->blocks[block] = FETCH_MISSING;
        fetch->next = block < fetch->next ? block : fetch->next;
        fetch->donors[from].under_way--;
    }
    for (int i = 0; i < core->peers.high; i++)
        others = others || (i != from && fetch_gives(core, i));
    bool spent = ++fetch->donors[from].tries >= FETCH_TRIES;
    if (!others && !spent)
        return;
    blocks_free(fetch, core, from);
    fetch->of[from].avoid_at = awake_after(core->awake, FETCH_AVOID_US);
    if (!others)
        fetch->listed = false;
}

static void
block_take(struct fetch *fetch, const struct core *core, int from, uint64_t block, const void *body)
{
    struct transfer_block where = transfer_state_block(&core->transfer, block);
    if (mutant(MUTANT_SPAN) && where.segment > 0)
        where.offset -= sizeof(uint64_t);
    memcpy(core->config.state_in + where.offset, body, where.size);
    if (fetch->blocks[block] != FETCH_MISSING)
        fetch->donors[fetch->blocks[block]].under_way--;
    fetch->blocks[block] = FETCH_HERE;
    fetch->donors[from].since = core->awake;
    fetch->donors[from].tries = 0;
    fetch->progress_at = fetch->moved_at = core->awake;
    assert(fetch->here < fetch->whole);
    if (++fetch->here == fetch->whole)
        fetch->state = FETCH_COMPLETE;
}

void
fetch_on_block(struct fetch *fetch, const struct core *core, int from,
               const struct proto_state *msg, const void *body, size_t size)
{
    uint64_t block = msg->block;
    if (fetch->state != FETCH_BLOCKS || !fetch->listed || !fetch_gives(core, from) ||
        msg->round != fetch->list.round || block >= core->transfer.blocks)
        return;
    if (size == 0 && core->config.state_size > 0) { /* it has the copy no more */
        fetch->donors[from].offered = false;
        return;
    }
    if (fetch->blocks[block] == FETCH_HERE ||
        size != transfer_state_block(&core->transfer, block).size)
        return;
    if (hash64(body, size) != core->transfer.hashes[block] && !mutant(MUTANT_BLOCK))
        block_bad(fetch, core, from, block);
    else
        block_take(fetch, core, from, block, body);
}

bool
fetch_copy_lost(const struct core *core)
{
    return core->fetch.bad >= FETCH_TRIES ||
           awake_since(core->awake, core->fetch.moved_at) >= FETCH_LOST_US;
}

/* Nothing of the part has come for long, nor has anybody who holds it got further; or what came was wrong each time. */
static bool
part_lost(const struct fetch *fetch, const struct core *core)
{
    bool late = fetch_waits_us(core) >= HOLDING_STAY_US + 4 * core->round_us;
    return fetch->part && core->done && fetch->state != FETCH_COMPLETE &&
           (late || fetch->bad >= FETCH_TRIES);
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
        .adopt = core->contribution.state == TRAINER_FREE && !core->plan.active,
        .round = fetch->list.round,
        .hash = fetch->list.hash,
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
            fetch->of[i].avoid_at =
                awake_after(core->awake, fetch->part ? FETCH_AVOID_US : FETCH_BAD_US);
    if (!fetch->part) {
        fetch_reset(fetch, core);
        return;
    }
    fetch->bad++;
    fetch->given = fetch->listed = false;
    fetch_ask_begin(fetch, core, core->round);
}

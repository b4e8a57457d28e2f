/* fetch_copy.c - a copy of the state of those ahead, asked for, chosen by what most offer, and put together from blocks
 * of several donors. */
#include "mesh/core/transfer/fetch_copy.h"

#include <assert.h>
#include <string.h>

#include "mesh/core/internal.h"
#include "proto/hash.h"

enum { FETCH_HERE = 255, FETCH_MISSING = 254 }; /* no index in peers is so high */

/* --- Asking -------------------------------------------------------------------------------------- */

static void
offer_ask(struct fetch *fetch, const struct core *core, int i)
{
    fetch->donors[i].asked = true;
    struct proto_msg msg = {.type = PROTO_FETCH,
                            .fetch = {.round = fetch->wanted, .holds = core->holds}};
    peers_send(core, i, &msg);
}

static void
offers_ask(struct fetch *fetch, const struct core *core)
{
    bool again = awake_since(core->awake, fetch->asked_at) >= fetch->ask_us;
    for (int i = 0; i < core->peers.high; i++) {
        const struct fetch_donor *donor = &fetch->donors[i];
        if (fetch_ahead(core, i) &&
            (!donor->asked || (again && (!donor->offered || !fetch->listed))))
            offer_ask(fetch, core, i);
    }
    if (!again)
        return;
    fetch->asked_at = core->awake;
    fetch_ask_later(fetch);
}

static void
list_take(struct fetch *fetch, const struct core *core, const struct fetch_list *list,
          const void *body, size_t size)
{
    memcpy(core->transfer.hashes, body, size);
    assert(size == core->transfer.blocks * sizeof *core->transfer.hashes);
    memset(fetch->blocks, FETCH_MISSING, core->transfer.blocks);
    fetch->list = *list;
    fetch->listed = true;
    fetch->here = fetch->next = 0;
}

/* Has peers[i] gone on from the state that ours differed from? */
static bool
has_gone_on(const struct core *core, int i)
{
    return fetch_fit(core, i) && core->view.of[i].beat.round >= core->fetch.copies;
}

/* One that has got no further than this node had may have the state that this node gave up. It gives none while somebody
 * who has got further may offer his: he may be far away, and be the last to answer. */
static bool
offer_too_early(const struct core *core, int i)
{
    bool early = core->fetch.copies && awake_since(core->awake, core->fetch.since) < FETCH_LOST_US;
    return early && !has_gone_on(core, i) && fetch_anybody(core, has_gone_on);
}

void
fetch_on_offer(struct fetch *fetch, const struct core *core, int from,
               const struct proto_offer *offer, const void *body, size_t size)
{
    bool asks = fetch->state == FETCH_ASKING || fetch->state == FETCH_BLOCKS;
    if (!asks || offer->round + core_mutant(MUTANT_OFFER_ROUND) <= core->round ||
        offer->size != core->config.state_size ||
        size != core->transfer.blocks * sizeof *core->transfer.hashes ||
        transfer_offer_check(offer, body, size) != offer->check || offer_too_early(core, from))
        return;
    struct fetch_donor *donor = &fetch->donors[from];
    donor->offered = true;
    donor->list = (struct fetch_list){offer->round, offer->state_hash, offer->check};
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
        count += fetch_ahead(core, k) && donors[k].offered &&
                 fetch_list_equal(&donors[k].list, &donors[i].list);
    bool later = donors[i].list.round + core_mutant(MUTANT_OFFER_VOTES) > core->round;
    return later ? count : 0;
}

/* Whose list most offer, the one of the highest round among equals; -1: nobody's. `all`: have all offered? */
static int
best_offer(const struct fetch *fetch, const struct core *core, unsigned *most, bool *all)
{
    int best = -1;
    *most = 0;
    *all = true;
    for (int i = 0; i < core->peers.high; i++) {
        bool offers = fetch_ahead(core, i) && fetch->donors[i].offered;
        unsigned count = offers ? offer_votes(fetch, core, i) : 0;
        *all = *all && (offers || !fetch_ahead(core, i));
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
    if (fetch->said_at.us && awake_since(core->awake, fetch->said_at) < FETCH_SAY_US)
        return;
    fetch->said_at = core->awake;
    core_log(core, 6, "catching up: copying the current weights from %u %s", most,
             most == 1 ? "node" : "nodes");
}

static void
asking_step(struct fetch *fetch, const struct core *core)
{
    if (!fetch_anybody(core, fetch_ahead)) {
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
                                      .holds = core->holds}};
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
        bool same = fetch->listed && fetch->list.round > core->round;
        fetch_ask_begin(fetch, core, same ? fetch->list.round : fetch_name_round(core));
        return;
    }
    if (!fetch->listed) {
        offers_ask(fetch, core);
        return;
    }
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
    memcpy(transfer_block(&core->config, block), body, transfer_block_size(&core->config, block));
    if (fetch->blocks[block] != FETCH_MISSING)
        fetch->donors[fetch->blocks[block]].under_way--;
    fetch->blocks[block] = FETCH_HERE;
    fetch->donors[from].since = core->awake;
    fetch->donors[from].tries = 0;
    fetch->progress_at = core->awake;
    assert(fetch->here < core->transfer.blocks);
    if (++fetch->here == core->transfer.blocks)
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
    if (size != transfer_block_size(&core->config, block) || fetch->blocks[block] == FETCH_HERE)
        return;
    if (hash64(body, size) != core->transfer.hashes[block] && !core_mutant(MUTANT_BLOCK))
        block_bad(fetch, core, from, block);
    else
        block_take(fetch, core, from, block, body);
}

static struct fetch_verdict
complete_step(const struct fetch *fetch, const struct core *core)
{
    return (struct fetch_verdict){
        .adopt = core->contribution.state == TRAINER_FREE && !core->plan.active,
        .round = fetch->list.round,
        .hash = fetch->list.hash,
    };
}

struct fetch_verdict
fetch_copy_step(struct fetch *fetch, const struct core *core)
{
    if (fetch->state == FETCH_ASKING)
        asking_step(fetch, core);
    if (fetch->state == FETCH_BLOCKS)
        blocks_step(fetch, core);
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
            fetch->of[i].avoid_at = awake_after(core->awake, FETCH_BAD_US);
    fetch_reset(fetch, core);
}

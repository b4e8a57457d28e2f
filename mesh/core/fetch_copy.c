/* fetch_copy.c - a copy of the state of those ahead, asked for, chosen by what most offer, and put together from blocks
 * of several donors. */
#include <string.h>

#include "mesh/core/fetch_internal.h"
#include "proto/hash.h"

enum { FETCH_HERE = 255, FETCH_MISSING = 254 }; /* no index in peers is so high */

/* --- Asking -------------------------------------------------------------------------------------- */

static bool
list_equal(const struct fetch_list *a, const struct fetch_list *b)
{
    return a->round == b->round && a->hash == b->hash && a->check == b->check;
}

static void
ask(struct core *core, int i)
{
    core->fetch.donors[i].asked = true;
    struct proto_msg msg = {.type = PROTO_FETCH, .fetch = {.round = core->fetch.wanted}};
    peers_send(core, i, &msg);
}

/* Of a round that none of them has finished when it hears of it. */
static uint64_t
name_round(const struct core *core)
{
    uint64_t most = 0;
    for (int i = 0; i < core->peers.high; i++) {
        const struct heard *heard = &core->view.of[i];
        if (!fetch_ahead(core, i))
            continue;
        uint64_t more =
            fetch_runs(core, i) && heard->round_us ? FETCH_AHEAD_US / heard->round_us : 0;
        uint64_t round = heard->beat.round + (more < FETCH_AHEAD_MAX ? more : FETCH_AHEAD_MAX);
        most = round > most ? round : most;
    }
    return most < PROTO_ROUND_MAX ? most : PROTO_ROUND_MAX;
}

static void
asking_begin(struct core *core, uint64_t round)
{
    struct fetch *fetch = &core->fetch;
    serve_yield(core);
    fetch_enter(core, FETCH_ASKING);
    fetch->wanted = round;
    fetch->offer_us = 0;
    fetch->ask_us = FETCH_ASK_US;
    for (int i = 0; i < core->peers.high; i++) {
        fetch->donors[i] = (struct fetch_donor){.ask_us = FETCH_BLOCK_US};
    }
}

void
fetch_copy_begin(struct core *core)
{
    asking_begin(core, name_round(core));
}

static void
ask_again(struct core *core)
{
    struct fetch *fetch = &core->fetch;
    bool again = core->awake - fetch->asked_at_us >= fetch->ask_us;
    for (int i = 0; i < core->peers.high; i++) {
        const struct fetch_donor *donor = &fetch->donors[i];
        if (fetch_ahead(core, i) &&
            (!donor->asked || (again && (!donor->offered || !fetch->listed))))
            ask(core, i);
    }
    if (!again)
        return;
    fetch->asked_at_us = core->awake;
    fetch_ask_later(fetch);
}

static void
list_take(struct core *core, const struct fetch_list *list, const void *body, size_t size)
{
    struct fetch *fetch = &core->fetch;
    memcpy(core->hashes, body, size);
    memset(fetch->blocks, FETCH_MISSING, serve_blocks(core));
    fetch->list = *list;
    fetch->listed = true;
    fetch->here = fetch->next = 0;
}

void
fetch_on_offer(struct core *core, int from, const struct proto_offer *offer, const void *body,
               size_t size)
{
    struct fetch *fetch = &core->fetch;
    bool asks = fetch->stage == FETCH_ASKING || fetch->stage == FETCH_BLOCKS;
    if (!asks || offer->round + core_mutant(MUTANT_OFFER_ROUND) <= core->round ||
        offer->size != core->config.state_size ||
        size != serve_blocks(core) * sizeof *core->hashes ||
        serve_offer_check(offer, body, size) != offer->check)
        return;
    struct fetch_donor *donor = &fetch->donors[from];
    donor->offered = true;
    donor->list = (struct fetch_list){offer->round, offer->state_hash, offer->check};
    fetch->progress_at_us = core->awake;
    if (fetch->offer_us == 0)
        fetch->offer_us = core->awake;
    bool wanted = fetch->stage == FETCH_BLOCKS
                      ? !fetch->listed && list_equal(&donor->list, &fetch->list)
                      : !fetch->listed || fetch->here == 0;
    if (wanted)
        list_take(core, &donor->list, body, size);
}

/* Does it offer the state that was chosen? */
static bool
gives(const struct core *core, int i)
{
    const struct fetch_donor *donor = &core->fetch.donors[i];
    return donor->offered && list_equal(&donor->list, &core->fetch.list) && fetch_fit(core, i) &&
           divergence_trusts(core, donor->list.round, donor->list.hash);
}

static unsigned
votes(const struct core *core, int i)
{
    unsigned count = 0;
    const struct fetch_donor *donors = core->fetch.donors;
    for (int k = 0; k < core->peers.high; k++)
        count += fetch_ahead(core, k) && donors[k].offered &&
                 list_equal(&donors[k].list, &donors[i].list);
    return donors[i].list.round > core->round ? count : 0;
}

/* What most offer, of the highest round among equals; one who has offered nothing yet is waited for a moment. */
static void
choose(struct core *core)
{
    struct fetch *fetch = &core->fetch;
    unsigned most = 0;
    int best = -1;
    bool all = true;
    for (int i = 0; i < core->peers.high; i++) {
        bool offers = fetch_ahead(core, i) && fetch->donors[i].offered;
        unsigned count = offers ? votes(core, i) : 0;
        all = all && (offers || !fetch_ahead(core, i));
        if (count > most || (count > 0 && count == most &&
                             fetch->donors[i].list.round > fetch->donors[best].list.round)) {
            most = count;
            best = i;
        }
    }
    if (best < 0 || (!all && core->awake - fetch->offer_us < FETCH_VOTE_US))
        return;
    if (!fetch->listed || !list_equal(&fetch->list, &fetch->donors[best].list)) {
        fetch->listed = false;
        fetch->list = fetch->donors[best].list;
        fetch->wanted = fetch->list.round;
        fetch->asked_at_us = core->awake;
        for (int i = 0; i < core->peers.high; i++)
            if (gives(core, i))
                ask(core, i);
    }
    fetch->stage = FETCH_BLOCKS;
    core_log(core, 6, "catching up: this node gets the present weights from %u %s", most,
             most == 1 ? "node" : "nodes");
}

static void
asking_step(struct core *core)
{
    if (!fetch_anybody(core, fetch_ahead)) {
        fetch_enter(core, FETCH_NONE);
        return;
    }
    ask_again(core);
    choose(core);
}

/* --- Blocks -------------------------------------------------------------------------------------- */

/* What is under way from `i` may be asked of others. */
static void
blocks_free(struct core *core, int i)
{
    struct fetch *fetch = &core->fetch;
    uint64_t count = fetch->donors[i].under_way;
    for (uint64_t b = 0; count > 0 && b < serve_blocks(core); b++)
        if (fetch->blocks[b] == i) {
            fetch->blocks[b] = FETCH_MISSING;
            fetch->next = b < fetch->next ? b : fetch->next;
            count--;
        }
    fetch->donors[i].under_way = 0;
}

void
fetch_copy_lost(struct core *core, int i)
{
    struct fetch *fetch = &core->fetch;
    if (fetch->listed)
        blocks_free(core, i);
    fetch->donors[i] = (struct fetch_donor){.ask_us = FETCH_BLOCK_US};
}

/* The next run of missing blocks, at most a window. */
static uint64_t
missing(const struct core *core, uint64_t *first)
{
    const struct fetch *fetch = &core->fetch;
    uint64_t all = serve_blocks(core), count = 0;
    for (*first = fetch->next; *first < all && fetch->blocks[*first] != FETCH_MISSING; ++*first)
        ;
    while (count < FETCH_WINDOW && *first + count < all &&
           fetch->blocks[*first + count] == FETCH_MISSING)
        count++;
    return count;
}

static void
blocks_ask(struct core *core, int i, uint64_t first, uint64_t count)
{
    struct fetch *fetch = &core->fetch;
    struct fetch_donor *donor = &fetch->donors[i];
    struct proto_msg msg = {
        .type = PROTO_FETCH,
        .fetch = {.round = fetch->list.round, .block = first, .count = (uint16_t)count}};
    if (donor->under_way == 0)
        donor->since_us = core->awake;
    memset(fetch->blocks + first, i, count);
    donor->under_way += count;
    peers_send(core, i, &msg);
}

/* Nothing is missing, but a slow donor has two or more to send: take over one of them. */
static void
blocks_help(struct core *core, int i)
{
    struct fetch *fetch = &core->fetch;
    for (uint64_t b = serve_blocks(core); b-- > 0;) {
        int owner = fetch->blocks[b];
        if (owner == FETCH_HERE || owner == FETCH_MISSING || fetch->donors[owner].under_way < 2)
            continue;
        fetch->donors[owner].under_way--;
        blocks_ask(core, i, b, 1);
        return;
    }
}

static void
donor_step(struct core *core, int i)
{
    struct fetch *fetch = &core->fetch;
    struct fetch_donor *donor = &fetch->donors[i];
    if (donor->under_way > 0 && core->awake - donor->since_us >= donor->ask_us) {
        blocks_free(core, i);
        donor->ask_us *= 2;
        if (++donor->tries == FETCH_TRIES) {
            core->fetch.of[i].avoid_at_us = core->awake + FETCH_AVOID_US;
            donor->offered = false;
        }
        return; /* the others first */
    }
    uint64_t first, count;
    while (donor->under_way <= FETCH_WINDOW && (count = missing(core, &first)) > 0) {
        fetch->next = first;
        blocks_ask(core, i, first, count);
    }
    if (donor->under_way == 0)
        blocks_help(core, i);
}

static void
blocks_step(struct core *core)
{
    struct fetch *fetch = &core->fetch;
    if (!fetch_anybody(core, gives)) {
        for (int i = 0; i < core->peers.high && fetch->listed; i++)
            blocks_free(core, i);
        asking_begin(core, fetch->listed && fetch->list.round > core->round ? fetch->list.round
                                                                            : name_round(core));
        return;
    }
    if (!fetch->listed) {
        ask_again(core);
        return;
    }
    for (int i = 0; i < core->peers.high; i++)
        if (gives(core, i))
            donor_step(core, i);
}

/* Another donor is to send it, if there is one. Of one alone that sends what it did not offer again and again, the
 * list may be what is wrong. */
static void
block_bad(struct core *core, int from, uint64_t block)
{
    struct fetch *fetch = &core->fetch;
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
        others = others || (i != from && gives(core, i));
    bool spent = ++fetch->donors[from].tries >= FETCH_TRIES;
    if (!others && !spent)
        return;
    blocks_free(core, from);
    core->fetch.of[from].avoid_at_us = core->awake + FETCH_AVOID_US;
    if (!others)
        fetch->listed = false;
}

void
fetch_on_block(struct core *core, int from, const struct proto_state *msg, const void *body,
               size_t size)
{
    struct fetch *fetch = &core->fetch;
    if (fetch->stage != FETCH_BLOCKS || !fetch->listed || !gives(core, from) ||
        msg->round != fetch->list.round || msg->block >= serve_blocks(core))
        return;
    if (size == 0 && core->config.state_size > 0) { /* it has the copy no more */
        blocks_free(core, from);
        fetch->donors[from].offered = false;
        return;
    }
    if (size != serve_block_size(core, msg->block) || fetch->blocks[msg->block] == FETCH_HERE)
        return;
    if (hash64(body, size) != core->hashes[msg->block] && !core_mutant(MUTANT_BLOCK)) {
        block_bad(core, from, msg->block);
        return;
    }
    memcpy(core->config.state_in + (size_t)msg->block * core->config.block_size, body, size);
    if (fetch->blocks[msg->block] != FETCH_MISSING)
        fetch->donors[fetch->blocks[msg->block]].under_way--;
    fetch->blocks[msg->block] = FETCH_HERE;
    fetch->donors[from].since_us = core->awake;
    fetch->donors[from].tries = 0;
    fetch->progress_at_us = core->awake;
    if (++fetch->here == serve_blocks(core))
        fetch->stage = FETCH_COMPLETE;
}

static void
complete_step(struct core *core)
{
    if (core->contribution.state != TRAINER_FREE || core->plan.active)
        return;
    serve_reset(core);
    contribution_ask(core, TRAINER_ADOPTING);
    core->shared++;
    core->ops.adopt(core->ctx, core->fetch.list.round, core->fetch.list.hash);
}

void
fetch_copy_step(struct core *core)
{
    const struct fetch *fetch = &core->fetch;
    if (fetch->stage == FETCH_ASKING)
        asking_step(core);
    if (fetch->stage == FETCH_BLOCKS)
        blocks_step(core);
    if (fetch->stage == FETCH_COMPLETE)
        complete_step(core);
}

void
fetch_bad(struct core *core)
{
    core_log(core, 3, "the weights that were received do not match their hash: asking again");
    for (int i = 0; i < core->peers.high; i++)
        if (gives(core, i))
            core->fetch.of[i].avoid_at_us = core->awake + FETCH_BAD_US;
    fetch_reset(core);
}

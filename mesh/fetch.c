/* fetch.c - see fetch.h for the stages of catching up. */
#include "mesh/fetch.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mesh/inside.h"
#include "proto/hash.h"

enum { FETCH_HERE = 255, FETCH_MISSING = 254 }; /* no index in peers is so high */

int
fetch_init(struct core *core)
{
    core->fetch = (struct fetch){.from = -1};
    core->fetch.blocks = calloc(serve_blocks(core), 1);
    return core->fetch.blocks ? 0 : -ENOMEM;
}

static void
kept_remove(struct core *core, size_t k)
{
    struct fetch *fetch = &core->fetch;
    core->ops.release(core->ctx, fetch->kept[k].frame.handle);
    fetch->kept[k] = fetch->kept[--fetch->kept_count];
}

static void
kept_clear(struct core *core)
{
    while (core->fetch.kept_count > 0)
        kept_remove(core, core->fetch.kept_count - 1);
}

void
fetch_fini(struct core *core)
{
    kept_clear(core);
    free(core->fetch.blocks);
}

static void
stage(struct core *core, enum fetch_stage next)
{
    struct fetch *fetch = &core->fetch;
    if (fetch->stage == FETCH_FOLLOWING)
        kept_clear(core);
    fetch->stage = next;
    fetch->sure = false;
    fetch->since_us = core->awake;
    fetch->progress_at_us = core->awake;
    fetch->asked_at_us = core->awake;
    fetch->from = -1;
    fetch->tried = 0;
    fetch->block = 0;
}

void
fetch_reset(struct core *core)
{
    if (core->fetch.stage != FETCH_NONE)
        stage(core, FETCH_NONE);
    core->fetch.listed = false;
    core->fetch.adopted = false;
}

void
fetch_planned(struct core *core)
{
    fetch_reset(core);
    core->fetch.rest_us = 0;
    core->fetch.copies = false;
}

bool
fetch_uses_state_in(const struct core *core)
{
    return core->fetch.stage == FETCH_ASKING || core->fetch.stage == FETCH_BLOCKS ||
           core->fetch.stage == FETCH_COMPLETE;
}

static bool
runs(const struct core *core, int i)
{
    const struct peer *peer = &core->peers.peers[i];
    return peers_usable(core, i) && !peer->idle && !peer->done && !peer->stuck;
}

/* Usable, and nothing that is known speaks against its state. */
static bool
fit(const struct core *core, int i)
{
    const struct peer *peer = &core->peers.peers[i];
    return peers_usable(core, i) && core->awake >= peer->avoid_at_us && peer->state_hash != 0 &&
           !doubt_shuns(core, i) && !probe_suspects(core, peer->node.id) &&
           doubt_trusts(core, peer->round, peer->state_hash);
}

static bool
ahead(const struct core *core, int i)
{
    return fit(core, i) && core->peers.peers[i].round > core->round;
}

static bool
anybody(const struct core *core, bool (*is)(const struct core *core, int i))
{
    for (int i = 0; i < core->peers.high; i++)
        if (is(core, i))
            return true;
    return false;
}

bool
fetch_moving(const struct core *core, uint64_t us)
{
    const struct fetch *fetch = &core->fetch;
    if (fetch->stage == FETCH_NONE)
        return core->awake < fetch->rest_at_us && anybody(core, runs);
    bool later = fetch->stage == FETCH_FOLLOWING ? fetch->from >= 0 && runs(core, fetch->from)
                                                 : anybody(core, runs);
    return later || core->awake - fetch->progress_at_us < us;
}

bool
fetch_ready(const struct core *core)
{
    const struct fetch *fetch = &core->fetch;
    bool sure = fetch->sure || core->awake - fetch->since_us >= FETCH_SURE_US;
    if (fetch->stage != FETCH_FOLLOWING || fetch->from < 0 || !sure || core->plan.active ||
        core->done)
        return false;
    for (int i = 0; i < core->peers.high; i++)
        if (peers_usable(core, i) && core->peers.peers[i].round > core->round + 1)
            return false;
    return true;
}

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
        const struct peer *peer = &core->peers.peers[i];
        if (!ahead(core, i))
            continue;
        uint64_t more = runs(core, i) && peer->pace_us ? FETCH_AHEAD_US / peer->pace_us : 0;
        uint64_t round = peer->round + (more < FETCH_AHEAD_MAX ? more : FETCH_AHEAD_MAX);
        most = round > most ? round : most;
    }
    return most < PROTO_ROUND_MAX ? most : PROTO_ROUND_MAX;
}

static void
asking_begin(struct core *core, uint64_t round)
{
    struct fetch *fetch = &core->fetch;
    serve_yield(core);
    stage(core, FETCH_ASKING);
    fetch->wanted = round;
    fetch->offer_us = 0;
    fetch->ask_us = FETCH_ASK_US;
    for (int i = 0; i < core->peers.high; i++) {
        fetch->donors[i] = (struct fetch_donor){.ask_us = FETCH_BLOCK_US};
    }
}

static void
ask_again(struct core *core)
{
    struct fetch *fetch = &core->fetch;
    bool again = core->awake - fetch->asked_at_us >= fetch->ask_us;
    for (int i = 0; i < core->peers.high; i++) {
        const struct fetch_donor *donor = &fetch->donors[i];
        if (ahead(core, i) && (!donor->asked || (again && (!donor->offered || !fetch->listed))))
            ask(core, i);
    }
    if (!again)
        return;
    fetch->asked_at_us = core->awake;
    fetch->ask_us = 2 * fetch->ask_us < FETCH_ASK_MAX_US ? 2 * fetch->ask_us : FETCH_ASK_MAX_US;
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
    if (!asks || offer->round <= core->round || offer->size != core->config.state_size ||
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
    return donor->offered && list_equal(&donor->list, &core->fetch.list) && fit(core, i) &&
           doubt_trusts(core, donor->list.round, donor->list.hash);
}

static unsigned
votes(const struct core *core, int i)
{
    unsigned count = 0;
    const struct fetch_donor *donors = core->fetch.donors;
    for (int k = 0; k < core->peers.high; k++)
        count +=
            ahead(core, k) && donors[k].offered && list_equal(&donors[k].list, &donors[i].list);
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
        bool offers = ahead(core, i) && fetch->donors[i].offered;
        unsigned count = offers ? votes(core, i) : 0;
        all = all && (offers || !ahead(core, i));
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
    core_log(core, 6, "catching up: the state before round %llu from %u nodes",
             (unsigned long long)fetch->list.round, most);
}

static void
asking_step(struct core *core)
{
    if (!anybody(core, ahead)) {
        stage(core, FETCH_NONE);
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
fetch_peer_lost(struct core *core, int i)
{
    struct fetch *fetch = &core->fetch;
    if (fetch->listed)
        blocks_free(core, i);
    fetch->donors[i] = (struct fetch_donor){.ask_us = FETCH_BLOCK_US};
    if (fetch->from == i)
        fetch->from = -1;
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
            core->peers.peers[i].avoid_at_us = core->awake + FETCH_AVOID_US;
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
    if (!anybody(core, gives)) {
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

/* Another donor is to send it, if there is one. */
static void
block_bad(struct core *core, int from, uint64_t block)
{
    struct fetch *fetch = &core->fetch;
    core_log(core, 4, "block %llu of a state is not what was offered: asked for again",
             (unsigned long long)block);
    if (fetch->blocks[block] == from) {
        fetch->blocks[block] = FETCH_MISSING;
        fetch->next = block < fetch->next ? block : fetch->next;
        fetch->donors[from].under_way--;
    }
    for (int i = 0; i < core->peers.high; i++)
        if (i != from && gives(core, i)) {
            blocks_free(core, from);
            core->peers.peers[from].avoid_at_us = core->awake + FETCH_AVOID_US;
            return;
        }
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
    if (hash64(body, size) != core->hashes[msg->block] && !core_mutant(core, MUTANT_BLOCK)) {
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
    if (core->own.state != OWN_FREE || core->plan.active)
        return;
    serve_reset(core);
    own_ask(core, OWN_ADOPTING);
    core->ops.adopt(core->ctx, core->fetch.list.round, core->fetch.list.hash);
}

void
fetch_bad(struct core *core)
{
    core_log(core, 3, "a state before round %llu does not match its hash: thrown away",
             (unsigned long long)core->fetch.list.round);
    for (int i = 0; i < core->peers.high; i++)
        if (gives(core, i))
            core->peers.peers[i].avoid_at_us = core->awake + FETCH_BAD_US;
    fetch_reset(core);
}

/* --- Following ----------------------------------------------------------------------------------- */

static uint64_t
follow_window(const struct core *core)
{
    uint64_t block = serve_total_size(core, 0);
    block = block < core->config.block_size ? block : core->config.block_size;
    uint64_t count = FETCH_FOLLOW_BYTES / (block + 1);
    count = count < FETCH_FOLLOW_LEAST ? FETCH_FOLLOW_LEAST : count;
    return count > FETCH_FOLLOW_MAX ? FETCH_FOLLOW_MAX : count;
}

static void
follow(struct core *core, bool again)
{
    struct fetch *fetch = &core->fetch;
    struct proto_msg msg = {.type = PROTO_FOLLOW,
                            .follow = {.round = core->round,
                                       .block = fetch->block,
                                       .count = (uint16_t)follow_window(core),
                                       .again = again}};
    fetch->told_round = core->round;
    fetch->told_block = fetch->block;
    fetch->asked_at_us = core->awake;
    peers_send(core, fetch->from, &msg);
}

static void
follow_begin(struct core *core)
{
    struct fetch *fetch = &core->fetch;
    bool behind = anybody(core, ahead);
    int best = -1;
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        if (!fit(core, i) || peer->stuck || (fetch->tried >> i & 1) ||
            peer->round < core->round + behind)
            continue;
        uint64_t self =
            core->config.self.id; /* joiners that come together go to different donors */
        if (best < 0 || (peer->node.id ^ self) < (core->peers.peers[best].node.id ^ self))
            best = i;
    }
    fetch->from = best;
    fetch->ask_us = FETCH_FOLLOW_US;
    fetch->progress_at_us = core->awake;
    if (best >= 0)
        follow(core, true);
}

/* Nobody has the totals, or has them no more. */
static void
overtaken(struct core *core)
{
    struct fetch *fetch = &core->fetch;
    if (!fetch->adopted && anybody(core, ahead)) {
        asking_begin(core, name_round(core));
        return;
    }
    fetch->rest_at_us = core->awake + FETCH_AGAIN_US;
    if (fetch->adopted && fetch->tried) {
        if (fetch->rest_us == 0)
            core_log(core, 4, "the mesh is faster than its totals come here: catching up anew");
        fetch->rest_us = fetch->rest_us == 0 ? FETCH_REST_US : 2 * fetch->rest_us;
        if (fetch->rest_us > FETCH_REST_MAX_US)
            fetch->rest_us = FETCH_REST_MAX_US;
        fetch->rest_at_us = core->awake + fetch->rest_us;
    }
    fetch_reset(core);
}

static void
scatter(struct core *core, uint64_t at, const uint8_t *body, size_t size)
{
    for (size_t b = core->first_bucket; b < core->config.bucket_count && size > 0; b++) {
        uint64_t whole = core->buckets[b].count * sizeof(int32_t);
        if (at < whole) {
            size_t part = whole - at < size ? (size_t)(whole - at) : size;
            memcpy((uint8_t *)(core->config.sum + core->buckets[b].first) + at, body, part);
            body += part;
            size -= part;
            at = 0;
        } else {
            at -= whole;
        }
    }
}

/* We hold another state than the one we follow: ours has changed since it was adopted, or its has. Where more have
 * theirs: back, and as the older state may be as wrong, a copy of the present one. */
static void
state_differs(struct core *core)
{
    const struct peer *peer = &core->peers.peers[core->fetch.from];
    enum doubt_verdict verdict = doubt_differs(core);
    if (verdict != DOUBT_WAIT)
        core_log(core, 3, "before round %llu peer %s:%u has another state than we: %s",
                 (unsigned long long)core->round, peer->at.host, peer->at.control_port,
                 verdict == DOUBT_COPY ? "taking a copy" : "not following");
    fetch_reset(core);
    if (verdict != DOUBT_COPY)
        return;
    core->fetch.copies = true;
    doubt_back(core, core->round, "the mesh has another state");
}

/* The block whose turn it is; the last one completes the total. */
static void
total_take(struct core *core, const struct proto_total *total, const void *body, size_t size)
{
    struct fetch *fetch = &core->fetch;
    uint64_t whole = serve_total_size(core, core->first_bucket);
    uint64_t at = fetch->block * core->config.block_size, rest = whole - at;
    if (size != (rest < core->config.block_size ? rest : core->config.block_size) ||
        serve_total_check(total, body, size) != total->check)
        return;
    if (total->state_hash != core->state_hash) {
        state_differs(core);
        return;
    }
    doubt_agreed(core, core->round);
    scatter(core, at, body, size);
    fetch->block++;
    fetch->sure = true;
    fetch->progress_at_us = core->awake;
    if (fetch->block * core->config.block_size < whole)
        return;
    own_ask(core, OWN_COMMITTING);
    serve_finish(core);
    core->ops.commit(core->ctx, core->round);
}

/* May sum be written, and the trainer be asked? */
static bool
follows(const struct core *core)
{
    return core->fetch.stage == FETCH_FOLLOWING && core->own.state == OWN_FREE && !core->own.lent &&
           !core->plan.active;
}

static bool
its_turn(const struct core *core, const struct proto_total *total)
{
    return total->round == core->round && total->block == core->fetch.block;
}

static void
kept_take(struct core *core)
{
    struct fetch *fetch = &core->fetch;
    for (size_t k = 0; k < fetch->kept_count && follows(core);) {
        struct fetch_kept kept = fetch->kept[k];
        if (its_turn(core, &kept.total)) {
            total_take(core, &kept.total, kept.frame.data, kept.frame.size);
            if (fetch->stage != FETCH_FOLLOWING)
                return; /* nothing is kept any more */
        } else if (kept.total.round > core->round ||
                   (kept.total.round == core->round && kept.total.block > fetch->block)) {
            k++;
            continue;
        }
        kept_remove(core, k);
        k = 0;
    }
}

static void
total_keep(struct core *core, const struct proto_total *total, struct core_frame *frame)
{
    struct fetch *fetch = &core->fetch;
    if (fetch->kept_count >= follow_window(core) || total->round < core->round ||
        (total->round == core->round && total->block < fetch->block) ||
        frame->size > core->config.block_size)
        return;
    for (size_t k = 0; k < fetch->kept_count; k++)
        if (fetch->kept[k].total.round == total->round &&
            fetch->kept[k].total.block == total->block)
            return;
    core->ops.keep(core->ctx, frame);
    fetch->kept[fetch->kept_count++] = (struct fetch_kept){*total, *frame};
}

void
fetch_on_total(struct core *core, int from, const struct proto_total *total,
               struct core_frame *frame)
{
    struct fetch *fetch = &core->fetch;
    if (fetch->stage != FETCH_FOLLOWING || fetch->from != from)
        return;
    if (frame->size == 0) {
        bool honest = serve_total_check(total, frame->data, 0) == total->check;
        bool differs = honest && total->state_hash != 0 && total->state_hash != core->state_hash;
        if (its_turn(core, total) && differs) {
            state_differs(core);
        } else if (its_turn(core, total)) {
            fetch->tried |=
                fetch->sure ? 1ull << from : UINT64_MAX; /* the others hardly have more */
            fetch->from = -1;
        }
    } else if (follows(core) && its_turn(core, total)) {
        total_take(core, total, frame->data, frame->size);
    } else {
        total_keep(core, total, frame);
    }
}

void
fetch_total_bad(struct core *core)
{
    if (core->fetch.stage != FETCH_FOLLOWING)
        return;
    core->fetch.block = 0;
    core->fetch.told_round = core->round;
    core->fetch.told_block = 1; /* so tell again */
}

/* Half of what was allowed has come, or nothing for long. */
static void
follow_more(struct core *core)
{
    struct fetch *fetch = &core->fetch;
    uint64_t block = core->config.block_size;
    uint64_t each = (serve_total_size(core, 0) + block - 1) / block;
    uint64_t came = (core->round - fetch->told_round) * each + fetch->block;
    uint64_t since_us =
        fetch->asked_at_us > fetch->progress_at_us ? fetch->asked_at_us : fetch->progress_at_us;
    if (fetch->block < fetch->told_block && core->round == fetch->told_round) {
        follow(core, true); /* a total was bad */
    } else if (came >= fetch->told_block + follow_window(core) / 2) {
        follow(core, false);
    } else if (core->awake - fetch->progress_at_us >
                   (fetch->sure ? FETCH_LOST_US : FETCH_SURE_US) &&
               anybody(core, ahead)) {
        fetch->tried |= 1ull << fetch->from;
        fetch->from = -1;
    } else if (core->awake - since_us >= fetch->ask_us) {
        fetch->ask_us = 2 * fetch->ask_us < FETCH_ASK_MAX_US ? 2 * fetch->ask_us : FETCH_ASK_MAX_US;
        follow(core, true);
    }
}

static void
following_step(struct core *core)
{
    struct fetch *fetch = &core->fetch;
    kept_take(core);
    if (core->own.state == OWN_COMMITTING || fetch->stage != FETCH_FOLLOWING)
        return;
    if (fetch->from >= 0 && (!fit(core, fetch->from) || core->peers.peers[fetch->from].stuck))
        fetch->from = -1;
    if (fetch->from < 0) {
        kept_clear(core);
        follow_begin(core);
    }
    if (fetch->from >= 0)
        follow_more(core);
    else if (fetch->stage == FETCH_FOLLOWING)
        overtaken(core);
}

/* --- Steps --------------------------------------------------------------------------------------- */

void
fetch_applied(struct core *core, uint64_t round)
{
    struct fetch *fetch = &core->fetch;
    bool follows_on = fetch->stage == FETCH_FOLLOWING && round == core->round + 1;
    if (fetch->stage == FETCH_COMPLETE && round == fetch->list.round) {
        stage(core, FETCH_FOLLOWING);
        fetch->listed = false;
        fetch->adopted = fetch->sure = true;
        fetch->copies = false;
    } else if (follows_on && !core->plan.active) {
        fetch->block = 0;
    } else if (fetch->stage != FETCH_NONE) {
        fetch_reset(core);
    }
}

static bool
runs_here(const struct core *core, int i)
{
    return runs(core, i) && core->peers.peers[i].round == core->round;
}

/* It is at rest, perhaps for our sake. */
static bool
rests_ahead(const struct core *core, int i)
{
    return ahead(core, i) && core->peers.peers[i].idle;
}

/* Somebody may have the totals already: that would be the shortest way. */
static void
none_step(struct core *core)
{
    bool waits = core->awake - core->plan.idle_at_us >= FETCH_IDLE_US;
    bool rested = core->awake >= core->fetch.rest_at_us || anybody(core, rests_ahead);
    if (core->fetch.copies && anybody(core, ahead))
        asking_begin(core, name_round(core));
    else if (rested && (anybody(core, ahead) || (waits && anybody(core, runs_here))))
        stage(core, FETCH_FOLLOWING);
}

void
fetch_step(struct core *core)
{
    struct fetch *fetch = &core->fetch;
    if (core->plan.active || core->leaving || core->done) {
        if (fetch->stage != FETCH_NONE && core->own.state != OWN_ADOPTING)
            fetch_reset(core);
        return;
    }
    if (fetch->stage == FETCH_COMPLETE && core->own.state != OWN_ADOPTING &&
        !doubt_trusts(core, fetch->list.round, fetch->list.hash))
        fetch_reset(core);
    if (!own_settled(core) || (fetch->stage != FETCH_COMPLETE && doubt_wary(core)))
        return;
    if (fetch->stage == FETCH_NONE)
        none_step(core);
    if (fetch->stage == FETCH_FOLLOWING)
        following_step(core);
    if (fetch->stage == FETCH_ASKING)
        asking_step(core);
    if (fetch->stage == FETCH_BLOCKS)
        blocks_step(core);
    if (fetch->stage == FETCH_COMPLETE)
        complete_step(core);
}

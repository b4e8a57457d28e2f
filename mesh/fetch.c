/* fetch.c - see fetch.h for the states of a transfer. */
#include "mesh/fetch.h"

#include <string.h>

#include <xxhash.h>

#include "mesh/inside.h"

void
fetch_init(struct core *core)
{
    core->fetch = (struct fetch){.donor = -1};
}

static uint64_t
block_count(const struct core *core)
{
    uint64_t blocks = (core->config.state_size + PROTO_BLOCK_MAX - 1) / PROTO_BLOCK_MAX;
    return blocks == 0 ? 1 : blocks;
}

static size_t
block_size(const struct core *core, uint64_t block)
{
    size_t rest = core->config.state_size - (size_t)block * PROTO_BLOCK_MAX;
    return rest < PROTO_BLOCK_MAX ? rest : PROTO_BLOCK_MAX;
}

bool
fetch_moving(const struct core *core, uint64_t us)
{
    return (core->fetch.donor >= 0 || core->fetch.complete) &&
           core->awake - core->fetch.progress_at_us < us;
}

static void
fetch_stop(struct core *core)
{
    core->fetch.donor = -1;
    core->fetch.complete = false;
    core->fetch.named = false;
}

void
fetch_peer_lost(struct core *core, int i)
{
    if (core->fetch.donor == i && !core->fetch.complete)
        fetch_stop(core);
}

void
fetch_applied(struct core *core)
{
    fetch_stop(core);
}

void
fetch_bad(struct core *core)
{
    struct fetch *fetch = &core->fetch;
    core_log(core, 3, "a state before round %llu does not match its hash: thrown away",
             (unsigned long long)fetch->round);
    if (fetch->donor >= 0)
        core->peers.peers[fetch->donor].avoid_at_us = core->awake + FETCH_BAD_US;
    fetch_stop(core);
}

/* --- Fetching ---------------------------------------------------------------------------------- */

static void
ask(struct core *core, uint64_t block)
{
    struct proto_msg msg = {.type = PROTO_FETCH, .fetch = {.round = core->round, .block = block}};
    peers_send(core, core->fetch.donor, &msg);
    core->fetch.asked = block + FETCH_WINDOW;
    core->fetch.asked_at_us = core->awake;
}

/* Never more than two windows are under way. */
static void
ask_more(struct core *core)
{
    struct fetch *fetch = &core->fetch;
    while (fetch->asked < block_count(core) && fetch->asked <= fetch->next + FETCH_WINDOW)
        ask(core, fetch->asked);
}

/* Is `a` a better donor than `b`? At rest before in motion, then the higher round, then the lower id,
 * which is the leader that waits for us. */
static bool
donor_better(const struct peer *a, const struct peer *b)
{
    bool rest_a = a->idle || a->done, rest_b = b->idle || b->done;
    if (a->round != b->round)
        return a->round > b->round;
    if (rest_a != rest_b)
        return rest_a;
    return a->node.id < b->node.id;
}

/* Nothing that is known speaks against its state. */
static bool
donor_fit(const struct core *core, int i)
{
    const struct peer *peer = &core->peers.peers[i];
    return peer->state_hash != 0 && !doubt_shuns(core, i) && !probe_suspects(core, peer->node.id) &&
           doubt_trusts(core, peer->round, peer->state_hash);
}

static int
donor_choose(const struct core *core)
{
    bool patient = core->awake - core->plan.idle_at_us > FETCH_PATIENT_US;
    int best = -1;
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        if (!peers_usable(core, i) || peer->round <= core->round || !donor_fit(core, i) ||
            core->awake < peer->avoid_at_us || !(peer->idle || peer->done || patient))
            continue;
        if (best < 0 || donor_better(peer, &core->peers.peers[best]))
            best = i;
    }
    return best;
}

static void
fetch_begin(struct core *core)
{
    struct fetch *fetch = &core->fetch;
    fetch->donor = donor_choose(core);
    if (fetch->donor < 0)
        return;
    fetch->named = false;
    fetch->next = 0;
    fetch->tries = 0;
    ask(core, 0);
}

static void
fetch_retry(struct core *core)
{
    struct fetch *fetch = &core->fetch;
    if (core->awake - fetch->asked_at_us < FETCH_ASK_US ||
        (fetch->named && core->awake - fetch->progress_at_us < FETCH_ASK_US))
        return;
    if (++fetch->tries < FETCH_TRIES && peers_usable(core, fetch->donor)) {
        ask(core, fetch->next);
        return;
    }
    core->peers.peers[fetch->donor].avoid_at_us = core->awake + FETCH_AVOID_US;
    fetch_stop(core);
}

void
fetch_step(struct core *core)
{
    struct fetch *fetch = &core->fetch;
    if (fetch->complete && core->own.state != OWN_ADOPTING &&
        !doubt_trusts(core, fetch->round, fetch->hash))
        fetch_stop(core);
    if (fetch->donor >= 0 && !fetch->complete && !donor_fit(core, fetch->donor))
        fetch_stop(core);
    if (fetch->complete) {
        if (core->own.state == OWN_FREE && !core->plan.active) {
            own_ask(core, OWN_ADOPTING);
            core->ops.adopt(core->ctx, fetch->round, fetch->hash);
        }
        return;
    }
    if (core->plan.active || core->leaving || core->done || !own_settled(core) ||
        doubt_wary(core)) {
        fetch->donor = -1;
        return;
    }
    if (fetch->donor >= 0)
        fetch_retry(core);
    else
        fetch_begin(core);
}

static void
restart(struct core *core, const struct proto_state *msg)
{
    struct fetch *fetch = &core->fetch;
    fetch->named = true;
    fetch->round = msg->round;
    fetch->hash = msg->state_hash;
    fetch->next = 0;
    if (msg->block != 0)
        ask(core, 0);
}

void
fetch_on_block(struct core *core, int from, const struct proto_state *msg, const void *body,
               size_t size)
{
    struct fetch *fetch = &core->fetch;
    if (fetch->complete || fetch->donor != from || msg->round <= core->round ||
        msg->size != core->config.state_size || msg->block >= block_count(core) ||
        size != block_size(core, msg->block))
        return;
    if (!fetch->named || msg->round > fetch->round ||
        (msg->round == fetch->round && msg->state_hash != fetch->hash))
        restart(core, msg);
    if (msg->round != fetch->round || msg->block != fetch->next)
        return;
    if (XXH3_64bits(body, size) != msg->check) {
        core_log(core, 4, "block %llu of a state has a wrong checksum: asked for again",
                 (unsigned long long)msg->block);
        return;
    }
    memcpy(core->config.state_in + (size_t)msg->block * PROTO_BLOCK_MAX, body, size);
    fetch->next++;
    fetch->tries = 0;
    fetch->progress_at_us = core->awake;
    fetch->complete = fetch->next == block_count(core);
    if (!fetch->complete)
        ask_more(core);
}

/* --- Serving ----------------------------------------------------------------------------------- */

static void
serve(struct core *core, int to, const uint8_t *state, uint64_t block)
{
    struct proto_msg msg = {.type = PROTO_STATE,
                            .state = {.round = core->round,
                                      .state_hash = core->state_hash,
                                      .size = core->config.state_size,
                                      .block = block}};
    size_t size = block_size(core, block);
    const uint8_t *body = state + (size_t)block * PROTO_BLOCK_MAX;
    msg.state.check = XXH3_64bits(body, size);
    if (core_mutant(core, MUTANT_STATE))
        msg.state.round++;
    core->ops.send_bulk(core->ctx, (unsigned)core->peers.peers[to].link, &msg, body, size, -1);
}

void
fetch_on_fetch(struct core *core, int from, const struct proto_fetch *fetch)
{
    struct peer *peer = &core->peers.peers[from];
    if (!own_settled(core) || core->doubt.open || core->round <= fetch->round ||
        fetch->block >= block_count(core) || !peer->announced ||
        (core->done && core_mutant(core, MUTANT_DONE)))
        return;
    bool again = peer->served_at_us > 0 && peer->served_block == fetch->block &&
                 core->awake - peer->served_at_us < FETCH_REPEAT_US;
    if (again)
        return;
    peer->served_at_us = core->awake;
    peer->served_block = fetch->block;
    const uint8_t *state = core->ops.state(core->ctx);
    for (uint64_t b = fetch->block; b < fetch->block + FETCH_WINDOW && b < block_count(core); b++)
        serve(core, from, state, b);
}

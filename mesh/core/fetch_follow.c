/* fetch_follow.c - the totals of the rounds since, one after the other, from one donor who has them in its log. */
#include <string.h>

#include "mesh/core/fetch_internal.h"

static void
kept_remove(struct core *core, size_t k)
{
    struct fetch *fetch = &core->fetch;
    core->ops.release(core->ctx, fetch->kept[k].frame.handle);
    fetch->kept[k] = fetch->kept[--fetch->kept_count];
}

void
fetch_follow_drop(struct core *core)
{
    while (core->fetch.kept_count > 0)
        kept_remove(core, core->fetch.kept_count - 1);
}

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
    bool behind = fetch_anybody(core, fetch_ahead);
    int best = -1;
    for (int i = 0; i < core->peers.high; i++) {
        const struct peer *peer = &core->peers.peers[i];
        const struct proto_heartbeat *said = &core->view.of[i].beat;
        const struct plan_peer *planned = &core->plan.of[i];
        if (!fetch_fit(core, i) || planned->stuck || (fetch->tried >> i & 1) ||
            said->round < core->round + behind)
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
    if (!fetch->adopted && fetch_anybody(core, fetch_ahead)) {
        fetch_copy_begin(core);
        return;
    }
    fetch->rest_at_us = core->awake + FETCH_AGAIN_US;
    if (fetch->adopted && fetch->tried) {
        if (fetch->rest_us == 0)
            core_log(core, 4, "this node receives more slowly than the others train: trying again");
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

/* We hold another state than the one we follow: ours has changed since it was adopted, or its has. */
static struct fetch_conflict
state_differs(struct core *core, uint64_t hash)
{
    struct fetch_conflict conflict = {.found = true, .from = core->fetch.from, .hash = hash};
    fetch_reset(core);
    return conflict;
}

/* The block whose turn it is; the last one completes the total. */
static struct fetch_conflict
total_take(struct core *core, const struct proto_total *total, const void *body, size_t size)
{
    struct fetch *fetch = &core->fetch;
    uint64_t whole = serve_total_size(core, core->first_bucket);
    uint64_t at = fetch->block * core->config.block_size, rest = whole - at;
    struct fetch_conflict conflict = {.found = false};
    if (size != (rest < core->config.block_size ? rest : core->config.block_size) ||
        serve_total_check(total, body, size) != total->check)
        return conflict;
    if (total->state_hash != core->state_hash && !core_mutant(MUTANT_FOLLOW_STATE))
        return state_differs(core, total->state_hash);
    scatter(core, at, body, size);
    fetch->block++;
    fetch->sure = true;
    fetch->progress_at_us = core->awake;
    if (fetch->block * core->config.block_size < whole)
        return conflict;
    contribution_ask(core, TRAINER_COMMITTING);
    serve_finish(core);
    core->shared++;
    core->ops.commit(core->ctx, core->round);
    return conflict;
}

/* May sum be written, and the trainer be asked? */
static bool
follows(const struct core *core)
{
    return core->fetch.stage == FETCH_FOLLOWING && core->contribution.state == TRAINER_FREE &&
           !core->contribution.lent && !core->plan.active;
}

static bool
its_turn(const struct core *core, const struct proto_total *total)
{
    bool before = core_mutant(MUTANT_FOLLOW_ROUND) && total->round + 1 == core->round;
    return (total->round == core->round || before) && total->block == core->fetch.block;
}

static struct fetch_conflict
kept_take(struct core *core)
{
    struct fetch *fetch = &core->fetch;
    struct fetch_conflict conflict = {.found = false};
    for (size_t k = 0; k < fetch->kept_count && follows(core);) {
        struct fetch_kept kept = fetch->kept[k];
        if (its_turn(core, &kept.total)) {
            conflict = total_take(core, &kept.total, kept.frame.data, kept.frame.size);
            if (fetch->stage != FETCH_FOLLOWING)
                return conflict; /* nothing is kept any more */
        } else if (kept.total.round > core->round ||
                   (kept.total.round == core->round && kept.total.block > fetch->block)) {
            k++;
            continue;
        }
        kept_remove(core, k);
        k = 0;
    }
    return conflict;
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

struct fetch_conflict
fetch_on_total(struct core *core, int from, const struct proto_total *total,
               struct core_frame *frame)
{
    struct fetch *fetch = &core->fetch;
    struct fetch_conflict conflict = {.found = false};
    if (fetch->stage != FETCH_FOLLOWING || fetch->from != from)
        return conflict;
    if (frame->size == 0) {
        bool honest = serve_total_check(total, frame->data, 0) == total->check;
        bool differs = honest && total->state_hash != 0 && total->state_hash != core->state_hash;
        if (its_turn(core, total) && differs) {
            conflict = state_differs(core, total->state_hash);
        } else if (its_turn(core, total)) {
            fetch->tried |=
                fetch->sure ? 1ull << from : UINT64_MAX; /* the others hardly have more */
            fetch->from = -1;
        }
    } else if (follows(core) && its_turn(core, total)) {
        conflict = total_take(core, total, frame->data, frame->size);
    } else {
        total_keep(core, total, frame);
    }
    return conflict;
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
               fetch_anybody(core, fetch_ahead)) {
        fetch->tried |= 1ull << fetch->from;
        fetch->from = -1;
    } else if (core->awake - since_us >= fetch->ask_us) {
        fetch_ask_later(fetch);
        follow(core, true);
    }
}

struct fetch_conflict
fetch_follow_step(struct core *core)
{
    struct fetch *fetch = &core->fetch;
    struct fetch_conflict conflict = kept_take(core);
    if (core->contribution.state == TRAINER_COMMITTING || fetch->stage != FETCH_FOLLOWING)
        return conflict;
    if (fetch->from >= 0 && (!fetch_fit(core, fetch->from) || core->plan.of[fetch->from].stuck))
        fetch->from = -1;
    if (fetch->from < 0) {
        fetch_follow_drop(core);
        follow_begin(core);
    }
    if (fetch->from >= 0)
        follow_more(core);
    else if (fetch->stage == FETCH_FOLLOWING)
        overtaken(core);
    return conflict;
}

/* mend.c - see mend.h. */
#include "mesh/core/mend.h"

#include <assert.h>

#include "mesh/core/inside.h"

void
mend_init(struct core *core)
{
    core->mend = (struct mend){.asked = -1};
}

/* --- Asking ------------------------------------------------------------------------------------ */

void
mend_want(struct core *core, const struct proto_page *want)
{
    struct mend *mend = &core->mend;
    mend->wants = true;
    mend->want = *want;
    mend->asked = -1;
    mend->tried = 0;
    mend->turn++;
    mend->wanted_at_us = core->awake;
}

static void
give(struct core *core, uint64_t round, const void *data, size_t size)
{
    core->mend.wants = false;
    core->mend.asked = -1;
    core->ops.page(core->ctx, round, data, size);
}

static void
give_up_on(struct core *core, int i)
{
    core->mend.tried |= 1ull << i;
    core->mend.asked = -1;
}

static int
next_to_ask(const struct core *core)
{
    int high = core->peers.high;
    for (int k = 0; k < high; k++) {
        int i = (int)((core->mend.turn + (uint64_t)k) % (uint64_t)high);
        if (!(core->mend.tried >> i & 1) && peers_usable(core, i))
            return i;
    }
    return -1;
}

static void
ask(struct core *core, int i)
{
    struct proto_msg msg = {.type = PROTO_WANT, .page = core->mend.want};
    core->mend.asked = i;
    core->mend.asked_at_us = core->awake;
    peers_send(core, i, &msg);
}

void
mend_on_page(struct core *core, int from, const struct proto_page *page, const void *body,
             size_t size)
{
    struct mend *mend = &core->mend;
    if (!mend->wants || mend->asked != from || page->step != mend->want.step ||
        page->page != mend->want.page)
        return;
    if (size == 0 || size > PROTO_PAGE_MAX || page->round == 0 ||
        (mend->want.round != 0 && page->round != mend->want.round))
        give_up_on(core, from);
    else
        give(core, page->round, body, size);
}

/* --- Answering --------------------------------------------------------------------------------- */

void
mend_on_want(struct core *core, int from, const struct proto_page *want)
{
    core->mend.waits[from] = *want;
    core->mend.waiting |= 1ull << from;
}

void
mend_peer_lost(struct core *core, int i)
{
    core->mend.waiting &= ~(1ull << i);
    if (core->mend.asked == i)
        give_up_on(core, i);
}

static void
answer(struct core *core, uint64_t round, const void *data, size_t size)
{
    struct mend *mend = &core->mend;
    struct proto_msg msg = {.type = PROTO_PAGE, .page = mend->answer};
    int i = peers_find(core, mend->answer_to);
    mend->answering = false;
    msg.page.round = round;
    if (i >= 0 && core->peers.peers[i].announced)
        core->ops.send_bulk(core->ctx, (unsigned)core->peers.peers[i].link, &msg, data, size,
                            false);
}

void
mend_read(struct core *core, uint64_t round, const void *data, size_t size)
{
    assert(core->mend.answering);
    assert(size <= PROTO_PAGE_MAX);
    answer(core, round, data, size);
}

static void
answer_next(struct core *core)
{
    struct mend *mend = &core->mend;
    while (mend->waiting && !mend->answering) {
        int i = __builtin_ctzll(mend->waiting);
        mend->waiting &= mend->waiting - 1;
        mend->answer = mend->waits[i];
        mend->answer_to = core->peers.peers[i].node;
        mend->answering = true;
        if (core->ops.want)
            core->ops.want(core->ctx, mend->answer.step, mend->answer.round, mend->answer.page);
        else
            answer(core, 0, NULL, 0);
    }
}

void
mend_step(struct core *core)
{
    struct mend *mend = &core->mend;
    answer_next(core);
    if (!mend->wants)
        return;
    if (mend->asked >= 0 &&
        (!peers_usable(core, mend->asked) || core->awake - mend->asked_at_us > MEND_ASK_US))
        give_up_on(core, mend->asked);
    if (mend->asked >= 0)
        return;
    int i = next_to_ask(core);
    if (i >= 0)
        ask(core, i);
    else if (core->awake - mend->wanted_at_us >= MEND_REST_US)
        give(core, 0, NULL, 0);
}

/* page_repair.c - see page_repair.h. */
#include "mesh/core/page_repair.h"

#include <assert.h>

#include "mesh/core/internal.h"

void
page_repair_init(struct core *core)
{
    core->repair = (struct page_repair){.asked = -1};
}

/* --- Asking ------------------------------------------------------------------------------------ */

void
page_repair_want(struct core *core, const struct proto_page *want)
{
    struct page_repair *repair = &core->repair;
    repair->wants = true;
    repair->want = *want;
    repair->asked = -1;
    repair->tried = 0;
    repair->turn++;
    repair->wanted_at_us = core->awake;
}

static void
give(struct core *core, uint64_t round, const void *data, size_t size)
{
    core->repair.wants = false;
    core->repair.asked = -1;
    core->ops.page(core->ctx, round, data, size);
}

static void
give_up_on(struct core *core, int i)
{
    core->repair.tried |= 1ull << i;
    core->repair.asked = -1;
}

static int
next_to_ask(const struct core *core)
{
    int high = core->peers.high;
    for (int k = 0; k < high; k++) {
        int i = (int)((core->repair.turn + (uint64_t)k) % (uint64_t)high);
        if (!(core->repair.tried >> i & 1) && peers_usable(core, i))
            return i;
    }
    return -1;
}

static void
ask(struct core *core, int i)
{
    struct proto_msg msg = {.type = PROTO_WANT, .page = core->repair.want};
    core->repair.asked = i;
    core->repair.asked_at_us = core->awake;
    peers_send(core, i, &msg);
}

void
page_repair_on_page(struct core *core, int from, const struct proto_page *page, const void *body,
                    size_t size)
{
    struct page_repair *repair = &core->repair;
    if (!repair->wants || repair->asked != from || page->step != repair->want.step ||
        page->page != repair->want.page)
        return;
    if (size == 0 || size > PROTO_PAGE_MAX || page->round == 0 ||
        (repair->want.round != 0 && page->round != repair->want.round))
        give_up_on(core, from);
    else
        give(core, page->round, body, size);
}

/* --- Answering --------------------------------------------------------------------------------- */

void
page_repair_on_want(struct core *core, int from, const struct proto_page *want)
{
    core->repair.waits[from] = *want;
    core->repair.waiting |= 1ull << from;
}

void
page_repair_peer_lost(struct core *core, int i)
{
    core->repair.waiting &= ~(1ull << i);
    if (core->repair.asked == i)
        give_up_on(core, i);
}

static void
answer(struct core *core, uint64_t round, const void *data, size_t size)
{
    struct page_repair *repair = &core->repair;
    struct proto_msg msg = {.type = PROTO_PAGE, .page = repair->answer};
    int i = peers_find(core, repair->answer_to);
    repair->answering = false;
    msg.page.round = round;
    if (i >= 0 && core->peers.peers[i].announced)
        core->ops.send_bulk(core->ctx, (unsigned)core->peers.peers[i].link, &msg, data, size,
                            false);
}

void
page_repair_read(struct core *core, uint64_t round, const void *data, size_t size)
{
    assert(core->repair.answering);
    assert(size <= PROTO_PAGE_MAX);
    answer(core, round, data, size);
}

static void
answer_next(struct core *core)
{
    struct page_repair *repair = &core->repair;
    while (repair->waiting && !repair->answering) {
        int i = __builtin_ctzll(repair->waiting);
        repair->waiting &= repair->waiting - 1;
        repair->answer = repair->waits[i];
        repair->answer_to = core->peers.peers[i].node;
        repair->answering = true;
        if (core->ops.want)
            core->ops.want(core->ctx, repair->answer.step, repair->answer.round,
                           repair->answer.page);
        else
            answer(core, 0, NULL, 0);
    }
}

void
page_repair_step(struct core *core)
{
    struct page_repair *repair = &core->repair;
    answer_next(core);
    if (!repair->wants)
        return;
    if (repair->asked >= 0 && (!peers_usable(core, repair->asked) ||
                               core->awake - repair->asked_at_us > PAGE_REPAIR_ASK_US))
        give_up_on(core, repair->asked);
    if (repair->asked >= 0)
        return;
    int i = next_to_ask(core);
    if (i >= 0)
        ask(core, i);
    else if (core->awake - repair->wanted_at_us >= PAGE_REPAIR_REST_US)
        give(core, 0, NULL, 0);
}

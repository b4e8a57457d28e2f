/* page_repair.c - see page_repair.h. */
#include "mesh/core/transfer/page_repair.h"

#include <assert.h>

#include "mesh/core/internal.h"

void
page_repair_init(struct page_repair *repair)
{
    *repair = (struct page_repair){.asked = -1};
}

/* --- Asking ------------------------------------------------------------------------------------ */

void
page_repair_want(struct page_repair *repair, const struct core *core, const struct proto_page *want)
{
    repair->wants = true;
    repair->want = *want;
    repair->asked = -1;
    repair->tried = 0;
    repair->turn++;
    repair->wanted_at = core->awake;
}

static void
page_deliver(struct page_repair *repair, const struct core *core, uint64_t round, const void *data,
             size_t size)
{
    assert(repair->wants);
    repair->wants = false;
    repair->asked = -1;
    if (core->config.trainer->page)
        core->config.trainer->page(core->config.trainer_ctx, round, data, size);
}

/* Peer i has not got the page, or is gone. */
static void
ask_another(struct page_repair *repair, int i)
{
    assert(repair->asked == i);
    repair->tried |= mutant(MUTANT_PAGE_NONE) ? UINT64_MAX : 1ull << i;
    repair->asked = -1;
}

/* Who does not answer may still have the page: its turn comes again. */
static void
ask_later(struct page_repair *repair)
{
    repair->turn = (uint64_t)repair->asked + 1;
    repair->asked = -1;
}

static int
next_to_ask(const struct page_repair *repair, const struct core *core)
{
    int high = core->peers.high;
    for (int k = 0; k < high; k++) {
        int i = (int)((repair->turn + (uint64_t)k) % (uint64_t)high);
        if (!(repair->tried >> i & 1) && view_usable(core, i))
            return i;
    }
    return -1;
}

static void
page_ask(struct page_repair *repair, const struct core *core, int i)
{
    struct proto_msg msg = {.type = PROTO_WANT, .page = repair->want};
    repair->asked = i;
    repair->asked_at = core->awake;
    peers_send(core, i, &msg);
}

void
page_repair_on_page(struct page_repair *repair, const struct core *core, int from,
                    const struct proto_page *page, const void *body, size_t size)
{
    bool number = page->page_number == repair->want.page_number || mutant(MUTANT_PAGE_NUMBER);
    if (!repair->wants || repair->asked != from || page->step != repair->want.step || !number)
        return;
    if (size == 0 || size > PROTO_PAGE_MAX || page->round == 0 ||
        (repair->want.round != 0 && page->round != repair->want.round &&
         !mutant(MUTANT_PAGE_ROUND)))
        ask_another(repair, from);
    else
        page_deliver(repair, core, page->round, body, size);
}

/* --- Answering --------------------------------------------------------------------------------- */

void
page_repair_on_want(struct page_repair *repair, int from, const struct proto_page *want)
{
    repair->waits[from] = *want;
    repair->waiting |= 1ull << from;
}

void
page_repair_gone(struct page_repair *repair, int i)
{
    repair->waiting &= ~(1ull << i);
    if (repair->asked == i && !mutant(MUTANT_PAGE_ASKED))
        ask_another(repair, i);
}

void
page_repair_read(struct page_repair *repair, const struct core *core, uint64_t round,
                 const void *data, size_t size)
{
    struct proto_msg msg = {.type = PROTO_PAGE, .page = repair->answer};
    int i =
        peers_find(core, mutant(MUTANT_PAGE_TO) ? core->peers.peers[0].node : repair->answer_to);
    assert(repair->answering && size <= PROTO_PAGE_MAX);
    repair->answering = false;
    msg.page.round = round;
    if (i >= 0 && core->peers.peers[i].announced)
        peers_send_bulk(core, i, &msg, data, size);
}

/* False: we have no checkpoints. */
static bool
ask_program(const struct core *core, const struct proto_page *page)
{
    const struct core_program *program = core->config.program;
    return program->want &&
           program->want(core->config.program_ctx, page->step, page->round, page->page_number);
}

static void
answer_waiting(struct page_repair *repair, const struct core *core)
{
    while (repair->waiting && !repair->answering) {
        int i = __builtin_ctzll(repair->waiting);
        repair->waiting &= repair->waiting - 1;
        repair->answer = repair->waits[i];
        repair->answer_to = core->peers.peers[i].node;
        repair->answering = true;
        if (!ask_program(core, &repair->answer))
            page_repair_read(repair, core, 0, NULL, 0);
    }
}

void
page_repair_step(struct page_repair *repair, const struct core *core)
{
    answer_waiting(repair, core);
    if (!repair->wants)
        return;
    if (repair->asked >= 0 && !mutant(MUTANT_PAGE_ASKED)) {
        if (!view_usable(core, repair->asked))
            ask_another(repair, repair->asked);
        else if (awake_since(core->awake, repair->asked_at) > PAGE_REPAIR_ASK_US)
            ask_later(repair);
    }
    if (repair->asked >= 0)
        return;
    int next = next_to_ask(repair, core);
    if (awake_since(core->awake, repair->wanted_at) >=
        (next < 0 ? PAGE_REPAIR_REST_US : PAGE_REPAIR_PATIENCE_US))
        page_deliver(repair, core, 0, NULL, 0);
    else if (next >= 0)
        page_ask(repair, core, next);
}

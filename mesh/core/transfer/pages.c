/* pages.c - see pages.h. */
#include "mesh/core/transfer/pages.h"

#include <assert.h>

#include "mesh/core/internal.h"

void
pages_init(struct pages *pages)
{
    take_init(&pages->take, &pages->asked, PROTO_PAGE_MAX, PAGES_ASK_US);
}

/* --- Taking ------------------------------------------------------------------------------------ */

void
pages_want(struct pages *pages, const struct core *core, const struct proto_fetch *want)
{
    take_begin(&pages->take, want, want->block, 1);
    pages->wants = true;
    pages->lacks = 0;
    pages->wanted_at = core->awake;
}

static void
page_deliver(struct pages *pages, const struct core *core, uint64_t round, const void *data,
             size_t size)
{
    assert(pages->wants);
    pages->wants = false;
    if (core->config.trainer->page)
        core->config.trainer->page(core->config.trainer_ctx, round, data, size);
}

/* What came is damaged or none: another peer may have it. */
void
pages_on_give(struct pages *pages, const struct core *core, int from, const struct proto_give *give,
              const void *body, size_t size)
{
    const struct proto_fetch *want = &pages->take.what;
    bool number = give->block == want->block || mutant(MUTANT_PAGE_NUMBER);
    if (!pages->wants || pages->asked != from || give->label != want->label || !number)
        return;
    if (transfer_check(give, 0, body, size) != give->check) {
        take_bad(&pages->take, from, want->block);
    } else if (size == 0 || size > PROTO_PAGE_MAX || give->round == 0 ||
               (want->round != 0 && give->round != want->round && !mutant(MUTANT_PAGE_ROUND))) {
        pages->lacks |= mutant(MUTANT_PAGE_NONE) ? UINT64_MAX : UINT64_C(1) << from;
    } else {
        page_deliver(pages, core, give->round, body, size);
    }
}

/* Who does not answer may still have the page: its turn comes again. */
static void
page_ask(struct pages *pages, const struct core *core)
{
    uint64_t gives = 0;
    if (mutant(MUTANT_PAGE_ASKED) && pages->asked < PEERS_MAX)
        return;
    for (int i = 0; i < core->peers.high; i++)
        gives |= (uint64_t)view_usable(core, i) << i;
    gives &= ~pages->lacks;
    if (awake_since(core->awake, pages->wanted_at) >= (gives ? PAGES_PATIENCE_US : PAGES_REST_US))
        page_deliver(pages, core, 0, NULL, 0);
    else
        take_ask(&pages->take, core, gives);
}

/* --- Giving ------------------------------------------------------------------------------------ */

void
pages_on_fetch(struct pages *pages, int from, const struct proto_fetch *fetch)
{
    pages->waits[from] = *fetch;
    pages->waiting |= UINT64_C(1) << from;
}

void
pages_gone(struct pages *pages, int i)
{
    pages->waiting &= ~(UINT64_C(1) << i);
    if (!mutant(MUTANT_PAGE_ASKED))
        take_gone(&pages->take, i);
}

void
pages_read(struct pages *pages, const struct core *core, uint64_t round, const void *data,
           size_t size)
{
    struct proto_msg msg = {.type = PROTO_GIVE,
                            .give = {.object = PROTO_OBJECT_PAGE,
                                     .round = round,
                                     .label = pages->read.label,
                                     .block = pages->read.block}};
    int i = peers_find(core, mutant(MUTANT_PAGE_TO) ? core->peers.peers[0].node : pages->read_for);
    assert(pages->reading && size <= PROTO_PAGE_MAX);
    pages->reading = false;
    msg.give.check = transfer_check(&msg.give, 0, data, size);
    if (i >= 0 && core->peers.peers[i].announced)
        peers_send_bulk(core, i, &msg, data, size);
}

static void
answer_waiting(struct pages *pages, const struct core *core)
{
    const struct core_program *program = core->config.program;
    void *ctx = core->config.program_ctx;
    while (pages->waiting && !pages->reading) {
        int i = __builtin_ctzll(pages->waiting);
        const struct proto_fetch *read = &pages->read;
        pages->waiting &= pages->waiting - 1;
        pages->read = pages->waits[i];
        pages->read_for = core->peers.peers[i].node;
        pages->reading = true;
        if (!program->want || !program->want(ctx, read->label, read->round, read->block))
            pages_read(pages, core, 0, NULL, 0); /* we have no checkpoints */
    }
}

void
pages_step(struct pages *pages, const struct core *core)
{
    answer_waiting(pages, core);
    if (pages->wants)
        page_ask(pages, core);
}

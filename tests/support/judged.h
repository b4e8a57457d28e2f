/* judged.h - the events of a core, each followed by the question whether its invariants hold (invariants.h).
 *
 * A test that includes this file instead of mesh/core/core.h, or tests/support/lone.h, calls core_on_tick and the
 * others as always. A core that is wrong after one of them aborts the test, with the event and the invariant on
 * stderr. */
#ifndef SUPPORT_JUDGED_H
#define SUPPORT_JUDGED_H

#include <stdio.h>
#include <stdlib.h>

#include "mesh/core/core.h"
#include "tests/support/invariants.h"

static inline void
core_judge(const struct core *core, const char *event)
{
    const char *wrong = core_wrong(core);
    if (!wrong)
        return;
    fprintf(stderr, "the core is wrong after %s: %s\n", event, wrong);
    abort();
}

static inline bool
core_judge_result(const struct core *core, const char *event, bool result)
{
    core_judge(core, event);
    return result;
}

/* `core` is evaluated twice. */
#define JUDGED(event, core, ...) ((event)(core, __VA_ARGS__), core_judge(core, #event))

#define core_on_tick(core, ...)      JUDGED(core_on_tick, core, __VA_ARGS__)
#define core_on_starved(core, ...)   JUDGED(core_on_starved, core, __VA_ARGS__)
#define core_on_found(core, ...)     JUDGED(core_on_found, core, __VA_ARGS__)
#define core_on_link_up(core, ...)   JUDGED(core_on_link_up, core, __VA_ARGS__)
#define core_on_link_down(core, ...) JUDGED(core_on_link_down, core, __VA_ARGS__)
#define core_on_message(core, ...)   JUDGED(core_on_message, core, __VA_ARGS__)
#define core_on_bulk(core, ...)      JUDGED(core_on_bulk, core, __VA_ARGS__)
#define core_on_sent(core, ...)      JUDGED(core_on_sent, core, __VA_ARGS__)
#define core_on_bucket(core, ...)    JUDGED(core_on_bucket, core, __VA_ARGS__)
#define core_on_piece(core, ...)     JUDGED(core_on_piece, core, __VA_ARGS__)
#define core_on_returned(core, ...)  JUDGED(core_on_returned, core, __VA_ARGS__)
#define core_on_applied(core, ...)   JUDGED(core_on_applied, core, __VA_ARGS__)
#define core_on_damaged(core, ...)   JUDGED(core_on_damaged, core, __VA_ARGS__)
#define core_on_audited(core, ...)   JUDGED(core_on_audited, core, __VA_ARGS__)
#define core_on_page(core, ...)      JUDGED(core_on_page, core, __VA_ARGS__)
#define core_want(core, ...)         JUDGED(core_want, core, __VA_ARGS__)
#define core_in_use(core, ...)       JUDGED(core_in_use, core, __VA_ARGS__)
#define core_leave(core, ...)        JUDGED(core_leave, core, __VA_ARGS__)
/* These return something. */
#define core_lend(core, ...) core_judge_result(core, "core_lend", (core_lend)(core, __VA_ARGS__))
#define core_on_interrupt(core, ...)                                                               \
    core_judge_result(core, "core_on_interrupt", (core_on_interrupt)(core, __VA_ARGS__))

#endif

/* Whatever peers, links and the clock do, a core breaks no contract, reads nothing beyond its memory and keeps its
 * tables in bounds: lists of actions that nobody chose, in each way of sums and stages. */
#include "tests/fuzz/core_world.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

enum { RUNS = 512, BYTES = 8192 };

TEST(no_course_of_events_breaks_a_core)
{
    uint64_t plans = 0, kept_most = 0;
    for (unsigned run = 0; run < RUNS; run++) {
        OWNED(memory_free) uint8_t *data = malloc(BYTES);
        rand_fill(&(struct rand){(uint64_t)run << 32}, data, BYTES);
        data[BYTES - 1] = (uint8_t)run; /* the way */
        struct outcome outcome = world_run(data, BYTES);
        plans += outcome.plans;
        kept_most = outcome.kept_most > kept_most ? outcome.kept_most : kept_most;
    }
    assert_true(plans > RUNS); /* it was not all refused */
    assert_true(kept_most > 0);
}

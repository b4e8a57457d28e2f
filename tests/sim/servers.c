/* servers.c - in every second schedule, of whatever kind, sums go to elected servers: to 1..n of them, or to as many as
 * `auto` takes. In some each node has a wish of its own, and whoever leads decides.
 *
 * The wishes come from numbers of their own: what else a seed draws does not depend on them. */
#include "proto/mix.h"
#include "tests/sim/sim.h"

static unsigned
wish(struct rand *rand, const struct sim_profile *p)
{
    return rand_below(rand, 4) == 0 ? CORE_SERVERS_AUTO : (unsigned)rand_range(rand, 1, p->nodes);
}

void
servers_profile(struct sim *sim)
{
    struct sim_profile *p = &sim->profile;
    struct rand rand = {mix64_pair(sim->seed, CORE_SERVERS_AUTO)};
    bool ring = rand_bool(&rand), apart = rand_below(&rand, 4) == 0;
    unsigned all = wish(&rand, p);
    for (unsigned i = 0; i < p->nodes && !ring; i++)
        p->servers[i] = !apart ? all : rand_bool(&rand) ? 0 : wish(&rand, p);
    bool quiet = sim->drill || sim->alone || sim->late || sim->slow || sim->many_flips;
    if (!ring && !quiet && rand_below(&rand, 4) == 0)
        p->hostile = 1 + (unsigned)rand_below(&rand, p->nodes);
}

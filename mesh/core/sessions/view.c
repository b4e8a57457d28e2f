#include "mesh/core/sessions/view.h"

#include <assert.h>

#include "mesh/core/internal.h"

bool
view_usable(const struct core *core, int i)
{
    assert(i >= 0 && i < core->peers.high);
    const struct peer *peer = &core->peers.peers[i];
    const struct heard *heard = &core->view.of[i];
    if (peer->state != PEER_UP || heard->suspected || peer->hello.wants_job)
        return false;
    return heard->hears_me || mutant(MUTANT_HEARING);
}

bool
view_lags(const struct core *core, int i, struct awake served_at, uint64_t round_us)
{
    const struct peer *peer = &core->peers.peers[i];
    struct awake seen = awake_later(served_at, core->view.of[i].moved_at);
    seen = awake_later(seen, core->applied_at);
    return peer->state == PEER_UP && !peer->hello.wants_job &&
           awake_since(core->awake, seen) < CORE_LINGER_US + 4 * round_us;
}

bool
view_mutual(const struct core *core, int a, int b)
{
    const struct heard *of = core->view.of;
    return ((of[a].hears >> b & 1) && (of[b].hears >> a & 1)) || mutant(MUTANT_CLIQUE);
}

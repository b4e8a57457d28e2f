/* gossip_wait.c - a member stays connected and does not answer: who goes on without it. See gossip_wait.h.
 *
 * A member owes something when it could give it at once: it says that it is in this phase or in a later one, or a flow
 * is under way that any core settles, whatever it does, or it offered copies. Who is in an earlier phase computes, or
 * waits itself, and owes nothing to that phase; how long it may compute is a matter of the plan (gossip_plan.c). When
 * nothing that counts has come for GOSSIP_PATIENCE_US from a member that owes something, it is left out for a while,
 * the longer the more often. If it answers in this while, it, or the line to it, was only slow, and the next time waits
 * twice as long. While its heartbeats do not come either, nothing counts. Without it there is another plan with other
 * neighbours, so the weights are doubly stochastic as always, and what is under way with it is settled when it answers
 * again.
 *
 * Each node says whom it leaves out: two that cannot be in one plan, a *conflict*. All hear it. As long as there are
 * conflicts, those with the most of them are left out; of two with one conflict it is who complains, or both do. So a
 * member that lies pushes out nobody but itself. */
#include <assert.h>

#include "mesh/core/gossip/gossip_internal.h"
#include "mesh/core/gossip/gossip_wait.h"

enum { SELF = PEERS_MAX }; /* behind the peers: this node */

bool
gossip_wait_out(const struct core *core, struct proto_node node)
{
    const struct gossip_link *link = gossip_link_find(core, node);
    return link && gossip_link_out(link, core->awake);
}

/* --- Does it answer? ------------------------------------------------------------------------------ */

/* Does the present phase wait for a flow from it, or for an ASK? */
static bool
awaits_flow(const struct core *core, const struct gossip_link *link)
{
    const struct gossip *g = &core->gossip;
    int rank = gossip_rank(core, link->node);
    bool takes = g->run.on && rank >= 0 && (g->run.takes >> rank & 1);
    bool gives = g->run.on && rank >= 0 && (g->run.gives >> rank & 1);
    return (takes && !gossip_link_made(core, &link->take.pass)) ||
           (gives && !gossip_link_made(core, &link->give.pass));
}

static bool
owes(const struct core *core, const struct gossip_link *link, int i)
{
    const struct gossip *g = &core->gossip;
    const struct proto_replica *said = gossip_said(core, i);
    if (!view_usable(core, i) || !said)
        return false; /* the plan ends by itself */
    if (g->copy.what && g->copy.take.of[i].under_way > 0)
        return true;
    if (gossip_rank(core, link->node) < 0)
        return false;
    bool here = said->plan_hash == g->plan.hash &&
                (core->config.gossip->async || said->phase >= g->run.phase);
    if (said->plan_hash != g->plan.hash || gossip_link_keeps(&g->links, link) ||
        (here && awaits_flow(core, link)))
        return true;
    /* outside a phase, what is open is being settled */
    return gossip_link_open(link) && (here || !g->run.on);
}

static void
go_without(const struct core *core, struct gossip_link *link, int i)
{
    char who[PROTO_WHO_MAX];
    assert(link->node.id != 0);
    if (awake_since(core->awake, link->out_until) > GOSSIP_OUT_MAX_US)
        link->out_us = 0; /* long ago */
    if (awake_before(link->heard_at, link->out_at))
        link->slow = 0; /* not a word since the last time */
    link->out_us = backoff_us(link->out_us, GOSSIP_OUT_US, GOSSIP_OUT_MAX_US);
    link->out_at = core->awake;
    link->out_until = awake_after(core->awake, link->out_us);
    report_who(core, i, who);
    core_log(core, 4, "%s is connected and does not answer: going on without it for %llu ms", who,
             (unsigned long long)(link->out_us / 1000));
}

/* Its heartbeats come. While they do not, it does not run, or its line is down: whether it is lost then, they say. */
static bool
beats(const struct core *core, int i)
{
    return awake_since(core->awake, core->view.of[i].heard_at) < 3 * CORE_HEARTBEAT_US;
}

/* Does it owe something, and for too long? */
static bool
fails(const struct core *core, const struct gossip_link *link, int i)
{
    struct awake since = awake_later(link->owes_since, link->heard_at);
    uint64_t patience_us = (uint64_t)GOSSIP_PATIENCE_US << link->slow;
    return awake_since(core->awake, since) >= patience_us && !mutant(MUTANT_GOSSIP_PATIENCE) &&
           view_usable(core, i);
}

void
gossip_wait_tick(struct gossip_links *links, const struct core *core)
{
    struct awake last = core->awake;
    links->without = 0;
    for (int l = 0; l < GOSSIP_LINKS; l++) {
        struct gossip_link *link = &links->of[l];
        int i = link->node.id ? peers_find(core, link->node) : -1;
        if (i < 0 || gossip_link_out(link, core->awake) || !beats(core, i) || !owes(core, link, i))
            link->owes_since = core->awake;
        else if (fails(core, link, i))
            go_without(core, link, i);
        if (i >= 0 && awake_before(last, link->out_until)) {
            last = link->out_until;
            links->without = link->node.id;
        }
    }
}

/* --- Whom all leave out --------------------------------------------------------------------------- */

/* The peers that count and this node, and whom each of them leaves out; 0: nobody. */
static uint64_t
all_here(const struct core *core, uint64_t without[SELF + 1])
{
    const struct gossip *g = &core->gossip;
    uint64_t here = UINT64_C(1) << SELF;
    without[SELF] = g->links.without;
    for (int i = 0; i < core->peers.high; i++) {
        here |= (uint64_t)view_usable(core, i) << i;
        without[i] = gossip_said(core, i) ? gossip_said(core, i)->without : 0;
    }
    return here;
}

/* With whom each of `here` has a conflict. Returns who complains. */
static uint64_t
find_conflicts(const struct core *core, uint64_t here, const uint64_t without[SELF + 1],
               uint64_t with[SELF + 1])
{
    uint64_t complain = 0;
    for (uint64_t left = here; left; left &= left - 1) {
        int x = __builtin_ctzll(left), y = core->config.self.id == without[x] ? SELF : -1;
        for (int i = 0; i < core->peers.high && y < 0; i++)
            y = (here >> i & 1) && core->peers.peers[i].node.id == without[x] ? i : -1;
        complain |= without[x] ? left & -left : 0;
        if (!without[x] || y < 0 || y == x)
            continue;
        with[x] |= UINT64_C(1) << y;
        with[y] |= UINT64_C(1) << x;
    }
    return complain;
}

uint64_t
gossip_wait_left_out(const struct core *core)
{
    uint64_t without[SELF + 1], with[SELF + 1] = {0};
    uint64_t here = all_here(core, without), stay = here;
    uint64_t complain = find_conflicts(core, here, without, with);
    for (int most = 1; most > 0;) {
        uint64_t before = stay;
        most = 0;
        for (uint64_t left = before; left; left &= left - 1) {
            int count = __builtin_popcountll(with[__builtin_ctzll(left)] & before);
            most = count > most ? count : most;
        }
        for (uint64_t left = most > 1 ? before : before & complain; most && left; left &= left - 1)
            if (__builtin_popcountll(with[__builtin_ctzll(left)] & before) == most)
                stay &= ~(left & -left);
    }
    return here & ~stay;
}

/* push_lease.c - the leader: who gets which ticket. See push_tickets.h. */
#include "mesh/core/push/push_lease.h"

#include <assert.h>

#include "mesh/core/internal.h"

static struct proto_lease
make_lease(struct push *push, const struct core *core, unsigned rank, const struct proto_take *take)
{
    struct push_leases *leases = &push->leases;
    assert(push->group.leads && rank < push->group.now.count);
    uint64_t in_hand = take->wants ? push_leases_take(leases, rank, take->got, core->awake) : 0;
    return (struct proto_lease){.group_hash = push->group.hash,
                                .finished = take->finished,
                                .in_hand = in_hand,
                                .got = leases->of[rank].number,
                                .tickets = leases->done.floor};
}

static void
give_lease(struct push *push, const struct core *core, unsigned rank, const struct proto_take *take)
{
    struct proto_msg msg = {.type = PROTO_LEASE, .lease = make_lease(push, core, rank, take)};
    push_group_send(core, rank, &msg);
}

/* Those who wait get the tickets that have become free. */
void
push_lease_more(struct push *push, const struct core *core)
{
    for (uint64_t left = push->leases.waiting; left; left &= left - 1) {
        unsigned rank = (unsigned)__builtin_ctzll(left);
        const struct proto_take take = {.wants = true, .got = push->leases.of[rank].number};
        if (rank == push->group.rank)
            push->work.take_at.us = 0;
        else
            give_lease(push, core, rank, &take);
    }
}

static bool
take_done(struct push *push, const struct core *core, unsigned rank, const struct proto_take *take)
{
    return take->finished &&
           push_leases_done(&push->leases, rank, take->finished - 1, take->again, core->awake);
}

void
push_lease_on_take(struct push *push, const struct core *core, int from,
                   const struct proto_take *take)
{
    int rank = push_group_rank(core, from);
    if (take->group_hash != push->group.hash || !push->group.leads ||
        !push_group_stands(&push->group) || rank < 0 || rank == (int)push->group.rank)
        return;
    push->snapshot.leave |= (uint64_t)take->leaves << rank;
    bool more = take_done(push, core, (unsigned)rank, take);
    give_lease(push, core, (unsigned)rank, take);
    if (more)
        push_lease_more(push, core);
}

struct proto_lease
push_lease_own(struct push *push, const struct core *core, const struct proto_take *take)
{
    bool more = take_done(push, core, push->group.rank, take);
    struct proto_lease answer = make_lease(push, core, push->group.rank, take);
    if (more)
        push_lease_more(push, core);
    return answer;
}

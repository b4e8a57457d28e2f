/* push_tickets.c - see push_tickets.h. */
#include "mesh/core/push_tickets.h"

#include <assert.h>
#include <string.h>

#include "mesh/core/mutant.h"

/* --- Sets ----------------------------------------------------------------------------------------- */

static bool
bit(const struct push_set *set, uint64_t ticket)
{
    return set->bits[ticket % PUSH_WINDOW / 64] >> ticket % 64 & 1;
}

static void
settle(struct push_set *set)
{
    for (; bit(set, set->floor); set->floor++)
        set->bits[set->floor % PUSH_WINDOW / 64] &= ~(UINT64_C(1) << set->floor % 64);
}

bool
push_set_has(const struct push_set *set, uint64_t ticket)
{
    return ticket < set->floor || (ticket - set->floor < PUSH_WINDOW && bit(set, ticket));
}

bool
push_set_add(struct push_set *set, uint64_t ticket)
{
    if (push_set_has(set, ticket) || ticket - set->floor >= PUSH_WINDOW)
        return false;
    set->bits[ticket % PUSH_WINDOW / 64] |= UINT64_C(1) << ticket % 64;
    settle(set);
    return true;
}

void
push_set_raise(struct push_set *set, uint64_t floor)
{
    if (floor <= set->floor)
        return;
    if (floor - set->floor >= PUSH_WINDOW)
        memset(set->bits, 0, sizeof set->bits);
    else
        for (uint64_t t = set->floor; t < floor; t++)
            set->bits[t % PUSH_WINDOW / 64] &= ~(UINT64_C(1) << t % 64);
    set->floor = floor;
    settle(set);
}

uint64_t
push_set_count(const struct push_set *set)
{
    uint64_t count = set->floor;
    for (size_t w = 0; w < PUSH_WINDOW / 64; w++)
        count += (uint64_t)__builtin_popcountll(set->bits[w]);
    return count;
}

static void
write_u64(uint8_t *out, uint64_t value)
{
    for (int k = 0; k < 8; k++)
        out[k] = (uint8_t)(value >> 8 * k);
}

static uint64_t
read_u64(const uint8_t *in)
{
    uint64_t value = 0;
    for (int k = 0; k < 8; k++)
        value |= (uint64_t)in[k] << 8 * k;
    return value;
}

void
push_set_write(const struct push_set *set, uint8_t out[PUSH_SET_SIZE])
{
    write_u64(out, set->floor);
    for (size_t w = 0; w < PUSH_WINDOW / 64; w++)
        write_u64(out + 8 + 8 * w, set->bits[w]);
}

void
push_set_read(struct push_set *set, const uint8_t in[PUSH_SET_SIZE])
{
    set->floor = read_u64(in) & PROTO_ROUND_MAX;
    for (size_t w = 0; w < PUSH_WINDOW / 64; w++)
        set->bits[w] = read_u64(in + 8 + 8 * w);
    set->bits[set->floor % PUSH_WINDOW / 64] &= ~(UINT64_C(1) << set->floor % 64);
}

/* --- Leases --------------------------------------------------------------------------------------- */

void
push_leases_clear(struct push_leases *leases)
{
    memset(leases->to, 0, sizeof leases->to);
    memset(leases->of, 0, sizeof leases->of);
    leases->waiting = 0;
}

void
push_leases_give(struct push_leases *leases, unsigned rank, uint64_t ticket)
{
    assert(rank < PROTO_PEERS_MAX);
    if (push_set_has(&leases->done, ticket) || ticket - leases->done.floor >= PUSH_WINDOW ||
        ticket >= leases->tickets || leases->of[rank])
        return;
    leases->to[ticket % PUSH_WINDOW] = (uint8_t)(rank + 1);
    leases->of[rank] = ticket + 1;
}

bool
push_leases_done(struct push_leases *leases, unsigned rank, uint64_t ticket)
{
    assert(rank < PROTO_PEERS_MAX);
    if (leases->of[rank] != ticket + 1)
        return false;
    leases->of[rank] = 0;
    leases->to[ticket % PUSH_WINDOW] = 0;
    return push_set_add(&leases->done, ticket);
}

/* The first ticket that may not be leased yet. */
static uint64_t
end_of(const struct push_leases *leases)
{
    uint64_t floor = leases->done.floor, end = floor + PUSH_WINDOW;
    if (leases->bound != PUSH_UNBOUND) {
        uint64_t bound =
            (floor / leases->shards + leases->bound + 1 + core_mutant(MUTANT_PUSH_BOUND)) *
            leases->shards;
        end = bound < end ? bound : end;
    }
    return end < leases->tickets ? end : leases->tickets;
}

uint64_t
push_leases_take(struct push_leases *leases, unsigned rank)
{
    assert(rank < PROTO_PEERS_MAX);
    leases->waiting &= ~(UINT64_C(1) << rank);
    if (leases->of[rank])
        return leases->of[rank];
    for (uint64_t t = leases->done.floor, end = end_of(leases); t < end; t++) {
        bool leased = leases->to[t % PUSH_WINDOW] && !core_mutant(MUTANT_PUSH_LEASE);
        if (push_set_has(&leases->done, t) || leased)
            continue;
        leases->to[t % PUSH_WINDOW] = (uint8_t)(rank + 1);
        return leases->of[rank] = t + 1;
    }
    leases->waiting |= UINT64_C(1) << rank;
    return 0;
}

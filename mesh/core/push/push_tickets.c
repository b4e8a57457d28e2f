/* push_tickets.c - see push_tickets.h. */
#include "mesh/core/push/push_tickets.h"

#include <assert.h>
#include <string.h>

#include "proto/mutant.h"

/* --- Sets ----------------------------------------------------------------------------------------- */

static bool
has_bit(const struct push_set *set, uint64_t ticket)
{
    return set->bits[ticket % PUSH_WINDOW / 64] >> ticket % 64 & 1;
}

static void
settle_floor(struct push_set *set)
{
    for (; has_bit(set, set->floor); set->floor++)
        set->bits[set->floor % PUSH_WINDOW / 64] &= ~(UINT64_C(1) << set->floor % 64);
}

bool
push_set_has(const struct push_set *set, uint64_t ticket)
{
    return ticket < set->floor || (ticket - set->floor < PUSH_WINDOW && has_bit(set, ticket));
}

bool
push_set_add(struct push_set *set, uint64_t ticket)
{
    if (push_set_has(set, ticket) || ticket - set->floor >= PUSH_WINDOW)
        return false;
    set->bits[ticket % PUSH_WINDOW / 64] |= UINT64_C(1) << ticket % 64;
    settle_floor(set);
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
    settle_floor(set);
}

uint64_t
push_set_end(const struct push_set *set)
{
    uint64_t end = set->floor, from = set->floor % PUSH_WINDOW;
    for (uint64_t w = 0; w < PUSH_WINDOW / 64; w++)
        for (uint64_t left = set->bits[w]; left; left &= left - 1) {
            uint64_t place = 64 * w + (uint64_t)__builtin_ctzll(left);
            uint64_t after = set->floor + (place + PUSH_WINDOW - from) % PUSH_WINDOW + 1;
            end = after > end ? after : end;
        }
    return end;
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

enum { NO_HAND = PUSH_HANDS };

void
push_leases_clear(struct push_leases *leases)
{
    memset(leases->to, 0, sizeof leases->to);
    memset(leases->of, 0, sizeof leases->of);
    leases->waiting = 0;
    leases->hold = 0;
}

/* Where a member has this ticket in hand (0: an empty hand), or NO_HAND. */
static unsigned
hand_of(const struct push_lessee *of, uint64_t in_hand)
{
    unsigned h = 0;
    while (h < PUSH_HANDS && of->hand[h].in_hand != in_hand)
        h++;
    return h;
}

static void
put_in_hand(struct push_leases *leases, unsigned rank, uint64_t ticket, struct awake now)
{
    struct push_lessee *of = &leases->of[rank];
    unsigned h = hand_of(of, 0);
    assert(h < PUSH_HANDS);
    leases->to[ticket % PUSH_WINDOW] = (uint8_t)(rank + 1);
    of->hand[h].in_hand = ticket + 1;
    of->hand[h].since = now;
    leases->end = ticket + 1 > leases->end ? ticket + 1 : leases->end;
}

void
push_leases_give(struct push_leases *leases, unsigned rank, uint64_t ticket, struct awake now)
{
    assert(rank < PROTO_PEERS_MAX);
    const struct push_lessee *of = &leases->of[rank];
    if (push_set_has(&leases->done, ticket) || ticket - leases->done.floor >= PUSH_WINDOW ||
        ticket >= leases->tickets || leases->to[ticket % PUSH_WINDOW] || hand_of(of, 0) == NO_HAND)
        return;
    put_in_hand(leases, rank, ticket, now);
}

bool
push_leases_done(struct push_leases *leases, unsigned rank, uint64_t ticket, bool again,
                 struct awake now)
{
    assert(rank < PROTO_PEERS_MAX);
    struct push_lessee *of = &leases->of[rank];
    unsigned h = hand_of(of, ticket + 1);
    of->hangs = false;
    if (h == NO_HAND)
        return false;
    uint64_t us = awake_since(now, of->hand[h].since);
    of->usual_us = us > of->usual_us ? us : of->usual_us - (of->usual_us - us) / 4;
    of->hand[h].in_hand = 0;
    leases->to[ticket % PUSH_WINDOW] = 0;
    return !again && push_set_add(&leases->done, ticket);
}

/* The first ticket that may not be leased yet. */
static uint64_t
end_of(const struct push_leases *leases)
{
    uint64_t floor = leases->done.floor, end = floor + PUSH_WINDOW;
    if (leases->bound != PUSH_UNBOUND) {
        uint64_t bound =
            (floor / leases->per_step + leases->bound + 1 + mutant(MUTANT_PUSH_BOUND)) *
            leases->per_step;
        end = bound < end ? bound : end;
    }
    end = leases->hold && leases->hold < end ? leases->hold : end;
    return end < leases->tickets ? end : leases->tickets;
}

/* How long a member may have a ticket: by its own, or by the slowest one's if it has not done any. */
static uint64_t
limit_of(const struct push_leases *leases, unsigned rank)
{
    uint64_t most = leases->of[rank].usual_us;
    for (unsigned r = 0; leases->of[rank].usual_us == 0 && r < PROTO_PEERS_MAX; r++)
        most = leases->of[r].usual_us > most ? leases->of[r].usual_us : most;
    uint64_t limit = PUSH_OVERDUE * most, least = most ? PUSH_OVERDUE_US : PUSH_OVERDUE_FIRST_US;
    return mutant(MUTANT_PUSH_HUNG) ? UINT64_MAX : limit > least ? limit : least;
}

/* Of the tickets that another member has had for too long, the one that it has had longest; plus one. It is its no
 * more. */
static uint64_t
overdue(struct push_leases *leases, unsigned but, struct awake now)
{
    uint64_t *longest = NULL, most = 0;
    unsigned whose = 0;
    for (unsigned r = 0; r < PROTO_PEERS_MAX; r++)
        for (unsigned h = 0; r != but && h < PUSH_HANDS; h++) {
            uint64_t us = awake_since(now, leases->of[r].hand[h].since);
            if (leases->of[r].hand[h].in_hand && us > limit_of(leases, r) && us > most) {
                longest = &leases->of[r].hand[h].in_hand;
                whose = r;
                most = us;
            }
        }
    uint64_t in_hand = longest ? *longest : 0;
    if (longest) {
        *longest = 0;
        leases->of[whose].hangs = true;
    }
    leases->overdue += longest != NULL;
    return in_hand;
}

/* The lowest ticket that nobody computes, plus one; 0: there is none. */
static uint64_t
lowest_free(const struct push_leases *leases)
{
    for (uint64_t t = leases->done.floor, end = end_of(leases); t < end; t++) {
        bool leased = leases->to[t % PUSH_WINDOW] && !mutant(MUTANT_PUSH_LEASE);
        if (!push_set_has(&leases->done, t) && !leased)
            return t + 1;
    }
    return 0;
}

uint64_t
push_leases_take(struct push_leases *leases, unsigned rank, uint64_t got, struct awake now)
{
    assert(rank < PROTO_PEERS_MAX);
    struct push_lessee *of = &leases->of[rank];
    leases->waiting &= ~(UINT64_C(1) << rank);
    if (got < of->number && hand_of(of, of->last) < PUSH_HANDS)
        return of->last;
    if (hand_of(of, 0) == NO_HAND)
        return 0;
    uint64_t in_hand = of->hangs ? 0 : lowest_free(leases);
    in_hand = in_hand || of->hangs ? in_hand : overdue(leases, rank, now);
    if (in_hand == 0) {
        leases->waiting |= UINT64_C(1) << rank;
        return 0;
    }
    put_in_hand(leases, rank, in_hand - 1, now);
    of->number = (got < of->number ? got : of->number) + 1; /* what it did not get counts no more */
    return of->last = in_hand;
}

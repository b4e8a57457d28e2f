/* push_tickets.h - tickets: which are done, and who computes which.
 *
 * A ticket is a part of the shards of one step; which, only the trainer knows. Ticket t is of step t / per_step. A
 * *set* has all tickets below its floor, and some of the PUSH_WINDOW from there on. Nobody computes a ticket beyond
 * that window, so a set is small. Each range has the set of tickets that it has taken (push.h), and each node the set
 * of those that are done: taken by all ranges.
 *
 * The leader *leases* tickets. A ticket is leased to one member at a time, from the lowest one up. A member works on
 * one, and up to PUSH_HANDS are leased to it: the leader may not know yet what it has done or dropped. With a bound
 * (stale-synchronous parallel: Ho et al., NIPS 2013) no ticket of step k is leased before all of the steps below k -
 * bound are done.
 *
 * A trainer may hang, and its node still answers. So when nothing else is left to lease, a ticket is leased again that
 * its member has had PUSH_OVERDUE times as long as its tickets take. A range takes the ticket once, whoever pushes it
 * first. The member that hangs gets no more until it has done one. */
#ifndef MESH_PUSH_TICKETS_H
#define MESH_PUSH_TICKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mesh/core/sessions/clock.h"
#include "proto/proto.h"

enum {
    PUSH_WINDOW = 4096,
    PUSH_SET_SIZE = 8 + PUSH_WINDOW / 8, /* bytes of a set on the wire */
    PUSH_HANDS = 3,
    PUSH_OVERDUE = 4,
    PUSH_OVERDUE_US = 2000000,        /* and at least so long, */
    PUSH_OVERDUE_FIRST_US = 10000000, /* and so long when nobody knows how long a ticket takes */
};

#define PUSH_UNBOUND UINT64_MAX

struct push_set {
    uint64_t floor;
    uint64_t bits[PUSH_WINDOW / 64]; /* ticket t: bit t % PUSH_WINDOW */
};

/* What a member has in hand. */
struct push_lessee {
    struct {
        uint64_t in_hand; /* a ticket plus one; 0: none */
        struct awake since;
    } hand[PUSH_HANDS];
    uint64_t last, number; /* its last lease, and how many it had */
    bool hangs; /* one was leased to another member instead: no more before it does something */
    uint64_t usual_us; /* the longest from a lease until the ticket was done, lately; 0: unknown */
};

struct push_leases {
    uint64_t tickets;        /* of the run */
    unsigned per_step;       /* tickets of a step */
    uint64_t bound;          /* steps, or PUSH_UNBOUND */
    uint64_t hold;           /* none from this one on is leased; 0: any may be */
    uint64_t end;            /* none from this one on was leased */
    struct push_set done;    /* by all ranges */
    uint8_t to[PUSH_WINDOW]; /* rank of the member that computes ticket t, plus one; 0: nobody */
    uint64_t waiting;        /* bitmap of ranks that got none */
    uint64_t overdue;        /* tickets that were leased again */
    struct push_lessee of[PROTO_PEERS_MAX]; /* by rank */
};

bool push_set_has(const struct push_set *set, uint64_t ticket);
/* False: it was there already, or it is beyond the window. */
bool push_set_add(struct push_set *set, uint64_t ticket);
/* All below `floor` are there. */
void push_set_raise(struct push_set *set, uint64_t floor);
static inline uint64_t
push_set_count(const struct push_set *set)
{
    uint64_t count = set->floor;
    for (size_t w = 0; w < PUSH_WINDOW / 64; w++)
        count += (uint64_t)__builtin_popcountll(set->bits[w]);
    return count;
}
/* None from this ticket on is in the set. */
uint64_t push_set_end(const struct push_set *set);
void push_set_write(const struct push_set *set, uint8_t out[PUSH_SET_SIZE]);
void push_set_read(struct push_set *set, const uint8_t in[PUSH_SET_SIZE]);

/* Nobody computes anything, and nothing is held back. */
void push_leases_clear(struct push_leases *leases);
/* Member `rank` computes or pushes this ticket. */
void push_leases_give(struct push_leases *leases, unsigned rank, uint64_t ticket, struct awake now);
/* Member `rank` has done this ticket, or (`again`) it gives it back. False: it was not leased to it, or is given
 * back. */
bool push_leases_done(struct push_leases *leases, unsigned rank, uint64_t ticket, bool again,
                      struct awake now);
/* The ticket for a member to compute next, plus one: its last one, if it has not `got` so many leases yet, or a new
 * one.
 * 0: none now, it waits. */
uint64_t push_leases_take(struct push_leases *leases, unsigned rank, uint64_t got,
                          struct awake now);

#endif

/* mutant.h - bugs planted on purpose, one bit each.
 *
 * The simulator must find them: a check that nobody ever saw hold something may have a hole. The bugs exist only in
 * objects compiled with -DMESHNODE_MUTANTS (the *.mutant.o of the Makefile), which the simulator and some unit tests
 * link. In the program core_mutant is constant false. Uses nothing. */
#ifndef MESH_MUTANT_H
#define MESH_MUTANT_H

#include <stdbool.h>
#include <stdint.h>

#define MUTANT_FENCE    (UINT64_C(1) << 0) /* chunks of any plan of this round are taken */
#define MUTANT_COVERAGE (UINT64_C(1) << 1) /* overlapping and incomplete sums are taken */
#define MUTANT_RANGE    (UINT64_C(1) << 2) /* a chunk may begin and end anywhere in its bucket */
#define MUTANT_CHECK    (UINT64_C(1) << 3) /* checksums are not compared */
#define MUTANT_STATE    (UINT64_C(1) << 4) /* a state is announced one round too high */
#define MUTANT_TWICE                                                                               \
    (UINT64_C(1) << 5) /* the leader gives a shard to two members, and members accept */
#define MUTANT_PROGRESS (UINT64_C(1) << 6)  /* a plan without progress is never aborted */
#define MUTANT_SENT     (UINT64_C(1) << 7)  /* buffers are rewritten while being sent */
#define MUTANT_HEARING  (UINT64_C(1) << 8)  /* peers that do not hear us count as usable */
#define MUTANT_CLIQUE   (UINT64_C(1) << 9)  /* members need not hear one another */
#define MUTANT_SILENCE  (UINT64_C(1) << 10) /* silent peers are never suspected */
#define MUTANT_DONE     (UINT64_C(1) << 11) /* finished nodes do not serve their state */
#define MUTANT_STARVED  (UINT64_C(1) << 12) /* a node without plans never plans by itself */
#define MUTANT_FRESH                                                                               \
    (UINT64_C(1) << 13) /* own shards that are not assigned stay in the contribution */
#define MUTANT_INCARNATION                                                                         \
    (UINT64_C(1) << 14) /* a restarted node continues the session of its former self */
#define MUTANT_HOLD (UINT64_C(1) << 15) /* a plan is never held for a joiner */
#define MUTANT_LENT                                                                                \
    (UINT64_C(1) << 16) /* a part of the sum is rewritten while the trainer reads it */
#define MUTANT_GHOST                                                                               \
    (UINT64_C(1) << 17) /* a node whose port another one has got is not forgotten */
#define MUTANT_STUCK (UINT64_C(1) << 18) /* a hung trainer's node is given shards again and again */
#define MUTANT_LINK  (UINT64_C(1) << 19) /* any HELLO of a node makes a session of our link */
#define MUTANT_ODD   (UINT64_C(1) << 20) /* states are not compared */
#define MUTANT_BLOCK (UINT64_C(1) << 21) /* blocks of a state are not compared with their hashes */
#define MUTANT_TOTAL (UINT64_C(1) << 22) /* who follows is given the total of the round before */
#define MUTANT_PACE  (UINT64_C(1) << 23) /* a slow member is never left out */
#define MUTANT_PAST  (UINT64_C(1) << 24) /* states of rounds long ago are not compared */
#define MUTANT_LATE  (UINT64_C(1) << 25) /* deadlines are not stretched when this node is late */
#define MUTANT_HALF  (UINT64_C(1) << 26) /* most of the mesh is suspected as quickly as one node */
#define MUTANT_WAIT  (UINT64_C(1) << 27) /* a held plan waits for a joiner as long as it takes */
#define MUTANT_FOLLOW_STATE                                                                        \
    (UINT64_C(1) << 28) /* a follower does not compare the state that a total is for with its own */
#define MUTANT_FOLLOW_ROUND                                                                        \
    (UINT64_C(1) << 29) /* a follower applies the total of the round before */
#define MUTANT_PLAN_ROUND  (UINT64_C(1) << 30) /* a plan of the round before is obeyed */
#define MUTANT_OFFER_ROUND (UINT64_C(1) << 31) /* an offer of the state that we have is taken */
#define MUTANT_DEAD        (UINT64_C(1) << 32) /* an aborted plan is taken up again */
#define MUTANT_DIRECT                                                                              \
    (UINT64_C(1) << 33) /* shards counted twice are not noticed in direct contributions */
#define MUTANT_FORGET (UINT64_C(1) << 34) /* the session of a silent peer is never closed */
#define MUTANT_ZERO   (UINT64_C(1) << 35) /* the coverage of sums ignores shard 0 */
#define MUTANT_DRAIN_FENCE                                                                         \
    (UINT64_C(1) << 36) /* chunks that wait are taken whatever plan they are of */
#define MUTANT_DRAIN_ROUND                                                                         \
    (UINT64_C(1) << 37) /* chunks that wait are taken whatever round they are of */
#define MUTANT_TORN                                                                                \
    (UINT64_C(1) << 38) /* a copy of the state goes on after the state has changed */
#define MUTANT_UNNOTICED                                                                           \
    (UINT64_C(1) << 39) /* a leader does not end its plan when a member is lost */
#define MUTANT_PAGE_ROUND  (UINT64_C(1) << 40) /* a page of another round is accepted */
#define MUTANT_PAGE_NUMBER (UINT64_C(1) << 41) /* a page of another number is accepted */
#define MUTANT_PAGE_ASKED                                                                          \
    (UINT64_C(1) << 42) /* a peer that was asked for a page and died is never given up */
#define MUTANT_PAGE_TO   (UINT64_C(1) << 43) /* a page goes to another node than the one that asked */
#define MUTANT_PAGE_NONE (UINT64_C(1) << 44) /* nobody has a page when the first one has it not */
#define MUTANT_UNTOLD                                                                              \
    (UINT64_C(1) << 45) /* nobody is waited for when a plan was dropped because states differ */
#define MUTANT_TOTAL_SIZE                                                                          \
    (UINT64_C(1) << 46) /* a total of another size does not tell the state that it is for */
#define MUTANT_COPY_VOTES                                                                          \
    (UINT64_C(1) << 47) /* a copy of a state counts like one that was computed */
#define MUTANT_TWO_TOTALS                                                                          \
    (UINT64_C(1) << 57) /* a follower puts blocks of two totals of a round together */
#define MUTANT_PIN (UINT64_C(1) << 61) /* shards change hands where they must not */
#define MUTANT_OFFER_VOTES                                                                         \
    (UINT64_C(1) << 62) /* votes count for an offer of the state that we have */
#define MUTANT_DIRECT_AGAIN                                                                        \
    (UINT64_C(1) << 63) /* a direct contribution is added as often as it comes */
#define MUTANT_STAR_EARLY                                                                          \
    (UINT64_C(1) << 48) /* a server sends a total without the last contribution, as if complete */
#define MUTANT_STAR_AGAIN                                                                          \
    (UINT64_C(1) << 49) /* a server adds a contribution as often as it comes */
#define MUTANT_STAR_OWN    (UINT64_C(1) << 50) /* a server adds its own contribution again and again */
#define MUTANT_STAR_OWNER  (UINT64_C(1) << 51) /* who serves a range is not compared */
#define MUTANT_PUSH_BACKUP (UINT64_C(1) << 52) /* an owner applies before its backup has it */
#define MUTANT_PUSH_LEASE  (UINT64_C(1) << 53) /* a ticket is leased to several members */
#define MUTANT_PUSH_TAKEN  (UINT64_C(1) << 54) /* a range takes what it has taken already */
#define MUTANT_PUSH_BACK   (UINT64_C(1) << 55) /* a new owner serves an older copy than there is */
#define MUTANT_PUSH_BOUND  (UINT64_C(1) << 56) /* the bound of ssp is one step too high */
/* These bits are also those of bugs in rounds: no core runs both. */
#define MUTANT_PUSH_EARLY                                                                          \
    (UINT64_C(1) << 0) /* what was read before a ticket was leased counts as read for it */
#define MUTANT_PUSH_HUNG (UINT64_C(1) << 1) /* who hangs keeps its tickets */
#define MUTANT_PUSH_CUT  (UINT64_C(1) << 2) /* a cut does not wait for the tickets before it */
#define MUTANT_PUSH_HASTY                                                                          \
    (UINT64_C(1) << 3) /* a range is given up as soon as both who hold it are silent */
#define MUTANT_PUSH_STALE                                                                          \
    (UINT64_C(1) << 4) /* an old copy comes before newer values that were read */
#define MUTANT_PUSH_DEAF                                                                           \
    (UINT64_C(1) << 5) /* the leader makes no cut for a member that is told to end */
#define MUTANT_PUSH_BUSY (UINT64_C(1) << 6) /* who is told to end takes tickets after its cut */
#define MUTANT_PUSH_DIFFER                                                                         \
    (UINT64_C(1) << 7) /* owner and backup do not compare the bits of a range */
#define MUTANT_PUSH_FORGOT                                                                         \
    (UINT64_C(1) << 8) /* members stay with a leader that says that it forgot all */
#define MUTANT_PUSH_LOST                                                                           \
    (UINT64_C(1) << 9) /* what a range had in the former group is not pushed again */
#define MUTANT_PUSH_NEWER                                                                          \
    (UINT64_C(1) << 10) /* a range takes what was computed from values one newer than it has */
#define MUTANT_PUSH_KEEP                                                                           \
    (UINT64_C(1)                                                                                   \
     << 11) /* what a range does not take, as its values are older, is not computed again */

/* The engine gossip; its bits are also those of bugs in rounds: no core runs both. */
#define MUTANT_GOSSIP_ONE_END                                                                      \
    (UINT64_C(1) << 0) /* the giver of a flow does not take it away from its values */
#define MUTANT_GOSSIP_TWICE (UINT64_C(1) << 1) /* a taker does not compare numbers of flows */
#define MUTANT_GOSSIP_AGAIN (UINT64_C(1) << 2) /* a giver gives anew what was not taken yet */
#define MUTANT_GOSSIP_DEGREE                                                                       \
    (UINT64_C(1) << 3) /* the weight of an edge is by the degree of one end */
#define MUTANT_GOSSIP_VOID                                                                         \
    (UINT64_C(1) << 4) /* what was given and is asked for again is said to be void */
#define MUTANT_GOSSIP_PHASE  (UINT64_C(1) << 5)  /* an ASK of any phase is answered at once */
#define MUTANT_GOSSIP_QUIET  (UINT64_C(1) << 6)  /* a node is quiet with flows under way to it */
#define MUTANT_GOSSIP_WEIGHT (UINT64_C(1) << 7)  /* who joins push-sum begins with weight 1 */
#define MUTANT_GOSSIP_MEAN   (UINT64_C(1) << 11) /* a mean goes on after the plan has changed */
#define MUTANT_GOSSIP_CHECK  (UINT64_C(1) << 16) /* checksums are not compared */
#define MUTANT_GOSSIP_REST                                                                         \
    (UINT64_C(1) << 17) /* a checkpoint does not wait for the others to rest */
#define MUTANT_GOSSIP_GHOST (UINT64_C(1) << 13) /* what was sent to a former process is taken */

#define MUTANT_GOSSIP_PATIENCE (UINT64_C(1) << 9) /* who does not answer is waited for */
#define MUTANT_GOSSIP_EMPTY                                                                        \
    (UINT64_C(1) << 19) /* who joined with weight 0 goes on where nobody has a model */
#define MUTANT_GOSSIP_DEAF                                                                         \
    (UINT64_C(1) << 15) /* the leader makes no cut for a member that is told to end */
#define MUTANT_GOSSIP_COUNT                                                                        \
    (UINT64_C(1) << 8) /* what a start has computed counts whenever it is told */
#define MUTANT_GOSSIP_STALE                                                                        \
    (UINT64_C(1) << 12) /* that an old flow was taken drops the present one */

#ifdef MESHNODE_MUTANTS
extern uint64_t core_mutants; /* those planted now, in every core; tests/support/mutant.c */
#else
static const uint64_t core_mutants = 0;
#endif

static inline bool
core_mutant(uint64_t bit)
{
    return (core_mutants & bit) != 0;
}

#endif

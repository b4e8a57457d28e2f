/* mutant.h - bugs planted on purpose, one bit each.
 *
 * The simulator must find them: a check that nobody ever saw hold something may have a hole. They exist only in objects
 * compiled with -DMESHNODE_MUTANTS, for the simulator and some unit tests. compress/ has its own mutant.h. */
#ifndef MESH_MUTANT_H
#define MESH_MUTANT_H

#include <stdbool.h>
#include <stdint.h>

#define BIT(n) (UINT64_C(1) << (n))

#define MUTANT_FENCE        BIT(0) /* chunks of any plan of this round are taken */
#define MUTANT_COVERAGE     BIT(1) /* overlapping and incomplete sums are taken */
#define MUTANT_RANGE        BIT(2) /* a chunk may begin and end anywhere in its bucket */
#define MUTANT_CHECK        BIT(3) /* checksums are not compared */
#define MUTANT_STATE        BIT(4) /* a state is announced one round too high */
#define MUTANT_TWICE        BIT(5) /* the leader gives a shard to two members, and members accept */
#define MUTANT_PROGRESS     BIT(6) /* a plan without progress is never aborted */
#define MUTANT_SENT         BIT(7) /* buffers are rewritten while being sent */
#define MUTANT_HEARING      BIT(8) /* peers that do not hear us count as usable */
#define MUTANT_CLIQUE       BIT(9) /* members need not hear one another */
#define MUTANT_SILENCE      BIT(10) /* silent peers are never suspected */
#define MUTANT_DONE         BIT(11) /* finished nodes do not serve their state */
#define MUTANT_STARVED      BIT(12) /* a node without plans never plans by itself */
#define MUTANT_FRESH        BIT(13) /* own shards that are not assigned stay in the contribution */
#define MUTANT_INCARNATION  BIT(14) /* a restarted node continues the session of its former self */
#define MUTANT_HOLD         BIT(15) /* a plan is never held for a joiner */
#define MUTANT_LENT         BIT(16) /* a part of the sum is rewritten while the trainer reads it */
#define MUTANT_GHOST        BIT(17) /* a node whose port another one has got is not forgotten */
#define MUTANT_STUCK        BIT(18) /* a hung trainer's node is given shards again and again */
#define MUTANT_LINK         BIT(19) /* any HELLO of a node makes a session of our link */
#define MUTANT_ODD          BIT(20) /* states are not compared */
#define MUTANT_BLOCK        BIT(21) /* blocks of a state are not compared with their hashes */
#define MUTANT_TOTAL        BIT(22) /* who follows is given the total of the round before */
#define MUTANT_PACE         BIT(23) /* a slow member is never left out */
#define MUTANT_PAST         BIT(24) /* states of rounds long ago are not compared */
#define MUTANT_LATE         BIT(25) /* deadlines are not stretched when this node is late */
#define MUTANT_HALF         BIT(26) /* most of the mesh is suspected as quickly as one node */
#define MUTANT_WAIT         BIT(27) /* a held plan waits for a joiner as long as it takes */
#define MUTANT_FOLLOW_STATE BIT(28) /* a follower does not compare the state of a total */
#define MUTANT_FOLLOW_ROUND BIT(29) /* a follower applies the total of the round before */
#define MUTANT_PLAN_ROUND   BIT(30) /* a plan of the round before is obeyed */
#define MUTANT_OFFER_ROUND  BIT(31) /* an offer of the state that we have is taken */
#define MUTANT_DEAD         BIT(32) /* an aborted plan is taken up again */
#define MUTANT_DIRECT       BIT(33) /* shards counted twice are not noticed in direct contributions */
#define MUTANT_FORGET       BIT(34) /* the session of a silent peer is never closed */
#define MUTANT_ZERO         BIT(35) /* the coverage of sums ignores shard 0 */
#define MUTANT_DRAIN_FENCE  BIT(36) /* chunks that wait are taken whatever plan they are of */
#define MUTANT_DRAIN_ROUND  BIT(37) /* chunks that wait are taken whatever round they are of */
#define MUTANT_TORN         BIT(38) /* a copy of the state goes on after the state has changed */
#define MUTANT_UNNOTICED    BIT(39) /* a leader does not end its plan when a member is lost */
#define MUTANT_PAGE_ROUND   BIT(40) /* a page of another round is accepted */
#define MUTANT_PAGE_NUMBER  BIT(41) /* a page of another number is accepted */
#define MUTANT_PAGE_ASKED   BIT(42) /* who was asked for a page and died is never given up */
#define MUTANT_PAGE_TO      BIT(43) /* a page goes to another node than the one that asked */
#define MUTANT_PAGE_NONE    BIT(44) /* nobody has a page when the first one has it not */
#define MUTANT_UNTOLD       BIT(45) /* nobody is waited for when states differ */
#define MUTANT_TOTAL_SIZE   BIT(46) /* a total of another size does not tell its state */
#define MUTANT_COPY_VOTES   BIT(47) /* a copy of a state counts like one that was computed */
#define MUTANT_TWO_TOTALS   BIT(57) /* a follower puts blocks of two totals of a round together */
#define MUTANT_ITEM_ROUND   BIT(52) /* an item of another round is taken; in push another bug */
#define MUTANT_ITEM_EARLY   BIT(58) /* an item is sent before it is made */
#define MUTANT_STAGE_EARLY  BIT(59) /* the sum of a stage is ready one piece too early */
#define MUTANT_STAGE_KEEPS  BIT(60) /* shards of a stage that a sibling has now stay in the sum */
#define MUTANT_MIRROR       BIT(53) /* who only holds applies the total before; in push another bug */
#define MUTANT_SPAN         BIT(54) /* a copy of a segment lies a word too early; in push another bug */
#define MUTANT_GROWN        BIT(55) /* more segments are taken of any round; in push another bug */
/* Two share their bits with bugs that no schedule finds; these are in tests/unit alone. */
#define MUTANT_LOST         BIT(45) /* what nobody here holds is never chosen while somebody trains */
#define MUTANT_ENDS         BIT(36) /* who is done does not stay for a part that was lost before its end */
#define MUTANT_PIN          BIT(61) /* shards change hands where they must not */
#define MUTANT_PIN_STAGE    BIT(56) /* there stages change hands; in push another bug */
#define MUTANT_OFFER_VOTES  BIT(62) /* votes count for an offer of the state that we have */
#define MUTANT_DIRECT_AGAIN BIT(63) /* a direct contribution is added as often as it comes */
#define MUTANT_STAR_EARLY   BIT(48) /* a server sends a total without the last contribution */
#define MUTANT_STAR_AGAIN   BIT(49) /* a server adds a contribution as often as it comes */
#define MUTANT_STAR_OWN     BIT(50) /* a server adds its own contribution again and again */
#define MUTANT_STAR_OWNER   BIT(51) /* who serves a range is not compared */
#define MUTANT_PUSH_BACKUP  BIT(52) /* an owner applies before its backup has it */
#define MUTANT_PUSH_LEASE   BIT(53) /* a ticket is leased to several members */
#define MUTANT_PUSH_TAKEN   BIT(54) /* a range takes what it has taken already */
#define MUTANT_PUSH_BACK    BIT(55) /* a new owner serves an older copy than there is */
#define MUTANT_PUSH_BOUND   BIT(56) /* the bound of ssp is one step too high */
/* These bits are also those of bugs in rounds: no core runs both. */
#define MUTANT_PUSH_EARLY    BIT(0) /* what was read before its lease counts for a ticket */
#define MUTANT_PUSH_HUNG     BIT(1) /* who hangs keeps its tickets */
#define MUTANT_PUSH_SNAPSHOT BIT(2) /* a snapshot does not wait for the tickets before it */
#define MUTANT_PUSH_HASTY    BIT(3) /* a range is given up as soon as both who hold it are silent */
#define MUTANT_PUSH_STALE    BIT(4) /* an old copy comes before newer values that were read */
#define MUTANT_PUSH_DEAF     BIT(5) /* the leader makes no snapshot for a member that is told to end */
#define MUTANT_PUSH_BUSY     BIT(6)  /* who is told to end takes tickets after its snapshot */
#define MUTANT_PUSH_DIFFER   BIT(7)  /* owner and backup do not compare the bits of a range */
#define MUTANT_PUSH_FORGOT   BIT(8)  /* members stay with a leader that says that it forgot all */
#define MUTANT_PUSH_LOST     BIT(9)  /* what a range had in the former group is not pushed again */
#define MUTANT_PUSH_NEWER    BIT(10) /* a range takes what comes of newer values than it has */
#define MUTANT_PUSH_KEEP     BIT(11) /* what a range with older values refuses is not computed again */
#define MUTANT_PUSH_ENDS                                                                           \
    BIT(12) /* who is told to end, and has its snapshot, does not wait for the others, */
#define MUTANT_PUSH_LEAVES BIT(13) /* or waits for nothing if it is the present one */

/* The engine gossip; its bits are also those of bugs in rounds: no core runs both. */
#define MUTANT_GOSSIP_ONE_END BIT(0)  /* the giver of a flow does not take it from its values */
#define MUTANT_GOSSIP_TWICE   BIT(1)  /* a taker does not compare numbers of flows */
#define MUTANT_GOSSIP_AGAIN   BIT(2)  /* a giver gives again what was not taken yet */
#define MUTANT_GOSSIP_DEGREE  BIT(3)  /* the weight of an edge is by the degree of one end */
#define MUTANT_GOSSIP_VOID    BIT(4)  /* what was given and is asked for again is said to be void */
#define MUTANT_GOSSIP_PHASE   BIT(5)  /* an ASK of any phase is answered at once */
#define MUTANT_GOSSIP_QUIET   BIT(6)  /* a node is quiet with flows under way to it */
#define MUTANT_GOSSIP_WEIGHT  BIT(7)  /* who joins push-sum begins with weight 1 */
#define MUTANT_GOSSIP_MEAN    BIT(11) /* a mean goes on after the plan has changed */
#define MUTANT_GOSSIP_CHECK   BIT(16) /* checksums are not compared */
#define MUTANT_GOSSIP_REST    BIT(17) /* a checkpoint does not wait for the others to rest */
#define MUTANT_GOSSIP_GHOST   BIT(13) /* what was sent to a former process is taken */

#define MUTANT_GOSSIP_PATIENCE BIT(9) /* who does not answer is waited for */
#define MUTANT_GOSSIP_EMPTY    BIT(19) /* who joined with weight 0 goes on where nobody has a model */
#define MUTANT_GOSSIP_DEAF     BIT(15) /* no snapshot is made for a member that is told to end */
#define MUTANT_GOSSIP_COUNT    BIT(8)  /* what a start has computed counts whenever it is told */
#define MUTANT_GOSSIP_STALE    BIT(12) /* that an old flow was taken drops the present one */
#define MUTANT_GOSSIP_LEAVES   BIT(14) /* who is told to end while all save a snapshot ends at once */
#define MUTANT_GOSSIP_COPY     BIT(10) /* changes are told and taken whichever copy they are to */

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

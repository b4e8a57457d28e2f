/* sim.h - several cores in one process, with a virtual clock, network and trainer.
 *
 *     world     the queue of events, and the schedule's options        world.c
 *     shell     what mesh/net/actor.c is for a real node               shell.c, links.c, network.c
 *     engine    what the nodes do together, and who judges it          engine.h
 *     rounds    the engine of rounds: a run as a pure function         rounds*.c
 *     numbers   how the numbers of a round look, and are written on their way  numbers.c
 *     audit     members that check one another, and a liar             audit.c
 *     disk      checkpoints, some of them lost, torn or rotten         disk.c
 *     repair    lost pages of checkpoints, which others may have       repair.c
 *     faults    crash, restart, pause, split, one-way cut, heal, ...   fault.c
 *     plain     a second generator of schedules, written apart         plain.c
 *     stages    a model cut into stages, and a hostile member  stages*.c
 *     servers   nodes that elect servers when they lead, and a hostile member  servers.c, star_hostile.c
 *     alone     a node cut off from the others whose state is wrong   alone.c
 *     late      a node that runs late, or hears nothing, for a while   late.c
 *     slow      a member on a slow line, or that computes slowly  slow.c
 *     play      a scenario file, and how long its faults stop anybody  play.c
 *
 * A schedule is everything that follows from one seed. Safety is judged at every commit and adoption,
 * twice: the state must be the reference's, which was computed without any mesh; and its counters must
 * say that each shard of each round was added exactly once, which needs no reference. Memory is judged at every
 * send: what was handed over without a copy must still be the same when it leaves. At every tick nothing of a round
 * that is over may be kept. Liveness: some time after the last fault every running node has done all rounds. */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "mesh/core/core.h"
#include "tests/support/rand.h"
#include "tests/support/scenario.h"

enum {
    SIM_NODES_MAX = 8,
    SIM_LINKS_MAX = 2 * PROTO_PEERS_MAX,
    SIM_VECTOR_DRAWN = 200, /* without a wide bucket */
    SIM_WIDE_LEAST = 1024,  /* a whole block of compress/packed.h */
    SIM_WIDE_MOST = 2200,
    SIM_VECTOR_MAX = SIM_VECTOR_DRAWN + SIM_WIDE_MOST,
    SIM_BUCKETS_DRAWN = 5, /* without stages */
    SIM_BUCKETS_MAX = 11,
    SIM_STAGES_MAX = 5,
    SIM_ITEM_MAX = 24,    /* words of what a stage gives to a neighbour */
    SIM_WORDS_MAX = 16,   /* of 8 bytes: the state */
    SIM_COUNTERS_MAX = 8, /* words behind them: how often shards were added */
    SIM_FILES_MAX = 3,
    SIM_PAGE_WORDS_MAX = 8,
    SIM_PAGES_MAX = SIM_WORDS_MAX + SIM_COUNTERS_MAX,
    SIM_PLANS = 2, /* the last plans of a node that it may not take up again */
    SIM_ROUNDS_MAX = 1 << 16,
    SIM_FAR_US = 20000,   /* how much longer some ways are than others */
    SIM_FRAME_MAX = 3328, /* bytes of a message in either form: the coder's, or the struct */
    SIM_BODY_MAX = SIM_VECTOR_MAX * 4 + 512, /* a packed body has whole groups, and widths */
    SIM_LOG_MAX = 10496,
};

enum sim_fault {
    SIM_CRASH,        /* the kernel closes its connections: the others are told */
    SIM_CRASH_SILENT, /* power lost: nobody is told */
    SIM_RESTART,      /* with or without the state on disk */
    SIM_PAUSE,
    SIM_SPLIT,
    SIM_CUT, /* one direction between two nodes */
    SIM_HEAL,
    SIM_POWER, /* everybody crashes at once */
    SIM_MANY,  /* several crash at once */
    SIM_RESET, /* one connection breaks */
    SIM_SLOW,  /* what a node sends crawls for a while */
    SIM_FULL,  /* a disk takes nothing for a while */
    SIM_ROT,   /* the newest checkpoint of a node has a wrong bit */
    SIM_HANG,  /* a trainer does nothing for a while; its core goes on */
    SIM_MOVE,  /* two nodes swap their addresses */
    SIM_FLIP, /* the next state of a node has a wrong bit, and the hash is of that; with no other fault */
    SIM_USE, /* people begin to use a machine, or stop: in a quarter of the runs, beside the other faults */
    SIM_FAULTS,
};

/* Of a model cut into stages. */
struct sim_stages {
    struct core_stages core; /* its tables are the next two; count 0: it is not */
    struct core_cut cuts[SIM_BUCKETS_MAX];
    uint64_t cost[SIM_BUCKETS_MAX + 1];
    uint64_t rows_most; /* of a round */
    unsigned hostile;   /* this node, + 1, sends items that nobody should */
    bool parts;         /* nodes have room for parts of the model only: segments.c */
    uint64_t bytes[SIM_BUCKETS_MAX], room[SIM_NODES_MAX];
    struct core_span spans[SIM_BUCKETS_MAX + 2];
    /* With parts: a node that dies once it has come to a round, and comes back */
    struct {
        enum { SIM_NO_STRIKE, SIM_STRIKES, SIM_STRUCK, SIM_CAME_BACK } phase;
        unsigned node;
        uint64_t round, after_us, down_us;
        bool silent, disk, done; /* it was done when it died: the others may have left */
    } strike;
    uint64_t saves_from; /* the first round before which a state is saved */
};

/* How the network and the machines of this schedule behave. */
struct sim_profile {
    unsigned nodes, rounds, shards, buckets, words, counters;
    unsigned page_words; /* of a checkpoint; 0: no page is ever asked for */
    uint32_t chunk_elems;
    uint64_t direct_bytes;
    size_t block_size, log_size;
    struct core_bucket bucket[SIM_BUCKETS_MAX];
    size_t vector;
    uint64_t looks; /* from which it is drawn how numbers look; 0: all the same */
    size_t peers_min;
    uint64_t delay_us, jitter_us;
    unsigned late_permille; /* control messages held back for up to late_us */
    uint64_t late_us;
    unsigned copy_permille;    /* control messages delivered twice */
    unsigned loss_permille;    /* control messages lost */
    unsigned corrupt_permille; /* bulk bodies with a flipped bit */
    unsigned
        memory_permille; /* contributions and totals with one, which the ledger tells the trainer */
    unsigned header_permille;        /* bulk headers with one */
    bool bulk_wild;                  /* bulk messages overtake, repeat and vanish, too */
    bool both_cut;                   /* without its acknowledgements TCP delivers nothing, either */
    bool far;                        /* some ways are up to SIM_FAR_US longer than others */
    uint64_t audit_share;            /* as in core_config; 0: no claims bucket */
    unsigned servers[SIM_NODES_MAX]; /* as in core_config, of each node */
    unsigned liar;                   /* computes wrongly, SIM_NODES_MAX none */
    unsigned stranger;               /* this node is of another job, SIM_NODES_MAX none */
    struct sim_stages stages;
    unsigned hostile; /* this node, + 1, sends servers what no member sends; 0 none */
    bool hold_cut;    /* messages into a cut wait for its end, as in TCP, or are lost */
    bool leak;        /* messages to a dead process reach the one on its port */
    bool slow;        /* computing takes longer than the network's timeouts */
    bool seeds;       /* endpoints are given, no beacons */
    bool pins;        /* before some rounds shards must not change hands */
    bool even;        /* as in core_config */
    bool inexact;     /* sums depend on how the shards are divided: inexact.c */
    bool leave;       /* nodes leave once finished */
    bool gathers;     /* when all were lost at once, those who come back wait for one another */
    bool cuts_stay;   /* random one-way cuts after the last fault, for ever */
    uint64_t compute_us[SIM_NODES_MAX]; /* per shard */
    uint64_t line_bits[SIM_NODES_MAX];  /* per second, either way; 0 without limit */
    uint64_t pause_most_us;             /* of a node; 0: as it comes */
    uint64_t journal_us;                /* that a round may wait for the journals of all */
    uint64_t faults_end_us, deadline_us;
    unsigned fault_count;
    uint32_t fault_mask;
};

struct sim_state {
    uint64_t words[SIM_WORDS_MAX + SIM_COUNTERS_MAX];
};

struct sim_file {
    bool used;
    uint64_t round, check;
    uint64_t holds;   /* segments.c */
    uint64_t kept_us; /* since when it is on the disk */
    uint64_t page_check[SIM_PAGES_MAX];
    struct sim_state state;
};

/* As nn/checkpoint keeps it: a new file is complete before it counts, the last few stay, and what does
 * not match its check is passed over. */
struct sim_disk {
    struct sim_file files[SIM_FILES_MAX], writing;
    uint64_t written_us; /* when `writing` will be safe */
    bool full;
};

/* A page of a checkpoint: of which step, and of which round; 0: unknown. */
struct sim_page {
    uint64_t step, round, page_number;
};

/* A node asks for pages, and answers others; see repair.c. */
struct sim_repair {
    bool asks;
    bool known; /* which round the file is of */
    unsigned bad, next, peers;
    uint64_t step, began_us, asked_us, gained_us;
    struct sim_file file;
    struct sim_page want;
    bool reading; /* a page for another node */
    struct sim_page read;
    uint64_t slow_until;
};

/* What a node has asked another one for. */
struct sim_asked {
    uint64_t incarnation;
    uint64_t questions; /* a set of hashes */
};

enum sim_busy {
    SIM_FREE,
    SIM_REPAIRING,
    SIM_COMPUTING,
    SIM_COMMITTING,
    SIM_ADOPTING,
    SIM_PROBING,
    SIM_GOING_BACK,
    SIM_HOLDING,
    SIM_GROWING,
    SIM_STARTING
};

struct sim_link {
    bool open, up, bulk;
    bool broken;      /* at some byte, and nobody has noticed yet */
    unsigned address; /* dialled */
    unsigned to;      /* who had it when the link came up */
    uint64_t generation;
    uint64_t incarnation; /* of the process reached; 0 not yet */
    uint64_t fifo_us[2];  /* last arrival: control, bulk */
};

struct sim_node {
    unsigned index;
    bool up;
    uint64_t id; /* another one when it was started without a disk */
    uint64_t incarnation, paused_until;
    uint64_t hung_until;    /* its trainer */
    bool in_use;            /* its machine is */
    uint64_t stalled_until; /* what it takes in from the network */
    struct core *core;
    struct sim_link links[SIM_LINKS_MAX];
    int32_t own[SIM_VECTOR_MAX], sum[SIM_VECTOR_MAX];
    struct sim_state state, state_in, older;
    uint64_t older_round;
    bool older_valid;     /* `older` is what the state was made of */
    bool flip;            /* a bit of the next state is going to flip */
    bool strayed;         /* it did, where nobody could notice */
    uint64_t right_round; /* of its last right state */
    bool wrong;           /* it did, and nobody has noticed */
    /* + 1; the newest round before which each other one told it the right state, as long as that one says nothing
     * else */
    uint64_t told[SIM_NODES_MAX];
    uint64_t told_there; /* of any of them, when it had come there itself, */
    uint64_t task_told;  /* or when it began to adopt a state */
    uint64_t
        given_up; /* + 1; the round of a right state that it went back from, and has not got again; */
    unsigned given_up_flips; /* sim.state_flips then */
    uint8_t log[SIM_LOG_MAX];
    struct sim_disk disk;
    struct sim_repair repair;
    uint64_t round;
    uint64_t holds; /* segments of the model, of its state; 0: not chosen, or the model has none */
    enum sim_busy busy;
    uint64_t task_round, task_shards, task_hash, task_holds, task_parts[PROTO_STAGES_MAX];
    uint64_t gathered; /* of the last state, in the model's file */
    /* its shards in the plan of the round that it commits, and in that of the round before held_round; 0: none */
    uint64_t committing, held, held_round;
    /* where shards must not change hands: for which it has what it keeps from round to round, what it has computed of
     * this one, the round that it commits, + 1, and the state to go back to */
    uint64_t keeps[PROTO_STAGES_MAX], applies[PROTO_STAGES_MAX], computed, committing_from;
    uint64_t residual[PROTO_SHARDS_MAX]; /* of the shards of which it keeps a stage */
    struct sim_state span;
    uint64_t span_round;
    bool span_valid;
    bool claim_right;
    bool total_bad; /* the ledger does not agree with the total to be committed */
    bool lent;      /* the trainer has bucket lent_bucket of sum */
    bool marked;
    size_t lent_bucket;
    uint64_t lent_until;
    int32_t lent_copy[SIM_VECTOR_MAX];
    bool done, left, was_done; /* was_done: in an earlier life, too */
    uint64_t bits_per_s;       /* of what it sends; 0 without limit */
    uint64_t slow_until;
    uint64_t sent_us;      /* when its line is free again */
    uint64_t received_us;  /* the same the other way */
    uint64_t done_us;      /* when it had done all rounds, */
    uint64_t done_plans;   /* and in how many plans all nodes had been by then */
    uint64_t pace_round;   /* at the beginning of the watch's present second */
    uint64_t progress_us;  /* the last commit, adoption, start or end of a pause */
    uint64_t recovered_us; /* drill: from the fault to the next commit; 0 not yet, or SIM_WATCHES */
    unsigned kept;
    uint64_t plan;             /* hash of the present one, 0 none */
    uint64_t plans[SIM_PLANS]; /* the last ones, a ring */
    unsigned plan_count;
};

/* How the numbers of a sum are written on their way: bodies, blocks, groups; see compress/packed.h. */
enum sim_spelling {
    SIM_RAW,
    SIM_RICE,
    SIM_NO_BITS,
    SIM_8_BITS, /* at most */
    SIM_16_BITS,
    SIM_31_BITS,
    SIM_32_BITS,
    SIM_SPELLINGS,
};

struct sim_counts {
    uint64_t schedules, events, commits, adoptions, plans, aborts, virtual_us, bytes, audits,
        expulsions;
    uint64_t flips;           /* bits of bodies, headers, contributions, totals and states */
    uint64_t forgeries;       /* by hostile members */
    uint64_t staged, pieces;  /* schedules of models in stages, and what their nodes computed */
    uint64_t grown;           /* segments that nodes took later, beside what they held */
    uint64_t states, damages; /* of states; how often a node went back */
    uint64_t repairs, repaired, pages, nobodies;
    uint64_t astray; /* wrong states that others took */
    uint64_t strikes,
        begun_again; /* segments.c; nodes that went back to the first state as a part was lost */
    uint64_t limits; /* schedules that ended at the limit of comparing states */
    uint64_t faults[SIM_FAULTS];
    uint64_t spelled[SIM_SPELLINGS];
    uint64_t
        worst_us; /* a running node without a new round once the faults were over, beside a round */
    uint64_t digest; /* of all traces, in any order */
};

/* A scenario being played, and what was seen. */
struct sim_play {
    const struct scenario *scenario;
    size_t next;
    uint64_t met_us;     /* 0: not all have met */
    uint64_t changed_us; /* the last action */
    uint64_t joined_us;  /* when all who run were last in one plan */
    unsigned cuts, paused, slowed, loss_permille;
    uint64_t straggler_front; /* highest round when it began */
    uint64_t pace_us;         /* when the present second of peace began; 0 none */
    uint64_t lossy_us;        /* until then packets were lost not long ago */
    uint64_t alone_us; /* a round computed by one node; in a free way: what it computes at a time */
    uint64_t worst_gap_us, worst_join_us;
};

/* A quiet run with a slow member, or without it: how fast are the others? And one on slow lines, as it comes, with
 * equal shares, or with one node alone. */
enum sim_slow {
    SIM_SLOW_OFF,
    SIM_SLOW_PRESENT,
    SIM_SLOW_ABSENT,
    SIM_SLOW_LINES,
    SIM_SLOW_EVEN,
    SIM_SLOW_ALONE
};

#define SIM_WATCHES UINT64_MAX /* it did not take part, and is not timed */

/* A quiet run in which a node hears nothing for a while: its own processor is to blame, or its network. */
enum sim_late { SIM_LATE_OFF, SIM_LATE_STARVED, SIM_LATE_DEAF };

struct sim {
    const struct sim_engine *engine;
    struct rand rand;
    struct sim_profile profile;
    uint64_t planted; /* proto/mutant.h */
    bool verbose;
    bool followers_flip; /* states flip in nodes that follow others, too */
    bool many_flips;     /* all schedules are of flips, and have eight times as many */
    bool staged;         /* in all schedules the model is cut into stages */
    bool coded;          /* a codec begins after some rounds: core_state.warms */
    bool drill;          /* one fault in an otherwise quiet run: how long until the next commit? */
    enum sim_fault drill_kind;
    enum sim_slow slow;
    unsigned slow_node;
    enum sim_late late;
    unsigned late_node;
    struct {
        unsigned stages; /* 0: nothing of that */
        enum schedule_rule rule;
        unsigned node, piece; /* who is lost, and when: the number of its piece */
    } lost;                   /* in a quiet run in stages: stages_drill.c */
    bool alone;               /* a bit flips in a node that is cut off from the others */
    unsigned alone_node;
    uint64_t drill_at_us; /* when it happened */
    struct sim_play play; /* scenario NULL: none */
    uint64_t seed, now, trace;
    struct sim_node nodes[SIM_NODES_MAX];
    bool cut[SIM_NODES_MAX][SIM_NODES_MAX];
    struct sim_asked asked[SIM_NODES_MAX][SIM_NODES_MAX];
    unsigned address[SIM_NODES_MAX]; /* of each node, a permutation */
    bool faults_over;
    uint64_t fault_us; /* the last one */
    uint64_t over_us;  /* when */
    uint64_t chose_us; /* when a node was told last what to hold */
    /* since when no node that is up holds a segment; 0: one does */
    uint64_t lost_us[SIM_BUCKETS_MAX + 1];
    uint64_t flipped; /* bit t: a contribution to round t was damaged in memory */
    /* shards that a node had in the plan of the round before round % 64, in this life or an earlier one */
    uint64_t claimed[SIM_NODES_MAX][64];
    uint8_t moved[64];           /* chunks of round t whose range was changed on the way */
    struct sim_state *reference; /* [rounds + 1] */
    uint64_t *reference_sum;
    struct sim_state *astray; /* [rounds + 1], the last one that was wrong there, 0 none */
    unsigned state_flips;     /* of this schedule */
    uint64_t astray_since;    /* the round before which a bit of a state flipped last */
    uint64_t *liar_hash;      /* [rounds + 1], of its states; 0 none */
    uint64_t *liar_sum;       /* [rounds + 1], of what it commits */
    unsigned reference_room;
    bool failed;
    bool limit; /* the run ends: nobody is left who could know that a state is wrong */
    char failure[256];
    struct sim_counts counts;
    struct sim_queue *queue;
};

/* world.c */
struct sim *sim_new(void);                          /* with the engine rounds */
bool sim_engine(struct sim *sim, const char *name); /* false: there is none of this name */
const char *sim_engine_name(
    size_t k); /* of those that there are; NULL behind the last. The first is the default. */
void sim_destroy(struct sim **sim);
/* Run the schedule of `seed`. Returns true when nothing is wrong; else sim->failure says what. */
bool sim_run(struct sim *sim, uint64_t seed, uint64_t planted);
void sim_fail(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool sim_permille(struct sim *sim, unsigned permille);
/* Is it a schedule as they are drawn, no drill and no scenario? */
bool sim_is_drawn(const struct sim *sim);
/* Has one of the first `nodes` nodes a slow line? */
bool sim_lines_slow(const struct sim_profile *p, unsigned nodes);

enum sim_event_kind {
    SIM_TICK,
    SIM_BEACON,
    SIM_LINK_UP,
    SIM_LINK_DOWN,
    SIM_LEAVES,   /* a zero-copy body leaves the sender's memory */
    SIM_RETURNED, /* and the sender is told */
    SIM_ARRIVES,
    SIM_BUCKET,
    SIM_PIECE,
    SIM_APPLIED,
    SIM_REPAIR,    /* the next page is asked for */
    SIM_PAGE_READ, /* one was read for another node */
    SIM_READ,      /* the trainer has read the bucket it was lent */
    SIM_USED,      /* people begin or stop to use the machine */
    SIM_FAULT,
    SIM_FAULTS_OVER,
    SIM_ACTION, /* of a scenario */
    SIM_WATCH,
};

struct sim_event {
    uint64_t at, order;
    enum sim_event_kind kind;
    unsigned node;
    uint64_t incarnation; /* of the node; 0 whatever */
    uint64_t a, b;
    struct sim_message *message;
    bool deferred;
};

/* Do so many events wait that a real queue would be full, and its link closed? */
bool sim_is_crowded(const struct sim *sim);
/* `at` is absolute. Returns false when the queue is full, which is a failure of the schedule. */
void sim_push(struct sim *sim, uint64_t at, enum sim_event_kind kind, unsigned node, uint64_t a,
              uint64_t b, struct sim_message *message);
/* Walk over all waiting events. */
struct sim_event *sim_queued(struct sim *sim, size_t *count);

/* shell.c, network.c, links.c; the rest of them is in shell.h */
struct shell { /* of a node, the ctx of its core */
    struct sim *sim;
    struct sim_node *node;
};

struct sim_message {
    enum proto_type type;
    bool raw; /* the frame is the struct */
    size_t frame_size;
    uint8_t frame[SIM_FRAME_MAX];
    struct proto_node from;
    unsigned from_index, to, link;
    uint64_t generation;
    bool bulk, captured, dead, lost;
    const void *memory;
    uint64_t hash;
    uint64_t to_incarnation;
    size_t size;
    unsigned uses; /* events and keeps that hold it */
    uint8_t body[SIM_BODY_MAX];
    struct sim_message *next;
};

void shell_boot(struct sim *sim, unsigned node, bool disk);
void shell_crash(struct sim *sim, unsigned node, bool silent);
void shell_reset(struct sim *sim, unsigned node, unsigned link);
/* Nodes a and b swap their addresses; all their connections break. */
void shell_move(struct sim *sim, unsigned a, unsigned b);
void shell_event(struct sim *sim, const struct sim_event *event);
/* network.c */
void shell_message_free(struct sim_message *message);
void shell_end(void);

/* disk.c */
void sim_disk_write(struct sim *sim, struct sim_node *node);
void sim_disk_crash(struct sim *sim, struct sim_node *node);
/* Files from this round on are deleted. */
void sim_disk_withdraw(struct sim_node *node, uint64_t round);
/* Nothing is left of it. */
void sim_disk_clear(struct sim_node *node);
/* Flip a bit of the newest file. */
void sim_disk_rot(struct sim *sim, struct sim_node *node);
/* The newest file that can be trusted becomes the node's state, else the initial state. */
void sim_disk_load(struct sim *sim, struct sim_node *node);

/* repair.c */
unsigned repair_pages(const struct sim_profile *p);
/* Each page of a file that is about to be written gets its check. */
void repair_seal(const struct sim *sim, struct sim_file *file);
/* Is the newest file damaged? Then the node asks for its pages before it starts. */
bool repair_begin(struct sim *sim, struct sim_node *node);
void repair_step(struct sim *sim, struct sim_node *node);
void repair_page(struct sim *sim, struct sim_node *node, uint64_t round, const void *data,
                 size_t size);
void repair_want(struct sim *sim, struct sim_node *node, const struct sim_page *want);
void repair_read(struct sim *sim, struct sim_node *node);
/* A message of this node is on its way over this link: may it be? */
void repair_sent(struct sim *sim, const struct sim_node *from, const struct sim_link *link,
                 const struct proto_msg *msg);

/* numbers.c */
/* How numbers look in this schedule; in some of them a bucket is wide. */
void numbers_profile(struct sim *sim);
/* How the numbers of a bucket look in the round that follows a state; and the number of an element, by what the
 * gradient comes of. */
unsigned numbers_look(const struct sim_profile *p, const struct sim_state *state, size_t bucket);
int32_t numbers_of(unsigned look, uint64_t from, size_t element);
/* A bulk message is sent. */
void numbers_sent(struct sim *sim, const struct proto_msg *msg, const void *body);
const char *numbers_spelling(enum sim_spelling spelling);

/* audit.c */
void audit_profile(struct sim *sim, struct sim_profile *profile);
void audit_liar(struct sim *sim, struct sim_profile *profile);
/* Is this element the claim of a shard? */
bool audit_claim_of(const struct sim_profile *profile, size_t element, unsigned *shard);
void audit_lie(const struct sim *sim, struct sim_node *node, size_t bucket, size_t first_bucket);
void audit_judge(struct sim *sim, const struct sim_node *node, unsigned expulsions);

/* servers.c: who asks for how many servers. */
void servers_profile(struct sim *sim);

/* fault.c */
void fault_profile(struct sim *sim);
/* Does this node join late in the drill? */
bool fault_drill_late(const struct sim *sim, unsigned node);
/* What a round takes without those lost to this node, about: the part of a recovery that is work. */
uint64_t fault_drill_step_us(const struct sim *sim, unsigned node);
void fault_do(struct sim *sim, enum sim_fault kind);
void fault_over(struct sim *sim);
/* Something has happened after the last fault: from now on there is as much time as from there. */
void fault_deadline(struct sim *sim);
const char *fault_name(enum sim_fault kind);

/* quiet.c: what the next three have in common; the rest is 0. */
void quiet_profile(struct sim_profile *p, uint32_t vector);

/* slow.c */
void slow_profile(struct sim *sim);
bool slow_absent(const struct sim *sim, unsigned node);

/* alone.c */
void alone_profile(struct sim *sim);
void alone_cut(struct sim *sim);
bool alone_flips(const struct sim_node *node);

/* stages_drill.c: a node is lost at one of its pieces. */
void stages_drill_profile(struct sim *sim);

/* late.c */
void late_profile(struct sim *sim);
/* The node hears nothing, or runs for a moment: what comes next? */
void late_event(struct sim *sim);
void late_judge(struct sim *sim, const struct sim_node *node);

/* plain.c: every fourth seed is of this generator. */
bool plain_seed(const struct sim *sim);
void plain_profile(struct sim *sim);

/* play.c */
void play_profile(struct sim *sim);
void play_start(struct sim *sim);
void play_event(struct sim *sim, const struct sim_event *event);
/* A node has committed or adopted a round; in a free way: computed something. */
void play_progress(struct sim *sim, struct sim_node *node);

#endif

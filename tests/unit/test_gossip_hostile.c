/* test_gossip_hostile.c - members of a gossip mesh send what no node sends, over real sockets on loopback, while they
 * train: flows again, out of order, of unknown links, with weights that overflow, of other sizes, damaged; answers
 * that nobody asked for; ASKs about what never was. Their own cores go on as they should. So nothing of it may count:
 * at the end all have one result, and that is to the last unit the mean of all beginnings and updates. */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "mesh/core/gossip/gossip_internal.h"
#include "mesh/net/actor.h"
#include "tests/support/gossip_setup.h"
#include "tests/support/made_up.h"
#include "tests/support/test.h"

enum {
    NODES = 4,
    COUNT = 60,
    RANGES = (COUNT + GOSSIP_SETUP_CHUNK - 1) / GOSSIP_SETUP_CHUNK,
    STEPS = 100,
    SILENT_FROM = 20, /* steps of its own */
    SILENT_UNTIL = 60,
    COMPUTE_US = 1000, /* so long computes a node */
    DEADLINE_S = 300,  /* far beyond what anything here takes: only a hang ends there */
};

static struct made_up_meeting meeting = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

struct way {
    const char *name;
    enum gossip_kind graph;
    bool push_sum, async;
    const struct codec *codec;
    bool silent; /* the first node tells no lies, and nothing else, for a while */
};

struct node {
    unsigned index;
    const struct way *way;
    struct mesh *mesh;
    struct gossip_config gossip;
    struct core_bucket bucket;
    pthread_t thread;
    int64_t added[COUNT]; /* the beginning and all updates */
    int32_t result[COUNT];
    atomic_uint whole;  /* means of all nodes that this one has made */
    atomic_uint broken; /* means of fewer, flows that were lost, copies that were adopted */
    uint64_t draw;
    unsigned steps;
    unsigned sent[16];   /* of each kind of message */
    atomic_uint damaged; /* lines about it */
    struct {
        uint64_t words[COUNT]; /* memory for state_in */
    } state;
};

static void
log_line(void *ctx, int level, const char *line)
{
    struct node *node = ctx;
    (void)level;
    if (strstr(line, "came damaged"))
        atomic_fetch_add(&node->damaged, 1);
}

/* --- What no node sends --------------------------------------------------------------------------- */

static uint64_t
draw(struct node *node)
{
    return node->draw = mix64(node->draw);
}

enum kind {
    /* just before the flow that was asked for, with its number and other values: */
    HEAVY,   /* a weight that overflows, or any where there are none */
    SHORT,   /* without its last value */
    LONG,    /* with a value more */
    DAMAGED, /* without its check */
    GHOST,   /* for another process */
    STRANGE, /* of another link */
    /* at any time: */
    AGAIN,      /* a flow that was taken long ago */
    AHEAD,      /* one that was not asked for */
    RANGELESS,  /* of a range that there is not */
    UNASKED,    /* a block of a copy, of the mean or of the result */
    LATE_VOID,  /* what was given before is said to be void */
    ASK_FAR,    /* for a number far ahead */
    ASK_NONE,   /* for number 0, or range 1,048,575 */
    ASK_PAST,   /* of a link before this one */
    ASK_SETTLE, /* what became of one that never was */
    ASK_TAKEN,  /* one that was not given was taken */
    KINDS,
};

static void
forge_flow(struct node *node, enum kind kind, const struct gossip_link *link,
           struct proto_flow *flow, size_t *count)
{
    uint64_t given = link->give.number;
    flow->link = link->theirs;
    flow->number = given;
    if (kind == AGAIN || kind == LATE_VOID)
        flow->number = given > GOSSIP_WINDOW ? given - GOSSIP_WINDOW : 0;
    if (kind == AHEAD)
        flow->number = given + 2 + draw(node) % 1000;
    if (kind == STRANGE)
        flow->link += 1 + draw(node) % 1000;
    if (kind == HEAVY)
        flow->weight = node->way->push_sum ? PROTO_ROUND_MAX : 1;
    if (kind == SHORT || kind == LONG)
        *count += kind == LONG ? 1 : (size_t)-1;
    if (kind == RANGELESS)
        flow->range = draw(node) % 2 ? RANGES : PROTO_RANGES_MAX - 1;
    if (kind == GHOST)
        flow->to ^= 1;
    if (kind == LATE_VOID) {
        flow->kind = PROTO_FLOW_VOID;
        *count = 0;
    }
}

static void
forge_ask(struct node *node, enum kind kind, const struct gossip_link *link, struct proto_ask *ask)
{
    static const enum proto_ask_kind next[3] = {PROTO_ASK_VALUES, PROTO_ASK_SHARE,
                                                PROTO_ASK_CHANGES};
    ask->kind = (uint16_t)next[draw(node) % 3];
    ask->link = link->mine;
    ask->number = link->take.asked + 3 + draw(node) % 1000;
    if (kind == ASK_FAR && draw(node) % 2)
        ask->number = PROTO_ROUND_MAX;
    if (kind == ASK_NONE && draw(node) % 2)
        ask->number = 0;
    else if (kind == ASK_NONE)
        ask->range = PROTO_RANGES_MAX - 1;
    if (kind == ASK_PAST)
        ask->link = ask->link > 1 ? ask->link - 1 : 0;
    if (kind == ASK_SETTLE)
        ask->kind = PROTO_ASK_SETTLE;
    if (kind == ASK_TAKEN)
        ask->kind = PROTO_ASK_TAKEN;
}

static const int32_t forged[COUNT] = {1 << 30, -(1 << 30), 12345, [15] = INT32_MAX};

static void
send_block(struct node *node, int i, uint32_t range, size_t count)
{
    const struct core *core = node->mesh->core;
    const struct proto_give give = {.object = (uint16_t)(PROTO_OBJECT_VALUES + draw(node) % 3),
                                    .round = 1 + draw(node) % 1000,
                                    .label = draw(node) % 2 ? core->config.self.id
                                                            : core->gossip.plan.hash,
                                    .block = range + draw(node) % NODES * RANGES,
                                    .commit = GOSSIP_ONE};
    struct proto_msg msg = {.type = PROTO_GIVE, .give = give};
    msg.give.check = transfer_check(&give, 0, forged, count * sizeof *forged);
    peers_send_bulk(core, i, &msg, forged, count * sizeof *forged);
}

static void
send_one(struct node *node, int i, const struct gossip_link *link, enum kind kind, uint32_t range)
{
    const struct core *core = node->mesh->core;
    size_t count = gossip_range_elems(&core->config, range);
    struct proto_msg msg = {.type = kind < ASK_FAR ? PROTO_FLOW : PROTO_ASK};
    if (kind < ASK_FAR) {
        msg.flow = (struct proto_flow){.to = link->node.incarnation, .range = range};
        forge_flow(node, kind, link, &msg.flow, &count);
    } else if (link->take.number > 0) { /* else the other end does not know the link */
        msg.ask = (struct proto_ask){.to = link->node.incarnation, .range = range};
        forge_ask(node, kind, link, &msg.ask);
    }
    if ((msg.type == PROTO_FLOW ? msg.flow.link : msg.ask.link) == 0)
        return; /* there is no such link yet */
    bool unpacked = node->way->codec && (kind == SHORT || kind == LONG);
    node->sent[kind]++;
    if (kind == UNASKED) {
        send_block(node, i, range, count);
        return;
    }
    if (unpacked)
        msg.flow.check = gossip_link_check(&msg, forged, count);
    if (kind == DAMAGED || unpacked)
        peers_send_bulk(core, i, &msg, forged, count * sizeof *forged); /* without its check */
    else
        gossip_link_post(core, link, &msg, count ? forged : NULL, count);
}

/* To each peer with which it has exchanged something. */
static void
harass(struct node *node)
{
    pthread_mutex_lock(&node->mesh->lock);
    const struct core *core = node->mesh->core;
    const struct gossip_links *links = &core->gossip.links;
    for (int l = 0; l < GOSSIP_LINKS; l++) {
        int i = links->of[l].node.id ? peers_find(core, links->of[l].node) : -1;
        for (int k = 0; k < 4 && i >= 0; k++)
            if (core->peers.peers[i].state == PEER_UP && core->peers.peers[i].announced)
                send_one(node, i, &links->of[l], (enum kind)(AGAIN + draw(node) % (KINDS - AGAIN)),
                         (uint32_t)(draw(node) % RANGES));
    }
    pthread_mutex_unlock(&node->mesh->lock);
}

/* A flow was given, and is about to be sent. */
static void
forestall(struct node *node, const struct gossip_note *note)
{
    const struct core *core = node->mesh->core;
    const struct gossip_links *links = &core->gossip.links;
    int i = peers_find(core, note->peer);
    for (int l = 0; l < GOSSIP_LINKS; l++)
        if (i >= 0 && proto_node_equal(links->of[l].node, note->peer) &&
            core->peers.peers[i].state == PEER_UP && core->peers.peers[i].announced)
            send_one(node, i, &links->of[l], (enum kind)(draw(node) % AGAIN), note->range);
}

static void
on_note(void *ctx, const struct gossip_note *note)
{
    struct node *node = ctx;
    if (note->event == GOSSIP_GAVE && !node->way->silent)
        forestall(node, note);
    bool mean = note->event == GOSSIP_MEAN;
    bool all = mean && node->mesh->core->gossip.plan.now.count == NODES;
    if (all)
        atomic_fetch_add(&node->whole, 1);
    else if (mean || note->event == GOSSIP_LOST || note->event == GOSSIP_ADOPTED)
        atomic_fetch_add(&node->broken, 1);
}

static const struct gossip_keeper keeper = {.note = on_note};

/* --- Nodes ---------------------------------------------------------------------------------------- */

static void
add(struct node *node, int32_t *own, uint64_t seed)
{
    for (size_t k = 0; k < COUNT; k++) {
        own[k] = made_up_value(seed, k);
        node->added[k] += own[k];
    }
}

static void
swallow(void *ctx, unsigned link, const struct proto_msg *msg, const void *body, size_t size,
        bool lent)
{
    (void)ctx, (void)link, (void)msg, (void)body, (void)size;
    assert(!lent);
}

/* Its heartbeats go on, and no flow, no ASK and no copy leaves it, until it has done some more steps. */
static void
be_silent(struct node *node)
{
    static const struct core_wire *real;
    static struct core_wire silent;
    pthread_mutex_lock(&node->mesh->lock);
    struct core *core = node->mesh->core;
    if (node->steps == SILENT_FROM) {
        real = core->config.wire;
        silent = *real;
        silent.send_bulk = swallow;
        core->config.wire = &silent;
    } else if (node->steps == SILENT_UNTIL) {
        core->config.wire = real;
    }
    node->steps++;
    pthread_mutex_unlock(&node->mesh->lock);
}

static void
compute(struct node *node, const struct mesh_task *task)
{
    const struct timespec while_computing = {.tv_nsec = COMPUTE_US * 1000};
    if (node->way->silent && node->index == 0)
        be_silent(node);
    if (task->round == 0)
        made_up_meet(&meeting, NODES);
    if (!node->way->silent)
        harass(node);
    nanosleep(&while_computing, NULL);
    add(node, mesh_own(node->mesh), mix64_pair(node->index, task->round));
    mesh_bucket(node->mesh, 0);
}

static void
finish(struct node *node)
{
    memcpy(node->result, mesh_sum(node->mesh), sizeof node->result);
    uint64_t hash = made_up_hash(node->result, COUNT);
    mesh_state(node->mesh, &node->state,
               &(struct core_state){.round = STEPS, .hash = hash, .done = true});
}

static void *
train(void *arg)
{
    struct node *node = arg;
    struct mesh_task task = {.kind = MESH_IDLE};
    add(node, mesh_own(node->mesh), 0);
    mesh_state(node->mesh, &node->state, &(struct core_state){.hash = 1});
    while (task.kind != MESH_DONE) {
        mesh_next(node->mesh, &task);
        if (task.kind == MESH_COMPUTE)
            compute(node, &task);
        else if (task.kind == MESH_COMMIT)
            finish(node);
    }
    return NULL;
}

static void
start(struct node *node, unsigned index, const struct way *way, const char *group)
{
    struct why why = {""};
    *node = (struct node){.index = index,
                          .way = way,
                          .bucket = {0, COUNT},
                          .draw = 77 + index,
                          .gossip = {.keeper = &keeper,
                                     .keeper_ctx = node,
                                     .graph = way->graph,
                                     .push_sum = way->push_sum,
                                     .async = way->async,
                                     .codec = way->codec,
                                     .steps = STEPS,
                                     .count = COUNT}};
    struct mesh_setup setup =
        gossip_setup(group, NODES, &node->bucket, &node->gossip, sizeof node->state);
    setup.program.log = log_line;
    setup.ctx = node;
    if (mesh_new(&node->mesh, &setup, &why) != 0)
        fail_msg("mesh_new: %s", why.line);
    if (pthread_create(&node->thread, NULL, train, node) != 0)
        abort();
}

static struct node nodes[NODES];

/* --- What must hold ------------------------------------------------------------------------------- */

static void
check_mean(void)
{
    for (size_t k = 0; k < COUNT; k++) {
        int64_t sum = 0;
        for (unsigned i = 0; i < NODES; i++)
            sum += nodes[i].added[k];
        assert_int_equal(nodes[0].result[k], gossip_flow_ratio(sum, NODES * GOSSIP_ONE));
    }
}

/* All have one result. */
static void
train_all(const struct way *way)
{
    char group[32];
    snprintf(group, sizeof group, "hostile-%d-%s", (int)getpid(), way->name);
    meeting.here = 0;
    alarm(DEADLINE_S);
    for (unsigned i = 0; i < NODES; i++)
        start(&nodes[i], i, way, group);
    for (unsigned i = 0; i < NODES; i++)
        pthread_join(nodes[i].thread, NULL);
    for (unsigned i = 1; i < NODES; i++)
        assert_memory_equal(nodes[i].result, nodes[0].result, sizeof nodes[0].result);
}

static void
run(const struct way *way)
{
    unsigned broken = 0, damaged = 0, means = 0;
    train_all(way);
    for (unsigned i = 0; i < NODES; i++) {
        means += atomic_load(&nodes[i].whole);
        broken += atomic_load(&nodes[i].broken);
        damaged += atomic_load(&nodes[i].damaged);
        mesh_destroy(&nodes[i].mesh);
    }
    alarm(0);
    assert_true(damaged > 0);
    bool whole = means == 1 && broken == 0; /* on a busy machine a node may be away for a while */
    print_message("%s: %s\n", way->name, whole ? "the exact mean" : "members were away");
    if (whole)
        check_mean();
    for (unsigned k = 0, sent = 0; k < KINDS; k++, sent = 0) {
        for (unsigned i = 0; i < NODES; i++)
            sent += nodes[i].sent[k];
        assert_true(sent > 0);
    }
}

TEST(averaging_in_phases_takes_nothing_forged)
{
    run(&(struct way){"bsp", GOSSIP_RING, false, false, NULL, false});
}

TEST(averaging_in_pairs_takes_nothing_forged)
{
    run(&(struct way){"async", GOSSIP_RANDOM, false, true, NULL, false});
}

TEST(public_copies_take_nothing_forged)
{
    run(&(struct way){"bsp-topk", GOSSIP_RING, false, false, codec_of(CODEC_topk), false});
    run(&(struct way){"async-topk", GOSSIP_RANDOM, false, true, codec_of(CODEC_topk), false});
}

TEST(push_sum_takes_nothing_forged)
{
    run(&(struct way){"push-sum", GOSSIP_EXPONENTIAL, true, false, NULL, false});
}

/* Before, its neighbours waited for ever. It goes on alone until it speaks again, and then has the others' result. */
TEST(who_stays_and_does_not_answer_is_left_out)
{
    const struct way ways[] = {{"silent-ring", GOSSIP_RING, false, false, NULL, true},
                               {"silent-pairs", GOSSIP_RANDOM, false, true, NULL, true},
                               {"silent-sum", GOSSIP_EXPONENTIAL, true, false, NULL, true}};
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
        train_all(&ways[k]);
        for (unsigned i = 0; i < NODES; i++)
            mesh_destroy(&nodes[i].mesh);
        alarm(0);
    }
}

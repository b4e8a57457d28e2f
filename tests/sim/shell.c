/* shell.c - what mesh/net/actor.c is for a real node, over a virtual network.
 *
 * A link is a pair of TCP connections (control, bulk) to a process. Each keeps its order unless the
 * profile says otherwise; what is sent into a cut waits for its end or is lost. A body sent without a
 * copy leaves the sender's memory some time before it arrives (SIM_LEAVES); until then it must not
 * change, and that is checked. The process at the other end may have been replaced meanwhile: then the
 * connection breaks, or, as ZeroMQ's reconnecting sockets do, the message reaches the new process. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/mix.h"
#include "tests/sim/sim.h"

enum {
    CONNECT_US = 400000, /* what actor_wire_link.c gives a connection to come up */
    BEACON_US = 250000,  /* as in discover.c */
};

static struct sim_message *spare; /* messages are reused */

static struct sim_message *
message_new(void)
{
    struct sim_message *message = spare;
    if (message)
        spare = message->next;
    else
        message = malloc(sizeof *message);
    if (!message)
        abort();
    message->uses = 1;
    message->captured = false;
    message->dead = false;
    message->lost = false;
    return message;
}

void
shell_message_free(struct sim_message *message)
{
    if (!message || --message->uses > 0)
        return;
    message->next = spare;
    spare = message;
}

void
shell_end(void)
{
    while (spare) {
        struct sim_message *next = spare->next;
        free(spare);
        spare = next;
    }
}

/* Does nothing sent by `from` reach `to`? */
static bool
is_cut(const struct sim *sim, unsigned from, unsigned to)
{
    return sim->cut[from][to] || (sim->profile.both_cut && sim->cut[to][from]);
}

/* How much longer than others the way from a to b is. */
static uint64_t
way(const struct sim *sim, unsigned a, unsigned b)
{
    return sim->profile.far ? mix64(sim->seed + 64 * a + b) % SIM_FAR_US : 0;
}

static uint64_t
delay(struct sim *sim)
{
    return sim->profile.delay_us + rand_below(&sim->rand, sim->profile.jitter_us + 1);
}

static uint64_t
bytes_hash(const void *bytes, size_t size)
{
    uint64_t hash = size;
    const uint8_t *p = bytes;
    for (size_t k = 0; k < size; k++)
        hash = (hash ^ p[k]) * 0x100000001b3u;
    return mix64(hash);
}

/* --- What the core asks for -------------------------------------------------------------------- */

struct shell {
    struct sim *sim;
    struct sim_node *node;
};

static struct shell shells[SIM_NODES_MAX];

static const char *const hosts[SIM_NODES_MAX] = {"10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3",
                                                 "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7"};

/* The node that has this address now. */
static unsigned
holder(const struct sim *sim, unsigned address)
{
    unsigned i = 0;
    while (sim->address[i] != address)
        i++;
    return i;
}

static void
on_connect(void *ctx, unsigned link, const struct proto_endpoint *to)
{
    struct shell *shell = ctx;
    struct sim_link *l = &shell->node->links[link];
    unsigned address = 0;
    while (address < shell->sim->profile.nodes && strcmp(to->host, hosts[address]) != 0)
        address++;
    if (l->open || address == shell->sim->profile.nodes) {
        sim_fail(shell->sim, "node %u: link %u opened twice or to nowhere", shell->node->index,
                 link);
        return;
    }
    uint64_t generation = l->generation + 1;
    *l = (struct sim_link){.open = true,
                           .address = address,
                           .to = holder(shell->sim, address),
                           .generation = generation};
    sim_push(shell->sim, shell->sim->now + 2 * delay(shell->sim), SIM_LINK_UP, shell->node->index,
             link, generation, NULL);
}

/* Bodies that have not left yet never will; their memory is free. */
static void
link_close(struct sim *sim, struct sim_node *node, unsigned link)
{
    struct sim_link *l = &node->links[link];
    if (!l->open) {
        sim_fail(sim, "node %u: link %u closed twice", node->index, link);
        return;
    }
    l->open = l->up = l->bulk = false;
    size_t count;
    struct sim_event *events = sim_queued(sim, &count);
    for (size_t k = 0; k < count; k++) {
        struct sim_message *m = events[k].message;
        if (!m || events[k].kind != SIM_LEAVES || m->from_index != node->index ||
            events[k].incarnation != node->incarnation || m->link != link || m->dead)
            continue;
        m->dead = true;
        events[k].message = NULL; /* now only the return of the memory */
        shell_message_free(m);
        sim_push(sim, sim->now + rand_below(&sim->rand, 200), SIM_RETURNED, node->index, 0, 0,
                 NULL);
        events = sim_queued(sim, &count);
    }
}

static void
on_disconnect(void *ctx, unsigned link)
{
    struct shell *shell = ctx;
    link_close(shell->sim, shell->node, link);
}

static void
on_peer_up(void *ctx, unsigned link, struct proto_node node, const struct proto_hello *hello)
{
    struct shell *shell = ctx;
    (void)node;
    struct sim_link *l = &shell->node->links[link];
    if (!l->open || !l->up || l->bulk || hello->bulk_port != 30000u + l->to)
        sim_fail(shell->sim, "node %u: peer up on a link that is not", shell->node->index);
    if ((l->to == shell->sim->profile.stranger) !=
        (shell->node->index == shell->sim->profile.stranger))
        sim_fail(shell->sim, "node %u: accepted a peer of another job", shell->node->index);
    l->bulk = true;
}

static void
on_peer_down(void *ctx, unsigned link, struct proto_node node)
{
    struct shell *shell = ctx;
    (void)node;
    if (!shell->node->links[link].bulk)
        sim_fail(shell->sim, "node %u: peer down that was not up", shell->node->index);
    link_close(shell->sim, shell->node, link);
}

/* A header goes over the network as the bytes of proto/msg.c. Only of a planted bug some go as they are: the encoder
 * asserts what plans and sums may say, and those must be found by what comes of them. */
static void
header_pack(struct sim *sim, struct sim_message *m, const struct proto_msg *msg)
{
    static uint8_t frame[PROTO_FRAME_MAX];
    m->type = msg->type;
    m->raw = sim->mutant &&
             (msg->type == PROTO_PLAN || msg->type == PROTO_REDUCE || msg->type == PROTO_GATHER);
    m->frame_size = m->raw ? sizeof *msg : proto_encode(msg, frame);
    if (m->frame_size > sizeof m->frame)
        sim_fail(sim, "%s has %zu bytes", proto_type_name(msg->type), m->frame_size);
    else
        memcpy(m->frame, m->raw ? (const void *)msg : frame, m->frame_size);
}

/* What stays valid until the next one is unpacked; NULL when the decoder refuses it. */
static struct proto_msg *
header_unpack(struct sim *sim, const struct sim_message *m)
{
    static struct proto_msg msg;
    static struct proto_endpoint endpoints[PROTO_PEERS_MAX];
    struct why why = {""};
    if (m->raw) {
        memcpy(&msg, m->frame, sizeof msg);
        return &msg;
    }
    if (proto_decode(&msg, endpoints, m->frame, m->frame_size, &why) == 0)
        return &msg;
    sim_fail(sim, "node %u: %s refused: %s", m->from_index, proto_type_name(m->type), why.line);
    return NULL;
}

static struct sim_message *
message_make(struct shell *shell, unsigned link, const struct proto_msg *msg, size_t size)
{
    const struct sim_link *l = &shell->node->links[link];
    struct sim_message *m = message_new();
    header_pack(shell->sim, m, msg);
    m->from = (struct proto_node){shell->node->id, shell->node->incarnation};
    m->from_index = shell->node->index;
    m->to = l->to;
    m->to_incarnation = l->incarnation;
    m->link = link;
    m->generation = l->generation;
    m->lost = l->broken && rand_bool(&shell->sim->rand);
    m->size = size;
    shell->sim->counts.bytes += size;
    return m;
}

static uint64_t
line_take(uint64_t *free_us, uint64_t at, uint64_t bits, size_t size)
{
    uint64_t begin_us = *free_us > at ? *free_us : at;
    *free_us = begin_us + (size + 100) * 8 * 1000000 / bits;
    return *free_us;
}

/* When the last bit of a message is on its way; a header is taken for 100 bytes. */
static uint64_t
line_free(struct sim *sim, struct sim_node *from, size_t size)
{
    bool slowed = from->bits_per_s > 0 && !(from->slow_until && from->slow_until < sim->now);
    uint64_t bits = slowed ? from->bits_per_s : sim->profile.line_bits[from->index];
    return bits ? line_take(&from->sent_us, sim->now, bits, size) : sim->now;
}

/* When the last bit of a message that comes at `at` has come through the line of who receives it. */
static uint64_t
line_received(struct sim *sim, struct sim_node *to, uint64_t at, size_t size)
{
    uint64_t bits = sim->profile.line_bits[to->index];
    return bits ? line_take(&to->received_us, at, bits, size) : at;
}

/* A lost packet costs TCP a round trip when others follow it, else its time-out. */
static uint64_t
retransmission(struct sim *sim)
{
    if (!sim_permille(sim, sim->play.loss_permille))
        return 0;
    return rand_below(&sim->rand, 4) ? 2 * delay(sim) : 200000 + rand_below(&sim->rand, 100000);
}

/* When a message sent now on this connection arrives; in order unless it may overtake. */
static uint64_t
arrival(struct sim *sim, struct sim_node *from, struct sim_link *link, int stream, bool ordered,
        size_t size)
{
    uint64_t at = line_free(sim, from, size) + 1 + delay(sim) + retransmission(sim) +
                  way(sim, from->index, link->to);
    at = line_received(sim, &sim->nodes[link->to], at, size);
    if (!ordered)
        return at;
    if (at <= link->fifo_us[stream])
        at = link->fifo_us[stream] + 1;
    link->fifo_us[stream] = at;
    return at;
}

static void
on_send(void *ctx, unsigned link, const struct proto_msg *msg, const void *body, size_t body_size)
{
    struct shell *shell = ctx;
    struct sim *sim = shell->sim;
    struct sim_link *l = &shell->node->links[link];
    (void)body;
    if (!l->open || !l->up || body_size != 0) {
        sim_fail(sim, "node %u: %s on a link that is not up", shell->node->index,
                 proto_type_name(msg->type));
        return;
    }
    repair_sent(sim, shell->node, l, msg);
    if (!sim->faults_over && sim_permille(sim, sim->profile.loss_permille))
        return;
    struct sim_message *m = message_make(shell, link, msg, 0);
    m->bulk = false;
    uint64_t at = arrival(sim, shell->node, l, 0, true, 0);
    if (!sim->faults_over && sim_permille(sim, sim->profile.late_permille))
        at += rand_below(&sim->rand, sim->profile.late_us + 1);
    sim_push(sim, at, SIM_ARRIVES, m->to, 0, 0, m);
    if (!sim->faults_over && sim_permille(sim, sim->profile.copy_permille)) {
        m->uses++;
        sim_push(sim, at + rand_below(&sim->rand, sim->profile.late_us + 1), SIM_ARRIVES, m->to, 0,
                 0, m);
    }
}

/* One bit of what a chunk says of itself. Its count is that of the body, which is checked on the wire; what
 * the decoder refuses never arrives. */
/* A chunk is taken for another one. */
static void
first_flip(struct sim *sim, struct proto_chunk *chunk, uint64_t bits)
{
    chunk->first ^= 1ull << rand_below(&sim->rand, bits);
    if (chunk->round < sizeof sim->moved && sim->moved[chunk->round] < UINT8_MAX)
        sim->moved[chunk->round]++;
}

static void
header_flip(struct sim *sim, struct sim_message *m)
{
    struct proto_msg *msg = header_unpack(sim, m);
    if (!msg)
        return;
    struct proto_chunk *chunk = &msg->chunk;
    sim->counts.flips++;
    switch (rand_below(&sim->rand, 12)) {
    case 0:
        chunk->plan_hash ^= 1ull << rand_below(&sim->rand, 64);
        break;
    case 1:
        chunk->round ^= 1ull << rand_below(&sim->rand, 2);
        break;
    case 2:
        chunk->bucket ^= (uint16_t)(1u << rand_below(&sim->rand, 3));
        break;
    case 3:
        chunk->hop ^= (uint16_t)(1u << rand_below(&sim->rand, 3));
        break;
    case 4:
        chunk->direct = !chunk->direct;
        break;
    case 5:
        first_flip(sim, chunk, 8);
        break;
    case 6:
        chunk->coverage ^= 1ull << rand_below(&sim->rand, sim->profile.shards);
        break;
    case 7:
        chunk->check ^= 1ull << rand_below(&sim->rand, 61);
        break;
    default: /* the most dangerous one */
        first_flip(sim, chunk, 6);
        break;
    }
    if (m->type == PROTO_GATHER &&
        (chunk->direct || (chunk->coverage & (chunk->coverage + 1)) || chunk->coverage == 0))
        m->lost = true;
    else
        header_pack(sim, m, msg);
}

/* A bulk message is on its way: its bits may flip, it may vanish or come twice. Takes over one use of it. */
static void
depart(struct sim *sim, struct sim_message *m, uint64_t at)
{
    const struct sim_profile *p = &sim->profile;
    bool wild = p->bulk_wild && !sim->faults_over;
    if (m->lost || (wild && sim_permille(sim, 5))) {
        shell_message_free(m);
        return;
    }
    if (!sim->faults_over && m->size > 0 && sim_permille(sim, p->corrupt_permille)) {
        size_t byte = rand_below(&sim->rand, m->size);
        m->body[byte] ^= (uint8_t)(1u << rand_below(&sim->rand, 8));
        sim->counts.flips++;
    }
    bool chunk = m->type == PROTO_REDUCE || m->type == PROTO_GATHER;
    if (!sim->faults_over && chunk && sim_permille(sim, p->header_permille))
        header_flip(sim, m);
    if (wild && sim_permille(sim, 10)) {
        struct sim_message *twin = message_new();
        *twin = *m;
        twin->uses = 1;
        sim_push(sim, at + rand_below(&sim->rand, 300000), SIM_ARRIVES, m->to, 0, 0, twin);
    }
    sim_push(sim, at, SIM_ARRIVES, m->to, 0, 0, m);
}

static void
on_send_bulk(void *ctx, unsigned link, const struct proto_msg *msg, const void *body, size_t size,
             bool lent)
{
    struct shell *shell = ctx;
    struct sim *sim = shell->sim;
    struct sim_link *l = &shell->node->links[link];
    if (!l->open || !l->bulk || size > SIM_BODY_MAX) {
        sim_fail(sim, "node %u: %s to a peer that is not up", shell->node->index,
                 proto_type_name(msg->type));
        return;
    }
    repair_sent(sim, shell->node, l, msg);
    struct sim_message *m = message_make(shell, link, msg, size);
    m->bulk = true;
    uint64_t arrives =
        arrival(sim, shell->node, l, 1, !sim->profile.bulk_wild || sim->faults_over, size);
    if (!lent) {
        m->captured = true;
        memcpy(m->body, body, size);
        depart(sim, m, arrives);
        return;
    }
    m->memory = body;
    m->hash = bytes_hash(body, size);
    uint64_t leaves = sim->now + 1 + rand_below(&sim->rand, arrives - sim->now);
    sim_push(sim, leaves, SIM_LEAVES, shell->node->index, arrives, 0, m);
}

/* Nobody may look at what was passed on. */
static void
on_pass_on(void *ctx, unsigned link, const struct proto_msg *msg, struct core_frame *frame)
{
    on_send_bulk(ctx, link, msg, frame->data, frame->size, false);
    memset(frame->data, 0x5a, frame->size);
}

static void
on_keep(void *ctx, struct core_frame *frame)
{
    struct shell *shell = ctx;
    struct sim_message *m = frame->handle;
    m->uses++;
    shell->node->kept++;
}

static void
on_release(void *ctx, void *handle)
{
    struct shell *shell = ctx;
    shell->node->kept--;
    shell_message_free(handle);
}

static void
on_compute(void *ctx, uint64_t round, uint64_t shards, bool fresh)
{
    struct shell *shell = ctx;
    trainer_compute(shell->sim, shell->node, round, shards, fresh);
}

static void
on_commit(void *ctx, uint64_t round)
{
    struct shell *shell = ctx;
    trainer_commit(shell->sim, shell->node, round);
}

static void
on_adopt(void *ctx, uint64_t round, uint64_t hash)
{
    struct shell *shell = ctx;
    trainer_adopt(shell->sim, shell->node, round, hash);
}

static void
on_audit(void *ctx, uint64_t round, uint64_t shard, const int32_t *claim, size_t words)
{
    struct shell *shell = ctx;
    if (words != 1)
        sim_fail(shell->sim, "a claim of %zu words", words);
    trainer_audit(shell->sim, shell->node, round, shard, *claim);
}

static void
on_back(void *ctx, uint64_t round)
{
    struct shell *shell = ctx;
    trainer_back(shell->sim, shell->node, round);
}

static const uint8_t *
on_state(void *ctx)
{
    struct shell *shell = ctx;
    if (shell->node->busy == SIM_COMMITTING || shell->node->busy == SIM_ADOPTING ||
        shell->node->busy == SIM_GOING_BACK)
        sim_fail(shell->sim, "node %u: state read while it changes", shell->node->index);
    return (const uint8_t *)&shell->node->state;
}

static const char *
on_job(void *ctx)
{
    (void)ctx;
    return NULL;
}

static void
on_job_offered(void *ctx, const char *from, const char *text, size_t size)
{
    (void)from;
    struct shell *shell = ctx;
    (void)text;
    (void)size;
    sim_fail(shell->sim, "a job nobody asked for");
}

static void
on_page(void *ctx, uint64_t round, const void *data, size_t size)
{
    struct shell *shell = ctx;
    repair_page(shell->sim, shell->node, round, data, size);
}

static void
on_want(void *ctx, uint64_t step, uint64_t round, uint64_t page)
{
    struct shell *shell = ctx;
    repair_want(shell->sim, shell->node, &(struct proto_page){step, round, page});
}

static void
on_forget(void *ctx)
{
    struct shell *shell = ctx;
    memset(shell->node->log, 0x55, sizeof shell->node->log); /* as before anything was in it */
}

static void
on_finished(void *ctx)
{
    struct shell *shell = ctx;
    shell->node->finished = true;
}

static void
on_log(void *ctx, int level, const char *line)
{
    struct shell *shell = ctx;
    if (shell->sim->verbose)
        printf("%9.3f ms  node %u  %d  %s\n", (double)shell->sim->now / 1000, shell->node->index,
               level, line);
}

static const struct core_ops shell_ops = {
    .connect = on_connect,
    .disconnect = on_disconnect,
    .send = on_send,
    .send_bulk = on_send_bulk,
    .pass_on = on_pass_on,
    .peer_up = on_peer_up,
    .peer_down = on_peer_down,
    .keep = on_keep,
    .release = on_release,
    .compute = on_compute,
    .commit = on_commit,
    .adopt = on_adopt,
    .back = on_back,
    .audit = on_audit,
    .state = on_state,
    .job = on_job,
    .job_offered = on_job_offered,
    .page = on_page,
    .want = on_want,
    .forget = on_forget,
    .finished = on_finished,
    .log = on_log,
};

/* --- Life of a process ------------------------------------------------------------------------- */

/* All have the same port, as in containers. */
static struct proto_endpoint
endpoint(unsigned address)
{
    struct proto_endpoint at = {.control_port = 20000};
    memcpy(at.host, hosts[address], strlen(hosts[address]));
    return at;
}

static struct core_config
config_of(const struct sim *sim, struct sim_node *node)
{
    const struct sim_profile *p = &sim->profile;
    return (struct core_config){
        .self = {node->id, node->incarnation},
        .hello = {.run = "sim",
                  .job_hash = node->index == p->stranger ? 6 : 7,
                  .numerics = 8,
                  .kernel = "sim",
                  .control_port = 20000,
                  .bulk_port = (uint16_t)(30000 + node->index)},
        .shards = p->shards,
        .peers_min = p->peers_min,
        .gather_us = 20000,
        .bucket_count = p->buckets,
        .buckets = p->bucket,
        .own = node->own,
        .sum = node->sum,
        .state_size = (p->words + p->counters) * sizeof(uint64_t),
        .state_in = (uint8_t *)&node->state_in,
        .log = node->log,
        .log_size = p->log_size,
        .block_size = p->block_size,
        .chunk_elems = p->chunk_elems,
        .direct_bytes = p->direct_bytes,
        .audit_share = p->audit_share,
        .audit_seed = mix64_pair(sim->seed, node->index),
        .audit_bucket = p->audit_share ? p->buckets - 2u : 0,
    };
}

void
shell_boot(struct sim *sim, unsigned index, bool disk)
{
    struct sim_node *node = &sim->nodes[index];
    node->up = true;
    if (!disk) /* as a real process has another one each time */
        node->id = node->index + 1 + SIM_NODES_MAX * node->incarnation;
    node->incarnation++;
    node->paused_until = node->hung_until = node->stalled_until = 0;
    node->sent_us = node->received_us = 0;
    node->progress_us = sim->now;
    node->busy = SIM_FREE;
    node->done = node->finished = node->left = false;
    node->kept = 0;
    node->plan = 0;
    memset(node->plans, 0, sizeof node->plans);
    node->lent = node->marked = node->total_bad = false;
    node->older_valid = node->flip = node->wrong = node->strayed = false;
    node->lent_until = 0;
    for (unsigned l = 0; l < SIM_LINKS_MAX; l++)
        node->links[l].open = node->links[l].up = node->links[l].bulk = false;
    if (!disk)
        sim_disk_clear(node);
    sim_disk_load(sim, node);
    memset(&node->state_in, 0, sizeof node->state_in);
    memset(node->log, 0x55, sizeof node->log);
    memset(node->own, 0x55, sizeof node->own);
    memset(node->sum, 0x55, sizeof node->sum);
    shells[index] = (struct shell){sim, node};
    struct core_config config = config_of(sim, node);
    if (core_new(&node->core, &config, &shell_ops, &shells[index], sim->now) != 0)
        abort();
    sim_push(sim, sim->now + rand_below(&sim->rand, CORE_TICK_US), SIM_TICK, index, 0, 0, NULL);
    sim_push(sim, sim->now + rand_below(&sim->rand, 2000), SIM_BEACON, index, 1, 0, NULL);
    if (!repair_begin(sim, node))
        trainer_start(sim, node);
}

void
shell_crash(struct sim *sim, unsigned index, bool silent)
{
    struct sim_node *node = &sim->nodes[index];
    node->up = false;
    sim_disk_crash(sim, node);
    core_destroy(&node->core);
    if (node->kept != 0)
        sim_fail(sim, "node %u: %u frames never released", index, node->kept);
    for (unsigned i = 0; i < sim->profile.nodes && !silent; i++) {
        struct sim_node *other = &sim->nodes[i];
        for (unsigned l = 0; l < SIM_LINKS_MAX && other->up; l++) {
            const struct sim_link *link = &other->links[l];
            if (link->open && link->up && link->to == index && !sim->cut[index][i])
                sim_push(sim, sim->now + 1000 + rand_below(&sim->rand, 4000), SIM_LINK_DOWN, i, l,
                         link->generation, NULL);
        }
    }
}

/* The stream ends at some byte of what is under way: whole messages before it arrive, the others never.
 * It takes a moment until somebody is told; ZeroMQ may have connected again by then. */
static void
link_break(struct sim *sim, unsigned index, unsigned link, uint64_t most_us)
{
    struct sim_link *l = &sim->nodes[index].links[link];
    uint64_t last[2];
    for (int stream = 0; stream < 2; stream++)
        last[stream] = l->fifo_us[stream] > sim->now
                           ? sim->now + rand_below(&sim->rand, l->fifo_us[stream] - sim->now + 1)
                           : sim->now;
    size_t count;
    struct sim_event *events = sim_queued(sim, &count);
    for (size_t k = 0; k < count; k++) {
        struct sim_message *m = events[k].message;
        if (m && m->from_index == index && m->link == link && m->generation == l->generation &&
            m->from.incarnation == sim->nodes[index].incarnation && events[k].at > last[m->bulk])
            m->lost = true;
    }
    l->broken = true;
    sim_push(sim, sim->now + rand_below(&sim->rand, most_us), SIM_LINK_DOWN, index, link,
             l->generation, NULL);
}

void
shell_reset(struct sim *sim, unsigned index, unsigned link)
{
    struct sim_link *l = &sim->nodes[index].links[link];
    for (unsigned k = 0; k < SIM_LINKS_MAX && !(l->open && l->up); k++)
        l = &sim->nodes[index].links[link = (link + 1) % SIM_LINKS_MAX];
    if (sim->nodes[index].up && l->open && l->up)
        link_break(sim, index, link, 5000);
}

void
shell_move(struct sim *sim, unsigned a, unsigned b)
{
    unsigned address = sim->address[a];
    uint64_t most_us = rand_bool(&sim->rand) ? 5000 : 500000;
    sim->address[a] = sim->address[b];
    sim->address[b] = address;
    for (unsigned i = 0; i < sim->profile.nodes && a != b; i++)
        for (unsigned l = 0; l < SIM_LINKS_MAX && sim->nodes[i].up; l++) {
            const struct sim_link *link = &sim->nodes[i].links[l];
            bool concerned = i == a || i == b || link->to == a || link->to == b;
            if (link->open && link->up && concerned)
                link_break(sim, i, l, most_us);
        }
}

/* --- Events ------------------------------------------------------------------------------------ */

static void
ev_link_up(struct sim *sim, struct sim_node *node, const struct sim_event *event)
{
    struct sim_link *link = &node->links[event->a];
    if (!link->open || link->generation != event->b || link->up)
        return;
    link->to = holder(sim, link->address);
    struct sim_node *target = &sim->nodes[link->to];
    bool cut = sim->cut[node->index][link->to] || sim->cut[link->to][node->index];
    if (cut) {
        sim_push(sim, sim->now + CONNECT_US, SIM_LINK_DOWN, node->index, event->a, event->b, NULL);
        return;
    }
    if (!target->up) {
        core_on_link_down(node->core, sim->now, (unsigned)event->a);
        return;
    }
    if (target->paused_until > sim->now) {
        sim_push(sim, target->paused_until + delay(sim), SIM_LINK_UP, node->index, event->a,
                 event->b, NULL);
        return;
    }
    link->up = true;
    link->incarnation = target->incarnation;
    core_on_link_up(node->core, sim->now, (unsigned)event->a);
}

static void
ev_link_down(struct sim *sim, struct sim_node *node, const struct sim_event *event)
{
    const struct sim_link *link = &node->links[event->a];
    if (link->open && link->generation == event->b)
        core_on_link_down(node->core, sim->now, (unsigned)event->a);
}

static bool
unreachable(const struct sim *sim, unsigned from, unsigned to)
{
    return is_cut(sim, from, to) || (sim->nodes[to].up && sim->nodes[to].paused_until > sim->now);
}

/* The kernel takes the bytes, or the peer does not and they stay where they are. */
static void
ev_leaves(struct sim *sim, struct sim_node *node, const struct sim_event *event)
{
    struct sim_message *m = event->message;
    if (!m || m->dead)
        return;
    if (unreachable(sim, m->from_index, m->to) && rand_bool(&sim->rand)) {
        m->uses++;
        sim_push(sim, sim->now + 20000, SIM_LEAVES, node->index, sim->now + 20000 + delay(sim), 0,
                 m);
        return;
    }
    if (bytes_hash(m->memory, m->size) != m->hash)
        sim_fail(sim, "node %u: %s changed while it was sent", node->index,
                 proto_type_name(m->type));
    memcpy(m->body, m->memory, m->size);
    m->captured = true;
    sim_push(sim, sim->now + rand_below(&sim->rand, 400), SIM_RETURNED, node->index, 0, 0, NULL);
    m->uses++;
    depart(sim, m, event->a > sim->now ? event->a : sim->now + 1);
}

/* The process that the message was for is not there any more: its kernel says so. */
static bool
misdelivered(struct sim *sim, const struct sim_message *m)
{
    struct sim_node *to = &sim->nodes[m->to], *from = &sim->nodes[m->from_index];
    if (to->up && (to->incarnation == m->to_incarnation || sim->profile.leak))
        return false;
    const struct sim_link *link = &from->links[m->link];
    if (to->up && from->up && link->open && link->generation == m->generation)
        sim_push(sim, sim->now + delay(sim), SIM_LINK_DOWN, from->index, m->link, m->generation,
                 NULL);
    return true;
}

static void
ev_arrives(struct sim *sim, struct sim_node *node, const struct sim_event *event)
{
    struct sim_message *m = event->message;
    if (m->lost)
        return;
    if (is_cut(sim, m->from_index, m->to)) {
        if (sim->profile.hold_cut) {
            m->uses++;
            sim_push(sim, sim->now + 30000, SIM_ARRIVES, m->to, 0, 0, m);
        }
        return;
    }
    if (misdelivered(sim, m))
        return;
    sim->trace = mix64_pair(sim->trace, (uint64_t)m->type << 32 | m->from_index << 8 | m->to);
    const struct proto_msg *msg = header_unpack(sim, m);
    struct core_frame frame = {m->body, m->size, m};
    if (msg && m->bulk)
        core_on_bulk(node->core, sim->now, m->from, msg, &frame);
    else if (msg)
        core_on_message(node->core, sim->now, m->from, hosts[sim->address[m->from_index]], msg,
                        NULL, 0);
}

/* In beacons everybody hears everybody; as seeds each node knows some endpoints, address 0 among them. */
static void
ev_beacon(struct sim *sim, struct sim_node *node, const struct sim_event *event)
{
    for (unsigned i = 0; i < sim->profile.nodes; i++) {
        struct proto_endpoint at = endpoint(sim->profile.seeds ? i : sim->address[i]);
        if (sim->profile.seeds) {
            if (event->a && (i == 0 || rand_below(&sim->rand, 3) == 0))
                core_on_found(node->core, sim->now, &at, (struct proto_node){0, 0});
            continue;
        }
        const struct sim_node *other = &sim->nodes[i];
        if (other->up && other->paused_until <= sim->now && !sim->cut[i][node->index])
            core_on_found(node->core, sim->now, &at,
                          (struct proto_node){other->id, other->incarnation});
    }
    if (!sim->profile.seeds)
        sim_push(sim, sim->now + BEACON_US, SIM_BEACON, node->index, 0, 0, NULL);
}

/* Whoever is to make the next plan keeps the others no longer than a step, or than nobody minds. */
static void
judge_wait(struct sim *sim, const struct sim_node *node)
{
    struct core_stats stats;
    core_stats(node->core, &stats);
    uint64_t most_us = stats.step_us > CORE_WAIT_US ? stats.step_us : CORE_WAIT_US;
    if (stats.waits_us > most_us + CORE_TICK_US)
        sim_fail(sim, "node %u keeps the others waiting for %" PRIu64 " ms, a step takes %" PRIu64,
                 node->index, stats.waits_us / 1000, stats.step_us / 1000);
}

static void
ev_tick(struct sim *sim, struct sim_node *node)
{
    core_on_tick(node->core, sim->now);
    judge_wait(sim, node);
    if (sim->late)
        late_judge(sim, node);
    sim_push(sim, sim->now + CORE_TICK_US, SIM_TICK, node->index, 0, 0, NULL);
    if (!node->finished || !sim->profile.leave || sim->failed)
        return;
    core_leave(node->core, sim->now);
    shell_crash(sim, node->index, false);
    node->left = true;
}

/* A plan begins at the round of who takes it up, and nobody takes one up again that he has dropped not long ago. */
static void
judge_plan(struct sim *sim, struct sim_node *node, const struct core_stats *stats)
{
    if (stats->round != stats->plan_round)
        sim_fail(sim, "node %u: takes up a plan of round %" PRIu64 " at %" PRIu64, node->index,
                 stats->plan_round, stats->round);
    for (unsigned k = 0; k < SIM_PLANS; k++)
        if (node->plans[k] == stats->plan)
            sim_fail(sim, "node %u: takes up a plan again in round %" PRIu64, node->index,
                     stats->round);
    node->plans[node->plan_count++ % SIM_PLANS] = stats->plan;
}

/* What must hold after every event, whatever comes of it. */
static void
judge_core(struct sim *sim, struct sim_node *node)
{
    struct core_stats stats;
    core_stats(node->core, &stats);
    const char *wrong = core_wrong(node->core);
    if (wrong)
        sim_fail(sim, "node %u: %s", node->index, wrong);
    if (stats.plan && stats.plan != node->plan)
        judge_plan(sim, node, &stats);
    node->plan = stats.plan;
}

void
shell_event(struct sim *sim, const struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    if (event->kind == SIM_ARRIVES && !node->up) {
        misdelivered(sim, event->message);
        return;
    }
    if (!node->up || (event->incarnation && event->incarnation != node->incarnation))
        return;
    switch (event->kind) {
    case SIM_TICK:
        ev_tick(sim, node);
        break;
    case SIM_BEACON:
        ev_beacon(sim, node, event);
        break;
    case SIM_LINK_UP:
        ev_link_up(sim, node, event);
        break;
    case SIM_LINK_DOWN:
        ev_link_down(sim, node, event);
        break;
    case SIM_LEAVES:
        ev_leaves(sim, node, event);
        break;
    case SIM_RETURNED:
        core_on_sent(node->core, sim->now);
        break;
    case SIM_ARRIVES:
        ev_arrives(sim, node, event);
        break;
    case SIM_BUCKET:
        trainer_bucket(sim, node, (size_t)event->a);
        break;
    case SIM_APPLIED:
        trainer_applied(sim, node);
        break;
    case SIM_REPAIR:
        repair_step(sim, node);
        break;
    case SIM_PAGE_READ:
        repair_read(sim, node);
        break;
    case SIM_READ:
        trainer_read(sim, node);
        break;
    default:
        break;
    }
    if (!node->up || sim->failed)
        return;
    judge_core(sim, node);
    trainer_borrow(sim, node);
}

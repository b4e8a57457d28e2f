/* network.c - messages between nodes: how long they take, and what becomes of them on the way.
 *
 * What is sent into a cut waits for its end or is lost. A body sent without a copy leaves the sender's memory some time
 * before it arrives (SIM_LEAVES); until then it must not change, and that is checked. The process at the other end may
 * have been replaced meanwhile: then the connection breaks, or, as ZeroMQ's reconnecting sockets do, the message
 * reaches the new process. Every header travels as the bytes of the coder. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "mesh/core/internal.h"
#include "proto/mix.h"
#include "tests/sim/engine.h"
#include "tests/sim/shell.h"

static struct sim_message *spare; /* messages are reused */

enum {
    KEPT_MAX = 4096, /* of a node; those beyond are not judged */
    KEPT_MOST_US = 3 * CORE_SWEEP_US,
};

/* Frames that a core keeps, and since when. */
static struct kept {
    const struct sim_message *message;
    uint64_t at_us;
} kept[SIM_NODES_MAX][KEPT_MAX];
static unsigned kept_count[SIM_NODES_MAX];

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

struct sim_message *
network_spare(void)
{
    struct sim_message *message = message_new();
    message->frame_size = 0; /* it has no header */
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
bool
network_cut(const struct sim *sim, unsigned from, unsigned to)
{
    return sim->cut[from][to] || (sim->profile.both_cut && sim->cut[to][from]);
}

/* How much longer than others the way from a to b is. */
static uint64_t
way(const struct sim *sim, unsigned a, unsigned b)
{
    return sim->profile.far ? mix64(sim->seed + 64 * a + b) % SIM_FAR_US : 0;
}

uint64_t
network_delay(struct sim *sim)
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

/* --- Headers ----------------------------------------------------------------------------------- */

/* A header goes over the network as the bytes of proto/msg.c. Only of a planted bug some go as they are: the encoder
 * asserts what plans and sums may say, and those must be found by what comes of them. */
void
network_header_set(struct sim *sim, struct sim_message *m, const struct proto_msg *msg)
{
    static uint8_t frame[PROTO_FRAME_MAX];
    _Static_assert(sizeof(struct proto_msg) <= SIM_FRAME_MAX, "a message fits, coded or not");
    m->type = msg->type;
    m->raw = sim->planted &&
             (msg->type == PROTO_PLAN || msg->type == PROTO_REDUCE || msg->type == PROTO_GATHER);
    m->frame_size = m->raw ? sizeof *msg : proto_encode(msg, frame);
    if (m->frame_size > sizeof m->frame)
        sim_fail(sim, "%s has %zu bytes", proto_type_name(msg->type), m->frame_size);
    else
        memcpy(m->frame, m->raw ? (const void *)msg : frame, m->frame_size);
}

/* Each caller has its own message: a core that reads one sends others, whose bits flip. Endpoints are only in messages
 * that no bit flips in; they stay valid until the next message is unpacked. */
bool
network_header(struct sim *sim, const struct sim_message *m, struct proto_msg *msg)
{
    static struct proto_endpoint endpoints[PROTO_PEERS_MAX];
    struct why why = {""};
    if (m->raw) {
        memcpy(msg, m->frame, sizeof *msg);
        return true;
    }
    if (proto_decode(msg, endpoints, m->frame, m->frame_size, &why) == 0)
        return true;
    sim_fail(sim, "node %u: %s refused: %s", m->from_index, proto_type_name(m->type), why.line);
    return false;
}

static struct sim_message *
message_make(struct shell *shell, unsigned link, const struct proto_msg *msg, size_t size)
{
    const struct sim_link *l = &shell->node->links[link];
    struct sim_message *m = message_new();
    network_header_set(shell->sim, m, msg);
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

/* --- Times ------------------------------------------------------------------------------------- */

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
    return rand_below(&sim->rand, 4) ? 2 * network_delay(sim)
                                     : 200000 + rand_below(&sim->rand, 100000);
}

/* When a message sent now on this connection arrives; in order unless it may overtake. */
static uint64_t
arrival(struct sim *sim, struct sim_node *from, struct sim_link *link, int stream, bool ordered,
        size_t size)
{
    uint64_t at = line_free(sim, from, size) + 1 + network_delay(sim) + retransmission(sim) +
                  way(sim, from->index, link->to);
    at = line_received(sim, &sim->nodes[link->to], at, size);
    if (!ordered)
        return at;
    if (at <= link->fifo_us[stream])
        at = link->fifo_us[stream] + 1;
    link->fifo_us[stream] = at;
    return at;
}

/* --- Sending ----------------------------------------------------------------------------------- */

void
network_send(void *ctx, unsigned link, const struct proto_msg *msg, const void *body,
             size_t body_size)
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
    if (sim->engine->sent)
        sim->engine->sent(sim, shell->node, msg);
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

/* Of a flow, or of an ASK for one. */
static void
flow_flip(struct sim *sim, struct sim_message *m)
{
    struct proto_msg msg;
    if (!network_header(sim, m, &msg))
        return;
    bool flow = m->type == PROTO_FLOW;
    struct proto_flow *f = &msg.flow;
    struct proto_ask *a = &msg.ask;
    uint64_t *const word[] = {
        flow ? &f->to : &a->to,       flow ? &f->link : &a->link,    flow ? &f->number : &a->number,
        flow ? &f->check : &a->check, flow ? &f->weight : &a->phase, &a->plan_hash,
    };
    unsigned words = flow ? 5 : 6;
    uint64_t field = rand_below(&sim->rand, words + 2), bit = UINT64_C(1)
                                                              << rand_below(&sim->rand, 5);
    uint16_t *kind = flow ? &f->kind : &a->kind;
    uint32_t *range = flow ? &f->range : &a->range;
    sim->counts.flips++;
    if (field < words)
        *word[field] ^= bit;
    else if (field == words)
        *kind ^= 1;
    else
        *range ^= (uint32_t)bit;
    unsigned kinds = flow ? PROTO_FLOWS_END : PROTO_ASKS_END;
    m->lost = *word[1] == 0 || *kind >= kinds; /* the decoder refuses it */
    if (!m->lost)
        network_header_set(sim, m, &msg);
}

/* Of a block of a replica. */
static void
block_flip(struct sim *sim, struct sim_message *m)
{
    struct proto_msg msg;
    if (!network_header(sim, m, &msg))
        return;
    struct proto_give *give = &msg.give;
    uint64_t *const word[] = {&give->round, &give->label, &give->block, &give->commit,
                              &give->check};
    *word[rand_below(&sim->rand, 5)] ^= UINT64_C(1) << rand_below(&sim->rand, 5);
    sim->counts.flips++;
    network_header_set(sim, m, &msg);
}

/* Of an item. */
static void
item_flip(struct sim *sim, struct sim_message *m)
{
    struct proto_msg msg;
    if (!network_header(sim, m, &msg))
        return;
    struct proto_item *item = &msg.item;
    uint64_t *const word[] = {&item->round, &item->state_hash, &item->size, &item->check,
                              &item->first};
    uint64_t field = rand_below(&sim->rand, 8);
    uint16_t bit = (uint16_t)(1u << rand_below(&sim->rand, 5));
    sim->counts.flips++;
    if (field < 5)
        *word[field] ^= bit;
    else if (field == 5)
        item->gradient = !item->gradient;
    else
        *(field == 6 ? &item->bucket : &item->shard) ^= bit;
    m->lost =
        item->first + item->count > item->size || item->bucket == 0; /* the decoder refuses it */
    if (!m->lost)
        network_header_set(sim, m, &msg);
}

static void
header_flip(struct sim *sim, struct sim_message *m)
{
    struct proto_msg msg;
    if (!network_header(sim, m, &msg))
        return;
    struct proto_chunk *chunk = &msg.chunk;
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
        network_header_set(sim, m, &msg);
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
    if (chunk)
        sim_star_hostile(sim, m, at);
    if (!sim->faults_over && chunk && sim_permille(sim, p->header_permille))
        header_flip(sim, m);
    if (!sim->faults_over && m->type == PROTO_ITEM && sim_permille(sim, p->header_permille))
        item_flip(sim, m);
    bool flow = m->type == PROTO_ASK || m->type == PROTO_FLOW;
    if (!sim->faults_over && flow && sim_permille(sim, p->header_permille))
        flow_flip(sim, m);
    bool block = m->type == PROTO_GIVE && sim->engine == &sim_engine_gossip;
    if (!sim->faults_over && block && sim_permille(sim, p->header_permille))
        block_flip(sim, m);
    if (wild && sim_permille(sim, 10)) {
        struct sim_message *twin = message_new();
        *twin = *m;
        twin->uses = 1;
        uint64_t later_us = rand_below(&sim->rand, rand_bool(&sim->rand) ? 300000 : 1000);
        sim_push(sim, at + later_us, SIM_ARRIVES, m->to, 0, 0, twin);
    }
    sim_push(sim, at, SIM_ARRIVES, m->to, 0, 0, m);
}

void
network_send_bulk(void *ctx, unsigned link, const struct proto_msg *msg, const void *body,
                  size_t size, bool lent)
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
    numbers_sent(sim, msg, body);
    struct sim_message *m = message_make(shell, link, msg, size);
    m->bulk = true;
    uint64_t arrives =
        arrival(sim, shell->node, l, 1, !sim->profile.bulk_wild || sim->faults_over, size);
    if (!lent) {
        m->captured = true;
        if (size > 0)
            memcpy(m->body, body, size);
        depart(sim, m, arrives);
        return;
    }
    m->memory = body;
    m->hash = bytes_hash(body, size);
    uint64_t leaves = sim->now + 1 + rand_below(&sim->rand, arrives - sim->now);
    if (leaves == arrives && arrives > sim->now + 1)
        leaves--; /* before it arrives, or those behind it would overtake it */
    sim_push(sim, leaves, SIM_LEAVES, shell->node->index, arrives, 0, m);
}

/* A buffer is not always free. */
bool
network_make(void *ctx, size_t most, bool must, struct core_frame *frame)
{
    struct shell *shell = ctx;
    if (most > SIM_BODY_MAX)
        sim_fail(shell->sim, "a body of %zu bytes", most);
    if (!must && sim_permille(shell->sim, 100))
        return false;
    struct sim_message *m = message_new();
    memset(m->body, 0x5a, most);
    shell->node->kept++;
    *frame = (struct core_frame){m->body, 0, m};
    return true;
}

/* Nobody may look at what was passed on. */
void
network_pass_on(void *ctx, const unsigned *links, size_t count, const struct proto_msg *msg,
                struct core_frame *frame)
{
    for (size_t k = 0; k < count; k++)
        network_send_bulk(ctx, links[k], msg, frame->data, frame->size, false);
    memset(frame->data, 0x5a, frame->size);
}

void
network_keep(void *ctx, struct core_frame *frame)
{
    struct shell *shell = ctx;
    struct sim_message *m = frame->handle;
    struct sim_node *node = shell->node;
    m->uses++;
    node->kept++;
    if (kept_count[node->index] < KEPT_MAX)
        kept[node->index][kept_count[node->index]++] = (struct kept){m, node->core->awake.us};
}

void
network_release(void *ctx, void *handle)
{
    struct shell *shell = ctx;
    unsigned index = shell->node->index, k = kept_count[index];
    while (k > 0 && kept[index][k - 1].message != handle)
        k--;
    if (k > 0)
        kept[index][k - 1] = kept[index][--kept_count[index]];
    shell->node->kept--;
    shell_message_free(handle);
}

void
network_keeps_nothing(const struct sim_node *node)
{
    kept_count[node->index] = 0;
}

/* The round that it is of; UINT64_MAX: of none. */
static uint64_t
round_of(struct sim *sim, const struct sim_message *m)
{
    struct proto_msg msg;
    if (m->frame_size == 0 || !network_header(sim, m, &msg))
        return UINT64_MAX;
    return msg.type == PROTO_ITEM                                            ? msg.item.round
           : msg.type == PROTO_GIVE && msg.give.object == PROTO_OBJECT_TOTAL ? msg.give.round
           : msg.type == PROTO_REDUCE || msg.type == PROTO_GATHER            ? msg.chunk.round
                                                                             : UINT64_MAX;
}

void
network_judge_kept(struct sim *sim, const struct sim_node *node)
{
    uint64_t awake_us = node->core->awake.us;
    for (unsigned k = 0; k < kept_count[node->index]; k++) {
        const struct kept *one = &kept[node->index][k];
        if (awake_us - one->at_us <= KEPT_MOST_US)
            continue;
        uint64_t round = round_of(sim, one->message);
        if (round != UINT64_MAX && round + 1 < node->round)
            sim_fail(sim, "node %u: in round %" PRIu64 " it keeps what is of round %" PRIu64,
                     node->index, node->round, round);
    }
}

/* --- Arriving ---------------------------------------------------------------------------------- */

static bool
unreachable(const struct sim *sim, unsigned from, unsigned to)
{
    return network_cut(sim, from, to) ||
           (sim->nodes[to].up && sim->nodes[to].paused_until > sim->now);
}

/* The kernel takes the bytes, or the peer does not and they stay where they are. */
void
network_leaves(struct sim *sim, struct sim_node *node, const struct sim_event *event)
{
    struct sim_message *m = event->message;
    if (!m || m->dead)
        return;
    if (unreachable(sim, m->from_index, m->to) && rand_bool(&sim->rand)) {
        m->uses++;
        sim_push(sim, sim->now + 20000, SIM_LEAVES, node->index,
                 sim->now + 20000 + network_delay(sim), 0, m);
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
bool
network_misdelivered(struct sim *sim, const struct sim_message *m)
{
    struct sim_node *to = &sim->nodes[m->to], *from = &sim->nodes[m->from_index];
    if (to->up && (to->incarnation == m->to_incarnation || sim->profile.leak))
        return false;
    const struct sim_link *link = &from->links[m->link];
    if (to->up && from->up && link->open && link->generation == m->generation)
        sim_push(sim, sim->now + network_delay(sim), SIM_LINK_DOWN, from->index, m->link,
                 m->generation, NULL);
    return true;
}

void
network_arrives(struct sim *sim, struct sim_node *node, const struct sim_event *event)
{
    struct sim_message *m = event->message;
    if (m->lost)
        return;
    if (network_cut(sim, m->from_index, m->to)) {
        if (sim->profile.hold_cut) {
            m->uses++;
            sim_push(sim, sim->now + 30000, SIM_ARRIVES, m->to, 0, 0, m);
        }
        return;
    }
    if (network_misdelivered(sim, m))
        return;
    sim->trace = mix64_pair(sim->trace, (uint64_t)m->type << 32 | m->from_index << 8 | m->to);
    struct proto_msg msg;
    struct core_frame frame = {m->body, m->size, m};
    if (!network_header(sim, m, &msg))
        return;
    if (sim->engine->came)
        sim->engine->came(sim, node, m->from_index, &msg);
    if (m->bulk)
        core_on_bulk(node->core, sim->now, m->from, &msg, &frame);
    else
        core_on_message(node->core, sim->now, m->from, sim_link_hosts[sim->address[m->from_index]],
                        &msg, NULL, 0);
}

/* fuzz_gossip.c - the engine gossip: three cores, and whatever happens between them.
 *
 * The first byte chooses its modes. The rest is a list of actions (see `actions`), each a byte and its arguments.
 * Cores talk to one another, so a few bytes of calm bring them far; the other actions lose, repeat, reorder and forge
 * what they send, cut lines, restart nodes and let them be late. Forged messages and bodies have a check that fits,
 * if the bytes want it so. Nothing is promised then but this: no assertion of a core fails, its invariants hold after
 * each event (judged.h), it asks its trainer for nothing out of turn, and gives all memory back. Bodies have exactly
 * their size, for sanitizers. */
#include "tests/fuzz/forge.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/gossip_world.h"

/* --- Nodes ---------------------------------------------------------------------------------------- */

static void
configure(struct node *node)
{
    static const struct codec few = {.rounding = CODEC_TOP, .share = 0.3};
    uint8_t modes = node->world->modes;
    node->gossip = (struct gossip_config){.keeper = &gossip_keeper,
                                          .keeper_ctx = node,
                                          .graph = (enum gossip_kind)(modes % 8 % GOSSIP_KINDS),
                                          .push_sum = modes >> 3 & 1,
                                          .async = (modes >> 3 & 3) == 2,
                                          .codec = (modes >> 3 & 5) == 4 ? &few : NULL,
                                          .steps = STEPS,
                                          .save_every = modes >> 6,
                                          .count = VALUES};
}

static void
node_open(struct node *node)
{
    static const struct core_bucket bucket = {0, VALUES};
    struct world *world = node->world;
    node->incarnation = ++world->incarnations;
    configure(node);
    wire_init(&node->wire, post, leads, node);
    const struct core_config config = {
        .engine = &engine_gossip,
        .gossip = &node->gossip,
        .trainer = &gossip_trainer,
        .trainer_ctx = node,
        .wire = &wire,
        .wire_ctx = &node->wire,
        .program = &program,
        .program_ctx = node,
        .self = who(node),
        .hello = {.run = "fuzz",
                  .job_hash = 1,
                  .numerics = 1,
                  .control_port = endpoint(node->index).control_port,
                  .bulk_port = 2000},
        .shards = SHARDS,
        .peers_min = 1 + (world->modes >> 6),
        .gather_us = 50000,
        .bucket_count = 1,
        .buckets = &bucket,
        .own = node->own,
        .sum = node->sum,
        .state_size = sizeof node->state,
        .state_in = node->state,
        .chunk_elems = CHUNK,
    };
    node->told_to_end = node->ended = false;
    demand(core_new(&node->core, &config, world->now) == 0);
    core_on_applied(node->core, world->now, &(struct core_state){.hash = 1});
}

static void
node_close(struct node *node)
{
    core_destroy(&node->core);
    demand(node->wire.kept == 0);
    *node = (struct node){.world = node->world, .index = node->index};
}

/* --- Letters -------------------------------------------------------------------------------------- */

static void
deliver_bulk(struct node *node, const struct letter *letter)
{
    wire_deliver(&node->wire, node->core, node->world->now, letter->who, &letter->msg, letter->body,
                 letter->size);
}

static void
deliver(struct world *world, struct letter *from)
{
    static struct letter letter;
    from->due = false;
    letter = *from;
    struct node *node = &world->nodes[letter.to];
    if (letter.msg.type == PROTO_PEERS)
        letter.msg.peers.endpoints = letter.endpoints;
    if (letter.bulk)
        deliver_bulk(node, &letter);
    else
        core_on_message(node->core, world->now, letter.who, endpoint(letter.from).host, &letter.msg,
                        letter.size ? letter.body : NULL, letter.size);
}

/* The n-th newest, or the newest one of a type. NULL: there is none. */
static struct letter *
choose(struct world *world)
{
    uint8_t which = u8(world);
    unsigned count = world->next < LETTERS ? world->next : LETTERS;
    for (unsigned k = 0; k < count; k++) {
        struct letter *letter = &world->letters[(world->next - 1 - k) % LETTERS];
        if (which < LETTERS ? k == which : letter->msg.type + LETTERS == which)
            return letter;
    }
    return NULL;
}

static void
check(struct letter *letter)
{
    struct proto_msg *msg = &letter->msg;
    const void *body = letter->body;
    size_t size = letter->size;
    if (msg->type == PROTO_ASK)
        msg->ask.check = gossip_link_check(msg, body, size / sizeof(int32_t));
    else if (msg->type == PROTO_FLOW)
        msg->flow.check = gossip_link_check(msg, body, size / sizeof(int32_t));
    else if (msg->type == PROTO_GIVE)
        msg->give.check = transfer_check(&msg->give, 0, body, size);
}

/* --- Actions -------------------------------------------------------------------------------------- */

static struct node *
any(struct world *world)
{
    return &world->nodes[u8(world) % NODES];
}

static void
calm_links(struct node *node)
{
    const struct world *world = node->world;
    for (unsigned k = 0; k < WIRE_LINKS; k++) {
        struct wire_link *l = &node->wire.links[k];
        if (!l->open || l->to == WIRE_NOBODY)
            continue;
        bool there = l->to / NODES == world->nodes[l->to % NODES].incarnation;
        if (l->up == there)
            continue;
        l->up = there;
        if (there)
            core_on_link_up(node->core, world->now, k);
        else
            core_on_link_down(node->core, world->now, k);
    }
}

static void
calm_node(struct node *node)
{
    const struct world *world = node->world;
    if (world->now < node->late_until)
        return;
    for (unsigned k = 0; k < NODES && world->ticks % BEACON_TICKS == 1; k++) {
        struct proto_endpoint at = endpoint(k);
        if (!world->cut[k][node->index])
            core_on_found(node->core, world->now, &at, who(&world->nodes[k]));
    }
    calm_links(node);
    core_on_tick(node->core, world->now);
    train(node);
}

/* A tick of all nodes that are not late, and what they send arrives. */
static void
calm(struct world *world)
{
    world->now += CORE_TICK_US;
    world->ticks++;
    for (unsigned k = 0; k < NODES; k++)
        calm_node(&world->nodes[k]);
    unsigned most = 2 * LETTERS, first = world->next > LETTERS ? world->next - LETTERS : 0;
    for (unsigned k = first; k != world->next && most > 0; k++) {
        struct letter *letter = &world->letters[k % LETTERS];
        if (!letter->due || world->now < world->nodes[letter->to].late_until)
            continue;
        most--;
        deliver(world, letter);
    }
}

static void
act_calm(struct world *world)
{
    for (unsigned n = u8(world); n > 0 && world->ticks < TICKS_MAX; n--)
        calm(world);
}

static void
act_tick(struct world *world)
{
    struct node *node = any(world);
    world->now += 1000u * u8(world);
    core_on_tick(node->core, world->now);
}

static void
act_deliver(struct world *world)
{
    struct letter *letter = choose(world);
    if (letter)
        deliver(world, letter);
}

static void
act_lose(struct world *world)
{
    struct letter *letter = choose(world);
    if (letter)
        letter->due = false;
}

static bool
lawful_plan(const struct proto_plan *plan)
{
    bool leads = false;
    uint64_t shards = 0;
    for (size_t k = 0; k < plan->count; k++) {
        const struct proto_member *member = &plan->members[k];
        for (size_t j = 0; j < k; j++)
            if (plan->members[j].node.id == member->node.id)
                return false;
        if (shards & member->shards)
            return false;
        shards |= member->shards;
        leads |= proto_node_equal(member->node, plan->leader);
    }
    return leads && !(plan->complete & ~shards);
}

/* The decoder's rules about several fields. */
static bool
lawful(const struct proto_msg *msg)
{
    if (msg->type == PROTO_HELLO)
        return !msg->hello.wants_job && msg->hello.bulk_port != 0;
    return msg->type != PROTO_PLAN || lawful_plan(&msg->plan);
}

/* Up to four fields of what was sent, which then arrives. */
static void
act_forge(struct world *world)
{
    struct letter *letter = choose(world);
    uint8_t how = u8(world);
    for (unsigned n = how % 4 + 1; letter && n > 0; n--) {
        struct proto_msg was = letter->msg;
        struct forge forge = {.field = u8(world), .value = u8(world), .item = how >> 3};
        forge.field %= 32;
        forge_field(&letter->msg, forge);
        if (!lawful(&letter->msg))
            letter->msg = was;
    }
    if (letter && how & 4)
        check(letter);
    if (letter)
        deliver(world, letter);
}

static void
act_body(struct world *world)
{
    struct letter *letter = choose(world);
    uint8_t how = u8(world), at = u8(world), value = u8(world);
    if (!letter || (!letter->bulk && letter->msg.type != PROTO_JOB))
        return;
    if (how & 1)
        letter->size = how & 2 ? BODY_MAX - at : at;
    else if (letter->size > 0)
        memset(letter->body + at % letter->size, value,
               how & 2 ? letter->size - at % letter->size : 1);
    if (how & 4)
        check(letter);
    deliver(world, letter);
}

/* It comes from another node, or to another one. */
static void
act_redirect(struct world *world)
{
    struct letter *letter = choose(world);
    uint8_t how = u8(world);
    if (!letter)
        return;
    const struct node *from = &world->nodes[how % NODES];
    letter->from = from->index;
    letter->who = who(from);
    letter->to = how / 4 % NODES;
    deliver(world, letter);
}

static void
act_raw(struct world *world)
{
    static struct proto_endpoint endpoints[PROTO_PEERS_MAX];
    struct node *from = any(world), *to = any(world);
    size_t size = u8(world);
    const uint8_t *bytes = bytes_raw(&world->in, size);
    struct proto_msg msg;
    struct why why;
    if (bytes && proto_decode(&msg, endpoints, bytes, size, &why) == 0)
        core_on_message(to->core, world->now, who(from), endpoint(from->index).host, &msg, NULL, 0);
}

/* One of the links that are open comes up or goes down. */
static void
act_link(struct world *world)
{
    struct node *node = any(world);
    uint8_t which = u8(world);
    for (unsigned k = 0, n = which >> 1; k < WIRE_LINKS; k++) {
        if (!node->wire.links[k].open || n-- > 0)
            continue;
        node->wire.links[k].up = which & 1;
        if (which & 1)
            core_on_link_up(node->core, world->now, k);
        else
            core_on_link_down(node->core, world->now, k);
        return;
    }
}

static void
act_train(struct world *world)
{
    train(any(world));
}

static void
act_restart(struct world *world)
{
    struct node *node = any(world);
    uint8_t how = u8(world);
    bool first = !node->told_to_end;
    node->told_to_end = node->told_to_end || (how & 2);
    if (first && node->told_to_end && core_on_interrupt(node->core, world->now))
        return;
    if (how & 1)
        core_leave(node->core, world->now);
    node_close(node);
    node_open(node);
}

static void
act_late(struct world *world)
{
    struct node *node = any(world);
    node->late_until = world->now + (uint64_t)CORE_TICK_US * u8(world);
}

static void
act_cut(struct world *world)
{
    uint8_t lines = u8(world);
    for (unsigned a = 0, k = 0; a < NODES; a++)
        for (unsigned b = 0; b < NODES; b++)
            if (a != b)
                world->cut[a][b] = lines >> k++ & 1;
}

static void (*const actions[])(struct world *) = {
    act_calm,     act_tick, act_deliver, act_lose,  act_forge,   act_body, act_forge,
    act_redirect, act_raw,  act_link,    act_train, act_restart, act_late, act_cut,
};

enum { ACTIONS = sizeof actions / sizeof actions[0] };

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world world;
    memset(&world, 0, offsetof(struct world, letters));
    world.next = 0;
    world.in = bytes_in(data, size);
    world.modes = u8(&world);
    for (unsigned k = 0; k < NODES; k++) {
        world.nodes[k] = (struct node){.world = &world, .index = k};
        node_open(&world.nodes[k]);
    }
    for (int i = 0; i < ACTIONS_MAX && bytes_left(&world.in) > 0; i++)
        actions[u8(&world) % ACTIONS](&world);
    for (unsigned k = 0; k < NODES; k++) {
        core_leave(world.nodes[k].core, world.now);
        node_close(&world.nodes[k]);
    }
    return 0;
}

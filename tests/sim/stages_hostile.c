/* stages_hostile.c - a member that says anything about items: of another round, state, cut, shard or size, damaged,
 * twice, before they are due, and without being the neighbour who makes them. And it asks for any.
 *
 * Nothing of it may be taken for what it is not. Only a whole lie of a neighbour, which makes the item and gives wrong
 * words with their right check, could not be told from the truth; it is left out. */
#include "compress/check.h"
#include "mesh/core/internal.h"
#include "tests/sim/shell.h"
#include "tests/sim/stages.h"

enum { ONE_IN = 12 };

/* The round that comes next, or one near it. */
static uint64_t
any_round(struct rand *rand, const struct sim *sim, const struct sim_node *node)
{
    uint64_t round = node->round + (rand_below(rand, 3) ? 0 : rand_below(rand, 3));
    round -= rand_below(rand, 8) == 0 && round > 0;
    return round < sim->profile.rounds ? round : sim->profile.rounds - 1;
}

static uint64_t
bit_of(struct rand *rand, unsigned bits)
{
    return UINT64_C(1) << rand_below(rand, bits);
}

static uint64_t
check_right(const struct proto_item *item, const int32_t *body)
{
    return check_of(body, 0, item->count) ^ pieces_item_mix(item);
}

/* One field, or a word of the body. */
static void
damage(struct rand *rand, struct proto_item *item, int32_t *body)
{
    switch (rand_below(rand, 7)) {
    case 0:
        item->round ^= bit_of(rand, 3);
        break;
    case 1:
        item->state_hash ^= bit_of(rand, 64);
        break;
    case 2:
        item->bucket = (uint16_t)rand_range(rand, SIM_BUCKETS_MAX, UINT16_MAX);
        break;
    case 3:
        item->size += 1 + rand_below(rand, SIM_ITEM_MAX);
        break;
    case 4:
        item->check ^= bit_of(rand, 64);
        break;
    case 5:
        body[rand_below(rand, item->count)] ^= (int32_t)bit_of(rand, 31);
        break;
    default: /* wrong words, and their right check */
        body[0] += 7;
        item->check = check_right(item, body);
        break;
    }
}

/* Would it be believed? */
static bool
is_lie(const struct sim *sim, const struct proto_item *item, const int32_t *body)
{
    const struct sim_state *state = &sim->reference[item->round];
    struct stages_item right = {state, item->round, item->bucket, item->gradient, item->shard};
    if (item->state_hash != sim_rounds_hash(sim, state) ||
        stages_cut(&sim->profile, item->bucket) < 0 ||
        item->size != stages_item_words(&sim->profile, &right) ||
        item->check != check_right(item, body))
        return false;
    for (uint32_t k = 0; k < item->count; k++)
        if (body[k] != stages_item_word(&right, item->first + k))
            return true;
    return false;
}

/* An item as it must be, mostly damaged then. */
static void
make_item(struct sim *sim, const struct sim_node *node, struct rand *rand, struct proto_item *item,
          int32_t *body)
{
    const struct sim_profile *p = &sim->profile;
    uint64_t round = any_round(rand, sim, node);
    const struct core_cut *cut = &p->stages.cuts[rand_below(rand, p->stages.core.cut_count)];
    *item = (struct proto_item){.round = round,
                                .state_hash = sim_rounds_hash(sim, &sim->reference[round]),
                                .bucket = cut->bucket,
                                .gradient = rand_bool(rand),
                                .shard = (uint16_t)rand_below(rand, p->shards)};
    struct stages_item right = {&sim->reference[round], round, item->bucket, item->gradient,
                                item->shard};
    item->size = stages_item_words(p, &right);
    item->first = rand_below(rand, 4) ? 0 : rand_below(rand, item->size);
    item->count = (uint32_t)(item->size - item->first);
    if (item->count > p->chunk_elems)
        item->count = p->chunk_elems;
    for (uint32_t k = 0; k < item->count; k++)
        body[k] = stages_item_word(&right, item->first + k);
    item->check = check_right(item, body);
    if (rand_below(rand, 8))
        damage(rand, item, body);
    if (rand_below(rand, 8) == 0) {
        item->shard = (uint16_t)rand_below(rand, PROTO_SHARDS_MAX);
        item->check = check_right(item, body);
    }
}

/* Does the plan say that `from` makes this for the node? */
static bool
is_neighbour(const struct sim_node *node, const struct sim_node *from,
             const struct proto_item *item)
{
    const struct proto_plan *plan = &node->core->plan.now;
    struct proto_node self = {from->id, from->incarnation};
    int rank = node->core->plan.active ? proto_plan_rank(plan, self) : -1;
    for (size_t k = 0; rank >= 0 && k < plan->cut_count; k++) {
        size_t makes = plan->cut_count - k - !item->gradient; /* the stage above, or below */
        if (plan->cuts[k].bucket == item->bucket &&
            (proto_plan_computes(plan, (size_t)rank, makes) >> item->shard & 1))
            return true;
    }
    return false;
}

static void
send_item(struct sim *sim, struct sim_node *node, const struct sim_node *from, struct rand *rand)
{
    struct proto_msg msg = {.type = PROTO_ITEM};
    struct sim_message *message = network_spare();
    int32_t body[SIM_ITEM_MAX];
    make_item(sim, node, rand, &msg.item, body);
    uint64_t size = (msg.item.count - (rand_below(rand, 16) == 0)) * sizeof *body;
    bool begun = node->core->plan.active && pieces_begun(&node->core->pieces, node->core);
    bool early = !begun || msg.item.round > node->round; /* another plan may make them neighbours */
    memcpy(message->body, body, size);
    struct core_frame frame = {message->body, size, message};
    bool known = msg.item.round < sim->profile.rounds && msg.item.shard < sim->profile.shards;
    bool lie = known && is_lie(sim, &msg.item, body);
    if (!lie || (!early && !is_neighbour(node, from, &msg.item))) {
        sim->counts.forgeries++;
        core_on_bulk(node->core, sim->now, (struct proto_node){from->id, from->incarnation}, &msg,
                     &frame);
    }
    shell_message_free(message);
}

static void
send_need(struct sim *sim, struct sim_node *node, const struct sim_node *from, struct rand *rand)
{
    const struct sim_profile *p = &sim->profile;
    uint16_t cut = p->stages.cuts[rand_below(rand, p->stages.core.cut_count)].bucket;
    if (rand_below(rand, 8) == 0)
        cut = (uint16_t)rand_range(rand, 1, UINT16_MAX);
    struct proto_msg msg = {.type = PROTO_NEED,
                            .need = {.round = any_round(rand, sim, node),
                                     .bucket = cut,
                                     .gradient = rand_bool(rand),
                                     .shards = rand_u64(rand) | 1}};
    sim->counts.forgeries++;
    core_on_message(node->core, sim->now, (struct proto_node){from->id, from->incarnation},
                    sim_link_hosts[sim->address[from->index]], &msg, NULL, 0);
}

void
stages_hostile(struct sim *sim, struct sim_node *node)
{
    if (sim->profile.stages.hostile == 0 || sim->faults_over)
        return;
    const struct sim_node *from = &sim->nodes[sim->profile.stages.hostile - 1];
    struct rand rand = {mix64_pair(mix64_pair(sim->seed, sim->now), node->index)};
    if (rand_below(&rand, ONE_IN) || from == node || !from->up || from->paused_until > sim->now ||
        network_cut(sim, from->index, node->index))
        return;
    if (rand_below(&rand, 4) || sim_is_crowded(sim)) /* each NEED is answered with many items */
        send_item(sim, node, from, &rand);
    else
        send_need(sim, node, from, &rand);
    sim_rounds_judge_event(sim, node, &(struct sim_event){.kind = SIM_ARRIVES});
}

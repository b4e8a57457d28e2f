/* audit.c - see audit.h for who is audited when, and what happens to whom. */
#include "mesh/core/group/audit.h"

#include <assert.h>
#include <stdio.h>

#include "mesh/core/internal.h"
#include "proto/mix.h"

static void
suspect_add(struct audit *audit, uint64_t id)
{
    if (!audit_listed(audit->suspect, audit->suspects, id))
        audit->suspect[audit->suspects++ % PROTO_PEERS_MAX] = id;
}

/* The set bit of `shards` that `draw` falls on. */
static uint64_t
draw_shard(uint64_t shards, uint64_t draw)
{
    for (unsigned skip = (unsigned)(draw % (unsigned)__builtin_popcountll(shards)); skip > 0;
         skip--)
        shards &= shards - 1;
    return shards & -shards;
}

void
audit_round(struct audit *audit, const struct core *core)
{
    const struct core_config *config = &core->config;
    const struct plan *plan = &core->plan;
    audit->plan = plan->hash;
    audit->round = core->round;
    audit->due = 0;
    if (config->audit_share == 0 || core->first_bucket > config->audit_bucket)
        return;
    for (size_t r = 0; r < plan->now.count; r++) {
        const struct proto_member *member = &plan->now.members[r];
        uint64_t draw = mix64_pair(mix64_pair(config->audit_seed, core->round), member->node.id);
        bool chosen = draw >> 32 < config->audit_share ||
                      audit_listed(audit->suspect, audit->suspects, member->node.id);
        if (r != plan->rank && member->shards && chosen)
            audit->due |= draw_shard(member->shards, (uint32_t)draw);
    }
}

static const struct proto_member *
owner_of(const struct core *core, uint64_t shard)
{
    for (size_t r = 0; r < core->plan.now.count; r++)
        if (core->plan.now.members[r].shards & shard)
            return &core->plan.now.members[r];
    return NULL;
}

struct audit_task
audit_begin(struct audit *audit, const struct core *core)
{
    assert(audit_wants(audit, &core->plan, core->round));
    uint64_t shard = audit->due & -audit->due;
    const struct proto_member *member = owner_of(core, shard);
    assert(member);
    const struct core_bucket *bucket = &core->buckets[core->config.audit_bucket];
    size_t words = bucket->count / core->config.shards;
    size_t first = bucket->first + words * (size_t)__builtin_ctzll(shard);
    audit->asked = shard;
    audit->owner = member->node;
    audit->owner_plan = core->plan.hash;
    audit->audits++;
    return (struct audit_task){shard, core->config.sum + first, words};
}

/* Out for good: we are sure. */
static struct audit_verdict
audit_expel(struct audit *audit, const struct core *core)
{
    struct proto_node node = audit->accused;
    audit->accused = (struct proto_node){0, 0};
    return (struct audit_verdict){.expel = node,
                                  .abort = audit_present(audit, &core->plan, core->round)};
}

/* With the plan gone, or only the two of us in it, there is nobody to wait for. */
struct audit_verdict
audit_tick(struct audit *audit, const struct core *core)
{
    bool others = audit_present(audit, &core->plan, core->round) && core->plan.now.count > 2;
    if (audit->accused.id &&
        (!others || awake_since(core->awake, audit->accused_at) >= AUDIT_GRACE_US))
        return audit_expel(audit, core);
    return (struct audit_verdict){.expel = {0, 0}};
}

/* "pc3 (192.168.7.13)", or the id of a node that is not known here. */
static const char *
who_is(const struct core *core, uint64_t id, char out[PROTO_WHO_MAX])
{
    int i = peers_by_id(core, id);
    if (i >= 0)
        return report_who(core, i, out);
    snprintf(out, PROTO_WHO_MAX, "node %016llx", (unsigned long long)id);
    return out;
}

static void
audit_accuse(struct audit *audit, const struct core *core, uint64_t shard)
{
    char who[PROTO_WHO_MAX];
    struct proto_msg msg = {.type = PROTO_ACCUSE,
                            .accuse = {.plan_hash = audit->owner_plan,
                                       .round = audit->round,
                                       .accused = audit->owner.id,
                                       .shard = (uint16_t)__builtin_ctzll(shard)}};
    core_log(core, 3, "%s computed a wrong gradient (shard %u): it is expelled from the run",
             who_is(core, audit->owner.id, who), (unsigned)msg.accuse.shard);
    audit->accused = audit->owner;
    audit->accused_at = core->awake;
    for (int i = 0; i < core->peers.high; i++)
        if (core->peers.peers[i].state == PEER_UP)
            peers_send(core, i, &msg);
}

struct audit_verdict
audit_answer(struct audit *audit, const struct core *core, bool equal)
{
    uint64_t shard = audit->asked;
    assert(shard != 0);
    audit->asked = 0;
    if (!equal)
        audit_accuse(audit, core, shard);
    else if (audit_present(audit, &core->plan, core->round) && audit->owner_plan == audit->plan)
        audit->due &= ~shard;
    return audit_tick(audit, core);
}

void
audit_on_accuse(struct audit *audit, const struct core *core, int from,
                const struct proto_accuse *msg)
{
    uint64_t shard = UINT64_C(1) << msg->shard;
    if (msg->accused == core->config.self.id || core->peers.peers[from].node.id == msg->accused ||
        core->config.audit_share == 0)
        return;
    char who[PROTO_WHO_MAX], accused[PROTO_WHO_MAX];
    core_log(core, 4, "%s says that %s computed a wrong gradient (shard %u)",
             report_who(core, from, who), who_is(core, msg->accused, accused),
             (unsigned)msg->shard);
    suspect_add(audit, msg->accused);
    if (!audit_present(audit, &core->plan, core->round) || msg->plan_hash != core->plan.hash ||
        msg->round != core->round || core->first_bucket > core->config.audit_bucket)
        return;
    const struct proto_member *member = owner_of(core, shard);
    if (member && member->node.id == msg->accused)
        audit->due |= shard;
}

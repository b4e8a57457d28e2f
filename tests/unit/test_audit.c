/* Who recomputes whose shards, what is kept back meanwhile, and who is expelled. */
#include "compress/check.h"
#include "mesh/core/group/audit.h"
#include "tests/support/lone.h"
#include "tests/support/test.h"

/* Bucket 0, elements 10..99, holds the claims, 9 words for each of 10 shards. */
enum { SHARDS = 10, CLAIMS_FIRST = 10, CLAIMS = 90, TAIL = 10, ALWAYS = 0, NEVER = 1 };

static struct lone *
mesh_of(size_t nodes, int often)
{
    struct lone *lone = LONE(.id = 5, .shards = SHARDS, .peers_min = nodes,
                             .audit_share = often == ALWAYS ? UINT64_C(1) << 32 : 1,
                             /* one in 2^32 */);
    for (unsigned id = 7; id < 6 + nodes; id++)
        lone_meet(lone, id);
    for (unsigned id = 7; id < 6 + nodes; id++)
        lone_beat(lone, id, 0, true);
    lone_run_with(lone, 200, (unsigned[]){7, 8}, nodes - 1, 0, true);
    assert_true(lone->compute);
    return lone;
}

static const struct proto_plan *
plan_of(const struct lone *lone)
{
    const struct lone_sent *sent = lone_sent(lone, 7, PROTO_PLAN);
    assert_non_null(sent);
    return &sent->msg.plan;
}

static uint64_t
shards_of(const struct lone *lone, unsigned id)
{
    const struct proto_plan *plan = plan_of(lone);
    for (size_t r = 0; r < plan->count; r++)
        if (plan->members[r].node.id == id)
            return plan->members[r].shards;
    return 0;
}

/* The contribution of `id` to a bucket of the round: claims are 100 + shard. */
static void
contribute(struct lone *lone, unsigned id, uint64_t round, unsigned bucket)
{
    static int32_t bodies[2][LONE_IDS][CLAIMS]; /* borrowed while kept */
    int32_t *body = bodies[bucket][id];
    uint64_t shards = shards_of(lone, id);
    uint32_t count = bucket ? TAIL : CLAIMS;
    memset(body, 0, CLAIMS * sizeof *body);
    for (int s = 0; s < SHARDS && !bucket; s++)
        body[s * (CLAIMS / SHARDS)] = shards >> s & 1 ? 100 + s : 0;
    struct proto_msg msg = {.type = PROTO_REDUCE,
                            .chunk = {.plan_hash = proto_plan_hash(plan_of(lone)),
                                      .round = round,
                                      .bucket = (uint16_t)bucket,
                                      .direct = true,
                                      .first = bucket ? 0 : CLAIMS_FIRST,
                                      .count = count,
                                      .coverage = shards,
                                      .check = check_of(body, 0, count),
                                      .state_hash = 77 + round}};
    lone_say_bulk(lone, id, &msg, body, count * sizeof *body);
}

/* How many contributions of ours to a bucket went to `id`. */
static size_t
sent_to(const struct lone *lone, unsigned id, unsigned bucket)
{
    size_t count = 0;
    for (uint64_t k = 0; k < lone->sent_count && k < LONE_SENT_MAX; k++)
        count += lone->sent[k].to == id && lone->sent[k].msg.type == PROTO_REDUCE &&
                 lone->sent[k].msg.chunk.bucket == bucket;
    return count;
}

static unsigned
expulsions(const struct lone *lone)
{
    struct core_stats stats;
    core_stats(lone->core, &stats);
    return stats.expulsions;
}

static void
accuse(struct lone *lone, unsigned from, unsigned whom)
{
    uint64_t shards = whom == lone->id ? 1 : shards_of(lone, whom);
    lone_say(lone, from,
             &(struct proto_msg){.type = PROTO_ACCUSE,
                                 .accuse = {.plan_hash = proto_plan_hash(plan_of(lone)),
                                            .round = 0,
                                            .accused = whom,
                                            .shard = (uint16_t)__builtin_ctzll(shards)}});
}

TEST(the_last_bucket_waits_for_the_audit)
{
    OWNED(lone_destroy) struct lone *lone = mesh_of(2, ALWAYS);
    lone_train(lone);
    assert_int_equal(sent_to(lone, 7, 0), 1);
    assert_int_equal(sent_to(lone, 7, 1), 0);
    assert_false(lone->audit);
    contribute(lone, 7, 0, 1);
    assert_false(lone->audit); /* not before the claims are there */
    contribute(lone, 7, 0, 0);
    assert_true(lone->audit);
    assert_true(lone->audited & shards_of(lone, 7));
    assert_int_equal(lone->claim, 100 + __builtin_ctzll(lone->audited));
    assert_int_equal(sent_to(lone, 7, 1), 0);
    lone->audit = false;
    core_on_audited(lone->core, lone->now, true);
    assert_int_equal(sent_to(lone, 7, 1), 1);
    assert_true(lone->commit);
    assert_int_equal(expulsions(lone), 0);
}

TEST(a_wrong_claim_expels_for_good)
{
    OWNED(lone_destroy) struct lone *lone = mesh_of(2, ALWAYS);
    lone_train(lone);
    contribute(lone, 7, 0, 1);
    contribute(lone, 7, 0, 0);
    lone->audit = false;
    core_on_audited(lone->core, lone->now, false);
    assert_int_equal(sent_to(lone, 7, 1), 0);
    assert_false(lone->commit);
    assert_int_equal(lone_sent_count(lone, 7, PROTO_ACCUSE), 1);
    assert_int_equal(expulsions(lone), 1);
    assert_int_equal(lone_logged(lone, "it is expelled from the run"), 1);
    lone->incarnation[7] = 2; /* it comes back */
    lone_forget_sent(lone);
    lone_hello(lone, 7, false);
    lone_up(lone, 7);
    const struct lone_sent *refusal = lone_sent(lone, 7, PROTO_REFUSE);
    assert_non_null(refusal);
    assert_int_equal(refusal->msg.refuse.reason, PROTO_REFUSE_EXPELLED);
}

TEST(who_is_accused_is_audited_by_us_too)
{
    OWNED(lone_destroy) struct lone *lone = mesh_of(3, NEVER);
    lone_train(lone);
    assert_int_equal(sent_to(lone, 7, 1), 1);
    accuse(lone, 8, 7);
    assert_false(lone->audit);
    contribute(lone, 7, 0, 0);
    contribute(lone, 8, 0, 0);
    assert_true(lone->audit);
    assert_true(lone->audited & shards_of(lone, 7));
    lone->audit = false;
    core_on_audited(lone->core, lone->now, false);
    assert_int_equal(lone_sent_count(lone, 8, PROTO_ACCUSE), 1);
    assert_int_equal(expulsions(lone), 0); /* the others are to see for themselves */
    lone_run_with(lone, AUDIT_GRACE_US / 1000 + 20, (unsigned[]){7, 8}, 2, 0, false);
    assert_int_equal(expulsions(lone), 1);
}

TEST(a_false_accusation_costs_only_time)
{
    OWNED(lone_destroy) struct lone *lone = mesh_of(3, NEVER);
    lone_train(lone);
    for (unsigned id = 7; id <= 8; id++)
        contribute(lone, id, 0, 0);
    accuse(lone, 8, 7);
    assert_true(lone->audit);
    lone->audit = false;
    core_on_audited(lone->core, lone->now, true);
    for (unsigned id = 7; id <= 8; id++)
        contribute(lone, id, 0, 1);
    assert_true(lone->commit);
    lone_return(lone);
    lone_train(lone); /* applied: the next round begins, of which the suspect is audited */
    lone_return(lone);
    lone_train(lone);
    for (unsigned id = 7; id <= 8; id++)
        contribute(lone, id, 1, 0);
    assert_true(lone->audit);
    assert_true(lone->audited & shards_of(lone, 7));
    assert_int_equal(expulsions(lone), 0);
}

TEST(accusations_of_us_or_by_the_accused_are_ignored)
{
    OWNED(lone_destroy) struct lone *lone = mesh_of(3, NEVER);
    lone_train(lone);
    for (unsigned id = 7; id <= 8; id++)
        contribute(lone, id, 0, 0);
    accuse(lone, 8, 5);
    accuse(lone, 8, 8);
    assert_false(lone->audit);
}

TEST(without_luck_nobody_is_audited)
{
    OWNED(lone_destroy) struct lone *lone = mesh_of(2, NEVER);
    lone_train(lone);
    for (unsigned bucket = 0; bucket < 2; bucket++)
        contribute(lone, 7, 0, bucket);
    assert_false(lone->audit);
    assert_true(lone->commit);
}

/* A node that is behind: a state in blocks from several donors, then totals. */

#include <xxhash.h>

#include "compress/packed.h"
#include "mesh/core/internal.h"
#include "tests/support/lone.h"
#include "tests/support/test.h"

enum { BLOCKS = 21, SIZE = 20 * TRANSFER_BLOCK + 12345 };

static uint8_t *
state_of(uint64_t round)
{
    uint8_t *state = malloc(SIZE);
    assert_non_null(state);
    for (size_t k = 0; k < SIZE; k++)
        state[k] = (uint8_t)(k * 7 + (k >> 12) + round);
    return state;
}

static size_t
size_of(uint64_t block)
{
    return block + 1 == BLOCKS ? SIZE % TRANSFER_BLOCK : TRANSFER_BLOCK;
}

static void
offer(struct lone *lone, unsigned from, const uint8_t *state, uint64_t round)
{
    uint64_t hashes[BLOCKS];
    for (uint64_t b = 0; b < BLOCKS; b++)
        hashes[b] = XXH3_64bits(state + b * TRANSFER_BLOCK, size_of(b));
    struct proto_msg msg = {
        .type = PROTO_GIVE,
        .give = {.object = PROTO_OBJECT_LIST, .round = round, .label = 77 + round}};
    msg.give.check = transfer_check(&msg.give, 1, hashes, sizeof hashes);
    lone_say_bulk(lone, from, &msg, hashes, sizeof hashes);
}

static void
give(struct lone *lone, unsigned from, uint8_t *state, uint64_t round, uint64_t block)
{
    struct proto_msg msg = {
        .type = PROTO_GIVE,
        .give = {
            .object = PROTO_OBJECT_STATE, .round = round, .label = 77 + round, .block = block}};
    lone_say_bulk(lone, from, &msg, state + block * TRANSFER_BLOCK, size_of(block));
}

/* Nobody has the total of `round`. */
static void
give_none(struct lone *lone, unsigned from, uint64_t round)
{
    struct proto_msg msg = {.type = PROTO_GIVE,
                            .give = {.object = PROTO_OBJECT_TOTAL, .round = round}};
    msg.give.check = transfer_check(&msg.give, 1, NULL, 0);
    lone_say_bulk(lone, from, &msg, NULL, 0);
}

/* The total that `from` applied to a state with this hash. */
static void
give_total_to(struct lone *lone, unsigned from, uint64_t round, uint64_t hash, int32_t value)
{
    int32_t total[LONE_VECTOR];
    size_t size = sizeof total;
    for (size_t k = 0; k < LONE_VECTOR; k++)
        total[k] = value + (int32_t)k;
    struct proto_msg msg = {.type = PROTO_GIVE,
                            .give = {.object = PROTO_OBJECT_TOTAL, .round = round, .label = hash}};
    msg.give.check = transfer_check(&msg.give, 1, total, size);
    lone_say_bulk(lone, from, &msg, total, size);
}

/* The same, packed; `flip`: this bit of the body is another one, and the check is of that. */
static void
give_packed_total(struct lone *lone, unsigned from, uint64_t round, int32_t value, int flip)
{
    int32_t total[LONE_VECTOR];
    uint8_t body[4096];
    for (size_t k = 0; k < LONE_VECTOR; k++)
        total[k] = value + (int32_t)k;
    size_t size = packed_write(body, total, LONE_VECTOR);
    if (flip >= 0)
        body[flip / 8] ^= (uint8_t)(1u << flip % 8);
    struct proto_msg msg = {.type = PROTO_GIVE,
                            .give = {.object = PROTO_OBJECT_TOTAL,
                                     .round = round,
                                     .label = 77 + round,
                                     .coding = PROTO_CODING_PACKED}};
    msg.give.check = transfer_check(&msg.give, 1, body, size);
    lone_say_bulk(lone, from, &msg, body, size);
}

static void
give_total(struct lone *lone, unsigned from, uint64_t round, int32_t value)
{
    give_total_to(lone, from, round, 77 + round, value);
}

/* Node 5 at round 0; nodes 7, 8, ... are at round 9, and have no totals. */
static struct lone *
behind_with(unsigned donors, bool idle, uint64_t planted)
{
    struct lone *lone = LONE(.id = 5, .peers_min = 2, .state_size = SIZE, .planted = planted);
    for (unsigned id = 7; id < 7 + donors; id++)
        lone_meet(lone, id);
    for (unsigned id = 7; id < 7 + donors; id++)
        lone_beat(lone, id, 9, idle);
    for (unsigned id = 7; id < 7 + donors; id++)
        if (lone_asked(lone, id, LONE_TOTAL))
            give_none(lone, id, 0);
    return lone;
}

static struct lone *
behind(unsigned donors, bool idle)
{
    return behind_with(donors, idle, 0);
}

/* Donors that answer what they are asked for, in the order in which they were. */
struct donors {
    uint64_t next;  /* message looked at */
    unsigned mute;  /* id of one that does not answer */
    unsigned wrong; /* id of one that sends other blocks than it offered */
    unsigned given[16];
};

static void
answer(struct lone *lone, struct donors *donors, uint8_t *state, uint64_t round)
{
    for (; donors->next < lone->sent_count; donors->next++) {
        struct lone_sent sent = lone->sent[donors->next % LONE_SENT_MAX];
        const struct proto_fetch *fetch = &sent.msg.fetch;
        if (sent.msg.type != PROTO_FETCH || fetch->object != PROTO_OBJECT_STATE ||
            sent.to == donors->mute)
            continue;
        for (uint64_t b = fetch->block; b < fetch->block + fetch->count; b++) {
            bool wrong = sent.to == donors->wrong;
            state[b * TRANSFER_BLOCK + 7] ^= wrong;
            give(lone, sent.to, state, round, b);
            state[b * TRANSFER_BLOCK + 7] ^= wrong;
            donors->given[sent.to]++;
        }
    }
}

TEST(blocks_of_several_donors_make_the_whole)
{
    OWNED(lone_destroy) struct lone *lone = behind(2, true);
    OWNED(memory_free) uint8_t *want = state_of(9);
    assert_int_equal(lone_asked(lone, 7, LONE_COPY)->msg.fetch.object, PROTO_OBJECT_LIST);
    assert_int_equal(lone_asked(lone, 8, LONE_COPY)->msg.fetch.object, PROTO_OBJECT_LIST);
    assert_int_equal(lone_asked(lone, 8, LONE_COPY)->msg.fetch.round, 9);
    offer(lone, 7, want, 9);
    assert_int_equal(lone_asked_count(lone, 7, LONE_COPY), 1); /* node 8 may offer, too */
    offer(lone, 8, want, 9);
    lone_run(lone, 10);
    assert_int_equal(lone_asked_count(lone, 7, LONE_COPY), 2);
    assert_int_equal(lone_asked_count(lone, 8, LONE_COPY), 2);
    struct donors donors = {0};
    answer(lone, &donors, want, 9);
    assert_true(lone->adopt);
    assert_true(donors.given[7] >= 5 && donors.given[8] >= 5);
    assert_in_range(donors.given[7] + donors.given[8], BLOCKS,
                    BLOCKS + 2); /* the last are helped with */
    assert_int_equal(lone->round, 9);
    assert_int_equal(lone->hash, 77 + 9);
    assert_memory_equal(lone->state_in, want, SIZE);
}

/* The line of this node: what donors give waits in it, and takes its time. */
struct slow_line {
    struct {
        unsigned from;
        uint64_t block;
    } queue[1024];
    size_t head, tail, asked[BLOCKS];
    uint64_t next; /* message looked at */
    uint64_t free_at;
};

static void
line_step(struct lone *lone, struct slow_line *line, uint8_t *state, uint64_t block_us)
{
    for (; line->next < lone->sent_count; line->next++) {
        struct lone_sent sent = lone->sent[line->next % LONE_SENT_MAX];
        const struct proto_fetch *fetch = &sent.msg.fetch;
        if (sent.msg.type != PROTO_FETCH || fetch->object != PROTO_OBJECT_STATE)
            continue;
        if (line->head == line->tail)
            line->free_at = lone->now + block_us;
        for (uint64_t b = fetch->block; b < fetch->block + fetch->count; b++) {
            line->asked[b]++;
            line->queue[line->tail].from = sent.to;
            line->queue[line->tail++ % 1024].block = b;
        }
    }
    for (; line->head < line->tail && lone->now >= line->free_at; line->free_at += block_us) {
        size_t k = line->head++ % 1024;
        give(lone, line->queue[k].from, state, 9, line->queue[k].block);
    }
}

/* A line of 10 Mbit/s, and nobody trains any more: while blocks come, this node is not starved either. */
TEST(over_a_slow_line_blocks_come_once)
{
    OWNED(lone_destroy) struct lone *lone = behind(3, true);
    OWNED(memory_free) uint8_t *want = state_of(9);
    struct slow_line line = {0};
    uint64_t block_us = TRANSFER_BLOCK * UINT64_C(8) / 10, begun_us = lone->now;
    for (unsigned id = 7; id < 10; id++)
        offer(lone, id, want, 9);
    while (lone->now < begun_us + 2 * BLOCKS * block_us && !lone->adopt) {
        lone_run_with(lone, 50, (unsigned[]){7, 8, 9}, 3, 9, true);
        line_step(lone, &line, want, block_us);
    }
    assert_true(lone->adopt);
    assert_in_range(lone->now - begun_us, SIZE * 8 / 10, SIZE * 8 / 10 + 300000);
    for (size_t b = 0; b < BLOCKS; b++)
        assert_int_equal(line.asked[b], 1);
    assert_memory_equal(lone->state_in, want, SIZE);
}

TEST(what_a_dead_donor_owed_is_asked_of_another)
{
    OWNED(lone_destroy) struct lone *lone = behind(2, true);
    OWNED(memory_free) uint8_t *want = state_of(9);
    offer(lone, 7, want, 9);
    offer(lone, 8, want, 9);
    struct donors donors = {.mute = 7};
    give(lone, 7, want, 9, lone_asked(lone, 7, LONE_COPY)->msg.fetch.block);
    lone_down(lone, 7);
    answer(lone, &donors, want, 9);
    assert_true(lone->adopt);
    assert_int_equal(donors.given[8], BLOCKS - 1); /* what had come stays */
    assert_memory_equal(lone->state_in, want, SIZE);
}

/* Node 7 is asked for the blocks from 0 on, and offers a later state instead of giving them. */
TEST(what_a_donor_owed_that_offers_another_state_is_asked_of_another)
{
    OWNED(lone_destroy) struct lone *lone = behind(2, true);
    OWNED(memory_free) uint8_t *want = state_of(9), *later = state_of(10);
    offer(lone, 7, want, 9);
    offer(lone, 8, want, 9);
    struct donors donors = {.mute = 7};
    struct proto_msg none = {.type = PROTO_GIVE,
                             .give = {.object = PROTO_OBJECT_STATE,
                                      .round = 9,
                                      .label = 77 + 9,
                                      .block = lone_asked(lone, 7, LONE_COPY)->msg.fetch.block}};
    offer(lone, 7, later, 10);
    lone_say_bulk(lone, 7, &none, NULL, 0);
    answer(lone, &donors, want, 9);
    assert_true(lone->adopt);
    assert_int_equal(donors.given[8], BLOCKS);
    assert_memory_equal(lone->state_in, want, SIZE);
}

/* Node 7, which offers this state before round 9, gives the first eight blocks of it and is gone. */
static void
lose_donor(struct lone *lone, uint8_t *want)
{
    offer(lone, 7, want, 9);
    lone_run(lone, 30);
    for (uint64_t b = 0; b < 8; b++)
        give(lone, 7, want, 9, b);
    lone_down(lone, 7);
}

TEST(a_transfer_goes_on_where_its_last_donor_left_it)
{
    OWNED(lone_destroy) struct lone *lone = behind(1, true);
    OWNED(memory_free) uint8_t *want = state_of(9);
    lose_donor(lone, want);
    lone_meet(lone, 8);
    lone_beat(lone, 8, 12, true);
    give_none(lone, 8, 0);
    assert_int_equal(lone_asked(lone, 8, LONE_COPY)->msg.fetch.object, PROTO_OBJECT_LIST);
    offer(lone, 8, want, 9);
    struct donors donors = {.mute = 7};
    answer(lone, &donors, want, 9);
    assert_true(lone->adopt);
    assert_int_equal(donors.given[8], BLOCKS - 8);
    assert_memory_equal(lone->state_in, want, SIZE);
}

/* Blocks and a copy that is given lie in the same memory. */
TEST(a_copy_that_was_given_takes_the_place_of_blocks_that_were_there)
{
    OWNED(lone_destroy)
    struct lone *lone = LONE(.id = 5, .peers_min = 3, .state_size = SIZE, .unstarted = true);
    lone_meet(lone, 3); /* leads, but makes no plan */
    lone_meet(lone, 7);
    lone_beat(lone, 3, 4, true);
    lone_beat(lone, 7, 9, true);
    core_on_applied(lone->core, lone->now, &(struct core_state){.round = 4, .hash = 77 + 4});
    lone_run(lone, 20);
    give_none(lone, 7, 4);
    OWNED(memory_free) uint8_t *want = state_of(9);
    lose_donor(lone, want);
    lone_meet(lone, 8);
    lone_beat(lone, 8, 0, true);
    lone_say(lone, 8, &(struct proto_msg){.type = PROTO_FETCH, .fetch = {.round = 4, .holds = 1}});
    lone_run(lone, 30);
    assert_int_equal(lone_gave(lone, 8, LONE_LIST)->msg.give.round, 4);
    lone_forget_sent(lone);
    lone_meet(lone, 7);
    lone_beat(lone, 7, 9, true);
    give_none(lone, 7, 4);
    offer(lone, 7, want, 9);
    struct donors donors = {0};
    answer(lone, &donors, want, 9);
    assert_int_equal(donors.given[7], BLOCKS);
    assert_true(lone->adopt);
    assert_memory_equal(lone->state_in, want, SIZE);
}

TEST(a_silent_donor_is_left_for_another)
{
    OWNED(lone_destroy) struct lone *lone = behind(2, true);
    OWNED(memory_free) uint8_t *want = state_of(9);
    offer(lone, 7, want, 9);
    offer(lone, 8, want, 9);
    struct donors donors = {.mute = 7};
    for (int ms = 0; ms < 5000 && !lone->adopt; ms += 50) {
        answer(lone, &donors, want, 9);
        lone_run_with(lone, 50, (unsigned[]){7, 8}, 2, 9, true);
    }
    assert_true(lone->adopt);
    assert_in_range(donors.given[8], BLOCKS - 1, BLOCKS);
    assert_memory_equal(lone->state_in, want, SIZE);
}

/* Node 7 is at `round`, and gives its state. */
static void
copy_again(struct lone *lone, struct donors *donors, uint64_t round)
{
    OWNED(memory_free) uint8_t *want = state_of(round);
    for (int ms = 0; ms < 5000 && !lone->adopt; ms += 50) {
        lone_run_with(lone, 50, (unsigned[]){7}, 1, round, false);
        give_none(lone, 7, lone->core->round);
        offer(lone, 7, want, round);
        answer(lone, donors, want, round);
    }
}

TEST(copies_are_told_once_a_minute)
{
    static const char told[] = "copying the current weights from 1 node";
    OWNED(lone_destroy) struct lone *lone = behind(1, false);
    struct donors donors = {0};
    copy_again(lone, &donors, 9);
    assert_true(lone->adopt);
    lone_train(lone);
    assert_int_equal(lone_logged(lone, told), 1);
    copy_again(lone, &donors, 19);
    assert_true(lone->adopt);
    lone_train(lone);
    assert_int_equal(lone_logged(lone, told), 1);
    lone_run_with(lone, FETCH_SAY_US / 1000, (unsigned[]){7}, 1, 19, false);
    copy_again(lone, &donors, 29);
    assert_int_equal(lone_logged(lone, told), 2);
}

TEST(a_block_that_is_not_what_was_offered_is_asked_of_another)
{
    OWNED(lone_destroy) struct lone *lone = behind(2, true);
    OWNED(memory_free) uint8_t *want = state_of(9);
    offer(lone, 7, want, 9);
    offer(lone, 8, want, 9);
    struct donors donors = {.wrong = 7};
    answer(lone, &donors, want, 9);
    assert_true(lone->adopt);
    assert_true(lone_logged(lone, "is damaged: asking again") > 0);
    assert_true(donors.given[7] > 0);
    assert_in_range(donors.given[8], BLOCKS - 1, BLOCKS);
    assert_memory_equal(lone->state_in, want, SIZE);
}

/* A list that was damaged here, say: not asked for its blocks for ever. */
TEST(who_alone_sends_what_was_not_offered_is_left_for_a_while)
{
    OWNED(lone_destroy) struct lone *lone = behind(1, true);
    OWNED(memory_free) uint8_t *want = state_of(9);
    offer(lone, 7, want, 9);
    lone_run(lone, 30);
    struct donors donors = {0};
    lone->core->transfer.hashes[5] ^= 1;
    answer(lone, &donors, want, 9);
    assert_in_range(lone_logged(lone, "block 5 of the weights from"), TAKE_TRIES,
                    BLOCKS); /* good ones in between count for it */
    assert_false(lone->adopt);
    lone_forget_sent(lone);
    lone_run_with(lone, 1000, (unsigned[]){7}, 1, 9, true);
    give_none(lone, 7, 0);
    offer(lone, 7, want, 9);
    lone_run_with(lone, 50, (unsigned[]){7}, 1, 9, true);
    donors.next = 0;
    answer(lone, &donors, want, 9);
    assert_true(lone->adopt);
    assert_memory_equal(lone->state_in, want, SIZE);
}

TEST(what_most_offer_is_taken)
{
    OWNED(lone_destroy) struct lone *lone = behind(3, true);
    OWNED(memory_free) uint8_t *want = state_of(9), *other = state_of(10);
    offer(lone, 8, want, 9);
    offer(lone, 9, want, 9);
    offer(lone, 7, other, 9);
    assert_int_equal(lone_asked(lone, 8, LONE_COPY)->msg.fetch.object,
                     PROTO_OBJECT_LIST); /* the list again */
    offer(lone, 8, want, 9);
    struct donors donors = {.mute = 7};
    answer(lone, &donors, want, 9);
    assert_true(lone->adopt);
    assert_in_range(donors.given[8] + donors.given[9], BLOCKS, BLOCKS + 2);
    assert_memory_equal(lone->state_in, want, SIZE);
}

TEST(a_state_with_a_wrong_hash_is_thrown_away)
{
    OWNED(lone_destroy) struct lone *lone = behind(1, true);
    OWNED(memory_free) uint8_t *want = state_of(9);
    offer(lone, 7, want, 9);
    struct donors donors = {0};
    lone_run(lone, 30);
    answer(lone, &donors, want, 9);
    assert_true(lone->adopt);
    lone->adopt = false;
    lone_forget_sent(lone);
    core_on_damaged(lone->core, lone->now, CORE_COPY_DAMAGED);
    lone_run_with(lone, 500, (unsigned[]){7}, 1, 9, true);
    assert_null(lone_asked(lone, 7, LONE_COPY));
    lone_meet(lone, 8);
    lone_beat(lone, 8, 9, true);
    give_none(lone, 8, 0);
    assert_non_null(lone_asked(lone, 8, LONE_COPY));
}

TEST(what_nobody_asked_for_is_ignored)
{
    OWNED(lone_destroy) struct lone *lone = behind(1, true);
    uint8_t *want = state_of(9), nothing[64] = {0};
    lone_meet(lone, 8);
    give(lone, 7, want, 9, 0); /* nothing offered yet */
    uint64_t hashes[BLOCKS] = {0};
    struct proto_msg msg = {.type = PROTO_GIVE, .give = {.object = PROTO_OBJECT_LIST, .round = 9}};
    lone_say_bulk(lone, 7, &msg, hashes, sizeof hashes); /* wrong check */
    msg.give.check = transfer_check(&msg.give, 1, hashes, sizeof hashes - 8);
    lone_say_bulk(lone, 7, &msg, hashes, sizeof hashes - 8); /* a hash is missing */
    offer(lone, 7, want, 0);                                 /* not ahead */
    give(lone, 7, want, 9, 0);
    assert_memory_equal(lone->state_in, nothing, sizeof nothing);
    offer(lone, 7, want, 9);
    lone_run(lone, 30);
    give(lone, 8, want, 9, 0);  /* not a donor */
    give(lone, 7, want, 10, 0); /* of another round */
    msg = (struct proto_msg){
        .type = PROTO_GIVE,
        .give = {.object = PROTO_OBJECT_STATE, .round = 9, .label = 77 + 9, .block = BLOCKS}};
    lone_say_bulk(lone, 7, &msg, want, TRANSFER_BLOCK);
    msg.give.block = BLOCKS - 1; /* which is shorter */
    lone_say_bulk(lone, 7, &msg, want, TRANSFER_BLOCK);
    msg.give.block = 0;
    lone_say_bulk(lone, 7, &msg, want, TRANSFER_BLOCK - 1);
    assert_memory_equal(lone->state_in, nothing, sizeof nothing);
    struct donors donors = {0};
    answer(lone, &donors, want, 9);
    assert_memory_equal(lone->state_in, want, SIZE);
    free(want);
}

/* Node 5 has taken the state before round 9 from node 7, which runs. */
static struct lone *
following_with(uint64_t planted)
{
    struct lone *lone = behind_with(1, false, planted);
    uint8_t *want = state_of(9);
    offer(lone, 7, want, 9);
    struct donors donors = {0};
    lone_run(lone, 30);
    answer(lone, &donors, want, 9);
    lone_train(lone);
    free(want);
    assert_non_null(lone_asked(lone, 7, LONE_TOTAL));
    assert_int_equal(lone_asked(lone, 7, LONE_TOTAL)->msg.fetch.round, 9);
    return lone;
}

static struct lone *
following(void)
{
    return following_with(0);
}

TEST(totals_are_applied_in_their_order)
{
    OWNED(lone_destroy) struct lone *lone = following();
    give_total(lone, 7, 10, 100); /* too early: kept */
    give_total(lone, 7, 8, 50);
    give_total(lone, 8, 9, 50); /* who is that? */
    assert_false(lone->commit);
    give_total(lone, 7, 9, 0);
    assert_true(lone->commit);
    assert_int_equal(lone->round, 9);
    assert_int_equal(lone->sum[10], 0); /* bucket 0 begins there */
    assert_int_equal(lone->sum[99], 89);
    assert_int_equal(lone->sum[0], 90);
    lone_train(lone);
    assert_true(lone->commit);
    assert_int_equal(lone->round, 10);
    assert_int_equal(lone->sum[99], 189);
    lone_train(lone);
    assert_false(lone->commit);
    assert_int_equal(lone->wire.kept, 0);
}

/* The second net behind the round of a total: it names the hash of the state that it is for. */
TEST(a_total_of_the_round_before_is_for_another_state)
{
    OWNED(lone_destroy) struct lone *lone = following_with(MUTANT_FOLLOW_ROUND);
    give_total(lone, 7, 8, 50);
    assert_false(lone->commit);
    lone_destroy(&lone);
    lone = following_with(MUTANTS(MUTANT_FOLLOW_ROUND, MUTANT_FOLLOW_STATE));
    give_total(lone, 7, 8, 50);
    assert_true(lone->commit); /* so it is this net that holds */
}

TEST(a_packed_total_is_the_same_total)
{
    OWNED(lone_destroy) struct lone *lone = following();
    give_packed_total(lone, 7, 9, 0, 8 * 131 + 7); /* an element behind the last one is not zero */
    assert_false(lone->commit);
    give_packed_total(lone, 7, 10, 100, -1); /* kept */
    give_packed_total(lone, 7, 9, 0, -1);
    assert_true(lone->commit);
    assert_int_equal(lone->sum[10], 0);
    assert_int_equal(lone->sum[99], 89);
    assert_int_equal(lone->sum[0], 90);
    lone_train(lone);
    assert_true(lone->commit);
    assert_int_equal(lone->sum[99], 189);
    lone_train(lone);
    assert_int_equal(lone->wire.kept, 0);
}

/* Half of a total came from node 7, and node 7 dies: what 8 has of it is the same, unless the sum depends on
 * members. */
TEST(a_total_from_another_donor_begins_again_if_sums_are_inexact)
{
    for (int inexact = 0; inexact < 2; inexact++) {
        OWNED(lone_destroy) struct lone *lone = following();
        lone_meet(lone, 8);
        lone_beat(lone, 8, 12, false);
        lone->core->config.inexact = inexact;
        lone->core->fetch.block = 1;
        lone_down(lone, 7);
        lone_run_with(lone, 300, (unsigned[]){8}, 1, 12, false);
        assert_non_null(lone_asked(lone, 8, LONE_TOTAL));
        assert_int_equal(lone_asked(lone, 8, LONE_TOTAL)->msg.fetch.block, inexact ? 0 : 1);
    }
}

/* The half of a total in block `block` from node 7. */
static void
give_half(struct lone *lone, uint64_t block, uint64_t commit)
{
    static int32_t half[LONE_VECTOR / 2];
    struct proto_msg msg = {.type = PROTO_GIVE,
                            .give = {.object = PROTO_OBJECT_TOTAL,
                                     .round = 9,
                                     .block = block,
                                     .label = 77 + 9,
                                     .commit = commit}};
    msg.give.check = transfer_check(&msg.give, 1, half, sizeof half);
    lone_say_bulk(lone, 7, &msg, half, sizeof half);
}

/* Node 7 went back between two blocks of a total, and computed the round again, perhaps with other members. Is the
 * total committed that has blocks of both? */
static bool
takes_two_halves(bool inexact, uint64_t planted)
{
    OWNED(lone_destroy) struct lone *lone = following_with(planted);
    lone->core->config.inexact = inexact;
    lone->core->transfer.block_size = LONE_VECTOR * sizeof(int32_t) / 2;
    give_half(lone, 0, 3);
    lone_forget_sent(lone);
    give_half(lone, 1, 4);
    bool takes = lone->commit;
    if (!takes) {
        assert_int_equal(lone_asked(lone, 7, LONE_TOTAL)->msg.fetch.block, 0);
        give_half(lone, 0, 4);
        give_half(lone, 1, 4);
        assert_true(lone->commit);
    }
    return takes;
}

TEST(blocks_of_two_inexact_totals_are_not_put_together)
{
    assert_true(takes_two_halves(false, 0));
    assert_false(takes_two_halves(true, 0));
    assert_true(takes_two_halves(true, MUTANT_TWO_TOTALS));
}

/* Node 5 gave up its state before round 9, since node 7, now at round 12, had another one. Node 8, at round 9, may have
 * the one that was given up: it gives none before 7, which is far away, has answered. */
TEST(a_copy_is_not_of_the_state_that_was_given_up)
{
    OWNED(lone_destroy)
    struct lone *lone = LONE(.id = 5, .peers_min = 2, .state_size = SIZE, .inexact = true);
    OWNED(memory_free) uint8_t *ours = state_of(9), *theirs = state_of(12);
    struct donors donors = {0};
    lone_meet(lone, 7);
    lone_meet(lone, 8);
    fetch_needs_copy(&lone->core->fetch, 9);
    lone_beat(lone, 7, 12, true);
    lone_beat(lone, 8, 9, true);
    assert_non_null(lone_asked(lone, 7, LONE_COPY));
    offer(lone, 8, ours, 9);
    lone_run(lone, 60);
    answer(lone, &donors, ours, 9);
    assert_int_equal(donors.given[8], 0); /* no block was asked for */
    offer(lone, 7, theirs, 12);
    lone_run(lone, 60);
    answer(lone, &donors, theirs, 12);
    assert_int_equal(donors.given[7], BLOCKS);
}

/* But while nobody has got further than it, its state is better than none. */
TEST(the_state_that_was_given_up_is_better_than_none)
{
    OWNED(lone_destroy)
    struct lone *lone = LONE(.id = 5, .peers_min = 2, .state_size = SIZE, .inexact = true);
    OWNED(memory_free) uint8_t *ours = state_of(9);
    struct donors donors = {0};
    lone_meet(lone, 8);
    fetch_needs_copy(&lone->core->fetch, 9);
    lone_beat(lone, 8, 9, true);
    offer(lone, 8, ours, 9);
    lone_run(lone, 60);
    answer(lone, &donors, ours, 9);
    assert_int_equal(donors.given[8], BLOCKS);
}

/* Two nodes offer the state that this one has. How many blocks does it ask for? */
static unsigned
blocks_of_what_we_have(uint64_t planted)
{
    OWNED(lone_destroy) struct lone *lone = behind_with(2, true, planted);
    OWNED(memory_free) uint8_t *want = state_of(0);
    struct donors donors = {0};
    offer(lone, 7, want, 0);
    offer(lone, 8, want, 0);
    lone_run(lone, 30);
    answer(lone, &donors, want, 0);
    return donors.given[7] + donors.given[8];
}

/* The second net behind the round of an offer: votes count for later rounds than ours only. */
TEST(an_offer_of_what_we_have_gets_no_votes)
{
    assert_int_equal(blocks_of_what_we_have(0), 0);
    assert_int_equal(blocks_of_what_we_have(MUTANT_OFFER_ROUND), 0);
    assert_int_equal(blocks_of_what_we_have(MUTANT_OFFER_VOTES), 0);
    assert_true(blocks_of_what_we_have(MUTANTS(MUTANT_OFFER_ROUND, MUTANT_OFFER_VOTES)) > 0);
}

/* A bit of ours flipped since, or one of its: as many have theirs as ours, so both go back, and nothing is taken from
 * it before the round is computed again. */
TEST(who_follows_one_of_another_state_stops)
{
    OWNED(lone_destroy) struct lone *lone = following();
    lone_beat(lone, 7, 10, false);
    lone_forget_sent(lone);
    give_total_to(lone, 7, 9, 1234, 0);
    assert_false(lone->commit);
    assert_true(lone->back);
    assert_int_equal(lone_logged(lone, "so both go back"), 1);
    assert_int_equal(lone->wire.kept, 0);
    lone_train(lone);
    lone_run(lone, 300);
    assert_null(lone_asked(lone, 7, LONE_COPY));
    assert_null(lone_asked(lone, 7, LONE_TOTAL));
}

/* The other one is asked first, and then followed from an older state. */
TEST(who_differs_from_more_goes_back_and_follows)
{
    OWNED(lone_destroy) struct lone *lone = following();
    lone_meet(lone, 8);
    lone_beat(lone, 7, 10, false);
    lone_beat(lone, 8, 10, false);
    lone_forget_sent(lone);
    give_total_to(lone, 7, 9, 1234, 0);
    assert_false(lone->back);
    assert_non_null(lone_asked(lone, 8, LONE_TOTAL));
    give_total_to(lone, 8, 9, 1234, 0);
    assert_int_equal(lone_logged(lone, "more agree with it: going back"), 2);
    assert_true(lone->back);
    lone_forget_sent(lone);
    lone_train(lone);
    lone_run(lone, 20);
    assert_true(lone_asked(lone, 7, LONE_TOTAL) || lone_asked(lone, 8, LONE_TOTAL));
}

/* Which buckets a round has is a part of the state: a total of another size says that the state is another one. */
TEST(a_total_of_another_size_tells_its_state)
{
    OWNED(lone_destroy) struct lone *lone = following();
    lone_beat(lone, 7, 10, false);
    struct proto_msg msg = {.type = PROTO_GIVE,
                            .give = {.object = PROTO_OBJECT_TOTAL, .round = 9, .label = 1234}};
    int32_t one[1] = {1};
    msg.give.check = transfer_check(&msg.give, 1, one, sizeof one);
    lone_say_bulk(lone, 7, &msg, one, sizeof one);
    assert_true(lone->back);
}

/* As when this node has begun a plan of its own meanwhile. */
TEST(a_total_of_who_is_not_followed_tells_its_state)
{
    OWNED(lone_destroy) struct lone *lone = following();
    lone_meet(lone, 8);
    lone_beat(lone, 7, 10, false);
    lone_beat(lone, 8, 10, false);
    give_total_to(lone, 8, 9, 77 + 9, 0);
    give_total_to(lone, 8, 8, 1234, 0);
    assert_int_equal(lone_logged(lone, "different weights"), 0);
    give_total_to(lone, 8, 9, 1234, 0);
    assert_false(lone->back);
    assert_false(lone->commit);
    assert_int_equal(lone_logged(lone, "more nodes agree with this one"),
                     1); /* 7 gave it its own */
}

/* It has no totals, but says which state it had: another one. */
TEST(an_empty_total_of_another_state_is_not_copied)
{
    OWNED(lone_destroy) struct lone *lone = following();
    lone_beat(lone, 7, 10, false);
    lone_forget_sent(lone);
    struct proto_msg msg = {.type = PROTO_GIVE,
                            .give = {.object = PROTO_OBJECT_TOTAL, .round = 9, .label = 1234}};
    msg.give.check = transfer_check(&msg.give, 1, "", 0);
    lone_say_bulk(lone, 7, &msg, NULL, 0);
    assert_int_equal(lone_logged(lone, "so both go back"), 1);
    lone_train(lone);
    lone_run(lone, 300);
    assert_null(lone_asked(lone, 7, LONE_COPY));
}

TEST(a_damaged_total_is_asked_for_again)
{
    OWNED(lone_destroy) struct lone *lone = following();
    static int32_t total[LONE_VECTOR] = {1};
    struct proto_msg msg = {.type = PROTO_GIVE,
                            .give = {.object = PROTO_OBJECT_TOTAL, .round = 9, .label = 77 + 9}};
    msg.give.check = transfer_check(&msg.give, 1, total, sizeof total);
    total[50] ^= 1;
    lone_say_bulk(lone, 7, &msg, total, sizeof total);
    assert_false(lone->commit);
    msg.give.check = transfer_check(&msg.give, 1, total, sizeof total);
    msg.give.round = 10; /* the right check of another round */
    lone_say_bulk(lone, 7, &msg, total, sizeof total);
    lone_forget_sent(lone);
    lone_run_with(lone, 300, (unsigned[]){7}, 1, 10, false);
    assert_true(lone_asked(lone, 7, LONE_TOTAL)->msg.fetch.again);
    give_total(lone, 7, 9, 0);
    assert_true(lone->commit);
    lone->commit = false;
    lone_forget_sent(lone);
    core_on_damaged(lone->core, lone->now, CORE_TOTAL_DAMAGED); /* says the ledger */
    assert_int_equal(lone_asked(lone, 7, LONE_TOTAL)->msg.fetch.block, 0);
    give_total(lone, 7, 9, 0);
    assert_true(lone->commit);
    lone_train(lone);
    assert_false(lone->commit); /* that of round 10 was not what it said */
}

static bool
says_ready(struct lone *lone)
{
    lone_forget_sent(lone);
    for (unsigned ms = 0; ms < 240 && !lone_sent(lone, 7, PROTO_HEARTBEAT); ms += 10)
        lone_run(lone, 10); /* who waits beats slowly */
    const struct lone_sent *beat = lone_sent(lone, 7, PROTO_HEARTBEAT);
    assert_non_null(beat);
    return beat->msg.heartbeat.ready;
}

TEST(only_who_is_up_says_ready)
{
    OWNED(lone_destroy) struct lone *lone = behind(1, false);
    assert_false(says_ready(lone));
    lone_destroy(&lone);
    lone = following();
    lone_beat(lone, 7, 11, false);
    assert_false(says_ready(lone));
    give_total(lone, 7, 9, 0);
    lone_train(lone);
    assert_true(says_ready(lone)); /* one behind */
    lone_down(lone, 7);
    lone_meet(lone, 7);
    assert_false(says_ready(lone));
}

/* Nodes 5 and 7 took the same copy, and each may follow the other one. Node 8 goes on. */
TEST(who_follows_one_that_is_not_ahead_soon_follows_one_that_is)
{
    OWNED(lone_destroy) struct lone *lone = following();
    lone_meet(lone, 8);
    lone_run_with(lone, 150, (unsigned[]){7}, 1, 9, false);
    lone_beat(lone, 8, 12, false);
    lone_run(lone, 20);
    assert_non_null(lone_asked(lone, 8, LONE_TOTAL));
    assert_int_equal(lone_asked(lone, 8, LONE_TOTAL)->msg.fetch.round, 9);
}

/* 7 is far ahead and trains faster than totals of it come. 8 is at the round that this node has got. */
TEST(who_is_overtaken_trains_with_others_until_who_is_ahead_rests)
{
    OWNED(lone_destroy) struct lone *lone = following();
    const unsigned seven[] = {7}, both[] = {7, 8};
    lone->speed = 1000000;
    lone_run_with(lone, 300, seven, 1, 10, false);
    lone_run_with(lone, 50, seven, 1, 40, false);
    give_none(lone, 7, 9);
    lone_run_with(lone, FETCH_REST_US / 1000 - 100, seven, 1, 40, false);
    assert_int_equal(lone_members(lone), 0); /* 7 may wait for it */
    lone_meet(lone, 8);
    lone_forget_sent(lone);
    for (int ms = 0; ms < 400; ms += 50) {
        lone_beat(lone, 8, 9, true);
        lone_run_with(lone, 50, seven, 1, 40, false);
    }
    assert_int_equal(lone_members(lone), 2);
    assert_null(lone_asked(lone, 7, LONE_TOTAL | LONE_COPY));
    lone_run_with(lone, 1500, both, 2, 9, false);
    assert_int_equal(lone_members(lone), 2);
    lone_down(lone, 8);
    lone_run_with(lone, 20, seven, 1, 40, true);
    assert_non_null(lone_asked(lone, 7, LONE_TOTAL));
}

TEST(who_is_overtaken_begins_again_later_and_says_so_once)
{
    OWNED(lone_destroy) struct lone *lone = following();
    for (uint64_t round = 20; round < 200; round += 20) {
        give_none(lone, 7, lone->core->round);
        lone_forget_sent(lone);
        lone_run_with(lone, 200, (unsigned[]){7}, 1, round, false);
        assert_null(lone_asked(lone, 7, LONE_COPY));
        for (unsigned ms = 0; ms < 2000 && !lone_asked(lone, 7, LONE_COPY); ms += 50) {
            lone_run_with(lone, 50, (unsigned[]){7}, 1, round, false);
            give_none(lone, 7, lone->core->round);
        }
        assert_non_null(lone_asked(lone, 7, LONE_COPY));
        OWNED(memory_free) uint8_t *want = state_of(round);
        struct donors donors = {.next = lone->sent_count};
        offer(lone, 7, want, round);
        lone_run(lone, 30);
        answer(lone, &donors, want, round);
        assert_true(lone->adopt);
        lone_train(lone);
    }
    assert_int_equal(lone_logged(lone, "receives more slowly than the others train"), 1);
}

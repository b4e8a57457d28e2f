/* The orders of the papers, memory, and random courses with late messages and dead members.
 *
 *     build/gcc/tests/unit/test_schedule 10000       so many random courses */
#include <stdio.h>

#include "mesh/core/pipeline/schedule.h"
#include "proto/bits.h"
#include "tests/support/cases.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

enum { STAGES = 6, SHARDS = 16, MEMBERS = 8, MAIL = 4096, GONE = MEMBERS, LATE = 20 };

static size_t courses = 10000;

/* --- Some members, their messages, and a clock of whole steps -------------------------------------- */

/* What the members themselves did of (stage, shard), counted without a look into their schedules. */
struct counts {
    int begun[SCHEDULE_KINDS], done[SCHEDULE_KINDS];
};

struct mail {
    int at, to;
    unsigned stage, shard;
    bool gradient;
};

struct world {
    struct rand rand;
    enum schedule_rule rule;
    unsigned k, m, n;
    int now, owner[STAGES][SHARDS];
    bool dead[MEMBERS], late; /* late: times are random, messages may come late and twice */
    struct schedule member[MEMBERS];
    struct schedule_piece piece[MEMBERS];
    int end[MEMBERS]; /* of the piece; 0: none */
    struct counts counts[STAGES][SHARDS];
    struct mail mail[MAIL];
    size_t mails;
    char *order[MEMBERS]; /* NULL, or where the pieces are written: "F0 I0 W0 " */
};

static void
post(struct world *w, int delay, unsigned stage, unsigned shard, bool gradient)
{
    assert_true(w->mails < MAIL);
    w->mail[w->mails++] =
        (struct mail){w->now + delay, w->owner[stage][shard], stage, shard, gradient};
}

static void
send(struct world *w, unsigned stage, unsigned shard, bool gradient)
{
    post(w, w->late ? (int)rand_below(&w->rand, LATE) : 0, stage, shard, gradient);
    if (w->late && rand_below(&w->rand, 8) == 0)
        post(w, (int)rand_below(&w->rand, 2 * LATE), stage, shard, gradient);
}

/* The neighbours send once more what they have given to (stage, shard). */
static void
send_again(struct world *w, unsigned stage, unsigned shard)
{
    const struct counts *before = stage ? &w->counts[stage - 1][shard] : NULL;
    const struct counts *after = stage + 1 < w->k ? &w->counts[stage + 1][shard] : NULL;
    if (before && before->done[SCHEDULE_FORWARD])
        send(w, stage, shard, false);
    if (after && after->done[SCHEDULE_BACKWARD] + after->done[SCHEDULE_INPUT])
        send(w, stage, shard, true);
}

static void
deliver(struct world *w)
{
    for (size_t i = 0; i < w->mails;) {
        struct mail mail = w->mail[i];
        if (mail.at > w->now) {
            i++;
            continue;
        }
        w->mail[i] = w->mail[--w->mails];
        struct schedule *to = &w->member[mail.to];
        if (w->dead[mail.to])
            continue;
        bool (*say)(struct schedule *, unsigned, unsigned) =
            mail.gradient ? schedule_on_gradient : schedule_on_input;
        bool first = say(to, mail.stage, mail.shard);
        assert_false(say(to, mail.stage, mail.shard));
        if (w->owner[mail.stage][mail.shard] != mail.to)
            assert_false(first);
    }
}

static void
finish(struct world *w, unsigned i)
{
    struct schedule_piece piece = w->piece[i];
    w->end[i] = 0;
    if (!schedule_done(&w->member[i]))
        return;
    w->counts[piece.stage][piece.shard].done[piece.kind]++;
    if (piece.kind == SCHEDULE_FORWARD && piece.stage + 1 < w->k)
        send(w, piece.stage + 1, piece.shard, false);
    if ((piece.kind == SCHEDULE_BACKWARD || piece.kind == SCHEDULE_INPUT) && piece.stage > 0)
        send(w, piece.stage - 1, piece.shard, true);
}

static void
begin(struct world *w, unsigned i)
{
    static const int length[SCHEDULE_KINDS] = {1, 2, 1, 1};
    struct schedule_piece piece, none;
    if (!schedule_next(&w->member[i], &piece))
        return;
    assert_false(schedule_next(&w->member[i], &none));
    assert_true(w->owner[piece.stage][piece.shard] == (int)i);
    for (unsigned stage = 0; stage < w->k && piece.kind == SCHEDULE_BACKWARD; stage++)
        for (unsigned shard = 0; shard < w->m && w->rule == SCHEDULE_GPIPE; shard++)
            assert_true(w->owner[stage][shard] != (int)i ||
                        w->counts[stage][shard].done[SCHEDULE_FORWARD]);
    w->piece[i] = piece;
    w->end[i] = w->now + (w->late ? (int)rand_range(&w->rand, 1, 9) : length[piece.kind]);
    w->counts[piece.stage][piece.shard].begun[piece.kind]++;
    if (w->order[i])
        w->order[i] += sprintf(w->order[i], "%c%u ", "FBIW"[piece.kind], piece.shard);
}

/* Who computes what has changed. */
static void
wait_where_it_is_safe(struct world *w)
{
    uint8_t owner[STAGES][PROTO_SHARDS_MAX];
    for (unsigned stage = 0; stage < w->k; stage++)
        for (unsigned shard = 0; shard < w->m; shard++)
            owner[stage][shard] = (uint8_t)w->owner[stage][shard];
    for (unsigned i = 0; i < w->n; i++)
        schedule_wait(&w->member[i], w->m, (const uint8_t(*)[PROTO_SHARDS_MAX])owner);
}

/* --- What must hold ------------------------------------------------------------------------------- */

/* Micro-batches in memory: a piece takes it when it begins and gives it back when it ends. */
static void
memory_is_bounded(const struct world *w)
{
    for (unsigned i = 0; i < w->n; i++)
        for (unsigned stage = 0; stage < w->k && !w->dead[i]; stage++) {
            unsigned held = 0, all = 0, k = w->rule == SCHEDULE_GPIPE ? w->m + stage : w->k;
            for (unsigned shard = 0; shard < w->m; shard++) {
                const struct counts *of = &w->counts[stage][shard];
                bool mine = w->owner[stage][shard] == (int)i && of->begun[SCHEDULE_FORWARD];
                held += mine && of->done[SCHEDULE_BACKWARD] + of->done[SCHEDULE_INPUT] == 0;
                all += mine && of->done[SCHEDULE_BACKWARD] + of->done[SCHEDULE_WEIGHT] == 0;
            }
            assert_true(held <= k - stage);
            assert_true(all <= (w->rule == SCHEDULE_ZB ? k : k - stage));
        }
}

static void
all_is_computed_once(const struct world *w)
{
    bool zb = w->rule == SCHEDULE_ZB;
    for (unsigned stage = 0; stage < w->k; stage++)
        for (unsigned shard = 0; shard < w->m; shard++)
            for (int kind = 0; kind < SCHEDULE_KINDS; kind++) {
                bool back = w->rule != SCHEDULE_EVALUATE && zb == (kind != SCHEDULE_BACKWARD);
                bool has = kind == SCHEDULE_FORWARD || back;
                assert_int_equal(w->counts[stage][shard].done[kind], has);
            }
}

/* --- Accidents ------------------------------------------------------------------------------------ */

static void
forget(struct world *w, unsigned stage, unsigned shard)
{
    w->counts[stage][shard] = (struct counts){0};
}

/* A member dies, perhaps in a piece; any others, or one, take its micro-batches, of a stage that they have or not. */
static void
kill_one(struct world *w)
{
    int dies = (int)rand_below(&w->rand, w->n), alive = 0;
    for (unsigned i = 0; i < w->n; i++)
        alive += !w->dead[i];
    if (w->dead[dies] || alive == 1)
        return;
    bool one = rand_bool(&w->rand);
    int to = -1;
    w->dead[dies] = true;
    w->end[dies] = 0;
    for (unsigned stage = 0; stage < w->k; stage++)
        for (unsigned shard = 0; shard < w->m; shard++) {
            if (w->owner[stage][shard] != dies)
                continue;
            if (!one || to < 0)
                do
                    to = (int)rand_below(&w->rand, w->n);
                while (w->dead[to]);
            w->owner[stage][shard] = to;
            forget(w, stage, shard);
            schedule_add(&w->member[to], stage, UINT64_C(1) << shard);
        }
    wait_where_it_is_safe(w);
    for (unsigned stage = 0; stage < w->k; stage++)
        for (unsigned shard = 0; shard < w->m; shard++)
            send_again(w, stage, shard);
}

/* Some inputs of a stage are void, perhaps in the piece that they are for. */
static void
void_some(struct world *w)
{
    unsigned i = (unsigned)rand_below(&w->rand, w->n), stage = (unsigned)rand_below(&w->rand, w->k);
    uint64_t shards = rand_u64(&w->rand) & rand_u64(&w->rand);
    if (w->dead[i])
        return;
    shards &= w->member[i].of[stage].mine;
    schedule_drop(&w->member[i], stage, shards);
    schedule_add(&w->member[i], stage, shards);
    for (unsigned shard = 0; shard < w->m; shard++)
        if ((shards >> shard & 1) && w->owner[stage][shard] == (int)i) {
            forget(w, stage, shard);
            send_again(w, stage, shard);
        }
}

/* --- A course ------------------------------------------------------------------------------------- */

static bool
is_over(const struct world *w)
{
    for (unsigned i = 0; i < w->n; i++)
        if (!w->dead[i] && !schedule_complete(&w->member[i]))
            return false;
    return true;
}

/* Members keep their shards in the order of owner[][]. Returns the time that all pieces took. */
static int
play(struct world *w, unsigned accidents)
{
    for (unsigned i = 0; i < w->n; i++)
        schedule_init(&w->member[i], w->rule, w->k);
    for (unsigned stage = 0; stage < w->k; stage++)
        for (unsigned shard = 0; shard < w->m; shard++)
            schedule_add(&w->member[w->owner[stage][shard]], stage, UINT64_C(1) << shard);
    wait_where_it_is_safe(w);
    for (w->now = 0; !is_over(w); w->now++) {
        if (accidents > 0 && rand_below(&w->rand, 2 * SHARDS) == 0) {
            accidents--;
            rand_bool(&w->rand) ? kill_one(w) : void_some(w);
        }
        for (unsigned i = 0; i < w->n; i++)
            if (w->end[i] && w->end[i] == w->now)
                finish(w, i);
        deliver(w);
        bool any = w->mails > 0;
        for (unsigned i = 0; i < w->n; i++) {
            if (!w->dead[i] && !w->end[i])
                begin(w, i);
            any = any || w->end[i];
        }
        if (w->rule != SCHEDULE_EVALUATE)
            memory_is_bounded(w);
        assert_true(any || is_over(w)); /* somebody works, or something is on its way */
    }
    all_is_computed_once(w);
    return w->now - 1;
}

/* --- The papers ----------------------------------------------------------------------------------- */

/* k members with a stage each; a forward takes 1, a whole backward 2, messages nothing. */
static int
play_equal(enum schedule_rule rule, unsigned k, unsigned m, char order[][512])
{
    OWNED(memory_free) struct world *w = calloc(1, sizeof *w);
    *w = (struct world){.rule = rule, .k = k, .m = m, .n = k};
    for (unsigned stage = 0; stage < k; stage++) {
        w->order[stage] = order[stage];
        for (unsigned shard = 0; shard < m; shard++)
            w->owner[stage][shard] = (int)stage;
    }
    return play(w, 0);
}

/* Huang et al., NeurIPS 2019, figure 2c. */
TEST(gpipe_is_the_order_of_its_paper)
{
    char order[4][512];
    assert_int_equal(play_equal(SCHEDULE_GPIPE, 4, 4, order), 3 * (4 + 3));
    for (int stage = 0; stage < 4; stage++)
        assert_string_equal(order[stage], "F0 F1 F2 F3 B3 B2 B1 B0 ");
}

/* Narayanan et al., ICML 2021 (PipeDream-flush), and SC 2021, figure 4, top: four stages, eight micro-batches. */
TEST(one_forward_one_backward_is_the_order_of_its_paper)
{
    char order[4][512];
    assert_int_equal(play_equal(SCHEDULE_1F1B, 4, 8, order), 3 * (8 + 3));
    assert_string_equal(order[0], "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7 ");
    assert_string_equal(order[1], "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7 ");
    assert_string_equal(order[2], "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7 ");
    assert_string_equal(order[3], "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7 ");
}

/* Qi et al., ICLR 2024, section 2.1 and figure 3, top: gradients of weights begin one micro-batch later with each
 * stage, and what is left of the bubble is (k-1)(F + I - W). */
TEST(zero_bubble_h1_is_the_order_of_its_paper)
{
    char order[4][512];
    assert_int_equal(play_equal(SCHEDULE_ZB, 4, 8, order), 3 * 8 + 3);
    assert_string_equal(order[0], "F0 F1 F2 F3 I0 W0 F4 I1 W1 F5 I2 W2 F6 I3 W3 F7 I4 W4 I5 W5 "
                                  "I6 W6 I7 W7 ");
    assert_string_equal(order[1], "F0 F1 F2 I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 F6 I4 W3 F7 I5 W4 I6 W5 "
                                  "I7 W6 W7 ");
    assert_string_equal(order[2], "F0 F1 I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 F6 I5 W3 F7 I6 W4 "
                                  "I7 W5 W6 W7 ");
    assert_string_equal(order[3], "F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 F6 I6 W3 F7 I7 "
                                  "W4 W5 W6 W7 ");
}

TEST(the_drawing_in_the_header_is_right)
{
    char order[2][512];
    assert_int_equal(play_equal(SCHEDULE_1F1B, 2, 4, order), 15);
    assert_string_equal(order[0], "F0 F1 B0 F2 B1 F3 B2 B3 ");
    assert_string_equal(order[1], "F0 B0 F1 B1 F2 B2 F3 B3 ");
    assert_int_equal(play_equal(SCHEDULE_ZB, 2, 4, order), 13);
    assert_string_equal(order[0], "F0 F1 I0 W0 F2 I1 W1 F3 I2 W2 I3 W3 ");
    assert_string_equal(order[1], "F0 I0 F1 I1 W0 F2 I2 W1 F3 I3 W2 W3 ");
}

TEST(with_equal_times_the_bubble_is_that_of_the_formula)
{
    char order[STAGES][512];
    for (unsigned k = 1; k <= STAGES; k++)
        for (unsigned m = k; m <= SHARDS; m++) {
            assert_int_equal(play_equal(SCHEDULE_GPIPE, k, m, order), 3 * (m + k - 1));
            assert_int_equal(play_equal(SCHEDULE_1F1B, k, m, order), 3 * (m + k - 1));
            assert_int_equal(play_equal(SCHEDULE_ZB, k, m, order), 3 * m + k - 1);
        }
}

/* One after the other, and never more than a stage behind the one before. */
TEST(an_evaluation_has_forwards_only)
{
    char order[4][512];
    assert_int_equal(play_equal(SCHEDULE_EVALUATE, 4, 8, order), 8 + 3);
    for (int stage = 0; stage < 4; stage++)
        assert_string_equal(order[stage], "F0 F1 F2 F3 F4 F5 F6 F7 ");
}

/* --- Memory and events ---------------------------------------------------------------------------- */

TEST(room_is_that_of_the_rule)
{
    for (unsigned stage = 0; stage < 4; stage++) {
        struct schedule_room room = schedule_room(SCHEDULE_1F1B, 4, stage, 64);
        assert_int_equal(room.held, 4 - stage);
        assert_int_equal(room.all, 4 - stage);
        room = schedule_room(SCHEDULE_ZB, 4, stage, 64);
        assert_int_equal(room.held, 4 - stage);
        assert_int_equal(room.all, 4);
        room = schedule_room(SCHEDULE_GPIPE, 4, stage, 64);
        assert_int_equal(room.held, 64);
        assert_int_equal(room.all, 64);
        assert_int_equal(schedule_room(SCHEDULE_ZB, 4, stage, 1).held, 1); /* it has no more */
        assert_int_equal(schedule_room(SCHEDULE_ZB, 4, stage, 1).all, 1);
    }
}

TEST(what_is_not_wanted_is_not_taken)
{
    struct schedule s, before;
    schedule_init(&s, SCHEDULE_ZB, 3);
    schedule_add(&s, 1, 6);
    memcpy(&before, &s, sizeof s);
    assert_false(schedule_on_input(&s, 1, 0)); /* of another member */
    assert_false(schedule_on_input(&s, 2, 1)); /* a stage that this member has not */
    assert_false(schedule_on_input(&s, 3, 1));
    assert_false(schedule_on_input(&s, UINT32_MAX, 1));
    assert_false(schedule_on_input(&s, 1, 64));
    assert_false(schedule_on_input(&s, 1, 65));
    assert_false(schedule_on_input(&s, 1, UINT32_MAX));
    assert_false(schedule_on_gradient(&s, 1, 0));
    assert_false(schedule_on_gradient(&s, PROTO_STAGES_MAX, 1));
    assert_memory_equal(&before, &s, sizeof s);
    schedule_add(&s, 0, 1);
    schedule_add(&s, 2, 1);
    assert_false(schedule_on_input(&s, 0, 0));    /* the first stage reads its samples */
    assert_false(schedule_on_gradient(&s, 2, 0)); /* the last one computes it */
}

TEST(a_gradient_may_come_before_the_forward_is_computed)
{
    struct schedule s;
    struct schedule_piece piece;
    schedule_init(&s, SCHEDULE_1F1B, 3);
    schedule_add(&s, 1, 1);
    assert_true(schedule_on_gradient(&s, 1, 0));
    assert_false(schedule_next(&s, &piece));
    assert_true(schedule_on_input(&s, 1, 0));
    assert_true(schedule_next(&s, &piece));
    assert_int_equal(piece.kind, SCHEDULE_FORWARD);
    assert_true(schedule_done(&s));
    assert_true(schedule_next(&s, &piece));
    assert_int_equal(piece.kind, SCHEDULE_BACKWARD);
    assert_false(schedule_complete(&s));
    assert_true(schedule_done(&s));
    assert_true(schedule_complete(&s));
    assert_false(schedule_next(&s, &piece));
}

static bool
next_is(struct schedule *s, enum schedule_kind kind, unsigned stage)
{
    struct schedule_piece piece;
    return schedule_next(s, &piece) && piece.kind == kind && piece.stage == stage &&
           schedule_done(s);
}

/* The gradient of the first stage is there before the last one has computed anything. */
TEST(with_a_shared_weight_the_first_stage_waits_for_the_last)
{
    struct schedule s;
    struct schedule_piece piece;
    schedule_init(&s, SCHEDULE_ZB, 3);
    schedule_tie(&s);
    schedule_add(&s, 0, 1);
    schedule_add(&s, 2, 1);
    assert_true(next_is(&s, SCHEDULE_FORWARD, 0));
    assert_true(schedule_on_gradient(&s, 0, 0));
    assert_false(schedule_next(&s, &piece));
    assert_true(schedule_on_input(&s, 2, 0));
    assert_true(next_is(&s, SCHEDULE_FORWARD, 2));
    assert_true(next_is(&s, SCHEDULE_INPUT, 2));
    assert_true(next_is(&s, SCHEDULE_INPUT, 0));
    schedule_again(&s, 2);
    assert_true(next_is(&s, SCHEDULE_FORWARD, 2));
    assert_true(next_is(&s, SCHEDULE_INPUT, 2));
    assert_true(next_is(&s, SCHEDULE_WEIGHT, 2));
    assert_true(next_is(&s, SCHEDULE_WEIGHT, 0));
    assert_true(schedule_complete(&s));
}

TEST(a_piece_whose_input_becomes_void_does_not_count)
{
    struct schedule s;
    struct schedule_piece piece;
    schedule_init(&s, SCHEDULE_ZB, 2);
    schedule_add(&s, 1, 3);
    assert_true(schedule_on_input(&s, 1, 0));
    assert_true(schedule_next(&s, &piece));
    schedule_drop(&s, 1, 2); /* of another shard */
    schedule_add(&s, 1, 2);
    assert_true(schedule_done(&s));
    assert_true(schedule_next(&s, &piece));
    assert_int_equal(piece.kind, SCHEDULE_INPUT);
    schedule_drop(&s, 1, 1);
    schedule_add(&s, 1, 1);
    assert_true(schedule_on_input(&s, 1, 0)); /* wanted again */
    assert_false(schedule_done(&s));
    assert_true(schedule_next(&s, &piece)); /* from the start */
    assert_int_equal(piece.kind, SCHEDULE_FORWARD);
    assert_true(schedule_done(&s));
    schedule_add(&s, 0, 1);
    assert_true(schedule_on_gradient(&s, 0, 0));
    schedule_drop(&s, 0, 1);
    schedule_add(&s, 0, 1);
    assert_true(schedule_on_gradient(&s, 0, 0));
}

/* --- Random courses ------------------------------------------------------------------------------- */

/* Each stage has some holders, with unequal numbers of shards; a member may hold several stages, or none. In some
 * courses all shards of a holder go to one of the next stage. */
static void
play_random(uint64_t seed)
{
    OWNED(memory_free) struct world *w = calloc(1, sizeof *w);
    *w = (struct world){.rand = {seed << 20}, .late = true};
    w->rule = (enum schedule_rule)rand_below(&w->rand, 3);
    w->k = (unsigned)rand_range(&w->rand, 1, STAGES);
    w->m = (unsigned)rand_range(&w->rand, 1, SHARDS);
    w->n = (unsigned)rand_range(&w->rand, 1, MEMBERS);
    bool straight = rand_bool(&w->rand);
    unsigned to[MEMBERS];
    for (unsigned i = 0; i < w->n; i++)
        to[i] = rand_bool(&w->rand) ? i : (unsigned)rand_below(&w->rand, w->n);
    for (unsigned stage = 0; stage < w->k; stage++) {
        unsigned holders = (unsigned)rand_range(&w->rand, 1, w->n);
        unsigned from = (unsigned)rand_below(&w->rand, w->n);
        for (unsigned shard = 0; shard < w->m; shard++)
            w->owner[stage][shard] = (int)((from + rand_below(&w->rand, holders)) % w->n);
        for (unsigned shard = 0; shard < w->m && straight && stage > 0; shard++)
            w->owner[stage][shard] = (int)((from + to[w->owner[stage - 1][shard]]) % w->n);
    }
    unsigned accidents = (unsigned)rand_below(&w->rand, 4);
    if (rand_below(&w->rand, 4) == 0)
        w->rule = SCHEDULE_EVALUATE;
    play(w, accidents);
}

TEST(in_any_course_all_is_computed_once_and_memory_is_bounded)
{
    for (size_t seed = cases(courses); seed > 0; seed--)
        play_random(seed);
}

int
main(int argc, char **argv)
{
    courses = argc > 1 ? strtoul(argv[1], NULL, 10) : courses;
    return test_run();
}

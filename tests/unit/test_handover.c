/* What stages give one another arrives once, whole and right: in any order of arrival, when nodes die and plans change
 * in the middle of a round, when lines break, bodies are damaged, and neighbours are a round ahead. Members compute in
 * the order of their schedules. */
#include <stdio.h>

#include "mesh/core/pipeline/handover.h"
#include "mesh/core/pipeline/schedule.h"
#include "proto/bits.h"
#include "proto/mix.h"
#include "tests/support/cases.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

enum { STAGES = 4, MEMBERS = 6, SHARDS = 6, WORDS = 9, CHUNK = 3, MAIL = 8192, ROUNDS = 2 };

struct mail {
    unsigned from, to;
    bool asks;
    struct handover_chunk chunk;
    struct handover_item first;
    uint64_t shards;
    int32_t body[CHUNK];
    unsigned uses;
    unsigned cut; /* of the plan that its sender has */
};

struct member {
    struct world *world;
    unsigned index;
    bool dead;
    uint64_t round;
    struct handover *handover;
    struct schedule schedule;
    struct schedule_piece piece;
    bool computes;
    uint64_t planned[STAGES]; /* shards that the schedule has */
    uint64_t made[STAGES][2];
    int32_t words[2][STAGES][2][SHARDS][WORDS]; /* in and out */
    size_t kept;
    unsigned cut;   /* of the plan that it has */
    uint64_t asked; /* bitmap of members that asked before it had their plan */
};

struct world {
    struct rand rand;
    unsigned stages, members;
    enum schedule_rule rule;
    unsigned group[STAGES]; /* of each stage: a number; members of a group hold all its stages */
    unsigned group_of[MEMBERS];
    struct proto_plan plan;
    unsigned rank_of[MEMBERS], member_of[MEMBERS];
    struct member member[MEMBERS];
    struct mail *mail[MAIL];
    size_t mails, damaged, chunks, moves;
    unsigned cut; /* where the model is cut: a number */
};

/* What everybody who computes it right gets. */
static int32_t
word_of(const struct member *m, struct handover_item item, uint64_t i)
{
    uint64_t name = m->cut * 100000u + item.stage * 1000u + item.shard * 10u + item.gradient;
    return (int32_t)mix64_pair(mix64_pair(m->round, name), i);
}

static uint64_t
size_of(struct handover_item item)
{
    return 1 + (item.stage * 5u + item.shard * 3u + item.gradient) % WORDS;
}

/* --- The shell of a handover ------------------------------------------------------------------------ */

static int32_t *
on_words(void *ctx, struct handover_item item, bool made, uint64_t *count)
{
    struct member *m = ctx;
    *count = size_of(item);
    return m->words[made][item.stage][item.gradient][item.shard];
}

static void
mail_add(struct world *w, struct mail *mail)
{
    assert_true(w->mails < MAIL);
    mail->uses = 1;
    mail->cut = w->member[mail->from].cut;
    w->mail[w->mails++] = mail;
}

static void
on_send(void *ctx, unsigned rank, const struct handover_chunk *chunk, const void *body)
{
    struct member *m = ctx;
    struct mail *mail = calloc(1, sizeof *mail);
    assert_non_null(mail);
    assert_true(chunk->count <= CHUNK);
    assert_true(m->world->member_of[rank] != m->index);
    *mail = (struct mail){.from = m->index, .to = m->world->member_of[rank], .chunk = *chunk};
    memcpy(mail->body, body, chunk->count * sizeof(int32_t));
    mail_add(m->world, mail);
}

static void
on_ask(void *ctx, unsigned rank, struct handover_item first, uint64_t shards)
{
    struct member *m = ctx;
    struct mail *mail = calloc(1, sizeof *mail);
    assert_non_null(mail);
    *mail = (struct mail){.from = m->index,
                          .to = m->world->member_of[rank],
                          .asks = true,
                          .first = first,
                          .shards = shards};
    mail_add(m->world, mail);
}

static void
mail_drop(struct mail *mail)
{
    if (--mail->uses == 0)
        free(mail);
}

static void
on_keep(void *ctx, struct core_frame *frame)
{
    struct member *m = ctx;
    ((struct mail *)frame->handle)->uses++;
    m->kept++;
}

static void
on_release(void *ctx, void *handle)
{
    struct member *m = ctx;
    m->kept--;
    mail_drop(handle);
}

static const struct handover_ops ops = {on_words, on_send, on_ask};
static const struct core_wire wire = {.keep = on_keep, .release = on_release};

/* --- Plans ------------------------------------------------------------------------------------------ */

static struct proto_node
node_of(unsigned index)
{
    return (struct proto_node){index + 1, 1};
}

static uint64_t
stages_of(const struct world *w, unsigned index)
{
    uint64_t stages = 0;
    for (unsigned s = 0; s < w->stages; s++)
        stages |= w->group[s] == w->group_of[index] ? UINT64_C(1) << s : 0;
    return stages;
}

static unsigned
living_in(const struct world *w, unsigned group)
{
    unsigned count = 0;
    for (unsigned i = 0; i < w->members; i++)
        count += !w->member[i].dead && w->group_of[i] == group;
    return count;
}

/* Who can do the work of a dead one: another living one of its group. If it is alone with its stages, one that is alone
 * with others. Itself: there is none. */
static unsigned
heir_of(struct world *w, unsigned index)
{
    unsigned first = (unsigned)rand_below(&w->rand, w->members), mine = w->group_of[index];
    for (unsigned k = 0; k < w->members; k++) {
        unsigned i = (first + k) % w->members, group = w->group_of[i];
        bool sibling = group == mine, alone = living_in(w, group) == 1 && living_in(w, mine) == 1;
        if (i != index && !w->member[i].dead && (sibling || alone))
            return i;
    }
    return index;
}

/* A member knows the plan, and computes what is new to it. */
static void
member_plan(struct member *m)
{
    struct world *w = m->world;
    const struct proto_member *mine = &w->plan.members[w->rank_of[m->index]];
    m->cut = w->cut;
    handover_plan(m->handover, &w->plan, w->rank_of[m->index]);
    for (unsigned s = 0; s < w->stages; s++) {
        uint64_t shards = mine->holds >> s & 1 ? mine->shards : 0;
        if (shards & ~m->planned[s])
            schedule_add(&m->schedule, s, shards & ~m->planned[s]);
        m->planned[s] |= shards;
    }
}

static void
member_round(struct member *m, uint64_t round)
{
    schedule_init(&m->schedule, m->world->rule, m->world->stages);
    memset(m->planned, 0, sizeof m->planned);
    memset(m->made, 0, sizeof m->made);
    memset(m->words, 0x11, sizeof m->words);
    m->round = round;
    m->computes = false;
    bool moved = m->cut != m->world->cut;
    member_plan(m);
    handover_round(m->handover, round, round * 77);
    assert_int_equal(m->kept, 0); /* nobody is another round ahead */
    for (; moved && m->asked; m->asked &= m->asked - 1)
        handover_again(m->handover, m->world->rank_of[__builtin_ctzll(m->asked)]);
    if (moved)
        handover_ask(m->handover);
}

/* The living ones are in the plan; each has its shards, those of the dead go to their siblings. */
static void
plan_make(struct world *w, const uint64_t *shards)
{
    w->plan = (struct proto_plan){.complete = bits_below(SHARDS), .cut_count = w->stages - 1};
    for (uint16_t k = 0; k < w->plan.cut_count; k++)
        w->plan.cuts[k].bucket = (uint16_t)(w->cut + k + 1);
    for (unsigned i = 0; i < w->members; i++) {
        if (w->member[i].dead)
            continue;
        w->member_of[w->plan.count] = i;
        w->rank_of[i] = (unsigned)w->plan.count;
        w->plan.members[w->plan.count++] = (struct proto_member){.node = node_of(i),
                                                                 .shards = shards[i],
                                                                 .holds = stages_of(w, i),
                                                                 .computes = stages_of(w, i)};
    }
}

static struct world *
world_new(uint64_t seed)
{
    struct world *w = calloc(1, sizeof *w);
    uint64_t shards[MEMBERS] = {0};
    unsigned groups = 0;
    assert_non_null(w);
    w->rand = (struct rand){seed};
    w->stages = (unsigned)rand_range(&w->rand, 1, STAGES);
    w->members = (unsigned)rand_range(&w->rand, 1, MEMBERS);
    w->rule = (enum schedule_rule)rand_below(&w->rand, 3);
    for (unsigned s = 0; s < w->stages; s++) {
        bool own = groups == 0 || (groups < w->members && rand_below(&w->rand, 4) > 0);
        w->group[s] = own ? groups++ : (unsigned)rand_below(&w->rand, groups);
    }
    for (unsigned i = 0; i < w->members; i++)
        w->group_of[i] = i < groups ? i : (unsigned)rand_below(&w->rand, groups);
    for (unsigned g = 0; g < groups; g++)
        for (unsigned shard = 0; shard < SHARDS; shard++) {
            unsigned i = (unsigned)rand_below(&w->rand, w->members);
            while (w->group_of[i] != g)
                i = (i + 1) % w->members;
            shards[i] |= UINT64_C(1) << shard;
        }
    plan_make(w, shards);
    for (unsigned i = 0; i < w->members; i++) {
        struct member *m = &w->member[i];
        struct handover_setup setup = {.chunk_words = CHUNK,
                                       .early_max = rand_below(&w->rand, 60),
                                       .wire = &wire,
                                       .wire_ctx = m};
        m->world = w;
        m->index = i;
        assert_int_equal(handover_new(&m->handover, &setup, &ops, m), 0);
    }
    return w;
}

static void
world_free(struct world *w)
{
    while (w->mails > 0)
        mail_drop(w->mail[--w->mails]);
    for (unsigned i = 0; i < w->members; i++) {
        handover_destroy(&w->member[i].handover);
        assert_int_equal(w->member[i].kept, 0);
    }
    free(w);
}

/* --- What happens ----------------------------------------------------------------------------------- */

static void
mail_remove(struct world *w, size_t k)
{
    mail_drop(w->mail[k]);
    w->mails--;
    memmove(w->mail + k, w->mail + k + 1, (w->mails - k) * sizeof *w->mail);
}

/* The oldest message of the line of the k-th one, perhaps with a flipped bit. */
static void
deliver(struct world *w, size_t k, bool damage)
{
    size_t first = 0;
    while (w->mail[first]->from != w->mail[k]->from || w->mail[first]->to != w->mail[k]->to)
        first++;
    struct mail *mail = w->mail[first];
    struct member *to = &w->member[mail->to];
    mail->uses++;
    mail_remove(w, first);
    if (mail->cut != to->cut) { /* it names other cuts: pieces.c */
        to->asked |= mail->asks && mail->cut == w->cut ? UINT64_C(1) << mail->from : 0;
    } else if (!to->dead && mail->asks) {
        handover_on_ask(to->handover, node_of(mail->from), mail->first, mail->shards);
    } else if (!to->dead) {
        if (damage)
            mail->body[0] ^= (int32_t)(1u << rand_below(&w->rand, 32));
        w->damaged += damage;
        w->chunks++;
        struct core_frame frame = {mail->body, mail->chunk.count * sizeof(int32_t), mail};
        handover_on_chunk(to->handover, node_of(mail->from), &mail->chunk, &frame);
    }
    mail_drop(mail);
}

static void
arrive(struct member *m, struct handover_item item)
{
    bool new = item.gradient ? schedule_on_gradient(&m->schedule, item.stage, item.shard)
                             : schedule_on_input(&m->schedule, item.stage, item.shard);
    assert_true(new);
}

/* A piece is computed: its result goes to the neighbour. */
static void
give(struct member *m)
{
    struct schedule_piece *p = &m->piece;
    bool forward = p->kind == SCHEDULE_FORWARD, backward = p->kind == SCHEDULE_BACKWARD;
    bool gives = forward ? p->stage + 1 < m->world->stages
                         : (backward || p->kind == SCHEDULE_INPUT) && p->stage > 0;
    if (!gives)
        return;
    struct handover_item item = {forward ? p->stage + 1 : p->stage - 1, p->shard, !forward};
    int32_t *words = m->words[1][item.stage][item.gradient][item.shard];
    for (uint64_t i = 0; i < size_of(item); i++)
        words[i] = word_of(m, item, i);
    m->made[item.stage][item.gradient] |= UINT64_C(1) << item.shard;
    handover_made(m->handover, item);
}

static void
step(struct member *m)
{
    struct handover_item item;
    while (handover_next(m->handover, &item)) {
        bool made = m->made[item.stage][item.gradient] >> item.shard & 1;
        for (uint64_t i = 0; i < size_of(item); i++)
            assert_int_equal(m->words[made][item.stage][item.gradient][item.shard][i],
                             word_of(m, item, i));
        arrive(m, item);
    }
    if (m->computes) {
        m->computes = false;
        assert_true(schedule_done(&m->schedule));
        give(m);
    } else {
        m->computes = schedule_next(&m->schedule, &m->piece);
    }
}

/* One dies, if another one can take its stages; or all lines to it break and come back. Then there is a new plan in the
 * same round. */
static void
accident(struct world *w)
{
    unsigned who = (unsigned)rand_below(&w->rand, w->members);
    uint64_t shards[MEMBERS] = {0};
    if (w->member[who].dead)
        return;
    for (unsigned r = 0; r < w->plan.count; r++)
        shards[w->member_of[r]] = w->plan.members[r].shards;
    unsigned heir = heir_of(w, who);
    if (heir != who && rand_bool(&w->rand)) {
        w->member[who].dead = true;
        shards[heir] |= shards[who];
        for (unsigned s = 0; s < w->stages; s++)
            if (w->group[s] == w->group_of[who])
                w->group[s] = w->group_of[heir];
    }
    for (size_t k = w->mails; k-- > 0;)
        if (w->mail[k]->from == who || w->mail[k]->to == who)
            mail_remove(w, k);
    plan_make(w, shards);
    for (unsigned i = 0; i < w->members; i++)
        if (!w->member[i].dead) {
            member_plan(&w->member[i]);
            handover_ask(w->member[i].handover);
        }
}

/* The model is cut elsewhere, perhaps where it was before: all of the round is made again, by who comes to it later,
 * too. */
static void
cuts_move(struct world *w, uint64_t round)
{
    uint64_t shards[MEMBERS] = {0};
    for (unsigned r = 0; r < w->plan.count; r++)
        shards[w->member_of[r]] = w->plan.members[r].shards;
    w->cut = (w->cut + 1 + (unsigned)rand_below(&w->rand, 2)) % 3;
    w->moves++;
    plan_make(w, shards);
    for (unsigned i = 0; i < w->members; i++)
        if (!w->member[i].dead && w->member[i].round == round)
            member_round(&w->member[i], round);
}

static bool
all_complete(const struct world *w, uint64_t round)
{
    for (unsigned i = 0; i < w->members; i++) {
        const struct member *m = &w->member[i];
        if (!m->dead && (m->round != round || !schedule_complete(&m->schedule)))
            return false;
    }
    return true;
}

/* Members begin a round one after the other, as they have applied the one before; one of them late. */
static void
round_run(struct world *w, uint64_t round, unsigned accidents)
{
    unsigned late = (unsigned)rand_below(&w->rand, w->members);
    for (unsigned turns = 0; !all_complete(w, round); turns++) {
        assert_true(turns < 100000); /* else somebody waits for ever */
        struct member *m = &w->member[rand_below(&w->rand, w->members)];
        bool began = true;
        for (unsigned i = 0; i < w->members; i++)
            began &= w->member[i].dead || w->member[i].round == round;
        if (w->stages > 1 && accidents > 0 && rand_below(&w->rand, 60) == 0) {
            accidents--;
            cuts_move(w, round);
        } else if (began && accidents > 0 && rand_below(&w->rand, 30) == 0) {
            accidents--;
            accident(w);
        } else if (w->mails > 0 && rand_bool(&w->rand)) {
            deliver(w, rand_below(&w->rand, w->mails), rand_below(&w->rand, 20) == 0);
        } else if (!m->dead && m->round != round) {
            if (m->index != late || rand_below(&w->rand, 20) == 0)
                member_round(m, round);
        } else if (!m->dead) {
            step(m);
        }
    }
}

TEST(all_arrives_whatever_happens)
{
    size_t chunks = 0, damaged = 0, moves = 0;
    for (uint64_t seed = 1; seed <= cases(3000); seed++) {
        struct world *w = world_new(seed);
        for (uint64_t round = 1; round <= ROUNDS; round++)
            round_run(w, round, (unsigned)rand_below(&w->rand, 4));
        chunks += w->chunks;
        damaged += w->damaged;
        moves += w->moves;
        world_free(w);
    }
    assert_true(chunks > 1000);
    assert_true(damaged > 100);
    assert_true(moves > 100);
}

/* --- What is refused -------------------------------------------------------------------------------- */

/* Member 1 of two stages on two members; member 0 has made the input of stage 1, shard 3, of 6 words. */
static struct world *
pair(void)
{
    struct world *w = NULL;
    for (uint64_t seed = 1; !w; seed++) {
        w = world_new(seed);
        if (w->stages == 2 && w->members == 2 && w->group[0] != w->group[1] && w->group_of[0] == 0)
            break;
        world_free(w);
        w = NULL;
    }
    for (unsigned i = 0; i < 2; i++)
        member_round(&w->member[i], 1);
    struct handover_item item = {1, 3, false};
    for (uint64_t i = 0; i < size_of(item); i++)
        w->member[0].words[1][1][0][3][i] = word_of(&w->member[0], item, i);
    handover_made(w->member[0].handover, item);
    return w;
}

static bool
came(struct world *w)
{
    struct handover_item item;
    return handover_next(w->member[1].handover, &item);
}

static size_t
asked(const struct world *w)
{
    size_t count = 0;
    for (size_t k = 0; k < w->mails; k++)
        count += w->mail[k]->asks;
    return count;
}

/* Gives the first chunk, changed, and the rest as it is, with what is asked for; returns how often that was. Then the
 * item is there, but not before. */
static size_t
asks_with(void (*change)(struct handover_chunk *chunk, size_t *size), unsigned from)
{
    struct world *w = pair();
    struct mail *mail = w->mail[0];
    struct handover_chunk chunk = mail->chunk;
    size_t size = chunk.count * sizeof(int32_t);
    if (change)
        change(&chunk, &size);
    int32_t body[2 * WORDS];
    memset(body, 7, sizeof body);
    struct core_frame frame = {memcpy(body, mail->body, sizeof mail->body), size, NULL};
    mail_remove(w, 0);
    handover_on_chunk(w->member[1].handover, node_of(from), &chunk, &frame);
    size_t asks = asked(w);
    while (asks == 0 && w->mails > 0)
        deliver(w, 0, false);
    bool at_once = came(w);
    while (w->mails > 0)
        deliver(w, 0, false);
    assert_true(at_once != came(w) || chunk.round == 0);
    assert_true(at_once == (asks == 0) || chunk.round == 0);
    world_free(w);
    return asks;
}

static void
other_round(struct handover_chunk *c, size_t *size)
{
    (void)size, c->round = 0;
}
static void
other_state(struct handover_chunk *c, size_t *size)
{
    (void)size, c->state++;
}
static void
other_stage(struct handover_chunk *c, size_t *size)
{
    (void)size, c->item.stage = 0;
}
static void
no_stage(struct handover_chunk *c, size_t *size)
{
    (void)size, c->item.stage = 1000;
}
static void
no_shard(struct handover_chunk *c, size_t *size)
{
    (void)size, c->item.shard = 64;
}
static void
of_the_loss(struct handover_chunk *c, size_t *size)
{
    (void)size, c->item.gradient = true;
}
static void
other_size(struct handover_chunk *c, size_t *size)
{
    (void)size, c->size++;
}
static void
beyond(struct handover_chunk *c, size_t *size)
{
    (void)size, c->first = UINT64_MAX - 1;
}
static void
nothing_in_it(struct handover_chunk *c, size_t *size)
{
    *size = 0, c->count = 0;
}
static void
too_short(struct handover_chunk *c, size_t *size)
{
    (void)c, *size -= 4;
}

static void
too_long(struct handover_chunk *c, size_t *size)
{
    *size = (c->count = WORDS) * sizeof(int32_t);
}

TEST(what_is_not_due_is_dropped_and_asked_for)
{
    assert_int_equal(asks_with(NULL, 0), 0);
    assert_int_equal(asks_with(NULL, 1), 1);
    assert_int_equal(asks_with(NULL, 9), 1);
    assert_int_equal(asks_with(other_round, 0), 0);
    assert_int_equal(asks_with(other_state, 0), 1);
    assert_int_equal(asks_with(other_stage, 0), 1);
    assert_int_equal(asks_with(no_stage, 0), 1);
    assert_int_equal(asks_with(no_shard, 0), 1);
    assert_int_equal(asks_with(of_the_loss, 0), 1);
    assert_int_equal(asks_with(other_size, 0), 1);
    assert_int_equal(asks_with(beyond, 0), 1);
    assert_int_equal(asks_with(nothing_in_it, 0), 1);
    assert_int_equal(asks_with(too_short, 0), 1);
    assert_int_equal(asks_with(too_long, 0), 1);
}

TEST(a_damaged_chunk_is_asked_for_again)
{
    struct world *w = pair();
    deliver(w, 0, true);
    assert_int_equal(asked(w), 1);
    while (w->mails > 0)
        deliver(w, 0, false);
    assert_true(came(w));
    assert_false(came(w)); /* told once */
    world_free(w);
}

TEST(it_comes_again_only_to_who_asks_and_has_the_shard)
{
    struct world *w = pair();
    struct handover_item first = {1, 0, false}, wrong = {7, 0, true};
    while (w->mails > 0)
        deliver(w, 0, false);
    handover_on_ask(w->member[0].handover, node_of(1), wrong, UINT64_MAX);
    handover_on_ask(w->member[0].handover, node_of(5), first, UINT64_MAX);
    assert_int_equal(w->mails, 0);
    handover_on_ask(w->member[0].handover, node_of(1), first, UINT64_MAX);
    assert_int_equal(w->mails, 2); /* 6 words */
    while (w->mails > 0)
        deliver(w, 0, false);
    assert_true(came(w));
    assert_false(came(w));
    world_free(w);
}

/* It may have to copy the state first, so the others are rounds ahead. */
TEST(who_comes_to_a_round_late_asks_for_what_it_dropped)
{
    struct world *w = pair();
    struct handover_item item = {1, 3, false};
    while (w->mails > 0)
        deliver(w, 0, false);
    assert_true(came(w));
    member_round(&w->member[0], 5);
    for (uint64_t i = 0; i < size_of(item); i++)
        w->member[0].words[1][1][0][3][i] = word_of(&w->member[0], item, i);
    handover_made(w->member[0].handover, item);
    while (w->mails > 0)
        deliver(w, 0, false);
    member_round(&w->member[1], 5);
    assert_int_equal(asked(w), 1);
    while (w->mails > 0)
        deliver(w, 0, false);
    assert_true(came(w));
    world_free(w);
}

/* Node 0 is a round ahead. Node 1 comes to a later one, to its own again, to a later one in which it hands over
 * nothing, or the model is cut elsewhere meanwhile: nothing is kept. In the last case it asks. */
TEST(what_came_early_is_released_when_nobody_wants_it)
{
    for (unsigned way = 0; way < 4; way++) {
        struct world *w = pair();
        struct handover_item item = {1, 3, false};
        member_round(&w->member[0], 2);
        handover_made(w->member[0].handover, item);
        while (w->mails > 0)
            deliver(w, w->mails - 1, false);
        assert_int_equal(w->member[1].kept, 2);  /* 6 words */
        handover_past(w->member[1].handover, 1); /* its own: what came is of the next one */
        handover_past(w->member[1].handover, 2); /* and of this one, which begins */
        assert_int_equal(w->member[1].kept, 2);
        if (way == 3)
            cuts_move(w, 0);
        if (way < 2)
            handover_past(w->member[1].handover, way == 0 ? 3 : 0);
        else
            member_round(&w->member[1], way == 2 ? 3 : 2);
        assert_int_equal(w->member[1].kept, 0);
        assert_int_equal(asked(w) > 0, way == 3);
        world_free(w);
    }
}

/* The two members change places in the middle of the round. */
static void
change_places(struct world *w)
{
    uint64_t shards[MEMBERS];
    for (unsigned i = 0; i < 2; i++) {
        shards[i] = w->plan.members[i].shards;
        w->group_of[i] = !w->group_of[i];
    }
    plan_make(w, shards);
    for (unsigned i = 0; i < 2; i++)
        handover_plan(w->member[i].handover, &w->plan, i);
}

/* Until the round begins anew. */
TEST(what_was_made_of_other_cuts_is_neither_told_nor_sent)
{
    struct world *w = pair();
    while (w->mails > 0)
        deliver(w, 0, false);
    w->cut++;
    change_places(w);
    assert_int_equal(w->mails, 0);
    change_places(w);
    handover_on_ask(w->member[0].handover, node_of(1), (struct handover_item){1, 0, false},
                    UINT64_MAX);
    handover_again(w->member[0].handover, 1);
    assert_int_equal(w->mails, 0);
    assert_false(came(w));
    world_free(w);
}

TEST(it_is_told_when_its_stage_comes_back)
{
    struct world *w = pair();
    while (w->mails > 0)
        deliver(w, 0, false);
    change_places(w);
    assert_false(came(w)); /* of another member's stage now */
    change_places(w);
    assert_true(came(w));
    world_free(w);
}

/* It may be read, or be on its way, and it is there already. */
TEST(what_was_made_here_is_not_written_again)
{
    struct world *w = pair();
    struct handover_item item = {1, 3, false};
    while (w->mails > 0)
        deliver(w, 0, false);
    change_places(w);
    int32_t before = w->member[0].words[0][1][0][3][0];
    handover_made(w->member[1].handover, item);
    deliver(w, 0, true);
    assert_int_equal(w->member[0].words[0][1][0][3][0], before);
    world_free(w);
}

/* Its memory belongs to the next one. */
TEST(nothing_of_a_round_that_is_over_is_sent)
{
    struct world *w = pair();
    while (w->mails > 0)
        deliver(w, 0, false);
    handover_end(w->member[0].handover);
    change_places(w);
    change_places(w);
    handover_on_ask(w->member[0].handover, node_of(1), (struct handover_item){1, 0, false},
                    UINT64_MAX);
    assert_int_equal(w->mails, 0);
    world_free(w);
}

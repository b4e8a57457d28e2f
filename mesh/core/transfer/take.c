/* take.c - see take.h. */
#include "mesh/core/transfer/take.h"

#include <assert.h>
#include <string.h>

#include "mesh/core/internal.h"

enum { HERE = 255, MISSING = 254 }; /* no index in peers is so high */

/* --- How much, and how long ------------------------------------------------------------------------ */

struct pace
pace_begin(size_t block_size)
{
    uint64_t most = PACE_BYTES / block_size;
    most = most < PACE_BLOCKS ? most : PACE_BLOCKS;
    return (struct pace){most, 1, (uint64_t)block_size * 1000000 / PACE_LINE};
}

void
pace_came(struct pace *pace, uint64_t us)
{
    if ((pace->window + 1) * us <= PACE_US)
        pace->window += pace->window < pace->most;
    else if (pace->window * us > 2 * (uint64_t)PACE_US)
        pace->window = (pace->window + 1) / 2;
    us = us < PACE_MOST_US ? us : PACE_MOST_US;
    pace->block_us = us > pace->block_us ? us : pace->block_us - (pace->block_us - us) / 4;
}

uint64_t
pace_patience_us(const struct pace *pace)
{
    return 2 * pace->block_us;
}

/* --- Beginning ------------------------------------------------------------------------------------- */

void
take_init(struct take *take, uint8_t *blocks, uint64_t ask_us)
{
    *take = (struct take){.blocks = blocks, .ask_us = ask_us};
}

void
take_patience(struct take *take, uint64_t ask_us)
{
    take->ask_us = ask_us;
}

void
take_skip(struct take *take, uint64_t block)
{
    assert(take->blocks[block - take->first] == MISSING);
    take->blocks[block - take->first] = HERE;
    take->whole--;
}

void
take_own(struct take *take, int i, unsigned part, uint64_t each)
{
    assert(each > 0 && (part + 1) * each <= take->count);
    take->each = each;
    take->of[i].part = part;
}

bool
take_wants(const struct take *take, uint64_t block)
{
    return block >= take->first && block - take->first < take->count &&
           take->blocks[block - take->first] != HERE;
}

/* --- Asking -------------------------------------------------------------------------------------- */

static void
block_free(struct take *take, uint64_t at)
{
    take->blocks[at] = MISSING;
    take->next = at < take->next ? at : take->next;
}

/* What is under way from `i` is asked of others. */
static void
donor_free(struct take *take, int i)
{
    uint64_t left = take->of[i].under_way;
    for (uint64_t at = 0; left > 0 && at < take->count; at++)
        if (take->blocks[at] == i) {
            block_free(take, at);
            left--;
        }
    take->of[i].under_way = 0;
}

void
take_gone(struct take *take, int i)
{
    donor_free(take, i);
    struct take_donor *donor = &take->of[i];
    *donor = (struct take_donor){.pace = donor->pace, .ask_us = take->ask_us, .part = donor->part};
}

void
take_again(struct take *take)
{
    for (int i = 0; i < PEERS_MAX; i++)
        take_gone(take, i);
}

void
take_begin(struct take *take, const struct proto_fetch *what, uint64_t first, uint64_t count,
           size_t size)
{
    take->what = *what;
    take->first = first;
    take->count = take->whole = count;
    take->here = take->next = take->gives = take->each = 0;
    take->turn++;
    memset(take->blocks, MISSING, count);
    take_again(take);
    for (int i = 0; i < PEERS_MAX; i++)
        take->of[i].pace = pace_begin(size);
}

/* The next run of missing blocks that peers[i] has, at most so many. */
static uint64_t
blocks_missing(const struct take *take, int i, uint64_t most, uint64_t *first)
{
    uint64_t count = 0, begin = take->each * take->of[i].part;
    uint64_t end = take->each ? begin + take->each : take->count;
    *first = begin > take->next ? begin : take->next;
    while (*first < end && take->blocks[*first] != MISSING)
        ++*first;
    while (count < most && *first + count < end && take->blocks[*first + count] == MISSING)
        count++;
    return count;
}

static void
blocks_ask(struct take *take, const struct core *core, int i, uint64_t at, uint64_t count)
{
    struct take_donor *donor = &take->of[i];
    struct proto_msg msg = {.type = PROTO_FETCH, .fetch = take->what};
    msg.fetch.block = take->first + at;
    msg.fetch.count = (uint16_t)count;
    if (donor->under_way == 0)
        donor->since = core->awake;
    assert(at + count <= take->count);
    memset(take->blocks + at, i, count);
    donor->under_way += count;
    peers_send(core, i, &msg);
}

/* Nothing is missing, but a much slower donor has two or more to send: take over one of them. */
static void
blocks_help(struct take *take, const struct core *core, int i)
{
    for (uint64_t at = take->count; at-- > 0;) {
        int owner = take->blocks[at];
        if (owner == HERE || owner == MISSING || take->of[owner].under_way < 2 ||
            take->of[owner].pace.block_us < 2 * take->of[i].pace.block_us)
            continue;
        take->of[owner].under_way--;
        blocks_ask(take, core, i, at, 1);
        return;
    }
}

static bool
donor_late(const struct take *take, const struct core *core, const struct take_donor *donor)
{
    uint64_t us = awake_since(core->awake, awake_later(donor->since, take->came_at));
    return donor->under_way > 0 && us >= donor->ask_us + pace_patience_us(&donor->pace);
}

/* False: it is given up. */
static bool
donor_step(struct take *take, const struct core *core, int i)
{
    struct take_donor *donor = &take->of[i];
    if (donor_late(take, core, donor)) {
        donor_free(take, i);
        donor->ask_us *= 2;
        take->turn = (unsigned)i + 1; /* the others first */
        return ++donor->tries < TAKE_TRIES;
    }
    uint64_t at;
    while (2 * donor->under_way <= donor->pace.window) {
        uint64_t most = donor->pace.window - donor->under_way;
        uint64_t count = blocks_missing(take, i, most < TRANSFER_RUN ? most : TRANSFER_RUN, &at);
        take->next = take->each ? 0 : at;
        if (count == 0)
            break;
        blocks_ask(take, core, i, at, count);
    }
    if (donor->under_way == 0 && !take->each)
        blocks_help(take, core, i);
    return true;
}

uint64_t
take_ask(struct take *take, const struct core *core, uint64_t gives)
{
    uint64_t spent = 0;
    unsigned high = (unsigned)core->peers.high, turn = take->turn;
    take->gives = gives;
    for (int i = 0; i < core->peers.high; i++)
        if (!(gives >> i & 1))
            donor_free(take, i);
    for (unsigned k = 0; k < high && take->here < take->whole; k++) {
        unsigned i = (turn + k) % high;
        if ((gives >> i & 1) && !donor_step(take, core, (int)i))
            spent |= UINT64_C(1) << i;
    }
    return spent;
}

/* --- What comes ---------------------------------------------------------------------------------- */

bool
take_good(struct take *take, const struct core *core, int from, uint64_t block)
{
    uint8_t *where = &take->blocks[block - take->first];
    assert(take_wants(take, block));
    if (*where != MISSING)
        take->of[*where].under_way--;
    *where = HERE;
    pace_came(&take->of[from].pace, awake_since(core->awake, take->of[from].since));
    take->of[from].since = take->came_at = core->awake;
    take->of[from].tries = 0;
    return ++take->here == take->whole;
}

bool
take_bad(struct take *take, int from, uint64_t block)
{
    struct take_donor *donor = &take->of[from];
    assert(take_wants(take, block));
    if (take->blocks[block - take->first] == from) {
        block_free(take, block - take->first);
        donor->under_way--;
    }
    bool spent = ++donor->tries >= TAKE_TRIES, others = take->gives & ~(UINT64_C(1) << from);
    if (spent || others)
        donor_free(take, from);
    take->turn = (unsigned)from + 1;
    return spent || others;
}

/* prop_checkpoint.c - no damage to a checkpoint goes unnoticed, and none touches the caller's memory.
 *
 *     prop_checkpoint [COUNT] [SEED]
 *
 * Every single bit of a checkpoint of 4 KiB is flipped, and it is cut at every byte. Then COUNT random damages
 * of checkpoints of one to four pages: bits, ranges, cuts, growth, pages and sectors in each other's place,
 * stale ones of an earlier step, of another run, of other numerics or sizes, a page with a mended check. */
#include <stdio.h>

#include "nn/files/checkpoint.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

enum {
    PAGE = CHECKPOINT_PAGE,
    STATE_MAX = 3 * PAGE + 5000,
    IMAGE_MAX = STATE_MAX + 4096,
    STALE = 4
};

static uint64_t count = 5000, seed = 1;
static uint8_t state[STATE_MAX], into[STATE_MAX];
static uint8_t original[IMAGE_MAX], image[IMAGE_MAX + PAGE], stale[STALE][IMAGE_MAX];
static struct why why;

static struct checkpoint
of(size_t size, uint8_t *data)
{
    struct checkpoint c = {.job_hash = 1, .numerics = 2, .step = 30, .round = 33, .count = 1};
    c.section[0] = (struct checkpoint_section){"state", data, size};
    return c;
}

static size_t
make(uint8_t *to, const struct checkpoint *c)
{
    size_t size = checkpoint_size(c);
    assert_true(size <= IMAGE_MAX);
    checkpoint_fill(c, to);
    checkpoint_seal(to, size);
    return size;
}

static bool
refused(const uint8_t *data, size_t size, size_t state_size)
{
    struct checkpoint c = of(state_size, into);
    into[0] = into[state_size - 1] = 0x55;
    int rc = checkpoint_parse("x", data, size, &c, &why);
    assert_true(rc == 0 || (into[0] == 0x55 && into[state_size - 1] == 0x55 && c.step == 30));
    return rc < 0;
}

TEST(every_flipped_bit_and_every_cut_of_4_kib_is_refused)
{
    struct rand rand = {seed};
    struct checkpoint c = of(4096 - 64 - 32 - 8 - CHECKPOINT_TRAILER, state);
    rand_fill(&rand, state, c.section[0].size);
    size_t size = make(image, &c), refusals = 0;
    assert_int_equal(size, 4096);
    assert_false(refused(image, size, c.section[0].size));
    for (size_t bit = 0; bit < 8 * size; bit++) {
        image[bit / 8] ^= (uint8_t)(1 << bit % 8);
        refusals += refused(image, size, c.section[0].size);
        image[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_int_equal(refusals, 8 * 4096);
    for (size_t n = 0; n < size; n++) {
        OWNED(memory_free) uint8_t *cut = malloc(n + !n);
        assert_non_null(cut);
        memcpy(cut, image, n);
        refusals += refused(cut, n, c.section[0].size);
    }
    assert_int_equal(refusals, 9 * 4096);
    printf("4 KiB: %zu flips and cuts refused\n", refusals);
}

/* --- random damage; each returns the size afterwards --- */

static size_t
flip(struct rand *rand, size_t size)
{
    for (uint64_t n = rand_range(rand, 1, 8); n > 0; n--)
        image[rand_below(rand, size)] ^= (uint8_t)(1 << rand_below(rand, 8));
    return size;
}

static size_t
overwrite(struct rand *rand, size_t size)
{
    size_t at = rand_below(rand, size), n = rand_range(rand, 1, size - at);
    n = n > 4096 && rand_bool(rand) ? 1 + n % 4096 : n;
    switch (rand_below(rand, 3)) {
    case 0:
        memset(image + at, 0, n);
        break;
    case 1:
        memset(image + at, 0xff, n);
        break;
    default:
        rand_fill(rand, image + at, n < 2000 ? n : 2000);
    }
    return size;
}

static size_t
cut(struct rand *rand, size_t size)
{
    return rand_below(rand, size);
}

static size_t
grow(struct rand *rand, size_t size)
{
    size_t n = rand_range(rand, 1, PAGE);
    memset(image + size, rand_bool(rand) ? 0 : 0xff, n);
    return size + n;
}

static size_t
shift(struct rand *rand, size_t size)
{
    size_t n = rand_range(rand, 1, 4096 < size - 1 ? 4096 : size - 1);
    memmove(image, image + n, size - n);
    return rand_bool(rand) ? size - n : size;
}

/* Two pieces of equal size change places. */
static size_t
swap(struct rand *rand, size_t size)
{
    static uint8_t room[PAGE];
    const size_t pieces[] = {512, 4096, PAGE};
    size_t piece = pieces[rand_below(rand, 3)];
    if (2 * piece > size)
        return flip(rand, size);
    size_t a = rand_below(rand, size / piece) * piece, b = rand_below(rand, size / piece) * piece;
    memcpy(room, image + a, piece);
    memcpy(image + a, image + b, piece);
    memcpy(image + b, room, piece);
    return size;
}

/* A piece of another file at the same place: of another step, round, run, numerics. */
static size_t
mix(struct rand *rand, size_t size)
{
    const size_t pieces[] = {512, 4096, PAGE, IMAGE_MAX};
    size_t piece = pieces[rand_below(rand, 4)], at = rand_below(rand, size) / piece * piece;
    if (rand_below(rand, 4) == 0)
        at = size - CHECKPOINT_TRAILER; /* only the trailer */
    if (at == 0 && piece >= size)
        at = size / 2; /* all of another file is no damage */
    memcpy(image + at, stale[rand_below(rand, STALE)] + at, piece < size - at ? piece : size - at);
    return size;
}

/* A changed page with a right check: only the large hash tells. */
static size_t
mend(struct rand *rand, size_t size)
{
    size_t body = size - CHECKPOINT_TRAILER, pages = (body + PAGE - 1) / PAGE;
    size_t page = rand_below(rand, pages), at = page * PAGE;
    size_t end = at + PAGE < body ? at + PAGE : body, payload = end - at - CHECKPOINT_CHECK;
    size_t first = page ? 0 : 64 + 32; /* the head stays */
    image[at + first + rand_below(rand, payload - first)] ^= (uint8_t)(1 << rand_below(rand, 8));
    uint64_t check = checkpoint_check(image, page, image + at, payload);
    memcpy(image + at + payload, &check, sizeof check);
    return size;
}

static const struct {
    const char *name;
    size_t (*damage)(struct rand *rand, size_t size);
} damages[] = {{"bits", flip},   {"range", overwrite}, {"cut", cut}, {"grown", grow},
               {"shift", shift}, {"swap", swap},       {"mix", mix}, {"mended", mend}};
enum { DAMAGES = sizeof damages / sizeof damages[0] };

/* A checkpoint and its relatives. Returns its size. */
static size_t
fresh(struct rand *rand, size_t *state_size)
{
    *state_size = rand_bool(rand) ? rand_range(rand, 200, 2000) : rand_range(rand, 200, STATE_MAX);
    for (size_t i = 0; i < *state_size; i += 8) {
        uint64_t x = rand_u64(rand);
        memcpy(state + i, &x, *state_size - i < 8 ? *state_size - i : 8);
    }
    struct checkpoint c = of(*state_size, state);
    size_t size = make(original, &c);
    for (int k = 0; k < STALE; k++) {
        c = of(*state_size, state);
        c.step -= k == 0;
        c.round += k == 0 || k == 1;
        c.job_hash += k == 2;
        c.numerics += k == 3;
        state[rand_below(rand, *state_size)] ^= 1;
        make(stale[k], &c);
    }
    return size;
}

TEST(random_damage_is_refused)
{
    struct rand rand = {seed};
    uint64_t made[DAMAGES] = {0};
    size_t state_size = 0, size = 0;
    for (uint64_t i = 0; i < count;) {
        if (i % 100 == 0)
            size = fresh(&rand, &state_size);
        memcpy(image, original, size);
        size_t kind = rand_below(&rand, DAMAGES), now = damages[kind].damage(&rand, size);
        if (now == size && memcmp(image, original, size) == 0)
            continue; /* the same as before, by chance */
        if (!refused(image, now, state_size))
            fail_msg("seed %ju, damage %ju (%s) of %zu bytes was not noticed", seed, i,
                     damages[kind].name, size);
        made[kind]++;
        i++;
    }
    printf("seed %ju: %ju damages, all refused:", seed, count);
    for (size_t k = 0; k < DAMAGES; k++) {
        printf(" %s %ju", damages[k].name, made[k]);
        assert_true(made[k] > count / 50);
    }
    printf("\n");
}

int
main(int argc, char **argv)
{
    if (argc > 1)
        count = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        seed = strtoull(argv[2], NULL, 10);
    return test_run();
}

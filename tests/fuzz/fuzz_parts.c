/* fuzz_parts.c - names and sizes of the sections of a checkpoint, as the ranges of a state that they are of.
 *
 * The input says which tensors a node holds, how many slots its optimizer has, and what is changed in the sections of
 * its checkpoint: a letter of a name, a size, their order. Whatever is in them: what is taken for ranges are whole
 * tensors, in order and apart, and a state that holds these has just these sections. */
#include "node/train/save.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"

enum { TENSORS = 5, ALL = (1 << TENSORS) - 1, SLOTS = 3, CHANGES = 8 };

/* The second and the third one are of a size; one is less than a block. */
static const size_t elements[TENSORS] = {3000, 2000, 2000, 5, 4001};

static void
open_state(struct state *state, struct exact *exact, unsigned slots)
{
    static const struct optim_spec optim[SLOTS] = {
        {.kind = OPTIM_SGD},
        {.kind = OPTIM_SGD, .momentum = 0.5f},
        {.kind = OPTIM_ADAM, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-8f}};
    const struct state_job job = {
        .rules.optim = optim[slots], .shards = 1, .batch = 8, .local_steps = 1, .train = 20};
    int rc = state_init(state, &job, exact, exact_block_first(exact, exact_blocks(exact)));
    assert(rc == 0);
}

static void
hold(struct state *state, unsigned tensors)
{
    struct state_range range[TENSORS];
    size_t count = 0, first = 0;
    for (size_t t = 0; t < TENSORS; first += elements[t++])
        if (tensors >> t & 1)
            range[count++] = (struct state_range){first, first + elements[t]};
    state_hold(state, range, count);
}

static void
change(struct checkpoint *file, struct input *in)
{
    size_t which = byte(in) % file->count, other = byte(in) % file->count;
    struct checkpoint_section *section = &file->section[which], was = *section;
    unsigned how = byte(in), by = byte(in);
    switch (how % 5) {
    case 0:
        section->name[by % (CHECKPOINT_NAME - 1)] = (char)byte(in);
        break;
    case 1:
        section->size += (size_t)1 << by % 64;
        break;
    case 2:
        section->size = by;
        break;
    case 3:
        *section = file->section[other];
        file->section[other] = was;
        break;
    default:
        file->count -= file->count > 1;
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct exact *exact;
    static struct state held[SLOTS], found[SLOTS];
    struct input in = {data, size};
    struct checkpoint file = {.count = 0};
    struct state_extent extent[STATE_EXTENTS_MAX], again[STATE_EXTENTS_MAX];
    struct state_range range[STATE_RANGES_MAX];
    int rc = exact ? 0 : exact_new(&exact, elements, TENSORS, 1);
    assert(rc == 0);
    unsigned slots = byte(&in) % SLOTS, changes = byte(&in) % CHANGES;
    struct state *state = &held[slots], *taker = &found[slots];
    if (!state->block) {
        open_state(state, exact, slots);
        open_state(taker, exact, slots);
    }
    hold(state, 1 + byte(&in) % ALL);
    save_sections(&file, state->block, extent, state_extents(state, extent));
    for (unsigned k = 0; k < changes; k++)
        change(&file, &in);
    size_t count = save_extents(&file, extent), ranges = state_ranges(taker, extent, count, range);
    assert(changes || ranges == state->held_count);
    assert(changes || memcmp(range, state->held, ranges * sizeof *range) == 0);
    if (ranges == 0)
        return 0;
    state_hold(taker, range, ranges);
    assert(state_extents(taker, again) == count);
    for (size_t i = 0; i < count; i++)
        assert(extent[i].offset == again[i].offset && extent[i].size == again[i].size);
    return 0;
}

/* numbers.c - how the numbers of a round look: so that sums go over the network in all spellings of compress/packed.h.
 *
 * Each bucket of each round draws it: of 23, 16 or 8 bits and a sign, of 32 bits, few that are not zero, or none. In
 * one of some schedules the bucket that is ready last is wide: only whole blocks are written in Rice codes. All comes
 * from numbers of its own, and from the state. */
#include "compress/coding.h"
#include "proto/mix.h"
#include "tests/sim/sim.h"

enum { LOOKS = 0x10c5, WIDE = 0x31de, WIDE_ONE_IN = 4, APART = 64 };

enum look { LOOK_24, LOOK_32, LOOK_16, LOOK_8, LOOK_FEW, LOOK_NONE };

/* Lines are fast, or a wide bucket takes longer than anybody waits. */
static bool
has_room(const struct sim_profile *p)
{
    bool slow = p->fault_count && (p->fault_mask >> SIM_SLOW & 1);
    return !slow && !sim_lines_slow(p, SIM_NODES_MAX) && !p->stages.core.count;
}

void
numbers_profile(struct sim *sim)
{
    struct sim_profile *p = &sim->profile;
    struct rand rand = {mix64_pair(sim->seed, WIDE)};
    if (!sim_is_drawn(sim))
        return;
    p->looks = mix64_pair(sim->seed, LOOKS) | 1;
    if (plain_seed(sim) || !has_room(p) || rand_below(&rand, WIDE_ONE_IN))
        return;
    uint64_t count = rand_range(&rand, SIM_WIDE_LEAST, SIM_WIDE_MOST);
    p->bucket[0] = (struct core_bucket){p->vector, count};
    p->vector += count;
    p->chunk_elems = (uint32_t)rand_range(&rand, SIM_WIDE_LEAST, SIM_WIDE_MOST);
    p->direct_bytes = rand_bool(&rand) ? coding_raw(count) * p->nodes : p->direct_bytes;
}

unsigned
numbers_look(const struct sim_profile *p, const struct sim_state *state, size_t bucket)
{
    static const uint8_t looks[16] = {LOOK_24,  LOOK_24,  LOOK_24,  LOOK_24,  LOOK_32, LOOK_32,
                                      LOOK_16,  LOOK_16,  LOOK_8,   LOOK_8,   LOOK_8,  LOOK_FEW,
                                      LOOK_FEW, LOOK_FEW, LOOK_FEW, LOOK_NONE};
    return p->looks ? looks[mix64_pair(state->words[0] ^ p->looks, bucket) % 16] : LOOK_24;
}

int32_t
numbers_of(unsigned look, uint64_t from, size_t element)
{
    if (look == LOOK_NONE)
        return 0;
    uint64_t bits = mix64(from + (look == LOOK_FEW ? element / APART : element));
    switch ((enum look)look) {
    case LOOK_32:
        return (int32_t)bits;
    case LOOK_16:
        return (int16_t)bits;
    case LOOK_8:
        return (int8_t)bits;
    case LOOK_FEW:
        return bits % APART == element % APART ? (int32_t)(bits >> 60) - 8 : 0;
    default:
        return (int32_t)(bits >> 40) - (1 << 23);
    }
}

static enum sim_spelling
spelling_of(uint8_t width)
{
    return width == 0    ? SIM_NO_BITS
           : width <= 8  ? SIM_8_BITS
           : width <= 16 ? SIM_16_BITS
           : width < 32  ? SIM_31_BITS
                         : SIM_32_BITS;
}

void
numbers_sent(struct sim *sim, const struct proto_msg *msg, const void *body)
{
    const size_t block_groups = PACKED_BLOCK / PACKED_GROUP;
    if (msg->type != PROTO_REDUCE && msg->type != PROTO_GATHER)
        return;
    if (msg->chunk.coding == PROTO_CODING_RAW) {
        sim->counts.spelled[SIM_RAW]++;
        return;
    }
    const uint8_t *width = body;
    for (size_t g = 0, groups = packed_groups(msg->chunk.count); g < groups; g++) {
        if (width[g] & 0x80) {
            sim->counts.spelled[SIM_RICE]++;
            g += block_groups - 1;
        } else {
            sim->counts.spelled[spelling_of(width[g])]++;
        }
    }
}

const char *
numbers_spelling(enum sim_spelling spelling)
{
    static const char *const names[SIM_SPELLINGS] = {
        "bodies of int32",  "blocks in Rice codes", "groups of zeros", "of up to 8 bits",
        "of up to 16 bits", "of up to 31 bits",     "of 32 bits"};
    return names[spelling];
}

/* state_summary.c - what the stages of a plan tell one another in the last bucket: see state_summary_write.
 *
 *     check, 2 words | parts of the hash, 2 words per ledger | squares, 2 words per exponent block, if a rule clips
 *
 * Each number is written by one member, and the others have zeros there: so a sum of words has its bits. The checksum is
 * linear (compress/check.h): those of the members add up to that of the sum. */
#include "node/train/state_internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "compress/check.h"
#include "node/train/ledger.h"

enum { WORDS = 2 }; /* of a number, and of the checksum */

static bool
rule_clips(const struct state_rules *rules)
{
    return rules->optim.clip_norm > 0;
}

/* In any step of the run? */
static bool
ever_clips(const struct state_job *job)
{
    bool clips = rule_clips(&job->rules);
    for (size_t i = 0; i < job->past_count; i++)
        clips = clips || rule_clips(&job->past[i]);
    return clips;
}

/* Words of the summary. */
static size_t
summary_words(const struct state_job *job, size_t block_count)
{
    if (job->ledgers <= 1)
        return 0;
    return WORDS * (1 + job->ledgers + (ever_clips(job) ? block_count : 0));
}

unsigned
state_ledgers(const struct state_job *job)
{
    return job->ledgers > 1 ? job->ledgers : 1;
}

size_t
state_behind(const struct state_job *job, size_t block_count)
{
    return ledger_words(state_ledgers(job) * job->shards) + summary_words(job, block_count);
}

/* Where it begins in a total. */
static size_t
summary_first(const struct state *state)
{
    return state->param_count + state_tail(state->block_count) +
           ledger_words(state_ledgers(&state->job) * state->job.shards);
}

static size_t
part_at(size_t stage)
{
    return WORDS * (1 + stage);
}

static size_t
square_at(const struct state *state, size_t block)
{
    return WORDS * (1 + state->job.ledgers + block);
}

/* Are there squares in the summary of the next round? */
static bool
has_squares(const struct state *now)
{
    return now->header->phase == STATE_TRAIN && rule_clips(state_rules(now));
}

static uint64_t
check_of_summary(const struct state *state, const int32_t *summary)
{
    size_t words = summary_words(&state->job, state->block_count);
    return check_of(summary + WORDS, WORDS, words - WORDS);
}

static void
write_squares(const struct state *next, const struct state_range *range, int32_t *summary)
{
    struct state_item blocks = state_blocks(next, range);
    memcpy(summary + square_at(next, blocks.first), next->square + blocks.first,
           (blocks.end - blocks.first) * sizeof *next->square);
}

void
state_summary_write(const struct state *next, const struct state *now,
                    const struct state_stages *stages, uint64_t mine, int32_t *own)
{
    int32_t *summary = own + summary_first(now);
    assert(now->job.ledgers > 1 && stages->count <= now->job.ledgers);
    memset(summary, 0, summary_words(&now->job, now->block_count) * sizeof *summary);
    for (; mine; mine &= mine - 1) {
        size_t s = (size_t)__builtin_ctzll(mine);
        assert(s < stages->count && state_holds(now, &stages->stage[s]));
        uint64_t part = state_hash_range(now, &stages->stage[s]);
        memcpy(summary + part_at(s), &part, sizeof part);
        if (has_squares(now))
            write_squares(next, &stages->stage[s], summary);
    }
    uint64_t check = check_of_summary(now, summary);
    memcpy(summary, &check, sizeof check);
}

/* Those of the blocks that are held must be as they were computed here. */
static bool
take_squares(struct state *next, const struct state *now, const int32_t *summary)
{
    for (size_t b = 0; b < now->block_count; b++) {
        const int32_t *square = summary + square_at(now, b);
        if (!state_holds_block(now, b))
            memcpy(&next->square[b], square, sizeof *next->square);
        else if (memcmp(&next->square[b], square, sizeof *next->square) != 0)
            return false;
    }
    return true;
}

int
state_summary_take(struct state *next, const struct state *now, const struct state_stages *stages,
                   const int32_t *total, struct why *why)
{
    const int32_t *summary = total + summary_first(now);
    uint64_t check = check_of_summary(now, summary), parts = 0;
    if (memcmp(&check, summary, sizeof check) != 0)
        return why_error(why, -EBADMSG, "the checksum of what its stages say is wrong");
    if (has_squares(now) && !take_squares(next, now, summary))
        return why_error(why, -EBADMSG, "its squares of gradients are not those of the sum");
    for (size_t s = 0; s < stages->count; s++) {
        uint64_t part;
        memcpy(&part, summary + part_at(s), sizeof part);
        parts += part;
    }
    next->header->parent = state_hash_whole(now, parts);
    return 0;
}

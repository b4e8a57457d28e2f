/* state_summary.c - what the stages of a plan tell one another in the last bucket: see state_summary_write.
 *
 *     check, 2 words | per ledger: part of the hash, 2 words; 1 + its first exponent block; are there squares?
 *                    | squares, 2 words per exponent block, if a rule clips
 *
 * Each number is written by one member, and the others have zeros there: so a sum of words has its bits. The checksum
 * is linear (compress/check.h): those of the members add up to that of the sum. */
#include "node/train/state_internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "compress/check.h"
#include "node/train/ledger.h"

enum {
    WORDS = 2,       /* of a number, and of the checksum */
    STAGE_WORDS = 4, /* of what a stage says */
    STAGE_FIRST = 2,
    STAGE_SQUARES,
};

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
    return WORDS + STAGE_WORDS * job->ledgers + (ever_clips(job) ? WORDS * block_count : 0);
}

size_t
state_behind(const struct state_job *job, size_t block_count)
{
    return ledger_words(state_ledgers(job) * job->shards) + summary_words(job, block_count) +
           (job->choose ? CODEC_COSTS : 0);
}

/* Where it begins in a total. */
static size_t
summary_first(const struct state *state)
{
    return state->param_count + state_tail(state->block_count) +
           ledger_words(state_ledgers(&state->job) * state->job.shards);
}

size_t
state_costs(const struct state *state)
{
    assert(state->job.choose);
    return summary_first(state) + summary_words(&state->job, state->block_count);
}

static size_t
stage_at(size_t stage)
{
    return WORDS + STAGE_WORDS * stage;
}

static size_t
square_at(const struct state *state, size_t block)
{
    return stage_at(state->job.ledgers) + WORDS * block;
}

bool
state_needs_squares(const struct state *now)
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
write_squares(const struct state *next, const struct state_item *blocks, int32_t *summary)
{
    memcpy(summary + square_at(next, blocks->first), next->square + blocks->first,
           (blocks->end - blocks->first) * sizeof *next->square);
}

void
state_summary_write(const struct state *next, const struct state *now,
                    const struct state_stages *stages, uint64_t mine, bool squares, int32_t *own)
{
    int32_t *summary = own + summary_first(now);
    assert(now->job.ledgers > 1 && stages->count <= now->job.ledgers);
    memset(summary, 0, summary_words(&now->job, now->block_count) * sizeof *summary);
    for (; mine; mine &= mine - 1) {
        size_t s = (size_t)__builtin_ctzll(mine);
        assert(s < stages->count && state_holds(now, &stages->stage[s]));
        const struct state_item blocks = state_blocks(now, &stages->stage[s]);
        uint64_t part = state_hash_range(now, &stages->stage[s]);
        int32_t *says = summary + stage_at(s);
        memcpy(says, &part, sizeof part);
        says[STAGE_FIRST] = (int32_t)(blocks.first + 1);
        says[STAGE_SQUARES] = squares;
        if (squares)
            write_squares(next, &blocks, summary);
    }
    uint64_t check = check_of_summary(now, summary);
    memcpy(summary, &check, sizeof check);
}

int
state_summary_stages(const struct state *now, const int32_t *total, struct state_stages *out,
                     struct why *why)
{
    const int32_t *summary = total + summary_first(now);
    uint64_t check = check_of_summary(now, summary);
    size_t first = 0;
    *out = (struct state_stages){.count = 0};
    if (memcmp(&check, summary, sizeof check) != 0)
        return why_error(why, -EBADMSG, "the checksum of what its stages say is wrong");
    for (size_t s = 0; s < now->job.ledgers; s++) {
        size_t said = (uint32_t)summary[stage_at(s) + STAGE_FIRST];
        if (said == 0)
            continue;
        if (out->count != s || said > now->block_count || (s == 0 ? said != 1 : said <= first))
            return why_error(why, -EBADMSG, "its stages do not follow one another");
        first = said;
        out->stage[out->count].first = exact_block_first(now->exact, said - 1);
        if (s > 0)
            out->stage[s - 1].end = out->stage[s].first;
        out->stage[out->count++].end = now->param_count;
    }
    return out->count > 0 ? 0 : why_error(why, -EBADMSG, "none of its stages says anything");
}

/* Those of blocks that are held must be as they were computed here. False: they are not. */
static bool
take_squares(struct state *next, const struct state *now, const struct state_item *blocks,
             const int32_t *summary)
{
    for (size_t b = blocks->first; b < blocks->end; b++) {
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
    uint64_t parts = 0;
    for (size_t s = 0; s < stages->count; s++) {
        const int32_t *says = summary + stage_at(s);
        const struct state_item blocks = state_blocks(now, &stages->stage[s]);
        uint64_t part;
        memcpy(&part, says, sizeof part);
        parts += part;
        if (says[STAGE_SQUARES] && !take_squares(next, now, &blocks, summary))
            return why_error(why, -EBADMSG, "its squares of gradients are not those of the sum");
        if (!says[STAGE_SQUARES] && state_needs_squares(now) &&
            !state_holds(now, &stages->stage[s]))
            return why_error(why, -EBADMSG, "the squares of its gradients are missing");
    }
    uint64_t parent = state_hash_whole(now, parts);
    if (state_whole(now) && parts != now->part)
        return why_error(why, -EBADMSG, "it is of another state");
    next->header->parent = parent;
    return 0;
}

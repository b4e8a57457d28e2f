/* ledger.c - slots of shards in a total, and the hashes of what was used. See ledger.h. */
#include "node/train/ledger.h"

#include <assert.h>
#include <errno.h>

#include <xxhash.h>

#include "nn/data.h"
#include "proto/mix.h"

enum { COUNT, ROWS, CHECK = ROWS + 2, PIECE = 256 };

size_t
ledger_words(unsigned shards)
{
    return (size_t)shards * LEDGER_WORDS;
}

static uint64_t
hash_piece(const uint32_t *index, size_t count, uint64_t hash)
{
    return XXH3_64bits_withSeed(index, count * sizeof *index, hash);
}

uint64_t
ledger_rows(unsigned shard, const uint32_t *index, size_t count)
{
    uint64_t hash = shard;
    for (size_t n; count > 0; index += n, count -= n) {
        n = count < PIECE ? count : PIECE;
        hash = hash_piece(index, n, hash);
    }
    return hash;
}

static uint64_t
get(const int32_t *slot, int word)
{
    return (uint64_t)(uint32_t)slot[word + 1] << 32 | (uint32_t)slot[word];
}

static void
add_u64(int32_t *slot, int word, uint64_t value)
{
    slot[word] = (int32_t)((uint32_t)slot[word] + (uint32_t)value);
    slot[word + 1] = (int32_t)((uint32_t)slot[word + 1] + (uint32_t)(value >> 32));
}

void
ledger_add(int32_t *slots, unsigned shard, uint64_t rows, uint64_t check)
{
    int32_t *slot = slots + ledger_words(shard);
    slot[COUNT]++;
    add_u64(slot, ROWS, rows);
    add_u64(slot, CHECK, check);
}

uint64_t
ledger_coverage(const int32_t *slots, unsigned shards)
{
    uint64_t coverage = 0;
    for (unsigned s = 0; s < shards; s++)
        coverage |= (uint64_t)(slots[ledger_words(s) + COUNT] == 1) << s;
    return coverage;
}

uint64_t
ledger_shard_check(const int32_t *slots, unsigned shard)
{
    return get(slots + ledger_words(shard), CHECK);
}

bool
ledger_empty(const int32_t *slots, unsigned shards)
{
    for (size_t i = 0; i < ledger_words(shards); i++)
        if (slots[i])
            return false;
    return true;
}

uint64_t
ledger_check(const int32_t *slots, unsigned shards)
{
    uint32_t low = 0, high = 0;
    for (unsigned s = 0; s < shards; s++) {
        uint64_t check = ledger_shard_check(slots, s);
        low += (uint32_t)check;
        high += (uint32_t)(check >> 32);
    }
    return (uint64_t)high << 32 | low;
}

/* ledger_rows of the samples that the job gives to a shard. */
static uint64_t
shard_expected(const struct ledger_step *step, unsigned shard)
{
    uint32_t index[PIECE], count = (uint32_t)step->train;
    uint64_t hash = shard;
    size_t n = 0;
    assert(step->batch > 0);
    for (uint64_t done = 0, rows; done < step->rows; done += rows) {
        rows = step->rows - done < step->batch ? step->rows - done : step->batch;
        uint64_t at = step->first + done + rows * shard / step->shards;
        uint64_t end = step->first + done + rows * (shard + 1) / step->shards;
        for (; at < end; at++) {
            index[n++] = data_shuffle(step->seed, step->epoch, (uint32_t)at, count);
            if (n == PIECE) {
                hash = hash_piece(index, n, hash);
                n = 0;
            }
        }
    }
    return n ? hash_piece(index, n, hash) : hash;
}

uint64_t
ledger_step_expected(const struct ledger_step *step)
{
    uint64_t hash = 0;
    for (unsigned s = 0; s < step->shards; s++)
        hash = mix64_pair(hash, shard_expected(step, s));
    return hash;
}

static int
verify_slot(const int32_t *slot, unsigned shard, uint64_t rows, struct why *why)
{
    if (slot[COUNT] != 1)
        return why_error(why, -EBADMSG, "shard %u was counted %d times", shard, slot[COUNT]);
    if (get(slot, ROWS) != rows)
        return why_error(why, -EBADMSG, "shard %u was computed from other samples than its own",
                         shard);
    return 0;
}

int
ledger_verify(const int32_t *slots, size_t ledgers, const struct ledger_step *step, struct why *why)
{
    for (unsigned s = 0; s < step->shards; s++) {
        uint64_t rows = shard_expected(step, s);
        for (size_t l = 0; l < ledgers; l++) {
            int rc =
                verify_slot(slots + ledger_words((unsigned)l * step->shards + s), s, rows, why);
            if (rc && ledgers > 1)
                why_append(why, " in stage %zu", l + 1);
            if (rc)
                return rc;
        }
    }
    return 0;
}

uint64_t
ledger_chain(uint64_t ledger, uint64_t step, uint64_t rows)
{
    return mix64_pair(ledger, mix64_pair(step, rows));
}

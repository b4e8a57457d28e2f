/* ledger.h - which samples a step used: reported by the nodes that used them, and summed together with the
 * gradient.
 *
 * Behind the gradients and the tail (state.h), the total of a round has five words per shard:
 *
 *     count | rows, 2 words | check, 2 words
 *
 * If the model may be divided into stages, it has as many such ledgers as there may be stages, and the shards that go
 * through stage s of a plan are counted in ledger s. Its checksums are of the gradient of that stage.
 *
 * A node that computes a shard adds 1 to its count, the hash of the numbers of the samples that it used, in order,
 * and the linear checksum (compress/check.h) of its gradient when it was quantised. A total may be applied only if
 * every count is 1, every hash is that of the samples that the job gives to the shard, and the checksums add up to
 * that of the gradient. This is a second check besides the coverage bitmaps of the mesh, from one end to the other.
 * It also finds a bit that flips in the memory of a contribution or of the total. Who holds only some stages
 * (state_hold) compares the checksums of these.
 *
 * The running hash in the state (state.h: header->ledger) chains what the steps used. It is a function of the job
 * alone. So a state, whether computed, received or resumed, proves that every step before it was counted once, with
 * its own samples: see verify.h. */
#ifndef NODE_LEDGER_H
#define NODE_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/why.h"

enum { LEDGER_WORDS = 5 };

/* What a round uses: positions [first, first + rows) of the epoch's permutation (nn/data.h), `batch` of them in
 * each of its steps; with train.local_steps a round has several steps. The last step of an epoch has what is left. Of n
 * rows from i on, shard s of S has those from i + n * s / S on, rounded down. */
struct ledger_step {
    uint64_t seed, train; /* from the job: data_shuffle(seed, epoch, i, train) */
    unsigned shards;
    uint64_t epoch, first, rows;
    uint64_t batch; /* 1.. */
};

size_t ledger_words(unsigned shards);
/* Hash of the samples of one shard, in order: XXH3-64 of pieces of 256 numbers; each hash is the seed of the next. */
uint64_t ledger_rows(unsigned shard, const uint32_t *index, size_t count);
/* Writes one shard to slots[ledger_words]. */
void ledger_add(int32_t *slots, unsigned shard, uint64_t rows, uint64_t check);
/* Bitmap of the shards whose count is 1. */
uint64_t ledger_coverage(const int32_t *slots, unsigned shards);
/* Are all slots zero? An evaluation uses no samples. */
bool ledger_empty(const int32_t *slots, unsigned shards);
/* Sum of the shards' checksums. */
uint64_t ledger_check(const int32_t *slots, unsigned shards);
/* The shard's checksum. */
uint64_t ledger_shard_check(const int32_t *slots, unsigned shard);
/* Hash of the samples of the step, over the shards' hashes. */
uint64_t ledger_step_expected(const struct ledger_step *step);
/* Do the slots of so many ledgers agree with the job? Returns 0, or -EBADMSG; then `why` names the first shard that
 * differs. */
int ledger_verify(const int32_t *slots, size_t ledgers, const struct ledger_step *step,
                  struct why *why);
/* The running hash after a step whose samples have the hash `rows`. */
uint64_t ledger_chain(uint64_t ledger, uint64_t step, uint64_t rows);

#endif

/* rice.h - a block of int32 of which most are zero: the gaps between the others, and these, in Rice codes.
 *
 * Rice's code of v >= 0 with the parameter k (Rice and Plaunt, IEEE Trans. Commun. 1971; Golomb's code for powers of
 * two) is v >> k zeros and a one, then the lowest k bits of v. It is nearly the shortest for gaps between elements that
 * come at random: Elias' gamma code (IEEE Trans. Inf. Theory 1975), which has no parameter, is 7 to 21 % longer for
 * sums of 1, 4 and 12 shards of sparse, 13 % for qsgd and terngrad, 52 % for topk. His delta code is longer still, but
 * for topk.
 *
 * Each element x that is not zero has, from the lowest bit on,
 *
 *     the code of the zeros before it, parameter `gap` | a bit: 1 if x < 0 | the code of |x| - 1, parameter `value`
 *
 * and what is left of the last word of 32 bits is zero. packed.h says where the parameters are. No allocation. */
#ifndef COMPRESS_RICE_H
#define COMPRESS_RICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RICE_BLOCK = 1024,   /* elements */
    RICE_GAP_MAX = 9,    /* parameters */
    RICE_VALUE_MAX = 30, /* |x| - 1 has 31 bits */
};

struct rice {
    unsigned gap, value; /* parameters */
    unsigned count;      /* elements that are not zero, 0..RICE_BLOCK */
    unsigned words;      /* of 32 bits */
};

/* For x[RICE_BLOCK]. at[count] is where the elements are. */
struct rice rice_measure(const int32_t *x, uint16_t at[RICE_BLOCK]);
/* Writes to[rice->words * 4 bytes]. */
void rice_write(const struct rice *rice, void *to, const int32_t *x, const uint16_t *at);
/* x[RICE_BLOCK] from from[rice->words * 4 bytes], whatever they are. False: they are no such block. */
bool rice_read(const struct rice *rice, const void *from, int32_t *x);

#endif

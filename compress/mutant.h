/* mutant.h - bugs of compressed sums planted on purpose, one bit each, as in mesh/core/mutant.h, of which no bit is free.
 *
 * They exist only in objects compiled with -DMESHNODE_MUTANTS. In the program coding_mutant is constant false. Uses nothing. */
#ifndef COMPRESS_MUTANT_H
#define COMPRESS_MUTANT_H

#include <stdbool.h>
#include <stdint.h>

/* A group has a bit less than its widest element; a packed body is added twice. */
#define CODING_MUTANT_WIDTH (UINT64_C(1) << 0)
#define CODING_MUTANT_TWICE (UINT64_C(1) << 1)
/* A round that is done again begins with the residual that it left the first time; any, with that of the round before. */
#define CODING_MUTANT_RESIDUAL (UINT64_C(1) << 2)
#define CODING_MUTANT_KEPT     (UINT64_C(1) << 3)

#ifdef MESHNODE_MUTANTS
extern uint64_t coding_mutants; /* those planted now; tests/support/mutant.c */
#else
static const uint64_t coding_mutants = 0;
#endif

static inline bool
coding_mutant(uint64_t bit)
{
    return (coding_mutants & bit) != 0;
}

#endif

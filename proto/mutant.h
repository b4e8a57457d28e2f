/* mutant.h - bugs planted on purpose (mutants.def).
 *
 * The simulator must find them: a check that nobody ever saw hold something may have a hole. They exist only in objects
 * compiled with -DMESHNODE_MUTANTS, for the simulator and some unit tests; in the program mutant() is constant
 * false. */
#ifndef PROTO_MUTANT_H
#define PROTO_MUTANT_H

#include <stdbool.h>
#include <stdint.h>

enum mutant {
    MUTANT_NONE,
#define MUTANT(name, what) MUTANT_##name,
#include "proto/mutants.def"
#undef MUTANT
    MUTANT_COUNT
};

/* A set of up to eight is a word with a byte for each, so one alone is a set, too. */
#define MUTANTS(a, b) ((uint64_t)(a) | (uint64_t)(b) << 8)

#ifdef MESHNODE_MUTANTS
extern uint64_t mutants_planted; /* those planted now, in every core; tests/support/mutant.c */
#else
static const uint64_t mutants_planted = MUTANT_NONE;
#endif

static inline bool
mutant(enum mutant which)
{
    uint64_t left = mutants_planted;
    while (left && (left & 0xff) != which)
        left >>= 8;
    return left != 0;
}

#endif

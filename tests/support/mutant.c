/* mutant.c - the bugs that are planted now; see mesh/core/mutant.h and compress/mutant.h. */
#include "tests/support/mutant.h"

uint64_t core_mutants, coding_mutants;

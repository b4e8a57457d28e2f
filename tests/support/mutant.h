/* mutant.h - plant bugs in the core and in codings, where they are linked from objects that have them: see
 * proto/mutant.h.
 *
 * It may also be included where they have none: then whatever is planted changes nothing. */
#ifndef SUPPORT_MUTANT_H
#define SUPPORT_MUTANT_H

#ifndef MESHNODE_MUTANTS
#define MESHNODE_MUTANTS
#endif
#include <stdio.h>

#include "proto/mutant.h"

/* What is wrong with it. */
const char *mutant_text(enum mutant which);

/* A set is written as names: FENCE,COVERAGE; none as "none". Reads at most eight; false if one is no name. */
void mutants_print(FILE *to, uint64_t set);
bool mutants_read(const char *list, uint64_t *set);

#endif

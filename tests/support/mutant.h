/* mutant.h - plant bugs in the core and in codings, where they are linked from objects that have them: see mesh/core/mutant.h and
 * compress/mutant.h.
 *
 * It may also be included where they have none: then whatever is planted changes nothing. */
#ifndef SUPPORT_MUTANT_H
#define SUPPORT_MUTANT_H

#ifndef MESHNODE_MUTANTS
#define MESHNODE_MUTANTS
#endif
#include "compress/mutant.h"
#include "mesh/core/mutant.h"

#endif

/* mutant.h - plant bugs in the core, where it is linked from objects that have them: see mesh/core/mutant.h.
 *
 * It may also be included where the core has none: then whatever is planted changes nothing. */
#ifndef SUPPORT_MUTANT_H
#define SUPPORT_MUTANT_H

#ifndef MESHNODE_MUTANTS
#define MESHNODE_MUTANTS
#endif
#include "mesh/core/mutant.h"

#endif

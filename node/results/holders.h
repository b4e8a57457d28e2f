/* holders.h - who has which stages of the model, in one line: "1 pc1, pc2; 2 pc3". Behind the number of a stage are the
 * nodes that compute it, and in brackets those that only hold it. If all hold all stages, nobody is in brackets. */
#ifndef NODE_HOLDERS_H
#define NODE_HOLDERS_H

#include "mesh/core/pipeline/stages.h"

enum { HOLDERS_TEXT = 512 };

/* "": the plan does not divide the model. What is too long ends with "...". */
void holders_text(const struct core_division *division, char out[HOLDERS_TEXT]);

#endif

/* few.h - the largest few elements of vectors of int32, which packed.h writes in few bytes. */
#ifndef COMPRESS_FEW_H
#define COMPRESS_FEW_H

#include "compress/codec.h"

#include <stdint.h>

enum { FEW_BLOCK = 1024 };

/* Of each block of x[n] the largest few stay, as many as codec_few says, and those with also[k] != 0. The others become
 * zero. Of equal ones the first stay. `also` NULL: zeros. */
void few_keep(int32_t *x, const int32_t *also, size_t n, const struct codec *codec);

#endif

/* fuzz.h - what each target of the fuzzer has: the function that is given an input, and what it demands of the product.
 * An assert that fails, and a read behind the end of an input, end the program. */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void
must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

/* Of a core. */
static inline void
demand(bool holds)
{
    must(holds, "the core breaks its contract");
}

static inline void
demand_line(void *ctx, int level, const char *line)
{
    (void)ctx, (void)level;
    demand(strlen(line) > 0);
}

#endif

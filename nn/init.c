/* init.c - what computes products in this process, chosen once at start: see nn_init. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "nn/arithmetic/blas.h"
#include "nn/arithmetic/gemm.h"
#include "nn/nn.h"

bool blas_used;

/* OpenBLAS gives each thread in a product a buffer. It allocates it with the first product, tries for ever where
 * that fails, and keeps it. These two of its functions have no header; a library without them leaves us with
 * the try. */
void *blas_memory_alloc(int unused) __attribute__((weak));
void blas_memory_free(void *buffer) __attribute__((weak));
enum { BUFFER = (128 << 20) + (1 << 16) }; /* 32 << 22 bytes and some pages in 0.3.21 on x86 */

const char *
nn_init(const char *numerics)
{
    static char name[64];
    openblas_set_num_threads(1);
    blas_used = strcmp(numerics, "portable") != 0;
    const char *narrow = gemm_init() ? "" : ", wide loop failed its check";
    if (blas_used)
        snprintf(name, sizeof name, "openblas %s%s", openblas_get_corename(), narrow);
    else
        snprintf(name, sizeof name, "portable%s", narrow);
    return name;
}

static bool
can_map(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    return at != MAP_FAILED && munmap(at, size) == 0;
}

int
nn_reserve(unsigned threads)
{
    if (!blas_used)
        return 0;
    if (!can_map((size_t)threads * BUFFER))
        return -ENOMEM;
    void **buffer = calloc(threads, sizeof *buffer);
    if (!buffer)
        return -ENOMEM;
    for (unsigned i = 0; blas_memory_alloc && i < threads; i++)
        buffer[i] = blas_memory_alloc(0);
    for (unsigned i = 0; blas_memory_free && i < threads; i++)
        if (buffer[i])
            blas_memory_free(buffer[i]);
    free(buffer);
    return 0;
}

/* blas.c - loads OpenBLAS and calls it: see blas.h. */
#include "nn/arithmetic/blas.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 }; /* as CBLAS has them */

typedef void sgemm_fn(int order, int at, int bt, int m, int n, int k, float alpha, const float *a,
                      int lda, const float *b, int ldb, float beta, float *c, int ldc);

static struct {
    sgemm_fn *sgemm;
    char *(*corename)(void);
    /* OpenBLAS gives each thread in a product a buffer. It allocates it with the first product, tries for ever where
     * that fails, and keeps it. These two of its functions have no header; a library without them leaves us with the
     * try. */
    void *(*memory_alloc)(int unused);
    void (*memory_free)(void *buffer);
} library;
enum { ROWS_LEAST = 128, WEIGHTS_LEAST = 1 << 20 }; /* of products that gain */
enum { BUFFER = (128 << 20) + (1 << 16) }; /* 32 << 22 bytes and some pages in 0.3.21 on x86 */

/* A function as POSIX means dlsym to be used; ISO C has no conversion for it. */
static void
symbol_find(void *handle, const char *name, void *function, size_t size)
{
    void *at = dlsym(handle, name);
    assert(size == sizeof at);
    memcpy(function, &at, size);
}

#define FIND(handle, name, member) symbol_find(handle, name, &library.member, sizeof library.member)

/* It reads these when it is loaded. Idle threads of its pool would spin for 2^26 cycles; 2^4 is the least. */
static void *
openblas_load(void)
{
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    setenv("OPENBLAS_THREAD_TIMEOUT", "4", 1);
    void *handle = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    return handle ? handle : dlopen("libopenblas.so", RTLD_NOW | RTLD_LOCAL);
}

const char *
blas_open(void)
{
    void *handle = library.sgemm ? NULL : openblas_load();
    if (handle) {
        FIND(handle, "cblas_sgemm", sgemm);
        FIND(handle, "openblas_get_corename", corename);
        FIND(handle, "blas_memory_alloc", memory_alloc);
        FIND(handle, "blas_memory_free", memory_free);
    }
    return library.sgemm && library.corename ? library.corename() : NULL;
}

static bool
can_map(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    return at != MAP_FAILED && munmap(at, size) == 0;
}

int
blas_reserve(unsigned threads)
{
    if (!can_map((size_t)threads * BUFFER))
        return -ENOMEM;
    void **buffer = calloc(threads, sizeof *buffer);
    if (!buffer)
        return -ENOMEM;
    for (unsigned i = 0; library.memory_alloc && i < threads; i++)
        buffer[i] = library.memory_alloc(0);
    for (unsigned i = 0; library.memory_free && i < threads; i++)
        if (buffer[i])
            library.memory_free(buffer[i]);
    free(buffer);
    return 0;
}

bool
blas_gains(size_t m, size_t n, size_t k)
{
    return blas_used && m >= ROWS_LEAST && n * k >= WEIGHTS_LEAST;
}

void
blas_gemm(bool at, bool bt, size_t m, size_t n, size_t k, const float *a, size_t lda,
          const float *b, size_t ldb, float beta, float *c, size_t ldc)
{
    assert(m <= INT_MAX);
    assert(n <= INT_MAX);
    assert(k <= INT_MAX);
    if (m == 0 || n == 0)
        return;
    if (k == 0) {
        for (size_t i = 0; beta == 0 && i < m; i++)
            memset(c + i * ldc, 0, n * sizeof *c);
        return;
    }
    library.sgemm(ROW_MAJOR, at ? TRANSPOSED : PLAIN, bt ? TRANSPOSED : PLAIN, (int)m, (int)n,
                  (int)k, 1.0f, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
}

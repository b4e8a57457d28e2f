/* alloc.h - count allocations, and make the n-th one fail.
 *
 * For a test whose head says
 *     LDFLAGS: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
 * and that includes this file once: calls of our own objects come here, the libraries' do not. */
#ifndef SUPPORT_ALLOC_H
#define SUPPORT_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

static size_t alloc_calls;   /* since it was last set to 0 */
static size_t alloc_fail_at; /* the call that fails, from 1; 0 = none */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static bool
alloc_fails(void)
{
    return ++alloc_calls == alloc_fail_at;
}

void *
__wrap_malloc(size_t size)
{
    return alloc_fails() ? NULL : __real_malloc(size);
}

void *
__wrap_calloc(size_t count, size_t size)
{
    return alloc_fails() ? NULL : __real_calloc(count, size);
}

void *
__wrap_realloc(void *old, size_t size)
{
    return alloc_fails() ? NULL : __real_realloc(old, size);
}

#endif

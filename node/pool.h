/* pool.h - worker threads for "do this for i in 0..count-1".
 *
 * pool_run hands out the numbers one by one to the workers and to the caller, and returns when all are
 * done. What runs for an i must not depend on who runs it. Workers that wait spin for a moment before
 * they sleep, since the parts of a step follow one another within microseconds. */
#ifndef NODE_POOL_H
#define NODE_POOL_H

#include <stddef.h>

struct pool;

enum { POOL_THREADS_MAX = 256 };

/* `threads` counts the caller: 1 starts none. Returns 0 or -errno. */
int pool_new(struct pool **out, unsigned threads);
void pool_destroy(struct pool **pool);
void pool_run(struct pool *pool, void (*work)(void *ctx, size_t i), void *ctx, size_t count);

#endif

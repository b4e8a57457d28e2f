/* pool.h - worker threads that do something for each i in 0..count-1.
 *
 * pool_run gives the numbers one by one to the workers and to the caller, and returns when all are done. The result
 * for an i must not depend on the thread that computes it. Waiting workers spin for a moment before they sleep,
 * because the parts of a step follow one another within microseconds. */
#ifndef NODE_POOL_H
#define NODE_POOL_H

#include <stddef.h>

struct pool;

enum { POOL_THREADS_MAX = 256 };

/* `threads` includes the caller: 1 starts no thread. Returns 0 or -errno. */
int pool_new(struct pool **out, unsigned threads);
void pool_destroy(struct pool **pool);
void pool_run(struct pool *pool, void (*work)(void *ctx, size_t i), void *ctx, size_t count);

#endif

/* pool.h - worker threads that do something for each i in 0..count-1.
 *
 * pool_run gives the numbers one by one to the workers and to the caller, and returns when all are done. The result
 * for an i must not depend on the thread that computes it. Waiting workers spin for a moment before they sleep,
 * because the parts of a step follow one another within microseconds.
 *
 * An idle pool runs where nobody else wants to (host_use.h). Its caller only waits: Linux lets no thread come back from
 * there, and who holds a lock that others wait for must not be there. */
#ifndef NODE_POOL_H
#define NODE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pool;

enum { POOL_THREADS_MAX = 256 };

/* `threads` includes the caller: 1 starts no thread. Returns 0 or -errno. */
int pool_new(struct pool **out, unsigned threads);
/* The same of an idle pool, with so many threads beside the caller. */
int pool_new_idle(struct pool **out, unsigned threads);
/* The error with which Linux refused to let its threads be idle; 0: it did not. From any thread. */
int pool_idle_error(const struct pool *pool);
void pool_destroy(struct pool **pool);
/* At most so many threads compute from now on, 1 at least: at once, but for the numbers that they have. Only of an idle
 * pool. From any thread. */
void pool_limit(struct pool *pool, unsigned threads);
/* How long the threads of an idle pool ran, and waited for a CPU, in all. From any thread. */
void pool_times(const struct pool *pool, uint64_t *ran_us, uint64_t *waited_us);
void pool_run(struct pool *pool, void (*work)(void *ctx, size_t i), void *ctx, size_t count);

#endif

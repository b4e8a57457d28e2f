/* pool.c - worker threads that share out the numbers of one job at a time.
 *
 * A job is a generation number. The caller publishes work, ctx and count, raises the generation and wakes
 * whoever sleeps; everybody takes numbers from `next` until they run out; the caller waits until each
 * worker has left the generation, so the next job may overwrite the fields. */
#include "node/train/pool.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

/* A sleep and a wake-up cost as much as a small layer, on a virtual machine some 50 us. */
enum { SPIN_NS = 50000, SPINS = 16 /* between two looks at the clock */ };

struct pool {
    unsigned workers; /* threads without the caller */
    pthread_t *thread;
    pthread_mutex_t lock;
    pthread_cond_t start, finish;
    atomic_ulong generation;
    atomic_uint inside; /* workers that have not left the present generation */
    atomic_size_t next;
    bool quit;
    void (*work)(void *ctx, size_t i);
    void *ctx;
    size_t count;
};

static void
take_all(struct pool *pool)
{
    for (size_t i; (i = atomic_fetch_add(&pool->next, 1)) < pool->count;)
        pool->work(pool->ctx, i);
}

static int64_t
now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static bool
opened(struct pool *pool, unsigned long seen)
{
    return atomic_load(&pool->generation) != seen;
}

static bool
left(struct pool *pool, unsigned long seen)
{
    (void)seen;
    return atomic_load(&pool->inside) == 0;
}

/* Leaves the core to the thread beside it. */
static inline void
relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Waits for a moment, awake. */
static inline void
spin(bool (*done)(struct pool *pool, unsigned long seen), struct pool *pool, unsigned long seen)
{
    const int64_t end = now_ns() + SPIN_NS;
    do
        for (int i = 0; i < SPINS; i++, relax())
            if (done(pool, seen))
                return;
    while (now_ns() < end);
}

static bool
wait_for(struct pool *pool, unsigned long seen)
{
    spin(opened, pool, seen);
    pthread_mutex_lock(&pool->lock);
    while (atomic_load(&pool->generation) == seen)
        pthread_cond_wait(&pool->start, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    return !pool->quit;
}

static void *
worker_main(void *arg)
{
    struct pool *pool = arg;
    prctl(PR_SET_NAME, "work");
    for (unsigned long seen = 0; wait_for(pool, seen); seen++) {
        take_all(pool);
        if (atomic_fetch_sub(&pool->inside, 1) == 1) {
            pthread_mutex_lock(&pool->lock);
            pthread_cond_signal(&pool->finish);
            pthread_mutex_unlock(&pool->lock);
        }
    }
    return NULL;
}

static void
open_generation(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->generation, 1);
    pthread_cond_broadcast(&pool->start);
    pthread_mutex_unlock(&pool->lock);
}

int
pool_new(struct pool **out, unsigned threads)
{
    assert(threads >= 1);
    assert(threads <= POOL_THREADS_MAX);
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return -ENOMEM;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->start, NULL);
    pthread_cond_init(&pool->finish, NULL);
    pool->thread = calloc(threads, sizeof *pool->thread);
    int rc = pool->thread ? 0 : ENOMEM;
    while (!rc && pool->workers < threads - 1) {
        rc = pthread_create(&pool->thread[pool->workers], NULL, worker_main, pool);
        pool->workers += !rc;
    }
    if (rc)
        pool_destroy(&pool);
    *out = pool;
    return -rc;
}

void
pool_destroy(struct pool **pool)
{
    struct pool *self = *pool;
    if (!self)
        return;
    self->quit = true;
    open_generation(self);
    for (unsigned i = 0; i < self->workers; i++)
        pthread_join(self->thread[i], NULL);
    pthread_cond_destroy(&self->finish);
    pthread_cond_destroy(&self->start);
    pthread_mutex_destroy(&self->lock);
    free(self->thread);
    free(self);
    *pool = NULL;
}

void
pool_run(struct pool *pool, void (*work)(void *ctx, size_t i), void *ctx, size_t count)
{
    pool->work = work;
    pool->ctx = ctx;
    pool->count = count;
    atomic_store(&pool->next, 0);
    if (!pool->workers || count < 2) {
        take_all(pool);
        return;
    }
    atomic_store(&pool->inside, pool->workers);
    open_generation(pool);
    take_all(pool);
    spin(left, pool, 0);
    pthread_mutex_lock(&pool->lock);
    while (atomic_load(&pool->inside))
        pthread_cond_wait(&pool->finish, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

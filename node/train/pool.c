/* pool.c - worker threads that share out the numbers of one job at a time.
 *
 * A job is a generation number. The caller publishes work, ctx and count, raises the generation and wakes
 * whoever sleeps; everybody takes numbers from `next` until they run out; the caller waits until each
 * worker has left the generation, so the next job may overwrite the fields. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): syscall */
#include "node/train/pool.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "node/base/host_use.h"

/* A sleep and a wake-up cost as much as a small layer, on a virtual machine some 50 us. */
enum { SPIN_NS = 50000, SPINS = 16 /* between two looks at the clock */ };

struct worker {
    struct pool *pool;
    pthread_t thread;
    unsigned index;
    atomic_int tid; /* 0: it has not begun */
};

struct pool {
    unsigned workers; /* threads without the caller */
    struct worker *worker;
    bool idle;
    atomic_uint limit; /* workers from this one on do nothing */
    atomic_int idle_error;
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

/* `index`: of the worker; the caller is 0, as a worker that always works. */
static void
take_all(struct pool *pool, unsigned index)
{
    for (size_t i;
         index < atomic_load(&pool->limit) && (i = atomic_fetch_add(&pool->next, 1)) < pool->count;)
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

static void
worker_begins(struct worker *worker)
{
    struct pool *pool = worker->pool;
    prctl(PR_SET_NAME, "work");
    atomic_store(&worker->tid, (int)syscall(SYS_gettid));
    if (!pool->idle)
        return;
    int rc = host_idle_thread();
    if (rc)
        atomic_store(&pool->idle_error, rc);
}

static void *
worker_main(void *arg)
{
    struct worker *worker = arg;
    struct pool *pool = worker->pool;
    worker_begins(worker);
    for (unsigned long seen = 0; wait_for(pool, seen); seen++) {
        take_all(pool, worker->index);
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

static int
pool_start(struct pool **out, unsigned workers, bool idle)
{
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return -ENOMEM;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->start, NULL);
    pthread_cond_init(&pool->finish, NULL);
    pool->idle = idle;
    atomic_store(&pool->limit, UINT_MAX);
    pool->worker = calloc(workers + 1, sizeof *pool->worker);
    int rc = pool->worker ? 0 : ENOMEM;
    while (!rc && pool->workers < workers) {
        struct worker *worker = &pool->worker[pool->workers];
        worker->pool = pool;
        worker->index = pool->workers;
        rc = pthread_create(&worker->thread, NULL, worker_main, worker);
        pool->workers += !rc;
    }
    if (rc)
        pool_destroy(&pool);
    *out = pool;
    return -rc;
}

int
pool_new(struct pool **out, unsigned threads)
{
    assert(threads >= 1);
    assert(threads <= POOL_THREADS_MAX);
    return pool_start(out, threads - 1, false);
}

int
pool_new_idle(struct pool **out, unsigned threads)
{
    assert(threads >= 1);
    assert(threads <= POOL_THREADS_MAX);
    return pool_start(out, threads, true);
}

int
pool_idle_error(const struct pool *pool)
{
    return atomic_load(&pool->idle_error);
}

void
pool_limit(struct pool *pool, unsigned threads)
{
    assert(pool->idle);
    assert(threads >= 1);
    atomic_store(&pool->limit, threads);
}

void
pool_times(const struct pool *pool, uint64_t *ran_us, uint64_t *waited_us)
{
    *ran_us = *waited_us = 0;
    assert(pool->idle);
    for (unsigned i = 0; i < pool->workers; i++) {
        uint64_t ran, waited;
        host_use_thread("", atomic_load(&pool->worker[i].tid), &ran, &waited);
        *ran_us += ran;
        *waited_us += waited;
    }
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
        pthread_join(self->worker[i].thread, NULL);
    pthread_cond_destroy(&self->finish);
    pthread_cond_destroy(&self->start);
    pthread_mutex_destroy(&self->lock);
    free(self->worker);
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
    if (!pool->idle && (!pool->workers || count < 2)) {
        take_all(pool, 0);
        return;
    }
    atomic_store(&pool->inside, pool->workers);
    open_generation(pool);
    if (!pool->idle)
        take_all(pool, 0);
    spin(left, pool, 0);
    pthread_mutex_lock(&pool->lock);
    while (atomic_load(&pool->inside))
        pthread_cond_wait(&pool->finish, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

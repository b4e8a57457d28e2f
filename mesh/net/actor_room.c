/* actor_room.c - is there room for the threads of ZeroMQ and CZMQ? They end the program where a thread cannot be
 * started (src/thread.cpp), so this tries it first: as many threads at once as a mesh has, beside some memory
 * for their buffers. A limit on processes (ulimit -u, pids.max of a container) fails here, too, as does one on address
 * space (ulimit -v). */
#include "mesh/net/actor.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

enum {
    THREADS =
        12, /* two contexts of ours and one of CZMQ with 2 each, beacon, names, actor; and some */
    BUFFERS = 24 << 20 /* bytes */
};

static void *
room_wait(void *arg)
{
    pthread_mutex_t *gate = arg;
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

/* How many of THREADS could be started. */
static unsigned
try_threads(void)
{
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread[THREADS];
    unsigned count = 0;
    pthread_mutex_lock(&gate);
    while (count < THREADS && pthread_create(&thread[count], NULL, room_wait, &gate) == 0)
        count++;
    pthread_mutex_unlock(&gate);
    for (unsigned i = 0; i < count; i++)
        pthread_join(thread[i], NULL);
    return count;
}

int
actor_room(struct why *why)
{
    void *buffers = mmap(NULL, BUFFERS, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (buffers == MAP_FAILED)
        return why_error(why, -ENOMEM, "not enough memory for the network (ulimit -v): %s",
                         strerror(errno));
    unsigned count = try_threads();
    munmap(buffers, BUFFERS);
    if (count == THREADS)
        return 0;
    return why_error(
        why, -EAGAIN,
        "the network needs %d threads, only %u could be started (ulimit -u, ulimit -v, "
        "pids.max of a container)",
        THREADS, count);
}

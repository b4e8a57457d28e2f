/* bench_tcp.c - a ring all-reduce on bare TCP sockets: what any implementation can hope for.
 *
 *     bench_tcp RANK PORT HOST0,HOST1,...        MODE=poll|thread  CHUNK=256k
 *
 * A vector of n segments goes round the ring once to be summed and once more to be spread. Seen from
 * one rank both are a delay line: what leaves is its own segment, followed by whatever has come in,
 * less the last segment, which everyone has by then.
 *
 *     in    | r-1 | r-2 | ... | r+1 | r   |  r-1 | ... | r+2 |     each is added for the first n-1
 *     out   | r | r-1 | r-2 | ... | r+1 | r   |  r-1 | ... |       segments, stored for the others
 *
 * (segment numbers modulo n; 2(n-1) segments each way). So the only state is how far each side of the
 * stream has come; byte x may leave as soon as out's head start plus the bytes taken in exceed x.
 * Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, JPDC 2009.
 *
 * poll: one thread, non-blocking sockets. thread: a second thread sends, both block. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/bench/measure.h"

enum { RANKS_MAX = 64 };

struct cursor {
    int segment; /* which one of the stream, 0 .. 2(n-1) */
    size_t at;   /* bytes of it done */
    size_t done; /* bytes of the stream done */
};

struct collective {
    int rank, ranks, in_fd, out_fd;
    size_t chunk;  /* bytes: grain of the pipeline */
    char *scratch; /* [chunk] */
    size_t held;   /* bytes in scratch that are not yet a whole element */
    char *vector;
    size_t count; /* elements */
    struct cursor in, out;
    pthread_mutex_t lock; /* guards free and job, and the hand-over of the fields above */
    pthread_cond_t more;
    size_t free; /* bytes of the outgoing stream that may leave */
    bool job;
};

static void
die(const char *what)
{
    perror(what);
    exit(1);
}

static size_t
edge(const struct collective *ring, int segment)
{
    return ring->count * (size_t)segment / (size_t)ring->ranks * sizeof(float);
}

/* The segment of the vector that is the stream's `number`-th; the incoming stream is one ahead. */
static int
segment_of(const struct collective *ring, int number)
{
    return (ring->rank + 2 * ring->ranks - number) % ring->ranks;
}

static char *
place(const struct collective *ring, const struct cursor *cursor, int ahead, size_t *left)
{
    const int segment = segment_of(ring, cursor->segment + ahead);
    const size_t start = edge(ring, segment);
    *left = edge(ring, segment + 1) - start - cursor->at;
    return ring->vector + start + cursor->at;
}

static int
segments(const struct collective *ring)
{
    return 2 * (ring->ranks - 1);
}

static void
advance(struct cursor *cursor, size_t bytes, size_t left)
{
    cursor->at += bytes;
    cursor->done += bytes;
    if (bytes == left) {
        cursor->segment++;
        cursor->at = 0;
    }
}

static size_t
head_start(const struct collective *ring)
{
    return edge(ring, ring->rank + 1) - edge(ring, ring->rank);
}

static void
add(char *into, const char *from, size_t bytes)
{
    float *restrict sum = (float *)(void *)into;
    const float *restrict term = (const float *)(const void *)from;
    for (size_t i = 0; i < bytes / sizeof *sum; i++)
        sum[i] += term[i];
}

static void
begin(struct collective *ring, float *vector, size_t count)
{
    ring->vector = (char *)vector;
    ring->count = count;
    ring->in = ring->out = (struct cursor){0};
}

/* ---- one thread ---- */

static bool
would_block(ssize_t rc, const char *what)
{
    if (rc < 0 && errno != EAGAIN && errno != EINTR)
        die(what);
    return rc < 0;
}

/* Waits for a whole chunk (or the rest of the segment), so that small writes do not pile up. */
static bool
may_send(const struct collective *ring, size_t *size)
{
    size_t left;
    place(ring, &ring->out, 0, &left);
    const size_t ready = head_start(ring) + ring->in.done - ring->out.done;
    const size_t grain = left < ring->chunk ? left : ring->chunk;
    *size = ready < left ? ready : left;
    return *size >= grain;
}

static bool
send_some(struct collective *ring, size_t size)
{
    size_t left;
    const char *from = place(ring, &ring->out, 0, &left);
    if (left == 0)
        return advance(&ring->out, 0, 0), true;
    const ssize_t sent = send(ring->out_fd, from, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (would_block(sent, "send"))
        return false;
    advance(&ring->out, (size_t)sent, left);
    return true;
}

static size_t
fold(struct collective *ring, char *into)
{
    const size_t whole = ring->held / sizeof(float) * sizeof(float);
    add(into, ring->scratch, whole);
    ring->held -= whole;
    memmove(ring->scratch, ring->scratch + whole, ring->held);
    return whole;
}

static bool
receive_some(struct collective *ring)
{
    const bool adding = ring->in.segment < ring->ranks - 1;
    size_t left;
    char *into = place(ring, &ring->in, 1, &left);
    if (left == 0)
        return advance(&ring->in, 0, 0), true;
    const size_t room = (left < ring->chunk || !adding ? left : ring->chunk) - ring->held;
    const ssize_t got =
        recv(ring->in_fd, adding ? ring->scratch + ring->held : into, room, MSG_DONTWAIT);
    if (would_block(got, "recv"))
        return false;
    if (got == 0)
        errno = ECONNRESET, die("recv");
    if (adding)
        ring->held += (size_t)got;
    advance(&ring->in, adding ? fold(ring, into) : (size_t)got, left);
    return true;
}

static void
reduce_poll(void *ctx, float *vector, size_t count)
{
    struct collective *ring = ctx;
    const int last = segments(ring);
    begin(ring, vector, count);
    while (ring->in.segment < last || ring->out.segment < last) {
        size_t size = 0;
        const bool sending = ring->out.segment < last && may_send(ring, &size);
        bool moved = sending && send_some(ring, size);
        if (ring->in.segment < last)
            moved |= receive_some(ring);
        if (!moved) {
            struct pollfd wait[] = {{ring->in.segment < last ? ring->in_fd : -1, POLLIN, 0},
                                    {sending ? ring->out_fd : -1, POLLOUT, 0}};
            poll(wait, 2, -1);
        }
    }
}

/* ---- two threads ---- */

static void
send_all(struct collective *ring)
{
    while (ring->out.segment < segments(ring)) {
        size_t left;
        const char *from = place(ring, &ring->out, 0, &left);
        pthread_mutex_lock(&ring->lock);
        while (ring->free <= ring->out.done && left > 0)
            pthread_cond_wait(&ring->more, &ring->lock);
        const size_t ready = ring->free - ring->out.done;
        pthread_mutex_unlock(&ring->lock);
        const size_t size = ready < left ? ready : left;
        const ssize_t sent = size ? send(ring->out_fd, from, size, MSG_NOSIGNAL) : 0;
        if (sent < 0)
            die("send");
        advance(&ring->out, (size_t)sent, left);
    }
}

static void *
sender(void *ctx)
{
    struct collective *ring = ctx;
    for (;;) {
        pthread_mutex_lock(&ring->lock);
        while (!ring->job)
            pthread_cond_wait(&ring->more, &ring->lock);
        pthread_mutex_unlock(&ring->lock);
        send_all(ring);
        pthread_mutex_lock(&ring->lock);
        ring->job = false;
        pthread_cond_broadcast(&ring->more);
        pthread_mutex_unlock(&ring->lock);
    }
    return NULL;
}

static void
hand_over(struct collective *ring, size_t bytes)
{
    pthread_mutex_lock(&ring->lock);
    ring->free += bytes;
    pthread_cond_broadcast(&ring->more);
    pthread_mutex_unlock(&ring->lock);
}

static void
receive_all(struct collective *ring)
{
    while (ring->in.segment < segments(ring)) {
        const bool adding = ring->in.segment < ring->ranks - 1;
        size_t left;
        char *into = place(ring, &ring->in, 1, &left);
        const size_t size = left < ring->chunk ? left : ring->chunk;
        if (size &&
            recv(ring->in_fd, adding ? ring->scratch : into, size, MSG_WAITALL) != (ssize_t)size)
            die("recv");
        if (adding)
            add(into, ring->scratch, size);
        advance(&ring->in, size, left);
        hand_over(ring, size);
    }
}

static void
reduce_thread(void *ctx, float *vector, size_t count)
{
    struct collective *ring = ctx;
    pthread_mutex_lock(&ring->lock);
    begin(ring, vector, count);
    ring->free = head_start(ring);
    ring->job = true;
    pthread_cond_broadcast(&ring->more);
    pthread_mutex_unlock(&ring->lock);
    receive_all(ring);
    pthread_mutex_lock(&ring->lock);
    while (ring->job)
        pthread_cond_wait(&ring->more, &ring->lock);
    pthread_mutex_unlock(&ring->lock);
}

/* ---- sockets ---- */

static struct sockaddr_in
address(const char *host, int port)
{
    struct sockaddr_in out = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, host, &out.sin_addr) != 1) {
        fprintf(stderr, "bench_tcp: %s is not an IPv4 address\n", host);
        exit(2);
    }
    return out;
}

static void
no_delay(int fd)
{
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static int
listen_at(const char *host, int port)
{
    const struct sockaddr_in at = address(host, port);
    const int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)&at, sizeof at) || listen(fd, 4))
        die("listen");
    return fd;
}

/* The neighbour may not listen yet: try for ten seconds. */
static int
connect_to(const char *host, int port)
{
    const struct sockaddr_in to = address(host, port);
    const double end = measure_now() + 10;
    while (measure_now() < end) {
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (const struct sockaddr *)&to, sizeof to) == 0)
            return no_delay(fd), fd;
        close(fd);
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    die("connect");
    return -1;
}

static int
hosts_split(char *text, char *hosts[RANKS_MAX])
{
    int count = 0;
    char *rest;
    for (char *host = strtok_r(text, ",", &rest); host && count < RANKS_MAX;
         host = strtok_r(NULL, ",", &rest))
        hosts[count++] = host;
    return count;
}

int
main(int argc, char **argv)
{
    char *hosts[RANKS_MAX];
    const int ranks = argc == 4 ? hosts_split(argv[3], hosts) : 0;
    const int rank = ranks ? atoi(argv[1]) : 0, port = ranks ? atoi(argv[2]) : 0;
    if (ranks < 2 || rank < 0 || rank >= ranks || port < 1)
        return fprintf(stderr, "usage: bench_tcp RANK PORT HOST0,HOST1,...\n"), 2;

    const char *chunk = getenv("CHUNK"), *mode = getenv("MODE");
    const bool threaded = mode && !strcmp(mode, "thread");
    struct collective ring = {.rank = rank, .ranks = ranks};
    ring.chunk = measure_bytes(chunk ? chunk : "256k");
    ring.scratch = aligned_alloc(4096, (ring.chunk + 4095) / 4096 * 4096);
    if (!ring.scratch)
        return 1;
    const int next = (rank + 1) % ranks, listener = listen_at(hosts[rank], port + rank);
    ring.out_fd = connect_to(hosts[next], port + next);
    ring.in_fd = accept(listener, NULL, NULL);
    if (ring.in_fd < 0)
        die("accept");
    no_delay(ring.in_fd);

    pthread_t thread;
    pthread_mutex_init(&ring.lock, NULL);
    pthread_cond_init(&ring.more, NULL);
    if (threaded && pthread_create(&thread, NULL, sender, &ring) != 0)
        return 1;
    measure_all(threaded ? "tcp-thread" : "tcp-poll", rank, ranks,
                threaded ? reduce_thread : reduce_poll, &ring);
    return 0;
}

/* actor_guard.c - a table of connections by descriptor. See actor_guard.h. */
#include "mesh/actor_guard.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

struct line {
    bool used, fresh; /* fresh: a whole message has come since the last check */
    uint64_t heard;   /* bytes that had come then */
    uint64_t bytes_max;
};

struct guard {
    guard_known *known;
    void *ctx;
    int high; /* no line from here on is used */
    uint64_t checked_us;
    struct line lines[GUARD_LINES_MAX];
};

int
guard_new(struct guard **out, guard_known *known, void *ctx)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return -ENOMEM;
    (*out)->known = known;
    (*out)->ctx = ctx;
    return 0;
}

void
guard_destroy(struct guard **guard)
{
    free(*guard);
    *guard = NULL;
}

/* Bytes that the kernel has received on it, ever; false when it is no TCP connection any more. */
static bool
bytes_come(int fd, uint64_t *bytes)
{
    struct tcp_info info;
    socklen_t size = sizeof info;
    memset(&info, 0, sizeof info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return false;
    *bytes = info.tcpi_bytes_received;
    return true;
}

void
guard_add(struct guard *guard, int fd, uint64_t bytes_max)
{
    if (fd < 0 || fd >= GUARD_LINES_MAX) {
        shutdown(fd, SHUT_RDWR);
        return;
    }
    guard->lines[fd] = (struct line){.used = true, .bytes_max = bytes_max};
    if (fd >= guard->high)
        guard->high = fd + 1;
}

void
guard_remove(struct guard *guard, int fd)
{
    if (!guard || fd < 0 || fd >= guard->high)
        return;
    guard->lines[fd].used = false;
    while (guard->high > 0 && !guard->lines[guard->high - 1].used)
        guard->high--;
}

void
guard_heard(struct guard *guard, int fd)
{
    if (fd >= 0 && fd < guard->high)
        guard->lines[fd].fresh = true;
}

static bool
is_known(const struct guard *guard, int fd)
{
    struct sockaddr_storage from;
    socklen_t size = sizeof from;
    char host[NI_MAXHOST];
    if (getpeername(fd, (struct sockaddr *)&from, &size) != 0 ||
        getnameinfo((struct sockaddr *)&from, size, host, sizeof host, NULL, 0, NI_NUMERICHOST) !=
            0)
        return false;
    return guard->known(guard->ctx, strncmp(host, "::ffff:", 7) == 0 ? host + 7 : host);
}

/* What ZeroMQ took: what has come less what still waits in the kernel. */
static bool
too_much(const struct guard *guard, int fd, uint64_t bytes)
{
    const struct line *line = &guard->lines[fd];
    uint64_t least = line->bytes_max < GUARD_STRANGER_MAX ? line->bytes_max : GUARD_STRANGER_MAX;
    int waiting = 0;
    if (bytes - line->heard <= least)
        return false;
    if (ioctl(fd, FIONREAD, &waiting) != 0 || waiting < 0)
        waiting = 0;
    if (bytes - line->heard <= least + (uint64_t)waiting)
        return false;
    return bytes - line->heard > line->bytes_max + (uint64_t)waiting || !is_known(guard, fd);
}

unsigned
guard_check(struct guard *guard, uint64_t now_us)
{
    unsigned ended = 0;
    if (now_us - guard->checked_us < GUARD_PERIOD_US)
        return 0;
    uint64_t passed_us = now_us - guard->checked_us;
    uint64_t spare = GUARD_SPARE * (passed_us < 1000000 ? passed_us : 1000000) / 1000000;
    guard->checked_us = now_us;
    for (int fd = 0; fd < guard->high; fd++) {
        struct line *line = &guard->lines[fd];
        uint64_t bytes = 0;
        if (!line->used)
            continue;
        if (line->fresh && bytes_come(fd, &bytes)) {
            line->heard = bytes;
            line->fresh = false;
        } else if (!bytes_come(fd, &bytes) || bytes < line->heard) {
            line->used = false;
        } else if (too_much(guard, fd, bytes)) {
            shutdown(fd, SHUT_RDWR);
            line->used = false;
            ended++;
        } else {
            line->heard = bytes - line->heard > spare ? line->heard + spare : bytes;
        }
    }
    return ended;
}

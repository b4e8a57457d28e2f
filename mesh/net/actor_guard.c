/* actor_guard.c - a table of connections by descriptor. See actor_guard.h. */
#include "mesh/net/actor_guard.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LITTLE = 4096 /* bytes: so few may wait in the kernel without our asking for it */ };

struct line {
    bool used, member, suspect;
    bool heard; /* a whole message was read since the last check */
    enum guard_plane plane;
    uint64_t cookie; /* of the socket */
    struct proto_node from;
    uint64_t whole; /* bytes up to here were whole messages, and perhaps a part of the next one */
    uint64_t held;  /* bytes that ZeroMQ took since, at the last look */
    uint64_t looked_us, spare_us; /* when that was; time that is not yet counted in spare bytes */
};

struct guard {
    struct guard_setup setup;
    int pin, nothing; /* descriptors of our own, see end_line */
    int high;         /* no line from here on is used */
    int next;         /* whose turn it is */
    uint64_t checked_us;
    unsigned suspects[GUARD_PLANES];
    struct line lines[GUARD_LINES_MAX];
};

int
guard_new(struct guard **out, const struct guard_setup *setup)
{
    struct guard *guard = calloc(1, sizeof *guard);
    if (!guard)
        return -ENOMEM;
    guard->setup = *setup;
    guard->nothing = eventfd(0, EFD_CLOEXEC);
    guard->pin = eventfd(0, EFD_CLOEXEC);
    if (guard->nothing < 0 || guard->pin < 0) {
        int rc = -errno;
        guard_destroy(&guard);
        return rc;
    }
    *out = guard;
    return 0;
}

void
guard_destroy(struct guard **guard)
{
    if (!*guard)
        return;
    if ((*guard)->nothing >= 0)
        close((*guard)->nothing);
    if ((*guard)->pin >= 0)
        close((*guard)->pin);
    free(*guard);
    *guard = NULL;
}

/* ---- what the kernel knows ---- */

/* False when it is no socket. A kernel without cookies has 0 for all. */
static bool
cookie_of(int fd, uint64_t *cookie)
{
    socklen_t size = sizeof *cookie;
    *cookie = 0;
    return getsockopt(fd, SOL_SOCKET, SO_COOKIE, cookie, &size) == 0 || errno == ENOPROTOOPT;
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

/* Bytes of them that nobody has taken yet. */
static uint64_t
bytes_waiting(int fd)
{
    int waiting = 0;
    return ioctl(fd, FIONREAD, &waiting) == 0 && waiting > 0 ? (uint64_t)waiting : 0;
}

static uint64_t
less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* What ZeroMQ took, at most what it has taken by now: bytes that come between the two calls count as waiting. */
static bool
taken_at_most(int fd, uint64_t *taken)
{
    if (!bytes_come(fd, taken))
        return false;
    *taken = less(*taken, bytes_waiting(fd));
    return true;
}

/* The same, at least what it had taken before: bytes that come between the two calls count as taken. */
static bool
taken_at_least(int fd, uint64_t *taken)
{
    uint64_t waiting = bytes_waiting(fd);
    if (!bytes_come(fd, taken))
        return false;
    *taken = less(*taken, waiting);
    return true;
}

/* False when the other end has gone by itself. */
static bool
peer_name(int fd, char who[GUARD_WHO_MAX])
{
    struct sockaddr_storage from;
    socklen_t size = sizeof from;
    char host[NI_MAXHOST], port[NI_MAXSERV];
    if (getpeername(fd, (struct sockaddr *)&from, &size) != 0 ||
        getnameinfo((struct sockaddr *)&from, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return false;
    const char *plain = strncmp(host, "::ffff:", 7) == 0 ? host + 7 : host;
    snprintf(who, GUARD_WHO_MAX, strchr(plain, ':') ? "[%.50s]:%s" : "%.50s:%s", plain, port);
    return true;
}

/* ---- connections ---- */

/* Reset a connection. Unlike shutdown, this also drops what waits in the kernel, which ZeroMQ would still read. */
static void
line_reset(int fd)
{
    const struct sockaddr none = {.sa_family = AF_UNSPEC};
    if (connect(fd, &none, sizeof none) != 0)
        shutdown(fd, SHUT_RDWR);
}

/* `cookie` NULL: whatever it is. The duplicate takes the place of a descriptor of ours, so that this works when no
 * more files may be opened, and what it leads to cannot change any more. Then ZeroMQ closes the connection and drops
 * what it holds of it. */
static void
end_connection(struct guard *guard, int fd, const uint64_t *cookie, uint64_t bytes)
{
    uint64_t found;
    char who[GUARD_WHO_MAX];
    if (dup2(fd, guard->pin) < 0)
        return;
    if (cookie_of(guard->pin, &found) && (!cookie || found == *cookie)) {
        bool named = peer_name(guard->pin, who);
        line_reset(guard->pin);
        if (named)
            guard->setup.ended(guard->setup.ctx, who, bytes);
    }
    dup2(guard->nothing, guard->pin);
}

static void
drop_line(struct guard *guard, int fd)
{
    struct line *line = &guard->lines[fd];
    guard->suspects[line->plane] -= line->suspect;
    *line = (struct line){.used = false};
    while (guard->high > 0 && !guard->lines[guard->high - 1].used)
        guard->high--;
}

static void
end_line(struct guard *guard, int fd)
{
    const struct line line = guard->lines[fd];
    drop_line(guard, fd);
    end_connection(guard, fd, &line.cookie, line.held);
}

/* The line of this connection, a new one if there is none; NULL when it is no connection. */
static struct line *
guard_line(struct guard *guard, int fd, enum guard_plane plane)
{
    uint64_t cookie;
    if (fd < 0 || fd >= GUARD_LINES_MAX || !cookie_of(fd, &cookie))
        return NULL;
    struct line *line = &guard->lines[fd];
    if (line->used && line->cookie == cookie)
        return line;
    if (line->used)
        drop_line(guard, fd);
    *line = (struct line){
        .used = true, .plane = plane, .cookie = cookie, .looked_us = guard->checked_us};
    if (fd >= guard->high)
        guard->high = fd + 1;
    return line;
}

void
guard_add(struct guard *guard, int fd, enum guard_plane plane)
{
    if (fd >= GUARD_LINES_MAX)
        end_connection(guard, fd, NULL, 0);
    else
        guard_line(guard, fd, plane);
}

void
guard_heard(struct guard *guard, int fd, enum guard_plane plane, struct proto_node from,
            bool member)
{
    struct line *line = guard_line(guard, fd, plane);
    if (!line)
        return;
    line->heard = true;
    line->member |= member;
    if (from.id)
        line->from = from;
}

void
guard_met(struct guard *guard, struct proto_node node)
{
    for (int fd = 0; fd < guard->high; fd++) {
        struct line *line = &guard->lines[fd];
        line->member |= line->used && proto_node_equal(line->from, node);
    }
}

/* ---- judgement ---- */

static void
suspect(struct guard *guard, struct line *line, bool suspected)
{
    guard->suspects[line->plane] += (unsigned)suspected - (unsigned)line->suspect;
    line->suspect = suspected;
}

static bool
too_much(const struct guard *guard, const struct line *line)
{
    const struct guard_limits *limits = &guard->setup.limits[line->plane];
    return line->held > (line->member ? limits->message : limits->stranger);
}

/* False when it is gone. */
static bool
line_measure(struct line *line, int fd)
{
    uint64_t taken;
    if (line->heard) {
        line->heard = false;
        line->held = 0;
        return taken_at_least(fd, &line->whole);
    }
    if (!bytes_come(fd, &taken) ||
        (less(taken, line->whole) > LITTLE && !taken_at_most(fd, &taken)))
        return false;
    line->held = less(taken, line->whole);
    return true;
}

static void
line_check(struct guard *guard, int fd)
{
    struct line *line = &guard->lines[fd];
    line->spare_us += guard->checked_us - line->looked_us;
    const uint64_t spare = line->spare_us / 1000000 * GUARD_SPARE;
    line->spare_us %= 1000000;
    line->looked_us = guard->checked_us;
    if (!line_measure(line, fd)) {
        drop_line(guard, fd);
        return;
    }
    suspect(guard, line, too_much(guard, line));
    if (line->held > guard->setup.limits[line->plane].queue)
        end_line(guard, fd);
    else if (line->plane == GUARD_OUT)
        line->whole += line->held < spare ? line->held : spare;
}

static bool
line_has_turns(const struct line *line)
{
    return line->member || line->plane == GUARD_OUT;
}

/* Two system calls for each connection, a hundred times a second, would be most of what a node of a large mesh does:
 * those of members, and those that we made, have their turn. */
static void
lines_check_in_turn(struct guard *guard)
{
    unsigned left = GUARD_LOOKS;
    for (int k = 0, high = guard->high; k < high; k++) {
        int fd = (guard->next + k) % high;
        if (!guard->lines[fd].used || !line_has_turns(&guard->lines[fd]))
            continue;
        if (left-- == 0) {
            guard->next = fd;
            return;
        }
        line_check(guard, fd);
    }
}

/* What all strangers hold, those that are suspected already only when `all`; and who of them holds most. */
static uint64_t
strangers_hold(const struct guard *guard, bool all, int *most)
{
    uint64_t sum = 0, largest = 0;
    for (int fd = 0; fd < guard->high; fd++) {
        const struct line *line = &guard->lines[fd];
        if (!line->used || line->member || (line->suspect && !all))
            continue;
        sum += line->held;
        if (line->held >= largest)
            *most = fd;
        largest = line->held >= largest ? line->held : largest;
    }
    return sum;
}

bool
guard_check(struct guard *guard, uint64_t now_us)
{
    int most = 0;
    if (now_us - guard->checked_us < GUARD_PERIOD_US)
        return false;
    guard->checked_us = now_us;
    lines_check_in_turn(guard);
    for (int fd = 0; fd < guard->high; fd++)
        if (guard->lines[fd].used && !line_has_turns(&guard->lines[fd]))
            line_check(guard, fd);
    while (strangers_hold(guard, false, &most) > GUARD_STRANGERS_MAX)
        suspect(guard, &guard->lines[most], true);
    while (strangers_hold(guard, true, &most) > guard->setup.limits[GUARD_BULK].queue)
        end_line(guard, most);
    guard_empty(guard, GUARD_OUT);
    return guard->suspects[GUARD_CONTROL] + guard->suspects[GUARD_BULK] > 0;
}

void
guard_empty(struct guard *guard, enum guard_plane plane)
{
    for (int fd = 0; guard->suspects[plane] && fd < guard->high; fd++) {
        struct line *line = &guard->lines[fd];
        if (!line->used || !line->suspect || line->plane != plane)
            continue;
        suspect(guard, line, false);
        if (!line->heard)
            end_line(guard, fd);
    }
}

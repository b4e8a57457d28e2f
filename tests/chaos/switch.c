/* switch.c - a user-space Ethernet switch between network namespaces, with lines as bad as one likes.
 *
 *     switch SEED NAMESPACE ...        needs root and /dev/net/tun
 *
 * Creates eth0, a TAP device, in each namespace, up and with a hardware address that ends in its port's
 * number; who uses it gives it an address. Ports are counted from 0. A frame for such an address goes
 * to that port, one for a group of machines to all others. What becomes of it on the way says
 * tests/support/links.h.
 *
 * Commands are lines on standard input; each is answered by one line, "ok" or "error: ...":
 *     line, port, groups, clear        see links.h
 *     carrier PORT 0|1                 pull the cable out, plug it in: the machine notices at once
 *     count                            ok, then FROM>TO KEY=VALUE ... for each line that carried something
 * At the end of standard input the switch ends, and its devices with it.
 *
 * One thread waits for frames, commands and the next frame that is due. What cannot be written, because the
 * machine is busy, is dropped, as a switch does. Linux: tuntap.rst of the kernel's documentation. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): setns, ppoll */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/links.h"

enum {
    BURST = 64,    /* frames read from a port before the others have their turn */
    QUEUE = 1000,  /* frames that a machine may have waiting for us */
    PRIORITY = -15 /* the network does not become slow when the machines are busy */
};

struct port {
    int fd;
};

static struct links *links;
static struct port ports[LINKS_PORTS_MAX];
static unsigned port_count;
static char line[1024]; /* of standard input, so far */
static size_t line_size;

__attribute__((format(printf, 1, 2), noreturn)) static void
die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "switch: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    exit(1);
}

static uint64_t
now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* --- Ports ------------------------------------------------------------------------------------- */

/* In the namespace we are in. */
static int
tap_new(unsigned port)
{
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        die("/dev/net/tun: %s", strerror(errno));
    struct ifreq want = {.ifr_name = "eth0", .ifr_flags = IFF_TAP | IFF_NO_PI};
    if (ioctl(fd, TUNSETIFF, &want))
        die("eth0: %s", strerror(errno));
    int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq address = {.ifr_name = "eth0",
                            .ifr_hwaddr = {.sa_family = 1, .sa_data = {2, 0, 0, 0, 0, (char)port}}};
    struct ifreq queue = {.ifr_name = "eth0", .ifr_qlen = QUEUE};
    struct ifreq up = {.ifr_name = "eth0", .ifr_flags = IFF_UP | IFF_RUNNING};
    if (control < 0 || ioctl(control, SIOCSIFHWADDR, &address) ||
        ioctl(control, SIOCSIFTXQLEN, &queue) || ioctl(control, SIOCSIFFLAGS, &up))
        die("eth0: %s", strerror(errno));
    close(control);
    return fd;
}

static int
namespace_open(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, strchr(name, '/') ? "%s" : "/run/netns/%s", name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        die("%s: %s", path, strerror(errno));
    return fd;
}

static void
ports_open(int count, char **names)
{
    int home = namespace_open("/proc/self/ns/net");
    for (int k = 0; k < count; k++) {
        int there = namespace_open(names[k]);
        if (setns(there, 0))
            die("%s: %s", names[k], strerror(errno));
        close(there);
        ports[port_count].fd = tap_new(port_count);
        port_count++;
    }
    if (setns(home, 0))
        die("back home: %s", strerror(errno));
    close(home);
}

/* --- Frames ------------------------------------------------------------------------------------ */

static void
frame_in(uint64_t now, unsigned from, const uint8_t *frame, size_t size)
{
    static const uint8_t ours[5] = {2, 0, 0, 0, 0};
    if (size < 14)
        return;
    if (frame[0] & 1) {
        for (unsigned to = 0; to < port_count; to++)
            if (to != from)
                links_send(links, now, from, to, frame, size);
    } else if (memcmp(frame, ours, sizeof ours) == 0 && frame[5] < port_count) {
        links_send(links, now, from, frame[5], frame, size);
    }
}

static void
port_read(unsigned from)
{
    uint8_t frame[LINKS_FRAME_MAX];
    for (int k = 0; k < BURST; k++) {
        ssize_t size = read(ports[from].fd, frame, sizeof frame);
        if (size <= 0)
            return;
        frame_in(now_us(), from, frame, (size_t)size);
    }
}

static void
frames_out(void)
{
    const struct links_frame *frame;
    while ((frame = links_next(links, now_us()))) {
        ssize_t rc = write(ports[frame->to].fd, frame->data, frame->size);
        (void)rc; /* a cable that was pulled */
    }
}

/* --- Commands ---------------------------------------------------------------------------------- */

static void
say_count(void)
{
    printf("ok");
    for (unsigned a = 0; a < port_count; a++)
        for (unsigned b = 0; b < port_count; b++) {
            const struct links_count *c = &links->line[a][b].count;
            if (c->frames + c->cut + c->lost + c->full > 0)
                printf(" %u>%u frames=%ju bytes=%ju cut=%ju lost=%ju full=%ju dup=%ju "
                       "reorder=%ju corrupt=%ju",
                       a, b, c->frames, c->bytes, c->cut, c->lost, c->full, c->doubled, c->late,
                       c->corrupt);
        }
    printf("\n");
}

static void
command(const char *text)
{
    char rest;
    struct why why;
    unsigned port;
    int carrier;
    if (strcmp(text, "count") == 0) {
        say_count();
    } else if (sscanf(text, "carrier %u %d%c", &port, &carrier, &rest) == 2 && port < port_count) {
        if (ioctl(ports[port].fd, TUNSETCARRIER, &carrier))
            printf("error: carrier: %s\n", strerror(errno));
        else
            printf("ok\n");
    } else if (links_command(links, text, &why)) {
        printf("error: %s\n", why.line);
    } else {
        printf("ok\n");
    }
    fflush(stdout);
}

/* Lines as they come; false at the end. */
static bool
commands_read(void)
{
    ssize_t size = read(STDIN_FILENO, line + line_size, sizeof line - line_size - 1);
    if (size <= 0)
        return false;
    line_size += (size_t)size;
    line[line_size] = 0;
    for (char *end; (end = strchr(line, '\n'));) {
        *end = 0;
        command(line);
        line_size -= (size_t)(end + 1 - line);
        memmove(line, end + 1, line_size + 1);
    }
    if (line_size == sizeof line - 1)
        die("a command of more than %zu bytes", sizeof line - 2);
    return true;
}

/* --- The loop ---------------------------------------------------------------------------------- */

static void
sleep_until_due(struct pollfd *polls)
{
    uint64_t due = links_due(links), now = now_us();
    uint64_t wait_us = due <= now ? 0 : due - now;
    struct timespec wait = {.tv_sec = (time_t)(wait_us / 1000000),
                            .tv_nsec = (long)(wait_us % 1000000) * 1000};
    for (unsigned k = 0; k <= port_count; k++)
        polls[k].revents = 0;
    if (ppoll(polls, port_count + 1, due == UINT64_MAX ? NULL : &wait, NULL) < 0 && errno != EINTR)
        die("ppoll: %s", strerror(errno));
}

static void
run(void)
{
    struct pollfd polls[LINKS_PORTS_MAX + 1];
    for (unsigned k = 0; k < port_count; k++)
        polls[k] = (struct pollfd){.fd = ports[k].fd, .events = POLLIN};
    polls[port_count] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    for (;;) {
        sleep_until_due(polls);
        if (polls[port_count].revents && !commands_read())
            return;
        for (unsigned k = 0; k < port_count; k++)
            if (polls[k].revents & POLLIN)
                port_read(k);
        frames_out();
    }
}

int
main(int argc, char **argv)
{
    if (argc < 3 || argc - 2 > LINKS_PORTS_MAX)
        die("usage: switch SEED NAMESPACE ..., at most %d", LINKS_PORTS_MAX);
    ports_open(argc - 2, argv + 2);
    if (links_new(&links, port_count, strtoull(argv[1], NULL, 0)))
        die("not enough memory");
    setpriority(PRIO_PROCESS, 0, PRIORITY); /* best effort */
    printf("ready\n");
    fflush(stdout);
    run();
    links_destroy(&links);
    return 0;
}

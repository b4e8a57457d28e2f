/* discover_iface.c - list, rank and choose the interfaces for beacons. */
#include "mesh/net/discover_iface.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANK_MANAGED = 1, RANK_OTHER = 2, RANK_HARDWARE = 3 };

int
iface_rank(const char *name, bool hardware, bool default_route)
{
    static const char *const managed[] = {"docker",  "br-", "veth",  "virbr", "vnet",   "lxc",
                                          "lxd",     "cni", "cali",  "vmnet", "podman", "flannel",
                                          "vboxnet", "ifb", "dummy", "tap"};
    for (size_t i = 0; i < sizeof managed / sizeof *managed; i++)
        if (strncmp(name, managed[i], strlen(managed[i])) == 0)
            return RANK_MANAGED;
    return (hardware ? RANK_HARDWARE : RANK_OTHER) + (default_route ? 1 : 0);
}

/* Name of the interface of the default route with the lowest metric; "" when there is none. */
static void
default_route(char name[IF_NAMESIZE])
{
    char line[256], dev[IF_NAMESIZE];
    unsigned long best = ~0UL, destination, mask, metric;
    name[0] = '\0';
    FILE *file = fopen("/proc/net/route", "r");
    if (!file)
        return;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "%15s %lx %*x %*x %*d %*d %lu %lx", dev, &destination, &metric, &mask) ==
                4 &&
            destination == 0 && mask == 0 && metric < best) {
            best = metric;
            memcpy(name, dev, sizeof dev);
        }
    fclose(file);
}

static bool
is_hardware(const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/sys/class/net/%s/device", name);
    return access(path, F_OK) == 0;
}

struct in_addr
iface_broadcast(struct in_addr address, struct in_addr mask)
{
    bool network = ntohl(mask.s_addr) < 0xfffffffeu;
    return (struct in_addr){network ? address.s_addr | ~mask.s_addr : 0};
}

static bool
usable(const struct ifaddrs *at)
{
    if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET || !(at->ifa_flags & IFF_UP))
        return false;
    if (at->ifa_flags & IFF_LOOPBACK)
        return true;
    return (at->ifa_flags & IFF_BROADCAST) && !(at->ifa_flags & IFF_POINTOPOINT) && at->ifa_netmask;
}

static struct in_addr
inet_of(const struct sockaddr *address)
{
    struct sockaddr_in in;
    memcpy(&in, address, sizeof in);
    return in.sin_addr;
}

static bool
iface_fill(struct iface *out, const struct ifaddrs *at, const char *route)
{
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s", at->ifa_name);
    out->address = inet_of(at->ifa_addr);
    out->loopback = (at->ifa_flags & IFF_LOOPBACK) != 0;
    if (out->loopback) { /* it names no broadcast address, but the whole of 127/8 is local */
        out->broadcast.s_addr = htonl(0x7fffffff);
        return ntohl(out->address.s_addr) >> 24 == 127;
    }
    out->broadcast = iface_broadcast(out->address, inet_of(at->ifa_netmask));
    out->rank = iface_rank(out->name, is_hardware(out->name), strcmp(out->name, route) == 0);
    return out->broadcast.s_addr != 0;
}

static int
better_first(const void *a, const void *b)
{
    const struct iface *x = a, *y = b;
    if (x->rank != y->rank)
        return y->rank - x->rank;
    int names = strcmp(x->name, y->name);
    return names ? names : (x->order > y->order) - (x->order < y->order);
}

/* Is this network served by one of list[] already? */
static bool
is_served(const struct iface *list, size_t count, const struct iface *one)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].broadcast.s_addr == one->broadcast.s_addr)
            return true;
    return false;
}

/* The usable interfaces, one for each of their addresses, best first, loopback last. Returns their number. */
static size_t
list_usable(struct iface out[IFACES_MAX])
{
    struct ifaddrs *all = NULL;
    char route[IF_NAMESIZE];
    size_t count = 0;
    default_route(route);
    if (getifaddrs(&all) != 0)
        return 0;
    for (struct ifaddrs *at = all; at && count < IFACES_MAX; at = at->ifa_next)
        if (usable(at) && iface_fill(&out[count], at, route)) {
            out[count].order = count;
            count++;
        }
    freeifaddrs(all);
    qsort(out, count, sizeof *out, better_first);
    return count;
}

void
iface_print(const struct iface *list, size_t count, bool addresses, char *out, size_t size)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < count && at < size; i++) {
        char address[INET_ADDRSTRLEN];
        inet_ntop(AF_INET, &list[i].address, address, sizeof address);
        int put = snprintf(out + at, size - at, "%s%s%s%s", i ? ", " : "", list[i].name,
                           addresses ? " " : "", addresses ? address : "");
        at += put > 0 ? (size_t)put : 0;
    }
}

/* Everything that leads somewhere, once for each network; managed interfaces only when there is nothing better. */
static size_t
preferred(struct iface *list, size_t count)
{
    size_t kept = 0;
    int least = count && list[0].rank > RANK_MANAGED ? RANK_OTHER : RANK_MANAGED;
    for (size_t i = 0; i < count; i++)
        if ((list[i].loopback || list[i].rank >= least) && !is_served(list, kept, &list[i]))
            list[kept++] = list[i];
    return kept;
}

static size_t
matching(const char *wanted, struct iface *list, size_t count)
{
    struct in_addr address;
    bool numeric = inet_pton(AF_INET, wanted, &address) == 1;
    for (size_t i = 0; i < count; i++)
        if (numeric ? list[i].address.s_addr == address.s_addr
                    : strcmp(list[i].name, wanted) == 0) {
            list[0] = list[i];
            return 1;
        }
    return 0;
}

int
iface_select(const char *wanted, struct iface out[IFACES_MAX], size_t *count, struct why *why)
{
    size_t usable_count = list_usable(out);
    *count = wanted ? matching(wanted, out, usable_count) : preferred(out, usable_count);
    if (*count)
        return 0;
    char list[512];
    struct iface usable_now[IFACES_MAX];
    iface_print(usable_now, list_usable(usable_now), true, list, sizeof list);
    return why_error(why, -ENODEV, "interface = %s, expected one that is up and can broadcast: %s",
                     wanted ? wanted : "(any)", list[0] ? list : "there is none on this machine");
}

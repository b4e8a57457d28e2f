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

bool
iface_managed(const char *name)
{
    static const char *const managed[] = {"docker",  "br-", "veth",  "virbr", "vnet",   "lxc",
                                          "lxd",     "cni", "cali",  "vmnet", "podman", "flannel",
                                          "vboxnet", "ifb", "dummy", "tap"};
    for (size_t i = 0; i < sizeof managed / sizeof *managed; i++)
        if (strncmp(name, managed[i], strlen(managed[i])) == 0)
            return true;
    return false;
}

int
iface_rank(const char *name, bool hardware, bool default_route)
{
    if (iface_managed(name))
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

bool
iface_multicast(unsigned flags)
{
    return (flags & IFF_MULTICAST) && !(flags & IFF_POINTOPOINT);
}

static bool
is_v6(const struct ifaddrs *at)
{
    return at->ifa_addr && at->ifa_addr->sa_family == AF_INET6;
}

static bool
can_broadcast(const struct ifaddrs *at)
{
    return (at->ifa_flags & IFF_BROADCAST) && !(at->ifa_flags & IFF_POINTOPOINT) && at->ifa_netmask;
}

static struct in_addr
inet_of(const struct sockaddr *address)
{
    struct sockaddr_in in;
    memcpy(&in, address, sizeof in);
    return in.sin_addr;
}

/* An IPv6 address that others can name: an address of the link has no meaning without the link. */
static bool
fill_v6(struct iface *out, const struct ifaddrs *at)
{
    struct sockaddr_in6 in;
    memcpy(&in, at->ifa_addr, sizeof in);
    out->v6 = true;
    out->address6 = in.sin6_addr;
    out->mute = !iface_multicast(at->ifa_flags);
    return !out->loopback && !IN6_IS_ADDR_LINKLOCAL(&in.sin6_addr) &&
           inet_ntop(AF_INET6, &in.sin6_addr, out->text, sizeof out->text);
}

static bool
fill_v4(struct iface *out, const struct ifaddrs *at)
{
    out->address = inet_of(at->ifa_addr);
    inet_ntop(AF_INET, &out->address, out->text, sizeof out->text);
    if (out->loopback) { /* it names no broadcast address, but the whole of 127/8 is local */
        out->broadcast.s_addr = htonl(0x7fffffff);
        return ntohl(out->address.s_addr) >> 24 == 127;
    }
    if (can_broadcast(at))
        out->broadcast = iface_broadcast(out->address, inet_of(at->ifa_netmask));
    out->mute = out->broadcast.s_addr == 0;
    return true;
}

/* False: it is of no use. */
static bool
iface_fill(struct iface *out, const struct ifaddrs *at, const char *route)
{
    if (!at->ifa_addr || !(at->ifa_flags & IFF_UP))
        return false;
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s", at->ifa_name);
    out->loopback = (at->ifa_flags & IFF_LOOPBACK) != 0;
    if (!out->loopback)
        out->rank = iface_rank(out->name, is_hardware(out->name), strcmp(out->name, route) == 0);
    return is_v6(at) ? fill_v6(out, at) : at->ifa_addr->sa_family == AF_INET && fill_v4(out, at);
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
    for (size_t i = 0; i < count && !one->v6; i++)
        if (list[i].broadcast.s_addr == one->broadcast.s_addr)
            return true;
    return false;
}

static bool
is_named(const struct iface *list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return true;
    return false;
}

/* Adds those of one family. Of those that have IPv6 alone, one address each. */
static size_t
list_family(struct iface out[IFACES_MAX], size_t count, const struct ifaddrs *all, bool v6,
            const char *route)
{
    for (const struct ifaddrs *at = all; at && count < IFACES_MAX; at = at->ifa_next)
        if (is_v6(at) == v6 && !(v6 && is_named(out, count, at->ifa_name)) &&
            iface_fill(&out[count], at, route)) {
            out[count].order = count;
            count++;
        }
    return count;
}

/* The interfaces that are up, one for each of their addresses, best first, loopback last. Returns their number. */
static size_t
list_up(struct iface out[IFACES_MAX])
{
    struct ifaddrs *all = NULL;
    char route[IF_NAMESIZE];
    default_route(route);
    if (getifaddrs(&all) != 0)
        return 0;
    size_t count = list_family(out, 0, all, false, route);
    count = list_family(out, count, all, true, route);
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
        int put = snprintf(out + at, size - at, "%s%s%s%s", i ? ", " : "", list[i].name,
                           addresses ? " " : "", addresses ? list[i].text : "");
        at += put > 0 ? (size_t)put : 0;
    }
}

static bool
leads_somewhere(const struct iface *iface)
{
    return !iface->mute && !iface->loopback && iface->rank > RANK_MANAGED;
}

/* Everything that leads somewhere, once for each network; only when nothing does, managed interfaces, and those that
 * carry no beacons. */
static size_t
preferred(struct iface *list, size_t count)
{
    size_t kept = 0;
    bool any = false;
    for (size_t i = 0; i < count; i++)
        any |= leads_somewhere(&list[i]);
    for (size_t i = 0; i < count; i++)
        if (list[i].mute ? !any && list[i].rank > RANK_MANAGED
                         : (list[i].loopback || !any || leads_somewhere(&list[i])) &&
                               !is_served(list, kept, &list[i]))
            list[kept++] = list[i];
    return kept;
}

static size_t
matching(const char *wanted, struct iface *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].text, wanted) == 0 || strcmp(list[i].name, wanted) == 0) {
            list[0] = list[i];
            return 1;
        }
    return 0;
}

int
iface_select(const char *wanted, struct iface out[IFACES_MAX], size_t *count, struct why *why)
{
    size_t up = list_up(out);
    *count = wanted ? matching(wanted, out, up) : preferred(out, up);
    if (*count)
        return 0;
    char list[512];
    struct iface now[IFACES_MAX];
    iface_print(now, list_up(now), true, list, sizeof list);
    if (!list[0])
        return why_error(why, -ENODEV, "no network is up, not even lo: ip link set lo up");
    return why_error(why, -ENODEV, "interface = %s, expected one that is up: %s", wanted, list);
}

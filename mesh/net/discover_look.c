/* discover_look.c - lists what there is: all interfaces, beacons and names. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <string.h>

#include "mesh/net/discover_internal.h"

static bool
is_inet(const struct ifaddrs *at)
{
    return at->ifa_addr &&
           (at->ifa_addr->sa_family == AF_INET || at->ifa_addr->sa_family == AF_INET6);
}

static uint32_t
host_order(const struct sockaddr *address)
{
    struct sockaddr_in in;
    memcpy(&in, address, sizeof in);
    return ntohl(in.sin_addr.s_addr);
}

static void
fill_address(struct network_line *line, const struct ifaddrs *at)
{
    if (at->ifa_addr->sa_family == AF_INET6) {
        struct sockaddr_in6 in;
        memcpy(&in, at->ifa_addr, sizeof in);
        inet_ntop(AF_INET6, &in.sin6_addr, line->address, sizeof line->address);
        line->mute = !line->loopback && !iface_multicast(at->ifa_flags);
        return;
    }
    line->at = host_order(at->ifa_addr);
    line->mask = at->ifa_netmask ? host_order(at->ifa_netmask) : UINT32_MAX;
    struct in_addr address = {htonl(line->at)}, mask = {htonl(line->mask)};
    inet_ntop(AF_INET, &address, line->address, sizeof line->address);
    line->mute =
        !line->loopback && (!(at->ifa_flags & IFF_BROADCAST) || (at->ifa_flags & IFF_POINTOPOINT) ||
                            iface_broadcast(address, mask).s_addr == 0);
}

static bool
link_local(const struct ifaddrs *at)
{
    struct sockaddr_in6 in;
    if (at->ifa_addr->sa_family != AF_INET6)
        return false;
    memcpy(&in, at->ifa_addr, sizeof in);
    return IN6_IS_ADDR_LINKLOCAL(&in.sin6_addr);
}

static void
fill_line(struct network_line *line, const struct ifaddrs *at)
{
    *line = (struct network_line){.up = at->ifa_flags & IFF_UP,
                                  .carrier = at->ifa_flags & IFF_RUNNING,
                                  .loopback = at->ifa_flags & IFF_LOOPBACK,
                                  .managed = iface_managed(at->ifa_name)};
    snprintf(line->name, sizeof line->name, "%s", at->ifa_name);
    if (is_inet(at))
        fill_address(line, at);
}

static bool
is_listed(const struct network_line *list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return true;
    return false;
}

static void
mark_used(struct network_line *line, const struct iface *used, size_t count)
{
    for (size_t i = 0; i < count; i++)
        line->used |=
            strcmp(used[i].name, line->name) == 0 && strcmp(used[i].text, line->address) == 0;
}

/* All interfaces, also those that are down or have no address. Returns their number. */
static size_t
look_at_lines(const struct iface *used, size_t used_count, struct network_line *out, size_t max)
{
    struct ifaddrs *all = NULL;
    size_t count = 0;
    if (getifaddrs(&all) != 0)
        return 0;
    for (const struct ifaddrs *at = all; at && count < max; at = at->ifa_next)
        if (is_inet(at) && !link_local(at))
            fill_line(&out[count++], at);
    for (const struct ifaddrs *at = all; at && count < max; at = at->ifa_next)
        if (!is_listed(out, count, at->ifa_name))
            fill_line(&out[count++], at);
    freeifaddrs(all);
    for (size_t i = 0; i < count; i++)
        mark_used(&out[i], used, used_count);
    return count;
}

void
discover_network(const struct discover *discover, struct network *out)
{
    out->line_count =
        look_at_lines(discover->wanted, discover->wanted_count, out->lines, NETWORK_LINES_MAX);
    out->beacon_count = discover->heard.count;
    memcpy(out->beacons, discover->heard.list, sizeof out->beacons);
    out->name_count = resolve_names(discover->resolve, out->names, NETWORK_NAMES_MAX);
    out->try_count = 0;
}

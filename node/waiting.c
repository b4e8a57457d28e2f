/* waiting.c - see waiting.h. */
#include "node/waiting.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static void
add(char out[WAITING_LINE], const char *format, ...)
{
    size_t used = strlen(out);
    va_list args;
    va_start(args, format);
    vsnprintf(out + used, WAITING_LINE - used, format, args);
    va_end(args);
}

/* "0:25" or "1:02:03" */
static void
add_time(char out[WAITING_LINE], uint64_t us)
{
    unsigned long long s = us / 1000000;
    if (s >= 3600)
        add(out, ": %llu:%02llu:%02llu", s / 3600, s / 60 % 60, s % 60);
    else
        add(out, ": %llu:%02llu", s / 60, s % 60);
}

static const char *
networks(const struct mesh_status *status)
{
    return status->names[0] ? status->names : "no network interface";
}

/* What a firewall has to let through. TCP ports count from the first one up where none was asked for. */
static void
add_ports(char out[WAITING_LINE], const struct mesh_status *status)
{
    add(out, "A firewall must let UDP %u and TCP from %u on through. ", status->beacon_port,
        status->control_port);
    add(out, "Without broadcast: --peer HOST:PORT");
}

void
waiting_search(const struct mesh_status *status, uint64_t searching_us, char out[WAITING_LINE])
{
    out[0] = '\0';
    add(out, "looking for a mesh on %s", networks(status));
    add_time(out, searching_us);
}

void
waiting_search_hint(const struct mesh_status *status, char out[WAITING_LINE])
{
    out[0] = '\0';
    add(out, "nobody answers. Is a node with a job running in the same network? ");
    add_ports(out, status);
}

/* How much of `host` needs to be said where `before` stands before it: its last number when they are in one network of
 * 256 addresses. */
static const char *
short_host(const char *host, const char *before)
{
    const char *dot = strrchr(host, '.');
    size_t size = dot ? (size_t)(dot - host) : 0;
    bool same = dot && before && !strchr(host, ':') && strncmp(host, before, size + 1) == 0;
    return same ? dot : host;
}

/* "pc1, pc3", or "192.168.7.11, .13" where names are not known. */
static void
add_here(char out[WAITING_LINE], const struct mesh_status *status)
{
    const struct core_status *core = &status->core;
    const char *before = status->address;
    add(out, " (%s", status->address[0] ? status->address : "this one");
    for (size_t i = 0; i < core->contact_count && core->contacts[i].here; i++) {
        const struct core_contact *contact = &core->contacts[i];
        add(out, ", %s", short_host(contact->at.host, before));
        if (contact->name[0])
            add(out, " %s", contact->name);
        before = contact->at.host;
    }
    add(out, ")");
}

void
waiting_peers(const struct mesh_status *status, char out[WAITING_LINE])
{
    const struct core_status *core = &status->core;
    out[0] = '\0';
    add(out, "waiting for %u nodes: %u %s here", core->wanted, core->here,
        core->here == 1 ? "is" : "are");
    add_here(out, status);
    add_time(out, core->waiting_us);
}

void
waiting_peers_hint(const struct mesh_status *status, char out[WAITING_LINE])
{
    const struct core_status *core = &status->core;
    out[0] = '\0';
    add(out, "%u of %u nodes are here after %d s. ", core->here, core->wanted, WAITING_HINT_S);
    add(out, "Do the others run meshnode, in the network of %s? ", networks(status));
    add_ports(out, status);
}

bool
waiting_is_unmet(const struct core_contact *contact)
{
    return !contact->met && !contact->settled;
}

size_t
waiting_unmet(const struct mesh_status *status, char out[WAITING_LINE])
{
    const struct core_status *core = &status->core;
    size_t count = 0;
    out[0] = '\0';
    for (size_t i = 0; i < core->contact_count; i++) {
        const struct core_contact *contact = &core->contacts[i];
        if (!waiting_is_unmet(contact))
            continue;
        add(out, "%s%s%s%s:%u%s", count++ ? ", " : "", contact->name, contact->name[0] ? " (" : "",
            contact->at.host, contact->at.control_port, contact->name[0] ? ")" : "");
    }
    return count;
}

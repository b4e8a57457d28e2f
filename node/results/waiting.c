/* waiting.c - see waiting.h. */
#include "node/results/waiting.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "node/base/term.h"
#include "node/results/findings.h"

enum { HERE_MAX = 300 }; /* bytes of a line: more nodes are not named */

__attribute__((format(printf, 2, 3))) static void
append_text(char out[WAITING_LINE], const char *format, ...)
{
    size_t used = strlen(out);
    va_list args;
    va_start(args, format);
    vsnprintf(out + used, WAITING_LINE - used, format, args);
    va_end(args);
}

static void
add_time(char out[WAITING_LINE], uint64_t us)
{
    char time[TERM_TIME];
    term_time(time, (double)(us / 1000000));
    append_text(out, ": %s", time);
}

/* "pc3 (192.168.7.13:20000)", or the address alone. */
static void
add_who(char out[WAITING_LINE], const struct core_contact *contact)
{
    bool named = contact->name[0] != '\0';
    append_text(out, "%s%s%s:%u%s", contact->name, named ? " (" : "", contact->at.host,
                contact->at.control_port, named ? ")" : "");
}

unsigned
waiting_gaps(const struct mesh_status *status)
{
    unsigned count = 0;
    for (size_t i = 0; i < status->core.contact_count; i++)
        count += status->core.contacts[i].gap != CORE_GAP_NONE;
    return count;
}

static void
add_gaps(char out[WAITING_LINE], const struct mesh_status *status)
{
    bool any = false;
    for (size_t i = 0; i < status->core.contact_count; i++) {
        if (status->core.contacts[i].gap == CORE_GAP_NONE)
            continue;
        append_text(out, "%s", any ? ", " : "  not reached: ");
        add_who(out, &status->core.contacts[i]);
        any = true;
    }
}

static const char *
networks(const struct mesh_status *status)
{
    return status->names[0] ? status->names : "no network interface";
}

/* What a firewall has to let through to this node. */
static void
add_ports(char out[WAITING_LINE], const struct mesh_status *status)
{
    append_text(out, "A firewall must let UDP %u and TCP %u and %u through. ", status->beacon_port,
                status->control_port, status->bulk_port);
    if (status->mute)
        append_text(out, "%s cannot broadcast: start one of the nodes with --peer HOST:PORT",
                    status->names);
    else
        append_text(out, "Without broadcast: --peer HOST:PORT");
}

void
waiting_search(const struct mesh_status *status, uint64_t searching_us, char out[WAITING_LINE])
{
    out[0] = '\0';
    append_text(out, "looking for a mesh on %s%s", networks(status),
                status->mute ? " (no broadcast)" : "");
    add_time(out, searching_us);
    add_gaps(out, status);
}

void
waiting_search_hint(const struct mesh_status *status, char out[WAITING_LINE])
{
    out[0] = '\0';
    append_text(out, "nobody answers. Is a node with a job running in the same network? ");
    add_ports(out, status);
}

void
waiting_alone_hint(const struct mesh_status *status, char out[WAITING_LINE])
{
    out[0] = '\0';
    append_text(
        out,
        "this node trains alone: nobody answers. If others are to join, do they run meshnode, ");
    append_text(out, "in the network of %s? ", networks(status));
    add_ports(out, status);
}

/* How much of an address needs to be said after `before`: its last number where both are of one network of 256
 * addresses, its port where both are one. */
static void
add_address(char out[WAITING_LINE], const struct proto_endpoint *at, const char *before)
{
    const char *dot = strrchr(at->host, '.');
    size_t size = dot && !strchr(at->host, ':') ? (size_t)(dot - at->host) + 1 : 0;
    if (strcmp(at->host, before) == 0)
        append_text(out, ":%u", at->control_port);
    else if (size > 0 && strncmp(at->host, before, size) == 0)
        append_text(out, "%s", dot);
    else
        append_text(out, "%s", at->host);
}

/* "pc1, pc3", this node first, or "192.168.7.11, .13" where there are no names. Nodes of one machine have one name, and
 * differ in their ports. */
static void
add_here(char out[WAITING_LINE], const struct mesh_status *status)
{
    const struct core_status *core = &status->core;
    const char *before = status->address;
    append_text(out, " (%s",
                status->name[0]      ? status->name
                : status->address[0] ? status->address
                                     : "this one");
    for (size_t i = 0; i < core->contact_count && core->contacts[i].here; i++) {
        const struct core_contact *contact = &core->contacts[i];
        append_text(out, ", ");
        if (strlen(out) > HERE_MAX) {
            append_text(out, "...");
            break;
        }
        if (contact->name[0] && strcmp(contact->name, status->name) == 0)
            append_text(out, "%s:%u", contact->name, contact->at.control_port);
        else if (contact->name[0])
            append_text(out, "%s", contact->name);
        else
            add_address(out, &contact->at, before);
        before = contact->name[0] ? "" : contact->at.host;
    }
    append_text(out, ")");
}

void
waiting_peers(const struct mesh_status *status, char out[WAITING_LINE])
{
    const struct core_status *core = &status->core;
    out[0] = '\0';
    append_text(out, "waiting for %u nodes: %u %s here", core->wanted, core->here,
                core->here == 1 ? "is" : "are");
    add_here(out, status);
    add_time(out, core->waiting_us);
    add_gaps(out, status);
}

void
waiting_peers_hint(const struct mesh_status *status, char out[WAITING_LINE])
{
    const struct core_status *core = &status->core;
    out[0] = '\0';
    append_text(out, "%u of %u nodes are here after %d s. ", core->here, core->wanted,
                WAITING_HINT_US / 1000000);
    append_text(out, "Do the others run meshnode, in the network of %s? ", networks(status));
    add_ports(out, status);
}

bool
waiting_findings(const struct mesh_status *status, struct findings_said *said, int level,
                 void (*say)(void *ctx, int level, const char *line), void *ctx)
{
    struct findings findings;
    char line[2 * FINDING_TEXT + 4];
    findings_alone(status, &findings);
    for (size_t i = 0; i < findings.count; i++) {
        if (!findings_news(said, &findings.list[i]))
            continue;
        findings_line(&findings.list[i], line, sizeof line);
        say(ctx, level, line);
    }
    return findings.count > 0;
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
        append_text(out, "%s", count++ ? ", " : "");
        add_who(out, contact);
    }
    return count;
}

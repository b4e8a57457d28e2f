/* findings_legs.c - causes that lie between this node and one other: connections, refusals, names that were given. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>

#include "node/base/parse.h"
#include "node/results/findings.h"

/* --- what was tried --------------------------------------------------------------------------- */

/* NULL: it was not tried. */
static const struct network_try *
try_of(const struct network *network, const char *host, uint16_t port)
{
    for (size_t i = 0; i < network->try_count; i++)
        if (network->tries[i].to.control_port == port &&
            strcmp(network->tries[i].to.host, host) == 0)
            return &network->tries[i];
    return NULL;
}

/* The interface in whose network an IPv4 address lies; NULL: none, or it is no such address. */
static const struct network_line *
line_to(const struct network *network, const char *host)
{
    struct in_addr address;
    if (inet_pton(AF_INET, host, &address) != 1)
        return NULL;
    for (size_t i = 0; i < network->line_count; i++) {
        const struct network_line *line = &network->lines[i];
        if (line->at && line->up && (line->at & line->mask) == (ntohl(address.s_addr) & line->mask))
            return line;
    }
    return NULL;
}

static bool
is_v4(const char *host)
{
    struct in_addr address;
    return inet_pton(AF_INET, host, &address) == 1;
}

static bool
has_no_way(int error)
{
    return error == ENETUNREACH || error == EHOSTUNREACH || error == EINVAL;
}

/* --- nodes that are heard --------------------------------------------------------------------- */

static void
say_there(struct findings *out, const struct network *network, const struct core_contact *contact,
          int error)
{
    char who[PROTO_WHO_MAX];
    bool strange = is_v4(contact->at.host) && !line_to(network, contact->at.host);
    bool far = strange || has_no_way(error);
    finding_who(contact, who);
    if (far)
        finding_remedy(finding_add(out, "wrong-network", "",
                                   "%s is heard, but no connection gets there (%s)%s", who,
                                   strerror(error),
                                   strange ? ": its address is in none of our networks" : ""),
                       "Give both machines addresses of one network, or a route: ip route get %s",
                       contact->at.host);
    else
        finding_remedy(
            finding_add(out, "tcp-shut-there", "", "%s is heard, but its TCP port %u is shut (%s)",
                        who, contact->at.control_port, strerror(error)),
            "Let TCP %u and the next port through the firewall there", contact->at.control_port);
}

static void
say_silent(struct findings *out, const struct core_contact *contact)
{
    char who[PROTO_WHO_MAX];
    finding_add(out, "silent", "Does it hang, or has its machine too much to do? Start it again",
                "%s accepts a connection, and says nothing", finding_who(contact, who));
}

void
cause_there(const struct facts *facts, const struct core_contact *contact, struct findings *out)
{
    const struct network *network = &facts->status->network;
    const struct network_try *one = try_of(network, contact->at.host, contact->at.control_port);
    if (!finding_ours(facts, contact) || contact->linked || contact->refused || !one)
        return;
    if (one->error > 0)
        say_there(out, network, contact, one->error);
    else if (!contact->greeted)
        say_silent(out, contact);
}

void
cause_bulk(const struct facts *facts, const struct core_contact *contact, struct findings *out)
{
    char who[PROTO_WHO_MAX];
    uint16_t port = contact->hello.bulk_port;
    const struct network_try *one = try_of(&facts->status->network, contact->at.host, port);
    if (!contact->linked || port == 0 || !one || one->error <= 0)
        return;
    struct finding *finding = finding_add(out, "bulk-shut-there", "",
                                          "%s answers, but its other TCP port, %u, is shut (%s)",
                                          finding_who(contact, who), port, strerror(one->error));
    finding_remedy(finding, "Let TCP %u and %u through the firewall there",
                   contact->at.control_port, port);
}

void
cause_here(const struct facts *facts, const struct core_contact *contact, struct findings *out)
{
    char who[PROTO_WHO_MAX];
    if (!finding_ours(facts, contact) || !contact->linked || contact->greeted || contact->refused ||
        contact->here)
        return;
    struct finding *finding = finding_add(out, "tcp-shut-here", "",
                                          "%s can be reached, but its connections do not come back",
                                          finding_who(contact, who));
    finding_remedy(finding,
                   "Let TCP %u and %u through the firewall of this machine; behind NAT, forward "
                   "both",
                   facts->status->control_port, facts->status->bulk_port);
}

void
cause_refused(const struct facts *facts, const struct core_contact *contact, struct findings *out)
{
    char who[PROTO_WHO_MAX];
    bool full = contact->refused == PROTO_REFUSE_FULL;
    (void)facts;
    if (!contact->refused || contact->refused == PROTO_REFUSE_MESH)
        return;
    finding_who(contact, who);
    if (full)
        finding_add(out, "full", "End a node, or begin another mesh: --set mesh.group=NAME",
                    "%s takes nobody in: the mesh is full with %d nodes", who, PROTO_PEERS_MAX);
    else
        finding_add(out, "refused", "Start it again with the same program and job",
                    "%s refuses this node: it has '%s'", who, contact->theirs);
}

/* --- names that were given -------------------------------------------------------------------- */

static void
say_unreached(struct findings *out, const struct network *network, const struct network_name *name,
              const char *given, int error)
{
    const struct network_line *line = line_to(network, name->address);
    bool far = has_no_way(error), bridge = line && line->managed;
    struct finding *finding =
        finding_add(out,
                    bridge       ? "name-bridge"
                    : far        ? "name-no-route"
                    : error == 0 ? "name-silent"
                                 : "name-shut",
                    "", "%s (--peer), %s: %s", given, name->address,
                    error == 0 ? "accepts a connection, but no meshnode answers" : strerror(error));
    if (bridge)
        finding_remedy(finding,
                       "%s is the network of containers on this machine: name the address that the "
                       "others have in yours",
                       line->name);
    else if (far)
        finding_remedy(finding, "Name an address of your network, or add a route: ip route get %s",
                       name->address);
    else if (error == 0)
        finding_remedy(finding, "Is another program on port %u, or another version of meshnode?",
                       name->given.control_port);
    else
        finding_remedy(finding,
                       "Does meshnode run there, with port %u? A firewall there must let it "
                       "through, and the next port",
                       name->given.control_port);
}

static bool
is_localhost(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "::1") == 0;
}

static void
say_name(struct findings *out, const struct network *network, const struct network_name *name)
{
    char given[PROTO_WHO_MAX];
    const struct network_try *one = try_of(network, name->address, name->given.control_port);
    parse_endpoint_text(&name->given, given);
    if (name->failed || name->pending) {
        finding_add(out, name->failed ? "name-unknown" : "name-slow",
                    "Name the address instead, or add the name to /etc/hosts", "%s (--peer): %s",
                    given, name->failed ? "nobody knows this name" : "no name server answers");
    } else if (name->loopback && !is_localhost(name->given.host)) {
        finding_add(out, "name-loopback",
                    "Name the address instead, or correct the name in /etc/hosts",
                    "%s (--peer) is %s here, which is this machine itself", given, name->address);
    } else if (one) {
        say_unreached(out, network, name, given, one->error);
    }
}

/* Does a node of this machine have that port? */
static bool
is_here(const struct core_status *core, const struct network *network,
        const struct network_name *name)
{
    const struct network_line *line = line_to(network, name->address);
    bool own = line && (line->loopback || strcmp(line->address, name->address) == 0);
    for (size_t i = 0; i < core->contact_count && own; i++) {
        const struct network_line *at = line_to(network, core->contacts[i].at.host);
        if (core->contacts[i].at.control_port == name->given.control_port && at &&
            (at->loopback || strcmp(at->address, core->contacts[i].at.host) == 0))
            return true;
    }
    return false;
}

void
cause_names(const struct facts *facts, struct findings *out)
{
    const struct network *network = &facts->status->network;
    for (size_t i = 0; i < network->name_count; i++) {
        const struct network_name *name = &network->names[i];
        bool self = name->given.control_port == facts->status->control_port &&
                    line_to(network, name->address) &&
                    strcmp(line_to(network, name->address)->address, name->address) == 0;
        if (!name->answers && !self && !is_here(&facts->status->core, network, name))
            say_name(out, network, name);
    }
}

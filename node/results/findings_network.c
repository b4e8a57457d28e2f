/* findings_network.c - causes that concern all nodes: this machine's networks, and other meshes in them. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "node/results/findings.h"

void
cause_start(const struct facts *facts, struct findings *out)
{
    if (facts->failed)
        finding_add(out, "no-start", "", "%s", facts->failed);
}

/* --- interfaces ------------------------------------------------------------------------------- */

static bool
is_only(const struct facts *facts, bool (*one)(const struct network_line *line))
{
    const struct network *network = &facts->status->network;
    bool any = false;
    for (size_t i = 0; i < network->line_count; i++) {
        const struct network_line *line = &network->lines[i];
        if (!line->used || line->loopback)
            continue;
        if (!one(line))
            return false;
        any = true;
    }
    return any;
}

static bool
is_any(const struct network_line *line)
{
    (void)line;
    return true;
}

static bool
is_managed(const struct network_line *line)
{
    return line->managed;
}

static bool
is_mute(const struct network_line *line)
{
    return line->mute;
}

/* Was loopback alone asked for, or is somebody there? Then it is enough. */
static bool
loopback_suffices(const struct facts *facts)
{
    for (size_t i = 0; i < facts->status->core.contact_count; i++)
        if (finding_ours(facts, &facts->status->core.contacts[i]))
            return true;
    return false;
}

/* The interface that is nearest to be of use: one with a cable, then one that is up. NULL: there is none at all. */
static const struct network_line *
best_unused(const struct network *network)
{
    const struct network_line *best = NULL;
    for (size_t i = 0; i < network->line_count; i++) {
        const struct network_line *line = &network->lines[i];
        unsigned rank = line->up + 2u * line->carrier;
        if (!line->loopback && !line->managed && !line->address[0] &&
            (!best || rank > best->up + 2u * best->carrier))
            best = line;
    }
    return best;
}

static void
say_line(struct findings *out, const struct network_line *line)
{
    static const char cause[] = "no-network";
    if (!line)
        finding_add(out, cause, "Plug in a network card, or load its driver",
                    "this machine has no network interface but loopback");
    else if (!line->up)
        finding_remedy(finding_add(out, cause, "", "no network: %s is switched off", line->name),
                       "ip link set %s up, and give it an address", line->name);
    else if (!line->carrier)
        finding_add(out, cause, "Plug in its cable, or connect to the Wi-Fi",
                    "no network: %s has no carrier", line->name);
    else
        finding_remedy(finding_add(out, cause, "", "no network: %s has no address", line->name),
                       "Is a DHCP server there? Else: ip addr add ADDRESS/24 dev %s", line->name);
}

void
cause_network(const struct facts *facts, struct findings *out)
{
    if (!is_only(facts, is_any)) {
        if (!loopback_suffices(facts))
            say_line(out, best_unused(&facts->status->network));
    } else if (is_only(facts, is_managed) && !loopback_suffices(facts)) {
        finding_add(out, "bridge",
                    "Connect it to the network of the others; a container needs "
                    "--network host, or --peer HOST:PORT",
                    "the only networks are those of containers on this machine: %s",
                    facts->status->interfaces);
    }
}

/* Has a seed answered? Then no broadcast is needed. */
static bool
name_answers(const struct network *network)
{
    for (size_t i = 0; i < network->name_count; i++)
        if (network->names[i].answers)
            return true;
    return false;
}

void
cause_broadcast(const struct facts *facts, struct findings *out)
{
    if (!is_only(facts, is_mute) || name_answers(&facts->status->network) ||
        loopback_suffices(facts))
        return;
    struct finding *finding =
        finding_add(out, "no-broadcast", "", "%s carries no broadcasts, as a VPN does not",
                    facts->status->names);
    finding_remedy(finding, "Name one of the nodes: --peer ADDRESS:%d", MESH_PORT_FIRST);
}

/* --- other meshes ----------------------------------------------------------------------------- */

static bool
any_ours(const struct facts *facts)
{
    const struct network *network = &facts->status->network;
    for (size_t i = 0; i < network->beacon_count; i++)
        if (network->beacons[i].kind == NETWORK_OURS)
            return true;
    return loopback_suffices(facts);
}

static bool
was_named(const struct network *network, const struct proto_endpoint *at)
{
    for (size_t i = 0; i < network->name_count; i++)
        if (network->names[i].given.control_port == at->control_port &&
            strcmp(network->names[i].address, at->host) == 0)
            return true;
    return false;
}

static const struct core_contact *
told_at(const struct core_status *core, const char *host, uint16_t port)
{
    for (size_t i = 0; i < core->contact_count; i++)
        if (core->contacts[i].at.control_port == port &&
            strcmp(core->contacts[i].at.host, host) == 0)
            return &core->contacts[i];
    return NULL;
}

/* Who refused us for its group has told its name. */
static bool
told_group(const struct core_status *core, const char *host, uint16_t port)
{
    const struct core_contact *contact = told_at(core, host, port);
    return contact && contact->refused == PROTO_REFUSE_MESH;
}

static void
say_group(struct findings *out, const char *who, const char *group)
{
    static const char cause[] = "other-group";
    if (!group)
        finding_add(out, cause, "Give all nodes the same: --set mesh.group=NAME",
                    "%s is of another mesh: its mesh.group is another one", who);
    else
        finding_remedy(finding_add(out, cause, "", "%s is of another mesh: its mesh.group is '%s'",
                                   who, group),
                       group[0] ? "To join it: --set mesh.group=%s"
                                : "To join it, leave mesh.group out%s",
                       group);
}

void
cause_group(const struct facts *facts, struct findings *out)
{
    char who[PROTO_WHO_MAX];
    const struct network *network = &facts->status->network;
    const struct core_status *core = &facts->status->core;
    bool alone = !any_ours(facts);
    for (size_t i = 0; i < core->contact_count; i++)
        if (core->contacts[i].refused == PROTO_REFUSE_MESH &&
            (alone || was_named(network, &core->contacts[i].at)))
            say_group(out, finding_who(&core->contacts[i], who), core->contacts[i].theirs);
    for (size_t i = 0; i < network->beacon_count && alone; i++) {
        const struct network_beacon *beacon = &network->beacons[i];
        if (beacon->kind != NETWORK_OTHER_GROUP || told_group(core, beacon->host, beacon->port))
            continue;
        snprintf(who, sizeof who, "%s:%u", beacon->host, beacon->port);
        say_group(out, who, NULL);
    }
}

void
cause_version(const struct facts *facts, struct findings *out)
{
    const struct network *network = &facts->status->network;
    for (size_t i = 0; i < network->beacon_count; i++) {
        if (network->beacons[i].kind != NETWORK_OTHER_VERSION)
            continue;
        finding_add(out, "other-version", "Install the same meshnode on both machines",
                    "%s speaks another version of the protocol", network->beacons[i].host);
    }
}

/* Is this node known in another way? */
static bool
is_known(const struct mesh_status *status, const struct network_beacon *unheard)
{
    for (size_t i = 0; i < status->network.beacon_count; i++) {
        const struct network_beacon *beacon = &status->network.beacons[i];
        if (beacon->kind != NETWORK_UNHEARD && beacon->node.id == unheard->node.id)
            return true;
    }
    return told_at(&status->core, unheard->host, unheard->port);
}

static bool
is_near(const struct network *network, const char *host)
{
    struct in_addr address;
    bool near = inet_pton(AF_INET, host, &address) != 1;
    for (size_t i = 0; i < network->line_count; i++) {
        const struct network_line *line = &network->lines[i];
        near |= line->used && line->at &&
                (line->at & line->mask) == (ntohl(address.s_addr) & line->mask);
    }
    return near;
}

void
cause_unheard(const struct facts *facts, struct findings *out)
{
    const struct mesh_status *status = facts->status;
    for (size_t i = 0; i < status->network.beacon_count; i++) {
        const struct network_beacon *beacon = &status->network.beacons[i];
        if (beacon->kind != NETWORK_UNHEARD || is_known(status, beacon))
            continue;
        bool near = is_near(&status->network, beacon->host);
        struct finding *finding = finding_add(
            out, near ? "udp-shut-here" : "other-network", "",
            near ? "the beacons of %s:%u arrive, but a firewall of this machine drops them"
                 : "%s:%u is on the same cable, but in another network",
            beacon->host, beacon->port);
        if (near)
            finding_remedy(finding, "Let UDP %u and TCP %u and %u through it", status->beacon_port,
                           status->control_port, status->bulk_port);
        else
            finding_remedy(finding, "Give both machines addresses of one network, as of %s",
                           status->interfaces);
    }
}

void
cause_nobody(const struct facts *facts, struct findings *out)
{
    const struct mesh_status *status = facts->status;
    if (findings_bad(out) || status->network.beacon_count > 0 || status->core.contact_count > 0)
        return;
    struct finding *finding =
        finding_add(out, "nobody", "", "nobody is heard on %s", status->interfaces);
    finding_remedy(
        finding,
        "Start meshnode on another machine of this network. Firewalls must let UDP %u and "
        "TCP %u and %u through. If the access point isolates its clients: --peer HOST:PORT",
        status->beacon_port, status->control_port, status->bulk_port);
}

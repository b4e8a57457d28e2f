/* contact.c - see contact.h: signs of other nodes are noted, and what they amount to is said once. */
#include "mesh/core/sessions/contact.h"

#include <assert.h>
#include <stdio.h>

#include "mesh/core/internal.h"
#include "proto/text.h"

static struct contact *
contact_find(struct contacts *contacts, struct proto_node node)
{
    for (int i = 0; i < CONTACTS_MAX; i++)
        if (contacts->list[i].node.id == node.id)
            return &contacts->list[i];
    return NULL;
}

/* A node that is started again has another id, and most often the same address. */
static struct contact *
find_place(struct contacts *contacts, const struct proto_endpoint *at)
{
    for (int i = 0; i < CONTACTS_MAX; i++) {
        struct contact *contact = &contacts->list[i];
        if (contact->node.id != 0 && !contact->here && link_endpoint_equal(&contact->at, at))
            return contact;
    }
    return NULL;
}

/* Free, or that of a node without a session which was heard longest ago. */
static struct contact *
make_room(struct contacts *contacts)
{
    struct contact *best = NULL;
    for (int i = 0; i < CONTACTS_MAX; i++) {
        struct contact *contact = &contacts->list[i];
        if (contact->node.id == 0)
            return contact;
        if (!contact->here && (!best || awake_before(contact->heard_at, best->heard_at)))
            best = contact;
    }
    return best;
}

/* The record of a node of which there is a sign; NULL: there is no room, or the sign is an old one. */
static struct contact *
contact_note(struct contacts *contacts, const struct core *core, struct proto_node node,
             const struct proto_endpoint *at)
{
    struct contact *contact = contact_find(contacts, node);
    if (contact && node.incarnation < contact->node.incarnation)
        return NULL;
    if (!contact || node.incarnation > contact->node.incarnation) {
        struct contact *before = contact ? contact : find_place(contacts, at);
        bool met = before && before->met;
        contact = before ? before : make_room(contacts);
        if (!contact)
            return NULL;
        *contact = (struct contact){.node = node, .met = met, .since = core->awake};
    } else if (awake_since(core->awake, contact->heard_at) > CONTACT_HEARD_US) {
        contact->since = core->awake;
    }
    if (!contact->here)
        contact->at = *at;
    contact->heard_at = core->awake;
    return contact;
}

void
contact_heard(struct contacts *contacts, const struct core *core, struct proto_node node,
              const struct proto_endpoint *at)
{
    contact_note(contacts, core, node, at);
}

void
contact_hello(struct contacts *contacts, const struct core *core, struct proto_node node,
              const struct proto_endpoint *at, const struct proto_hello *hello)
{
    struct contact *contact = contact_note(contacts, core, node, at);
    if (!contact)
        return;
    contact->hello_at = core->awake;
    contact->hello = *hello;
    text_copy(contact->hello.name, sizeof contact->hello.name, hello->name);
}

void
contact_link(struct contacts *contacts, const struct core *core, struct proto_node node)
{
    struct contact *contact = contact_find(contacts, node);
    if (contact)
        contact->link_at = core->awake;
}

void
contact_met(struct contacts *contacts, struct proto_node node)
{
    struct contact *contact = contact_find(contacts, node);
    assert(node.id != 0);
    if (!contact)
        return;
    contact->here = contact->met = true;
    contact->said = contact->settled = false;
    contact->refused = 0;
}

void
contact_lost(struct contacts *contacts, const struct core *core, struct proto_node node)
{
    struct contact *contact = contact_find(contacts, node);
    if (!contact)
        return;
    contact->here = false;
    contact->since = core->awake;
}

void
contact_refused(struct contacts *contacts, struct proto_node node, enum proto_refusal reason,
                const char *theirs)
{
    struct contact *contact = contact_find(contacts, node);
    if (!contact)
        return;
    contact->settled = true;
    contact->refused = reason;
    text_copy(contact->theirs, sizeof contact->theirs, theirs);
}

void
contact_settled(struct contacts *contacts, struct proto_node node)
{
    struct contact *contact = contact_find(contacts, node);
    if (contact)
        contact->settled = true;
}

static bool
is_recent(const struct core *core, struct awake at)
{
    return at.us > 0 && awake_since(core->awake, at) <= CONTACT_HEARD_US;
}

static bool
linked(const struct core *core, const struct contact *contact)
{
    int i = peers_by_id(core, contact->node.id);
    return is_recent(core, contact->link_at) || (i >= 0 && core->peers.peers[i].link_up);
}

/* How far the connection to it got, see core.h. */
static enum core_gap
contact_gap(const struct core *core, const struct contact *contact)
{
    if (contact->node.id == 0 || contact->here || contact->settled ||
        !is_recent(core, contact->heard_at) ||
        awake_since(core->awake, contact->since) < CONTACT_PATIENCE_US)
        return CORE_GAP_NONE;
    bool ours = linked(core, contact), theirs = is_recent(core, contact->hello_at);
    if (ours)
        return theirs ? CORE_GAP_BOTH : CORE_GAP_THEIRS;
    return theirs ? CORE_GAP_OURS : CORE_GAP_SILENT;
}

/* "pc3 (192.168.7.13:20000)", or the address alone. */
static void
print_who(const struct contact *contact, char *out, size_t size)
{
    bool named = contact->hello.name[0] != '\0';
    snprintf(out, size, "%s%s%s:%u%s", contact->hello.name, named ? " (" : "", contact->at.host,
             contact->at.control_port, named ? ")" : "");
}

static void
say_gap(const struct core *core, const struct contact *contact, enum core_gap gap)
{
    char who[PROTO_NAME_MAX + PROTO_HOST_MAX + 16];
    unsigned here = core->config.hello.control_port;
    print_who(contact, who, sizeof who);
    switch (gap) {
    case CORE_GAP_NONE:
        break;
    case CORE_GAP_SILENT:
        core_log(core, 4,
                 "%s is heard, but cannot be reached. Does a firewall there block TCP port %u and "
                 "the next?",
                 who, contact->at.control_port);
        break;
    case CORE_GAP_OURS:
        core_log(core, 4,
                 "%s reaches this node, but this node cannot reach it. Does a firewall there block "
                 "TCP port %u and the next? Behind NAT, forward both",
                 who, contact->at.control_port);
        break;
    case CORE_GAP_THEIRS:
        core_log(core, 4,
                 "%s can be reached, but cannot reach this node. Does a firewall here block TCP "
                 "port %u and the next? Behind NAT, forward both",
                 who, here);
        break;
    case CORE_GAP_BOTH:
        core_log(core, 4, "%s is connected, but does not answer. Does it hang?", who);
        break;
    }
}

void
contact_tick(struct contacts *contacts, const struct core *core)
{
    contacts->unreached = 0;
    for (int i = 0; i < CONTACTS_MAX; i++) {
        struct contact *contact = &contacts->list[i];
        enum core_gap gap = contact_gap(core, contact);
        contacts->unreached += gap != CORE_GAP_NONE;
        if (gap == CORE_GAP_NONE || contact->said || contacts->said >= CONTACT_LINES_MAX)
            continue;
        contact->said = true;
        contacts->said++;
        say_gap(core, contact, gap);
    }
}

static void
contact_fill(const struct core *core, struct core_status *out, bool here)
{
    for (int i = 0; i < CONTACTS_MAX && out->contact_count < PROTO_PEERS_MAX; i++) {
        const struct contact *contact = &core->peers.contacts.list[i];
        if (contact->node.id == 0 || contact->here != here)
            continue;
        struct core_contact *to = &out->contacts[out->contact_count++];
        *to = (struct core_contact){.at = contact->at,
                                    .here = here,
                                    .met = contact->met,
                                    .settled = contact->settled,
                                    .heard = is_recent(core, contact->heard_at),
                                    .linked = linked(core, contact),
                                    .greeted = contact->hello_at.us > 0,
                                    .refused = contact->refused,
                                    .hello = contact->hello,
                                    .gap = contact_gap(core, contact)};
        text_copy(to->name, sizeof to->name, contact->hello.name);
        text_copy(to->theirs, sizeof to->theirs, contact->theirs);
    }
}

void
contact_list(const struct core *core, struct core_status *out)
{
    contact_fill(core, out, true);
    contact_fill(core, out, false);
}

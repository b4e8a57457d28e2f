/* finding.c - a finding is begun and written. See finding.h. */
#include "node/results/finding.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "node/base/parse.h"

bool
findings_bad(const struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++)
        if (!findings->list[i].note)
            return true;
    return false;
}

struct finding *
finding_add(struct findings *findings, const char *cause, const char *remedy, const char *what, ...)
{
    va_list args;
    size_t same = 0;
    for (size_t i = 0; i < findings->count; i++)
        same += strcmp(findings->list[i].cause, cause) == 0;
    if (same == FINDINGS_OF_CAUSE || findings->count == FINDINGS_MAX)
        return NULL;
    struct finding *finding = &findings->list[findings->count++];
    *finding = (struct finding){.cause = cause};
    snprintf(finding->remedy, sizeof finding->remedy, "%s", remedy);
    va_start(args, what);
    vsnprintf(finding->what, sizeof finding->what, what, args);
    va_end(args);
    return finding;
}

void
finding_remedy(struct finding *finding, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (finding)
        vsnprintf(finding->remedy, sizeof finding->remedy, format, args);
    va_end(args);
}

const char *
finding_who(const struct core_contact *contact, char out[PROTO_WHO_MAX])
{
    char at[PROTO_WHO_MAX];
    parse_endpoint_text(&contact->at, at);
    snprintf(out, PROTO_WHO_MAX, "%.64s%s%.256s%s", contact->name, contact->name[0] ? " (" : "", at,
             contact->name[0] ? ")" : "");
    return out;
}

static bool
of_other_group(const struct network *network, const struct proto_endpoint *at)
{
    for (size_t i = 0; i < network->beacon_count; i++) {
        const struct network_beacon *beacon = &network->beacons[i];
        if (beacon->kind == NETWORK_OTHER_GROUP && beacon->port == at->control_port &&
            strcmp(beacon->host, at->host) == 0)
            return true;
    }
    return false;
}

bool
finding_ours(const struct facts *facts, const struct core_contact *contact)
{
    return (contact->heard || contact->here) && contact->refused != PROTO_REFUSE_MESH &&
           !of_other_group(&facts->status->network, &contact->at);
}

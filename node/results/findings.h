/* findings.h - what is wrong between this machine and those that it hears, and what to do: facts in, sentences out. No
 * state, no I/O. doctor.c gathers the facts; a node that waits has those of its mesh_status.
 *
 * A cause that explains another one comes alone: who has no network is not told that nobody is heard. What only looks
 * odd is a note. */
#ifndef NODE_FINDINGS_H
#define NODE_FINDINGS_H

#include "node/results/finding.h"

void findings_make(const struct facts *facts, struct findings *out);
/* Those that explain why a node is alone, of what it knows by itself. */
void findings_alone(const struct mesh_status *status, struct findings *out);
/* The causes that a node has named already. */
struct findings_said {
    size_t count;
    const char *cause[FINDINGS_MAX];
};
/* Is this the first time? Remembers it. */
bool findings_news(struct findings_said *said, const struct finding *finding);
/* "what. remedy" */
void findings_line(const struct finding *finding, char *out, size_t size);

typedef void findings_of(const struct facts *facts, struct findings *out);
typedef void findings_of_contact(const struct facts *facts, const struct core_contact *contact,
                                 struct findings *out);
/* findings.c: busy, in the place of what only time told */
/* findings_network.c: no-start, no-network, bridge, no-broadcast, other-group, other-version, other-network,
 * udp-shut-here, nobody */
findings_of cause_start, cause_network, cause_broadcast, cause_group, cause_version, cause_unheard,
    cause_nobody;
/* findings_legs.c: tcp-shut-there, wrong-network, bulk-shut-there, tcp-shut-here, silent, full, refused; name-unknown,
 * name-slow, name-loopback, name-shut, name-bridge, name-no-route, name-silent */
findings_of cause_names;
findings_of_contact cause_there, cause_bulk, cause_here, cause_refused;
/* findings_job.c: same-identity, two-routes, clock, other-run, other-job, other-data, other-numerics, two-jobs,
 * descriptors, check, memory, out, cache */
findings_of cause_identity, cause_routes, cause_clock, cause_jobs, cause_machine;
findings_of_contact cause_job, cause_numerics;

#endif

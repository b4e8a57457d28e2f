/* finding.h - facts of a machine and of those that it hears, and a finding: what is wrong, and what to do. findings.h
 * judges the facts. */
#ifndef NODE_FINDING_H
#define NODE_FINDING_H

#include "mesh/mesh.h"

enum { FINDING_TEXT = 512, FINDINGS_MAX = 32, FINDINGS_OF_CAUSE = 4, FACTS_JOBS_MAX = 8 };

struct finding {
    const char *cause; /* a word for scripts: findings_of lists them */
    bool note;         /* nothing is wrong */
    char what[FINDING_TEXT], remedy[FINDING_TEXT];
};

struct findings {
    size_t count;
    struct finding list[FINDINGS_MAX];
};

/* How the job of some nodes differs from ours. */
struct facts_job {
    uint64_t hash; /* as in their HELLO */
    bool data;     /* only the data do */
    char words[PROTO_TEXT_MAX];
};

struct facts {
    const struct mesh_status *status; /* NULL: there is no network, for `failed` */
    const char *failed;
    uint64_t now_us; /* clock_us, for the age of beacons; 0: whatever it is */
    uint64_t now_ns; /* since 1970; 0: unknown */
    uint64_t numerics;
    const char *kernel;
    /* Of the job; run NULL: there is none. */
    const char *run;
    uint64_t job_hash;
    size_t job_count;
    struct facts_job jobs[FACTS_JOBS_MAX];
    /* Lines that say what is wrong with this machine; NULL or "": nothing. */
    const char *descriptors, *check, *memory, *out, *cache;
};

/* Is something wrong? */
bool findings_bad(const struct findings *findings);
/* One more, with what is to be done ("": see finding_remedy) and what is wrong. NULL if there are FINDINGS_OF_CAUSE of
 * this cause. */
__attribute__((format(printf, 4, 5))) struct finding *finding_add(struct findings *findings,
                                                                  const char *cause,
                                                                  const char *remedy,
                                                                  const char *what, ...);
/* To a finding, or to NULL, a remedy that has names or numbers. */
__attribute__((format(printf, 2, 3))) void finding_remedy(struct finding *finding,
                                                          const char *format, ...);
/* "pc3 (192.168.7.13:20000)", or the address alone. Returns `out`. */
const char *finding_who(const struct core_contact *contact, char out[PROTO_WHO_MAX]);

/* Of a contact of our group that is heard. */
bool finding_ours(const struct facts *facts, const struct core_contact *contact);

#endif

/* replay_journals.h - the journals of a run's folders, and the nodes that they speak of. For the files of a replay. */
#ifndef NODE_REPLAY_JOURNALS_H
#define NODE_REPLAY_JOURNALS_H

#include "node/commands/verify_folders.h"
#include "node/job/config.h"
#include "node/results/journal.h"
#include "node/train/job.h"

/* For qsort and bsearch: -1, 0 or 1. */
static inline int
replay_order(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static inline int
replay_node_order(struct proto_node a, struct proto_node b)
{
    int rc = replay_order(a.id, b.id);
    return rc ? rc : replay_order(a.incarnation, b.incarnation);
}

/* The hashes of a job: the present one, then those of earlier parts of the run (config_parts.h). */
struct replay_parts {
    uint64_t job[CONFIG_PARTS_MAX + 1];
    size_t count;
};

struct replay_parts replay_parts_of(const struct job *job, const struct config *config);

struct replay_journals {
    size_t count;
    const char *dir[VERIFY_DIRS_MAX]; /* borrowed */
    struct journal_text text[VERIFY_DIRS_MAX];
};

/* Adds the journal of a folder, which must be one of this job. Returns 0 or a negative errno with `why`. */
int replay_journals_add(struct replay_journals *journals, const char *dir,
                        const struct replay_parts *parts, struct why *why);
/* Those of all folders but of nodes that made no step and have none. replay_journals_unload follows in all cases. */
int replay_journals_load(struct replay_journals *journals, const struct verify_folders *folders,
                         const struct replay_parts *parts, struct why *why);
void replay_journals_unload(struct replay_journals *journals);

/* Nodes that journals speak of; zeros: none. More are not counted: it is only for people. */
enum { REPLAY_NAMES_MAX = 256 };
struct replay_names {
    size_t count;
    uint64_t id[REPLAY_NAMES_MAX];
};
void replay_names_add(struct replay_names *names, uint64_t id);
/* Something is in no journal: adds to `why` how many nodes the journals name, and of how many they are. */
void replay_names_tell(struct replay_names *names, const struct replay_journals *journals,
                       struct why *why);

#endif

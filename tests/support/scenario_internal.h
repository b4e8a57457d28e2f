/* scenario_internal.h - what the files of a scenario share.
 *
 *     scenario_read.c    YAML to events
 *     scenario_draw.c    the random draw: more events
 *     scenario_expand.c  events to actions
 *     scenario.c         the whole */
#ifndef SUPPORT_SCENARIO_INTERNAL_H
#define SUPPORT_SCENARIO_INTERNAL_H

#include <yaml.h>

#include "tests/support/scenario.h"

enum kind { KILL, START, PAUSE, SPLIT, CUT, SLOW, LOSS, DISK_FULL, JOIN, POWER, KINDS };

enum { KINDS_IN_EVENTS = JOIN };

struct event {
    unsigned line;
    enum kind kind;
    uint64_t at_ms, for_ms, every_ms, times;
    bool has_for;
    unsigned node;  /* 0 all */
    unsigned other; /* CUT */
    unsigned side[SCENARIO_NODES_MAX + 1];
    uint64_t value;
};

struct draw {
    uint64_t ms, faults;
    uint32_t kinds;
};

struct reader {
    const char *name;
    yaml_document_t doc;
    struct scenario *scenario;
    struct event events[SCENARIO_EVENTS_MAX];
    size_t count;
    struct draw draw;
    uint64_t seed; /* instead of the file's; 0 none */
    struct why *why;
};

extern const char *const scenario_kinds[KINDS];

/* "FILE:LINE: ..." in reader->why. Returns -EINVAL. */
__attribute__((format(printf, 3, 4))) int scenario_fail(struct reader *reader, unsigned line,
                                                        const char *format, ...);
/* All return 0, or what scenario_fail returned. */
int scenario_read(struct reader *reader);   /* reader->doc: to events, and what to draw */
int scenario_draw(struct reader *reader);   /* more events, behind the present ones */
int scenario_expand(struct reader *reader); /* events to actions */

#endif

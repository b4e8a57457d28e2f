/* search.c - see search.h. */
#include "node/commands/search.h"

#include <errno.h>

#include "node/results/findings.h"
#include "node/results/show.h"
#include "node/results/waiting.h"
#include "node/train/meeting.h"
#include "proto/clock.h"

enum { SEARCH_MS = 3600 * 1000 };

struct search {
    const struct config *config;
    struct show show;
    uint64_t since_us;
    struct findings_said said;
    bool hinted; /* what to check was said */
};

static void
say_searching(void *ctx, int level, const char *line)
{
    struct search *search = ctx;
    if (level <= search->config->log_level)
        show_say(&search->show, level, line);
}

static void
tell_search(void *ctx, const struct mesh_status *status, uint64_t searching_us)
{
    struct search *search = ctx;
    uint64_t now = clock_us();
    char line[WAITING_LINE];
    (void)searching_us; /* of this mesh_job_find alone */
    waiting_search(status, now - search->since_us, line);
    show_doing(&search->show, line, now);
    if (now - search->since_us < WAITING_HINT_US || waiting_gaps(status) > 0 ||
        waiting_findings(status, &search->said, 4, say_searching, search) || search->hinted)
        return;
    search->hinted = true;
    waiting_search_hint(status, line);
    say_searching(search, 4, line);
}

int
search_job(const struct config *config, struct mesh_job *job, struct why *why)
{
    struct search search = {.config = config, .since_us = clock_us()};
    struct mesh_setup setup = {
        .program.log = say_searching,
        .searching = tell_search,
        .ctx = &search,
    };
    int rc;
    meeting_setup(config, &setup);
    show_init(&search.show, config->quiet);
    do
        rc = mesh_job_find(&setup, SEARCH_MS, job, why);
    while (rc == -ETIMEDOUT);
    show_fini(&search.show);
    return rc;
}

/* saver.h - what writes and finds the checkpoints of a state in a folder, and says nothing. */
#ifndef SUPPORT_SAVER_H
#define SUPPORT_SAVER_H

#include "node/train/save.h"
#include "tests/support/test.h"

static void
saver_say(void *ctx, int level, const char *line)
{
    (void)ctx, (void)level, (void)line;
}

static void
saver_alarm(void *ctx, const char *line)
{
    (void)ctx, (void)line;
}

static inline struct save *
saver_open(const char *dir, const struct state *state, uint64_t job_hash, uint64_t numerics)
{
    struct save *save;
    struct why why;
    struct save_setup setup = {.dir = dir,
                               .job_hash = job_hash,
                               .numerics = numerics,
                               .say = saver_say,
                               .alarm = saver_alarm};
    setup.extent_count = state_extents(state, setup.extent);
    assert_int_equal(save_new(&save, &setup, &why), 0);
    return save;
}

#endif

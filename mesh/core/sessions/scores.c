/* scores.c - see scores.h. */
#include "mesh/core/sessions/scores.h"

#include <assert.h>

#include "mesh/core/internal.h"

enum { SCORES = 8 /* are told at a time, at most */ };

void
scores_say(const struct core *core)
{
    const struct core_program *program = core->config.program;
    struct proto_msg msg = {.type = PROTO_SCORE};
    assert(!core->leaving);
    for (int k = 0; k < SCORES && program->scored; k++) {
        if (!program->scored(core->config.program_ctx, &msg.score))
            return;
        peers_send_all(core, &msg);
    }
}

void
scores_on_score(const struct core *core, const struct proto_score *score)
{
    const struct core_program *program = core->config.program;
    if (program->hear_score && score->shard < core->config.shards)
        program->hear_score(core->config.program_ctx, score);
}

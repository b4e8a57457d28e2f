/* replay.c - see replay.h. */
#include "node/commands/replay.h"

#include "node/base/term.h"
#include "node/commands/replay_gossip.h"

static int
replay_rounds(struct verify_folders *folders, const struct config *config)
{
    (void)config;
    term_fail("%s: mesh.sync = bsp needs no replay: its result is the same whatever happens",
              folders->folder[folders->first].dir);
    return 2;
}

int
replay_run(struct verify_folders *folders, const struct config *config)
{
    static int (*const replays[])(struct verify_folders *, const struct config *) = {
        [CONFIG_ROUNDS] = replay_rounds,
        [CONFIG_GOSSIP] = replay_gossip_run,
    };
    return replays[config_way(config)](folders, config);
}

/* way.c - which ways there are. See way.h. */
#include "node/train/way.h"

static const struct way *const ways[] = {
    [CONFIG_ROUNDS] = &way_rounds,
    [CONFIG_GOSSIP] = &way_gossip,
};

const struct way *
way_of(const struct config *config)
{
    return ways[config_way(config)];
}

/* meeting.c - see meeting.h. */
#include "node/train/meeting.h"

#include "node/base/host.h"

void
meeting_setup(const struct config *config, struct mesh_setup *setup)
{
    setup->group = config->mesh.group;
    setup->interface = config->mesh.interface[0] ? config->mesh.interface : NULL;
    setup->port = (uint16_t)config->mesh.port;
    setup->beacon_port = (uint16_t)config->mesh.beacon_port;
    setup->seeds = config->mesh.seed;
    setup->seed_count = config->mesh.seed_count;
    host_name(config->name, setup->hello.name, sizeof setup->hello.name);
}

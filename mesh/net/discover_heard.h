/* discover_heard.h - from whom beacons came, of whatever mesh, for people who ask why nobody is found. No decision
 * depends on it. */
#ifndef MESH_DISCOVER_HEARD_H
#define MESH_DISCOVER_HEARD_H

#include "mesh/network.h"

struct heard_beacons {
    size_t count;
    struct network_beacon
        list[NETWORK_BEACONS_MAX]; /* full: the one that was heard longest ago is replaced */
};

void heard_note(struct heard_beacons *heard, const struct network_beacon *beacon);

#endif

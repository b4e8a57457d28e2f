/* discover_heard.c - see discover_heard.h. */
#include "mesh/net/discover_heard.h"

#include <string.h>

static bool
heard_same(const struct network_beacon *a, const struct network_beacon *b)
{
    return a->kind == b->kind && a->port == b->port && a->node.id == b->node.id &&
           a->node.incarnation == b->node.incarnation && strcmp(a->host, b->host) == 0;
}

void
heard_note(struct heard_beacons *heard, const struct network_beacon *beacon)
{
    size_t oldest = 0;
    for (size_t i = 0; i < heard->count; i++) {
        if (heard_same(&heard->list[i], beacon)) {
            heard->list[i].at_us = beacon->at_us;
            return;
        }
        if (heard->list[i].at_us < heard->list[oldest].at_us)
            oldest = i;
    }
    if (heard->count < NETWORK_BEACONS_MAX)
        oldest = heard->count++;
    heard->list[oldest] = *beacon;
}

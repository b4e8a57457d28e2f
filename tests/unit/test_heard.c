/* From whom beacons came: each once, and the newest when there are too many. */
#include <stdio.h>

#include "mesh/net/discover_heard.h"
#include "tests/support/test.h"

static struct network_beacon
beacon(uint64_t id, uint64_t at_us)
{
    return (struct network_beacon){.node = {id, 1}, .host = "10.77.0.2", .at_us = at_us};
}

TEST(a_node_is_noted_once_with_its_last_time)
{
    struct heard_beacons heard = {.count = 0};
    struct network_beacon one = beacon(1, 5), other = beacon(1, 6);
    heard_note(&heard, &one);
    one.at_us = 7;
    heard_note(&heard, &one);
    other.kind = NETWORK_OTHER_GROUP;
    heard_note(&heard, &other);
    assert_int_equal(heard.count, 2);
    assert_int_equal(heard.list[0].at_us, 7);
}

TEST(whoever_was_heard_longest_ago_makes_room)
{
    struct heard_beacons heard = {.count = 0};
    for (uint64_t id = 1; id <= NETWORK_BEACONS_MAX; id++) {
        struct network_beacon one = beacon(id, id == 9 ? 1 : 100 + id);
        heard_note(&heard, &one);
    }
    struct network_beacon late = beacon(1000, 1000);
    heard_note(&heard, &late);
    assert_int_equal(heard.count, NETWORK_BEACONS_MAX);
    assert_int_equal(heard.list[8].node.id, 1000);
}

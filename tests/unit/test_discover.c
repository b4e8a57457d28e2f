/* test_discover.c - interfaces, names of seeds, beacons on loopback and through zbeacon. */
#include "mesh/net/discover_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "mesh/net/discover_iface.h"
#include "mesh/net/discover_resolve.h"
#include "tests/support/local_name.h"
#include "tests/support/test.h"

static uint64_t
now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static uint64_t
any(void)
{
    uint64_t x = 0;
    while (x == 0)
        assert_int_equal(getrandom(&x, sizeof x, 0), sizeof x);
    return x;
}

struct heard {
    size_t count;
    struct proto_endpoint at[256];
    struct proto_node node[256];
};

static void
note(void *ctx, const struct proto_endpoint *at, struct proto_node node)
{
    struct heard *heard = ctx;
    if (heard->count < 256) {
        heard->at[heard->count] = *at;
        heard->node[heard->count++] = node;
    }
}

static bool
heard_of(const struct heard *heard, uint64_t id, uint16_t port)
{
    for (size_t i = 0; i < heard->count; i++)
        if (heard->node[i].id == id && heard->at[i].control_port == port)
            return true;
    return false;
}

/* After `ms`: tick, read everything. */
static void
turn(struct discover *discover, int ms, struct heard *heard)
{
    poll(NULL, 0, ms);
    discover_tick(discover, now_us(), note, heard);
    while (discover_read(discover, note, heard))
        ;
}

static struct discover *
open_on(const char *interface, uint16_t port, uint64_t group, uint64_t *id)
{
    struct discover *discover = NULL;
    struct why why = {""};
    *id = any();
    struct discover_setup setup = {
        .interface = interface, .port = port, .self = {*id, 1}, .group = group};
    int rc = discover_new(&discover, &setup, &why);
    if (rc != 0)
        fail_msg("discover_new: %d: %s", rc, why.line);
    return discover;
}

TEST(names_rank_hardware_over_bridges)
{
    assert_true(iface_rank("enp3s0", true, false) > iface_rank("eth0", false, false));
    assert_true(iface_rank("eth0", false, false) > iface_rank("docker0", false, true));
    assert_true(iface_rank("eth0", false, true) > iface_rank("eth1", false, false));
    static const char *const managed[] = {"docker0", "br-1a2b3c", "veth12", "virbr0", "cni0"};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(iface_rank(managed[i], false, false), 1);
    assert_int_equal(iface_rank("br0", false, false), 2); /* a bridge somebody made by hand */
}

TEST(a_network_of_more_than_two_addresses_has_a_broadcast_address)
{
    static const struct {
        const char *address, *mask, *broadcast;
    } networks[] = {
        {"192.168.7.12", "255.255.255.0", "192.168.7.255"},
        {"10.1.2.3", "255.0.0.0", "10.255.255.255"},
        {"172.16.5.9", "255.255.255.252", "172.16.5.11"},
        {"172.16.5.8", "255.255.255.254", "0.0.0.0"}, /* two ends of a line */
        {"172.16.5.8", "255.255.255.255", "0.0.0.0"},
    };
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        assert_int_equal(iface_broadcast((struct in_addr){inet_addr(networks[i].address)},
                                         (struct in_addr){inet_addr(networks[i].mask)})
                             .s_addr,
                         inet_addr(networks[i].broadcast));
}

TEST(lo_means_loopback_only)
{
    struct iface list[IFACES_MAX];
    size_t count;
    struct why why;
    static const char *const names[] = {"lo", "127.0.0.1"};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(iface_select(names[i], list, &count, &why), 0);
        assert_int_equal(count, 1);
        assert_true(list[0].loopback);
        assert_int_equal(list[0].broadcast.s_addr, htonl(0x7fffffff));
    }
}

TEST(any_interface_includes_loopback_last)
{
    struct iface list[IFACES_MAX];
    size_t count;
    struct why why;
    assert_int_equal(iface_select(NULL, list, &count, &why), 0);
    assert_true(count >= 1);
    assert_true(list[count - 1].loopback);
    for (size_t i = 0; i + 1 < count; i++)
        assert_true(list[i].rank >= list[i + 1].rank);
}

TEST(an_unusable_interface_is_named_with_the_usable_ones)
{
    static const char *const bad[] = {"nosuch0", "203.0.113.77", "", "%s%n",
                                      "a-name-too-long-for-any-kernel"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct discover *discover = NULL;
        struct why why = {""};
        struct discover_setup setup = {.interface = bad[i], .port = 1, .self = {1, 1}};
        assert_int_equal(discover_new(&discover, &setup, &why), -ENODEV);
        assert_null(discover);
        assert_non_null(strstr(why.line, bad[i]));
        assert_non_null(strstr(why.line, "lo 127.0.0.1"));
    }
}

TEST(three_nodes_meet_on_loopback_and_skip_strangers)
{
    uint16_t port = free_udp_port();
    uint64_t group = any(), id[4];
    struct discover *node[4];
    struct heard heard[4] = {0};
    for (size_t i = 0; i < 4; i++) /* the last is of another group */
        node[i] = open_on("lo", port, group + (i == 3), &id[i]);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(discover_address(node[i]), "127.0.0.1");
        assert_null(node[i]->zbeacon);
        discover_publish(node[i], now_us(), (uint16_t)(1000 + i));
    }
    bool all = false;
    for (uint64_t end = now_us() + 120000000; !all && now_us() < end;) {
        all = true;
        for (size_t i = 0; i < 4; i++)
            turn(node[i], 1, &heard[i]);
        for (size_t i = 0; i < 3; i++)
            for (size_t k = 0; k < 3; k++)
                all &= i == k || heard_of(&heard[i], id[k], (uint16_t)(1000 + k));
    }
    assert_true(all);
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < heard[i].count; k++) {
            assert_string_equal(heard[i].at[k].host, "127.0.0.1");
            assert_true(i != 3);                       /* nobody else is in its group */
            assert_true(heard[i].node[k].id != id[i]); /* nor does anyone hear itself */
            assert_true(heard[i].node[k].id != id[3]);
        }
    for (size_t i = 0; i < 4; i++)
        discover_destroy(&node[i]);
}

static void
send_to(uint16_t port, const void *data, size_t size)
{
    int one = 1, fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(0x7fffffff)};
    setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &one, sizeof one);
    assert_int_equal(sendto(fd, data, size, 0, (struct sockaddr *)&to, sizeof to), (ssize_t)size);
    close(fd);
}

TEST(junk_and_farewells_are_not_reported)
{
    uint16_t port = free_udp_port();
    uint64_t group = any(), id;
    OWNED(discover_destroy) struct discover *node = open_on("lo", port, group, &id);
    discover_publish(node, now_us(), 1000);
    static uint8_t junk[65507]; /* the longest there is */
    uint8_t beacon[PROTO_BEACON_MAX];
    struct proto_beacon says = {{any(), 7}, group, 4242};
    size_t size = proto_beacon_encode(&says, beacon);
    memset(junk, 0x5a, sizeof junk);
    for (size_t n = 0; n < 300; n++)
        send_to(port, junk, n < 256 ? n : 1472);
    send_to(port, junk, sizeof junk);
    struct proto_beacon longer = {{any(), 7}, group, 4242};
    proto_beacon_encode(&longer, junk); /* with something behind it */
    send_to(port, junk, size + 1);
    send_to(port, junk, sizeof junk);
    for (size_t n = 0; n < size; n++) /* cut short */
        send_to(port, beacon, n);
    for (size_t bit = 0; bit < 40; bit++) { /* magic and version wrong */
        beacon[bit / 8] ^= (uint8_t)(1u << bit % 8);
        send_to(port, beacon, size);
        beacon[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    struct proto_beacon leaves = {{any(), 7}, group, 0};
    size_t leaves_size = proto_beacon_encode(&leaves, junk);
    send_to(port, junk, leaves_size);
    send_to(port, beacon, size); /* the one that counts comes last */
    struct heard heard = {0};
    for (uint64_t end = now_us() + 120000000; heard.count == 0 && now_us() < end;) {
        turn(node, 1, &heard);
        if (heard.count == 0) /* datagrams may be lost when the buffer is full of junk */
            send_to(port, beacon, size);
    }
    assert_true(heard.count >= 1);
    for (size_t i = 0; i < heard.count; i++) {
        assert_int_equal(heard.node[i].id, says.node.id);
        assert_int_equal(heard.node[i].incarnation, 7);
        assert_int_equal(heard.at[i].control_port, 4242);
    }
}

TEST(a_flood_is_read_in_portions)
{
    uint16_t port = free_udp_port();
    uint64_t group = any(), id;
    OWNED(discover_destroy) struct discover *node = open_on("lo", port, group, &id);
    uint8_t beacon[PROTO_BEACON_MAX];
    struct proto_beacon says = {{any(), 7}, group, 4242};
    size_t size = proto_beacon_encode(&says, beacon), portions = 0;
    for (size_t i = 0; i < 100; i++)
        send_to(port, beacon, size);
    struct heard heard = {0};
    size_t before = 0;
    while (discover_read(node, note, &heard)) {
        assert_true(heard.count - before <= 16);
        before = heard.count;
        portions++;
    }
    assert_true(portions >= 1);
    assert_int_equal(heard.count, 100);
}

TEST(seeds_are_looked_up_and_reported)
{
    struct proto_endpoint seeds[] = {
        {"192.0.2.7", 1234}, {"", 2345}, {"no-such-host.invalid", 1}, {"::1", 3456}};
    snprintf(seeds[1].host, sizeof seeds[1].host, "%s", local_name());
    OWNED(discover_destroy) struct discover *node = NULL;
    struct why why;
    struct discover_setup setup = {.interface = "lo",
                                   .port = free_udp_port(),
                                   .self = {any(), 1},
                                   .seeds = seeds,
                                   .seed_count = 4};
    assert_int_equal(discover_new(&node, &setup, &why), 0);
    discover_publish(node, now_us(), 1000);
    struct heard heard;
    bool all = false;
    for (uint64_t end = now_us() + 120000000; !all && now_us() < end;) {
        heard.count = 0;
        turn(node, 1, &heard);
        all = heard_of(&heard, 0, 1234) && heard_of(&heard, 0, 2345) && heard_of(&heard, 0, 3456);
    }
    assert_true(all);
    for (size_t i = 0; i < heard.count; i++) {
        assert_true(resolve_numeric(heard.at[i].host));
        assert_true(heard.at[i].control_port != 1);
    }
}

TEST(numbers_are_told_from_names)
{
    static const char *const numbers[] = {"1.2.3.4", "::1", "fe80::1%eth0", "::ffff:1.2.3.4"};
    static const char *const names[] = {"", "localhost", "1.2.3", "1.2.3.4%eth0", "a::b::c", "%"};
    for (size_t i = 0; i < 4; i++)
        assert_true(resolve_numeric(numbers[i]));
    for (size_t i = 0; i < 6; i++)
        assert_false(resolve_numeric(names[i]));
}

static void
own_handler(int number)
{
    (void)number;
}

TEST(zbeacon_serves_the_best_interface_and_leaves_signals_alone)
{
    struct iface list[IFACES_MAX];
    size_t count;
    struct why why;
    assert_int_equal(iface_select(NULL, list, &count, &why), 0);
    if (list[0].loopback)
        skip(); /* a machine without a network */
    struct sigaction mine = {.sa_handler = own_handler}, after;
    sigaction(SIGTERM, &mine, NULL);
    uint16_t port = free_udp_port();
    uint64_t group = any(), id[2];
    struct discover *node[2];
    struct heard heard[2] = {0};
    for (size_t i = 0; i < 2; i++) { /* one process, one zbeacon: the second node uses UDP */
        node[i] = open_on(NULL, port, group, &id[i]);
        assert_string_equal(discover_address(node[i]), "*");
        assert_int_equal(node[i]->zbeacon != NULL, i == 0);
        discover_publish(node[i], now_us(), (uint16_t)(1000 + i));
    }
    bool both = false;
    for (uint64_t end = now_us() + 120000000; !both && now_us() < end;) {
        both = true;
        for (size_t i = 0; i < 2; i++) {
            turn(node[i], 1, &heard[i]);
            bool by_network = false;
            for (size_t k = 0; k < heard[i].count; k++)
                by_network |=
                    heard[i].node[k].id == id[!i] && strncmp(heard[i].at[k].host, "127.", 4) != 0;
            both &= by_network;
        }
    }
    assert_true(both);
    sigaction(SIGTERM, NULL, &after);
    assert_true(after.sa_handler == own_handler);
    for (size_t i = 0; i < 2; i++) {
        discover_leave(node[i]);
        discover_destroy(&node[i]);
    }
    node[0] = open_on(NULL, port, group, &id[0]); /* zbeacon is free again */
    assert_non_null(node[0]->zbeacon);
    discover_destroy(&node[0]);
    discover_destroy(&node[0]);
}

TEST(a_taken_udp_port_is_named)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t at_size = sizeof at;
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &at_size), 0);
    char number[16];
    struct why why = {""};
    snprintf(number, sizeof number, "%u", ntohs(at.sin_port));
    struct discover *discover = NULL;
    struct discover_setup setup = {.interface = "lo", .port = ntohs(at.sin_port), .self = {1, 1}};
    assert_int_equal(discover_new(&discover, &setup, &why), -EADDRINUSE);
    assert_non_null(strstr(why.line, number));
    assert_null(discover);
    close(fd);
}

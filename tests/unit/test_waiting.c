/* The sentences of a node that waits: as they are read. */
#include <stdio.h>

#include "node/results/waiting.h"
#include "tests/support/test.h"

static struct mesh_status
home(void)
{
    return (struct mesh_status){.address = "192.168.7.11",
                                .control_port = 20000,
                                .bulk_port = 20001,
                                .beacon_port = 5670,
                                .interfaces = "eth0 192.168.7.11, wlan0 10.0.0.3",
                                .names = "eth0, wlan0",
                                .core = {.here = 1, .wanted = 3}};
}

static void
meet(struct mesh_status *status, const char *host, const char *name)
{
    struct core_contact *contact = &status->core.contacts[status->core.contact_count++];
    *contact = (struct core_contact){.here = true, .met = true};
    strcpy(contact->at.host, host);
    strcpy(contact->name, name);
    contact->at.control_port = 20000;
    status->core.here++;
}

TEST(a_node_without_a_job_says_where_it_looks_and_since_when)
{
    struct mesh_status status = home();
    char line[WAITING_LINE];
    waiting_search(&status, 25400000, line);
    assert_string_equal(line, "looking for a mesh on eth0, wlan0: 0:25");
    waiting_search(&status, UINT64_C(3723000000), line);
    assert_string_equal(line, "looking for a mesh on eth0, wlan0: 1:02:03");
    status.names[0] = '\0';
    waiting_search(&status, 0, line);
    assert_string_equal(line, "looking for a mesh on no network interface: 0:00");
    status = home();
    waiting_search_hint(&status, line);
    assert_string_equal(line, "nobody answers. Is a node with a job running in the same network? A "
                              "firewall must let UDP 5670 and TCP 20000 and 20001 through. Without "
                              "broadcast: --peer HOST:PORT");
    status.mute = true;
    snprintf(status.names, sizeof status.names, "tun0");
    waiting_search(&status, 25400000, line);
    assert_string_equal(line, "looking for a mesh on tun0 (no broadcast): 0:25");
    waiting_search_hint(&status, line);
    assert_non_null(strstr(
        line, "through. tun0 cannot broadcast: start one of the nodes with --peer HOST:PORT"));
    status = home();
    waiting_alone_hint(&status, line);
    assert_string_equal(line, "this node trains alone: nobody answers. If others are to join, do "
                              "they run meshnode, in the network of eth0, wlan0? A firewall must "
                              "let UDP 5670 and TCP 20000 and 20001 through. Without broadcast: "
                              "--peer HOST:PORT");
}

TEST(a_node_that_waits_for_others_says_who_is_here)
{
    struct mesh_status status = home();
    char line[WAITING_LINE];
    status.core.waiting_us = 25000000;
    waiting_peers(&status, line);
    assert_string_equal(line, "waiting for 3 nodes: 1 is here (192.168.7.11): 0:25");
    meet(&status, "192.168.7.13", "");
    waiting_peers(&status, line);
    assert_string_equal(line, "waiting for 3 nodes: 2 are here (192.168.7.11, .13): 0:25");
    strcpy(status.core.contacts[0].name, "pc3");
    meet(&status, "10.0.0.3", "");
    status.core.wanted = 4;
    waiting_peers(&status, line);
    assert_string_equal(line,
                        "waiting for 4 nodes: 3 are here (192.168.7.11, pc3, 10.0.0.3): 0:25");
    waiting_peers_hint(&status, line);
    assert_string_equal(line, "3 of 4 nodes are here after 5 s. Do the others run meshnode, in the "
                              "network of eth0, wlan0? A firewall must let UDP 5670 and TCP 20000 "
                              "and 20001 through. Without broadcast: --peer HOST:PORT");
}

TEST(nodes_are_called_by_their_names)
{
    struct mesh_status status = home();
    char line[WAITING_LINE];
    strcpy(status.name, "pc1");
    meet(&status, "192.168.7.13", "pc3");
    meet(&status, "192.168.7.11", "pc1");
    status.core.contacts[1].at.control_port = 20002;
    waiting_peers(&status, line);
    assert_string_equal(line, "waiting for 3 nodes: 3 are here (pc1, pc3, pc1:20002): 0:00");
}

TEST(a_node_that_is_heard_and_not_reached_is_in_the_live_line)
{
    struct mesh_status status = home();
    char line[WAITING_LINE];
    assert_int_equal(waiting_gaps(&status), 0);
    meet(&status, "192.168.7.13", "pc3");
    meet(&status, "192.168.7.14", "");
    for (size_t i = 0; i < 2; i++) {
        status.core.contacts[i].here = status.core.contacts[i].met = false;
        status.core.contacts[i].gap = CORE_GAP_SILENT;
    }
    status.core.here = 1;
    assert_int_equal(waiting_gaps(&status), 2);
    waiting_peers(&status, line);
    assert_string_equal(line, "waiting for 3 nodes: 1 is here (192.168.7.11): 0:00  not reached: "
                              "pc3 (192.168.7.13:20000), 192.168.7.14:20000");
    waiting_search(&status, 7000000, line);
    assert_string_equal(line, "looking for a mesh on eth0, wlan0: 0:07  not reached: "
                              "pc3 (192.168.7.13:20000), 192.168.7.14:20000");
}

TEST(nodes_of_one_machine_are_told_apart_by_their_ports)
{
    struct mesh_status status = home();
    char line[WAITING_LINE];
    strcpy(status.address, "127.0.0.1");
    meet(&status, "127.0.0.1", "");
    status.core.contacts[0].at.control_port = 20002;
    waiting_peers(&status, line);
    assert_string_equal(line, "waiting for 3 nodes: 2 are here (127.0.0.1, :20002): 0:00");
}

TEST(many_nodes_do_not_overflow_a_line)
{
    struct mesh_status status = home();
    char line[WAITING_LINE];
    status.core.wanted = 64;
    for (unsigned i = 0; i < 60; i++)
        meet(&status, "10.1.2.3",
             "a-name-of-sixty-three-letters-which-is-as-long-as-a-name-may-be");
    waiting_peers(&status, line);
    assert_true(strlen(line) < WAITING_LINE);
    assert_non_null(strstr(line, "waiting for 64 nodes: 61 are here"));
    assert_non_null(strstr(line, "...)"));
    assert_non_null(strstr(line, ": 0:00"));
}

TEST(those_that_were_heard_and_never_met_are_listed)
{
    struct mesh_status status = home();
    char line[WAITING_LINE];
    assert_int_equal(waiting_unmet(&status, line), 0);
    assert_string_equal(line, "");
    meet(&status, "192.168.7.13", "pc3");
    meet(&status, "192.168.7.14", "pc4");
    meet(&status, "192.168.7.15", "");
    meet(&status, "192.168.7.16", "pc6");
    for (size_t i = 1; i < 4; i++)
        status.core.contacts[i].here = status.core.contacts[i].met = false;
    status.core.contacts[3].settled = true; /* refused */
    assert_int_equal(waiting_unmet(&status, line), 2);
    assert_string_equal(line, "pc4 (192.168.7.14:20000), 192.168.7.15:20000");
}

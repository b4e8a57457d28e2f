/* What is wrong, of facts: each cause alone, with its remedy; and what is sound has none. */
#include <errno.h>
#include <stdio.h>

#include "node/results/findings.h"
#include "tests/support/test.h"

static struct mesh_status status;
static struct facts facts;
static struct findings found;

static void
add_line(const char *name, const char *address, uint32_t at)
{
    struct network_line *line = &status.network.lines[status.network.line_count++];
    *line = (struct network_line){.at = at,
                                  .mask = at >> 24 == 127 ? 0xff000000 : 0xffffff00,
                                  .up = true,
                                  .carrier = true,
                                  .used = true,
                                  .loopback = strcmp(name, "lo") == 0};
    strcpy(line->name, name);
    strcpy(line->address, address);
}

static struct core_contact *
add_contact(const char *host, const char *name)
{
    struct core_contact *contact = &status.core.contacts[status.core.contact_count++];
    *contact = (struct core_contact){.heard = true, .linked = true, .greeted = true};
    strcpy(contact->at.host, host);
    strcpy(contact->name, name);
    contact->at.control_port = contact->hello.control_port = 20000;
    contact->hello.bulk_port = 20001;
    contact->hello.job_hash = 7;
    contact->hello.numerics = 9;
    strcpy(contact->hello.run, "small");
    return contact;
}

static struct network_beacon *
add_beacon(enum network_kind kind, const char *host, uint64_t id)
{
    struct network_beacon *beacon = &status.network.beacons[status.network.beacon_count++];
    *beacon = (struct network_beacon){
        .kind = kind, .node = {id, 1}, .port = 20000, .at_us = UINT64_C(9000000)};
    strcpy(beacon->host, host);
    return beacon;
}

static void
add_try(const char *host, uint16_t port, int error)
{
    struct network_try *one = &status.network.tries[status.network.try_count++];
    *one = (struct network_try){.to = {.control_port = port}, .error = error};
    strcpy(one->to.host, host);
}

static struct network_name *
add_name(const char *host, const char *address)
{
    struct network_name *name = &status.network.names[status.network.name_count++];
    *name = (struct network_name){.given = {.control_port = 20000}};
    strcpy(name->given.host, host);
    strcpy(name->address, address);
    return name;
}

/* A machine with a card, and another one, with which all is well. */
FIXTURE(home)
{
    memset(&status, 0, sizeof status);
    status.control_port = 20000;
    status.bulk_port = 20001;
    status.beacon_port = 5670;
    strcpy(status.interfaces, "eth0 10.77.0.1");
    strcpy(status.names, "eth0");
    add_line("lo", "127.0.0.1", 0x7f000001);
    add_line("eth0", "10.77.0.1", 0x0a4d0001);
    facts = (struct facts){.status = &status,
                           .now_ns = UINT64_C(1800000000000000000),
                           .run = "small",
                           .job_hash = 7,
                           .numerics = 9,
                           .kernel = "portable avx2"};
    return 0;
}
TEST_EACH(home, NULL)

static void
home_with_another(void)
{
    add_contact("10.77.0.2", "pc2");
    add_beacon(NETWORK_OURS, "10.77.0.2", 2);
}

/* It is the only cause. */
static void
assert_cause(const char *cause, const char *what, const char *remedy)
{
    findings_make(&facts, &found);
    for (size_t i = 0; i < found.count; i++)
        print_message("%s: %s. %s\n", found.list[i].cause, found.list[i].what,
                      found.list[i].remedy);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.list[0].cause, cause);
    if (!strstr(found.list[0].what, what) || !strstr(found.list[0].remedy, remedy))
        fail_msg("expected '%s' and '%s'", what, remedy);
    assert_true(findings_bad(&found) != found.list[0].note);
}

static void
assert_sound(void)
{
    findings_make(&facts, &found);
    assert_int_equal(found.count, 0);
    assert_false(findings_bad(&found));
}

TEST(two_machines_that_hear_one_another_are_sound)
{
    home_with_another();
    assert_sound();
}

TEST(a_network_that_does_not_start_is_the_only_cause)
{
    facts.status = NULL;
    facts.failed = "beacon port 5670 (UDP) on interface eth0: Address already in use";
    assert_cause("no-start", "Address already in use", "");
}

TEST(interfaces_that_lead_nowhere)
{
    struct network_line *eth0 = &status.network.lines[1];
    eth0->used = false;
    eth0->address[0] = '\0';
    assert_cause("no-network", "eth0 has no address", "ip addr add ADDRESS/24 dev eth0");
    eth0->carrier = false;
    assert_cause("no-network", "eth0 has no carrier", "Plug in its cable");
    eth0->up = false;
    assert_cause("no-network", "eth0 is switched off", "ip link set eth0 up");
    status.network.line_count = 1;
    assert_cause("no-network", "no network interface but loopback", "network card");
    add_contact("127.0.0.1", "pc1"); /* who is alone on a machine wants no network */
    assert_sound();
}

TEST(interfaces_that_lead_only_so_far)
{
    struct network_line *eth0 = &status.network.lines[1];
    eth0->managed = true;
    assert_cause("bridge", "of containers on this machine: eth0 10.77.0.1", "--network host");
    eth0->managed = false;
    eth0->mute = true;
    assert_cause("no-broadcast", "eth0 carries no broadcasts", "--peer ADDRESS:20000");
    add_name("fd00::2", "fd00::2")->answers = true;
    add_contact("fd00::2", "pc2");
    assert_sound();
}

TEST(nobody_is_said_when_nothing_else_explains_it)
{
    assert_cause("nobody", "on eth0 10.77.0.1", "UDP 5670 and TCP 20000 and 20001");
    findings_alone(&status, &found);
    assert_int_equal(found.count, 0); /* waiting.h has a sentence for this */
}

TEST(beacons_that_arrive_and_are_not_heard)
{
    add_beacon(NETWORK_UNHEARD, "10.88.0.2", 2);
    assert_cause("other-network", "10.88.0.2:20000 is on the same cable", "as of eth0 10.77.0.1");
    strcpy(status.network.beacons[0].host, "10.77.0.2");
    assert_cause("udp-shut-here", "10.77.0.2:20000 arrive", "UDP 5670 and TCP 20000 and 20001");
    add_contact("10.77.0.2", "pc2"); /* it hears us, which is enough */
    assert_sound();
    status.core.contact_count = 0;
    add_beacon(NETWORK_OURS, "10.77.0.2", 2);
    add_contact("10.77.0.2", "pc2");
    assert_sound();
}

TEST(a_mesh_of_another_group)
{
    add_beacon(NETWORK_OTHER_GROUP, "10.77.0.2", 2);
    assert_cause("other-group", "10.77.0.2:20000 is of another mesh", "--set mesh.group=NAME");
    findings_alone(&status, &found);
    assert_int_equal(found.count, 1);
    struct core_contact *contact = add_contact("10.77.0.2", "pc2");
    contact->refused = PROTO_REFUSE_MESH;
    strcpy(contact->theirs, "club");
    assert_cause("other-group", "its mesh.group is 'club'", "--set mesh.group=club");
    contact->theirs[0] = '\0';
    assert_cause("other-group", "its mesh.group is ''", "leave mesh.group out");
    add_contact("10.77.0.3", "pc3"); /* two meshes in one network */
    assert_sound();
    add_name("10.77.0.2", "10.77.0.2")->answers = true; /* but this one was meant */
    assert_cause("other-group", "pc2 (10.77.0.2:20000)", "leave mesh.group out");
}

TEST(another_version_of_the_protocol)
{
    home_with_another();
    add_beacon(NETWORK_OTHER_VERSION, "10.77.0.3", 0);
    assert_cause("other-version", "10.77.0.3 speaks another version", "the same meshnode");
}

TEST(ports_that_are_shut)
{
    home_with_another();
    struct core_contact *contact = &status.core.contacts[0];
    add_try("10.77.0.2", 20001, EHOSTUNREACH);
    assert_cause("bulk-shut-there", "its other TCP port, 20001", "TCP 20000 and 20001");
    status.network.try_count = 0;
    contact->greeted = false;
    assert_cause("tcp-shut-here", "do not come back", "firewall of this machine");
    contact->linked = false;
    add_try("10.77.0.2", 20000, ECONNREFUSED);
    assert_cause("tcp-shut-there", "port 20000 is shut (Connection refused)", "firewall there");
    status.network.tries[0].error = ETIMEDOUT;
    assert_cause("tcp-shut-there", "port 20000 is shut (Connection timed out)", "firewall there");
    status.network.tries[0].error = 0;
    assert_cause("silent", "accepts a connection, and says nothing", "Start it again");
    contact->greeted = true; /* it reaches us, and we will reach it */
    assert_sound();
}

TEST(addresses_that_no_connection_gets_to)
{
    home_with_another();
    status.core.contacts[0].linked = false;
    add_try("10.77.0.2", 20000, EHOSTUNREACH);
    assert_cause("wrong-network", "No route to host", "ip route get 10.77.0.2");
    strcpy(status.core.contacts[0].at.host, "192.168.1.2");
    add_try("192.168.1.2", 20000, ETIMEDOUT);
    assert_cause("wrong-network", "in none of our networks", "ip route get 192.168.1.2");
}

TEST(names_that_lead_nowhere)
{
    home_with_another();
    struct network_name *name = add_name("pc9", "");
    name->failed = true;
    assert_cause("name-unknown", "pc9:20000 (--peer): nobody knows", "/etc/hosts");
    name->failed = false;
    name->pending = true;
    assert_cause("name-slow", "no name server answers", "Name the address");
    name->pending = false;
    strcpy(name->address, "127.0.1.1");
    name->loopback = true;
    name->given.control_port = 20004;
    assert_cause("name-loopback", "is 127.0.1.1 here", "/etc/hosts");
    name->loopback = false;
    strcpy(name->address, "10.77.0.9");
    add_try("10.77.0.9", 20004, ECONNREFUSED);
    assert_cause("name-shut", "10.77.0.9: Connection refused", "with port 20004");
    status.network.tries[0].error = ENETUNREACH;
    assert_cause("name-no-route", "Network is unreachable", "ip route get 10.77.0.9");
    status.network.tries[0].error = 0;
    assert_cause("name-silent", "no meshnode answers", "another program on port 20004");
    add_line("docker0", "172.17.0.1", 0xac110001);
    status.network.lines[2].managed = true;
    status.network.lines[2].used = false;
    strcpy(name->address, "172.17.0.2");
    add_try("172.17.0.2", 20004, EHOSTUNREACH);
    assert_cause("name-bridge", "172.17.0.2", "docker0 is the network of containers");
}

TEST(names_that_mean_this_machine_or_answer)
{
    home_with_another();
    add_name("10.77.0.1", "10.77.0.1"); /* this node itself */
    add_name("pc2", "10.77.0.2")->answers = true;
    add_contact("127.0.0.1", "pc1")->at.control_port = 20002;
    add_name("pc1", "127.0.1.1")->given.control_port = 20002; /* its neighbour */
    status.network.names[2].loopback = true;
    assert_sound();
}

TEST(refusals)
{
    add_beacon(NETWORK_OURS, "10.77.0.2", 2);
    struct core_contact *contact = add_contact("10.77.0.2", "pc2");
    contact->refused = PROTO_REFUSE_FULL;
    assert_cause("full", "full with 64 nodes", "--set mesh.group=NAME");
    contact->refused = PROTO_REFUSE_EXPELLED;
    assert_cause("refused", "pc2 (10.77.0.2:20000) refuses this node", "same program");
}

TEST(an_identity_that_is_there_twice)
{
    home_with_another();
    add_contact("10.77.0.3", "pc3")->hello.identity = 5;
    assert_sound();
    status.core.contacts[0].hello.identity = 5;
    assert_cause("same-identity", "pc2 (10.77.0.2:20000) and pc3 (10.77.0.3:20000)", "identity");
    status.core.contacts[0].heard = false; /* it was started again elsewhere */
    assert_sound();
}

TEST(who_had_no_cpu_blames_nobody)
{
    home_with_another();
    status.core.contacts[0].linked = status.core.contacts[0].greeted = false;
    add_try("10.77.0.2", 20000, ETIMEDOUT);
    assert_cause("tcp-shut-there", "10.77.0.2", "firewall");
    status.network.starved = true;
    assert_cause("busy", "hardly got a CPU", "load");
    status.core.contacts[0].linked = status.core.contacts[0].greeted = true;
    assert_sound();
}

TEST(two_ways_to_one_node_are_a_note)
{
    home_with_another();
    add_beacon(NETWORK_OURS, "10.78.0.2", 2);
    assert_cause("two-routes", "at 10.77.0.2 and at 10.78.0.2", "--interface");
    assert_true(found.list[0].note);
    assert_false(findings_bad(&found));
    strcpy(status.network.beacons[1].host, "127.0.0.1"); /* a node of this machine */
    assert_sound();
}

TEST(clocks)
{
    home_with_another();
    status.network.beacons[0].node.incarnation = facts.now_ns + UINT64_C(59000000000);
    assert_sound();
    status.network.beacons[0].node.incarnation = facts.now_ns + UINT64_C(90000000000);
    assert_cause("clock", "10.77.0.2 is ahead of this machine's by 90 s", "set-ntp true");
    facts.now_ns = 1000;
    assert_cause("clock", "years behind", "set-ntp true");
}

TEST(another_job_run_or_numerics)
{
    home_with_another();
    struct proto_hello *hello = &status.core.contacts[0].hello;
    hello->job_hash = 8;
    assert_cause("other-job", "its model, training or data differ", "same job on all nodes");
    facts.jobs[facts.job_count++] =
        (struct facts_job){.hash = 8, .words = "train.batch is 24 there, 48 here"};
    assert_cause("other-job", "train.batch is 24 there, 48 here", "same job on all nodes");
    facts.jobs[0].data = true;
    strcpy(facts.jobs[0].words, "b.csv has 3 bytes there, 4 here");
    assert_cause("other-data", "b.csv has 3 bytes there", "Copy the data");
    strcpy(hello->run, "large");
    assert_cause("other-run", "run.name is 'large' there, 'small' here", "same job");
    hello->wants_job = true;
    assert_sound();
    hello->wants_job = false;
    strcpy(hello->run, "small");
    hello->job_hash = 7;
    hello->numerics = 1;
    strcpy(hello->kernel, "portable sse2");
    assert_cause("other-numerics", "'portable sse2' there and 'portable avx2' here",
                 "same program");
}

TEST(two_jobs_in_one_mesh)
{
    home_with_another();
    facts.run = NULL;
    facts.numerics = 0;
    add_contact("10.77.0.3", "pc3");
    assert_sound();
    status.core.contacts[1].hello.job_hash = 8;
    strcpy(status.core.contacts[1].hello.run, "large");
    assert_cause("two-jobs", "pc2 (10.77.0.2:20000) trains 'small', and pc3", "same job");
}

TEST(what_this_machine_lacks)
{
    home_with_another();
    facts.memory = "";
    facts.descriptors = "at most 32 open files are allowed";
    assert_cause("descriptors", "32 open files", "ulimit -n");
    facts.descriptors = NULL;
    facts.memory = "needs 9 GiB";
    assert_cause("memory", "needs 9 GiB", "mesh.stages");
    facts.memory = NULL;
    facts.check = "job.yaml:3: train.bath is no key";
    assert_cause("check", "train.bath", "meshnode check");
    facts.check = NULL;
    facts.out = "runs: read-only";
    assert_cause("out", "read-only", "--out DIR");
    facts.out = NULL;
    facts.cache = "cache: full";
    assert_cause("cache", "full", "--cache DIR");
}

TEST(many_of_a_cause_are_cut_and_each_is_said_once)
{
    struct findings_said said = {.count = 0};
    for (uint64_t id = 1; id <= NETWORK_BEACONS_MAX; id++)
        add_beacon(NETWORK_OTHER_VERSION, "10.77.0.3", id);
    findings_make(&facts, &found);
    assert_int_equal(found.count, FINDINGS_OF_CAUSE);
    assert_true(findings_news(&said, &found.list[0]));
    assert_false(findings_news(&said, &found.list[1]));
}

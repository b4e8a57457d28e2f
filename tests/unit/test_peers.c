/* Links, greetings, sessions and silence of one node, event by event. */
#include <stdio.h>

#include "mesh/core/sessions/link.h"
#include "mesh/core/sessions/peers.h"
#include "mesh/core/sessions/rendezvous.h"
#include "tests/support/lone.h"
#include "tests/support/test.h"

static unsigned
peers_heard_of(const struct lone *lone)
{
    struct core_stats stats;
    core_stats(lone->core, &stats);
    return stats.peers;
}

TEST(a_beacon_leads_to_a_link_a_hello_and_a_session)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone_found(lone, 7);
    assert_int_equal(lone->connects[7], 1);
    lone_up(lone, 7);
    assert_int_equal(lone_sent(lone, 7, PROTO_HELLO)->msg.hello.answers, 0);
    assert_int_equal(peers_heard_of(lone), 0);
    lone_hello(lone, 7, true);
    assert_int_equal(peers_heard_of(lone), 1);
    assert_int_equal(lone_sent_count(lone, 7, PROTO_HELLO), 1);
    assert_non_null(lone_sent(lone, 7, PROTO_HEARTBEAT));
}

TEST(a_hello_from_nowhere_is_answered_over_a_link_of_ours)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone_hello(lone, 7, false);
    lone_up(lone, 7);
    assert_int_equal(lone_sent(lone, 7, PROTO_HELLO)->msg.hello.answers, 907);
    assert_int_equal(peers_heard_of(lone), 0);
    lone_hello(lone, 7, true);
    assert_int_equal(peers_heard_of(lone), 1);
    assert_int_equal(lone_sent_count(lone, 7, PROTO_HELLO), 1);
    lone_hello(lone, 7, false); /* it lost its session */
    assert_int_equal(lone_sent_count(lone, 7, PROTO_HELLO), 2);
    assert_int_equal(lone_sent(lone, 7, PROTO_HELLO)->msg.hello.asks, 0);
    assert_int_equal(peers_heard_of(lone), 1);
}

/* A container that took the address of another one, which comes back with a new address. */
TEST(a_link_that_leads_to_another_node_is_not_taken_for_its)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    struct proto_endpoint former = {"10.0.0.9", 20009};
    core_on_found(lone->core, lone->now, &former, lone_node(lone, 7));
    lone_up(lone, 9); /* there is somebody, who does not answer for node 7 */
    assert_non_null(lone_sent(lone, 9, PROTO_HELLO));
    struct proto_endpoint now = lone_endpoint(7);
    core_on_found(lone->core, lone->now, &now,
                  (struct proto_node){0, 0}); /* it came by a list, too */
    lone_run(lone, 10);
    lone_up(lone, 7);
    assert_int_equal(lone->connects[7], 1);
    lone_hello(lone, 7, true); /* it answers, but not to what was said at its former address */
    assert_int_equal(lone->connects[7], 2);
    assert_int_equal(lone_logged(lone, " joined"), 0);
    lone_up(lone, 7);
    assert_int_equal(lone_logged(lone, " joined"), 0);
    lone_hello(lone, 7, true);
    assert_int_equal(lone_logged(lone, "10.0.0.7:20007 joined, 2 nodes"), 1);
    assert_non_null(lone_sent(lone, 7, PROTO_HEARTBEAT));
    assert_null(lone_sent(lone, 9, PROTO_HEARTBEAT));
}

/* It was started again before the answer came. */
TEST(an_answer_to_a_link_of_before_the_last_start_makes_no_session)
{
    uint32_t before = 0;
    for (uint64_t incarnation = 1; incarnation <= 2; incarnation++) {
        OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .incarnation = incarnation);
        lone_found(lone, 7);
        lone_up(lone, 7);
        uint32_t asked = lone->asked[7];
        lone->asked[7] = before;
        lone_hello(lone, 7, true);
        assert_int_equal(lone_logged(lone, " joined"), 0);
        before = lone->asked[7] = asked;
        lone_hello(lone, 7, true);
        assert_int_equal(lone_logged(lone, " joined"), 1);
    }
}

/* Node 7 died; node 8, a new process, has its host and port. */
TEST(a_node_whose_endpoint_another_one_has_got_is_forgotten)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    struct proto_endpoint at = lone_endpoint(8);
    core_on_found(lone->core, lone->now, &at, lone_node(lone, 7));
    lone_up(lone, 8);
    assert_int_equal(lone_sent_count(lone, 8, PROTO_HELLO), 1);
    lone_run(lone, 10);
    lone_meet(lone, 8);
    lone_forget_sent(lone);
    lone_run_with(lone, 5000, (unsigned[]){8}, 1, 0, false);
    assert_int_equal(lone_sent_count(lone, 8, PROTO_HELLO), 0);
    assert_int_equal(lone->connects[8], 2);
}

/* Something takes our HELLO and is no node that we could talk to. */
TEST(who_never_answers_and_is_no_longer_found_is_forgotten)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone_found(lone, 7);
    lone_up(lone, 7);
    lone_run(lone, 59000);
    lone_forget_sent(lone);
    lone_run(lone, 900);
    assert_in_range(lone_sent_count(lone, 7, PROTO_HELLO), 2, 4);
    lone_run(lone, 200);
    lone_forget_sent(lone);
    lone_run(lone, 2000);
    assert_int_equal(lone_sent_count(lone, 7, PROTO_HELLO), 0);
    for (unsigned l = 0; l < WIRE_LINKS; l++)
        assert_false(lone->wire.links[l].open);
}

TEST(an_unanswered_hello_is_repeated)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone_found(lone, 7);
    lone_up(lone, 7);
    lone_run(lone, 1000);
    assert_in_range(lone_sent_count(lone, 7, PROTO_HELLO), 3, 5);
}

/* Ten thousand beacons of nodes that are none in a second. */
TEST(a_flood_of_beacons_makes_few_connections)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone_meet(lone, 7);
    uint64_t before = lone->connects[9], links_before = lone->connects[7];
    for (unsigned k = 0; k < 10000; k++) {
        struct proto_endpoint at = lone_endpoint(9);
        core_on_found(lone->core, lone->now, &at, (struct proto_node){1000 + k, 1});
        lone_down(lone, 9);
        if (k % 100 == 99)
            lone_run_with(lone, 10, (unsigned[]){7}, 1, 0, false);
    }
    assert_in_range(lone->connects[9] - before, 64,
                    2500); /* every one of 63 is tried 4 times a second and more */
    assert_int_equal(lone->connects[7], links_before);
    assert_int_equal(peers_heard_of(lone), 1);
    lone_meet(lone, 8); /* somebody real */
    assert_int_equal(peers_heard_of(lone), 2);
}

TEST(a_failed_link_is_tried_again_later_and_later)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone_found(lone, 7);
    for (int k = 0; k < 1000; k++) {
        lone_down(lone, 7);
        lone_run(lone, 10);
    }
    assert_in_range(lone->connects[7], 24, 29); /* 50, 100, 200, 400, 400 ... ms apart in 10 s */
}

TEST(seeds_are_tried_for_ever_until_their_node_is_known)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone_named(lone, 7);
    for (int k = 0; k < 12000; k++) {
        lone_run(lone, 10);
        lone_down(lone, 7);
    }
    assert_in_range(lone->connects[7], 250, 320); /* every 0.4 s in 2 minutes */
    uint64_t before = lone->connects[7];
    while (lone->connects[7] == before)
        lone_run(lone, 10);
    lone_up(lone, 7);
    lone_hello(lone, 7, true); /* ends the seed's link, opens the peer's */
    lone_up(lone, 7);
    lone_hello(lone, 7, true);
    assert_int_equal(peers_heard_of(lone), 1);
    before = lone->connects[7];
    lone_run_with(lone, 10000, (unsigned[]){7}, 1, 0, false);
    assert_int_equal(lone->connects[7], before);
}

/* It had our address, or we have its: two nodes that swapped their addresses, and know nobody else, meet by their seeds
 * alone. */
TEST(a_seed_that_leads_back_here_is_tried_rarely_and_may_lead_elsewhere_later)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone_named(lone, 5);
    for (int k = 0; k < 2000; k++) {
        uint64_t before = lone->connects[5];
        lone_run(lone, 10);
        if (lone->connects[5] == before)
            continue;
        lone_up(lone, 5);
        lone_say(lone, 5,
                 &(struct proto_msg){.type = PROTO_HELLO,
                                     .hello = lone_sent(lone, 5, PROTO_HELLO)->msg.hello});
    }
    assert_in_range(lone->connects[5], 9, 11); /* every 2 s */
    assert_int_equal(peers_heard_of(lone), 0);
    uint64_t before = lone->connects[5];
    while (lone->connects[5] == before)
        lone_run(lone, 10);
    lone_up(lone, 5);
    struct proto_msg answer = {.type = PROTO_HELLO,
                               .hello = lone_sent(lone, 5, PROTO_HELLO)->msg.hello};
    answer.hello.answers = answer.hello.asks; /* of the node that has this address now */
    answer.hello.control_port = 20007;
    lone_say(lone, 7, &answer);
    assert_int_equal(lone->connects[7], 1);
}

static void
say_hello_of(struct lone *lone, unsigned id, const char *run, uint64_t job, uint64_t numerics,
             const char *kernel)
{
    struct proto_msg msg = {.type = PROTO_HELLO,
                            .hello = {.job_hash = job,
                                      .numerics = numerics,
                                      .control_port = (uint16_t)(20000 + id),
                                      .bulk_port = 1}};
    snprintf(msg.hello.run, sizeof msg.hello.run, "%s", run);
    snprintf(msg.hello.kernel, sizeof msg.hello.kernel, "%s", kernel);
    lone_say(lone, id, &msg);
}

TEST(who_runs_something_else_is_refused_once_with_both_values)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    say_hello_of(lone, 7, "other", 1, 2, "plain");
    say_hello_of(lone, 8, "lone", 9, 2, "plain");
    say_hello_of(lone, 9, "lone", 1, 9, "fancy");
    for (unsigned id = 7; id <= 9; id++) {
        lone_up(lone, id);
        const struct lone_sent *sent = lone_sent(lone, id, PROTO_REFUSE);
        assert_non_null(sent);
        assert_int_equal(sent->msg.refuse.reason, PROTO_REFUSE_RUN + (int)(id - 7));
    }
    assert_string_equal(lone_sent(lone, 7, PROTO_REFUSE)->msg.refuse.yours, "other");
    assert_string_equal(lone_sent(lone, 7, PROTO_REFUSE)->msg.refuse.mine, "lone");
    assert_string_equal(lone_sent(lone, 9, PROTO_REFUSE)->msg.refuse.yours, "fancy");
    assert_int_equal(
        lone_logged(lone, "10.0.0.7:20007 trains another job: run.name is 'other' "
                          "there, 'lone' here. Each trains its own. This node trains alone."),
        1);
    assert_int_equal(lone_logged(lone, "computes other bits, with 'fancy' there and 'plain' here"),
                     1);
    say_hello_of(lone, 7, "other", 1, 2, "plain");
    assert_int_equal(lone_logged(lone, "Each trains its own"), 2);
    assert_int_equal(peers_heard_of(lone), 0);
    lone_run(lone, 5000);
    assert_int_equal(lone_logged(lone, "10.0.0.8:20008 trains another job: its model, training or "
                                       "data differ. Each trains its own. This node trains alone."),
                     1);
    assert_int_equal(lone_logged(lone, "Each trains its own"), 3);
    assert_int_equal(lone->connects[7], 1);
    lone->incarnation[7] = 2; /* it was told, and comes back with the right job */
    lone_meet(lone, 7);
    assert_int_equal(peers_heard_of(lone), 1);
}

TEST(who_refuses_us_is_left_alone_for_a_while)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    struct proto_msg no = {
        .type = PROTO_REFUSE,
        .refuse = {.reason = PROTO_REFUSE_RUN, .yours = "lone", .mine = "other"}};
    lone_found(lone, 7);
    lone_up(lone, 7);
    lone_say(lone, 7, &no);
    lone_say(lone, 7, &no);
    lone_named(lone, 8); /* known by its address only */
    lone_run(lone, 10);
    lone_up(lone, 8);
    lone_say(lone, 8, &no);
    assert_int_equal(lone_logged(lone, "10.0.0.7:20007 trains another job: run.name is 'other' "
                                       "there, 'lone' here"),
                     1);
    assert_int_equal(lone_logged(lone, "10.0.0.8:20008 trains another job"), 1);
    lone_run(lone, 20000);
    lone_found(lone, 7);
    assert_int_equal(lone->connects[7], 1);
    assert_int_equal(lone->connects[8], 1);
}

/* A node of another job had this address before us, and the answer to it comes late. Only who says that there is no
 * room, or that it was outvoted, can mean a node that it has a session with. */
TEST(a_refusal_that_means_another_node_does_not_end_a_session)
{
    for (unsigned reason = PROTO_REFUSE_VERSION; reason <= PROTO_REFUSE_MESH; reason++) {
        OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
        struct proto_msg no = {
            .type = PROTO_REFUSE,
            .refuse = {.reason = (uint8_t)reason, .yours = "lone", .mine = "other"}};
        bool means_us = reason == PROTO_REFUSE_FULL || reason == PROTO_REFUSE_EXPELLED;
        lone_meet(lone, 7);
        lone_say(lone, 7, &no);
        assert_int_equal(peers_heard_of(lone), means_us ? 0 : 1);
        assert_int_equal(lone_logged(lone, "trains another job"), 0);
    }
}

/* Each side needs the job of the other to say how they differ: who is refused refuses in turn, once. */
TEST(two_jobs_are_told_to_each_other)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    struct proto_msg no = {.type = PROTO_REFUSE, .refuse = {.reason = PROTO_REFUSE_JOB}};
    lone_found(lone, 7);
    lone_up(lone, 7);
    lone_say_with(lone, 7, &no, "seed: 2", 7);
    assert_int_equal(lone_logged(lone, "10.0.0.7:20007 trains another job: 'seed: 2' there, "
                                       "ours here. Each trains its own"),
                     1);
    lone_up(lone, 7);
    assert_int_equal(lone_sent_count(lone, 7, PROTO_REFUSE), 1);
    assert_int_equal(lone_sent(lone, 7, PROTO_REFUSE)->body_size, strlen("run: {name: lone}\n"));
    for (int k = 0; k < 10; k++)
        lone_say_with(lone, 7, &no, "seed: 3", 7);
    lone_up(lone, 7);
    say_hello_of(lone, 8, "lone", 9, 2, "plain");
    lone_up(lone, 8);
    assert_int_equal(lone_sent(lone, 8, PROTO_REFUSE)->body_size, strlen("run: {name: lone}\n"));
    assert_int_equal(lone_logged(lone, "trains another job"), 1); /* it may still tell */
    lone_say_with(lone, 8, &no, "seed: 4", 7);
    assert_int_equal(lone_logged(lone, "10.0.0.8:20008 trains another job: 'seed: 4' there"), 1);
    lone_say_with(lone, 8, &no, "seed: 5", 7);
    lone_run(lone, 5000);
    assert_int_equal(lone_logged(lone, "trains another job"), 2);
    assert_int_equal(lone_sent_count(lone, 7, PROTO_REFUSE), 1);
    assert_int_equal(lone->connects[8], 1);
}

TEST(who_is_refused_by_a_full_mesh_is_told_once)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    struct proto_msg no = {.type = PROTO_REFUSE,
                           .refuse = {.reason = PROTO_REFUSE_FULL, .mine = "64 nodes"}};
    for (unsigned id = 7; id < 20; id++) {
        lone_hello(lone, id, false);
        lone_up(lone, id);
        lone_say(lone, id, &no);
    }
    assert_int_equal(peers_heard_of(lone), 0);
    assert_int_equal(
        lone_logged(lone, "does not take this node in: the mesh is full with 64 nodes"), 1);
}

TEST(two_meshes_that_meet_refuse_each_other_by_name)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    struct proto_msg msg = {.type = PROTO_HELLO,
                            .hello = {.mesh = "attic",
                                      .run = "lone",
                                      .job_hash = 1,
                                      .numerics = 2,
                                      .kernel = "plain",
                                      .control_port = 20007,
                                      .bulk_port = 30007}};
    lone_say(lone, 7, &msg);
    lone_up(lone, 7);
    const struct lone_sent *sent = lone_sent(lone, 7, PROTO_REFUSE);
    assert_non_null(sent);
    assert_int_equal(sent->msg.refuse.reason, PROTO_REFUSE_MESH);
    assert_string_equal(sent->msg.refuse.yours, "attic");
    assert_string_equal(sent->msg.refuse.mine, "");
    assert_int_equal(
        lone_logged(lone, "belongs to another mesh: mesh.group is 'attic' there, '' here"), 1);
    struct proto_msg no = {.type = PROTO_REFUSE, .refuse = sent->msg.refuse};
    lone_hello(lone, 8, false);
    lone_up(lone, 8);
    lone_say(lone, 8, &no); /* the other way round: as it says it of itself */
    assert_int_equal(
        lone_logged(lone,
                    "10.0.0.8:20008 belongs to another mesh: mesh.group is '' there, 'attic' here"),
        1);
    msg.hello.wants_job = true;
    msg.hello.run[0] = 0;
    msg.hello.job_hash = 0;
    lone_say(lone, 9, &msg);
    assert_int_equal(peers_heard_of(lone), 0);
}

TEST(a_restart_replaces_the_former_self)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone->incarnation[7] = 3;
    lone_meet(lone, 7);
    lone->incarnation[7] = 2; /* a late message of the one before */
    lone_hello(lone, 7, false);
    lone_beat(lone, 7, 9, true);
    assert_int_equal(peers_heard_of(lone), 1);
    assert_int_equal(lone->connects[7], 1);
    lone->incarnation[7] = 4;
    lone_beat(lone, 7, 9, true); /* no session yet: says nothing */
    lone_found(lone, 7);         /* a beacon alone evicts nobody */
    assert_int_equal(peers_heard_of(lone), 1);
    lone_hello(lone, 7, false);
    assert_int_equal(peers_heard_of(lone), 0);
    lone_up(lone, 7);
    lone_hello(lone, 7, true);
    assert_int_equal(peers_heard_of(lone), 1);
    assert_int_equal(lone_logged(lone, "restarted"), 1);
}

TEST(silence_makes_suspect_and_then_ends_the_session)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone_meet(lone, 7);
    lone_run(lone, CORE_SUSPECT_US / 1000);
    assert_int_equal(peers_heard_of(lone), 1);
    lone_run(lone, 10);
    assert_int_equal(peers_heard_of(lone), 0);
    lone_beat(lone, 7, 0, false);
    assert_int_equal(peers_heard_of(lone), 1);
    lone_run(lone, CORE_FORGET_US / 1000 + 10);
    assert_int_equal(
        lone_logged(lone, "10.0.0.7:20007 does not answer: going on without it, 1 node"), 1);
    lone_run(lone, 100);
    assert_int_equal(lone->connects[7], 2);
}

TEST(who_was_asleep_itself_suspects_nobody)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone_meet(lone, 7);
    lone_run(lone, 100);
    lone->now += 5000000; /* paused */
    lone_run(lone, 100);
    assert_int_equal(peers_heard_of(lone), 1);
    for (int k = 0; k < 20; k++) { /* so starved that it runs once in 200 ms */
        lone->now += 200000;
        core_on_tick(lone->core, lone->now);
        if (k % 3 == 0)
            lone_beat(lone, 7, 0, false);
        assert_int_equal(peers_heard_of(lone), 1);
    }
}

/* Ticks so far apart for `us`. */
static void
run_late(struct lone *lone, uint64_t us, uint64_t gap_us)
{
    for (uint64_t end = lone->now + us; lone->now < end;) {
        lone->now += gap_us;
        core_on_tick(lone->core, lone->now);
    }
}

TEST(who_is_late_itself_gives_the_others_as_much_longer)
{
    static const struct {
        uint64_t gap_us, times; /* as long */
    } cases[] = {{10000, 1}, {12000, 1}, {24000, 2}, {60000, 5}, {96000, 8}, {160000, 8}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
        lone_meet(lone, 7);
        uint64_t patience_us = cases[k].times * CORE_SUSPECT_US, gap_us = cases[k].gap_us;
        run_late(lone, patience_us - 2 * gap_us, gap_us);
        assert_int_equal(peers_heard_of(lone), 1);
        run_late(lone, 4 * gap_us, gap_us);
        assert_int_equal(peers_heard_of(lone), 0);
    }
}

TEST(what_was_late_once_counts_no_longer_when_it_is_over)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone_meet(lone, 7);
    run_late(lone, 400000, 80000);
    lone_beat(lone, 7, 0, false);
    lone_run(lone, CORE_SUSPECT_US / 1000 + 10);
    assert_int_equal(peers_heard_of(lone), 0);
}

TEST(most_of_the_mesh_is_suspected_later_but_in_bounded_time)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    const unsigned ids[] = {7, 8, 9};
    for (int k = 0; k < 3; k++)
        lone_meet(lone, ids[k]);
    lone_run_with(lone, 200, ids, 3, 0, false);
    lone_run(lone, CORE_SPLIT_US / 1000 - 60); /* since 50 ms before */
    assert_int_equal(peers_heard_of(lone), 3);
    lone_run(lone, 30);
    assert_int_equal(peers_heard_of(lone), 0);
}

TEST(half_of_the_mesh_is_suspected_at_once)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    const unsigned ids[] = {7, 8, 9};
    for (int k = 0; k < 3; k++)
        lone_meet(lone, ids[k]);
    lone_run_with(lone, CORE_SUSPECT_US / 1000 + 50, ids, 1, 0, false);
    assert_int_equal(peers_heard_of(lone), 1);
}

TEST(the_65th_node_is_too_much)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 79);
    for (unsigned id = 1; id <= PEERS_MAX; id++)
        lone_meet(lone, id);
    assert_int_equal(peers_heard_of(lone), PEERS_MAX);
    lone_hello(lone, PEERS_MAX + 1, false);
    lone_hello(lone, PEERS_MAX + 2, false); /* is told after the first */
    assert_int_equal(lone->connects[PEERS_MAX + 2], 0);
    lone_up(lone, PEERS_MAX + 1);
    const struct lone_sent *sent = lone_sent(lone, PEERS_MAX + 1, PROTO_REFUSE);
    assert_non_null(sent);
    assert_int_equal(sent->msg.refuse.reason, PROTO_REFUSE_FULL);
    assert_string_equal(sent->msg.refuse.mine, "64 nodes");
    assert_int_equal(lone_logged(lone, "is not taken in: the mesh is full with 64 nodes"), 1);
    for (unsigned ms = 0; ms < LINK_CONNECT_US / 1000 + 20; ms += 100) {
        for (unsigned id = 1; id <= PEERS_MAX; id++)
            lone_beat(lone, id, 0, false);
        lone_run(lone, 100);
    }
    assert_int_equal(peers_heard_of(lone), PEERS_MAX);
    lone_hello(lone, PEERS_MAX + 2, false);
    lone_up(lone, PEERS_MAX + 2);
    assert_non_null(lone_sent(lone, PEERS_MAX + 2, PROTO_REFUSE));
    lone_down(lone, PEERS_MAX + 2);
    assert_int_equal(lone_logged(lone, "the mesh is full"), 1);
    lone_say(lone, 3, &(struct proto_msg){.type = PROTO_BYE});
    lone_meet(lone, PEERS_MAX + 1);
    assert_int_equal(peers_heard_of(lone), PEERS_MAX);
}

TEST(who_only_looks_takes_no_place_of_64)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 79);
    for (unsigned id = 2; id <= PEERS_MAX; id++)
        lone_meet(lone, id);
    struct proto_msg looks = {
        .type = PROTO_HELLO,
        .hello = {.wants_job = true, .control_port = 20001, .bulk_port = 30001}};
    lone_say(lone, 1, &looks);
    lone_up(lone, 1);
    looks.hello.answers = lone->asked[1];
    lone_say(lone, 1, &looks);
    assert_true(peers_find(lone->core, lone_node(lone, 1)) >= 0);
    lone_meet(lone, PEERS_MAX + 1);
    assert_int_equal(peers_heard_of(lone), PEERS_MAX);
    assert_int_equal(peers_find(lone->core, lone_node(lone, 1)), -1);
    assert_true(peers_find(lone->core, lone_node(lone, PEERS_MAX + 1)) >= 0);
    looks.hello.answers = 0;
    lone_say(lone, 1, &looks);
    lone_up(lone, 1);
    assert_int_equal(lone_sent(lone, 1, PROTO_REFUSE)->msg.refuse.reason, PROTO_REFUSE_FULL);
    assert_int_equal(peers_heard_of(lone), PEERS_MAX);
}

static void
all_beat(struct lone *lone)
{
    for (unsigned id = 2; id <= PEERS_MAX; id++)
        lone_beat(lone, id, 0, true);
    lone_run(lone, 20);
}

TEST(who_only_looks_at_a_full_mesh_changes_nothing_there)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 1, .peers_min = PEERS_MAX);
    for (unsigned id = 2; id <= PEERS_MAX; id++)
        lone_meet(lone, id);
    for (unsigned k = 0; k < 100 && !lone_sent(lone, 2, PROTO_PLAN); k++)
        all_beat(lone);
    assert_non_null(lone_sent(lone, 2, PROTO_PLAN));
    for (unsigned looks = PEERS_MAX + 1; looks < PEERS_MAX + 9; looks++) {
        struct proto_msg hello = {
            .type = PROTO_HELLO,
            .hello = {.wants_job = true, .control_port = 20001, .bulk_port = 30001}};
        lone->sent_count = 0;
        lone_say(lone, looks, &hello);
        lone_up(lone, looks);
        hello.hello.answers = lone->asked[looks];
        lone_say(lone, looks, &hello);
        all_beat(lone);
        lone_down(lone, looks);
        all_beat(lone);
        for (unsigned id = 2; id <= PEERS_MAX; id++) {
            assert_true(peers_find(lone->core, lone_node(lone, id)) >= 0);
            assert_null(lone_sent(lone, id, PROTO_REFUSE));
            assert_null(lone_sent(lone, id, PROTO_PLAN));
        }
    }
}

/* Node 8 answers and asks. Its session begins with our answer: it drops what comes before that. */
TEST(an_answer_comes_before_the_list_of_peers)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone_meet(lone, 7);
    lone_found(lone, 8);
    lone_up(lone, 8);
    struct proto_msg msg = {.type = PROTO_HELLO,
                            .hello = {.run = "lone",
                                      .job_hash = 1,
                                      .numerics = 2,
                                      .kernel = "plain",
                                      .control_port = 20008,
                                      .bulk_port = 30008,
                                      .asks = 908,
                                      .answers = lone->asked[8]}};
    lone_say(lone, 8, &msg);
    assert_int_equal(lone_sent(lone, 8, PROTO_HELLO)->msg.hello.answers, 908);
    assert_non_null(lone_sent(lone, 8, PROTO_PEERS));
    assert_true(lone_sent(lone, 8, PROTO_HELLO) < lone_sent(lone, 8, PROTO_PEERS));
}

/* The one that started later is the copy. */
TEST(a_node_learns_that_its_identity_is_anothers)
{
    static const struct {
        uint64_t ours, theirs, started;
        unsigned twins;
    } cases[] = {{9, 9, 1, 1}, {9, 9, 3, 0}, {9, 8, 1, 0}, {0, 0, 1, 0}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        OWNED(lone_destroy)
        struct lone *lone = LONE(.id = 5, .incarnation = 2, .identity = cases[k].ours);
        struct proto_msg msg = {.type = PROTO_HELLO,
                                .hello = {.run = "lone",
                                          .job_hash = 1,
                                          .identity = cases[k].theirs,
                                          .numerics = 2,
                                          .kernel = "plain",
                                          .control_port = 20007,
                                          .bulk_port = 30007}};
        lone->incarnation[7] = cases[k].started;
        lone_say(lone, 7, &msg);
        assert_int_equal(lone->twins, cases[k].twins);
    }
}

TEST(peers_tell_one_another_whom_they_know)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    lone_meet(lone, 7);
    lone_meet(lone, 8);
    assert_int_equal(lone_sent(lone, 8, PROTO_PEERS)->msg.peers.count, 1);
    struct proto_endpoint known[2] = {lone_endpoint(9), lone_endpoint(8)};
    lone_say(lone, 7,
             &(struct proto_msg){.type = PROTO_PEERS, .peers = {.count = 2, .endpoints = known}});
    lone_run(lone, 20);
    assert_int_equal(lone->connects[9], 1);
    assert_int_equal(lone->connects[8], 1);
    for (int k = 0; k < 2000; k++) { /* nobody is there: given up, as only hearsay */
        lone_down(lone, 9);
        lone_beat(lone, 7, 0, false);
        lone_beat(lone, 8, 0, false);
        lone_run(lone, 10);
    }
    assert_int_equal(lone->connects[9], RENDEZVOUS_TRIES);
}

TEST(who_wants_a_job_gets_its_text_and_is_no_peer)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    struct proto_msg msg = {
        .type = PROTO_HELLO,
        .hello = {.wants_job = true, .control_port = 20007, .bulk_port = 30007}};
    lone_say(lone, 7, &msg);
    lone_up(lone, 7);
    msg.hello.answers = lone->asked[7];
    lone_say(lone, 7, &msg);
    lone_say(lone, 7, &(struct proto_msg){.type = PROTO_JOB});
    assert_int_equal(lone_sent(lone, 7, PROTO_JOB)->body_size, strlen("run: {name: lone}\n"));
    assert_int_equal(peers_heard_of(lone), 0);
    lone_beat(lone, 7, 99, true);
    lone_run(lone, 1000);
    assert_int_equal(peers_heard_of(lone), 0);
    assert_null(lone_sent(lone, 7, PROTO_PLAN));
}

TEST(a_node_without_a_job_asks_the_first_peer)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5, .wants_job = true);
    lone_found(lone, 7);
    lone_up(lone, 7);
    lone_hello(lone, 7, true);
    assert_int_equal(lone_sent(lone, 7, PROTO_JOB)->body_size, 0);
    lone_forget_sent(lone);
    lone_run(lone, 2 * CORE_IDLE_US / 1000);
    assert_in_range(lone_sent_count(lone, 7, PROTO_JOB), 1, 3); /* the answer may have been lost */
    struct proto_msg job = {.type = PROTO_JOB};
    core_on_message(lone->core, lone->now, lone_node(lone, 7), "10.0.0.7", &job, "text", 4);
    assert_string_equal(lone->job, "text");
}

/* Whoever says goodbye is named, though its slot is free by the time the parts hear of it. */
TEST(who_says_goodbye_has_left_or_has_finished)
{
    OWNED(lone_destroy) struct lone *lone = LONE(.id = 5);
    struct proto_msg beat = {.type = PROTO_HEARTBEAT, .heartbeat = {.done = true}};
    struct proto_msg bye = {.type = PROTO_BYE};
    lone_meet(lone, 7);
    lone_meet(lone, 8);
    lone_meet(lone, 9);
    lone_say(lone, 9, &(struct proto_msg){.type = PROTO_BYE, .bye.done = true});
    assert_int_equal(lone_logged(lone, "10.0.0.9:20009 has finished, 3 nodes"), 1);
    lone_say(lone, 7, &beat);
    lone_say(lone, 7, &bye);
    lone_say(lone, 8, &bye);
    assert_int_equal(lone_logged(lone, "10.0.0.7:20007 has finished, 2 nodes"), 1);
    assert_int_equal(lone_logged(lone, "10.0.0.8:20008 left, 1 node"), 1);
}

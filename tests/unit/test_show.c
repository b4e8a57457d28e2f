/* test_show.c - the live line of a run, field by field. */
#include "node/cli/show.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SECOND = 1000000 };

static struct metrics_step
step_of(uint64_t step)
{
    return (struct metrics_step){.step = step,
                                 .steps_total = 1920,
                                 .loss = 9.2644,
                                 .accuracy = 0.0833,
                                 .peers = 3,
                                 .samples = 384,
                                 .mesh_steps = 1,
                                 .mesh_samples = 384,
                                 .tx_bytes = 1950,
                                 .rx_bytes = 99999};
}

static void
shows(const struct show *show, const char *expected)
{
    char line[TERM_LINE_MAX];
    show_line(show, line, sizeof line);
    assert_string_equal(line, expected);
}

static void
begin(struct show *show)
{
    show_init(show, true);
    shows(show, "");
}

static void
a_step_has_its_fields_the_most_wanted_first(void **state)
{
    struct show show;
    (void)state;
    begin(&show);
    for (uint64_t k = 1; k <= 2; k++) {
        struct metrics_step step = step_of(k);
        show_step(&show, &step, k * SECOND / 2);
    }
    shows(&show, "step 2/1920  loss 9.264  accuracy 8.3 %  3 nodes  15:59 left  768 samples/s  "
                 "sent 3.9 kB/s  epoch 1");
    struct metrics_step one = step_of(3);
    one.peers = 1;
    one.accuracy = -1;
    show_step(&show, &one, 3 * SECOND / 2);
    shows(&show, "step 3/1920  loss 9.264  1 node  15:59 left  768 samples/s  sent 3.9 kB/s  "
                 "epoch 1");
}

static void
nodes_that_are_heard_and_not_reached_are_counted(void **state)
{
    struct show show;
    struct metrics_step step = step_of(1);
    (void)state;
    begin(&show);
    step.unreached = 2;
    show_step(&show, &step, SECOND);
    shows(&show, "step 1/1920  loss 9.264  accuracy 8.3 %  3 nodes  2 heard, not reached  epoch 1");
}

static void
servers_are_counted_and_a_server_says_what_it_sums(void **state)
{
    struct show show;
    struct metrics_step step = step_of(1);
    (void)state;
    begin(&show);
    step.servers = 1;
    show_step(&show, &step, SECOND);
    shows(&show, "step 1/1920  loss 9.264  accuracy 8.3 %  3 nodes  1 server  epoch 1");
    step.servers = 2;
    step.served_bytes = 1234567;
    show_step(&show, &step, SECOND);
    show.seconds = 0;
    shows(&show,
          "step 1/1920  loss 9.264  accuracy 8.3 %  3 nodes  2 servers, this one sums 1.2 MB  "
          "epoch 1");
}

static void
a_node_of_a_pipeline_says_its_stages_and_how_busy_it_is(void **state)
{
    struct show show;
    struct metrics_step step = step_of(1);
    (void)state;
    begin(&show);
    step.shards = 0xf;
    step.pipeline = (struct core_pipeline){.stages = 3, .computes = 0x6, .sent = 1234567};
    step.times = (struct recording_times){1000000, 600000, 300000};
    show_step(&show, &step, SECOND);
    shows(&show, "step 1/1920  loss 9.264  accuracy 8.3 %  3 nodes  stage 1, 2 of 3: busy 60 %, "
                 "waits 30 %, sends 1.2 MB, idle 40 % (formula 33 %)  epoch 1");
    step.pipeline.computes = 0; /* it watches */
    step.holders = "0 a; 1 b, c; 2 b, c";
    show_step(&show, &step, SECOND);
    show.seconds = 0;
    step.holders = NULL; /* it was borrowed */
    shows(&show, "step 1/1920  loss 9.264  accuracy 8.3 %  3 nodes  epoch 1  stages 0 a; 1 b, c; "
                 "2 b, c");
}

static void
a_first_step_tells_no_rate(void **state)
{
    struct show show;
    struct metrics_step step = step_of(1);
    (void)state;
    begin(&show);
    step.wait_s = 60; /* for others */
    show_step(&show, &step, 61 * SECOND);
    shows(&show, "step 1/1920  loss 9.264  accuracy 8.3 %  3 nodes  epoch 1");
}

/* Servers that do not wait: a node has a line for each of its tickets, some of a step. The others make steps, too. */
static void
rates_are_those_of_the_mesh(void **state)
{
    struct show show;
    (void)state;
    begin(&show);
    for (uint64_t k = 0; k < 200; k++) {
        struct metrics_step step = step_of(1 + k / 2);
        step.samples = 64;
        step.mesh_steps = k > 0 ? 0.5 : (double)NAN;
        step.mesh_samples = 384 * step.mesh_steps;
        show_step(&show, &step, k * SECOND);
    }
    shows(&show, "step 100/1920  loss 9.264  accuracy 8.3 %  3 nodes  1:00:40 left  192 samples/s  "
                 "sent 1.9 kB/s  epoch 1");
}

static void
a_distance_is_a_share_of_the_weights(void **state)
{
    struct show show;
    struct metrics_step step = step_of(1);
    (void)state;
    begin(&show);
    step.distance = 0.0123;
    show_step(&show, &step, SECOND);
    shows(&show, "step 1/1920  loss 9.264  accuracy 8.3 %  3 nodes  distance 1.2 %  epoch 1");
}

/* They come as fast as they can be read: nothing follows of how fast steps are made. */
static void
steps_of_others_tell_no_rate_and_no_nodes(void **state)
{
    struct show show;
    (void)state;
    begin(&show);
    uint64_t now = SECOND;
    for (uint64_t k = 1; k <= 900; k++) {
        struct metrics_step step = step_of(k);
        step.followed = true;
        step.plan = 0;
        show_step(&show, &step, now += 1000);
    }
    shows(&show, "step 900/1920  loss 9.264  accuracy 8.3 %  epoch 1");
    show_doing(&show, "catching up", now);
    shows(&show, "step 900/1920  catching up  loss 9.264  accuracy 8.3 %  epoch 1");
    for (uint64_t k = 901; k <= 902; k++) {
        struct metrics_step step = step_of(k);
        show_step(&show, &step, now += SECOND);
    }
    shows(&show, "step 902/1920  loss 9.264  accuracy 8.3 %  3 nodes  16:58 left  384 samples/s  "
                 "sent 1.9 kB/s  epoch 1");
}

static void
an_evaluation_is_shown_and_is_not_a_slow_step(void **state)
{
    struct show show;
    struct metrics_step step;
    (void)state;
    begin(&show);
    for (uint64_t k = 1; k <= 2; k++) {
        step = step_of(k);
        show_step(&show, &step, k * SECOND);
    }
    show_doing(&show, "evaluating 400/2000", 20 * SECOND);
    shows(&show, "step 2/1920  evaluating 400/2000  loss 9.264  accuracy 8.3 %  3 nodes  epoch 1");
    step.samples = 0;
    step.evaluated = true;
    show_step(&show, &step, 30 * SECOND);
    step = step_of(3);
    show_step(&show, &step, 31 * SECOND);
    shows(&show, "step 3/1920  loss 9.264  accuracy 8.3 %  3 nodes  31:57 left  384 samples/s  "
                 "sent 1.9 kB/s  epoch 1");
}

static void
before_the_first_step_it_tells_what_it_does(void **state)
{
    struct show show;
    (void)state;
    begin(&show);
    show_doing(&show, "waiting for 3 nodes: 2 are here", SECOND);
    shows(&show, "waiting for 3 nodes: 2 are here");
    show_doing(&show, NULL, SECOND);
    shows(&show, "");
}

static void
what_is_wrong_stands_behind_the_step(void **state)
{
    struct show show;
    struct metrics_step step = step_of(7);
    (void)state;
    begin(&show);
    show_alarm(&show, "no checkpoint for 2:00");
    show_step(&show, &step, SECOND);
    shows(&show, "step 7/1920  no checkpoint for 2:00  loss 9.264  accuracy 8.3 %  3 nodes  "
                 "epoch 1");
}

static void
a_short_buffer_is_not_overrun(void **state)
{
    struct show show;
    struct metrics_step step = step_of(7);
    char line[32];
    (void)state;
    begin(&show);
    show_step(&show, &step, SECOND);
    for (size_t size = 1; size <= sizeof line; size++) {
        memset(line, 'x', sizeof line);
        show_line(&show, line, size);
        assert_true(strlen(line) < size);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_has_its_fields_the_most_wanted_first),
        cmocka_unit_test(nodes_that_are_heard_and_not_reached_are_counted),
        cmocka_unit_test(servers_are_counted_and_a_server_says_what_it_sums),
        cmocka_unit_test(a_node_of_a_pipeline_says_its_stages_and_how_busy_it_is),
        cmocka_unit_test(a_first_step_tells_no_rate),
        cmocka_unit_test(rates_are_those_of_the_mesh),
        cmocka_unit_test(a_distance_is_a_share_of_the_weights),
        cmocka_unit_test(steps_of_others_tell_no_rate_and_no_nodes),
        cmocka_unit_test(an_evaluation_is_shown_and_is_not_a_slow_step),
        cmocka_unit_test(before_the_first_step_it_tells_what_it_does),
        cmocka_unit_test(what_is_wrong_stands_behind_the_step),
        cmocka_unit_test(a_short_buffer_is_not_overrun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

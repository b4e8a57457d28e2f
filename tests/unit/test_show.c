/* test_show.c - the live line of a run, field by field. */
#include "node/results/show.h"

#include <math.h>
#include <stdio.h>

#include "tests/support/test.h"

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
shows_on_80_columns(const struct show *show, const char *expected)
{
    char line[TERM_LINE_MAX];
    show_line(show, line, sizeof line);
    line[term_fit(line, 79)] = '\0';
    assert_string_equal(line, expected);
}

TEST(a_step_has_its_fields_the_most_wanted_first)
{
    struct show show;
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

TEST(nodes_that_are_heard_and_not_reached_are_counted)
{
    struct show show;
    struct metrics_step step = step_of(1);
    begin(&show);
    step.unreached = 2;
    show_step(&show, &step, SECOND);
    shows(&show, "step 1/1920  loss 9.264  accuracy 8.3 %  3 nodes  2 heard, not reached  epoch 1");
}

TEST(servers_are_counted_and_a_server_says_what_it_sums)
{
    struct show show;
    struct metrics_step step = step_of(1);
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

TEST(a_node_of_a_pipeline_says_its_stages_and_how_busy_it_is)
{
    struct show show;
    struct metrics_step step = step_of(1);
    begin(&show);
    step.shards = 0xf;
    step.pipeline = (struct core_pipeline){.stages = 3, .computes = 0x6, .sent = 1234567};
    step.times = (struct recording_times){1000000, 600000, 300000};
    show_step(&show, &step, SECOND);
    shows(&show, "step 1/1920  loss 9.264  stage 2, 3 of 3, busy 60 %  accuracy 8.3 %  3 nodes  "
                 "waits 30 %, idle 40 % (formula 33 %), hands on 1.2 MB  epoch 1");
    step.step = 2;
    show_step(&show, &step, 5 * SECOND / 2);
    shows_on_80_columns(&show, "step 2/1920  loss 9.264  47:57 left  stage 2, 3 of 3, busy 60 %  "
                               "accuracy 8.3 %");
    step.pipeline.computes = 0; /* it watches */
    step.holders = "1 a; 2 b, c; 3 b, c";
    show_step(&show, &step, SECOND);
    show.seconds = 0;
    step.holders = NULL; /* it was borrowed */
    shows(&show, "step 2/1920  loss 9.264  accuracy 8.3 %  3 nodes  epoch 1  stages 1 a; 2 b, c; "
                 "3 b, c");
}

TEST(a_first_step_tells_no_rate)
{
    struct show show;
    struct metrics_step step = step_of(1);
    begin(&show);
    step.wait_s = 60; /* for others */
    show_step(&show, &step, 61 * SECOND);
    shows(&show, "step 1/1920  loss 9.264  accuracy 8.3 %  3 nodes  epoch 1");
}

/* Gossip: a node has a line for each of its own steps. The others make steps, too. */
TEST(rates_are_those_of_the_mesh)
{
    struct show show;
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

TEST(a_distance_is_a_share_of_the_weights)
{
    struct show show;
    struct metrics_step step = step_of(1);
    begin(&show);
    step.distance = 0.0123;
    show_step(&show, &step, SECOND);
    shows(&show, "step 1/1920  loss 9.264  accuracy 8.3 %  3 nodes  distance 1.2 %  epoch 1");
}

/* They come as fast as they can be read: nothing follows of how fast steps are made. */
TEST(steps_of_others_tell_no_rate_and_no_nodes)
{
    struct show show;
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

/* It waited for others, or copied the state, after a step of its own. */
TEST(time_in_which_it_did_something_else_is_no_slow_step)
{
    struct show show;
    begin(&show);
    for (uint64_t k = 1; k <= 3; k++) {
        struct metrics_step step = step_of(k);
        if (k == 3)
            show_doing(&show, "catching up", 30 * SECOND);
        show_step(&show, &step, (k < 3 ? k : 60) * SECOND);
    }
    shows(&show, "step 3/1920  loss 9.264  accuracy 8.3 %  3 nodes  31:57 left  384 samples/s  "
                 "sent 1.9 kB/s  epoch 1");
}

/* Steps of a millisecond: the rate is that of the last seconds, so that all nodes of a mesh show the same. */
TEST(rates_of_short_steps_are_those_of_seconds)
{
    struct show show;
    uint64_t now = SECOND;
    begin(&show);
    for (uint64_t k = 1; k <= 20000; k++) {
        struct metrics_step step = step_of(k);
        now += k % 40 < 20 ? 500 : 1500; /* twenty of them are far from the mean */
        show_step(&show, &step, now);
    }
    assert_true(fabs(show.seconds / show.steps - 1e-3) < 2e-5);
}

static unsigned
lines_of(FILE *file)
{
    char line[TERM_LINE_MAX];
    unsigned count = 0;
    rewind(file);
    while (fgets(line, sizeof line, file))
        count += strncmp(line, "step ", 5) == 0 && strstr(line, ": test loss");
    return count;
}

TEST(test_figures_are_shown_once_a_second_and_at_the_end)
{
    struct show show;
    FILE *file = tmpfile();
    begin(&show);
    show.quiet = false;
    show.out.fd = fileno(file);
    for (uint64_t k = 1; k <= 46; k++) {
        struct metrics_step step = step_of(k);
        step.steps_total = 46;
        step.evaluated = true;
        show_step(&show, &step, SECOND + k * SECOND / 46);
    }
    assert_int_equal(lines_of(file), 2);
    fclose(file);
}

TEST(an_evaluation_is_shown_and_is_not_a_slow_step)
{
    struct show show;
    struct metrics_step step;
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

TEST(before_the_first_step_it_tells_what_it_does)
{
    struct show show;
    begin(&show);
    show_doing(&show, "waiting for 3 nodes: 2 are here", SECOND);
    shows(&show, "waiting for 3 nodes: 2 are here");
    show_doing(&show, NULL, SECOND);
    shows(&show, "");
}

TEST(what_is_wrong_stands_behind_the_step)
{
    struct show show;
    struct metrics_step step = step_of(7);
    begin(&show);
    show_alarm(&show, "no checkpoint for 2:00");
    show_step(&show, &step, SECOND);
    shows(&show, "step 7/1920  no checkpoint for 2:00  loss 9.264  accuracy 8.3 %  3 nodes  "
                 "epoch 1");
}

TEST(a_short_buffer_is_not_overrun)
{
    struct show show;
    struct metrics_step step = step_of(7);
    char line[32];
    begin(&show);
    show_step(&show, &step, SECOND);
    for (size_t size = 1; size <= sizeof line; size++) {
        memset(line, 'x', sizeof line);
        show_line(&show, line, size);
        assert_true(strlen(line) < size);
    }
}

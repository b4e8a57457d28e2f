/* test_scenario.c - scenarios as people write them, right and wrong, and the lines that harnesses read. */
#include "tests/support/scenario.h"
#include "tests/support/test.h"

/* The expansion of `text` as lines separated by `;`, or the error. */
static int
lines_of(const char *text, uint64_t seed, char *out, size_t size)
{
    struct scenario *scenario;
    struct why why;
    int rc = scenario_parse(&scenario, "s.yaml", text, strlen(text), seed, &why);
    if (rc) {
        snprintf(out, size, "%s", why.line);
        return rc;
    }
    size_t length = 0;
    for (size_t k = 0; k < scenario->count && length < size; k++) {
        char line[128];
        scenario_line(&scenario->actions[k], line, sizeof line);
        length += (size_t)snprintf(out + length, size - length, "%s;", line);
    }
    snprintf(out + length, size - length, "%u %u %ju", scenario->nodes, scenario->most,
             scenario->end_ms);
    scenario_destroy(&scenario);
    return 0;
}

static const struct {
    const char *text, *lines;
} good[] = {
    {"nodes: 3", "3 3 0"},
    {"nodes: 2\nevents: [{at: 1.5, kill: 2}, {at: 2, start: 2}]",
     "1.500 kill 2;2.000 start 2;2 2 2000"},
    {"nodes: 2\nevents: [{at: 2, start: 2, fresh: yes}, {at: 1.5, kill: 2}]",
     "1.500 kill 2;2.000 start 2 fresh;2 2 2000"},
    {"nodes: 1\nevents: [{at: 2, start: 3}]", "2.000 start 3 fresh;1 3 2000"},
    {"nodes: 2\nevents: [{at: 1, kill: all}]", "1.000 kill 1;1.000 kill 2;2 2 1000"},
    {"nodes: 1\nevents: [{at: 3, pause: 1, for: 0.8}]", "3.000 pause 1;3.800 resume 1;1 1 3800"},
    {"nodes: 2\nevents: [{at: 3, pause: 1, for: 0.8}, {at: 3.1, kill: 1}]",
     "3.000 pause 1;3.100 kill 1;2 2 3800"},
    {"nodes: 3\nevents: [{at: 1, split: [[1, 2], [3]], for: 2}]",
     "1.000 cut 1 3;1.000 cut 2 3;1.000 cut 3 1;1.000 cut 3 2;3.000 mend 1 3;3.000 mend 2 3;"
     "3.000 mend 3 1;3.000 mend 3 2;3 3 3000"},
    {"nodes: 2\nevents: [{at: 1, split: [[1], [2]], for: 2}, {at: 2, cut: [1, 2], for: 3}]",
     "1.000 cut 1 2;1.000 cut 2 1;3.000 mend 2 1;5.000 mend 1 2;2 2 5000"},
    {"nodes: 2\nevents: [{at: 1, cut: [2, 1], for: 0.5, every: 1, times: 2}]",
     "1.000 cut 2 1;1.500 mend 2 1;2.000 cut 2 1;2.500 mend 2 1;2 2 2500"},
    {"nodes: 2\nevents: [{at: 1, cut: [2, 1], for: 1, every: 1, times: 2}]",
     "1.000 cut 2 1;2.000 mend 2 1;2.000 cut 2 1;3.000 mend 2 1;2 2 3000"},
    {"nodes: 2\nevents: [{at: 6, slow: 2, rate: 1mbit, for: 5}]",
     "6.000 slow 2 1000000;11.000 fast 2;2 2 11000"},
    {"nodes: 2\nevents: [{at: 7, loss: 0.05, for: 2}]", "7.000 loss 50;9.000 loss 0;2 2 9000"},
    {"nodes: 2\nevents: [{at: 8, disk_full: 1}]", "8.000 disk_full 1;2 2 8000"},
};

TEST(events_become_lines_in_the_order_of_time)
{
    for (size_t k = 0; k < sizeof good / sizeof *good; k++) {
        char lines[1024];
        if (lines_of(good[k].text, 0, lines, sizeof lines) || strcmp(lines, good[k].lines) != 0)
            fail_msg("%s\n    gives    %s\n    expected %s", good[k].text, lines, good[k].lines);
    }
}

static const struct {
    const char *text, *why;
} bad[] = {
    {"", "s.yaml:1: expected `nodes: 4`"},
    {"nodes: [", "not YAML"},
    {"[1]", "expected `nodes: 4`"},
    {"seed: 1", "expected nodes, 1..8"},
    {"nodes: 9", "s.yaml:1: nodes = 9, expected 1..8"},
    {"nodes: 0x3", "nodes = 0x3, expected 1..8"},
    {"nodes: 2\nnodes: 3", "s.yaml:2: nodes is given twice"},
    {"node: 2", "unknown key node in the file, did you mean nodes?"},
    {"nodes: 2\nway: fast",
     "s.yaml:2: way = fast, expected exact, gossip-bsp, gossip-async or push-sum"},
    {"nodes: 2\nservers: 2\nway: push-sum", "way = push-sum has no servers"},
    {"nodes: 2\nstages: 5", "stages = 5, expected 1..4"},
    {"nodes: 2\nstages: 2\nway: gossip-bsp", "way = gossip-bsp has no stages"},
    {"nodes: 2\nseed: 0", "s.yaml:2: seed = 0, expected 1.."},
    {"nodes: 2\nevents: 3", "events = 3, expected a list"},
    {"nodes: 2\nevents: [3]", "expected an event"},
    {"nodes: 2\nevents:\n- {at: 1}", "s.yaml:3: expected what happens"},
    {"nodes: 2\nevents: [{kill: 1}]", "kill: expected a time"},
    {"nodes: 2\nevents: [{at: 1, kill: 1, start: 2}]", "one thing, not kill and start"},
    {"nodes: 2\nevents: [{at: -1, kill: 1}]", "at = -1, expected seconds 0..3600"},
    {"nodes: 2\nevents: [{at: nan, kill: 1}]", "at = nan, expected seconds"},
    {"nodes: 2\nevents: [{at: 1, kil: 1}]", "unknown key kil in an event, did you mean kill?"},
    {"nodes: 2\nevents: [{at: 1, kill: nobody}]", "kill = nobody, expected 1..8"},
    {"nodes: 2\nevents: [{at: 1, kill: [1]}]", "kill = [...], expected 1..8"},
    {"nodes: 2\nevents: [{at: 1, kill: 1, for: 1}]", "kill has no duration"},
    {"nodes: 2\nevents: [{at: 1, kill: 3}]", "at 1.000: kill 3, expected a node that runs then"},
    {"nodes: 2\nevents: [{at: 1, kill: 1}, {at: 2, kill: 1}]", "at 2.000: kill 1"},
    {"nodes: 2\nevents: [{at: 1, start: 1}]", "start 1, expected a node that does not run then"},
    {"nodes: 2\nevents: [{at: 1, start: 3, fresh: maybe}]", "fresh = maybe, expected yes or no"},
    {"nodes: 2\nevents: [{at: 1, kill: 1, fresh: yes}]", "fresh is for start, not for kill"},
    {"nodes: 2\nevents: [{at: 1, pause: 1}]", "pause: expected `for: SECONDS`"},
    {"nodes: 2\nevents: [{at: 1, pause: 1, for: 0}]", "for = 0"},
    {"nodes: 2\nevents: [{at: 1, pause: 1, for: 2}, {at: 2, pause: 1, for: 2}]",
     "at 2.000: pause 1, expected that the one before is over"},
    {"nodes: 2\nevents: [{at: 1, split: [[1]]}]", "split = [...], expected two or more sides"},
    {"nodes: 2\nevents: [{at: 1, split: [1, 2]}]", "split = 1, expected sides"},
    {"nodes: 2\nevents: [{at: 1, split: [[1], [1, 2]]}]", "node 1 is on two sides"},
    {"nodes: 2\nevents: [{at: 1, cut: [1, 1]}]", "cut = [1, 1], expected two nodes"},
    {"nodes: 2\nevents: [{at: 1, cut: 1}]", "cut = 1, expected [A, B]"},
    {"nodes: 2\nevents: [{at: 1, slow: 1}]", "slow: expected `rate: 1mbit`"},
    {"nodes: 2\nevents: [{at: 1, slow: 1, rate: fast}]", "rate = fast, expected a number of kbit"},
    {"nodes: 2\nevents: [{at: 1, slow: 1, rate: 0mbit}]", "rate = 0mbit"},
    {"nodes: 2\nevents: [{at: 1, cut: [1, 2], rate: 1mbit}]", "rate is for slow"},
    {"nodes: 2\nevents: [{at: 1, loss: 2}]", "loss = 2, expected a share of 0.001..0.9"},
    {"nodes: 2\nevents: [{at: 1, cut: [1, 2], every: 1}]", "expected both every and times"},
    {"nodes: 2\nevents: [{at: 1, cut: [1, 2], for: 2, every: 1, times: 2}]", "at most `every`"},
    {"nodes: 2\nrandom: {seconds: 1, faults: 1}", "expected seconds, faults and kinds"},
    {"nodes: 2\nrandom: {kinds: [start]}", "random.kinds = start, expected kill, pause"},
    {"nodes: 2\nrandom: 5", "random = 5"},
};

TEST(what_is_wrong_is_said_with_file_line_and_key)
{
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        struct why why;
        if (lines_of(bad[k].text, 0, why.line, sizeof why.line) == 0 ||
            !strstr(why.line, bad[k].why) || strncmp(why.line, "s.yaml:", 7) != 0)
            fail_msg("%s\n    says     %s\n    expected %s", bad[k].text, why.line, bad[k].why);
    }
}

/* Each draw is checked by the expansion: nobody dies twice, nobody starts who runs. */
TEST(every_random_draw_is_a_scenario_and_the_seed_decides_it)
{
    static const char text[] = "nodes: 4\nseed: 7\nrandom: {seconds: 10, faults: 20, kinds: [kill, "
                               "pause, split, cut, slow, loss, join, power, disk_full]}";
    static char first[16384], again[16384];
    for (uint64_t seed = 1; seed <= 500; seed++) {
        assert_int_equal(lines_of(text, seed, first, sizeof first), 0);
        assert_int_equal(lines_of(text, seed, again, sizeof again), 0);
        assert_string_equal(first, again);
        assert_int_equal(lines_of(text, seed + 1, again, sizeof again), 0);
        assert_string_not_equal(first, again);
    }
    assert_int_equal(lines_of(text, 0, first, sizeof first), 0);
    assert_int_equal(lines_of(text, 7, again, sizeof again), 0);
    assert_string_equal(first, again);
}

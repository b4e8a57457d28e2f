/* test_recording.c - the pieces of a step, written and read; and lines that nobody writes. */
#include "node/results/recording.h"

#include <errno.h>
#include <stdio.h>

#include "tests/support/test.h"

enum { STAGES = 2, SHARDS = 3, BEGIN = 1000 };

static struct steptime_piece room[RECORDING_PIECES_MAX];
static struct why why;

static const struct recorded said = {
    .step = 5,
    .job = 0xab,
    .plan = 0xcd,
    .node = UINT64_MAX,
    .name = "pc\"1\\",
    .members = 2,
    .stages = STAGES,
    .end_us = BEGIN + 500,
};

static struct recording *
begin(void)
{
    struct recording *recording;
    assert_int_equal(recording_new(&recording, STAGES, SHARDS), 0);
    recording_begin(recording, BEGIN);
    return recording;
}

static void
add(struct recording *recording, enum schedule_kind kind, unsigned shard, uint64_t from_us)
{
    const struct schedule_piece piece = {kind, 1, shard};
    recording_piece(recording, &piece, said.plan, BEGIN + from_us, BEGIN + from_us + 10);
}

static struct recorded
read_back(const char *line, size_t size)
{
    struct recorded out = {.pieces = room};
    assert_non_null(line);
    assert_int_equal(line[size - 1], '\n');
    if (recording_read(&out, line, size - 1, &why))
        fail_msg("%s: %s", why.line, line);
    return out;
}

TEST(what_is_written_is_read)
{
    OWNED(recording_destroy) struct recording *recording = begin();
    size_t size;
    add(recording, SCHEDULE_FORWARD, 2, 0);
    add(recording, SCHEDULE_INPUT, 2, 20);
    add(recording, SCHEDULE_WEIGHT, 2, 30);
    add(recording, SCHEDULE_TAIL, 0, 490);
    const char *line = recording_end(recording, &said, &size);
    struct recorded out = read_back(line, size);
    assert_int_equal(out.step, said.step);
    assert_int_equal(out.job, said.job);
    assert_int_equal(out.plan, said.plan);
    assert_true(out.node == said.node);
    assert_string_equal(out.name, "pc?1?");
    assert_int_equal(out.members, 2);
    assert_int_equal(out.stages, STAGES);
    assert_int_equal(out.begin_us, BEGIN);
    assert_int_equal(out.end_us, BEGIN + 500);
    assert_int_equal(out.count, 4);
    assert_int_equal(room[1].piece.kind, SCHEDULE_INPUT);
    assert_int_equal(room[1].piece.stage, 1);
    assert_int_equal(room[1].piece.shard, 2);
    assert_int_equal(room[1].begin_us, 20);
    assert_int_equal(room[1].end_us, 30);
    assert_int_equal(room[3].piece.kind, SCHEDULE_TAIL);
    recording_begin(recording, BEGIN + 7); /* the next round */
    line = recording_end(recording, &said, &size);
    out = read_back(line, size);
    assert_int_equal(out.count, 0); /* it only watched */
    assert_int_equal(out.begin_us, BEGIN + 7);
    recording_destroy(&recording);
    assert_null(recording);
}

/* Also of a round in which another plan came. */
TEST(a_node_is_busy_with_pieces_and_waits_between_them)
{
    OWNED(recording_destroy) struct recording *recording = begin();
    add(recording, SCHEDULE_FORWARD, 0, 100);
    recording_piece(recording, &(struct schedule_piece){SCHEDULE_TAIL, 0, 0}, 0, BEGIN + 300,
                    BEGIN + 305);
    struct recording_times times = recording_times(recording, BEGIN + 400);
    assert_int_equal(times.round_us, 400);
    assert_int_equal(times.busy_us, 15);
    assert_int_equal(times.waits_us, 290);
    recording_begin(recording, BEGIN + 400);
    times = recording_times(recording, BEGIN + 450);
    assert_int_equal(times.round_us, 50);
    assert_int_equal(times.busy_us, 0);
    assert_int_equal(times.waits_us, 0);
}

TEST(all_nodes_record_the_same_steps)
{
    OWNED(recording_destroy) struct recording *recording = begin();
    size_t size, count = 0;
    uint64_t last = 0;
    for (uint64_t step = 1; step <= 100000; step++) {
        struct recorded now = said;
        now.step = step;
        if (!recording_end(recording, &now, &size))
            continue;
        assert_true(step <= 16 ? step == last + 1 : 8 * (step - last) <= last);
        last = step;
        count++;
    }
    assert_true(last > 100000 / 9 * 8);
    assert_in_range(count, 100, 130);
}

TEST(a_step_in_which_another_plan_came_is_left_out)
{
    OWNED(recording_destroy) struct recording *recording = begin();
    struct recorded other = said;
    size_t size;
    other.plan++;
    add(recording, SCHEDULE_FORWARD, 0, 0);
    assert_null(recording_end(recording, &other, &size)); /* committed by another one */
    assert_non_null(recording_end(recording, &said, &size));
    recording_piece(recording, &(struct schedule_piece){SCHEDULE_INPUT, 1, 0}, other.plan,
                    BEGIN + 30, BEGIN + 40);
    assert_null(recording_end(recording, &said, &size));
    assert_null(recording_end(recording, &other, &size));
    recording_begin(recording, BEGIN);
    assert_non_null(recording_end(recording, &other, &size));
}

TEST(a_full_record_has_room_and_one_piece_more_has_not)
{
    OWNED(recording_destroy) struct recording *recording = begin();
    struct recorded now = said;
    size_t size;
    now.step = UINT64_C(15) << 59;
    now.begin_us = now.end_us = BEGIN + 1000000000;
    for (unsigned i = 0; i < 3 * STAGES * SHARDS + 1; i++)
        add(recording, SCHEDULE_FORWARD, i % SHARDS, 100000000 + 20 * i);
    assert_non_null(recording_end(recording, &now, &size));
    add(recording, SCHEDULE_FORWARD, 0, 999000000);
    assert_null(recording_end(recording, &now, &size));
}

static const char good[] =
    "{\"step\":5,\"job\":\"00000000000000ab\",\"plan\":\"00000000000000cd\",\"node\":"
    "\"00000000000000ef\",\"name\":\"a\",\"members\":2,\"stages\":2,\"begin_us\":7,\"end_us\":99,"
    "\"pieces\":[[\"F\",0,0,1,2],[\"B\",0,0,2,2]]}";

/* The good line with one part of it changed is refused in words that have `expected`. */
static void
refused(const char *part, const char *with, const char *expected)
{
    char line[sizeof good + 256];
    struct recorded out = {.pieces = room};
    const char *at = strstr(good, part);
    assert_non_null(at);
    snprintf(line, sizeof line, "%.*s%s%s", (int)(at - good), good, with, at + strlen(part));
    why.line[0] = '\0';
    assert_int_equal(recording_read(&out, line, strlen(line), &why), -EBADMSG);
    if (!strstr(why.line, expected))
        fail_msg("%s: %s", why.line, line);
}

TEST(a_line_that_nobody_writes_is_refused)
{
    struct recorded out = {.pieces = room};
    assert_int_equal(recording_read(&out, good, strlen(good), &why), 0);
    for (size_t size = 0; size < strlen(good); size++)
        assert_int_equal(recording_read(&out, good, size, &why), -EBADMSG);
    refused("{", "[{", "JSON");
    refused("\"step\":5", "\"step\":-5", "step");
    refused("\"job\":\"", "\"job\":\"x", "job");
    refused("\"plan\"", "\"plane\"", "plan");
    refused("\"node\"", "\"node\":1,\"node\"", "JSON");
    refused("\"name\":\"a\"", "\"name\":1", "name");
    refused("\"members\":2", "\"members\":0", "out of range");
    refused("\"members\":2", "\"members\":65", "out of range");
    refused("\"stages\":2", "\"stages\":65", "out of range");
    refused("\"end_us\":99", "\"end_us\":6", "out of range");
    refused("\"end_us\":99", "\"end_us\":9000000000000000000", "out of range");
    refused("\"end_us\":99", "\"end_us\":8", "piece 1"); /* it ends later */
    refused("[[", "[1,[", "piece 1");
    refused("[[", "{\"a\":[[", "JSON");
    refused("\"F\"", "\"T2\"", "piece 1");
    refused("\"F\"", "\"\"", "piece 1");
    refused("\"F\",0", "\"F\",2", "piece 1");
    refused("\"F\",0,0", "\"F\",0,64", "piece 1");
    refused("\"F\",0,0", "\"F\",0,-1", "piece 1");
    refused("0,1,2]", "0,1,2,3]", "piece 1");
    refused("0,1,2]", "0,2,1]", "piece 1");
    refused("0,1,2]", "0,1,2.5]", "piece 1");
    refused("0,2,2]", "0,1,2]", "piece 2"); /* before the other one has ended */
}

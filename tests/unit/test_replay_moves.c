/* What the journals of a run of gossip say together: who gave what to whom; what does not fit together is refused in
 * one line that names the folder. */
#include "node/commands/replay_moves.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/folder.h"
#include "tests/support/test.h"

enum { JOB = 77 };

static const struct replay_parts job = {.job = {JOB}, .count = 1};

static const struct proto_node alice = {1, 10}, bob = {2, 20};
static const struct replay_rules rules = {.shards = 12, .ranges = 2};

static struct folder folder;
static const char *const dirs[] = {"a", "b"};
static struct replay_journals journals;
static struct replay_moves moves;
static struct why why;

FIXTURE(begin)
{
    folder = folder_new();
    return chdir(folder.path) || mkdir("a", 0777) || mkdir("b", 0777);
}

FIXTURE(end)
{
    replay_moves_fini(&moves);
    replay_journals_unload(&journals);
    folder_fini(&folder);
    return 0;
}

TEST_EACH(begin, end)

/* One start of `self`, with these events. */
static void
write_start(const char *dir, struct proto_node self, const struct gossip_note *note, size_t count)
{
    const struct journal_start start = {
        .job_hash = JOB, .id = self.id, .incarnation = self.incarnation};
    struct gossip_names names = {.plan = 0};
    OWNED(journal_close) struct journal *journal;
    uint8_t data[GOSSIP_RECORD_MAX];
    assert_int_equal(journal_open(&journal, dir, &start, &why), 0);
    for (size_t k = 0; k < count; k++) {
        size_t size = gossip_journal_put(&names, &note[k], data);
        assert_int_equal(journal_add(journal, note[k].event, data, size), 0);
    }
}

/* bob asks alice for flow 1, gets it, and then a copy. */
static const struct gossip_note of_alice[] = {
    {.event = GOSSIP_BEGAN},
    {.event = GOSSIP_GAVE, .peer = {2, 20}, .link = 5, .number = 1, .share = 2},
    {.event = GOSSIP_COPIED, .number = 2},
};
static const struct gossip_note of_bob[] = {
    {.event = GOSSIP_BEGAN},
    {.event = GOSSIP_ASKED, .peer = {1, 10}, .link = 5, .number = 1},
    {.event = GOSSIP_TOOK, .peer = {1, 10}, .link = 5, .number = 1},
    {.event = GOSSIP_GOT, .peer = {1, 10}, .number = 2},
    {.event = GOSSIP_RESULT},
};
enum { OF_ALICE = 3, OF_BOB = 5 };

static int
read_both(void)
{
    replay_journals_unload(&journals);
    for (size_t k = 0; k < 2; k++)
        assert_int_equal(replay_journals_add(&journals, dirs[k], &job, &why), 0);
    return replay_moves_init(&moves, &journals, &rules, &why);
}

TEST(moves_have_both_ends)
{
    write_start("a", alice, of_alice, OF_ALICE);
    write_start("b", bob, of_bob, OF_BOB);
    assert_int_equal(read_both(), 0);
    assert_int_equal(moves.start_count, 2);
    assert_int_equal(moves.move_count, 2);
    const struct replay_move *flow = replay_moves_find(&moves, bob, &of_bob[1]);
    assert_ptr_equal(flow, replay_moves_find(&moves, alice, &of_alice[1]));
    assert_true(flow->asked && flow->wanted && flow->giver.id == alice.id);
    const struct replay_move *copy = replay_moves_find(&moves, bob, &of_bob[3]);
    assert_ptr_equal(copy, replay_moves_find(&moves, alice, &of_alice[2]));
    assert_true(copy->wanted && !copy->asked);
    struct replay_cursor cursor = replay_moves_begin(&moves.start[1]);
    struct gossip_note note;
    for (size_t k = 0; k < OF_BOB; k++) {
        assert_true(replay_moves_next(&moves, &moves.start[1], &cursor, &note));
        assert_int_equal(note.event, of_bob[k].event);
    }
    assert_false(replay_moves_next(&moves, &moves.start[1], &cursor, &note));
}

/* A second start in the same folder begins without names, and says that it goes on from a checkpoint. */
TEST(a_folder_has_several_starts)
{
    const struct gossip_note again[] = {{.event = GOSSIP_BEGAN, .number = 99}, of_bob[1]};
    write_start("a", alice, of_alice, OF_ALICE);
    write_start("b", bob, of_bob, OF_BOB);
    write_start("b", (struct proto_node){2, 21}, again, 2);
    assert_int_equal(read_both(), 0);
    assert_int_equal(moves.start_count, 3);
    assert_false(moves.start[1].resumes);
    assert_true(moves.start[2].resumes);
    assert_int_equal(moves.start[2].folder, 1);
}

static void
refused(int rc, const char *line)
{
    assert_int_equal(read_both(), rc);
    assert_string_equal(why.line, line);
}

TEST(what_is_not_there_is_missed)
{
    write_start("a", alice, of_alice, OF_ALICE - 1);
    write_start("b", bob, of_bob, OF_BOB);
    refused(-ENOENT, "a/journal is cut off: b has values from that node which are not in it");
}

TEST(who_is_not_there_is_missed)
{
    write_start("a", (struct proto_node){3, 30}, of_alice, 1);
    write_start("b", bob, of_bob, OF_BOB);
    refused(-ENOENT,
            "b/journal has values from node 0000000000000001, whose journal is missing; the "
            "journals name 3 nodes, and they are of 2: name the results folders of all");
}

TEST(an_answer_needs_its_question)
{
    const struct gossip_note ends[] = {of_alice[0], of_alice[1], {.event = GOSSIP_MEAN}};
    write_start("a", alice, ends, 3);
    write_start("b", bob, of_bob, 1);
    refused(-ENOENT, "b/journal is cut off: a has values from that node which are not in it");
}

/* All lost power, alice also the end of her journal. Both went on from what they had saved before. */
TEST(what_was_lost_is_not_missed_if_nothing_came_of_it)
{
    const struct gossip_note saved[] = {{.event = GOSSIP_BEGAN},
                                        {.event = GOSSIP_SAVED, .number = 7},
                                        of_bob[1],
                                        of_bob[2],
                                        {.event = GOSSIP_GOT, .peer = {1, 10}, .number = 2}};
    const struct gossip_note again[] = {{.event = GOSSIP_BEGAN, .number = 7},
                                        {.event = GOSSIP_MEAN}};
    write_start("a", alice, of_alice, 1);
    write_start("b", bob, saved, 5);
    write_start("b", (struct proto_node){2, 21}, again, 2);
    assert_int_equal(read_both(), 0);
    assert_true(moves.start[0].end == SIZE_MAX && moves.start[2].end == SIZE_MAX);
    struct replay_cursor cursor = replay_moves_begin(&moves.start[1]);
    struct gossip_note note;
    size_t events = 0;
    while (replay_moves_next(&moves, &moves.start[1], &cursor, &note))
        events++;
    assert_int_equal(events, 3); /* what was taken is of a flow that nobody gave */
}

/* The same, but the cut came after what was lost. */
TEST(what_a_checkpoint_needs_is_missed)
{
    const struct gossip_note saved[] = {
        of_bob[0], of_bob[1], of_bob[2], {.event = GOSSIP_SAVED, .number = 7}};
    const struct gossip_note again[] = {{.event = GOSSIP_BEGAN, .number = 7}};
    write_start("a", alice, of_alice, 1);
    write_start("b", bob, saved, 4);
    write_start("b", (struct proto_node){2, 21}, again, 1);
    refused(-ENOENT, "a/journal is cut off: b has values from that node which are not in it");
}

TEST(a_journal_counts_once)
{
    write_start("a", alice, of_alice, OF_ALICE);
    write_start("b", alice, of_alice, OF_ALICE);
    refused(-EINVAL, "a and b have the journal of the same node");
}

TEST(what_comes_twice_contradicts)
{
    const struct gossip_note twice[] = {of_bob[0], of_bob[1], of_bob[2], of_bob[2]};
    write_start("a", alice, of_alice, OF_ALICE);
    write_start("b", bob, twice, 4);
    refused(-EBADMSG, "the journals contradict one another: are they of one run?");
}

TEST(a_gift_comes_from_whom_was_asked)
{
    const struct gossip_note other[] = {
        of_bob[0], {.event = GOSSIP_ASKED, .peer = {3, 30}, .link = 5, .number = 1}};
    write_start("a", alice, of_alice, OF_ALICE);
    write_start("b", bob, other, 2);
    refused(-EBADMSG, "the journals contradict one another: are they of one run?");
}

TEST(what_no_node_of_the_job_writes_is_refused)
{
    static const struct gossip_note notes[] = {
        {.event = GOSSIP_GAVE, .peer = {2, 20}, .link = 5, .number = 1, .share = 1},
        {.event = GOSSIP_GAVE, .peer = {2, 20}, .link = 5, .number = 1, .share = 2, .range = 2},
        {.event = GOSSIP_COPIED, .number = 1, .range = 2},
        {.event = GOSSIP_TOOK, .peer = {2, 20}, .number = 1},
        {.event = GOSSIP_READ, .step = 1, .shards = 0},
        {.event = GOSSIP_READ, .step = 1, .shards = 1 << 12},
    };
    write_start("b", bob, of_bob, 1);
    for (size_t k = 0; k < sizeof notes / sizeof *notes; k++) {
        char line[100];
        remove("a/" JOURNAL_FILE);
        write_start("a", alice, &notes[k], 1);
        assert_int_equal(read_both(), -EBADMSG);
        snprintf(line, sizeof line,
                 "a/journal: the record of type %u at byte 50 is not of this job", notes[k].event);
        assert_string_equal(why.line, line);
        replay_moves_fini(&moves);
        memset(&moves, 0, sizeof moves);
    }
}

TEST(a_journal_of_another_job_is_refused)
{
    const struct replay_parts other = {.job = {JOB + 1, JOB + 2}, .count = 2};
    const struct replay_parts later = {.job = {JOB + 1, JOB}, .count = 2};
    write_start("a", alice, of_alice, OF_ALICE);
    assert_int_equal(replay_journals_add(&journals, "a", &other, &why), -EINVAL);
    assert_string_equal(why.line, "a/journal: is of job 000000000000004d, expected "
                                  "000000000000004e as in job.json");
    assert_int_equal(replay_journals_add(&journals, "a", &later, &why), 0); /* its first part */
}

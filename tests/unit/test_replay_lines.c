/* Lines of metrics.jsonl against the steps that a replay has computed. */
#include "node/commands/replay_lines.h"

#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/folder.h"
#include "tests/support/test.h"

static struct folder folder;
static struct replay_lines lines;
static struct replay_journals journals = {.count = 1, .dir = {"a"}};
static char *said;

FIXTURE(begin)
{
    folder = folder_new();
    return chdir(folder.path) || mkdir("a", 0777);
}

FIXTURE(end)
{
    free(said);
    said = NULL;
    replay_lines_fini(&lines);
    folder_fini(&folder);
    return 0;
}

TEST_EACH(begin, end)

/* Lines of a step of eight samples, and these losses. */
static void
write_lines(const double *loss, size_t count)
{
    FILE *file = fopen("a/metrics.jsonl", "w");
    assert_non_null(file);
    for (size_t k = 0; k < count; k++)
        fprintf(
            file,
            "{\"step\":9,\"time_s\":0.1,\"epoch\":0,\"loss\":%.12g,\"accuracy\":0.5,\"peers\":1,"
            "\"plan\":\"1e08045212188e9e\",\"samples\":8,\"first\":64,\"coverage\":"
            "\"0000000000000fff\",\"shards\":\"0000000000000fff\",\"rows\":\"0000000000000008\","
            "\"ledger\":\"0000000000000001\",\"state_hash\":"
            "\"0000000000000002\"}\n",
            loss[k]);
    assert_int_equal(fclose(file), 0);
}

/* Step 9 as a start computed it. */
static void
computed(double loss, bool last)
{
    struct replay_step step = {.step = 9, .loss = loss, .last = last};
    replay_lines_add(&lines, &step);
    lines.step[lines.count - 1].whole = false;
}

/* Returns the number of findings. */
static uint64_t
judge(void)
{
    size_t size;
    struct verify_folders folders = {
        .out = open_memstream(&said, &size),
        .count = 1,
        .folder = {{.dir = "a", .ended = true}},
    };
    assert_non_null(folders.out);
    replay_lines_judge(&lines, &journals, &folders);
    fclose(folders.out);
    return folders.findings;
}

/* A start was killed when it had computed the step, and before its line was written. The next one has the line. */
TEST(test_of_equal_steps_a_line_is_of_the_last_start)
{
    write_lines((const double[]){2.5}, 1);
    computed(2.5, false);
    computed(2.5, true);
    lines.step[0].whole = lines.step[1].whole = true;
    for (size_t k = 0; k < 2; k++)
        lines.step[k].due = (struct verify_line){
            .samples = 8, .first = 64, .coverage = 0xfff, .rows = 8, .ledger = 1, .accuracy = 0.5};
    assert_int_equal(judge(), 0);
}

TEST(test_a_step_of_the_last_start_without_a_line_is_found)
{
    write_lines((const double[]){2.5}, 1);
    computed(2.5, false);
    computed(1.5, true);
    lines.step[1].whole = true;
    assert_int_equal(judge(), 1);
    assert_non_null(
        strstr(said, "has no line of 1 of what its node computed; the first is of step 9"));
}

TEST(test_another_loss_is_found)
{
    write_lines((const double[]){2.5, 2.25}, 2);
    computed(2.5, true);
    assert_int_equal(judge(), 1);
    assert_non_null(strstr(said, "metrics.jsonl:2: step 9: loss 2.25, the replay's 2.5"));
}

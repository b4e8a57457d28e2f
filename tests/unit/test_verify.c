/* Results folders made to be right, and then wrong in one place. */
#include <stdio.h>
#include <sys/stat.h>

#include "node/commands/verify.h"
#include "node/results/verify_read.h"
#include "node/train/ledger.h"
#include "tests/support/folder.h"
#include "tests/support/test.h"

/* 3 epochs of 100 samples in steps of 40, 40 and 20, by two nodes. */
enum { TRAIN = 100, BATCH = 40, EPOCH_STEPS = 3, STEPS = 9, SHARDS = 4 };

static struct folder a, b;
static char *said;

static const char job_text[] =
    "{\"run\":\"x\",\"job\":\"00000000000000ab\",\"seed\":5,\"train\":100,"
    "\"batch\":40,\"shards\":4,\"steps\":9}";

static const char *job_said = job_text;

static struct verify_line
truth_from(uint64_t begun, uint64_t step)
{
    uint64_t ledger = 0, rows = 0;
    struct ledger_step due = {0};
    for (uint64_t s = begun; s < step; s++) {
        due = (struct ledger_step){5,
                                   TRAIN,
                                   SHARDS,
                                   s / EPOCH_STEPS,
                                   s % EPOCH_STEPS * BATCH,
                                   s % EPOCH_STEPS == 2 ? 20 : BATCH,
                                   BATCH};
        rows = ledger_step_expected(&due);
        ledger = ledger_chain(ledger, s, rows);
    }
    return (struct verify_line){.step = step,
                                .epoch = due.epoch,
                                .first = due.first,
                                .samples = due.rows,
                                .coverage = 15,
                                .shards = 5,
                                .rows = rows,
                                .ledger = ledger,
                                .state_hash = 1000 + step,
                                .plan = 77,
                                .peers = 2,
                                .loss = 1.0 / (double)step,
                                .accuracy = 0.5,
                                .tested = step % EPOCH_STEPS == 0,
                                .test_loss = 0.25,
                                .test_accuracy = 0.75};
}

static struct verify_line
truth(uint64_t step)
{
    return truth_from(0, step);
}

static size_t
put(char *text, size_t size, const struct verify_line *line)
{
    char tested[96] = "";
    if (line->tested)
        snprintf(tested, sizeof tested, ",\"test_loss\":%.12g,\"test_accuracy\":%.12g",
                 line->test_loss, line->test_accuracy);
    return (size_t)snprintf(
        text, size,
        "{\"step\":%ju,\"epoch\":%ju,\"samples\":%ju,\"first\":%ju,\"coverage\":\"%016jx\","
        "\"shards\":\"%016jx\",\"rows\":\"%016jx\",\"ledger\":\"%016jx\",\"state_hash\":"
        "\"%016jx\",\"plan\":\"%016jx\",\"peers\":%ju,\"loss\":%.12g,\"accuracy\":%.12g%s%s}\n",
        line->step, line->epoch, line->samples, line->first, line->coverage, line->shards,
        line->rows, line->ledger, line->state_hash, line->plan, line->peers, line->loss,
        line->accuracy, tested,
        line->stages == 0 ? ""
        : line->mine == 1 ? ",\"pipeline\":{\"stages\":2,\"mine\":[0]}"
        : line->mine == 2 ? ",\"pipeline\":{\"stages\":2,\"mine\":[1]}"
        : line->mine == 3 ? ",\"pipeline\":{\"stages\":2,\"mine\":[0,1]}"
        : line->mine == 4 ? ",\"pipeline\":{\"stages\":2,\"mine\":[2]}"
                          : ",\"pipeline\":[]");
}

static struct verify_line lines_a[2 * STEPS], lines_b[2 * STEPS];
static size_t count_a, count_b;

static void
write_lines(const struct folder *folder, const struct verify_line *line, size_t count,
            const char *behind)
{
    static char text[2 * STEPS * 640 + 640];
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += put(text + size, sizeof text - size, &line[i]);
    size += (size_t)snprintf(text + size, sizeof text - size, "%s", behind);
    folder_write(folder, "metrics.jsonl", text, size);
    folder_write(folder, "job.json", job_said, strlen(job_said));
}

/* Judges folders; the words that it prints are in `said`. */
static int
judged_dirs(const char *const *dir, size_t dirs)
{
    size_t size;
    free(said);
    FILE *out = open_memstream(&said, &size);
    int status = verify_run(out, dir, dirs);
    fclose(out);
    return status;
}

/* Both as they stand. */
static int
judged(const char *behind, size_t dirs)
{
    const char *const dir[] = {a.path, b.path};
    write_lines(&a, lines_a, count_a, behind);
    write_lines(&b, lines_b, count_b, "");
    return judged_dirs(dir, dirs);
}

static void
expect_dirs(const char *const *dir, size_t dirs, int status, const char *words)
{
    int got = judged_dirs(dir, dirs);
    if (got != status || !strstr(said, words))
        fail_msg("expected %d and \"%s\", got %d: %s", status, words, got, said);
}

static void
expect(int status, const char *words)
{
    if (judged("", 2) != status || !strstr(said, words))
        fail_msg("expected %d and \"%s\", got: %s", status, words, said);
}

FIXTURE(make_right)
{
    a = folder_new();
    b = folder_new();
    count_a = count_b = STEPS;
    for (size_t i = 0; i < STEPS; i++) {
        lines_a[i] = lines_b[i] = truth(i + 1);
        lines_b[i].shards = 10;
    }
    return 0;
}

FIXTURE(drop)
{
    folder_fini(&a);
    folder_fini(&b);
    free(said);
    said = NULL;
    return 0;
}

TEST_EACH(make_right, drop)

TEST(right_files_are_proved)
{
    expect(
        0,
        "proved: every sample was used exactly once in each epoch; 9 of 9 steps, 3 whole epochs of "
        "100 samples\nread: 2 folders, 18 lines; 0 steps were done again with the same bits; 0 "
        "lines "
        "are cut off; for 9 steps it is known who computed each shard\n");
    assert_null(strstr(said, "not read"));
    folder_write(&a, "events.out.tfevents.1.pc.2", "x", 1);
    expect(0, "\nnot read: 1 event file of TensorBoard\n");
    remove(folder_path(&a, "events.out.tfevents.1.pc.2"));
    assert_int_equal(judged("{\"step\":10,\"epo", 2), 0); /* cut off */
    assert_non_null(strstr(said, "1 line is cut off"));
    assert_int_equal(judged("", 1), 0);
    assert_non_null(strstr(said, "for 0 steps it is known"));
}

TEST(files_of_late_joiners_add_up)
{
    count_a = 5;
    memmove(lines_b, lines_b + 4, 5 * sizeof *lines_b);
    count_b = 5;
    expect(0, "proved: ");
    memmove(lines_b, lines_b + 3, 2 * sizeof *lines_b);
    count_b = 2;
    expect(1,
           "no file: epoch 1, step 6, sample 80 to epoch 2, step 7, sample 39: not proved by these "
           "files, but the running hash behind them says that they were counted once\n");
    lines_b[0].ledger ^= 1;
    expect(1, "step 7, sample 39: not proved by these files\n");
}

/* The folder above node-1 and node-2 stands for both; one that is named twice, in whatever way, is read once. */
TEST(folders_are_found_and_read_once)
{
    struct folder node[2];
    char again[FOLDER_PATH_MAX];
    const char *dir[] = {a.path, again};
    expect_dirs(dir, 1, 1,
                ": no results of a node are here: expected job.json and metrics.jsonl\n");
    for (int n = 0; n < 2; n++) {
        snprintf(node[n].path, sizeof node[n].path, "%.200s/node-%d", a.path, n + 1);
        assert_int_equal(mkdir(node[n].path, 0700), 0);
        write_lines(&node[n], n ? lines_b : lines_a, STEPS, "");
    }
    expect_dirs(dir, 1, 0, "\nread: 2 folders, 18 lines; ");
    assert_null(strstr(said, "named twice"));
    snprintf(again, sizeof again, "%.200s/node-1/../node-2", a.path);
    expect_dirs(dir, 2, 0, "/node-1/../node-2: is named twice, and read once\n");
    assert_non_null(strstr(said, "\nread: 2 folders, 18 lines; "));
    for (int n = 2; n <= VERIFY_DIRS_MAX; n++) {
        snprintf(again, sizeof again, "%.200s/node-%d", a.path, n + 1);
        assert_int_equal(mkdir(again, 0700), 0);
    }
    expect_dirs(dir, 1, 1, "/node-65: is one folder too many, expected at most 64\n");
    assert_non_null(strstr(said, "/node-64: no results of a node are here"));
}

TEST(a_run_that_is_not_over_is_proved_so_far)
{
    count_a = count_b = 4;
    expect(0, "4 of 9 steps, 1 whole epoch of 100 samples and 40 samples of the next");
    static const char result[] =
        "{\"run\":\"x\",\"node\":\"1\",\"epochs\":1,\"samples\":140,\"steps\":5,\"train_loss\":"
        "null,"
        "\"test_loss\":null,\"test_accuracy\":null,\"wall_s\":1.5,\"exact\":true,\"alone\":false,"
        "\"peers_max\":2,\"plans\":1,\"aborts\":0,\"damages\":0,\"audits\":0,\"expelled\":0,"
        "\"lost\":0,\"tx_bytes\":1,\"rx_bytes\":1,\"warnings\":0,\"unmet\":[],\"params_sha256\":"
        "\"0123456789012345678901234567890123456789012345678901234567890123\",\"state_sha256\":"
        "\"0123456789012345678901234567890123456789012345678901234567890123\"}";
    folder_write(&a, "result.json", result, strlen(result));
    expect(1, "no file: epoch 1, step 5, sample 40 to epoch 1, step 5, sample 79: not proved");
}

TEST(a_step_redone_must_be_the_same)
{
    lines_a[STEPS] = truth(8);
    lines_a[STEPS + 1] = truth(9);
    count_a = STEPS + 2;
    expect(0, "20 lines; 2 steps were done again with the same bits");
    lines_a[STEPS].state_hash++;
    expect(1,
           "metrics.jsonl:10: epoch 2, step 8: state 00000000000003f1, but 00000000000003f0 at ");
}

/* Each node computed all shards, in one of two stages. */
TEST(shards_are_computed_once_in_each_stage)
{
    for (size_t i = 0; i < STEPS; i++) {
        lines_a[i].shards = lines_b[i].shards = 15;
        lines_a[i].stages = lines_b[i].stages = 2;
        lines_a[i].mine = 1;
        lines_b[i].mine = 2;
    }
    expect(0, "for 9 steps it is known");
    lines_b[3].shards = 7;
    expect(1, "step 4: of the 2 nodes of its plan, which are all here, none says that it computed "
              "some of shards f");
    lines_b[3].mine = 3;
    expect(1, "shards 7 were computed here and at ");
    lines_b[3].mine = 4;
    expect(1, "pipeline is missing or of the wrong kind");
    lines_b[3].mine = 5;
    expect(1, "pipeline is missing or of the wrong kind");
}

TEST(every_wrong_field_is_a_finding)
{
    for (size_t i = 0; i < STEPS; i++) {
        struct verify_line right = lines_a[i];
        char words[64];
        lines_a[i].epoch++;
        expect(1, "the job gives it epoch");
        snprintf(words, sizeof words, "metrics.jsonl:%zu: epoch ", i + 1);
        expect(1, words);
        lines_a[i] = right, lines_a[i].first += 1;
        expect(1, "the job gives it epoch");
        lines_a[i] = right, lines_a[i].samples -= 1;
        expect(1, "the job gives it epoch");
        lines_a[i] = right, lines_a[i].coverage = 7;
        expect(1, "shards 7 were counted once, expected f");
        lines_a[i] = right, lines_a[i].rows ^= 1;
        expect(1, "the hash of its samples is");
        lines_a[i] = right, lines_a[i].ledger ^= 1;
        expect(1, "steps before it were lost or repeated");
        lines_a[i] = right, lines_a[i].state_hash ^= 1;
        expect(1, "but 0000");
        lines_a[i] = right, lines_a[i].shards = 4 + 2;
        expect(1, "shards 2 were computed here and at ");
        lines_a[i].plan++;
        expect(0, "for 8 steps it is known");
        lines_a[i] = right, lines_a[i].step = STEPS + 1;
        expect(1, "step 10, expected 1..9");
        lines_a[i] = right;
    }
    expect(0, "proved");
}

TEST(a_state_has_one_loss_and_one_evaluation)
{
    for (size_t i = 0; i < STEPS; i++) {
        struct verify_line right = lines_b[i];
        char words[96];
        lines_b[i].loss *= 1 + 1e-11;
        snprintf(words, sizeof words, "metrics.jsonl:%zu: loss is %.12g, but %.12g at ", i + 1,
                 lines_b[i].loss, right.loss);
        expect(1, words);
        lines_b[i] = right, lines_b[i].accuracy = 0.625;
        expect(1, ": accuracy is 0.625, but 0.5 at ");
        lines_b[i] = right, lines_b[i].peers = 3;
        expect(1, "peers is 3, but 2 at ");
        lines_b[i] = right, lines_b[i].test_loss = 0.375;
        expect(right.tested, right.tested ? ": test_loss is 0.375, but 0.25 at " : "proved");
        lines_b[i] = right, lines_b[i].test_accuracy = 1;
        expect(right.tested, right.tested ? ": test_accuracy is 1, but 0.75 at " : "proved");
        lines_b[i] = right, lines_b[i].tested = false; /* it was killed before the evaluation */
        expect(0, "proved");
        lines_b[i] = right;
    }
    expect(0, "proved");
}

/* Its line has the figures of the evaluation in place of a step's, and the hash of the state behind that. */
static struct verify_line
evaluation(uint64_t step)
{
    struct verify_line line = truth(step);
    line.epoch = step / EPOCH_STEPS;
    line.samples = line.first = line.coverage = line.rows = 0;
    line.state_hash += 500;
    line.tested = true;
    line.loss = line.test_loss, line.accuracy = line.test_accuracy;
    return line;
}

TEST(an_evaluation_alone_is_that_of_its_step)
{
    const struct {
        size_t field;
        const char *words;
    } other[] = {
        {offsetof(struct verify_line, epoch), "epoch is not that of an evaluation"},
        {offsetof(struct verify_line, first), "first is not that of an evaluation"},
        {offsetof(struct verify_line, coverage), "coverage is not that of an evaluation"},
        {offsetof(struct verify_line, rows), "rows is not that of an evaluation"},
        {offsetof(struct verify_line, ledger), "the running hash is 0"},
        {offsetof(struct verify_line, loss), "loss is not that of an evaluation"},
        {offsetof(struct verify_line, accuracy), "accuracy is not that of an evaluation"},
        {offsetof(struct verify_line, test_loss), "test_loss is "},
        {offsetof(struct verify_line, test_accuracy), "test_accuracy is "},
    };
    for (size_t known = 0; known < 2; known++) { /* the figures are in a step's line, or not */
        count_b = STEPS;
        lines_a[2].tested = lines_b[2].tested = known;
        lines_b[count_b++] = evaluation(3);
        lines_b[count_b++] = evaluation(3);
        expect(0, "proved");
        for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
            uint64_t was, now;
            uint8_t *field = (uint8_t *)&lines_b[STEPS + 1] + other[i].field;
            memcpy(&was, field, sizeof was);
            now = was ^ UINT64_C(1) << 50; /* of a double a digit that the text has, too */
            now = other[i].field == offsetof(struct verify_line, ledger) ? 1 : now;
            memcpy(field, &now, sizeof now);
            expect(1, other[i].words);
            memcpy(field, &was, sizeof was);
        }
        lines_b[STEPS + 1].state_hash++;
        expect(!known, known ? "proved" : "step 3, evaluated: state ");
    }
    lines_b[STEPS + 1] = lines_b[2], lines_b[STEPS + 1].samples = 0; /* a step is none */
    expect(1, "is not that of an evaluation");
}

TEST(wrong_text_is_a_finding)
{
    static char longest[VERIFY_LINE_MAX + 3];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 2] = '\n';
    assert_int_equal(judged(longest, 2), 1);
    assert_non_null(strstr(said, "metrics.jsonl:10: has more than 4096 bytes"));
    assert_int_equal(judged("[]\n", 2), 1);
    assert_non_null(strstr(said, "metrics.jsonl:10: is not a JSON object"));
    assert_int_equal(judged("{\"step\":9,\"samples\":1}\n", 2), 1);
    assert_non_null(strstr(said, "metrics.jsonl:10: loss is missing or of the wrong kind"));
    char unknown[640];
    size_t end = put(unknown, sizeof unknown, &lines_b[8]) - 2;
    snprintf(unknown + end, sizeof unknown - end, ",\"losr\":1}\n");
    assert_int_equal(judged(unknown, 2), 1);
    assert_non_null(strstr(said, "metrics.jsonl:10: has a key that is not known"));
    const char *const nowhere[] = {"/nowhere\033"};
    OWNED(memory_free) char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_int_equal(verify_run(out, nowhere, 1), 1);
    fclose(out);
    assert_non_null(strstr(text, "/nowhere\\x1b: No such file or directory"));
}

struct round {
    uint64_t step, before, first, rows;
};

static void
write_rounds(const char *job, const struct round *round, size_t rounds)
{
    uint64_t ledger = 0;
    job_said = job;
    count_a = count_b = rounds;
    for (size_t i = 0; i < rounds; i++) {
        struct ledger_step due = {
            5, TRAIN, SHARDS, round[i].before / EPOCH_STEPS, round[i].first, round[i].rows, BATCH};
        uint64_t rows = ledger_step_expected(&due);
        ledger = ledger_chain(ledger, round[i].before, rows);
        lines_a[i].step = round[i].step;
        lines_a[i].epoch = due.epoch;
        lines_a[i].first = due.first;
        lines_a[i].samples = due.rows;
        lines_a[i].rows = rows;
        lines_a[i].ledger = ledger;
        lines_b[i] = lines_a[i];
        lines_b[i].shards = 10;
    }
}

#define ROUNDS_JOB                                                                                 \
    "{\"run\":\"x\",\"job\":\"00000000000000ab\",\"seed\":5,\"train\":100,"                        \
    "\"batch\":40,\"shards\":4,\"steps\":8,\"local_steps\":2"

/* Epochs of 3 steps in rounds of 2: 80 samples, then 20. */
TEST(rounds_of_several_steps_are_proved)
{
    static const struct round round[] = {
        {2, 0, 0, 80}, {3, 2, 80, 20}, {5, 3, 0, 80}, {6, 5, 80, 20}, {8, 6, 0, 80}};
    write_rounds(ROUNDS_JOB "}", round, sizeof round / sizeof *round);
    expect(0, "proved: every sample was used exactly once in each epoch; 8 of 8 steps, 2 whole "
              "epochs of 100 samples and 80 samples of the next\nread: 2 folders, 10 lines");
    lines_a[2].step = 4;
    expect(1, "metrics.jsonl:3: step 4, expected step 5, with which its round ends");
    lines_a[2].step = 5, lines_a[3].rows ^= 1;
    expect(1, "epoch 1, step 6, samples 80+20: the hash of its samples is");
    lines_a[3].rows ^= 1, lines_a[4].samples = 40;
    expect(1, "the job gives it epoch 2, samples 0+80");
    lines_a[4].samples = 80;
    memmove(lines_a + 1, lines_a + 3, 2 * sizeof *lines_a);
    memmove(lines_b + 1, lines_b + 3, 2 * sizeof *lines_b);
    count_a = count_b = 3;
    expect(1,
           "no file: epoch 0, step 3, sample 80 to epoch 1, step 5, sample 79: not proved by these "
           "files, but the running hash behind them says that they were counted once\n");
    job_said = job_text;
    expect(1, "the job gives it");
}

/* A step of warm-up, then spans of 3. */
TEST(rounds_end_with_spans)
{
    static const struct round round[] = {{1, 0, 0, 40},  {3, 1, 40, 60}, {4, 3, 0, 40},
                                         {6, 4, 40, 60}, {7, 6, 0, 40},  {8, 7, 40, 40}};
    const size_t count = sizeof round / sizeof *round;
    write_rounds(ROUNDS_JOB ",\"span\":3,\"warmup\":1}", round, count);
    expect(0, "proved: every sample was used exactly once in each epoch; 8 of 8 steps, 2 whole ");
    write_rounds(ROUNDS_JOB "}", round, count);
    expect(1, "metrics.jsonl:1: step 1, expected step 2, with which its round ends");
}

/* Four steps were another run's: the second of an epoch of three is the first here. */
TEST(a_run_that_started_from_a_checkpoint_is_proved_from_there_on)
{
    static const char job[] =
        "{\"run\":\"x\",\"job\":\"00000000000000ab\",\"seed\":5,\"train\":100,"
        "\"batch\":40,\"shards\":4,\"steps\":9,\"begun\":4}";
    job_said = job;
    count_a = count_b = 5;
    for (size_t i = 0; i < 5; i++) {
        lines_a[i] = lines_b[i] = truth_from(4, 5 + i);
        lines_b[i].shards = 10;
    }
    expect(0, "proved: every sample was used exactly once in each epoch; 9 of 9 steps, from step 5 "
              "on, 1 whole epoch of 100 samples\nread: 2 folders, 10 lines");
    lines_a[0] = lines_b[0] = truth(4);
    expect(1, "step 4, expected 5..9");
    lines_a[0] = lines_b[0] = truth(5);
    expect(1, "epoch 1, step 5, samples 40+40: the running hash is");
    job_said = job_text;
    expect(1, "no file: epoch 0, step 1, sample 0 to epoch 1, step 4, sample 39");
}

/* A line that claims a step far away must not make verify go through all steps up to it. */
TEST(a_huge_step_costs_no_time)
{
    static const char job[] =
        "{\"run\":\"x\",\"job\":\"00000000000000ab\",\"seed\":5,\"train\":100,"
        "\"batch\":40,\"shards\":4,\"steps\":9000000000000000000}";
    const char *const dir[] = {a.path};
    char text[640], *words;
    size_t size;
    struct verify_line far = lines_a[8];
    far.step = UINT64_C(8999999999999999999);
    folder_write(&a, "metrics.jsonl", text, put(text, sizeof text, &far));
    folder_write(&a, "job.json", job, strlen(job));
    FILE *out = open_memstream(&words, &size);
    assert_int_equal(verify_run(out, dir, 1), 1);
    fclose(out);
    assert_non_null(strstr(words, "not proved by these files\n"));
    free(words);
}

/* test_metrics.c - the files a run leaves, also when disk, killers and other runs interfere. */
#include "node/results/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mesh/core/core.h"
#include "node/commands/compare.h"
#include "node/results/verify_read.h"
#include "tests/support/folder.h"
#include "tests/support/test.h"

static struct why why;

FOLDER_EACH

static struct metrics *
open_metrics(bool resume)
{
    struct metrics *metrics;
    if (metrics_new(&metrics, folder.path, resume, true, &why))
        fail_msg("%s", why.line);
    return metrics;
}

static struct metrics_step
step_of(uint64_t step)
{
    return (struct metrics_step){
        .step = step,
        .steps_total = 10,
        .epoch = 2,
        .loss = 0.5,
        .accuracy = 0.75,
        .peers = 3,
        .plan = UINT64_MAX,
        .servers = 2,
        .served_bytes = 4096,
        .samples = 100,
        .shards = 3,
        .mesh_steps = 1,
        .mesh_samples = 100,
        .mesh_s = 0.25,
        .compute_s = 0.125,
        .wait_s = 0.125,
        .pipeline = {.stages = 3, .computes = 2, .sent = 4096},
        .times = {.round_us = 500000, .busy_us = 375000, .waits_us = 62500},
        .holders = "0 a; 1 \"b\"; 2 a",
        .tx_bytes = 7,
        .rx_bytes = 9,
        .state_hash = 0xabc,
    };
}

static void
write_step(struct metrics *metrics, uint64_t step)
{
    struct metrics_step one = step_of(step);
    metrics_step(metrics, &one);
}

/* A run of these steps, which ends; `resume`: what was there stays. */
static void
run_of(bool resume, uint64_t first, uint64_t last)
{
    OWNED(metrics_destroy) struct metrics *metrics = open_metrics(resume);
    for (uint64_t k = first; k <= last; k++)
        write_step(metrics, k);
}

/* Line `index` of metrics.jsonl, from 0; the caller frees it. NULL behind the last. */
static json_t *
line(size_t index)
{
    char text[4096];
    FILE *file = fopen(folder_path(&folder, "metrics.jsonl"), "r");
    assert_non_null(file);
    bool there = true;
    for (size_t i = 0; there && i <= index; i++)
        there = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    if (!there)
        return NULL;
    assert_non_null(strchr(text, '\n'));
    json_error_t error;
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!object)
        fail_msg("%s: %s", error.text, text);
    return object;
}

static void
json_release(json_t **object)
{
    json_decref(*object);
}

static double
number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    if (!json_is_number(value))
        fail_msg("%s is not a number", name);
    return json_number_value(value);
}

static const char *
text_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

struct figure {
    const char *name;
    double value;
};

/* The object has these figures; the last name is NULL. */
static void
has(const json_t *object, const struct figure *figure)
{
    for (; figure->name; figure++)
        if (number(object, figure->name) != figure->value)
            fail_msg("%s is %g, expected %g", figure->name, number(object, figure->name),
                     figure->value);
}
#define HAS(object, ...) has(object, (const struct figure[]){__VA_ARGS__, {NULL, 0}})

/* The figure `name` of line `index`. */
static double
number_in(size_t index, const char *name)
{
    OWNED(json_release) json_t *object = line(index);
    return number(object, name);
}

/* The lines are of these steps, and there are no others. */
static void
lines_are_of(const uint64_t *steps, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_true(number_in(i, "step") == (double)steps[i]);
    assert_null(line(count));
}
#define LINES_ARE_OF(...)                                                                          \
    lines_are_of((const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / 8)

TEST(each_step_is_an_object_of_its_own)
{
    struct metrics *metrics = open_metrics(false);
    for (uint64_t i = 1; i <= 3; i++) {
        write_step(metrics, i);
        assert_true(number_in(i - 1, "step") == (double)i); /* at once, not when the run ends */
    }
    json_t *object = line(2), *pipeline = json_object_get(object, "pipeline");
    HAS(object, {"epoch", 2}, {"loss", 0.5}, {"accuracy", 0.75}, {"peers", 3}, {"servers", 2},
        {"served_bytes", 4096}, {"samples", 100}, {"samples_per_s", 400}, {"compute_s", 0.125},
        {"wait_s", 0.125}, {"tx_bytes", 7}, {"rx_bytes", 9});
    assert_string_equal(text_of(object, "plan"), "ffffffffffffffff");
    assert_string_equal(text_of(object, "state_hash"), "0000000000000abc");
    HAS(pipeline, {"stages", 3}, {"round_s", 0.5}, {"busy_s", 0.375}, {"wait_s", 0.0625},
        {"sent_bytes", 4096}, {"idle", 0.25}, {"idle_formula", 0.5});
    assert_int_equal(json_array_size(json_object_get(pipeline, "mine")), 1);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(pipeline, "mine"), 0)), 1);
    assert_string_equal(text_of(pipeline, "nodes"), "0 a; 1 \"b\"; 2 a");
    assert_null(json_object_get(object, "skipped"));
    assert_null(json_object_get(object, "test_loss"));
    json_decref(object);
    assert_null(line(3));
    metrics_destroy(&metrics);
    assert_null(metrics);
}

/* Made by others while this node caught up. */
TEST(a_step_that_was_followed_says_so)
{
    OWNED(metrics_destroy) struct metrics *metrics = open_metrics(false);
    struct metrics_step step = step_of(1);
    struct verify_line said;
    step.followed = true;
    step.plan = step.servers = 0;
    metrics_step(metrics, &step);
    OWNED(json_release) json_t *object = line(0);
    assert_true(json_is_true(json_object_get(object, "followed")));
    assert_null(json_object_get(object, "plan"));
    assert_null(json_object_get(object, "servers"));
    assert_true(number(object, "peers") == 3);
    char *text = json_dumps(object, JSON_COMPACT);
    assert_int_equal(verify_read_line(&said, text, strlen(text), &why), 0);
    assert_int_equal(said.plan, 0);
    json_object_del(object, "followed");
    free(text);
    text = json_dumps(object, JSON_COMPACT);
    assert_true(verify_read_line(&said, text, strlen(text), &why) < 0);
    assert_non_null(strstr(why.line, "plan is missing"));
    free(text);
}

TEST(what_is_not_a_number_is_null)
{
    OWNED(metrics_destroy) struct metrics *metrics = open_metrics(false);
    struct metrics_step step = step_of(1);
    step.loss = (double)NAN;
    step.accuracy = -1;
    metrics_step(metrics, &step);
    step = step_of(2);
    step.loss = -(double)INFINITY;
    step.compute_s = step.wait_s = step.mesh_s = 0;
    metrics_step(metrics, &step);
    OWNED(json_release) json_t *first = line(0), *second = line(1);
    assert_true(json_is_null(json_object_get(first, "loss")));
    assert_true(json_is_null(json_object_get(first, "accuracy")));
    assert_true(json_is_null(json_object_get(second, "loss")));
    assert_true(isfinite(number(second, "samples_per_s")));
}

TEST(an_evaluation_joins_the_line_of_its_step)
{
    OWNED(metrics_destroy) struct metrics *metrics = open_metrics(false);
    struct metrics_step step = step_of(1);
    metrics_step(metrics, &step);
    step.evaluated = true;
    step.samples = 0;
    step.loss = 0;
    step.test_loss = 0.25;
    step.test_accuracy = 0.5;
    metrics_step(metrics, &step);
    write_step(metrics, 2);
    OWNED(json_release) json_t *first = line(0), *second = line(1);
    HAS(first, {"loss", 0.5}, {"samples", 100}, {"test_loss", 0.25}, {"test_accuracy", 0.5});
    assert_true(number(second, "step") == 2);
    assert_null(json_object_get(second, "test_loss"));
    assert_null(line(2));
}

/* Has the only event file these bytes? It goes. */
static bool
event_file_has(const char *bytes, size_t size)
{
    glob_t found;
    char data[4096];
    assert_int_equal(glob(folder_path(&folder, "events.out.tfevents.*"), 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    FILE *file = fopen(found.gl_pathv[0], "rb");
    assert_non_null(file);
    size_t got = fread(data, 1, sizeof data, file);
    bool has = false;
    for (size_t at = 0; !has && at + size <= got; at++)
        has = memcmp(data + at, bytes, size) == 0;
    fclose(file);
    globfree(&found);
    return has;
}

static void
remove_event_file(void)
{
    glob_t found;
    assert_int_equal(glob(folder_path(&folder, "events.out.tfevents.*"), 0, NULL, &found), 0);
    remove(found.gl_pathv[0]);
    globfree(&found);
}

/* Killed after step 4, continued from the checkpoint of step 3, which is evaluated first. */
TEST(curves_keep_the_step_from_which_a_run_goes_on)
{
    static const char from_3[] = "\x10\x03\x3a\x02\x08\x01", from_4[] = "\x10\x04\x3a\x02\x08\x01";
    struct metrics_job job = {.run = "a", .text = "", .curves = true};
    struct metrics_step step;
    for (unsigned tested = 0; tested <= 1; tested++) {
        struct metrics *metrics = open_metrics(false);
        for (uint64_t k = 1; k <= 4; k++) {
            step = step_of(k);
            step.evaluated = tested && k == 3;
            metrics_step(metrics, &step);
        }
        metrics_destroy(&metrics);
        metrics = open_metrics(true);
        metrics_job(metrics, &job);
        step = step_of(3);
        step.samples = 0;
        step.evaluated = true;
        metrics_step(metrics, &step);
        assert_int_equal(event_file_has("test_loss", 9), !tested);
        write_step(metrics, 4);
        metrics_destroy(&metrics);
        assert_true(event_file_has(from_4, sizeof from_4 - 1));
        assert_false(event_file_has(from_3, sizeof from_3 - 1));
        remove_event_file();
    }
}

/* The figures of the first were longer. */
TEST(a_second_evaluation_of_a_step_takes_the_place_of_the_first)
{
    static const double loss[] = {0.123456789012, 0.25}, accuracy[] = {0.987654321012, 1};
    OWNED(metrics_destroy) struct metrics *metrics = open_metrics(false);
    struct metrics_step step = step_of(1);
    metrics_step(metrics, &step);
    step.evaluated = true;
    step.samples = 0;
    for (int k = 0; k < 2; k++) {
        step.test_loss = loss[k];
        step.test_accuracy = accuracy[k];
        metrics_step(metrics, &step);
    }
    assert_true(number_in(0, "test_loss") == 0.25);
    assert_true(number_in(0, "test_accuracy") == 1);
    assert_null(line(1));
}

/* As in gossip: at the end of the last epoch but one, known late; then of the mean of all. */
TEST(evaluations_of_other_weights_say_of_which_and_have_a_line_each)
{
    static const char *const of[] = {"epoch 3", "mean model"};
    OWNED(metrics_destroy) struct metrics *metrics = open_metrics(false);
    struct metrics_step step = step_of(80);
    metrics_step(metrics, &step);
    step.evaluated = true;
    step.samples = 0;
    for (unsigned k = 0; k < 2; k++) {
        step.test_loss = 0.5 - 0.25 * k;
        step.test_of = of[k];
        step.test_step = 60 + 20 * k;
        metrics_step(metrics, &step);
    }
    for (unsigned k = 0; k < 2; k++) {
        OWNED(json_release) json_t *object = line(k);
        HAS(object, {"step", 80}, {"test_loss", 0.5 - 0.25 * k}, {"test_step", 60 + 20 * k});
        assert_string_equal(text_of(object, "test_of"), of[k]);
    }
    assert_null(line(2));
}

TEST(lines_of_steps_that_are_done_again_go)
{
    OWNED(metrics_destroy) struct metrics *metrics = open_metrics(false);
    for (uint64_t k = 1; k <= 9; k++)
        write_step(metrics, k);
    metrics_withdraw_from(metrics, 4);
    metrics_withdraw_from(metrics, 40);
    write_step(metrics, 4);
    LINES_ARE_OF(1, 2, 3, 4);
    metrics_withdraw_from(metrics, 0);
    assert_null(line(0));
}

TEST(an_evaluation_alone_is_a_line)
{
    OWNED(metrics_destroy) struct metrics *metrics = open_metrics(false);
    struct metrics_step step = step_of(5);
    step.evaluated = true;
    step.samples = 0;
    step.test_loss = 0.25;
    step.test_accuracy = -1;
    metrics_step(metrics, &step);
    OWNED(json_release) json_t *object = line(0);
    HAS(object, {"step", 5}, {"test_loss", 0.25});
    assert_true(json_is_null(json_object_get(object, "test_accuracy")));
}

static void
append(const char *text)
{
    FILE *file = fopen(folder_path(&folder, "metrics.jsonl"), "a");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* An audit takes lines as long as this one. */
TEST(the_longest_line_goes_like_any_other)
{
    char text[VERIFY_LINE_MAX + 2];
    run_of(false, 1, 3);
    memset(text, ' ', sizeof text);
    memcpy(text, "{\"step\":4", 9);
    memcpy(text + VERIFY_LINE_MAX - 1, "}\n", 3);
    append(text);
    OWNED(metrics_destroy) struct metrics *metrics = open_metrics(true);
    write_step(metrics, 5);
    metrics_withdraw_from(metrics, 3);
    LINES_ARE_OF(1, 2);
}

TEST(a_resumed_run_continues_behind_the_last_whole_line)
{
    run_of(false, 1, 1);
    append("{\"step\":2,\"epo");
    run_of(true, 2, 2);
    LINES_ARE_OF(1, 2);
}

TEST(a_torn_line_longer_than_a_block_goes_too)
{
    static char torn[9000];
    append("{\"step\":1}\n");
    memset(torn, ' ', sizeof torn - 1);
    append(torn);
    run_of(true, 2, 2);
    LINES_ARE_OF(1, 2);
}

TEST(a_new_run_replaces_an_old_one_with_its_first_step)
{
    append("{\"step\":1}\n");
    folder_text(&folder, "result.json", "");
    run_of(false, 1, 0);
    LINES_ARE_OF(1); /* it came to nothing: all is as before */
    assert_int_equal(access(folder_path(&folder, "result.json"), F_OK), 0);
    OWNED(metrics_destroy) struct metrics *metrics = open_metrics(false);
    write_step(metrics, 7);
    LINES_ARE_OF(7);
    assert_int_equal(access(folder_path(&folder, "result.json"), F_OK), -1);
}

/* Steps 1, 2 and 3; then another start does step 2 again. */
static size_t
lines_after_a_step_again(bool inexact, uint64_t samples)
{
    run_of(false, 1, 3);
    struct metrics *metrics = open_metrics(true);
    if (inexact)
        metrics_job(metrics, &(struct metrics_job){.run = "x", .inexact = true});
    for (uint64_t k = 2; k <= 3; k++) {
        struct metrics_step step = step_of(k);
        step.samples = k == 2 ? samples : 100;
        metrics_step(metrics, &step);
    }
    metrics_sync(metrics);
    metrics_destroy(&metrics);
    size_t count = 0;
    for (json_t *object; (object = line(count)); count++)
        json_decref(object);
    return count;
}

/* Done again it has two lines; with other bits the later one counts; an evaluation alone does no step again. */
TEST(a_step_that_is_done_again_has_two_lines_or_the_later_one)
{
    static const struct {
        bool inexact;
        uint64_t samples;
        size_t lines;
    } row[] = {{false, 100, 5}, {true, 100, 3}, {true, 0, 4 /* of step 3 */}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        assert_int_equal(lines_after_a_step_again(row[i].inexact, row[i].samples), row[i].lines);
}

TEST(a_run_that_came_to_nothing_leaves_nothing)
{
    struct metrics *metrics;
    assert_int_equal(metrics_new(&metrics, folder_path(&folder, "a/b"), false, true, &why), 0);
    assert_int_equal(access(folder_path(&folder, "a/b/metrics.jsonl"), F_OK), 0);
    metrics_destroy(&metrics);
    assert_int_equal(access(folder_path(&folder, "a"), F_OK), -1);
    assert_int_equal(access(folder.path, F_OK), 0);
    run_of(false, 1, 0);
    assert_int_equal(access(folder_path(&folder, "metrics.jsonl"), F_OK), -1);
    assert_int_equal(access(folder.path, F_OK), 0);
}

TEST(two_runs_do_not_share_a_folder)
{
    struct metrics *metrics = open_metrics(false), *second;
    write_step(metrics, 1);
    assert_int_equal(metrics_new(&second, folder.path, false, true, &why), -EBUSY);
    assert_null(second);
    assert_non_null(strstr(why.line, "in use by another run"));
    json_t *object = line(0);
    assert_non_null(object);
    json_decref(object);
    metrics_destroy(&metrics);
    run_of(false, 1, 0);
}

TEST(folders_are_made_with_their_parents)
{
    OWNED(metrics_destroy) struct metrics *metrics;
    assert_int_equal(metrics_new(&metrics, folder_path(&folder, "a/b"), false, true, &why), 0);
    assert_int_equal(access(folder_path(&folder, "a/b/metrics.jsonl"), F_OK), 0);
}

TEST(a_folder_that_cannot_be_is_named)
{
    struct metrics *metrics;
    append("x");
    assert_int_equal(
        metrics_new(&metrics, folder_path(&folder, "metrics.jsonl"), false, true, &why), -ENOTDIR);
    assert_non_null(strstr(why.line, "metrics.jsonl: "));
    assert_true(metrics_new(&metrics, folder_path(&folder, "metrics.jsonl/x"), false, true, &why) <
                0);
    assert_true(metrics_new(&metrics, "/proc/none\033", false, true, &why) < 0);
    assert_non_null(strstr(why.line, "/proc/none\\x1b: "));
    assert_int_equal(remove(folder_path(&folder, "metrics.jsonl")), 0);
    assert_int_equal(mkfifo(folder_path(&folder, "metrics.jsonl"), 0600), 0);
    assert_true(metrics_new(&metrics, folder.path, false, true, &why) < 0);
    assert_non_null(strstr(why.line, "not a regular file"));
}

/* RLIMIT_FSIZE stands for a full disk. */
TEST(a_full_disk_costs_lines_but_not_the_run)
{
    struct rlimit before, small;
    struct metrics *metrics = open_metrics(false);
    int error = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 700; /* one line, and a part of the second */
    dup2(null, STDERR_FILENO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (uint64_t i = 1; i <= 5; i++)
        write_step(metrics, i);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    dup2(error, STDERR_FILENO);
    close(error);
    close(null);
    write_step(metrics, 6);
    metrics_destroy(&metrics);
    LINES_ARE_OF(1, 6);
}

TEST(an_alarm_stands_in_every_line_until_it_ends)
{
    OWNED(metrics_destroy) struct metrics *metrics = open_metrics(false);
    for (uint64_t i = 1; i <= 4; i++) {
        struct metrics_step step = step_of(i);
        if (i == 2)
            metrics_alarm(metrics, "NO CHECKPOINT since step 1");
        if (i == 4)
            metrics_alarm(metrics, NULL);
        metrics_step(metrics, &step);
    }
    for (size_t i = 0; i < 4; i++) {
        OWNED(json_release) json_t *object = line(i);
        const char *alarm = text_of(object, "alarm");
        if (i == 0 || i == 3)
            assert_null(alarm);
        else
            assert_string_equal(alarm, "NO CHECKPOINT since step 1");
    }
}

/* The lock of one process tells another who holds it. */
TEST(whoever_is_refused_learns_by_whom)
{
    char expected[64];
    int status;
    struct metrics *metrics = open_metrics(false), *second;
    snprintf(expected, sizeof expected, "in use by process %ld,", (long)getpid());
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int rc = metrics_new(&second, folder.path, false, true, &why);
        _exit(rc == -EBUSY && strstr(why.line, expected) && strstr(why.line, folder.path) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    metrics_destroy(&metrics);
}

static struct metrics_result
result_of(void)
{
    struct metrics_result result = {
        .run = "digits",
        .node = "a\"b\033",
        .steps = 10,
        .epochs = 2,
        .samples = UINT64_MAX,
        .train_loss = (double)NAN,
        .test_loss = 0.25,
        .test_accuracy = -1,
        .wall_s = 1.5,
        .exact = true,
        .peers_max = 4,
        .plans = 2,
        .aborts = 1,
        .tx_bytes = 5,
        .rx_bytes = 6,
    };
    memset(result.params_sha256, 'a', 64);
    memset(result.state_sha256, 'b', 64);
    return result;
}

TEST(the_result_holds_what_the_run_came_to)
{
    struct metrics *metrics = open_metrics(false);
    struct metrics_result result = result_of();
    static struct core_status others = {.contact_count = 4};
    others.contacts[0] = (struct core_contact){{"10.0.0.1", 20000}, "pc1", .met = true};
    others.contacts[1] = (struct core_contact){{"10.0.0.2", 20000}, "pc2", .here = false};
    others.contacts[2] = (struct core_contact){{"10.0.0.3", 20002}, "", .here = false};
    others.contacts[3] = (struct core_contact){{"10.0.0.4", 20000}, "pc4", .settled = true};
    result.alone = true;
    result.mesh = &others;
    metrics_say(metrics, 6, "nothing bad");
    metrics_say(metrics, 4, "a warning");
    metrics_say(metrics, 3, "an error");
    assert_int_equal(metrics_result(metrics, &result, &why), 0);
    metrics_destroy(&metrics);
    json_error_t error;
    json_t *object =
        json_load_file(folder_path(&folder, "result.json"), JSON_REJECT_DUPLICATES, &error);
    assert_non_null(object);
    assert_int_equal(json_object_size(object), 23);
    assert_true(number(object, "warnings") == 2);
    assert_string_equal(text_of(object, "node"), "a\"b\\x1b");
    assert_true(json_is_null(json_object_get(object, "train_loss")));
    assert_true(json_is_null(json_object_get(object, "test_accuracy")));
    assert_true(json_is_true(json_object_get(object, "exact")));
    assert_true(number(object, "samples") == 9223372036854775807.0);
    assert_true(number(object, "wall_s") == 1.5);
    assert_true(json_is_true(json_object_get(object, "alone")));
    const json_t *unmet = json_object_get(object, "unmet"), *peer = json_array_get(unmet, 0);
    assert_int_equal(json_array_size(unmet), 2); /* not those that were met, or refused */
    assert_string_equal(text_of(peer, "address"), "10.0.0.2:20000");
    assert_string_equal(text_of(peer, "host"), "pc2");
    peer = json_array_get(unmet, 1);
    assert_string_equal(text_of(peer, "address"), "10.0.0.3:20002");
    assert_true(json_is_null(json_object_get(peer, "host")));
    json_decref(object);
    assert_int_equal(access(folder_path(&folder, "result.json.tmp"), F_OK), -1);
}

TEST(results_are_read_back_for_comparison)
{
    struct metrics *metrics = open_metrics(false);
    struct metrics_result result = result_of();
    struct compare_result got;
    assert_true(compare_read(&got, folder.path, &why) < 0);
    assert_non_null(strstr(why.line, "result.json: "));
    assert_int_equal(metrics_result(metrics, &result, &why), 0);
    metrics_destroy(&metrics);
    assert_int_equal(compare_read(&got, folder.path, &why), 0);
    assert_true(got.steps == 10);
    assert_true(isnan(got.test_accuracy));
    assert_true(got.test_loss == 0.25);
    assert_string_equal(got.state_sha256, result.state_sha256);
}

TEST(a_result_that_cannot_be_written_is_an_error)
{
    OWNED(metrics_destroy) struct metrics *metrics = open_metrics(false);
    struct metrics_result result = result_of();
    assert_int_equal(mkdir(folder_path(&folder, "result.json"), 0700), 0);
    assert_true(metrics_result(metrics, &result, &why) < 0);
    assert_non_null(strstr(why.line, "result.json: "));
    assert_int_equal(access(folder_path(&folder, "result.json.tmp"), F_OK), -1);
}

static off_t
size_of(const char *name)
{
    struct stat status;
    return stat(folder_path(&folder, name), &status) == 0 ? status.st_size : -1;
}

/* It took the last state from the others. What an earlier run left does not belong to the result. */
TEST(a_run_without_a_step_leaves_its_files_too)
{
    struct metrics_result result = result_of();
    struct metrics_step step = step_of(7);
    for (unsigned k = 0; k < 2; k++) {
        struct metrics *metrics = open_metrics(false);
        assert_int_equal(metrics_result(metrics, &result, &why), 0);
        metrics_destroy(&metrics);
        assert_int_equal(size_of("metrics.jsonl"), 0);
        assert_true(size_of("result.json") > 0);
        metrics = open_metrics(false); /* the earlier run of the second turn */
        metrics_step(metrics, &step);
        metrics_destroy(&metrics);
        assert_true(size_of("metrics.jsonl") > 0);
    }
    struct metrics *metrics = open_metrics(true); /* goes on, and there is nothing more to do */
    off_t before = size_of("metrics.jsonl");
    assert_int_equal(metrics_result(metrics, &result, &why), 0);
    metrics_destroy(&metrics);
    assert_int_equal(size_of("metrics.jsonl"), before);
}

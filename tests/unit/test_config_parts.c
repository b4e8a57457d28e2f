/* test_config_parts.c - what earlier steps of a run were trained with, and where two jobs differ. */
#include "node/job/config_parts.h"

#include <errno.h>
#include <stdio.h>

#include "tests/support/test.h"

static const char base[] = "model: [flatten, dense: 10]\n"
                           "train: {epochs: 3, optimizer: {sgd: {rate: 0.5, momentum: 0.9}}}\n";

static struct config *
job(const char *const *set)
{
    struct why why = {""};
    struct config *config;
    if (config_parse(&config, "job.yaml", base, strlen(base), &why))
        fail_msg("%s", why.line);
    for (; *set; set++)
        if (config_set(config, *set, &why))
            fail_msg("%s", why.line);
    if (config_check(config, &why))
        fail_msg("%s", why.line);
    return config;
}

/* Each part is, to the hash, the job that it was. */
TEST(a_part_is_the_job_that_it_was)
{
    struct why why;
    struct config *first = job((const char *const[]){NULL});
    struct config *second = job((const char *const[]){"train.epochs=6", "train.schedule=step",
                                                      "train.schedule.step.gamma=0.25", NULL});
    OWNED(config_destroy)
    struct config *third = job((const char *const[]){
        "train.epochs=9", "train.optimizer.sgd.rate=0.125", "train.warmup=5", NULL});
    assert_int_equal(config_parts_add(second, first, 75, &why), 0);
    assert_string_equal(second->train.past, "75 train.epochs=3 train.schedule=constant");
    assert_int_equal(config_parts_add(third, second, 150, &why), 0);
    struct config_parts parts;
    assert_int_equal(config_parts_init(&parts, third, &why), 0);
    assert_int_equal(parts.count, 2);
    assert_int_equal(parts.until[0], 75);
    assert_int_equal(parts.until[1], 150);
    assert_true(parts.config[0]->job_hash == first->job_hash);
    assert_true(parts.config[1]->job_hash == second->job_hash);
    assert_string_equal(parts.config[1]->train.past, second->train.past);
    assert_true(third->job_hash != second->job_hash);
    config_parts_fini(&parts);

    /* A second change at the same step takes the place of the first. */
    struct config *instead = job((const char *const[]){"train.epochs=7", NULL});
    assert_int_equal(config_parts_add(instead, third, 150, &why), 0);
    assert_int_equal(config_parts_init(&parts, instead, &why), 0);
    assert_int_equal(parts.count, 2);
    assert_true(parts.config[1]->job_hash == second->job_hash);
    config_parts_fini(&parts);
    assert_int_equal(config_parts_add(instead, third, 149, &why), -EINVAL);
    config_destroy(&instead);
    config_destroy(&first);
    config_destroy(&second);
}

TEST(the_past_may_be_written_in_any_order_and_says_no_more_than_it_must)
{
    OWNED(config_destroy)
    struct config *config = job((const char *const[]){
        "train.past=10  train.clip_norm=2 train.epochs=1   train.batch=384;20", NULL});
    assert_string_equal(config->train.past, "10 train.epochs=1 train.clip_norm=2; 20");
}

TEST(what_cannot_be_a_past_is_refused)
{
    static const char *const bad[][2] = {
        {"75 train.batch=96", "train.batch cannot change"},
        {"75 run.seed=9", "run.seed cannot change"},
        {"75 train.optimizer=adam", "train.optimizer cannot change"},
        {"75 train.optimizer.sgd.momentum=0", "momentum cannot change"},
        {"75 train.ema=0.5", "train.ema cannot change"},
        {"75 train.epochs=x", "train.epochs = x"},
        {"75 train.epochs", "expected section.key=value"},
        {"0 train.epochs=1", "steps that rise"},
        {"75;75", "steps that rise"},
        {"-1", "steps that rise"},
        {"18446744073709551615", "steps that rise"},
        {";", "steps that rise"},
        {"1;2;3;4;5;6;7;8;9;10;11;12;13;14;15;16;17", "at most 16 parts"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char assignment[128];
        struct why why = {""};
        OWNED(config_destroy) struct config *config = job((const char *const[]){NULL});
        snprintf(assignment, sizeof assignment, "train.past=%s", bad[i][0]);
        assert_int_equal(config_set(config, assignment, &why), 0);
        if (strcmp(bad[i][0], ";") == 0) { /* nothing between the parts is nothing */
            assert_int_equal(config_check(config, &why), 0);
        } else {
            assert_int_equal(config_check(config, &why), -EINVAL);
            if (strncmp(why.line, "train.past = '", 14) != 0 || !strstr(why.line, bad[i][1]))
                fail_msg("%s: %s", bad[i][0], why.line);
        }
    }
}

TEST(differences_are_named_one_after_the_other)
{
    struct config_difference d;
    struct config *left = job((const char *const[]){NULL});
    OWNED(config_destroy)
    struct config *right = job((const char *const[]){
        "train.epochs=4", "train.batch=768", "train.optimizer.sgd.rate=1", "mesh.peers=3", NULL});
    size_t at = 0;
    assert_true(config_differ(left, right, &at, &d));
    assert_string_equal(d.key, "train.epochs");
    assert_string_equal(d.left, "3");
    assert_string_equal(d.right, "4");
    assert_false(d.fixed);
    assert_true(config_differ(left, right, &at, &d));
    assert_string_equal(d.key, "train.batch");
    assert_true(d.fixed);
    assert_true(config_differ(left, right, &at, &d));
    assert_string_equal(d.key, "train.optimizer.sgd.rate");
    assert_false(config_differ(left, right, &at, &d));
    assert_false(config_differ(left, right, &at, &d));
    assert_true(config_differ_fixed(left, right, &d));
    assert_string_equal(d.key, "train.batch");
    config_destroy(&left);
}

/* How sums travel is no part of the job, but nodes that train together must agree on some of it. */
TEST(how_sums_travel_may_differ_between_runs)
{
    struct config_difference d;
    struct config *left = job((const char *const[]){"mesh.audit=0.5", NULL});
    OWNED(config_destroy)
    struct config *right = job((const char *const[]){"mesh.bucket=4096", "mesh.division=even",
                                                     "mesh.stages=2", "mesh.schedule=1f1b", NULL});
    size_t at = 0;
    assert_true(left->job_hash == right->job_hash);
    assert_false(left->exchange_hash == right->exchange_hash);
    assert_false(config_differ(left, right, &at, &d));
    assert_false(config_differ_fixed(left, right, &d));
    at = 0;
    assert_true(config_differ_together(left, right, &at, &d));
    assert_string_equal(d.key, "mesh.stages");
    assert_true(config_differ_together(left, right, &at, &d));
    assert_string_equal(d.key, "mesh.schedule");
    assert_true(config_differ_together(left, right, &at, &d));
    assert_string_equal(d.key, "mesh.bucket");
    assert_true(config_differ_together(left, right, &at, &d));
    assert_string_equal(d.key, "mesh.audit");
    assert_false(config_differ_together(left, right, &at, &d));
    config_destroy(&left);
}

/* But with gossip the way decides the result, too. */
TEST(the_way_is_named_where_one_of_them_gossips)
{
    static const char gossip[] = "mesh.topology=gossip";
    static const struct {
        const char *left[3], *right[3], *key; /* NULL: one job */
    } pairs[] = {
        {{NULL}, {"mesh.topology=server"}, NULL},
        {{NULL}, {gossip}, "mesh.topology"},
        {{"mesh.topology=server"}, {gossip, "gossip.graph=ring"}, "mesh.topology"},
        {{gossip}, {gossip, "mesh.peers=3"}, NULL},
        {{gossip}, {gossip, "gossip.graph=ring"}, "gossip.graph"},
        {{gossip}, {gossip, "gossip.method=push_sum"}, "gossip.method"},
        {{gossip}, {gossip, "mesh.sync=async"}, "mesh.sync"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct config_difference d;
        OWNED(config_destroy)
        struct config *left = job(pairs[i].left), *right = job(pairs[i].right);
        size_t at = 0;
        bool differ = config_differ_together(left, right, &at, &d);
        assert_int_equal(left->job_hash != right->job_hash, pairs[i].key != NULL);
        assert_int_equal(differ, pairs[i].key != NULL);
        if (differ)
            assert_string_equal(d.key, pairs[i].key);
        assert_int_equal(config_differ_fixed(left, right, &d), differ);
    }
}

/* Rounding changes the result. A job without it has the hash that it had before there was the key. */
TEST(rounded_activations_are_another_job)
{
    struct config_difference d;
    struct config *plain = job((const char *const[]){"mesh.activations=fp32", NULL});
    OWNED(config_destroy)
    struct config *rounded = job((const char *const[]){"mesh.activations=bf16", NULL});
    size_t at = 0;
    assert_null(strstr(plain->text, "activations"));
    assert_non_null(strstr(rounded->text, "  activations: bf16\n"));
    assert_true(plain->job_hash != rounded->job_hash);
    assert_true(config_differ_together(plain, rounded, &at, &d));
    assert_string_equal(d.key, "mesh.activations");
    assert_string_equal(d.left, "fp32");
    assert_string_equal(d.right, "bf16");
    assert_true(config_differ_fixed(plain, rounded, &d));
    config_destroy(&plain);
}

/* test_options.c - command lines, right and wrong. */
#include "node/cli/options.h"

#include <errno.h>

#include "tests/support/test.h"

enum { ARGC_MAX = 72 };

#define AS_13 "a a a a a a a a a a a a a "
#define AS_65 AS_13 AS_13 AS_13 AS_13 AS_13

/* Blanks separate the arguments; `_` is an empty one. */
static int
parse(struct options *options, const char *line, struct why *why)
{
    static char copy[1024];
    static char name[] = "meshnode", empty[] = "";
    char *argv[ARGC_MAX] = {name}, *rest = copy;
    int argc = 1;
    why->line[0] = '\0';
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word; argc < ARGC_MAX && (word = strsep(&rest, " "));)
        if (*word)
            argv[argc++] = strcmp(word, "_") == 0 ? empty : word;
    return options_parse(options, argc, argv, why);
}

TEST(wrong_command_lines_are_named)
{
    static const char *const bad[][2] = {
        {"--prot 3", "unknown option --prot, did you mean --port?"},
        {"--http 3", "unknown option --http"},
        {"--frobnicate", "unknown option --frobnicate, see meshnode --help"},
        {"-x", "unknown option -x"},
        {"-", "unknown option -"},
        {"---", "unknown option ---"},
        {"-nfoo job", "-n foo, expected a whole number 1..64"},
        {"-n", "-n needs a value: -n N"},
        {"-n 0", "-n 0, expected"},
        {"-n 65", "-n 65"},
        {"-n -1", "-n -1"},
        {"--prompt", "--prompt needs a value: --prompt TEXT"},
        {"--prompt _", "--prompt is empty"},
        {"--length 0", "--length 0, expected a whole number 1..100000000"},
        {"--length 1e3", "--length 1e3, expected"},
        {"--top-k 257", "--top-k 257, expected a whole number 0..256"},
        {"--temperature -1", "--temperature -1, expected a number 0..1000"},
        {"--temperature nan", "--temperature nan, expected"},
        {"--temperature=1001", "--temperature 1001, expected"},
        {"--port", "--port needs a value: --port PORT"},
        {"job --set", "--set needs a value"},
        {"--set train.epochs", "--set train.epochs, expected --set KEY=VALUE, with a ="},
        {"--set mesh.topology job.yaml", "--set mesh.topology, expected --set KEY=VALUE"},
        {"--set mesh.topology --quiet", "--set mesh.topology, expected --set KEY=VALUE"},
        {"--set mesh.topology gossip", "did you mean --set mesh.topology=gossip?"},
        {"--set train.optimizer.sgd.rate 0.5", "mean --set train.optimizer.sgd.rate=0.5?"},
        {"--gossip", "unknown option --gossip, did you mean --set mesh.topology=gossip?"},
        {"--async", "did you mean --set mesh.sync=async?"},
        {"--adam", "did you mean --set train.optimizer=adam?"},
        {"--cross-entropy", "did you mean --set train.loss=cross_entropy?"},
        {"--epochs", "did you mean --set train.epochs=VALUE?"},
        {"--false", "unknown option --false, see meshnode --help"},
        {"--layernorm", "unknown option --layernorm, see meshnode --help"},
        {"--quiet=yes", "--quiet takes no value"},
        {"--help=1", "--help takes no value"},
        {AS_65 "d", "one argument too many: d"},
        {"_", "empty argument"},
        {AS_65 "d\033[1m", "d\\x1b[1m"},
        {"--set=\033= --\033[1m", "unknown option --\\x1b[1m"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        OWNED(options_fini) struct options options;
        struct why why;
        assert_int_equal(parse(&options, bad[i][0], &why), -EINVAL);
        if (!strstr(why.line, bad[i][1]))
            fail_msg("%s: '%s' does not say '%s'", bad[i][0], why.line, bad[i][1]);
    }
}

TEST(options_and_arguments_mix_in_any_order)
{
    OWNED(options_fini) struct options options;
    struct why why;
    assert_int_equal(
        parse(&options, "--seed 7 local -n3 --set=a.b=c=d --resume job.yaml --quiet", &why), 0);
    assert_int_equal(options.arg_count, 2);
    assert_string_equal(options.args[0], "local");
    assert_string_equal(options.args[1], "job.yaml");
    assert_int_equal(options.nodes, 3);
    assert_true(options.resume);
    assert_int_equal(options.set_count, 3);
    assert_string_equal(options.set[0].assignment, "run.seed=7");
    assert_string_equal(options.set[1].assignment, "a.b=c=d");
    assert_string_equal(options.set[2].assignment, "node.quiet=yes");
}

TEST(two_dashes_end_the_options)
{
    OWNED(options_fini) struct options options;
    struct why why;
    assert_int_equal(parse(&options, "--quiet -- --help -n", &why), 0);
    assert_false(options.help);
    assert_int_equal(options.arg_count, 2);
    assert_string_equal(options.args[0], "--help");
}

TEST(help_wins_over_what_follows)
{
    OWNED(options_fini) struct options options;
    struct why why;
    assert_int_equal(parse(&options, "missing.yaml --help --nonsense", &why), 0);
    assert_true(options.help);
    options_fini(&options);
    assert_int_equal(parse(&options, "--version --nonsense", &why), 0);
    assert_true(options.version);
}

TEST(too_many_options_are_refused)
{
    static char word[] = "--quiet", name[] = "meshnode";
    static char *argv[OPTIONS_SETS_MAX + 3] = {name};
    OWNED(options_fini) struct options options;
    struct why why = {""};
    for (int i = 1; i <= OPTIONS_SETS_MAX + 1; i++)
        argv[i] = word;
    assert_int_equal(options_parse(&options, OPTIONS_SETS_MAX + 2, argv, &why), -EINVAL);
    assert_non_null(strstr(why.line, "more than 256 options"));
}

TEST(later_options_win_and_lists_grow)
{
    static const char job[] = "model: [dense: 10]";
    struct options options;
    OWNED(config_destroy) struct config *config;
    struct why why;
    assert_int_equal(config_parse(&config, "job", job, strlen(job), &why), 0);
    assert_int_equal(parse(&options,
                           "--threads 2 --set node.threads=3 --threads 4 --peer a:1 --peer [::1]:2",
                           &why),
                     0);
    assert_int_equal(options_apply(&options, config, &why), 0);
    assert_int_equal(config->threads, 4);
    assert_int_equal(config->mesh.seed_count, 2);
    options_fini(&options);
}

TEST(a_wrong_value_names_the_option)
{
    static const char *const bad[][2] = {
        {"--threads x", "--threads: node.threads = x, expected a whole number 0..256"},
        {"--port 65536", "--port: mesh.port = 65536"},
        {"--peers -1", "--peers: mesh.peers = -1"},
        {"--peer nowhere", "--peer: mesh.seeds = nowhere, expected HOST:PORT"},
        {"--seed 1e3", "--seed: run.seed = 1e3"},
        {"--log loud", "--log: node.log = loud, expected error, warning, info or debug"},
        {"--set train.epoch=3", "--set: unknown key train.epoch, did you mean train.epochs?"},
        {"--seed _", "--seed: run.seed = \"\""},
    };
    static const char job[] = "model: [dense: 10]";
    OWNED(config_destroy) struct config *config;
    struct why why;
    assert_int_equal(config_parse(&config, "job", job, strlen(job), &why), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        OWNED(options_fini) struct options options;
        assert_int_equal(parse(&options, bad[i][0], &why), 0);
        assert_int_equal(options_apply(&options, config, &why), -EINVAL);
        if (!strstr(why.line, bad[i][1]))
            fail_msg("%s: '%s' does not say '%s'", bad[i][0], why.line, bad[i][1]);
    }
}

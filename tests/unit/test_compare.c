/* test_compare.c - whether several nodes came to the same. */
#include "node/commands/compare.h"

#include <math.h>

#include "tests/support/folder.h"
#include "tests/support/test.h"

static struct compare_result
result_of(unsigned node, char params, char state)
{
    struct compare_result result = {
        .node = node, .steps = 10, .test_accuracy = 0.98125, .test_loss = 0.0625, .wall_s = node};
    memset(result.params_sha256, params, 64);
    memset(result.state_sha256, state, 64);
    return result;
}

static char printed[4096];

static bool
compare(const struct compare_result *results, size_t count, unsigned nodes)
{
    FILE *file = fmemopen(printed, sizeof printed, "w");
    assert_non_null(file);
    bool same = compare_print(file, results, count, nodes);
    assert_int_equal(fclose(file), 0);
    return same;
}

TEST(equal_hashes_are_the_same_weights)
{
    struct compare_result results[] = {result_of(1, 'a', 'b'), result_of(2, 'a', 'b'),
                                       result_of(4, 'a', 'b')};
    assert_true(compare(results, 3, 3));
    assert_non_null(strstr(printed, "all 3 nodes hold the same weights: sha256 aaaa"));
    assert_non_null(strstr(printed, "test accuracy 98.12 %, test loss 0.0625, wall time 4.0 s"));
    assert_true(compare(results, 3, 4));
    assert_non_null(strstr(printed, "the 3 nodes that finished hold the same weights"));
    assert_true(compare(results, 1, 4));
    assert_non_null(strstr(printed, "the one node that finished holds"));
    assert_true(compare(results, 1, 1));
    assert_non_null(strstr(printed, "the node holds these weights"));
}

TEST(one_odd_weight_or_state_is_found)
{
    struct compare_result results[] = {result_of(1, 'a', 'b'), result_of(2, 'a', 'b'),
                                       result_of(3, 'a', 'b')};
    for (int i = 1; i < 3; i++) {
        struct compare_result good = results[i];
        results[i].params_sha256[63] = 'f';
        assert_false(compare(results, 3, 3));
        assert_non_null(strstr(printed, "DIFFERENT"));
        assert_null(strstr(printed, "same weights"));
        results[i] = good;
        results[i].state_sha256[0] = 'f';
        assert_false(compare(results, 3, 3));
        results[i] = good;
        assert_true(compare(results, 3, 3));
    }
}

/* It had no room for them. */
TEST(a_node_without_all_weights_is_not_another)
{
    struct compare_result results[] = {result_of(1, '\0', '\0'), result_of(2, 'a', 'b'),
                                       result_of(3, 'a', 'b')};
    assert_true(compare(results, 3, 3));
    assert_non_null(strstr(printed, "in parts"));
    assert_non_null(
        strstr(printed, "the 2 nodes that finished hold the same weights: sha256 aaaa"));
    results[2].state_sha256[5] = 'c';
    assert_false(compare(results, 3, 3));
    assert_true(compare(results, 1, 3));
    assert_non_null(strstr(printed, "no node had room for all weights"));
}

TEST(what_is_missing_is_a_dash)
{
    struct compare_result result = result_of(1, 'a', 'b');
    result.test_accuracy = result.test_loss = (double)NAN;
    assert_true(compare(&result, 1, 1));
    assert_non_null(strstr(printed, "test accuracy -, test loss -"));
}

TEST(results_that_are_not_whole_are_refused)
{
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "{}",
        "3",
        "{\"steps\": 3}",
        "{\"steps\": -1, \"params_sha256\": \"HASH\", \"state_sha256\": \"HASH\"}",
        "{\"steps\": 1, \"steps\": 1, \"params_sha256\": \"HASH\", \"state_sha256\": \"HASH\"}",
        "{\"steps\": 1, \"params_sha256\": \"HASHa\", \"state_sha256\": \"HASH\"}",
        "{\"steps\": 1, \"params_sha256\": \"\", \"state_sha256\": \"HASH\"}",
        "{\"steps\": 1, \"params_sha256\": \"HASH\"}",
        "{\"steps\": 1, \"params_sha256\": null, \"state_sha256\": null, \"no_model\": 1}",
    };
    static const char hash[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    OWNED(folder_fini) struct folder folder = folder_new();
    const char *path = folder_path(&folder, "result.json");
    struct why why;
    struct compare_result got;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        for (const char *rest = bad[i]; *rest; rest += strncmp(rest, "HASH", 4) == 0 ? 4 : 1)
            fputs(strncmp(rest, "HASH", 4) == 0 ? hash : (char[]){*rest, 0}, file);
        assert_int_equal(fclose(file), 0);
        if (compare_read(&got, folder.path, &why) == 0)
            fail_msg("accepted: %s", bad[i]);
        assert_non_null(strstr(why.line, path));
    }
}

#include "tests/support/test.h"

static struct test_case *cases; /* by line */
static size_t count;
static struct test_fixture each, all;

void
test_add(struct test_case *one)
{
    struct test_case **at = &cases;
    while (*at && (*at)->line <= one->line)
        at = &(*at)->next;
    one->next = *at;
    *at = one;
    count++;
}

void
test_each(struct test_fixture fixture)
{
    each = fixture;
}

void
test_all(struct test_fixture fixture)
{
    all = fixture;
}

int
test_run(void)
{
    struct CMUnitTest *tests = calloc(count, sizeof *tests);
    if (!tests)
        return 1;
    size_t n = 0;
    for (const struct test_case *one = cases; one; one = one->next, n++) {
        tests[n] = one->test;
        if (!tests[n].setup_func && !tests[n].teardown_func) {
            tests[n].setup_func = each.before;
            tests[n].teardown_func = each.after;
        }
    }
    int failed = _cmocka_run_group_tests("tests", tests, n, all.before, all.after);
    free(tests);
    return failed;
}

__attribute__((weak)) int
main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return test_run();
}

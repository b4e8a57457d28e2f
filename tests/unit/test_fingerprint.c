/* The fingerprint is the same every time and depends on what computes products. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "nn/nn.h"

static void
the_fingerprint_repeats(void **state)
{
    nn_init(*state);
    uint64_t first = nn_fingerprint();
    assert_true(first != 0);
    for (int i = 0; i < 3; i++)
        assert_true(nn_fingerprint() == first);
}

/* No machine may differ: the network is made of single IEEE operations in a fixed order. */
static void
the_fingerprint_is_a_constant_of_the_program(void **state)
{
    (void)state;
    assert_true(nn_fingerprint() == 0xa25e0eb3fd91cd7e); /* before nn_init */
    assert_string_equal(nn_init("portable"), "portable");
    assert_true(nn_fingerprint() == 0xa25e0eb3fd91cd7e);
}

static void
a_blas_kernel_has_a_name_and_a_fingerprint_of_its_own(void **state)
{
    (void)state;
    const char *name = nn_init("haswell");
    assert_memory_equal(name, "openblas ", 9);
    assert_true(strlen(name) > 9);
    assert_true(nn_fingerprint() != 0xa25e0eb3fd91cd7e);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fingerprint_is_a_constant_of_the_program),
        cmocka_unit_test_prestate(the_fingerprint_repeats, "portable"),
        cmocka_unit_test_prestate(the_fingerprint_repeats, "haswell"),
        cmocka_unit_test(a_blas_kernel_has_a_name_and_a_fingerprint_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

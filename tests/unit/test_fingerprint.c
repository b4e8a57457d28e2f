/* The fingerprint is the same every time and on every machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "nn/arithmetic/blas.h"
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
    assert_true(nn_fingerprint() == 0xdf96f9b82b8c49e7); /* before nn_init */
    assert_memory_equal(nn_init("portable"), "portable ", 9);
    assert_true(nn_fingerprint() == 0xdf96f9b82b8c49e7);
}

/* It is not for exact results, so two machines need not have the same. */
static void
a_blas_kernel_has_a_name_and_no_part_in_the_fingerprint(void **state)
{
    (void)state;
    const char *name = nn_init("openblas");
    if (!blas_used)
        skip(); /* there is no such library here */
    assert_memory_equal(name, "openblas ", 9);
    assert_true(strlen(name) > 9);
    assert_true(nn_fingerprint() == 0xdf96f9b82b8c49e7);
    assert_true(blas_used);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fingerprint_is_a_constant_of_the_program),
        cmocka_unit_test_prestate(the_fingerprint_repeats, "portable"),
        cmocka_unit_test_prestate(the_fingerprint_repeats, "openblas"),
        cmocka_unit_test(a_blas_kernel_has_a_name_and_no_part_in_the_fingerprint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The fingerprint is the same every time and depends on the bits of every kernel. */
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
    (void)state;
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
    assert_true(nn_fingerprint() == 0x5c10676f8260f6da);
}

static void
the_blas_kernel_has_a_name(void **state)
{
    (void)state;
    const char *name = nn_blas_init();
    assert_non_null(name);
    assert_true(strlen(name) > 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fingerprint_repeats),
        cmocka_unit_test(the_fingerprint_is_a_constant_of_the_program),
        cmocka_unit_test(the_blas_kernel_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The fingerprint is the same every time and on every machine. */

#include "nn/arithmetic/blas.h"
#include "nn/arithmetic/product.h"
#include "nn/nn.h"
#include "tests/support/test.h"

static void
the_fingerprint_repeats(void **state)
{
    nn_init(*state);
    uint64_t first = nn_fingerprint();
    assert_true(first != 0);
    for (int i = 0; i < 3; i++)
        assert_true(nn_fingerprint() == first);
}
TEST_OF(the_fingerprint_repeats, "portable")
TEST_OF(the_fingerprint_repeats, "openblas")

/* No machine may differ: the network is made of single IEEE operations in a fixed order. */
TEST(the_fingerprint_is_a_constant_of_the_program)
{
    assert_true(nn_fingerprint() == 0xdf96f9b82b8c49e7); /* before nn_init */
    assert_memory_equal(nn_init("portable"), "portable ", 9);
    assert_true(nn_fingerprint() == 0xdf96f9b82b8c49e7);
}

/* What a node with the instruction computes is what one without it does, so they may train together. */
TEST(an_instruction_for_bfloat16_has_no_part_in_the_fingerprint)
{
    nn_precision(true);
    nn_init("portable");
    assert_true(nn_fingerprint() == 0x1c3a8c2da93b0e89);
    product_paired = false;
    assert_true(nn_fingerprint() == 0x1c3a8c2da93b0e89);
    nn_precision(false);
    nn_init("portable");
}

/* It is not for exact results, so two machines need not have the same. */
TEST(a_blas_kernel_has_a_name_and_no_part_in_the_fingerprint)
{
    const char *name = nn_init("openblas");
    if (!blas_used)
        skip(); /* there is no such library here */
    assert_memory_equal(name, "openblas ", 9);
    assert_true(strlen(name) > 9);
    assert_true(nn_fingerprint() == 0xdf96f9b82b8c49e7);
    assert_true(blas_used);
}

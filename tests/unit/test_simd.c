/* The instruction set of the vector functions: chosen by name, never more than the CPU has. */
#include <errno.h>

#include "proto/simd.h"
#include "tests/support/test.h"

static struct why why;

TEST(without_a_name_it_is_the_largest)
{
    assert_int_equal(simd_choose(NULL, &why), 0);
    enum simd_set largest = simd_set;
    assert_int_equal(simd_choose("base", &why), 0);
    assert_int_equal(simd_choose("", &why), 0);
    assert_int_equal(simd_set, largest);
}

TEST(every_set_of_this_cpu_can_be_chosen)
{
    static const char *const names[] = {"base", "avx2", "avx512"};
    assert_int_equal(simd_choose(NULL, &why), 0);
    enum simd_set largest = simd_set;
    for (unsigned set = 0; set < 3; set++) {
        int rc = simd_choose(names[set], &why);
        assert_int_equal(rc, set <= largest ? 0 : -EINVAL);
        assert_int_equal(simd_set, set <= largest ? set : largest);
        assert_int_equal(simd_avx2(), simd_set != SIMD_SET_BASE);
        assert_int_equal(simd_avx512(), simd_set == SIMD_SET_AVX512);
    }
}

TEST(another_name_is_refused_with_the_names_that_there_are)
{
    assert_int_equal(simd_choose("avx3", &why), -EINVAL);
    assert_non_null(strstr(why.line, "MESHNODE_SIMD = avx3, expected base"));
    assert_non_null(strstr(why.line, "on this CPU"));
}

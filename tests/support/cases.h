/* cases.h - how many random cases a test draws.
 *
 *     for (size_t i = cases(400); i > 0; i--)
 *
 * TEST_CASES=0.1 in the environment makes it a tenth, for emulators and other slow machines: never none, and each test
 * says so. The first cases stay the same. Without it, all. */
#ifndef SUPPORT_CASES_H
#define SUPPORT_CASES_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static inline size_t
cases(size_t all)
{
    const char *text = getenv("TEST_CASES");
    double share = text ? strtod(text, NULL) : 1;
    if (!(share > 0 && share < 1))
        return all;
    size_t some = (size_t)((double)all * share);
    some = some > 0 ? some : 1;
    printf("TEST_CASES=%s: %zu of %zu cases\n", text, some, all);
    return some;
}

#endif

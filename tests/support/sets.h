/* sets.h - data sets that must open, and specs that must be refused. `why` is the last line that was said. */
#ifndef SUPPORT_SETS_H
#define SUPPORT_SETS_H

#include "nn/data.h"
#include "proto/why.h"
#include "tests/support/test.h"

static struct why why;

static inline struct data_set *
open_set(const struct data_spec *spec)
{
    struct data_set *set;
    if (data_open(&set, spec, &why))
        fail_msg("%s", why.line);
    return set;
}

static inline void
expect_refused(const struct data_spec *spec, int rc, const char *text)
{
    struct data_set *set;
    assert_int_equal(data_open(&set, spec, &why), rc);
    assert_null(set);
    if (!strstr(why.line, text))
        fail_msg("%s, expected %s", why.line, text);
}

#endif

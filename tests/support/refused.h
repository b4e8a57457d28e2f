/* refused.h - a model that must be refused with this line. */
#ifndef SUPPORT_REFUSED_H
#define SUPPORT_REFUSED_H

#include <errno.h>

#include "nn/nn.h"
#include "proto/why.h"
#include "tests/support/test.h"

static inline void
model_refused(const struct nn_shape *input, const struct nn_layer_spec *layers, size_t count,
              enum nn_loss loss, const char *line)
{
    struct nn_model *model = (void *)(uintptr_t)1;
    struct why why = {""};
    int rc = nn_model_new(&model, input, layers, count, loss, &why);
    assert_string_equal(why.line, line);
    assert_int_equal(rc, -EINVAL);
    assert_null(model);
}

#endif

/* data_counting.c - the set with which a network counts how often each sample was used.
 *
 * Sample i of n is row i of the unit matrix. With loss `count`, whose gradient is -1 for every output
 * whatever the weights are (loss.c), rate 1 and weights that start at zero, the gradient of sample i is
 * the unit vector e_i, and so after any number of steps weight i *is* the number of times sample i was
 * used, the bias the number of samples used: an oracle that trusts nothing of the program but its
 * additions. The test part is the same rows, so the loss of an evaluation is the mean count. */
#include <errno.h>
#include <stdlib.h>

#include "nn/data/data_set.h"

enum { COUNT_DEFAULT = 960, COUNT_MAX = 8192 };

static int
part_fill(struct data_rows *rows, size_t count, size_t width)
{
    rows->pixel = calloc(count, width);
    rows->label = calloc(count, sizeof *rows->label);
    if (!rows->pixel || !rows->label)
        return -ENOMEM;
    rows->count = count;
    for (size_t i = 0; i < count; i++)
        rows->pixel[i * width + i] = 1;
    return 0;
}

int
data_counting_load(struct data_set *set, const struct data_spec *spec, struct why *why)
{
    size_t train = spec->train ? spec->train : COUNT_DEFAULT;
    size_t test = spec->test ? spec->test : train;
    if (train > COUNT_MAX || test > train)
        return why_error(why, -EINVAL, "data.%s = %zu, expected 1..%zu",
                         train > COUNT_MAX ? "train" : "test", train > COUNT_MAX ? train : test,
                         train > COUNT_MAX ? (size_t)COUNT_MAX : train);
    set->info.input = (struct nn_shape){1, {train}};
    set->info.classes = 1;
    set->planes = 1;
    set->norm[0] = (struct data_norm){1, 0};
    int rc = part_fill(&set->part[DATA_TRAIN], train, train);
    rc = rc ? rc : part_fill(&set->part[DATA_TEST], test, train);
    if (rc)
        why_set(why, "no memory for %zu samples of %zu elements", train + test, train);
    return rc;
}

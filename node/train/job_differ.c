/* job_differ.c - see job_differ.h. */
#include "node/train/job_differ.h"

#include <stdio.h>
#include <string.h>

#include "node/job/config_parts.h"
#include "node/job/data_text.h"
#include "proto/proto.h"

static void
say_data(const struct config *config, const struct data_set *here, const char *theirs, size_t size,
         char *out, size_t out_size)
{
    char name[PROTO_TEXT_MAX];
    if (data_text_differ(theirs, size, here, name, sizeof name))
        snprintf(out, out_size, "the same keys, but %s", name);
    else
        snprintf(out, out_size, "the same keys, but other data%s",
                 config->model.from[0]   ? " or other weights in model.from"
                 : config->train.from[0] ? " or another state in train.from"
                                         : "");
}

void
job_differ(const struct config *config, const struct data_set *here, const char *theirs,
           size_t size, char *out, size_t out_size, bool *data)
{
    struct config *other = NULL;
    struct config_difference difference;
    struct why why;
    size_t at = 0;
    *data = false;
    if (config_parse(&other, "the other job", theirs, size, &why))
        return;
    if (config_differ_together(other, config, &at, &difference)) {
        snprintf(out, out_size, "%s is %s there, %s here", difference.key, difference.left,
                 difference.right);
    } else if (strcmp(other->train.past, config->train.past) != 0) {
        snprintf(out, out_size, "train.past is '%s' there, '%s' here", other->train.past,
                 config->train.past);
    } else {
        *data = true;
        say_data(config, here, theirs, size, out, out_size);
    }
    config_destroy(&other);
}

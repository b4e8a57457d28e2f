/* config_check.c - is the config one that can be trained? Rules about several keys, and earlier parts of the run. */
#include <errno.h>
#include <stdio.h>

#include "node/base/host.h"
#include "node/base/parse.h"
#include "node/job/config_parts.h"
#include "node/job/config_rules.h"

enum { SHOWN_MAX = 160 };

int
config_check(struct config *config, struct why *why)
{
    char file[SHOWN_MAX];
    parse_escape(file, sizeof file, config->file);
    if (config->model.count == 0)
        return why_error(why, -EINVAL, "%s: no layers, expected `model:` and a list of them", file);
    if (config->text_size >= PROTO_JOB_MAX)
        return why_error(why, -EMSGSIZE, "%s: the job takes %zu bytes, expected less than %d", file,
                         config->text_size, PROTO_JOB_MAX);
    int rc = config_rules_check(config, why);
    if (rc || (rc = config_parts_check(config, why)))
        return rc;
    if (config->threads == 0)
        config->threads = host_cpus();
    if (config->out[0] == '\0')
        snprintf(config->out, sizeof config->out, "runs/%s", config->run.name);
    return 0;
}

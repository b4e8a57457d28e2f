/* memory_here.c - the plan of memory for this machine. */
#include <errno.h>
#include <stdio.h>
#include <sys/sysinfo.h>

#include "node/base/host.h"
#include "node/train/memory.h"

int
memory_here(struct memory *memory, const struct config *config, const struct job *job,
            struct why *why)
{
    struct sysinfo info;
    uint64_t swap = sysinfo(&info) == 0 ? (uint64_t)info.totalswap * info.mem_unit : 0;
    int rc = memory_plan(memory, config, job, why);
    return rc ? rc : memory_machine(memory, config, job, host_memory(""), swap, why);
}

int
memory_settle_stages(struct config *config, struct job *job, struct why *why)
{
    char set[32];
    if (config->mesh.stages != CONFIG_STAGES_AUTO)
        return 0;
    job->ledgers = memory_stages(config, job);
    if (!job->ledgers)
        return why_error(why, -ENOMEM, "not enough memory for the stages of the model");
    snprintf(set, sizeof set, "mesh.stages=%u", job->ledgers);
    return config_set(config, set, why);
}

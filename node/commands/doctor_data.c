/* doctor_data.c - see doctor_data.h. */
#include "node/commands/doctor_data.h"

#include <stdlib.h>
#include <string.h>

#include "node/train/share.h"

enum { PATIENCE_US = 1900000, BLOCKS_MAX = 64 };

struct asked {
    uint64_t job;
    struct share_text text;
};

static bool
ask_next(void *ctx, struct core_files *want)
{
    struct asked *asked = ctx;
    *want = (struct core_files){.job = asked->job, .group = SHARE_DATA, .names = true, .count = 1};
    return asked->text.here == 0;
}

static bool
take_block(void *ctx, const struct core_file_block *came)
{
    struct asked *asked = ctx;
    return came->names && share_text_came(&asked->text, came, BLOCKS_MAX);
}

/* The mesh waits without an end. */
static void
give_up(void *ctx, const struct mesh_status *status, uint64_t searching_us)
{
    (void)ctx;
    (void)status;
    if (searching_us >= PATIENCE_US)
        mesh_job_interrupt();
}

bool
doctor_data(const struct mesh_setup *setup, uint64_t job, const struct manifest *ours, char *out,
            size_t size)
{
    struct asked asked = {.job = job};
    struct mesh_setup take = *setup;
    struct manifest theirs = {.count = 0};
    struct why why;
    take.program = (struct core_program){.file_came = take_block};
    take.searching = give_up;
    take.offered = NULL;
    take.ctx = &asked;
    bool differ = mesh_files_take(&take, ask_next, &why) == 0 &&
                  manifest_parse(&theirs, asked.text.bytes, asked.text.size, &why) == 0 &&
                  manifest_differ(&theirs, ours, out, size);
    manifest_fini(&theirs);
    free(asked.text.bytes);
    return differ;
}

/* doctor_data.c - see doctor_data.h. */
#include "node/commands/doctor_data.h"

#include <stdlib.h>
#include <string.h>

#include "node/train/share.h"

enum { PATIENCE_US = 1900000, BLOCKS_MAX = 64 };

struct asked {
    uint64_t job;
    uint8_t *text;         /* as far as it came, */
    uint64_t blocks, here; /* so many blocks of so many */
    size_t size;
};

/* Block by block: how many there are is known with the first. */
static bool
ask_next(void *ctx, struct core_files *want)
{
    struct asked *asked = ctx;
    if (asked->blocks && asked->here == asked->blocks)
        return false;
    *want = (struct core_files){
        .job = asked->job, .group = SHARE_DATA, .names = true, .first = asked->here, .count = 1};
    return true;
}

static bool
take_block(void *ctx, const struct core_file_block *came)
{
    struct asked *asked = ctx;
    if (!came->names || came->block != asked->here || came->blocks == 0 ||
        came->blocks > BLOCKS_MAX || came->size > MANIFEST_BLOCK ||
        (asked->blocks && asked->blocks != came->blocks))
        return false;
    asked->text = asked->text ? asked->text : malloc((size_t)came->blocks * MANIFEST_BLOCK);
    if (!asked->text)
        return false;
    memcpy(asked->text + asked->size, came->data, came->size);
    asked->size += came->size;
    asked->blocks = came->blocks;
    asked->here++;
    return true;
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
                  manifest_parse(&theirs, asked.text, asked.size, &why) == 0 &&
                  manifest_differ(&theirs, ours, out, size);
    manifest_fini(&theirs);
    free(asked.text);
    return differ;
}

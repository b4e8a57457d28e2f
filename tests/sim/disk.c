/* disk.c - the checkpoints of a node, and what a crash leaves of them.
 *
 * A file that was being written when the node died is whole, lost, or torn: some words are new, the
 * others were never synced. Its check tells, as that of a real checkpoint does. */
#include <string.h>

#include "tests/sim/engine.h"
#include "tests/sim/stages.h"

/* A name of a state does not say what is in it. */
static uint64_t
check_of(const struct sim *sim, const struct sim_state *state)
{
    uint64_t check = sim_hash(sim, state);
    for (unsigned w = 0; w < SIM_WORDS_MAX + SIM_COUNTERS_MAX && sim->profile.stages.parts; w++)
        check = mix64_pair(check, state->words[w]);
    return check;
}

static bool
good(const struct sim *sim, const struct sim_file *file)
{
    return file->used && check_of(sim, &file->state) == file->check;
}

static void
keep(struct sim_disk *disk, const struct sim_file *file)
{
    memmove(disk->files + 1, disk->files, sizeof disk->files - sizeof *disk->files);
    disk->files[0] = *file;
}

/* What was written is on the disk by now? */
static void
settle(struct sim *sim, struct sim_disk *disk)
{
    if (!disk->writing.used || disk->written_us > sim->now)
        return;
    disk->writing.kept_us = sim->now;
    keep(disk, &disk->writing);
    disk->writing.used = false;
}

void
sim_disk_write(struct sim *sim, struct sim_node *node)
{
    struct sim_disk *disk = &node->disk;
    settle(sim, disk);
    if (disk->full || disk->writing.used)
        return;
    disk->writing = (struct sim_file){.used = true,
                                      .round = node->round,
                                      .holds = node->holds,
                                      .check = check_of(sim, &node->state),
                                      .state = node->state};
    repair_seal(sim, &disk->writing);
    disk->written_us = sim->now + rand_below(&sim->rand, 5000);
}

void
sim_disk_crash(struct sim *sim, struct sim_node *node)
{
    struct sim_disk *disk = &node->disk;
    settle(sim, disk);
    if (!disk->writing.used)
        return;
    struct sim_file torn = disk->writing;
    disk->writing.used = false;
    uint64_t fate = rand_below(&sim->rand, 3);
    if (fate == 0)
        return;
    uint64_t synced = fate == 1 ? UINT64_MAX : rand_u64(&sim->rand);
    for (unsigned w = 0; w < SIM_WORDS_MAX + SIM_COUNTERS_MAX; w++)
        if (!(synced >> w & 1))
            torn.state.words[w] = disk->files[0].state.words[w];
    keep(disk, &torn);
}

void
sim_disk_withdraw(struct sim_node *node, uint64_t round)
{
    struct sim_disk *disk = &node->disk;
    disk->writing.used = disk->writing.used && disk->writing.round < round;
    for (unsigned k = 0; k < SIM_FILES_MAX; k++)
        disk->files[k].used = disk->files[k].used && disk->files[k].round < round;
}

void
sim_disk_clear(struct sim_node *node)
{
    bool full = node->disk.full;
    node->disk = (struct sim_disk){.full = full};
}

void
sim_disk_rot(struct sim *sim, struct sim_node *node)
{
    settle(sim, &node->disk);
    uint64_t bit = rand_below(&sim->rand, sim->profile.words * 64);
    node->disk.files[0].state.words[bit / 64] ^= 1ull << bit % 64;
}

void
sim_disk_load(struct sim *sim, struct sim_node *node)
{
    node->round = 0;
    node->state = *sim_state_at(sim, 0);
    segments_mask(&sim->profile, &node->state, node->holds);
    for (unsigned k = SIM_FILES_MAX; k-- > 0;) {
        const struct sim_file *file = &node->disk.files[k];
        if (!good(sim, file) || file->round < node->round)
            continue;
        node->round = file->round;
        node->holds = file->holds;
        node->state = file->state;
    }
}

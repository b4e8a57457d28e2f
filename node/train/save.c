/* save.c - see save.h.
 *
 *     IDLE --save_step: copy--> FULL --not held: writer takes it--> hash, write, sync, read back, rename, prune--> IDLE
 *
 * The writer owns the copy while it is FULL, the trainer while it is IDLE. In between the writer reads pages for
 * nodes whose checkpoint is damaged. */
#include "node/train/save.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "nn/files/checkpoint.h"
#include "nn/files/disk.h"
#include "proto/clock.h"
#include "proto/fail.h"

enum { KEPT = 3, LINE = 512, INTERVAL_MAX = 1 << 20 };

struct save {
    struct save_setup setup;
    uint8_t *image;    /* the copy, laid out as the file */
    size_t size, room; /* of the image */
    pthread_t thread;
    pthread_mutex_t lock; /* down to `round` */
    pthread_cond_t turn;
    bool full, held, model_full, stop, quiet, answering;
    bool asked; /* for a page */
    uint64_t ask_step, ask_round, ask_page;
    uint64_t step, round; /* of the copy; round 0: of none */
    /* The model to be written: the writer's while model_full, else the trainer's. */
    float *weights;
    struct state_header header;
    bool model_failed;
    /* The writer's, or the trainer's while the writer is idle. */
    bool written; /* the copy is a file */
    bool alone;   /* there are none of other jobs */
    bool any;     /* one was written: of this step */
    uint64_t last_step;
    double stepped_at, step_s; /* the trainer's: the last step, and how long one takes */
    uint8_t page[CHECKPOINT_PAGE];
    int failed; /* why the last one could not be written, 0: it was */
};

void
save_sections(struct checkpoint *file, uint8_t *block, const struct state_extent *extent,
              size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct checkpoint_section *section = &file->section[file->count++];
        int length = snprintf(section->name, sizeof section->name,
                              extent[i].offset ? "state+%zx" : "state", extent[i].offset);
        assert(length < CHECKPOINT_NAME);
        section->data = block ? block + extent[i].offset : NULL;
        section->size = extent[i].size;
    }
}

struct checkpoint
save_file(const struct save *save, uint8_t *block)
{
    struct checkpoint checkpoint = {
        .job_hash = save->setup.job_hash,
        .numerics = save->setup.numerics,
    };
    save_sections(&checkpoint, block, save->setup.extent, save->setup.extent_count);
    if (save->setup.more) {
        struct checkpoint_section *more = &checkpoint.section[checkpoint.count++];
        snprintf(more->name, sizeof more->name, "%s", save->setup.more_name);
        more->data = save->setup.more;
        more->size = save->setup.more_size;
    }
    return checkpoint;
}

static void
report_failure(struct save *save, int rc, const char *why)
{
    char line[WHY_SIZE + 64], since[48] = "";
    if (save->any)
        snprintf(since, sizeof since, " since step %ju", save->last_step);
    if (save->failed != rc) { /* once for each reason */
        snprintf(line, sizeof line, "%s; training goes on", why);
        save->setup.say(save->setup.ctx, 4, line);
    }
    save->failed = rc;
    snprintf(line, sizeof line, "NO CHECKPOINT%s", since);
    save->setup.alarm(save->setup.ctx, line);
}

static void
report_success(struct save *save, uint64_t step)
{
    save->any = true;
    save->last_step = step;
    if (!save->failed)
        return;
    char line[LINE];
    snprintf(line, sizeof line, "checkpoint of step %ju written: the disk works again", step);
    save->failed = 0;
    save->setup.say(save->setup.ctx, 6, line);
    save->setup.alarm(save->setup.ctx, NULL);
}

/* Make a file of the copy. */
static int
store(struct save *save, struct why *why)
{
    uint64_t step = save->step;
    fail_hit(FAIL_CHECKPOINT, NULL, 0);
    if (save->setup.before)
        save->setup.before(save->setup.ctx);
    checkpoint_seal(save->image, save->size);
    int rc = checkpoint_store(save->setup.dir, step, save->image, save->size, why);
    save->written = rc == 0;
    if (rc)
        report_failure(save, rc, why->line);
    else
        report_success(save, step);
    checkpoint_prune(save->setup.dir, KEPT, rc ? NULL : &step);
    if (!rc && !save->alone)
        checkpoint_forget(save->setup.dir, save->setup.job_hash, true);
    save->alone = save->alone || !rc;
    fail_hit(FAIL_CHECKPOINTED, NULL, 0);
    return rc;
}

/* Read the page that was asked for. The lock is held, but not meanwhile. */
static void
answer_page(struct save *save)
{
    struct checkpoint file = save_file(save, NULL);
    size_t page = (size_t)save->ask_page;
    file.step = save->ask_step;
    file.round = save->ask_round;
    save->asked = false;
    save->answering = true;
    pthread_mutex_unlock(&save->lock);
    size_t size = checkpoint_page_read(save->setup.dir, &file, page, save->page);
    fail_hit(FAIL_PAGE_READ, NULL, 0);
    save->setup.answer(save->setup.ctx, size ? file.round : 0, save->page, size);
    pthread_mutex_lock(&save->lock);
    save->answering = false;
    pthread_cond_broadcast(&save->turn);
}

void
save_serve(struct save *save, uint64_t step, uint64_t round, uint64_t page)
{
    pthread_mutex_lock(&save->lock);
    save->asked = !save->quiet;
    save->ask_step = step;
    save->ask_round = round;
    save->ask_page = page;
    pthread_cond_broadcast(&save->turn);
    pthread_mutex_unlock(&save->lock);
}

void
save_quiet(struct save *save)
{
    if (!save)
        return;
    pthread_mutex_lock(&save->lock);
    save->quiet = true;
    save->asked = false;
    while (save->answering)
        pthread_cond_wait(&save->turn, &save->lock);
    pthread_mutex_unlock(&save->lock);
}

static void
store_model(struct save *save)
{
    struct why why;
    int rc = save->setup.model(save->setup.ctx, &save->header, save->weights, &why);
    if (rc && !save->model_failed)
        save->setup.say(save->setup.ctx, 4, why.line);
    save->model_failed = rc != 0;
}

static void *
run(void *arg)
{
    struct save *save = arg;
    struct why why;
    prctl(PR_SET_NAME, "save");
    pthread_mutex_lock(&save->lock);
    for (;;) {
        while (!(save->full && !save->held) && !save->model_full && !save->asked && !save->stop)
            pthread_cond_wait(&save->turn, &save->lock);
        if (save->asked) {
            answer_page(save);
            continue;
        }
        bool full = save->full && !save->held;
        if (!full && !save->model_full)
            break;
        pthread_mutex_unlock(&save->lock);
        if (full)
            store(save, &why);
        else
            store_model(save);
        pthread_mutex_lock(&save->lock);
        save->full = save->full && !full;
        save->model_full = save->model_full && full;
        pthread_cond_broadcast(&save->turn);
    }
    pthread_mutex_unlock(&save->lock);
    return NULL;
}

/* The copy is the trainer's until it is full. */
static void
copy(struct save *save, const struct state *state)
{
    struct checkpoint checkpoint = save_file(save, state->block);
    checkpoint.step = save->step = state->header->step;
    checkpoint.round = save->round = state->header->round;
    checkpoint_fill(&checkpoint, save->image);
    save->written = false;
}

uint64_t
save_interval(double step_s)
{
    uint64_t interval = 1;
    while (interval < INTERVAL_MAX && (double)interval * step_s < SAVE_EVERY_S)
        interval *= 2;
    return interval;
}

/* Steps take very different times; one that was adopted takes none. */
static bool
is_due(struct save *save, uint64_t step, uint64_t steps, uint64_t every)
{
    double now = clock_s(), took = (now - save->stepped_at) / (double)steps;
    if (save->stepped_at > 0)
        save->step_s = save->step_s > 0 ? 0.9 * save->step_s + 0.1 * took : took;
    save->stepped_at = now;
    if (every == 0 && save->step_s > 0)
        every = save_interval(save->step_s);
    return every && step % every < steps;
}

bool
save_idle(struct save *save)
{
    pthread_mutex_lock(&save->lock);
    bool busy = save->full;
    pthread_mutex_unlock(&save->lock);
    return !busy;
}

bool
save_begin(struct save *save, const struct state *state, bool held)
{
    if (!save_idle(save)) {
        char line[LINE];
        snprintf(line, sizeof line,
                 "no checkpoint of step %ju: the one before is still being written",
                 state->header->step);
        save->setup.say(save->setup.ctx, 7, line);
        return false;
    }
    copy(save, state);
    pthread_mutex_lock(&save->lock);
    save->full = true;
    save->held = held;
    pthread_cond_broadcast(&save->turn);
    pthread_mutex_unlock(&save->lock);
    return true;
}

void
save_release(struct save *save)
{
    pthread_mutex_lock(&save->lock);
    if (save->held)
        pthread_cond_broadcast(&save->turn);
    save->held = false;
    pthread_mutex_unlock(&save->lock);
}

void
save_step(struct save *save, const struct state *state, uint64_t steps, uint64_t every)
{
    if (is_due(save, state->header->step, steps, every))
        save_begin(save, state, false);
}

void
save_wait(struct save *save)
{
    save_release(save);
    pthread_mutex_lock(&save->lock);
    while (save->full || save->model_full)
        pthread_cond_wait(&save->turn, &save->lock);
    pthread_mutex_unlock(&save->lock);
}

void
save_model(struct save *save, const struct state_header *header, const float *weights)
{
    pthread_mutex_lock(&save->lock);
    bool busy = save->model_full;
    pthread_mutex_unlock(&save->lock);
    if (busy || !save->weights)
        return;
    save->header = *header;
    memcpy(save->weights, weights, save->setup.weight_count * sizeof *save->weights);
    pthread_mutex_lock(&save->lock);
    save->model_full = true;
    pthread_cond_broadcast(&save->turn);
    pthread_mutex_unlock(&save->lock);
}

int
save_model_last(struct save *save, const struct state *state, struct why *why)
{
    save_wait(save);
    return save->setup.model(save->setup.ctx, state->header, state_weights(state), why);
}

int
save_last(struct save *save, const struct state *state, struct why *why)
{
    const struct state_header *h = state->header;
    if (h->round == 0)
        return 0;
    save_wait(save);
    if (save->written && save->step == h->step && save->round == h->round)
        return 0;
    copy(save, state);
    return store(save, why);
}

void
save_withdraw(struct save *save, const struct state *state)
{
    save_wait(save);
    if (!save->written || save->step != state->header->step || save->round != state->header->round)
        return;
    checkpoint_delete(save->setup.dir, save->step);
    save->written = false;
}

int
save_find(struct save *save, struct state *state, struct checkpoint_found *found, struct why *why)
{
    return save_find_part(save, save->setup.job_hash, UINT64_MAX, state, found, why);
}

int
save_find_part(struct save *save, uint64_t job_hash, uint64_t step_max, struct state *state,
               struct checkpoint_found *found, struct why *why)
{
    struct checkpoint checkpoint = save_file(save, state->block);
    checkpoint.job_hash = job_hash;
    return checkpoint_read_newest(save->setup.dir, step_max, &checkpoint, found, why);
}

size_t
save_extents(const struct checkpoint *file, struct state_extent extent[STATE_EXTENTS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < file->count && count < STATE_EXTENTS_MAX; i++) {
        const struct checkpoint_section *section = &file->section[i];
        const char *rest = section->name + 5;
        if (strncmp(section->name, "state", 5) == 0 && (!*rest || *rest == '+'))
            extent[count++] =
                (struct state_extent){*rest ? strtoull(rest + 1, NULL, 16) : 0, section->size};
    }
    return count;
}

size_t
save_ranges(const struct save *save, uint64_t job_hash, const struct state *state,
            struct state_range range[STATE_RANGES_MAX])
{
    char path[DISK_PATH_MAX];
    struct checkpoint file;
    struct state_extent extent[STATE_EXTENTS_MAX];
    uint64_t step;
    if (!checkpoint_newest(save->setup.dir, job_hash, &step))
        return 0;
    checkpoint_path(path, save->setup.dir, step);
    if (checkpoint_sections(path, &file, NULL))
        return 0;
    return state_ranges(state, extent, save_extents(&file, extent), range);
}

bool
save_find_below(struct save *save, struct state *state, uint64_t round)
{
    struct why why = {""};
    save_wait(save);
    for (uint64_t last = UINT64_MAX;;) {
        struct checkpoint_found found = {0};
        if (save_find(save, state, &found, &why) != 0 || !found.whole)
            return false;
        if (state->header->round < round)
            return true;
        uint64_t step = state->header->step;
        if (step == last)
            return false; /* it cannot be deleted */
        checkpoint_delete(save->setup.dir, last = step);
        save->written = save->written && save->step != step;
    }
}

static void *
take_memory(const struct save_setup *setup, size_t size)
{
    return setup->spill ? spill_take(setup->spill, size) : malloc(size);
}

int
save_hold(struct save *save, const struct state *state, struct why *why)
{
    save_wait(save);
    pthread_mutex_lock(&save->lock); /* pages are served meanwhile */
    const struct save_setup before = save->setup;
    save->setup.extent_count = state_extents(state, save->setup.extent);
    struct checkpoint checkpoint = save_file(save, NULL);
    size_t size = checkpoint_size(&checkpoint);
    uint8_t *image = save->image;
    if (!save->setup.spill)
        image = realloc(save->image, size);
    else if (size > save->room)
        image = NULL;
    if (image) {
        save->image = image;
        save->size = size;
        save->written = false;
    } else {
        save->setup = before;
    }
    pthread_mutex_unlock(&save->lock);
    return image ? 0
                 : why_error(why, -ENOMEM, "not enough memory for a copy of the state, %zu bytes",
                             size);
}

static void
give_back(struct save *save)
{
    if (save && !save->setup.spill) {
        free(save->image);
        free(save->weights);
    }
    free(save);
}

int
save_new(struct save **out, const struct save_setup *setup, struct why *why)
{
    struct save *save = calloc(1, sizeof *save);
    *out = NULL;
    if (save) {
        save->setup = *setup;
        struct checkpoint checkpoint = save_file(save, NULL);
        save->size = checkpoint_size(&checkpoint);
        save->room = save->size;
        save->image = take_memory(setup, save->room);
        save->weights =
            setup->model ? take_memory(setup, setup->weight_count * sizeof(float)) : NULL;
    }
    if (!save || !save->image || (setup->model && !save->weights)) {
        why_set(why, "not enough memory for a copy of the state, %zu bytes", save ? save->size : 0);
        give_back(save);
        return -ENOMEM;
    }
    pthread_mutex_init(&save->lock, NULL);
    pthread_cond_init(&save->turn, NULL);
    int rc = pthread_create(&save->thread, NULL, run, save);
    if (rc == 0) {
        *out = save;
        return 0;
    }
    why_set(why, "no thread for checkpoints (ulimit -u, ulimit -v): %s", strerror(rc));
    pthread_cond_destroy(&save->turn);
    pthread_mutex_destroy(&save->lock);
    give_back(save);
    return -rc;
}

void
save_destroy(struct save **out)
{
    struct save *save = *out;
    if (!save)
        return;
    save_release(save);
    pthread_mutex_lock(&save->lock);
    save->stop = true;
    pthread_cond_broadcast(&save->turn);
    pthread_mutex_unlock(&save->lock);
    pthread_join(save->thread, NULL);
    pthread_cond_destroy(&save->turn);
    pthread_mutex_destroy(&save->lock);
    give_back(save);
    *out = NULL;
}

/* train_say.c - the lines of a run, and whether it was interrupted: what all files of a run ask. */
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "node/train/train_internal.h"

void
train_say(struct run *run, int level, const char *format, ...)
{
    char line[TRAIN_LINE];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (level <= run->config->log_level)
        metrics_say(run->metrics, level, line);
}

void
train_log(void *ctx, int level, const char *line)
{
    train_say(ctx, level, "%s", line);
}

static struct mesh *_Atomic interruptible;
static volatile sig_atomic_t interrupted;

bool
train_interrupt(void)
{
    struct mesh *mesh = atomic_load(&interruptible);
    interrupted = 1;
    if (mesh)
        mesh_interrupt(mesh);
    return mesh != NULL;
}

bool
train_interrupted(void)
{
    return interrupted;
}

void
train_interruptible(struct mesh *mesh)
{
    atomic_store(&interruptible, mesh);
}

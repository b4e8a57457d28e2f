/* show.c - a run on the terminal; see show.h. Rates are ratios of smoothed sums. */
#include "node/results/show.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PLAIN_MS = 1000, DOING_MS = 10000 };
/* What the smoothed sums lose with each step: a part of 20 steps, or of this time if 20 steps take less. */
static const double rate_lose = 0.05, rate_s = 4;

void
show_init(struct show *show, bool quiet)
{
    *show = (struct show){.quiet = quiet};
    term_init(&show->out, STDOUT_FILENO);
    term_init(&show->err, STDERR_FILENO);
}

void
show_fini(struct show *show)
{
    term_fini(&show->out);
}

void
show_say(struct show *show, int level, const char *line)
{
    bool bad = level <= 4;
    show->warnings += bad;
    if (show->quiet && !bad)
        return;
    if (!bad) {
        term_line(&show->out, line);
        return;
    }
    term_hide(&show->out);
    term_warn(&show->err, level <= 3, line);
}

void
show_alarm(struct show *show, const char *line)
{
    snprintf(show->alarm, sizeof show->alarm, "%s", line ? line : "");
}

/* "12.3 MB" */
static void
format_bytes(char *out, size_t size, double bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    size_t unit = 0;
    for (; bytes >= 1000 && unit < 4; unit++)
        bytes /= 1000;
    snprintf(out, size, "%.*f %s", unit == 0 || bytes >= 100 ? 0 : 1, bytes, units[unit]);
}

/* One more field; two blanks part it from the one before. */
__attribute__((format(printf, 3, 4))) static void
field(char *line, size_t size, const char *format, ...)
{
    size_t used = strlen(line);
    va_list args;
    if (used + 3 >= size)
        return;
    used += (size_t)snprintf(line + used, size - used, "%s", used ? "  " : "");
    va_start(args, format);
    vsnprintf(line + used, size - used, format, args);
    va_end(args);
}

static bool
knows_rates(const struct show *show)
{
    return show->steps > 0 && show->seconds > 0 && !show->doing[0] && !show->step.followed;
}

static void
left_field(const struct show *show, char *line, size_t size)
{
    const struct metrics_step *step = &show->step;
    char left[TERM_TIME];
    uint64_t steps = step->steps_total > step->step ? step->steps_total - step->step : 0;
    if (!knows_rates(show))
        return;
    term_time(left, (double)steps * show->seconds / show->steps);
    field(line, size, "%s left", left);
}

static void
rate_fields(const struct show *show, char *line, size_t size)
{
    char sent[32];
    if (!knows_rates(show))
        return;
    format_bytes(sent, sizeof sent, show->bytes / show->seconds);
    field(line, size, "%.0f samples/s", show->samples / show->seconds);
    field(line, size, "sent %s/s", sent);
}

/* "2 servers", and "this one sums 1.2 MB" on a server. */
static void
server_field(const struct metrics_step *step, char *line, size_t size)
{
    char bytes[32];
    format_bytes(bytes, sizeof bytes, (double)step->served_bytes);
    if (step->served_bytes)
        field(line, size, "%u %s, this one sums %s", step->servers,
              step->servers == 1 ? "server" : "servers", bytes);
    else
        field(line, size, "%u %s", step->servers, step->servers == 1 ? "server" : "servers");
}

/* "stage 1 of 2, busy 60 %": people count from 1. */
static void
stage_field(const struct metrics_step *step, char *line, size_t size)
{
    const struct core_pipeline *pipeline = &step->pipeline;
    char mine[64] = "";
    size_t used = 0;
    for (unsigned stage = 0; stage < pipeline->stages && used < sizeof mine; stage++)
        if (pipeline->computes >> stage & 1)
            used += (size_t)snprintf(mine + used, sizeof mine - used, "%s%u", used ? ", " : "",
                                     stage + 1);
    field(line, size, "stage %s of %u, busy %.0f %%", mine, pipeline->stages,
          100 * (double)step->times.busy_us / fmax(1, (double)step->times.round_us));
}

/* "waits 10 %, idle 40 % (formula 11 %), hands on 1.2 MB" */
static void
pauses_field(const struct metrics_step *step, char *line, size_t size)
{
    char bytes[32];
    format_bytes(bytes, sizeof bytes, (double)step->pipeline.sent);
    field(line, size, "waits %.0f %%, idle %.0f %% (formula %.0f %%), hands on %s",
          100 * (double)step->times.waits_us / fmax(1, (double)step->times.round_us),
          100 * metrics_idle(&step->times),
          100 * metrics_idle_formula(step->pipeline.stages, step->shards), bytes);
}

/* On 80 columns a pipeline shows the time left and the stage, and the accuracy where there is room. */
static void
progress_fields(const struct show *show, char *line, size_t size)
{
    const struct metrics_step *step = &show->step;
    bool pipeline = step->pipeline.computes;
    if (pipeline) {
        left_field(show, line, size);
        stage_field(step, line, size);
    }
    if (step->accuracy >= 0)
        field(line, size, "accuracy %.1f %%", 100 * step->accuracy);
    if (!step->followed)
        field(line, size, "%u %s", step->peers, step->peers == 1 ? "node" : "nodes");
    if (!pipeline)
        left_field(show, line, size);
    if (step->servers)
        server_field(step, line, size);
    if (step->distance > 0)
        field(line, size, "distance %.2g %%", 100 * step->distance);
    if (step->unreached)
        field(line, size, "%u heard, not reached", step->unreached);
    rate_fields(show, line, size);
    if (pipeline)
        pauses_field(step, line, size);
}

void
show_line(const struct show *show, char *out, size_t size)
{
    const struct metrics_step *step = &show->step;
    out[0] = '\0';
    if (show->stepped)
        field(out, size, "step %ju/%ju", step->step, step->steps_total);
    if (show->alarm[0])
        field(out, size, "%s", show->alarm);
    if (show->use[0])
        field(out, size, "%s", show->use);
    if (step->skipped_steps)
        field(out, size, "%ju skipped", step->skipped_steps);
    if (show->doing[0])
        field(out, size, "%s", show->doing);
    if (!show->stepped)
        return;
    field(out, size, "loss %.4g", step->loss);
    progress_fields(show, out, size);
    field(out, size, "epoch %ju", step->epoch + 1);
    if (show->holders[0])
        field(out, size, "stages %s", show->holders);
}

static void
format_test(double loss, double accuracy, char *out, size_t size)
{
    int used = snprintf(out, size, "test loss %.4g", loss);
    if (isfinite(accuracy) && accuracy >= 0 && used > 0 && (size_t)used < size)
        snprintf(out + used, size - (size_t)used, ", test accuracy %.2f %%", 100 * accuracy);
}

/* What a step took that came after another one, with nothing else in between. */
static void
smooth(struct show *show, const struct metrics_step *step, uint64_t now_us)
{
    bool known = show->stepped_us && !show->doing[0] && !step->followed && step->mesh_steps >= 0;
    double seconds = (double)(now_us - show->stepped_us) / 1e6,
           keep = 1 - fmin(rate_lose, seconds / rate_s);
    show->stepped_us = step->followed ? 0 : now_us;
    if (!known)
        return;
    show->seconds = keep * show->seconds + seconds;
    show->samples = keep * show->samples + step->mesh_samples;
    show->bytes = keep * show->bytes + (double)step->tx_bytes;
    show->steps = keep * show->steps + step->mesh_steps;
}

/* The live line; into a pipe when `*plain_ms` has come, and not again for `every_ms`. */
static void
draw(struct show *show, uint64_t now_ms, uint64_t *plain_ms, uint64_t every_ms)
{
    char line[TERM_LINE_MAX];
    if (show->quiet)
        return;
    show_line(show, line, sizeof line);
    term_live(&show->out, now_ms, line);
    if (show->out.tty || !line[0] || now_ms < *plain_ms)
        return;
    *plain_ms = now_ms + every_ms;
    term_line(&show->out, line);
}

void
show_use(struct show *show, const char *line, bool over, bool stops, uint64_t now_us)
{
    char live[TERM_LINE_MAX];
    snprintf(show->use, sizeof show->use, "%s", over ? "" : line);
    if (stops)
        show->stepped_us = 0; /* the time until the next step says nothing of steps */
    if (show->quiet)
        return;
    if (!show->out.tty)
        term_line(&show->out, line);
    show_line(show, live, sizeof live);
    term_live(&show->out, now_us / 1000, live);
}

void
show_doing(struct show *show, const char *what, uint64_t now_us)
{
    bool began = !show->doing[0];
    snprintf(show->doing, sizeof show->doing, "%s", what ? what : "");
    if (!show->doing[0])
        return;
    if (began && show->doing_ms < now_us / 1000 + PLAIN_MS)
        show->doing_ms = now_us / 1000 + PLAIN_MS; /* what is over soon is not worth a line */
    draw(show, now_us / 1000, &show->doing_ms, DOING_MS);
}

/* With small data an epoch takes milliseconds: one such line a second, and that of the last step. */
static void
show_test(struct show *show, const struct metrics_step *step, uint64_t now_ms)
{
    char line[TERM_LINE_MAX], test[128], passed[64] = "";
    bool last = show->step.steps_total > 0 && step->step >= show->step.steps_total;
    if (now_ms < show->test_ms && !last) {
        show->tests_passed++;
        return;
    }
    if (show->tests_passed)
        snprintf(passed, sizeof passed, " (and %u before, in metrics.jsonl)", show->tests_passed);
    show->tests_passed = 0;
    show->test_ms = now_ms + PLAIN_MS;
    format_test(step->test_loss, step->test_accuracy, test, sizeof test);
    if (step->test_of)
        snprintf(line, sizeof line, "%s: %s%s", step->test_of, test, passed);
    else
        snprintf(line, sizeof line, "step %ju: %s%s", step->step, test, passed);
    term_line(&show->out, line);
}

void
show_step(struct show *show, const struct metrics_step *step, uint64_t now_us)
{
    char line[TERM_LINE_MAX];
    if (step->samples > 0) {
        show->step = *step;
        snprintf(show->holders, sizeof show->holders, "%s", step->holders ? step->holders : "");
        show->stepped = true;
        smooth(show, step, now_us);
        show->doing[0] = '\0';
        draw(show, now_us / 1000, &show->plain_ms, PLAIN_MS);
    }
    if (!step->evaluated)
        return;
    show->doing[0] = '\0';
    show->stepped_us = show->stepped_us ? now_us : 0; /* its time is no step's */
    if (show->quiet)
        return;
    show_line(show, line, sizeof line);
    term_live(&show->out, now_us / 1000, line);
    show_test(show, step, now_us / 1000);
}

void
show_result(struct show *show, const struct metrics_result *result, const char *dir)
{
    char line[TERM_LINE_MAX], test[128];
    term_fini(&show->out);
    format_test(result->test_loss, result->test_accuracy, test, sizeof test);
    snprintf(line, sizeof line, "done: %ju steps, %s, %.1f s", result->steps, test, result->wall_s);
    show_say(show, 6, line);
    if (result->no_model)
        snprintf(line, sizeof line, "no model.safetensors here: %s", result->no_model);
    else
        snprintf(line, sizeof line, "weights sha256 %s", result->params_sha256);
    show_say(show, 6, line);
    if (!dir)
        return;
    snprintf(line, sizeof line, "results in %s", dir);
    show_say(show, 6, line);
}

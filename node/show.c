/* show.c - a run on the terminal; see show.h. Rates are ratios of smoothed sums. */
#include "node/show.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

enum { PLAIN_MS = 1000 };
static const double rate_keep = 0.95; /* of the smoothed sums, per step */

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
    char text[TERM_LINE_MAX];
    bool bad = level <= 4;
    show->warnings += bad;
    if (show->quiet && !bad)
        return;
    snprintf(text, sizeof text, "%s%.*s",
             level <= 3   ? "error: "
             : level == 4 ? "warning: "
                          : "",
             TERM_LINE_MAX - 16, line);
    if (bad)
        term_hide(&show->out);
    term_line(bad ? &show->err : &show->out, text);
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

/* "1:02:03" or "2:03" */
static void
format_time(char *out, size_t size, double seconds)
{
    unsigned long long s = seconds < 3.6e9 ? (unsigned long long)(seconds + 0.5) : 3600000000ULL;
    if (s >= 3600)
        snprintf(out, size, "%llu:%02llu:%02llu", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, size, "%llu:%02llu", s / 60, s % 60);
}

static void
format_step(const struct show *show, const struct metrics_step *step, char *out, size_t size)
{
    char accuracy[32] = "", rate[32], left[32];
    double seconds = show->seconds > 0 ? show->seconds : 1e-9;
    uint64_t steps = step->steps_total > step->step ? step->steps_total - step->step : 0;
    if (step->accuracy >= 0)
        snprintf(accuracy, sizeof accuracy, "  accuracy %.1f %%", 100 * step->accuracy);
    format_bytes(rate, sizeof rate, show->bytes / seconds);
    format_time(left, sizeof left, (double)steps * seconds / fmax(show->steps, 1e-9));
    /* The most wanted first: a narrow terminal shows no more. */
    snprintf(out, size,
             "step %llu/%llu%s%s  loss %.4g%s  %u %s  ETA %s  %.0f samples/s  %s/s  epoch %llu",
             (unsigned long long)step->step, (unsigned long long)step->steps_total,
             show->alarm[0] ? "  " : "", show->alarm, step->loss, accuracy, step->peers,
             step->peers == 1 ? "node" : "nodes", left, show->samples / seconds, rate,
             (unsigned long long)step->epoch + 1);
}

static void
format_test(double loss, double accuracy, char *out, size_t size)
{
    int used = snprintf(out, size, "test loss %.4g", loss);
    if (isfinite(accuracy) && accuracy >= 0 && used > 0 && (size_t)used < size)
        snprintf(out + used, size - (size_t)used, ", test accuracy %.2f %%", 100 * accuracy);
}

static void
smooth(struct show *show, const struct metrics_step *step, uint64_t now_us)
{
    double seconds = show->stepped_us ? (double)(now_us - show->stepped_us) / 1e6
                                      : step->compute_s + step->wait_s;
    show->stepped_us = now_us;
    show->seconds = rate_keep * show->seconds + seconds;
    show->samples = rate_keep * show->samples + (double)step->samples;
    show->bytes = rate_keep * show->bytes + (double)(step->tx_bytes + step->rx_bytes);
    show->steps = rate_keep * show->steps + 1;
}

void
show_step(struct show *show, const struct metrics_step *step, uint64_t now_us)
{
    char line[TERM_LINE_MAX], test[128];
    uint64_t now_ms = now_us / 1000;
    if (step->samples > 0)
        smooth(show, step, now_us);
    if (show->quiet)
        return;
    if (step->samples > 0) {
        format_step(show, step, line, sizeof line);
        term_live(&show->out, now_ms, line);
        if (!show->out.tty && now_ms >= show->plain_ms) {
            show->plain_ms = now_ms + PLAIN_MS;
            term_line(&show->out, line);
        }
    }
    if (step->evaluated) {
        format_test(step->test_loss, step->test_accuracy, test, sizeof test);
        snprintf(line, sizeof line, "step %llu: %s", (unsigned long long)step->step, test);
        term_line(&show->out, line);
    }
}

void
show_result(struct show *show, const struct metrics_result *result, const char *dir)
{
    char line[TERM_LINE_MAX], test[128];
    term_fini(&show->out);
    format_test(result->test_loss, result->test_accuracy, test, sizeof test);
    snprintf(line, sizeof line, "done: %llu steps, %s, %.1f s", (unsigned long long)result->steps,
             test, result->wall_s);
    show_say(show, 6, line);
    snprintf(line, sizeof line, "weights sha256 %s", result->params_sha256);
    show_say(show, 6, line);
    if (!dir)
        return;
    snprintf(line, sizeof line, "results in %s", dir);
    show_say(show, 6, line);
}

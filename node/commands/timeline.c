/* timeline.c - see timeline.h. */
#include "node/commands/timeline.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "node/results/metrics.h"

enum {
    LEFT_MIN = 70, /* of the first piece; all in pixels */
    WIDTH = 1200,
    RIGHT = 210,
    TITLE = 22,
    TOP = 40,
    ROW = 34,
    BOX = 26,
    AXIS = 40,
    NOTE = 22,
    TICKS = 10,     /* at most */
    LETTER = 7,     /* a digit is about as wide, */
    LETTER_MAX = 8, /* and other letters at most */
    KEY_TEXT = 20,
    KEY_WIDTH = 170
};

/* Colours that also differ in brightness. */
static const struct {
    const char *colour, *name;
} kinds[] = {
    [SCHEDULE_FORWARD] = {"#9ecae1", "forward"},
    [SCHEDULE_BACKWARD] = {"#fdae6b", "back"},
    [SCHEDULE_INPUT] = {"#fdd0a2", "gradient of input"},
    [SCHEDULE_WEIGHT] = {"#74c476", "gradient of weights"},
    [SCHEDULE_TAIL] = {"#636363", "tail"},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

struct drawing {
    const struct timeline *timeline;
    FILE *file;
    unsigned left, top; /* of the first row */
};

struct timeline_idle
timeline_idle(const struct timeline *timeline, unsigned row)
{
    const struct timeline_row *of = &timeline->rows[row];
    struct timeline_idle idle = {.done_us = of->begin_us};
    uint64_t shards = 0, one = 1;
    for (size_t i = 0; i < timeline->piece_count; i++) {
        const struct steptime_piece *piece = &timeline->pieces[i];
        if (piece->member != row)
            continue;
        idle.busy_us += piece->end_us - piece->begin_us;
        idle.done_us = piece->end_us;
        if (piece->piece.kind == SCHEDULE_TAIL)
            continue;
        idle.computes |= one << piece->piece.stage;
        shards |= one << piece->piece.shard;
    }
    double took_us = (double)(of->end_us - of->begin_us);
    idle.idle = took_us > 0 ? 1 - (double)idle.busy_us / took_us : 0;
    idle.formula = shards ? metrics_idle_formula(timeline->stages, shards) : 1;
    return idle;
}

static double
x_of(const struct drawing *d, uint64_t us)
{
    uint64_t step_us = d->timeline->step_us;
    return d->left + (double)us * WIDTH / (double)(step_us ? step_us : 1);
}

static void
draw_text(const struct drawing *d, double x, double y, const char *anchor, const char *text)
{
    if (!*text)
        return;
    fprintf(d->file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    for (; *text; text++)
        if (*text == '&' || *text == '<')
            fputs(*text == '&' ? "&amp;" : "&lt;", d->file);
        else
            fputc(*text, d->file);
    fputs("</text>\n", d->file);
}

static void
draw_key(const struct drawing *d, double *x, const char *colour, const char *name)
{
    fprintf(d->file, "<rect x=\"%.1f\" y=\"%u\" width=\"14\" height=\"14\" fill=\"%s\"/>\n", *x,
            d->top - 32, colour);
    draw_text(d, *x + KEY_TEXT, d->top - 20, "start", name);
    *x += KEY_WIDTH;
}

static const char waiting_colour[] = "#eeeeee", sum_colour[] = "#d9d0e6";

static void
draw_keys(const struct drawing *d)
{
    bool used[KINDS] = {false};
    double x = d->left;
    for (size_t i = 0; i < d->timeline->piece_count; i++)
        used[d->timeline->pieces[i].piece.kind] = true;
    for (int kind = 0; kind < KINDS; kind++)
        if (used[kind])
            draw_key(d, &x, kinds[kind].colour, kinds[kind].name);
    draw_key(d, &x, waiting_colour, "waiting");
    draw_key(d, &x, sum_colour, "sum of all nodes");
    draw_text(d, x, d->top - 20, "start", "numbers: shards");
}

static void
draw_box(const struct drawing *d, unsigned row, uint64_t begin_us, uint64_t end_us,
         const char *colour)
{
    fprintf(d->file,
            "<rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%d\" fill=\"%s\" stroke=\"#555\" "
            "stroke-width=\"0.4\">",
            x_of(d, begin_us), d->top + ROW * row, x_of(d, end_us) - x_of(d, begin_us), BOX,
            colour);
}

static void
draw_piece(const struct drawing *d, const struct steptime_piece *piece)
{
    char what[32] = "", shard[16];
    double begin = x_of(d, piece->begin_us), width = x_of(d, piece->end_us) - begin;
    enum schedule_kind kind = piece->piece.kind;
    if (kind != SCHEDULE_TAIL)
        snprintf(what, sizeof what, ", stage %u, shard %u", piece->piece.stage + 1,
                 piece->piece.shard);
    draw_box(d, piece->member, piece->begin_us, piece->end_us, kinds[kind].colour);
    fprintf(d->file, "<title>%s%s: %.3f to %.3f ms</title></rect>\n", kinds[kind].name, what,
            (double)piece->begin_us / 1e3, (double)piece->end_us / 1e3);
    snprintf(shard, sizeof shard, "%u", piece->piece.shard);
    if (kind != SCHEDULE_TAIL && width >= (double)(LETTER * strlen(shard)))
        draw_text(d, begin + width / 2, d->top + ROW * piece->member + 17, "middle", shard);
}

/* All but the pieces, which are drawn over it. */
static void
draw_row(const struct drawing *d, unsigned row)
{
    const struct timeline_row *of = &d->timeline->rows[row];
    struct timeline_idle idle = timeline_idle(d->timeline, row);
    char text[64];
    unsigned y = d->top + ROW * row + 17;
    draw_text(d, d->left - 8, y, "end", of->name);
    draw_box(d, row, of->begin_us, idle.done_us, waiting_colour);
    fputs("</rect>\n", d->file);
    draw_box(d, row, idle.done_us, of->end_us, sum_colour);
    fputs("</rect>\n", d->file);
    snprintf(text, sizeof text, "idle %.1f %% (formula %.1f %%)", 100 * idle.idle,
             100 * idle.formula);
    draw_text(d, d->left + WIDTH + 8, y, "start", text);
}

/* 1, 2 or 5 times a power of ten, so that there are at most TICKS. */
static double
tick_us(uint64_t step_us)
{
    double tick = 1;
    for (int i = 0; (double)step_us / tick > TICKS; i++)
        tick *= i % 3 == 1 ? 2.5 : 2;
    return tick;
}

static void
draw_axis(const struct drawing *d)
{
    double tick = tick_us(d->timeline->step_us);
    unsigned y = d->top + ROW * d->timeline->nodes;
    fprintf(d->file, "<path d=\"M%u %u h%d\" stroke=\"#000\"/>\n", d->left, y, WIDTH);
    for (int i = 0; i * tick <= (double)d->timeline->step_us; i++) {
        char ms[32];
        double x = x_of(d, (uint64_t)(i * tick));
        snprintf(ms, sizeof ms, "%.6g", i * tick / 1e3);
        fprintf(d->file, "<path d=\"M%.1f %u v5\" stroke=\"#000\"/>\n", x, y);
        draw_text(d, x, y + 18, "middle", ms);
    }
    draw_text(d, d->left + WIDTH, y + 34, "end", "ms");
    draw_text(d, d->left, y + AXIS + 12, "start", d->timeline->note);
}

static unsigned
left_of(const struct timeline *t)
{
    size_t most = 0;
    for (unsigned row = 0; row < t->nodes; row++)
        most = strlen(t->rows[row].name) > most ? strlen(t->rows[row].name) : most;
    unsigned left = LETTER_MAX * (unsigned)most + 16;
    return left > LEFT_MIN ? left : LEFT_MIN;
}

static void
draw_all(const struct timeline *t, FILE *file)
{
    const struct drawing d = {t, file, left_of(t), TOP + (t->title[0] ? TITLE : 0)};
    unsigned width = d.left + WIDTH + RIGHT;
    unsigned height = d.top + ROW * t->nodes + AXIS + (t->note[0] ? NOTE : 0);
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" viewBox=\"0 0 %u "
            "%u\" font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            width, height, width, height);
    draw_text(&d, d.left, 18, "start", t->title);
    draw_keys(&d);
    for (unsigned row = 0; row < t->nodes; row++)
        draw_row(&d, row);
    for (size_t i = 0; i < t->piece_count; i++)
        draw_piece(&d, &t->pieces[i]);
    draw_axis(&d);
    fprintf(file, "</svg>\n");
}

int
timeline_write(const struct timeline *timeline, const char *path, struct why *why)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return why_error(why, -errno, "%s: %s", path, strerror(errno));
    draw_all(timeline, file);
    int bad = ferror(file);
    if (fclose(file) || bad)
        return why_error(why, -EIO, "%s: cannot be written", path);
    return 0;
}

/* timeline.c - see timeline.h. */
#include "node/commands/timeline.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    LEFT = 70, /* of the first piece; all in pixels */
    WIDTH = 1200,
    RIGHT = 30,
    TOP = 40,
    ROW = 34,
    BOX = 26,
    AXIS = 40,
    TICKS = 10, /* at most */
    LETTER = 7, /* a digit is about as wide */
    KEY_TEXT = 20,
    KEY_WIDTH = 170
};

/* Colours that also differ in brightness. */
static const struct {
    const char *colour, *name;
} kinds[SCHEDULE_KINDS] = {
    [SCHEDULE_FORWARD] = {"#9ecae1", "forward"},
    [SCHEDULE_BACKWARD] = {"#fdae6b", "back"},
    [SCHEDULE_INPUT] = {"#fdd0a2", "gradient of input"},
    [SCHEDULE_WEIGHT] = {"#74c476", "gradient of weights"},
};

static double
x_of(const struct timeline *t, uint64_t us)
{
    return LEFT + (double)us * WIDTH / (double)(t->step_us ? t->step_us : 1);
}

static void
draw_text(FILE *file, double x, double y, const char *anchor, const char *text)
{
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, text);
}

static void
draw_key(const struct timeline *t, FILE *file)
{
    bool used[SCHEDULE_KINDS] = {false};
    double x = LEFT;
    for (size_t i = 0; i < t->piece_count; i++)
        used[t->pieces[i].piece.kind] = true;
    for (int kind = 0; kind < SCHEDULE_KINDS; kind++) {
        if (!used[kind])
            continue;
        fprintf(file, "<rect x=\"%.1f\" y=\"8\" width=\"14\" height=\"14\" fill=\"%s\"/>\n", x,
                kinds[kind].colour);
        draw_text(file, x + KEY_TEXT, 20, "start", kinds[kind].name);
        x += KEY_WIDTH;
    }
    draw_text(file, x, 20, "start", "numbers: shards");
}

static void
draw_piece(const struct timeline *t, FILE *file, const struct steptime_piece *piece)
{
    char shard[16];
    double x = x_of(t, piece->begin_us), width = x_of(t, piece->end_us) - x;
    unsigned y = TOP + ROW * piece->member;
    snprintf(shard, sizeof shard, "%u", piece->piece.shard);
    fprintf(file,
            "<rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%d\" fill=\"%s\" stroke=\"#555\" "
            "stroke-width=\"0.4\"><title>%s, stage %u, shard %u: %.3f to %.3f ms</title></rect>\n",
            x, y, width, BOX, kinds[piece->piece.kind].colour, kinds[piece->piece.kind].name,
            piece->piece.stage, piece->piece.shard, (double)piece->begin_us / 1e3,
            (double)piece->end_us / 1e3);
    if (width >= (double)(LETTER * strlen(shard)))
        draw_text(file, x + width / 2, y + 17, "middle", shard);
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
draw_axis(const struct timeline *t, FILE *file)
{
    double tick = tick_us(t->step_us);
    unsigned y = TOP + ROW * t->nodes;
    fprintf(file, "<path d=\"M%d %u H%d\" stroke=\"#000\"/>\n", LEFT, y, LEFT + WIDTH);
    for (int i = 0; i * tick <= (double)t->step_us; i++) {
        char ms[32];
        double x = x_of(t, (uint64_t)(i * tick));
        snprintf(ms, sizeof ms, "%.6g", i * tick / 1e3);
        fprintf(file, "<path d=\"M%.1f %u v5\" stroke=\"#000\"/>\n", x, y);
        draw_text(file, x, y + 18, "middle", ms);
    }
    draw_text(file, LEFT + WIDTH, y + 34, "end", "ms");
}

static void
draw_all(const struct timeline *t, FILE *file)
{
    unsigned width = LEFT + WIDTH + RIGHT, height = TOP + ROW * t->nodes + AXIS;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" viewBox=\"0 0 %u "
            "%u\" font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            width, height, width, height);
    draw_key(t, file);
    for (unsigned n = 0; n < t->nodes; n++) {
        char node[32];
        snprintf(node, sizeof node, "node %u", n + 1);
        draw_text(file, LEFT - 8, TOP + ROW * n + 17, "end", node);
    }
    for (size_t i = 0; i < t->piece_count; i++)
        draw_piece(t, file, &t->pieces[i]);
    draw_axis(t, file);
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

/* data_glyphs.c - handwritten-looking digits out of nothing, so that everything runs without a download.
 *
 * A digit is a few pen strokes: curves through points given below, two or three styles each. A sample
 * bends and shifts the points, draws the strokes with a pen of random width, slant, size and darkness,
 * sometimes adds a stray mark, and adds noise:
 *
 *     style --jitter--> points --Catmull-Rom--> polyline --warp, affine--> pixels --pen, noise--> bytes
 *
 * Sample i is a pure function of (seed, part, i), with the same bytes on every machine: doubles in a fixed
 * order, of the library only sqrt (exact in IEEE 754), rotations by rational points of the circle.
 *
 * Curves: Catmull and Rom, Computer Aided Geometric Design, 1974. Distorting samples to make a small
 * problem behave like a large one: Simard, Steinkraus and Platt, ICDAR 2003. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "nn/data/data_set.h"
#include "proto/mix.h"

enum {
    SIDE = 28,
    PIXELS = SIDE * SIDE,
    CLASSES = 10,
    STYLES_MAX = 3,
    STROKES_MAX = 3,
    POINTS_MAX = 16,
    SPAN_STEPS = 4, /* straight pieces per curve between two points */
    TRAIN_DEFAULT = 12000,
    TEST_DEFAULT = 2000,
    SAMPLES_MAX = 1 << 22,
};

enum stroke_kind { STROKE_LINES, STROKE_CURVE, STROKE_LOOP };

/* Points in a box of 100 x 100, x to the right, y down. */
struct stroke {
    uint8_t kind, count;
    uint8_t at[POINTS_MAX][2];
};
struct style {
    uint8_t strokes;
    struct stroke stroke[STROKES_MAX];
};
struct digit {
    uint8_t styles;
    struct style style[STYLES_MAX];
};

/* clang-format off */
static const struct digit digits[CLASSES] = {
    {3, {{1, {{STROKE_LOOP, 8, {{50,8},{28,22},{20,50},{28,78},{50,92},{72,78},{80,50},{72,22}}}}},
         {1, {{STROKE_CURVE, 9, {{62,10},{34,18},{22,50},{34,86},{56,92},{76,72},{78,40},{66,16},{46,9}}}}},
         {2, {{STROKE_LOOP, 8, {{50,8},{30,22},{24,50},{30,78},{50,92},{70,78},{76,50},{70,22}}},
              {STROKE_LINES, 2, {{68,24},{32,76}}}}}}},
    {3, {{1, {{STROKE_LINES, 2, {{50,8},{50,92}}}}},
         {1, {{STROKE_LINES, 3, {{30,28},{53,8},{53,92}}}}},
         {2, {{STROKE_LINES, 3, {{32,26},{50,8},{50,92}}}, {STROKE_LINES, 2, {{28,92},{72,92}}}}}}},
    {3, {{2, {{STROKE_CURVE, 7, {{24,30},{34,12},{54,8},{72,20},{70,40},{50,62},{24,90}}},
              {STROKE_LINES, 2, {{24,90},{78,90}}}}},
         {1, {{STROKE_CURVE, 11, {{26,26},{40,9},{62,10},{74,28},{64,50},{42,72},{26,88},{22,76},
                                   {36,74},{56,86},{80,88}}}}},
         {2, {{STROKE_CURVE, 6, {{26,24},{44,9},{66,12},{72,30},{56,56},{24,86}}},
              {STROKE_CURVE, 4, {{24,86},{42,80},{60,90},{80,82}}}}}}},
    {2, {{2, {{STROKE_CURVE, 5, {{24,20},{46,7},{68,16},{66,36},{42,46}}},
              {STROKE_CURVE, 5, {{42,46},{70,54},{76,74},{54,92},{24,82}}}}},
         {2, {{STROKE_LINES, 3, {{26,10},{72,10},{46,42}}},
              {STROKE_CURVE, 5, {{46,42},{70,50},{76,72},{56,92},{24,84}}}}}}},
    {3, {{2, {{STROKE_LINES, 3, {{36,8},{22,58},{80,58}}}, {STROKE_LINES, 2, {{62,32},{62,94}}}}},
         {1, {{STROKE_LINES, 4, {{62,94},{62,8},{20,64},{82,64}}}}},
         {2, {{STROKE_CURVE, 5, {{28,10},{24,36},{32,52},{54,52},{70,44}}}, {STROKE_LINES, 2, {{72,8},{66,94}}}}}}},
    {2, {{2, {{STROKE_LINES, 3, {{74,10},{32,10},{28,46}}},
              {STROKE_CURVE, 6, {{28,46},{50,38},{72,50},{74,72},{54,92},{24,84}}}}},
         {1, {{STROKE_CURVE, 9, {{74,9},{46,11},{33,20},{32,42},{54,43},{72,58},{68,80},{46,92},{24,84}}}}}}},
    {2, {{1, {{STROKE_CURVE, 10, {{66,8},{42,22},{26,50},{25,74},{42,92},{62,90},{74,72},{64,54},{42,54},{27,70}}}}},
         {2, {{STROKE_CURVE, 3, {{58,6},{36,32},{27,66}}},
              {STROKE_LOOP, 7, {{50,54},{32,60},{26,76},{40,92},{60,92},{73,76},{68,59}}}}}}},
    {3, {{1, {{STROKE_LINES, 3, {{22,12},{76,12},{42,92}}}}},
         {2, {{STROKE_LINES, 3, {{22,12},{76,12},{44,92}}}, {STROKE_LINES, 2, {{36,52},{70,52}}}}},
         {2, {{STROKE_CURVE, 3, {{22,18},{46,10},{76,13}}}, {STROKE_CURVE, 3, {{76,13},{54,48},{46,92}}}}}}},
    {2, {{2, {{STROKE_LOOP, 6, {{50,8},{31,16},{31,37},{50,46},{69,37},{69,16}}},
              {STROKE_LOOP, 6, {{50,46},{27,58},{25,80},{50,92},{75,80},{73,58}}}}},
         {1, {{STROKE_LOOP, 12, {{66,16},{46,8},{30,20},{38,38},{62,56},{74,74},{56,92},{36,89},
                                  {26,72},{40,54},{62,38},{71,26}}}}}}},
    {2, {{2, {{STROKE_LOOP, 7, {{50,8},{32,16},{26,32},{40,48},{60,46},{71,31},{68,15}}},
              {STROKE_LINES, 2, {{71,28},{66,92}}}}},
         {1, {{STROKE_CURVE, 10, {{71,28},{56,10},{34,14},{26,34},{40,50},{62,45},{72,24},{73,56},{60,84},{36,92}}}}}}},
};
/* clang-format on */

/* The whole strength of the distortions. Lengths are shares of half the drawing box, which is about 10
 * pixels, unless pixels are named. */
static const double jitter = 0.10;                     /* of each point, each way */
static const double warp = 0.11;                       /* of the plane, each of eight terms */
static const double rotation = 0.19;                   /* tangent of half the angle */
static const double shear = 0.40;                      /* slant */
static const double size_low = 0.74, size_high = 1.12; /* of 10 pixels, width and height apart */
static const double shift_pixels = 2.6;                /* each way */
static const double pen_low = 0.75, pen_high = 1.65;   /* pixels from the middle of the line */
static const double edge_low = 0.7, edge_high = 1.5;   /* pixels over which the ink fades */
static const double ink_low = 0.65;                    /* of full darkness */
static const double noise_high = 0.15;                 /* of full darkness, half width */
static const double stray_share = 0.30;                /* of samples with a stray mark */

/* Random numbers of one sample. */
struct draw {
    uint64_t key, count;
};

static uint64_t
draw_bits(struct draw *draw)
{
    return mix64(draw->key + ++draw->count);
}

/* In [low, high). */
static double
draw_in(struct draw *draw, double low, double high)
{
    return low + (high - low) * ((double)(draw_bits(draw) >> 11) * 0x1p-53);
}

/* In (-width, width), more often near 0: the sum of two uniform numbers. */
static double
draw_near(struct draw *draw, double width)
{
    double a = draw_in(draw, -0.5, 0.5), b = draw_in(draw, -0.5, 0.5);
    return (a + b) * width;
}

struct point {
    double x, y;
};

/* Box coordinates (-1..1) to pixels: a smooth warp, then slant and size, rotation, shift. */
struct view {
    double warp_x[4], warp_y[4];
    double shear, size_x, size_y;
    double cosine, sine;
    double shift_x, shift_y;
};

static struct view
view_draw(struct draw *draw)
{
    struct view v;
    for (int i = 0; i < 4; i++) {
        v.warp_x[i] = draw_near(draw, warp);
        v.warp_y[i] = draw_near(draw, warp);
    }
    v.shear = draw_near(draw, shear);
    double size = draw_in(draw, size_low, size_high);
    v.size_x = 10 * size * draw_in(draw, 0.8, 1.1);
    v.size_y = 10 * size * draw_in(draw, 0.95, 1.1);
    double t = draw_near(draw, rotation), square = t * t;
    v.cosine = (1 - square) / (1 + square);
    v.sine = 2 * t / (1 + square);
    v.shift_x = (SIDE - 1) / 2.0 + draw_near(draw, shift_pixels);
    v.shift_y = (SIDE - 1) / 2.0 + draw_near(draw, shift_pixels);
    return v;
}

static struct point
view_apply(const struct view *v, struct point p)
{
    double xx = p.x * p.x, xy = p.x * p.y, yy = p.y * p.y, yyy = yy * p.y;
    double x =
        p.x + (v->warp_x[0] * xx + v->warp_x[1] * xy) + (v->warp_x[2] * yy + v->warp_x[3] * yyy);
    double y =
        p.y + (v->warp_y[0] * xx + v->warp_y[1] * xy) + (v->warp_y[2] * yy + v->warp_y[3] * yyy);
    x = (x - v->shear * y) * v->size_x;
    y = y * v->size_y;
    return (struct point){x * v->cosine - y * v->sine + v->shift_x,
                          x * v->sine + y * v->cosine + v->shift_y};
}

/* The page: per pixel the square of the distance to the nearest stroke, as far as a pen reaches. */
struct page {
    double reach;
    double square[PIXELS];
};

static int
clamp_pixel(double at)
{
    return at < 0 ? 0 : at > SIDE - 1 ? SIDE - 1 : (int)at;
}

/* Distance to the piece a-b: the foot of the perpendicular is at a + t (b - a), t clamped to 0..1. */
static void
page_line(struct page *page, struct point a, struct point b)
{
    double dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy;
    double inverse = length > 0 ? 1 / length : 0;
    int left = clamp_pixel((a.x < b.x ? a.x : b.x) - page->reach + 1);
    int right = clamp_pixel((a.x < b.x ? b.x : a.x) + page->reach);
    int top = clamp_pixel((a.y < b.y ? a.y : b.y) - page->reach + 1);
    int bottom = clamp_pixel((a.y < b.y ? b.y : a.y) + page->reach);
    for (int y = top; y <= bottom; y++) {
        double py = y - a.y;
        for (int x = left; x <= right; x++) {
            double px = x - a.x, t = (px * dx + py * dy) * inverse;
            t = t < 0 ? 0 : t > 1 ? 1 : t;
            double ex = px - t * dx, ey = py - t * dy, square = ex * ex + ey * ey;
            double *best = &page->square[y * SIDE + x];
            *best = square < *best ? square : *best;
        }
    }
}

/* Catmull-Rom between b and c, t in 0..1. */
static struct point
curve_at(const struct point p[4], double t)
{
    double tt = t * t, ttt = tt * t;
    double w0 = (2 * tt - t) - ttt, w1 = (3 * ttt - 5 * tt) + 2;
    double w2 = (4 * tt + t) - 3 * ttt, w3 = ttt - tt;
    return (struct point){0.5 * ((w0 * p[0].x + w1 * p[1].x) + (w2 * p[2].x + w3 * p[3].x)),
                          0.5 * ((w0 * p[0].y + w1 * p[1].y) + (w2 * p[2].y + w3 * p[3].y))};
}

/* Points i-1..i+2 of a stroke; an open one repeats its ends. */
static void
stroke_neighbours(const struct point *p, int count, bool loop, int i, struct point out[4])
{
    for (int k = 0; k < 4; k++) {
        int j = i - 1 + k;
        if (loop)
            j = (j + count) % count;
        j = j < 0 ? 0 : j >= count ? count - 1 : j;
        out[k] = p[j];
    }
}

static void
page_stroke(struct page *page, const struct view *view, struct draw *draw,
            const struct stroke *stroke)
{
    struct point p[POINTS_MAX];
    int count = stroke->count;
    assert(count >= 2);
    assert(count <= POINTS_MAX);
    for (int i = 0; i < count; i++) {
        p[i].x = (stroke->at[i][0] - 50) / 50.0 + draw_near(draw, jitter);
        p[i].y = (stroke->at[i][1] - 50) / 50.0 + draw_near(draw, jitter);
    }
    bool loop = stroke->kind == STROKE_LOOP;
    struct point from = view_apply(view, p[0]);
    for (int i = 0; i < (loop ? count : count - 1); i++) {
        struct point near[4];
        stroke_neighbours(p, count, loop, i, near);
        for (int s = 1; s <= SPAN_STEPS; s++) {
            double t = (double)s / SPAN_STEPS;
            struct point to = stroke->kind == STROKE_LINES
                                  ? (struct point){near[1].x + t * (near[2].x - near[1].x),
                                                   near[1].y + t * (near[2].y - near[1].y)}
                                  : curve_at(near, t);
            to = view_apply(view, to);
            page_line(page, from, to);
            from = to;
        }
    }
}

/* A short line near the border, as of a neighbouring digit or the edge of a box. */
static void
page_stray(struct page *page, struct draw *draw)
{
    struct point a = {draw_in(draw, 0, SIDE), draw_in(draw, 0, 5)};
    struct point b = {a.x + draw_near(draw, 8), a.y + draw_near(draw, 5)};
    uint64_t turn = draw_bits(draw);
    if (turn & 1) { /* left and right instead of top and bottom */
        a = (struct point){a.y, a.x};
        b = (struct point){b.y, b.x};
    }
    if (turn & 2) {
        a = (struct point){SIDE - 1 - a.x, SIDE - 1 - a.y};
        b = (struct point){SIDE - 1 - b.x, SIDE - 1 - b.y};
    }
    page_line(page, a, b);
}

/* Ink fades from full at pen - edge to none at pen + edge, smoothly (3t^2 - 2t^3). */
static double
ink(double square, double pen, double edge)
{
    if (square >= (pen + edge) * (pen + edge))
        return 0;
    double t = (pen + edge - sqrt(square)) / (2 * edge);
    return t >= 1 ? 1 : t * t * (3 - 2 * t);
}

static void
page_develop(const struct page *page, struct draw *draw, double pen, double edge, uint8_t *pixel)
{
    double dark = 255 * draw_in(draw, ink_low, 1);
    double noise = 255 * draw_in(draw, 0, noise_high) / 128;
    uint64_t bits = 0;
    for (int i = 0; i < PIXELS; i++, bits >>= 8) {
        if (i % 8 == 0)
            bits = draw_bits(draw);
        double value =
            dark * ink(page->square[i], pen, edge) + noise * ((double)(bits & 255) - 128) + 0.5;
        pixel[i] = value <= 0 ? 0 : value >= 255 ? 255 : (uint8_t)value;
    }
}

int32_t
data_glyphs_draw(uint64_t seed, enum data_part part, uint32_t i, uint8_t pixel[PIXELS])
{
    struct draw draw = {mix64_pair(mix64_pair(seed, part), i), 0};
    int32_t label = (int32_t)(i % CLASSES);
    const struct digit *digit = &digits[label];
    const struct style *style = &digit->style[draw_bits(&draw) % digit->styles];
    struct view view = view_draw(&draw);
    double pen = draw_in(&draw, pen_low, pen_high), edge = draw_in(&draw, edge_low, edge_high);
    struct page page = {.reach = pen + edge};
    for (int k = 0; k < PIXELS; k++)
        page.square[k] = SIDE * SIDE;
    for (int k = 0; k < style->strokes; k++)
        page_stroke(&page, &view, &draw, &style->stroke[k]);
    if (draw_in(&draw, 0, 1) < stray_share)
        page_stray(&page, &draw);
    page_develop(&page, &draw, pen, edge, pixel);
    return label;
}

static int
part_draw(struct data_rows *rows, uint64_t seed, enum data_part part, size_t count)
{
    rows->pixel = malloc(count * PIXELS);
    rows->label = malloc(count * sizeof *rows->label);
    if (!rows->pixel || !rows->label)
        return -ENOMEM;
    rows->count = count;
    for (uint32_t i = 0; i < count; i++)
        rows->label[i] = data_glyphs_draw(seed, part, i, rows->pixel + (size_t)i * PIXELS);
    return 0;
}

int
data_glyphs_load(struct data_set *set, const struct data_spec *spec, struct why *why)
{
    size_t train = spec->train ? spec->train : TRAIN_DEFAULT;
    size_t test = spec->test ? spec->test : TEST_DEFAULT;
    if (train > SAMPLES_MAX || test > SAMPLES_MAX)
        return why_error(why, -EINVAL, "data.%s = %zu, expected 1..%d",
                         train > SAMPLES_MAX ? "train" : "test", train > SAMPLES_MAX ? train : test,
                         SAMPLES_MAX);
    set->info.input = (struct nn_shape){3, {1, SIDE, SIDE}};
    set->info.classes = CLASSES;
    set->planes = 1;
    set->norm[0] = data_norm_of(0.5, 1);
    int rc = part_draw(&set->part[DATA_TRAIN], spec->seed, DATA_TRAIN, train);
    rc = rc ? rc : part_draw(&set->part[DATA_TEST], spec->seed, DATA_TEST, test);
    if (rc)
        why_set(why, "no memory for %zu drawn samples", train + test);
    return rc;
}

/* recorded.c - see recorded.h. */
#include "node/commands/recorded.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/files/disk.h"
#include "node/base/parse.h"
#include "node/commands/align.h"
#include "node/commands/timeline.h"

enum {
    SHOWN_MAX = 200,
    LINES_MAX = 4096 /* of a file: a run has few hundred */
};

/* A line of a file: where it is, and what it says. */
struct line {
    size_t at, size;
    uint64_t step, job, plan, node;
};

struct folder {
    const char *dir;
    struct line *lines;
    size_t count;
};

struct reading {
    size_t count;
    struct folder folder[PROTO_PEERS_MAX];
    struct steptime_piece *room;          /* [RECORDING_PIECES_MAX] of the line being read */
    struct recorded row[PROTO_PEERS_MAX]; /* the chosen step, in the order of the stages */
    size_t of[PROTO_PEERS_MAX];           /* folder of a row */
    struct aligned aligned;
    struct steptime_piece *pieces; /* of all rows */
    struct timeline timeline;
};

/* "A: what is wrong" */
__attribute__((format(printf, 3, 4))) static int
refuse_folder(struct why *why, const struct folder *folder, const char *format, ...)
{
    char shown[SHOWN_MAX];
    va_list args;
    parse_escape(shown, sizeof shown, folder->dir);
    va_start(args, format);
    why_verror(why, -EBADMSG, shown, format, args);
    va_end(args);
    return -EBADMSG;
}

/* "A and B: what is wrong" */
static int
refuse_both(struct why *why, const struct folder *one, const struct folder *other, const char *what)
{
    char first[SHOWN_MAX], second[SHOWN_MAX];
    parse_escape(first, sizeof first, one->dir);
    parse_escape(second, sizeof second, other->dir);
    return why_error(why, -EBADMSG, "%s and %s: %s", first, second, what);
}

/* --- Reading -------------------------------------------------------------------------------------- */

static int
read_line(struct reading *r, struct folder *folder, const uint8_t *text, size_t at, size_t size,
          struct why *why)
{
    struct why reason;
    struct recorded step = {.pieces = r->room};
    if (recording_read(&step, (const char *)text + at, size, &reason))
        return refuse_folder(why, folder, RECORDING_FILE ":%zu: %s", folder->count + 1,
                             reason.line);
    folder->lines[folder->count++] =
        (struct line){at, size, step.step, step.job, step.plan, step.node};
    return 0;
}

/* Whole lines; what follows the last line break was cut off. */
static int
read_lines(struct reading *r, struct folder *folder, const uint8_t *text, size_t size,
           struct why *why)
{
    size_t count = 0;
    int rc = 0;
    for (size_t i = 0; i < size; i++)
        count += text[i] == '\n';
    if (count > LINES_MAX)
        return refuse_folder(why, folder, RECORDING_FILE ": has more than %d lines", LINES_MAX);
    folder->lines = calloc(count + 1, sizeof *folder->lines);
    if (!folder->lines)
        return why_error(why, -ENOMEM, "out of memory");
    for (size_t at = 0; folder->count < count && !rc;) {
        const uint8_t *end = memchr(text + at, '\n', size - at);
        size_t line = (size_t)(end - text) - at;
        rc = read_line(r, folder, text, at, line, why);
        at += line + 1;
    }
    if (!rc && count == 0)
        rc = refuse_folder(why, folder, RECORDING_FILE ": has no whole line");
    return rc;
}

/* The file of the folder; the caller frees it. */
static int
read_recording(const struct folder *folder, uint8_t **text, size_t *size, struct why *why)
{
    char path[DISK_PATH_MAX];
    if (snprintf(path, sizeof path, "%s/" RECORDING_FILE, folder->dir) >= (int)sizeof path)
        return refuse_folder(why, folder, "the name is too long");
    int rc = disk_read(path, RECORDING_FILE_MAX, text, size, why);
    if (rc != -ENOENT)
        return rc;
    return refuse_folder(why, folder,
                         "has no " RECORDING_FILE
                         ", which a run with mesh.stages on several nodes leaves");
}

static int
read_folder(struct reading *r, const char *dir, struct why *why)
{
    struct folder *folder = &r->folder[r->count++];
    uint8_t *text = NULL;
    size_t size;
    folder->dir = dir;
    int rc = read_recording(folder, &text, &size, why);
    rc = rc ? rc : read_lines(r, folder, text, size, why);
    free(text);
    return rc;
}

/* --- Choosing a step ------------------------------------------------------------------------------ */

/* A step that was done again has several lines: the last one counts. */
static const struct line *
find_step(const struct folder *folder, uint64_t step)
{
    for (size_t i = folder->count; i > 0; i--)
        if (folder->lines[i - 1].step == step)
            return &folder->lines[i - 1];
    return NULL;
}

static bool
all_have(const struct reading *r, const struct line *line)
{
    for (size_t i = 1; i < r->count; i++) {
        const struct line *other = find_step(&r->folder[i], line->step);
        if (!other || other->plan != line->plan || other->job != line->job)
            return false;
    }
    return find_step(&r->folder[0], line->step) == line;
}

static int
refuse_apart(const struct reading *r, struct why *why)
{
    const struct folder *first = &r->folder[0];
    for (size_t i = 1; i < r->count; i++) {
        const struct folder *other = &r->folder[i];
        if (other->lines[other->count - 1].job != first->lines[first->count - 1].job)
            return refuse_both(why, first, other, "of different jobs");
    }
    return refuse_both(why, first, &r->folder[r->count - 1],
                       "no step that all folders have under one plan");
}

static int
choose_step(const struct reading *r, uint64_t *step, struct why *why)
{
    const struct line *best = NULL;
    const struct folder *first = &r->folder[0];
    for (size_t i = 0; i < first->count; i++)
        if ((!best || first->lines[i].step > best->step) && all_have(r, &first->lines[i]))
            best = &first->lines[i];
    *step = best ? best->step : 0;
    return best ? 0 : refuse_apart(r, why);
}

/* --- The rows ------------------------------------------------------------------------------------- */

static unsigned
first_stage(const struct recorded *row)
{
    unsigned first = PROTO_STAGES_MAX;
    for (size_t i = 0; i < row->count; i++)
        if (row->pieces[i].piece.kind != SCHEDULE_TAIL && row->pieces[i].piece.stage < first)
            first = row->pieces[i].piece.stage;
    return first;
}

/* The folder's row of the step. A node that trains may have written more to the file since. */
static int
load_row(struct reading *r, const struct folder *folder, uint64_t step, struct recorded *out,
         struct why *why)
{
    const struct line *line = find_step(folder, step);
    uint8_t *text = NULL;
    size_t size;
    int rc = read_recording(folder, &text, &size, why);
    if (!rc &&
        (line->at + line->size > size ||
         recording_read(out, (const char *)text + line->at, line->size, why) || out->step != step))
        rc = refuse_folder(why, folder, RECORDING_FILE ": has changed");
    free(text);
    struct steptime_piece *pieces = rc ? NULL : calloc(out->count + 1, sizeof *pieces);
    if (pieces)
        memcpy(pieces, r->room, out->count * sizeof *pieces);
    out->pieces = pieces;
    return rc || pieces ? rc : why_error(why, -ENOMEM, "out of memory");
}

/* The first `rows` rows are there, and this one goes between them. */
static void
insert_row(struct reading *r, size_t rows, size_t folder, const struct recorded *row)
{
    size_t at = rows;
    for (; at > 0 && first_stage(&r->row[at - 1]) > first_stage(row); at--) {
        r->row[at] = r->row[at - 1];
        r->of[at] = r->of[at - 1];
    }
    r->row[at] = *row;
    r->of[at] = folder;
}

static int
check_nodes(const struct reading *r, struct why *why)
{
    for (size_t b = 1; b < r->count; b++)
        for (size_t a = 0; a < b; a++)
            if (r->row[a].node == r->row[b].node)
                return refuse_both(why, &r->folder[r->of[a]], &r->folder[r->of[b]],
                                   "of the same node");
    return 0;
}

static int
load_rows(struct reading *r, uint64_t step, struct why *why)
{
    size_t one, other;
    int rc = 0;
    for (size_t i = 0; i < r->count && !rc; i++) {
        struct recorded row = {.pieces = r->room};
        rc = load_row(r, &r->folder[i], step, &row, why);
        insert_row(r, i, i, &row);
    }
    rc = rc ? rc : check_nodes(r, why);
    if (rc)
        return rc;
    rc = align(&r->aligned, r->row, r->count, &one, &other);
    if (rc == -ENOMEM)
        return why_error(why, rc, "out of memory");
    return rc ? refuse_both(why, &r->folder[r->of[one]], &r->folder[r->of[other]],
                            "the same piece twice, or in no order: not of one step")
              : 0;
}

/* --- Drawing -------------------------------------------------------------------------------------- */

/* Its name; the folder, if there are several nodes of that name. */
static void
name_row(const struct reading *r, size_t row, char out[TIMELINE_NAME])
{
    const char *dir = r->folder[r->of[row]].dir;
    size_t same = 0, size = strlen(dir);
    for (size_t i = 0; i < r->count; i++)
        same += strcmp(r->row[i].name, r->row[row].name) == 0;
    const char *tail = size < TIMELINE_NAME ? dir : dir + size - TIMELINE_NAME + 1;
    parse_escape(out, TIMELINE_NAME, same == 1 && r->row[row].name[0] ? r->row[row].name : tail);
}

static int64_t
begin_of(const struct reading *r, size_t row)
{
    return (int64_t)r->row[row].begin_us + r->aligned.shift_us[row];
}

/* Into the time from the first begin on. */
static void
place_row(struct reading *r, size_t row, int64_t from)
{
    const struct recorded *of = &r->row[row];
    struct timeline *t = &r->timeline;
    struct timeline_row *to = &t->rows[row];
    name_row(r, row, to->name);
    to->begin_us = (uint64_t)(begin_of(r, row) - from);
    to->end_us = to->begin_us + (of->end_us - of->begin_us);
    t->step_us = to->end_us > t->step_us ? to->end_us : t->step_us;
    for (size_t i = 0; i < of->count; i++) {
        struct steptime_piece piece = of->pieces[i];
        piece.member = (unsigned)row;
        piece.begin_us += to->begin_us;
        piece.end_us += to->begin_us;
        r->pieces[t->piece_count++] = piece;
    }
}

static int
place_rows(struct reading *r, uint64_t step, struct why *why)
{
    struct timeline *t = &r->timeline;
    size_t count = 0;
    int64_t from = begin_of(r, 0);
    for (size_t row = 0; row < r->count; row++) {
        count += r->row[row].count;
        from = begin_of(r, row) < from ? begin_of(r, row) : from;
    }
    t->pieces = r->pieces = calloc(count + 1, sizeof *r->pieces);
    if (!r->pieces)
        return why_error(why, -ENOMEM, "out of memory");
    t->stages = r->row[0].stages;
    t->nodes = (unsigned)r->count;
    for (size_t row = 0; row < r->count; row++)
        place_row(r, row, from);
    snprintf(t->title, sizeof t->title, "step %ju, %u stages, %zu of %u nodes", step, t->stages,
             r->count, r->row[0].members);
    if (r->aligned.moved)
        snprintf(t->note, sizeof t->note,
                 "The clocks of these nodes differ: rows are placed by what they handed over, to "
                 "within %.3f ms",
                 (double)r->aligned.within_us / 1e3);
    return 0;
}

static void
tell_row(const struct timeline *t, unsigned row)
{
    struct timeline_idle idle = timeline_idle(t, row);
    double took_us = (double)(t->rows[row].end_us - t->rows[row].begin_us);
    printf("  %s: ", t->rows[row].name);
    if (idle.computes)
        printf("stage");
    for (unsigned stage = 0; stage < t->stages; stage++)
        if (idle.computes >> stage & 1)
            printf("%s%u", idle.computes & ((UINT64_C(1) << stage) - 1) ? ", " : " ", stage + 1);
    printf("%sbusy %.1f ms of %.1f, idle %.1f %% (formula %.1f %%)\n", idle.computes ? ", " : "",
           (double)idle.busy_us / 1e3, took_us / 1e3, 100 * idle.idle, 100 * idle.formula);
}

static void
tell_rows(const struct timeline *t, const char *path)
{
    char shown[SHOWN_MAX];
    parse_escape(shown, sizeof shown, path);
    printf("%s: %s\n", shown, t->title);
    for (unsigned row = 0; row < t->nodes; row++)
        tell_row(t, row);
    if (t->note[0])
        printf("  %s\n", t->note);
}

static int
draw_step(struct reading *r, const char *path, const char *const *dir, size_t count,
          struct why *why)
{
    uint64_t step = 0;
    int rc = 0;
    r->room = calloc(RECORDING_PIECES_MAX, sizeof *r->room);
    if (!r->room)
        return why_error(why, -ENOMEM, "out of memory");
    for (size_t i = 0; i < count && !rc; i++)
        rc = read_folder(r, dir[i], why);
    rc = rc ? rc : choose_step(r, &step, why);
    rc = rc ? rc : load_rows(r, step, why);
    rc = rc ? rc : place_rows(r, step, why);
    rc = rc ? rc : timeline_write(&r->timeline, path, why);
    if (!rc)
        tell_rows(&r->timeline, path);
    return rc;
}

int
recorded_draw(const char *path, const char *const *dir, size_t count, struct why *why)
{
    if (count > PROTO_PEERS_MAX)
        return why_error(why, -E2BIG, "more than %d folders", PROTO_PEERS_MAX);
    struct reading *r = calloc(1, sizeof *r);
    int rc = r ? draw_step(r, path, dir, count, why) : why_error(why, -ENOMEM, "out of memory");
    for (size_t i = 0; r && i < r->count; i++) {
        free(r->folder[i].lines);
        free(r->row[i].pieces);
    }
    if (r) {
        free(r->room);
        free(r->pieces);
    }
    free(r);
    return rc;
}

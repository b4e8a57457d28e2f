/* verify_pieces.c - see verify_pieces.h. */
#include "node/commands/verify_pieces.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nn/files/disk.h"

struct reading {
    struct verify_folders *folders;
    unsigned folder;
    verify_pieces_line *line;
    void *ctx;
    char file[40];                /* and the line that is read */
    uint64_t before, before_plan; /* of the line before */
    struct recorded step;
    struct steptime_piece pieces[RECORDING_PIECES_MAX];
};

static void
find_piece(struct reading *r, const char *what)
{
    verify_find(r->folders, r->folders->folder[r->folder].dir, r->file, "step %ju: %s",
                r->step.step, what);
}

/* Shards of each kind of piece in one stage. */
struct stage {
    uint64_t kind[SCHEDULE_KINDS];
};

/* Each once. */
static bool
sort_pieces(const struct recorded *step, struct stage stage[PROTO_STAGES_MAX], unsigned *tails)
{
    for (size_t i = 0; i < step->count; i++) {
        const struct schedule_piece *piece = &step->pieces[i].piece;
        uint64_t bit = UINT64_C(1) << piece->shard;
        if (piece->kind == SCHEDULE_TAIL) {
            if (piece->stage || piece->shard)
                return false;
            ++*tails;
            continue;
        }
        if (stage[piece->stage].kind[piece->kind] & bit)
            return false;
        stage[piece->stage].kind[piece->kind] |= bit;
    }
    return *tails <= 1;
}

/* All that is forward goes back, whole or in two pieces; in the stages of the line and nowhere else. */
static bool
stages_whole(const struct recorded *step, const struct stage stage[PROTO_STAGES_MAX],
             const struct verify_line *said)
{
    uint64_t shards = 0;
    for (unsigned s = 0; s < step->stages; s++) {
        const uint64_t *kind = stage[s].kind;
        uint64_t forward = kind[SCHEDULE_FORWARD];
        if (kind[SCHEDULE_INPUT] != kind[SCHEDULE_WEIGHT] ||
            (kind[SCHEDULE_INPUT] & kind[SCHEDULE_BACKWARD]) != 0 ||
            (kind[SCHEDULE_INPUT] | kind[SCHEDULE_BACKWARD]) != forward ||
            (forward && !(said->mine >> s & 1)))
            return false;
        shards |= forward;
    }
    return shards == said->shards;
}

static void
judge_pieces(struct reading *r, const struct verify_line *said)
{
    struct stage stage[PROTO_STAGES_MAX] = {{{0}}};
    unsigned tails = 0;
    if (r->step.stages != said->stages || r->step.members != said->peers)
        find_piece(r, "stages and members are not those of metrics.jsonl");
    else if (!sort_pieces(&r->step, stage, &tails))
        find_piece(r, "a piece is there twice, or is none");
    else if (!stages_whole(&r->step, stage, said))
        find_piece(r, "its pieces are not the shards and stages of metrics.jsonl");
}

/* May a step have been computed whose line was deleted again, as it was computed once more in another plan? */
static bool
may_go_back(const struct config *config)
{
    if (!config)
        return true;
    return config->mesh.compress != CODEC_none && config->mesh.compress != CODEC_int8;
}

static void
judge_recorded(struct reading *r)
{
    const struct verify_folders *folders = r->folders;
    const struct verify_line *said = NULL;
    const struct verify_job *job = &folders->left.job;
    if (r->step.job != job->job && !left_of_part(&folders->left, r->step.job)) {
        find_piece(r, "is of another job");
        return;
    }
    if (r->step.step <= job->begun || r->step.step > job->steps || !recording_has(r->step.step)) {
        find_piece(r, "no such step is recorded");
        return;
    }
    if (r->step.step == r->before && r->step.plan == r->before_plan &&
        !may_go_back(folders->left.config))
        find_piece(r, "is there twice, in the same plan");
    r->before = r->step.step;
    r->before_plan = r->step.plan;
    do
        said = r->line(r->ctx, r->folder, r->step.step, said);
    while (said && said->plan != r->step.plan);
    if (said)
        judge_pieces(r, said);
    else if (!may_go_back(folders->left.config))
        find_piece(r, "no line of metrics.jsonl is of this step and plan");
}

static void
read_recorded(struct reading *r, const char *text, size_t size)
{
    struct why why;
    const char *dir = r->folders->folder[r->folder].dir;
    size_t at = 0;
    for (size_t line = 1; at < size; line++) {
        const char *end = memchr(text + at, '\n', size - at);
        if (!end)
            break;
        snprintf(r->file, sizeof r->file, RECORDING_FILE ":%zu", line);
        r->step = (struct recorded){.pieces = r->pieces};
        if (recording_read(&r->step, text + at, (size_t)(end - text) - at, &why))
            verify_find(r->folders, dir, r->file, "%s", why.line);
        else
            judge_recorded(r);
        at = (size_t)(end - text) + 1;
    }
    if (at < size && r->folders->folder[r->folder].ended)
        verify_find(r->folders, dir, RECORDING_FILE, "its last line is cut off, and the run ended");
}

void
verify_pieces(struct verify_folders *folders, unsigned folder, verify_pieces_line *line, void *ctx)
{
    char path[DISK_PATH_MAX];
    uint8_t *text = NULL;
    size_t size;
    struct why why;
    const char *dir = folders->folder[folder].dir;
    snprintf(path, sizeof path, "%s/" RECORDING_FILE, dir);
    if (access(path, F_OK) != 0)
        return;
    struct reading *r = calloc(1, sizeof *r);
    int rc = r ? disk_read(path, RECORDING_FILE_MAX, &text, &size, &why)
               : why_error(&why, -ENOMEM, "not enough memory");
    if (rc) {
        verify_find_why(folders, dir, RECORDING_FILE, &why);
    } else {
        *r = (struct reading){.folders = folders, .folder = folder, .line = line, .ctx = ctx};
        read_recorded(r, (const char *)text, size);
    }
    free(text);
    free(r);
}

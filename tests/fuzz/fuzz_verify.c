/* fuzz_verify.c - job.json, result.json, a line of metrics.jsonl and one of pieces.jsonl, in bytes that nobody chose:
 * decoded within their limits, or refused with one printable line. */
#include <jansson.h>

#include "node/base/parse.h"
#include "node/commands/align.h"
#include "node/commands/compare.h"
#include "node/results/verify_read.h"
#include "tests/fuzz/fuzz.h"

/* Two nodes recorded the same, but for their names: no piece twice, unless there are none. */
static void
align_twice(const struct recorded *step)
{
    struct recorded rows[] = {*step, *step};
    struct aligned aligned;
    size_t one, other;
    int rc = align(&aligned, rows, 2, &one, &other);
    must(rc == 0 || (one < 2 && other < 2), "a row that is not there");
    must(rc || aligned.shift_us[0] == 0, "the first row was moved");
}

static void
recording(const uint8_t *data, size_t size)
{
    static struct steptime_piece pieces[RECORDING_PIECES_MAX];
    struct why why = {""};
    struct recorded step = {.pieces = pieces};
    if (recording_read(&step, (const char *)data, size, &why)) {
        must(why.line[0] && parse_printable(why.line), "the reason is not one clean line");
        return;
    }
    must(step.count <= RECORDING_PIECES_MAX && step.begin_us <= step.end_us &&
             parse_printable(step.name),
         "a step out of range");
    for (size_t i = 0; i < step.count; i++)
        must(pieces[i].begin_us <= pieces[i].end_us &&
                 pieces[i].end_us <= step.end_us - step.begin_us &&
                 pieces[i].piece.stage < step.stages && pieces[i].piece.shard < PROTO_SHARDS_MAX,
             "a piece out of range");
    align_twice(&step);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    recording(data, size);
    struct why why = {""};
    struct verify_job job;
    struct verify_line line;
    struct compare_result result;
    json_t *object = verify_object((const char *)data, size, VERIFY_JOB_MAX, &why);
    if (object && verify_read_job(&job, object, &why) == 0)
        must(job.shards >= 1 && job.shards <= 64 && job.batch >= job.shards &&
                 job.train >= job.batch,
             "a job out of range");
    else
        must(why.line[0] && parse_printable(why.line), "the reason is not one clean line");
    json_decref(object);
    why.line[0] = '\0';
    if (verify_read_line(&line, (const char *)data, size, &why) < 0)
        must(why.line[0] && parse_printable(why.line), "the reason is not one clean line");
    why.line[0] = '\0';
    if (compare_parse(&result, "result.json", (const char *)data, size, &why) == 0)
        must(strlen(result.params_sha256) % 64 == 0 &&
                 strlen(result.params_sha256) == strlen(result.state_sha256),
             "no hashes");
    else
        must(why.line[0] && parse_printable(why.line), "the reason is not one clean line");
    return 0;
}

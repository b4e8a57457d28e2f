/* fuzz_verify.c - job.json, result.json and a line of metrics.jsonl, in bytes that nobody chose: decoded within their limits, or
 * refused with one printable line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "node/commands/compare.h"
#include "node/commands/verify.h"
#include "node/job/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
must(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
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
        must(strlen(result.params_sha256) == 64 && strlen(result.state_sha256) == 64, "no hashes");
    else
        must(why.line[0] && parse_printable(why.line), "the reason is not one clean line");
    return 0;
}

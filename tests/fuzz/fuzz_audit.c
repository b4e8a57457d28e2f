/* fuzz_audit.c - job.json and a line of metrics.jsonl, in bytes that nobody chose: decoded within their limits, or
 * refused with one printable line. */
#include <stdio.h>
#include <stdlib.h>

#include "node/commands/audit.h"
#include "node/job/typed.h"

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
    char why[128] = "";
    struct audit_job job;
    struct audit_line line;
    if (audit_read_job(&job, (const char *)data, size, why, sizeof why) == 0)
        must(job.shards >= 1 && job.shards <= 64 && job.batch >= job.shards &&
                 job.train >= job.batch,
             "a job out of range");
    else
        must(*why && typed_printable(why), "the reason is not one clean line");
    *why = '\0';
    if (audit_read_line(&line, (const char *)data, size, why, sizeof why) < 0)
        must(*why && typed_printable(why), "the reason is not one clean line");
    return 0;
}

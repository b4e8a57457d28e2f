/* fuzz_config.c - a job's text, from a file or from a stranger, in bytes that nobody chose.
 *
 * Either it is refused with one printable line, or its canonical text is a job again: the same job. */
#include "node/base/parse.h"
#include "node/job/config.h"
#include "tests/fuzz/fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct why why = {""};
    struct config *config, *again;
    if (config_parse(&config, "job.yaml", (const char *)data, size, &why)) {
        must(config == NULL, "a config despite the error");
        must(why.line[0] != '\0' && parse_printable(why.line), "the reason is not one clean line");
        return 0;
    }
    must(config_parse(&again, "again", config->text, config->text_size, &why) == 0, why.line);
    must(strcmp(config->text, again->text) == 0, "the text is not canonical");
    must(config_job_hash(config, 0, 0) == config_job_hash(again, 0, 0), "another job hash");
    if (config_check(config, &why))
        must(why.line[0] != '\0' && parse_printable(why.line), "the reason is not one clean line");
    config_destroy(&config);
    config_destroy(&again);
    return 0;
}

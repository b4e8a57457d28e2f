/* verify_read.c - what meshnode verify reads: files, their lines, and two kinds of text. See verify.h. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "nn/files/disk.h"
#include "node/commands/verify_folders.h"
#include "proto/proto.h"

enum { LOCAL_STEPS_MAX = 1 << 24 }; /* more than a config takes */

/* One line into text, without its end. 0, 1 when the file ended before the line did, 2 at the end of the file,
 * -EMSGSIZE when it is too long, which skips it. */
static int
next_line(FILE *file, char text[VERIFY_LINE_MAX], size_t *size)
{
    int c;
    *size = 0;
    while ((c = getc(file)) != EOF && c != '\n')
        if ((*size)++ < VERIFY_LINE_MAX)
            text[*size - 1] = (char)c;
    if (c == EOF)
        return *size ? 1 : 2;
    return *size > VERIFY_LINE_MAX ? -EMSGSIZE : 0;
}

uint64_t
verify_number(struct verify_reading *reading, const char *name)
{
    const json_t *value = json_object_get(reading->object, name);
    if (json_is_integer(value) && json_integer_value(value) >= 0)
        return (uint64_t)json_integer_value(value);
    reading->wrong = reading->wrong ? reading->wrong : name;
    return 0;
}

const char *
verify_hex(struct verify_reading *reading, const char *name, size_t digits)
{
    const char *text = json_string_value(json_object_get(reading->object, name));
    if (text && strlen(text) == digits && strspn(text, "0123456789abcdef") == digits)
        return text;
    reading->wrong = reading->wrong ? reading->wrong : name;
    return "";
}

static uint64_t
hash(struct verify_reading *reading, const char *name)
{
    return strtoull(verify_hex(reading, name, 16), NULL, 16);
}

static int
finish_line(const struct verify_reading *reading, const char *wrong, struct why *why)
{
    if (reading->wrong)
        why_set(why, "%s is missing or of the wrong kind", reading->wrong);
    else if (wrong)
        why_set(why, "%s", wrong);
    else
        return 0;
    return -EBADMSG;
}

json_t *
verify_object(const char *text, size_t size, size_t most, struct why *why)
{
    json_error_t error;
    json_t *object = size <= most ? json_loadb(text, size, JSON_REJECT_DUPLICATES, &error) : NULL;
    if (json_is_object(object))
        return object;
    why_set(why, "is not a JSON object");
    json_decref(object);
    return NULL;
}

/* "parts": [75, 150], where there are any. */
static bool
read_parts(const json_t *object, struct verify_job *out)
{
    const json_t *parts = json_object_get(object, "parts");
    size_t count = json_array_size(parts);
    json_int_t before = 0;
    if ((parts && !json_is_array(parts)) || count > VERIFY_PARTS_MAX)
        return false;
    for (size_t i = 0; i < count; i++) {
        json_int_t step = json_integer_value(json_array_get(parts, i));
        if (step <= before)
            return false;
        out->part[out->part_count++] = (uint64_t)(before = step);
    }
    return true;
}

int
verify_read_job(struct verify_job *out, const json_t *object, struct why *why)
{
    struct verify_reading reading = {object, NULL};
    uint64_t shards = verify_number(&reading, "shards");
    *out = (struct verify_job){
        .job = hash(&reading, "job"),
        .seed = verify_number(&reading, "seed"),
        .train = verify_number(&reading, "train"),
        .batch = verify_number(&reading, "batch"),
        .steps = verify_number(&reading, "steps"),
        .shards = (unsigned)shards,
        .local_steps =
            json_object_get(object, "local_steps") ? verify_number(&reading, "local_steps") : 1,
        .begun = json_object_get(object, "begun") ? verify_number(&reading, "begun") : 0,
        .data = json_object_get(object, "data") ? hash(&reading, "data") : 0,
        .from = json_object_get(object, "from") ? hash(&reading, "from") : 0,
    };
    const char *wrong = shards < 1 || shards > PROTO_SHARDS_MAX          ? "shards is out of range"
                        : out->train < 1 || out->train > UINT32_MAX      ? "train is out of range"
                        : out->batch < shards || out->batch > out->train ? "batch is out of range"
                        : out->local_steps < 1 || out->local_steps > LOCAL_STEPS_MAX
                            ? "local_steps is out of range"
                        : out->begun >= out->steps ? "begun is out of range"
                        : !read_parts(object, out) ? "parts are not steps that rise"
                                                   : NULL;
    return finish_line(&reading, wrong, why);
}

/* "pipeline": {"stages": 3, "mine": [0, 2], ..}, where the model is divided. */
static bool
read_pipeline(const json_t *object, struct verify_line *out)
{
    const json_t *pipeline = json_object_get(object, "pipeline"),
                 *mine = json_object_get(pipeline, "mine");
    json_int_t stages = json_integer_value(json_object_get(pipeline, "stages"));
    out->stages = 1;
    out->mine = 1;
    if (!pipeline)
        return true;
    if (stages < 1 || stages > PROTO_STAGES_MAX || !json_is_array(mine))
        return false;
    out->stages = (unsigned)stages;
    out->mine = 0;
    for (size_t i = 0; i < json_array_size(mine); i++) {
        const json_t *stage = json_array_get(mine, i);
        json_int_t s = json_is_integer(stage) ? json_integer_value(stage) : -1;
        if (s < 0 || s >= stages)
            return false;
        out->mine |= UINT64_C(1) << s;
    }
    return true;
}

int
verify_read_line(struct verify_line *out, const char *text, size_t size, struct why *why)
{
    json_t *object = verify_object(text, size, VERIFY_LINE_MAX, why);
    if (!object)
        return -EBADMSG;
    struct verify_reading reading = {object, NULL};
    *out = (struct verify_line){
        .step = verify_number(&reading, "step"),
        .samples = verify_number(&reading, "samples"),
        .loss = (double)NAN,
    };
    const json_t *loss = json_object_get(object, "loss");
    if (json_is_number(loss))
        out->loss = json_number_value(loss);
    bool none = !reading.wrong && out->samples == 0; /* an evaluation; its step's line was lost */
    if (!none) {
        out->epoch = verify_number(&reading, "epoch");
        out->first = verify_number(&reading, "first");
        out->coverage = hash(&reading, "coverage");
        out->shards = hash(&reading, "shards");
        out->rows = hash(&reading, "rows");
        out->ledger = hash(&reading, "ledger");
        out->state_hash = hash(&reading, "state_hash");
        if (!json_is_true(json_object_get(object, "followed")))
            out->plan = hash(&reading, "plan");
        if (!read_pipeline(object, out) && !reading.wrong)
            reading.wrong = "pipeline";
    }
    int rc = finish_line(&reading, NULL, why);
    json_decref(object);
    return rc ? rc : none;
}

bool
verify_each_line(struct verify_folders *folders, const char *dir, verify_visit *visit, void *ctx)
{
    char path[DISK_PATH_MAX], text[VERIFY_LINE_MAX], name[40];
    struct verify_line said;
    struct why why = {"out of memory"};
    uint64_t bytes;
    size_t size;
    snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
    int rc = disk_open(path, &bytes, &why);
    FILE *file = rc < 0 ? NULL : fdopen(rc, "r");
    if (!file) {
        verify_find_why(folders, dir, "metrics.jsonl", &why);
        return false;
    }
    for (uint64_t line = 1; (rc = next_line(file, text, &size)) <= 0; line++) {
        snprintf(name, sizeof name, "metrics.jsonl:%llu", (unsigned long long)line);
        if (rc < 0)
            verify_find(folders, dir, name, "has more than %d bytes", VERIFY_LINE_MAX);
        else if ((rc = verify_read_line(&said, text, size, &why)) < 0)
            verify_find(folders, dir, name, "%s", why.line);
        else if (rc == 0)
            visit(ctx, &said, line);
    }
    fclose(file);
    return rc == 1;
}

/* verify_read.c - see verify_read.h. */
#include "node/results/verify_read.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/proto.h"

enum { LOCAL_STEPS_MAX = 1 << 24 }; /* more than a config takes */

uint64_t
verify_number(struct verify_reading *reading, const char *name)
{
    const json_t *value = json_object_get(reading->object, name);
    if (json_is_integer(value) && json_integer_value(value) >= 0)
        return (uint64_t)json_integer_value(value);
    reading->wrong = reading->wrong ? reading->wrong : name;
    return 0;
}

double
verify_figure(struct verify_reading *reading, const char *name)
{
    const json_t *value = json_object_get(reading->object, name);
    if (json_is_number(value))
        return json_number_value(value);
    if (!json_is_null(value))
        reading->wrong = reading->wrong ? reading->wrong : name;
    return (double)NAN;
}

/* Is `key` one of the words of `keys`, which have | between them? */
static bool
one_of(const char *keys, const char *key)
{
    size_t size = strlen(key);
    while (!(strncmp(keys, key, size) == 0 && (keys[size] == '|' || keys[size] == '\0')))
        if (!(keys = strchr(keys, '|')))
            return false;
        else
            keys++;
    return size > 0 && !strchr(key, '|');
}

void
verify_keys(struct verify_reading *reading, const char *keys)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)reading->object, key, value) if (!one_of(keys, key))
        reading->unknown = true;
}

int
verify_reading_end(const struct verify_reading *reading, struct why *why)
{
    if (reading->wrong)
        return why_error(why, -EBADMSG, "%s is missing or of the wrong kind", reading->wrong);
    return reading->unknown ? why_error(why, -EBADMSG, "has a key that is not known") : 0;
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
    struct verify_reading reading = {.object = object};
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
        .span = json_object_get(object, "span") ? verify_number(&reading, "span") : 0,
        .warmup = json_object_get(object, "span") ? verify_number(&reading, "warmup") : 0,
        .begun = json_object_get(object, "begun") ? verify_number(&reading, "begun") : 0,
        .data = json_object_get(object, "data") ? hash(&reading, "data") : 0,
        .from = json_object_get(object, "from") ? hash(&reading, "from") : 0,
    };
    const char *run = json_string_value(json_object_get(object, "run"));
    snprintf(out->run, sizeof out->run, "%s", run && strlen(run) < sizeof out->run ? run : "");
    verify_keys(&reading,
                "run|job|seed|train|batch|shards|steps|local_steps|span|warmup|begun|parts|data|"
                "from|text");
    const char *wrong = shards < 1 || shards > PROTO_SHARDS_MAX          ? "shards is out of range"
                        : out->train < 1 || out->train > UINT32_MAX      ? "train is out of range"
                        : out->batch < shards || out->batch > out->train ? "batch is out of range"
                        : out->local_steps < 1 || out->local_steps > LOCAL_STEPS_MAX
                            ? "local_steps is out of range"
                        : out->begun >= out->steps ? "begun is out of range"
                        : !read_parts(object, out) ? "parts are not steps that rise"
                                                   : NULL;
    int rc = verify_reading_end(&reading, why);
    return rc || !wrong ? rc : why_error(why, -EBADMSG, "%s", wrong);
}

/* "pipeline": {"stages": 3, "mine": [0, 2], ..}, where the model is divided. */
static bool
read_pipeline(const json_t *object, struct verify_line *out)
{
    const json_t *pipeline = json_object_get(object, "pipeline"),
                 *mine = json_object_get(pipeline, "mine");
    struct verify_reading reading = {.object = pipeline};
    json_int_t stages = json_integer_value(json_object_get(pipeline, "stages"));
    out->stages = 1;
    out->mine = 1;
    if (!pipeline)
        return true;
    verify_keys(&reading, "stages|mine|round_s|busy_s|wait_s|sent_bytes|idle|idle_formula|nodes");
    if (stages < 1 || stages > PROTO_STAGES_MAX || !json_is_array(mine) || reading.unknown)
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

static const char line_keys[] =
    "step|time_s|epoch|loss|accuracy|peers|followed|plan|servers|served_bytes|samples|first|"
    "coverage|shards|rows|ledger|samples_per_s|compute_s|wait_s|tx_bytes|rx_bytes|wire_ratio|"
    "clipped|residual_norm|replayed_steps|pipeline|state_hash|distance|skipped|test_loss|"
    "test_accuracy|test_of|test_step|alarm";

/* The figures of an evaluation, where there are some. */
static void
read_test(struct verify_line *out, struct verify_reading *reading)
{
    out->test_loss = out->test_accuracy = (double)NAN;
    if (!json_object_get(reading->object, "test_loss") &&
        !json_object_get(reading->object, "test_accuracy"))
        return;
    out->tested = !json_object_get(reading->object, "test_of");
    out->test_loss = verify_figure(reading, "test_loss");
    out->test_accuracy = verify_figure(reading, "test_accuracy");
}

int
verify_read_line(struct verify_line *out, const char *text, size_t size, struct why *why)
{
    json_t *object = verify_object(text, size, VERIFY_LINE_MAX, why);
    if (!object)
        return -EBADMSG;
    struct verify_reading reading = {.object = object};
    *out = (struct verify_line){.skipped = json_is_true(json_object_get(object, "skipped")),
                                .clipped = -1};
    out->step = verify_number(&reading, "step");
    out->samples = verify_number(&reading, "samples");
    out->loss = verify_figure(&reading, "loss");
    out->accuracy = verify_figure(&reading, "accuracy");
    out->peers = verify_number(&reading, "peers");
    if (json_object_get(object, "clipped"))
        out->clipped = (double)verify_number(&reading, "clipped");
    read_test(out, &reading);
    out->evaluation = out->samples == 0;
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
    verify_keys(&reading, line_keys);
    int rc = verify_reading_end(&reading, why);
    json_decref(object);
    return rc;
}

/* compare.c - the results that several nodes left, side by side. See compare.h. */
#include "node/commands/compare.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/files/disk.h"
#include "node/job/parse.h"

enum { COMPARE_PATH_MAX = 1200, COMPARE_SIZE_MAX = 1 << 18, CELL_MAX = 32 };

static double
number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static bool
hash(const json_t *object, const char *name, char out[65])
{
    const char *text = json_string_value(json_object_get(object, name));
    if (!text || strlen(text) != 64 || strspn(text, "0123456789abcdef") != 64)
        return false;
    memcpy(out, text, 65);
    return true;
}

/* The first key that is missing or of another kind; NULL: none is. */
static const char *
missing(const json_t *object)
{
    static const char *const whole[] = {"steps", "epochs", "samples"}, *const text[] = {"run",
                                                                                        "node"};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        const json_t *value = json_object_get(object, whole[i]);
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return whole[i];
    }
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        if (!json_is_string(json_object_get(object, text[i])))
            return text[i];
    return NULL;
}

int
compare_parse(struct compare_result *out, const char *name, const char *text, size_t size,
              struct why *why)
{
    char reason[64];
    json_t *object = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(object)) {
        json_decref(object);
        return parse_refuse(name, EBADMSG, "is not a JSON object", why);
    }
    const char *wrong = missing(object);
    if (!wrong && !hash(object, "params_sha256", out->params_sha256))
        wrong = "params_sha256";
    if (!wrong && !hash(object, "state_sha256", out->state_sha256))
        wrong = "state_sha256";
    if (!wrong) {
        out->steps = (uint64_t)json_integer_value(json_object_get(object, "steps"));
        out->test_accuracy = number(object, "test_accuracy");
        out->test_loss = number(object, "test_loss");
        out->wall_s = number(object, "wall_s");
    }
    json_decref(object);
    if (!wrong)
        return 0;
    snprintf(reason, sizeof reason, "%s is missing or of the wrong kind", wrong);
    return parse_refuse(name, EBADMSG, reason, why);
}

int
compare_read(struct compare_result *out, const char *dir, struct why *why)
{
    char path[COMPARE_PATH_MAX];
    uint8_t *text;
    size_t size;
    snprintf(path, sizeof path, "%s/result.json", dir);
    int rc = disk_read(path, COMPARE_SIZE_MAX, &text, &size, why);
    if (rc)
        return rc;
    rc = compare_parse(out, path, (const char *)text, size, why);
    free(text);
    return rc;
}

static const char *
cell(char out[CELL_MAX], const char *format, double value)
{
    assert(strlen(format) < CELL_MAX);
    if (!isfinite(value))
        snprintf(out, CELL_MAX, "-");
    else if (strcmp(format, "%") == 0)
        snprintf(out, CELL_MAX, "%.2f %%", 100 * value);
    else
        snprintf(out, CELL_MAX, "%.*f", *format - '0', value);
    return out;
}

static void
print_table(FILE *file, const struct compare_result *results, size_t count)
{
    char accuracy[CELL_MAX], loss[CELL_MAX], wall[CELL_MAX];
    fprintf(file, "node     steps  test accuracy  test loss   wall s  weights\n");
    for (size_t i = 0; i < count; i++) {
        const struct compare_result *r = &results[i];
        fprintf(file, "%4u  %8llu  %13s  %9s  %7s  %.12s\n", r->node, (unsigned long long)r->steps,
                cell(accuracy, "%", r->test_accuracy), cell(loss, "4", r->test_loss),
                cell(wall, "1", r->wall_s), r->params_sha256);
    }
}

static bool
same_model(const struct compare_result *a, const struct compare_result *b)
{
    return strcmp(a->params_sha256, b->params_sha256) == 0 &&
           strcmp(a->state_sha256, b->state_sha256) == 0;
}

/* "all 4 nodes", "the 3 nodes that finished", "the only node" */
static void
print_who(FILE *file, size_t count, unsigned nodes)
{
    if (nodes == 1)
        fprintf(file, "the node holds");
    else if (count == nodes)
        fprintf(file, "all %zu nodes hold", count);
    else if (count == 1)
        fprintf(file, "the one node that finished holds");
    else
        fprintf(file, "the %zu nodes that finished hold", count);
    fprintf(file, "%s weights: sha256", count == 1 ? " these" : " the same");
}

bool
compare_print(FILE *file, const struct compare_result *results, size_t count, unsigned nodes)
{
    char accuracy[CELL_MAX], loss[CELL_MAX], wall[CELL_MAX];
    assert(count >= 1);
    print_table(file, results, count);
    double wall_s = 0;
    size_t other = 0;
    for (size_t i = 0; i < count; i++) {
        wall_s = fmax(wall_s, results[i].wall_s);
        other = other == 0 && !same_model(&results[0], &results[i]) ? i : other;
    }
    if (other > 0) {
        fprintf(file, "the nodes hold DIFFERENT bits: node %u weights %.12s state %.12s, ",
                results[0].node, results[0].params_sha256, results[0].state_sha256);
        fprintf(file, "node %u weights %.12s state %.12s\n", results[other].node,
                results[other].params_sha256, results[other].state_sha256);
        return false;
    }
    fprintf(file, "test accuracy %s, test loss %s, wall time %s s\n",
            cell(accuracy, "%", results[0].test_accuracy), cell(loss, "4", results[0].test_loss),
            cell(wall, "1", wall_s));
    print_who(file, count, nodes);
    fprintf(file, " %s\n", results[0].params_sha256);
    return true;
}

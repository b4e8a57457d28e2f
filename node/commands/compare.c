/* compare.c - the results that several nodes left, side by side. See compare.h. */
#include "node/commands/compare.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/files/disk.h"
#include "node/base/parse.h"
#include "node/results/verify_read.h"

enum { COMPARE_PATH_MAX = 1200, COMPARE_SIZE_MAX = 1 << 18, CELL_MAX = 32 };

static void
result_text(struct verify_reading *reading, const char *name, char *out, size_t size)
{
    const char *text = json_string_value(json_object_get(reading->object, name));
    if (!text || strlen(text) >= size)
        reading->wrong = reading->wrong ? reading->wrong : name;
    else
        memcpy(out, text, strlen(text) + 1);
}

static bool
read_bool(struct verify_reading *reading, const char *name)
{
    const json_t *value = json_object_get(reading->object, name);
    if (!json_is_boolean(value))
        reading->wrong = reading->wrong ? reading->wrong : name;
    return json_is_true(value);
}

static void
read_numbers(struct verify_reading *reading, struct compare_result *out)
{
    static const char *const counts[] = {"peers_max", "plans",    "aborts",   "damages", "audits",
                                         "expelled",  "tx_bytes", "rx_bytes", "warnings"};
    out->steps = verify_number(reading, "steps");
    out->epochs = verify_number(reading, "epochs");
    out->samples = verify_number(reading, "samples");
    out->train_loss = verify_figure(reading, "train_loss");
    out->test_loss = verify_figure(reading, "test_loss");
    out->test_accuracy = verify_figure(reading, "test_accuracy");
    out->wall_s = verify_figure(reading, "wall_s");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        verify_number(reading, counts[i]);
}

int
compare_parse(struct compare_result *out, const char *name, const char *text, size_t size,
              struct why *why)
{
    struct why reason;
    json_t *object = verify_object(text, size, COMPARE_SIZE_MAX, NULL);
    if (!object)
        return parse_refuse(name, EBADMSG, "is not a JSON object", why);
    struct verify_reading reading = {.object = object};
    read_numbers(&reading, out);
    result_text(&reading, "run", out->run, sizeof out->run);
    result_text(&reading, "node", out->id, sizeof out->id);
    out->exact = read_bool(&reading, "exact");
    out->alone = read_bool(&reading, "alone");
    out->params_sha256[0] = out->state_sha256[0] = '\0';
    if (!json_is_string(json_object_get(object, "no_model"))) {
        snprintf(out->params_sha256, 65, "%s", verify_hex(&reading, "params_sha256", 64));
        snprintf(out->state_sha256, 65, "%s", verify_hex(&reading, "state_sha256", 64));
    }
    verify_keys(&reading,
                "run|node|steps|epochs|samples|train_loss|test_loss|test_accuracy|wall_s|exact|"
                "params_sha256|state_sha256|no_model|peers_max|alone|unmet|plans|aborts|damages|"
                "audits|expelled|lost|tx_bytes|rx_bytes|warnings");
    int rc = verify_reading_end(&reading, &reason);
    json_decref(object);
    return rc ? parse_refuse(name, EBADMSG, reason.line, why) : 0;
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
        fprintf(file, "%4u  %8ju  %13s  %9s  %7s  %.12s\n", r->node, r->steps,
                cell(accuracy, "%", r->test_accuracy), cell(loss, "4", r->test_loss),
                cell(wall, "1", r->wall_s), *r->params_sha256 ? r->params_sha256 : "in parts");
    }
}

static bool
same_model(const struct compare_result *a, const struct compare_result *b)
{
    bool either = !*a->params_sha256 || !*b->params_sha256;
    return either || (strcmp(a->params_sha256, b->params_sha256) == 0 &&
                      strcmp(a->state_sha256, b->state_sha256) == 0);
}

/* "all 4 nodes", "the 3 nodes that finished", "the only node" */
static void
print_node(FILE *file, size_t count, unsigned nodes)
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
    size_t first = 0, other = 0, whole = 0;
    while (first + 1 < count && !*results[first].params_sha256)
        first++;
    for (size_t i = 0; i < count; i++) {
        wall_s = fmax(wall_s, results[i].wall_s);
        whole += *results[i].params_sha256 != '\0';
        other = other == 0 && !same_model(&results[first], &results[i]) ? i : other;
    }
    if (other > 0) {
        fprintf(file, "the nodes hold DIFFERENT bits: node %u weights %.12s state %.12s, ",
                results[first].node, results[first].params_sha256, results[first].state_sha256);
        fprintf(file, "node %u weights %.12s state %.12s\n", results[other].node,
                results[other].params_sha256, results[other].state_sha256);
        return false;
    }
    fprintf(file, "test accuracy %s, test loss %s, wall time %s s\n",
            cell(accuracy, "%", results[0].test_accuracy), cell(loss, "4", results[0].test_loss),
            cell(wall, "1", wall_s));
    if (whole == 0) {
        fprintf(file, "no node had room for all weights\n");
        return true;
    }
    print_node(file, whole, nodes);
    fprintf(file, " %s\n", results[first].params_sha256);
    return true;
}

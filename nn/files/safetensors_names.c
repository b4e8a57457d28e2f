/* safetensors_names.c - see safetensors_names.h.
 *
 *     0.dense.weight   ours: place, layer, weight        0.weight, fc1.weight   PyTorch's: the name of a module, weight
 *
 * Both are sorted by module, digits as numbers, and by weight within one. Then the i-th of one is the i-th of the
 * other, if modules begin and end at the same places and the weights have the same names. Where letters and not digits
 * decide the order of two modules with the same shapes, nobody knows which comes first, and there is no order. */
#include "nn/files/safetensors_names.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

struct entry {
    const char *name;
    const json_t *shape; /* of a file's */
    size_t tensor;       /* of the model's */
};

static const char *
role_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

static size_t
module_size(const char *name)
{
    return (size_t)(role_of(name) - name);
}

bool
safetensors_counter(const char *name)
{
    return strcmp(role_of(name), "num_batches_tracked") == 0;
}

static size_t
digits_at(const char *text)
{
    return strspn(text, "0123456789");
}

/* By module; *letters: letters decided. */
static int
compare_modules(const char *a, const char *b, bool *letters)
{
    size_t m = module_size(a), n = module_size(b), i = 0;
    while (i < m && i < n && a[i] == b[i])
        i++;
    bool digit = (i < m && isdigit((unsigned char)a[i])) || (i < n && isdigit((unsigned char)b[i]));
    while (digit && i > 0 && isdigit((unsigned char)a[i - 1]))
        i--;
    size_t x = digits_at(a + i), y = digits_at(b + i);
    *letters = x == 0 || y == 0;
    if (i == m || i == n)
        return (m > n) - (m < n);
    if (!*letters && x != y)
        return x < y ? -1 : 1;
    return strncmp(a + i, b + i, *letters ? 1 : x);
}

static bool
same_module(const char *a, const char *b)
{
    return module_size(a) == module_size(b) && memcmp(a, b, module_size(a)) == 0;
}

static int
by_order(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    bool letters;
    int order = same_module(x->name, y->name) ? 0 : compare_modules(x->name, y->name, &letters);
    return order ? order : strcmp(role_of(x->name), role_of(y->name));
}

/* Those of the file but metadata and counters. Returns how many there are; 0: not as many as `most`. */
static size_t
list_file(json_t *header, struct entry *entry, size_t most)
{
    const char *name;
    json_t *value;
    size_t count = 0;
    json_object_foreach(header, name, value)
    {
        if (strcmp(name, "__metadata__") == 0 || safetensors_counter(name))
            continue;
        if (count == most)
            return 0;
        entry[count++] = (struct entry){.name = name, .shape = json_object_get(value, "shape")};
    }
    return count == most ? count : 0;
}

/* Entries of the module that begins at `first`. */
static size_t
module_count(const struct entry *entry, size_t count, size_t first)
{
    size_t n = 1;
    while (first + n < count && same_module(entry[first].name, entry[first + n].name))
        n++;
    return n;
}

/* Do two modules of a file have the same weights? */
static bool
alike(const struct entry *entry, size_t a, size_t b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(role_of(entry[a + i].name), role_of(entry[b + i].name)) != 0 ||
            !json_equal(entry[a + i].shape, entry[b + i].shape))
            return false;
    return true;
}

/* Is it known which of any two modules comes first, or does it not matter? */
static bool
order_known(const struct entry *entry, size_t count)
{
    bool letters;
    for (size_t a = 0, n; a < count; a += n) {
        n = module_count(entry, count, a);
        for (size_t b = a + n, m; b < count; b += m) {
            m = module_count(entry, count, b);
            compare_modules(entry[a].name, entry[b].name, &letters);
            if (letters && m == n && alike(entry, a, b, n))
                return false;
        }
    }
    return true;
}

static bool
same_order(const struct entry *ours, const struct entry *theirs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool begins = i == 0 || !same_module(ours[i - 1].name, ours[i].name);
        if (strcmp(role_of(ours[i].name), role_of(theirs[i].name)) != 0 ||
            begins != (i == 0 || !same_module(theirs[i - 1].name, theirs[i].name)))
            return false;
    }
    return true;
}

/* "0 is 0.dense, 2 is 2.dense" */
static void
say_modules(const struct entry *ours, const struct entry *theirs, size_t count, struct why *said)
{
    why_set(said, "PyTorch's names go by order: ");
    for (size_t i = 0; i < count; i += module_count(ours, count, i)) {
        int m = (int)module_size(theirs[i].name), n = (int)module_size(ours[i].name);
        why_append(said, "%s%.*s is %.*s", i ? ", " : "", m > 0 ? m - 1 : 0, theirs[i].name,
                   n > 0 ? n - 1 : 0, ours[i].name);
    }
    for (char *c = said->line; *c; c++) /* a file may call them anything */
        if (*c < ' ' || *c > '~')
            *c = '?';
}

/* How many of the model's names are in the file. */
static size_t
own_names(const struct nn_model *model, json_t *header, const char **names)
{
    size_t found = 0;
    for (size_t i = 0; i < nn_tensor_count(model); i++) {
        names[i] = nn_tensor(model, i)->name;
        found += json_object_get(header, names[i]) != NULL;
    }
    return found;
}

bool
safetensors_names(const struct nn_model *model, json_t *header, const char **names,
                  struct why *said)
{
    size_t count = nn_tensor_count(model);
    struct entry *ours = calloc(count + 1, sizeof *ours), *theirs = calloc(count + 1, sizeof *ours);
    why_set(said, "%s", "");
    size_t found = own_names(model, header, names);
    bool other = false;
    if (found == 0 && ours && theirs && list_file(header, theirs, count) > 0) {
        for (size_t i = 0; i < count; i++)
            ours[i] = (struct entry){.name = names[i], .tensor = i};
        qsort(ours, count, sizeof *ours, by_order);
        qsort(theirs, count, sizeof *theirs, by_order);
        other = same_order(ours, theirs, count) && order_known(theirs, count);
    }
    for (size_t i = 0; other && i < count; i++)
        names[ours[i].tensor] = theirs[i].name;
    if (other)
        say_modules(ours, theirs, count, said);
    free(ours);
    free(theirs);
    return found == count || other;
}

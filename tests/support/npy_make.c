/* npy_make.c - writes NumPy's format byte by byte, sharing nothing with the code that reads it. */
#include "tests/support/npy_make.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t
npy_make_text(uint8_t *out, uint8_t version, const char *text)
{
    const uint8_t magic[8] = {0x93, 'N', 'U', 'M', 'P', 'Y', version, 0};
    size_t length = strlen(text), fixed = version == 1 ? 10 : 12;
    memcpy(out, magic, sizeof magic);
    for (size_t i = 8; i < fixed; i++)
        out[i] = (uint8_t)(length >> (8 * (i - 8)));
    memcpy(out + fixed, text, length);
    return fixed + length;
}

/* A number that 16 bits can hold, and no small one: its exponent is not below -14. */
static uint64_t
half_of(double value)
{
    int exponent;
    double part = frexp(fabs(value), &exponent);
    uint64_t bits =
        value == 0 ? 0 : (uint64_t)(exponent + 14) << 10 | (uint64_t)(part * 2048 - 1024);
    return bits | (value < 0 ? 1u << 15 : 0);
}

/* The bits of a value in a type of `item` bytes. */
static uint64_t
bits_of(char kind, size_t item, double value)
{
    uint64_t bits;
    uint32_t half;
    float single = (float)value;
    if (kind != 'f')
        return (uint64_t)(int64_t)value;
    if (item == 2)
        return half_of(value);
    if (item == 8) {
        memcpy(&bits, &value, sizeof bits);
        return bits;
    }
    memcpy(&half, &single, sizeof half);
    return half;
}

uint8_t *
npy_make(const struct npy_make *make, const double *value, size_t *size)
{
    char text[256];
    size_t item = (size_t)(make->type[2] - '0'), count = 1;
    int used = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                        make->type);
    for (size_t i = 0; i < make->dims; i++) {
        used += snprintf(text + used, sizeof text - (size_t)used, "%zu,%s", make->dim[i],
                         i + 1 < make->dims ? " " : "), }\n");
        count *= make->dim[i];
    }
    uint8_t *file = malloc(sizeof text + 16 + count * item);
    assert(file);
    size_t at = npy_make_text(file, 1, text);
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = bits_of(make->type[1], item, value[i]);
        for (size_t k = 0; k < item; k++)
            file[at++] = (uint8_t)(bits >> (8 * (make->type[0] == '>' ? item - 1 - k : k)));
    }
    *size = at;
    return file;
}

void
npy_make_file(const struct folder *folder, const char *name, const struct npy_make *make,
              const double *value)
{
    size_t size;
    uint8_t *bytes = npy_make(make, value, &size);
    folder_write(folder, name, bytes, size);
    free(bytes);
}

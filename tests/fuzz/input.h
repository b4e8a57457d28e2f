/* input.h - the bytes of a fuzzer's input as actions and bodies. Behind its end all bytes are 0. */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>

enum { POKES_MAX = 8 };

struct input {
    const uint8_t *at;
    size_t left;
};

static inline unsigned
byte(struct input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->at++;
}

/* A few bytes again and again, with others in some places. */
static inline void
fill(struct input *in, void *to, size_t size)
{
    uint8_t pattern[16] = {0}, *out = to;
    size_t length = 1 + byte(in) % sizeof pattern, pokes = byte(in) % POKES_MAX;
    for (size_t k = 0; k < length; k++)
        pattern[k] = (uint8_t)byte(in);
    for (size_t k = 0; k < size; k++)
        out[k] = pattern[k % length];
    for (size_t k = 0; k < pokes && size > 0; k++) {
        size_t place = (byte(in) << 8 | byte(in)) % size;
        out[place] = (uint8_t)byte(in);
    }
}

#endif

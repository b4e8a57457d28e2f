/* codec.c - the table. */
#include "compress/codec.h"

#include <assert.h>
#include <math.h>

#include "compress/lowrank.h"

/* So many bits are enough below the largest element of some steps before. */
enum { CODEC_TOP_FINE = 8 };

#define CODEC(name, bits, dropped, rounding, percent, memory)                                      \
    {#name, bits, dropped, CODEC_##rounding, percent, memory, 0.01, 4},
static const struct codec codecs[] = {CODEC_TABLE(CODEC)};
#undef CODEC

const char *
codec_name(unsigned kind)
{
    assert(kind <= CODEC_auto);
    return codecs[kind].name;
}

const struct codec *
codec_of(unsigned kind)
{
    assert(kind <= CODEC_auto);
    return kind == CODEC_none ? NULL : &codecs[kind];
}

void
codec_round(struct codec *codec, unsigned bits)
{
    assert(codec->rounding == CODEC_TOP);
    assert(bits >= 1 && bits <= CODEC_TOP_BITS);
    codec->bits = (int)bits - 1;
    codec->percent = bits < CODEC_TOP_FINE ? 100 : 0;
}

size_t
codec_few(const struct codec *codec, size_t n)
{
    return (size_t)ceil((double)n * codec->share -
                        1e-9); /* not one more where the product is rounded up */
}

bool
codec_takes(const struct codec *codec, size_t count, size_t rows, bool last)
{
    bool ternary = codec->rounding == CODEC_DRAWN && codec->bits == 0;
    if (last && ternary)
        return false;
    if (codec->rounding == CODEC_PRODUCT)
        return count >= CODEC_SMALL &&
               lowrank_pays(&(struct lowrank){rows, count / rows, codec->rank});
    return (codec->percent == 0 && !codec->memory) || count >= CODEC_SMALL;
}

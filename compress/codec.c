/* codec.c - the table. */
#include "compress/codec.h"

#include <assert.h>

#define CODEC(name, bits, dropped, rounding, percent, memory)                                      \
    {#name, bits, dropped, CODEC_##rounding, percent, memory},
static const struct codec codecs[] = {CODEC_TABLE(CODEC)};
#undef CODEC

const struct codec *
codec_of(unsigned kind)
{
    assert(kind < CODECS);
    return kind == CODEC_none ? NULL : &codecs[kind];
}

bool
codec_takes(const struct codec *codec, size_t count)
{
    return (codec->percent == 0 && !codec->memory) || count >= CODEC_SMALL;
}

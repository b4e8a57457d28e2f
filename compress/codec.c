/* codec.c - the table. */
#include "compress/codec.h"

#include <assert.h>
#include <stddef.h>

#define CODEC(name, bits, dropped, random) {#name, bits, dropped, random},
static const struct codec codecs[] = {CODEC_TABLE(CODEC)};
#undef CODEC

const struct codec *
codec_of(unsigned kind)
{
    assert(kind < CODECS);
    return kind == CODEC_none ? NULL : &codecs[kind];
}

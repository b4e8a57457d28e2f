/* codec.h - the codecs of mesh.compress: what the gradient of a shard becomes before it is summed.
 *
 * A codec is lossy once per shard: a pure function of the shard's gradient, the exponents of the state, and a number that is
 * drawn from seed, step and shard. What it gives are integers, as without a codec (exact.h). Their sum is exact, whoever adds
 * them in whatever order, and travels without loss (packed.h), in few bits as they are small.
 *
 *     none   as many bits as the sum of all shards has room for
 *     int16  15 bits and a sign, nearest
 *     int8   7 bits and a sign, rounded up or down by chance, so that the mean is the gradient: IntSGD (Mishchenko et al.,
 *            ICLR 2022), with a power of two for each block as its scale
 *     fp16   rounded to the 11 bits of IEEE half precision, then as int16
 *     bf16   rounded to the 8 bits of bfloat16, then as int16
 *
 * What no optimizer moves, running averages of normalisations, is never coded. */
#ifndef COMPRESS_CODEC_H
#define COMPRESS_CODEC_H

#include <stdbool.h>

/* C(name, bits, dropped, random), see struct codec. */
#define CODEC_TABLE(C)                                                                             \
    C(none, 0, 0, false)                                                                           \
    C(int16, 15, 0, false)                                                                         \
    C(int8, 7, 0, true)                                                                            \
    C(fp16, 15, 13, false)                                                                         \
    C(bf16, 15, 16, false)

#define CODEC_KIND(name, bits, dropped, random) CODEC_##name,
enum codec_kind { CODEC_TABLE(CODEC_KIND) CODECS };
#undef CODEC_KIND

struct codec {
    const char *name;
    int bits;    /* |q| of one shard is 2^bits at most; 0: see none */
    int dropped; /* so many of the 24 bits of a float are rounded away first */
    bool random; /* rounded by chance */
};

/* Returns NULL for none. */
const struct codec *codec_of(unsigned kind);

#endif

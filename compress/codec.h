/* codec.h - the codecs of mesh.compress: what the gradient of a shard becomes before it is summed.
 *
 * A codec is lossy once per shard: a pure function of the shard's gradient, the exponents of the state, and a number that is
 * drawn from seed, step and shard. What it gives are integers, as without a codec (exact.h). Their sum is exact, whoever adds
 * them in whatever order, and travels without loss (packed.h), in few bits as they are small.
 *
 *     none   as many bits as the sum of all shards has room for
 *     int16     15 bits and a sign, nearest
 *     fp16      rounded to the 11 bits of IEEE half precision, then as int16
 *     bf16      rounded to the 8 bits of bfloat16, then as int16
 *     int8      7 bits and a sign, rounded up or down by chance, so that the mean is the gradient: IntSGD (Mishchenko et al.,
 *               ICLR 2022), with a power of two for each block as its scale
 *     qsgd      3 bits and a sign, by chance; one in four elements of a shard is not zero (Alistarh et al., NeurIPS 2017)
 *     terngrad  -1, 0 or 1, by chance; what is above 1, at most one in fifty, counts as 1 (Wen et al., NeurIPS 2017)
 *     sparse    7 bits and a sign, by chance; one in twenty is not zero: small ones are kept in proportion to their size, as -1 or
 *               1, so that the mean is the gradient (Wangni et al., NeurIPS 2018)
 *
 * The papers of qsgd, terngrad and sparse take the unit from each shard. A sum needs the same one for all. So there is one for each
 * tensor, and it follows how many elements of the last sum were not zero, or above 1 (exact_adapt). Small tensors have no such
 * unit, and are summed as without a codec.
 *
 * What no optimizer moves, running averages of normalisations, is never coded. */
#ifndef COMPRESS_CODEC_H
#define COMPRESS_CODEC_H

#include <stdbool.h>
#include <stddef.h>

/* C(name, bits, dropped, random, percent), see struct codec. */
#define CODEC_TABLE(C)                                                                             \
    C(none, 0, 0, false, 0)                                                                        \
    C(int16, 15, 0, false, 0)                                                                      \
    C(int8, 7, 0, true, 0)                                                                         \
    C(fp16, 15, 13, false, 0)                                                                      \
    C(bf16, 15, 16, false, 0)                                                                      \
    C(qsgd, 3, 0, true, 25)                                                                        \
    C(terngrad, 0, 0, true, 32)                                                                    \
    C(sparse, 7, 0, true, 5)

enum { CODEC_SMALL = 1024 /* a tensor of fewer elements */ };

#define CODEC_KIND(name, bits, dropped, random, percent) CODEC_##name,
enum codec_kind { CODEC_TABLE(CODEC_KIND) CODECS };
#undef CODEC_KIND

struct codec {
    const char *name;
    int bits;    /* |q| of one shard is 2^bits at most */
    int dropped; /* so many of the 24 bits of a float are rounded away first */
    bool random; /* rounded by chance */
    int percent; /* of a shard's elements are to be not zero, about; 0: the exponent follows the largest sum */
};

/* Returns NULL for none. */
const struct codec *codec_of(unsigned kind);
/* Is a tensor of so many elements coded? */
bool codec_takes(const struct codec *codec, size_t count);

#endif

/* codec.h - the codecs of mesh.compress: what the gradient of a shard becomes before it is summed.
 *
 * A codec is lossy once per shard: a pure function of the shard's gradient, the exponents of the state, and a number
 * that is drawn from seed, step and shard. What it gives are integers, as without a codec (exact.h). Their sum is
 * exact, whoever adds them in whatever order, and travels without loss (packed.h), in few bits as they are small.
 *
 *     none   as many bits as the sum of all shards has room for
 *     int16     15 bits and a sign, nearest
 *     fp16      rounded to the 11 bits of IEEE half precision, then as int16
 *     bf16      rounded to the 8 bits of bfloat16, then as int16
 *     int8      7 bits and a sign, rounded up or down by chance, so that the mean is the gradient: IntSGD (Mishchenko
 *               et al., ICLR 2022), with a power of two for each block as its scale
 *     qsgd      3 bits and a sign, by chance; one in four elements of a shard is not zero (Alistarh et al., NeurIPS
 *               2017)
 *     terngrad  -1, 0 or 1, by chance; what is above 1, at most one in 200, counts as 1 (Wen et al., NeurIPS 2017). The
 *               last layer, which is small and loses most by it, is summed as without a codec
 *     sparse    7 bits and a sign, by chance; one in twenty is not zero: small ones are kept in proportion to their
 *               size, as -1 or
 *               1, so that the mean is the gradient (Wangni et al., NeurIPS 2018)
 *
 *     topk      of each block the largest share (a hundredth), with 10 bits and a sign, or fewer (codec_round; two in
 *               all: Sarfi et al., SparseLoCo, 2025). Has a memory (Aji and Heafield, EMNLP 2017; Stich et al., NeurIPS
 *               2018)
 *     onebit    the sign alone of what is above half a unit, -1 or 1; the rest waits (Strom, Interspeech 2015). Has a
 *               memory (Seide et al., Interspeech 2014)
 *     randk     a share of the elements (a hundredth), chosen by chance for each step, the same ones for all shards, as
 *               int16. Has a memory (Stich et al., NeurIPS 2018)
 *     powersgd  of each matrix its product with a few vectors (four), as int16, which have converged to the largest
 *               singular vectors: lowrank.h. Has a memory (Vogels et al., NeurIPS 2019)
 *
 * A codec with memory: what it leaves out of a shard is added to the next gradient of the same shard. The last step of
 * a *span* sends all of that, on 16 bits, so a span begins with nothing (state_carries in node/train/state.h).
 *
 * The papers of qsgd, terngrad and sparse take the unit from each shard. A sum needs the same one for all. So there is
 * one for each tensor, and it follows how many elements of the last sum were not zero, or above 1 (exact_adapt). Small
 * tensors have no such unit, and are summed as without a codec.
 *
 *     auto      no codec: one of those that lose hardly any accuracy is chosen at the end of the warm-up (choice.h)
 *
 * What no optimizer moves, running averages of normalisations, is never coded. */
#ifndef COMPRESS_CODEC_H
#define COMPRESS_CODEC_H

#include <stdbool.h>
#include <stddef.h>

/* C(name, bits, dropped, rounding, percent, memory), see struct codec. */
#define CODEC_TABLE(C)                                                                             \
    C(none, 0, 0, NEAREST, 0, false)                                                               \
    C(int16, 15, 0, NEAREST, 0, false)                                                             \
    C(int8, 7, 0, DRAWN, 0, false)                                                                 \
    C(fp16, 15, 13, NEAREST, 0, false)                                                             \
    C(bf16, 15, 16, NEAREST, 0, false)                                                             \
    C(qsgd, 3, 0, DRAWN, 25, false)                                                                \
    C(terngrad, 0, 0, DRAWN, 32, false)                                                            \
    C(sparse, 7, 0, DRAWN, 5, false)                                                               \
    C(topk, 10, 0, TOP, 0, true)                                                                   \
    C(onebit, 0, 0, SIGN, 100, true)                                                               \
    C(randk, 15, 0, FEW, 0, true)                                                                  \
    C(powersgd, 15, 0, PRODUCT, 100, true)                                                         \
    C(auto, 0, 0, NEAREST, 0, true)

/* Those of which auto takes one, besides none: they lose hardly any accuracy. */
#define CODECS_OF_AUTO     CODEC_int8, CODEC_sparse, CODEC_onebit, CODEC_powersgd
#define CODECS_WITH_MEMORY "topk|onebit|randk|powersgd"

enum {
    CODEC_SMALL = 1024,  /* a tensor of fewer elements */
    CODEC_TOP_BITS = 11, /* of an element that CODEC_TOP keeps, with its sign, if nothing is set */
};

enum codec_rounding {
    CODEC_NEAREST,
    CODEC_DRAWN,   /* up or down by chance */
    CODEC_SIGN,    /* to -1, 0 or 1 */
    CODEC_FEW,     /* to nearest, of a few that are chosen by chance; the others to 0 */
    CODEC_TOP,     /* of the largest few */
    CODEC_PRODUCT, /* to nearest, of a product with a few vectors */
};

#define CODEC_KIND(name, bits, dropped, rounding, percent, memory) CODEC_##name,
enum codec_kind { CODEC_TABLE(CODEC_KIND) CODECS = CODEC_auto };
#undef CODEC_KIND

struct codec {
    const char *name;
    int bits;    /* |q| of one shard is 2^bits at most */
    int dropped; /* so many of the 24 bits of a float are rounded away first */
    enum codec_rounding rounding;
    int percent; /* of a shard's elements are to be not zero, about; 0: the exponent follows the largest sum */
    bool memory;
    /* These may be set; and bits and percent of CODEC_TOP, by codec_round: */
    double share;  /* CODEC_FEW, CODEC_TOP: of the elements of a block */
    unsigned rank; /* CODEC_PRODUCT: so many vectors */
};

const char *codec_name(unsigned kind);
/* Returns NULL for none. */
const struct codec *codec_of(unsigned kind);
/* An element that CODEC_TOP keeps has so many bits, with its sign: 1..CODEC_TOP_BITS. Of few bits one unit for all
 * blocks of a tensor is followed by how many elements are above its largest number, or hardly above 0 (exact_adapt). */
void codec_round(struct codec *codec, unsigned bits);
/* Is a tensor of so many elements coded, which is a matrix of so many rows? `last`: it is of the last layer. */
bool codec_takes(const struct codec *codec, size_t count, size_t rows, bool last);
/* How many of n elements CODEC_TOP keeps: at least one. */
size_t codec_few(const struct codec *codec, size_t n);

#endif

/* simd.c - every vector function of nn/ under its plain name: the variant this CPU can run. */
#include "nn/arithmetic/simd.h"

#define NN_SIMD_DEFINE(name, parameters, arguments)                                                \
    void name parameters                                                                           \
    {                                                                                              \
        SIMD_PICK(name) arguments;                                                                 \
    }

NN_SIMD_LIST(NN_SIMD_DEFINE)

/* spec.h - layers of a model in a list: LAYER(CONV2D, .units = 4, .kernel = 3), LAYER(RELU), DENSE(10). */
#ifndef SUPPORT_SPEC_H
#define SUPPORT_SPEC_H

#include "nn/nn.h"

#define LAYER(...)                                                                                 \
    {                                                                                              \
        .kind = NN_##__VA_ARGS__                                                                   \
    }
#define DENSE(n) LAYER(DENSE, .units = n)

/* How many, and they: two members of a struct. */
#define LAYERS(...)                                                                                \
    sizeof((struct nn_layer_spec[]){__VA_ARGS__}) / sizeof(struct nn_layer_spec),                  \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* Inputs. */
#define FLAT(n)                                                                                    \
    {                                                                                              \
        1,                                                                                         \
        {                                                                                          \
            n                                                                                      \
        }                                                                                          \
    }
#define IMAGE(channels, height, width)                                                             \
    {                                                                                              \
        3,                                                                                         \
        {                                                                                          \
            channels, height, width                                                                \
        }                                                                                          \
    }

#endif

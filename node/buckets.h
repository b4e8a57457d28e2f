/* buckets.h - how the vector of a round is cut into buckets, and back-propagation into sections.
 *
 *     gradients, from the last layer with parameters down to the first | [ledger] | tail, with the ledger
 *
 * A section goes from the input of one layer with parameters down to the gradient of the next one below it; after it
 * some buckets are complete, so that they can travel while the next section is computed. Buckets of gradients are whole
 * exponent blocks: small layers are put together, large ones cut. The ledger is a bucket of its own with claims. */
#ifndef NODE_BUCKETS_H
#define NODE_BUCKETS_H

#include <stdbool.h>
#include <stddef.h>

#include "compress/exact.h"
#include "mesh/core.h"
#include "nn/nn.h"

struct buckets_section {
    size_t top,
        layer;    /* gradients of the inputs of layers top to layer + 1, then of layer itself */
    size_t ready; /* buckets below this one are complete after it */
};

struct buckets {
    struct buckets_section *section; /* in order of back-propagation */
    size_t section_count;
    struct core_bucket *bucket; /* in the order in which they become ready */
    size_t bucket_count, vector_count;
};

struct buckets_setup {
    const struct nn_model *model;
    const struct exact *exact;
    unsigned shards;
    size_t bytes; /* of a bucket of gradients, 1.. */
    bool claims;
};

/* Returns 0 or -ENOMEM; buckets_fini may follow either way. */
int buckets_init(struct buckets *out, const struct buckets_setup *setup);
void buckets_fini(struct buckets *buckets);

/* Parameters of a layer, and where they begin. */
size_t buckets_of_layer(const struct nn_model *model, size_t layer, size_t *first);
/* Elements of the vector of a round. */
size_t buckets_vector(const struct exact *exact, size_t param_count, unsigned shards);

#endif

/* buckets.h - how the vector of a round is divided into buckets, and back-propagation into sections.
 *
 *     gradients, from the last layer with parameters down to the first | [ledger] | tail, with what is behind it
 *
 * A section begins at the input of a layer with parameters and ends with the gradient of the next such layer below
 * it. After a section some buckets are complete, so they can be sent while the next section is computed. Buckets of
 * gradients are whole exponent blocks: small layers share a bucket, large ones are divided. With claims, the ledger is
 * a bucket of its own. If the job allows stages, a bucket ends at every place where the model may be cut. */
#ifndef NODE_BUCKETS_H
#define NODE_BUCKETS_H

#include <stdbool.h>
#include <stddef.h>

#include "compress/exact.h"
#include "mesh/core/core.h"
#include "nn/nn.h"

struct buckets_section {
    size_t top, layer; /* gradients of the inputs of layers top to layer + 1, then of layer */
    size_t ready;      /* buckets below this one are complete after the section */
};

struct buckets {
    struct buckets_section *section; /* in order of back-propagation */
    size_t section_count;
    struct core_bucket *bucket; /* in the order in which they become ready */
    size_t bucket_count, vector_count;
};

struct work_setup;
/* By its model, exact, shards, behind, bucket_bytes, stages and claims. Returns 0 or -ENOMEM; call buckets_fini in both
 * cases. */
int buckets_init(struct buckets *out, const struct work_setup *setup);
void buckets_fini(struct buckets *buckets);

/* Number of parameters of a layer; *first is where they begin. */
size_t buckets_of_layer(const struct nn_model *model, size_t layer, size_t *first);

#endif

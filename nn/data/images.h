/* images.h - shared by data_images.c, which reads images, and images_list.c, which finds them.
 *
 * What the functions allocate hangs in the struct: who made it frees it, after an error, too. */
#ifndef NN_IMAGES_H
#define NN_IMAGES_H

#include "nn/data/data_list.h"
#include "nn/data/data_set.h"
#include "proto/why.h"

struct images_entry {
    char *path;
    int32_t class;
    uint64_t hash; /* of its square */
};

struct images {
    struct images_entry *entry; /* samples of the training part, then those of the test part */
    size_t count, room;
    size_t train; /* of count */
    size_t side, channels, width;
    uint8_t *kept; /* [count, width]; NULL: not in memory */
};

/* One more image. Returns 0 or -ENOMEM. */
int images_add(struct images *images, const char *path, int32_t class);
/* All images of one folder. Returns 0 or a negative errno with `why`. */
int images_add_files(struct images *images, const char *path, int32_t class, struct why *why);
/* Those of both parts, in their order, no more than spec wants; and the names of the classes, for data_list_free.
 * Returns 0 or a negative errno with `why`. */
int images_find(struct images *images, const struct data_spec *spec, struct data_list *classes,
                struct why *why);

#endif

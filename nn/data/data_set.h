/* data_set.h - shared by the data_*.c files: the loaded set, and one loader per source.
 *
 * A loader fills info.input, info.classes, info.labels (0 means 1), the scaling and both parts. With spec->like the
 * classes of the labels are that model's (data_like_class), and the scaling is only what the files have: data_like
 * sets the model's. data.c cuts the parts to the wanted number of samples, hashes and serves them. After an error a
 * loader may leave memory in the set; data_close frees it. */
#ifndef NN_DATA_SET_H
#define NN_DATA_SET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/data.h"
#include "nn/data/data_file.h"
#include "nn/data/manifest.h"
#include "proto/why.h"

enum {
    DATA_PARTS = 2,
    DATA_CLASSES_MAX = 1024,
    DATA_ROWS_MAX = INT32_MAX, /* samples of a part */
};

/* One part. Exactly one of pixel and value is set, or none when the samples are not in memory. Exactly one of label
 * and target is set, or none when the next byte is the label or the set is bare. */
struct data_rows {
    size_t count;
    uint8_t *pixel; /* [count, width] */
    float *value;   /* [count, width] */
    int32_t *label; /* [count, info.labels]; NN_LABEL_NONE: a position without a label */
    float *target;  /* [count] */
};

typedef int data_far_fill(void *ctx, enum data_part part, uint32_t sample, float *x,
                          struct why *why);

/* Samples that are not in memory. Calls of fill may run in parallel; what it gives are the values of the files, which
 * are then scaled. The first error is remembered. */
struct data_far {
    data_far_fill *fill;
    void (*close)(void *ctx);
    const char *(*name)(const void *ctx, enum data_part part,
                        uint32_t sample); /* its file; NULL: samples have none */
    void *ctx;
    size_t bytes;      /* of memory */
    float black;       /* what a pixel outside an image is */
    atomic_int broken; /* 0; 1: why is being written; 2: it is there */
    struct why why;
};

struct data_set {
    struct data_info info;
    size_t width; /* elements of a sample */
    enum data_unit unit;
    /* of DATA_UNIT_BYTE: 1..DATA_PLANES_MAX parts of a sample with their own scaling (colours) */
    size_t planes;
    struct data_norm norm[DATA_PLANES_MAX];
    struct data_rows part[DATA_PARTS];  /* values are scaled already, pixels are not */
    struct data_far *far;               /* NULL: all samples are in memory */
    struct data_column *column;         /* [width]; NULL: columns stay */
    char (*class_name)[DATA_NAME_SIZE]; /* [info.classes]; NULL: classes have numbers alone */
    struct data_table table;            /* csv: how it was read; else empty */
    struct manifest manifest;
    struct why remark; /* empty: nothing to remark */
    struct data_augment augment;
    bool reproduce; /* the targets equal x */
    bool next_byte; /* text: the next byte is the label of a byte; pixel has one byte more */
};

/* Makes set->far, with a ctx of `size` zeros, which it returns; bytes become -0.5..0.5. NULL with `why`: no memory. */
void *data_far_new(struct data_set *set, size_t size, data_far_fill *fill, void (*close)(void *ctx),
                   struct why *why);
/* Room for the names of this many classes; -ENOMEM. */
int data_names_new(struct data_set *set, size_t classes);
/* Writes a name as below. */
void data_name_tidy(char out[DATA_NAME_SIZE], const char *name, size_t size);
/* Any bytes: what is not printable becomes '?', what is too long is cut off. */
void data_name_set(struct data_set *set, size_t class, const char *name, size_t size);

/* The model's class of a label, by name; numbers by value. A number that is none of the names is the number of a
 * class where no name is a number. -ENOENT: the model has none of this name. */
int data_like_class(const struct data_scaling *like, const char *name, size_t size);
int data_like_number(const struct data_scaling *like, double value);
/* "one of the model's classes: a, b, c" */
void data_like_expected(const struct data_scaling *like, char *out, size_t size);
/* Scales the samples of a loaded set as spec->like says. Returns 0, or -EINVAL with `why`. */
int data_like(struct data_set *set, const struct data_spec *spec, struct why *why);

/* The scaling that gives mean 0 and variance 1 to pixels of this mean and deviation (of 0..1). */
struct data_norm data_norm_of(double mean, double deviation);
/* Scales the values of one sample. */
void data_scale_sample(const struct data_set *set, float *x);
/* The values of one sample as they are in the files, in memory scaled already. False: it cannot be read, and is
 * zeros. */
bool data_raw(const struct data_set *set, enum data_part part, uint32_t sample, float *x);
/* Of a column with its mean and scale, in place. */
void data_scale_column(struct data_rows *rows, size_t width, size_t index,
                       const struct data_column *column);

int data_glyphs_load(struct data_set *set, const struct data_spec *spec, struct why *why);
int data_idx_load(struct data_set *set, const struct data_spec *spec, struct why *why);
int data_cifar_load(struct data_set *set, const struct data_spec *spec, struct why *why);
int data_csv_load(struct data_set *set, const struct data_spec *spec, struct why *why);
int data_counting_load(struct data_set *set, const struct data_spec *spec, struct why *why);

int data_npy_load(struct data_set *set, const struct data_spec *spec, struct why *why);
int data_images_load(struct data_set *set, const struct data_spec *spec, struct why *why);
/* Does the name end in .png, .jpg or .jpeg? */
bool data_is_image(const char *name);
/* Is it the name of an image that cannot be read here? */
bool data_is_other_image(const char *name);
int data_text_load(struct data_set *set, const struct data_spec *spec, struct why *why);

/* Copies the targets from x, where they are the same. */
void data_reproduce(const struct data_set *set, struct nn_batch *batch);

/* Makes the path of a file below spec->dir. If the file is not there: -ENOENT and a line that names the folder and the
 * option; `also` follows the name, such as " (or .gz)". Does not look for the file of a bare set, which is named on
 * the command line. */
int data_find(const struct data_spec *spec, const char *name, const char *also,
              char path[DATA_PATH_SIZE], struct why *why);
/* Writes that line and returns -ENOENT. */
int data_missing(const struct data_spec *spec, const char *name, const char *also, struct why *why);

/* How many of `rows` >= 2 are the test part: at least one, and at least one is left. Which ones: those that
 * data_shuffle with the seed and an epoch that no training has puts first. */
size_t data_test_rows(const struct data_spec *spec, size_t rows);
#define DATA_SPLIT_EPOCH UINT64_MAX
/* Are test_share and classes of the spec in range? For sources that divide their rows into the two parts. */
int data_check_split(const struct data_spec *spec, struct why *why);

/* One view of an image: out[c][y][x] = in[c][y + down][x + right]; in may be mirrored first. */
struct data_view {
    int down, right;
    bool mirrored;
};
struct data_view data_view_draw(const struct data_augment *augment, uint64_t seed, uint64_t epoch,
                                uint32_t sample);
/* Changes x [C, H, W] in place. Pixels from outside the image are black[c % blacks]. */
void data_view_show(float *x, const struct nn_shape *shape, struct data_view view,
                    const float *black, size_t blacks);
/* Can the set's samples be augmented as it says? Returns 0 or -EINVAL. */
int data_augment_check(const struct data_set *set, struct why *why);

/* Draws sample `i` of a part and returns its label. */
int32_t data_glyphs_draw(uint64_t seed, enum data_part part, uint32_t i, uint8_t pixel[28 * 28]);

/* A tensor of bytes read from an IDX file; the caller frees ->byte. */
struct data_idx {
    size_t dims;
    size_t dim[NN_DIMS_MAX];
    size_t size; /* product of dim */
    uint8_t *byte;
};
int data_idx_read(struct data_file *file, size_t dims_min, size_t dims_max, struct data_idx *out);

/* Appends the records of one file to a part. A record is `labels` bytes (the last one counts, below `classes`) and
 * 3072 pixels. */
int data_cifar_read(struct data_file *file, size_t labels, size_t classes, struct data_rows *rows);

/* Of a sample, of an array of all of them, [N, ...]: an image without channels gets one, and a lone number a
 * dimension. */
struct nn_shape data_shape_of(size_t dims, const size_t *dim);

/* One file of a table; text[size] is a NUL that does not count. */
struct data_csv_file {
    const char *name; /* for messages */
    char *text;
    size_t size;
};
int data_csv_parse(struct data_set *set, const struct data_csv_file *file, size_t files,
                   const struct data_spec *spec, struct why *why);

#endif

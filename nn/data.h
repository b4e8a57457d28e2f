/* data.h - gives samples by number and hides where they come from.
 *
 * A set has a training part and a test part. Sample i is a pure function of the source (files and options).
 *
 *     struct data_set *set;
 *     int rc = data_open(&set, &spec, &why);
 *     data_fill(set, DATA_TRAIN, index, rows, batch);   // rows samples into a pass's batch
 *
 * data_open checks every header and length and reads the files whole. It refuses a wrong file with one line: name,
 * offset, value, and what was expected. Calls of data_fill may run in parallel. The samples of npy stay on disk, and
 * so do images when there are more than memory holds: call data_failed before you use what data_fill gave you. */
#ifndef NN_DATA_H
#define NN_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "nn/nn.h"
#include "proto/why.h"

struct manifest;

enum data_source {
    DATA_GLYPHS,
    DATA_IDX,
    DATA_CIFAR10,
    DATA_CIFAR100,
    DATA_CSV,
    DATA_COUNTING,
    DATA_NPY,
    DATA_TEXT,
    DATA_IMAGES,
    DATA_SOURCES
};
enum data_part { DATA_TRAIN, DATA_TEST };

/* Is the first row of a table one of names? And what to do with cells without a value. */
enum data_header { DATA_HEADER_AUTO, DATA_HEADER_YES, DATA_HEADER_NO };
enum data_missing { DATA_MISSING_REFUSE, DATA_MISSING_MEAN, DATA_MISSING_DROP };

/* How images vary from one epoch to the next. */
struct data_augment {
    unsigned shift; /* pixels, in each direction; smaller than the sides of an image */
    bool flip;      /* mirror half of them, left to right */
};

/* Pixels of glyphs, idx and images become byte / 255 - 0.5. Pixels of CIFAR become (byte / 255 - mean) / deviation with
 * the usual constants for each colour. These constants are fixed, so it does not matter which part of the data a node
 * has. Bytes in npy are pixels, too. All other numbers of npy and csv stay as they are, and so do the bytes of a
 * text, which are tokens. */
struct data_spec {
    enum data_source source;
    uint64_t seed; /* glyphs: what is drawn; csv, npy, images: which rows are test rows */
    size_t train,
        /* samples to use, from the first one; 0 = all (glyphs: 12000 and 2000; counting: 960 in each) */
        test;
    /* idx, csv, npy: labels are 0..classes-1; 0 = take the number from the training labels */
    size_t classes;
    const char *dir; /* folder of the files; NULL or "" = "." */
    const char *train_images, *train_labels, *test_images,
        *test_labels; /* idx, npy; NULL = standard names, for idx plain or .gz; npy without the last two has one
                       * array for both parts */
    /* csv, npy, text: one file, relative to dir; in csv and npy the last column is the label */
    const char *file;
    double test_share; /* csv, npy, images, text: of rows or bytes, for the test part; 0 = 0.2 */
    size_t side;       /* images: width and height of a sample; 0 = 64 */
    size_t channels;   /* images: 1 grey, 3 colours; 0 = 3 */
    /* images: at most so many bytes of pixels stay in memory. If there are more, data_fill decodes the files again.
     * 0 = a quarter of the machine's memory, but at most 4 GiB */
    uint64_t keep;
    unsigned threads;          /* images: threads that decode in data_open; 0 = 1 */
    size_t context;            /* text: bytes of a sample; 0 = 128 */
    bool regression;           /* csv, npy: labels are numbers, not classes */
    enum data_header header;   /* csv */
    enum data_missing missing; /* csv */
    /* csv: names or numbers of columns, `ignored` one a line; NULL: the last one, none */
    const char *label, *ignored;
    bool standardise; /* csv: scale features to mean 0 and variance 1 over the training rows */
    /* Reads tables and scales the samples as a model learned them, and numbers the classes as the model does, instead
     * of the data's own scaling, own classes and standardise. A class that the model does not have is refused.
     * Borrowed; NULL: neither */
    const struct data_scaling *like;
    bool scaled; /* with `like`: the numbers of the files are what the model reads already */
    struct data_augment augment; /* samples must be images [channels, height, width] */
    bool reproduce;              /* the targets of a sample are its own values */
    /* csv, npy: no column is a label, and all rows are test samples, in order; images: `file` is one, or a folder */
    bool bare;
    struct manifest *files;       /* of data_open: where the files that are read are noted */
    const struct manifest *known; /* these files were hashed just now: not again; NULL: none was */
};

struct data_info {
    struct nn_shape input; /* of one sample */
    size_t classes;        /* 0 for regression */
    size_t targets;        /* targets of a squared error, per sample */
    size_t labels;         /* labels per sample: 1, or one per position of a sequence */
    size_t train, test;    /* samples */
    /* data_hash, where the samples are in files; else of all samples. Nodes with other data are refused. */
    uint64_t hash;
};

enum { DATA_PLANES_MAX = 3, DATA_NAME_SIZE = 128 };

/* What a byte becomes: byte * scale + shift. */
struct data_norm {
    float scale, shift;
};

/* What a number becomes: (number - mean) * scale. */
struct data_column {
    double mean, scale;
};

/* A column of a table, and the features that it becomes: a number is one, words are one for each category (1 for that
 * of the row, 0 for the others), and then there may be one that says whether the cell was missing. */
enum data_field_kind { DATA_NUMBERS, DATA_WORDS, DATA_LABEL, DATA_IGNORED };
struct data_field {
    enum data_field_kind kind;
    char *name; /* in the header, less than DATA_NAME_SIZE bytes; NULL: there is none */
    char **
        word; /* [words] of DATA_WORDS: the categories of the training part, in the order of their bytes */
    size_t words;
    size_t gaps;  /* missing cells in the training part */
    bool missing; /* the training part has missing cells here, and they are a feature */
    float fill;   /* of DATA_NUMBERS: stands for a missing cell */
};

/* All columns, in the order of their features. */
struct data_table {
    struct data_field *field;
    size_t count;
    bool fills; /* missing cells become the mean; else they are refused */
    size_t rows,
        dropped; /* of the file, without its header; of these, left out for missing cells */
};

/* Does the column become features? And how many. */
bool data_field_taken(const struct data_field *field);
size_t data_field_features(const struct data_field *field);
void data_table_fini(struct data_table *table);

/* What the values are that a model learns from, before they are scaled. */
enum data_unit {
    DATA_UNIT_NUMBER, /* of a table or an array, whatever its type */
    DATA_UNIT_BYTE, /* 0..255: of pixels or a text. Any file may hold them, in any type of number */
    DATA_UNIT_SCALED, /* of arrays that `convert` wrote: it has scaled them, and nobody knows how */
};

/* What turns the values of a file into a sample, and its labels into the numbers of classes. Whoever keeps this with a
 * trained model can use it without the data that the model has learned from. */
struct data_scaling {
    struct nn_shape input; /* of a sample */
    enum data_unit unit;
    /* equal parts of a sample whose bytes have their own norm (colours); 0: no bytes */
    size_t planes;
    struct data_norm norm[DATA_PLANES_MAX];
    const struct data_column *column; /* [elements of input], of standardise; NULL: numbers stay */
    const char (
        *class_name)[DATA_NAME_SIZE]; /* [class_count], in the order of the model's outputs */
    size_t class_count;               /* 0: the classes have no names */
    const struct data_table *table;   /* of csv; else NULL */
};

struct data_set;

int data_open(struct data_set **out, const struct data_spec *spec, struct why *why);
/* Opens the rows of a file: NumPy's array if its name ends in .npy, an image if it ends in .png, .jpg or .jpeg, else a
 * table, which may have a header. Of a folder, all its images. The set is bare. Its samples have the size of
 * like->input and are scaled as `like` says, or not at all if they are `scaled`. */
int data_open_rows(struct data_set **out, const struct data_scaling *like, const char *path,
                   enum data_header header, bool scaled, struct why *why);
void data_close(struct data_set **set);
const struct data_info *data_info(const struct data_set *set);
/* Borrowed from the set. Classes that have no names in the files have none here. */
void data_scaling(const struct data_set *set, struct data_scaling *out);
/* Are the values of samples other than those in the files? */
bool data_is_scaled(const struct data_set *set);
/* What people should know about a set that was read: one line, or NULL. */
const char *data_remark(const struct data_set *set);
/* Samples of each class 0..classes-1 in both parts. False: samples have several labels, or none. */
bool data_class_counts(const struct data_set *set, size_t *count);
/* Name of a class 0..classes-1 in the files: a label of csv, the folder of an image, a word of CIFAR's list. Printable
 * UTF-8 of less than DATA_NAME_SIZE bytes, borrowed. NULL: the files give none but its number (glyphs, idx, npy,
 * text, and csv with data.classes). */
const char *data_class_name(const struct data_set *set, size_t class);
/* The same, or its number as text. Writes that to number[] in any case. */
const char *data_class_text(const struct data_set *set, size_t class, char number[24]);
/* The file of a sample, borrowed; NULL: it has none of its own. */
const char *data_sample_name(const struct data_set *set, enum data_part part, uint32_t sample);
size_t data_bytes(const struct data_set *set); /* of memory */
/* Of samples that are in files: of what is in these, and of those keys that say how they are read and are not in the
 * hash of the job's keys. */
uint64_t data_hash(const struct data_spec *spec, const struct manifest *manifest);
/* The files of the set and their hashes; no files: the samples are made, or the set is bare. */
const struct manifest *data_manifest(const struct data_set *set);

/* Write samples index[rows] into batch->x, ->label [rows, info->labels] and ->target, where these are not NULL,
 * and set batch->rows. index[i] < number of samples of the part. A target is one-hot over `outputs` >= classes;
 * with one output it is the number itself, or the label. A bare set has zeros for both. Allocates nothing, except to
 * decode images. A sample that cannot be read is zeros. */
void data_fill(const struct data_set *set, enum data_part part, const uint32_t *index, size_t rows,
               struct nn_batch *batch, size_t outputs);

/* What data_fill wrote of training samples index[batch->rows], as this epoch of the run with this seed shows them:
 * a function of these and the number of each sample alone. Nothing without spec.augment. */
void data_augment(const struct data_set *set, uint64_t seed, uint64_t epoch, const uint32_t *index,
                  struct nn_batch *batch);

/* Are all elements of all samples whole numbers 0..tokens-1? 0, -EINVAL naming the first that is not, or the error of
 * reading. Bytes of a text are not looked at when they all fit. */
int data_check_tokens(const struct data_set *set, size_t tokens, struct why *why);

/* NULL, or one line about the first sample that could not be read: nothing filled since then is to be used. */
const char *data_failed(const struct data_set *set);

/* Number of the epoch's i-th sample: a permutation of 0..count-1 without memory (cycle-walking Feistel network: Black
 * and Rogaway, CT-RSA 2002). With key = mix64_pair(seed, epoch) (proto/mix.h), a = max(16, sqrt(count) rounded up) and
 * b = max(16, count / a rounded up), i = left * b + right goes through four times two rounds, r = 0, 2, 4, 6:
 *
 *     left = (left + ((mix64(key ^ (r << 32 | right)) >> 32) * a >> 32)) % a
 *     right = (right + ((mix64(key ^ ((r + 1) << 32 | left)) >> 32) * b >> 32)) % b
 *
 * all in 64 bits, and again until left * b + right < count. node/train/ledger.h says which i a step and a shard
 * have. */
uint32_t data_shuffle(uint64_t seed, uint64_t epoch, uint32_t i, uint32_t count);

#endif

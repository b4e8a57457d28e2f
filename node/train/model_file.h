/* model_file.h - the file model.safetensors: the weights, and in its metadata what one needs to use them elsewhere.
 *
 * All metadata are strings. Numbers and lists are in JSON:
 *
 *     run, step, epoch, train_loss, test_loss, test_accuracy    where the weights come from; losses only if known
 *     weights          whose they are, where nodes have different ones on the way: with servers that do not wait "as
 *                      one node read them from the servers", of gossip "the replica of one node". The losses are the
 *                      mesh's then
 *     params_sha256    of the weights, as in result.json: of all bytes behind the header of this file
 *     job, config      hash of the job, and its text as YAML: every key with its value
 *     input            [1, 28, 28]: shape of a sample
 *     classes          ["cat", "dog"]: the names of classes 0, 1, ..; their numbers, if the data have no names
 *     unit             what the model learned from: "byte": numbers 0..255; "number": any; "scaled": arrays that
 *                      convert had scaled already
 *     norm             [[scale, shift], ..]: what a byte becomes, byte * scale + shift, for each colour; if samples are
 *                      bytes
 *     mean, scale      [..], [..]: what a number becomes, (number - mean) * scale, for each column; with
 *                      data.standardise
 *     columns          what the columns of a table are: table_note.h; with data.source: csv
 *
 * A file without these metadata is read, too; then they are unknown. So is the scaling of a file with `norm` and no
 * `unit` whose job has npy: such files were written for arrays of any type. */
#ifndef NODE_MODEL_FILE_H
#define NODE_MODEL_FILE_H

#include "node/train/job.h"
#include "proto/why.h"

struct model_file {
    char params_sha256[65];
    uint64_t step, epoch;
    double train_loss, test_loss, test_accuracy; /* NaN: unknown */
    const char *whose;                           /* as above; NULL: all nodes have the same */
};

/* As hexadecimal digits: of weights or a state. */
void model_file_sha256(const void *data, size_t size, char out[65]);
/* Of a state: its step and losses, and the hash of `weights`; NULL: no hash. */
struct model_file model_file_of(const struct state_header *header, bool labelled,
                                const float *weights, size_t count);
/* Replaces `path` as disk.h says. Returns 0 or -errno with `why`. */
int model_file_write(const char *path, const struct config *config, const struct job *job,
                     const struct model_file *file, const float *weights, struct why *why);

/* The same file from weights that come piece by piece, in order, so that nobody has all of them in memory: begin, add,
 * end. The hash in `file` is not used: the weights tell it. After an error of model_stream_add, model_stream_drop. Each
 * returns 0 or -errno with `why`. */
struct model_stream;
int model_stream_begin(struct model_stream **out, const char *path, const struct config *config,
                       const struct job *job, const struct model_file *file, struct why *why);
int model_stream_add(struct model_stream *stream, const float *weights, size_t count,
                     struct why *why);
/* When there are all weights: gives the file its name, and the hash of the weights. */
int model_stream_end(struct model_stream **stream, char sha256[65], struct why *why);
/* Leaves nothing behind. May be called with NULL inside. */
void model_stream_drop(struct model_stream **stream);

/* What the metadata of a file say. */
struct model_note {
    /* scaling.input.dims 0: unknown; classes may be known without it. It borrows the next three */
    struct data_scaling scaling;
    bool told; /* scaling is all that there is to know */
    struct data_column *column;
    struct data_table *table; /* owned; NULL: the data are no table */
    char (*class_name)[DATA_NAME_SIZE];
    char *config; /* text of the job; NULL: unknown; owned */
};

struct json_t;
/* Refuses lists that are not what is said above. Returns 0, or a negative errno with `why`. model_note_fini may follow
 * either way. */
int model_note_read(struct model_note *out, const char *path, struct why *why);
/* The same of metadata that were read already; `name` stands for the file in `why`. */
int model_note_take(struct model_note *out, const char *name, const struct json_t *metadata,
                    struct why *why);
void model_note_fini(struct model_note *note);
/* Is the model of the job another one than the file's, so that the same weights give other outputs? Sets the first
 * difference: left the file's. False where the note does not have a job that can be read. */
bool model_note_differ(const struct model_note *note, const struct config *config,
                       struct config_difference *out);
/* model_note_read, which also refuses a model of other layers than the job's. */
int model_note_of(struct model_note *out, const struct config *config, const char *path,
                  struct why *why);
/* Opens the job for the model in `path`, whose note it reads: its data are scaled, and their classes numbered, as
 * that model learned them, or as the job says where the note does not tell; then `own` is true. job_close and
 * model_note_fini may follow either way. */
int model_note_open(struct model_note *out, struct job *job, const struct config *config,
                    const char *path, bool scaled, bool *own, struct why *why);

#endif

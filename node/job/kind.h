/* kind.h - what a file is, for the line that says that another one was expected.
 *
 *     model.safetensors: is a model, expected a job: meshnode eval JOB.yaml MODEL */
#ifndef NODE_KIND_H
#define NODE_KIND_H

enum kind { KIND_UNKNOWN, KIND_FOLDER, KIND_MODEL, KIND_CHECKPOINT, KIND_RESULT };

/* By its first bytes. KIND_UNKNOWN also if it cannot be read. */
enum kind kind_of(const char *path);
/* "is a model"; NULL for KIND_UNKNOWN */
const char *kind_is(enum kind kind);

#endif

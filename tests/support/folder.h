/* folder.h - a scratch folder of a test, and bytes to put into it.
 *
 *     struct folder folder;
 *     folder_init(&folder);
 *     folder_write(&folder, "train.csv", text, strlen(text));
 *     ...spec.dir = folder.path...
 *     folder_fini(&folder);                    // with all that was written
 *
 * Trouble of its own ends the test program by assert. */
#ifndef SUPPORT_FOLDER_H
#define SUPPORT_FOLDER_H

#include <stddef.h>
#include <stdint.h>

enum { FOLDER_PATH_MAX = 256 };

struct folder {
    char path[FOLDER_PATH_MAX];
};

void folder_init(struct folder *folder);
void folder_fini(struct folder *folder);
/* folder/name, in a buffer that the next call overwrites. */
const char *folder_path(const struct folder *folder, const char *name);
void folder_write(const struct folder *folder, const char *name, const void *bytes, size_t size);

/* bytes[size] as one gzip member; the caller frees it. */
uint8_t *folder_gzip(const void *bytes, size_t size, size_t *out_size);

#endif

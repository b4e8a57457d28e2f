/* folder.h - a scratch folder of a test, and bytes to put into it.
 *
 *     OWNED(folder_fini) struct folder folder = folder_new();
 *     folder_write(&folder, "train.csv", text, strlen(text));
 *     ...spec.dir = folder.path...
 *
 *     FOLDER_EACH      // `folder` is a new one in each case;
 *     FOLDER_ALL       // it is the same one in all of them
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

struct folder folder_new(void);
/* With all that was written. */
void folder_fini(struct folder *folder);
/* folder/name, in a buffer that the next call overwrites. */
const char *folder_path(const struct folder *folder, const char *name);
void folder_write(const struct folder *folder, const char *name, const void *bytes, size_t size);
/* The folders that `name` is in are made. */
void folder_text(const struct folder *folder, const char *name, const char *text);

/* bytes[size] as one gzip member; the caller frees it. */
uint8_t *folder_gzip(const void *bytes, size_t size, size_t *out_size);

/* With tests/support/test.h. */
#define FOLDER_EACH FOLDER_OF(TEST_EACH)
#define FOLDER_ALL  FOLDER_OF(TEST_ALL)
#define FOLDER_OF(when)                                                                            \
    static struct folder folder;                                                                   \
    FIXTURE(folder_make)                                                                           \
    {                                                                                              \
        folder = folder_new();                                                                     \
        return 0;                                                                                  \
    }                                                                                              \
    FIXTURE(folder_drop)                                                                           \
    {                                                                                              \
        folder_fini(&folder);                                                                      \
        return 0;                                                                                  \
    }                                                                                              \
    when(folder_make, folder_drop)

#endif

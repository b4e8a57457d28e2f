/* replay.c - the corpus of a fuzz target as a regression test.
 *
 * Feeds every file named on the command line, and every file of every folder named there, to the
 * LLVMFuzzerTestOneInput it is linked with: `replay_msg tests/fuzz/corpus/msg`. Each input is copied to
 * a block of exactly its size, so that a sanitizer sees a read behind its end. Prints one line; fails
 * when there was nothing to feed, since a test that ran nothing has shown nothing. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_SIZE_MAX = 64 << 20 };

static int
complain(const char *path, const char *what)
{
    fprintf(stderr, "%s: %s\n", path, what);
    return -1;
}

/* Returns 1 when fed, -1 on an error. */
static int
replay_file(const char *path, size_t size)
{
    if (size > INPUT_SIZE_MAX)
        return complain(path, "over 64 MiB, not a corpus file");
    FILE *file = fopen(path, "rb");
    if (!file)
        return complain(path, strerror(errno));
    uint8_t *data = malloc(size ? size : 1);
    size_t got = data ? fread(data, 1, size, file) : 0;
    fclose(file);
    if (data && got == size)
        LLVMFuzzerTestOneInput(data, size);
    free(data);
    return got == size && data ? 1 : complain(path, "could not be read whole");
}

static int replay(const char *path);

/* Returns the number fed, -1 on an error or when the folder holds no file. */
static int
replay_folder(const char *path)
{
    struct dirent **entry;
    int entries = scandir(path, &entry, NULL, alphasort);
    if (entries < 0)
        return complain(path, strerror(errno));
    int fed = 0;
    for (int i = 0; i < entries; i++) {
        char name[4096];
        int n = snprintf(name, sizeof name, "%s/%s", path, entry[i]->d_name);
        if (entry[i]->d_name[0] != '.' && fed >= 0) {
            int rc = n < (int)sizeof name ? replay(name) : complain(path, "name too long");
            fed = rc < 0 ? -1 : fed + rc;
        }
        free(entry[i]);
    }
    free(entry);
    return fed ? fed : complain(path, "no inputs in this folder");
}

static int
replay(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return complain(path, strerror(errno));
    return S_ISDIR(st.st_mode) ? replay_folder(path) : replay_file(path, (size_t)st.st_size);
}

int
main(int argc, char **argv)
{
    int fed = 0;
    for (int i = 1; i < argc; i++) {
        int rc = replay(argv[i]);
        if (rc < 0)
            return 1;
        fed += rc;
    }
    if (!fed) {
        fprintf(stderr, "usage: %s FILE|FOLDER...\n", argv[0]);
        return 1;
    }
    printf("%s: %d inputs\n", argv[0], fed);
    return 0;
}

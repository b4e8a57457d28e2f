/* folder.c - a scratch folder of a test. */
#include "tests/support/folder.h"

#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

struct folder
folder_new(void)
{
    struct folder folder;
    const char *base = getenv("TMPDIR");
    snprintf(folder.path, sizeof folder.path, "%s/meshnode-test-XXXXXX", base ? base : "/tmp");
    char *made = mkdtemp(folder.path);
    assert(made);
    return folder;
}

const char *
folder_path(const struct folder *folder, const char *name)
{
    static char path[2 * FOLDER_PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", folder->path, name);
    assert(n > 0 && n < (int)sizeof path);
    return path;
}

/* With all that is in it. */
static void
remove_folder(const char *path)
{
    DIR *dir = opendir(path);
    assert(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char below[2 * FOLDER_PATH_MAX];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        int n = snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
        assert(n > 0 && n < (int)sizeof below);
        if (remove(below) != 0)
            remove_folder(below);
    }
    closedir(dir);
    int rc = rmdir(path);
    assert(rc == 0);
}

void
folder_fini(struct folder *folder)
{
    remove_folder(folder->path);
}

void
folder_write(const struct folder *folder, const char *name, const void *bytes, size_t size)
{
    FILE *file = fopen(folder_path(folder, name), "wb");
    assert(file);
    size_t wrote = fwrite(bytes, 1, size, file);
    assert(wrote == size);
    int rc = fclose(file);
    assert(rc == 0);
}

void
folder_text(const struct folder *folder, const char *name, const char *text)
{
    char path[2 * FOLDER_PATH_MAX];
    snprintf(path, sizeof path, "%s", folder_path(folder, name));
    for (char *slash = path + strlen(folder->path) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0777);
        *slash = '/';
    }
    folder_write(folder, name, text, strlen(text));
}

uint8_t *
folder_gzip(const void *bytes, size_t size, size_t *out_size)
{
    z_stream z = {0};
    int rc = deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY);
    assert(rc == Z_OK);
    size_t room = deflateBound(&z, (uLong)size);
    uint8_t *out = malloc(room), *in = malloc(size ? size : 1);
    assert(out && in);
    memcpy(in, bytes, size);
    z.next_in = in;
    z.avail_in = (uInt)size;
    z.next_out = out;
    z.avail_out = (uInt)room;
    rc = deflate(&z, Z_FINISH);
    assert(rc == Z_STREAM_END);
    *out_size = room - z.avail_out;
    deflateEnd(&z);
    free(in);
    return out;
}

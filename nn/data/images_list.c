/* images_list.c - which images there are: the folders of the classes, their files, the order and the parts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nn/data/images.h"

/* What a file is, by the end of its name. */
static bool
ends_with(const char *name, const char *const *endings)
{
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && endings[i]; i++)
        if (strcasecmp(dot, endings[i]) == 0)
            return true;
    return false;
}

bool
data_is_image(const char *name)
{
    static const char *const endings[] = {".png", ".jpg", ".jpeg", NULL};
    return ends_with(name, endings);
}

bool
data_is_other_image(const char *name)
{
    static const char *const endings[] = {".bmp", ".gif", ".webp", ".tif",  ".tiff",
                                          ".ppm", ".pgm", ".pnm",  ".heic", ".avif",
                                          ".jp2", ".jxl", ".jfif", NULL};
    return ends_with(name, endings);
}

int
images_add(struct images *s, const char *path, int32_t class)
{
    if (s->count == s->room) {
        size_t room = s->room ? 2 * s->room : 256;
        struct images_entry *grown = realloc(s->entry, room * sizeof *grown);
        if (!grown)
            return -ENOMEM;
        s->entry = grown;
        s->room = room;
    }
    s->entry[s->count] = (struct images_entry){strdup(path), class, 0};
    return s->entry[s->count++].path ? 0 : -ENOMEM;
}

/* A folder while its names are looked at. */
struct folder {
    const char *path;
    struct why *why;
};

static int
refuse_name(const struct folder *folder, const char *name, const char *what)
{
    return why_error(folder->why, -EBADMSG, "%s/%s: %s", folder->path, name, what);
}

/* Whether a name in the folder is a folder; false when it cannot be looked at. */
static bool
is_folder(const struct folder *folder, const char *name)
{
    char path[DATA_PATH_SIZE];
    struct stat st;
    int n = snprintf(path, sizeof path, "%s/%s", folder->path, name);
    return n > 0 && (size_t)n < sizeof path && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int
wants_class(void *ctx, const char *name)
{
    const struct folder *folder = ctx;
    if (strcmp(name, "__MACOSX") == 0) /* what a Mac adds to a zip */
        return 0;
    if (is_folder(folder, name))
        return 1;
    if (data_is_image(name))
        return refuse_name(folder, name,
                           "an image beside the folders of the classes, expected in one");
    return 0;
}

static int
wants_file(void *ctx, const char *name)
{
    const struct folder *folder = ctx;
    if (data_is_image(name))
        return 1;
    if (data_is_other_image(name))
        return refuse_name(folder, name, "is neither .png nor .jpg or .jpeg: convert it");
    if (!is_folder(folder, name) || strcmp(name, "__MACOSX") == 0)
        return 0;
    const char *last = strrchr(folder->path, '/');
    return refuse_name(folder, name,
                       strcmp(last ? last + 1 : folder->path, "train") == 0
                           ? "a folder among images, expected images alone; or beside train a "
                             "folder test, val, valid or validation"
                           : "a folder among images, expected images alone");
}

/* The images of one folder. */
int
images_add_files(struct images *s, const char *path, int32_t class, struct why *why)
{
    struct folder folder = {path, why};
    struct data_list list = {0};
    int rc = data_list_read(&list, path, wants_file, &folder, why);
    for (size_t i = 0; i < list.count && !rc; i++) {
        char file[DATA_PATH_SIZE];
        rc = data_file_path(file, path, "", list.name[i], why);
        if (!rc && (rc = images_add(s, file, class)) != 0)
            why_set(why, "no memory for the list of images");
    }
    if (!rc && list.count == 0)
        rc = why_error(why, -EBADMSG, "%s: no images in it, expected .png, .jpg or .jpeg", path);
    data_list_free(&list);
    return rc;
}

/* Position of a class of the test part among those of the training part. */
static int
find_class(const struct data_list *classes, const char *name)
{
    for (size_t i = 0; i < classes->count; i++)
        if (strcmp(classes->name[i], name) == 0)
            return (int)i;
    return -ENOENT;
}

/* The images below root: those of each folder. `classes` are found here, or when `known`, must be among those. */
static int
add_classes(struct images *s, const char *root, struct data_list *classes, bool known,
            struct why *why)
{
    struct folder folder = {root, why};
    struct data_list found = {0};
    int rc = data_list_read(&found, root, wants_class, &folder, why);
    for (size_t i = 0; i < found.count && !rc; i++) {
        char path[DATA_PATH_SIZE];
        int class = known ? find_class(classes, found.name[i]) : (int)i;
        rc = class < 0 ? refuse_name(&folder, found.name[i],
                                     "a class that the training part does not have")
                       : data_file_path(path, root, "", found.name[i], why);
        rc = rc ? rc : images_add_files(s, path, class, why);
    }
    if (!rc && found.count == 0)
        rc =
            why_error(why, -ENOENT,
                      "no folders of images in %s, one per class: name the folder of the data with "
                      "--data FOLDER",
                      strcmp(root, ".") == 0 ? "the current folder" : root);
    if (!rc && found.count > DATA_CLASSES_MAX)
        rc = why_error(why, -EBADMSG, "%s: %zu folders, expected at most %d classes", root,
                       found.count, DATA_CLASSES_MAX);
    if (known)
        data_list_free(&found);
    else
        *classes = found;
    return rc;
}

/* Entries [first, count) in the order of the seed, but the first `test` of them at the end. */
static int
shuffle(struct images *s, size_t first, size_t test, uint64_t seed)
{
    size_t n = s->count - first;
    struct images_entry *from = malloc(n * sizeof *from);
    if (!from)
        return -ENOMEM;
    memcpy(from, s->entry + first, n * sizeof *from);
    for (uint32_t i = 0; i < n; i++)
        s->entry[first + i] =
            from[data_shuffle(seed, DATA_SPLIT_EPOCH, (uint32_t)((i + test) % n), (uint32_t)n)];
    free(from);
    return 0;
}

/* Keep `count` entries from `first` on, no more than are wanted; the rest of that part goes. */
static void
limit(struct images *s, size_t first, size_t count, size_t wanted)
{
    if (wanted == 0 || wanted >= count)
        return;
    for (size_t i = first + wanted; i < first + count; i++)
        free(s->entry[i].path);
    memmove(s->entry + first + wanted, s->entry + first + count,
            (s->count - first - count) * sizeof *s->entry);
    s->count -= count - wanted;
}

static bool
below(char path[DATA_PATH_SIZE], const char *dir, const char *name)
{
    struct folder folder = {dir, NULL};
    snprintf(path, DATA_PATH_SIZE, "%s/%s", dir, name);
    return is_folder(&folder, name);
}

/* The folder of the test part. */
static bool
find_test(char path[DATA_PATH_SIZE], const char *dir)
{
    static const char *const names[] = {"test", "val", "valid", "validation"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (below(path, dir, names[i]))
            return true;
    return false;
}

static int
find_files(struct images *s, const struct data_spec *spec, struct data_list *classes,
           struct why *why)
{
    const char *dir = spec->dir && *spec->dir ? spec->dir : ".";
    char train[DATA_PATH_SIZE], test[DATA_PATH_SIZE];
    if (access(dir, F_OK) != 0)
        return data_missing(spec, "images", "", why);
    bool apart = below(train, dir, "train") && find_test(test, dir);
    int rc = add_classes(s, apart ? train : dir, classes, false, why);
    if (rc)
        return rc;
    if (!apart && s->count < 2)
        return why_error(why, -EBADMSG, "%s: 1 image, expected one to train on and one to test on",
                         dir);
    size_t shared = apart ? 0 : data_test_rows(spec, s->count);
    rc = shuffle(s, 0, shared, spec->seed);
    s->train = s->count - shared;
    if (apart)
        rc = rc ? rc : add_classes(s, test, classes, true, why);
    if (apart)
        rc = rc ? rc : shuffle(s, s->train, 0, spec->seed);
    if (rc == -ENOMEM)
        why_set(why, "no memory for the list of images");
    for (size_t i = 0; i < s->count && !rc; i++)
        manifest_note(spec->files, spec->dir, s->entry[i].path);
    return rc;
}

int
images_find(struct images *s, const struct data_spec *spec, struct data_list *classes,
            struct why *why)
{
    int rc = find_files(s, spec, classes, why);
    if (rc)
        return rc;
    limit(s, s->train, s->count - s->train, spec->test);
    limit(s, 0, s->train, spec->train);
    s->train = spec->train && spec->train < s->train ? spec->train : s->train;
    return 0;
}

/* cache.c - see cache.h. */
#define _XOPEN_SOURCE 700 /* NOLINT(bugprone-reserved-identifier): nftw */
#include "node/train/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { NAME_DIGITS = 16, WALK_FDS = 16, PAGE = 4096 };

static int
cache_refuse(const char *path, const char *what, struct why *why)
{
    int rc = errno ? -errno : -EIO;
    return why_error(why, rc,
                     "%s: %s: %s; --cache names another folder for data that come from the mesh",
                     path, what, strerror(-rc));
}

int
cache_root(const struct config *config, char out[CONFIG_PATH_MAX], struct why *why)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = config->cache[0]  ? snprintf(out, CONFIG_PATH_MAX, "%s", config->cache)
            : xdg && xdg[0]   ? snprintf(out, CONFIG_PATH_MAX, "%s/meshnode", xdg)
            : home && home[0] ? snprintf(out, CONFIG_PATH_MAX, "%s/.cache/meshnode", home)
                              : snprintf(out, CONFIG_PATH_MAX, ".cache/meshnode");
    if (n >= 0 && n < CONFIG_PATH_MAX - NAME_DIGITS - 1)
        return 0;
    return why_error(why, -ENAMETOOLONG, "the folder of the cache has a name of %d characters", n);
}

/* With all folders that it is in. */
static int
make_folders(const char *path, struct why *why)
{
    char part[CONFIG_PATH_MAX + MANIFEST_NAME_MAX + 2];
    size_t length = strlen(path);
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        snprintf(part, sizeof part, "%.*s", (int)i, path);
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return cache_refuse(part, "cannot be made", why);
    }
    return 0;
}

/* --- Room --------------------------------------------------------------------------------------- */

struct amount {
    uint64_t bytes, files;
};

/* nftw has no ctx, and only the thread that opens the job comes here. */
static struct amount walked;

static int
add_size(const char *path, const struct stat *status, int kind, struct FTW *at)
{
    (void)path;
    (void)at;
    walked.bytes += kind == FTW_F ? (uint64_t)status->st_blocks * 512 : 0;
    walked.files += kind == FTW_F;
    return 0;
}

static int
remove_one(const char *path, const struct stat *status, int kind, struct FTW *at)
{
    (void)status;
    (void)kind;
    (void)at;
    remove(path);
    return 0;
}

/* Of all files below this folder, on the disk. */
static struct amount
amount_there(const char *path)
{
    walked = (struct amount){0};
    nftw(path, add_size, WALK_FDS, FTW_PHYS);
    return walked;
}

/* Is it the name of a folder of a manifest? */
static bool
is_set(const char *name)
{
    return strlen(name) == NAME_DIGITS && strspn(name, "0123456789abcdef") == NAME_DIGITS;
}

static bool
cache_used(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool used = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0;
    if (fd >= 0)
        close(fd);
    return used;
}

struct folder {
    char path[CONFIG_PATH_MAX];
    time_t used; /* for the last time */
    uint64_t bytes;
};

static int
by_time(const void *a, const void *b)
{
    const struct folder *one = a, *two = b;
    return (one->used > two->used) - (one->used < two->used);
}

/* All folders of manifests, the longest unused one first. Returns how many; the caller frees *out. */
static size_t
cache_look(const char *root, struct folder **out)
{
    size_t count = 0;
    struct dirent **entry;
    int entries = scandir(root, &entry, NULL, NULL);
    *out = calloc(entries > 0 ? (size_t)entries : 1, sizeof **out);
    for (int i = 0; i < entries; free(entry[i++])) {
        struct folder *f = *out ? &(*out)[count] : NULL;
        struct stat status;
        if (!f || !is_set(entry[i]->d_name) ||
            snprintf(f->path, sizeof f->path, "%s/%s", root, entry[i]->d_name) >=
                (int)sizeof f->path ||
            stat(f->path, &status) != 0)
            continue;
        f->used = status.st_mtime;
        f->bytes = amount_there(f->path).bytes;
        count++;
    }
    if (entries >= 0)
        free(entry);
    if (*out)
        qsort(*out, count, sizeof **out, by_time);
    return count;
}

/* Some disks have no limit of files. */
static struct amount
disk_free(const char *path)
{
    struct statvfs fs;
    if (statvfs(path, &fs) != 0)
        return (struct amount){UINT64_MAX, UINT64_MAX};
    return (struct amount){(uint64_t)fs.f_bavail * fs.f_frsize,
                           fs.f_files > 0 ? fs.f_favail : UINT64_MAX};
}

static int
cache_full(const char *path, uint64_t size, struct why *why)
{
    return why_error(why, -ENOSPC,
                     "%s: the data need %llu bytes, the disk has %llu free ones, the cache at most "
                     "%llu; --cache names another folder",
                     path, (unsigned long long)size, (unsigned long long)disk_free(path).bytes,
                     (unsigned long long)CACHE_BYTES_MAX);
}

static int
cache_crowded(const char *path, uint64_t files, struct why *why)
{
    return why_error(why, -ENOSPC,
                     "%s: the data are %llu more files, the disk has room for %llu; --cache names "
                     "another folder",
                     path, (unsigned long long)files, (unsigned long long)disk_free(path).files);
}

/* Whole pages of files. */
static uint64_t
cache_need(const struct manifest *manifest)
{
    uint64_t need = 0;
    for (size_t i = 0; i < manifest->count; i++)
        need += (manifest->file[i].size + PAGE - 1) / PAGE * PAGE;
    return need;
}

static bool
cache_fits(uint64_t all, struct amount more, const char *root)
{
    struct amount room = disk_free(root);
    return all + more.bytes <= CACHE_BYTES_MAX && more.bytes <= room.bytes &&
           more.files <= room.files;
}

/* Deletes folders that nobody uses until there is room for `more`. Returns 0 or a negative errno with `why`. */
static int
cache_shrink(const char *root, struct amount more, struct why *why)
{
    struct folder *list;
    size_t count = cache_look(root, &list);
    uint64_t all = 0;
    int rc = 0;
    for (size_t i = 0; i < count; i++)
        all += list[i].bytes;
    for (size_t i = 0; i < count && !rc && !cache_fits(all, more, root); i++) {
        if (cache_used(list[i].path))
            continue;
        nftw(list[i].path, remove_one, WALK_FDS, FTW_PHYS | FTW_DEPTH);
        all -= list[i].bytes;
        if (access(list[i].path, F_OK) ==
            0) /* of another user, or on a disk that cannot be written */
            rc = cache_refuse(list[i].path, "cannot be deleted to make room", why);
    }
    free(list);
    return rc;
}

static int
cache_room(const char *root, const char *path, const struct manifest *manifest, struct why *why)
{
    struct amount need = {cache_need(manifest), manifest->count}, there = amount_there(path);
    struct amount more = {need.bytes > there.bytes ? need.bytes - there.bytes : 0,
                          need.files > there.files ? need.files - there.files : 0};
    int rc = cache_shrink(root, more, why);
    if (rc || cache_fits(need.bytes - more.bytes, more, root)) /* all others may be in use */
        return rc;
    return more.files > disk_free(root).files ? cache_crowded(root, more.files, why)
                                              : cache_full(root, need.bytes, why);
}

/* --- One folder --------------------------------------------------------------------------------- */

int
cache_open(struct cache *cache, const struct config *config, const struct manifest *manifest,
           struct why *why)
{
    char root[CONFIG_PATH_MAX];
    struct stat status;
    *cache = (struct cache){.lock = -1};
    int rc = cache_root(config, root, why);
    if (rc)
        return rc;
    if (snprintf(cache->path, sizeof cache->path, "%s/%016llx", root,
                 (unsigned long long)manifest_hash(manifest)) >= (int)sizeof cache->path)
        return why_error(why, -ENAMETOOLONG, "%s: the name is too long", root);
    cache->fresh = stat(cache->path, &status) != 0;
    rc = make_folders(cache->path, why);
    if (rc)
        return rc;
    cache->lock = open(cache->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (cache->lock < 0 || flock(cache->lock, LOCK_SH | LOCK_NB) != 0)
        return cache_refuse(cache->path, "cannot be used", why);
    futimens(cache->lock, NULL); /* used now */
    return cache_room(root, cache->path, manifest, why);
}

void
cache_close(struct cache *cache)
{
    if (cache->lock >= 0)
        close(cache->lock);
    cache->lock = -1;
}

static int
create_file(const char *path)
{
    return open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
}

/* There may be a million: folders are made when they are missing. */
static int
prepare_file(const struct cache *cache, struct manifest_file *file, struct why *why)
{
    char path[CONFIG_PATH_MAX + MANIFEST_NAME_MAX + 2];
    snprintf(path, sizeof path, "%s/%s", cache->path, file->name);
    int rc = 0, fd = create_file(path);
    if (fd < 0 && errno == ENOENT) {
        char *slash = strrchr(path, '/');
        *slash = '\0';
        rc = make_folders(path, why);
        *slash = '/';
        fd = rc ? fd : create_file(path);
    }
    if (rc)
        return rc;
    if (fd < 0)
        return cache_refuse(path, "cannot be written", why);
    rc = ftruncate(fd, (off_t)file->size) == 0 ? 0 : cache_refuse(path, "cannot be written", why);
    close(fd);
    free(file->path);
    file->path = strdup(path);
    return rc || file->path ? rc : why_error(why, -ENOMEM, "no memory for the list of files");
}

int
cache_prepare(struct cache *cache, struct manifest *manifest, struct why *why)
{
    int rc = 0;
    for (size_t i = 0; i < manifest->count && !rc; i++)
        rc = prepare_file(cache, &manifest->file[i], why);
    return rc;
}

struct writing {
    const struct manifest *manifest;
    const uint8_t *data;
    struct why *why;
};

static int
cache_write_part(void *ctx, size_t file, uint64_t offset, size_t at, size_t size)
{
    const struct writing *w = ctx;
    const char *path = w->manifest->file[file].path;
    int fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC), rc = 0;
    if (fd < 0)
        return cache_refuse(path, "cannot be written", w->why);
    for (ssize_t n = 1; size > 0 && !rc; size -= (size_t)n, at += (size_t)n, offset += (size_t)n) {
        n = pwrite(fd, w->data + at, size, (off_t)offset);
        if (n < 0 && errno == ENOSPC)
            rc = cache_full(path, cache_need(w->manifest), w->why);
        else if (n <= 0 && (n == 0 || errno != EINTR))
            rc = cache_refuse(path, "cannot be written", w->why);
        n = n < 0 ? 0 : n;
    }
    close(fd);
    return rc;
}

int
cache_write(const struct manifest *manifest, uint64_t block, const void *data, struct why *why)
{
    struct writing w = {manifest, data, why};
    return manifest_each(manifest, block, cache_write_part, &w);
}

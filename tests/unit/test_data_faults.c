/* test_data_faults.c - disks that fail in the middle, reads that come in crumbs or are interrupted, samples that are
 * there twice: every source that reads files.
 * LDFLAGS: -Wl,--wrap=pread */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nn/data/data_set.h"
#include "tests/support/folder.h"
#include "tests/support/npy_make.h"
#include "tests/support/test.h"
#include "tests/support/wrapped.h"

static struct why why;
static struct {
    size_t calls, fail_at; /* 0: never */
    int error;
    size_t crumb;   /* bytes at most; 0: all */
    bool interrupt; /* every other call */
} disk;

/* Whether this call fails, with errno set; shortens it. */
static bool
disk_fails(size_t *n)
{
    disk.calls++;
    if (disk.interrupt && disk.calls % 2) {
        errno = EINTR;
        return true;
    }
    if (disk.fail_at && disk.calls >= disk.fail_at) {
        errno = disk.error;
        return true;
    }
    if (disk.crumb && *n > disk.crumb)
        *n = disk.crumb;
    return false;
}

ssize_t
__wrap_pread(int fd, void *to, size_t n, off_t at)
{
    return disk_fails(&n) ? -1 : __real_pread(fd, to, n, at);
}

enum { SOURCES = 7 };

/* A folder in which each source finds its files; the samples of csv and idx are all the same one. */
struct fixture {
    struct folder folder;
    struct data_spec spec[SOURCES];
};

/* A file of the golden images, under another name. */
static void
copy_image(const struct folder *folder, const char *name, const char *to)
{
    uint8_t bytes[4096];
    char path[256];
    snprintf(path, sizeof path, "tests/golden/images/%s", name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    folder_write(folder, to, bytes, size);
}

static void
make_images(const struct folder *folder, struct data_spec *spec)
{
    static char dir[FOLDER_PATH_MAX + 8];
    snprintf(dir, sizeof dir, "%s/photos", folder->path);
    assert_int_equal(mkdir(dir, 0777), 0);
    assert_int_equal(mkdir(folder_path(folder, "photos/cat"), 0777), 0);
    copy_image(folder, "dot.png", "photos/cat/1.png");
    copy_image(folder, "grey.jpg", "photos/cat/2.jpg");
    spec->source = DATA_IMAGES;
    spec->dir = dir;
    spec->side = 3;
    spec->channels = 1;
    spec->keep = 1;
}

static int
setup(void **state)
{
    static struct fixture f;
    static const uint8_t images[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 1, 7, 7};
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 1};
    static const double value[100] = {0};
    static uint8_t cifar[2 * 3074];
    size_t packed;
    f.folder = folder_new();
    folder_write(&f.folder, "i", images, sizeof images);
    folder_write(&f.folder, "l", labels, sizeof labels);
    uint8_t *gzip = folder_gzip(images, sizeof images, &packed);
    folder_write(&f.folder, "i.gz", gzip, packed);
    free(gzip);
    folder_write(&f.folder, "t", "1,2,3\n1,2,3\n1,2,3\n", 18);
    folder_write(&f.folder, "train.bin", cifar, sizeof cifar);
    folder_write(&f.folder, "test.bin", cifar, sizeof cifar);
    npy_make_file(&f.folder, "features.npy", &(struct npy_make){"<f4", 2, {10, 10}}, value);
    npy_make_file(&f.folder, "labels.npy", &(struct npy_make){"<i4", 1, {10}}, value);
    const struct data_spec any = {.dir = f.folder.path, .test_share = 0.4, .context = 2};
    for (int i = 0; i < SOURCES; i++)
        f.spec[i] = any;
    for (int i = 0; i < 2; i++) {
        f.spec[i].source = DATA_IDX;
        f.spec[i].train_images = f.spec[i].test_images = i ? "i.gz" : "i";
        f.spec[i].train_labels = f.spec[i].test_labels = "l";
    }
    f.spec[2].source = DATA_CSV, f.spec[2].file = "t";
    f.spec[3].source = DATA_CIFAR100;
    f.spec[4].source = DATA_NPY;
    f.spec[5].source = DATA_TEXT, f.spec[5].file = "t";
    make_images(&f.folder, &f.spec[6]);
    memset(&disk, 0, sizeof disk);
    *state = &f;
    return 0;
}

static int
teardown(void **state)
{
    memset(&disk, 0, sizeof disk);
    folder_fini(&((struct fixture *)*state)->folder);
    return 0;
}

TEST_EACH(setup, teardown)

/* The hash of a set, or 0 and `rc`. */
static uint64_t
open_set(const struct data_spec *spec, int *rc)
{
    OWNED(data_close) struct data_set *set;
    disk.calls = 0;
    *rc = data_open(&set, spec, &why);
    assert_true((set != NULL) == (*rc == 0));
    return set ? data_info(set)->hash : 0;
}

TEST(a_disk_that_fails_at_any_read_is_named)
{
    struct fixture *f = *test_state;
    static const int errors[] = {EIO, ESTALE};
    for (int i = 0; i < SOURCES; i++)
        for (size_t e = 0; e < 2; e++) {
            int rc;
            disk.fail_at = 0;
            open_set(&f->spec[i], &rc);
            assert_int_equal(rc, 0);
            size_t calls = disk.calls;
            assert_true(calls > 0);
            disk.error = errors[e];
            for (disk.fail_at = 1; disk.fail_at <= calls; disk.fail_at++) {
                why.line[0] = 0;
                open_set(&f->spec[i], &rc);
                assert_true(rc < 0);
                if (!strstr(why.line, strerror(errors[e])) || !strstr(why.line, f->folder.path))
                    fail_msg("source %d, read %zu: %s", i, disk.fail_at, why.line);
            }
        }
}

TEST(crumbs_and_interruptions_change_nothing)
{
    struct fixture *f = *test_state;
    for (int i = 0; i < SOURCES; i++) {
        int rc;
        uint64_t hash = open_set(&f->spec[i], &rc);
        assert_int_equal(rc, 0);
        disk.crumb = 1, disk.interrupt = true;
        assert_true(open_set(&f->spec[i], &rc) == hash);
        assert_int_equal(rc, 0);
        disk.crumb = 0, disk.interrupt = false;
    }
}

/* Far samples: the error comes when one is used, and stays. */
static void
check_training(const struct data_spec *spec, const char *text)
{
    OWNED(data_close) struct data_set *set;
    float x[10];
    const uint32_t index = 0;
    struct nn_batch batch = {.x = x};
    assert_int_equal(data_open(&set, spec, &why), 0);
    data_fill(set, DATA_TRAIN, &index, 1, &batch, 1);
    assert_null(data_failed(set));
    disk.calls = 0, disk.fail_at = 1, disk.error = EIO;
    data_fill(set, DATA_TRAIN, &index, 1, &batch, 1);
    disk.fail_at = 0;
    data_fill(set, DATA_TRAIN, &index, 1, &batch, 1);
    assert_non_null(data_failed(set));
    assert_non_null(strstr(data_failed(set), text));
    assert_non_null(strstr(data_failed(set), strerror(EIO)));
}

TEST(a_disk_that_fails_during_training_is_a_failure_of_the_set)
{
    struct fixture *f = *test_state;
    check_training(&f->spec[4], "features.npy: byte ");
    check_training(&f->spec[6], "/photos/cat/");
}

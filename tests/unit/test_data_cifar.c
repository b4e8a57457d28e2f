/* test_data_cifar.c - CIFAR's binary files, small ones made here. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nn/data/data_set.h"
#include "tests/support/data_bytes.h"
#include "tests/support/folder.h"
#include "tests/support/test.h"

enum { PIXELS = 3072, RECORDS_MAX = 4 };

static struct why why;

/* `n` records whose pixels are record + 10 * plane; the last label byte is first + record. */
static size_t
records_make(uint8_t *out, size_t labels, size_t n, uint8_t first)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t *record = out + i * (labels + PIXELS);
        record[0] = 19;
        record[labels - 1] = (uint8_t)(first + i);
        for (size_t k = 0; k < PIXELS; k++)
            record[labels + k] = (uint8_t)(i + 10 * (k / 1024));
    }
    return n * (labels + PIXELS);
}

static void
write_records(const struct folder *folder, const char *name, size_t labels, size_t n, uint8_t first)
{
    static uint8_t bytes[RECORDS_MAX * (2 + PIXELS)];
    folder_write(folder, name, bytes, records_make(bytes, labels, n, first));
}

TEST(cifar10_is_read_from_its_six_files)
{
    OWNED(folder_fini) struct folder folder = folder_new();
    OWNED(data_close) struct data_set *set;
    for (uint8_t i = 1; i <= 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "data_batch_%u.bin", i);
        write_records(&folder, name, 1, 2, i);
    }
    struct data_spec spec = {.source = DATA_CIFAR10, .dir = folder.path};
    assert_int_equal(data_open(&set, &spec, &why), -ENOENT);
    assert_non_null(strstr(why.line, "no test_batch.bin in the folder "));
    write_records(&folder, "test_batch.bin", 1, 3, 7);
    assert_int_equal(data_open(&set, &spec, &why), 0);
    assert_int_equal(data_info(set)->train, 10);
    assert_int_equal(data_info(set)->test, 3);
    assert_int_equal(data_info(set)->classes, 10);
    static float x[PIXELS];
    int32_t label;
    struct nn_batch batch = {.x = x, .label = &label};
    const uint32_t index = 7; /* second of data_batch_4 */
    data_fill(set, DATA_TRAIN, &index, 1, &batch, 10);
    assert_int_equal(label, 5);
    assert_float_equal(x[0], (1 / 255.0F - 0.4914F) / 0.2470F, 1e-5F);
    assert_float_equal(x[1024], (11 / 255.0F - 0.4822F) / 0.2435F, 1e-5F);
    assert_float_equal(x[3071], (21 / 255.0F - 0.4465F) / 0.2616F, 1e-5F);
}

TEST(cifar100_uses_the_fine_label_and_the_archives_folder)
{
    OWNED(folder_fini) struct folder folder, below;
    OWNED(data_close) struct data_set *set;
    folder = folder_new();
    snprintf(below.path, sizeof below.path, "%s", folder_path(&folder, "cifar-100-binary"));
    assert_int_equal(mkdir(below.path, 0700), 0);
    write_records(&below, "train.bin", 2, 4, 96);
    write_records(&below, "test.bin", 2, 1, 0);
    struct data_spec spec = {.source = DATA_CIFAR100, .dir = folder.path};
    assert_int_equal(data_open(&set, &spec, &why), 0);
    assert_int_equal(data_info(set)->classes, 100);
    static float x[PIXELS];
    int32_t label;
    struct nn_batch batch = {.x = x, .label = &label};
    const uint32_t index = 3;
    data_fill(set, DATA_TRAIN, &index, 1, &batch, 100);
    assert_int_equal(label, 99);
}

static int
parse(const uint8_t *bytes, size_t size, size_t labels, size_t classes)
{
    struct data_file *file;
    struct data_rows rows = {0};
    int rc = data_bytes_open(&file, bytes, size, &why);
    rc = rc ? rc : data_cifar_read(file, labels, classes, &rows);
    free(rows.pixel);
    free(rows.label);
    if (file)
        data_file_close(&file);
    return rc;
}

TEST(lengths_labels_and_gzip_are_refused_by_name)
{
    static uint8_t bytes[RECORDS_MAX * (2 + PIXELS)];
    size_t size = records_make(bytes, 1, 3, 7);
    assert_int_equal(parse(bytes, size, 1, 10), 0);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(parse(bytes, cut, 1, 10), cut > 0 && cut % 3073 == 0 ? 0 : -EBADMSG);
    assert_int_equal(parse(bytes, size + 1, 1, 10), -EBADMSG);
    assert_string_equal(why.line, "f: 9220 bytes, expected a multiple of 3073");
    records_make(bytes, 1, 3, 8);
    assert_int_equal(parse(bytes, size, 1, 10), -EBADMSG);
    assert_string_equal(why.line, "f: byte 6146: label 10, expected 0..9");
    size = records_make(bytes, 2, 2, 99);
    assert_int_equal(parse(bytes, size, 2, 100), -EBADMSG);
    assert_string_equal(why.line, "f: byte 3075: label 100, expected 0..99");
    size_t packed;
    OWNED(memory_free) uint8_t *gzip = folder_gzip(bytes, size, &packed);
    assert_int_equal(parse(gzip, packed, 1, 10), -EBADMSG);
    assert_string_equal(why.line, "f: is gzip, expected the unpacked .bin file");
}

TEST(a_list_of_names_is_read_when_it_is_there)
{
    static const char names[] =
        "airplane\r\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n";
    OWNED(folder_fini) struct folder folder = folder_new();
    struct data_set *set;
    for (unsigned i = 1; i <= 6; i++) {
        char name[32];
        snprintf(name, sizeof name, i < 6 ? "data_batch_%u.bin" : "test_batch.bin", i);
        write_records(&folder, name, 1, 1, 0);
    }
    struct data_spec spec = {.source = DATA_CIFAR10, .dir = folder.path};
    assert_int_equal(data_open(&set, &spec, &why), 0);
    assert_null(data_class_name(set, 9));
    uint64_t hash = data_info(set)->hash;
    data_close(&set);
    folder_write(&folder, "batches.meta.txt", names, sizeof names - 1);
    assert_int_equal(data_open(&set, &spec, &why), 0);
    assert_string_equal(data_class_name(set, 0), "airplane");
    assert_string_equal(data_class_name(set, 9), "truck");
    assert_true(data_info(set)->hash != hash);
    data_close(&set);
    folder_write(&folder, "batches.meta.txt", names, 21);
    assert_int_equal(data_open(&set, &spec, &why), -EBADMSG);
    assert_non_null(strstr(why.line, "batches.meta.txt: 2 names of classes, expected 10"));
}

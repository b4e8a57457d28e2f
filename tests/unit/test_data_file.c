/* test_data_file.c - whole and broken files, plain and gzip, from memory and disk. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nn/data/data_file.h"
#include "tests/support/data_bytes.h"
#include "tests/support/folder.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

static struct why why;

/* Read `want` bytes in pieces of `piece` and the end after them. */
static int
read_all(const uint8_t *bytes, size_t size, uint8_t *to, size_t want, size_t piece)
{
    struct data_file *file;
    int rc = data_bytes_open(&file, bytes, size, &why);
    for (size_t done = 0; done < want && !rc; done += piece) {
        piece = piece < want - done ? piece : want - done;
        rc = data_file_read(file, to + done, piece);
    }
    rc = rc ? rc : data_file_end(file);
    if (file)
        data_file_close(&file);
    return rc;
}

TEST(plain_and_gzip_files_come_out_whole_in_any_pieces)
{
    enum { SIZE = 100000 };
    static uint8_t in[SIZE], out[SIZE];
    struct rand rand = {1};
    for (size_t zeros = 0; zeros < 2; zeros++) {
        memset(in, 0, SIZE);
        rand_fill(&rand, in, zeros ? 1000 : SIZE);
        in[0] = 0;
        size_t packed;
        OWNED(memory_free) uint8_t *gzip = folder_gzip(in, SIZE, &packed);
        static const size_t pieces[] = {1, 3, 4096, SIZE};
        for (size_t i = 0; i < 4; i++) {
            assert_int_equal(read_all(in, SIZE, out, SIZE, pieces[i]), 0);
            assert_memory_equal(in, out, SIZE);
            memset(out, 1, SIZE);
            assert_int_equal(read_all(gzip, packed, out, SIZE, pieces[i]), 0);
            assert_memory_equal(in, out, SIZE);
        }
    }
}

TEST(several_gzip_members_are_one_file)
{
    size_t a_size, b_size, none;
    uint8_t *a = folder_gzip("hello ", 6, &a_size), *b = folder_gzip("world", 5, &b_size);
    uint8_t *empty = folder_gzip("", 0, &none), all[256];
    char out[12] = {0};
    memcpy(all, a, a_size);
    memcpy(all + a_size, empty, none);
    memcpy(all + a_size + none, b, b_size);
    assert_int_equal(read_all(all, a_size + none + b_size, (uint8_t *)out, 11, 2), 0);
    assert_string_equal(out, "hello world");
    free(a);
    free(b);
    free(empty);
}

TEST(every_truncation_of_a_gzip_is_refused)
{
    uint8_t in[2000], out[2000];
    rand_fill(&(struct rand){2}, in, sizeof in);
    size_t packed;
    OWNED(memory_free) uint8_t *gzip = folder_gzip(in, sizeof in, &packed);
    for (size_t cut = 0; cut < packed; cut++)
        assert_int_equal(read_all(gzip, cut, out, sizeof out, 700), -EBADMSG);
    assert_int_equal(read_all(gzip, packed, out, sizeof out, 700), 0);
}

/* Of the header, only the time and system (bytes 4..9) and the two flags that say nothing may change. */
TEST(every_flipped_bit_behind_a_gzip_header_is_refused)
{
    uint8_t in[300], out[300];
    rand_fill(&(struct rand){3}, in, sizeof in);
    size_t packed;
    OWNED(memory_free) uint8_t *gzip = folder_gzip(in, sizeof in, &packed);
    for (size_t bit = 80; bit < packed * 8; bit++) {
        gzip[bit / 8] ^= (uint8_t)(1 << bit % 8);
        int rc = read_all(gzip, packed, out, sizeof out, sizeof out);
        gzip[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (rc == 0)
            assert_memory_equal(in, out, sizeof in);
        else
            assert_int_equal(rc, -EBADMSG);
        assert_true(rc || bit < (packed - 8) * 8);
    }
}

TEST(what_follows_the_end_is_named)
{
    uint8_t out[8], longer[256];
    assert_int_equal(read_all((const uint8_t *)"12345678x", 9, out, 8, 8), -EBADMSG);
    assert_string_equal(why.line, "f: byte 8: 0x78, expected the end of the file");
    size_t packed;
    OWNED(memory_free) uint8_t *gzip = folder_gzip("12345678", 8, &packed);
    memcpy(longer, gzip, packed);
    longer[packed] = 'x';
    assert_int_equal(read_all(longer, packed + 1, out, 8, 8), -EBADMSG);
    assert_non_null(strstr(why.line, ": 0x78, expected the end of the file"));
    memcpy(longer + packed, gzip, packed);
    assert_int_equal(read_all(longer, 2 * packed, out, 8, 8), -EBADMSG);
    assert_string_equal(why.line, "f: byte 8: 0x31, expected the end of the file");
}

TEST(a_file_cut_off_says_where)
{
    uint8_t out[8];
    assert_int_equal(read_all((const uint8_t *)"12345", 5, out, 8, 8), -EBADMSG);
    assert_string_equal(why.line, "f: cut off at byte 5, 3 more expected");
    assert_int_equal(read_all((const uint8_t *)"", 0, out, 0, 1), -EBADMSG);
    assert_non_null(strstr(why.line, ": the file is empty"));
}

static int
holds(const uint8_t *bytes, size_t size, uint64_t total)
{
    OWNED(data_file_close) struct data_file *file;
    assert_int_equal(data_bytes_open(&file, bytes, size, &why), 0);
    return data_file_holds(file, total);
}

TEST(announced_sizes_are_compared_before_anything_is_allocated)
{
    static uint8_t zeros[1 << 20];
    size_t packed;
    OWNED(memory_free) uint8_t *gzip = folder_gzip(zeros, sizeof zeros, &packed);
    assert_int_equal(holds(gzip, packed, sizeof zeros), 0);
    assert_int_equal(holds(gzip, packed, 1032 * packed), 0);
    assert_int_equal(holds(gzip, packed, 1032 * packed + 1), -EBADMSG);
    assert_int_equal(holds(zeros, 1000, 1000), 0);
    assert_int_equal(holds(zeros, 1000, 999), -EBADMSG);
    assert_int_equal(holds(zeros, 1000, 1001), -EBADMSG);
    assert_int_equal(holds(zeros, 1000, DATA_FILE_MAX + 1), -EBADMSG);
    assert_int_equal(holds(zeros, 1000, UINT64_MAX), -EBADMSG);
}

static int
open_path(const char *path)
{
    OWNED(data_file_close) struct data_file *file;
    int rc = data_file_open(&file, path, &why);
    assert_true((file != NULL) == (rc == 0));
    return rc;
}

TEST(what_is_not_a_regular_file_is_refused_at_once)
{
    OWNED(folder_fini) struct folder folder = folder_new();
    assert_int_equal(open_path(folder_path(&folder, "none")), -ENOENT);
    assert_int_equal(open_path(folder.path), -EINVAL);
    assert_non_null(strstr(why.line, "is a folder, expected a regular file"));
    assert_int_equal(mkfifo(folder_path(&folder, "fifo"), 0600), 0);
    assert_int_equal(open_path(folder_path(&folder, "fifo")), -EINVAL);
    assert_non_null(strstr(why.line, "is a pipe, expected a regular file"));
    assert_int_equal(open_path("/dev/zero"), -EINVAL);
    assert_int_equal(symlink("loop", folder_path(&folder, "loop")), 0);
    assert_int_equal(open_path(folder_path(&folder, "loop")), -ELOOP);
    folder_write(&folder, "empty", "", 0);
    assert_int_equal(open_path(folder_path(&folder, "empty")), -EBADMSG);
}

TEST(a_sparse_tebibyte_is_refused_by_its_size)
{
    OWNED(folder_fini) struct folder folder = folder_new();
    folder_write(&folder, "big", "x", 1);
    off_t size = (off_t)1 << 40;
    if (truncate(folder_path(&folder, "big"), size) != 0) {
        print_message("the scratch folder takes no sparse file of 1 TiB, trying 4 GiB + 1\n");
        size = ((off_t)4 << 30) + 1;
        assert_int_equal(truncate(folder_path(&folder, "big"), size), 0);
    }
    assert_int_equal(open_path(folder_path(&folder, "big")), -EFBIG);
}

TEST(a_file_that_shrinks_or_is_replaced_while_it_is_read_harms_nobody)
{
    enum { SIZE = 200000 };
    static uint8_t bytes[SIZE], out[SIZE];
    memset(bytes, 7, SIZE);
    OWNED(folder_fini) struct folder folder = folder_new();
    OWNED(data_file_close) struct data_file *file;
    char path[512];
    folder_write(&folder, "f", bytes, SIZE);
    snprintf(path, sizeof path, "%s", folder_path(&folder, "f"));
    assert_int_equal(data_file_open(&file, path, &why), 0);
    assert_int_equal(truncate(path, SIZE / 2), 0);
    assert_int_equal(data_file_read(file, out, SIZE), -EBADMSG);
    assert_non_null(strstr(why.line, "cut off at byte 100000, 100000 more expected"));
    data_file_close(&file);

    folder_write(&folder, "g", "other", 5);
    folder_write(&folder, "f", bytes, SIZE);
    assert_int_equal(data_file_open(&file, path, &why), 0);
    assert_int_equal(rename(folder_path(&folder, "g"), path), 0);
    assert_int_equal(data_file_read(file, out, SIZE), 0);
    assert_memory_equal(bytes, out, SIZE);
}

TEST(paths_are_joined_within_their_limit)
{
    char path[DATA_PATH_SIZE], name[DATA_PATH_SIZE + 1];
    assert_int_equal(data_file_path(path, NULL, "", "a", &why), 0);
    assert_string_equal(path, "a");
    assert_int_equal(data_file_path(path, "d", "f", "a", &why), 0);
    assert_string_equal(path, "d/f/a");
    assert_int_equal(data_file_path(path, "d", "f", "/a", &why), 0);
    assert_string_equal(path, "/a");
    memset(name, 'n', DATA_PATH_SIZE);
    name[DATA_PATH_SIZE - 1] = 0;
    assert_int_equal(data_file_path(path, "", "", name, &why), 0);
    assert_int_equal(data_file_path(path, "d", "", name, &why), -ENAMETOOLONG);
}

/* test_tensorboard.c - records of event files, byte for byte. */
#include "node/results/tensorboard.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/support/folder.h"
#include "tests/support/test.h"

/* The mask taken off. */
static uint32_t
plain_crc(const void *data, size_t size)
{
    uint32_t rot = tensorboard_crc(data, size) - UINT32_C(0xa282ead8);
    return rot >> 17 | rot << 15;
}

/* RFC 3720, B.4, and the check value of the catalogues. */
TEST(the_crc_is_that_of_castagnoli)
{
    uint8_t data[32] = {0};
    assert_int_equal(plain_crc("123456789", 9), 0xe3069283);
    assert_int_equal(plain_crc(data, 32), 0x8a9136aa);
    memset(data, 0xff, 32);
    assert_int_equal(plain_crc(data, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        data[i] = (uint8_t)i;
    assert_int_equal(plain_crc(data, 32), 0x46dd794e);
    assert_int_equal(plain_crc("", 0), 0);
}

/* Length and both checks; returns the data. */
static const uint8_t *
opened(const uint8_t *record, size_t size, size_t *data_size)
{
    uint64_t length = 0;
    uint32_t head = 0, tail = 0;
    memcpy(&length, record, 8);
    memcpy(&head, record + 8, 4);
    assert_int_equal(size, length + 16);
    memcpy(&tail, record + 12 + length, 4);
    assert_int_equal(head, tensorboard_crc(record, 8));
    assert_int_equal(tail, tensorboard_crc(record + 12, (size_t)length));
    *data_size = (size_t)length;
    return record + 12;
}

TEST(records_have_these_bytes)
{
    uint8_t out[TENSORBOARD_RECORD_MAX];
    size_t size;
    static const uint8_t version[] = "\x09\0\0\0\0\0\0\xf8\x3f\x1a\x0d"
                                     "brain.Event:2";
    const uint8_t *data = opened(out, tensorboard_version(out, 1.5), &size);
    assert_int_equal(size, sizeof version - 1);
    assert_memory_equal(data, version, size);
    static const uint8_t scalars[] = "\x09\0\0\0\0\0\0\xf8\x3f\x10\xac\x02"
                                     "\x2a\x16"
                                     "\x0a\x0b\x0a\x04loss\x15\0\0\0\x40"
                                     "\x0a\x07\x0a\0\x15\0\0\x80\xbf";
    const struct tensorboard_scalar scalar[] = {{"loss", 2}, {"none", (double)NAN}, {"", -1}};
    data = opened(out, tensorboard_scalars(out, 1.5, 300, scalar, 3), &size);
    assert_int_equal(size, sizeof scalars - 1);
    assert_memory_equal(data, scalars, size);
    static const uint8_t restart[] = "\x09\0\0\0\0\0\0\xf8\x3f\x10\x07\x3a\x02\x08\x01";
    data = opened(out, tensorboard_restart(out, 1.5, 7), &size);
    assert_int_equal(size, sizeof restart - 1);
    assert_memory_equal(data, restart, size);
}

TEST(the_largest_record_fits)
{
    uint8_t out[TENSORBOARD_RECORD_MAX];
    struct tensorboard_scalar scalar[TENSORBOARD_SCALARS_MAX];
    for (size_t i = 0; i < TENSORBOARD_SCALARS_MAX; i++)
        scalar[i] = (struct tensorboard_scalar){"a name that has thirty-one byte", 1};
    assert_int_equal(strlen(scalar[0].tag), 31);
    size_t size = tensorboard_scalars(out, 1, UINT64_MAX, scalar, TENSORBOARD_SCALARS_MAX);
    assert_true(size <= sizeof out);
    opened(out, size, &size);
}

TEST(a_file_begins_with_the_version)
{
    OWNED(folder_fini) struct folder folder = folder_new();
    struct tensorboard *board;
    char path[1024] = "";
    struct why why;
    assert_int_not_equal(tensorboard_open(&board, "/nonexistent", &why), 0);
    assert_null(board);
    assert_non_null(strstr(why.line, "/nonexistent/events.out.tfevents."));
    assert_int_equal(tensorboard_open(&board, folder.path, &why), 0);
    const struct tensorboard_scalar scalar = {"loss", 2};
    assert_int_equal(tensorboard_purge(board, 3), 0);
    assert_int_equal(tensorboard_add(board, 3, &scalar, 1), 0);
    tensorboard_close(&board);
    assert_null(board);
    DIR *dir = opendir(folder.path);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (strncmp(entry->d_name, "events.out.tfevents.", 20) == 0)
            snprintf(path, sizeof path, "%s/%s", folder.path, entry->d_name);
    closedir(dir);
    uint8_t bytes[1024], version[TENSORBOARD_RECORD_MAX];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file), first = tensorboard_version(version, 0);
    fclose(file);
    assert_memory_equal(bytes, version, 12); /* the same length */
    assert_true(size > first);
}

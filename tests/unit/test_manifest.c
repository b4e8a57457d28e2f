/* test_manifest.c - the files of a job's data: blocks over files of any size, gzip as what it expands to, the text that
 * travels, and texts that nobody may trust. */
#include <errno.h>
#include <stdio.h>

#include "nn/data/manifest.h"
#include "tests/support/folder.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

enum { FILES = 5, SIZE_A = 3 * MANIFEST_BLOCK - 100, SIZE_B = 7, SIZE_C = 1, SIZE_E = 200000 };

static struct why why;
static struct folder folder;
static uint8_t *whole;
static const struct {
    const char *name;
    size_t size;
    bool gzip;
} files[FILES] = {{"a", SIZE_A, false},
                  {"sub/b", SIZE_B, false},
                  {"c", SIZE_C, false},
                  {"d", MANIFEST_BLOCK, true},
                  {"e", SIZE_E, false}};

static size_t
whole_size(void)
{
    size_t size = 0;
    for (size_t i = 0; i < FILES; i++)
        size += files[i].size;
    return size;
}

FIXTURE(setup)
{
    struct rand rand = {5};
    size_t at = 0;
    folder = folder_new();
    whole = malloc(whole_size());
    for (size_t i = 0; i < whole_size(); i++)
        whole[i] = (uint8_t)(rand_u64(&rand) % 5);
    for (size_t i = 0; i < FILES; i++) {
        size_t packed;
        uint8_t *gzip = folder_gzip(whole + at, files[i].size, &packed);
        const char *slash = strrchr(files[i].name, '/');
        folder_write(&folder, slash ? slash + 1 : files[i].name, files[i].gzip ? gzip : whole + at,
                     files[i].gzip ? packed : files[i].size);
        free(gzip);
        at += files[i].size;
    }
    return 0;
}

FIXTURE(teardown)
{
    free(whole);
    folder_fini(&folder);
    return 0;
}

TEST_ALL(setup, teardown)

static void
open_files(struct manifest *m)
{
    *m = (struct manifest){.count = 0};
    for (size_t i = 0; i < FILES; i++) {
        const char *slash = strrchr(files[i].name, '/');
        manifest_note_as(m, files[i].name, folder_path(&folder, slash ? slash + 1 : files[i].name));
    }
    manifest_note_as(m, "again", folder_path(&folder, "a"));
    if (manifest_read(m, &why))
        fail_msg("%s", why.line);
}

/* Blocks from a reader are those of the bytes of all files in a row, in rising, falling and any order. */
TEST(blocks_are_of_all_files_in_a_row)
{
    OWNED(manifest_fini) struct manifest m;
    open_files(&m);
    assert_int_equal(m.count, FILES);
    assert_int_equal(m.size, whole_size());
    assert_int_equal(m.blocks, (whole_size() + MANIFEST_BLOCK - 1) / MANIFEST_BLOCK);
    OWNED(manifest_reader_free) struct manifest_reader *reader = manifest_reader_new(&m);
    uint8_t *out = malloc(MANIFEST_BLOCK);
    struct rand rand = {9};
    for (uint64_t turn = 0; turn < 4 * m.blocks; turn++) {
        uint64_t b = turn < m.blocks       ? turn
                     : turn < 2 * m.blocks ? 2 * m.blocks - 1 - turn
                                           : rand_u64(&rand) % m.blocks;
        size_t size = manifest_block_size(&m, b);
        assert_int_equal(manifest_reader_block(reader, b, out, &why), 0);
        assert_memory_equal(out, whole + b * MANIFEST_BLOCK, size);
        assert_true(manifest_block_good(&m, b, out, size));
        out[size / 2] ^= 1;
        assert_false(manifest_block_good(&m, b, out, size));
        out[size / 2] ^= 1;
        assert_false(manifest_block_good(&m, b, out, size - 1));
        assert_false(manifest_block_good(&m, m.blocks, out, size));
    }
    free(out);
}

TEST(of_the_same_files_nothing_is_hashed_again)
{
    OWNED(manifest_fini) struct manifest m, same = {.count = 0};
    open_files(&m);
    for (size_t i = 0; i < FILES; i++) {
        assert_false(manifest_like(&same, &m)); /* not all of them */
        manifest_note_as(&same, m.file[i].name, m.file[i].path);
    }
    assert_true(manifest_like(&same, &m));
    assert_int_equal(manifest_hash(&same), manifest_hash(&m));
    assert_int_equal(same.size, m.size);
    m.file[1].path[0] = 'x';
    assert_false(manifest_like(&same, &m));
}

TEST(the_text_comes_back_and_names_the_data)
{
    OWNED(manifest_fini) struct manifest m;
    open_files(&m);
    size_t size = manifest_text_size(&m);
    uint8_t *text = malloc(size);
    manifest_text(&m, text);
    OWNED(manifest_fini) struct manifest back;
    assert_int_equal(manifest_parse(&back, text, size, &why), 0);
    assert_true(manifest_hash(&back) == manifest_hash(&m));
    assert_int_equal(back.blocks, m.blocks);
    for (size_t i = 0; i < FILES; i++) {
        assert_string_equal(back.file[i].name, files[i].name);
        assert_int_equal(back.file[i].size, files[i].size);
        assert_int_equal(back.file[i].first, m.file[i].first);
        assert_null(back.file[i].path);
    }
    free(text);
}

/* Whatever is cut off or flipped: an error with a line, or a manifest of which all is in its bounds. */
TEST(a_text_may_be_anything)
{
    OWNED(manifest_fini) struct manifest m;
    open_files(&m);
    size_t size = manifest_text_size(&m);
    uint8_t *text = malloc(size);
    manifest_text(&m, text);
    for (size_t cut = 0; cut < size; cut++) {
        OWNED(manifest_fini) struct manifest back;
        assert_int_equal(manifest_parse(&back, text, cut, &why), -EBADMSG);
    }
    for (size_t at = 0; at < size * 8; at++) {
        OWNED(manifest_fini) struct manifest back;
        text[at / 8] ^= (uint8_t)(1 << at % 8);
        int rc = manifest_parse(&back, text, size, &why);
        assert_true(rc == -EBADMSG || (rc == 0 && manifest_hash(&back) != manifest_hash(&m) &&
                                       !manifest_unsafe(&back)));
        text[at / 8] ^= (uint8_t)(1 << at % 8);
    }
    free(text);
}

TEST(names_that_leave_the_folder_are_refused)
{
    static const char *const bad[] = {"",   "/a",  "../a",  "a/../b", "a/..", "..",   "a//b",
                                      "a/", "./a", "a/./b", ".",      "a\nb", "\x7f", "a/\t/b"};
    static const char *const good[] = {"a",   "a/b/c.png",    "..a", "a..",
                                       "...", "\xc3\xa4.csv", "a b"};
    char name[MANIFEST_NAME_MAX + 2];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(manifest_name_safe(bad[i]));
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(manifest_name_safe(good[i]));
    memset(name, 'n', sizeof name);
    name[MANIFEST_NAME_MAX + 1] = 0;
    assert_false(manifest_name_safe(name));
    name[MANIFEST_NAME_MAX] = 0;
    assert_true(manifest_name_safe(name));
    OWNED(manifest_fini) struct manifest m = {.count = 0};
    manifest_note(&m, folder.path, folder_path(&folder, "a"));
    assert_null(manifest_unsafe(&m));
    assert_string_equal(m.file[0].name, "a");
    manifest_note(&m, "elsewhere", folder_path(&folder, "c"));
    assert_string_equal(manifest_unsafe(&m), folder_path(&folder, "c"));
}

TEST(a_file_that_changes_is_not_given)
{
    OWNED(manifest_fini) struct manifest m;
    open_files(&m);
    OWNED(manifest_reader_free) struct manifest_reader *reader = manifest_reader_new(&m);
    uint8_t *out = malloc(MANIFEST_BLOCK);
    folder_write(&folder, "e", whole, SIZE_E);
    assert_int_equal(manifest_reader_block(reader, m.blocks - 1, out, &why), -ESTALE);
    folder_write(&folder, "e", whole, 10);
    OWNED(manifest_reader_free) struct manifest_reader *other = manifest_reader_new(&m);
    assert_int_equal(manifest_reader_block(other, m.blocks - 1, out, &why), -EBADMSG);
    assert_non_null(strstr(why.line, "/e: "));
    assert_int_equal(manifest_reader_block(other, 0, out, &why), 0);
    free(out);
}

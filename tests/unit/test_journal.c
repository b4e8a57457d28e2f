/* A journal says what was written, and nothing else: each damage is refused with its place, an end that a power cut
 * took is not. */
#include "node/results/journal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "nn/files/disk.h"
#include "tests/support/folder.h"
#include "tests/support/test.h"

/* Where the first record behind a start is. */
enum { ONE = JOURNAL_HEAD_SIZE + JOURNAL_RECORD_HEAD + JOURNAL_START_SIZE };

static struct why why;

FOLDER_EACH

static const char *
path(void)
{
    return folder_path(&folder, JOURNAL_FILE);
}

static struct journal *
opened(uint64_t incarnation)
{
    struct journal *journal;
    const struct journal_start start = {.job_hash = 0xabcd, .id = 7, .incarnation = incarnation};
    assert_int_equal(journal_open(&journal, folder.path, &start, &why), 0);
    return journal;
}

/* Two incarnations; the first writes three records, the second one. */
static void
write_two(void)
{
    OWNED(journal_close) struct journal *journal = opened(1);
    assert_int_equal(journal_add(journal, 2, "one", 3), 0);
    assert_int_equal(journal_add(journal, 3, NULL, 0), 0);
    assert_int_equal(journal_add(journal, 2, "two!", 4), 0);
    journal_close(&journal);
    assert_null(journal);
    journal = opened(2);
    assert_int_equal(journal_add(journal, 255, "x", 1), 0);
}

static void
expect(const struct journal_text *text, struct journal_record *record, unsigned type,
       const char *data, uint64_t incarnation)
{
    assert_true(journal_next(text, record));
    assert_int_equal(record->type, type);
    assert_int_equal(record->id, 7);
    assert_int_equal(record->incarnation, incarnation);
    assert_int_equal(record->job_hash, 0xabcd);
    if (type != JOURNAL_START) {
        assert_int_equal(record->size, strlen(data));
        assert_memory_equal(record->data, data, record->size);
    }
}

TEST(what_was_written_is_read_in_order_with_who_wrote_it)
{
    struct journal_text text;
    struct journal_record record = {0};
    write_two();
    assert_int_equal(journal_load(&text, path(), &why), 0);
    assert_int_equal(text.job_hash, 0xabcd);
    expect(&text, &record, JOURNAL_START, "", 1);
    expect(&text, &record, 2, "one", 1);
    expect(&text, &record, 3, "", 1);
    expect(&text, &record, 2, "two!", 1);
    expect(&text, &record, JOURNAL_START, "", 2);
    expect(&text, &record, 255, "x", 2);
    assert_false(journal_next(&text, &record));
    journal_unload(&text);
}

static uint8_t *
bytes_of(size_t *size)
{
    uint8_t *bytes;
    assert_int_equal(disk_read(path(), 1 << 20, &bytes, size, &why), 0);
    return bytes;
}

TEST(a_file_cut_off_anywhere_has_the_whole_records_before_it)
{
    struct journal_text text;
    size_t size, last = JOURNAL_HEAD_SIZE;
    write_two();
    OWNED(memory_free) uint8_t *bytes = bytes_of(&size);
    for (size_t cut = 0; cut < JOURNAL_HEAD_SIZE; cut++)
        assert_int_equal(journal_check(&text, "j", bytes, cut, &why), -ENODATA);
    for (size_t cut = JOURNAL_HEAD_SIZE; cut <= size; cut++) {
        assert_int_equal(journal_check(&text, "j", bytes, cut, &why), 0);
        assert_true(text.size <= cut && text.size >= last);
        last = text.size;
    }
    assert_int_equal(last, size);
}

TEST(each_flipped_bit_is_found)
{
    struct journal_text text;
    size_t size;
    write_two();
    OWNED(memory_free) uint8_t *bytes = bytes_of(&size);
    for (size_t bit = 0; bit < size * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(journal_check(&text, "j", bytes, size, &why), -EBADMSG);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

TEST(a_damaged_record_is_refused_with_its_place)
{
    struct journal_text text;
    size_t size;
    write_two();
    OWNED(memory_free) uint8_t *bytes = bytes_of(&size);
    bytes[ONE + JOURNAL_RECORD_HEAD] ^= 1;
    assert_int_equal(journal_check(&text, "x/journal", bytes, size, &why), -EBADMSG);
    assert_string_equal(why.line, "x/journal: damaged at byte 50 of 132: the data of a record");
    bytes[ONE + JOURNAL_RECORD_HEAD] ^= 1;
    bytes[ONE + 2] ^= 0x80; /* a length far beyond the end of the file */
    assert_int_equal(journal_check(&text, "x/journal", bytes, size, &why), -EBADMSG);
    assert_string_equal(
        why.line, "x/journal: damaged at byte 50 of 132: the length, type or check of a record");
}

/* What a power cut may leave of a record: the sectors before one, and zeros from there on. */
TEST(a_record_whose_last_sectors_never_came_is_cut_off)
{
    static uint8_t big[1500];
    struct journal_text text;
    size_t size;
    memset(big, 7, sizeof big);
    struct journal *journal = opened(1);
    assert_int_equal(journal_add(journal, 2, "one", 3), 0);
    size_t at = (size_t)ONE + JOURNAL_RECORD_HEAD + 3;
    assert_int_equal(journal_add(journal, 2, big, sizeof big), 0);
    journal_close(&journal);
    OWNED(memory_free) uint8_t *bytes = bytes_of(&size);
    memset(bytes + 1024, 0, size - 1024);
    assert_int_equal(journal_check(&text, "j", bytes, size, &why), 0);
    assert_int_equal(text.size, at);
    bytes[size - 1] = 7; /* its last sector came: this one is damaged */
    assert_int_equal(journal_check(&text, "j", bytes, size, &why), -EBADMSG);
}

/* Its head lies over the end of a sector. */
TEST(a_head_whose_last_bytes_never_came_is_cut_off)
{
    static uint8_t fill[512];
    struct journal_text text;
    size_t size, before = 512 - ONE - JOURNAL_RECORD_HEAD - 4;
    memset(fill, 7, sizeof fill);
    struct journal *journal = opened(1);
    assert_int_equal(journal_add(journal, 2, fill, before), 0);
    assert_int_equal(journal_add(journal, 2, fill, 100), 0); /* at byte 508 */
    journal_close(&journal);
    OWNED(memory_free) uint8_t *bytes = bytes_of(&size);
    memset(bytes + 512, 0, size - 512);
    assert_int_equal(journal_check(&text, "j", bytes, size, &why), 0);
    assert_int_equal(text.size, 508);
}

TEST(an_empty_file_is_as_none)
{
    static const uint8_t zeros[8192];
    static const size_t sizes[] = {0, 1, JOURNAL_HEAD_SIZE, 8192};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        struct journal_text text;
        struct journal_record record = {0};
        folder_write(&folder, JOURNAL_FILE, zeros, sizes[k]);
        assert_int_equal(journal_load(&text, path(), &why), -ENODATA);
        assert_non_null(strstr(why.line, "/journal: empty"));
        struct journal *journal = opened(4);
        assert_int_equal(journal_kept(journal), 0);
        journal_close(&journal);
        assert_int_equal(journal_load(&text, path(), &why), 0);
        expect(&text, &record, JOURNAL_START, "", 4);
        assert_false(journal_next(&text, &record));
        journal_unload(&text);
    }
}

TEST(what_is_refused_names_the_remedy)
{
    struct journal *journal;
    const struct journal_start start = {.job_hash = 0xabcd, .id = 7, .incarnation = 2};
    size_t size;
    write_two();
    OWNED(memory_free) uint8_t *bytes = bytes_of(&size);
    bytes[ONE] ^= 1;
    folder_write(&folder, JOURNAL_FILE, bytes, size);
    assert_int_equal(journal_open(&journal, folder.path, &start, &why), -EBADMSG);
    assert_non_null(strstr(why.line, "/journal: damaged at byte 50 of 132: "));
    assert_non_null(strstr(why.line, "; --fresh begins again, or rename it to go on"));
    folder_write(&folder, JOURNAL_FILE, "meshjrnl\2\0\0\0\0\0\0\0--------",
                 24); /* of an older program */
    assert_int_equal(journal_open(&journal, folder.path, &start, &why), -EBADMSG);
    assert_non_null(strstr(why.line, "/journal: journal of version 2, expected 3; --fresh"));
}

/* With --resume and other settings the job is another one from then on. */
TEST(a_run_that_goes_on_with_other_settings_has_all_its_parts_in_one_journal)
{
    const uint64_t past[] = {0xabcd, 0x99};
    const struct journal_start later = {
        .job_hash = 0xef, .id = 7, .incarnation = 5, .past = past, .past_count = 2};
    struct journal *journal;
    struct journal_text text;
    struct journal_record record = {0};
    write_two();
    assert_int_equal(journal_open(&journal, folder.path, &later, &why), 0);
    assert_int_equal(journal_kept(journal), 132);
    assert_int_equal(journal_add(journal, 9, "later", 5), 0);
    assert_int_equal(journal_sync(journal), 0);
    journal_close(&journal);
    assert_int_equal(journal_open(&journal, folder.path, &later, &why), 0); /* and again */
    journal_close(&journal);
    assert_int_equal(journal_load(&text, path(), &why), 0);
    assert_int_equal(text.job_hash, 0xef);
    for (int k = 0; k < 6; k++) {
        assert_true(journal_next(&text, &record));
        assert_int_equal(record.job_hash, 0xabcd);
    }
    for (int k = 0; k < 3; k++) {
        assert_true(journal_next(&text, &record));
        assert_int_equal(record.job_hash, 0xef);
        assert_int_equal(record.incarnation, 5);
    }
    assert_false(journal_next(&text, &record));
    journal_unload(&text);
}

TEST(a_journal_of_another_version_is_refused)
{
    struct journal_text text;
    size_t size;
    write_two();
    OWNED(memory_free) uint8_t *bytes = bytes_of(&size);
    bytes[8] = 1;
    assert_int_equal(journal_check(&text, "x/journal", bytes, size, &why), -EBADMSG);
    assert_string_equal(why.line, "x/journal: journal of version 1, expected 3");
}

TEST(a_record_in_another_place_is_refused)
{
    struct journal_text text;
    size_t size;
    write_two();
    OWNED(memory_free) uint8_t *bytes = bytes_of(&size);
    OWNED(memory_free) uint8_t *twice = malloc(size + 11); /* the last record again */
    assert_non_null(twice);
    memcpy(twice, bytes, size);
    memcpy(twice + size, bytes + size - 11, 11);
    assert_int_equal(journal_check(&text, "j", twice, size + 11, &why), -EBADMSG);
}

TEST(zeros_at_the_end_are_a_cut_off_end)
{
    struct journal_text text;
    size_t size;
    write_two();
    OWNED(memory_free) uint8_t *bytes = bytes_of(&size);
    OWNED(memory_free) uint8_t *longer = calloc(1, size + 4096);
    assert_non_null(longer);
    memcpy(longer, bytes, size);
    assert_int_equal(journal_check(&text, "j", longer, size + 4096, &why), 0);
    assert_int_equal(text.size, size);
}

TEST(a_new_start_removes_what_was_cut_off)
{
    struct journal_text text;
    struct journal_record record = {0};
    size_t size;
    write_two();
    free(bytes_of(&size));
    assert_int_equal(truncate(path(), (off_t)size - 1), 0); /* within the last record */
    struct journal *journal = opened(3);
    assert_int_equal(journal_add(journal, 9, "after", 5), 0);
    journal_close(&journal);
    assert_int_equal(journal_load(&text, path(), &why), 0);
    for (int k = 0; k < 5; k++)
        assert_true(journal_next(&text, &record));
    expect(&text, &record, JOURNAL_START, "", 3);
    expect(&text, &record, 9, "after", 3);
    assert_false(journal_next(&text, &record));
    journal_unload(&text);
}

TEST(a_journal_of_another_job_is_refused_and_a_new_run_replaces_it)
{
    struct journal *journal;
    struct journal_text text;
    struct journal_record record = {0};
    struct journal_start start = {.job_hash = 0xef, .id = 7, .incarnation = 1};
    write_two();
    assert_int_equal(journal_open(&journal, folder.path, &start, &why), -EINVAL);
    assert_null(journal);
    assert_non_null(strstr(why.line, "journal of another job"));
    assert_non_null(strstr(why.line, "; --fresh begins again, --out takes another folder"));
    start.fresh = true;
    assert_int_equal(journal_open(&journal, folder.path, &start, &why), 0);
    journal_close(&journal);
    assert_int_equal(journal_load(&text, path(), &why), 0);
    assert_int_equal(text.job_hash, 0xef);
    assert_true(journal_next(&text, &record));
    assert_int_equal(record.type, JOURNAL_START);
    assert_int_equal(record.incarnation, 1);
    assert_false(journal_next(&text, &record));
    journal_unload(&text);
}

TEST(after_a_failed_write_nothing_more_is_written)
{
    struct journal_text text;
    struct rlimit before, limit;
    static uint8_t big[4096];
    struct journal *journal = opened(1);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 1000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(journal_add(journal, 2, big, sizeof big), -EFBIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(journal_add(journal, 2, "x", 1), -EFBIG);
    journal_close(&journal);
    assert_int_equal(journal_load(&text, path(), &why), 0); /* the rest is a cut-off record */
    assert_int_equal(text.size, ONE);
    journal_unload(&text);
}

int
main(void)
{
    signal(SIGXFSZ, SIG_IGN);
    return test_run();
}

/* The first file in which the data of two nodes differ. */
#include "nn/data/manifest.h"
#include "tests/support/test.h"

enum { FILES = 3, BLOCKS = 3 };

/* a: one block and a half; b: the other half; c: one block. */
static struct manifest_file here[FILES], there[FILES];
static uint8_t blocks[2][BLOCKS][MANIFEST_HASH];
static struct manifest ours, theirs;
static char line[200];

static void
fill(struct manifest *manifest, struct manifest_file *file, uint8_t (*block)[MANIFEST_HASH])
{
    static char a[] = "a.csv", b[] = "b.csv", c[] = "c.csv";
    const uint64_t half = MANIFEST_BLOCK / 2;
    file[0] = (struct manifest_file){.name = a, .first = 0, .size = 3 * half};
    file[1] = (struct manifest_file){.name = b, .first = 3 * half, .size = half};
    file[2] = (struct manifest_file){.name = c, .first = 4 * half, .size = 2 * half};
    *manifest = (struct manifest){
        .file = file, .count = FILES, .size = 6 * half, .block = block, .blocks = BLOCKS};
}

FIXTURE(both)
{
    memset(blocks, 0, sizeof blocks);
    fill(&ours, here, blocks[0]);
    fill(&theirs, there, blocks[1]);
    return 0;
}
TEST_EACH(both, NULL)

TEST(the_same_data_do_not_differ)
{
    assert_false(manifest_differ(&theirs, &ours, line, sizeof line));
}

TEST(files_that_one_has_alone)
{
    theirs.count = 2;
    assert_true(manifest_differ(&theirs, &ours, line, sizeof line));
    assert_string_equal(line, "c.csv is only here");
    assert_true(manifest_differ(&ours, &theirs, line, sizeof line));
    assert_string_equal(line, "c.csv is only there");
}

TEST(names_and_sizes)
{
    static char other[] = "d.csv";
    there[1].size = 12;
    assert_true(manifest_differ(&theirs, &ours, line, sizeof line));
    assert_string_equal(line, "b.csv has 12 bytes there, 524288 here");
    there[1].name = other;
    assert_true(manifest_differ(&theirs, &ours, line, sizeof line));
    assert_string_equal(line, "there is d.csv, here b.csv");
}

TEST(contents)
{
    blocks[1][2][5] = 1;
    assert_true(manifest_differ(&theirs, &ours, line, sizeof line));
    assert_string_equal(line, "c.csv has other contents in the MiB from its byte 0 on");
    blocks[1][1][5] = 1;
    assert_true(manifest_differ(&theirs, &ours, line, sizeof line));
    assert_string_equal(line, "a.csv, or one of the 1 files behind it, has other contents");
    blocks[1][0][5] = 1;
    assert_true(manifest_differ(&theirs, &ours, line, sizeof line));
    assert_string_equal(line, "a.csv has other contents in the MiB from its byte 0 on");
}

/* Sizes of caches are read from a folder made like that of the kernel. */
#include <stdio.h>
#include <sys/stat.h>

#include "nn/arithmetic/cache.h"
#include "nn/arithmetic/product.h"
#include "tests/support/folder.h"
#include "tests/support/test.h"

FOLDER_ALL

static void
write_word(unsigned i, const char *name, const char *text)
{
    char path[32];
    snprintf(path, sizeof path, "index%u", i);
    mkdir(folder_path(&folder, path), 0700);
    snprintf(path, sizeof path, "index%u/%s", i, name);
    folder_write(&folder, path, text, strlen(text));
}

static void
cache(unsigned i, const char *level, const char *type, const char *size)
{
    write_word(i, "level", level);
    write_word(i, "type", type);
    write_word(i, "size", size);
}

TEST(sizes_are_read_by_level)
{
    assert_int_equal(cache_size_in(folder.path, 1), 0); /* nothing there */
    cache(0, "1\n", "Instruction\n", "32K\n");
    cache(1, "1\n", "Data\n", "48K\n");
    cache(2, "2\n", "Unified\n", "2048K\n");
    cache(3, "3\n", "Unified\n", "much\n");
    assert_int_equal(cache_size_in(folder.path, 1), 48 << 10);
    assert_int_equal(cache_size_in(folder.path, 2), 2048 << 10);
    assert_int_equal(cache_size_in(folder.path, 3), 0); /* no number */
    assert_int_equal(cache_size_in(folder.path, 4), 0);
}

TEST(blocks_follow_the_caches_within_limits)
{
    product_tune(48 << 10, 2048 << 10);
    assert_int_equal(product_blocks.wide, PRODUCT_WIDE);
    assert_int_equal(product_blocks.tall, PRODUCT_TALL);
    assert_int_equal(product_blocks.panel, 24 << 10);
    product_tune(0, 512 << 10);
    assert_int_equal(product_blocks.wide, 240);
    assert_int_equal(product_blocks.tall, 64);
    assert_int_equal(product_blocks.panel, 24 << 10); /* as before */
    product_tune(0, 1);
    assert_int_equal(product_blocks.wide, 96);
    product_tune(0, (size_t)1 << 40);
    assert_int_equal(product_blocks.wide, PRODUCT_WIDE);
}

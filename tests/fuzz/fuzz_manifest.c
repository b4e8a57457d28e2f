/* fuzz_manifest.c - the manifest of a job's data, as any node may send it. What is accepted is written again as the
 * same text, its names stay below a folder, and its blocks are all bytes of its files, once each. */
#include "nn/data/manifest.h"
#include "tests/fuzz/fuzz.h"

enum { BLOCKS_MAX = 1000 }; /* that are looked at */

struct at {
    const struct manifest *manifest;
    uint64_t offset; /* of all files */
    size_t within;   /* the block */
};

static int
part(void *ctx, size_t file, uint64_t offset, size_t within, size_t size)
{
    struct at *at = ctx;
    const struct manifest_file *of = &at->manifest->file[file];
    assert(file < at->manifest->count);
    assert(of->first + offset == at->offset);
    assert(size > 0 && offset + size <= of->size);
    assert(within == at->within);
    at->offset += size;
    at->within += size;
    return 0;
}

static void
judge_blocks(const struct manifest *m)
{
    struct at at = {.manifest = m};
    for (uint64_t b = 0; b < m->blocks && b < BLOCKS_MAX; b++) {
        at.within = 0;
        assert(manifest_each(m, b, part, &at) == 0);
        assert(at.within == manifest_block_size(m, b));
    }
    assert(m->blocks > BLOCKS_MAX || at.offset == m->size);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct manifest m;
    struct why why = {""};
    int rc = manifest_parse(&m, data, size, &why);
    assert((rc != 0) == (why.line[0] != '\0'));
    if (!rc) {
        uint8_t *text = malloc(size);
        assert(text && manifest_text_size(&m) == size);
        manifest_text(&m, text);
        assert(memcmp(text, data, size) == 0);
        assert(!manifest_unsafe(&m));
        assert((manifest_hash(&m) == 0) == (m.count == 0));
        judge_blocks(&m);
        free(text);
    }
    manifest_fini(&m);
    return 0;
}

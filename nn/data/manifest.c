/* manifest.c - see manifest.h. */
#include "nn/data/manifest.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "nn/data/data_file.h"
#include "proto/bytes.h"

enum { VERSION = 1, HEAD = 32, OF_FILE = 10, FEW = 4096 };
static const char magic[] = "MESHDATA";

/* --- Notes ------------------------------------------------------------------------------------- */

static bool
noted(const struct manifest *m, const char *path)
{
    if (m->count > 0 && strcmp(m->file[m->count - 1].path, path) == 0)
        return true;
    for (size_t i = 0; i < m->count && m->count <= FEW; i++)
        if (strcmp(m->file[i].path, path) == 0)
            return true;
    return false;
}

static bool
notes_grow(struct manifest *m)
{
    size_t room = m->room ? 2 * m->room : 16;
    struct manifest_file *grown = realloc(m->file, room * sizeof *grown);
    if (!grown)
        return false;
    m->file = grown;
    m->room = room;
    return true;
}

void
manifest_note_as(struct manifest *m, const char *name, const char *path)
{
    if (!m || m->full || noted(m, path))
        return;
    struct manifest_file file = {.name = strndup(name, MANIFEST_NAME_MAX + 1),
                                 .path = strdup(path)};
    m->full = !file.name || !file.path || (m->count == m->room && !notes_grow(m));
    if (!m->full) {
        m->file[m->count++] = file;
        return;
    }
    free(file.name);
    free(file.path);
}

void
manifest_note(struct manifest *m, const char *dir, const char *path)
{
    size_t length = dir ? strlen(dir) : 0;
    bool below = length > 0 && strncmp(path, dir, length) == 0 && path[length] == '/';
    const char *name = below ? path + length + 1 : path;
    manifest_note_as(m, strncmp(name, "./", 2) == 0 ? name + 2 : name, path);
}

void
manifest_fini(struct manifest *m)
{
    for (size_t i = 0; i < m->count; i++) {
        free(m->file[i].name);
        free(m->file[i].path);
    }
    free(m->file);
    free(m->block);
    *m = (struct manifest){.count = 0};
}

/* --- Hashes ------------------------------------------------------------------------------------ */

static void
blake2b(uint8_t out[MANIFEST_HASH], const void *data, size_t size)
{
    int ready = sodium_init(); /* also chooses the fastest BLAKE2b, once */
    assert(ready >= 0);
    crypto_generichash(out, MANIFEST_HASH, data, size, NULL, 0);
}

/* The block that is being filled. */
struct filling {
    struct manifest *manifest;
    uint8_t *bytes;
    size_t used;
    uint64_t room; /* of the list of hashes */
};

static int
hash_block(struct filling *f)
{
    struct manifest *m = f->manifest;
    if (m->blocks == f->room) {
        uint64_t room = f->room ? 2 * f->room : 64;
        uint8_t(*grown)[MANIFEST_HASH] = realloc(m->block, room * sizeof *grown);
        if (!grown)
            return -ENOMEM;
        m->block = grown;
        f->room = room;
    }
    blake2b(m->block[m->blocks++], f->bytes, f->used);
    f->used = 0;
    return 0;
}

static int
hash_file(struct filling *f, struct manifest_file *file, struct why *why)
{
    struct data_file *in;
    int rc = data_file_open(&in, file->path, why);
    for (size_t got = 1; !rc && got > 0;) {
        got = MANIFEST_BLOCK - f->used;
        rc = data_file_some(in, f->bytes + f->used, &got);
        f->used += rc ? 0 : got;
        if (!rc && f->used == MANIFEST_BLOCK && (rc = hash_block(f)) != 0)
            why_set(why, "%s: no memory for the hashes of its blocks", file->path);
    }
    file->size = in ? data_file_offset(in) : 0;
    data_file_close(&in);
    return rc;
}

int
manifest_read(struct manifest *m, struct why *why)
{
    struct filling f = {.manifest = m, .bytes = malloc(MANIFEST_BLOCK)};
    int rc = f.bytes && !m->full ? 0 : why_error(why, -ENOMEM, "no memory for the list of files");
    m->size = 0;
    for (size_t i = 0; i < m->count && !rc; i++) {
        m->file[i].first = m->size;
        rc = hash_file(&f, &m->file[i], why);
        m->size += m->file[i].size;
    }
    if (!rc && f.used > 0 && (rc = hash_block(&f)) != 0)
        why_set(why, "no memory for the hashes of the data");
    free(f.bytes);
    return rc;
}

bool
manifest_like(struct manifest *m, const struct manifest *read)
{
    size_t size = (size_t)read->blocks * MANIFEST_HASH;
    bool same = !m->full && m->count == read->count;
    for (size_t i = 0; same && i < m->count; i++)
        same = read->file[i].path && strcmp(m->file[i].path, read->file[i].path) == 0 &&
               strcmp(m->file[i].name, read->file[i].name) == 0;
    void *block = same ? malloc(size + 1) : NULL;
    if (!block)
        return false;
    for (size_t i = 0; i < m->count; i++) {
        m->file[i].first = read->file[i].first;
        m->file[i].size = read->file[i].size;
    }
    m->block = memcpy(block, read->block, size);
    m->blocks = read->blocks;
    m->size = read->size;
    return true;
}

/* --- The text ---------------------------------------------------------------------------------- */

size_t
manifest_text_size(const struct manifest *m)
{
    size_t size = HEAD + (size_t)m->blocks * MANIFEST_HASH;
    for (size_t i = 0; i < m->count; i++)
        size += OF_FILE + strlen(m->file[i].name);
    return size;
}

/* Gives the text to `add`, part by part. */
static void
text_parts(const struct manifest *m, void (*add)(void *ctx, const void *part, size_t size),
           void *ctx)
{
    uint8_t part[HEAD + OF_FILE + MANIFEST_NAME_MAX + 1];
    struct bytes_out out = bytes_out(part, sizeof part);
    bytes_put_raw(&out, magic, sizeof magic - 1);
    bytes_put_u64(&out, VERSION);
    bytes_put_u64(&out, m->count);
    bytes_put_u64(&out, m->size);
    add(ctx, part, bytes_written(&out, part));
    for (size_t i = 0; i < m->count; i++) {
        size_t length = strlen(m->file[i].name);
        out = bytes_out(part, sizeof part);
        bytes_put_u16(&out, (uint16_t)length);
        bytes_put_raw(&out, m->file[i].name, length);
        bytes_put_u64(&out, m->file[i].size);
        assert(!out.overrun);
        add(ctx, part, bytes_written(&out, part));
    }
    add(ctx, m->block, (size_t)m->blocks * MANIFEST_HASH);
}

static void
add_bytes(void *ctx, const void *part, size_t size)
{
    bytes_put_raw(ctx, part, size);
}

static void
add_hash(void *ctx, const void *part, size_t size)
{
    crypto_generichash_update(ctx, part, size);
}

void
manifest_text(const struct manifest *m, uint8_t *text)
{
    struct bytes_out out = bytes_out(text, manifest_text_size(m));
    text_parts(m, add_bytes, &out);
    assert(!out.overrun);
}

bool
manifest_name_safe(const char *name)
{
    for (const char *part = name; part;) {
        size_t length = strcspn(part, "/");
        if (length == 0 || (length == 1 && part[0] == '.') ||
            (length == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        part = part[length] ? part + length + 1 : NULL;
    }
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return false;
    return strlen(name) <= MANIFEST_NAME_MAX;
}

const char *
manifest_unsafe(const struct manifest *m)
{
    for (size_t i = 0; i < m->count; i++)
        if (!manifest_name_safe(m->file[i].name))
            return m->file[i].name;
    return NULL;
}

static int
parse_file(struct bytes_in *in, struct manifest *m, size_t index, struct why *why)
{
    struct manifest_file *file = &m->file[index];
    size_t length = bytes_u16(in);
    const uint8_t *name = bytes_raw(in, length);
    file->first = m->size;
    file->size = bytes_u64(in);
    if (in->overrun)
        return why_error(why, -EBADMSG, "the manifest ends within file %zu", index);
    m->count = index + 1;
    file->name = strndup((const char *)name, length);
    if (!file->name)
        return why_error(why, -ENOMEM, "no memory for the manifest");
    if (strlen(file->name) != length || !manifest_name_safe(file->name))
        return why_error(why, -EBADMSG,
                         "the manifest's file %zu has a name that cannot be written here", index);
    if (file->size > MANIFEST_BYTES_MAX - m->size)
        return why_error(why, -EBADMSG, "the manifest has more than %llu bytes of data",
                         (unsigned long long)MANIFEST_BYTES_MAX);
    m->size += file->size;
    return 0;
}

static int
parse_blocks(struct bytes_in *in, struct manifest *m, uint64_t size, struct why *why)
{
    uint64_t blocks = (size + MANIFEST_BLOCK - 1) / MANIFEST_BLOCK;
    if (m->size != size || bytes_left(in) != blocks * MANIFEST_HASH)
        return why_error(why, -EBADMSG,
                         "the manifest says %llu bytes, its files have %llu, its hashes are for "
                         "%llu blocks",
                         (unsigned long long)size, (unsigned long long)m->size,
                         (unsigned long long)(bytes_left(in) / MANIFEST_HASH));
    m->block = malloc((size_t)blocks * MANIFEST_HASH + 1);
    if (!m->block)
        return why_error(why, -ENOMEM, "no memory for the manifest");
    m->blocks = blocks;
    if (blocks > 0)
        memcpy(m->block, bytes_raw(in, bytes_left(in)), (size_t)blocks * MANIFEST_HASH);
    return 0;
}

int
manifest_parse(struct manifest *m, const uint8_t *text, size_t size, struct why *why)
{
    struct bytes_in in = bytes_in(text, size);
    *m = (struct manifest){.count = 0};
    const uint8_t *start = bytes_raw(&in, sizeof magic - 1);
    uint64_t version = bytes_u64(&in), count = bytes_u64(&in), bytes = bytes_u64(&in);
    if (in.overrun || memcmp(start, magic, sizeof magic - 1) != 0 || version != VERSION)
        return why_error(why, -EBADMSG, "what came is no manifest");
    if (count > MANIFEST_FILES_MAX || count > bytes_left(&in) / OF_FILE)
        return why_error(why, -EBADMSG, "the manifest has %llu files, expected at most %d",
                         (unsigned long long)count, MANIFEST_FILES_MAX);
    m->file = calloc((size_t)count + 1, sizeof *m->file);
    m->room = (size_t)count;
    if (!m->file)
        return why_error(why, -ENOMEM, "no memory for the manifest");
    for (size_t i = 0; i < count; i++) {
        int rc = parse_file(&in, m, i, why);
        if (rc)
            return rc;
    }
    return parse_blocks(&in, m, bytes, why);
}

uint64_t
manifest_hash(const struct manifest *m)
{
    uint8_t hash[MANIFEST_HASH];
    crypto_generichash_state state;
    if (m->count == 0)
        return 0;
    crypto_generichash_init(&state, NULL, 0, sizeof hash);
    text_parts(m, add_hash, &state);
    crypto_generichash_final(&state, hash, sizeof hash);
    struct bytes_in in = bytes_in(hash, sizeof hash);
    return bytes_u64(&in);
}

/* --- Blocks ------------------------------------------------------------------------------------ */

size_t
manifest_block_size(const struct manifest *m, uint64_t block)
{
    uint64_t left = m->size - block * MANIFEST_BLOCK;
    assert(block < m->blocks);
    return left < MANIFEST_BLOCK ? (size_t)left : MANIFEST_BLOCK;
}

bool
manifest_block_good(const struct manifest *m, uint64_t block, const void *data, size_t size)
{
    uint8_t hash[MANIFEST_HASH];
    if (block >= m->blocks || size != manifest_block_size(m, block))
        return false;
    blake2b(hash, data, size);
    return memcmp(hash, m->block[block], sizeof hash) == 0;
}

/* The last file that begins at or before this byte. */
static size_t
file_at(const struct manifest *m, uint64_t offset)
{
    size_t low = 0, high = m->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (m->file[middle].first <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

int
manifest_each(const struct manifest *m, uint64_t block, manifest_use *use, void *ctx)
{
    uint64_t offset = block * MANIFEST_BLOCK;
    size_t left = manifest_block_size(m, block), at = 0;
    int rc = 0;
    for (size_t i = file_at(m, offset); left > 0 && !rc; i++) {
        uint64_t within = offset - m->file[i].first, rest = m->file[i].size - within;
        size_t n = rest < left ? (size_t)rest : left;
        rc = n > 0 ? use(ctx, i, within, at, n) : 0;
        offset += n;
        at += n;
        left -= n;
    }
    return rc;
}

struct manifest_reader {
    const struct manifest *manifest;
    struct data_file *file; /* open; NULL: none */
    size_t index;           /* which one */
    uint8_t *out;           /* of the block that is read */
    struct why why;         /* of the open file */
};

struct manifest_reader *
manifest_reader_new(const struct manifest *manifest)
{
    struct manifest_reader *reader = calloc(1, sizeof *reader);
    if (reader)
        reader->manifest = manifest;
    return reader;
}

void
manifest_reader_free(struct manifest_reader **reader)
{
    if (*reader)
        data_file_close(&(*reader)->file);
    free(*reader);
    *reader = NULL;
}

/* A file that is read from the start to `offset`: only one in gzip has to expand what is before. */
static int
seek(struct manifest_reader *r, size_t index, uint64_t offset)
{
    bool ahead = r->file && r->index == index && data_file_offset(r->file) <= offset;
    int rc = 0;
    if (!ahead) {
        data_file_close(&r->file);
        rc = data_file_open(&r->file, r->manifest->file[index].path, &r->why);
        r->index = index;
    }
    return rc ? rc : data_file_skip(r->file, offset - data_file_offset(r->file));
}

static int
reader_part(void *ctx, size_t index, uint64_t offset, size_t at, size_t size)
{
    struct manifest_reader *r = ctx;
    int rc = seek(r, index, offset);
    rc = rc ? rc : data_file_read(r->file, r->out + at, size);
    if (rc)
        data_file_close(&r->file);
    return rc;
}

int
manifest_reader_block(struct manifest_reader *r, uint64_t block, uint8_t *out, struct why *why)
{
    const struct manifest *m = r->manifest;
    r->out = out;
    int rc = manifest_each(m, block, reader_part, r);
    if (rc) {
        *why = r->why;
        return rc;
    }
    if (manifest_block_good(m, block, out, manifest_block_size(m, block)))
        return 0;
    return why_error(why, -ESTALE, "%s: has changed since the run began",
                     m->file[file_at(m, block * MANIFEST_BLOCK)].path);
}

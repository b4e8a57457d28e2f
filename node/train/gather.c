/* gather.c - see gather.h. */
#include "node/train/gather.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

#include "nn/files/disk.h"

enum { BUFFER = 1 << 18 }; /* elements that are read at a time */

struct gather {
    int fd;
    const struct state *state;
    char dir[DISK_PATH_MAX];
    float buffer[BUFFER];
};

static int
gather_refuse(const struct gather *gather, int rc, const char *what, struct why *why)
{
    return why_error(why, rc, "%s: %s of the last state: %s", gather->dir, what, strerror(-rc));
}

/* These bytes of a block, where they are in it. */
static int
write_extent(struct gather *gather, const uint8_t *block, const struct state_extent *extent,
             struct why *why)
{
    assert(extent->offset + extent->size <= gather->state->size);
    for (size_t done = 0; done < extent->size;) {
        ssize_t n = pwrite(gather->fd, block + extent->offset + done, extent->size - done,
                           (off_t)(extent->offset + done));
        if (n < 0 && errno != EINTR)
            return gather_refuse(gather, -errno, "writing", why);
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int
gather_open(struct gather **out, const char *dir, const struct state *state, struct why *why)
{
    struct state_extent extent[STATE_EXTENTS_MAX];
    struct gather *gather = *out = calloc(1, sizeof *gather);
    if (!gather)
        return why_error(why, -ENOMEM, "%s: not enough memory", dir);
    gather->state = state;
    snprintf(gather->dir, sizeof gather->dir, "%s", dir);
    gather->fd = disk_nameless(dir);
    int rc = gather->fd < 0 ? gather->fd : -posix_fallocate(gather->fd, 0, (off_t)state->size);
    if (rc)
        rc = why_error(why, rc, "%s: no room for a file of %zu bytes, the whole state: %s", dir,
                       state->size, strerror(-rc));
    for (size_t i = state_extents(state, extent); i-- > 0 && !rc;)
        rc = write_extent(gather, state->block, &extent[i], why);
    if (rc)
        gather_close(out);
    return rc;
}

void
gather_close(struct gather **gather)
{
    if (*gather && (*gather)->fd >= 0)
        close((*gather)->fd);
    free(*gather);
    *gather = NULL;
}

int
gather_add(struct gather *gather, const uint8_t *block, const struct state_range *range,
           struct why *why)
{
    int rc = 0;
    for (size_t vector = 0; vector <= gather->state->slot_count + 1 && !rc; vector++) {
        struct state_extent extent = state_part(gather->state, vector, range);
        rc = write_extent(gather, block, &extent, why);
    }
    return rc;
}

/* The next elements of the buffer's size, or what is left of them up to `end`. */
static int
fill_buffer(struct gather *gather, size_t at, size_t end, size_t *size, struct why *why)
{
    *size = end - at < sizeof gather->buffer ? end - at : sizeof gather->buffer;
    ssize_t n = disk_read_at(gather->fd, gather->buffer, *size, at);
    return n == (ssize_t)*size ? 0 : gather_refuse(gather, n < 0 ? -errno : -EIO, "reading", why);
}

static int
sha256_of(struct gather *gather, size_t at, size_t size, char out[65], struct why *why)
{
    crypto_hash_sha256_state hash;
    unsigned char bytes[crypto_hash_sha256_BYTES];
    size_t n;
    int rc = 0;
    crypto_hash_sha256_init(&hash);
    for (size_t end = at + size; at < end && !rc; at += n) {
        rc = fill_buffer(gather, at, end, &n, why);
        if (!rc)
            crypto_hash_sha256_update(&hash, (const void *)gather->buffer, n);
    }
    crypto_hash_sha256_final(&hash, bytes);
    sodium_bin2hex(out, 65, bytes, sizeof bytes);
    return rc;
}

static size_t
weights_offset(const struct state *state)
{
    return (size_t)((const uint8_t *)state_weights(state) - state->block);
}

int
gather_sha256(struct gather *gather, char params[65], char state[65], struct why *why)
{
    const struct state *s = gather->state;
    int rc = sha256_of(gather, weights_offset(s), s->param_count * sizeof(float), params, why);
    return rc ? rc : sha256_of(gather, 0, s->size, state, why);
}

static int
stream_weights(struct gather *gather, struct model_stream *stream, struct why *why)
{
    size_t at = weights_offset(gather->state), n;
    int rc = 0;
    for (size_t end = at + gather->state->param_count * sizeof(float); at < end && !rc; at += n) {
        rc = fill_buffer(gather, at, end, &n, why);
        rc = rc ? rc : model_stream_add(stream, gather->buffer, n / sizeof(float), why);
    }
    return rc;
}

int
gather_write_model(struct gather *gather, const char *path, const struct config *config,
                   const struct job *job, const struct model_file *file, struct why *why)
{
    struct model_stream *stream;
    char sha256[65];
    int rc = model_stream_begin(&stream, path, config, job, file, why);
    if (rc)
        return rc;
    rc = stream_weights(gather, stream, why);
    rc = rc ? rc : model_stream_end(&stream, sha256, why);
    model_stream_drop(&stream);
    return rc;
}

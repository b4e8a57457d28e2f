/* tensorboard.c - see tensorboard.h. */
#include "node/results/tensorboard.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 12, TAIL = 4, VALUE_MAX = 48, PATH_SIZE = 1400, HOST = 64 };
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 }; /* wire types */
enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };

uint32_t
tensorboard_crc(const uint8_t *data, size_t size)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

static size_t
put_number(uint8_t *out, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        out[i] = (uint8_t)(value >> 8 * i);
    return size;
}

static size_t
put_varint(uint8_t *out, uint64_t value)
{
    size_t size = 0;
    for (; value >= 0x80; value >>= 7)
        out[size++] = (uint8_t)(value | 0x80);
    out[size++] = (uint8_t)value;
    return size;
}

/* Number and wire type of a field, each at most 15. */
static size_t
put_key(uint8_t *out, unsigned field, unsigned type)
{
    *out = (uint8_t)(field << 3 | type);
    return 1;
}

static size_t
put_bytes(uint8_t *out, unsigned field, const void *data, size_t size)
{
    size_t used = put_key(out, field, BYTES);
    used += put_varint(out + used, size);
    memcpy(out + used, data, size);
    return used + size;
}

static size_t
put_time(uint8_t *out, double wall_time)
{
    uint64_t bits;
    memcpy(&bits, &wall_time, sizeof bits);
    size_t used = put_key(out, EVENT_TIME, FIXED64);
    return used + put_number(out + used, bits, sizeof bits);
}

static size_t
put_step(uint8_t *out, uint64_t step)
{
    size_t used = put_key(out, EVENT_STEP, VARINT);
    return used + put_varint(out + used, step);
}

/* Around the event of `size` bytes that lies at out + HEAD. */
static size_t
seal(uint8_t *out, size_t size)
{
    put_number(out, size, 8);
    put_number(out + 8, tensorboard_crc(out, 8), 4);
    put_number(out + HEAD + size, tensorboard_crc(out + HEAD, size), 4);
    return HEAD + size + TAIL;
}

size_t
tensorboard_version(uint8_t *out, double wall_time)
{
    static const char version[] = "brain.Event:2";
    size_t size = put_time(out + HEAD, wall_time);
    size += put_bytes(out + HEAD + size, EVENT_VERSION, version, sizeof version - 1);
    return seal(out, size);
}

static size_t
put_value(uint8_t *out, const struct tensorboard_scalar *scalar)
{
    uint8_t value[VALUE_MAX];
    float single = (float)scalar->value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    assert(strlen(scalar->tag) < VALUE_MAX - 16);
    size_t size = put_bytes(value, 1, scalar->tag, strlen(scalar->tag));
    size += put_key(value + size, 2, FIXED32);
    size += put_number(value + size, bits, sizeof bits);
    return put_bytes(out, 1, value, size);
}

size_t
tensorboard_scalars(uint8_t *out, double wall_time, uint64_t step,
                    const struct tensorboard_scalar *scalar, size_t count)
{
    uint8_t summary[TENSORBOARD_SCALARS_MAX * (VALUE_MAX + 2)];
    size_t used = 0, size = put_time(out + HEAD, wall_time);
    assert(count <= TENSORBOARD_SCALARS_MAX);
    for (size_t i = 0; i < count; i++)
        used += isnan(scalar[i].value) ? 0 : put_value(summary + used, &scalar[i]);
    size += put_step(out + HEAD + size, step);
    size += put_bytes(out + HEAD + size, EVENT_SUMMARY, summary, used);
    return seal(out, size);
}

size_t
tensorboard_restart(uint8_t *out, double wall_time, uint64_t step)
{
    static const uint8_t start[] = {1 << 3 | VARINT, 1};
    size_t size = put_time(out + HEAD, wall_time);
    size += put_step(out + HEAD + size, step);
    size += put_bytes(out + HEAD + size, EVENT_SESSION, start, sizeof start);
    return seal(out, size);
}

/* --- the file --- */

struct tensorboard {
    int fd;
};

static double
now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int
append(struct tensorboard *tensorboard, const uint8_t *record, size_t size)
{
    while (size > 0) {
        ssize_t put = write(tensorboard->fd, record, size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put < 0 ? -errno : -EIO;
        record += put;
        size -= (size_t)put;
    }
    return 0;
}

int
tensorboard_open(struct tensorboard **out, const char *dir, struct why *why)
{
    char path[PATH_SIZE], host[HOST] = "node";
    uint8_t record[TENSORBOARD_RECORD_MAX];
    gethostname(host, sizeof host - 1);
    for (char *c = host; *c; c++)
        *c = *c == '/' ? '_' : *c;
    snprintf(path, sizeof path, "%s/events.out.tfevents.%010lld.%s.%ld", dir, (long long)time(NULL),
             host, (long)getpid());
    *out = calloc(1, sizeof **out);
    int rc = *out ? 0 : -ENOMEM;
    if (!rc) {
        (*out)->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        rc = (*out)->fd < 0 ? -errno : 0;
    }
    if (!rc)
        rc = append(*out, record, tensorboard_version(record, now()));
    if (rc) {
        why_set(why, "%s: %s", path, strerror(-rc));
        tensorboard_close(out);
    }
    return rc;
}

void
tensorboard_close(struct tensorboard **tensorboard)
{
    if (*tensorboard && (*tensorboard)->fd >= 0)
        close((*tensorboard)->fd);
    free(*tensorboard);
    *tensorboard = NULL;
}

int
tensorboard_add(struct tensorboard *tensorboard, uint64_t step,
                const struct tensorboard_scalar *scalar, size_t count)
{
    uint8_t record[TENSORBOARD_RECORD_MAX];
    return append(tensorboard, record, tensorboard_scalars(record, now(), step, scalar, count));
}

int
tensorboard_purge(struct tensorboard *tensorboard, uint64_t step)
{
    uint8_t record[TENSORBOARD_RECORD_MAX];
    return append(tensorboard, record, tensorboard_restart(record, now(), step));
}

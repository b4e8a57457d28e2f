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

#include "nn/files/disk.h"
#include "node/base/varint.h"

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

static void
put_u32(struct bytes_out *out, uint32_t value)
{
    bytes_put_u16(out, (uint16_t)value);
    bytes_put_u16(out, (uint16_t)(value >> 16));
}

/* Number and wire type of a field, each at most 15. */
static void
put_key(struct bytes_out *out, unsigned field, unsigned type)
{
    bytes_put_u8(out, (uint8_t)(field << 3 | type));
}

static void
put_bytes(struct bytes_out *out, unsigned field, const void *data, size_t size)
{
    put_key(out, field, BYTES);
    varint_put(out, size);
    bytes_put_raw(out, data, size);
}

static void
put_step(struct bytes_out *out, uint64_t step)
{
    put_key(out, EVENT_STEP, VARINT);
    varint_put(out, step);
}

/* The event of a record, with its time. */
static struct bytes_out
begin_event(uint8_t *record, double wall_time)
{
    uint64_t bits;
    struct bytes_out event = bytes_out(record + HEAD, TENSORBOARD_RECORD_MAX - HEAD - TAIL);
    memcpy(&bits, &wall_time, sizeof bits);
    put_key(&event, EVENT_TIME, FIXED64);
    bytes_put_u64(&event, bits);
    return event;
}

/* What is around the event. Returns the size of the record. */
static size_t
seal(uint8_t *record, const struct bytes_out *event)
{
    size_t size = bytes_written(event, record + HEAD);
    struct bytes_out head = bytes_out(record, HEAD), tail = bytes_out(record + HEAD + size, TAIL);
    assert(!event->overrun);
    bytes_put_u64(&head, size);
    put_u32(&head, tensorboard_crc(record, 8));
    put_u32(&tail, tensorboard_crc(record + HEAD, size));
    return HEAD + size + TAIL;
}

size_t
tensorboard_version(uint8_t *out, double wall_time)
{
    static const char version[] = "brain.Event:2";
    struct bytes_out event = begin_event(out, wall_time);
    put_bytes(&event, EVENT_VERSION, version, sizeof version - 1);
    return seal(out, &event);
}

static void
put_value(struct bytes_out *out, const struct tensorboard_scalar *scalar)
{
    uint8_t value[VALUE_MAX];
    struct bytes_out to = bytes_out(value, sizeof value);
    float single = (float)scalar->value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    put_bytes(&to, 1, scalar->tag, strlen(scalar->tag));
    put_key(&to, 2, FIXED32);
    put_u32(&to, bits);
    assert(!to.overrun);
    put_bytes(out, 1, value, bytes_written(&to, value));
}

size_t
tensorboard_scalars(uint8_t *out, double wall_time, uint64_t step,
                    const struct tensorboard_scalar *scalar, size_t count)
{
    uint8_t summary[TENSORBOARD_SCALARS_MAX * (VALUE_MAX + 2)];
    struct bytes_out event = begin_event(out, wall_time),
                     values = bytes_out(summary, sizeof summary);
    for (size_t i = 0; i < count; i++)
        if (!isnan(scalar[i].value))
            put_value(&values, &scalar[i]);
    put_step(&event, step);
    assert(!values.overrun);
    put_bytes(&event, EVENT_SUMMARY, summary, bytes_written(&values, summary));
    return seal(out, &event);
}

size_t
tensorboard_restart(uint8_t *out, double wall_time, uint64_t step)
{
    static const uint8_t start[] = {1 << 3 | VARINT, 1};
    struct bytes_out event = begin_event(out, wall_time);
    put_step(&event, step);
    put_bytes(&event, EVENT_SESSION, start, sizeof start);
    return seal(out, &event);
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
    return disk_write_all(tensorboard->fd, record, size) ? -errno : 0;
}

int
tensorboard_open(struct tensorboard **out, const char *dir, struct why *why)
{
    char path[PATH_SIZE], host[HOST] = "node";
    uint8_t record[TENSORBOARD_RECORD_MAX];
    gethostname(host, sizeof host - 1);
    for (char *c = host; *c; c++)
        *c = *c == '/' ? '_' : *c;
    snprintf(path, sizeof path, "%s/events.out.tfevents.%010jd.%s.%ld", dir, time(NULL), host,
             (long)getpid());
    *out = calloc(1, sizeof **out);
    int rc = *out ? 0 : -ENOMEM;
    if (!rc) {
        (*out)->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        rc = (*out)->fd < 0 ? -errno : 0;
    }
    rc = rc ? rc : append(*out, record, tensorboard_version(record, now()));
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

/* tensorboard.h - scalars as an event file, for the program TensorBoard.
 *
 * A file is a sequence of records, all numbers little-endian:
 *
 *     8  length n of the data      4  crc of these 8 bytes
 *     n  the data: an Event        4  crc of the data
 *
 * with crc = CRC-32C (Castagnoli) c, masked: (c >> 15 | c << 17) + 0xa282ead8. An Event is a message of protobuf:
 *
 *     1 double wall_time;  2 int64 step;  3 string file_version;  5 Summary summary;  7 SessionLog session_log
 *     Summary:     repeated 1 Value;   Value: 1 string tag, 2 float simple_value
 *     SessionLog:  1 status, of which START = 1
 *
 * Each start of a node writes a file of its own, events.out.tfevents.SECONDS.HOST.PID, whose first event is the version
 * "brain.Event:2". A file that continues a run says START with the first step that it writes again, the one after the
 * checkpoint: TensorBoard then drops what earlier files have from that step on. It says so, too, when steps are
 * withdrawn. */
#ifndef NODE_TENSORBOARD_H
#define NODE_TENSORBOARD_H

#include <stddef.h>
#include <stdint.h>

#include "proto/why.h"

enum { TENSORBOARD_SCALARS_MAX = 8, TENSORBOARD_RECORD_MAX = 512 };

struct tensorboard_scalar {
    const char *tag; /* at most 31 bytes */
    double value;    /* NaN: left out */
};

/* One record into out[TENSORBOARD_RECORD_MAX]; returns its size. The version; `count` scalars of a step, at most
 * TENSORBOARD_SCALARS_MAX; the mark that steps from this one on are written again. */
size_t tensorboard_version(uint8_t *out, double wall_time);
size_t tensorboard_scalars(uint8_t *out, double wall_time, uint64_t step,
                           const struct tensorboard_scalar *scalar, size_t count);
size_t tensorboard_restart(uint8_t *out, double wall_time, uint64_t step);
/* CRC-32C, masked. */
uint32_t tensorboard_crc(const uint8_t *data, size_t size);

struct tensorboard; /* a file being written */

/* A new file in `dir`. Returns 0 or -errno with `why`. */
int tensorboard_open(struct tensorboard **out, const char *dir, struct why *why);
void tensorboard_close(struct tensorboard **tensorboard);
/* Each returns 0 or -errno. */
int tensorboard_add(struct tensorboard *tensorboard, uint64_t step,
                    const struct tensorboard_scalar *scalar, size_t count);
int tensorboard_purge(struct tensorboard *tensorboard, uint64_t step);

#endif

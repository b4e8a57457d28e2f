/* varint.h - the numbers in the records of journals: 7 bits to a byte, the lowest first, bit 7: one more follows. Uses
 * proto/bytes.h. */
#ifndef NODE_VARINT_H
#define NODE_VARINT_H

#include "proto/bytes.h"

static inline void
varint_put(struct bytes_out *out, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        bytes_put_u8(out, (uint8_t)(value | 128));
    bytes_put_u8(out, (uint8_t)value);
}

/* At most `max`; else the record overruns. */
static inline uint64_t
varint_get(struct bytes_in *in, uint64_t max)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint64_t byte = bytes_u8(in), bits = byte & 127;
        in->overrun |= bits << shift >> shift != bits;
        value |= bits << shift;
        if (byte < 128)
            break;
        in->overrun |= shift == 63;
    }
    in->overrun |= value > max;
    return in->overrun ? 0 : value;
}

#endif

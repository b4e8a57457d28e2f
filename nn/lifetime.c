/* lifetime.c - places buffers by their lifetimes, first fit. */
#include "nn/lifetime.h"

#include <stdbool.h>
#include <stdint.h>

static bool
intervals_meet(const struct interval *a, const struct interval *b)
{
    return a->from <= a->to && b->from <= b->to && a->from <= b->to && b->from <= a->to;
}

static bool
live_together(const struct lifetime *a, const struct lifetime *b)
{
    for (int i = 0; i < 4; i++)
        if (intervals_meet(&a->alive[i / 2], &b->alive[i % 2]))
            return true;
    return false;
}

/* The end of one of the first `count` that is in the way of `it` where it is now, or where it is now. */
static size_t
moved(const struct lifetime *it, const struct lifetime *buffer, size_t count)
{
    for (size_t i = 0; i < count; i++, buffer++) {
        bool apart = buffer->at + buffer->bytes <= it->at || it->at + it->bytes <= buffer->at;
        if (!apart && live_together(it, buffer))
            return buffer->at + buffer->bytes;
    }
    return it->at;
}

size_t
lifetime_place(struct lifetime *buffer, size_t count)
{
    size_t end = 0, room = SIZE_MAX / 2;
    for (size_t i = 0, at; i < count; i++) {
        struct lifetime *it = &buffer[i];
        if (it->bytes > room - LIFETIME_ALIGN)
            return SIZE_MAX;
        it->bytes = (it->bytes + LIFETIME_ALIGN - 1) / LIFETIME_ALIGN * LIFETIME_ALIGN;
        room -= it->bytes;
        for (it->at = 0; (at = moved(it, buffer, i)) != it->at;)
            it->at = at;
        end = it->at + it->bytes > end ? it->at + it->bytes : end;
    }
    return end;
}

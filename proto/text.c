/* text.c - printable UTF-8, character by character. */
#include "proto/text.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

static bool
is_tail(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

/* How many bytes the first one announces, and the smallest code that needs so many. */
static size_t
announced(uint8_t first, uint32_t *smallest)
{
    size_t size = first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    *smallest = least[size];
    return first < 0xf8 ? size : 0;
}

size_t
text_character(const char *text, size_t left)
{
    if (left == 0)
        return 0;
    uint8_t first = (uint8_t)text[0];
    uint32_t smallest;
    size_t size = announced(first, &smallest);
    if (size == 0 || size > left)
        return 0;
    uint32_t code = size == 1 ? first : first & (0x7fU >> size);
    for (size_t i = 1; i < size; i++) {
        if (!is_tail((uint8_t)text[i]))
            return 0;
        code = code << 6 | ((uint8_t)text[i] & 0x3f);
    }
    bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    bool surrogate = code >= 0xd800 && code < 0xe000;
    return code < smallest || code > 0x10ffff || control || surrogate ? 0 : size;
}

bool
text_printable(const char *text, size_t size)
{
    for (size_t at = 0, step; at < size; at += step) {
        step = text_character(text + at, size - at);
        if (step == 0)
            return false;
    }
    return true;
}

static bool
is_host_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == ':' || c == '-' || c == '_' || c == '%';
}

bool
text_host(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!is_host_byte(text[i]))
            return false;
    return size > 0;
}

void
text_copy(char *to, size_t to_size, const char *from)
{
    assert(to_size > 0);
    size_t left = strlen(from), room = to_size - 1;
    while (left > 0) {
        size_t step = text_character(from, left);
        size_t taken = step ? step : 1;
        if (taken > room)
            break;
        if (step)
            memcpy(to, from, step);
        else
            *to = '?';
        to += taken, room -= taken;
        from += taken, left -= taken;
    }
    *to = 0;
}

static size_t
digits(const char *text, size_t size, size_t *i)
{
    size_t from = *i;
    while (*i < size && text[*i] >= '0' && text[*i] <= '9')
        ++*i;
    return *i - from;
}

bool
text_is_number(const char *text, size_t size)
{
    size_t i = size > 0 && (text[0] == '+' || text[0] == '-');
    size_t found = digits(text, size, &i);
    if (i < size && text[i] == '.') {
        i++;
        found += digits(text, size, &i);
    }
    if (!found)
        return false;
    if (i < size && (text[i] == 'e' || text[i] == 'E')) {
        i++;
        i += i < size && (text[i] == '+' || text[i] == '-');
        if (!digits(text, size, &i))
            return false;
    }
    return i == size;
}

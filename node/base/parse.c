/* parse.c - what people type, read strictly; what others sent, shown safely. See parse.h. */
#include "node/base/parse.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/text.h"

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t
digits(const char *text)
{
    size_t n = 0;
    while (is_digit(text[n]))
        n++;
    return n;
}

int
parse_uint(const char *text, uint64_t *out)
{
    size_t n = digits(text);
    if (n == 0 || text[n] != '\0' || (text[0] == '0' && n > 1))
        return -EINVAL;
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned digit = (unsigned)(text[i] - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return -ERANGE;
        value = 10 * value + digit;
    }
    *out = value;
    return 0;
}

/* strtod with a point, whatever the locale of the thread says. */
static double
real_value(const char *text)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t before = plain ? uselocale(plain) : (locale_t)0;
    double value = strtod(text, NULL);
    if (plain) {
        uselocale(before);
        freelocale(plain);
    }
    return value;
}

int
parse_real(const char *text, double *out)
{
    if (*text == '+' || !text_is_number(text, strlen(text)))
        return -EINVAL;
    double value = real_value(text);
    if (!isfinite(value))
        return -ERANGE;
    *out = value;
    return 0;
}

void
parse_real_format(char out[PARSE_REAL_MAX], double value, bool single)
{
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(out, PARSE_REAL_MAX, "%.*g", precision, value);
        char *comma = strchr(out, ',');
        if (comma)
            *comma = '.';
        double back = real_value(out);
        if (single ? (float)back == (float)value : back == value)
            return;
    }
}

static int
port_read(const char *text, uint16_t *out)
{
    uint64_t port;
    if (parse_uint(text, &port) || port < 1 || port > 65535)
        return -EINVAL;
    *out = (uint16_t)port;
    return 0;
}

bool
parse_name_char(char c)
{
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return letter || is_digit(c) || c == '.' || c == '-' || c == '_';
}

/* A DNS name or an IPv4 address, 1..253 bytes; nothing else reaches a resolver. */
static bool
host_valid(const char *host, size_t size)
{
    if (size < 1 || size > 253 || host[0] == '-' || host[0] == '.')
        return false;
    for (size_t i = 0; i < size; i++)
        if (!parse_name_char(host[i]))
            return false;
    return true;
}

static bool
v6_valid(const char *host)
{
    char address[PROTO_HOST_MAX];
    snprintf(address, sizeof address, "%s", host);
    char *scope = strchr(address, '%');
    if (scope) {
        *scope++ = '\0';
        if (!host_valid(scope, strlen(scope)))
            return false;
    }
    struct in6_addr ignored;
    return inet_pton(AF_INET6, address, &ignored) == 1;
}

int
parse_endpoint(const char *text, struct proto_endpoint *out)
{
    struct proto_endpoint got = {0};
    bool bracket = text[0] == '[';
    const char *end = bracket ? strchr(text, ']') : strchr(text, ':');
    if (!end)
        return -EINVAL;
    const char *host = text + bracket, *port = end + bracket;
    size_t size = (size_t)(end - host);
    if (*port != ':' || size >= sizeof got.host || port_read(port + 1, &got.control_port))
        return -EINVAL;
    memcpy(got.host, host, size);
    if (bracket ? !v6_valid(got.host) : !host_valid(got.host, size))
        return -EINVAL;
    *out = got;
    return 0;
}

const char *
parse_endpoint_text(const struct proto_endpoint *at, char out[PROTO_WHO_MAX])
{
    bool v6 = strchr(at->host, ':') != NULL;
    snprintf(out, PROTO_WHO_MAX, v6 ? "[%s]:%u" : "%s:%u", at->host, at->control_port);
    return out;
}

/* Line separators, marks that turn the direction of writing, byte order mark: valid, but not plain text. */
static bool
deceptive(const char *text, size_t size)
{
    uint32_t bytes = 0;
    for (size_t i = 0; i < size; i++)
        bytes = bytes << 8 | (unsigned char)text[i];
    return (bytes >= 0xe280a8 && bytes <= 0xe280ae) || (bytes >= 0xe281a6 && bytes <= 0xe281a9) ||
           bytes == 0xefbbbf;
}

size_t
parse_char(const char *text)
{
    size_t n = text_character(text, strnlen(text, 4));
    return deceptive(text, n) ? 0 : n;
}

bool
parse_printable(const char *text)
{
    while (*text) {
        size_t n = parse_char(text);
        if (n == 0)
            return false;
        text += n;
    }
    return true;
}

size_t
parse_escape(char *out, size_t size, const char *text)
{
    assert(size > 0);
    size_t used = 0;
    while (*text) {
        size_t n = parse_char(text), room = size - 1 - used;
        if (room < (n ? n : 4))
            break;
        if (n)
            memcpy(out + used, text, n);
        else
            snprintf(out + used, room + 1, "\\x%02x", (unsigned char)*text);
        used += n ? n : 4;
        text += n ? n : 1;
    }
    out[used] = '\0';
    return used;
}

int
parse_refuse(const char *path, int error, const char *reason, struct why *why)
{
    char shown[256];
    parse_escape(shown, sizeof shown, path);
    return why_error(why, -error, "%s: %s", shown, reason);
}

static unsigned
least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* d[i][j] = edits from the first i bytes of a to the first j of b; rows i-2, i-1 and i are kept. */
unsigned
parse_distance(const char *a, const char *b)
{
    unsigned rows[3][PARSE_DISTANCE_MAX + 1];
    unsigned *older = rows[0], *old = rows[1], *now = rows[2];
    size_t n = strnlen(a, PARSE_DISTANCE_MAX), m = strnlen(b, PARSE_DISTANCE_MAX);
    for (size_t j = 0; j <= m; j++)
        now[j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        unsigned *spare = older;
        older = old, old = now, now = spare;
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned change = old[j - 1] + (a[i - 1] != b[j - 1]);
            now[j] = least(change, 1 + least(old[j], now[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], older[j - 2] + 1);
        }
    }
    return now[m];
}

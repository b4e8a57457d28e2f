/* parse.h - reads strictly what people type, and shows safely what others sent.
 *
 * Numbers are read in the same way in every locale, and must be the whole text: no sign, blank, hexadecimal,
 * infinity, digit group or trailing character is accepted.
 *
 * Uses libc and proto/text.h. No I/O, no allocation. */
#ifndef NODE_PARSE_H
#define NODE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/proto.h"
#include "proto/why.h"

enum { PARSE_REAL_MAX = 32 };

/* Decimal digits without leading zeros. Returns 0, -EINVAL, or -ERANGE above 2^64-1. */
int parse_uint(const char *text, uint64_t *out);

/* `[-]digits[.digits][e[+-]digits]`. Returns 0, -EINVAL, or -ERANGE if it is not a finite double. */
int parse_real(const char *text, double *out);

/* Shortest decimal form from which parse_real gets the same number; `single`: the same float. */
void parse_real_format(char out[PARSE_REAL_MAX], double value, bool single);

/* `host:port`, `1.2.3.4:port` or `[v6]:port`; port 1..65535. Returns 0 or -EINVAL. */
int parse_endpoint(const char *text, struct proto_endpoint *out);
/* The text that it reads. Returns `out`. */
const char *parse_endpoint_text(const struct proto_endpoint *at, char out[PROTO_WHO_MAX]);

/* Valid UTF-8 without control characters and line separators. */
bool parse_printable(const char *text);

/* May be in a name that becomes part of a path: letter, digit, dot, dash, underscore. */
bool parse_name_char(char c);

/* Copies to `out[size]`, cut at a character; what is not printable becomes \xNN. Returns the length. */
size_t parse_escape(char *out, size_t size, const char *text);

/* Writes "PATH: reason", printable. Returns -error. */
int parse_refuse(const char *path, int error, const char *reason, struct why *why);

/* Bytes of the printable character at `text`; 0 if there is none. */
size_t parse_char(const char *text);

/* Number of edits (insert, delete, change, swap neighbours) from a to b; Damerau, CACM 1964. Only the first
 * PARSE_DISTANCE_MAX bytes of long texts are compared. */
unsigned parse_distance(const char *a, const char *b);

enum { PARSE_DISTANCE_MAX = 64 };

#endif

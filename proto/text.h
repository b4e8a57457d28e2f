/* text.h - the only text that may travel: well-formed UTF-8 without control characters.
 *
 * Names and reasons of other nodes end up on terminals, in logs and in JSON, so they are checked once, at
 * the wire (Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF; no C0, DEL or
 * C1 controls). Uses nothing. */
#ifndef PROTO_TEXT_H
#define PROTO_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the printable character at text[0..left), 1..4; 0 if there is none. */
size_t text_character(const char *text, size_t left);
bool text_printable(const char *text, size_t size);
/* Name or address of a host: letters, digits, and . : - _ % only (IPv6 may have a zone); not empty. */
bool text_host(const char *text, size_t size);
/* Copy `from` into to[to_size], cut at a whole character, every bad byte replaced by '?'. */
void text_copy(char *to, size_t to_size, const char *from);

#endif

/* text.h - the only text that messages may contain: well-formed UTF-8 without control characters.
 *
 * Names and reasons of other nodes appear on terminals, in logs and in JSON. So they are checked once, when they
 * arrive (Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF; no C0, DEL or C1
 * controls). Uses nothing. */
#ifndef PROTO_TEXT_H
#define PROTO_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the printable character at text[0..left): 1..4, or 0 if there is none. */
size_t text_character(const char *text, size_t left);
bool text_printable(const char *text, size_t size);
/* True for a name or address of a host: letters, digits, and . : - _ % only (IPv6 may have a zone); not empty. */
bool text_host(const char *text, size_t size);
/* Copies `from` into to[to_size]. Cuts at a whole character and replaces every bad byte by '?'. */
void text_copy(char *to, size_t to_size, const char *from);
/* Is all of it a number, [+-] (digits [. digits*] | . digits) [(e|E) [+-] digits]? */
bool text_is_number(const char *text, size_t size);

#endif

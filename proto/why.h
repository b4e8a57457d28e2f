/* why.h - one line that says why something failed, for a person who can fix it.
 *
 *     struct why why;
 *     if (config_load(&config, path, &why))             // int config_load(..., struct why *why)
 *         fprintf(stderr, "meshnode: %s\n", why.line);
 *
 *     if (port > 65535)
 *         return why_error(why, -EINVAL, "port = %u, expected 1..65535", port);
 *
 * The line names file, key, peer or address, the value, and what was expected. Who fails writes it, each caller passes
 * it on, and where the error stops it is logged once. After success it is undefined unless a function says otherwise.
 * `why` may be NULL where nobody wants the line. Uses nothing. */
#ifndef PROTO_WHY_H
#define PROTO_WHY_H

#include <stdarg.h>

enum { WHY_SIZE = 2048 }; /* with the final 0; a longer line is cut */

struct why {
    char line[WHY_SIZE];
};

__attribute__((format(printf, 2, 3))) void why_set(struct why *why, const char *format, ...);
/* The same, and returns `error`, a negative errno. */
__attribute__((format(printf, 3, 4))) int why_error(struct why *why, int error, const char *format,
                                                    ...);
/* More of the line. */
__attribute__((format(printf, 2, 3))) void why_append(struct why *why, const char *format, ...);
/* "name: " and the rest, for functions that have arguments like these themselves. Returns `error`. */
__attribute__((format(printf, 4, 0))) int why_verror(struct why *why, int error, const char *name,
                                                     const char *format, va_list args);

#endif

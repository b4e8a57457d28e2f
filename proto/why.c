/* why.c - writes the line. */
#include "proto/why.h"

#include <stdio.h>
#include <string.h>

static void __attribute__((format(printf, 3, 0)))
write_at(struct why *why, size_t used, const char *format, va_list args)
{
    if (why)
        vsnprintf(why->line + used, sizeof why->line - used, format, args);
}

void
why_set(struct why *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_at(why, 0, format, args);
    va_end(args);
}

int
why_error(struct why *why, int error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_at(why, 0, format, args);
    va_end(args);
    return error;
}

void
why_append(struct why *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_at(why, why ? strlen(why->line) : 0, format, args);
    va_end(args);
}

int
why_verror(struct why *why, int error, const char *name, const char *format, va_list args)
{
    why_set(why, "%s: ", name);
    write_at(why, why ? strlen(why->line) : 0, format, args);
    return error;
}

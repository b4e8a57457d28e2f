/* verify_find.c - findings, one line each; and the lines of metrics.jsonl. See verify_folders.h. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "nn/files/disk.h"
#include "node/base/parse.h"
#include "node/commands/verify_folders.h"

enum { FINDINGS_SHOWN = 100, SHOWN_SIZE = 1024 };

__attribute__((format(printf, 4, 0))) static void
say(const struct verify_folders *folders, const char *dir, const char *file, const char *format,
    va_list args)
{
    char path[DISK_PATH_MAX], shown[SHOWN_SIZE];
    snprintf(path, sizeof path, "%s%s%s", dir, file[0] ? "/" : "", file);
    parse_escape(shown, sizeof shown, path);
    fprintf(folders->out, "%s: ", shown);
    vfprintf(folders->out, format, args);
    fputc('\n', folders->out);
}

void
verify_say(const struct verify_folders *folders, const char *dir, const char *file,
           const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(folders, dir, file, format, args);
    va_end(args);
}

void
verify_find(struct verify_folders *folders, const char *dir, const char *file, const char *format,
            ...)
{
    va_list args;
    va_start(args, format);
    if (folders->findings++ < FINDINGS_SHOWN)
        say(folders, dir, file, format, args);
    va_end(args);
}

void
verify_amount(FILE *out, const char *before, uint64_t count, const char *one, const char *many)
{
    fprintf(out, "%s%ju %s", before, count, count == 1 ? one : many);
}

void
verify_find_why(struct verify_folders *folders, const char *dir, const char *file,
                const struct why *why)
{
    char path[DISK_PATH_MAX];
    int size = snprintf(path, sizeof path, "%s/%s: ", dir, file);
    bool named = size < (int)sizeof path && strncmp(why->line, path, (size_t)size) == 0;
    verify_find(folders, dir, file, "%s", why->line + (named ? size : 0));
}

/* One line into text, without its end. 0, 1 when the file ended before the line did, 2 at the end of the file,
 * -EMSGSIZE when it is too long, which skips it. */
static int
next_line(FILE *file, char text[VERIFY_LINE_MAX], size_t *size)
{
    int c;
    *size = 0;
    while ((c = getc(file)) != EOF && c != '\n')
        if ((*size)++ < VERIFY_LINE_MAX)
            text[*size - 1] = (char)c;
    if (c == EOF)
        return *size ? 1 : 2;
    return *size > VERIFY_LINE_MAX ? -EMSGSIZE : 0;
}

bool
verify_each_line(struct verify_folders *folders, const char *dir, verify_visit *visit, void *ctx)
{
    char path[DISK_PATH_MAX], text[VERIFY_LINE_MAX], name[40];
    struct verify_line said;
    struct why why = {"out of memory"};
    uint64_t bytes;
    size_t size;
    snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
    int rc = disk_open(path, &bytes, &why);
    FILE *file = rc < 0 ? NULL : fdopen(rc, "r");
    if (!file) {
        verify_find_why(folders, dir, "metrics.jsonl", &why);
        return false;
    }
    for (uint64_t line = 1; (rc = next_line(file, text, &size)) <= 0; line++) {
        snprintf(name, sizeof name, "metrics.jsonl:%ju", line);
        if (rc < 0)
            verify_find(folders, dir, name, "has more than %d bytes", VERIFY_LINE_MAX);
        else if ((rc = verify_read_line(&said, text, size, &why)) < 0)
            verify_find(folders, dir, name, "%s", why.line);
        else
            visit(ctx, &said, line);
    }
    fclose(file);
    return rc == 1;
}

bool
verify_folders_verdict(const struct verify_folders *folders)
{
    uint64_t findings = folders->findings;
    if (findings > FINDINGS_SHOWN)
        verify_amount(folders->out, "and ", findings - FINDINGS_SHOWN, "finding more\n",
                      "findings more\n");
    if (findings)
        verify_amount(folders->out, "NOT proved: ", findings, "finding", "findings");
    return findings != 0;
}

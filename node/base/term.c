/* term.c - lines of text, and on a terminal one live line. See term.h.
 *
 * A live line is "\r", the text, "\033[K" (erase to the end of the line). It is cut to the width of the
 * terminal, asked for at each redraw, because a line that wraps cannot be drawn over. */
#include "node/base/term.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "nn/files/disk.h"
#include "node/base/parse.h"
#include "proto/why.h"

enum { WRAP_MIN = 30 }; /* columns: narrower terminals break lines as they like */

/* Whether a line can be written without waiting. */
static bool
ready(const struct term *term)
{
    struct pollfd poll_fd = {.fd = term->fd, .events = POLLOUT};
    return poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & POLLOUT);
}

void
term_init(struct term *term, int fd)
{
    const char *kind = getenv("TERM");
    bool dumb = !kind || strcmp(kind, "dumb") == 0;
    const char *plain = getenv("NO_COLOR"); /* no-color.org: set and not empty */
    *term = (struct term){.fd = fd, .tty = isatty(fd) && !dumb};
    term->colour = term->tty && !(plain && plain[0]);
}

static unsigned
columns(const struct term *term)
{
    struct winsize size;
    bool known = ioctl(term->fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    return known ? size.ws_col - 1U : 79;
}

size_t
term_cut(const char *line, unsigned columns_max)
{
    size_t used = 0;
    for (unsigned i = 0; i < columns_max && line[used]; i++) {
        size_t n = parse_char(line + used);
        used += n ? n : 1;
    }
    return used;
}

size_t
term_fit(const char *line, unsigned columns_max)
{
    size_t used = term_cut(line, columns_max), end = used;
    if (!line[used])
        return used;
    while (end > 0 && !(line[end] == ' ' && line[end + 1] == ' '))
        end--;
    return end > 0 ? end : used;
}

static void
draw(struct term *term)
{
    char out[TERM_LINE_MAX + 8];
    int size = snprintf(out, sizeof out, "\r%.*s\033[K", (int)term_fit(term->live, columns(term)),
                        term->live);
    (void)disk_write_all(term->fd, out, (size_t)size);
    term->drawn = true;
}

void
term_live(struct term *term, uint64_t now_ms, const char *line)
{
    if (!term->tty)
        return;
    parse_escape(term->live, sizeof term->live, line);
    if (now_ms < term->next_ms || !ready(term))
        return;
    term->next_ms = now_ms + TERM_REDRAW_MS;
    draw(term);
}

void
term_hide(struct term *term)
{
    if (term->drawn && ready(term))
        (void)disk_write_all(term->fd, "\r\033[K", 4);
    term->drawn = false;
}

static unsigned
width_of(const char *text, size_t size)
{
    unsigned width = 0;
    for (size_t used = 0; used < size; width++) {
        size_t n = parse_char(text + used);
        used += n ? n : 1;
    }
    return width;
}

size_t
term_wrap(const char *text, unsigned column, unsigned columns_max, char *out, size_t size)
{
    size_t used = 0;
    bool begun = false; /* the present line has a word */
    out[0] = '\0';
    while (*text && used < size) {
        size_t blanks = strspn(text, " "), word = strcspn(text + blanks, " ");
        unsigned width = width_of(text + blanks, word);
        bool breaks = begun && column + blanks + width > columns_max;
        if (breaks)
            used += (size_t)snprintf(out + used, size - used, "\n  %.*s", (int)word, text + blanks);
        else
            used += (size_t)snprintf(out + used, size - used, "%.*s", (int)(blanks + word), text);
        column = (breaks ? 2 : column + (unsigned)blanks) + width;
        begun = true;
        text += blanks + word;
    }
    return used < size ? used : size - 1;
}

/* A line with something before it that is not escaped, and that is `column` characters wide. */
static void
put_line(struct term *term, const char *label, unsigned column, const char *line)
{
    char text[TERM_LINE_MAX], wrapped[TERM_LINE_MAX + 128], out[TERM_LINE_MAX + 256];
    if (!ready(term)) {
        term->dropped++;
        return;
    }
    parse_escape(text, sizeof text - strlen(label), line);
    size_t used = (size_t)snprintf(out, sizeof out, "%s", term->drawn ? "\r\033[K" : "");
    if (term->dropped > 0)
        used += (size_t)snprintf(out + used, sizeof out - used, "(%u lines were not shown)\n",
                                 term->dropped);
    if (term->tty && columns(term) >= WRAP_MIN)
        term_wrap(text, column, columns(term), wrapped, sizeof wrapped);
    else
        snprintf(wrapped, sizeof wrapped, "%s", text);
    used += (size_t)snprintf(out + used, sizeof out - used, "%s%s\n", label, wrapped);
    term->dropped = 0;
    (void)disk_write_all(term->fd, out, used);
    if (term->drawn)
        draw(term);
}

void
term_line(struct term *term, const char *line)
{
    put_line(term, "", 0, line);
}

void
term_warn(struct term *term, bool error, const char *line)
{
    unsigned column = error ? 7 : 9;
    if (term->colour)
        put_line(term, error ? "\033[31merror:\033[0m " : "\033[33mwarning:\033[0m ", column, line);
    else
        put_line(term, error ? "error: " : "warning: ", column, line);
}

void
term_time(char out[TERM_TIME], double seconds)
{
    unsigned long long s = seconds < 3.6e9 ? (unsigned long long)(seconds + 0.5) : 3600000000ULL;
    if (s >= 3600)
        snprintf(out, TERM_TIME, "%llu:%02llu:%02llu", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, TERM_TIME, "%llu:%02llu", s / 60, s % 60);
}

void
term_fail(const char *format, ...)
{
    static const char label[] = "meshnode: ";
    struct term term;
    struct why why;
    char wrapped[sizeof why.line + 256];
    va_list args;
    va_start(args, format);
    vsnprintf(why.line, sizeof why.line, format, args);
    va_end(args);
    term_init(&term, STDERR_FILENO);
    bool wraps = term.tty && columns(&term) >= WRAP_MIN;
    if (wraps)
        term_wrap(why.line, sizeof label - 1, columns(&term), wrapped, sizeof wrapped);
    fprintf(stderr, "%s%s\n", label, wraps ? wrapped : why.line);
}

void
term_fini(struct term *term)
{
    term_hide(term);
    term->live[0] = '\0';
}

/* term.h - lines of text, and on a terminal one live line below them that is redrawn in place.
 *
 *     struct term term;
 *     term_init(&term, STDOUT_FILENO);
 *     term_live(&term, now_ms, "step 12  loss 0.31");   // terminal only, at most ten times a second; term_fit
 *     term_line(&term, "epoch 1 done");                 // above the live line
 *     term_fini(&term);                                 // removes the live line: what was done is said in a line
 *
 * On a terminal a line that is too long goes on in the next one, two blanks in; no word is cut.
 * A reader that is stopped never stops the program: a line that would block is dropped, and the next line that gets
 * through says how many were dropped. Everything is escaped (parse.h). Not thread-safe. */
#ifndef NODE_TERM_H
#define NODE_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TERM_LINE_MAX = 512, TERM_REDRAW_MS = 100, TERM_TIME = 24 };

struct term {
    int fd;
    bool tty;         /* the line can be redrawn */
    bool colour;      /* of warnings; not where the variable NO_COLOR is set */
    bool drawn;       /* a live line is on the screen */
    uint64_t next_ms; /* no redraw before this time */
    unsigned dropped; /* lines dropped since the last one that got through */
    char live[TERM_LINE_MAX];
};

/* `fd` is borrowed. */
void term_init(struct term *term, int fd);
void term_fini(struct term *term);
void term_live(struct term *term, uint64_t now_ms, const char *line);
void term_line(struct term *term, const char *line);
/* The same, after "warning: " or "error: ". */
void term_warn(struct term *term, bool error, const char *line);
/* "meshnode: " and why the program ends, or what who reads its output must know, on standard error. On a terminal no
 * word is cut. Waits for the reader. */
__attribute__((format(printf, 1, 2))) void term_fail(const char *format, ...);
/* Breaks `text` (UTF-8) at blanks into lines of `columns` characters, the first of which begins at `column`. Later ones
 * begin with two blanks. A word that is longer than a line stays whole. Returns the number of bytes in `out`. */
size_t term_wrap(const char *text, unsigned column, unsigned columns, char *out, size_t size);
/* "1:02:03" or "2:03" */
void term_time(char out[TERM_TIME], double seconds);
/* Removes the live line from the screen, so that something else may write there. */
void term_hide(struct term *term);

/* Cuts `line` (UTF-8) to `columns` characters. Returns the number of bytes kept. */
size_t term_cut(const char *line, unsigned columns);
/* The same, where two blanks end a field: whole fields are kept, as long as the first one fits. */
size_t term_fit(const char *line, unsigned columns);

#endif

/* test_term.c - what reaches a terminal, a pipe, and a reader that is stopped. */
#define _GNU_SOURCE /* pseudo-terminals */
#include "node/base/term.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "tests/support/test.h"

struct screen {
    int master, slave;
    struct term term;
    char text[8192];
};

static void
open_screen(struct screen *screen, unsigned short columns)
{
    struct winsize size = {.ws_row = 24, .ws_col = columns};
    struct termios mode;
    setenv("TERM", "xterm", 1);
    screen->master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    assert_true(screen->master >= 0);
    assert_int_equal(grantpt(screen->master), 0);
    assert_int_equal(unlockpt(screen->master), 0);
    screen->slave = open(ptsname(screen->master), O_RDWR | O_NOCTTY);
    assert_true(screen->slave >= 0);
    assert_int_equal(ioctl(screen->slave, TIOCSWINSZ, &size), 0);
    assert_int_equal(tcgetattr(screen->slave, &mode), 0);
    mode.c_oflag &= (tcflag_t)~OPOST;
    assert_int_equal(tcsetattr(screen->slave, TCSANOW, &mode), 0);
    term_init(&screen->term, screen->slave);
}

static void
close_screen(struct screen *screen)
{
    close(screen->master);
    close(screen->slave);
}

/* What was written since the last look is `expected`. The system may hand it over in pieces. */
static void
sees(struct screen *screen, const char *expected)
{
    size_t size = strlen(expected), used = 0;
    struct pollfd more = {.fd = screen->master, .events = POLLIN};
    while (used < size && poll(&more, 1, 60000) == 1) {
        ssize_t got = read(screen->master, screen->text + used, sizeof screen->text - 1 - used);
        assert_true(got > 0);
        used += (size_t)got;
    }
    ssize_t rest = read(screen->master, screen->text + used, sizeof screen->text - 1 - used);
    screen->text[used + (rest > 0 ? (size_t)rest : 0)] = '\0';
    assert_string_equal(screen->text, expected);
}

TEST(a_terminal_gets_one_line_that_is_drawn_over)
{
    OWNED(close_screen) struct screen screen;
    open_screen(&screen, 80);
    assert_true(screen.term.tty);
    term_live(&screen.term, 1000, "step 1");
    sees(&screen, "\rstep 1\033[K");
    term_line(&screen.term, "epoch 1 done");
    sees(&screen, "\r\033[Kepoch 1 done\n\rstep 1\033[K");
    term_hide(&screen.term);
    sees(&screen, "\r\033[K");
    term_line(&screen.term, "alone");
    sees(&screen, "alone\n");
    term_live(&screen.term, 2000, "step 2");
    sees(&screen, "\rstep 2\033[K");
    term_fini(&screen.term);
    sees(&screen, "\r\033[K");
    term_fini(&screen.term);
    sees(&screen, "");
}

TEST(it_is_redrawn_at_most_ten_times_a_second)
{
    OWNED(close_screen) struct screen screen;
    open_screen(&screen, 80);
    term_live(&screen.term, 1000, "a");
    term_live(&screen.term, 1099, "b");
    sees(&screen, "\ra\033[K");
    term_live(&screen.term, 1100, "c");
    sees(&screen, "\rc\033[K");
    term_live(&screen.term, 1101, "last");
    term_line(&screen.term, "line");
    sees(&screen, "\r\033[Kline\n\rlast\033[K");
}

TEST(why_the_program_ends_is_wrapped_between_words)
{
    static const char said[] = "runs/digits: holds an unfinished run of another job; --fresh "
                               "begins again, --out takes another folder";
    struct screen screen;
    FILE *file = tmpfile();
    char text[256] = "";
    int before = dup(STDERR_FILENO);
    assert_non_null(file);
    open_screen(&screen, 80);
    dup2(screen.slave, STDERR_FILENO);
    term_fail("%s", said);
    dup2(fileno(file), STDERR_FILENO);
    term_fail("%s", said);
    dup2(before, STDERR_FILENO);
    sees(&screen, "meshnode: runs/digits: holds an unfinished run of another job; --fresh begins\n"
                  "  again, --out takes another folder\n");
    assert_true(pread(fileno(file), text, sizeof text - 1, 0) > 0);
    assert_string_equal(text, "meshnode: runs/digits: holds an unfinished run of another job; "
                              "--fresh begins again, --out takes another folder\n");
    fclose(file);
    close(before);
    close_screen(&screen);
}

TEST(it_never_wraps)
{
    OWNED(close_screen) struct screen screen;
    open_screen(&screen, 8);
    term_live(&screen.term, 1, "grüße, world");
    sees(&screen, "\rgrüße, \033[K");
    assert_int_equal(term_cut("äöü", 2), 4);
    assert_int_equal(term_cut("ab", 9), 2);
}

TEST(a_narrow_terminal_shows_fewer_fields)
{
    OWNED(close_screen) struct screen screen;
    open_screen(&screen, 24);
    term_live(&screen.term, 1, "step 12/300  loss 0.31  accuracy 91.4 %");
    sees(&screen, "\rstep 12/300  loss 0.31\033[K");
    assert_int_equal(term_fit("ab  cd  ef", 10), 10);
    assert_int_equal(term_fit("ab  cd  ef", 9), 6);
    assert_int_equal(term_fit("ab  cd  ef", 6), 6);
    assert_int_equal(term_fit("ab  cd  ef", 5), 2);
    assert_int_equal(term_fit("ab  cd  ef", 2), 2);
    assert_int_equal(term_fit("ab  cd  ef", 1), 1);
    assert_int_equal(term_fit("\xc3\xa4\xc3\xb6  cd", 3), 4);
    assert_int_equal(term_fit("", 3), 0);
}

TEST(warnings_have_a_colour_on_a_terminal_that_wants_it)
{
    OWNED(close_screen) struct screen screen;
    struct term *term = &screen.term;
    open_screen(&screen, 80);
    setenv("NO_COLOR", "", 1);
    term_init(term, screen.slave);
    term_warn(term, false, "a\033[2J");
    sees(&screen, "\033[33mwarning:\033[0m a\\x1b[2J\n");
    term_warn(term, true, "b");
    sees(&screen, "\033[31merror:\033[0m b\n");
    setenv("NO_COLOR", "1", 1);
    term_init(term, screen.slave);
    term_warn(term, false, "a");
    sees(&screen, "warning: a\n");
    unsetenv("NO_COLOR");
    setenv("TERM", "dumb", 1);
    term_init(term, screen.slave);
    term_warn(term, true, "b");
    sees(&screen, "error: b\n");
}

TEST(what_others_sent_cannot_drive_the_terminal)
{
    OWNED(close_screen) struct screen screen;
    open_screen(&screen, 80);
    term_line(&screen.term, "a\033[2Jb\nc\r\xff");
    sees(&screen, "a\\x1b[2Jb\\x0ac\\x0d\\xff\n");
    term_live(&screen.term, 1, "x\033]0;title\a");
    sees(&screen, "\rx\\x1b]0;title\\x07\033[K");
}

TEST(a_dumb_terminal_is_a_pipe)
{
    OWNED(close_screen) struct screen screen;
    struct term *term = &screen.term;
    open_screen(&screen, 80);
    setenv("TERM", "dumb", 1);
    term_init(term, screen.slave);
    term_live(term, 1, "live");
    term_line(term, "line");
    term_fini(term);
    sees(&screen, "line\n");
}

/* `text` in lines of `columns` characters, when the first one begins at `column`. */
static void
wraps(const char *text, unsigned column, unsigned columns, const char *expected)
{
    char out[256];
    assert_int_equal(term_wrap(text, column, columns, out, sizeof out), strlen(expected));
    assert_string_equal(out, expected);
}

TEST(a_long_line_breaks_between_words)
{
    OWNED(close_screen) struct screen screen;
    char small[8];
    wraps("", 0, 10, "");
    wraps("ab cd ef", 0, 8, "ab cd ef");
    wraps("ab cd ef", 0, 7, "ab cd\n  ef");
    wraps("ab cd ef", 3, 8, "ab cd\n  ef");
    wraps("ab cd ef gh ij", 0, 7, "ab cd\n  ef gh\n  ij");
    wraps("ab  cd", 0, 5, "ab\n  cd");
    wraps("ab a/path/that/is/long cd", 0, 8, "ab\n  a/path/that/is/long\n  cd");
    wraps("\xc3\xa4\xc3\xb6 cd", 0, 5, "\xc3\xa4\xc3\xb6 cd");
    assert_int_equal(term_wrap("ab cd ef gh", 0, 5, small, sizeof small), 7);
    assert_string_equal(small, "ab cd\n ");
    open_screen(&screen, 31);
    screen.term.colour = true;
    term_warn(&screen.term, false, "0123456789 0123456789 0123456789");
    sees(&screen, "\033[33mwarning:\033[0m 0123456789 0123456789\n  0123456789\n");
    term_warn(&screen.term, false, "0123456789 0123456789x 0123456789");
    sees(&screen, "\033[33mwarning:\033[0m 0123456789\n  0123456789x 0123456789\n");
}

TEST(a_reader_that_stops_is_not_waited_for)
{
    char text[65536 + 1];
    int ends[2];
    struct term term;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    term_init(&term, ends[1]);
    assert_false(term.tty);
    for (int i = 0; i < 20000; i++)
        term_line(&term, "a line of text that nobody reads");
    assert_true(term.dropped > 10000);
    unsigned dropped = term.dropped;
    while (read(ends[0], text, sizeof text - 1) == sizeof text - 1)
        ;
    term_line(&term, "awake");
    ssize_t got = read(ends[0], text, sizeof text - 1);
    assert_true(got > 0);
    text[got] = '\0';
    char expected[64];
    snprintf(expected, sizeof expected, "(%u lines were not shown)\nawake\n", dropped);
    assert_non_null(strstr(text, expected));
    assert_int_equal(term.dropped, 0);
    close(ends[0]);
    close(ends[1]);
}

TEST(a_line_that_is_too_long_is_cut)
{
    char line[4 * TERM_LINE_MAX], text[4 * TERM_LINE_MAX] = "";
    int ends[2];
    struct term term;
    memset(line, '\033', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    assert_int_equal(pipe(ends), 0);
    term_init(&term, ends[1]);
    term_line(&term, line);
    ssize_t got = read(ends[0], text, sizeof text - 1);
    assert_true(got > 0 && got <= TERM_LINE_MAX);
    assert_int_equal(text[got - 1], '\n');
    close(ends[0]);
    close(ends[1]);
}

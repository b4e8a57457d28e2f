/* test_disk.c - the old or the new file, whatever fails and wherever the process dies.
 *
 * The calls that can fail are wrapped: the k-th one fails, or the process ends there, for all k. The
 * wrapper also checks the order that survives a power cut: nothing is renamed before it was synced.
 * LDFLAGS: -Wl,--wrap=open,--wrap=write,--wrap=pread,--wrap=fsync,--wrap=rename,--wrap=close
 */
#include "nn/files/disk.h"
#include "tests/support/wrapped.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

enum { NEVER = -1, SHORT_WRITE = 7 };

static struct {
    int calls;    /* fallible calls so far */
    int fail_at;  /* this one fails, or NEVER */
    int die_at;   /* the process ends before this one, or NEVER */
    int error;    /* what a failing call reports */
    bool synced;  /* since the last write */
    bool corrupt; /* what is read differs from what was written */
    bool bad_order;
} fault = {.fail_at = NEVER, .die_at = NEVER};

static bool
strikes(void)
{
    int call = fault.calls++;
    if (call == fault.die_at)
        _exit(9);
    if (call != fault.fail_at)
        return false;
    errno = fault.error;
    return true;
}

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
int
__wrap_open(const char *path, int flags, ...)
{
    return strikes() ? -1 : __real_open(path, flags, 0600);
}

ssize_t
__wrap_write(int fd, const void *data, size_t size)
{
    fault.synced = false;
    if (fault.calls % 2 && size > SHORT_WRITE)
        size = SHORT_WRITE; /* legal: fewer bytes than asked for */
    return strikes() ? -1 : __real_write(fd, data, size);
}

ssize_t
__wrap_pread(int fd, void *data, size_t size, off_t at)
{
    if (strikes())
        return -1;
    ssize_t n = __real_pread(fd, data, size, at);
    if (fault.corrupt && n > 3)
        ((char *)data)[3] ^= 1;
    return n;
}

int
__wrap_fsync(int fd)
{
    if (strikes())
        return -1;
    fault.synced = true;
    return __real_fsync(fd);
}

int
__wrap_rename(const char *from, const char *to)
{
    fault.bad_order = fault.bad_order || !fault.synced;
    return strikes() ? -1 : __real_rename(from, to);
}

int
__wrap_close(int fd)
{
    bool fails = strikes();
    int rc = __real_close(fd);
    if (fails)
        errno = fault.error;
    return fails ? -1 : rc;
}

/* NOLINTEND(bugprone-reserved-identifier) */

static char dir[64], path[96], temp[104];
static struct why why;

FIXTURE(make_directory)
{
    strcpy(dir, "/tmp/test_disk_XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/file", dir);
    snprintf(temp, sizeof temp, "%s" DISK_TEMP, path);
    return 0;
}

FIXTURE(remove_directory)
{
    unlink(path);
    unlink(temp);
    return rmdir(dir);
}

TEST_ALL(make_directory, remove_directory)

static void
no_faults(void)
{
    fault.calls = 0;
    fault.fail_at = fault.die_at = NEVER;
    fault.corrupt = false;
}

/* "old" or the new content in three pieces, one of them empty. */
static int
write_text(const char *text)
{
    size_t half = strlen(text) / 2;
    struct disk_bytes piece[] = {{text, half}, {NULL, 0}, {text + half, strlen(text) - half}};
    why.line[0] = 0;
    return disk_write(path, piece, 3, &why);
}

static void
assert_content(const char *text)
{
    OWNED(memory_free) uint8_t *data;
    size_t size;
    no_faults();
    assert_int_equal(disk_read(path, 100, &data, &size, &why), 0);
    assert_int_equal(size, strlen(text));
    assert_memory_equal(data, text, size);
}

static bool
exists(const char *file)
{
    struct stat stat_buf;
    return stat(file, &stat_buf) == 0;
}

static const char new_text[] = "the new content, long enough for several short writes";

TEST(a_file_is_written_and_read)
{
    no_faults();
    assert_int_equal(write_text("old"), 0);
    assert_content("old");
    assert_int_equal(write_text(new_text), 0);
    assert_content(new_text);
    assert_int_equal(write_text(""), 0);
    assert_content("");
    assert_false(exists(temp));
    assert_false(fault.bad_order);
}

TEST(whichever_call_fails_the_file_is_old_or_new_and_nothing_is_left)
{
    const int errors[] = {EIO, ENOSPC, EDQUOT, EROFS};
    int failures = 0;
    for (int k = 0;; k++) {
        no_faults();
        assert_int_equal(write_text("old"), 0);
        no_faults();
        fault.fail_at = k;
        fault.error = errors[k % 4];
        int rc = write_text(new_text);
        bool struck = fault.calls > k;
        assert_false(exists(temp));
        if (rc) {
            failures++;
            assert_int_equal(rc, -errors[k % 4]);
            assert_non_null(strstr(why.line, strerror(errors[k % 4])));
            no_faults();
            OWNED(memory_free) uint8_t *data;
            size_t size;
            assert_int_equal(disk_read(path, 100, &data, &size, &why), 0);
            assert_true(size == 3 || size == strlen(new_text));
        } else {
            assert_content(new_text);
        }
        if (!struck)
            break;
    }
    assert_in_range(failures, 12, 40);
    assert_false(fault.bad_order);
}

TEST(wherever_the_process_dies_the_file_is_old_or_new)
{
    int old = 0, new = 0, status = 0;
    for (int k = 0; status == 0 || WEXITSTATUS(status) == 9; k++) {
        no_faults();
        assert_int_equal(write_text("old"), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            no_faults();
            fault.die_at = k;
            _exit(write_text(new_text) ? 1 : 2);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        OWNED(memory_free) uint8_t *data;
        size_t size;
        assert_int_equal(disk_read(path, 100, &data, &size, &why), 0);
        old += size == 3 && memcmp(data, "old", 3) == 0;
        new += size == strlen(new_text) && memcmp(data, new_text, size) == 0;
        assert_int_equal(old + new, k + 1);
    }
    assert_int_equal(WEXITSTATUS(status), 2);
    assert_true(old > 10);
    assert_true(new > 1);
    no_faults();
    assert_int_equal(write_text("next"), 0); /* what was left behind does not hinder */
    assert_false(exists(temp));
}

TEST(interrupted_calls_are_repeated)
{
    for (int k = 1; k < 4; k++) {
        no_faults();
        fault.fail_at = k;
        fault.error = EINTR;
        assert_int_equal(write_text(new_text), 0);
        assert_content(new_text);
    }
}

TEST(a_medium_that_returns_other_bytes_is_noticed)
{
    no_faults();
    assert_int_equal(write_text("old"), 0);
    fault.corrupt = true;
    assert_int_equal(write_text(new_text), -EIO);
    assert_non_null(strstr(why.line, "reading back"));
    assert_false(exists(temp));
    assert_content("old");
}

TEST(a_full_disk_gives_a_clear_line_and_leaves_nothing)
{
    struct rlimit old_limit, limit;
    no_faults();
    assert_int_equal(write_text("old"), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
    limit = old_limit;
    limit.rlim_cur = 20;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int rc = write_text(new_text);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(rc, -EFBIG);
    assert_non_null(strstr(why.line, "file: cannot write: File too large"));
    assert_false(exists(temp));
    assert_content("old");
}

TEST(what_is_no_file_is_refused)
{
    uint8_t *data;
    size_t size;
    no_faults();
    assert_int_equal(disk_read("/dev/zero", 100, &data, &size, &why), -EINVAL);
    assert_int_equal(disk_read(dir, 100, &data, &size, &why), -EINVAL);
    assert_non_null(strstr(why.line, "is a folder, expected a regular file"));
    assert_int_equal(mkfifo(temp, 0600), 0);
    assert_int_equal(disk_read(temp, 100, &data, &size, &why), -EINVAL);
    unlink(temp);
    assert_int_equal(disk_read("/nonexistent/file", 100, &data, &size, &why), -ENOENT);
    assert_int_equal(write_text("12345"), 0);
    assert_int_equal(disk_read(path, 4, &data, &size, &why), -EFBIG);
    assert_non_null(strstr(why.line, "5 bytes, expected at most 4"));
    size_t got;
    assert_int_equal(disk_read_head(path, 4, &data, &got, &size, &why), 0);
    assert_int_equal(got, 4);
    assert_int_equal(size, 5);
    assert_memory_equal(data, "1234", 4);
    free(data);
    struct disk_bytes piece = {"x", 1};
    assert_int_equal(disk_write("/nonexistent/file", &piece, 1, &why), -ENOENT);
    assert_int_equal(disk_write("/proc/file", &piece, 1, &why), -ENOENT);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(write_text("x"), -EISDIR);
    assert_false(exists(temp));
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(write_text("x"), 0);
}

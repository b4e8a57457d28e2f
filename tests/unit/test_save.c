/* test_save.c - checkpoints beside training: nothing that a disk does stops the trainer, all of it is said, and
 * the next one is tried again.
 *
 * The calls that reach the disk are wrapped: the k-th one fails, for all k, or hangs until it is let go.
 * LDFLAGS: -Wl,--wrap=open,--wrap=write,--wrap=fsync,--wrap=rename,--wrap=close,--wrap=pread
 */
#include "node/train/save.h"
#include "tests/support/wrapped.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"

enum { SIZE = 100000, NEVER = -1, SHORT = 70000 };

static struct {
    atomic_int calls;   /* since faults were set */
    atomic_int fail_at; /* this one and `width` - 1 more fail */
    atomic_int error;
    atomic_bool all; /* every one from there on */
    atomic_bool hang;
    atomic_bool hangs; /* somebody does */
} fault;

static bool
strikes(void)
{
    int call = atomic_fetch_add(&fault.calls, 1), at = atomic_load(&fault.fail_at);
    if (at == NEVER || call < at || (call > at && !atomic_load(&fault.all)))
        return false;
    errno = atomic_load(&fault.error);
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
    if (strikes())
        return -1;
    return __real_write(fd, data, size > SHORT ? SHORT : size);
}

ssize_t
__wrap_pread(int fd, void *data, size_t size, off_t at)
{
    return strikes() ? -1 : __real_pread(fd, data, size, at);
}

int
__wrap_fsync(int fd)
{
    while (atomic_load(&fault.hang)) {
        atomic_store(&fault.hangs, true);
        usleep(1000);
    }
    return strikes() ? -1 : __real_fsync(fd);
}

int
__wrap_rename(const char *from, const char *to)
{
    return strikes() ? -1 : __real_rename(from, to);
}

int
__wrap_close(int fd)
{
    bool fails = strikes();
    int error = errno, rc = __real_close(fd);
    errno = fails ? error : errno;
    return fails ? -1 : rc;
}

/* NOLINTEND(bugprone-reserved-identifier) */

/* --- what is said --- */

static struct {
    pthread_mutex_t lock;
    unsigned warnings, news;
    char last[512], alarm[128];
    size_t page_size;
    uint64_t page_round;
    unsigned answers;
} said = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void
say(void *ctx, int level, const char *line)
{
    (void)ctx;
    pthread_mutex_lock(&said.lock);
    said.warnings += level == 4;
    said.news += level == 6;
    if (level <= 6)
        snprintf(said.last, sizeof said.last, "%s", line);
    pthread_mutex_unlock(&said.lock);
}

static void
alarm_of(void *ctx, const char *line)
{
    (void)ctx;
    pthread_mutex_lock(&said.lock);
    snprintf(said.alarm, sizeof said.alarm, "%s", line ? line : "");
    pthread_mutex_unlock(&said.lock);
}

static void
answer(void *ctx, uint64_t round, const void *data, size_t size)
{
    (void)ctx;
    (void)data;
    pthread_mutex_lock(&said.lock);
    said.answers++;
    said.page_round = round;
    said.page_size = size;
    pthread_mutex_unlock(&said.lock);
}

static atomic_int befores, before_at; /* how often, and after how many calls to the disk */

static void
before(void *ctx)
{
    (void)ctx;
    atomic_store(&before_at, atomic_load(&fault.calls));
    atomic_fetch_add(&befores, 1);
}

static unsigned
look(const unsigned *number)
{
    pthread_mutex_lock(&said.lock);
    unsigned now = *number;
    pthread_mutex_unlock(&said.lock);
    return now;
}

#define WAIT_FOR(condition)                                                                        \
    do {                                                                                           \
        for (int left = 20000; !(condition); left--) {                                             \
            if (left == 0)                                                                         \
                fail_msg("waited 20 s for " #condition);                                           \
            usleep(1000);                                                                          \
        }                                                                                          \
    } while (0)

static char dir[64];
static struct why why;
static struct state_header header;
static uint8_t *block;
static struct state state;
static struct save *save;

static void
at_step(uint64_t step)
{
    header.step = step;
    header.round = step + 1;
    memset(block, (int)step, SIZE);
}

static const char *
path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static bool
there(uint64_t step)
{
    char name[32];
    snprintf(name, sizeof name, "checkpoint-%d", (int)step);
    return access(path_of(name), F_OK) == 0;
}

static void
no_faults(void)
{
    atomic_store(&fault.fail_at, NEVER);
    atomic_store(&fault.all, false);
    atomic_store(&fault.hang, false);
    atomic_store(&fault.hangs, false);
    atomic_store(&fault.calls, 0);
}

FIXTURE(set_up)
{
    no_faults();
    strcpy(dir, "/tmp/test_save_XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    atomic_store(&befores, 0);
    said.warnings = said.news = said.answers = 0;
    said.last[0] = said.alarm[0] = '\0';
    block = malloc(SIZE);
    state = (struct state){.header = &header, .block = block, .size = SIZE};
    struct save_setup setup = {.dir = dir,
                               .job_hash = 3,
                               .numerics = 4,
                               .extent = {{0, SIZE}},
                               .extent_count = 1,
                               .answer = answer,
                               .before = before,
                               .say = say,
                               .alarm = alarm_of};
    return block ? save_new(&save, &setup, &why) : -1;
}

FIXTURE(tear_down)
{
    no_faults();
    save_destroy(&save);
    free(block);
    checkpoint_forget(dir, 3, false);
    return rmdir(dir);
}

TEST_EACH(set_up, tear_down)

/* What a start after now would find. */
static uint64_t
newest(void)
{
    struct checkpoint_found found;
    int rc = save_find(save, &state, &found, &why);
    assert_int_equal(rc, 0);
    assert_int_equal(found.damaged_count, 0);
    uint64_t step = block[0];
    for (size_t i = 0; i < SIZE; i++)
        assert_int_equal(block[i], (uint8_t)step);
    return step;
}

/* Again and again, since the writer may be busy with the one before. */
static bool
step_is_saved(uint64_t step)
{
    at_step(step);
    save_step(save, &state, 1, 1);
    memset(block, 0xee, SIZE); /* the copy is already made */
    return there(step);
}

TEST(three_are_kept_and_the_newest_is_found)
{
    for (uint64_t step = 1; step <= 5; step++)
        WAIT_FOR(step_is_saved(step));
    at_step(6);
    assert_int_equal(save_last(save, &state, &why), 0);
    assert_false(there(3));
    assert_true(there(4) && there(5) && there(6));
    assert_int_equal(newest(), 6);
    assert_int_equal(look(&said.warnings), 0);
}

TEST(what_a_checkpoint_speaks_of_is_synced_before_it_has_its_name)
{
    at_step(1);
    atomic_store(&fault.calls, 0);
    save_step(save, &state, 1, 1);
    WAIT_FOR(there(1));
    assert_int_equal(atomic_load(&before_at), 0); /* nothing of the checkpoint was written yet */
    save_wait(save);
    at_step(2);
    atomic_store(&fault.calls, 0);
    assert_int_equal(save_last(save, &state, &why), 0);
    assert_int_equal(atomic_load(&before_at), 0);
    assert_int_equal(atomic_load(&befores), 2);
}

TEST(what_is_held_has_no_name_before_its_release)
{
    at_step(1);
    assert_true(save_begin(save, &state, true));
    at_step(2);
    assert_false(save_begin(save, &state, false)); /* the copy is taken */
    save_serve(save, 1, 0, 0); /* the writer has looked after what it has to do */
    WAIT_FOR(look(&said.answers) == 1);
    assert_false(there(1));
    assert_int_equal(atomic_load(&befores), 0);
    save_release(save);
    WAIT_FOR(there(1));
    save_wait(save);
    at_step(3);
    assert_true(save_begin(save, &state, true));
    save_wait(save); /* the run ends: now or never */
    assert_true(there(3));
}

TEST(the_last_is_not_written_twice_and_nothing_before_the_first_round)
{
    header = (struct state_header){0};
    assert_int_equal(save_last(save, &state, &why), 0);
    assert_false(there(0));
    at_step(2);
    save_step(save, &state, 1, 1);
    WAIT_FOR(there(2));
    assert_int_equal(save_last(save, &state, &why), 0);
    atomic_store(&fault.calls, 0);
    assert_int_equal(save_last(save, &state, &why), 0);
    assert_int_equal(atomic_load(&fault.calls), 0);
    header.round++; /* the same step after its evaluation is another state */
    assert_int_equal(save_last(save, &state, &why), 0);
    assert_true(atomic_load(&fault.calls) > 0);
}

TEST(a_disk_that_hangs_does_not_stop_the_trainer)
{
    atomic_store(&fault.hang, true);
    at_step(1);
    save_step(save, &state, 1, 1);
    WAIT_FOR(atomic_load(&fault.hangs));
    for (uint64_t step = 2; step <= 4; step++) {
        at_step(step);
        save_step(save, &state, 1, 1); /* returns, or this test does */
    }
    assert_false(there(1));
    atomic_store(&fault.hang, false);
    at_step(5);
    assert_int_equal(save_last(save, &state, &why), 0);
    assert_true(there(1) && there(5));
    assert_false(there(2) || there(3) || there(4));
    assert_int_equal(newest(), 5);
}

TEST(whichever_call_fails_it_is_said_and_the_next_one_succeeds)
{
    static const int errors[] = {ENOSPC, EIO, EROFS, EDQUOT};
    unsigned failures = 0;
    uint64_t step = 1;
    at_step(step);
    assert_int_equal(save_last(save, &state, &why), 0);
    int calls = atomic_load(&fault.calls);
    for (int k = 0; k < 4 * calls; k++) {
        no_faults();
        atomic_store(&fault.error, errors[k % 4]);
        atomic_store(&fault.fail_at, k / 4);
        unsigned warnings = look(&said.warnings);
        at_step(++step);
        int rc = save_last(save, &state, &why);
        no_faults();
        failures += rc != 0;
        assert_int_equal(look(&said.warnings), warnings + (rc != 0));
        assert_true((said.alarm[0] != '\0') == (rc != 0));
        if (rc) {
            assert_int_equal(rc, -errors[k % 4]);
            assert_non_null(strstr(said.last, strerror(errors[k % 4])));
            assert_non_null(strstr(said.last, "training goes on"));
            assert_non_null(strstr(said.alarm, "NO CHECKPOINT since step"));
        }
        uint64_t found =
            newest(); /* the one before or, after a failed sync of the folder, this one */
        assert_true(found == step || (rc && found == step - 1));
        at_step(++step);
        assert_int_equal(save_last(save, &state, &why), 0);
        assert_string_equal(said.alarm, "");
        assert_int_equal(newest(), step);
        assert_true(step < 200); /* they are bytes here */
    }
    printf("%u failures of %d calls with 4 errors each\n", failures, calls);
    assert_true(failures >= 4 * 8);
}

TEST(a_disk_that_stays_full_is_said_once)
{
    at_step(1);
    assert_int_equal(save_last(save, &state, &why), 0);
    atomic_store(&fault.error, ENOSPC);
    atomic_store(&fault.all, true);
    atomic_store(&fault.fail_at, 0);
    for (uint64_t step = 2; step < 9; step++) {
        at_step(step);
        assert_int_equal(save_last(save, &state, &why), -ENOSPC);
        assert_string_equal(said.alarm, "NO CHECKPOINT since step 1");
    }
    assert_int_equal(look(&said.warnings), 1);
    assert_true(there(1));
    no_faults();
    at_step(9);
    save_step(save, &state, 1, 1);
    WAIT_FOR(look(&said.news) == 1);
    assert_non_null(strstr(said.last, "step 9 written"));
    assert_int_equal(newest(), 9);
}

TEST(pages_are_read_for_others)
{
    at_step(1);
    assert_int_equal(save_last(save, &state, &why), 0);
    static const struct {
        uint64_t step, round, page;
        size_t size;
    } row[] = {{1, 0, 0, CHECKPOINT_PAGE},
               {1, 2, 0, CHECKPOINT_PAGE},
               {1, 3, 0, 0},
               {2, 0, 0, 0},
               {1, 2, 9, 0},
               {1, 0, UINT64_MAX, 0}};
    for (unsigned i = 0; i < sizeof row / sizeof row[0]; i++) {
        save_serve(save, row[i].step, row[i].round, row[i].page);
        WAIT_FOR(look(&said.answers) == i + 1);
        assert_int_equal(said.page_size, row[i].size);
        assert_int_equal(said.page_round, row[i].size ? 2 : 0);
    }
    unsigned answers = look(&said.answers);
    save_quiet(save);
    save_serve(save, 1, 0, 0);
    save_destroy(&save);
    assert_int_equal(look(&said.answers), answers);
}

TEST(without_a_choice_nodes_that_step_together_save_the_same_steps)
{
    assert_int_equal(save_interval(100), 1);
    assert_int_equal(save_interval(30), 1);
    assert_int_equal(save_interval(29), 2);
    assert_int_equal(save_interval(1), 32);
    assert_int_equal(save_interval(0.01), 4096);
    assert_int_equal(save_interval(0), 1 << 20);
    for (uint64_t step = 1; step <= 64; step++) { /* these take no time */
        at_step(step);
        save_step(save, &state, 1, 0);
        save_step(save, &state, 1, 100);
    }
    assert_int_equal(save_last(save, &state, &why), 0);
    for (uint64_t step = 1; step < 64; step++)
        assert_false(there(step));
}

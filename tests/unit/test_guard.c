/* test_guard.c - connections are ended when too much of them was taken without a whole message. */
#include "mesh/actor_guard.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST = 80000, ROOM = 200000 /* of the sockets, so that nothing blocks */ };

static struct guard *guard;
static uint64_t now = 1000000;
static int ours, theirs; /* the two ends of a connection; the guard looks after ours */

static bool
known(void *ctx, const char *host)
{
    assert_string_equal(host, "127.0.0.1");
    return *(bool *)ctx;
}

static bool known_here;

static int
connect_both(void **state)
{
    (void)state;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    theirs = socket(AF_INET, SOCK_STREAM, 0);
    int room = ROOM;
    setsockopt(listening, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    setsockopt(theirs, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    if (bind(listening, (struct sockaddr *)&at, sizeof at) != 0 || listen(listening, 1) != 0 ||
        getsockname(listening, (struct sockaddr *)&at, &size) != 0 ||
        connect(theirs, (struct sockaddr *)&at, sizeof at) != 0)
        return -1;
    ours = accept(listening, NULL, NULL);
    close(listening);
    if (ours < 0 || guard_new(&guard, known, &known_here) != 0)
        return -1;
    known_here = true;
    guard_add(guard, ours, MOST);
    return 0;
}

static int
close_both(void **state)
{
    (void)state;
    close(ours);
    close(theirs);
    guard_destroy(&guard);
    return 0;
}

/* `size` bytes come, and are taken when `take`. */
static void
come(size_t size, bool take)
{
    static char buffer[MOST * 4];
    assert_true(size <= sizeof buffer);
    assert_int_equal(send(theirs, buffer, size, 0), (ssize_t)size);
    if (take)
        assert_int_equal(recv(ours, buffer, size, MSG_WAITALL), (ssize_t)size);
    else
        assert_int_equal(recv(ours, buffer, size, MSG_WAITALL | MSG_PEEK), (ssize_t)size);
}

static unsigned
check(void)
{
    now += GUARD_PERIOD_US;
    return guard_check(guard, now);
}

static bool
ended(void)
{
    char byte;
    struct pollfd other_end = {theirs, POLLIN, 0};
    return poll(&other_end, 1, 0) == 1 && recv(theirs, &byte, 1, 0) <= 0;
}

static void
too_much_without_a_message_ends_it(void **state)
{
    (void)state;
    come(MOST, true);
    assert_int_equal(check(), 0);
    assert_false(ended());
    come(2 * GUARD_SPARE, true);
    assert_int_equal(check(), 1);
    assert_true(ended());
    assert_int_equal(check(), 0); /* once */
}

static void
a_stranger_may_send_less(void **state)
{
    (void)state;
    come(GUARD_STRANGER_MAX + 2 * GUARD_SPARE, true);
    assert_int_equal(check(), 0);
    assert_false(ended());
    known_here = false;
    come(2 * GUARD_SPARE, true);
    assert_int_equal(check(), 1);
    assert_true(ended());
}

static void
a_whole_message_begins_a_new_count(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        come(MOST, true);
        guard_heard(guard, ours);
        assert_int_equal(check(), 0);
    }
    come(MOST + 1000, true);
    assert_int_equal(check(), 1);
}

static void
what_waits_in_the_kernel_does_not_count(void **state)
{
    (void)state;
    come(MOST + 2 * GUARD_SPARE, false);
    assert_int_equal(check(), 0);
    assert_false(ended());
    char buffer[MOST + 2 * GUARD_SPARE];
    assert_int_equal(recv(ours, buffer, sizeof buffer, MSG_WAITALL), sizeof buffer);
    assert_int_equal(check(), 1);
}

static void
some_bytes_a_second_are_free(void **state)
{
    (void)state;
    for (int s = 0; s < 400; s++) {
        come(GUARD_SPARE, true);
        for (int i = 0; i < 1000000 / GUARD_PERIOD_US; i++)
            assert_int_equal(check(), 0);
    }
    for (int s = 0; s < 400 && !ended(); s++) {
        come(2 * GUARD_SPARE, true);
        for (int i = 0; i < 1000000 / GUARD_PERIOD_US; i++)
            check();
    }
    assert_true(ended());
}

static void
what_is_no_connection_is_ignored(void **state)
{
    (void)state;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    guard_add(guard, pipes[0], 0);
    guard_heard(guard, pipes[0]);
    guard_heard(guard, -1);
    guard_heard(guard, GUARD_LINES_MAX + 1);
    guard_remove(guard, -1);
    guard_remove(guard, GUARD_LINES_MAX + 1);
    guard_remove(NULL, 3);
    guard_remove(guard, ours);
    come(2 * MOST, true); /* no longer its business */
    assert_int_equal(check(), 0);
    assert_false(ended());
    assert_int_equal(write(pipes[1], "x", 1), 1);
    close(pipes[0]);
    close(pipes[1]);
}

static void
one_too_many_is_ended(void **state)
{
    (void)state;
    guard_remove(guard, ours);
    int high = dup2(ours, GUARD_LINES_MAX);
    if (high < 0)
        skip(); /* so many descriptors are not allowed here */
    guard_add(guard, high, MOST);
    assert_true(ended());
    close(high);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(too_much_without_a_message_ends_it, connect_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(a_stranger_may_send_less, connect_both, close_both),
        cmocka_unit_test_setup_teardown(a_whole_message_begins_a_new_count, connect_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(what_waits_in_the_kernel_does_not_count, connect_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(some_bytes_a_second_are_free, connect_both, close_both),
        cmocka_unit_test_setup_teardown(what_is_no_connection_is_ignored, connect_both, close_both),
        cmocka_unit_test_setup_teardown(one_too_many_is_ended, connect_both, close_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

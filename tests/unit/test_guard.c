/* test_guard.c - a connection is ended when a message on it has no end, however busy the reader is, and no other
 * one. */
#include "mesh/net/actor_guard.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

enum {
    STRANGER = 20000, /* the limits here */
    MESSAGE = 80000,
    QUEUE = 3 * GUARD_STRANGERS_MAX,
    ROOM = 400000, /* of the sockets, so that nothing blocks */
    CONNECTIONS = 80
};

/* The two ends of a connection; the guard looks after ours. */
struct pair {
    int ours, theirs;
};

static struct guard *guard;
static struct pair pairs[CONNECTIONS];
static int pair_count;
static uint64_t now = 1000000;
static int ended_count;
static char ended_who[GUARD_WHO_MAX];
static const struct proto_node nobody = {0, 0}, peer = {7, 1};

static void
on_ended(void *ctx, const char *who, uint64_t bytes)
{
    (void)ctx, (void)bytes;
    ended_count++;
    snprintf(ended_who, sizeof ended_who, "%s", who);
}

static struct pair
new_pair(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    struct pair pair = {-1, socket(AF_INET, SOCK_STREAM, 0)};
    int listening = socket(AF_INET, SOCK_STREAM, 0), room = ROOM;
    assert_true(pair_count < CONNECTIONS);
    setsockopt(listening, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    setsockopt(pair.theirs, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    assert_int_equal(bind(listening, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listening, 1), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&at, &size), 0);
    assert_int_equal(connect(pair.theirs, (struct sockaddr *)&at, sizeof at), 0);
    pair.ours = accept(listening, NULL, NULL);
    assert_true(pair.ours >= 0);
    close(listening);
    pairs[pair_count++] = pair;
    return pair;
}

FIXTURE(open_guard)
{
    const struct guard_setup setup = {.limits = {[GUARD_CONTROL] = {STRANGER, MESSAGE, QUEUE},
                                                 [GUARD_BULK] = {STRANGER, MESSAGE, QUEUE},
                                                 [GUARD_OUT] = {STRANGER, STRANGER, STRANGER}},
                                      .ended = on_ended};
    ended_count = 0;
    pair_count = 0;
    ended_who[0] = '\0';
    return guard_new(&guard, &setup);
}

FIXTURE(close_all)
{
    for (int i = 0; i < pair_count; i++) {
        close(pairs[i].ours);
        close(pairs[i].theirs);
    }
    guard_destroy(&guard);
    return 0;
}

TEST_EACH(open_guard, close_all)

/* `size` bytes come, and are taken when `take`. */
static void
come(struct pair pair, size_t size, bool take)
{
    static char buffer[MESSAGE * 4];
    assert_true(size <= sizeof buffer);
    assert_int_equal(send(pair.theirs, buffer, size, 0), (ssize_t)size);
    if (take)
        assert_int_equal(recv(pair.ours, buffer, size, MSG_WAITALL), (ssize_t)size);
    else
        assert_int_equal(recv(pair.ours, buffer, size, MSG_WAITALL | MSG_PEEK), (ssize_t)size);
}

static bool
check(void)
{
    now += GUARD_PERIOD_US;
    return guard_check(guard, now);
}

static bool
ended(struct pair pair)
{
    char byte;
    struct pollfd other_end = {pair.theirs, POLLIN, 0};
    return poll(&other_end, 1, 0) == 1 && recv(pair.theirs, &byte, 1, 0) <= 0;
}

/* A stranger's connection to bulk, or a member's. */
static struct pair
come_in(bool member)
{
    struct pair pair = new_pair();
    guard_add(guard, pair.ours, GUARD_BULK);
    if (member)
        guard_heard(guard, pair.ours, GUARD_BULK, peer, true);
    assert_false(check());
    return pair;
}

TEST(a_message_without_an_end_ends_its_connection)
{
    struct pair pair = come_in(true);
    come(pair, MESSAGE, true);
    assert_false(check());
    come(pair, 1, true);
    assert_true(check());
    assert_false(ended(pair)); /* there may be a whole message to be read */
    guard_empty(guard, GUARD_CONTROL);
    assert_false(ended(pair)); /* that says nothing of bulk */
    guard_empty(guard, GUARD_BULK);
    assert_true(ended(pair));
    assert_int_equal(ended_count, 1);
    check();
    guard_empty(guard, GUARD_BULK);
    assert_int_equal(ended_count, 1); /* once */
}

TEST(the_report_names_host_and_port)
{
    struct pair pair = come_in(false);
    struct sockaddr_in at;
    socklen_t size = sizeof at;
    char who[64];
    assert_int_equal(getsockname(pair.theirs, (struct sockaddr *)&at, &size), 0);
    snprintf(who, sizeof who, "127.0.0.1:%u", ntohs(at.sin_port));
    come(pair, STRANGER + 1, true);
    assert_true(check());
    guard_empty(guard, GUARD_BULK);
    assert_string_equal(ended_who, who);
}

TEST(one_that_has_gone_by_itself_is_not_reported)
{
    struct pair pair = come_in(false);
    const struct linger at_once = {1, 0};
    come(pair, STRANGER + 1, true);
    assert_true(check());
    setsockopt(pair.theirs, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(pair.theirs); /* a reset */
    pairs[0].theirs = socket(AF_INET, SOCK_STREAM, 0);
    guard_empty(guard, GUARD_BULK);
    assert_int_equal(ended_count, 0);
    assert_false(check());
}

/* Ways (b) and (c): much has come before this thread gets to look, in whole messages that wait to be read. */
TEST(a_busy_reader_ends_nobody)
{
    struct pair pair = come_in(true);
    for (int i = 0; i < 10; i++) {
        come(pair, MESSAGE, true);
        come(pair, MESSAGE, true);
        assert_true(check());
        assert_true(check()); /* again and again: it has not come to reading */
        guard_heard(guard, pair.ours, GUARD_BULK, peer, true);
        guard_empty(guard, GUARD_BULK);
        assert_false(check());
    }
    assert_int_equal(ended_count, 0);
    assert_false(ended(pair));
}

TEST(messages_that_are_read_before_the_connection_is_announced_count)
{
    struct pair pair = new_pair();
    for (int i = 0; i < 10; i++)
        come(pair, MESSAGE, true);
    guard_heard(guard, pair.ours, GUARD_BULK, peer, true);
    guard_add(guard, pair.ours, GUARD_BULK);
    assert_false(check());
    come(pair, MESSAGE, true);
    assert_false(check());
    guard_empty(guard, GUARD_BULK);
    assert_int_equal(ended_count, 0);
    come(pair, 1, true); /* it is under guard all the same */
    assert_true(check());
    guard_empty(guard, GUARD_BULK);
    assert_true(ended(pair));
}

/* As announced late, with a greeting that is still to be read. */
TEST(what_came_before_the_connection_is_announced_is_judged_like_the_rest)
{
    struct pair pair = new_pair();
    come(pair, MESSAGE, true);
    guard_add(guard, pair.ours, GUARD_BULK);
    assert_true(check());
    guard_heard(guard, pair.ours, GUARD_BULK, peer, true);
    guard_empty(guard, GUARD_BULK);
    assert_false(ended(pair));
    struct pair stranger = new_pair();
    come(stranger, MESSAGE, true);
    guard_add(guard, stranger.ours, GUARD_BULK);
    assert_true(check());
    guard_empty(guard, GUARD_BULK);
    assert_true(ended(stranger));
    assert_false(ended(pair));
}

/* Way (a): both come from one address. */
TEST(a_member_is_known_by_its_messages)
{
    struct pair member = come_in(true), stranger = come_in(false);
    come(member, MESSAGE, true);
    come(stranger, STRANGER, true);
    assert_false(check());
    come(stranger, 1, true);
    assert_true(check());
    guard_empty(guard, GUARD_BULK);
    assert_true(ended(stranger));
    assert_false(ended(member));
}

TEST(a_node_that_becomes_a_member_later_is_one)
{
    struct pair early = come_in(false), liar = come_in(false), other = come_in(false);
    guard_heard(guard, early.ours, GUARD_BULK, peer, false);
    guard_heard(guard, liar.ours, GUARD_BULK, nobody, false); /* not valid */
    guard_heard(guard, other.ours, GUARD_BULK, (struct proto_node){7, 2}, false);
    assert_false(check());
    guard_met(guard, peer);
    come(early, MESSAGE, true);
    come(liar, STRANGER + 1, true);
    come(other, STRANGER + 1, true);
    assert_true(check());
    guard_empty(guard, GUARD_BULK);
    assert_false(ended(early));
    assert_true(ended(liar));
    assert_true(ended(other));
}

TEST(strangers_together_hold_no_more_than_their_share)
{
    struct pair members[2] = {come_in(true), come_in(true)};
    const int most = GUARD_STRANGERS_MAX / STRANGER;
    struct pair strangers[CONNECTIONS];
    for (int i = 0; i < most + 4; i++)
        strangers[i] = come_in(false);
    for (int i = 0; i < most + 4; i++)
        come(strangers[i], (size_t)(STRANGER - i), true);
    come(members[0], MESSAGE, true);
    assert_true(check());
    guard_empty(guard, GUARD_BULK);
    assert_in_range(ended_count, 3, 4);
    for (int i = 0; i < 3; i++)
        assert_true(ended(strangers[i])); /* those that hold most */
    assert_false(ended(strangers[most + 3]));
    assert_false(ended(members[0]));
    assert_false(check());
}

TEST(more_than_zeromq_can_hold_in_whole_messages_needs_no_reader)
{
    struct pair pair = come_in(true);
    for (int size = 0; size < QUEUE; size += MESSAGE)
        come(pair, MESSAGE, true);
    come(pair, MESSAGE, true);
    check();
    assert_true(ended(pair));
}

TEST(what_waits_in_the_kernel_does_not_count)
{
    static char buffer[MESSAGE + 1];
    struct pair pair = come_in(true);
    come(pair, sizeof buffer, false);
    assert_false(check());
    assert_int_equal(recv(pair.ours, buffer, sizeof buffer, MSG_WAITALL), sizeof buffer);
    assert_true(check());
}

TEST(a_whole_message_does_not_excuse_what_waits_in_the_kernel)
{
    static char buffer[2 * MESSAGE];
    struct pair pair = come_in(true);
    come(pair, sizeof buffer, false);
    guard_heard(guard, pair.ours, GUARD_BULK, peer, true);
    assert_false(check());
    assert_int_equal(recv(pair.ours, buffer, sizeof buffer, MSG_WAITALL), sizeof buffer);
    assert_true(check());
    guard_empty(guard, GUARD_BULK);
    assert_true(ended(pair));
}

TEST(some_bytes_a_second_are_free_on_connections_that_we_made)
{
    struct pair pair = new_pair();
    guard_add(guard, pair.ours, GUARD_OUT);
    for (int s = 0; s < 2 * STRANGER / GUARD_SPARE; s++) {
        come(pair, GUARD_SPARE, true);
        for (int i = 0; i < 1000000 / GUARD_PERIOD_US; i++)
            assert_false(check());
    }
    assert_false(ended(pair));
    come(pair, STRANGER + 2 * GUARD_SPARE, true);
    check();
    assert_true(ended(pair));
}

TEST(each_of_many_members_has_its_turn)
{
    struct pair many[3 * GUARD_LOOKS];
    for (size_t k = 0; k < 3 * GUARD_LOOKS; k++)
        many[k] = come_in(true);
    check(); /* the first ones were looked at */
    come(many[3 * GUARD_LOOKS - 1], MESSAGE + 1, true);
    come(many[0], MESSAGE + 1, true);
    for (int turn = 0; turn < 3; turn++) {
        check();
        guard_empty(guard, GUARD_BULK);
    }
    assert_int_equal(ended_count, 2);
    assert_true(ended(many[0]));
    assert_true(ended(many[3 * GUARD_LOOKS - 1]));
}

/* ZeroMQ closes a connection, and the next one has its descriptor. */
TEST(another_connection_with_the_same_descriptor_begins_anew)
{
    struct pair old = come_in(false), new = new_pair();
    come(old, STRANGER + 1, true);
    assert_true(check());
    come(new, 100, true);
    assert_int_equal(dup2(new.ours, old.ours), old.ours);
    guard_empty(guard, GUARD_BULK);
    assert_int_equal(ended_count, 0);
    guard_heard(guard, old.ours, GUARD_BULK, peer, true);
    guard_add(guard, old.ours,
              GUARD_BULK); /* the news comes late, and does not make it a stranger's */
    come(new, MESSAGE, true);
    check();
    guard_empty(guard, GUARD_BULK);
    assert_int_equal(ended_count, 0);
}

TEST(what_is_no_connection_is_ignored)
{
    int pipes[2];
    struct pair pair = come_in(false);
    assert_int_equal(pipe(pipes), 0);
    guard_add(guard, pipes[0], GUARD_BULK);
    guard_add(guard, -1, GUARD_BULK);
    guard_heard(guard, pipes[0], GUARD_BULK, peer, true);
    guard_heard(guard, -1, GUARD_BULK, peer, true);
    guard_heard(guard, GUARD_LINES_MAX + 1, GUARD_BULK, peer, true);
    come(pair, STRANGER + 1, true);
    assert_true(check());
    assert_int_equal(dup2(pipes[0], pair.ours), pair.ours);
    guard_empty(guard, GUARD_BULK);
    check();
    assert_int_equal(ended_count, 0);
    assert_int_equal(write(pipes[1], "x", 1), 1);
    close(pipes[0]);
    close(pipes[1]);
}

TEST(it_needs_no_further_descriptor)
{
    struct rlimit before, none;
    struct pair pair = come_in(false);
    come(pair, STRANGER + 1, true);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t)pair.theirs + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int no_more = dup(0);
    assert_true(check());
    guard_empty(guard, GUARD_BULK);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(no_more, -1);
    assert_true(ended(pair));
}

TEST(one_too_many_is_ended)
{
    struct pair pair = new_pair();
    int high = dup2(pair.ours, GUARD_LINES_MAX);
    if (high < 0)
        skip(); /* so many descriptors are not allowed here */
    guard_add(guard, high, GUARD_BULK);
    assert_true(ended(pair));
    close(high);
}

/* qemu-user does not pass on what the guard asks the kernel for. */
static bool
kernel_counts(void)
{
    struct pair pair = new_pair();
    struct tcp_info info;
    socklen_t size = sizeof info;
    int rc = getsockopt(pair.ours, IPPROTO_TCP, TCP_INFO, &info, &size);
    close(pair.ours);
    close(pair.theirs);
    pair_count = 0;
    return rc == 0 && size > sizeof(int);
}

int
main(void)
{
    if (!kernel_counts()) {
        puts("this system has no TCP_INFO: a guard sees nothing here");
        return 77;
    }
    return test_run();
}

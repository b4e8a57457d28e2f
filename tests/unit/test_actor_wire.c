/* test_actor_wire.c - two wires on the loopback interface: a received body is kept by one reader, and neither takes the
 * other one's messages for a stranger's, however late it comes to read them. */
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "mesh/net/actor_pulse.h"
#include "mesh/net/actor_wire.h"
#include "tests/support/test.h"

enum { FRAMES = 6, WORDS = 8000, DEADLINE_S = 120 };

struct end {
    struct wire *wire;
    int epoll_fd, wake_fd;
    bool up;      /* link 0 */
    bool fickle;  /* keeps a body and releases it in the same call */
    bool alive;   /* an empty list of peers came */
    unsigned got; /* bodies */
    struct core_frame kept[FRAMES];
    unsigned kept_count;
};

static void
on_link_up(void *ctx, unsigned link)
{
    struct end *end = ctx;
    end->up = link == 0;
}

static void
on_link_down(void *ctx, unsigned link)
{
    (void)ctx;
    fail_msg("link %u broke", link);
}

static void
on_message(void *ctx, struct proto_node from, const char *host, const struct proto_msg *msg,
           const void *body, size_t size)
{
    struct end *end = ctx;
    (void)from, (void)host, (void)body, (void)size;
    end->alive = end->alive || (msg->type == PROTO_PEERS && msg->peers.count == 0);
}

static void
on_bulk(void *ctx, struct proto_node from, const struct proto_msg *msg, struct core_frame *frame)
{
    struct end *end = ctx;
    (void)from;
    assert_int_equal(msg->chunk.count, WORDS);
    end->got++;
    wire_keep(end->wire, frame);
    if (end->fickle)
        wire_release(end->wire, frame->handle);
    else
        end->kept[end->kept_count++] = *frame;
}

static void
on_log(void *ctx, int level, const char *line)
{
    (void)ctx, (void)level;
    fail_msg("%s", line);
}

static void
end_open(struct end *end, uint64_t id)
{
    static const struct wire_events events = {on_link_up, on_link_down, on_message, on_bulk,
                                              on_log};
    static const bool express[1];
    struct why why = {""};
    *end = (struct end){.epoll_fd = epoll_create1(0), .wake_fd = eventfd(0, EFD_NONBLOCK)};
    struct wire_setup setup = {.self = {id, 1},
                               .address = "127.0.0.1",
                               .port_first = 23100,
                               .port_last = 23199,
                               .epoll_fd = end->epoll_fd,
                               .wake_fd = end->wake_fd,
                               .frames = FRAMES,
                               .queue_size = 64,
                               .express = express,
                               .bucket_count = 1};
    if (wire_new(&end->wire, &setup, &events, end, &why) != 0)
        fail_msg("%s", why.line);
}

static void
end_close(struct end *end)
{
    wire_destroy(&end->wire, 0);
    close(end->epoll_fd);
    close(end->wake_fd);
}

/* What has come, for a millisecond. */
static void
end_turn(struct end *end)
{
    struct epoll_event events[16];
    int count = epoll_wait(end->epoll_fd, events, 16, 1);
    for (int k = 0; k < count; k++)
        if (events[k].data.u64 & WIRE_TAG)
            wire_ready(end->wire, events[k].data.u64);
    wire_ready(end->wire, WIRE_TAG_CONTROL);
    wire_ready(end->wire, WIRE_TAG_BULK);
    wire_settle(end->wire);
}

static void
turn_until(struct end *a, struct end *b, const bool *flag, unsigned got)
{
    time_t deadline = time(NULL) + DEADLINE_S;
    while (!*flag || b->got < got) {
        end_turn(a);
        end_turn(b);
        if (time(NULL) > deadline)
            fail_msg("%u bodies came, expected %u", b->got, got);
    }
}

static void
send_body(struct end *end, int32_t number)
{
    static int32_t body[WORDS];
    struct proto_msg msg = {
        .type = PROTO_REDUCE,
        .chunk = {.plan_hash = 1, .round = 1, .first = 0, .count = WORDS, .coverage = 1}};
    for (size_t k = 0; k < WORDS; k++)
        body[k] = number;
    wire_send_bulk(end->wire, 0, &msg, body, sizeof body, false);
}

TEST(a_body_kept_and_released_at_once_is_free_once)
{
    OWNED(end_close) struct end a, b;
    end_open(&a, 1);
    end_open(&b, 2);
    struct proto_endpoint at = {"127.0.0.1", wire_control_port(b.wire)};
    wire_connect(a.wire, 0, &at);
    turn_until(&a, &b, &a.up, 0);
    wire_peer_up(a.wire, 0, (struct proto_node){2, 1}, wire_bulk_port(b.wire));
    b.fickle = true;
    send_body(&a, 100);
    turn_until(&a, &b, &a.up, 1);
    b.fickle = false;
    for (int32_t k = 0; k < FRAMES; k++)
        send_body(&a, k);
    turn_until(&a, &b, &a.up, 1 + FRAMES);
    for (unsigned k = 0; k < FRAMES; k++) {
        for (unsigned j = 0; j < k; j++)
            assert_ptr_not_equal(b.kept[k].handle, b.kept[j].handle);
        const int32_t *body = b.kept[k].data;
        assert_int_equal(b.kept[k].size, WORDS * sizeof *body);
        assert_int_equal(body[0], k);
        assert_int_equal(body[WORDS - 1], k);
    }
    wire_release(b.wire, b.kept[0].handle); /* the others are freed with the wire */
}

/* Who has too much else to do may take a peer for gone before it reads what that one has sent. */
TEST(what_a_lost_peer_has_sent_is_not_taken_for_a_strangers)
{
    static int32_t body[WORDS];
    const struct proto_msg msg = {
        .type = PROTO_REDUCE,
        .chunk = {.plan_hash = 1, .round = 1, .first = 0, .count = WORDS, .coverage = 1}};
    OWNED(end_close) struct end a, b;
    uint64_t now = 1000000;
    end_open(&a, 1);
    end_open(&b, 2);
    struct proto_endpoint to_a = {"127.0.0.1", wire_control_port(a.wire)};
    struct proto_endpoint to_b = {"127.0.0.1", wire_control_port(b.wire)};
    wire_connect(a.wire, 0, &to_b);
    wire_connect(b.wire, 0, &to_a);
    turn_until(&a, &b, &a.up, 0);
    turn_until(&a, &b, &b.up, 0);
    wire_peer_up(a.wire, 0, (struct proto_node){2, 1}, wire_bulk_port(b.wire));
    wire_peer_up(b.wire, 0, (struct proto_node){1, 1}, wire_bulk_port(a.wire));
    wire_peer_down(b.wire, 0);
    for (unsigned k = 0; k < FRAMES; k++)
        wire_send_bulk(a.wire, 0, &msg, body, sizeof body, true);
    time_t deadline = time(NULL) + DEADLINE_S;
    for (unsigned sent = 0; sent < FRAMES; sent += wire_sent(a.wire)) {
        assert_true(time(NULL) <= deadline);
        end_turn(&a);
        wire_tick(b.wire, now += 20000);
    }
    wire_tick(b.wire, now += 20000);
    turn_until(&a, &b, &a.up, FRAMES);
}

/* The bytes of a come before b is told of the connections, and before it has a session with a. */
TEST(what_is_read_late_is_not_taken_for_a_strangers)
{
    static int32_t body[PROTO_CHUNK_MAX];
    const struct proto_msg msg = {
        .type = PROTO_REDUCE, .chunk = {.plan_hash = 1, .round = 1, .count = WORDS, .coverage = 1}};
    OWNED(end_close) struct end a, b;
    uint64_t now = 1000000;
    end_open(&a, 1);
    end_open(&b, 2);
    struct proto_endpoint to_b = {"127.0.0.1", wire_control_port(b.wire)};
    wire_connect(a.wire, 0, &to_b);
    turn_until(&a, &b, &a.up, 0);
    wire_peer_up(a.wire, 0, (struct proto_node){2, 1}, wire_bulk_port(b.wire));
    b.fickle = true;
    unsigned sent = 0;
    time_t deadline = time(NULL) + DEADLINE_S;
    for (unsigned k = 0; k < 3; k++)
        wire_send_bulk(a.wire, 0, &msg, body, sizeof body, true);
    for (; sent < 3; sent += wire_sent(a.wire)) {
        assert_true(time(NULL) <= deadline);
        end_turn(&a);
    }
    for (unsigned k = 0; k < 10; k++)
        wire_tick(b.wire, now += 20000); /* b looks, and does not come to reading */
    struct proto_endpoint to_a = {"127.0.0.1", wire_control_port(a.wire)};
    wire_connect(b.wire, 0, &to_a);
    turn_until(&a, &b, &b.up, 3);
    wire_peer_up(b.wire, 0, (struct proto_node){1, 1}, wire_bulk_port(a.wire));
    for (unsigned k = 0; k < 20; k++) { /* now as in a node: look, read, look */
        wire_send_bulk(a.wire, 0, &msg, body, sizeof body, false);
        wire_tick(b.wire, now += 20000);
        turn_until(&a, &b, &b.up, 4 + k);
    }
}

static void
send_beat(struct end *end)
{
    const struct proto_msg beat = {.type = PROTO_HEARTBEAT, .heartbeat = {.hears_hash = 1}};
    wire_send(end->wire, 0, &beat, NULL, 0);
}

/* The core of `a` is busy: nobody calls its wire, and the pulse thread says that the node is alive. */
TEST(a_node_that_is_busy_says_that_it_is_alive)
{
    OWNED(end_close) struct end a, b;
    struct pulse *pulse;
    end_open(&a, 1);
    end_open(&b, 2);
    struct proto_endpoint at = {"127.0.0.1", wire_control_port(b.wire)};
    wire_connect(a.wire, 0, &at);
    turn_until(&a, &b, &a.up, 0);
    assert_int_equal(wire_beat_at(a.wire), 0);
    wire_pulse(a.wire); /* nobody has had a heartbeat */
    assert_int_equal(pulse_new(&pulse, a.wire), 0);
    time_t deadline = time(NULL) + DEADLINE_S, beat = 0;
    while (!b.alive) {
        assert_true(time(NULL) <= deadline);
        if (time(NULL) > beat + 1) { /* a thread that was held up for longer begins again */
            send_beat(&a);
            beat = time(NULL);
        }
        end_turn(&b);
    }
    assert_true(wire_beat_at(a.wire) > 0);
    wire_disconnect(a.wire, 0); /* under the thread's eyes */
    wire_pulse(a.wire);
    pulse_destroy(&pulse);
    assert_null(pulse);
}

TEST(a_core_that_hangs_falls_silent)
{
    assert_false(pulse_due(0));
    assert_false(pulse_due(PULSE_QUIET_US));
    assert_true(pulse_due(PULSE_QUIET_US + 1));
    assert_true(pulse_due(PULSE_MAX_US - 1));
    assert_false(pulse_due(PULSE_MAX_US));
    assert_false(pulse_due(UINT64_MAX));
}

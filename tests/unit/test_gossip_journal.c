/* The records of gossip: what was written is read again, in few bytes; what no node writes is refused. */
#include "node/train/gossip_journal.h"
#include "tests/support/test.h"

static const struct proto_node peer = {0x1122334455667788, 0x99aabbccddeeff00};

static const struct gossip_note notes[] = {
    {.event = GOSSIP_BEGAN, .number = UINT64_MAX},
    {.event = GOSSIP_READ, .step = 1000, .total = 12000, .shards = UINT64_C(7) << 61},
    {.event = GOSSIP_READ, .step = 1, .shards = 3, .plan = UINT64_MAX, .number = 64, .rank = 63},
    {.event = GOSSIP_READ, .step = 2, .shards = 3, .plan = UINT64_MAX, .number = 64, .rank = 63},
    {.event = GOSSIP_UPDATED},
    {.event = GOSSIP_PHASE},
    {.event = GOSSIP_ASKED,
     .peer = {0x1122334455667788, 0x99aabbccddeeff00},
     .link = 3,
     .number = 127},
    {.event = GOSSIP_ASKED_WHOLE, .peer = {5, 6}, .link = 3, .number = 128},
    {.event = GOSSIP_TOOK,
     .peer = {0x1122334455667788, 0x99aabbccddeeff00},
     .link = 3,
     .number = 128},
    {.event = GOSSIP_GAVE, .peer = {5, 6}, .link = 1, .number = 16384, .range = 300, .share = 3},
    {.event = GOSSIP_COPIED, .number = 9, .range = 2},
    {.event = GOSSIP_GOT, .peer = {5, 6}, .number = 9},
    {.event = GOSSIP_ADOPTED},
    {.event = GOSSIP_EMPTY},
    {.event = GOSSIP_MEAN_BEGAN},
    {.event = GOSSIP_MEAN_VOID},
    {.event = GOSSIP_MEAN},
    {.event = GOSSIP_RESULT},
};
enum { NOTES = sizeof notes / sizeof *notes };

TEST(what_was_written_is_read)
{
    struct gossip_names writer = {.plan = 0}, reader = {.plan = 0};
    uint8_t data[GOSSIP_RECORD_MAX];
    struct gossip_note note;
    for (size_t k = 0; k < NOTES; k++) {
        assert_true(gossip_journal_has(notes[k].event));
        size_t size = gossip_journal_put(&writer, &notes[k], data);
        assert_true(gossip_journal_get(&reader, notes[k].event, data, size, &note));
        assert_int_equal(note.event, notes[k].event);
        assert_true(note.peer.id == notes[k].peer.id &&
                    note.peer.incarnation == notes[k].peer.incarnation);
        assert_true(note.link == notes[k].link && note.number == notes[k].number);
        assert_true(note.rank == notes[k].rank && note.range == notes[k].range);
        assert_true(note.share == notes[k].share);
        assert_true(note.step == notes[k].step && note.total == notes[k].total &&
                    note.shards == notes[k].shards);
        assert_true(note.plan == notes[k].plan);
    }
    assert_false(gossip_journal_has(GOSSIP_LOST)); /* it changes nothing */
}

TEST(a_peer_is_named_once_and_then_costs_a_byte)
{
    struct gossip_names names = {.plan = 0};
    uint8_t data[GOSSIP_RECORD_MAX];
    struct gossip_note note = {.event = GOSSIP_TOOK, .peer = peer, .link = 1, .number = 1};
    assert_int_equal(gossip_journal_put(&names, &note, data), 17 + 2);
    assert_int_equal(gossip_journal_put(&names, &note, data), 1 + 2);
    for (unsigned k = 0; k < JOURNAL_PEERS; k++) {
        note.peer = (struct proto_node){k + 1, 0};
        assert_int_equal(gossip_journal_put(&names, &note, data), 17 + 2);
    }
    note.peer = peer; /* its place has another one now */
    assert_int_equal(gossip_journal_put(&names, &note, data), 17 + 2);
}

/* Every shorter and every longer one, each with the names that were there before. */
TEST(another_length_is_refused)
{
    struct gossip_names names = {.plan = 0};
    uint8_t data[GOSSIP_RECORD_MAX + 1] = {0};
    struct gossip_note note;
    for (size_t k = 0; k < NOTES; k++) {
        struct gossip_names before = names, other;
        size_t size = gossip_journal_put(&names, &notes[k], data);
        data[size] = 0;
        for (size_t cut = 0; cut <= size + 1; cut++) {
            other = before;
            bool whole = gossip_journal_get(&other, notes[k].event, data, cut, &note);
            assert_int_equal(whole, cut == size);
        }
    }
}

TEST(what_no_node_writes_is_refused)
{
    static const uint8_t big[] = {0, 1, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x1f}; /* share 2^33 - 1 */
    static const uint8_t long_number[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2};
    static const uint8_t endless[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
                                      0x80, 0x80, 0x80, 0x80, 0};
    static const uint8_t nameless[] = {2, 1, 1}, far[] = {128, 1, 1, 1};
    static const uint8_t jump[19] = {3, 1, [17] = 1, [18] = 1};
    static const uint8_t nobody[19] = {1, 0, [17] = 1, [18] = 1};
    struct gossip_names names = {.peers = {.node = {{1, 1}}, .next = 1}};
    struct gossip_note note;
    assert_false(gossip_journal_get(&names, GOSSIP_GAVE, big, sizeof big, &note));
    assert_false(gossip_journal_get(&names, GOSSIP_BEGAN, long_number, sizeof long_number, &note));
    assert_false(gossip_journal_get(&names, GOSSIP_BEGAN, endless, sizeof endless, &note));
    assert_false(gossip_journal_get(&names, GOSSIP_TOOK, nameless, sizeof nameless, &note));
    assert_false(gossip_journal_get(&names, GOSSIP_TOOK, far, sizeof far, &note));
    struct gossip_names none = {.plan = 0};
    assert_false(gossip_journal_get(&none, GOSSIP_TOOK, jump, sizeof jump, &note));
    none = (struct gossip_names){.plan = 0};
    assert_false(gossip_journal_get(&none, GOSSIP_TOOK, nobody, sizeof nobody, &note));
    assert_false(gossip_journal_get(&names, GOSSIP_LOST, NULL, 0, &note));
    assert_false(gossip_journal_get(&names, GOSSIP_EMPTY + 1, NULL, 0, &note));
    assert_false(gossip_journal_get(&names, 255, NULL, 0, &note));
}

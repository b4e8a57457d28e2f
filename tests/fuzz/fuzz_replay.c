/* fuzz_replay.c - what several journals say together. Bytes choose records that each alone could be a node's, with few
 * nodes, numbers and histories, so that they meet, contradict one another and go round in circles. The replay's readers
 * (replay_moves.h, replay_cover.h) refuse them with one printable line, or what
 * they found holds together, and values go where it says (replay_flows.c). */
#include <errno.h>

#include "node/base/parse.h"
#include "node/commands/replay_actor.h"
#include "node/commands/replay_cover.h"
#include "proto/bytes.h"
#include "tests/fuzz/fuzz.h"

enum { JOURNALS = 3, TEXT_MAX = 1 << 14, SHARDS = 12 };
enum { STEPS = 8, NODES = 4 };

static const uint8_t *input;
static size_t left;

static unsigned
draw(unsigned count)
{
    if (left == 0)
        return 0;
    left--;
    return *input++ % count;
}

static struct proto_node
node(void)
{
    unsigned n = draw(NODES * 2);
    return (struct proto_node){1 + n / 2, 10 + n % 2};
}

/* --- Journals in memory --------------------------------------------------------------------------- */

static uint8_t bytes[JOURNALS][TEXT_MAX];
static struct replay_journals journals;

/* The readers look at no checks: journal_check did, before them. */
static void
add(size_t t, unsigned type, const void *record, size_t size)
{
    struct journal_text *text = &journals.text[t];
    if (text->size + JOURNAL_RECORD_HEAD + size > TEXT_MAX)
        return;
    struct bytes_out out = bytes_out(text->bytes + text->size, 8);
    bytes_put_u64(&out, (uint64_t)size | (uint64_t)type << 24);
    memcpy(text->bytes + text->size + JOURNAL_RECORD_HEAD, record, size);
    text->size += JOURNAL_RECORD_HEAD + size;
}

static void
start(size_t t, struct proto_node self)
{
    uint8_t data[JOURNAL_START_SIZE] = {0};
    struct bytes_out out = bytes_out(data, sizeof data);
    bytes_put_u64(&out, self.id);
    bytes_put_u64(&out, self.incarnation);
    add(t, JOURNAL_START, data, sizeof data);
}

static void
begin(void)
{
    static const char *const dirs[JOURNALS] = {"a", "b", "c"};
    memset(bytes, 0, sizeof bytes);
    journals.count = JOURNALS;
    for (size_t t = 0; t < JOURNALS; t++) {
        journals.dir[t] = dirs[t];
        journals.text[t] = (struct journal_text){.bytes = bytes[t], .size = JOURNAL_HEAD_SIZE};
        start(t, (struct proto_node){1 + t, 10});
    }
}

static void
printable(int rc, const struct why *why)
{
    if (rc && rc != -ENOMEM)
        must(why->line[0] && parse_printable(why->line), "the reason is not one clean line");
}

static FILE *
nowhere(void)
{
    static FILE *file;
    file = file ? file : fopen("/dev/null", "w");
    must(file != NULL, "no /dev/null");
    return file;
}

/* --- Gossip --------------------------------------------------------------------------------------- */

enum { VALUES = 5, CHUNK = 3, RANGES = 2 };

static void
gossip_record(size_t t, struct gossip_names *names)
{
    uint8_t data[GOSSIP_RECORD_MAX];
    struct gossip_note note = {.event = (enum gossip_event)(1 + draw(GOSSIP_EMPTY))};
    if (!gossip_journal_has(note.event)) { /* 1, and those that are not written */
        start(t, node());
        *names = (struct gossip_names){.plan = 0};
        return;
    }
    note.peer = node();
    note.link = draw(3);
    note.number = draw(3);
    note.range = (uint32_t)(note.number % RANGES);
    note.share = 2;
    if (note.event == GOSSIP_READ) {
        note.step = draw(STEPS);
        note.total = draw(STEPS) * SHARDS;
        note.shards = draw(2) ? 0xfff : (uint64_t)draw(256) << 4 | draw(16);
        note.plan = 1 + draw(3);
        note.number = 1 + draw(4);
        note.rank = draw(4);
    }
    add(t, note.event, data, gossip_journal_put(names, &note, data));
}

static void
check_moves(const struct replay_moves *moves)
{
    size_t reads = 0;
    for (size_t s = 0; s < moves->start_count; s++) {
        const struct replay_start *from = &moves->start[s];
        struct replay_cursor cursor = replay_moves_begin(from);
        struct gossip_note note;
        while (replay_moves_next(moves, from, &cursor, &note)) {
            bool took = replay_moves_takes(&note);
            reads += note.event == GOSSIP_READ;
            if (!took && !replay_moves_makes(&note))
                continue;
            const struct replay_move *move = replay_moves_find(moves, from->node, &note);
            must(move != NULL, "what was given or taken is no move");
            must(!took || move->wanted, "what was taken is not wanted");
        }
    }
    must(reads == moves->read_count, "a step is missing");
}

/* The values go where the journals say, as far as they can: what waits for something that never comes is only left
 * over. */
static void
do_event(struct replay *r, struct actor *a, bool *done)
{
    enum gossip_event event = a->note.event;
    int rc = DONE;
    if (event == GOSSIP_PHASE || event == GOSSIP_READ)
        read_values(r, a);
    else if (event != GOSSIP_BEGAN && event != GOSSIP_UPDATED && event != GOSSIP_SAVED &&
             event != GOSSIP_MEAN && event != GOSSIP_RESULT)
        rc = replay_flows_do(r, a);
    must(rc != -ENOMEM, "no memory");
    *done = rc == DONE;
    if (rc == IMPOSSIBLE)
        a->over = true;
    if (rc == DONE)
        a->over = !replay_moves_next(&r->moves, a->start, &a->cursor, &a->note);
}

static void
run_events(struct replay *r)
{
    for (bool more = true, done; more;) {
        more = false;
        for (size_t s = 0; s < r->moves.start_count; s++)
            for (done = true; done && !r->actor[s].over; more |= done)
                do_event(r, &r->actor[s], &done);
    }
}

static void
exchange(const struct replay_moves *moves, bool push_sum, bool async, bool codes)
{
    static int64_t values[64][VALUES], weight[64][2][RANGES];
    static int32_t scratch[VALUES], update[VALUES], read[64][VALUES];
    static struct actor actor[64];
    struct replay r = {.moves = *moves,
                       .actor = actor,
                       .async = async,
                       .push_sum = push_sum,
                       .codes = codes,
                       .codec = {.rounding = CODEC_TOP, .share = 0.3},
                       .count = VALUES,
                       .chunk = CHUNK,
                       .ranges = RANGES,
                       .scratch = scratch,
                       .update = update};
    if (moves->start_count > 64)
        return;
    memset(read, 0, sizeof read);
    for (size_t s = 0; s < moves->start_count; s++) {
        const struct replay_start *from = &moves->start[s];
        actor[s] = (struct actor){
            .start = from,
            .cursor = replay_moves_begin(from),
            .began = true,
            .values = values[s],
            .weight = weight[s][0],
            .read_weight = weight[s][1],
            .read = read[s],
        };
        for (size_t k = 0; k < VALUES; k++)
            values[s][k] = (int64_t)(s * VALUES + k) << 20;
        set_weights(&r, &actor[s], GOSSIP_ONE);
        read_values(&r, &actor[s]);
        actor[s].over = !replay_moves_next(moves, from, &actor[s].cursor, &actor[s].note);
    }
    run_events(&r);
    for (size_t s = 0; s < moves->start_count; s++)
        free(actor[s].copied);
}

static void
gossip(bool push_sum, bool async, bool codes)
{
    const struct replay_rules rules = {.push_sum = push_sum, .shards = SHARDS, .ranges = RANGES};
    const struct replay_cover cover = {
        .steps = STEPS, .shards = SHARDS, .async = async, .push_sum = push_sum};
    struct verify_folders folders = {.out = nowhere(), .first = -1};
    struct gossip_names names[JOURNALS] = {{.plan = 0}};
    struct replay_moves moves;
    struct why why = {""};
    while (left) {
        unsigned t = draw(JOURNALS);
        gossip_record(t, &names[t]);
    }
    int rc = replay_moves_init(&moves, &journals, &rules, &why);
    printable(rc, &why);
    if (rc == 0) {
        check_moves(&moves);
        must(replay_cover(&moves, &cover, &folders) == 0, "no memory");
        exchange(&moves, push_sum, async, codes);
    }
    replay_moves_fini(&moves);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input = data;
    left = size;
    begin();
    unsigned way = draw(5);
    gossip(way == 2, way == 3 || way == 0, way == 4 || way == 0);
    return 0;
}

/* steptime.c - see steptime.h. */
#include "mesh/core/pipeline/steptime.h"

#include <assert.h>

#include "proto/bits.h"

static uint64_t
later(uint64_t a_us, uint64_t b_us)
{
    return a_us > b_us ? a_us : b_us;
}

/* --- Transfers ------------------------------------------------------------------------------------ */

static void
transfer_arrives(const struct steptime *step, struct steptime_room *room, unsigned stage,
                 unsigned shard, bool gradient)
{
    unsigned member = step->owner[stage][shard];
    struct schedule *to = &room->schedule[member];
    bool wanted =
        gradient ? schedule_on_gradient(to, stage, shard) : schedule_on_input(to, stage, shard);
    assert(wanted);
    room->due |= UINT64_C(1) << member;
}

/* To the holder of (stage, shard). */
static void
transfer_begins(const struct steptime *step, struct steptime_room *room, unsigned from,
                unsigned stage, unsigned shard, bool gradient, struct steptime_result *result)
{
    unsigned to = step->owner[stage][shard];
    uint64_t bytes = step->bytes ? step->bytes[gradient ? stage : stage - 1] : 0;
    if (from == to) {
        transfer_arrives(step, room, stage, shard, gradient);
        return;
    }
    result->sent[from] += bytes;
    uint64_t free_us = later(room->now_us, later(room->out_us[from], room->in_us[to]));
    if (step->links) {
        const struct steptime_link *link = &step->links[from * step->members + to];
        free_us += link->rate ? bytes * 1000000 / link->rate : 0;
        room->out_us[from] = room->in_us[to] = free_us;
        free_us += link->latency_us;
    }
    room->transfers[room->transfer_count++] =
        (struct steptime_transfer){free_us, (uint8_t)stage, (uint8_t)shard, gradient};
}

static void
transfers_end(const struct steptime *step, struct steptime_room *room)
{
    for (size_t i = 0; i < room->transfer_count;) {
        struct steptime_transfer transfer = room->transfers[i];
        if (transfer.at_us > room->now_us) {
            i++;
            continue;
        }
        room->transfers[i] = room->transfers[--room->transfer_count];
        transfer_arrives(step, room, transfer.stage, transfer.shard, transfer.gradient);
    }
}

/* --- Pieces --------------------------------------------------------------------------------------- */

static uint64_t
piece_us(const struct steptime *step, unsigned member, struct schedule_piece piece)
{
    const struct steptime_times *times = &step->times[member * step->stages + piece.stage];
    switch (piece.kind) {
    case SCHEDULE_FORWARD:
        return times->forward_us;
    case SCHEDULE_INPUT:
        return times->input_us;
    case SCHEDULE_WEIGHT:
        return times->weight_us;
    default:
        return (uint64_t)times->input_us + times->weight_us;
    }
}

static void
piece_begins(const struct steptime *step, struct steptime_room *room, unsigned member,
             struct steptime_piece *pieces, struct steptime_result *result)
{
    struct schedule_piece piece;
    if (!schedule_next(&room->schedule[member], &piece))
        return;
    uint64_t us = piece_us(step, member, piece);
    room->end_us[member] = room->now_us + us;
    result->busy_us[member] += us;
    if (pieces)
        pieces[result->pieces] =
            (struct steptime_piece){member, piece, room->now_us, room->now_us + us};
    result->pieces++;
}

static void
piece_ends(const struct steptime *step, struct steptime_room *room, unsigned member,
           struct steptime_result *result)
{
    struct schedule_piece piece = room->schedule[member].now;
    bool counts = schedule_done(&room->schedule[member]);
    assert(counts);
    room->due |= UINT64_C(1) << member;
    bool last = piece.stage + 1 == step->stages;
    if (piece.kind == SCHEDULE_FORWARD && !last)
        transfer_begins(step, room, member, piece.stage + 1, piece.shard, false, result);
    if ((piece.kind == SCHEDULE_BACKWARD || piece.kind == SCHEDULE_INPUT) && piece.stage > 0)
        transfer_begins(step, room, member, piece.stage - 1, piece.shard, true, result);
    result->pieces_us = room->computed_us[piece.stage] = room->now_us;
}

/* --- The step ------------------------------------------------------------------------------------- */

static void
set_out(const struct steptime *step, struct steptime_room *room)
{
    room->now_us = 0;
    room->due = bits_below(step->members);
    room->transfer_count = 0;
    for (unsigned m = 0; m < step->members; m++) {
        room->out_us[m] = room->in_us[m] = 0;
        schedule_init(&room->schedule[m], step->rule, step->stages);
        schedule_wait(&room->schedule[m], step->shards, step->owner);
    }
    for (unsigned stage = 0; stage < step->stages; stage++)
        for (unsigned shard = 0; shard < step->shards; shard++) {
            assert(step->owner[stage][shard] < step->members);
            schedule_add(&room->schedule[step->owner[stage][shard]], stage, UINT64_C(1) << shard);
        }
}

/* False: nothing is to come. */
static bool
next_event(const struct steptime *step, struct steptime_room *room)
{
    uint64_t next_us = UINT64_MAX;
    for (unsigned m = 0; m < step->members; m++)
        if (room->schedule[m].busy && room->end_us[m] < next_us)
            next_us = room->end_us[m];
    for (size_t i = 0; i < room->transfer_count; i++)
        if (room->transfers[i].at_us < next_us)
            next_us = room->transfers[i].at_us;
    if (next_us == UINT64_MAX)
        return false;
    room->now_us = next_us;
    return true;
}

static void
add_sums(const struct steptime *step, const struct steptime_room *room,
         struct steptime_result *result)
{
    uint64_t free_us[PROTO_PEERS_MAX] = {0};
    for (unsigned stage = step->stages; stage-- > 0;) {
        uint64_t holders = step->holders ? step->holders[stage] : 0;
        uint64_t end_us = room->computed_us[stage];
        for (uint64_t left = holders; left; left &= left - 1)
            end_us = later(end_us, free_us[__builtin_ctzll(left)]);
        end_us += step->sums_us ? step->sums_us[stage] : 0;
        for (uint64_t left = holders; left; left &= left - 1)
            free_us[__builtin_ctzll(left)] = end_us;
        result->step_us = later(result->step_us, end_us);
    }
}

static double
idle_of(const struct steptime *step, const struct steptime_result *result)
{
    double busy = 0, all = (double)step->members * (double)result->pieces_us;
    for (unsigned m = 0; m < step->members; m++)
        busy += (double)result->busy_us[m];
    return all > 0 ? 1 - busy / all : 0;
}

void
steptime_run(const struct steptime *step, struct steptime_room *room, struct steptime_piece *pieces,
             struct steptime_result *result)
{
    assert(step->members > 0 && step->members <= PROTO_PEERS_MAX);
    assert(step->shards > 0 && step->shards <= PROTO_SHARDS_MAX);
    *result = (struct steptime_result){0};
    set_out(step, room);
    do {
        for (unsigned m = 0; m < step->members; m++)
            if (room->schedule[m].busy && room->end_us[m] == room->now_us)
                piece_ends(step, room, m, result);
        transfers_end(step, room);
        for (; room->due; room->due &= room->due - 1)
            piece_begins(step, room, (unsigned)__builtin_ctzll(room->due), pieces, result);
    } while (next_event(step, room));
    for (unsigned m = 0; m < step->members; m++)
        assert(schedule_complete(&room->schedule[m]));
    add_sums(step, room, result);
    result->idle = idle_of(step, result);
}

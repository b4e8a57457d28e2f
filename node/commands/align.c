/* align.c - see align.h. A bound is the weight of an edge: shift of v >= shift of u + weight. Bounds by way of other
 * nodes are longest paths (Floyd, CACM 1962; Bellman, Quarterly of Applied Mathematics 1958). */
#include "node/commands/align.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* Who computed a piece, and until when. */
struct made {
    bool there;
    uint8_t row;
    int64_t end_us;
};

struct bounds {
    size_t count;
    struct made made[SCHEDULE_KINDS][PROTO_STAGES_MAX][PROTO_SHARDS_MAX];
    int64_t least[PROTO_PEERS_MAX][PROTO_PEERS_MAX]; /* [u][v] */
};

/* Row v has something at `v_us` that row u had at `u_us`, by their own clocks. */
static void
bound(struct bounds *b, size_t u, int64_t u_us, size_t v, int64_t v_us)
{
    if (u_us - v_us > b->least[u][v])
        b->least[u][v] = u_us - v_us;
}

static int64_t
time_of(const struct recorded *row, uint64_t us)
{
    return (int64_t)(row->begin_us + us);
}

/* Notes the pieces of a row. False: another one has computed one of them. */
static bool
note_made(struct bounds *b, const struct recorded *row, size_t r, size_t *other)
{
    for (size_t i = 0; i < row->count; i++) {
        const struct schedule_piece *piece = &row->pieces[i].piece;
        if (piece->kind == SCHEDULE_TAIL)
            continue;
        struct made *made = &b->made[piece->kind][piece->stage][piece->shard];
        *other = made->row;
        if (made->there)
            return false;
        *made = (struct made){true, (uint8_t)r, time_of(row, row->pieces[i].end_us)};
    }
    return true;
}

static void
bound_by(struct bounds *b, const struct made *made, size_t v, int64_t begin_us)
{
    if (made->there)
        bound(b, made->row, made->end_us, v, begin_us);
}

/* What each piece of a row takes was made before. */
static void
bound_pieces(struct bounds *b, const struct recorded *row, size_t v)
{
    for (size_t i = 0; i < row->count; i++) {
        const struct schedule_piece *piece = &row->pieces[i].piece;
        unsigned stage = piece->stage, shard = piece->shard;
        int64_t begin_us = time_of(row, row->pieces[i].begin_us);
        bool back = piece->kind == SCHEDULE_INPUT || piece->kind == SCHEDULE_BACKWARD;
        if (piece->kind == SCHEDULE_FORWARD && stage > 0)
            bound_by(b, &b->made[SCHEDULE_FORWARD][stage - 1][shard], v, begin_us);
        if (back && stage + 1 < PROTO_STAGES_MAX) {
            bound_by(b, &b->made[SCHEDULE_INPUT][stage + 1][shard], v, begin_us);
            bound_by(b, &b->made[SCHEDULE_BACKWARD][stage + 1][shard], v, begin_us);
        }
    }
}

/* Each node adds to the sum, also who computes nothing. */
static void
bound_sums(struct bounds *b, const struct recorded *row)
{
    for (size_t u = 0; u < b->count; u++) {
        uint64_t last_us = row[u].count ? row[u].pieces[row[u].count - 1].end_us : 0;
        for (size_t v = 0; v < b->count; v++)
            bound(b, u, time_of(&row[u], last_us), v, (int64_t)row[v].end_us);
    }
}

static void
paths_by(struct bounds *b, size_t by)
{
    for (size_t u = 0; u < b->count; u++)
        for (size_t v = 0; v < b->count; v++)
            bound(b, u, b->least[u][by] + b->least[by][v], v, 0);
}

/* False: row *one comes after itself by way of *other. There it ends, before the sums grow too large. */
static bool
longest_paths(struct bounds *b, size_t *one, size_t *other)
{
    for (*other = 0; *other < b->count; ++*other) {
        paths_by(b, *other);
        for (*one = 0; *one < b->count; ++*one)
            if (b->least[*one][*one] > 0)
                return false;
    }
    return true;
}

static void
shift_rows(struct aligned *out, const struct bounds *b)
{
    for (size_t u = 0; u < b->count; u++)
        for (size_t v = 0; v < b->count; v++)
            out->moved = out->moved || b->least[u][v] > 0;
    for (size_t v = 1; v < b->count && out->moved; v++) {
        int64_t least = b->least[0][v], most = -b->least[v][0];
        out->shift_us[v] = least + (most - least) / 2;
        uint64_t within_us = (uint64_t)(most - least + 1) / 2;
        out->within_us = within_us > out->within_us ? within_us : out->within_us;
    }
}

int
align(struct aligned *out, const struct recorded *row, size_t count, size_t *one, size_t *other)
{
    assert(count >= 1 && count <= PROTO_PEERS_MAX);
    struct bounds *b = calloc(1, sizeof *b);
    *out = (struct aligned){.moved = false};
    if (!b)
        return -ENOMEM;
    b->count = count;
    for (size_t u = 0; u < count; u++)
        for (size_t v = 0; v < count; v++)
            b->least[u][v] = INT64_MIN; /* bound_sums sets each */
    bool good = true;
    for (*one = 0; good && *one < count; *one += good)
        good = note_made(b, &row[*one], *one, other);
    for (size_t v = 0; v < count && good; v++)
        bound_pieces(b, &row[v], v);
    if (good) {
        bound_sums(b, row);
        good = longest_paths(b, one, other);
    }
    if (good)
        shift_rows(out, b);
    free(b);
    return good ? 0 : -EBADMSG;
}

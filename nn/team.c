/* team.c - one call of a layer shared out over threads: by rows or columns, by units of its gradient, or by shards. */
#include "nn/arithmetic/vmath.h"
#include "nn/pass.h"

void
nn_pass_team(struct nn_pass *pass, const struct nn_team *team)
{
    pass->team = team;
}

/* A call of a layer that is divided. */
struct divided {
    const struct nn_pass *pass;
    const struct layer *layer;
    void (*call)(const struct layer *layer, const struct layer_io *io);
    struct layer_io io;
    size_t scratch;
    enum team_share by;
};

static float *
move(float *at, size_t n)
{
    return at == NULL ? NULL : at + n;
}

/* Rows [first, end) of a call. */
static struct layer_io
rows_of(const struct layer *layer, const struct layer_io *all, size_t first, size_t end)
{
    struct layer_io io = *all;
    bool tied = layer->tied != NULL && io.tied_x != NULL;
    io.end = NULL;
    io.rows = end - first;
    io.x += first * layer->in_size;
    io.y = move(io.y, first * layer->out_size);
    io.dy = move(io.dy, first * layer->out_size);
    io.dx = move(io.dx, first * layer->in_size);
    io.after = move(io.after, first * layer->out_size);
    io.slope = io.slope == NULL ? NULL : io.slope + first * layer->in_size;
    io.saved = io.saved == NULL ? NULL : (char *)io.saved + first * layer_saved(layer);
    io.held = move(io.held, first * (tied ? layer->tied->out_size : layer->out_size));
    io.tied_x = tied ? io.tied_x + first * layer->tied->in_size : io.tied_x;
    return io;
}

static void
divided_rows(const struct divided *divided, size_t i, float *scratch)
{
    size_t rows = divided->io.rows, parts = divided->pass->team->parts, first = rows * i / parts;
    struct layer_io io = rows_of(divided->layer, &divided->io, first, rows * (i + 1) / parts);
    struct nn_context context = *io.context;
    context.first_row += first;
    io.context = &context;
    io.scratch = scratch;
    if (io.rows > 0)
        divided->call(divided->layer, &io);
}

struct layer_io
team_shard(const struct nn_pass *pass, const struct layer *layer, const struct layer_io *all,
           size_t shard)
{
    struct layer_io io =
        rows_of(layer, all, pass_shard_first(pass, shard), pass_shard_first(pass, shard + 1));
    io.context += shard;
    io.sink = io.sink == NULL ? NULL : io.sink + shard;
    return io;
}

/* A shard without rows has no gradient, and no memory of its own to keep anything in. */
static void
divided_shard(const struct divided *divided, size_t shard, float *scratch)
{
    struct layer_io io = team_shard(divided->pass, divided->layer, &divided->io, shard);
    io.scratch = scratch;
    if (io.rows > 0)
        divided->call(divided->layer, &io);
}

static void
divided_part(void *arg, size_t i)
{
    const struct divided *divided = arg;
    const struct nn_team *team = divided->pass->team;
    float *scratch = team->scratch + i * divided->scratch;
    struct layer_io io = divided->io;
    if (divided->by == TEAM_ROWS)
        divided_rows(divided, i, scratch);
    for (size_t s = i; divided->by == TEAM_SHARDS && s < divided->pass->shards; s += team->parts)
        divided_shard(divided, s, scratch);
    if (divided->by != TEAM_UNITS && divided->by != TEAM_COLUMNS)
        return;
    io.scratch = scratch;
    io.part = (unsigned)i;
    io.parts = team->parts;
    divided->call(divided->layer, &io);
}

static bool
divisible(const struct layer *layer, enum team_share by)
{
    if (by == TEAM_SHARDS)
        return true;
    return by == TEAM_UNITS ? layer->kind->by_units : layer->kind->by_rows;
}

void
team_call(const struct nn_pass *pass, const struct layer *layer,
          void (*call)(const struct layer *layer, const struct layer_io *io),
          const struct layer_io *io, enum team_share by)
{
    struct divided divided = {pass, layer, call, *io, 0, by};
    if (pass->team != NULL && divisible(layer, by)) {
        divided.scratch = nn_team_scratch(pass->model, &pass->room);
        pass->team->run(pass->team->ctx, divided_part, &divided, pass->team->parts);
        return;
    }
    for (size_t s = 0; by == TEAM_SHARDS && s < pass->shards; s++)
        divided_shard(&divided, s, io->scratch);
    if (by != TEAM_SHARDS)
        call(layer, io);
}

struct rounding {
    float *x;
    size_t n, parts;
};

static void
round_part(void *arg, size_t i)
{
    const struct rounding *r = arg;
    size_t first = r->n * i / r->parts, end = r->n * (i + 1) / r->parts;
    vmath_bf16(r->x + first, end - first);
}

void
team_round(const struct nn_pass *pass, float *x, size_t width)
{
    const struct nn_team *team = pass->team;
    struct rounding r = {x, pass->batch.rows * width, team == NULL ? 1 : team->parts};
    if (team == NULL)
        round_part(&r, 0);
    else
        team->run(team->ctx, round_part, &r, r.parts);
}

void
team_shards(const struct nn_pass *pass, void (*part)(void *arg, size_t s), void *arg)
{
    if (pass->team != NULL)
        pass->team->run(pass->team->ctx, part, arg, pass->shards);
    for (size_t s = 0; pass->team == NULL && s < pass->shards; s++)
        part(arg, s);
}

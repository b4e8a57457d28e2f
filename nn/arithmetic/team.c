/* team.c - one call of a layer shared out over threads, by rows or by units of its gradient. */
#include "nn/arithmetic/blas.h"
#include "nn/pass.h"

enum { ALIGN = 64 };

/* A multiple of a cache line. */
size_t
nn_team_scratch(const struct nn_model *model, size_t rows_max)
{
    size_t most = 0;
    for (size_t l = 0; l < model->layer_count; l++) {
        const struct layer *layer = &model->layer[l];
        size_t need = layer->kind->scratch == NULL ? 0 : layer->kind->scratch(layer, rows_max);
        most = need > most ? need : most;
    }
    return (most + ALIGN - 1) / ALIGN * ALIGN;
}

void
nn_pass_team(struct nn_pass *pass, const struct nn_team *team)
{
    pass->team = team;
}

/* A call of a layer that a team shares out. */
struct share {
    const struct layer *layer;
    void (*call)(const struct layer *layer, const struct layer_io *io);
    struct layer_io io;
    const struct nn_team *team;
    size_t scratch;
    bool units; /* rather than rows */
};

static void
share_part(void *arg, size_t i)
{
    const struct share *share = arg;
    const struct layer *layer = share->layer;
    struct layer_io io = share->io;
    struct nn_context context = *io.context;
    size_t parts = share->team->parts, first = io.rows * i / parts;
    io.scratch = share->team->scratch + i * share->scratch;
    if (share->units) {
        io.part = (unsigned)i;
        io.parts = (unsigned)parts;
    } else {
        size_t saved = layer_saved(layer);
        io.rows = io.rows * (i + 1) / parts - first;
        io.x += first * layer->in_size;
        io.y += first * layer->out_size;
        io.dy = io.dy == NULL ? NULL : io.dy + first * layer->out_size;
        io.dx = io.dx == NULL ? NULL : io.dx + first * layer->in_size;
        io.saved = io.saved == NULL ? NULL : (char *)io.saved + first * saved;
        io.held = io.held == NULL ? NULL : io.held + first * layer->out_size;
        context.first_row += first;
        io.context = &context;
    }
    if (share->units || io.rows > 0)
        share->call(layer, &io);
}

/* Rows of a product of OpenBLAS may depend on one another. */
static bool
divisible(const struct layer *layer, bool units)
{
    return (units ? layer->kind->by_units : layer->kind->by_rows) &&
           !(blas_used && layer->kind == &dense_kind);
}

void
team_call(const struct nn_pass *pass, const struct layer *layer,
          void (*call)(const struct layer *layer, const struct layer_io *io),
          const struct layer_io *io, bool units)
{
    struct share share = {layer, call, *io, pass->team, 0, units};
    if (pass->team == NULL || !divisible(layer, units)) {
        call(layer, io);
        return;
    }
    share.scratch = nn_team_scratch(pass->model, pass->rows_max);
    pass->team->run(pass->team->ctx, share_part, &share, pass->team->parts);
}

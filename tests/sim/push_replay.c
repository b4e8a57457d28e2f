/* push_replay.c - a run of push computed again from its journal: from the history of the final model back to the first
 * values, by what each node noted. */
#include <stddef.h>

#include "proto/mix.h"
#include "tests/sim/push.h"

static struct sim_push_record *
record_after(struct sim_push *push, unsigned range, uint64_t after)
{
    for (size_t k = 0; k < push->records; k++)
        if (push->record[k].taken.range == range && push->record[k].taken.after == after)
            return &push->record[k];
    return NULL;
}

static const struct sim_push_computed *
computed_by(const struct sim_push *push, struct proto_node who, uint64_t number)
{
    for (size_t k = 0; k < push->computeds; k++) {
        const struct sim_push_computed *c = &push->computed[k];
        if (c->who.id == who.id && c->who.incarnation == who.incarnation && c->number == number)
            return c;
    }
    return NULL;
}

static const char *at(struct sim_push *push, unsigned range, uint64_t history,
                      struct sim_push_copy *out);

static const char *
gradient_of(struct sim_push *push, const struct push_taken *taken, uint64_t *gradient)
{
    const struct sim_push_computed *c = computed_by(push, taken->who, taken->number);
    uint64_t params[SIM_RANGES_MAX];
    if (!c || c->ticket != taken->ticket)
        return "nobody noted that it computed this gradient";
    for (unsigned r = 0; r < push->config.range_count; r++) {
        struct sim_push_copy copy;
        const char *wrong = at(push, r, c->history[r], &copy);
        if (wrong)
            return wrong;
        params[r] = copy.value.params;
    }
    *gradient = sim_push_gradient(taken->ticket, taken->range, params, push->config.range_count);
    return NULL;
}

/* A range when it had this history. */
static const char *
at(struct sim_push *push, unsigned range, uint64_t history, struct sim_push_copy *out)
{
    if (history == push_first_history(range)) {
        *out = (struct sim_push_copy){.value = {.params = mix64(range + 77)}};
        return NULL;
    }
    struct sim_push_record *r = record_after(push, range, history);
    if (!r)
        return "nobody noted how a range came to its history";
    if (!r->known) {
        const char *wrong = at(push, range, r->taken.before, &r->state);
        uint64_t gradient = 0;
        if (!wrong && r->restored) {
            r->state = (struct sim_push_copy){.value = r->state.value};
        } else if (!wrong) {
            wrong = gradient_of(push, &r->taken, &gradient);
            sim_push_apply(&r->state, &r->taken, gradient);
        }
        if (wrong)
            return wrong;
        r->known = true;
    }
    *out = r->state;
    return NULL;
}

/* Marks what is in the model. */
static void
mark(struct sim_push *push, const uint64_t *final)
{
    for (size_t k = 0; k < push->records; k++)
        push->record[k].final = false;
    for (unsigned range = 0; range < push->config.range_count; range++) {
        struct sim_push_record *r;
        for (uint64_t history = final[range]; (r = record_after(push, range, history)) != NULL;
             history = r->taken.before)
            r->final = true;
    }
}

static bool
in_model(struct sim_push *push, unsigned range, uint64_t history)
{
    const struct sim_push_record *r = record_after(push, range, history);
    return history == push_first_history(range) || (r && r->final);
}

/* Was all that is in the model computed from what is in it? What was lost, or came after a checkpoint, is not. */
static bool
is_closed(struct sim_push *push)
{
    for (size_t k = 0; k < push->records; k++) {
        const struct sim_push_record *r = &push->record[k];
        const struct sim_push_computed *c =
            r->final && !r->restored ? computed_by(push, r->taken.who, r->taken.number) : NULL;
        for (unsigned range = 0; c && range < push->config.range_count; range++)
            if (!in_model(push, range, c->history[range]))
                return false;
    }
    return true;
}

const char *
sim_push_replay(struct sim_push *push, const uint64_t *final, bool closed, uint64_t *params)
{
    mark(push, final);
    if (closed && !is_closed(push))
        return "a gradient was computed from values that are not in the model";
    for (unsigned r = 0; r < push->config.range_count; r++) {
        struct sim_push_copy copy;
        const char *wrong = at(push, r, final[r], &copy);
        if (wrong)
            return wrong;
        params[r] = copy.value.params;
    }
    return NULL;
}

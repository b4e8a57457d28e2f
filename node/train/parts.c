/* parts.c - see parts.h. */
#include "node/train/parts.h"

#include <errno.h>
#include <string.h>

/* Of which segments are these the ranges? 0: of none, or not of whole ones. */
static uint64_t
range_segments(const struct stages_mesh *mesh, const struct state_range *range, size_t count)
{
    uint64_t segments = 0;
    size_t all = 0, held = 0;
    for (size_t i = 0; i < count; i++)
        all += range[i].end - range[i].first;
    for (size_t s = 0; s < mesh->segments.count; s++)
        for (size_t i = 0; i < count; i++) {
            const struct state_range *segment = &mesh->segments.stage[s];
            if (segment->first < range[i].first || segment->end > range[i].end)
                continue;
            segments |= UINT64_C(1) << s;
            held += segment->end - segment->first;
        }
    return all == held ? segments : 0;
}

/* Those of the newest checkpoint, of this job or of an earlier part of it; 0: there is none. */
static uint64_t
checkpoint_segments(const struct run *run, const struct stages_mesh *mesh)
{
    struct state_range range[STATE_RANGES_MAX];
    size_t count = save_ranges(run->save, run->job_hash, &run->state, range);
    for (size_t i = run->job.past_count; i-- > 0 && count == 0;)
        count = save_ranges(run->save, run->job.past_hash[i], &run->state, range);
    return range_segments(mesh, range, count);
}

static int
hold_alone(struct run *run, const struct stages_mesh *mesh, uint64_t segments, struct why *why)
{
    struct state_range range[PROTO_STAGES_MAX];
    size_t count = stages_mesh_ranges(mesh, segments, range);
    state_hold(&run->state, range, count);
    state_hold(&run->next, range, count);
    int rc = job_state(&run->job, run->config, &run->state, why);
    return rc ? rc : save_hold(run->save, &run->state, why);
}

bool
parts_known(struct run *run, const struct stages_mesh *mesh)
{
    struct why why;
    uint64_t segments = run->folder.fresh ? 0 : checkpoint_segments(run, mesh);
    run->folder.unread = segments != 0;
    bool some = segments != 0 && segments != core_segments(&mesh->core);
    bool known = some ? hold_alone(run, mesh, segments, &why) == 0 : !run->memory.part;
    if (known)
        run->folder.unread = false;
    return known;
}

static void
tell(struct run *run, const struct stages_mesh *mesh)
{
    uint64_t segments = stages_mesh_held(mesh, &run->state);
    char held[MEMORY_TEXT], all[MEMORY_TEXT], missing[MEMORY_TEXT];
    uint64_t whole = memory_segments(&run->memory, UINT64_MAX);
    uint64_t own = memory_segments(&run->memory, segments);
    memory_text(held, (double)own);
    memory_text(all, (double)whole);
    memory_text(missing, (double)(whole - own));
    if (whole == own) {
        train_say(run, 6, "this node holds the whole model now, %s", all);
        return;
    }
    train_say(
        run, 6,
        "this node holds %d of %zu segments of the model, %s of %s; others must hold the rest, %s",
        __builtin_popcountll(segments), mesh->segments.count, held, all, missing);
}

int
parts_hold(struct run *run, const struct stages_mesh *mesh, uint64_t segments, struct why *why)
{
    struct why none;
    int rc = hold_alone(run, mesh, segments, why);
    if (rc)
        return rc;
    struct checkpoint_found found = {.whole = false};
    if (run->folder.unread)
        train_read(run, &found, &none);
    if (run->folder.unread && found.whole)
        train_tell_resumed(run, "");
    run->folder.unread = false;
    if (segments != core_segments(&mesh->core))
        tell(run, mesh);
    return 0;
}

bool
parts_back(struct run *run, const struct stages_mesh *mesh, uint64_t round)
{
    struct why why;
    uint64_t held = stages_mesh_held(mesh, &run->state);
    uint64_t had = run->folder.fresh ? 0 : checkpoint_segments(run, mesh) & held;
    return had && had != held && hold_alone(run, mesh, had, &why) == 0 &&
           save_find_below(run->save, &run->state, round);
}

int
parts_hold_more(struct run *run, const struct stages_mesh *mesh, uint64_t segments,
                const uint8_t *block, const uint64_t *parts, struct why *why)
{
    const struct state_range *segment = mesh->segments.stage;
    struct state more = run->state;
    why_set(why, "%s", "");
    for (size_t s = 0; s < mesh->segments.count; s++)
        if ((segments >> s & 1) && !state_segment_sound(&run->state, &segment[s], block, parts[s]))
            return -EBADMSG;
    for (size_t s = 0; s < mesh->segments.count; s++)
        if (segments >> s & 1)
            state_hold_more(&more, &segment[s], NULL);
    int rc = save_hold(run->save, &more, why);
    for (size_t s = 0; s < mesh->segments.count && !rc; s++)
        if (segments >> s & 1) {
            state_hold_more(&run->state, &segment[s], block);
            state_hold_more(&run->next, &segment[s], NULL);
        }
    if (!rc)
        tell(run, mesh);
    return rc;
}

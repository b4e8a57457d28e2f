/* line.c - see line.h for what a line is, and how its rate is measured. */
#include "mesh/core/sessions/line.h"

#include <assert.h>

#include "mesh/core/internal.h"

void
line_heard(struct line *line, struct wall now, uint64_t sent_us)
{
    int64_t difference_us = (int64_t)(now.us - sent_us);
    if (!line->known || wall_since(now, line->base_at) > LINE_BASE_US) {
        line->base_us[1] = line->known ? line->base_us[0] : difference_us;
        line->base_us[0] = difference_us;
        line->base_at = now;
        line->known = true;
    } else if (difference_us < line->base_us[0]) {
        line->base_us[0] = difference_us;
    }
}

uint32_t
line_now(const struct line *line)
{
    if (line->busy_us < LINE_FAST_US || line->bytes > UINT32_MAX)
        return LINE_FAST;
    uint64_t rate = line->bytes * 1000000 / line->busy_us;
    return rate < 1 ? 1 : rate < LINE_FAST ? (uint32_t)rate : LINE_FAST;
}

void
line_chunk(struct line *line, struct wall *free_at, struct wall now, uint64_t sent_us,
           uint64_t bytes)
{
    line_heard(line, now, sent_us);
    int64_t base_us = line->base_us[0] < line->base_us[1] ? line->base_us[0] : line->base_us[1];
    struct wall begin = {sent_us + (uint64_t)base_us};
    if (wall_before(begin, *free_at))
        begin = *free_at;
    if (wall_before(begin, now))
        line->busy_us += wall_since(now, begin);
    line->bytes += bytes;
    *free_at = now;
    if (line->count < 2 && line->busy_us >= LINE_SEEN_US && line->bytes >= LINE_SEEN_BYTES)
        line->rate = line_now(line);
}

void
line_round(struct line *line, bool counts)
{
    if (line->bytes == 0) /* what is known of it is not out of date */
        return;
    if (counts) {
        line->recent[line->count++ % LINE_RECENT] = line_now(line);
        line->rate = 0;
        for (unsigned k = 0; k < line->count && k < LINE_RECENT; k++)
            line->rate = line->recent[k] > line->rate ? line->recent[k] : line->rate;
    }
    if (line->count < 2)
        line->rate = 0;
    line->bytes = line->busy_us = 0;
}

/* --- The lines of all peers ------------------------------------------------------------------------ */

void
lines_up(struct lines *lines, int i)
{
    lines->of[i] = (struct line){.known = false};
}

void
lines_heard(struct lines *lines, const struct core *core, int i)
{
    line_heard(&lines->of[i], core->now, core->view.of[i].beat.sent_us);
}

uint64_t
lines_chunk(struct lines *lines, const struct core *core, int i, uint64_t sent_us, size_t size)
{
    struct line *line = &lines->of[i];
    assert(i >= 0 && i < core->peers.high);
    uint64_t before_us = line->busy_us;
    line_chunk(line, &lines->free_at, core->now, sent_us, size);
    return line->busy_us - before_us;
}

void
lines_round(struct lines *lines, const struct core *core, bool counts)
{
    uint64_t most = 0;
    for (int i = 0; i < core->peers.high; i++)
        most = lines->of[i].bytes > most ? lines->of[i].bytes : most;
    for (int i = 0; i < core->peers.high; i++)
        line_round(&lines->of[i], counts && 2 * lines->of[i].bytes >= most);
}

uint32_t
lines_slowest(const struct core *core)
{
    uint32_t least = 0;
    for (int i = 0; i < core->peers.high; i++) {
        const struct line *line = &core->lines.of[i];
        if (view_usable(core, i))
            least = line_slower(least, line->rate > 0    ? line->rate
                                       : line->count > 0 ? line->recent[0]
                                                         : 0);
    }
    return least;
}

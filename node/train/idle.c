/* idle.c - see idle.h. */
#include "node/train/idle.h"

#include <assert.h>

/* Others begin to count from this part of a CPU on. */
static const double some = 0.4;
/* Programs that wait for so much of the time find no free CPU. */
static const double crowded = 0.2;

void
idle_init(struct idle *idle, unsigned cpus, unsigned threads, bool measures)
{
    assert(cpus >= 1);
    assert(threads >= 1);
    *idle = (struct idle){.cpus = cpus,
                          .most = threads,
                          .measures = measures,
                          .threads = threads,
                          .calm_us = IDLE_CALM_US};
}

static unsigned
whole_cpus(double cpus, double from)
{
    double count = cpus + 1 - from;
    return count > 0 ? (unsigned)count : 0;
}

static unsigned
fewest(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static double
smoothed(double before, double now, uint64_t us)
{
    double part = us < IDLE_SMOOTH_US ? (double)us / IDLE_SMOOTH_US : 1;
    return before + part * (now - before);
}

/* As many of our threads as found a CPU; all that there are, if all did: then there may be room for more. Who else
 * waits with them may be as polite as they: then nobody has what they wait for but others. */
static unsigned
found(const struct idle *idle, const struct idle_look *look)
{
    double wanted = look->ran + look->waited;
    double taken = look->waited < look->others ? look->waited : look->others;
    if (idle->threads == 0 || wanted < some)
        return idle->most;
    unsigned count = whole_cpus(idle->threads * (wanted - taken) / wanted, 1 - some);
    return count < idle->threads ? count : idle->most;
}

/* For how many threads is there room? */
static unsigned
room(const struct idle *idle, const struct idle_look *look)
{
    unsigned taken = whole_cpus(idle->others, some),
             left = idle->cpus > taken ? idle->cpus - taken : 0;
    if (idle->threads == 0 && idle->waiting >= crowded)
        return 0;
    return fewest(fewest(idle->most, left), found(idle, look));
}

static void
take_threads(struct idle *idle, unsigned threads, uint64_t now_us)
{
    uint64_t longer_us =
        now_us - idle->grown_us < 2 * idle->calm_us ? 2 * idle->calm_us : IDLE_CALM_US;
    if (idle->grown_us > 0)
        idle->calm_us = longer_us < IDLE_CALM_MOST_US ? longer_us : IDLE_CALM_MOST_US;
    idle->grown_us = 0;
    idle->threads = threads;
    idle->calm_from_us = 0;
}

static void
give_threads(struct idle *idle, unsigned threads, uint64_t now_us)
{
    if (idle->calm_from_us == 0)
        idle->calm_from_us = now_us;
    uint64_t calm_us = now_us - idle->calm_from_us;
    idle->calm_room = calm_us < idle->calm_us / 2 ? threads : fewest(idle->calm_room, threads);
    if (calm_us < idle->calm_us)
        return;
    idle->threads = idle->calm_room;
    idle->grown_us = now_us;
    idle->calm_from_us = 0;
}

unsigned
idle_look(struct idle *idle, const struct idle_look *look)
{
    uint64_t us = idle->looked ? look->now_us - idle->looked_us : IDLE_SMOOTH_US;
    idle->looked = true;
    idle->looked_us = look->now_us;
    if (!idle->measures)
        return idle->threads = look->told ? 0 : idle->most;
    idle->others = smoothed(idle->others, look->others, us);
    idle->waiting = smoothed(idle->waiting, look->waiting, us);
    unsigned threads = look->told ? 0 : room(idle, look);
    if (threads < idle->threads)
        take_threads(idle, threads, look->now_us);
    else if (threads > idle->threads)
        give_threads(idle, threads, look->now_us);
    else
        idle->calm_from_us = 0;
    return idle->threads;
}

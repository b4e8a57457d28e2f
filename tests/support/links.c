/* links.c - see links.h. */
#include "tests/support/links.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER = 14 }; /* of Ethernet: corruption spares it, or the frame would go astray */

static bool
happens(struct links_line *line, double probability)
{
    return rand_real(&line->random) < probability;
}

/* --- Life -------------------------------------------------------------------------------------- */

static void
line_clear(struct links_line *line)
{
    *line = (struct links_line){
        .random = line->random, .count = line->count, .rate.queue = LINKS_QUEUE};
}

static void
links_clear(struct links *links)
{
    for (unsigned a = 0; a < links->ports; a++) {
        links->out[a] = links->in[a] = (struct links_rate){.queue = LINKS_QUEUE};
        for (unsigned b = 0; b < links->ports; b++)
            line_clear(&links->line[a][b]);
    }
}

int
links_new(struct links **out, unsigned ports, uint64_t seed)
{
    assert(ports > 0 && ports <= LINKS_PORTS_MAX);
    struct links *links = calloc(1, sizeof *links);
    if (!links)
        return -ENOMEM;
    links->frames = calloc(LINKS_FRAMES, sizeof *links->frames);
    if (!links->frames) {
        free(links);
        return -ENOMEM;
    }
    links->ports = ports;
    for (unsigned a = 0; a < ports; a++)
        for (unsigned b = 0; b < ports; b++)
            links->line[a][b].random.state = mix64_pair(mix64_pair(seed, a), b);
    for (unsigned k = 0; k < LINKS_FRAMES; k++)
        links->free[k] = LINKS_FRAMES - 1 - k;
    links->free_count = LINKS_FRAMES;
    links_clear(links);
    *out = links;
    return 0;
}

void
links_destroy(struct links **links)
{
    if (!*links)
        return;
    free((*links)->frames);
    free(*links);
    *links = NULL;
}

/* --- The heap of frames under way --------------------------------------------------------------- */

static bool
earlier(const struct links *links, unsigned a, unsigned b)
{
    const struct links_frame *x = &links->frames[a], *y = &links->frames[b];
    return x->due_us != y->due_us ? x->due_us < y->due_us : x->order < y->order;
}

static void
swap(unsigned *a, unsigned *b)
{
    unsigned kept = *a;
    *a = *b;
    *b = kept;
}

static void
heap_push(struct links *links, unsigned frame)
{
    unsigned *heap = links->heap, k = links->heap_count++;
    heap[k] = frame;
    for (; k > 0 && earlier(links, heap[k], heap[(k - 1) / 2]); k = (k - 1) / 2)
        swap(&heap[k], &heap[(k - 1) / 2]);
}

static unsigned
heap_pop(struct links *links)
{
    unsigned *heap = links->heap, first = heap[0], k = 0;
    heap[0] = heap[--links->heap_count];
    for (;;) {
        unsigned least = k;
        for (unsigned child = 2 * k + 1; child <= 2 * k + 2; child++)
            if (child < links->heap_count && earlier(links, heap[child], heap[least]))
                least = child;
        if (least == k)
            return first;
        swap(&heap[k], &heap[least]);
        k = least;
    }
}

/* --- A frame's way ----------------------------------------------------------------------------- */

/* When a frame that comes at `at` is through; UINT64_MAX when the queue is full. */
static uint64_t
rate_pass(struct links_rate *rate, uint64_t at, size_t size)
{
    if (rate->rate == 0)
        return at;
    uint64_t begin = rate->free_at > at ? rate->free_at : at;
    if ((begin - at) * rate->rate > rate->queue * 1000000)
        return UINT64_MAX;
    rate->free_at = begin + (size * 1000000 + rate->rate - 1) / rate->rate;
    return rate->free_at;
}

static void
frame_queue(struct links *links, uint64_t due, unsigned from, unsigned to, const void *data,
            size_t size)
{
    struct links_line *line = &links->line[from][to];
    if (links->free_count == 0) {
        line->count.full++;
        return;
    }
    unsigned index = links->free[--links->free_count];
    struct links_frame *frame = &links->frames[index];
    frame->due_us = due;
    frame->order = links->order++;
    frame->from = (uint16_t)from;
    frame->to = (uint16_t)to;
    frame->size = (uint16_t)size;
    memcpy(frame->data, data, size);
    if (size > HEADER && happens(line, line->corrupt)) {
        uint64_t bit = rand_below(&line->random, (size - HEADER) * 8);
        frame->data[HEADER + bit / 8] ^= (uint8_t)(1u << bit % 8);
        line->count.corrupt++;
    }
    heap_push(links, index);
}

/* When it arrives, without delay; UINT64_MAX: it does not. */
static uint64_t
pass(struct links *links, uint64_t now, unsigned from, unsigned to, size_t size)
{
    struct links_line *line = &links->line[from][to];
    struct links_rate *rates[] = {&links->out[from], &line->rate, &links->in[to]};
    if (line->cut) {
        line->count.cut++;
        return UINT64_MAX;
    }
    if (happens(line, line->loss)) {
        line->count.lost++;
        return UINT64_MAX;
    }
    for (size_t k = 0; k < sizeof rates / sizeof *rates && now != UINT64_MAX; k++)
        now = rate_pass(rates[k], now, size);
    if (now == UINT64_MAX)
        line->count.full++;
    return now;
}

static uint64_t
delay(struct links_line *line)
{
    uint64_t us = line->delay_us;
    if (line->jitter_us > 0) {
        uint64_t least = us > line->jitter_us ? us - line->jitter_us : 0;
        us = rand_range(&line->random, least, us + line->jitter_us);
    }
    if (happens(line, line->reorder)) {
        us += LINKS_REORDER_US;
        line->count.late++;
    }
    return us;
}

void
links_send(struct links *links, uint64_t now, unsigned from, unsigned to, const void *data,
           size_t size)
{
    assert(from < links->ports && to < links->ports && size <= LINKS_FRAME_MAX);
    struct links_line *line = &links->line[from][to];
    uint64_t at = pass(links, now, from, to, size);
    if (at == UINT64_MAX)
        return;
    line->count.frames++;
    line->count.bytes += size;
    frame_queue(links, at + delay(line), from, to, data, size);
    if (happens(line, line->dup)) {
        line->count.doubled++;
        frame_queue(links, at + delay(line), from, to, data, size);
    }
}

uint64_t
links_due(const struct links *links)
{
    return links->heap_count == 0 ? UINT64_MAX : links->frames[links->heap[0]].due_us;
}

const struct links_frame *
links_next(struct links *links, uint64_t now)
{
    if (links->heap_count == 0 || links_due(links) > now)
        return NULL;
    unsigned index = heap_pop(links);
    links->free[links->free_count++] = index; /* reused by the next links_send, not before */
    return &links->frames[index];
}

/* --- Control ----------------------------------------------------------------------------------- */

static bool
number(const char *text, double most, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && *end == 0 && *out >= 0 && *out <= most;
}

static bool
set_rate(struct links_rate *rate, const char *key, const char *value)
{
    double x;
    if (strcmp(key, "rate") == 0 && number(value, 1e9, &x))
        rate->rate = (uint64_t)(x * 125);
    else if (strcmp(key, "queue") == 0 && number(value, 1e9, &x))
        rate->queue = (uint64_t)x;
    else
        return false;
    return true;
}

static bool
set_line(struct links_line *line, const char *key, const char *value)
{
    struct {
        const char *key;
        double *share;
    } shares[] = {{"loss", &line->loss},
                  {"dup", &line->dup},
                  {"reorder", &line->reorder},
                  {"corrupt", &line->corrupt}};
    double x;
    for (size_t k = 0; k < sizeof shares / sizeof *shares; k++)
        if (strcmp(key, shares[k].key) == 0 && number(value, 100, &x)) {
            *shares[k].share = x / 100;
            return true;
        }
    if (strcmp(key, "cut") == 0 && number(value, 1, &x))
        line->cut = x > 0;
    else if (strcmp(key, "delay") == 0 && number(value, 60000, &x))
        line->delay_us = (uint64_t)(x * 1000);
    else if (strcmp(key, "jitter") == 0 && number(value, 60000, &x))
        line->jitter_us = (uint64_t)(x * 1000);
    else
        return set_rate(&line->rate, key, value);
    return true;
}

/* [first, end) of the ports that a word names. */
static bool
ports(const struct links *links, const char *word, unsigned *first, unsigned *end)
{
    double x;
    *first = 0;
    *end = links->ports;
    if (word && strcmp(word, "*") == 0)
        return true;
    if (!word || !number(word, links->ports - 1, &x))
        return false;
    *first = (unsigned)x;
    *end = *first + 1;
    return true;
}

static bool
command_groups(struct links *links, char **at)
{
    unsigned group[LINKS_PORTS_MAX] = {0}, count = 0;
    for (char *word; (word = strtok_r(NULL, " ", at));) {
        char *inner;
        count++;
        for (char *name = strtok_r(word, ",", &inner); name; name = strtok_r(NULL, ",", &inner)) {
            double x;
            if (!number(name, links->ports - 1, &x))
                return false;
            group[(unsigned)x] = count;
        }
    }
    for (unsigned a = 0; a < links->ports; a++)
        for (unsigned b = 0; b < links->ports; b++)
            links->line[a][b].cut = a != b && (group[a] != group[b] || group[a] == 0);
    return true;
}

/* The rest of the line is KEY=VALUE ...; of a port, or of the lines from..to. */
static bool
command_set(struct links *links, bool port, char **at)
{
    unsigned a, a_end, b = 0, b_end = 1;
    if (!ports(links, strtok_r(NULL, " ", at), &a, &a_end) ||
        (!port && !ports(links, strtok_r(NULL, " ", at), &b, &b_end)))
        return false;
    bool good = true;
    for (char *key; good && (key = strtok_r(NULL, " ", at));) {
        char *value = strchr(key, '=');
        if (!value)
            return false;
        *value++ = 0;
        for (unsigned from = a; from < a_end; from++)
            for (unsigned to = b; to < b_end; to++)
                good = good && (port ? set_rate(&links->out[from], key, value) &&
                                           set_rate(&links->in[from], key, value)
                                     : set_line(&links->line[from][to], key, value));
    }
    return good;
}

int
links_command(struct links *links, const char *text, struct why *why)
{
    char copy[1024], *at, *word;
    snprintf(copy, sizeof copy, "%s", text);
    bool good = false;
    if (!(word = strtok_r(copy, " ", &at)))
        good = true;
    else if (strcmp(word, "clear") == 0) {
        links_clear(links);
        good = true;
    } else if (strcmp(word, "groups") == 0)
        good = command_groups(links, &at);
    else if (strcmp(word, "line") == 0 || strcmp(word, "port") == 0)
        good = command_set(links, word[0] == 'p', &at);
    if (!good)
        why_set(why, "'%s': expected a command of links.h, ports 0..%u", text, links->ports - 1);
    return good ? 0 : -EINVAL;
}

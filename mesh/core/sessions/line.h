/* line.h - how fast chunks come from each peer.
 *
 * Chunks and heartbeats carry the time of the sender's clock. The smallest difference of the two clocks in the last
 * half minute (clocks drift) belongs to a message that did not have to wait, as in LEDBAT (RFC 6817). What a chunk
 * needs beyond that is the time of the line. This node's line carries one chunk after the other: a chunk that waits for
 * another one counts only from then on. The best of the last rounds counts: who was busy for a moment is not slow. */
#ifndef MESH_LINE_H
#define MESH_LINE_H

#include "mesh/core/sessions/clock.h"
#include "mesh/core/sessions/peers.h"

enum {
    LINE_RECENT = 4,     /* the best of so many rounds counts */
    LINE_FAST_US = 2000, /* chunks of a round that need less came by a fast line */
    /* the quickest messages are remembered for one to two of these periods */
    LINE_BASE_US = 15000000,
    LINE_SEEN_US = 10000,        /* a line was busy for so long, */
    LINE_SEEN_BYTES = 128 << 10, /* with so much, before it is judged in its first rounds */
};

/* A line that costs no time worth a decision. */
#define LINE_FAST UINT32_MAX

struct line {
    int64_t base_us[2]; /* smallest difference of clocks, in this period and in the one before */
    struct wall base_at;
    bool known;
    uint64_t bytes, busy_us; /* of the chunks since the last round ended */
    uint32_t recent[LINE_RECENT];
    unsigned count;
    /* bytes per second: the best of the last rounds; before two of them, that of the present round, if enough was seen;
     * 0: unknown; LINE_FAST */
    uint32_t rate;
};

/* A message that was sent at `sent_us` of the sender's clock came at `now`. */
void line_heard(struct line *line, struct wall now, uint64_t sent_us);
/* The same for a chunk of so many bytes. `free_at`: when the last chunk came here, from anyone; it is set to `now`. */
void line_chunk(struct line *line, struct wall *free_at, struct wall now, uint64_t sent_us,
                uint64_t bytes);
/* A round is over. It counts if the peer sent as much as others: little may have waited behind what it sent to them. */
void line_round(struct line *line, bool counts);
/* The rate so far in the round that is running. */
uint32_t line_now(const struct line *line);

/* Of two rates; 0: unknown. */
static inline uint32_t
line_slower(uint32_t a, uint32_t b)
{
    return a == 0 || (b > 0 && b < a) ? b : a;
}

struct lines {
    struct line of[PEERS_MAX]; /* index: as in struct peers */
    struct wall free_at;       /* when the last chunk came */
};

/* A session with peers[i] begins. */
void lines_up(struct lines *lines, int i);
/* A heartbeat of peers[i] came. */
void lines_heard(struct lines *lines, const struct core *core, int i);
/* peers[i] sent a chunk of a sum, in so many bytes. Returns for how long the line was busy with it. */
uint64_t lines_chunk(struct lines *lines, const struct core *core, int i, uint64_t sent_us,
                     size_t size);
/* A round is over; `counts`: it had all buckets. Of those who sent less than half as much as others, little may have
 * waited behind what they sent to others. */
void lines_round(struct lines *lines, const struct core *core, bool counts);
/* The rate of the slowest line of those who are here, by what is known best; 0: nothing. */
uint32_t lines_slowest(const struct core *core);

#endif

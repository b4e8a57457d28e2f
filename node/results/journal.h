/* journal.h - what a node did in a run whose result depends on the timing of the nodes: the file DIR/journal.
 *
 * A run with gossip is a function of its job and of the journals of its nodes: meshnode verify --replay computes it
 * again from them. This file knows only records: a type, and bytes whose meaning the engine knows.
 *
 *     head     "meshjrnl" | version, u16 = 3 | zeros, 6 bytes                                   16 bytes
 *     record   u64: length of its data, 24 bits | type, 8 bits | check of the data, 32 bits
 *              u16: check of these 8 bytes                                                      10 bytes, then the data
 *
 * All numbers are little-endian. The check of the data is the low half of XXH3-64, with the place of the record in the
 * file, its length and its type as the seed; that of the 8 bytes is mixed with the place, too. So a record that was
 * moved, repeated or damaged does not pass, and a length that was damaged is not taken for the end of the file.
 *
 * Each start of the program begins with a record JOURNAL_START, which names the node, its incarnation and its job. The
 * records behind it are from this incarnation. All starts of one run are in one file. A run that goes on with other
 * settings (config_parts.h) is another job from then on: the file has the starts of its earlier parts, then those of
 * the later ones.
 *
 * Each record is written at once with one write(): what a killed process had written is there. What a power cut leaves
 * is what was there at the last journal_sync, and some of what came later. So a record that is cut off at the end of
 * the file is legal, and so are zeros from the end of a record, or from the beginning of a sector within one, up to the
 * end of the file. They are removed when the node starts again. A file without a whole head is empty: as if there were
 * none. Any other damage is refused, with its place.
 *
 * Uses nn/files/disk.h. A journal belongs to one thread at a time, but for journal_sync. */
#ifndef NODE_JOURNAL_H
#define NODE_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/why.h"

enum {
    JOURNAL_HEAD_SIZE = 16,
    JOURNAL_RECORD_HEAD = 10,
    JOURNAL_RECORD_MAX = 1 << 20, /* bytes of data */
    JOURNAL_TYPE_MAX = 255,
    JOURNAL_START = 1, /* u64 id, incarnation, job hash; the other types belong to the engines */
    JOURNAL_START_SIZE = 24,
};

#define JOURNAL_FILE     "journal"           /* its name in the folder of a run */
#define JOURNAL_FILE_MAX (UINT64_C(1) << 36) /* bytes of a file that is read */

/* --- Writing ------------------------------------------------------------------------------------ */

struct journal;

struct journal_start {
    uint64_t job_hash, id, incarnation;
    const uint64_t *past; /* [past_count] hashes of the job in earlier parts of the run; borrowed */
    size_t past_count;
    bool fresh; /* an earlier run's journal in this folder is deleted */
};

/* Opens DIR/journal to append, and writes JOURNAL_START. Refuses a damaged journal, and one whose last start was of a
 * job that is no part of this run; `why` then says what to do. Returns 0 or a negative errno with `why`. */
int journal_open(struct journal **out, const char *dir, const struct journal_start *start,
                 struct why *why);
/* Appends one record; type 2..JOURNAL_TYPE_MAX, at most JOURNAL_RECORD_MAX bytes. Returns 0 or a negative errno. After
 * an error nothing more is written, and each call returns that error: a journal with a gap would prove nothing. */
int journal_add(struct journal *journal, unsigned type, const void *data, size_t size);
/* Bytes of earlier starts that were there when it was opened. */
uint64_t journal_kept(const struct journal *journal);
/* What was added before this call is on the disk after it. Returns 0 or a negative errno. May be called in another
 * thread than journal_add. */
int journal_sync(struct journal *journal);
void journal_close(struct journal **journal);

/* --- Reading ------------------------------------------------------------------------------------ */

struct journal_text {
    uint8_t *bytes;    /* the file */
    size_t size;       /* without a record that is cut off */
    uint64_t job_hash; /* of the last JOURNAL_START; 0: there is none */
};

struct journal_record {
    unsigned type;
    const uint8_t *data; /* borrowed from the text */
    size_t size;
    size_t at;                          /* its place in the file */
    uint64_t id, incarnation, job_hash; /* who wrote it: of the last JOURNAL_START */
};

/* Are these bytes a journal? `name` is what people call the file. Sets size and job_hash of `text`; bytes is not
 * touched. Returns 0, -ENODATA (empty) or -EBADMSG, with `why`. */
int journal_check(struct journal_text *text, const char *name, const uint8_t *bytes, size_t size,
                  struct why *why);
/* Reads and checks a file. Returns 0 or a negative errno with `why`; journal_unload follows after 0. */
int journal_load(struct journal_text *text, const char *path, struct why *why);
void journal_unload(struct journal_text *text);
/* The record behind `record`; the first one if `record` is all zeros. False: there is none. */
bool journal_next(const struct journal_text *text, struct journal_record *record);

#endif

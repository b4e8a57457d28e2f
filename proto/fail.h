/* fail.h - named points at which a test can make this process die, stop, hang, fail or flip a bit.
 *
 *     if (fail_hit(FAIL_FILE_SYNC, NULL, 0) || fsync(fd))
 *         return failed(path, "cannot sync", ...);
 *
 * The points exist only in a build with -DMESHNODE_FAILPOINTS (make failpoints). In every other build each call is an
 * empty inline function, and the program does not contain the names of the points. The environment variable
 * MESHNODE_FAIL holds rules, separated by commas:
 *
 *     POINT:COUNT:ACTION     acts at the COUNT-th time (from 1) that the process comes to POINT
 *     POINT:COUNT+:ACTION    acts at that time and at every later one
 *
 *     kill     SIGKILL to itself               stop    SIGSTOP to itself
 *     hang     this thread sleeps for ever     error   the call fails with the errno of the point, if it has one
 *     flip     flips one bit of the data at the point, if there is data; flip=N: bit N modulo the number of bits
 *     sleep=N  this thread sleeps for N milliseconds
 *
 * MESHNODE_FAIL=hits sets no rule. When the process ends, it prints how often it came to each point.
 *
 * A rule that acts first prints one line on standard error: "failpoint POINT COUNT: ACTION at SECONDS" (since 1970);
 * one that sleeps again and again, only the first time.
 * The points are in the shell code (sockets, files, the training loop). The core has none. `meshnode --failpoints`
 * lists them. MESHNODE_ID, a hexadecimal number, replaces the random id of the node. A test uses it to choose the
 * leader, which is the node with the lowest id. FreeBSD's fail(9) has the same idea. tests/chaos/fail.c has the code.
 *
 * Any thread may come to a point. Hits are counted over all threads. */
#ifndef PROTO_FAIL_H
#define PROTO_FAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/why.h"

/* name, errno of `error` (0: none), meaning; "data" when there is data to flip */
#define FAIL_POINTS(X)                                                                             \
    X(CONNECT, "connect", 0, "a control connection is about to be opened")                         \
    X(CONNECTED, "connected", 0, "a control connection was opened")                                \
    X(LINK_LOST, "link-lost", 0, "a connection broke; the core is about to be told")               \
    X(PEER_UP, "peer-up", 0, "a peer was accepted; its bulk connection is about to be opened")     \
    X(PEER_DOWN, "peer-down", 0, "a session ended; its connections are about to be closed")        \
    X(BEACON_SEND, "beacon-send", 0, "a beacon is about to be sent over UDP")                      \
    X(BEACON_GOT, "beacon-got", 0, "a beacon was received; data")                                  \
    X(START, "start", 0, "the mesh runs; the core is about to be told of the first state")         \
    X(COMPUTE, "compute", 0, "shards are about to be computed; data: the state")                   \
    X(LIE, "lie", EIO,                                                                             \
      "a shard's gradient is about to be added; error: with a wrong bit, and its checksum")        \
    X(BUCKET_READY, "bucket-ready", 0, "a bucket of gradients was computed; data")                 \
    X(BUCKET_TOLD, "bucket-told", 0, "... and the core knows, or will")                            \
    X(COMPUTED, "computed", 0, "all shards asked for were computed; data: the state")              \
    X(PIECE, "piece", 0,                                                                           \
      "a piece of a stage is about to be computed, a whole backward twice; data: the state")       \
    X(LAST_CHUNK, "last-chunk", 0, "the last chunk of a total came; data: the total")              \
    X(COMMIT, "commit", 0, "a total is about to be applied")                                       \
    X(UPDATED, "updated", 0,                                                                       \
      "a block of the next state was computed, not yet hashed; data: its parameters")              \
    X(APPLIED, "applied", 0, "the state was advanced, nobody told; data: the state")               \
    X(REPORTED, "reported", 0, "the step is in metrics.jsonl, the core not told")                  \
    X(ANNOUNCED, "announced", 0, "the core knows of the new state")                                \
    X(ADOPT, "adopt", 0, "a received state is about to be checked and taken")                      \
    X(ADOPTED, "adopted", 0, "a received state was taken, nobody told")                            \
    X(CHECKPOINT, "checkpoint", 0, "a checkpoint is about to be written")                          \
    X(CHECKPOINTED, "checkpointed", 0, "a checkpoint was written and old ones deleted")            \
    X(FILE_CREATE, "file-create", ENOSPC, "a new file is about to be created")                     \
    X(FILE_WRITE, "file-write", ENOSPC, "a piece of it is about to be written")                    \
    X(FILE_SYNC, "file-sync", EIO, "it is about to be synced")                                     \
    X(FILE_VERIFY, "file-verify", EIO, "it is about to be read back")                              \
    X(FILE_RENAME, "file-rename", EIO, "it is about to be renamed")                                \
    X(DIR_SYNC, "dir-sync", EIO, "it was renamed; the directory is about to be synced")            \
    X(FILE_DONE, "file-done", 0, "the file is safe")                                               \
    X(FILE_READ, "file-read", EIO, "a file was read; data")                                        \
    X(STATE_GOT, "state-got", 0, "a block of a copied state was received; data")                   \
    X(PAGE_READ, "page-read", 0, "a page of a checkpoint was read for another node")               \
    X(DONE, "done", 0, "the run is over; its results are not written; data: the state")            \
    X(RESULT, "result", 0, "its results are written; the process is about to end")

/* There are also four points for every message type, for example plan-send, plan-sent, plan-got, plan-taken. */
enum fail_moment {
    FAIL_SEND,  /* it is about to be given to ZeroMQ */
    FAIL_SENT,  /* it was given to ZeroMQ, which may not have sent it */
    FAIL_GOT,   /* it was received and decoded; data: its body */
    FAIL_TAKEN, /* the core has handled it */
    FAIL_MOMENTS,
};

enum fail_point {
#define FAIL_ENUM(symbol, name, error, help) FAIL_##symbol,
    FAIL_POINTS(FAIL_ENUM)
#undef FAIL_ENUM
        FAIL_MESSAGES
};

#ifdef MESHNODE_FAILPOINTS

/* Reads MESHNODE_FAIL and MESHNODE_ID. Call it before any thread is started. Returns 0, or -EINVAL with one line in
 * `why`. */
int fail_open(struct why *why);
/* Prints the points and returns true if the command line asks for them. */
bool fail_listed(int argc, char *const argv[]);
/* Returns MESHNODE_ID if it is set, else `drawn`. */
uint64_t fail_node_id(uint64_t drawn);
/* Returns -1 with errno set if a rule makes the call fail, else 0. `data` may be NULL. */
int fail_hit(enum fail_point point, void *data, size_t size);
/* `type` is an enum proto_type. */
void fail_message(int type, enum fail_moment moment, void *data, size_t size);

#else

static inline int
fail_open(struct why *why)
{
    (void)why;
    return 0;
}

static inline bool
fail_listed(int argc, char *const argv[])
{
    (void)argc, (void)argv;
    return false;
}

static inline uint64_t
fail_node_id(uint64_t drawn)
{
    return drawn;
}

static inline int
fail_hit(enum fail_point point, void *data, size_t size)
{
    (void)point, (void)data, (void)size;
    return 0;
}

static inline void
fail_message(int type, enum fail_moment moment, void *data, size_t size)
{
    (void)type, (void)moment, (void)data, (void)size;
}

#endif
#endif

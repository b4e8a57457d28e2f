/* recording.c - see recording.h. */
#include "node/results/recording.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/base/parse.h"
#include "node/results/verify_read.h"

enum {
    DIGITS = 4,
    HEAD_TEXT = 512,
    PIECE_TEXT = 64,
    PIECE_WORDS = 5,
    LINE_MAX_SIZE = HEAD_TEXT + RECORDING_PIECES_MAX * PIECE_TEXT
};
#define TIME_MAX (UINT64_C(1) << 52) /* microseconds: a century */

static const char letters[] = {
    [SCHEDULE_FORWARD] = 'F', [SCHEDULE_BACKWARD] = 'B', [SCHEDULE_INPUT] = 'I',
    [SCHEDULE_WEIGHT] = 'W',  [SCHEDULE_TAIL] = 'T',
};

struct recording {
    size_t room; /* pieces */
    struct steptime_piece *pieces;
    size_t count;
    uint64_t plan, begin_us;   /* of the first piece; of the round */
    uint64_t busy_us, done_us; /* so far; when the last piece was computed */
    bool broken;               /* another plan came, or there is no room */
    size_t text_size;
    char *text;
};

/* --- Writing -------------------------------------------------------------------------------------- */

int
recording_new(struct recording **out, unsigned stages, unsigned shards)
{
    assert(stages <= PROTO_STAGES_MAX && shards <= PROTO_SHARDS_MAX);
    struct recording *recording = *out = calloc(1, sizeof *recording);
    if (!recording)
        return -ENOMEM;
    recording->room = (size_t)3 * stages * shards + 1;
    recording->text_size = HEAD_TEXT + recording->room * PIECE_TEXT;
    recording->pieces = calloc(recording->room, sizeof *recording->pieces);
    recording->text = calloc(1, recording->text_size);
    return recording->pieces && recording->text ? 0 : -ENOMEM;
}

void
recording_destroy(struct recording **recording)
{
    if (*recording) {
        free((*recording)->pieces);
        free((*recording)->text);
    }
    free(*recording);
    *recording = NULL;
}

void
recording_begin(struct recording *recording, uint64_t now_us)
{
    recording->begin_us = recording->done_us = now_us;
    recording->count = 0;
    recording->busy_us = 0;
    recording->broken = false;
}

void
recording_piece(struct recording *recording, const struct schedule_piece *piece, uint64_t plan,
                uint64_t begin_us, uint64_t end_us)
{
    recording->busy_us += end_us - begin_us;
    recording->done_us = end_us;
    if (recording->count == 0)
        recording->plan = plan;
    recording->broken = recording->broken || plan != recording->plan ||
                        recording->count == recording->room || begin_us < recording->begin_us;
    if (recording->broken)
        return;
    recording->pieces[recording->count++] =
        (struct steptime_piece){.piece = *piece,
                                .begin_us = begin_us - recording->begin_us,
                                .end_us = end_us - recording->begin_us};
}

struct recording_times
recording_times(const struct recording *recording, uint64_t now_us)
{
    uint64_t begin_us = recording->begin_us;
    return (struct recording_times){now_us - begin_us, recording->busy_us,
                                    recording->done_us - begin_us - recording->busy_us};
}

bool
recording_has(uint64_t step)
{
    unsigned digits = step ? 64 - (unsigned)__builtin_clzll(step) : 0;
    return step && (digits <= DIGITS || step % (UINT64_C(1) << (digits - DIGITS)) == 0);
}

/* Into a string of JSON. */
static void
plain_name(char out[PROTO_NAME_MAX], const char *name)
{
    parse_escape(out, PROTO_NAME_MAX, name);
    for (char *c = out; *c; c++)
        if (*c == '"' || *c == '\\')
            *c = '?';
}

static size_t
write_step(const struct recording *recording, const struct recorded *step)
{
    char name[PROTO_NAME_MAX];
    plain_name(name, step->name);
    int used = snprintf(recording->text, HEAD_TEXT,
                        "{\"step\":%llu,\"job\":\"%016llx\",\"plan\":\"%016llx\",\"node\":\"%016"
                        "llx\",\"name\":\"%s\",\"members\":%u,\"stages\":%u,\"begin_us\":%llu,"
                        "\"end_us\":%llu,\"pieces\":[",
                        (unsigned long long)step->step, (unsigned long long)step->job,
                        (unsigned long long)step->plan, (unsigned long long)step->node, name,
                        step->members, step->stages, (unsigned long long)recording->begin_us,
                        (unsigned long long)step->end_us);
    assert(used > 0 && used < HEAD_TEXT - 4);
    return (size_t)used;
}

static size_t
write_piece(char *text, const struct steptime_piece *piece, bool first)
{
    int used = snprintf(text, PIECE_TEXT, "%s[\"%c\",%u,%u,%ju,%ju]", first ? "" : ",",
                        letters[piece->piece.kind], piece->piece.stage, piece->piece.shard,
                        piece->begin_us, piece->end_us);
    assert(used > 0 && used < PIECE_TEXT);
    return (size_t)used;
}

const char *
recording_end(struct recording *recording, const struct recorded *step, size_t *size)
{
    bool other = recording->count > 0 && recording->plan != step->plan;
    if (!recording_has(step->step) || recording->broken || other)
        return NULL;
    size_t used = write_step(recording, step);
    for (size_t i = 0; i < recording->count; i++)
        used += write_piece(recording->text + used, &recording->pieces[i], i == 0);
    memcpy(recording->text + used, "]}\n", 4);
    *size = used + 3;
    return recording->text;
}

/* --- Reading -------------------------------------------------------------------------------------- */

/* A whole number below `end`. */
static bool
take_number(const json_t *value, uint64_t end, uint64_t *out)
{
    *out = (uint64_t)json_integer_value(value); /* below 0: more than any end */
    return json_is_integer(value) && *out < end;
}

static bool
take_kind(const json_t *value, enum schedule_kind *out)
{
    const char *text = json_string_value(value);
    const char *at = text && strlen(text) == 1 ? memchr(letters, *text, sizeof letters) : NULL;
    *out = at ? (enum schedule_kind)(at - letters) : SCHEDULE_TAIL;
    return at != NULL;
}

/* Not before `from`. */
static bool
take_piece(const json_t *value, const struct recorded *step, uint64_t from,
           struct steptime_piece *out)
{
    uint64_t stage, shard;
    bool good = json_array_size(value) == PIECE_WORDS &&
                take_kind(json_array_get(value, 0), &out->piece.kind) &&
                take_number(json_array_get(value, 1), step->stages, &stage) &&
                take_number(json_array_get(value, 2), PROTO_SHARDS_MAX, &shard) &&
                take_number(json_array_get(value, 3), TIME_MAX, &out->begin_us) &&
                take_number(json_array_get(value, 4), TIME_MAX, &out->end_us) &&
                from <= out->begin_us && out->begin_us <= out->end_us &&
                out->end_us <= step->end_us - step->begin_us;
    out->member = 0;
    out->piece.stage = good ? (unsigned)stage : 0;
    out->piece.shard = good ? (unsigned)shard : 0;
    return good;
}

static int
take_pieces(struct recorded *out, const json_t *pieces, struct why *why)
{
    out->count = json_array_size(pieces);
    if (!json_is_array(pieces) || out->count > RECORDING_PIECES_MAX)
        return why_error(why, -EBADMSG, "pieces is no list, or too long");
    for (size_t i = 0; i < out->count; i++) {
        uint64_t from = i > 0 ? out->pieces[i - 1].end_us : 0;
        if (!take_piece(json_array_get(pieces, i), out, from, &out->pieces[i]))
            return why_error(why, -EBADMSG, "piece %zu is no piece, or out of order", i + 1);
    }
    return 0;
}

static int
take_step(struct recorded *out, const json_t *object, struct why *why)
{
    struct verify_reading reading = {.object = object};
    uint64_t members = verify_number(&reading, "members"),
             stages = verify_number(&reading, "stages");
    const char *name = json_string_value(json_object_get(object, "name"));
    out->step = verify_number(&reading, "step");
    out->begin_us = verify_number(&reading, "begin_us");
    out->end_us = verify_number(&reading, "end_us");
    out->job = strtoull(verify_hex(&reading, "job", 16), NULL, 16);
    out->plan = strtoull(verify_hex(&reading, "plan", 16), NULL, 16);
    out->node = strtoull(verify_hex(&reading, "node", 16), NULL, 16);
    if (reading.wrong || !name)
        return why_error(why, -EBADMSG, "%s is missing or of the wrong kind",
                         reading.wrong ? reading.wrong : "name");
    if (members < 1 || members > PROTO_PEERS_MAX || stages < 1 || stages > PROTO_STAGES_MAX)
        return why_error(why, -EBADMSG, "members or stages is out of range");
    if (out->end_us > TIME_MAX || out->begin_us > out->end_us)
        return why_error(why, -EBADMSG, "begin_us or end_us is out of range");
    out->members = (unsigned)members;
    out->stages = (unsigned)stages;
    parse_escape(out->name, sizeof out->name, name);
    return take_pieces(out, json_object_get(object, "pieces"), why);
}

int
recording_read(struct recorded *out, const char *text, size_t size, struct why *why)
{
    json_t *object = verify_object(text, size, LINE_MAX_SIZE, why);
    int rc = object ? take_step(out, object, why) : -EBADMSG;
    json_decref(object);
    return rc;
}

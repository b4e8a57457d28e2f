/* kind.c - see kind.h. */
#include "node/job/kind.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "nn/files.h"
#include "nn/files/disk.h"

enum { HEAD_MAX = 4096, LENGTH = 8 };

/* 8 bytes with the length of a header, which is a JSON object. */
static bool
is_model(const uint8_t *data, size_t got, size_t size)
{
    uint64_t length = 0;
    for (size_t i = LENGTH; i-- > 0 && got > LENGTH;)
        length = length << 8 | data[i];
    return length > 0 && length <= size - LENGTH && data[LENGTH] == '{';
}

/* job.json, result.json or a line of metrics.jsonl. */
static bool
is_result(const char *text)
{
    return *text == '{' && (strstr(text, "\"job\":") || strstr(text, "\"params_sha256\":") ||
                            strstr(text, "\"state_hash\":"));
}

enum kind
kind_of(const char *path)
{
    char head[HEAD_MAX + 1] = "";
    struct stat status;
    uint8_t *data;
    size_t got, size;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        return KIND_FOLDER;
    if (disk_read_head(path, HEAD_MAX, &data, &got, &size, NULL))
        return KIND_UNKNOWN;
    memcpy(head, data, got);
    enum kind kind = is_model(data, got, size)                ? KIND_MODEL
                     : strncmp(head, "MESHCKPT", LENGTH) == 0 ? KIND_CHECKPOINT
                     : is_result(head)                        ? KIND_RESULT
                                                              : KIND_UNKNOWN;
    free(data);
    return kind;
}

const char *
kind_is(enum kind kind)
{
    static const char *const says[] = {
        [KIND_UNKNOWN] = NULL,
        [KIND_FOLDER] = "is a folder",
        [KIND_MODEL] = "is a model",
        [KIND_CHECKPOINT] = "is a checkpoint",
        [KIND_RESULT] = "is what a run wrote",
    };
    return says[kind];
}

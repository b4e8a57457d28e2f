/* share.c - see share.h. */
#include "node/train/share.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct share_group {
    const struct manifest *manifest; /* NULL: there are no such files */
    uint8_t *text;                   /* made when it is first asked for */
    size_t text_size;
    struct manifest_reader *reader;
    bool told; /* what is wrong with a file */
};

struct share {
    struct share_group group[SHARE_GROUPS];
    struct manifest from;
    share_say *say;
    void *ctx;
    struct mesh *mesh;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t news;
    bool wanted, stop, runs;
    struct core_file_block want;
    uint8_t block[MANIFEST_BLOCK];
};

/* --- The thread --------------------------------------------------------------------------------- */

static bool
make_text(struct share_group *group)
{
    if (group->text)
        return true;
    group->text_size = manifest_text_size(group->manifest);
    group->text = malloc(group->text_size);
    if (group->text)
        manifest_text(group->manifest, group->text);
    return group->text;
}

static void
give_names(struct share *share, struct share_group *group, uint64_t block)
{
    uint64_t blocks = 0;
    size_t at = (size_t)block * MANIFEST_BLOCK, size = 0;
    if (make_text(group)) {
        blocks = (group->text_size + MANIFEST_BLOCK - 1) / MANIFEST_BLOCK;
        size = block >= blocks                          ? 0
               : group->text_size - at < MANIFEST_BLOCK ? group->text_size - at
                                                        : MANIFEST_BLOCK;
    }
    mesh_file(share->mesh, blocks, size ? group->text + at : NULL, size);
}

static void
give_block(struct share *share, struct share_group *group, uint64_t block)
{
    struct why why = {""};
    bool there = block < group->manifest->blocks;
    if (there && !group->reader)
        group->reader = manifest_reader_new(group->manifest);
    int rc = !there           ? -ENOENT
             : !group->reader ? -ENOMEM
                              : manifest_reader_block(group->reader, block, share->block, &why);
    if (rc && why.line[0] && !group->told) {
        share->say(share->ctx, 4, why.line);
        group->told = true;
    }
    mesh_file(share->mesh, group->manifest->blocks, share->block,
              rc ? 0 : manifest_block_size(group->manifest, block));
}

/* The weights that the job starts from are hashed when somebody wants them. */
static bool
share_hash_from(struct share *share, struct share_group *group)
{
    struct why why = {""};
    if (group->manifest != &share->from || share->from.blocks > 0 || group->told)
        return !group->told;
    group->told = manifest_read(&share->from, &why) != 0;
    if (group->told)
        share->say(share->ctx, 4, why.line);
    return !group->told;
}

static void
share_give(struct share *share, const struct core_file_block *want)
{
    struct share_group *group = &share->group[want->group < SHARE_GROUPS ? want->group : 0];
    if (want->group >= SHARE_GROUPS || !group->manifest || !share_hash_from(share, group))
        mesh_file(share->mesh, 0, NULL, 0);
    else if (want->names)
        give_names(share, group, want->block);
    else
        give_block(share, group, want->block);
}

static void *
share_run(void *ctx)
{
    struct share *share = ctx;
    pthread_mutex_lock(&share->lock);
    while (!share->stop) {
        if (!share->wanted || !share->mesh) {
            pthread_cond_wait(&share->news, &share->lock);
            continue;
        }
        struct core_file_block want = share->want;
        share->wanted = false;
        pthread_mutex_unlock(&share->lock);
        share_give(share, &want);
        pthread_mutex_lock(&share->lock);
    }
    pthread_mutex_unlock(&share->lock);
    return NULL;
}

/* --- The others --------------------------------------------------------------------------------- */

int
share_new(struct share **out, const struct manifest *data, const char *from, share_say *say,
          void *ctx)
{
    struct share *share = *out = calloc(1, sizeof *share);
    if (!share)
        return -ENOMEM;
    share->say = say;
    share->ctx = ctx;
    pthread_mutex_init(&share->lock, NULL);
    pthread_cond_init(&share->news, NULL);
    /* names that say where a file is on this machine mean nothing on another one */
    if (data->count > 0 && !manifest_unsafe(data))
        share->group[SHARE_DATA].manifest = data;
    if (from[0]) {
        manifest_note_as(&share->from, SHARE_FROM_NAME, from);
        share->group[SHARE_FROM].manifest = &share->from;
    }
    return 0;
}

void
share_begin(struct share *share, struct mesh *mesh)
{
    pthread_mutex_lock(&share->lock);
    share->mesh = mesh;
    pthread_cond_signal(&share->news);
    pthread_mutex_unlock(&share->lock);
}

void
share_wanted(struct share *share, const struct core_file_block *wanted)
{
    pthread_mutex_lock(&share->lock);
    share->want = *wanted;
    share->wanted = true;
    if (!share->runs)
        share->runs = pthread_create(&share->thread, NULL, share_run, share) == 0;
    pthread_cond_signal(&share->news);
    pthread_mutex_unlock(&share->lock);
}

void
share_destroy(struct share **out)
{
    struct share *share = *out;
    if (!share)
        return;
    pthread_mutex_lock(&share->lock);
    share->stop = true;
    pthread_cond_signal(&share->news);
    pthread_mutex_unlock(&share->lock);
    if (share->runs)
        pthread_join(share->thread, NULL);
    for (size_t i = 0; i < SHARE_GROUPS; i++) {
        manifest_reader_free(&share->group[i].reader);
        free(share->group[i].text);
    }
    manifest_fini(&share->from);
    pthread_cond_destroy(&share->news);
    pthread_mutex_destroy(&share->lock);
    free(share);
    *out = NULL;
}

/* --- The other side ----------------------------------------------------------------------------- */

bool
share_text_came(struct share_text *text, const struct core_file_block *came, uint64_t most)
{
    bool last = came->block + 1 == came->blocks;
    if (came->block == 0) {
        free(text->bytes);
        *text = (struct share_text){.blocks = came->blocks};
        if (came->blocks > 0 && came->blocks <= most)
            text->bytes = malloc((size_t)came->blocks * MANIFEST_BLOCK);
    }
    if (!text->bytes || came->blocks != text->blocks || came->block >= came->blocks ||
        came->size > MANIFEST_BLOCK || (!last && came->size != MANIFEST_BLOCK))
        return false;
    memcpy(text->bytes + came->block * MANIFEST_BLOCK, came->data, came->size);
    text->size += came->size;
    text->here++;
    return true;
}

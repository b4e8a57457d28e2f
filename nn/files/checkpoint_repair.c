/* checkpoint_repair.c - the whole pages of a damaged checkpoint.
 *
 * Where the pages lie follows from the job, and under which key they are whole from job, step and round. The
 * round is told by the first page or the trailer, whichever is whole; both hold the head. */
#include <unistd.h>

#include "nn/files/checkpoint_internal.h"
#include "nn/files/disk.h"

static int
open_step(const char *dir, uint64_t step)
{
    char path[DISK_PATH_MAX];
    checkpoint_path(path, dir, step);
    return disk_open(path, &(uint64_t){0}, NULL);
}

/* All `size` bytes at `offset`; a page that cannot be read is a damaged one. */
static bool
read_at(int fd, uint8_t *data, size_t size, size_t offset)
{
    return disk_read_at(fd, data, size, offset) == (ssize_t)size;
}

/* The round that this page's head tells, 0 when the page is not whole or not of this file. */
static uint64_t
round_told(const struct checkpoint *checkpoint, size_t page, const uint8_t *data)
{
    struct checkpoint told = *checkpoint;
    size_t offset;
    told.round = get64(data + 48);
    return checkpoint_page_good(&told, page, data, checkpoint_page(&told, page, &offset))
               ? told.round
               : 0;
}

static void
find_round(int fd, struct checkpoint *checkpoint, uint8_t *room)
{
    const size_t where[2] = {0, checkpoint_pages(checkpoint) - 1};
    for (size_t i = 0; i < 2 && checkpoint->round == 0; i++) {
        size_t offset, size = checkpoint_page(checkpoint, where[i], &offset);
        if (read_at(fd, room, size, offset))
            checkpoint->round = round_told(checkpoint, where[i], room);
    }
}

size_t
checkpoint_salvage(const char *dir, struct checkpoint *checkpoint, uint8_t *image, bool *good)
{
    size_t pages = checkpoint_pages(checkpoint), bad = 0;
    int fd = open_step(dir, checkpoint->step);
    if (fd >= 0) /* a first page has room for any other */
        find_round(fd, checkpoint, image);
    for (size_t i = 0; i < pages; i++) {
        size_t offset, size = checkpoint_page(checkpoint, i, &offset);
        good[i] = fd >= 0 && read_at(fd, image + offset, size, offset) &&
                  checkpoint_page_good(checkpoint, i, image + offset, size);
        bad += !good[i];
    }
    if (fd >= 0)
        close(fd);
    return bad;
}

size_t
checkpoint_page_read(const char *dir, struct checkpoint *checkpoint, size_t page, uint8_t *data)
{
    if (page >= checkpoint_pages(checkpoint))
        return 0;
    int fd = open_step(dir, checkpoint->step);
    if (fd < 0)
        return 0;
    find_round(fd, checkpoint, data);
    size_t offset, size = checkpoint_page(checkpoint, page, &offset);
    bool whole =
        read_at(fd, data, size, offset) && checkpoint_page_good(checkpoint, page, data, size);
    close(fd);
    return whole ? size : 0;
}

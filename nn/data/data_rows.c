/* data_rows.c - rows without labels, for a trained model: scaled as the data that it has learned from. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "nn/data/data_set.h"

/* An image or a folder of them. */
static bool
is_images(const char *path)
{
    struct stat st;
    return data_is_image(path) || (stat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

static bool
square(const struct nn_shape *shape)
{
    return shape->dims == 3 && (shape->dim[0] == 1 || shape->dim[0] == 3) &&
           shape->dim[1] == shape->dim[2];
}

int
data_open_rows(struct data_set **out, const struct data_scaling *like, const char *path,
               enum data_header header, bool scaled, struct why *why)
{
    size_t size = strlen(path);
    bool npy = size > 4 && strcmp(path + size - 4, ".npy") == 0;
    struct data_spec spec = {.source = npy ? DATA_NPY : DATA_CSV,
                             .file = path,
                             .bare = true,
                             .like = like,
                             .header = header,
                             .scaled = scaled};
    if (data_is_other_image(path))
        return why_error(why, -EINVAL,
                         "%s: expected .png, .jpg, .npy or a table: convert the image", path);
    if (is_images(path)) {
        spec.source = DATA_IMAGES;
        spec.channels = like->input.dim[0];
        spec.side = like->input.dim[1];
        if (!square(&like->input))
            return why_error(why, -EINVAL,
                             "%s: images, but a sample of the data is no square image", path);
    }
    return data_open(out, &spec, why);
}

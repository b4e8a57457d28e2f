/* convert.h - converts files of a job to other formats.
 *
 * Data: writes features.npy [N, shape of a sample] float32 and labels.npy [N] int32 (for regression: float32) of
 * the training part, and test-features.npy and test-labels.npy of the test part. They are scaled and ordered as
 * training sees them. A job with this data
 *
 *     data: {source: npy, dir: DIR, test_images: test-features.npy, test_labels: test-labels.npy}
 *
 * gives the same weights. The exception is data.augment.shift: pixels from outside are black in images and 0 in
 * arrays of floats. Existing files are not overwritten.
 *
 * Checkpoint: writes the weights as model.safetensors, for a run that has not ended. */
#ifndef NODE_CONVERT_H
#define NODE_CONVERT_H

#include "node/job/config.h"

/* Both return the exit status and print their own errors. */
int convert_data(struct config *config, const char *dir);
int convert_checkpoint(struct config *config, const char *checkpoint_path, const char *model_path);

#endif

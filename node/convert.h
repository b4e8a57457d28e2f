/* convert.h - files of a job in the form of others.
 *
 * Data: features.npy [N, shape of a sample] float32 and labels.npy [N] int32 (numbers of a regression: float32) of
 * the training part, test-features.npy and test-labels.npy of the test part, scaled and in the order in which
 * training sees them. A job whose data are
 *
 *     data: {source: npy, dir: DIR, test_images: test-features.npy, test_labels: test-labels.npy}
 *
 * comes to the same weights, but for data.augment.shift: what is moved in at an edge is black in images and 0 in
 * arrays of floats. Files that are there are not overwritten.
 *
 * Checkpoint: the weights as model.safetensors, for a run that has not come to its end. */
#ifndef NODE_CONVERT_H
#define NODE_CONVERT_H

#include "node/config.h"

/* Both return the exit status and say themselves what is wrong. */
int convert_data(struct config *config, const char *dir);
int convert_checkpoint(struct config *config, const char *checkpoint_path, const char *model_path);

#endif

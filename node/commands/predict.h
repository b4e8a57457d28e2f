/* predict.h - prints the outputs of a trained model for samples, as CSV on standard output.
 *
 * After a header line, there is one line per test sample of the job, or per row of a file without labels:
 *
 *     train.loss       columns
 *     cross_entropy    row,label,class,p0,p1,...      class: the likeliest; p: the probability of each
 *     logistic         row,label,class,p1             p1: the probability of class 1
 *     squared_error    row,target0,...,y0,...         y: the outputs
 *
 * row counts from 0. label and targets come from the data; rows of a file have none. Numbers have nine digits,
 * which is enough to tell all floats apart. */
#ifndef NODE_PREDICT_H
#define NODE_PREDICT_H

#include "node/job/config.h"

/* Classes are named as in the data, without names by their number; p0 is that of class 0. Rows of a file need neither
 * the job's data nor its folder: the shape of a sample, what standardise did and the names are in the model's file
 * (model_file.h). A file of weights alone takes them from the job's data.
 *
 * `rows_path` may be NULL. Returns the exit status and prints its own errors. */
int predict_run(struct config *config, const char *model_path, const char *rows_path);

#endif

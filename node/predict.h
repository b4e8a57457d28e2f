/* predict.h - what a trained model says of samples: a table in CSV on standard output.
 *
 * One line per test sample of the job, or per row of a file without labels, after a header line:
 *
 *     train.loss       columns
 *     cross_entropy    row,label,class,p0,p1,...      class: the likeliest; p: the probability of each
 *     logistic         row,label,class,p1             p1: the probability of class 1
 *     squared_error    row,target0,...,y0,...         y: the outputs
 *
 * row counts from 0. label and targets are the data's; of a file there are none. Numbers have the nine digits that
 * tell floats apart. */
#ifndef NODE_PREDICT_H
#define NODE_PREDICT_H

#include "node/config.h"

/* `rows_path` may be NULL. Returns the exit status; says itself what is wrong. */
int predict_run(struct config *config, const char *model_path, const char *rows_path);

#endif

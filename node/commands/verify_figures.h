/* verify_figures.h - what the files of a run say of losses and accuracies, against one another.
 *
 * A step has one loss, whoever reports it, and the steps of an epoch give its train_loss. A result has the figures
 * of the state that
 * it ends with, and so have the metadata of its model and its last checkpoint. Texts have twelve digits: all are
 * compared as they
 * would be written. */
#ifndef NODE_VERIFY_FIGURES_H
#define NODE_VERIFY_FIGURES_H

#include "node/commands/verify_folders.h"

/* Does `said`, a number of a text, stand for `due`? NaN for NaN. */
bool verify_same(double said, double due);
/* The same of a mean of numbers of texts. */
bool verify_same_sum(double said, double due);
/* Prints a finding if not: "test_loss is 0.5, but 0.25 in WHERE". */
void verify_same_figure(struct verify_folders *folders, const char *dir, const char *file,
                        const char *name, double said, double due, const char *where);

/* The mean loss of an epoch, from its steps: zeros at the beginning of the run. */
struct verify_epoch {
    double loss, samples; /* of the present epoch */
    bool gap;             /* a step of it is not known, or it is in several parts */
    double mean;          /* of the epoch before, NaN: not known */
};

/* A line of the step `said->step`, whose round began after step `before`; `gap`: steps before it are in no file. */
void verify_epoch_add(struct verify_epoch *epoch, const struct verify_job *job,
                      const struct verify_line *said, uint64_t before, bool gap);

/* Results against each other, their job, and the metadata of their models. */
void verify_figures_results(struct verify_folders *folders);
/* The test loss and accuracy of the models that nodes ended with, computed again: the data are those of `config`.
 * Returns
 * 0, or a negative errno with `why` if that cannot be done. */
int verify_figures_evaluate(struct verify_folders *folders, const struct config *config,
                            struct why *why);
/* A line against another one of the same state, at `other`; `at` is where it stands. */
void verify_figures_lines(struct verify_folders *folders, const char *at,
                          const struct verify_line *said, const struct verify_line *first,
                          const char *other);
/* A line of an evaluation alone, in itself, and against one with the figures of the same state. */
void verify_figures_evaluation(struct verify_folders *folders, const char *at,
                               const struct verify_line *said, uint64_t epoch,
                               const struct verify_line *first, const char *other);
/* The results of this step against the last line of it, whose epoch has this mean. */
void verify_figures_end(struct verify_folders *folders, const struct verify_line *said,
                        const struct verify_epoch *epoch, const char *at);

#endif

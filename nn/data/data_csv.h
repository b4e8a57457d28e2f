/* data_csv.h - a table while it is read, for data_csv_scan.c (what is in its columns), data_csv_header.c (is the first
 * row one of names?), data_csv_plan.c (what each column becomes), data_csv_missing.c, data_csv_scale.c, and data_csv.c
 * (its rows). */
#ifndef NN_DATA_CSV_H
#define NN_DATA_CSV_H

#include "nn/data/csv.h"
#include "nn/data/data_set.h"
#include "nn/data/words.h"

enum {
    CSV_WORDS_MAX = 256,       /* categories of a column */
    CSV_MIXED_MAX = 32,        /* if some of them are numbers */
    CSV_ALL_WORDS_MAX = 65536, /* of all columns */
    CSV_DISTINCT = 20,         /* a column of more words, all different, is an id */
};

/* What the first pass counts in a column. First rows of files only count once they are known to be no headers. */
struct csv_column {
    size_t numbers, texts, missing;
    size_t whole;      /* of `numbers`: digits alone */
    struct words seen; /* the texts; empty once there are too many */
    bool many;
    size_t field; /* of the table; CSV_NO_FIELD: none */
    /* of the training rows */
    struct words category;
    size_t gaps;
    double low, high; /* with spec->standardise */
};
#define CSV_NO_FIELD SIZE_MAX

/* Numbers in a row, from left to right; whole: digits alone. */
struct csv_run {
    size_t cells; /* numbers of any kind */
    uint64_t first;
    bool whole, next, rising; /* all of them; each one more than that before it; each more */
};

struct csv {
    const struct data_spec *spec;
    struct csv_reader in;     /* the file that is read */
    struct csv_reader *start; /* [files] at the first row of each */
    bool *named;              /* [files] whose first row is a header */
    size_t files;
    struct csv_text header; /* of the first file; size 0: there is none */
    size_t columns, rows;   /* rows: without those that are dropped */
    struct csv_text *cell;  /* [columns] of the row that was read last */
    struct csv_column *column;
    char **name; /* [columns] in the header; NULL: there is none */
    size_t words_left;
    size_t runs;       /* rows that are runs: each number one more than that before it */
    size_t risings[2]; /* rows in which each is more: numbers of any kind; whole ones */
    struct data_table *table;
    size_t *feature; /* [fields] the first of each */
    size_t features;
    bool drops;
    struct words label;
    size_t unknown; /* cells with words that have no category */
    size_t coarse;  /* columns whose numbers are too large for float, beside their deviation */
    struct why *remark;
};

/* The first pass over one file that was opened. */
int csv_scan_file(struct csv *csv, size_t file);
/* After it, over all: which first rows are headers, and their names. */
int csv_judge_files(struct csv *csv);
/* How the model reads its tables; NULL: there is no model. */
const struct data_table *csv_like(const struct csv *csv);
/* column->field by place in a table: the columns that it takes, or with those that it ignores, or all. False: these are
 * too many columns, or too few. */
bool csv_match_places(struct csv *csv, const struct data_table *table);
/* Of the row that was read last. */
struct csv_run csv_run_of(const struct csv *csv);
/* Is the row that was read last, the first one of `file`, a header? 1, 0, or -EBADMSG: nobody can tell. */
int csv_judge_header(struct csv *csv);
/* From what the first pass has counted to csv->table, csv->feature and column->field. Returns 0 or a negative errno. */
int csv_plan(struct csv *csv);
/* What column `i` becomes; DATA_IGNORED: no feature, and no label. */
enum data_field_kind csv_kind(const struct csv *csv, size_t i);
/* Has it no value in the row that was read last, but in a column that counts? */
bool csv_is_gap(const struct csv *csv, size_t i);
/* Each row of all files, once it is known which first rows are headers, and which rows are dropped. Ends with the first
 * error of `take`. */
typedef int csv_row(struct csv *csv, size_t row, void *ctx);
int csv_each_row(struct csv *csv, csv_row *take, void *ctx);
/* Refuses missing cells, drops their rows, or lets them be; then they are NaN, for csv_fill_gaps. */
int csv_treat_gaps(struct csv *csv);
int csv_fill_gaps(struct csv *csv, struct data_set *set);
/* Scales the columns of numbers, and remarks those for which float is too coarse. */
int csv_standardise(struct csv *csv, struct data_set *set);
/* A number, or what would be one with a decimal point. */
bool csv_is_number(struct csv_text s);
/* "column 3 (age)" */
const char *csv_column_name(const struct csv *csv, size_t column, char *out, size_t size);

#endif

/* test_model_file.c - what is written with the weights is read back equal; what is damaged is refused in one line. */
#include "node/train/model_file.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "nn/files/disk.h"
#include "tests/support/folder.h"
#include "tests/support/rand.h"
#include "tests/support/test.h"

static struct why why;

FOLDER_ALL

/* Opens a job in the folder, writes its model and reads what the file says. */
static struct config *
round_trip(const char *text, struct job *job, struct model_note *note)
{
    struct config *config;
    char set[FOLDER_PATH_MAX + 16];
    const struct state_header header = {.step = 7, .epoch = 1, .evaluations = 1, .test_loss = 0.5};
    const char *path = folder_path(&folder, "model.safetensors");
    assert_int_equal(config_parse(&config, "test", text, strlen(text), &why), 0);
    snprintf(set, sizeof set, "data.dir=%s", folder.path);
    assert_int_equal(config_set(config, set, &why), 0);
    assert_int_equal(config_check(config, &why), 0);
    assert_int_equal(job_open(job, config, &why), 0);
    size_t count = nn_param_count(job->model);
    OWNED(memory_free) float *weights = calloc(count, sizeof *weights);
    assert_non_null(weights);
    struct model_file file = model_file_of(&header, true, weights, count);
    assert_int_equal(model_file_write(path, config, job, &file, weights, &why), 0);
    assert_int_equal(model_note_read(note, path, &why), 0);
    assert_string_equal(note->config, config->text);
    return config;
}

static void
close_all(struct config *config, struct job *job, struct model_note *note)
{
    model_note_fini(note);
    job_close(job);
    config_destroy(&config);
}

static void
same_scaling(const struct data_scaling *got, const struct job *job)
{
    struct data_scaling wanted;
    size_t width = 1;
    data_scaling(job->data, &wanted);
    assert_int_equal(got->input.dims, wanted.input.dims);
    for (size_t i = 0; i < wanted.input.dims; i++) {
        assert_int_equal(got->input.dim[i], wanted.input.dim[i]);
        width *= wanted.input.dim[i];
    }
    assert_int_equal(got->unit, wanted.unit);
    assert_int_equal(got->planes, wanted.planes);
    assert_memory_equal(got->norm, wanted.norm, wanted.planes * sizeof *wanted.norm);
    assert_int_equal(!got->column, !wanted.column);
    if (wanted.column)
        assert_memory_equal(got->column, wanted.column, width * sizeof *wanted.column);
}

TEST(columns_and_names_come_back_equal)
{
    static const char rows[] = "a,b,kind\n0.1,1e9,cat\n0.7,-3,\"d\"\"og, small\"\n"
                               "0.2,4,cat\n-5.3,7,r\303\266t\n0.11,8,cat\n";
    static const char *const name[] = {"cat", "d\"og, small", "r\303\266t"};
    struct job job = {0};
    struct model_note note;
    folder_write(&folder, "t.csv", rows, strlen(rows));
    struct config *config = round_trip("data: {source: csv, file: t.csv, standardise: yes}\n"
                                       "model: [dense: 3]\ntrain: {batch: 2, shards: 1}\n",
                                       &job, &note);
    same_scaling(&note.scaling, &job);
    assert_non_null(note.column);
    assert_int_equal(note.scaling.class_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(note.class_name[i], data_class_name(job.data, i));
        assert_string_equal(note.class_name[i], name[i]);
    }
    close_all(config, &job, &note);
}

/* How a table became samples: names, words, means of missing cells. */
TEST(a_table_comes_back_equal)
{
    static const char rows[] = "id,sex,age,out\nu1,f,20,1\nu2,m,,0\nu3,\"m, x\",40,1\nu4,f,1e-3,0\n"
                               "u5,f,NA,1\nu6,m,7,0\nu7,m,9,1\n";
    struct job job = {0};
    struct model_note note;
    struct data_scaling wanted;
    folder_write(&folder, "w.csv", rows, strlen(rows));
    struct config *config =
        round_trip("data: {source: csv, file: w.csv, missing: mean, ignore: [id]}\n"
                   "model: [dense: 2]\ntrain: {batch: 2, shards: 1}\n",
                   &job, &note);
    data_scaling(job.data, &wanted);
    const struct data_table *got = note.scaling.table;
    assert_non_null(got);
    assert_int_equal(got->count, 4);
    assert_true(got->fills);
    for (size_t f = 0; f < got->count; f++) {
        const struct data_field *a = &got->field[f], *b = &wanted.table->field[f];
        assert_int_equal(a->kind, b->kind);
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->missing, b->missing);
        assert_int_equal(a->words, b->words);
        assert_true(a->fill == b->fill);
        for (size_t w = 0; w < a->words; w++)
            assert_string_equal(a->word[w], b->word[w]);
    }
    assert_int_equal(got->field[0].kind, DATA_IGNORED);
    assert_true(got->field[2].fill > 0 && got->field[2].missing);
    assert_int_equal(got->field[3].kind, DATA_LABEL);
    close_all(config, &job, &note);
}

TEST(bytes_come_back_equal)
{
    struct job job = {0};
    struct model_note note;
    struct config *config = round_trip("data: {source: glyphs, train: 24, test: 12}\n"
                                       "model: [flatten, dense: 10]\ntrain: {batch: 12}\n",
                                       &job, &note);
    same_scaling(&note.scaling, &job);
    assert_int_equal(note.scaling.planes, 1);
    assert_null(note.column);
    assert_int_equal(note.scaling.class_count, 10);
    assert_string_equal(note.class_name[9], "9");
    close_all(config, &job, &note);
}

/* Of a model that is not small: its weights are more than what is read back at a time. */
struct streamed {
    struct job job;
    struct config *config;
    struct model_file file;
    size_t count;
    float *weights;
    char path[2][FOLDER_PATH_MAX];
};

static void
open_streamed(struct streamed *s)
{
    const struct state_header header = {.step = 7, .epoch = 1, .evaluations = 1, .test_loss = 0.5};
    struct model_note note;
    memset(s, 0, sizeof *s);
    s->config = round_trip("data: {source: glyphs, train: 24, test: 12}\n"
                           "model: [flatten, dense: 100, relu, dense: 10]\ntrain: {batch: 12}\n",
                           &s->job, &note);
    model_note_fini(&note);
    s->count = nn_param_count(s->job.model);
    s->weights = calloc(s->count, sizeof *s->weights);
    for (size_t i = 0; i < s->count; i++)
        s->weights[i] = (float)i * 0.37f;
    s->file = model_file_of(&header, true, s->weights, s->count);
    snprintf(s->path[0], sizeof s->path[0], "%s", folder_path(&folder, "whole"));
    snprintf(s->path[1], sizeof s->path[1], "%s", folder_path(&folder, "pieces"));
    assert_int_equal(model_file_write(s->path[0], s->config, &s->job, &s->file, s->weights, &why),
                     0);
}

static void
close_streamed(struct streamed *s)
{
    free(s->weights);
    job_close(&s->job);
    config_destroy(&s->config);
}

static struct model_stream *
begin_stream(const struct streamed *s)
{
    struct model_stream *stream;
    struct model_file file = s->file;
    memset(file.params_sha256, 0, sizeof file.params_sha256); /* nobody knows it yet */
    assert_int_equal(model_stream_begin(&stream, s->path[1], s->config, &s->job, &file, &why), 0);
    return stream;
}

static void
same_file(const struct streamed *s)
{
    uint8_t *data[2];
    size_t size[2];
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(disk_read(s->path[i], SIZE_MAX, &data[i], &size[i], &why), 0);
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(data[0], data[1], size[0]);
    free(data[0]);
    free(data[1]);
}

TEST(weights_that_come_in_pieces_give_the_same_file)
{
    struct streamed s;
    struct rand rand = {5};
    char sha256[65];
    open_streamed(&s);
    assert_true(s.count * sizeof(float) > 1 << 17);
    for (size_t round = 0; round < 20; round++) {
        struct model_stream *stream = begin_stream(&s);
        for (size_t at = 0, n; at < s.count; at += n) {
            n = rand_below(&rand, round % 2 ? 2 * s.count : 5000);
            n = n < s.count - at ? n : s.count - at;
            assert_int_equal(model_stream_add(stream, s.weights + at, n, &why), 0);
        }
        assert_int_equal(model_stream_end(&stream, sha256, &why), 0);
        assert_null(stream);
        assert_string_equal(sha256, s.file.params_sha256);
        same_file(&s);
    }
    close_streamed(&s);
}

/* One that is given up, and two whose weights are others on the disk: the file of before stays. */
TEST(a_stream_that_fails_leaves_the_old_file)
{
    struct streamed s;
    char sha256[65], temp[FOLDER_PATH_MAX + 8];
    open_streamed(&s);
    snprintf(temp, sizeof temp, "%s.tmp", s.path[1]);
    struct model_stream *stream = begin_stream(&s);
    assert_int_equal(model_stream_add(stream, s.weights, s.count, &why), 0);
    assert_int_equal(model_stream_end(&stream, sha256, &why), 0);
    for (long at = 0; at < 3; at++) {
        stream = begin_stream(&s);
        assert_int_equal(model_stream_add(stream, s.weights, s.count, &why), 0);
        FILE *file = fopen(temp, "r+b");
        assert_non_null(file);
        assert_int_equal(fseek(file, at ? -at * 40000 : 0, at ? SEEK_END : SEEK_SET), 0);
        fputs("x", file);
        assert_int_equal(fclose(file), 0);
        if (at == 0) {
            model_stream_drop(&stream);
        } else {
            assert_int_equal(model_stream_end(&stream, sha256, &why), -EIO);
            assert_non_null(strstr(why.line, "pieces: reading back what was written"));
        }
        assert_null(stream);
        assert_int_not_equal(access(temp, F_OK), 0);
        same_file(&s);
    }
    model_stream_drop(&stream); /* there is none */
    close_streamed(&s);
}

/* A file of nothing but this header. */
static int
read_header(const char *header)
{
    struct model_note note;
    uint64_t length = strlen(header);
    uint8_t *bytes = calloc(1, 8 + length);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(length >> 8 * i);
    memcpy(bytes + 8, header, length); /* NOLINT: no string */
    folder_write(&folder, "m", bytes, 8 + length);
    free(bytes);
    why.line[0] = 0;
    int rc = model_note_read(&note, folder_path(&folder, "m"), &why);
    model_note_fini(&note);
    assert_null(strchr(why.line, '\n'));
    return rc;
}

static void
refuses(const char *metadata, const char *expected)
{
    char header[1024];
    snprintf(header, sizeof header, "{\"__metadata__\":%s}", metadata);
    if (read_header(header) != -EBADMSG)
        fail_msg("%s: accepted", metadata);
    if (!strstr(why.line, expected))
        fail_msg("%s: %s", metadata, why.line);
}

TEST(what_was_made_up_is_refused)
{
    assert_int_equal(read_header("{}"), 0);
    assert_int_equal(read_header("{\"__metadata__\":{\"format\":\"pt\"}}"), 0);
    refuses("[]", "__metadata__ is not an object");
    refuses("{\"step\":4}", "__metadata__ step is not a string");
    refuses("{\"input\":\"[1\"}", "input in its metadata is not a list of 1 to 3 whole numbers");
    refuses("{\"input\":\"{}\"}", "input in its metadata");
    refuses("{\"input\":\"[]\"}", "input in its metadata");
    refuses("{\"input\":\"[1,1,1,1]\"}", "input in its metadata");
    refuses("{\"input\":\"[2,0]\"}", "input in its metadata");
    refuses("{\"input\":\"[0,2]\"}", "input in its metadata");
    refuses("{\"input\":\"[-1]\"}", "input in its metadata");
    refuses("{\"input\":\"[1.5]\"}", "input in its metadata");
    refuses("{\"input\":\"[\\\"1\\\"]\"}", "input in its metadata");
    refuses("{\"input\":\"[65536,65536]\"}", "input in its metadata");
    refuses("{\"input\":\"[4]\",\"norm\":\"[1,0]\"}", "norm in its metadata is not a list of");
    refuses("{\"input\":\"[4]\",\"norm\":\"[[1]]\"}", "norm in its metadata");
    refuses("{\"input\":\"[4]\",\"norm\":\"[[1,null]]\"}", "norm in its metadata");
    refuses("{\"input\":\"[4]\",\"norm\":\"[[1e300,0]]\"}", "norm in its metadata");
    refuses("{\"input\":\"[4]\",\"norm\":\"[[1,0],[1,0],[1,0]]\"}", "norm in its metadata");
    refuses("{\"input\":\"[4]\",\"norm\":\"[[1,0],[1,0],[1,0],[1,0]]\"}", "norm in its metadata");
    refuses("{\"input\":\"[2]\",\"mean\":\"[1,2]\"}",
            "scale in its metadata is not a list of 2 numbers, one for each column");
    refuses("{\"input\":\"[2]\",\"mean\":\"[1]\",\"scale\":\"[1,2]\"}", "mean in its metadata");
    refuses("{\"input\":\"[2]\",\"mean\":\"[1,2]\",\"scale\":\"[1,2,3]\"}", "scale in its");
    refuses("{\"input\":\"[2]\",\"mean\":\"[1,true]\",\"scale\":\"[1,2]\"}", "in its metadata");
    refuses("{\"input\":\"[1]\",\"mean\":\"[1e999]\",\"scale\":\"[1]\"}", "mean in its metadata");
    static const char *const columns[] = {"[1]",
                                          "[{}]",
                                          "[{'kind':'picture'}]",
                                          "[{'kind':'number'},{'kind':'number'}]", /* two */
                                          "[{'kind':'label'}]",
                                          "[{'kind':'words','words':[]}]",
                                          "[{'kind':'words','words':'a'}]",
                                          "[{'kind':'words','words':[1]}]",
                                          "[{'kind':'number','name':1}]",
                                          "[{'kind':'number','fill':'1'}]",
                                          "[{'kind':'number','fill':1e300}]",
                                          "[{'kind':'number','missing':1}]",
                                          "[{'kind':'number','missing':true}]",
                                          "[{'kind':'number'},{'kind':'label','missing':true}]"};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        char text[256], *to = text + sprintf(text, "{\"input\":\"[1]\",\"columns\":\"");
        for (const char *c = columns[i]; *c; c++)
            to += sprintf(to, *c == '\'' ? "\\\"" : "%c", *c);
        strcpy(to, "\"}");
        refuses(text, "columns in its metadata is not a list of columns with as many features");
    }
    refuses("{\"input\":\"[2]\",\"columns\":\"[{\\\"kind\\\":\\\"words\\\",\\\"words\\\":"
            "[\\\"b\\\",\\\"a\\\"]}]\"}",
            "columns in its metadata"); /* words that do not rise could not be found */
    refuses("{\"classes\":\"[\\\"a\\\",1]\"}", "classes in its metadata is not a list of names");
    refuses("{\"classes\":\"cat\"}", "classes in its metadata");
    assert_int_equal(read_header("{\"__metadata__\":{\"input\":\"[1]\",\"input\":\"[2]\"}}"),
                     -EBADMSG);
    assert_int_equal(read_header("{\"__metadata__\":{\"a\":\"b\"}"), -EBADMSG);
    assert_int_equal(read_header(""), -EBADMSG);
}

/* `count` times `part` between head and tail. */
static char *
repeat(const char *head, const char *part, size_t count, const char *tail)
{
    size_t at = strlen(head), step = strlen(part);
    char *text = malloc(at + count * step + strlen(tail) + 1);
    assert_non_null(text);
    strcpy(text, head);
    for (size_t i = 0; i < count; i++, at += step)
        memcpy(text + at, part, step); /* NOLINT: no string */
    strcpy(text + at, tail);
    return text;
}

/* A list of millions of numbers takes 20 times as much memory as its text. */
TEST(huge_lists_are_refused_before_they_take_memory)
{
    OWNED(memory_free) char *text = repeat("{\"x\":[0", ",0", 7000000, "]}");
    assert_int_equal(read_header(text), -EBADMSG);
    assert_non_null(strstr(why.line, "expected at most"));
    free(text);
    text = repeat("{\"__metadata__\":{\"input\":\"[1]\",\"mean\":\"[0", ",0", 200000, "]\"}}");
    assert_int_equal(read_header(text), -EBADMSG);
    assert_non_null(strstr(why.line, "mean in its metadata"));
    free(text);
    text = repeat("{\"__metadata__\":{\"classes\":\"[0", "\\u002c0", 2500000, "]\"}}");
    assert_int_equal(read_header(text), -EBADMSG);
    assert_non_null(strstr(why.line, "classes in its metadata"));
    free(text);
    text = repeat("{\"__metadata__\":{\"input\":\"", "[", 100000, "\"}}");
    assert_int_equal(read_header(text), -EBADMSG);
}

/* The job with another list of layers is refused in a line; NULL: it is taken. */
static void
with_layers(const char *layers, const char *expected)
{
    char text[256];
    OWNED(config_destroy) struct config *config;
    OWNED(model_note_fini) struct model_note note;
    const char *path = folder_path(&folder, "model.safetensors");
    snprintf(text, sizeof text, "data: {source: csv, file: u.csv}\nmodel: %s\n", layers);
    assert_int_equal(config_parse(&config, "test", text, strlen(text), &why), 0);
    int rc = model_note_of(&note, config, path, &why);
    if (expected ? rc != -EINVAL || !strstr(why.line, expected) : rc != 0)
        fail_msg("%s: %d, %s", layers, rc, rc ? why.line : "taken");
}

TEST(a_job_with_other_layers_is_refused)
{
    static const char rows[] = "a,b,kind\n1,2,x\n2,3,y\n3,4,x\n5,4,y\n4,4,x\n6,4,y\n";
    struct job job = {0};
    struct model_note note;
    folder_write(&folder, "u.csv", rows, strlen(rows));
    struct config *config = round_trip("data: {source: csv, file: u.csv}\n"
                                       "model: [dense: 4, tanh, dropout: 0.5, dense: 2]\n"
                                       "train: {batch: 2, shards: 1}\n",
                                       &job, &note);
    with_layers("[dense: 4, tanh, dropout: 0.5, dense: 2]", NULL);
    with_layers("[dense: 4, tanh, dropout: 0.1, dense: 2]", NULL);
    with_layers("[dense: {units: 4, init: he}, tanh, dropout: 0.5, dense: 2]", NULL);
    with_layers("[dense: 4, relu, dropout: 0.5, dense: 2]",
                "model.safetensors: model, layer 2: is tanh there, relu here");
    with_layers("[dense: 4, tanh, dropout: 0.5, dense: 2, sigmoid]",
                "model, layer 5: is none there, sigmoid here");
    with_layers("[input: [2, 1], flatten, dense: 4, tanh, dense: 2]", "model.input is ");
    close_all(config, &job, &note);
}

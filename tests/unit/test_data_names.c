/* test_data_names.c - which name differs between the data of two nodes, told from the texts of their jobs. */
#include "node/job/config.h"
#include "node/job/data_text.h"
#include "tests/support/folder.h"
#include "tests/support/sets.h"
#include "tests/support/test.h"

static const char job[] = "data: {source: csv, file: 't # names: x'}\nmodel: [{dense: 2}]\n";

static struct data_set *
set_of(const char *table)
{
    OWNED(folder_fini) struct folder folder = folder_new();
    folder_write(&folder, "t", table, strlen(table));
    struct data_set *set =
        open_set(&(struct data_spec){.source = DATA_CSV, .dir = folder.path, .file = "t"});
    return set;
}

TEST(the_first_name_that_differs_is_told)
{
    static const char table[] = "x,y,z\na,2,cat\nb,4,dog\na,6,cat\n";
    static const struct {
        const char *other, *words; /* NULL: no difference */
    } row[] = {
        {table, NULL},
        {"x,y,z\na,2.5,cat\nb,4,dog\na,6,cat\n", NULL},
        {"x,Y,z\na,2,cat\nb,4,dog\na,6,cat\n", "column 2 is 'Y' there, 'y' here"},
        {"x,y,k\na,2,cat\nb,4,dog\na,6,cat\n", "label or ignored column 1 is 'k' there, 'z' here"},
        {"x,y,z\na,2,cat\nc,4,dog\na,6,cat\n", "column 1, word 2 is 'c' there, 'b' here"},
        {"x,y,z\na,2,cat\nb,4,Köln\u2028\na,6,cat\n", "class 0 is 'Köln\u2028' there, 'cat' here"},
        {"a,2,cat\nb,4,dog\na,6,cat\n", "column 1 is '' there, 'x' here"},
        {"x,y,z\na,2,cat\nb,4,dog\na,6,eel\n", "class 2 is 'eel' there, '2' here"},
    };
    OWNED(data_close) struct data_set *ours = set_of(table);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char words[256] = "none";
        OWNED(data_close) struct data_set *other = set_of(row[i].other);
        OWNED(memory_free) char *theirs = data_text_offer(job, other);
        assert_non_null(theirs);
        OWNED(config_destroy) struct config *config;
        if (data_text_differ(theirs, strlen(theirs), ours, words, sizeof words) != !!row[i].words ||
            strcmp(words, row[i].words ? row[i].words : "none") != 0)
            fail_msg("table %zu: %s", i, words);
        assert_int_equal(config_parse(&config, "job", theirs, strlen(theirs), &why), 0);
    }
}

TEST(a_model_is_compared_where_both_have_names)
{
    static const char table[] = "x,y,z\na,2,cat\nb,4,dog\na,6,cat\n";
    static const char names[][DATA_NAME_SIZE] = {"cat", "eel", "owl"};
    OWNED(data_close)
    struct data_set *data = set_of(table), *plain = set_of("1,3,0\n2,4,1\n3,5,1\n");
    struct data_scaling model, none;
    char words[256];
    data_scaling(data, &model);
    data_scaling(plain, &none);
    assert_false(data_text_differ_model(&model, data, words, sizeof words));
    assert_true(data_text_differ_model(&model, plain, words, sizeof words));
    assert_string_equal(words, "class 0 is 'cat' there, '0' here");
    none.class_count = 0;
    assert_false(data_text_differ_model(&none, data, words, sizeof words));
    model.class_name = names;
    model.class_count = 3;
    assert_true(data_text_differ_model(&model, data, words, sizeof words));
    assert_string_equal(words, "class 1 is 'eel' there, 'dog' here");
}

/* What another node sends may be anything. */
TEST(a_text_without_names_differs_in_none)
{
    static const char *const texts[] = {
        "", "\n#", "\n# names: ", "\n# names: {\"class 0\": 1", "\n# names: []", "\n\n"};
    OWNED(data_close) struct data_set *ours = set_of("1,0\n2,1\n3,1\n");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char words[256];
        assert_false(data_text_differ(texts[i], strlen(texts[i]), ours, words, sizeof words));
    }
}

/* test_config_rules.c - keys that cannot go together: each rule of the table, and all pairs of settings.
 *
 * Who adds a key that touches topology, synchronisation or exactness adds its values to `settings`, and each pair that
 * must be refused to `refused`: all other pairs must be accepted. */
#include "node/job/config_rules.h"

#include <errno.h>
#include <stdio.h>

#include "node/base/parse.h"
#include "node/job/config_key.h"
#include "tests/support/test.h"

enum { TEXT_SIZE = 160 };

static struct config *
job(void)
{
    static const char text[] = "data: {file: x}\nmodel: [flatten, dense: 10]\n";
    struct why why = {""};
    struct config *config;
    if (config_parse(&config, "job.yaml", text, strlen(text), &why))
        fail_msg("refused: %s", why.line);
    return config;
}

/* Several assignments with blanks between them. */
static void
set(struct config *config, const char *assignments)
{
    char copy[TEXT_SIZE], *rest = copy;
    struct why why = {""};
    snprintf(copy, sizeof copy, "%s", assignments);
    for (char *one; (one = strsep(&rest, " "));)
        if (*one && config_set(config, one, &why))
            fail_msg("%s: %s", one, why.line);
}

/* One line that says what to do: "... cannot go with ...: why; remedy". */
static void
expect_remedy(const char *what, const char *line)
{
    const char *with = strstr(line, " cannot go with ");
    const char *say = with ? strstr(with, ": ") : NULL;
    if (!say || strlen(say) < 12 || strchr(line, '\n'))
        fail_msg("%s: '%s' has no remedy", what, line);
}

/* --- Each rule --- */

static bool
in_list(const char *value, const char *list)
{
    char copy[TEXT_SIZE], *rest = copy;
    snprintf(copy, sizeof copy, "%s", list);
    for (char *one; (one = strsep(&rest, "|"));)
        if (strcmp(one, value) == 0)
            return true;
    return false;
}

/* A value of the key for which "key sign value" holds. */
static void
choose(const struct config_key *key, const char *sign, const char *value, char out[TEXT_SIZE])
{
    double number = 0;
    snprintf(out, TEXT_SIZE, "%.*s", (int)strcspn(value, "|"), value);
    if (strcmp(sign, "=") == 0)
        return;
    for (const struct config_word *word = key->words; word && word->name; word++)
        if (strcmp(sign, "!=") == 0 && !in_list(word->name, value)) {
            snprintf(out, TEXT_SIZE, "%s", word->name);
            return;
        }
    if (key->kind == CONFIG_TEXT || key->kind == CONFIG_NAME) {
        snprintf(out, TEXT_SIZE, "%s", strcmp(value, "''") == 0 ? "x" : "");
        return;
    }
    if (key->kind == CONFIG_LINES) {
        snprintf(out, TEXT_SIZE, "x");
        return;
    }
    if (parse_real(value, &number) && key->kind == CONFIG_UINT && strcmp(sign, "!=") == 0)
        number = key->min; /* any but the word */
    else if (parse_real(value, &number))
        fail_msg("%s.%s %s %s: no value known", key->section, key->name, sign, value);
    if (strcmp(sign, "<") == 0)
        number = key->kind == CONFIG_UINT ? number - 1 : number * 0.5;
    else
        number += key->kind == CONFIG_UINT ? 1 : 0.5;
    if (key->kind == CONFIG_UINT)
        snprintf(out, TEXT_SIZE, "%.0f", number);
    else
        parse_real_format(out, number, false);
}

static void
make_true(struct config *config, const char *condition)
{
    char path[TEXT_SIZE], sign[3], value[TEXT_SIZE], chosen[TEXT_SIZE], text[3 * TEXT_SIZE];
    const char *more = strstr(condition, " & ");
    if (more)
        make_true(config, more + 3);
    assert_int_equal(sscanf(condition, "%95s %2[=!<>] %79s", path, sign, value), 3);
    const struct config_key *key = config_key_find(NULL, path);
    assert_non_null(key);
    char choice[TEXT_SIZE];
    snprintf(choice, sizeof choice, "%s", key->section);
    char *dot = strrchr(choice, '.');
    if (dot) { /* a setting of a word */
        *dot = '=';
        set(config, choice);
    }
    choose(key, sign, value, chosen);
    snprintf(text, sizeof text, "%s=%s", path, chosen);
    set(config, text);
    if (!config_rule_holds(config, condition))
        fail_msg("%s does not hold with %s", condition, text);
}

/* Some rules can only be seen where another setting makes room for them. */
static const char *const grounds[] = {"", "data.source=csv", "train.local_steps=2",
                                      "mesh.topology=gossip"};

/* On which ground is the rule the one that is told? */
static bool
is_told(const struct config_rule *rule, const char *ground)
{
    struct why why = {""};
    OWNED(config_destroy) struct config *config = job();
    set(config, ground);
    make_true(config, rule->second);
    make_true(config, rule->first);
    bool both = config_rule_holds(config, rule->first) && config_rule_holds(config, rule->second);
    bool told = both && config_check(config, &why) == -EINVAL && strstr(why.line, rule->say);
    if (told)
        expect_remedy(rule->first, why.line);
    return told;
}

TEST(each_rule_can_be_broken_and_is_told)
{
    for (size_t i = 0; i < config_rule_count; i++) {
        bool told = false;
        for (size_t k = 0; k < sizeof grounds / sizeof grounds[0] && !told; k++)
            told = is_told(&config_rules[i], grounds[k]);
        if (!told)
            fail_msg("nothing breaks '%s' with '%s'", config_rules[i].first,
                     config_rules[i].second);
    }
}

TEST(conditions_compare_words_lists_and_numbers)
{
    static const struct {
        const char *set, *condition;
        bool holds;
    } row[] = {
        {"", "train.exact = yes", true},
        {"train.exact=false", "train.exact = no", true},
        {"", "train.exact != yes", false},
        {"data.source=csv", "data.source = npy|csv", true},
        {"data.source=csv", "data.source != npy|csv", false},
        {"data.source=cifar10", "data.source = cifar100|cifar", false},
        {"mesh.audit=0.001", "mesh.audit > 0", true},
        {"", "mesh.audit > 0", false},
        {"train.local_steps=2", "train.local_steps < 2", false},
        {"", "train.local_steps < 2", true},
        {"train.optimizer.sgd.momentum=0.5", "train.optimizer.sgd.momentum > 0", true},
        /* the same place in memory, but sgd is not chosen */
        {"train.optimizer=lars", "train.optimizer.sgd.momentum > 0", false},
        {"train.optimizer=lars", "train.optimizer.lars.momentum > 0.8", true},
        {"train.optimizer=lars", "train.optimizer = lars", true},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        OWNED(config_destroy) struct config *config = job();
        set(config, row[i].set);
        if (config_rule_holds(config, row[i].condition) != row[i].holds)
            fail_msg("'%s' with '%s'", row[i].condition, row[i].set);
    }
}

TEST(the_line_of_either_key_is_named)
{
    static const struct {
        const char *text, *line;
    } row[] = {
        {"mesh:\n  audit: 0.5\ntrain:\n  exact: no\nmodel: [dense: 1]\n",
         "job.yaml:2: mesh.audit = 0.5 cannot go with train.exact = no: "},
        {"train:\n  precision: bf16\n  exact: no\nmodel: [dense: 1]\n",
         "job.yaml:2: train.precision = bf16 cannot go with train.exact = no: "},
        {"run:\n  numerics: openblas\nmodel: [dense: 1]\n",
         "job.yaml:2: run.numerics = openblas cannot go with train.exact = yes: "},
        {"data:\n  source: counting\nmodel: [dense: 1]\n",
         "job.yaml:2: train.loss = cross_entropy cannot go with data.source = counting: "},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        OWNED(config_destroy) struct config *config;
        struct why why = {""};
        assert_int_equal(config_parse(&config, "job.yaml", row[i].text, strlen(row[i].text), &why),
                         0);
        assert_int_equal(config_check(config, &why), -EINVAL);
        if (strncmp(why.line, row[i].line, strlen(row[i].line)) != 0)
            fail_msg("'%s' instead of '%s'", why.line, row[i].line);
    }
}

/* --- All pairs --- */

static const struct {
    const char *set;
    const char *needs; /* what it cannot do without, whatever its partner is */
} settings[] = {
    {"mesh.topology=ring", ""},
    {"mesh.topology=server", ""},
    {"mesh.servers=auto", ""},
    {"mesh.servers=3", "mesh.topology=server"},
    {"mesh.peers=2", ""},
    {"train.exact=yes", ""},
    {"train.exact=no", ""},
    {"run.numerics=portable", ""},
    {"run.numerics=openblas", "train.exact=no"},
    {"mesh.audit=0.1", ""},
    {"mesh.audit=0", ""},
    {"train.local_steps=1", ""},
    {"train.local_steps=4", ""},
    {"train.block_momentum=0.5", "train.local_steps=4"},
    {"train.optimizer=adam", ""},
    {"train.optimizer=lars", ""},
    {"train.optimizer=lamb", ""},
    {"train.optimizer.sgd.momentum=0.5", ""},
    {"train.recompute=yes", ""},
    {"mesh.bucket=4096", ""},
    {"model.from=a.safetensors", ""},
    {"train.from=b/checkpoint-1", ""},
    {"mesh.division=speed", ""},
    {"mesh.division=even", ""},
    {"mesh.topology=gossip", ""},
    {"mesh.sync=async", "mesh.topology=gossip"},
    {"gossip.method=push_sum", "mesh.topology=gossip"},
    {"train.clip_norm=1", ""},
    {"train.ema=0.9", ""},
    {"train.patience=2", ""},
    {"mesh.stages=4", ""},
    {"mesh.stages=auto", ""},
    {"mesh.schedule=1f1b", "mesh.stages=4"},
};
enum { SETTINGS = sizeof settings / sizeof settings[0] };

/* Whoever needs one of the two cannot go with the other one either. */
static const char *const refused[][2] = {
    {"model.from=a.safetensors", "train.from=b/checkpoint-1"},
    {"mesh.peers=2", "mesh.servers=3"},
    {"train.exact=no", "mesh.audit=0.1"},
    {"train.exact=no", "train.local_steps=4"},
    {"train.exact=no", "mesh.topology=gossip"},
    {"train.exact=no", "mesh.stages=4"},
    {"train.exact=no", "mesh.stages=auto"},
    {"train.local_steps=4", "train.optimizer=lars"},
    {"train.local_steps=4", "train.optimizer=lamb"},
    {"train.local_steps=4", "mesh.topology=gossip"},
    {"train.local_steps=4", "mesh.stages=4"},
    {"train.local_steps=4", "mesh.stages=auto"},
    {"mesh.audit=0.1", "mesh.topology=gossip"},
    {"mesh.audit=0.1", "mesh.stages=4"},
    {"mesh.audit=0.1", "mesh.stages=auto"},
    {"mesh.topology=gossip", "train.ema=0.9"},
    {"mesh.topology=gossip", "train.patience=2"},
    {"mesh.topology=gossip", "mesh.division=even"},
    {"mesh.topology=gossip", "mesh.stages=4"},
    {"mesh.topology=gossip", "mesh.stages=auto"},
    {"mesh.sync=async", "gossip.method=push_sum"},
};

static bool
is_refused(const char *a, const char *b)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if ((strcmp(refused[i][0], a) == 0 && strcmp(refused[i][1], b) == 0) ||
            (strcmp(refused[i][0], b) == 0 && strcmp(refused[i][1], a) == 0))
            return true;
    return false;
}

/* Is this one value of a key, and what another setting needs another value? A schedule goes with any stages. */
static bool
contradicts(const char *needs, const char *set)
{
    size_t key = strcspn(needs, "=");
    return *needs && strncmp(needs, "mesh.stages", key) != 0 && strncmp(needs, set, key + 1) == 0 &&
           strcmp(needs, set) != 0;
}

static bool
must_be_refused(size_t a, size_t b)
{
    const char *const of_a[] = {settings[a].set, settings[a].needs};
    const char *const of_b[] = {settings[b].set, settings[b].needs};
    bool must = false;
    for (size_t i = 0; i < 4; i++) {
        const char *x = of_a[i / 2], *y = of_b[i % 2];
        must = must || is_refused(x, y) || (i > 0 && (contradicts(x, y) || contradicts(y, x)));
    }
    return must;
}

/* Can both be set at all? Not two values of one key, nor a setting of a word that the other replaces. */
static bool
can_meet(const char *a, const char *b)
{
    size_t key_a = strcspn(a, "="), key_b = strcspn(b, "=");
    size_t shorter = key_a < key_b ? key_a : key_b;
    return strncmp(a, b, shorter) != 0 || (key_a == shorter ? b : a)[shorter] == '_';
}

static void
try_pair(size_t a, size_t b)
{
    char what[2 * TEXT_SIZE];
    struct why why = {""};
    OWNED(config_destroy) struct config *config = job();
    snprintf(what, sizeof what, "%s with %s", settings[a].set, settings[b].set);
    set(config, settings[a].needs);
    set(config, settings[b].needs);
    set(config, settings[a].set);
    set(config, settings[b].set);
    int rc = config_check(config, &why);
    bool must = must_be_refused(a, b);
    if (rc && !must)
        fail_msg("%s: refused: %s", what, why.line);
    if (!rc && must)
        fail_msg("%s: accepted", what);
    if (rc)
        expect_remedy(what, why.line);
}

TEST(of_all_pairs_those_that_contradict_are_refused)
{
    for (size_t a = 0; a < SETTINGS; a++)
        for (size_t b = 0; b < SETTINGS; b++)
            if (a != b && can_meet(settings[a].set, settings[b].set))
                try_pair(a, b);
}

/* Their keys are known with their defaults alone, which jobs of that time have. */
TEST(what_servers_that_did_not_wait_had_is_refused_in_one_line)
{
    static const struct {
        const char *set, *line; /* NULL: accepted */
    } row[] = {
        {"mesh.sync=ssp", "rounds go on without a node that pauses"},
        {"mesh.topology=server mesh.sync=async",
         "leave out mesh.sync, or set mesh.topology = gossip"},
        {"mesh.topology=server mesh.sync=softsync",
         "leave out mesh.sync, or set mesh.topology = gossip"},
        {"mesh.topology=gossip mesh.sync=async mesh.pull=bf16", "leave out mesh.pull"},
        {"mesh.staleness=3 mesh.softsync=4 mesh.ticket_shards=auto mesh.staleness_scaling=yes "
         "mesh.pull=fp32",
         NULL},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        OWNED(config_destroy) struct config *config = job();
        struct why why = {""};
        set(config, row[i].set);
        int rc = config_check(config, &why);
        if (!rc != !row[i].line || (rc && !strstr(why.line, row[i].line)))
            fail_msg("%s: '%s'", row[i].set, why.line);
    }
}

/* A slip in the list above would make it say nothing. */
TEST(each_refused_pair_is_of_the_list)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        for (size_t side = 0; side < 2; side++) {
            bool found = false;
            for (size_t k = 0; k < SETTINGS; k++)
                found = found || strcmp(settings[k].set, refused[i][side]) == 0;
            if (!found)
                fail_msg("%s is not among the settings", refused[i][side]);
        }
}

/* test_protocol.c - the grammar and the tables of PROTOCOL.md have the messages and fields of proto/messages.def, and
 * the timers as they are in the code. */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>

#include "proto/proto.h"
#include "tests/support/test.h"

enum { PAGE_MAX = 1 << 17, RULES_MAX = 128, RULE_SIZE = 512, NAME_SIZE = 32 };

/* What messages.def says. */
static const struct message {
    const char *symbol, *list;
    unsigned number;
} messages[] = {
#define MESSAGE(symbol, number, fields, meaning) {#symbol, #fields, number},
#include "proto/messages.def"
};
enum { MESSAGES = sizeof messages / sizeof messages[0] };

static const struct field_name {
    const char *list, *member,
        *rule; /* rule: what the grammar says of the field; "": it is a uint */
} fields[] = {
#define UINT(list, member, min, max) {#list, #member, ""},
#define BOOL(list, member)           {#list, #member, "bool"},
#define TEXT(list, member, min)      {#list, #member, "text"},
#define HOST(list, member)           {#list, #member, "text"},
#define LIST(list, member, count, min, max, item, indirect)                                        \
    {#list, #member, (min) ? "list " #min "*" #item : "list *" #item},
#include "proto/messages.def"
};
enum { FIELDS_COUNT = sizeof fields / sizeof fields[0] };

static const char *const items[] = {"endpoint", "hearing", "member", "cut", "replica"};
enum { ITEMS = sizeof items / sizeof items[0] };

/* Rules of the grammar: "hold = %x94 version %x06 plan-hash round". */
struct rules {
    char line[RULES_MAX][RULE_SIZE];
    size_t count;
};

static char page[PAGE_MAX], why[256];
static struct rules expected, found;

/* As the page spells a name of C: wants_job is wants-job, leader.id is leader-id. */
static const char *
spelled(const char *name, char out[NAME_SIZE])
{
    size_t i = 0;
    for (; name[i] && i < NAME_SIZE - 1; i++)
        out[i] = name[i] == '_' || name[i] == '.' ? '-' : (char)tolower(name[i]);
    out[i] = 0;
    return out;
}

__attribute__((format(printf, 2, 3))) static void
append(char line[RULE_SIZE], const char *format, ...)
{
    size_t used = strlen(line);
    va_list args;
    va_start(args, format);
    int size = vsnprintf(line + used, RULE_SIZE - used, format, args);
    va_end(args);
    assert_in_range(size, 0, RULE_SIZE - used - 1);
}

static char *
rule_add(struct rules *rules)
{
    assert_true(rules->count < RULES_MAX);
    char *line = rules->line[rules->count++];
    *line = 0;
    return line;
}

/* Returns the rule with the name that `line` begins with, or NULL. */
static const char *
rule_find(const struct rules *rules, const char *line)
{
    size_t size = strcspn(line, " ");
    for (size_t i = 0; i < rules->count; i++)
        if (strcspn(rules->line[i], " ") == size && memcmp(rules->line[i], line, size) == 0)
            return rules->line[i];
    return NULL;
}

static size_t
list_count(const char *list)
{
    size_t count = 0;
    for (size_t i = 0; i < FIELDS_COUNT; i++)
        count += strcmp(fields[i].list, list) == 0;
    return count;
}

static void
append_fields(char line[RULE_SIZE], const char *list)
{
    char name[NAME_SIZE];
    for (size_t i = 0; i < FIELDS_COUNT; i++)
        if (strcmp(fields[i].list, list) == 0)
            append(line, " %s", spelled(fields[i].member, name));
}

static void
expect_messages(void)
{
    char name[NAME_SIZE], *header = rule_add(&expected);
    append(header, "header =");
    for (size_t i = 0; i < MESSAGES; i++) {
        append(header, "%s %s", i ? " /" : "", spelled(messages[i].symbol, name));
        char *line = rule_add(&expected);
        size_t count = 2 + list_count(messages[i].list);
        append(line, count < 16 ? "%s = %%x9%zX" : "%s = %%xDC %%x00 %%x%02zX", name, count);
        append(line, " version %%x%02X", messages[i].number);
        append_fields(line, messages[i].list);
    }
}

static void
expect_fields(void)
{
    char name[NAME_SIZE], line[RULE_SIZE];
    for (size_t i = 0; i < ITEMS; i++) {
        char *item = rule_add(&expected);
        append(item, "%s = %%x9%zX", items[i], list_count(items[i]));
        append_fields(item, items[i]);
    }
    for (size_t i = 0; i < FIELDS_COUNT; i++) {
        *line = 0;
        append(line, "%s = %s", spelled(fields[i].member, name), fields[i].rule);
        if (*fields[i].rule && !rule_find(&expected, line))
            append(rule_add(&expected), "%s", line);
    }
    append(rule_add(&expected), "version = %%x%02X", PROTO_VERSION);
}

/* Appends a line of the page to the rule that it begins or goes on with; one space between words, no comment. */
static void
read_line(char *line)
{
    line[strcspn(line, ";")] = 0;
    bool begins = *line && *line != ' ';
    char *rule = begins || found.count == 0 ? rule_add(&found) : found.line[found.count - 1];
    for (char *word = strtok(line, " "); word; word = strtok(NULL, " "))
        append(rule, "%s%s", *rule ? " " : "", word);
}

static void
read_grammar(const char *text)
{
    char copy[PAGE_MAX], *rest = copy, *line;
    const char *from = strstr(text, "```abnf\n"), *to = from ? strstr(from + 3, "```") : NULL;
    assert_non_null(to);
    from += strlen("```abnf\n");
    snprintf(copy, sizeof copy, "%.*s", (int)(to - from), from);
    found.count = 0;
    while ((line = strsep(&rest, "\n")))
        read_line(line);
}

/* Says at which word two rules of one name part. */
static bool
same_rule(const char *is, const char *should)
{
    while (*is && *is == *should)
        is++, should++;
    if (*is == *should)
        return true;
    bool ends = !*is && *should == ' ', goes_on = !*should && *is == ' ';
    is += goes_on, should += ends;
    while (!ends && !goes_on && is[-1] != ' ')
        is--, should--;
    snprintf(why, sizeof why, "'%.*s', expected '%.*s'", (int)strcspn(is, " "), is,
             (int)strcspn(should, " "), should);
    return false;
}

static bool
basic_rule(const char *line)
{
    static const char *const basic[] = {"bool ", "uint ", "text ", "list "};
    for (size_t i = 0; i < sizeof basic / sizeof basic[0]; i++)
        if (strncmp(line, basic[i], strlen(basic[i])) == 0)
            return true;
    return false;
}

static bool
grammar_agrees(const char *text)
{
    char differs[sizeof why];
    read_grammar(text);
    for (size_t i = 0; i < expected.count; i++) {
        const char *line = expected.line[i], *is = rule_find(&found, line);
        int size = (int)strcspn(line, " ");
        if (!is) {
            snprintf(why, sizeof why, "no rule %.*s", size, line);
            return false;
        }
        if (!same_rule(is, line)) {
            snprintf(differs, sizeof differs, "%s", why);
            snprintf(why, sizeof why, "rule %.*s: %.200s", size, line, differs);
            return false;
        }
    }
    for (size_t i = 0; i < found.count; i++)
        if (*found.line[i] && !basic_rule(found.line[i]) && !rule_find(&expected, found.line[i])) {
            snprintf(why, sizeof why, "rule %.*s, which messages.def does not have",
                     (int)strcspn(found.line[i], " "), found.line[i]);
            return false;
        }
    return true;
}

/* An unsigned integer has no rule of its own, so no rule may have its name. */
static bool
names_are_free(void)
{
    char name[NAME_SIZE], line[RULE_SIZE];
    for (size_t i = 0; i < FIELDS_COUNT; i++) {
        snprintf(line, sizeof line, "%s ", spelled(fields[i].member, name));
        if (!*fields[i].rule && rule_find(&expected, line)) {
            snprintf(why, sizeof why, "%s.%s is a number, and a rule", fields[i].list,
                     fields[i].member);
            return false;
        }
    }
    return true;
}

static bool
is_field(const char *name, size_t size)
{
    char spelling[NAME_SIZE];
    for (size_t i = 0; i < FIELDS_COUNT; i++)
        if (strlen(spelled(fields[i].member, spelling)) == size && !memcmp(spelling, name, size))
            return true;
    return false;
}

/* The first column of "Fields and limits": names with ", " between them. */
static bool
table_agrees(const char *text)
{
    char seen[PAGE_MAX] = " ", name[NAME_SIZE];
    const char *row = strstr(text, "| Field | Range |");
    assert_non_null(row);
    row = strchr(strchr(row, '\n') + 1, '\n') + 1; /* behind the line of dashes */
    for (; *row == '|'; row = strchr(row, '\n') + 1)
        for (const char *at = row + 2; *at != '|'; at += strspn(at, ", ")) {
            size_t size = strcspn(at, ", |");
            if (!is_field(at, size)) {
                snprintf(why, sizeof why, "the table has %.*s, messages.def has not", (int)size,
                         at);
                return false;
            }
            snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%.*s ", (int)size, at);
            at += size;
        }
    for (size_t i = 0; i < FIELDS_COUNT; i++) {
        char wanted[NAME_SIZE + 2];
        snprintf(wanted, sizeof wanted, " %s ", spelled(fields[i].member, name));
        if (!strstr(seen, wanted)) {
            snprintf(why, sizeof why, "the table has no %s", name);
            return false;
        }
    }
    return true;
}

/* The number that `file` gives `name`, in us; 0: none. */
static unsigned long long
defined_us(const char *file, const char *name)
{
    static char text[PAGE_MAX];
    FILE *in = fopen(file, "r");
    size_t size = in ? fread(text, 1, sizeof text - 1, in) : 0;
    if (in)
        fclose(in);
    text[size] = 0;
    for (char *at = strstr(text, name); at; at = strstr(at + 1, name)) {
        char *behind = at + strlen(name);
        behind += strspn(behind, " ");
        if (*behind == '=' && (at == text || at[-1] == ' '))
            return strtoull(behind + 1, NULL, 10) * (strstr(name, "_MS") ? 1000 : 1);
    }
    return 0;
}

static unsigned long long
unit_us(const char *unit)
{
    static const struct {
        const char *name;
        unsigned long long us;
    } units[] = {{"ms", 1000}, {"s", 1000000}, {"min", 60000000}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(units[i].name, unit) == 0)
            return units[i].us;
    return 0;
}

/* Rows of "Timers": | NAME | file | 10 ms | ... */
static bool
timers_agree(const char *text)
{
    const char *row = strstr(text, "| Constant | Where | Value |");
    assert_non_null(row);
    row = strchr(strchr(row, '\n') + 1, '\n') + 1;
    size_t count = 0;
    for (; *row == '|'; row = strchr(row, '\n') + 1, count++) {
        char name[NAME_SIZE], file[64], unit[8];
        unsigned long long value;
        assert_int_equal(sscanf(row, "| %31s | %63s | %llu %7s |", name, file, &value, unit), 4);
        unsigned long long us = defined_us(file, name);
        if (us == 0 || us != value * unit_us(unit)) {
            snprintf(why, sizeof why, "%s is %llu %s in the table and %llu us in %s", name, value,
                     unit, us, file);
            return false;
        }
    }
    return count > 50;
}

static const char *
differs(const char *text)
{
    bool agrees =
        grammar_agrees(text) && names_are_free() && table_agrees(text) && timers_agree(text);
    return agrees ? "nothing" : why;
}

FIXTURE(setup)
{
    FILE *file = fopen("proto/PROTOCOL.md", "r");
    if (!file)
        return -1;
    size_t size = fread(page, 1, sizeof page - 1, file);
    fclose(file);
    page[size] = 0;
    expect_messages();
    expect_fields();
    return size > 0 && size < sizeof page - 1 ? 0 : -1;
}

TEST_ALL(setup, NULL)

TEST(the_page_has_the_names_of_the_codec)
{
    assert_string_equal(differs(page), "nothing");
}

/* The page with the first `old` behind `behind` replaced. */
static const char *
changed(const char *behind, const char *old, const char *new)
{
    static char text[PAGE_MAX];
    char *start = strstr(page, behind), *at = start ? strstr(start, old) : NULL;
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - page), page, new, at + strlen(old));
    return text;
}

/* The octets of the example behind "Example: a HELLO" are those of a HELLO of this version. */
TEST(the_example_is_of_this_version)
{
    const struct proto_msg msg = {.type = PROTO_HELLO,
                                  .hello = {.asks = 300,
                                            .identity = 5,
                                            .answers = 7,
                                            .mesh = "m",
                                            .run = "digits",
                                            .job_hash = 0x1122334455667788,
                                            .numerics = 200,
                                            .kernel = "zen",
                                            .name = "pc3",
                                            .control_port = 20000,
                                            .bulk_port = 20001}};
    uint8_t frame[PROTO_FRAME_MAX];
    size_t size = proto_encode(&msg, frame);
    const char *at = strstr(page, "Example: a HELLO");
    at = at ? strstr(at, "\n\n    ") : NULL;
    assert_non_null(at);
    at += strlen("\n\n    ");
    for (size_t i = 0; i < size; i++) {
        char *end;
        assert_int_equal(strtoul(at, &end, 16), frame[i]);
        assert_int_equal(end - at, 2);
        at = end + 1;
    }
    assert_int_equal(at[-1], '\n');
}

TEST(what_differs_is_named)
{
    assert_string_equal(differs(changed("\nhello ", "wants-job", "wants-work")),
                        "rule hello: 'wants-work', expected 'wants-job'");
    assert_string_equal(differs(changed("\nheader ", "/ give", "/ gives")),
                        "rule header: 'gives', expected 'give'");
    assert_string_equal(differs(changed("\nplan ", "%x05", "%x06")),
                        "rule plan: '%x06', expected '%x05'");
    assert_string_equal(differs(changed("\nhearing ", " rate", "")),
                        "rule hearing: '', expected 'rate'");
    assert_string_equal(differs(changed("\nidle ", "bool", "uint")),
                        "rule idle: 'uint', expected 'bool'");
    assert_string_equal(differs(changed("\nidle ", "idle", "lazy")), "no rule idle");
    assert_string_equal(differs(changed("\nidle ", "idle ", "lazy = bool\nidle ")),
                        "rule lazy, which messages.def does not have");
    assert_string_equal(differs(changed("\n| numerics |", "numerics", "numbers")),
                        "the table has numbers, messages.def has not");
    assert_string_equal(differs(changed("\n| numerics |", "numerics", "kernel")),
                        "the table has no numerics");
    assert_string_equal(differs(changed("\n| CORE_TICK_US |", "10 ms", "11 ms")),
                        "CORE_TICK_US is 11 ms in the table and 10000 us in mesh/core/core.h");
    assert_string_equal(differs(changed("\n| CORE_TICK_US |", "CORE_TICK_US", "CORE_TOCK_US")),
                        "CORE_TOCK_US is 10 ms in the table and 0 us in mesh/core/core.h");
}

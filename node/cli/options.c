/* options.c - the command line, strictly read. See options.h.
 *
 *     --name value   --name=value   -n value   -nvalue   --
 *
 * Names are not abbreviated, so that a new option never changes what an old command means. */
#include "node/cli/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "node/base/parse.h"
#include "node/job/config_hint.h"

enum { SHOWN_MAX = 80, NAME_MAX_LENGTH = 32, LEFT_WIDTH = 21 };

struct option {
    const char *name;
    const char *value; /* what --help calls it; NULL: takes none */
    const char *key;   /* "node.threads"; "" = the value names it; NULL = none */
    const char *fixed; /* value of the key when the option takes none */
    const char *help;
    const char *command; /* the only ones that have it, "eval or predict"; NULL: many */
};

enum { LENGTH_MAX = 100000000, TOP_K_MAX = 256 };
static const double TEMPERATURE_MAX = 1000;

static const struct option table[] = {
    {"--set", "KEY=VALUE", "", NULL, "set a key of the job: train.epochs=5; repeatable", NULL},
    {"--out", "DIR", "node.out", NULL, "folder for results (runs/NAME)", NULL},
    {"--data", "DIR", "data.dir", NULL, "folder of the data files", NULL},
    {"--cache", "DIR", "node.cache", NULL,
     "folder for data that come from the mesh (~/.cache/meshnode)", NULL},
    {"--no-share", NULL, "node.share", "no", "do not give the job's files to other nodes", NULL},
    {"--peers", "N", "mesh.peers", NULL, "wait for N nodes before the first step", NULL},
    {"--interface", "IF", "mesh.interface", NULL, "use this network interface (all usable ones)",
     NULL},
    {"--peer", "HOST:PORT", "mesh.seeds", NULL,
     "ask this node, where broadcast does not work; repeatable", NULL},
    {"--port", "PORT", "mesh.port", NULL,
     "first of the node's two TCP ports (20000, or what is free)", NULL},
    {"--seed", "N", "run.seed", NULL, "seed of all random numbers", NULL},
    {"--threads", "N", "node.threads", NULL, "number of threads that compute (all CPUs)", NULL},
    {"--idle", NULL, "node.idle", "yes",
     "leave CPUs and disks to others: fewer threads, or none, while they want them", NULL},
    {"--pause-when", "COMMAND", NULL, NULL, "compute nothing while the exit status of COMMAND is 0",
     NULL},
    {"--nice", "N", "node.nice", NULL, "run with nice N, 0 to 19 (0)", NULL},
    {"--resume", NULL, NULL, NULL,
     "continue from the newest checkpoint in --out, also with more epochs", NULL},
    {"--fresh", NULL, NULL, NULL, "begin at step 0, even if --out has an unfinished run", NULL},
    {"--quiet", NULL, "node.quiet", "yes", "print only warnings and errors", NULL},
    {"--tensorboard", NULL, "node.tensorboard", "yes", "also write curves for TensorBoard to --out",
     NULL},
    {"--log", "LEVEL", "node.log", NULL, "error, warning, info or debug (info)", NULL},
    {"-n", "N", NULL, NULL, "local: number of nodes (4)", "local"},
    {"--python", "MODEL", NULL, NULL, "check: print a PyTorch program that loads the model",
     "check"},
    {"--timeline", "FILE.svg", NULL, NULL,
     "check: draw a step of a job with stages, as predicted for --peers N or recorded in DIR...",
     "check"},
    {"--replay", NULL, NULL, NULL, "verify: compute a run with gossip again from its journals",
     "verify"},
    {"--scaled", NULL, NULL, NULL,
     "eval, predict: the data's numbers are scaled already, as by convert", "eval or predict"},
    {"--evaluate", NULL, NULL, NULL,
     "verify: compute the test loss and accuracy of the models again, from the job's data",
     "verify"},
    {"--json", NULL, NULL, NULL, "doctor: print one object, for scripts", "doctor"},
    {"--prompt", "TEXT", NULL, NULL, "sample: the text to continue (a line break)", "sample"},
    {"--length", "N", NULL, NULL, "sample: number of bytes to add (256)", "sample"},
    {"--temperature", "T", NULL, NULL, "sample: below 1 more likely bytes; 0 the likeliest (1)",
     "sample"},
    {"--top-k", "K", NULL, NULL, "sample: draw from the K likeliest bytes (0: all)", "sample"},
    {"--help", NULL, NULL, NULL, "print this text", NULL},
    {"--version", NULL, NULL, NULL, "print the version", NULL},
};
enum { OPTION_COUNT = sizeof table / sizeof table[0] };

struct cursor {
    struct options *options;
    int argc, at;
    char *const *argv;
    struct why *why;
};

static const struct option *
option_find(const char *name)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

static int
fail_unknown(const struct cursor *cursor, const char *name)
{
    char shown[SHOWN_MAX], key[SHOWN_MAX];
    const struct option *best = NULL;
    unsigned limit = 2;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        unsigned distance = parse_distance(table[i].name, name);
        if (distance <= limit && strlen(name) > 2) {
            best = &table[i];
            limit = distance - (distance > 0);
        }
    }
    parse_escape(shown, sizeof shown, name);
    if (strncmp(name, "--", 2) == 0 && config_hint_option(name + 2, key, sizeof key))
        why_set(cursor->why, "unknown option %s, did you mean --set %s?", shown, key);
    else if (best)
        why_set(cursor->why, "unknown option %s, did you mean %s?", shown, best->name);
    else
        why_set(cursor->why, "unknown option %s, see meshnode --help", shown);
    return -EINVAL;
}

static int
add_set(struct cursor *cursor, const struct option *option, const char *value)
{
    struct options *options = cursor->options;
    if (options->set_count == OPTIONS_SETS_MAX)
        return why_error(cursor->why, -EINVAL, "more than %d options", OPTIONS_SETS_MAX);
    size_t size = strlen(option->key) + strlen(value) + 2;
    char *assignment = malloc(size);
    if (!assignment)
        return why_error(cursor->why, -ENOMEM, "out of memory");
    snprintf(assignment, size, "%s%s%s", option->key, *option->key ? "=" : "", value);
    options->set[options->set_count].option = option->name;
    options->set[options->set_count++].assignment = assignment;
    return 0;
}

/* "--set mesh.topology gossip": a job that follows belongs to another argument. */
static int
fail_set(const struct cursor *cursor, const char *key)
{
    char shown[SHOWN_MAX], value[SHOWN_MAX];
    const char *next = cursor->at + 1 < cursor->argc ? cursor->argv[cursor->at + 1] : "-";
    parse_escape(shown, sizeof shown, key);
    parse_escape(value, sizeof value, next);
    if (*next == '-' || strchr(next, '/') || strstr(next, ".y"))
        return why_error(cursor->why, -EINVAL,
                         "--set %s, expected --set KEY=VALUE, with a =", shown);
    return why_error(cursor->why, -EINVAL, "--set %s %s, did you mean --set %s=%s?", shown, value,
                     shown, value);
}

static int
set_uint(struct cursor *cursor, const char *name, const char *value, uint64_t min, uint64_t max,
         uint64_t *out)
{
    char shown[SHOWN_MAX];
    if (parse_uint(value, out) == 0 && *out >= min && *out <= max)
        return 0;
    parse_escape(shown, sizeof shown, value);
    return why_error(cursor->why, -EINVAL, "%s %s, expected a whole number %ju..%ju", name, shown,
                     min, max);
}

static int
set_prompt(struct cursor *cursor, const char *value)
{
    cursor->options->prompt = value;
    if (*value)
        return 0;
    return why_error(cursor->why, -EINVAL, "--prompt is empty, expected at least one byte");
}

static int
set_pause_when(struct cursor *cursor, const char *value)
{
    cursor->options->pause_when = value;
    if (value[strspn(value, " \t\n")])
        return 0;
    return why_error(cursor->why, -EINVAL,
                     "--pause-when is empty, expected a command, such as 'pgrep -x steam'");
}

static int
set_temperature(struct cursor *cursor, const char *value)
{
    char shown[SHOWN_MAX];
    double *out = &cursor->options->temperature;
    if (parse_real(value, out) == 0 && *out >= 0 && *out <= TEMPERATURE_MAX)
        return 0;
    parse_escape(shown, sizeof shown, value);
    return why_error(cursor->why, -EINVAL, "--temperature %s, expected a number 0..%g", shown,
                     TEMPERATURE_MAX);
}

static int
apply_option(struct cursor *cursor, const struct option *option, const char *value)
{
    struct options *options = cursor->options;
    if (option->key)
        return add_set(cursor, option, value ? value : option->fixed);
    if (option->command && !options->command) {
        options->option = option->name;
        options->command = option->command;
    }
    if (strcmp(option->name, "-n") == 0)
        return set_uint(cursor, option->name, value, 1, PROTO_PEERS_MAX, &options->nodes);
    if (strcmp(option->name, "--prompt") == 0)
        return set_prompt(cursor, value);
    if (strcmp(option->name, "--pause-when") == 0)
        return set_pause_when(cursor, value);
    if (strcmp(option->name, "--python") == 0) {
        options->python = value;
        return 0;
    }
    if (strcmp(option->name, "--timeline") == 0) {
        options->timeline = value;
        return 0;
    }
    if (strcmp(option->name, "--length") == 0)
        return set_uint(cursor, option->name, value, 1, LENGTH_MAX, &options->length);
    if (strcmp(option->name, "--top-k") == 0)
        return set_uint(cursor, option->name, value, 0, TOP_K_MAX, &options->top_k);
    if (strcmp(option->name, "--temperature") == 0)
        return set_temperature(cursor, value);
    options->resume = options->resume || strcmp(option->name, "--resume") == 0;
    options->fresh = options->fresh || strcmp(option->name, "--fresh") == 0;
    options->scaled = options->scaled || strcmp(option->name, "--scaled") == 0;
    options->replay = options->replay || strcmp(option->name, "--replay") == 0;
    options->evaluate = options->evaluate || strcmp(option->name, "--evaluate") == 0;
    options->json = options->json || strcmp(option->name, "--json") == 0;
    options->help = options->help || strcmp(option->name, "--help") == 0;
    options->version = options->version || strcmp(option->name, "--version") == 0;
    return 0;
}

/* `argv[at]` starts with a dash. */
static int
take_option(struct cursor *cursor)
{
    char name[NAME_MAX_LENGTH];
    const char *arg = cursor->argv[cursor->at], *value = NULL;
    const char *equals = strchr(arg, '=');
    bool short_form = arg[1] != '-' && arg[1] != '\0' && arg[2] != '\0';
    size_t size = short_form ? 2 : equals ? (size_t)(equals - arg) : strlen(arg);
    snprintf(name, sizeof name, "%.*s", (int)(size < sizeof name ? size : sizeof name - 1), arg);
    const struct option *option = option_find(name);
    if (!option || size >= sizeof name)
        return fail_unknown(cursor, short_form ? arg : name);
    if (size < strlen(arg))
        value = short_form ? arg + 2 : equals + 1;
    if (value && !option->value)
        return why_error(cursor->why, -EINVAL, "%s takes no value", option->name);
    if (!value && option->value) {
        if (cursor->at + 1 == cursor->argc)
            return why_error(cursor->why, -EINVAL, "%s needs a value: %s %s", option->name,
                             option->name, option->value);
        value = cursor->argv[++cursor->at];
    }
    if (option->key && !*option->key && !strchr(value, '='))
        return fail_set(cursor, value);
    return apply_option(cursor, option, value);
}

static int
take_arg(struct cursor *cursor)
{
    char shown[SHOWN_MAX];
    struct options *options = cursor->options;
    const char *arg = cursor->argv[cursor->at];
    if (*arg != '\0' && options->arg_count < OPTIONS_ARGS_MAX) {
        options->args[options->arg_count++] = arg;
        return 0;
    }
    parse_escape(shown, sizeof shown, arg);
    return why_error(cursor->why, -EINVAL, *arg ? "one argument too many: %s" : "empty argument%s",
                     shown);
}

int
options_parse(struct options *options, int argc, char *const argv[], struct why *why)
{
    *options = (struct options){.length = 256, .temperature = 1};
    struct cursor cursor = {options, argc, 1, argv, why};
    bool only_args = false;
    for (; cursor.at < argc; cursor.at++) {
        const char *arg = argv[cursor.at];
        int rc = 0;
        if (!only_args && strcmp(arg, "--") == 0)
            only_args = true;
        else
            rc = !only_args && arg[0] == '-' ? take_option(&cursor) : take_arg(&cursor);
        if (rc || options->help || options->version)
            return rc;
    }
    return 0;
}

void
options_fini(struct options *options)
{
    for (size_t i = 0; i < options->set_count; i++)
        free(options->set[i].assignment);
    options->set_count = 0;
}

int
options_apply(const struct options *options, struct config *config, struct why *why)
{
    struct why reason;
    config->pause_when = options->pause_when;
    for (size_t i = 0; i < options->set_count; i++) {
        if (config_set(config, options->set[i].assignment, &reason) == 0)
            continue;
        bool named = strncmp(reason.line, "--set ", 6) == 0;
        return why_error(why, -EINVAL, "%s%s%s", named ? "" : options->set[i].option,
                         named ? "" : ": ", reason.line);
    }
    return 0;
}

bool
options_has(const char *commands, const char *command)
{
    return *command && strstr(commands, command);
}

void
options_print(FILE *file, const char *command)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char left[64];
        if (command && (!table[i].command || !options_has(table[i].command, command)))
            continue;
        snprintf(left, sizeof left, "%s %s", table[i].name, table[i].value ? table[i].value : "");
        fprintf(file, "  %-*s %s\n", LEFT_WIDTH, left, table[i].help);
    }
}

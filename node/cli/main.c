/* main.c - the program's commands.
 *
 * Exit status: 0 done, 1 the run failed, 2 bad usage or config, 130 interrupted. A first SIGINT, SIGTERM or
 * SIGHUP says goodbye to the mesh and writes a checkpoint, a later one ends the process at once; so does the first
 * as long as there is neither. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mesh/mesh.h"
#include "node/base/host.h"
#include "node/base/parse.h"
#include "node/base/stop.h"
#include "node/base/term.h"
#include "node/cli/options.h"
#include "node/commands/command.h"
#include "node/commands/doctor.h"
#include "node/commands/health.h"
#include "node/commands/recorded.h"
#include "node/commands/replay.h"
#include "node/commands/search.h"
#include "node/commands/verify.h"
#include "node/commands/verify_figures.h"
#include "node/job/config.h"
#include "node/job/kind.h"
#include "node/train/train.h"
#include "proto/fail.h"
#include "proto/simd.h"

enum { WHY_MAX = 512, SHOWN_MAX = 160, EXIT_BAD = 2, EXIT_INTERRUPTED = 130 };

static const char version[] = "0.1.0";

struct command {
    const char *name;          /* "": the default */
    size_t args_min, args_max; /* after the name */
    const char *usage, *help;
    int (*run)(const struct options *options, const char *const *args);
    /* without `run`, or by it: with the job that args[0] names */
    command_run *with_job;
};

static const struct command *command_of(const struct options *options);

static int
fail(int status, const char *why)
{
    term_fail("%s", why);
    return status;
}

/* "is a model, expected a job: meshnode eval JOB.yaml MODEL" */
static int
fail_kind(const struct options *options, const char *path, enum kind kind, const char *expected)
{
    char shown[SHOWN_MAX];
    parse_escape(shown, sizeof shown, path);
    term_fail("%s: %s, expected %s: meshnode %s", shown, kind_is(kind), expected,
              command_of(options)->usage);
    return EXIT_BAD;
}

/* --- signals --- */

static void
on_stop(int signal_number)
{
    static volatile uint64_t first_ms;
    (void)signal_number;
    int saved = errno, which = stop_signal(&first_ms);
    if (which == 2 || (which == 1 && !train_interrupt() && !mesh_job_interrupt()))
        _exit(EXIT_INTERRUPTED);
    errno = saved;
}

/* --- configs --- */

/* What was read, or not: with the options applied and, if it is a job, checked. 0 or an exit status. */
static int
complete(struct config **config, int rc, bool job, const struct options *options, struct why *why)
{
    if (rc == 0)
        rc = options_apply(options, *config, why);
    if (rc == 0 && job)
        rc = config_check(*config, why);
    if (rc == 0)
        return 0;
    config_destroy(config);
    return fail(EXIT_BAD, why->line);
}

static int
load_job(struct config **config, const char *path, const struct options *options)
{
    struct why why;
    int rc = config_load(config, path, &why);
    enum kind kind = rc ? kind_of(path) : KIND_UNKNOWN;
    if (kind != KIND_UNKNOWN && kind != KIND_FOLDER)
        return fail_kind(options, path, kind, "a job");
    return complete(config, rc, true, options, &why);
}

/* --- a node without a job --- */

/* What the options alone say: no job, but where to look for one. */
static int
blank(struct config **config, const struct options *options)
{
    static const char nothing[] = "{}";
    struct why why;
    int rc = config_parse(config, "meshnode", nothing, strlen(nothing), &why);
    return complete(config, rc, false, options, &why);
}

/* 0 or an exit status. */
static int
find_job(const struct config *config, struct mesh_job *job)
{
    struct why why = {""};
    int rc = search_job(config, job, &why);
    return rc == 0 ? 0 : rc == -EINTR ? EXIT_INTERRUPTED : fail(EXIT_BAD, why.line);
}

static int
take_job(struct config **config, const struct mesh_job *job, const struct options *options)
{
    struct why why;
    int rc = config_parse(config, "the mesh's job", job->text, strlen(job->text), &why);
    if (rc == 0) {
        snprintf((*config)->from, sizeof(*config)->from, "%s", job->from);
        (*config)->mesh_hash = job->hash;
    }
    return complete(config, rc, true, options, &why);
}

static int
run_help_out(const struct options *options)
{
    struct config *search = NULL, *config = NULL;
    int status = blank(&search, options);
    if (status)
        return status;
    struct mesh_job *job = malloc(sizeof *job);
    status = job ? find_job(search, job) : fail(1, "out of memory");
    if (status == 0)
        status = take_job(&config, job, options);
    if (status == 0)
        status = train_run(config, options_start(options));
    free(job);
    config_destroy(&config);
    config_destroy(&search);
    return status;
}

/* --- commands --- */

static int
run_join(const struct options *options, const char *const *args)
{
    struct why why;
    sigset_t caught;
    stop_catch(on_stop, &caught);
    if (host_descriptors(&why))
        return fail(EXIT_BAD, why.line);
    if (!args[0])
        return run_help_out(options);
    struct config *config = NULL;
    int status = load_job(&config, args[0], options);
    if (status)
        return status;
    status = train_run(config, options_start(options));
    config_destroy(&config);
    return status;
}

/* Load the job, do something with it, done. */
static int
run_with_job(const struct command *command, const struct options *options, const char *const *args)
{
    struct config *config = NULL;
    struct why why;
    int status = load_job(&config, args[0], options);
    bool model = strstr(command->usage, "JOB.yaml MODEL") != NULL;
    enum kind kind = model && !status ? kind_of(args[1]) : KIND_MODEL;
    if (kind != KIND_MODEL && kind != KIND_UNKNOWN)
        status = fail_kind(options, args[1], kind, "a model");
    if (status)
        return status;
    status = command->with_job(config, options, args, &why);
    config_destroy(&config);
    return status < 0 ? fail(EXIT_BAD, why.line) : status;
}

static int
run_health(const struct options *options, const char *const *args)
{
    (void)options;
    return health_print(args[0] ? args[0] : "runs");
}

/* A job that cannot be read is a finding, too. */
static int
run_doctor(const struct options *options, const char *const *args)
{
    struct config *search = NULL, *job = NULL;
    struct why why;
    int status = blank(&search, options);
    if (status)
        return status;
    int rc = args[0] ? config_load(&job, args[0], &why) : 0;
    rc = rc || !job ? rc : options_apply(options, job, &why);
    rc = rc || !job ? rc : config_check(job, &why);
    if (rc)
        config_destroy(&job);
    status = doctor_run(job ? job : search, job, rc ? why.line : NULL, options->json);
    config_destroy(&job);
    config_destroy(&search);
    return status;
}

/* What is computed again: --data and --threads may be given. */
static int
verify_again(struct verify_folders *folders, const struct options *options)
{
    struct config *config = folders->left.config;
    struct why why;
    if (verify_folders_differ(folders))
        return 1;
    int rc = config ? 0 : why_error(&why, -ENOENT, "no folder has a job.json with the job's text");
    rc = rc ? rc : options_apply(options, config, &why);
    rc = rc ? rc : config_check(config, &why);
    rc = rc || !options->evaluate ? rc : verify_figures_evaluate(folders, config, &why);
    if (rc)
        term_fail("%s", why.line);
    return rc ? 2 : options->replay ? replay_run(folders, config) : verify_judge(folders);
}

static bool
is_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && !S_ISDIR(status.st_mode);
}

/* "a.yaml, b.yaml: expected one job, not 2" */
static int
fail_jobs(const char *const *args, size_t count)
{
    char first[SHOWN_MAX], second[SHOWN_MAX];
    parse_escape(first, sizeof first, args[0]);
    parse_escape(second, sizeof second, args[1]);
    term_fail("%s, %s%s: expected one job, not %zu", first, second, count > 2 ? ", ..." : "",
              count);
    return EXIT_BAD;
}

/* A folder in place of the job: --timeline draws what was recorded, and no job is needed. */
static int
run_check(const struct options *options, const char *const *args)
{
    size_t count = options->arg_count - 1;
    struct why why;
    bool recorded = options->timeline && kind_of(args[0]) == KIND_FOLDER;
    if (recorded)
        return recorded_draw(options->timeline, args, count, &why) ? fail(EXIT_BAD, why.line) : 0;
    if (count > 1)
        return fail_jobs(args, count);
    return run_with_job(command_of(options), options, args);
}

static int
run_verify(const struct options *options, const char *const *args)
{
    struct verify_folders folders;
    size_t count = options->arg_count - 1;
    for (size_t i = 0; i < count; i++)
        if (is_file(args[i])) {
            term_fail("%s: is a file, expected a results folder, such as runs/digits", args[i]);
            return EXIT_BAD;
        }
    if (!options->replay && !options->evaluate)
        return verify_run(stdout, args, count);
    verify_folders_init(&folders, stdout, args, count);
    int status = verify_again(&folders, options);
    verify_folders_fini(&folders);
    return status;
}

static int run_help(const struct options *options, const char *const *args);

static const struct command commands[] = {
    {"", 0, 1, "[JOB.yaml]", "join the mesh; offer this job, or help with the mesh's job", run_join,
     NULL},
    {"local", 1, 1, "local [-n N] JOB.yaml", "run N nodes on this machine in one terminal", NULL,
     local_run},
    {"check", 1, VERIFY_DIRS_MAX, "check JOB.yaml", "check the job; print layers, memory and cost",
     run_check, eval_check},
    {"check", 1, VERIFY_DIRS_MAX, "check --timeline FILE.svg DIR...",
     "draw a step of a model in stages, as the nodes recorded it in DIR...", run_check, NULL},
    {"eval", 2, 2, "eval JOB.yaml MODEL", "print loss and accuracy of a saved model", NULL,
     eval_run},
    {"sample", 2, 2, "sample JOB.yaml MODEL", "let a model of bytes continue a text", NULL,
     sample_run},
    {"predict", 2, 3, "predict JOB.yaml MODEL [FILE]",
     "print outputs for the test samples, or the rows of FILE, as CSV", NULL, predict_run},
    {"convert", 2, 3, "convert JOB.yaml DIR", "write the job's data to DIR as NumPy arrays", NULL,
     convert_run},
    {"convert", 2, 3, "convert JOB.yaml CHECKPOINT MODEL",
     "write the weights of a checkpoint to MODEL, a model.safetensors", NULL, convert_run},
    {"verify", 1, VERIFY_DIRS_MAX, "verify [--replay] [--evaluate] DIR...",
     "prove from results that every sample was used once per epoch", run_verify, NULL},
    {"doctor", 0, 1, "doctor [--json] [JOB.yaml]",
     "say what keeps this machine from training with those around it: status 0 or 1", run_doctor,
     NULL},
    {"health", 0, 1, "health [DIR]", "say whether the run in DIR (runs) is alive: status 0 or 1",
     run_health, NULL},
    {"help", 0, 1, "help [COMMAND]", "print this text, or what COMMAND takes", run_help, NULL},
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void
print_usage(const struct command *command)
{
    printf("  meshnode %-35s %s\n", command->usage, command->help);
}

static int
print_help(void)
{
    puts("meshnode trains one neural network on all machines that run it.\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        print_usage(&commands[i]);
    puts("\nOptions, with their defaults:");
    options_print(stdout, NULL);
    puts("\nconfigs/reference.yaml explains every key of a job.");
    return 0;
}

/* meshnode verify --help, meshnode help verify */
static int
print_help_of(const struct command *command)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, command->name) == 0)
            print_usage(&commands[i]);
    options_print(stdout, command->name);
    puts("\nmeshnode --help lists the options that several commands have.");
    return 0;
}

/* "audit" was the name of verify. Scripts may still use it. */
static const struct command *
command_named(const char *name)
{
    if (strcmp(name, "audit") == 0)
        name = "verify";
    for (size_t i = 1; i < COMMAND_COUNT; i++)
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    return &commands[0];
}

static const struct command *
command_of(const struct options *options)
{
    return command_named(options->arg_count > 0 ? options->args[0] : "");
}

/* "unknown command locl, did you mean local?" */
static int
fail_unknown(const struct options *options, const char *word)
{
    char why[WHY_MAX], shown[64], list[128] = "";
    const char *near = NULL;
    unsigned least = 1 + (unsigned)strlen(word) / 4;
    for (size_t i = 1; i < COMMAND_COUNT; i++) {
        unsigned distance = parse_distance(commands[i].name, word);
        size_t used = strlen(list);
        if (distance <= least) {
            near = commands[i].name;
            least = distance - (distance > 0);
        }
        if (strcmp(commands[i].name, commands[i - 1].name) != 0)
            snprintf(list + used, sizeof list - used, "%s, ", commands[i].name);
    }
    const char *job = options->arg_count == 2 ? options->args[1] : "JOB.yaml";
    parse_escape(shown, sizeof shown, word);
    if (near)
        snprintf(why, sizeof why, "unknown command %s, did you mean %s?", shown, near);
    else
        snprintf(why, sizeof why,
                 "unknown command %s, expected %sor a job file: meshnode %s trains", shown, list,
                 job);
    return fail(EXIT_BAD, why);
}

/* No command, and no file that could be a job: a word without a dot or slash. */
static bool
is_unknown(const struct options *options)
{
    const char *word = options->arg_count > 0 ? options->args[0] : ".";
    return !*command_of(options)->name && !strpbrk(word, "./") && access(word, F_OK) != 0;
}

static int
run_help(const struct options *options, const char *const *args)
{
    const struct command *command = command_named(args[0] ? args[0] : "");
    if (args[0] && !*command->name)
        return fail_unknown(options, args[0]);
    return *command->name ? print_help_of(command) : print_help();
}

/* meshnode check --timeline DIR */
static int
fail_timeline(const struct options *options)
{
    char shown[SHOWN_MAX];
    parse_escape(shown, sizeof shown, options->timeline);
    term_fail("--timeline %s, expected a file to draw into, and then the job or the results: "
              "meshnode check --timeline "
              "FILE.svg DIR...",
              shown);
    return EXIT_BAD;
}

static int
run_command(const struct options *options)
{
    char why[WHY_MAX];
    const struct command *command = command_of(options);
    if (is_unknown(options))
        return fail_unknown(options, options->args[0]);
    const char *const *args = options->args + (*command->name != '\0');
    size_t count = options->arg_count - (*command->name != '\0');
    if (!*command->name && count > 1)
        return fail_jobs(args, count);
    if (options->timeline && count == 0)
        return fail_timeline(options);
    if (count < command->args_min || count > command->args_max) {
        snprintf(why, sizeof why, "usage: meshnode %s", command->usage);
        return fail(EXIT_BAD, why);
    }
    if (options->command && !options_has(options->command, command->name)) {
        snprintf(why, sizeof why, "%s is an option of meshnode %s", options->option,
                 options->command);
        return fail(EXIT_BAD, why);
    }
    if ((options->resume || options->fresh) && command->run != run_join &&
        command->with_job != local_run)
        return fail(EXIT_BAD, "--resume and --fresh are for training");
    for (size_t i = 0; i < options->set_count; i++)
        if (strcmp(options->set[i].option, "--out") == 0 &&
            options_has("eval, predict and sample", command->name)) {
            snprintf(why, sizeof why, "%s writes to standard output: use > FILE, not --out",
                     command->name);
            return fail(EXIT_BAD, why);
        }
    if (options->resume && options->fresh)
        return fail(EXIT_BAD, "--resume and --fresh exclude one another");
    const char *none[] = {NULL};
    if (!command->run)
        return run_with_job(command, options, args);
    return command->run(options, count ? args : none);
}

/* A descriptor 0..2 that is closed would be taken by the next file opened, and text written into it: occupy
 * it, opened the wrong way round so that its use is still an error. */
static void
occupy_standard_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            if (open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
                _exit(EXIT_BAD);
}

int
main(int argc, char *argv[])
{
    struct why why;
    struct options options;
    /* executed through /proc/self/exe it would be "exe" to ps and killall */
    prctl(PR_SET_NAME, "meshnode");
    occupy_standard_streams();
    if (fail_listed(argc, argv))
        return 0;
    if (fail_open(&why) || simd_choose(getenv("MESHNODE_SIMD"), &why))
        return fail(EXIT_BAD, why.line);
    int rc = options_parse(&options, argc, argv, &why), status;
    if (rc)
        status = fail(EXIT_BAD, why.line);
    else if (options.version)
        status = printf("meshnode %s\n", version) < 0;
    else
        status = !options.help                 ? run_command(&options)
                 : *command_of(&options)->name ? print_help_of(command_of(&options))
                                               : print_help();
    options_fini(&options);
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == 0)
        status = fail(1, "cannot write to standard output");
    return status;
}

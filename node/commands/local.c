/* local.c - several nodes on this machine, in one terminal.
 *
 * The exit status is 0 when at least one node finished, all that finished hold the same bits, and the others were
 * killed from outside.
 *
 * Each node is a real process of this program with a pipe for its lines. They are children in process
 * groups of their own, so that Ctrl-C reaches them once and through us: the first lets them say goodbye,
 * the second kills them. If we die ourselves, the kernel kills them. A node that dies does not
 * concern the others: that is what the program is for.
 *
 * The progress of the first node that lives is shown for all, as a live line or, in a pipe, as plain lines; with
 * "[K] " before them its messages, and the warnings and errors of all. That nodes meet is said once, when all have. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): ppoll, pipe2 */
#include "node/commands/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/base/host.h"
#include "node/base/stop.h"
#include "node/base/term.h"
#include "node/commands/compare.h"
#include "node/job/config_key.h"
#include "node/train/left.h"
#include "proto/clock.h"

enum {
    NODES_DEFAULT = 4,
    LINE_SIZE = 2048,
    ARGS_MAX = 2 * OPTIONS_SETS_MAX + 28,
    PATH_SIZE = 1200,
    SET_SIZE = 1400,
};

struct child {
    pid_t pid;
    int fd; /* its lines; -1: it has ended */
    int status;
    size_t used;
    char line[LINE_SIZE];
};

struct local {
    const struct config *config;
    unsigned count;
    struct child child[PROTO_PEERS_MAX];
    struct term term;
    unsigned forwarded;              /* stops passed on */
    bool met;                        /* it was said that all nodes have met */
    char past[CONFIG_PAST_MAX + 16]; /* train.past=..., the same for all; "" none */
};

static volatile sig_atomic_t stops;

static void
on_stop(int signal_number)
{
    (void)signal_number;
    stops++;
}

/* --- starting --- */

struct args {
    const char *arg[ARGS_MAX];
    size_t count;
    char group[SET_SIZE], peers[SET_SIZE], threads[SET_SIZE], name[SET_SIZE], out[SET_SIZE];
};

static void
pass_set(struct args *args, const char *assignment)
{
    args->arg[args->count++] = "--set";
    args->arg[args->count++] = assignment;
}

static bool
threads_given(const struct config *config, const struct options *options)
{
    static const char key[] = "node.threads=";
    for (size_t i = 0; i < options->set_count; i++)
        if (strncmp(options->set[i].assignment, key, sizeof key - 1) == 0)
            return true;
    return config->line[config_key_find("node", "threads") - config_keys] > 0;
}

/* Our own settings first, so that the user's win; the folder last, since each node has its own. */
static void
build_args(struct args *args, const struct local *local, const char *job,
           const struct options *options, uint64_t group)
{
    unsigned share = host_cpus() / local->count;
    args->arg[args->count++] = "meshnode";
    snprintf(args->group, sizeof args->group, "mesh.group=local-%016jx", group);
    pass_set(args, args->group);
    pass_set(args, "mesh.interface=lo");
    snprintf(args->peers, sizeof args->peers, "mesh.peers=%u", local->count);
    pass_set(args, args->peers);
    snprintf(args->threads, sizeof args->threads, "node.threads=%u", share ? share : 1);
    if (!threads_given(local->config, options))
        pass_set(args, args->threads);
    pass_set(args, args->name);
    for (size_t i = 0; i < options->set_count; i++)
        pass_set(args, options->set[i].assignment);
    if (local->past[0])
        pass_set(args, local->past);
    pass_set(args, args->out);
    if (options->resume)
        args->arg[args->count++] = "--resume";
    if (options->fresh)
        args->arg[args->count++] = "--fresh";
    if (options->pause_when) {
        args->arg[args->count++] = "--pause-when";
        args->arg[args->count++] = options->pause_when;
    }
    args->arg[args->count++] = "--";
    args->arg[args->count++] = job;
    args->arg[args->count] = NULL;
}

static void
node_dir(const struct local *local, unsigned index, char *out, size_t size)
{
    snprintf(out, size, "%s/node-%u", local->config->out, index + 1);
}

/* In the child: nothing but what may follow fork. */
static void
become_node(const struct args *args, int lines, pid_t parent, const sigset_t *signals)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    setpgid(0, 0);
    int null = open("/dev/null", O_RDONLY);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(lines, STDOUT_FILENO) < 0 ||
        dup2(lines, STDERR_FILENO) < 0)
        _exit(EXIT_FAILURE);
    if (null > 2)
        close(null);
    sigprocmask(SIG_SETMASK, signals, NULL);
    char *argv[ARGS_MAX];
    memcpy(argv, args->arg, sizeof argv);
    execv("/proc/self/exe", argv);
    _exit(EXIT_FAILURE);
}

static int
start_node(struct child *child, const struct args *args, const sigset_t *signals)
{
    int ends[2];
    pid_t parent = getpid();
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    child->pid = fork();
    if (child->pid == 0)
        become_node(args, ends[1], parent, signals);
    int error = child->pid < 0 ? errno : 0;
    close(ends[1]);
    if (error)
        close(ends[0]);
    child->fd = error ? -1 : ends[0];
    return -error;
}

/* A node that cannot be started ends the ones before it. */
static int
start_all(struct local *local, const char *job, const struct options *options,
          const sigset_t *signals)
{
    static struct args args;
    uint64_t group;
    if (getrandom(&group, sizeof group, 0) != sizeof group)
        return -EIO;
    build_args(&args, local, job, options, group);
    for (unsigned i = 0; i < local->count; i++) {
        char dir[PATH_SIZE];
        node_dir(local, i, dir, sizeof dir);
        snprintf(args.name, sizeof args.name, "node.name=node-%u", i + 1);
        snprintf(args.out, sizeof args.out, "node.out=%s", dir);
        int rc = start_node(&local->child[i], &args, signals);
        if (rc) {
            local->count = i;
            return rc;
        }
    }
    return 0;
}

/* --- running --- */

static void
send_all(const struct local *local, int signal_number)
{
    for (unsigned i = 0; i < local->count; i++)
        if (local->child[i].fd >= 0)
            kill(local->child[i].pid, signal_number);
}

static void
forward_stops(struct local *local)
{
    if (stops > 0 && local->forwarded == 0)
        send_all(local, SIGINT);
    if (stops > 1 && local->forwarded < 2)
        send_all(local, SIGKILL);
    local->forwarded = (unsigned)stops;
}

static bool
starts(const char *line, const char *with)
{
    return strncmp(line, with, strlen(with)) == 0;
}

static bool
is_first_alive(const struct local *local, unsigned index)
{
    unsigned first = 0;
    while (first < index && local->child[first].fd < 0)
        first++;
    return first == index;
}

/* "step 12/300 ..." is progress, "step 12: ..." an evaluation. */
static bool
is_progress(const char *line)
{
    size_t digits = starts(line, "step ") ? strspn(line + 5, "0123456789") : 0;
    return digits > 0 && line[5 + digits] == '/';
}

/* What the table at the end says for all. */
static bool
is_summary(const char *line)
{
    return starts(line, "done: ") || starts(line, "weights sha256 ") || starts(line, "results in ");
}

/* Who the nodes are is known here, and each tells it of each other. */
static bool
is_meeting(const char *line)
{
    return starts(line, "this node is ") || strstr(line, ") joined, ") ||
           strstr(line, ") has finished, ") || strstr(line, ") left, ");
}

static void
show_meeting(struct local *local, const char *line)
{
    char all[64];
    snprintf(all, sizeof all, ") joined, %u nodes", local->count);
    const char *at = strstr(line, all);
    if (local->met || !at || at[strlen(all)])
        return;
    local->met = true;
    snprintf(all, sizeof all, "all %u nodes have met", local->count);
    term_line(&local->term, all);
}

/* Steps and evaluations are those of all nodes: no number is before them. */
static void
show_line(struct local *local, unsigned index, const char *line)
{
    char text[LINE_SIZE + 16];
    bool alarm = starts(line, "warning: ") || starts(line, "error: ") || starts(line, "meshnode: ");
    bool first = is_first_alive(local, index);
    bool common = starts(line, "step ") || strstr(line, ": test loss ");
    snprintf(text, sizeof text, "[%u] %s", index + 1, line);
    if (is_meeting(line))
        show_meeting(local, line);
    else if (first && local->term.tty && is_progress(line))
        term_live(&local->term, clock_ms(), line);
    else if (alarm || (first && !is_summary(line)))
        term_line(&local->term, common ? line : text);
}

static void
show_rest(struct local *local, unsigned index)
{
    struct child *child = &local->child[index];
    child->line[child->used] = '\0';
    if (child->used > 0)
        show_line(local, index, child->line);
    child->used = 0;
}

/* Whole lines of what was read; a line longer than the buffer is shown in pieces. */
static void
split_lines(struct local *local, unsigned index, const char *text, size_t size)
{
    struct child *child = &local->child[index];
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\n' || child->used == LINE_SIZE - 1)
            show_rest(local, index);
        if (text[i] != '\n')
            child->line[child->used++] = text[i] ? text[i] : '?';
    }
}

static void
reap(struct local *local, unsigned index)
{
    struct child *child = &local->child[index];
    char line[128];
    show_rest(local, index);
    close(child->fd);
    child->fd = -1;
    while (waitpid(child->pid, &child->status, 0) < 0 && errno == EINTR)
        ;
    int status = child->status;
    if (WIFSIGNALED(status))
        snprintf(line, sizeof line, "[%u] killed by signal %d (%s)", index + 1, WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0 && !(stops && WEXITSTATUS(status) == 130))
        snprintf(line, sizeof line, "[%u] ended with status %d", index + 1, WEXITSTATUS(status));
    else
        return;
    term_line(&local->term, line);
}

static void
read_node(struct local *local, unsigned index)
{
    char text[4096];
    ssize_t got = read(local->child[index].fd, text, sizeof text);
    if (got > 0)
        split_lines(local, index, text, (size_t)got);
    else if (got == 0 || errno != EINTR)
        reap(local, index);
}

/* Until every node has ended. */
static void
run_nodes(struct local *local, const sigset_t *waiting)
{
    for (;;) {
        struct pollfd polls[PROTO_PEERS_MAX];
        unsigned running = 0;
        for (unsigned i = 0; i < local->count; i++) {
            polls[i] = (struct pollfd){.fd = local->child[i].fd, .events = POLLIN};
            running += local->child[i].fd >= 0;
        }
        if (running == 0)
            return;
        int ready = ppoll(polls, local->count, NULL, waiting);
        forward_stops(local);
        for (unsigned i = 0; ready > 0 && i < local->count; i++)
            if (polls[i].fd >= 0 && polls[i].revents)
                read_node(local, i);
    }
}

/* --- the end --- */

/* Killed by a person or a test rather than by a fault of ours. */
static bool
was_killed(int status)
{
    int by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return by == SIGKILL || by == SIGTERM || by == SIGINT || by == SIGHUP;
}

/* Exit status by those that did not finish: 0 when all of them were killed. */
static int
worst_status(const struct local *local)
{
    int worst = 0;
    for (unsigned i = 0; i < local->count; i++) {
        int status = local->child[i].status;
        int own = was_killed(status) ? 0 : WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        worst = own > worst ? own : worst;
    }
    return worst;
}

/* Results of the nodes that finished. */
static size_t
read_results(const struct local *local, struct compare_result *results)
{
    size_t count = 0;
    for (unsigned i = 0; i < local->count; i++) {
        char dir[PATH_SIZE];
        struct why why;
        if (local->child[i].status != 0)
            continue;
        node_dir(local, i, dir, sizeof dir);
        if (compare_read(&results[count], dir, &why))
            term_fail("%s", why.line);
        else
            results[count++].node = i + 1;
    }
    return count;
}

static int
conclude(const struct local *local)
{
    struct compare_result results[PROTO_PEERS_MAX];
    size_t count = read_results(local, results);
    int status = worst_status(local);
    unsigned lost = 0;
    for (unsigned i = 0; i < local->count; i++) {
        if (!was_killed(local->child[i].status))
            continue;
        printf("%s%u", lost ? ", " : "killed before the end: node ", i + 1);
        lost++;
    }
    if (lost)
        putchar('\n');
    if (count == 0)
        return stops ? 130 : status ? status : 1;
    bool agree = compare_print(stdout, results, count, local->count);
    bool all_there = count + lost == local->count;
    return stops ? 130 : !agree || !all_there ? 1 : status;
}

/* Nodes that were stopped at different steps go on from one: the newest that one of them has. */
static int
settle(struct local *local, struct config *config, struct job *job, enum train_start start,
       struct why *why)
{
    static char text[PROTO_PEERS_MAX][PATH_SIZE];
    const char *dir[PROTO_PEERS_MAX];
    for (unsigned i = 0; i < local->count; i++) {
        node_dir(local, i, text[i], sizeof text[i]);
        dir[i] = text[i];
    }
    int rc = left_settle(config, job, start, dir, local->count, why);
    if (!rc && config->train.past[0])
        snprintf(local->past, sizeof local->past, "train.past=%s", config->train.past);
    return rc;
}

static int
check_config(const struct config *config, unsigned count, struct why *why)
{
    if (config->mesh.port != 0 && count > 1)
        return why_error(why, -EINVAL, "mesh.port = %ju, expected 0 with -n %u: each needs its own",
                         config->mesh.port, count);
    if (config->mesh.servers <= PROTO_PEERS_MAX && config->mesh.servers > count)
        return why_error(why, -EINVAL,
                         "mesh.servers = %u cannot go with -n %u: each server is one of the nodes; "
                         "start as many, or elect fewer servers",
                         config->mesh.servers, count);
    if (strlen(config->out) + sizeof "/node-64" >= CONFIG_PATH_MAX)
        return why_error(why, -EINVAL, "node.out is too long");
    return 0;
}

/* What would fail in every node alike is said once, before any is started. */
static int
check_job(struct local *local, struct config *config, const struct options *options,
          struct why *why)
{
    struct job job = {0};
    int rc = check_config(config, local->count, why);
    rc = rc ? rc : job_open(&job, config, why);
    rc = rc ? rc : job_start(&job, config, why);
    rc = rc ? rc : settle(local, config, &job, options_start(options), why);
    job_close(&job);
    return rc;
}

int
local_run(struct config *config, const struct options *options, const char *const *args,
          struct why *why)
{
    static struct local local; /* large */
    sigset_t caught, waiting;
    local = (struct local){.config = config};
    local.count = options->nodes ? (unsigned)options->nodes : NODES_DEFAULT;
    int rc = check_job(&local, config, options, why);
    if (rc)
        return rc;
    stop_catch(on_stop, &caught);
    sigprocmask(SIG_BLOCK, &caught, &waiting); /* but while ppoll waits */
    term_init(&local.term, STDOUT_FILENO);
    rc = start_all(&local, args[0], options, &waiting);
    if (rc) {
        term_fail("cannot start node %u: %s", local.count + 1, strerror(-rc));
        send_all(&local, SIGKILL);
    }
    run_nodes(&local, &waiting);
    term_hide(&local.term);
    if (rc)
        return 1;
    return conclude(&local);
}

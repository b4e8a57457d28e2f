/* pause_when.c - see pause_when.h. */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): environ */
#include "node/train/pause_when.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/base/parse.h"

enum { SHOWN_MAX = 160, NOT_EXECUTABLE = 126, NOT_FOUND = 127 };

static void
say_once(struct pause_when *when, struct why *why, const char *what)
{
    char shown[SHOWN_MAX];
    if (when->said)
        return;
    when->said = true;
    parse_escape(shown, sizeof shown, when->command);
    why_set(why, "--pause-when %s: %s", shown, what);
}

/* A group of its own, so that all of it can be killed, and no Ctrl-C of ours reaches it. */
static int
spawn(pid_t *pid, const char *command)
{
    char *const argv[] = {"sh", "-c", (char *)(uintptr_t)command, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    int rc = posix_spawn(pid, "/bin/sh", &files, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

static void
ask_again(struct pause_when *when, uint64_t now_us, struct why *why)
{
    when->begun_us = now_us;
    int rc = spawn(&when->pid, when->command);
    if (rc == 0)
        return;
    when->pid = 0;
    say_once(when, why, strerror(rc));
}

static void
take_answer(struct pause_when *when, int status, struct why *why)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    when->pid = 0;
    when->in_use = code == 0;
    if (code == NOT_FOUND || code == NOT_EXECUTABLE)
        say_once(when, why, "sh cannot run it, so the machine never counts as in use");
}

static void
look_after(struct pause_when *when, uint64_t now_us, struct why *why)
{
    int status;
    pid_t pid = waitpid(when->pid, &status, WNOHANG);
    if (pid == when->pid) {
        take_answer(when, status, why);
    } else if (pid < 0) {
        when->pid = 0;
    } else if (now_us - when->begun_us > PAUSE_WHEN_MOST_US) {
        pause_when_fini(when);
        when->in_use = true;
        say_once(when, why, "it did not end within 10 s, so the machine counts as in use");
    }
}

bool
pause_when_ask(struct pause_when *when, uint64_t now_us, struct why *why)
{
    why_set(why, "%s", "");
    if (!when->command || !when->command[0])
        return false;
    if (when->pid)
        look_after(when, now_us, why);
    if (!when->pid && (when->begun_us == 0 || now_us - when->begun_us >= PAUSE_WHEN_US))
        ask_again(when, now_us, why);
    return when->in_use;
}

void
pause_when_fini(struct pause_when *when)
{
    if (!when->pid)
        return;
    kill(-when->pid, SIGKILL);
    while (waitpid(when->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    when->pid = 0;
}

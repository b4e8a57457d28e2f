/* actor_starve.c - reads what Linux says of each thread. See actor_starve.h. */
#include "mesh/net/actor_starve.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The second number of the file: nanoseconds. */
static bool
read_waited(int tid, uint64_t *waited_ns)
{
    char path[64], text[128];
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    text[size > 0 ? size : 0] = '\0';
    return sscanf(text, "%*u %" SCNu64, waited_ns) == 1;
}

static uint64_t
grown_ns(const struct starve *before, int tid, uint64_t waited_ns)
{
    for (size_t i = 0; i < before->count; i++)
        if (before->threads[i].tid == tid && before->threads[i].waited_ns < waited_ns)
            return waited_ns - before->threads[i].waited_ns;
    return 0;
}

uint64_t
starve_us(struct starve *starve)
{
    struct starve now = {.count = 0};
    uint64_t most_ns = 0;
    struct dirent *entry;
    DIR *tasks = opendir("/proc/self/task");
    while (tasks && now.count < STARVE_THREADS_MAX && (entry = readdir(tasks))) {
        int tid = atoi(entry->d_name);
        uint64_t waited_ns;
        if (tid <= 0 || !read_waited(tid, &waited_ns))
            continue;
        uint64_t ns = grown_ns(starve, tid, waited_ns);
        most_ns = ns > most_ns ? ns : most_ns;
        now.threads[now.count].tid = tid;
        now.threads[now.count++].waited_ns = waited_ns;
    }
    if (tasks)
        closedir(tasks);
    *starve = now;
    return most_ns / 1000;
}

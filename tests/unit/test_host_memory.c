/* test_host_memory.c - memory of a machine, and limits of control groups of both versions, from folders made for it. */
#include "node/base/host.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/folder.h"
#include "tests/support/test.h"

static struct folder root;

static void
put(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root.path, name);
    for (char *slash = path + strlen(root.path) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0777);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

TEST(the_smallest_limit_counts)
{
    assert_true(host_memory("/nonexistent") == UINT64_MAX);
    put("proc/meminfo", "Foo: 1 kB\nMemTotal:       2097152 kB\nMemFree: 3 kB\n");
    assert_true(host_memory(root.path) == UINT64_C(2) << 30);
    put("proc/self/cgroup", "0::/a/b\n");
    put("sys/fs/cgroup/a/b/memory.max", "max\n");
    assert_true(host_memory(root.path) == UINT64_C(2) << 30);
    put("sys/fs/cgroup/a/memory.max", "1073741824\n"); /* of the group above */
    assert_true(host_memory(root.path) == UINT64_C(1) << 30);
    put("sys/fs/cgroup/a/b/memory.max", "41943040\n");
    assert_true(host_memory(root.path) == 40 << 20);
    put("sys/fs/cgroup/memory.max", "1048576\n"); /* a container sees its own as the root */
    assert_true(host_memory(root.path) == 1 << 20);
    put("proc/self/cgroup", "12:cpu,cpuacct:/x\n5:memory:/y\nnonsense\n");
    assert_true(host_memory(root.path) == UINT64_C(2) << 30);
    put("sys/fs/cgroup/memory/y/memory.limit_in_bytes", "9223372036854771712\n");
    assert_true(host_memory(root.path) == UINT64_C(2) << 30);
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n");
    assert_true(host_memory(root.path) == 4096);
}

TEST(this_machine_has_some)
{
    assert_true(host_memory("") > 1 << 20);
    assert_true(host_memory("") < UINT64_MAX);
}

int
main(void)
{
    root = folder_new();
    int failed = test_run();
    folder_fini(&root);
    return failed;
}

/* test_host_memory.c - memory of a machine, and limits of control groups of both versions, from folders made for it. */
#include "node/base/host.h"

#include "tests/support/folder.h"
#include "tests/support/test.h"

FOLDER_EACH

TEST(the_smallest_limit_counts)
{
    assert_true(host_memory("/nonexistent") == UINT64_MAX);
    folder_text(&folder, "proc/meminfo", "Foo: 1 kB\nMemTotal:       2097152 kB\nMemFree: 3 kB\n");
    assert_true(host_memory(folder.path) == UINT64_C(2) << 30);
    folder_text(&folder, "proc/self/cgroup", "0::/a/b\n");
    folder_text(&folder, "sys/fs/cgroup/a/b/memory.max", "max\n");
    assert_true(host_memory(folder.path) == UINT64_C(2) << 30);
    folder_text(&folder, "sys/fs/cgroup/a/memory.max", "1073741824\n"); /* of the group above */
    assert_true(host_memory(folder.path) == UINT64_C(1) << 30);
    folder_text(&folder, "sys/fs/cgroup/a/b/memory.max", "41943040\n");
    assert_true(host_memory(folder.path) == 40 << 20);
    folder_text(&folder, "sys/fs/cgroup/memory.max",
                "1048576\n"); /* a container sees its own as the root */
    assert_true(host_memory(folder.path) == 1 << 20);
    folder_text(&folder, "proc/self/cgroup", "12:cpu,cpuacct:/x\n5:memory:/y\nnonsense\n");
    assert_true(host_memory(folder.path) == UINT64_C(2) << 30);
    folder_text(&folder, "sys/fs/cgroup/memory/y/memory.limit_in_bytes", "9223372036854771712\n");
    assert_true(host_memory(folder.path) == UINT64_C(2) << 30);
    folder_text(&folder, "sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n");
    assert_true(host_memory(folder.path) == 4096);
}

TEST(this_machine_has_some)
{
    assert_true(host_memory("") > 1 << 20);
    assert_true(host_memory("") < UINT64_MAX);
}

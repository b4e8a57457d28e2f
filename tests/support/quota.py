"""quota.py - shares of one CPU for processes, by cgroups of version 1 or 2 (root). The period is 10 ms, so that who has
little waits often and shortly, like a slow machine."""
import os
import sys

PERIOD_US = 10000
QUOTA_MIN_US = 1000  # of Linux
WEIGHTS = {"v1": ("cpu.shares", 20000), "v2": ("cpu.weight", 2000)}  # so that others do not take what is promised


class Quota:
    """A share of one CPU for a process and what it starts; where that cannot be had, nothing."""
    base = None
    kind = None

    @classmethod
    def usable(cls):
        if cls.kind is None:
            cls.kind = "none"
            for kind, base, file in (("v1", "/sys/fs/cgroup/cpu", "cpu.cfs_quota_us"),
                                     ("v2", "/sys/fs/cgroup", "cpu.max")):
                path = os.path.join(base, "net-try%d" % os.getpid())
                try:
                    os.mkdir(path)
                except OSError:
                    continue
                if os.access(os.path.join(path, file), os.W_OK):
                    cls.kind, cls.base = kind, base
                os.rmdir(path)
                if cls.kind == kind:
                    break
        return cls.kind != "none"

    def __init__(self, name, share):
        self.path = os.path.join(self.base, name)
        os.makedirs(self.path, exist_ok=True)
        self.write(*WEIGHTS[self.kind])
        self.set(share)

    def write(self, file, text):
        with open(os.path.join(self.path, file), "w", encoding="ascii") as out:
            out.write(str(text))

    def set(self, share):
        self.share = share
        quota = max(QUOTA_MIN_US, int(share * PERIOD_US))
        period = int(quota / share)
        if self.kind == "v1":
            self.write("cpu.cfs_quota_us", "-1")
            self.write("cpu.cfs_period_us", str(period))
            self.write("cpu.cfs_quota_us", str(quota))
        else:
            self.write("cpu.max", "%d %d" % (quota, period))

    def signal(self, number):
        """Sends a signal to all that runs under it."""
        with open(os.path.join(self.path, "cgroup.procs"), encoding="ascii") as pids:
            for pid in map(int, pids):
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass  # it has just ended

    def remove(self):
        try:
            os.rmdir(self.path)
        except OSError as error:
            print("*** %s: %s" % (self.path, error.strerror), file=sys.stderr, flush=True)

    def inside(self, command):
        """The command, run under the quota from its first instruction on."""
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', os.path.join(self.path, "cgroup.procs"), *command]

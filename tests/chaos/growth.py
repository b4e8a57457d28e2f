"""growth.py - does a process grow? Its memory and descriptors, taken whenever things stand the same.

    touch_all()                   # before the nodes are started
    growth = Growth(name, pid)
    mesh.wait(growth.what, lambda: growth.sample(time.monotonic()))    # all peers are up
    growth.why()                  # None, or what has grown

What may differ between two such instants is passing (a checkpoint being written, a connection whose end is on its
way): `sample` refuses until the number of descriptors is that of the first one. Memory: a line is fitted to the samples
behind the first third, in which buffers reach their sizes. It may rise by 1 MB/h. In less than LONG_S, where buffers still
reach their sizes and a few pages more are a steep line, it may rise by `short_kb` in all. The line's slope is the median of
the slopes of all pairs (Sen, JASA 63, 1968): a state that is just being sent is in one sample and no growth, and moves a
line of least squares by more than a leak does.

Resident memory alone does not tell a leak from a buffer that was planned at the start and is used for the first time an
hour later. So malloc fills whatever it gives (MALLOC_PERTURB_ of glibc): then planned buffers are resident at once."""
import os
import statistics

import mesh

LONG_S = 1800
RISE_KB_H = 1000.0


def touch_all():
    """Of the nodes that are started from now on."""
    os.environ["MALLOC_PERTURB_"] = "165"


def resident_kb(pid):
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def descriptors(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


def cpu_s(pid):
    """Used by all threads that are there."""
    total = 0
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/schedstat" % (pid, task), encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total / 1e9


def slope(points):
    """Median of the slopes of all pairs: units per second."""
    slopes = [(y2 - y1) / (t2 - t1) for i, (t1, y1) in enumerate(points) for t2, y2 in points[i + 1:] if t2 > t1]
    return statistics.median(slopes) if slopes else 0.0


class Growth:
    def __init__(self, name, pid, short_kb=2048):
        self.name, self.pid, self.short_kb = name, pid, short_kb
        self.points = []  # (seconds, resident kB, descriptors)

    def sample(self, at):
        """Takes one and returns True when it has as many descriptors as at the first."""
        count = descriptors(self.pid)
        if self.points and count != self.points[0][2]:
            return False
        self.points.append((at, resident_kb(self.pid), count))
        return True

    def what(self):
        return "%s to have its %d descriptors again, it has %d" % (
            self.name, self.points[0][2] if self.points else 0, descriptors(self.pid))

    def settled(self):
        end = self.points[-1][0]
        return [(t, rss) for t, rss, _ in self.points if 3 * t >= end]

    def rise_kb_h(self):
        return slope(self.settled()) * 3600

    def why(self):
        if len(self.points) < 6:
            return "%s: %d samples, expected 6 and more" % (self.name, len(self.points))
        points = self.settled()
        seconds = points[-1][0] - points[0][0]
        rise = self.rise_kb_h()
        most = RISE_KB_H if seconds >= LONG_S else self.short_kb * 3600 / max(seconds, 1)
        if rise > most:
            return "%s: memory rises by %.0f kB in %.0f s, expected at most %.0f" % (
                self.name, rise * seconds / 3600, seconds, most * seconds / 3600)
        return None

    def row(self):
        points = self.settled()
        return [self.name, len(self.points), "%.1f" % (points[0][1] / 1000), "%.1f" % (points[-1][1] / 1000),
                "%+.2f" % (self.rise_kb_h() / 1000), self.points[0][2]]


HEADER = ["node", "samples", "RSS, MB: settled", "end", "growth, MB/h", "descriptors, all together"]


def report(watched):
    """Prints the table; the first reason why one of them has grown, or None."""
    mesh.table(HEADER, [growth.row() for growth in watched])
    return next((why for why in (growth.why() for growth in watched) if why), None)

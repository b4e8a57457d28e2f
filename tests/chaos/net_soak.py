#!/usr/bin/env python3
"""net_soak.py - an hour of accidents (P10): does a node grow?

    net_soak.py [--seconds 3600] [--every 10] [--cpu 0.06]

Four nodes train an endless job while something happens to one of them every 10 s. Two are never killed: of
these, resident memory and open descriptors are sampled from /proc every 5 s. After a warm-up of a sixth of
the time a line is fitted to each. Every state is compared with a run that nothing happened to.

Pass line: less than 1 MB/h; descriptors not more in the last third than in the second. Quotas keep it from
using much of the machine; --log FILE gets the samples."""
import os
import random
import sys
import threading
import time

import net
import net_faults

KEPT = [0, 1]
SAMPLE_S = 5


def slope(points):
    """Least squares: units per second."""
    n = len(points)
    mean_t = sum(t for t, _ in points) / n
    mean_y = sum(y for _, y in points) / n
    spread = sum((t - mean_t) ** 2 for t, _ in points)
    return sum((t - mean_t) * (y - mean_y) for t, y in points) / spread if spread else 0.0


def sample(pid):
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        rss = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
    return rss, len(os.listdir("/proc/%d/fd" % pid))


class Sampler(threading.Thread):
    def __init__(self, here, log):
        super().__init__(daemon=True)
        self.here, self.log = here, log
        self.began = time.monotonic()
        self.points = {i: [] for i in KEPT}
        self.over = threading.Event()

    def run(self):
        while not self.over.wait(SAMPLE_S):
            at = time.monotonic() - self.began
            for i in KEPT:
                rss, files = sample(self.here.now[i].pid)
                self.points[i].append((at, rss, files))
                if self.log:
                    self.log.write("%.0f %d %d %d %d\n" % (at, i, rss, files, self.here.now[i].step()))
                    self.log.flush()


def judge(points, seconds):
    """Growth of one node in MB/h, and most descriptors in the middle and at the end."""
    late = [(t, rss) for t, rss, _ in points if t > seconds / 6]
    middle = max(files for t, _, files in points if seconds / 3 < t <= 2 * seconds / 3)
    end = max(files for t, _, files in points if t > 2 * seconds / 3)
    return slope(late) * 3600 / 1000, middle, end


def main():
    chosen = net.options(__doc__, seconds=(3600.0, "of accidents"), every=(10.0, "seconds between accidents"),
                         cpu=(0.06, "of one CPU, for each node"), log=("", "file for the samples"))
    log = open(chosen.log, "w", encoding="ascii") if chosen.log else None
    good = True
    with net.Net(4, batch=960, cpu=chosen.cpu, seed=chosen.seed, keep=chosen.keep) as here:
        here.poll_s = 0.1
        here.begin()
        faults = net_faults.Faults(here, random.Random(chosen.seed), kill=[2, 3])
        sampler = Sampler(here, log)
        sampler.start()
        while time.monotonic() - sampler.began < chosen.seconds:
            begin = time.monotonic()
            faults.next()
            here.let(max(0.5, chosen.every - (time.monotonic() - begin)))
        sampler.over.set()
        sampler.join()
        here.until(60, "all to be together at the end", lambda: here.together(range(4), time.monotonic() - 1))
        net.say("| node | RSS, MB: after warm-up, end | growth, MB/h | descriptors: middle, end |")
        net.say("|---|---|---|---|")
        for i in KEPT:
            points = sampler.points[i]
            growth, middle, end = judge(points, chosen.seconds)
            warm = next(rss for t, rss, _ in points if t > chosen.seconds / 6)
            good = good and growth < 1 and end <= middle
            net.say("| %d | %.1f, %.1f | %+.2f | %d, %d |" % (i, warm / 1000, points[-1][1] / 1000, growth, middle, end))
        verdict = here.verdict()
    net.say("%.0f s; %s; %s" % (chosen.seconds, faults.text(), verdict))
    return 0 if good and verdict.good() else 1


if __name__ == "__main__":
    sys.exit(main())

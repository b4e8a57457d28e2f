#!/usr/bin/env python3
"""What a program on a PC loses to a node with --idle, and what the node's coming and going costs the others.

    polite.py [--switches 30] [--on 4] [--calm 8] [--program build/gcc/meshnode] [--job configs/digits.yaml] [--option ...]

Each CPU of this machine is a PC with a node: the last one with --idle. A program that computes takes that CPU for `--on`
seconds, again and again, each time when the node has been back for `--calm` seconds. Loss: how much less it computes than
where there is no node. Pauses: the longest step of the first node around a switch, beside its usual one. At least two CPUs;
root."""
import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from common import FAILED, ROOT, busy_by_others, failed, load, place, steps_made, stop, table, wait

SPIN = """
import sys, time
end, count = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < end:
    for k in range(2000):
        count += k & 1
print(count)
"""
AWAY = "idle: 0 of 1 threads, the machine is in use"


def pinned(cpu, command):
    return ["taskset", "-c", str(cpu)] + command


def spin(cpu, seconds):
    """What a program computes there."""
    done = subprocess.run(pinned(cpu, [sys.executable, "-c", SPIN, str(seconds)]), stdout=subprocess.PIPE, text=True, check=True)
    return int(done.stdout) / seconds


def start(options, where, work, cpus):
    processes = []
    for cpu in cpus:
        own = [options.program, options.job, "--interface", "lo", "--threads", "1", "--peers", str(len(cpus)), "--set", "train.epochs=100000",
               "--set", "train.eval_every=0", "--out", "%s/%d" % (work, cpu)] + options.option
        with open("%s/%d.log" % (work, cpu), "w") as log:
            processes.append(subprocess.Popen(where.inside(0, pinned(cpu, own + (["--idle"] if cpu == cpus[-1] else []))),
                                              stdout=log, stderr=subprocess.STDOUT))
    return processes


def lines(work, cpu, what):
    with open("%s/%d.log" % (work, cpu)) as log:
        return [line for line in log if what in line]


def steps(work, cpu):
    """When steps ended, seconds since the run began, and how long each took."""
    times = [line["time_s"] for line in steps_made("%s/%d" % (work, cpu))]
    return [(at, at - before) for before, at in zip(times, times[1:])]


def switch(options, work, cpus):
    """One switch on and off: what was computed, the longest step of the first node, and its usual one, in ms."""
    last, first = cpus[-1], cpus[0]
    time.sleep(options.calm)
    usual = statistics.median(took for _, took in steps(work, first)[-50:])
    seen, away, back = len(steps(work, first)), len(lines(work, last, AWAY)), len(lines(work, last, "of 1 threads\n"))
    got = spin(last, options.on)
    left = len(lines(work, last, AWAY)) > away
    if not wait("the node to come back", lambda: len(lines(work, last, "of 1 threads\n")) > back or not left):
        return None
    wait("steps with it", lambda: len(steps(work, first)) > seen + 20)
    took = [step for _, step in steps(work, first)[seen:]]
    return got, 1e3 * max(took), 1e3 * usual, left


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--switches", type=int, default=30)
    parser.add_argument("--on", type=float, default=4)
    parser.add_argument("--calm", type=float, default=8)
    parser.add_argument("--job", default=os.path.join(ROOT, "configs", "digits.yaml"))
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("--program", default=os.environ.get("MESHNODE", os.path.join(ROOT, "build", "gcc", "meshnode")))
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that namespaces are removed
    others, cpus, work = busy_by_others(), list(range(os.cpu_count())), tempfile.mkdtemp(prefix="meshnode-polite-")
    without, found = [spin(cpus[-1], options.on) for _ in range(max(options.switches // 4, 3))], []
    with place(0) as where:
        processes = start(options, where, work, cpus)
        try:
            wait("steps", lambda: len(steps(work, 0)) > 50)
            found = [one for one in (switch(options, work, cpus) for _ in range(options.switches)) if one]
        finally:
            stop(processes)
    without += [spin(cpus[-1], options.on) for _ in range(max(options.switches // 4, 3))]
    shutil.rmtree(work)
    if found:
        got, longest, usual, left = zip(*found)
        loss = 1 - statistics.mean(got) / statistics.mean(without)
        table(["switches", "it left", "loss", "alone, spread", "longest step, median", "worst", "usual step"],
              [[str(len(found)), str(sum(left)), "%.1f %%" % (100 * loss), "%.1f %%" % (100 * statistics.pstdev(without) / statistics.mean(without)),
                "%.0f ms" % statistics.median(longest), "%.0f ms" % max(longest), "%.0f ms" % statistics.median(usual)]])
    print(load(others))
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What a program on a PC loses to a node with --idle, and what the node's coming and going costs the others.

    polite.py [--pairs 12] [--switches 30] [--on 4] [--calm 7] [--program build/gcc/meshnode] [--job configs/digits.yaml] [--option ...]

Loss: a node with --idle trains on all CPUs. `stress-ng --cpu` takes them for `--on` seconds, and again while the node is
stopped by a signal; each time it has been back for `--calm` seconds. How much less does stress-ng do, of each pair.
Pauses: each CPU is a PC with a node, the last one with --idle. stress-ng takes that CPU, again and again: the longest step of
the first node around a switch, beside its usual one; in all steps that both took the state must be the same. Two CPUs; root."""
import argparse
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from common import FAILED, ROOT, busy_by_others, failed, load, place, steps_made, stop, table, wait


def stress(cpus, seconds):
    """What stress-ng does there, per second."""
    command = ["taskset", "-c", ",".join(map(str, cpus)), "stress-ng", "--cpu", str(len(cpus)), "--cpu-method", "matrixprod",
               "--timeout", "%gs" % seconds, "--metrics-brief"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    return float(re.search(r"\] cpu +\d+ +\S+ +\S+ +\S+ +(\S+)", done.stdout)[1])


class Node:
    def __init__(self, options, where, work, cpus, peers, idle):
        self.work, self.threads = "%s/%s" % (work, cpus[0]), len(cpus)
        command = ["taskset", "-c", ",".join(map(str, cpus)), options.program, options.job, "--interface", "lo", "--threads", str(len(cpus)),
                   "--peers", str(peers), "--set", "train.epochs=100000", "--set", "train.eval_every=0", "--out", self.work]
        with open(self.work + ".log", "w") as log:
            self.process = subprocess.Popen(where.inside(0, command + options.option + (["--idle"] if idle else [])),
                                            stdout=log, stderr=subprocess.STDOUT)

    def says(self, what):
        with open(self.work + ".log") as log:
            return sum(what in line for line in log)

    def back(self):
        """How often it has had all threads again."""
        return self.says("idle: %d of %d threads\n" % (self.threads, self.threads))

    def away(self):
        return self.says("idle: 0 of %d threads" % self.threads)

    def cpu_s(self):
        with open("/proc/%d/stat" % self.process.pid) as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def steps(self):
        """Of each: when it ended, its state."""
        return [(line["time_s"], line["step"], line["state_hash"]) for line in steps_made(self.work)]


def settled(options, node, back):
    """It has all its threads, and has had them for a while."""
    if not wait("the node to come back", lambda: node.back() > back):
        return False
    time.sleep(options.calm)
    return True


def pair(options, node, cpus, alone_first):
    """What a program does beside the node, and while that is stopped; which share of the CPUs the node had; did it leave?"""
    def alone():
        node.process.send_signal(signal.SIGSTOP)
        done = stress(cpus, options.on)
        node.process.send_signal(signal.SIGCONT)
        return done

    if alone_first:
        without = alone()
        time.sleep(options.calm)
    back, away, had_s = node.back(), node.away(), node.cpu_s()
    beside = stress(cpus, options.on)
    had, left = (node.cpu_s() - had_s) / (options.on * len(cpus)), node.away() > away
    if not alone_first:
        without = alone()
    return (beside, without, had, left) if settled(options, node, back if left else -1) else None


def measure_loss(options, work, cpus):
    with place(0) as where:
        node = Node(options, where, work, cpus, 1, True)
        try:
            if not wait("steps: is the machine in use?", lambda: len(node.steps()) > 20):
                return
            time.sleep(options.calm)
            pairs = [one for one in (pair(options, node, cpus, k % 2 == 1) for k in range(options.pairs)) if one]
        finally:
            stop([node.process])
    if not pairs:
        return
    loss = [1 - beside / without for beside, without, _, _ in pairs]
    without = [one[1] for one in pairs]
    table(["pairs", "it left", "loss, median", "mean", "least", "most", "without it, spread", "CPU that it had", "most"],
          [[str(len(pairs)), str(sum(left for _, _, _, left in pairs))] + ["%.1f %%" % (100 * one) for one in (
              statistics.median(loss), statistics.mean(loss), min(loss), max(loss),
              statistics.pstdev(without) / statistics.mean(without), statistics.median(had for _, _, had, _ in pairs),
              max(had for _, _, had, _ in pairs))]])


def switch(options, first, last, cpu):
    """One switch on and off: the longest step of the first node, and its usual one, in ms; did the node leave?"""
    ends = [at for at, _, _ in first.steps()]
    usual = statistics.median(b - a for a, b in zip(ends[-51:], ends[-50:]))
    back, away = last.back(), last.away()
    stress([cpu], options.on)
    left = last.away() > away
    if not settled(options, last, back if left else -1):
        return None
    took = [at for at, _, _ in first.steps()][len(ends) - 1:]
    return 1e3 * max(b - a for a, b in zip(took, took[1:])), 1e3 * usual, left


def measure_pauses(options, work, cpus):
    with place(0) as where:
        nodes = [Node(options, where, work, [cpu], len(cpus), cpu == cpus[-1]) for cpu in cpus]
        first, last = nodes[0], nodes[-1]
        try:
            if not wait("steps: is the machine in use?", lambda: len(first.steps()) > 50 and last.steps()):
                return
            time.sleep(options.calm)
            found = [one for one in (switch(options, first, last, cpus[-1]) for _ in range(options.switches)) if one]
        finally:
            stop([node.process for node in nodes])
        states = [{step: state for _, step, state in node.steps()} for node in (first, last)]
    both = states[0].keys() & states[1].keys()
    if any(states[0][step] != states[1][step] for step in both):
        failed("the nodes had other states")
    if found:
        longest, usual, left = zip(*found)
        table(["switches", "it left", "longest step, median", "worst", "usual step", "same state"],
              [[str(len(found)), str(sum(left)), "%.0f ms" % statistics.median(longest), "%.0f ms" % max(longest),
                "%.0f ms" % statistics.median(usual), "%d steps" % len(both)]])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--switches", type=int, default=30)
    parser.add_argument("--on", type=float, default=4)
    parser.add_argument("--calm", type=float, default=7)
    parser.add_argument("--job", default=os.path.join(ROOT, "configs", "digits.yaml"))
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("--program", default=os.environ.get("MESHNODE", os.path.join(ROOT, "build", "gcc", "meshnode")))
    options = parser.parse_args()
    if not shutil.which("stress-ng"):
        sys.exit("no stress-ng: install it")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that namespaces are removed
    others, cpus, work = busy_by_others(), list(range(os.cpu_count())), tempfile.mkdtemp(prefix="meshnode-polite-")
    if options.pairs:
        measure_loss(options, work, cpus)
        shutil.rmtree(work)
        os.mkdir(work)
    if options.switches:
        measure_pauses(options, work, cpus)
    shutil.rmtree(work)
    print(load(others))
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())

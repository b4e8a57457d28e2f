#!/usr/bin/env python3
"""net_healthy.py - many short runs of healthy nodes on a busy machine: is one of them ever cut off?

    net_healthy.py [--runs 1000] [--congestion cubic,bbr] [--beside 8] [--ranks 2] [--sizes 64k,1m] [--seed N]

Each run is bench_allreduce: RANKS processes meet on a loopback of their own and sum vectors, and every round must be one
of all. --beside runs go on at a time, which keeps the machine busy. It fails when a node closes a connection because a
message on it has no end (mesh/net/actor_guard.h). Other failures, for which a starved machine may be the reason, are printed
and counted. --runs is for each congestion control. Needs root."""
import argparse
import collections
import concurrent.futures
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NETNS = os.path.join(ROOT, "tests", "support", "netns.sh")
BUILD = os.environ.get("BUILD", "build/gcc")
PROGRAM = os.path.join(ROOT, BUILD, "tests/bench/bench_allreduce")
KEY = "net.ipv4.tcp_congestion_control"
DEADLINE_S = 120


class Place:
    """A loopback of its own."""

    def __init__(self, number, congestion):
        self.tag = "healthy%d-%d" % (os.getpid(), number)
        subprocess.run([NETNS, "up", self.tag, "0"], check=True, stderr=subprocess.DEVNULL)
        self.inside = ["ip", "netns", "exec", self.tag + "-0"]
        if congestion != "cubic":
            subprocess.run([*self.inside, "sysctl", "-qw", "%s=%s" % (KEY, congestion)], check=False)
        self.congestion = subprocess.run([*self.inside, "sysctl", "-n", KEY], check=True, stdout=subprocess.PIPE,
                                         text=True).stdout.strip()

    def close(self):
        subprocess.run([NETNS, "down", self.tag], check=False)


def run_once(place, options, number):
    """Returns (kind, text): "whole", "cut off", "too late" or "broken"."""
    group = "healthy%d-%d-%d" % (options.seed, os.getpid(), number)
    env = {"BENCH_BUDGET": "0.05", "BENCH_MAX": "100", **os.environ, "BENCH_SIZES": options.sizes}
    ranks = [subprocess.Popen([*place.inside, PROGRAM, str(rank), str(options.ranks), group], env=env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for rank in range(options.ranks)]
    end, text, late = time.monotonic() + DEADLINE_S, "", False
    for process in ranks:
        try:
            text += process.communicate(timeout=max(0.1, end - time.monotonic()))[0]
        except subprocess.TimeoutExpired:
            process.kill()
            text += process.communicate()[0]
            late = True
    if "without an end" in text:
        return "cut off", text
    return "too late" if late else "broken" if any(p.returncode for p in ranks) else "whole", text


def work(place, options, numbers, counts):
    for number in numbers:
        kind, text = run_once(place, options, number)
        counts[kind] += 1
        if kind != "whole":
            print("run %d: %s\n%s" % (number, kind, "".join("    %s\n" % l for l in text.splitlines()[-12:])), flush=True)


def all_runs(options, congestion):
    """True if nobody was cut off."""
    places, counts, began = [], collections.Counter(), time.monotonic()
    try:
        places = [Place(number, congestion) for number in range(options.beside)]
        if places[0].congestion != congestion:
            print("SKIPPED: congestion control is %s, %s is not to be had" % (places[0].congestion, congestion))
            return True
        with concurrent.futures.ThreadPoolExecutor(options.beside) as pool:
            jobs = [pool.submit(work, place, options, range(first, options.runs, options.beside), counts)
                    for first, place in enumerate(places)]
            for job in jobs:
                job.result()
    finally:
        for place in places:
            place.close()
    print("%s, %d ranks, %s: %d runs in %.0f s at load %.0f, %d whole, %d cut off, %d too late, %d broken"
          % (congestion, options.ranks, options.sizes, sum(counts.values()), time.monotonic() - began, os.getloadavg()[0],
             counts["whole"], counts["cut off"], counts["too late"], counts["broken"]), flush=True)
    if counts["cut off"]:
        print("FAILED: %d of %d runs with %s had a healthy node cut off" % (counts["cut off"], options.runs, congestion))
    return not counts["cut off"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--congestion", default="cubic,bbr")
    parser.add_argument("--beside", type=int, default=8)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", default="64k,1m")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("SKIPPED: no network namespaces: not root")
        return 77
    if not os.path.isabs(BUILD):
        subprocess.run(["make", "-s", "B=" + BUILD, os.path.join(BUILD, "tests/bench/bench_allreduce")], cwd=ROOT, check=True)
    results = [all_runs(options, congestion) for congestion in options.congestion.split(",")]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

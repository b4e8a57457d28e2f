#!/usr/bin/env python3
"""Trains one job in every way, with nodes alike and with one that is slowed down, and prints a Markdown table.

    ways.py JOB.yaml --data FOLDER [--set KEY=VALUE]... [--only REGEX] [--rounds 1] [--cases alike,slowed,pausing,busy]
            [--target 97] [--share 0.4] [--slow 5] [--nodes 4] [--timeout 3600] [--check] [--csv FILE]

Each node may use --share of one CPU (cgroups: root), the slowed one a --slow th of that; or each is stopped for 0.1 to 1 s,
again and again after 1 to 3 s (pausing), or has a --slow th for as long (busy), as if others used its machine. All are processes
of one thread on a loopback of their own. For each way, the medians over the rounds of

    time to 97 %   from the first step to the first evaluation on the test samples at which some node had --target
                   percent; "≤": the way evaluates only at the end, and had it there; –: never
    to the end     from the first step to the last one of any node
    at the end     accuracy of the model that all nodes hold in the end

`sooner` is the time to the target of the default, a bsp ring with shares by speed, divided by that of the way: the goal is 1
for the ways in which nobody waits. Accuracies are to be within half a point of the default's. --check: status 1 when a goal
is missed."""
import argparse
import json
import os
import random
import re
import shutil
import signal
import statistics
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from common import CALM, FAILED, MISSED, ROOT, busy_by_others, failed, load, loud, place, run_together, table  # noqa: E402
from quota import Quota  # noqa: E402

DEFAULT = "bsp ring, shares by speed"
WAYS = {  # name: (keys of mesh, keys of gossip, goal of `sooner` when one node is slow)
    DEFAULT: ({}, {}, None),
    "bsp ring, even shares": ({"division": "even"}, {}, None),
    "bsp servers, even shares": ({"topology": "server", "servers": 2, "division": "even"}, {}, None),
    "bsp servers, shares by speed": ({"topology": "server", "servers": 2}, {}, None),
    "gossip ring (D-PSGD)": ({"topology": "gossip"}, {"graph": "ring"}, None),
    "gossip exponential": ({"topology": "gossip"}, {"graph": "exponential"}, None),
    "gossip async (AD-PSGD)": ({"topology": "gossip", "sync": "async"}, {"graph": "random"}, 1),
    "push-sum (SGP)": ({"topology": "gossip"}, {"graph": "one-peer", "method": "push_sum"}, None),
}
CASES = ("alike", "slowed", "pausing", "busy")
PAUSE_S, RUN_S = (0.1, 1.0), (1.0, 3.0)


def settings(mesh, gossip):
    pairs = ["mesh.%s=%s" % pair for pair in mesh.items()] + ["gossip.%s=%s" % pair for pair in gossip.items()]
    return [word for pair in pairs for word in ("--set", pair)]


def commands(where, quotas, options, way, work):
    mesh, gossip, _ = WAYS[way]
    group = "ways%d" % random.randrange(1 << 30)
    out = []
    for rank, quota in enumerate(quotas):
        own = [options.program, options.job, "--out", os.path.join(work, "node-%d" % rank), "--threads", "1", "--quiet",
               "--peers", str(options.nodes), "--interface", where.interface(),
               "--set", "mesh.group=" + group, *settings(mesh, gossip)]
        own += ["--data", options.data] if options.data else []
        own += [word for pair in options.set for word in ("--set", pair)]
        out.append(quota.inside(where.inside(rank, own)))  # ip netns mounts another /sys
    return out


def lines_of(folder):
    with open(os.path.join(folder, "metrics.jsonl")) as lines:
        return [json.loads(line) for line in lines]


def judge(nodes, results, target):
    """{"target": seconds or None, "late": only seen at the end, "end": seconds, "accuracy": percent}; None if the nodes do
    not hold one model. `nodes`: the lines of each one's metrics."""
    if len({r["params_sha256"] for r in results}) != 1:
        return None
    begin = min(lines[0]["time_s"] for lines in nodes)
    end = max(lines[-1]["time_s"] for lines in nodes) - begin
    seen = [line for lines in nodes for line in lines if line.get("test_accuracy") is not None]
    there = [line["time_s"] - begin for line in seen if 100 * line["test_accuracy"] >= target]
    accuracy = 100 * results[0]["test_accuracy"]
    late = not there and accuracy >= target
    return {"target": min(there) if there else end if late else None, "late": late, "end": end, "accuracy": accuracy}


def stopped(quota, _):
    quota.signal(signal.SIGSTOP)


def goes_on(quota, _):
    quota.signal(signal.SIGCONT)


def slowed(quota, options):
    quota.set(options.share / options.slow)


def restored(quota, options):
    quota.set(options.share)


MOMENTS = {"pausing": (stopped, goes_on), "busy": (slowed, restored)}


class Moments:
    """What happens to each node now and then, until the block ends."""

    def __init__(self, case, quotas, options):
        self.over, self.threads = threading.Event(), []
        if case in MOMENTS:
            self.threads = [threading.Thread(target=self.play, args=(*MOMENTS[case], quota, options, random.Random(r)))
                            for r, quota in enumerate(quotas)]

    def play(self, begin, end, quota, options, rand):
        while not self.over.wait(rand.uniform(*RUN_S)):
            begin(quota, options)
            self.over.wait(rand.uniform(*PAUSE_S))
            end(quota, options)

    def __enter__(self):
        for thread in self.threads:
            thread.start()

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()


def measure(where, quotas, options, way, case, work):
    folder = tempfile.mkdtemp(dir=work)
    with Moments(case, quotas, options):
        text = run_together(commands(where, quotas, options, way, folder), {}, options.timeout)
    if text is None:
        return None
    folders = [os.path.join(folder, "node-%d" % rank) for rank in range(options.nodes)]
    results = [json.load(open(os.path.join(f, "result.json"))) for f in folders]
    found = judge([lines_of(f) for f in folders], results, options.target)
    shutil.rmtree(folder)
    if not found:
        failed("%s: the nodes ended with different models" % way)
    return found


def measure_all(where, options, work):
    """Returns {(way, case): [what judge found, ...]}."""
    found = {}
    for number in range(options.rounds):
        turns = [(way, case) for way in WAYS for case in options.cases.split(",") if re.search(options.only, way)]
        random.shuffle(turns)
        for way, case in turns:
            shares = [options.share / (options.slow if case == "slowed" and r == options.nodes - 1 else 1)
                      for r in range(options.nodes)]
            quotas = [Quota("ways%d-%d" % (os.getpid(), r), share) for r, share in enumerate(shares)]
            try:
                one = measure(where, quotas, options, way, case, work)
            finally:
                for quota in quotas:
                    quota.remove()
            print("  round %d, %s, %s: %s" % (number + 1, way, case, one), file=sys.stderr, flush=True)
            if one:
                found.setdefault((way, case), []).append(one)
                if options.csv:
                    with open(options.csv, "a") as out:
                        out.write("%d,%s,%s,%s,%.2f,%.2f\n" % (number, way, case, one["target"], one["end"], one["accuracy"]))
    return found


def median(rounds, what):
    values = [r[what] for r in rounds or [] if r[what] is not None]
    return statistics.median(values) if values and len(values) == len(rounds) else None


def seconds_text(rounds, what):
    value = median(rounds, what)
    late = what == "target" and any(r["late"] for r in rounds or [])
    return "–" if value is None else "%s%.1f s" % ("≤ " if late else "", value)


def sooner_text(found, way):
    base, mine = median(found.get((DEFAULT, "slowed")), "target"), median(found.get((way, "slowed")), "target")
    goal = WAYS[way][2]
    if not base or not mine:
        return "–"
    if goal is None:
        return "%.2f" % (base / mine)
    met = base / mine >= goal
    if not met:
        MISSED.append("%s: %.2f times as soon (goal %d)" % (way, base / mine, goal))
    return "**%.2f** (≥ %d%s)" % (base / mine, goal, "" if met else ", MISSED")


def accuracy_text(found, way, case):
    mine, base = (median(found.get((w, case)), "accuracy") for w in (way, DEFAULT))
    if mine is None:
        return "–"
    far = base is not None and abs(mine - base) > 0.5
    if far:
        MISSED.append("%s, %s: %.2f %%, default %.2f %%" % (way, case, mine, base))
    return "%.2f %%%s" % (mine, " MISSED" if far else "")


def print_table(found, options):
    cases = options.cases.split(",")
    head = ["way"]
    for case in cases:
        head += ["%s: time to %g %%" % (case, options.target), "to the end", "at the end"]
    rows = []
    for way in WAYS:
        if not any((way, case) in found for case in cases):
            continue
        row = [way]
        for case in cases:
            row += [seconds_text(found.get((way, case)), "target"), seconds_text(found.get((way, case)), "end"),
                    accuracy_text(found, way, case)]
        rows.append(row + ([sooner_text(found, way)] if "slowed" in cases else []))
    table(head + (["sooner than %s" % DEFAULT] if "slowed" in cases else []), rows)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job")
    parser.add_argument("--data", default="")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--cases", default="alike,slowed")
    parser.add_argument("--target", type=float, default=97)
    parser.add_argument("--share", type=float, default=0.4)
    parser.add_argument("--slow", type=float, default=5)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--timeout", type=float, default=3600)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--csv", default="")
    options = parser.parse_args()
    build = os.environ.get("BUILD", os.path.join(ROOT, "build", "gcc"))
    options.program = os.environ.get("MESHNODE", os.path.join(build, "meshnode"))
    if any(case not in CASES for case in options.cases.split(",")):
        parser.error("--cases %s, expected %s" % (options.cases, " or ".join(CASES)))
    return options


def main():
    options = arguments()
    CALM["seconds"] = 0
    if not Quota.usable():
        loud("no cgroup with a CPU quota can be made here (root, cgroups): nothing can be compared")
        return 1
    work, others = tempfile.mkdtemp(prefix="meshnode-ways-"), busy_by_others()
    try:
        with place(0) as where:
            found = measure_all(where, options, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print("%s %s: %d nodes with %g of one CPU each; slowed: one has a %g th of that. %d CPUs. %s\n" % (
        os.path.basename(options.job), " ".join(options.set), options.nodes, options.share, options.slow, os.cpu_count(),
        load(others)))
    print_table(found, options)
    for text in MISSED:
        loud("missed: " + text)
    return 1 if FAILED or (MISSED and options.check) else 0


if __name__ == "__main__":
    sys.exit(main())

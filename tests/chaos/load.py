#!/usr/bin/env python3
"""load.py - a large model on a machine with too much to do: nobody who lives is given up.

Three or four nodes (by turns) train a model whose first layer has 40 million parameters, so that each step moves 160 MB
per node and each state has as much. Processes that only spin bring the load of the machine to --load. Nothing happens to
anybody: a plan that is dropped (`aborts` in result.json) is a mistake, and so is another hash. The table says of each
run how many plans were dropped, and why. It needs 2 GB of memory for each node."""
import re
import subprocess
import sys
import time

import mesh as chaos

JOB = """run: {name: load, seed: 7, numerics: portable}
data: {source: glyphs, train: 480, test: 48}
model:
  - input: [1, 28, 28]
  - flatten
  - dense: %d
  - relu
  - dense: 10
train:
  epochs: 100000
  steps: %d
  batch: 24
  shards: 12
  eval_every: 0
  optimizer: {sgd: 0.01}
mesh: {gather_ms: 0}
"""
DROPPED = re.compile(r"plan of \d+ dropped: (.*)")
SPIN = [sys.executable, "-c", "while True: pass"]


LOOKS = 50


def running():
    """Threads that run or wait for a processor just now, without this one."""
    time.sleep(0.02)
    with open("/proc/loadavg", encoding="ascii") as file:
        return int(file.read().split()[3].split("/")[0]) - 1


class Hogs:
    """Processes that spin: as many as are missing to a load, looked at anew by `fill`."""

    def __init__(self, target):
        self.target, self.processes = target, []

    def fill(self, nodes):
        """What runs now and is not ours counts; our nodes run one thread each most of the time."""
        others = sum(running() for _ in range(LOOKS)) / LOOKS - len(self.processes)
        want = max(0, round(self.target - others - nodes))
        while len(self.processes) < want:
            self.processes.append(subprocess.Popen(SPIN, stdin=subprocess.DEVNULL))
        while len(self.processes) > want:
            self.end_one()

    def end_one(self):
        process = self.processes.pop()
        process.kill()
        process.wait()

    def close(self):
        while self.processes:
            self.end_one()


def reasons(mesh):
    found = {}
    for node in mesh.nodes.values():
        for why in DROPPED.findall(node.text()):
            found[why] = found.get(why, 0) + 1
    return ", ".join(f"{count} x {why}" for why, count in sorted(found.items()))


def one(folder, draw, index, args, job, expected):
    count = args.nodes or 3 + index % 2
    names = [f"n{i}" for i in range(count)]
    began = time.monotonic()
    with chaos.Mesh(folder, job) as mesh:
        for name in names:
            mesh.start(name, "--peers", str(count), "--log", "debug")
        mesh.finish(names, seconds=600)
        hashes = mesh.hashes(names)
        aborts = max(mesh.nodes[name].result()["aborts"] for name in names)
        why = reasons(mesh)
    if hashes != {expected}:
        raise chaos.Failed(f"{hashes}, one node alone {expected}")
    row = [index, count, aborts, "%.0f" % (time.monotonic() - began), chaos.load().split()[1], why]
    print("| " + " | ".join(map(str, row)) + " |", flush=True)
    return aborts


def body(runs):
    args = runs.args
    job = JOB % (args.width, args.steps)
    expected, _ = chaos.reference(runs.folder, job)
    hogs = Hogs(args.load)
    total = done = 0
    print("| run | nodes | plans dropped | s | load | why |\n|---|---|---|---|---|---|", flush=True)
    try:
        for index in runs:
            hogs.fill(4)
            aborts = runs.do(one, index, args, job, expected)
            total += aborts or 0
            done += aborts is not None
    finally:
        hogs.close()
    print(f"{done} runs, {total} plans dropped, {chaos.load()}")
    if total:
        return f"{total} plans dropped, expected none"
    return None


def main():
    own = chaos.parser(__doc__, runs=20)
    own.add_argument("--load", type=float, default=13, help="of the machine, while they train")
    own.add_argument("--nodes", type=int, default=0, help="0: 3 and 4 by turns")
    own.add_argument("--width", type=int, default=51000, help="of the first layer")
    own.add_argument("--steps", type=int, default=6)
    chaos.tool(own.parse_args(), body)


if __name__ == "__main__":
    main()

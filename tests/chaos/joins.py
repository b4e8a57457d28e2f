#!/usr/bin/env python3
"""joins.py - a node joins a mesh whose state has tens of MB; every other time one that sends it the state dies meanwhile.

Three nodes train an MLP of 9 million parameters, whose state is 72 MB: parameters and momentum. When they have done
--begin steps a fourth comes. In runs with an even number nothing else happens; in the others a random one of the three
is killed when the joiner has begun to take the state from all of them. It must get the rest from the others, and all
who live end with the hash of one node alone.

What the others are held is the largest gap between two of their steps until the joiner is in, less the usual step
before. Pass line: less than one step; with a death, 150 ms more. It is for a machine with nothing else to do
(--judge): copying 72 MB takes CPU from the others' steps when all share two cores. What fails everywhere is
a hang, another hash, a joiner that did not join, and a hold of more than --worst."""
import re
import signal

import mesh as chaos

JOB = """run: {name: large, seed: 7, numerics: portable}
data: {source: glyphs, train: 480, test: 48}
model:
  - input: [1, 28, 28]
  - flatten
  - dense: 2400
  - tanh
  - dense: 2944
  - tanh
  - dense: 10
train:
  epochs: 100000
  steps: %d
  batch: 64
  shards: 4
  eval_every: 0
  optimizer: {sgd: {rate: 0.01, momentum: 0.9}}
mesh: {gather_ms: 0, bucket: 4194304}
"""
FIRST, LATE = ["n0", "n1", "n2"], "n3"
DEATH_MS = 150
TAKEN = re.compile(r"caught up: at step (\d+)")


def in_a_plan(mesh, members):
    """Has the joiner done a step of so many, or ended?"""
    late = mesh.nodes[LATE]
    return any(step["peers"] == members and not step.get("followed") for step in late.steps()) or not late.alive()


def join(mesh, args, victim):
    for name in FIRST:
        mesh.start(name, "--peers", str(len(FIRST)))
    mesh.wait("the first steps", lambda: mesh.reached(args.begin, FIRST))
    at = mesh.start(LATE).began
    rest = [name for name in FIRST if name != victim]
    if victim:
        mesh.wait("the joiner to take the state", lambda: "catching up: copying" in mesh.nodes[LATE].text())
        mesh.signal(signal.SIGKILL, victim)
        if TAKEN.search(mesh.nodes[LATE].text()):
            raise chaos.Failed("the joiner had the whole state before a donor was killed: it must be larger")
    mesh.wait("the joiner to train with the others", lambda: in_a_plan(mesh, len(rest) + 1))
    mesh.finish([*rest, LATE])
    return at, rest


def came_at(mesh, members):
    """When the joiner had done its first step with all."""
    node = mesh.nodes[LATE]
    times = [node.origin + step["time_s"] for step in node.steps()
             if step["peers"] == members and not step.get("followed")]
    if not times:
        raise chaos.Failed(f"{LATE} never trained with the others\n{mesh.last_lines()}")
    return times[0]


def held(node, begin, end):
    """Milliseconds: the largest gap between two steps in [begin, end], less the usual one before; and the usual one."""
    times = [node.origin + step["time_s"] for step in node.steps()]
    gaps = list(zip(times, times[1:]))
    usual = chaos.median([b - a for a, b in gaps if b <= begin])
    most = max((b - a for a, b in gaps if b > begin and a < end), default=0.0)
    return 1000 * max(0.0, most - usual), 1000 * usual


def one(folder, random, index, args, job, reference):
    victim = random.choice(FIRST) if index % 2 else None
    with chaos.Mesh(folder, job) as mesh:
        at, rest = join(mesh, args, victim)
        end = came_at(mesh, len(rest) + 1)
        found = mesh.hashes([*rest, LATE])
        if found != {reference[0]}:
            raise chaos.Failed(f"hashes {found}, expected {reference[0]}")
        taken = TAKEN.search(mesh.nodes[LATE].text())
        if not taken:
            raise chaos.Failed(f"{LATE} did not take a state from the others\n{mesh.last_lines()}")
        hold, usual = max(held(mesh.nodes[name], at, end) for name in rest)
        return victim, int(taken[1]), 1000 * (end - at), hold, usual


def body(runs):
    args, job = runs.args, JOB % runs.args.steps
    reference = chaos.reference(runs.folder, job)
    rows, why = [], None
    for index in runs:
        result = runs.do(one, index, args, job, reference)
        if not result:
            continue
        victim, step, took, hold, usual = result
        rows.append([f"{victim} dies" if victim else "nothing", step, "%.0f" % took, "%.0f" % usual, "%.0f" % hold])
        limit = usual + (DEATH_MS if victim else 0) if args.judge else args.worst
        if hold > limit:
            why = f"run {index}: the others were held for {hold:.0f} ms, expected at most {limit:.0f}"
    print(chaos.load())
    chaos.table(["meanwhile", "joined at step", "in after, ms", "usual step, ms", "others held, ms"], rows)
    return why


if __name__ == "__main__":
    parser = chaos.parser(__doc__, runs=2)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--begin", type=int, default=8, help="steps before the joiner comes")
    parser.add_argument("--judge", action="store_true", help="fail beyond the pass lines: for a quiet machine")
    parser.add_argument("--worst", type=float, default=10000, help="ms; a longer hold fails in any case")
    chaos.tool(parser.parse_args(), body)

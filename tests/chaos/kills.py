#!/usr/bin/env python3
"""kills.py - kill or stop 1..n-1 of n nodes at the same random instant; the others must go on and end alike.

Every run draws n (2..--nodes), who and how many, and the instant. The survivors must finish with the hash of
an undisturbed single node. Then those stopped are continued, those killed are started again, every other one with
--resume; they must reach the same hash, too. A pause is the largest gap between two steps of one survivor in the
three seconds from the accident on, less the usual step before; the worst survivor counts. Runs of kind `none` have no accident
and show what the load of the machine alone does to that figure.

The kinds that are named like a codec with memory kill within a span of it, of at most five nodes; the others compute the span
again. There a pause is the time from the kill to the next step of a survivor; the steps that are computed again follow it,
and the log says how many they are.

Pass lines (reliability.md, P1): kill p99 150 ms, stop p99 500 ms, within a span p99 1 s, maximum below 1 s; no hang, one hash.
With --judge a figure beyond them fails; without, only hangs, wrong hashes, medians beyond them and pauses above --worst.
"""
import os
import re
import signal
import time

import mesh as chaos

SIGNALS = {"stop": signal.SIGSTOP}  # else they are killed
CODECS = ["topk", "onebit", "randk", "powersgd"]
SPAN, WARMUP, SPAN_NODES = 32, 4, 5
chaos.LIMITS.update({codec: (1000, float("inf")) for codec in CODECS})


def options(kind):
    """What decides on the hash."""
    return ["--set", f"mesh.compress={kind}", "--set", f"mesh.compress_warmup={WARMUP}",
            "--set", f"mesh.compress_span={SPAN}"] if kind in CODECS else []


def bring_back(mesh, kind, victims, random):
    """Everyone must end with the same weights in the end: the stopped, and the restarted."""
    if kind == "stop":
        mesh.signal(signal.SIGCONT, *victims)
    else:
        for name in victims:
            mesh.start(name, *random.choice([["--resume"], []]))
    mesh.finish(victims)


def until_next(node, at):
    """Until its next step, and no usual step to compare it with; None if it made no more."""
    ends = [node.origin + step["time_s"] for step in node.steps()]
    return next(((1000 * (end - at), 0) for end in sorted(ends) if end > at), None)


def again(node):
    return sum(int(count) for count in re.findall(r"computing (\d+) steps again", node.text()))


def one(folder, random, index, kinds, nodes_max, limit, job, references):
    kind = kinds[index % len(kinds)]
    names = [f"n{i}" for i in range(random.randint(2, min(nodes_max, SPAN_NODES) if kind in CODECS else nodes_max))]
    victims = random.sample(names, random.randint(1, len(names) - 1)) if kind != "none" else []
    survivors = [name for name in names if name not in victims]
    hashes, steps = references[kind]
    with chaos.Mesh(folder, job, options=[*chaos.EVEN, *options(kind)]) as mesh:
        for name in names:
            mesh.start(name, "--peers", str(len(names)))
        step = random.randint(WARMUP if kind in CODECS else 10, steps * 2 // 3)
        mesh.wait(f"step {step}", lambda: mesh.reached(step, survivors))
        time.sleep(random.random() * 0.02)  # waits for nothing: spreads the instants
        step, at = min(mesh.step(name) for name in survivors), time.time()
        if victims:
            mesh.signal(SIGNALS.get(kind, signal.SIGKILL), *victims)
        mesh.finish(survivors)
        pause = until_next if kind in CODECS else chaos.pause
        pauses = [p for p in (pause(mesh.nodes[name], at) for name in survivors) if p]
        repeated = max(again(mesh.nodes[name]) for name in survivors)
        bring_back(mesh, kind, victims, random)
        found = mesh.hashes(names)
        what = f"{kind} {' '.join(victims)} of {len(names)} at step {step}"
        if found != {hashes}:
            raise chaos.Failed(f"{what}: hashes {found}, expected {hashes}")
        worst = max(pauses, default=None)
        if worst and chaos.calm(worst) > limit:
            raise chaos.Failed(f"{what}: a pause of {worst[0]:.0f} ms")
        return kind, what, worst, found, repeated


def row(kind, done, hangs):
    pauses = [result[2][0] for result in done if result[2]]
    steps = [result[2][1] for result in done if result[2]]
    hashes = set().union(*(result[3] for result in done))
    return [kind, len(done) + hangs, hangs, "%.1f" % chaos.percentile(pauses, 0.5),
            "%.1f" % chaos.percentile(pauses, 0.99), "%.1f" % max(pauses, default=0),
            "%.1f" % chaos.median(steps), len(hashes), max((result[4] for result in done), default=0)]


def body(runs):
    args = runs.args
    kinds = args.kinds.split(",")
    job = f"{chaos.CHAOS}/tiny.yaml"
    references = {kind: chaos.reference(os.path.join(runs.folder, kind), job, *options(kind)) for kind in kinds}
    done, failed = {kind: [] for kind in kinds}, {kind: 0 for kind in kinds}
    for index in runs:
        result = runs.do(one, index, kinds, args.nodes, args.worst, job, references)
        if not result:
            failed[kinds[index % len(kinds)]] += 1
            continue
        done[result[0]].append(result)
        if args.verbose:
            print(f"run {index}: {result[1]}, pause {result[2]}")
    print(f"seed {args.seed}, {chaos.load()}")
    chaos.table(["accident", "runs", "hangs, wrong or --worst", "pause p50 ms", "p99", "max", "usual step", "hashes", "steps again"],
                [row(kind, done[kind], failed[kind]) for kind in kinds])
    for kind in kinds:
        why = chaos.judge(kind, [result[2] for result in done[kind] if result[2]], args.judge, args.worst)
        if why:
            return why
    return None


if __name__ == "__main__":
    parser = chaos.parser(__doc__, runs=30)
    parser.add_argument("--nodes", type=int, default=8, help="at most this many")
    parser.add_argument("--kinds", default="kill,stop,none")
    parser.add_argument("--judge", action="store_true", help="fail beyond the pass lines: for a quiet machine")
    parser.add_argument("--worst", type=float, default=10000, help="ms; a longer pause fails in any case")
    parser.add_argument("--verbose", action="store_true")
    chaos.tool(parser.parse_args(), body)

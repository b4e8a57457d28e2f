#!/usr/bin/env python3
"""spans.py - codecs with memory: 1..n-1 of n nodes are killed at a random instant within a span; the others compute the span again.

Every run draws n (2..--nodes), who and how many, and the instant; the codecs take turns. Survivors must finish with the hash of an
undisturbed single node, and so must the killed, which come back, every other one with --resume. A pause is the time from the kill
to the next step of a survivor; the steps that are computed again follow it, and the log says how many they are.

Pass line with --judge: p99 of the pauses below 1 s. Without, only hangs and wrong hashes fail."""
import re
import signal
import time

import mesh as chaos

SPAN, WARMUP = 32, 4


def options(codec):
    return ["--set", f"mesh.compress={codec}", "--set", f"mesh.compress_warmup={WARMUP}", "--set", f"mesh.compress_span={SPAN}"]


def pause(node, at):
    """Milliseconds to its first step behind `at`; None if it made no more."""
    return min((1000 * (node.origin + step["time_s"] - at) for step in node.steps() if node.origin + step["time_s"] > at), default=None)


def again(node):
    return sum(int(count) for count in re.findall(r"computing (\d+) steps again", node.text()))


def one(folder, random, index, codecs, nodes_max, job, references):
    codec = codecs[index % len(codecs)]
    names = [f"n{i}" for i in range(random.randint(2, nodes_max))]
    victims = random.sample(names, random.randint(1, len(names) - 1))
    survivors = [name for name in names if name not in victims]
    hashes, steps = references[codec]
    with chaos.Mesh(folder, job, options=[*chaos.EVEN, *options(codec)]) as mesh:
        for name in names:
            mesh.start(name, "--peers", str(len(names)))
        step = random.randint(WARMUP, steps * 2 // 3)
        mesh.wait(f"step {step}", lambda: mesh.reached(step, survivors))
        time.sleep(random.random() * 0.02)  # waits for nothing: spreads the instants
        at = time.time()
        mesh.signal(signal.SIGKILL, *victims)
        mesh.finish(survivors)
        pauses = [ms for ms in (pause(mesh.nodes[name], at) for name in survivors) if ms is not None]
        repeated = max(again(mesh.nodes[name]) for name in survivors)
        for name in victims:
            mesh.start(name, *random.choice([["--resume"], []]))
        mesh.finish(victims)
        found = mesh.hashes(names)
        if found != {hashes}:
            raise chaos.Failed(f"{codec}: kill {' '.join(victims)} of {len(names)} at step {step}: hashes {found}, expected {hashes}")
        return codec, max(pauses, default=0), repeated


def body(runs):
    args, job = runs.args, f"{chaos.CHAOS}/tiny.yaml"
    codecs = args.codecs.split(",")
    references = {codec: chaos.reference(f"{runs.folder}/{codec}", job, *options(codec)) for codec in codecs}
    done = [result for result in (runs.do(one, index, codecs, args.nodes, job, references) for index in runs) if result]
    print(f"seed {args.seed}, {chaos.load()}")
    rows = []
    for codec in codecs:
        pauses = [ms for name, ms, _ in done if name == codec]
        repeated = [count for name, _, count in done if name == codec]
        rows.append([codec, len(pauses), "%.0f" % chaos.percentile(pauses, 0.5), "%.0f" % chaos.percentile(pauses, 0.99),
                     "%.0f" % max(pauses, default=0), "%.0f" % chaos.median(repeated), max(repeated, default=0)])
    chaos.table(["codec", "runs", "pause p50 ms", "p99", "max", "steps again p50", "max"], rows)
    late = [codec for codec in codecs if chaos.percentile([ms for name, ms, _ in done if name == codec], 0.99) > 1000]
    return f"pauses above 1 s: {', '.join(late)}" if args.judge and late else None


if __name__ == "__main__":
    parser = chaos.parser(__doc__, runs=20)
    parser.add_argument("--nodes", type=int, default=5, help="at most this many")
    parser.add_argument("--codecs", default="topk,onebit")
    parser.add_argument("--judge", action="store_true", help="fail beyond the pass line: for a quiet machine")
    chaos.tool(parser.parse_args(), body)

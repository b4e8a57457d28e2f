#!/usr/bin/env python3
"""counting.py - the counting model through random accidents: every sample exactly once per epoch.

configs/counting.yaml trains a model whose weight i is, after e epochs, the number of times sample i was used: e. Each
run takes 2..--nodes nodes through a course of accidents (accidents.py). Then tests/support/counts.py must find e in
every weight of every node, and `meshnode verify`, a second oracle, must find every step in what all nodes wrote."""
import os
import subprocess
import sys

import mesh as chaos
from accidents import Course

EPOCHS = 40
STEPS = EPOCHS * 10


def has_verify():
    text = subprocess.run([chaos.MESHNODE, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return "meshnode verify" in text


def steps_told(folder):
    """A node that was killed or came after the end before it had a step has left nothing to verify."""
    try:
        return os.path.getsize(os.path.join(folder, "metrics.jsonl"))
    except FileNotFoundError:
        return 0


def check(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise chaos.Failed(f"{' '.join(command)}: status {done.returncode}\n{done.stdout[-2000:]}")


def one(folder, random, index, nodes_max, verify):
    names = [f"n{i}" for i in range(random.randint(2, nodes_max))]
    job = os.path.join(chaos.ROOT, "configs", "counting.yaml")
    options = ["--set", f"train.epochs={EPOCHS}", "--set", "train.checkpoint_every=50", "--set", "mesh.gather_ms=100"]
    with chaos.Mesh(folder, job, options=options) as mesh:
        course = Course(mesh, names, random, STEPS)
        try:
            course.run()
            course.finish()
            for name in names:
                check(sys.executable, os.path.join(chaos.ROOT, "tests", "support", "counts.py"),
                      os.path.join(mesh.nodes[name].out, "model.safetensors"), str(EPOCHS))
            if verify:
                told = [path for path in course.folders if steps_told(path)]
                check(chaos.MESHNODE, "verify", *told)
        except chaos.Failed as failure:
            raise chaos.Failed(f"{len(names)} nodes, {', '.join(course.said)}: {failure}") from None
        return len(names), course.said, mesh.hashes(names)


def body(runs):
    verify, done, hashes = has_verify(), 0, set()
    for index in runs:
        result = runs.do(one, index, runs.args.nodes, verify)
        if result:
            done += 1
            hashes |= result[2]
            if runs.args.verbose:
                print(f"run {index}: {result[0]} nodes, {', '.join(result[1])}", flush=True)
    print(f"seed {runs.args.seed}, {chaos.load()}")
    chaos.table(["runs", "hangs or wrong", "samples used exactly once per epoch", "ledgers verified", "hashes"],
                [[done + runs.failed, runs.failed, done, done if verify else "no such command", len(hashes)]])
    return f"{len(hashes)} hashes, expected one" if len(hashes) > 1 else None


if __name__ == "__main__":
    parser = chaos.parser(__doc__, runs=50)
    parser.add_argument("--nodes", type=int, default=5, help="at most this many")
    parser.add_argument("--verbose", action="store_true")
    chaos.tool(parser.parse_args(), body)

#!/usr/bin/env python3
"""stages_memory.py - a job that needs 1.5 times the memory of a node: refused on one, trained on four.

The limit is two thirds of the least train.memory_max with which one node would take the job. With this limit

    alone     a node says how much is missing, and ends
    four      nodes, each in a memory cgroup of this size (root; else only train.memory_max holds them), hold a part each:
              they come to the SHA-256 of a node without a limit

and no node has more memory than `meshnode check` says, by a tenth, nor than its part of the parameters takes in four states, its part
of the vectors, its activations and 48 MiB. The table shows the largest resident memory (VmHWM) of each node."""
import argparse
import os
import re
import subprocess

import memory
import mesh as chaos

NODES = "abcd"
EXTRA = 48  # MiB beside states, vectors and activations
WIDE = """
run: {name: wide, seed: 3}
data: {source: glyphs, train: 480, test: 48}
model: [flatten, dense: WIDTH, relu, dense: WIDTH, relu, dense: WIDTH, relu, dense: WIDTH, relu, dense: WIDTH, relu, dense: WIDTH, relu, dense: WIDTH, relu, dense: WIDTH, relu, dense: 10]
train: {epochs: 9, batch: 48, shards: 4, steps: 8, eval_every: 0, optimizer: {sgd: 0.05}}
"""
STATES, VECTORS = 4, 4


def said(job, *options):
    """What `meshnode` says of the job, and its status."""
    run = subprocess.run([chaos.MESHNODE, "check", job, "--threads", "1", *options], capture_output=True, text=True,
                         check=False)
    return run.stdout + run.stderr, run.returncode


def number(pattern, text):
    match = re.search(pattern, text)
    if not match:
        raise chaos.Failed(f"no {pattern} in:\n{text}")
    return match


def mib(text):
    value, unit = text.split()
    return float(value) * {"KiB": 1 / 1024, "MiB": 1, "GiB": 1024}[unit]


def parts(text):
    """MiB of weights, and of activations, of the stages that `check` prints; and of all of a node."""
    stages = [(mib(w), mib(a)) for w, a in re.findall(r"weights ([\d.]+ \w+), activations ([\d.]+ \w+)", text)]
    return stages, mib(number(r"only what it computes needs at most ([\d.]+ \w+)", text)[1])


class Peaks:
    """VmHWM in MiB, as it was when it was looked at last."""

    def __init__(self, mesh):
        self.mesh, self.peak = mesh, {}

    def look(self):
        for name, node in self.mesh.nodes.items():
            try:
                with open(f"/proc/{node.process.pid}/status", encoding="utf-8") as file:
                    found = re.search(r"VmHWM:\s+(\d+) kB", file.read())
            except OSError:
                continue
            if found:
                self.peak[name] = int(found[1]) / 1024


def train(folder, job, limit, groups):
    """Hashes, peaks, and the logs."""
    peers = ("--peers", str(len(NODES)), "--set", f"mesh.stages={len(NODES)}", "--set", "mesh.mirror=no", "--set",
             f"train.memory_max={limit}")
    with chaos.Mesh(os.path.join(folder, "four"), job, options=(*peers, *chaos.EVEN)) as mesh:
        peaks = Peaks(mesh)
        for name in NODES:
            enter = f"echo $$ >{groups[name].path}/cgroup.procs && " if groups else ""
            mesh.start(name, prefix=("sh", "-c", enter + 'exec "$@"', "sh"))

        def ended():
            peaks.look()
            return not any(mesh.nodes[name].alive() for name in NODES)

        mesh.wait("four nodes to finish", ended)
        mesh.finish(NODES)
        return mesh.hashes(NODES), peaks.peak, {name: mesh.nodes[name].text() for name in NODES}


def body(folder, args, limits):
    job = memory.job_file(folder, "wide", WIDE.replace("WIDTH", str(args.width)))
    least = int(number(r"expected at least (\d+) MiB", said(job, "--set", "train.memory_max=16")[0])[1])
    limit = least * 2 // 3
    alone = ["--set", f"train.memory_max={limit}"]
    text, status = said(job, *alone)
    if status != 2 or "expected at least" not in text:
        raise chaos.Failed(f"one node takes the job with {limit} MiB: status {status}\n{text}")
    stages, most = parts(said(job, "--peers", "4", "--set", f"mesh.stages={len(NODES)}", "--set", "mesh.mirror=no",
                              *alone)[0])
    line = max(w * (STATES + VECTORS) + a for w, a in stages) + EXTRA
    plain, _ = chaos.reference(folder, job)
    groups = {}
    try:
        for i, name in enumerate(NODES if limits else ""):
            groups[name] = memory.Cgroup(limit, f"-{i}")
        hashes, peaks, _ = train(folder, job, limit, groups)
    finally:
        for group in groups.values():
            group.close()
    print(f"one node needs {least} MiB at least, the limit is {limit}; check: {most:.1f}, the line: {line:.1f}")
    print("| node | limit MiB | VmHWM MiB | of check | of the line |\n|---|---|---|---|---|")
    for name in NODES:
        print(f"| {name} | {limit} | {peaks[name]:.1f} | {peaks[name] / most:.2f} | {peaks[name] / line:.2f} |")
    if hashes != {plain}:
        raise chaos.Failed(f"{hashes}, expected {plain}")
    for name in NODES:
        if peaks[name] > min(1.1 * most, line):
            raise chaos.Failed(f"{name}: {peaks[name]:.1f} MiB resident")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--width", type=int, default=1024, help="of the layers")
    memory.tool(options, body)

#!/usr/bin/env python3
"""memory.py - less memory than the job would like: the same bits.

Each job trains with nothing else than a limit of the kernel (a memory cgroup, version 1 or 2: root) that makes the difference,
and must come to the same weights and the same state as one node without:

    data      arrays of NumPy of twice the limit
    shards    train.memory_max: fewer shards at a time
    file      train.memory_max: one shard at a time, states in a file
    recompute train.recompute: activations are computed again; no limit, but less memory must be used
    stages    a job that needs 1.5 times the memory of a node: refused on one, trained on four, which hold a part each. The
              limit is two thirds of the least train.memory_max with which one node would take the job. Without a cgroup
              only train.memory_max holds them. No node has more memory than `meshnode check` says, by a tenth, nor than its
              part of the parameters takes in four states, its part of the vectors, its activations and 48 MiB

A table shows the limit, the largest resident memory (VmHWM) and the seconds of each."""
import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

import mesh as chaos

MIB = 1 << 20
LIBRARIES = 16  # MiB that are resident, but, being shared, not charged to this process
NODES = "abcd"  # of stages
STATES, VECTORS, EXTRA = 4, 4, 48  # of the latter MiB beside states, vectors and activations


class Cgroup:
    """A memory limit for one process."""

    def __init__(self, mib, name=""):
        self.new = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
        root = "/sys/fs/cgroup" if self.new else "/sys/fs/cgroup/memory"
        self.path = f"{root}/meshnode-{os.getpid()}{name}"
        os.mkdir(self.path)
        try:
            self.put("memory.max" if self.new else "memory.limit_in_bytes", mib * MIB)
        except OSError:
            self.close()
            raise

    def put(self, name, value):
        with open(f"{self.path}/{name}", "w", encoding="ascii") as file:
            file.write(str(value))

    def close(self):
        os.rmdir(self.path)


def limits_can_be_set():
    try:
        Cgroup(64).close()
    except OSError as error:
        print(f"memory.py: no memory cgroup can be made here ({error}): NOTHING was tried under a limit")
        return False
    return True


def npy(path, kind, shape, rows):
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode() + b"\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
        for row in rows:
            file.write(row)


def arrays(folder, mib, draw):
    """Rows of 4096 random bytes; the first ones say the class."""
    rows = mib * MIB // 4096
    label = [draw.randrange(4) for _ in range(rows)]
    npy(f"{folder}/features.npy", "|u1", (rows, 4096), (bytes([60 * x] * 64) + draw.randbytes(4032) for x in label))
    npy(f"{folder}/labels.npy", "|u1", (rows,), (bytes([x]) for x in label))


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


def train(folder, job, limit, names="a", options=()):
    """Hashes, the MiB (VmHWM) of each node, seconds, the logs. Limit 0: none."""
    began, groups = time.monotonic(), {}
    options = ["--data", folder, "--peers", str(len(names)), "--set", "mesh.gather_ms=0", *options]
    try:
        with chaos.Mesh(tempfile.mkdtemp(dir=folder), job, options=options) as mesh:
            peaks = Peaks(mesh)
            for name in names:
                groups[name] = Cgroup(limit, f"-{name}") if limit else None
                enter = f"echo $$ >{groups[name].path}/cgroup.procs && " if limit else ""
                mesh.start(name, prefix=("sh", "-c", enter + 'exec "$@"', "sh"))

            def ended():
                peaks.look()
                return not any(mesh.nodes[name].alive() for name in names)

            mesh.wait(f"{' '.join(names)} to finish", ended)
            mesh.finish(names)
            return mesh.hashes(names), peaks.peak, time.monotonic() - began, [mesh.nodes[name].text() for name in names]
    finally:
        for group in filter(None, groups.values()):
            group.close()


def job_file(folder, name, text):
    path = f"{folder}/{name}.yaml"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


BIG = """
run: {name: big}
data: {source: glyphs, train: 2400, test: 120}
model: [flatten, dense: 1024, relu, dense: 1024, relu, dense: 1024, relu, dense: 10]
train: {epochs: 9, batch: 1200, steps: 6, eval_every: 0, optimizer: {adam: 0.001}}
"""
IMAGES = """
run: {name: images}
data: {source: glyphs, train: 2400, test: 120}
model:
%s  - globalpool
  - dense: 10
train: {epochs: 9, batch: 240, steps: 3, eval_every: 0}
""" % ("  - conv: {filters: 8, kernel: 3, pad: 1}\n  - batchnorm\n  - relu\n" * 12)
TABLE = """
run: {name: table}
data: {source: npy}
model: [dense: 16, relu, dense: 4]
train: {epochs: 1, batch: 960, eval_every: 0, optimizer: {sgd: 0.01}}
"""
WIDE = """
run: {name: wide, seed: 3}
data: {source: glyphs, train: 480, test: 48}
model: [flatten, dense: WIDTH, relu, dense: WIDTH, relu, dense: WIDTH, relu, dense: WIDTH, relu, dense: WIDTH, relu, dense: WIDTH, relu, dense: WIDTH, relu, dense: WIDTH, relu, dense: 10]
train: {epochs: 9, batch: 48, shards: 4, steps: 8, eval_every: 0, optimizer: {sgd: 0.05}}
"""


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


class Table:
    """What was tried."""

    def __init__(self, folder):
        self.folder, self.rows = folder, []

    def row(self, name, job, limit, plain, *options, least=0):
        """One node: its hashes, which are to be those of `plain`, its MiB, its log."""
        hashes, peaks, seconds, texts = train(self.folder, job, limit, options=options)
        peak = peaks["a"]
        self.rows.append((name, limit or "-", f"{peak:.1f}", f"{seconds:.1f}", " ".join(options[1::2])))
        if plain and hashes != plain[0]:
            raise chaos.Failed(f"{name}: {hashes}, without a limit {plain[0]}")
        if limit and peak > limit + LIBRARIES:
            raise chaos.Failed(f"{name}: {peak:.1f} MiB resident, expected at most {limit}")
        if least and plain[1] - peak < least:
            raise chaos.Failed(f"{name}: {peak:.1f} MiB resident, expected at least {least} less than {plain[1]:.1f}")
        return hashes, peak, texts[0]


def alone(table, args, limits):
    """One node."""
    folder = table.folder
    images = job_file(folder, "images", IMAGES)
    plain = table.row("images", images, 0, None)
    table.row("recompute", images, 0, plain, "--set", "train.recompute=yes", least=30)
    table.row("shards", images, 0, plain, "--set", "train.memory_max=100", least=60)
    if limits:
        table.row("shards", images, 100, plain, "--set", "train.memory_max=100")
        big = job_file(folder, "big", BIG)
        plain = table.row("big", big, 0, None)
        for limit in (240, 130):
            text = table.row("file", big, limit, plain, "--set", f"train.memory_max={limit}")[2]
            if "states in a file" not in text:
                raise chaos.Failed(f"file: states are not in a file with train.memory_max={limit}")
        arrays(folder, 192, random.Random(args.seed))
        job = job_file(folder, "table", TABLE)
        plain = table.row("table", job, 0, None)
        table.row("data", job, 96, plain)


def in_stages(table, args, limits):
    """Four nodes that hold a part each."""
    job = job_file(table.folder, "wide", WIDE.replace("WIDTH", str(args.width)))
    least = int(number(r"expected at least (\d+) MiB", said(job, "--set", "train.memory_max=16")[0])[1])
    limit = least * 2 // 3
    text, status = said(job, "--set", f"train.memory_max={limit}")
    if status != 2 or "expected at least" not in text:
        raise chaos.Failed(f"one node takes the job with {limit} MiB: status {status}\n{text}")
    four = ["--set", f"mesh.stages={len(NODES)}", "--set", "mesh.mirror=no"]
    stages, most = parts(said(job, "--peers", "4", *four)[0])
    line = max(w * (STATES + VECTORS) + a for w, a in stages) + EXTRA
    plain, _ = chaos.reference(table.folder, job)
    hashes, peaks, seconds, _ = train(table.folder, job, limit if limits else 0, NODES,
                                      [*four, "--set", f"train.memory_max={limit}", *chaos.EVEN])
    print(f"one node needs {least} MiB at least, the limit is {limit}; check: {most:.1f}, the line: {line:.1f}")
    table.rows += [(f"stages, {name}", limit, f"{peaks[name]:.1f}", f"{seconds:.1f}",
                    f"{peaks[name] / most:.2f} of check, {peaks[name] / line:.2f} of the line") for name in NODES]
    if hashes != {plain}:
        raise chaos.Failed(f"{hashes}, expected {plain}")
    for name in NODES:
        if peaks[name] > min(1.1 * most, line):
            raise chaos.Failed(f"{name}: {peaks[name]:.1f} MiB resident")


def main():
    """Exit status 77: no limits can be set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--width", type=int, default=1024, help="of the layers of stages")
    parser.add_argument("--folder", default="/var/tmp", help="for files, on a disk, not in memory")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="meshnode-memory-", dir=args.folder)
    limits, table = limits_can_be_set(), Table(os.path.abspath(folder))
    try:
        alone(table, args, limits)
        in_stages(table, args, limits)
    except chaos.Failed as failure:
        print(f"FAILED: {failure}")
        sys.exit(1)
    finally:
        shutil.rmtree(folder)
    chaos.table(["case", "limit MiB", "VmHWM MiB", "s", ""], table.rows)
    sys.exit(0 if limits else 77)


if __name__ == "__main__":
    main()

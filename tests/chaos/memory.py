#!/usr/bin/env python3
"""memory.py - less memory than the job would like: the same bits.

Each job trains on one node, with nothing else than a limit of the kernel (a memory cgroup, version 1 or 2: root) that
makes the difference, and must come to the same weights and the same state as without:

    data      arrays of NumPy of twice the limit
    shards    train.memory_max: fewer shards at a time
    file      train.memory_max: one shard at a time, states in a file
    recompute train.recompute: activations are computed again; no limit, but less memory must be used

A table shows the limit, the largest resident memory (VmHWM) and the seconds of each."""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import mesh as chaos

MIB = 1 << 20
LIBRARIES = 16  # MiB that are resident, but, being shared, not charged to this process


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

    def enter(self):
        """In the process that is to be limited."""
        self.put("cgroup.procs", os.getpid())

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


class Runs:
    def __init__(self, folder):
        self.folder, self.count = folder, 0

    def train(self, job, limit, *options):
        """(hashes, VmHWM in MiB, seconds, log)"""
        self.count += 1
        out = f"{self.folder}/{self.count}"
        command = [chaos.MESHNODE, job, "--out", out, "--threads", "1", "--interface", "lo", "--data", self.folder,
                   "--set", f"mesh.group=memory-{os.getpid()}", "--set", "mesh.gather_ms=0", *options]
        group = Cgroup(limit) if limit else None
        began = time.monotonic()
        try:
            with open(f"{out}.log", "wb") as log:
                process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=group.enter if group else None)
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = status
        finally:
            if group:
                group.close()
        with open(f"{out}.log", encoding="utf-8") as log:
            text = log.read()
        if status:
            raise chaos.Failed(f"{' '.join(command)}: status {status}\n{text[-1500:]}")
        with open(f"{out}/result.json", encoding="utf-8") as file:
            result = json.load(file)
        return (result["params_sha256"], result["state_sha256"]), usage.ru_maxrss / 1024, time.monotonic() - began, text


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


def body(folder, args, limits):
    runs, rows = Runs(folder), []

    def compare(name, job, limit, plain, *options, least=0):
        hashes, peak, seconds, text = runs.train(job, limit, *options)
        rows.append((name, limit, peak, seconds, " ".join(options[1::2])))
        if plain and hashes != plain[0]:
            raise chaos.Failed(f"{name}: {hashes}, without a limit {plain[0]}")
        if limit and peak > limit + LIBRARIES:
            raise chaos.Failed(f"{name}: {peak:.1f} MiB resident, expected at most {limit}")
        if least and plain[1] - peak < least:
            raise chaos.Failed(f"{name}: {peak:.1f} MiB resident, expected at least {least} less than {plain[1]:.1f}")
        return hashes, peak, text

    images = job_file(folder, "images", IMAGES)
    plain = compare("images", images, 0, None)
    compare("recompute", images, 0, plain, "--set", "train.recompute=yes", least=30)
    compare("shards", images, 0, plain, "--set", "train.memory_max=100", least=60)
    if limits:
        compare("shards", images, 100, plain, "--set", "train.memory_max=100")
        big = job_file(folder, "big", BIG)
        plain = compare("big", big, 0, None)
        for limit in (240, 130):
            text = compare("file", big, limit, plain, "--set", f"train.memory_max={limit}")[2]
            if "states in a file" not in text:
                raise chaos.Failed(f"file: states are not in a file with train.memory_max={limit}")
        arrays(folder, 192, random.Random(args.seed))
        table = job_file(folder, "table", TABLE)
        plain = compare("table", table, 0, None)
        compare("data", table, 96, plain)
    print("| case | limit MiB | VmHWM MiB | s | |\n|---|---|---|---|---|")
    for name, limit, peak, seconds, options in rows:
        print(f"| {name} | {limit or '-'} | {peak:.1f} | {seconds:.1f} | {options} |")


def tool(parser, body):
    """Run `body(folder, args, can limits be set?)`. Exit status 77: they cannot."""
    parser.add_argument("--folder", default="/var/tmp", help="for files, on a disk, not in memory")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="meshnode-memory-", dir=args.folder)
    limits = limits_can_be_set()
    try:
        body(os.path.abspath(folder), args, limits)
    except chaos.Failed as failure:
        print(f"FAILED: {failure}")
        sys.exit(1)
    finally:
        shutil.rmtree(folder)
    sys.exit(0 if limits else 77)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=1)
    tool(options, body)

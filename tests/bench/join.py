#!/usr/bin/env python3
"""How fast a node with nothing but the program gets job and data from the mesh, and what that costs those who train.

    join.py [--rate 100mbit] [--megabytes 50] [--rounds 3] [--program build/gcc/meshnode]

Three machines on a switch: two have the data, the third one an empty folder. Once the two only wait for the third one, once
they train: then their steps while the middle nine tenths of the bytes come, beside those before. And configs/digits.yaml,
which has no files: from the start of the third program to its first shard."""
import argparse
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from common import FAILED, ROOT, busy_by_others, failed, load, place, steps_made, stop, table, wait

RECEIVED = """
import time
while True:
    print(time.time(), open("/sys/class/net/eth0/statistics/rx_bytes").read().strip(), flush=True)
    time.sleep(0.02)
"""
JOB = """run: {name: join}
data: {source: text, file: words.txt, context: 16}
model: [embedding: {units: 4}, dense: 256]
train: {batch: 24, steps: 1000000, epochs: 1000000, eval_every: 0}
"""


def bits(rate):
    return float(rate[:-4]) * {"m": 1e6, "g": 1e9}[rate[-4]]


def start(options, where, work, rank, words):
    folder = os.path.join(work, "at-%d" % rank)
    os.makedirs(folder)
    own = [options.program, *words, "--out", os.path.join(work, str(rank)), "--threads", "1", "--interface", where.interface()]
    with open(os.path.join(work, "%d.log" % rank), "w") as log:
        return subprocess.Popen(where.inside(rank, own), stdout=log, stderr=subprocess.STDOUT, cwd=folder,
                                env={**os.environ, "HOME": folder, "XDG_CACHE_HOME": ""})


def steps(work, rank):
    """When each step ended, in the node's own time, and the shards of this node."""
    return [(line["time_s"], int(line["shards"], 16)) for line in steps_made(os.path.join(work, str(rank)))]


def came(work, size):
    """When the first and the last of the middle nine tenths of the bytes had come."""
    seen = [(float(a), int(b)) for a, b in (line.split() for line in open(os.path.join(work, "rx")) if line.count(" ") == 1)]
    first = seen[0][1]
    return [next(at for at, bytes_ in seen if bytes_ - first >= part * size) for part in (0.05, 0.95)]


def one(options, where, job, data, size, trains):
    """Share of the link, seconds from the start to the first shard, and steps meanwhile beside before."""
    work = tempfile.mkdtemp(prefix="meshnode-join-")
    words = [job] + (["--data", data] if data else []) + ["--peers", "2" if trains else "3"]
    processes = [start(options, where, work, rank, words) for rank in range(2)]
    try:
        if trains:
            wait("steps of two", lambda: len(steps(work, 0)) > 50)
            time.sleep(4)
        with open(os.path.join(work, "rx"), "w") as out:
            processes.append(subprocess.Popen(where.inside(2, [sys.executable, "-c", RECEIVED]), stdout=out))
        time.sleep(0.2)
        began = time.time()
        processes.append(start(options, where, work, 2, []))
        if not wait("a first shard", lambda: any(shards for _, shards in steps(work, 2))):
            print("".join(open(os.path.join(work, "%d.log" % rank)).read()[-600:] for rank in range(3)), file=sys.stderr)
            return None
        first = time.time() - began
        if not data:
            return None, first, None
        a, b = came(work, size)
        zero = min(time.time() - steps(work, 0)[-1][0] for _ in range(20))
        during = [at for at, _ in steps(work, 0) if a <= at + zero < b]
        before = [at for at, _ in steps(work, 0) if began - 3 <= at + zero < began]
        return 0.9 * size * 8 / (b - a) / bits(options.rate), first, len(during) / (b - a) / (len(before) / 3) if before else None
    finally:
        stop(processes)
        shutil.rmtree(work)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="100mbit")
    parser.add_argument("--megabytes", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--program", default=os.environ.get("MESHNODE", os.path.join(ROOT, "build", "gcc", "meshnode")))
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that namespaces are removed
    others, size, data, rows = busy_by_others(), options.megabytes << 20, tempfile.mkdtemp(prefix="meshnode-join-"), []
    job, words = os.path.join(data, "join.yaml"), " ".join("w%d" % random.randrange(10 ** 6) for _ in range(size // 7))
    with open(job, "w") as out:
        out.write(JOB)
    with open(os.path.join(data, "words.txt"), "w") as out:
        out.write((words + " " * size)[:size])
    with place(3, options.rate) as where:
        for name, arguments in (("nobody trains", (job, data, size, False)), ("two train", (job, data, size, True)),
                                ("digits", (os.path.join(ROOT, "configs", "digits.yaml"), None, 0, False))):
            found = [f for f in (one(options, where, *arguments) for _ in range(options.rounds)) if f]
            text = [["%.2f" % statistics.median(v) if v and None not in v else "–"] for v in zip(*found)] if found else []
            rows.append([name] + [t[0] for t in text])
    shutil.rmtree(data)
    print("%d MiB at %s, medians of %d" % (options.megabytes, options.rate, options.rounds))
    table(["", "share of the link", "seconds to a first shard", "steps meanwhile / before"], rows)
    print(load(others))
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Measures meshnode beside what one would pick instead, and prints Markdown tables of ratios.

    run.py [allreduce] [link] [train] [overlap]      parts; none named: all of them
        --build DIR     where make builds (default $BUILD or build/gcc)
        --rounds N      each contender once per round, in shuffled order
        --quick         a glance: few rounds, short
        --check         exit status 1 if a goal is missed; it is 1 anyway if a run fails or not all nodes take part
        --only REGEX    contenders to run      --sizes 4k,1m     --ranks 2,4     --csv FILE
        --calm SECONDS  before each run, wait so long at most for the machine to be idle (default 5)

allreduce  loopback, 2 and 4 processes: the mesh, a ring on bare TCP, Gloo, Open MPI over TCP
link       four namespaces on a bridge at 100 Mbit/s: the mesh and bare TCP against the bound
train      one process of one thread: the program against PyTorch, samples per second
overlap    two nodes on a link on which transfer takes as long as computing: is one hidden by the other?

Machines are noisy and differ, so nothing here is a time to reach: contenders run interleaved and a ratio
is the median over rounds of the ratio within the round. Goals are printed beside the ratios. What is not
installed is left out, loudly (`make bench` installs it). Namespaces need root; without it allreduce and train run
on the system's loopback and the other parts are left out."""
import argparse
import collections
import contextlib
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
NETNS = os.path.join(ROOT, "tests", "support", "netns.sh")
PARTS = ["allreduce", "link", "train", "overlap"]
PYTHON_WITH_TORCH = "/usr/bin/python3"
MISSED = []
FAILED = []  # runs that broke, or in which not all nodes worked together: status 1


def loud(text):
    print("*** " + text, file=sys.stderr, flush=True)


def failed(text):
    FAILED.append(": ".join(text.splitlines()[:1] + text.splitlines()[1:][-1:]))
    loud("FAILED: " + text)


def quietly(command):
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)


# ---- building ----

def build(options):
    """Builds what can be built. Returns {name: path of the program} without what cannot."""
    out = os.path.join(options.build, "rivals")
    os.makedirs(os.path.join(ROOT, out), exist_ok=True)
    fast = ["-O3", "-march=native", "-I.", "-D_DEFAULT_SOURCE"]
    rivals = {
        "tcp": ["cc", "-std=c11", *fast, "tests/bench/bench_tcp.c", "-lpthread"],
        "gloo": ["g++", "-std=c++14", *fast, "tests/bench/gloo_ring.cc", "-lgloo", "-lpthread"],
        "openmpi": ["mpicc.openmpi", "-std=c11", *fast, "tests/bench/mpi_allreduce.c"],
    }
    found = {}
    for name, command in rivals.items():
        path = os.path.join(out, name)
        why = "no " + command[0]
        if shutil.which(command[0]):
            done = quietly([command[0], "-o", path, *command[1:]])
            if done.returncode == 0:
                found[name] = os.path.join(ROOT, path)
                continue
            why = next((l for l in done.stdout.splitlines() if "rror" in l), "does not compile")
        loud("NOT MEASURED: %s: %s" % (name, why))
    for name in ("meshnode", "tests/bench/bench_allreduce", "tests/bench/bench_nn"):
        path = os.path.join(options.build, name)
        done = quietly(["make", "-s", "B=" + options.build, path])
        if done.returncode == 0:
            found[os.path.basename(name)] = os.path.join(ROOT, path)
        else:
            loud("NOT MEASURED: %s: %s" % (name, (done.stdout.splitlines() or ["?"])[-1]))
    if quietly([PYTHON_WITH_TORCH, "-c", "import torch, yaml"]).returncode == 0:
        found["torch"] = os.path.join(HERE, "torch_train.py")
    else:
        loud("NOT MEASURED: torch: %s has no torch or no yaml" % PYTHON_WITH_TORCH)
    return found


# ---- places to run ----

class Place:
    """Where processes run: one loopback, or one namespace per rank."""

    def __init__(self, tag, count):
        self.tag, self.count = tag, count

    def inside(self, rank, command):
        if not self.tag:
            return command
        return ["ip", "netns", "exec", "%s-%d" % (self.tag, rank if self.count else 0), *command]

    def host(self, rank):
        return "10.77.0.%d" % (rank + 1) if self.count else "127.0.0.1"

    def interface(self):
        return "eth0" if self.count else "lo"

    def congestion(self):
        command = self.inside(0, ["cat", "/proc/sys/net/ipv4/tcp_congestion_control"])
        return quietly(command).stdout.strip()

    def rate(self, rate):
        subprocess.run([NETNS, "rate", self.tag, str(self.count), rate], check=True)


@contextlib.contextmanager
def place(count, rate=None):
    """A loopback of our own (count 0) or `count` namespaces on a bridge; None if that needs more rights."""
    tag = "mb%d" % os.getpid()
    made = subprocess.run([NETNS, "up", tag, str(count)] + ([rate] if rate else []), check=False)
    if made.returncode:
        yield None if count else Place("", 0)
        return
    try:
        yield Place(tag, count)
    finally:
        subprocess.run([NETNS, "down", tag], check=False)


def stop(processes):
    """A signal that mpirun passes on first; those that do not obey are killed."""
    for process in processes:
        process.terminate()
    end = time.monotonic() + 3
    for process in processes:
        try:
            process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run_together(commands, env, timeout):
    """Starts all commands, returns what they printed, or None if one failed or took too long."""
    wait_for_calm()
    full = dict(os.environ, OPENBLAS_NUM_THREADS="1", **env)
    with tempfile.TemporaryFile("w+") as errors:
        processes = [subprocess.Popen(c, env=full, stdout=subprocess.PIPE, stderr=errors, text=True)
                     for c in commands]
        end, text = time.monotonic() + timeout, ""
        try:
            for process in processes:
                text += process.communicate(timeout=max(0.1, end - time.monotonic()))[0]
        except subprocess.TimeoutExpired:
            failed("took over %d s: %s" % (timeout, " ".join(commands[0])))
            return None
        finally:
            stop(processes)
        if any(p.returncode for p in processes):
            errors.seek(0)
            failed("status %s: %s\n%s" % ([p.returncode for p in processes], " ".join(commands[0]),
                                          "".join(errors.readlines()[-5:])))
            return None
    return text


CALM_S = 5.0


def wait_for_calm():
    """Two quarters of a second in a row in which the machine is all but idle, if they come soon."""
    end, calm = time.monotonic() + CALM_S, 0
    while calm < 2 and time.monotonic() < end:
        others = busy_by_others()
        time.sleep(0.25)
        calm = calm + 1 if others() < 0.1 else 0


def busy_by_others():
    """Returns a function that tells the share of the machine that others used since."""
    def machine():
        fields = [int(x) for x in open("/proc/stat").readline().split()[1:]]
        return sum(fields), sum(fields) - fields[3] - fields[4]

    def ours():
        return 100 * sum(os.times()[:4])
    total, busy, own = *machine(), ours()
    return lambda: max(0.0, (machine()[1] - busy - (ours() - own)) / max(1, machine()[0] - total))


# ---- all-reduce ----

class Contenders:
    """name -> commands that make `ranks` processes of it in a place."""

    def __init__(self, programs, where, work):
        self.where, self.work, self.table = where, work, {}
        self.port = 20000
        if "bench_allreduce" in programs:
            setting = {"BENCH_INTERFACE": where.interface()}
            self.table["meshnode"] = (setting, self.ours(programs["bench_allreduce"]))
        if "tcp" in programs:
            for mode in ("poll", "thread"):
                self.table["tcp-" + mode] = ({"MODE": mode}, self.tcp(programs["tcp"]))
        if "gloo" in programs:
            for kind in ("ring", "ring_chunked", "halving_doubling", "bcube"):
                self.table["gloo-" + kind] = ({}, self.gloo(programs["gloo"], kind))
        if "openmpi" in programs and not where.count:
            self.table["openmpi-tcp"] = ({}, self.openmpi(programs["openmpi"]))

    def everywhere(self, ranks, command):
        return [self.where.inside(r, [str(x) for x in command(r)]) for r in range(ranks)]

    def ours(self, program):
        def commands(ranks):
            group = "bench%d-%d" % (os.getpid(), random.randrange(1 << 30))
            return self.everywhere(ranks, lambda r: [program, r, ranks, group])
        return commands

    def tcp(self, program):
        def commands(ranks):
            self.port = 20000 + (self.port - 20000 + 64) % 10000
            hosts = ",".join(self.where.host(r) for r in range(ranks))
            return self.everywhere(ranks, lambda r: [program, r, self.port, hosts])
        return commands

    def gloo(self, program, kind):
        def commands(ranks):
            meet = tempfile.mkdtemp(dir=self.work)
            return self.everywhere(ranks, lambda r: [program, r, ranks, self.where.host(r), meet, kind])
        return commands

    def openmpi(self, program):
        def commands(ranks):
            command = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-q",
                       "-np", str(ranks), "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"]
            if ranks > os.cpu_count():  # else its waiting ranks starve the working ones
                command += ["--mca", "mpi_yield_when_idle", "1"]
            return [self.where.inside(0, command + [program, "openmpi-tcp"])]
        return commands


def compare(contenders, ranks_list, rounds, env, options, timeout):
    """Returns {(name, ranks, bytes): {round: microseconds}}."""
    results = collections.defaultdict(dict)
    names = [n for n in contenders.table if re.search(options.only, n)]
    others = busy_by_others()
    for number in range(rounds):
        turns = [(n, r) for n in names for r in ranks_list]
        random.shuffle(turns)
        for name, ranks in turns:
            setting, commands = contenders.table[name]
            text = run_together(commands(ranks), {**env, **setting}, timeout)
            for line in (text or "").splitlines():
                field = line.split(",")
                if field[0] == "AR":
                    results[name, ranks, int(field[3])][number] = float(field[5])
                    record(options, number, name, line)
        print("  round %d of %d" % (number + 1, rounds), file=sys.stderr, flush=True)
    print("Other processes used %.0f %% of the machine meanwhile.\n" % (100 * others()))
    return results


def record(options, number, name, line):
    if options.csv:
        with open(options.csv, "a") as out:
            out.write("%d,%s,%s\n" % (number, name, line))


def best(results, prefix, ranks, size):
    """The contender of that family with the lowest median, and its rounds."""
    family = {n: v for (n, r, b), v in results.items() if n.startswith(prefix) and (r, b) == (ranks, size)}
    if not family:
        return None, {}
    name = min(family, key=lambda n: statistics.median(family[n].values()))
    return name, family[name]


def ratio(above, below):
    """Median over the rounds that both have of above / below."""
    common = [above[k] / below[k] for k in above if k in below]
    return statistics.median(common) if common else None


def judged(value, goal, strict=False):
    if value is None:
        return "–"
    if goal is None:
        return "%.2f" % value
    met = value > goal if strict else value >= goal
    if not met:
        MISSED.append("%.2f (goal %.2f)" % (value, goal))
    return "**%.2f** (%s %.2f%s)" % (value, ">" if strict else "≥", goal, "" if met else ", MISSED")


def microseconds(us):
    return "%.0f µs" % us if us < 1e3 else "%.2f ms" % (us / 1e3) if us < 1e5 else "%.0f ms" % (us / 1e3)


def size_name(size):
    return "%d MiB" % (size >> 20) if size >= 1 << 20 else "%d KiB" % (size >> 10)


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|---" * len(head) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def allreduce_table(results, ranks, goals):
    """`goals`: {prefix: function of size -> (goal, strict)}"""
    sizes = sorted({b for (_, r, b) in results if r == ranks})
    names = list(dict.fromkeys(n for (n, r, _) in results if r == ranks))
    rows = []
    for name in sorted(names, key=lambda n: (n != "meshnode", n)):
        cells = [results.get((name, ranks, b)) for b in sizes]
        rows.append([name] + [microseconds(statistics.median(c.values())) if c else "–" for c in cells])
    for prefix, (label, goal) in goals.items():
        cells = []
        for size in sizes:
            other = best(results, prefix, ranks, size)[1]
            mine = results.get(("meshnode", ranks, size), {})
            cells.append(judged(ratio(other, mine), *goal(size)))
        rows.append(["*" + label + "*"] + cells)
    print("%d processes, median time\n" % ranks)
    table([""] + [size_name(b) for b in sizes], rows)


MIB = 1 << 20
GOALS_LOOPBACK = {
    "tcp": ("bandwidth, ours / bare TCP", lambda b: (0.85, False) if b >= 16 * MIB else (None, False)),
    "gloo": ("Gloo's best time / ours", lambda b: (2.0, False) if b <= 4096 else
             (1.0, True) if b >= MIB else (None, False)),
    "openmpi": ("Open MPI's time / ours", lambda b: (1.0, True) if b >= 16 * MIB else (None, False)),
}


def part_allreduce(programs, options, work):
    print("## All-reduce, loopback\n")
    with place(0) as where:
        print("Congestion control %s. float32 sums; ours int32 sums, verified by checksum.\n"
              % where.congestion())
        env = {"BENCH_SIZES": options.sizes or ("4k,1m,16m" if options.quick else "4k,64k,1m,16m,100m"),
               "BENCH_BUDGET": "0.2" if options.quick else "0.4"}
        ranks_list = [int(r) for r in options.ranks.split(",")]
        results = compare(Contenders(programs, where, work), ranks_list,
                          options.rounds or (2 if options.quick else 7), env, options, 180)
        for ranks in ranks_list:
            allreduce_table(results, ranks, GOALS_LOOPBACK)


def part_link(programs, options, work):
    print("## All-reduce, four machines on 100 Mbit/s\n")
    rate, ranks = 100e6, 4
    with place(ranks, "100mbit") as where:
        if not where:
            return
        env = {"BENCH_SIZES": options.sizes or ("4m" if options.quick else "16m"), "BENCH_MIN": "2",
               "BENCH_BUDGET": "4"}
        contenders = Contenders(programs, where, work)
        for name in ("gloo-ring_chunked", "gloo-bcube"):
            contenders.table.pop(name, None)
        results = compare(contenders, [ranks], options.rounds or (1 if options.quick else 3), env, options, 180)
    goal = {"tcp": ("bandwidth, ours / bare TCP", lambda b: (0.98, False)),
            "gloo": ("Gloo's best time / ours", lambda b: (None, False))}
    allreduce_table(results, ranks, goal)
    rows = []
    for (name, _, size), rounds in sorted(results.items()):
        bound = 2 * (ranks - 1) / ranks * size * 8 / rate
        rows.append([name, size_name(size), "%.3f" % (statistics.median(rounds.values()) / 1e6 / bound)])
    print("Time as a multiple of the bound 2(n−1)/n · bytes / bandwidth (headers alone cost 1.05)\n")
    table(["", "size", "× bound"], rows)


# ---- training ----

IMAGES = "data: {source: glyphs, train: 4096, test: 256}"
TEXT = "data: {source: text, file: bench.txt, context: 128}"
MLP = """  - input: [1, 28, 28]
  - flatten
  - dense: 512
  - relu
  - dense: 256
  - relu
  - dense: 10
"""
CNN = """  - input: [1, 28, 28]
  - conv: {filters: 32, kernel: 5, pad: 2}
  - relu
  - maxpool: 2
  - conv: {filters: 64, kernel: 5, pad: 2}
  - relu
  - maxpool: 2
  - flatten
  - dense: 512
  - relu
  - dense: 10
"""
LSTM = """  - embedding: 64
  - lstm: 256
  - dense: 256
"""
GPT = """  - embedding: 128
  - positions: learned
""" + 4 * """  - residual: [layernorm, dense: 384, attention: 4, dense: 128]
  - residual: [layernorm, dense: 512, gelu: tanh, dense: 128]
""" + """  - layernorm
  - dense: {units: 256, bias: no, tied: yes}
"""


def conv(filters, stride=1):
    return "conv: {filters: %d, kernel: 3, stride: %d, pad: 1, bias: no}, batchnorm" % (filters, stride)


def residual(filters):
    return "residual: [%s, relu, %s], relu" % (conv(filters), conv(filters))


RESNET = "    [%s, relu, %s, relu, %s, %s, relu, %s, globalpool, dense: 10]\n" % (
    conv(16), conv(32, 2), residual(32), conv(64, 2), residual(64))
COLOURS = "data: {source: cifar10}"
# name: data, layers, samples per step, steps of a measurement, what PyTorch needs to know of the samples
MODELS = {
    "mlp": (IMAGES, MLP, 256, 400, []),
    "cnn": (IMAGES, CNN, 256, 24, []),
    "gpt": (TEXT, GPT, 32, 16, ["--input", "128", "--classes", "256", "--tokens"]),
    "resnet": (COLOURS, RESNET, 64, 60, ["--input", "3,32,32"]),
    "lstm": (TEXT, LSTM, 32, 60, ["--input", "128", "--classes", "256", "--tokens"]),
}


def write_text(folder):
    with open(os.path.join(folder, "bench.txt"), "wb") as out:
        out.write(bytes(random.Random(1).choices(range(97, 123), k=200000)))


def write_images(folder):
    """Files of CIFAR-10 with a label and noise per sample."""
    draw = random.Random(1)
    for name in ["data_batch_%d.bin" % (i + 1) for i in range(5)] + ["test_batch.bin"]:
        with open(os.path.join(folder, name), "wb") as out:
            for _ in range(128):
                out.write(bytes([draw.randrange(10)]) + draw.randbytes(3072))


def write_job(path, name, model, steps, exact=True, batch=0, shards=8, peers=1, group=""):
    data, layers, usual = MODELS[model][:3]
    with open(path, "w") as out:
        out.write("run: {name: %s, seed: 1}\n%s\n"
                  "model:\n%s"
                  "train:\n  loss: cross_entropy\n  epochs: 1000000\n  steps: %d\n  batch: %d\n"
                  "  shards: %d\n  optimizer: {sgd: {rate: 0.01, momentum: 0.9}}\n  exact: %s\n"
                  "  eval_every: 0\n"
                  "mesh: {topology: ring, peers: %d, gather_ms: 1, group: %s}\n"
                  % (name, data, layers, steps, batch or usual, shards, "yes" if exact else "no", peers,
                     group or "bench%d" % random.randrange(1 << 30)))


def steps_of(folder):
    with open(os.path.join(folder, "metrics.jsonl")) as lines:
        return [json.loads(line) for line in lines]


def seconds_per_step(folder, nodes):
    """Median, over blocks of steps, of wall time per step; the first fifth warms up. None if a measured step was not
    one of `nodes` nodes."""
    steps = steps_of(folder)
    steps = steps[len(steps) // 5:]
    for step in steps:
        if step["peers"] != nodes:
            failed("step %d was trained by %d nodes, expected %d" % (step["step"], step["peers"], nodes))
            return None
    times = [step["time_s"] for step in steps]
    block = max(1, len(times) // 12)
    marks = times[::block]
    return statistics.median((b - a) / block for a, b in zip(marks, marks[1:]))


def train_once(program, where, jobs, work, env=None, timeout=300):
    """One process per job file, together. Returns their folders, or None."""
    folders = [tempfile.mkdtemp(dir=work) for _ in jobs]
    commands = [where.inside(rank, [program, job, "--out", folder, "--data", work, "--threads", "1", "--quiet",
                                    "--interface", where.interface()])
                for rank, (job, folder) in enumerate(zip(jobs, folders))]
    return folders if run_together(commands, env or {}, timeout) is not None else None


def steps_for(model, options):
    return MODELS[model][3] // (4 if options.quick else 1)


def train_ours(programs, where, model, exact, options, work):
    job = os.path.join(work, "train.yaml")
    write_job(job, "bench", model, steps_for(model, options), exact, shards=options.shards)
    folders = train_once(programs["meshnode"], where, [job], work)
    seconds = seconds_per_step(folders[0], 1) if folders else None
    return MODELS[model][2] / seconds if seconds else None


def train_torch(programs, model, options, work):
    job = os.path.join(work, "torch.yaml")
    write_job(job, "bench", model, 1)
    text = run_together([[PYTHON_WITH_TORCH, programs["torch"], job, *MODELS[model][4], "--seconds",
                          "1" if options.quick else "3"]], {}, 120)
    line = re.search(r"^TR,.*", text or "", re.M)
    if not line:
        return None, "?"
    field = line[0].split(",")
    return float(field[6]), field[7]


def our_kernel(program, work, exact):
    """What run.numerics auto comes to here."""
    job = os.path.join(work, "kernel.yaml")
    write_job(job, "bench", "mlp", 1, exact)
    line = re.search(r"^kernel +(.*), numerics", quietly([program, "check", job]).stdout, re.M)
    return line[1] if line else "?"


TRAIN_GOALS = {("mlp", False): 1.5, ("mlp", True): 1.0, ("cnn", False): 1.0, ("cnn", True): 0.8,
               **{(model, exact): 0.85 if exact else 1.0 for model in ("lstm", "gpt", "resnet") for exact in (False, True)}}


def part_train(programs, options, work):
    if "meshnode" not in programs:
        return
    print("## Training, one process, one thread\n")
    write_text(work)
    write_images(work)
    rates, kernel = collections.defaultdict(dict), "?"
    others = busy_by_others()
    with place(0) as where:
        for number in range(options.rounds or (2 if options.quick else 5)):
            turns = [(m, e) for m in MODELS for e in (False, True)]
            turns += [(m, "torch") for m in MODELS] if "torch" in programs else []
            turns = [t for t in turns if re.search(options.only, t[0])]
            random.shuffle(turns)
            for model, kind in turns:
                if kind == "torch":
                    rate, kernel = train_torch(programs, model, options, work)
                else:
                    rate = train_ours(programs, where, model, kind, options, work)
                if rate:
                    rates[model, kind][number] = rate
                    record(options, number, "train", "TR,%s,%s,%.1f" % (model, kind, rate))
            print("  round %d" % (number + 1), file=sys.stderr, flush=True)
    ours = [our_kernel(programs["meshnode"], work, exact) for exact in (True, False)]
    print("Products: ours %s (exact: no: %s), PyTorch's %s. Ours: %d shards, the whole program. Other processes used "
          "%.0f %% of the machine meanwhile.\n" % (*ours, kernel, options.shards, 100 * others()))
    rows = []
    for model in MODELS:
        cells = [rates.get((model, kind), {}) for kind in ("torch", False, True)]
        medians = ["%.0f" % statistics.median(c.values()) if c else "–" for c in cells]
        ratios = [judged(ratio(cells[1 + e], cells[0]), TRAIN_GOALS[model, bool(e)]) for e in (0, 1)]
        rows.append([model] + medians + ratios)
    table(["samples/s", "PyTorch", "ours, exact: no", "ours, exact: yes", "exact: no / PyTorch",
           "exact: yes / PyTorch"], rows)


# ---- overlap ----

def slowest(folders, nodes):
    seconds = [seconds_per_step(f, nodes) for f in folders or []]
    return max(seconds) if seconds and all(seconds) else None


def part_overlap(programs, options, work):
    if "meshnode" not in programs or "bench_allreduce" not in programs:
        return
    print("## Overlap: CNN on two machines\n")
    steps, rounds, rows = (16 if options.quick else 40), options.rounds or (2 if options.quick else 5), []
    size = 4 * (832 + 51264 + 3136 * 512 + 512 + 5130)
    with place(2) as where:
        if not where:
            return
        alone = overlap_alone(programs, where, work, steps)
        if not alone:
            return
        rate = int(size * 8 / alone)
        where.rate("%dbit" % rate)
        for _ in range(rounds):
            compute = overlap_alone(programs, where, work, steps)
            transfer = overlap_transfer(programs, where, work, size)
            both = overlap_both(programs, where, work, steps)
            if compute and transfer and both:
                rows.append((compute, transfer, both))
    if not rows:
        return
    print("Link %.0f Mbit/s, %.1f MB per step. Both nodes compute, or send, at the same time in every column.\n"
          % (rate / 1e6, size / 1e6))
    compute, transfer, both = (statistics.median(column) for column in zip(*rows))
    over = statistics.median(b / max(c, t) for c, t, b in rows)
    goal = "≤ 1.15" if over <= 1.15 else "≤ 1.15, MISSED"
    share = overlap_between(programs)
    soonest = max(compute, share * compute + transfer)
    table(["compute alone", "transfer alone", "sum", "soonest", "step", "step / larger", "step / soonest"],
          [["%.1f ms" % (1e3 * x) for x in (compute, transfer, compute + transfer, soonest, both)] +
           ["**%.2f** (%s)" % (over, goal), "%.2f" % (both / soonest)]])
    print("Soonest: %.0f %% of computing lies between the sum of the first dense layer, which is nearly all that "
          "travels,\nand its next gradient; all else can go on meanwhile.\n" % (100 * share))
    if over > 1.15:
        MISSED.append("overlap %.2f (goal ≤ 1.15)" % over)


def overlap_between(programs):
    """Share of computing from the sum of the big layer to its next gradient: forward from there, and backward to
    it, the gradient of its weights (half of its backward) included."""
    if "bench_nn" not in programs:
        return 0
    share = 0
    text = run_together([[programs["bench_nn"], "cnn", "32", "4", "2", "int"]], {}, 60) or ""
    for line in reversed(text.splitlines()):
        field = re.match(r" +\d+\.(\w+) +forward +([\d.]+) % +backward +([\d.]+) %", line)
        if field:
            big = field[1] == "dense" and float(field[3]) > 1
            share += float(field[2]) + float(field[3]) / (2 if big else 1)
            if big:
                break
    return share / 100


def overlap_alone(programs, where, work, steps):
    """Each node half a batch, neither knows of the other."""
    jobs = [os.path.join(work, "alone%d.yaml" % r) for r in (0, 1)]
    for job in jobs:
        write_job(job, "alone", "cnn", steps, batch=128, shards=4)
    return slowest(train_once(programs["meshnode"], where, jobs, work), 1)


def overlap_transfer(programs, where, work, size):
    setting, commands = Contenders(programs, where, work).table["meshnode"]
    env = {**setting, "BENCH_SIZES": str(size), "BENCH_MIN": "8", "BENCH_BUDGET": "2"}
    text = run_together(commands(2), env, 120)
    line = re.search(r"^AR,.*", text or "", re.M)
    return float(line[0].split(",")[5]) / 1e6 if line else None


def overlap_both(programs, where, work, steps):
    jobs = [os.path.join(work, "both.yaml")] * 2
    write_job(jobs[0], "both", "cnn", steps, peers=2)
    return slowest(train_once(programs["meshnode"], where, jobs, work), 2)


# ---- main ----

def machine():
    model = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read())
    print("Machine: %d × %s, Linux %s, %s.\n" % (os.cpu_count(), model[1] if model else os.uname().machine,
                                               os.uname().release, time.strftime("%Y-%m-%d")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="allreduce, link, train, overlap")
    parser.add_argument("--build", default=os.environ.get("BUILD", "build/gcc"))
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--sizes", default="")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--csv", default="")
    parser.add_argument("--calm", type=float, default=CALM_S)
    options = parser.parse_args()
    unknown = [p for p in options.parts if p not in PARTS]
    if unknown:
        parser.error("%s is not a part (%s)" % (unknown[0], ", ".join(PARTS)))
    if os.path.isabs(options.build):
        options.build = os.path.relpath(options.build, ROOT)  # as the rules of the Makefile name it

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that namespaces are removed
    globals()["CALM_S"] = options.calm
    programs = build(options)
    machine()
    work = tempfile.mkdtemp(prefix="meshnode-bench-")
    try:
        for part in options.parts or PARTS:
            globals()["part_" + part](programs, options, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    for miss in MISSED:
        loud("goal missed: " + miss)
    for failure in FAILED:
        loud("failed: " + failure)
    return 1 if FAILED or (MISSED and options.check) else 0


if __name__ == "__main__":
    sys.exit(main())

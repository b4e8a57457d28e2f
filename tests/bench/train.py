"""Training: one process against PyTorch, several against its DDP, and how much of a transfer computing hides."""
import collections
import json
import os
import random
import re
import statistics
import sys
import tempfile
import threading
import time

from allreduce import Contenders
from common import (HERE, MISSED, ROOT, busy_by_others, failed, instructions, load, loud, median_and_best, place, quietly,
                    record, run_together, table)
from models import MODELS, batch_of, write_images, write_job, write_text

OURS = {"exact": {}, "inexact": {"exact": False}, "bf16": {"precision": "bf16"}}  # what write_job is told
KINDS = ("eager", "tuned", "compile", "autocast", *OURS)
EXACT_GOALS = {"mlp": 1.1, "cnn": 1.6, "resnet": 1.3, "lstm": 1.4, "gpt": 1.5}  # against eager, one thread; tuned: 1.0
TICKS = os.sysconf("SC_CLK_TCK")


# ---- one run of ours ----

class Watch(threading.Thread):
    """Processor time and memory of a node by steps: what it had used when a line of its metrics appeared."""

    def __init__(self, process, folder):
        super().__init__(daemon=True)
        self.path, self.pid = os.path.join(folder, "metrics.jsonl"), process.pid
        self.points, self.peak_mb = [], 0
        self.start()

    def run(self):
        lines = position = 0
        while True:
            try:
                with open("/proc/%d/stat" % self.pid) as file:
                    fields = file.read().rsplit(")", 1)[1].split()
                with open("/proc/%d/status" % self.pid) as file:
                    peak = re.search(r"VmHWM:\s*(\d+)", file.read())
            except OSError:
                return  # it has ended
            if peak:
                self.peak_mb = int(peak[1]) / 1024
            if os.path.exists(self.path):
                with open(self.path, "rb") as file:
                    file.seek(position)
                    text = file.read()
                position, before, lines = position + len(text), lines, lines + text.count(b"\n")
                if lines > before:
                    self.points.append((lines, (int(fields[11]) + int(fields[12])) / TICKS))
            time.sleep(0.005)

    def seconds_per_step(self):
        """After the first fifth, which warms up; None if there were too few steps."""
        self.join(5)
        points = [p for p in self.points if p[0] >= self.points[-1][0] / 5]
        if len(points) < 2:
            return None
        return (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])


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


def train_once(program, where, jobs, work, env=None, timeout=300, threads=1, watches=None):
    """One process per job file, together. Returns their folders, or None. Fills the list `watches`."""
    folders = [tempfile.mkdtemp(dir=work) for _ in jobs]
    commands = [where.inside(rank, [program, job, "--out", folder, "--data", work, "--threads", str(threads), "--quiet",
                                    "--interface", where.interface()])
                for rank, (job, folder) in enumerate(zip(jobs, folders))]

    def started(processes):
        if watches is not None:
            watches.extend(Watch(p, folder) for p, folder in zip(processes, folders))
    return folders if run_together(commands, env or {}, timeout, started) is not None else None


def steps_for(model, options):
    return MODELS[model][3] // (4 if options.quick else 1)


def train_ours(programs, where, model, kind, threads, options, work):
    """{"rate", "cpu_rate", "peak_mb"}, or None"""
    job, watches = os.path.join(work, "train.yaml"), []
    write_job(job, "bench", model, steps_for(model, options), shards=options.shards, **OURS[kind])
    folders = train_once(programs["meshnode"], where, [job], work, instructions(options.simd), 300, threads, watches)
    seconds = seconds_per_step(folders[0], 1) if folders else None
    cpu = watches[0].seconds_per_step() if seconds else None
    if not cpu:
        return None
    batch = batch_of(model, options.shards)
    return {"rate": batch / seconds, "cpu_rate": batch / cpu, "peak_mb": watches[0].peak_mb}


# ---- one run of PyTorch ----

def torch_commands(programs, model, options, work, *arguments):
    job = os.path.join(work, "torch.yaml")
    write_job(job, "bench", model, 1, shards=options.shards)
    return [programs["torch"], os.path.join(HERE, "torch_train.py"), job, *MODELS[model][4], *arguments]


def torch_results(text):
    return [json.loads(line[3:]) for line in (text or "").splitlines() if line.startswith("TR ")]


def train_torch(programs, model, kind, threads, options, work):
    command = torch_commands(programs, model, options, work, "--threads", str(threads), "--seconds",
                             "1" if options.quick else "3", *([] if kind == "eager" else ["--" + kind]))
    env = {**instructions(options.simd), "TORCHINDUCTOR_CACHE_DIR": os.path.join(ROOT, "build", "inductor")}
    found = torch_results(run_together([command], env, 900))
    return found[0] if found else None


def our_kernel(program, work, exact, simd):
    """What run.numerics auto comes to here."""
    job = os.path.join(work, "kernel.yaml")
    write_job(job, "bench", "mlp", 1, exact)
    variables = ["%s=%s" % pair for pair in instructions(simd).items()]
    line = re.search(r"^kernel +(.*), numerics", quietly(["env", *variables, program, "check", job]).stdout, re.M)
    return line[1] if line else "?"


# ---- one process ----

def measure_training(programs, options, work):
    """Returns {(model, kind, threads): {round: result}}, and what PyTorch computed with."""
    results, kernels, cannot = collections.defaultdict(dict), "?", set()
    threads = [int(t) for t in options.threads.split(",")]
    with place(0) as where:
        for number in range(options.rounds or (2 if options.quick else 5)):
            turns = [(m, k, t) for m in MODELS for k in KINDS for t in threads
                     if re.search(options.only, m) and re.search(options.kinds, k) and (m, k) not in cannot
                     and ("torch" in programs or k in OURS)]
            random.shuffle(turns)
            for model, kind, count in turns:
                if kind in OURS:
                    one = train_ours(programs, where, model, kind, count, options, work)
                else:
                    one = train_torch(programs, model, kind, count, options, work)
                    kernels = one.get("kernels", kernels) if one else kernels
                if one and "cannot" in one:
                    loud("NOT MEASURED: %s, PyTorch %s: %s" % (model, kind, one["cannot"]))
                    cannot.add((model, kind))
                elif one:
                    results[model, kind, count][number] = one
                    record(options, number, "train", "TR,%s,%s,%d,%.1f,%.1f,%.0f" % (
                        model, kind, count, one["rate"], one["cpu_rate"], one["peak_mb"]))
            print("  round %d" % (number + 1), file=sys.stderr, flush=True)
    return results, kernels


def median_text(rates):
    """And the slowest and the fastest round."""
    if not rates:
        return "–"
    text = "%.0f" % statistics.median(rates.values())
    return text if len(rates) < 2 else "%s (%.0f..%.0f)" % (text, min(rates.values()), max(rates.values()))


RATIOS = [("exact", b) for b in ("eager", "tuned", "compile", "inexact")] + [("bf16", "autocast"), ("bf16", "exact")]
NAMES = {"exact": "ours, exact", "inexact": "ours, exact: no", "bf16": "ours, bf16"}


def training_rows(results, threads, shards, what):
    """One row per model: rates in `what` ("rate" by the clock, "cpu_rate" by processor time), and ratios."""
    rows = []
    for model in MODELS:
        of = {k: {n: r[what] for n, r in results.get((model, k, threads), {}).items()} for k in KINDS}
        if not any(of.values()):
            continue
        goals = {"eager": EXACT_GOALS[model], "tuned": 1.0, "compile": 1.0, "inexact": 0.95} if threads == 1 else {}
        rows.append(["%s, batch %d" % (model, batch_of(model, shards)), *(median_text(of[k]) for k in KINDS)] +
                    [median_and_best(of[a], of[b], goals.get(b) if a == "exact" else None) for a, b in RATIOS])
    return rows


def scaling_and_memory_rows(results, threads):
    rows = []
    for model in MODELS:
        row = [model]
        for kind in KINDS:
            one, more = ({n: r["rate"] for n, r in results.get((model, kind, t), {}).items()} for t in (1, threads))
            row.append(median_and_best(more, one, 1.8 if kind == "exact" else None) if one and more else "–")
        row += ["%.0f" % max(r["peak_mb"] for r in results[model, k, 1].values()) if results.get((model, k, 1)) else "–"
                for k in KINDS]
        rows.append(row)
    return rows


def one_process(programs, options, work):
    if "meshnode" not in programs:
        return
    print("## Training, one process\n")
    write_text(work)
    write_images(work)
    others = busy_by_others()
    results, kernels = measure_training(programs, options, work)
    ours = [our_kernel(programs["meshnode"], work, exact, options.simd) for exact in (True, False)]
    print("Ours: %s (exact: no: %s), %d shards, the whole program. %s. %s\n" % (
        *ours, options.shards, kernels, load(others)))
    names = [NAMES.get(kind, kind) for kind in KINDS]
    counts = [int(t) for t in options.threads.split(",")]
    for count in counts:
        for what, label in (("rate", "samples per second"), ("cpu_rate", "samples per second of processor time")):
            print("%d thread%s, %s; median (slowest..fastest round); ratios: median,"
                  " lowest..highest of the rounds / best against best\n"
                  % (count, "s" * (count > 1), label))
            table(["", *names, *("%s / %s" % pair for pair in RATIOS)],
                  training_rows(results, count, options.shards, what))
    if len(counts) > 1 and counts[0] == 1:
        print("%d threads against 1, and peak memory of one thread in MB\n" % counts[-1])
        table(["", *names, *("MB " + n for n in names)], scaling_and_memory_rows(results, counts[-1]))


# ---- several processes ----

DDP_GOALS = {("mlp", 2): 1.1, ("cnn", 2): 1.1}


def ddp(programs, where, model, ranks, options, work):
    """Samples per second of all ranks together."""
    port, steps = random.randrange(20000, 30000), steps_for(model, options)
    command = torch_commands(programs, model, options, work, "--ranks", str(ranks), "--port", str(port),
                             "--steps", str(steps))
    commands = [where.inside(0, [*command, "--rank", str(rank)]) for rank in range(ranks)]
    found = torch_results(run_together(commands, instructions(options.simd), 300))
    return sum(one["rate"] for one in found) if len(found) == ranks else None


def mesh(programs, where, model, ranks, options, work):
    job = os.path.join(work, "mesh.yaml")
    write_job(job, "mesh", model, steps_for(model, options), shards=options.shards, peers=ranks)
    folders = train_once(programs["meshnode"], where, [job] * ranks, work, instructions(options.simd))
    seconds = slowest(folders, ranks)
    return batch_of(model, options.shards) / seconds if seconds else None


def processes(programs, options, work):
    if "meshnode" not in programs or "torch" not in programs:
        return
    print("## Training, several processes of one thread on loopback\n")
    write_text(work)
    write_images(work)
    others, results = busy_by_others(), collections.defaultdict(dict)
    ranks_list = [int(r) for r in options.ranks.split(",")]
    models = [m for m in ("mlp", "cnn") if re.search(options.only, m)]
    with place(0) as where:
        for number in range(options.rounds or (2 if options.quick else 5)):
            turns = [(f, m, r) for f in (ddp, mesh) for m in models for r in ranks_list]
            random.shuffle(turns)
            for f, model, ranks in turns:
                rate = f(programs, where, model, ranks, options, work)
                if rate:
                    results[f, model, ranks][number] = rate
                    record(options, number, "processes", "PR,%s,%s,%d,%.1f" % (f.__name__, model, ranks, rate))
            print("  round %d" % (number + 1), file=sys.stderr, flush=True)
    print("Batch of the model over all processes, %d CPUs. %s\n" % (os.cpu_count(), load(others)))
    rows = []
    for model in models:
        for ranks in ranks_list:
            theirs, ours = results[ddp, model, ranks], results[mesh, model, ranks]
            rows.append(["%s, batch %d" % (model, batch_of(model, options.shards)), str(ranks), median_text(theirs),
                         median_text(ours), median_and_best(ours, theirs, DDP_GOALS.get((model, ranks)))])
    table(["samples per second", "processes", "PyTorch DDP (Gloo)", "ours, exact", "ours / DDP, median / best"], rows)


# ---- overlap ----

def slowest(folders, nodes):
    seconds = [seconds_per_step(f, nodes) for f in folders or []]
    return max(seconds) if seconds and all(seconds) else None


def overlap(programs, options, work):
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
    write_job(jobs[0], "both", "cnn", steps, shards=8, peers=2)
    return slowest(train_once(programs["meshnode"], where, jobs, work), 2)

"""The jobs of configs/pipeline-*.yaml in 2 and 4 stages, one process of one thread each, beside PyTorch's
torch.distributed.pipelining over Gloo: the same model, batch, optimizer and clip_norm, on one loopback; PyTorch with the number of
micro-batches that is fastest.

The GPT has a matrix of its own above (`tied: no`): a model whose first and last stage share a weight has one process less
here, and none of PyTorch's schedules can do it."""
import collections
import os
import random
import re
import statistics
import sys

from common import (HERE, ROOT, busy_by_others, failed, load, loud, median_and_best, place, record, run_together,
                    table)
from models import write_text
from train import median_text, steps_of, torch_results, train_once

CONVOLUTIONS = """  - conv: {filters: 16, kernel: 5, pad: 2}
  - relu
  - maxpool: 2
  - conv: {filters: 32, kernel: 5, pad: 2}
  - relu
  - maxpool: 2
  - flatten
  - dense: 256
  - relu
  - dense: 10
"""
JOBS = {  # file, what torch_pipeline.py must know of samples, what differs in the file: pairs of a pattern and its text
    "MLP": ("pipeline-4.yaml", [], ()),
    "wide MLP": ("pipeline-4.yaml", [], [("dense: 256", "dense: 1024")]),
    "CNN": ("pipeline-4.yaml", [], [(r"(?s)  - flatten\n.*?(?=train:)", CONVOLUTIONS)]),
    "GPT": ("pipeline-gpt.yaml", ["--input", "64", "--classes", "256", "--tokens"], ()),
}
RIVALS = {"1F1B": ("1f1b", 1), "ZB-H1": ("zb", 1), "interleaved ZB": ("zb", 2), "ZBV": ("zbv", 2)}
OURS = ("zb", "1f1b")
STEPS = {False: (120, 60), True: (60, 30)}  # ours and theirs, which take longer; and with --quick
BLOCKS, WARM, GOAL, TIMEOUT = 12, 5, 1.0, 600
FASTEST = {}  # (job, rival, stages): micro-batches, which the first round finds


def write_job(path, job, stages, schedule="zb", steps=1):
    with open(os.path.join(ROOT, "configs", JOBS[job][0])) as config:
        text = config.read().replace("configs/README.md", "bench.txt").replace("tied: yes", "tied: no")
    for pattern, new in JOBS[job][2]:
        text = re.sub(pattern, new, text)
    text = re.sub(r"\n  (schedule|warmup): .*", "", text)
    text = re.sub(r"\n  epochs: .*", "\n  epochs: 1000000\n  steps: %d\n  eval_every: 0" % steps, text)
    with open(path, "w") as out:
        out.write(re.sub(r"\nmesh: .*", "\nmesh: {stages: %d, schedule: %s, peers: %d, gather_ms: 1, division: even, group: bench%d}" % (
            stages, schedule, stages, random.randrange(1 << 30)), text))


def number_of(path, key):
    return int(re.search(r"\n  %s: +(\d+)" % key, open(path).read())[1])


def batch_of(path):
    return number_of(path, "batch")


def counted_rate(folder, stages, batch):
    """Samples per second after a first fifth, the median of blocks; None if the node did not compute one stage of each step."""
    steps = steps_of(folder)
    steps = steps[len(steps) // WARM:]
    for step in steps:
        part = step.get("pipeline", {})
        if step["peers"] != stages or part.get("stages") != stages or len(part["mine"]) != 1:
            failed("step %d was not one of %d stages on as many nodes: %s" % (step["step"], stages, step))
            return None
    block = max(1, len(steps) // BLOCKS)
    marks = [step["time_s"] for step in steps][::block]
    return batch * block / statistics.median(b - a for a, b in zip(marks, marks[1:]))


def ours(programs, where, job, schedule, stages, steps, work):
    """Samples per second, and per second of processor time of all processes together; or None."""
    path, watches = os.path.join(work, "stages.yaml"), []
    write_job(path, job, stages, schedule, steps)
    folders = train_once(programs["meshnode"], where, [path] * stages, work, timeout=TIMEOUT, watches=watches)
    rates = [counted_rate(folder, stages, batch_of(path)) for folder in folders or []]
    cpu = [watch.seconds_per_step() for watch in watches]
    return (min(rates), batch_of(path) / sum(cpu)) if rates and all(rates) and all(cpu) else None


def theirs(programs, where, job, rival, stages, steps, work):
    """The same, with as many micro-batches as are fastest: those of ours, or one or two for each stage."""
    path = os.path.join(work, "stages.yaml")
    write_job(path, job, stages)
    batch, shards = batch_of(path), number_of(path, "shards")
    known = FASTEST.get((job, rival, stages))
    counts = [known] if known else sorted({m for m in (stages, 2 * stages, shards) if batch % m == 0})
    found = {m: theirs_in(programs, where, path, job, rival, stages, steps, m) for m in counts}
    found = {m: rates for m, rates in found.items() if rates}
    if not found:
        return None
    best = max(found, key=lambda m: found[m][0])
    FASTEST[job, rival, stages] = best
    return found[best]


def theirs_in(programs, where, path, job, rival, stages, steps, micro):
    schedule, virtual = RIVALS[rival]
    command = [programs["torch"], os.path.join(HERE, "torch_pipeline.py"), path, *JOBS[job][1], "--ranks", str(stages),
               "--steps", str(steps), "--schedule", schedule, "--virtual", str(virtual), "--micro", str(micro),
               "--port", str(random.randrange(20000, 30000))]
    text = run_together([where.inside(rank, [*command, "--rank", str(rank)]) for rank in range(stages)],
                        {"GLOO_SOCKET_IFNAME": where.interface()}, TIMEOUT)
    found = torch_results(text)
    if len(found) < stages:
        return None
    return min(one["rate"] for one in found), 1 / sum(1 / one["cpu_rate"] for one in found)


def measure(programs, options, work):
    """{(job, stages): {contender: {round: (samples per second, per second of processor time)}}}"""
    results = collections.defaultdict(lambda: collections.defaultdict(dict))
    contenders = [(ours, schedule) for schedule in OURS] + [(theirs, rival) for rival in RIVALS]
    with place(0) as where:
        for number in range(options.rounds or (1 if options.quick else 5)):
            turns = [(job, stages, *who) for job in JOBS if re.search(options.only, job) for stages in (2, 4)
                     for who in contenders]
            random.shuffle(turns)
            for job, stages, run, name in turns:
                rates = run(programs, where, job, name, stages, STEPS[options.quick][run == theirs], work)
                if rates:
                    results[job, stages][name][number] = rates
                    record(options, number, "pipeline", "PT,%s,%d,%s,%.1f,%.1f" % (job, stages, name, *rates))
                print("  %s, %d stages, %s: %s samples/s, load %.0f" % (job, stages, name, rates, os.getloadavg()[0]),
                      file=sys.stderr, flush=True)
    return results


def rows_of(results, which, goal):
    """`which`: 0 by the clock, 1 by processor time."""
    rows = []
    for (job, stages), rates in sorted(results.items()):
        found = {name: {n: both[which] for n, both in rates[name].items()} for name in (*OURS, *RIVALS)}
        rounds = {n for rival in RIVALS for n in found[rival]}
        best = {n: max(found[rival][n] for rival in RIVALS if n in found[rival]) for n in rounds}
        micro = {name: ", m = %d" % FASTEST[job, name, stages] for name in RIVALS if (job, name, stages) in FASTEST}
        rows.append(["%s, %d stages" % (job, stages), *(median_text(found[name]) + micro.get(name, "") for name in found),
                     median_and_best(found["1f1b"], found["1F1B"], goal), median_and_best(found["zb"], best, goal)])
    return rows


def torch_table(programs, options, work):
    if "torch" not in programs or "meshnode" not in programs:
        loud("NOT MEASURED: pipeline beside PyTorch")
        return
    write_text(work)
    others, results = busy_by_others(), measure(programs, options, work)
    print("### Beside torch.distributed.pipelining over Gloo, processes of one thread, %d CPUs\n\n%s\n" % (
        os.cpu_count(), load(others)))
    for which, label, goal in ((0, "samples per second", GOAL), (1, "per second of processor time", None)):
        table([label, *("ours, " + name for name in OURS), *("PyTorch, " + name for name in RIVALS),
               "1f1b / 1F1B", "zb / the best of PyTorch's"], rows_of(results, which, goal))

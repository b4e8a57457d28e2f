"""A pipeline: an item from stage to stage; how idle real nodes are, and a step on slow lines, with pieces of fixed duration.

Each piece sleeps (failpoint build), so that two CPUs can run four stages at once; everything else is real. A forward, a
gradient of the input and one of the weights take one unit each, a whole backward two."""
import os
import random
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from common import (MISSED, ROOT, busy_by_others, failed, load, loud, microseconds, place, quietly, ratio, run_together,
                    table)
from pipeline_torch import torch_table
from quota import Quota  # noqa: E402
from train import steps_of

PIECE_MS = 20
STEPS, WARM = 6, 2
SCHEDULES = ("gpipe", "1f1b", "zb")
JOB = """run: {name: bench, seed: 1}
data: {source: glyphs, train: %(train)d, test: 10}
model:
  - input: [1, 28, 28]
  - maxpool: 4
  - flatten
%(layers)s
train: {loss: cross_entropy, epochs: 1000, steps: %(steps)d, batch: %(batch)d, shards: %(shards)d, eval_every: 0,
        optimizer: {sgd: {rate: 0.01}}}
mesh: {stages: %(stages)d, schedule: %(schedule)s, peers: %(stages)d, gather_ms: 1, division: %(division)s, group: bench%(group)d}
"""


def write_job(path, stages, shards, schedule, layers, rows, steps=STEPS + WARM, division="even"):
    with open(path, "w") as out:
        out.write(JOB % {"layers": "\n".join("  - dense: %d" % units for units in layers), "steps": steps,
                         "batch": rows * shards, "shards": shards, "stages": stages, "schedule": schedule, "division": division,
                         "train": rows * shards * (1000 // (rows * shards) + 1), "group": random.randrange(1 << 30)})


def run_nodes(programs, where, work, stages, shards, schedule, layers, rows=1):
    """[[steps of a node]], without those that warm up; None if one did not compute the pieces of one stage, or slowly."""
    job = os.path.join(work, "pipeline.yaml")
    write_job(job, stages, shards, schedule, layers, rows)
    folders = [tempfile.mkdtemp(dir=work) for _ in range(stages)]
    commands = [where.inside(rank, [programs["failnode"], job, "--out", folder, "--quiet", "--threads", "1",
                                    "--interface", where.interface()]) for rank, folder in enumerate(folders)]
    env = {"MESHNODE_FAIL": "piece:1+:sleep=%d" % PIECE_MS}
    if run_together(commands, env, 60 + 5 * STEPS) is None:
        return None
    nodes = [steps_of(folder)[WARM:] for folder in folders]
    least = 3 * shards * PIECE_MS / 1e3
    for steps in nodes:
        seconds = statistics.median(step["compute_s"] for step in steps) if steps else 0
        one_plan = len({step["plan"] for step in steps}) == 1 and all(step["peers"] == stages for step in steps)
        if len(steps) < STEPS or not one_plan or seconds < least:
            failed("%s, %d shards: not all steps were computed by one plan of %d nodes" % (schedule, shards, stages))
            return None
        if seconds > 1.5 * least:
            loud("NOT MEASURED: %s, %d stages, %d shards: the machine is busy, pieces of %.2f s took %.2f s"
                 % (schedule, stages, shards, least, seconds))
            return None
    return nodes


def predicted(programs, schedule, stages, shards, *line):
    """Seconds of a step and idle share, by steptime.h."""
    text = quietly([programs["bench_steptime"], schedule, *(str(x) for x in (stages, shards, 1000 * PIECE_MS, *line))])
    _, step_us, idle = text.stdout.split(",")
    return float(step_us) / 1e6, float(idle)


def step_seconds(nodes):
    return statistics.median(b["time_s"] - a["time_s"] for steps in nodes for a, b in zip(steps, steps[1:]))


def judged_at_most(value, limit, form="%.3f"):
    met = value <= limit
    if not met:
        MISSED.append("pipeline " + (form + " (goal ≤ " + form + ")") % (value, limit))
    return ("**" + form + "** (≤ " + form + "%s)") % (value, limit, "" if met else ", MISSED")


def judged_at_least(value, limit):
    met = value >= limit
    if not met:
        MISSED.append("pipeline %.2f (goal ≥ %.2f)" % (value, limit))
    return "**%.2f** (≥ %.2f%s)" % (value, limit, "" if met else ", MISSED")


def idle_of(step):
    return step["wait_s"] / (step["compute_s"] + step["wait_s"])


def idle_table(programs, options, work):
    """The share of a step in which a node waits: the mean over nodes, the median over steps."""
    others, rows = busy_by_others(), []
    with place(0) as where:
        for stages in (2, 4):
            for shards in (4, 8) if options.quick else (4, 8, 32):
                for schedule in SCHEDULES:
                    nodes = run_nodes(programs, where, work, stages, shards, schedule, [16] * (2 * stages - 1) + [10])
                    if not nodes:
                        continue
                    idle = statistics.median(statistics.mean(idle_of(step) for step in steps)
                                             for steps in zip(*nodes))
                    formula = (stages - 1) / (shards + stages - 1)
                    limit = formula / 2 if schedule == "zb" else formula + 0.05
                    step, least = predicted(programs, schedule, stages, shards)
                    rows.append(["%d" % stages, "%d" % shards, schedule, "%.3f" % formula, "%.3f" % least,
                                 judged_at_most(idle, limit), "%.2f" % (step_seconds(nodes) / step)])
    print("### Idle share of real nodes, pieces of %d ms\n\n%s\n" % (PIECE_MS, load(others)))
    table(["stages k", "shards m", "schedule", "(k-1)/(m+k-1)", "steptime.h", "measured", "step / predicted step"], rows)


def handover(programs, where, arguments):
    """Microseconds: the median of one run."""
    commands = [where.inside(0, [programs["bench_handover"], str(rank), *arguments]) for rank in (0, 1)]
    text = run_together(commands, {"BENCH_INTERFACE": where.interface()}, 60)
    return float(text.split(",")[5]) if text else None


def handover_table(programs, options, work):
    """1 MiB from one stage to the next, on loopback, beside the same bytes on bare TCP."""
    others, ours, tcp = busy_by_others(), {}, {}
    with place(0) as where:
        for number in range(options.rounds or (3 if options.quick else 7)):
            group, port = "handover%d" % random.randrange(1 << 30), str(20000 + random.randrange(10000))
            a, b = handover(programs, where, [group]), handover(programs, where, [port, "127.0.0.1"])
            if a and b:
                ours[number], tcp[number] = a, b
    print("### Hand-over of 1 MiB\n\n%s\n" % load(others))
    if ours:
        table(["bare TCP", "ours", "ours / bare TCP"],
              [[microseconds(statistics.median(tcp.values())), microseconds(statistics.median(ours.values())),
                judged_at_most(ratio(ours, tcp), 1.15, "%.2f")]])


WIDE, ROWS, RATE = 732, 64, 100e6  # what a shard hands over takes 15 ms of a piece's 20


def line_table(programs, options, work):
    """Two balanced stages; what crosses is as long on the line as three quarters of a piece."""
    others, rows, layers = busy_by_others(), [], [8, WIDE, 8, 10]
    params = sum(a * b + b for a, b in zip([49] + layers, layers))
    with place(2, "%dbit" % RATE) as where:
        if not where:
            return
        for shards in (4, 8) if options.quick else (4, 8, 32):
            for schedule in SCHEDULES:
                nodes = run_nodes(programs, where, work, 2, shards, schedule, layers, ROWS)
                if not nodes:
                    continue
                step, _ = predicted(programs, schedule, 2, shards, 4 * ROWS * WIDE, int(RATE / 8), int(params * 4 * 8e6 / RATE))
                sent = statistics.median(s["tx_bytes"] for s in nodes[0])
                if sent < 4 * ROWS * WIDE * shards:
                    failed("a node sent %d bytes in a step: the model is not cut where it should be" % sent)
                seconds = step_seconds(nodes)
                rows.append(["%d" % shards, schedule, "%.0f ms" % (1e3 * step), "%.0f ms" % (1e3 * seconds),
                             judged_at_most(seconds / step, 1.15, "%.2f")])
    print("### Two stages on a bridge at %.0f Mbit/s, %.0f ms of transfer each way per shard\n\n%s\n"
          % (RATE / 1e6, 4 * ROWS * WIDE * 8e3 / RATE, load(others)))
    table(["shards", "schedule", "predicted", "measured", "measured / predicted"], rows)


SHARES, QUOTA_STEPS, SETTLED = (0.8, 0.4), 60, 20  # of a CPU; the steps before the last 20 are for the mesh to find its cuts


def with_quotas(programs, where, work, division):
    """Seconds of a step of two stages, one of which has half the CPU of the other; and how they were cut."""
    job = os.path.join(work, "quota.yaml")
    write_job(job, 2, 16, "zb", [512] * 8 + [10], 32, QUOTA_STEPS, division)
    folders = [tempfile.mkdtemp(dir=work) for _ in SHARES]
    quotas = [Quota("stages%d-%d" % (os.getpid(), rank), share) for rank, share in enumerate(SHARES)]
    try:
        commands = [quota.inside(where.inside(0, [programs["meshnode"], job, "--out", folder, "--quiet", "--threads", "1",
                                                  "--interface", where.interface()]))
                    for quota, folder in zip(quotas, folders)]
        if run_together(commands, {}, 300) is None:
            return None
    finally:
        for quota in quotas:
            quota.remove()
    steps = steps_of(folders[0])[-SETTLED:]
    if len(steps) < SETTLED or any(step["peers"] != len(SHARES) for step in steps):
        failed("two stages, division %s: not all of the last steps were of two nodes" % division)
        return None
    return statistics.median(b["time_s"] - a["time_s"] for a, b in zip(steps, steps[1:]))


def quota_table(programs, options, work):
    """One node at half of the CPU: the cut that the mesh finds beside the equal one."""
    if not Quota.usable():
        loud("NOT MEASURED: a slow stage: no cgroup with a CPU quota can be made here (root)")
        return
    others, even, found = busy_by_others(), {}, {}
    with place(0) as where:
        for number in range(options.rounds or (1 if options.quick else 3)):
            a, b = (with_quotas(programs, where, work, division) for division in ("even", "speed"))
            if a and b:
                even[number], found[number] = a, b
    print("### Two stages, with %.1f and %.1f of a CPU\n\n%s\n" % (*SHARES, load(others)))
    if even:
        table(["step, equal cut", "step, the mesh's cut", "equal / the mesh's"],
              [["%.0f ms" % (1e3 * statistics.median(t.values())) for t in (even, found)]
               + [judged_at_least(ratio(even, found), 1.2)]])


def pipeline(programs, options, work):
    print("## Pipeline\n")
    names = ("bench_steptime", "bench_handover")
    paths = ["%s/tests/bench/%s" % (options.build, name) for name in names]
    done = quietly(["make", "-s", "B=" + options.build, "failpoints", *paths])
    if done.returncode:
        loud("NOT MEASURED: pipeline: %s" % (done.stdout.splitlines() or ["?"])[-1])
        return
    programs = {**programs, **{name: os.path.join(ROOT, path) for name, path in zip(names, paths)}}
    programs["failnode"] = os.path.join(ROOT, options.build + "-fail/meshnode")
    handover_table(programs, options, work)
    idle_table(programs, options, work)
    line_table(programs, options, work)
    quota_table(programs, options, work)
    torch_table(programs, options, work)

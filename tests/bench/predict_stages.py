#!/usr/bin/env python3
"""Does a step of a pipeline take as long as `meshnode check --peers N` says?

    predict_stages.py [--plans 30] [--first 0] [--seed 1] [--check]

Draws models of dense layers and convolutions, a number of stages, nodes, shards, rows and a schedule. Real nodes in namespaces with
lines of 100 Mbit/s train each of them; in the same build `check` predicts. A piece sleeps for some milliseconds in both (failpoint
*piece*), so that two CPUs are enough for all nodes; everything else is real. The lesser of two predictions counts, one before and one
after the measurement: others who use the machine only make it longer. --check: status 1 when a prediction is more than a
tenth off. Needs root."""
import argparse
import json
import os
import random
import re
import shutil
import signal
import statistics
import sys
import tempfile

from common import CALM, FAILED, MISSED, ROOT, busy_by_others, failed, load, place, run_together, table

GOAL, STEPS, WARM, LINE = 0.1, 8, 3, "100mbit"
PARAMS_MAX = 400000  # so that sums do not take longer than all else
JOB = """run: {name: predict, seed: 1}
data: {source: glyphs, train: %(train)d, test: 10}
model:
  - input: [1, 28, 28]
%(layers)s
train: {epochs: 1000, steps: %(steps)d, batch: %(batch)d, shards: %(shards)d, eval_every: 0, optimizer: {sgd: {rate: 0.01}}}
mesh: {stages: %(stages)d, schedule: %(schedule)s, peers: %(nodes)d, gather_ms: 1, division: even, group: predict%(group)d}
"""


# ---- plans ----

def draw_layers(draw, count):
    """Lines of a model of so many layers with weights, and about how many weights it has."""
    lines, width, params = ["maxpool: 4"], 49, 0
    if draw.random() < 0.3:
        filters = draw.choice((2, 4, 8))
        lines, width, params = ["conv: {filters: %d, kernel: 5, pad: 2}" % filters, "relu", "maxpool: 4"], 49 * filters, 26 * filters
        count -= 1
    lines.append("flatten")
    for units in [draw.choice((8, 16, 64, 200, 400)) for _ in range(count - 1)] + [10]:
        lines += ["dense: %d" % units] + (["relu"] if draw.random() < 0.5 else [])
        params, width = params + (width + 1) * units, units
    return lines if lines[-1] != "relu" else lines[:-1], params


def draw_plan(draw):
    stages = draw.choice((2, 3, 4))
    nodes = stages + draw.choice((0, 0, 1, 2))
    shards, rows = draw.choice((4, 6, 8, 12, 16)), draw.choice((1, 2, 8, 32))
    params = PARAMS_MAX + 1
    while params > PARAMS_MAX:
        layers, params = draw_layers(draw, draw.randint(stages + 1, 8))
    return {"stages": stages, "nodes": nodes, "shards": shards, "batch": rows * shards, "schedule": draw.choice(("gpipe", "1f1b", "zb")),
            "layers": "\n".join("  - " + line for line in layers), "steps": STEPS + WARM, "train": 2000 // (rows * shards) * rows * shards,
            "group": draw.randrange(1 << 30), "piece_ms": draw.randint(8, 30), "params": params}


# ---- predicted, and measured ----

def predicted(program, plan, job):
    """Seconds of a step."""
    text = run_together([[program, "check", job, "--threads", "1", "--peers", str(plan["nodes"])]], fail(plan), 120)
    said = re.search(r"^ *on 100 Mbit/s: (.*)", text or "", re.M)
    found = re.search(r"\b%d nodes ([0-9.e-]+) s" % plan["nodes"], said[1]) if said else None
    return float(found[1]) if found else None


def fail(plan):
    return {"MESHNODE_FAIL": "piece:1+:sleep=%d" % plan["piece_ms"]}


def measured(program, where, plan, job, work):
    folders = [tempfile.mkdtemp(dir=work) for _ in range(plan["nodes"])]
    commands = [where.inside(rank, [program, job, "--out", folder, "--quiet", "--threads", "1", "--interface", where.interface()])
                for rank, folder in enumerate(folders)]
    if run_together(commands, fail(plan), 180) is None:
        return None
    times = []
    for folder in folders:
        with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as lines:
            steps = [json.loads(line) for line in lines][WARM:]
        for step in steps:
            if step["peers"] != plan["nodes"] or step.get("pipeline", {}).get("stages", 1) != plan["stages"]:
                failed("step %d was not one of %d nodes in %d stages" % (step["step"], plan["nodes"], plan["stages"]))
                return None
        times += [b["time_s"] - a["time_s"] for a, b in zip(steps, steps[1:])]
    return statistics.median(times)


def row(number, program, plan, work):
    job = os.path.join(work, "predict.yaml")
    with open(job, "w", encoding="utf-8") as out:
        out.write(JOB % plan)
    with place(plan["nodes"], LINE) as where:
        if not where:
            return None
        before, took, after = predicted(program, plan, job), measured(program, where, plan, job, work), predicted(program, plan, job)
    if not before or not took or not after:
        return None
    said = min(before, after)
    far = abs(said / took - 1) > GOAL
    if far:
        MISSED.append("plan %d: predicted %.3f s, measured %.3f s" % (number, said, took))
    return [str(number), *(str(plan[key]) for key in ("stages", "nodes", "shards", "schedule", "params")), "%d ms" % plan["piece_ms"],
            "%.3f s" % said, "%.3f s" % took, "%.2f%s" % (said / took, " MISSED" if far else "")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", type=int, default=30)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "gcc-fail", "meshnode"), help="of make failpoints")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that namespaces are removed
    CALM["seconds"] = 0
    work, others, rows = tempfile.mkdtemp(prefix="meshnode-predict-"), busy_by_others(), []
    try:
        for number in range(options.first, options.first + options.plans):
            rows.append(row(number, options.program, draw_plan(random.Random("%d %d" % (options.seed, number))), work))
            print("  %s, load %.0f" % (rows[-1], os.getloadavg()[0]), file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    rows = [one for one in rows if one]
    table(["plan", "stages", "nodes", "shards", "schedule", "weights", "a piece", "a step, predicted", "measured",
           "predicted / measured"], rows)
    print("%d of %d predictions are within a tenth. %s" % (len(rows) - len(MISSED), options.plans, load(others)))
    return 1 if FAILED or (options.check and MISSED) else 0


if __name__ == "__main__":
    sys.exit(main())

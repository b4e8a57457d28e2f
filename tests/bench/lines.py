#!/usr/bin/env python3
"""Is the mesh on slow lines as fast as the better of "all four" and "one alone", and always equally fast?

    lines.py [--cases alike,line,cpu] [--jobs mlp:36,mlp:200,cnn:36,cnn:200] [--runs 10] [--rate 100mbit] [--check]
    lines.py --predict [--nodes 2,3,4,6,8] [--lines 10mbit,100mbit,1gbit] [--models mlp,cnn] [--check]
    lines.py --start [--lines 10mbit,20mbit,100mbit,1gbit] [--models mlp,wide,cnn] [--codecs none,int8,sparse,onebit,powersgd]
             [--defaults auto] [--seconds 19.5] [--runs 5] [--check]

Four nodes in namespaces with lines of 100 Mbit/s train a job with default settings; all four with equal shares; and one node
alone: interleaved. Cases: all alike; the line of one node has 10 Mbit/s; one node has a fifth of the CPU of the others. A run
counts from the end of the first step to the end of the last one, at the first node that has it. Equal shares are measured in a
few steps of all four (–: there was none). *Changes*: in how many steps other nodes trained than in the step before.

--predict: what `meshnode check --peers N` says that a step takes, against a mesh in which all train with equal shares. The
nodes share 80 % of the CPUs by quotas.

--start: how many steps three nodes of 0.4 CPU each make in the first --seconds, counted from the start of the processes: with
default settings and each of --defaults as mesh.compress; all three with equal shares and each of --codecs, the best of which
counts; and one alone without a codec. Interleaved, medians. --check: status 1 when a goal is missed. Needs root."""
import argparse
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from common import (CALM, FAILED, MISSED, ROOT, busy_by_others, failed, load, loud, place, run_together, table,  # noqa: E402
                    wait_for_calm)
from exchange import EVEN, NODES, trained  # noqa: E402
from models import write_job  # noqa: E402
from quota import Quota  # noqa: E402

SLOW_LINE, SHARE, SLOW = "10mbit", 0.4, 5
EVEN_STEPS = 10  # enough to know how long a step takes
STEPS_PREDICT = 8
GOAL_SPREAD, GOAL_BETTER, GOAL_PREDICTED, GOAL_START = 1.3, 1.1, 0.15, 0.95
LINES = {"10mbit": "10 Mbit/s", "100mbit": "100 Mbit/s", "1gbit": "1 Gbit/s"}  # as check calls them


# ---- one run ----

def shares(count, share, slow=1):
    """Quotas of `count` nodes; the last one has a `slow` th."""
    return [Quota("lines%d-%d" % (os.getpid(), r), share / (slow if r == count - 1 else 1)) for r in range(count)]


def run(options, where, model, steps, settings, nodes, quotas, work):
    job = os.path.join(work, "lines.yaml")
    write_job(job, "lines", model, steps, peers=nodes)
    return trained({"meshnode": options.program}, where, job, settings, work, nodes, quotas)


def ends(lines):
    """{step: when the first node had it}, of training steps."""
    out = {}
    for line in (line for node in lines for line in node if line["samples"]):
        out[line["step"]] = min(line["time_s"], out.get(line["step"], float("inf")))
    return out


def seconds(lines):
    """From the end of the first step to that of the last one."""
    at = ends(lines)
    return at[max(at)] - at[min(at)]


def step_of_all(lines, nodes):
    """The median of the steps after one of all nodes that were of all, too."""
    at, few = ends(lines), {line["step"] for node in lines for line in node if line["peers"] != nodes}
    whole = [at[step] - at[step - 1] for step in at if not {step, step - 1} & few and step - 1 in at]
    return statistics.median(whole) if whole else None


def changes(lines):
    """How often others computed a step than the step before."""
    who = {}
    for rank, node in enumerate(lines):
        for line in node:
            if line["samples"] and int(line["shards"], 16):
                who.setdefault(line["step"], set()).add(rank)
    return sum(who[step] != who.get(step - 1, who[step]) for step in who)


# ---- the mesh beside the better of two ----

def measure(options, where, case, model, steps, work):
    """{contender: [(seconds, changes), ...]}"""
    found = {"mesh": [], "all": [], "alone": []}
    for number in range(options.runs):
        for name in found:
            many = min(steps, EVEN_STEPS) if name == "all" else steps
            nodes = 1 if name == "alone" else NODES
            quotas = shares(nodes, SHARE, SLOW if nodes > 1 else 1) if case == "cpu" else None
            try:
                lines = run(options, where, model, many, [EVEN] if name == "all" else [], nodes, quotas, work)
            finally:
                for quota in quotas or []:
                    quota.remove()
            if lines and name == "all":
                step = step_of_all(lines, NODES)
                found[name] += [(step * (steps - 1), 0)] if step else []
            elif lines:
                found[name].append((seconds(lines), changes(lines)))
            print("  %s, %s, %d steps, run %d: %s %s, load %.0f" % (
                case, model, steps, number + 1, name, found[name][-1:], os.getloadavg()[0]), file=sys.stderr, flush=True)
    return found


def row(case, model, steps, found):
    times = sorted(took for took, _ in found["mesh"])
    if not found["mesh"] or not found["alone"]:
        return [case, model, str(steps)] + 8 * ["–"]
    others = {name: statistics.median(took for took, _ in found[name]) for name in ("all", "alone") if found[name]}
    better = min(others.values())
    spread, ratio = times[-1] / times[0], statistics.median(times) / better
    for value, goal, what in ((spread, GOAL_SPREAD, "slowest / fastest"), (ratio, GOAL_BETTER, "median / the better")):
        if value > goal:
            MISSED.append("%s, %s, %d steps: %s %.2f (goal %.1f)" % (case, model, steps, what, value, goal))
    return [case, model, str(steps), *("%.2f s" % t for t in (times[0], statistics.median(times), times[-1])),
            "%.2f" % spread, *("%.2f s" % others[n] if n in others else "–" for n in ("all", "alone")),
            "%.2f" % ratio, "%.1f" % statistics.mean(many for _, many in found["mesh"])]


def cases(options, work):
    rows = []
    for case in options.cases.split(","):
        if case == "cpu" and not Quota.usable():
            loud("NOT MEASURED: a slow CPU: no cgroup with a CPU quota can be made here (root)")
            continue
        with place(NODES, options.rate) as where:
            if not where:
                continue
            if case == "line":
                where.line(NODES - 1, SLOW_LINE)
            for job in options.jobs.split(","):
                model, steps = job.split(":")
                rows.append(row(case, model, int(steps), measure(options, where, case, model, int(steps), work)))
    table(["case", "job", "steps", "fastest", "median", "slowest", "slowest / fastest", "all, even", "one alone",
           "median / the better", "changes"], rows)


# ---- from the start ----

def steps_in(where, model, settings, nodes, seconds, work, program):
    """The step that the mesh has come to after so many seconds."""
    job, quotas = os.path.join(work, "lines.yaml"), shares(nodes, SHARE)
    write_job(job, "lines", model, 1000000, peers=nodes)
    folders = [tempfile.mkdtemp(dir=work) for _ in range(nodes)]
    words = [word for pair in settings for word in ("--set", pair)]
    wait_for_calm()
    begin, processes = time.monotonic(), []
    try:
        for rank, folder in enumerate(folders):
            own = [program, job, "--out", folder, "--threads", "1", "--interface", where.interface(), *words]
            with open(os.path.join(folder, "log"), "w", encoding="utf-8") as log:
                processes.append(subprocess.Popen(quotas[rank].inside(where.inside(rank, own)), stdout=log, stderr=log))
        time.sleep(max(0, begin + seconds - time.monotonic()))
        if os.environ.get("LINES_KEEP"):
            print([sum(map(int, open("/proc/%d/stat" % p.pid).read().split()[13:15])) / 100 for p in processes])
        ended = [process.poll() for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
        for quota in quotas:
            quota.remove()
    if any(status is not None for status in ended):
        failed("%s ended with %s" % (" ".join(settings), ended))
    last = 0
    for folder in folders:
        try:
            with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as lines:
                last = max([last] + [int(step) for step in re.findall(r'^{"step":(\d+),', lines.read(), re.M)])
        except OSError:
            pass
        if not os.environ.get("LINES_KEEP"):
            shutil.rmtree(folder, ignore_errors=True)
    return last


def start_row(options, where, line, model, work):
    turns = [("default " + name, ["mesh.compress=" + name], 3) for name in options.defaults.split(",")]
    turns += [("all " + name, ["mesh.compress=" + name, EVEN], 3) for name in options.codecs.split(",") if name]
    turns += [("alone", [], 1)]
    found = {name: [] for name, _, _ in turns}
    for number in range(options.runs):
        for name, settings, nodes in turns:
            found[name].append(steps_in(where, model, settings, nodes, options.seconds, work, options.program))
            print("  %s, %s, run %d: %s %d steps, load %.0f" % (line, model, number + 1, name, found[name][-1],
                                                                os.getloadavg()[0]), file=sys.stderr, flush=True)
    medians = {name: statistics.median(steps) for name, steps in found.items()}
    best = max((name for name in medians if name.startswith("all ")), key=medians.get, default="alone")
    better = max(medians[best], medians["alone"], 1)
    cells = [line, model, "%.0f" % medians["alone"], "%.0f (%s)" % (medians[best], best[4:])]
    for name, steps in medians.items():
        if name.startswith("default "):
            cells += ["%.0f (%s)" % (steps, " ".join(str(n) for n in found[name])), "%.2f" % (steps / better)]
            if steps < GOAL_START * better:
                MISSED.append("%s, %s: %s makes %.2f of the steps of the better (goal %.2f)" % (
                    line, model, name, steps / better, GOAL_START))
    return cells


def starts(options, work):
    if not Quota.usable():
        loud("NOT MEASURED: starts: no cgroup with a CPU quota can be made here (root)")
        return
    rows = []
    for line in options.lines.split(","):
        with place(3, line) as where:
            for model in options.models.split(",") if where else []:
                rows.append(start_row(options, where, line, model, work))
    defaults = [cell for name in options.defaults.split(",") for cell in ("default, " + name, "of the better")]
    table(["line", "model", "one alone", "all, best codec"] + defaults, rows)


# ---- predicted beside measured ----

def share_of(nodes):
    return min(1, 0.8 * os.cpu_count() / nodes)


def predicted(options, where, model, nodes, line, work):
    """Seconds of a step of so many nodes on this line, as check says; None: it does not."""
    job = os.path.join(work, "lines.yaml")
    write_job(job, "lines", model, 1)
    quota = shares(1, share_of(nodes))[0]
    try:
        command = where.inside(0, [options.program, "check", job, "--threads", "1", "--peers", str(nodes)])
        text = run_together([quota.inside(command)], {}, 120)
    finally:
        quota.remove()
    said = re.search(r"^ *on %s: (.*)" % re.escape(LINES[line]), text or "", re.M)
    found = re.search(r"\b%d nodes ([0-9.]+) s" % nodes, said[1]) if said else None
    return float(found[1]) if found else None


def measured(options, where, model, nodes, work):
    quotas = shares(nodes, share_of(nodes))
    try:
        lines = run(options, where, model, STEPS_PREDICT, [EVEN], nodes, quotas, work)
    finally:
        for quota in quotas:
            quota.remove()
    return step_of_all(lines, nodes) if lines else None


def predictions(options, work):
    if not Quota.usable():
        loud("NOT MEASURED: predictions: no cgroup with a CPU quota can be made here (root)")
        return
    rows = []
    for line in options.lines.split(","):
        for nodes in [int(n) for n in options.nodes.split(",")]:
            with place(nodes, line) as where:
                for model in options.models.split(",") if where else []:
                    one, two = predicted(options, where, model, nodes, line, work), measured(options, where, model, nodes, work)
                    far = abs(one / two - 1) > GOAL_PREDICTED if one and two else True
                    if far:
                        MISSED.append("%s, %d nodes, %s: predicted %s, measured %s" % (LINES[line], nodes, model, one, two))
                    rows.append([LINES[line], str(nodes), model, *("%.3f s" % t if t else "–" for t in (one, two)),
                                 "%.2f%s" % (one / two, " MISSED" if far else "") if one and two else "–"])
                    print("  " + ", ".join(rows[-1]), file=sys.stderr, flush=True)
    table(["line", "nodes", "model", "a step, predicted", "measured", "predicted / measured"], rows)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="alike,line,cpu")
    parser.add_argument("--jobs", default="mlp:36,mlp:200,cnn:36,cnn:200")
    parser.add_argument("--runs", type=int, default=None)
    parser.add_argument("--rate", default="100mbit")
    parser.add_argument("--predict", action="store_true")
    parser.add_argument("--nodes", default="2,3,4,6,8")
    parser.add_argument("--lines", default=None)
    parser.add_argument("--models", default=None)
    parser.add_argument("--start", action="store_true")
    parser.add_argument("--codecs", default="none,int8,sparse,onebit,powersgd")
    parser.add_argument("--defaults", default="auto")
    parser.add_argument("--seconds", type=float, default=19.5)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--program", default=os.environ.get("MESHNODE", os.path.join(ROOT, "build", "gcc", "meshnode")))
    options = parser.parse_args()
    options.runs = options.runs or (5 if options.start else 10)
    options.lines = options.lines or ("10mbit,20mbit,100mbit,1gbit" if options.start else ",".join(LINES))
    options.models = options.models or ("mlp,wide,cnn" if options.start else "mlp,cnn")
    return options


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that namespaces are removed
    CALM["seconds"] = 0
    work, others = tempfile.mkdtemp(prefix="meshnode-lines-"), busy_by_others()
    try:
        (starts if options.start else predictions if options.predict else cases)(options, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print("%d CPUs. %s" % (os.cpu_count(), load(others)))
    for text in MISSED:
        loud("missed: " + text)
    return 1 if FAILED or (MISSED and options.check) else 0


if __name__ == "__main__":
    sys.exit(main())

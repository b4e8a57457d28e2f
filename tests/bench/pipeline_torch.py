"""The jobs of configs/pipeline-*.yaml in 2 and 4 stages, one process of one thread each, beside PyTorch's
torch.distributed.pipelining over Gloo: the same model, batch, micro-batches, optimizer and clip_norm, on one loopback.

The GPT has a matrix of its own above (`tied: no`): a model whose first and last stage share a weight has one process less
here, and none of PyTorch's schedules can do it."""
import collections
import os
import random
import re
import statistics
import sys

from common import HERE, ROOT, busy_by_others, failed, load, loud, median_and_best, place, run_together, table
from exchange import trained
from models import write_text
from train import median_text, torch_results

JOBS = {  # file, what torch_pipeline.py must know of samples
    "MLP": ("pipeline-4.yaml", []),
    "GPT": ("pipeline-gpt.yaml", ["--input", "64", "--classes", "256", "--tokens"]),
}
RIVALS = {"1F1B": ("1f1b", 1), "ZB-H1": ("zb", 1), "interleaved ZB": ("zb", 2), "ZBV": ("zbv", 2)}
OURS = ("zb", "1f1b")
STEPS = {False: (120, 60), True: (60, 30)}  # ours and theirs, which take longer; and with --quick
BLOCKS, WARM, GOAL, TIMEOUT = 12, 5, 1.0, 600


def write_job(path, job):
    with open(os.path.join(ROOT, "configs", JOBS[job][0])) as config, open(path, "w") as out:
        text = config.read().replace("configs/README.md", "bench.txt").replace("tied: yes", "tied: no")
        out.write(re.sub(r"\n  (schedule|warmup): .*", "", text))


def batch_of(path):
    return int(re.search(r"\n  batch: +(\d+)", open(path).read())[1])


def counted_rate(nodes, stages, batch):
    """Samples per second after a first fifth, the median of blocks; None if not all computed a stage in each step."""
    rates = []
    for steps in nodes:
        steps = [step for step in steps if step["samples"]]
        steps = steps[len(steps) // WARM:]
        for step in steps:
            part = step.get("pipeline", {})
            if step["peers"] != stages or part.get("stages") != stages or len(part["mine"]) != 1:
                failed("step %d was not one of %d stages on as many nodes: %s" % (step["step"], stages, step))
                return None
        block = max(1, len(steps) // BLOCKS)
        marks = [step["time_s"] for step in steps][::block]
        rates.append(batch * block / statistics.median(b - a for a, b in zip(marks, marks[1:])))
    return min(rates)


def ours(programs, where, job, schedule, stages, steps, work):
    path = os.path.join(work, "stages.yaml")
    write_job(path, job)
    settings = ["train.epochs=1000000", "train.steps=%d" % steps, "train.eval_every=0", "mesh.stages=%d" % stages,
                "mesh.schedule=" + schedule, "mesh.peers=%d" % stages, "mesh.gather_ms=1", "mesh.division=even",
                "mesh.group=bench%d" % random.randrange(1 << 30)]
    nodes = trained(programs, where, path, settings, work, stages, data=work)
    return counted_rate(nodes, stages, batch_of(path)) if nodes else None


def theirs(programs, where, job, rival, stages, steps, work):
    path = os.path.join(work, "stages.yaml")
    write_job(path, job)
    schedule, virtual = RIVALS[rival]
    command = [programs["torch"], os.path.join(HERE, "torch_pipeline.py"), path, *JOBS[job][1], "--ranks", str(stages),
               "--steps", str(steps), "--schedule", schedule, "--virtual", str(virtual),
               "--port", str(random.randrange(20000, 30000))]
    text = run_together([where.inside(rank, [*command, "--rank", str(rank)]) for rank in range(stages)],
                        {"GLOO_SOCKET_IFNAME": where.interface()}, TIMEOUT)
    found = torch_results(text)
    return min(one["rate"] for one in found) if len(found) == stages else None


def measure(programs, options, work):
    """{(job, stages): {contender: {round: samples per second}}}"""
    results = collections.defaultdict(lambda: collections.defaultdict(dict))
    contenders = [(ours, schedule) for schedule in OURS] + [(theirs, rival) for rival in RIVALS]
    with place(0) as where:
        for number in range(options.rounds or (1 if options.quick else 5)):
            turns = [(job, stages, *who) for job in JOBS if re.search(options.only, job) for stages in (2, 4)
                     for who in contenders]
            random.shuffle(turns)
            for job, stages, run, name in turns:
                rate = run(programs, where, job, name, stages, STEPS[options.quick][run == theirs], work)
                if rate:
                    results[job, stages][name][number] = rate
                print("  %s, %d stages, %s: %s samples/s, load %.0f" % (
                    job, stages, name, rate and round(rate), os.getloadavg()[0]), file=sys.stderr, flush=True)
    return results


def torch_table(programs, options, work):
    if "torch" not in programs:
        loud("NOT MEASURED: pipeline beside PyTorch")
        return
    write_text(work)
    others, results, rows = busy_by_others(), measure(programs, options, work), []
    for (job, stages), found in sorted(results.items()):
        one = found["zb"]
        best = {n: max(found[r][n] for r in RIVALS if n in found[r]) for n in one if any(n in found[r] for r in RIVALS)}
        rows.append(["%s, %d stages" % (job, stages), *(median_text(found[name]) for name in (*OURS, *RIVALS)),
                     median_and_best(found["1f1b"], found["1F1B"], GOAL), median_and_best(one, best, GOAL)])
    print("### Beside torch.distributed.pipelining over Gloo, one thread a process, %d CPUs\n\n%s\n" % (
        os.cpu_count(), load(others)))
    table(["samples per second", *("ours, " + name for name in OURS), *("PyTorch, " + name for name in RIVALS),
           "1f1b / 1F1B", "zb / the best of PyTorch's"], rows)

"""Codecs of mesh.compress: what they cost, and a step on slow lines beside PyTorch's DDP and its hooks."""
import collections
import os
import random
import statistics
import sys
import tempfile

from common import (ROOT, busy_by_others, failed, judged, load, loud, place, quietly, ratio, run_together, table)
from models import batch_of, write_job
from train import slowest, steps_of, torch_commands, torch_results

NODES, STEPS, WARMUP = 4, 75, 4
SPEEDS = {"fp16": 0.15, "bf16": 0.15, "int16": 0.15, "int8": 0.15, "qsgd": 0.03, "terngrad": 0.03, "sparse": 0.03,
          "topk": 0.08, "onebit": 0.15, "randk": 0.08}
OURS = ("none", "int16", "int8", "terngrad", "sparse", "topk", "onebit", "powersgd", "auto")
HOOKS = ("none", "fp16", "powersgd1", "powersgd4")


def speed_table(programs):
    others = busy_by_others()
    text = run_together([[programs["bench_codec"]]], {}, 120) or ""
    rows = []
    for line in text.splitlines():
        _, name, share, encode, decode, both = line.split(",")
        rows.append([name, share, encode, decode, judged(float(both), SPEEDS.get(name))])
    print("### One core, shares of memcpy of the floats\n\n%s\n" % load(others))
    table(["codec", "bytes of int32, one shard", "encode", "decode", "both"], rows)


def ours(programs, where, codec, options, work):
    """Samples per second and bytes of a step; None if not all nodes took part."""
    job = os.path.join(work, "codec.yaml")
    write_job(job, "codec", "mlp", STEPS, shards=options.shards, peers=NODES)
    folders = [tempfile.mkdtemp(dir=work) for _ in range(NODES)]
    warmup = ["--set", "mesh.compress_warmup=%d" % WARMUP] if codec != "none" else []
    commands = [where.inside(rank, [programs["meshnode"], job, "--out", folder, "--quiet", "--threads", "1", "--interface",
                                    where.interface(), "--set", "mesh.division=even", "--set", "mesh.compress=" + codec,
                                    *warmup])
                for rank, folder in enumerate(folders)]
    if run_together(commands, {}, 600) is None:
        return None
    seconds = slowest(folders, NODES)
    if not seconds:
        return None
    sent = statistics.median(step["tx_bytes"] for folder in folders for step in steps_of(folder)[STEPS // 5:])
    return batch_of("mlp", options.shards) / seconds, sent


def ddp(programs, where, hook, options, work):
    port = random.randrange(20000, 30000)
    command = torch_commands(programs, "mlp", options, work, "--ranks", str(NODES), "--port", str(port), "--steps", str(STEPS),
                             "--hook", hook, "--host", where.host(0))
    commands = [where.inside(rank, [*command, "--rank", str(rank)]) for rank in range(NODES)]
    found = torch_results(run_together(commands, {"GLOO_SOCKET_IFNAME": where.interface()}, 600))
    if len(found) < NODES or any("rate" not in one for one in found):
        failed("DDP with the hook %s: not all ranks trained" % hook)
        return None
    return sum(one["rate"] for one in found), 0


def line_table(programs, options, work, rate, ours_of, hooks):
    others, results, sent = busy_by_others(), collections.defaultdict(dict), {}
    with place(NODES, "%dmbit" % rate) as where:
        if not where:
            return
        for number in range(options.rounds or (1 if options.quick else 3)):
            turns = [(ours, codec) for codec in ours_of] + [(ddp, hook) for hook in hooks if "torch" in programs]
            random.shuffle(turns)
            for f, name in turns:
                found = f(programs, where, name, options, work)
                if found:
                    results[f, name][number], sent[f, name] = found
            print("  %d Mbit/s, round %d" % (rate, number + 1), file=sys.stderr, flush=True)
    print("### Four machines at %d Mbit/s, MLP 784-512-256-10, batch %d\n\n%s\n"
          % (rate, batch_of("mlp", options.shards), load(others)))
    rows = []
    for f, name in results:
        theirs = results[ours, "none"]
        rows.append([("ours, " if f is ours else "DDP, hook ") + name, "%.0f" % statistics.median(results[f, name].values()),
                     "%.2f MB" % (sent[f, name] / 1e6) if f is ours else "–", "%.2f" % (ratio(results[f, name], theirs) or 0)])
    table(["", "samples per second", "sent by a node in a step", "of ours, none"], sorted(rows))
    best = max((c for f, c in results if f is ours), key=lambda c: statistics.median(results[ours, c].values()), default=None)
    for f, hook in results:
        value = ratio(results[ours, best], results[f, hook]) if f is ddp and best else None
        if value:
            print("%s beside DDP with the hook %s: %s" % (best, hook, judged(value, 1.0)))
    print(flush=True)


def codec(programs, options, work):
    print("## Codecs\n")
    path = "%s/tests/bench/bench_codec" % options.build
    done = quietly(["make", "-s", "B=" + options.build, path])
    if done.returncode:
        loud("NOT MEASURED: codec: %s" % (done.stdout.splitlines() or ["?"])[-1])
        return
    speed_table({**programs, "bench_codec": os.path.join(ROOT, path)})
    line_table(programs, options, work, 100, OURS, HOOKS)
    line_table(programs, options, work, 10, ("none", "int8", "sparse", "topk", "powersgd", "auto"), () if options.quick else ("fp16", "powersgd1"))

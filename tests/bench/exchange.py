"""Ways to exchange: sums round the ring and by servers; a job trained in every way beside PyTorch's DDP and hivemind; and what
one-peer gossip sends."""
import argparse
import collections
import json
import os
import random
import re
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import allreduce  # noqa: E402
from common import (HERE, MISSED, ROOT, busy_by_others, failed, load, loud, median_and_best, place,  # noqa: E402
                    quietly, record, run_together, table)
from models import batch_of, write_job  # noqa: E402

MODEL, NODES = "mlp", 4
EVEN = "mesh.division=even"  # else a mesh on a slow line trains with fewer nodes, and that is what would be measured
INT8 = ["mesh.compress=int8", "mesh.compress_warmup=4"]
ONE_PEER = ["mesh.topology=gossip", "gossip.graph=one-peer"]
WAYS = {"ring": [EVEN], "ring, int8": [EVEN, *INT8], "servers": ["mesh.topology=server", "mesh.servers=4", EVEN],
        "servers, int8": ["mesh.topology=server", "mesh.servers=4", EVEN, *INT8], "gossip, one-peer": ONE_PEER,
        "gossip, async": ["mesh.topology=gossip", "mesh.sync=async"]}
ALONE = "one node alone"
LINKS = {"loopback": (0, None, 240), "100 Mbit/s": (NODES, "100mbit", 200)}  # namespaces, rate, steps


# ---- one run of ours ----

def mlp(steps, nodes, options, work):
    job = os.path.join(work, "exchange.yaml")
    write_job(job, "exchange", MODEL, steps, shards=options.shards, peers=nodes)
    return job


def trained(programs, where, job, settings, work, nodes=NODES, quotas=None):
    """The lines of the metrics of each node, or None."""
    folders = [tempfile.mkdtemp(dir=work) for _ in range(nodes)]
    commands = []
    for rank, folder in enumerate(folders):
        own = [programs["meshnode"], job, "--out", folder, "--threads", "1", "--quiet", "--interface", where.interface()]
        own = where.inside(rank, own + [word for pair in settings for word in ("--set", pair)])
        commands.append(quotas[rank].inside(own) if quotas else own)
    if run_together(commands, {}, 600) is None:
        return None
    return [[json.loads(line) for line in open(os.path.join(f, "metrics.jsonl"))] for f in folders]


def ours(programs, where, job, settings, work, nodes=NODES):
    """The same, if all trained in all steps that count."""
    lines = trained(programs, where, job, settings, work, nodes)
    return lines if lines and all_took_part(lines, nodes, " ".join(settings) or "ring") else None


def counted(lines):
    """Of each node the lines without the first fifth of the steps, in which the nodes meet, and the last twentieth, in
    which those that wait for nobody leave one by one."""
    steps = max(line["step"] for node in lines for line in node)
    return [[line for line in node if steps // 5 < line["step"] <= steps - steps // 20] for node in lines]


def all_took_part(lines, nodes, name):
    """Says whether in each counted step of each node all nodes were members, and had shards."""
    for rank, node in enumerate(counted(lines)):
        few = [line["step"] for line in node if line["peers"] != nodes or not int(line["shards"], 16)]
        if few or not node:
            failed("%s: %d of %d counted steps of node %d were not trained by all %d nodes, the first is %s" % (
                name, len(few), len(node), rank, nodes, few[:1] or "missing"))
            return False
    return True


def rate_of(lines, batch):
    """Samples per second of the whole mesh in the counted steps."""
    lines = [line for node in counted(lines) for line in node]
    steps, times = [line["step"] for line in lines], [line["time_s"] for line in lines]
    return batch * (max(steps) - min(steps)) / max(1e-9, max(times) - min(times))


def sent_per_step(lines):
    """Bytes of the mean node."""
    steps = max(line["step"] for node in lines for line in node)
    return sum(line["tx_bytes"] for node in lines for line in node) / len(lines) / steps


# ---- one run of PyTorch ----

def rival(kind):
    def run(programs, where, steps, options, work):
        job = os.path.join(work, "torch.yaml")
        write_job(job, "bench", MODEL, 1, shards=options.shards)
        port, meet = random.randrange(20000, 30000), os.path.join(tempfile.mkdtemp(dir=work), "meet")
        commands = []
        for rank in range(NODES):
            own = [programs[kind], os.path.join(HERE, "torch_train.py"), job, "--ranks", str(NODES), "--rank", str(rank),
                   "--port", str(port), "--host", where.host(0), "--own-host", where.host(rank), "--steps", str(steps)]
            commands.append(where.inside(rank, own + (["--hivemind", meet] if kind == "hivemind" else [])))
        text = run_together(commands, {"GLOO_SOCKET_IFNAME": where.interface()}, 600) or ""
        found = [json.loads(line[3:]) for line in text.splitlines() if line.startswith("TR ")]
        cannot = [one["cannot"] for one in found if "cannot" in one]
        if cannot:
            loud("NOT MEASURED: " + cannot[0])
        return sum(one["rate"] for one in found) if len(found) == NODES and not cannot else None
    return run


RIVALS = {"DDP (Gloo)": ("torch", rival("torch"), 1), "hivemind": ("hivemind", rival("hivemind"), 4)}  # fewer steps


def measure(programs, where, link, options, work):
    """{name: {round: samples per second}}, {name: {round: seconds per step of the whole job}}, {way: {round: bytes}}"""
    rates, whole, sent = (collections.defaultdict(dict) for _ in range(3))
    steps, batch = LINKS[link][2] // (4 if options.quick else 1), batch_of(MODEL, options.shards)
    names = [*WAYS, ALONE] + [name for name, (program, _, _) in RIVALS.items() if program in programs]
    for number in range(options.rounds or (1 if options.quick else 3)):
        for name in random.sample(names, len(names)):
            if not re.search(options.only, name):
                continue
            began, many = time.monotonic(), steps
            if name in RIVALS:
                many = max(12, steps // RIVALS[name][2])
                rate = RIVALS[name][1](programs, where, many, options, work)
            else:
                nodes = 1 if name == ALONE else NODES
                lines = ours(programs, where, mlp(steps, nodes, options, work), WAYS.get(name, []), work, nodes)
                rate = rate_of(lines, batch) if lines else None
                sent[name].update({number: sent_per_step(lines)} if lines else {})
            if rate:
                rates[name][number] = rate
                whole[name][number] = (time.monotonic() - began) / many
                record(options, number, "exchange", "EX,%s,%s,%.1f,%.4f" % (link, name, rate, whole[name][number]))
        print("  round %d, %s" % (number + 1, link), file=sys.stderr, flush=True)
    return rates, whole, sent


def model_bytes(programs, options, work):
    job = os.path.join(work, "model.yaml")
    write_job(job, "model", MODEL, 1, shards=options.shards)
    count = re.search(r"^total +(\d+) parameters", quietly([programs["meshnode"], "check", job]).stdout, re.M)
    return 4 * int(count[1])


def training(programs, options, work):
    model = model_bytes(programs, options, work)
    for link, (count, rate, _) in LINKS.items():
        print("## One job in every way: MLP, batch %d, %d processes of one thread, %s\n" % (
            batch_of(MODEL, options.shards), NODES, link))
        others = busy_by_others()
        with place(count, rate) as where:
            if not where:
                continue
            rates, whole, sent = measure(programs, where, link, options, work)
        print(load(others) + "\n")
        rows = []
        for name in [*WAYS, ALONE, *RIVALS]:
            if not rates.get(name):
                continue
            ratios = [median_and_best(rates[name], rates[r], 1.0) if name in WAYS and rates.get(r) else "–" for r in RIVALS]
            text = "%.2f" % (statistics.median(sent[name].values()) / model) if sent.get(name) else "–"
            rows.append([name, "%.0f" % statistics.median(rates[name].values()), *ratios,
                         "%.1f ms" % (1e3 * statistics.median(whole[name].values())), text])
        table(["", "samples per second", *("/ %s" % r for r in RIVALS), "whole program, per step",
               "models that a node sends per step"], rows)


# ---- what one-peer gossip sends ----

def gossip_bytes(programs, options, work):
    print("## One-peer gossip: models that a node sends per step\n")
    model, cells = model_bytes(programs, options, work), []
    with place(0) as where:
        for nodes in (2, 4, 8):
            lines = ours(programs, where, mlp(30, nodes, options, work), ONE_PEER, work, nodes)
            value = sent_per_step(lines) / model if lines else None
            far = value is not None and abs(value - 1) > 0.05
            if far:
                MISSED.append("one-peer gossip of %d nodes sends %.2f models per step" % (nodes, value))
            cells.append("–" if value is None else "**%.3f** (1 ± 0.05%s)" % (value, ", MISSED" if far else ""))
    table(["nodes", "2", "4", "8"], [["models per step", *cells]])


def exchange(programs, options, work):
    """--only: sums, bytes, or ways and rivals that train."""
    if "bench_allreduce" in programs and re.search(options.only, "sums"):
        allreduce.exchange(programs, argparse.Namespace(**{**vars(options), "only": ""}), work)
    if "meshnode" not in programs:
        return
    if any(re.search(options.only, name) for name in [*WAYS, *RIVALS]):
        training(programs, options, work)
    if re.search(options.only, "bytes"):
        gossip_bytes(programs, options, work)

#!/usr/bin/env python3
"""hashes.py - one hash per model, whatever computes it: {avx512, avx2, base} x {1, 2, 3, 4, 8 nodes} x {1, 2 threads} x
{gcc, clang} for digits, MLP, CNN, ResNet, LSTM and GPT, for two of them with mesh.activations: bf16, and for digits with each codec
of mesh.compress.

    hashes.py                            all of it, in an order that --seed draws; `make hashes` builds both compilers first
    hashes.py --cells 6 --draw 326       six of them per run; as --draw rises by one they go round all
    hashes.py --models 'cnn|gpt' --sets avx2 --nodes 1,3 --threads 2 --compilers clang

Each cell is a job of two steps, with a codec five, with batches of 12, trained by `meshnode local`. All its nodes must have taken part, and
must end with one hash of the whole state. The table has a row per model and set; a cell of it has the beginning of the
hash, or what is wrong. The first cell of a model that ends decides what the others must have. MESHNODE and
MESHNODE_CLANG name the programs. What is not there (a compiler's program, a set that the CPU lacks) is left out,
and said. Exit status 1: a cell differs or fails."""
import argparse
import collections
import glob
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "bench"))
import models  # noqa: E402

SETS, NODES, THREADS = ["avx512", "avx2", "base"], [1, 2, 3, 4, 8], [1, 2]
PROGRAMS = {"gcc": os.environ.get("MESHNODE", os.path.join(ROOT, "build", "gcc", "meshnode")),
            "clang": os.environ.get("MESHNODE_CLANG", os.path.join(ROOT, "build", "clang", "meshnode"))}
ROUNDED = ["cnn-bf16", "gpt-bf16"]
CODECS = "int16 int8 fp16 bf16 qsgd terngrad sparse topk onebit randk powersgd".split()
BATCH, STEPS, DEADLINE = 12, 2, 300  # a CPU without fused multiply-add has a third of a GFLOP/s
SMALL = [("train: 4096, test: 256", "train: 96, test: 12"), ("context: 128", "context: 8")]


def digits(path, steps, way):
    with open(os.path.join(ROOT, "configs", "digits.yaml")) as file:
        text = re.sub(r"batch: \d+", "batch: %d\n  steps: %d\n  eval_every: 0" % (BATCH, steps), file.read())
    text = text.replace("source: glyphs", "source: glyphs, train: 96, test: 12")
    with open(path, "w") as out:
        out.write(re.sub(r"^mesh: .*$", "mesh: {%s}" % way, text, flags=re.M))


def codec(name):
    """A step without it, and two spans."""
    spans = ", compress_span: 2" if name in ("topk", "onebit", "randk", "powersgd") else ""
    return "compress: %s, compress_warmup: 1%s" % (name, spans)


def write_jobs(folder):
    models.write_text(folder)
    models.write_images(folder)
    os.truncate(os.path.join(folder, "bench.txt"), 2000)  # the evaluation at the end must not take longer than the rest
    os.truncate(os.path.join(folder, "test_batch.bin"), 12 * 3073)
    digits(os.path.join(folder, "digits.yaml"), STEPS, "topology: ring")
    for name in CODECS:
        digits(os.path.join(folder, "digits-%s.yaml" % name), 5, codec(name))
    for name in models.MODELS:
        path = os.path.join(folder, name + ".yaml")
        models.write_job(path, name, name, STEPS, batch=BATCH)
        with open(path) as file:
            text = file.read()
        for large, small in SMALL:
            text = text.replace(large, small)
        for file, way in (name, "topology: ring"), (name + "-bf16", "activations: bf16"):
            with open(os.path.join(folder, file + ".yaml"), "w") as out:
                out.write(re.sub(r"^mesh: .*$", "mesh: {%s}" % way, text, flags=re.M))
    return ["digits", *models.MODELS, *ROUNDED, *("digits-" + name for name in CODECS)]


def train(folder, model, cell):
    """(hash, None), or (None, what is wrong)"""
    simd, nodes, threads, compiler = cell
    out = tempfile.mkdtemp(dir=folder)
    command = [PROGRAMS[compiler], "local", "-n", str(nodes), os.path.join(folder, model + ".yaml"), "--data", folder,
               "--out", out, "--threads", str(threads), "--quiet"]
    env = {key: value for key, value in os.environ.items() if key != "OPENBLAS_CORETYPE"}
    with subprocess.Popen(command, env=dict(env, MESHNODE_SIMD=simd), stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT) as local:
        try:
            said = local.communicate(timeout=DEADLINE)[0]
        except BaseException as problem:  # also when we are told to end: it ends its nodes
            local.terminate()
            if isinstance(problem, subprocess.TimeoutExpired):
                return None, "took over %d s" % DEADLINE
            raise
    if local.returncode:
        return None, "status %d: %s" % (local.returncode, (said.splitlines() or ["?"])[-1])
    results = []
    for path in glob.glob(os.path.join(out, "**", "result.json"), recursive=True):
        with open(path) as file:
            results.append(json.load(file))
    shutil.rmtree(out)
    hashes = {result["state_sha256"] for result in results}
    together = {result["peers_max"] for result in results}
    if len(results) != nodes or together != {nodes}:
        return None, "%d results, of nodes that saw %s, expected %d" % (len(results), sorted(together), nodes)
    return (hashes.pop(), None) if len(hashes) == 1 else (None, "%d hashes" % len(hashes))


def what_is_here(options):
    """Sets and compilers that can run."""
    compilers = [c for c in options.compilers.split(",") if os.path.exists(PROGRAMS[c])]
    for name in set(options.compilers.split(",")) - set(compilers):
        print("*** without %s: there is no %s" % (name, PROGRAMS[name]))
    if not compilers:
        sys.exit("hashes.py: no program to run")
    sets = [s for s in options.sets.split(",")
            if subprocess.run([PROGRAMS[compilers[0]], "--version"], env=dict(os.environ, MESHNODE_SIMD=s),
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0]
    for name in set(options.sets.split(",")) - set(sets):
        print("*** without %s: this CPU does not have it" % name)
    return sets, compilers


def chosen(cells, options):
    """All, or the --cells of them whose turn it is."""
    random.Random(options.seed).shuffle(cells)
    if not options.cells:
        return cells
    first = options.draw * options.cells
    return [cells[(first + i) % len(cells)] for i in range(min(options.cells, len(cells)))]


def table(shown, columns):
    print("| | " + " | ".join("%d x %d %s" % column for column in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for row, cells in shown.items():
        print("| %s %s | " % row + " | ".join(cells.get(column, "") for column in columns) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--nodes", default=",".join(map(str, NODES)))
    parser.add_argument("--threads", default=",".join(map(str, THREADS)))
    parser.add_argument("--compilers", default=",".join(PROGRAMS))
    parser.add_argument("--cells", type=int, default=0, help="0: all")
    parser.add_argument("--draw", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sets, compilers = what_is_here(options)
    folder = tempfile.mkdtemp(prefix="meshnode-hashes-")
    expected, shown, wrong, began = {}, collections.defaultdict(dict), [], time.monotonic()
    try:
        names = [name for name in write_jobs(folder) if re.search(options.models, name)]
        cells = chosen([(name, cell) for name in names for cell in itertools.product(
            sets, map(int, options.nodes.split(",")), map(int, options.threads.split(",")), compilers)], options)
        if options.cells:  # a cell alone would be compared with nothing
            cells = [(name, (sets[0], 1, 1, compilers[0])) for name in sorted({name for name, _ in cells})] + cells
        for model, cell in cells:
            found, problem = train(folder, model, cell)
            if found and expected.setdefault(model, found) != found:
                problem = "differs from " + expected[model]
            if problem:
                wrong.append("%s, %s, %d nodes of %d threads, %s: %s" % (model, *cell, (found or "") + " " + problem))
                print("WRONG: " + wrong[-1], flush=True)
            simd, *column = cell
            shown[model, simd][tuple(column)] = (found or "")[:8] + ("!" if problem else "")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    table(dict(sorted(shown.items())), sorted({column for row in shown.values() for column in row}))
    for model, value in sorted(expected.items()):
        print("%-7s state %s" % (model, value))
    print("%d cells in %.0f s, %d wrong; load %.1f" % (len(cells), time.monotonic() - began, len(wrong), os.getloadavg()[0]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

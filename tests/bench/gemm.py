"""Products: our loop, the fastest kernel of OpenBLAS and PyTorch's library on the shapes of the five models."""
import collections
import os
import random
import statistics
import sys

from common import HERE, busy_by_others, instructions, load, median_and_best, place, record, run_together, table
from models import batch_of

CORES = {"": ["", "SkylakeX", "Haswell", "Zen"], "avx2": ["Haswell", "Zen"], "avx512": ["SkylakeX"]}
# model: its products as (layer, rows per sample, outputs, inputs)
LAYERS = {
    "mlp": [("dense 512", 1, 512, 784), ("dense 256", 1, 256, 512)],
    "cnn": [("conv 32", 784, 32, 25), ("conv 64", 196, 64, 800), ("dense 512", 1, 512, 3136)],
    "gpt": [("qkv", 128, 384, 128), ("projection", 128, 128, 128), ("up", 128, 512, 128), ("down", 128, 128, 512),
            ("logits", 128, 256, 128)],
    "resnet": [("conv 16", 1024, 16, 27), ("conv 32", 256, 32, 288), ("conv 64", 64, 64, 576)],
    "lstm": [("input", 128, 1024, 64), ("recurrent", 1, 1024, 256), ("logits", 128, 256, 256)],
}
ROWS_MOST = 8192  # of a whole batch: more rows change no speed and cost time


def shapes_of(model, shards):
    """[(label, part, KIND:M:N:K)] of a shard and of a whole batch."""
    batch, found = batch_of(model, shards), []
    for part, samples in (("shard", batch // shards), ("batch", batch)):
        for label, each, outputs, inputs in LAYERS[model]:
            rows = min(samples * each, ROWS_MOST)
            found += [("%s %s, forward" % (model, label), part, "nt:%d:%d:%d" % (rows, outputs, inputs)),
                      ("%s %s, dx" % (model, label), part, "nn:%d:%d:%d" % (rows, inputs, outputs)),
                      ("%s %s, dW" % (model, label), part, "tn:%d:%d:%d" % (outputs, inputs, rows))]
            if part == "batch":
                found += [("%s %s, dW as we train: integers of 12 shards; the others: floats of all" % (model, label), part,
                           "tq:%d:%d:%d" % (outputs, inputs, rows))]
    return found


def speeds(text, column):
    """{shape: GFLOP/s}; column 0: best, 1: median of the tries"""
    fields = [line.split(",") for line in (text or "").splitlines() if line.startswith("GEMM,")]
    return {field[1]: float(field[2 + column]) for field in fields}


def kernel_of(text):
    return next((line[7:] for line in (text or "").splitlines() if line.startswith("KERNEL,")), "?")


def contenders(programs, simd):
    """[(family, command, variables)]"""
    limits, found = instructions(simd), []
    if "bench_gemm" in programs:
        found.append(("ours", [programs["bench_gemm"], "own"], limits))
        for core in CORES[simd]:
            variables = {k: v for k, v in {**limits, "OPENBLAS_CORETYPE": core}.items() if v}
            found.append(("OpenBLAS", [programs["bench_gemm"], "blas"], variables))
    if "torch" in programs:
        found.append(("PyTorch", [programs["torch"], os.path.join(HERE, "torch_gemm.py")], limits))
    return found


def products(programs, options, work):
    print("## Products, one thread, GFLOP/s in processor time\n")
    shapes = [("1024 × 1024 × 1024", "batch", "nt:1024:1024:1024")]
    for model in LAYERS:
        shapes += shapes_of(model, options.shards)
    arguments = list(dict.fromkeys(shape for _, _, shape in shapes))
    results, kernels, others = collections.defaultdict(dict), collections.defaultdict(set), busy_by_others()
    with place(0) as where:
        for number in range(options.rounds or (1 if options.quick else 5)):
            turns = contenders(programs, options.simd)
            random.shuffle(turns)
            for family, command, variables in turns:
                text = run_together([where.inside(0, command + arguments)], variables, 600)
                kernels[family].add(kernel_of(text))
                for shape, speed in speeds(text, 1).items():  # of several kernels of one family the fastest counts
                    results[family, shape][number] = max(speed, results[family, shape].get(number, 0))
                    record(options, number, family, "GEMM,%s,%.2f" % (shape, speed))
            print("  round %d" % (number + 1), file=sys.stderr, flush=True)
    print("%s. %s\n" % ("; ".join("%s: %s" % (f, " or ".join(sorted(k))) for f, k in kernels.items()), load(others)))
    for part, label in (("shard", "a shard (one of %d)" % options.shards), ("batch", "a whole batch")):
        rows = [row(results, name, part, shape) for name, p, shape in shapes if p == part]
        print("Products of %s; ratios: median of the rounds / best against best\n" % label)
        table(["", "rows × columns × depth", "ours", "OpenBLAS", "PyTorch", "ours / OpenBLAS", "ours / PyTorch"], rows)


def row(results, name, part, shape):
    kind, *sizes = shape.split(":")
    rows = int(sizes[2 if kind[0] == "t" else 0])
    ours, blas, torch = (results[family, shape] for family in ("ours", "OpenBLAS", "PyTorch"))
    goal = 0.9 if part == "batch" else 1.2 if 16 <= rows <= 64 else None
    medians = ["%.0f" % statistics.median(r.values()) if r else "–" for r in (ours, blas, torch)]
    return [name, " × ".join(sizes), *medians, median_and_best(ours, blas, goal),
            median_and_best(ours, torch, 0.85 if part == "batch" else None)]

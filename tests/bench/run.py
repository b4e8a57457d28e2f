#!/usr/bin/env python3
"""Measures meshnode beside what one would pick instead, and prints Markdown tables of ratios.

    run.py [allreduce] [exchange] [link] [gemm] [train] [processes] [overlap] [pipeline] [codec]    parts; none named: all of them
        --build DIR     where make builds (default $BUILD or build/gcc)
        --rounds N      each contender once per round, in shuffled order
        --quick         a glance: few rounds, short
        --check         exit status 1 if a goal is missed; it is 1 anyway if a run fails or not all nodes take part
        --only REGEX    contenders of an all-reduce, or models, to run
        --kinds REGEX   of training: eager, tuned, compile, autocast, exact, inexact, bf16
        --threads 1,2   of training
        --sizes 4k,1m   of an all-reduce                                   --ranks 2,4       processes
        --simd SETS     avx2, avx512 or avx2,avx512: everybody limited to these instructions (default $BENCH_SIMD)
        --csv FILE      every measurement                                  --shards N        default 12
        --calm SECONDS  before each run, wait so long at most for the machine to be idle (default 5)

allreduce  loopback, 2 and 4 processes: the mesh, rings on bare TCP and bare libzmq, Gloo, Open MPI over TCP
exchange   4 processes: sums round the ring, by 4 servers, by one, by auto, and directly; a job in every way beside DDP and
           hivemind, on loopback and at 100 Mbit/s; what gossip sends
link       four namespaces on a bridge at 100 Mbit/s: the mesh and bare TCP against the bound
gemm       products of the five models: our loop, OpenBLAS's fastest kernel, PyTorch's library
train      one process, exact, inexact and in bf16, against PyTorch, eager, tuned, compiled and with autocast to bfloat16; by the
           clock and by processor time
processes  2 and 4 processes of one thread on loopback: the mesh against PyTorch's DDP
overlap    two nodes on a link on which transfer takes as long as computing: is one hidden by the other?
pipeline   1 MiB from stage to stage beside bare TCP; stages on 2 and 4 nodes with pieces of fixed duration: how idle nodes
           are, and a step on 100 Mbit/s beside what is predicted; two jobs in 2 and 4 stages beside PyTorch's pipelining
codec      codecs of mesh.compress beside memcpy; a job at 100 and 10 Mbit/s with each of them, and DDP with its hooks

Machines are noisy and differ, so nothing here is a time to reach: contenders run interleaved and a ratio
is the median over rounds of the ratio within the round. Goals are printed beside the ratios. What is not
installed is left out, loudly (`make bench` installs it). Namespaces need root; without it the parts on loopback
use the system's and the others are left out."""
import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
import time

import allreduce
import codec
import exchange
import gemm
import pipeline
import train
from common import CALM, FAILED, MISSED, ROOT, build, loud, quietly

PARTS = {"allreduce": allreduce.loopback, "exchange": exchange.exchange, "link": allreduce.link, "gemm": gemm.products, "train": train.one_process,
         "processes": train.processes, "overlap": train.overlap, "pipeline": pipeline.pipeline, "codec": codec.codec}
COMPUTING = ("gemm", "train", "processes")  # what instructions matter to


def versions(programs):
    """The CPU and everything that was compiled or linked in."""
    model = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read())
    print("Machine: %d × %s, Linux %s, %s, load average %.1f." % (
        os.cpu_count(), model[1] if model else os.uname().machine, os.uname().release, time.strftime("%Y-%m-%d"),
        os.getloadavg()[0]))
    texts = ["meshnode " + quietly(["git", "describe", "--always", "--dirty"]).stdout.strip(),
             quietly(["cc", "--version"]).stdout.splitlines()[0]]
    for package in ("libzmq", "openblas"):
        version = quietly(["pkg-config", "--modversion", package])
        texts += ["%s %s" % (package, version.stdout.strip())] if version.returncode == 0 else []
    for package in ("libgloo-dev", "openmpi-bin"):
        version = quietly(["dpkg-query", "-W", "-f", "${Package} ${Version}", package])
        texts += [version.stdout] if version.returncode == 0 else []
    if "torch" in programs:
        version = quietly([programs["torch"], "-c", "import torch; print(torch.__version__)"])
        texts.append("PyTorch " + version.stdout.split()[-1])
    print("Versions: %s.\n" % ", ".join(texts))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--build", default=os.environ.get("BUILD", "build/gcc"))
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--kinds", default="")
    parser.add_argument("--sizes", default="")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--simd", default=os.environ.get("BENCH_SIMD", ""))
    parser.add_argument("--shards", type=int, default=12)
    parser.add_argument("--csv", default="")
    parser.add_argument("--calm", type=float, default=CALM["seconds"])
    options = parser.parse_args()
    unknown = [p for p in options.parts if p not in PARTS]
    if unknown:
        parser.error("%s is not a part (%s)" % (unknown[0], ", ".join(PARTS)))
    unknown = [s for s in options.simd.split(",") if s not in ("", "avx2", "avx512")]
    if unknown:
        parser.error("--simd %s, expected avx2 or avx512" % unknown[0])
    if os.path.isabs(options.build):
        options.build = os.path.relpath(options.build, ROOT)  # as the rules of the Makefile name it
    return options


def run_part(part, programs, options, work):
    for simd in options.simd.split(",") if part in COMPUTING else [""]:
        options_here = argparse.Namespace(**{**vars(options), "simd": simd})
        if simd:
            print("# Everybody limited to %s\n" % simd.upper())
        PARTS[part](programs, options_here, work)


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that namespaces are removed
    CALM["seconds"] = options.calm
    programs = build(options)
    versions(programs)
    work = tempfile.mkdtemp(prefix="meshnode-bench-")
    try:
        for part in options.parts or PARTS:
            run_part(part, programs, options, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if MISSED:
        loud("%d goals missed: see MISSED in the tables" % len(MISSED))
    for failure in FAILED:
        loud("failed: " + failure)
    return 1 if FAILED or (MISSED and options.check) else 0


if __name__ == "__main__":
    sys.exit(main())

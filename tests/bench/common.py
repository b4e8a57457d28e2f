"""What the parts of run.py share: building, places to run, processes with a deadline, ratios and tables."""
import contextlib
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
NETNS = os.path.join(ROOT, "tests", "support", "netns.sh")
PYTHONS = [os.path.join(ROOT, "build", "venv-torch", "bin", "python"), "/usr/bin/python3"]  # make pypi's, Debian's
HIVEMIND = os.path.join(ROOT, "build", "venv-hivemind", "bin", "python")
MISSED = []
FAILED = []  # runs that broke, or in which not all nodes worked together: status 1


def loud(text):
    print("*** " + text, file=sys.stderr, flush=True)


def failed(text):
    FAILED.append(": ".join(text.splitlines()[:1] + text.splitlines()[1:][-1:]))
    loud("FAILED: " + text)


def quietly(command):
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)


# ---- building ----

def build(options):
    """Builds what can be built. Returns {name: path of the program} without what cannot."""
    out = os.path.join(options.build, "rivals")
    os.makedirs(os.path.join(ROOT, out), exist_ok=True)
    fast = ["-O3", "-march=native", "-I.", "-D_DEFAULT_SOURCE"]
    rivals = {
        "tcp": ["cc", "-std=c11", *fast, "tests/bench/bench_tcp.c", "-lpthread"],
        "gloo": ["g++", "-std=c++14", *fast, "tests/bench/gloo_ring.cc", "-lgloo", "-lpthread"],
        "openmpi": ["mpicc.openmpi", "-std=c11", *fast, "tests/bench/mpi_allreduce.c"],
    }
    zmq = os.environ.get("BENCH_ZMQ", os.path.join(ROOT, "..", "shared", "perf", "zmq_ar.c"))
    if os.path.exists(zmq):  # a ring on bare libzmq that prints lines like measure.h
        rivals["zmq"] = ["cc", "-std=gnu11", *fast, "-I" + os.path.dirname(zmq), zmq, "-lzmq", "-lpthread", "-lm"]
    found = {}
    for name, command in rivals.items():
        path = os.path.join(out, name)
        why = "no " + command[0]
        if shutil.which(command[0]):
            done = quietly([command[0], "-o", path, *command[1:]])
            if done.returncode == 0:
                found[name] = os.path.join(ROOT, path)
                continue
            why = next((l for l in done.stdout.splitlines() if "rror" in l), "does not compile")
        loud("NOT MEASURED: %s: %s" % (name, why))
    for name in ("meshnode", "tests/bench/bench_allreduce", "tests/bench/bench_nn", "tests/bench/bench_gemm"):
        path = os.path.join(options.build, name)
        done = quietly(["make", "-s", "B=" + options.build, path])
        if done.returncode == 0:
            found[os.path.basename(name)] = os.path.join(ROOT, path)
        else:
            loud("NOT MEASURED: %s: %s" % (name, (done.stdout.splitlines() or ["?"])[-1]))
    found.update(find_torch())
    return found


def find_torch():
    """PyTorch of PyPI, which is today's, or that of the system, which may be years old; and hivemind, which has its own."""
    found = {}
    for python in PYTHONS:
        done = quietly([python, "-c", "import torch, yaml"]) if os.path.exists(python) else None
        if done and done.returncode == 0:
            if python != PYTHONS[0]:
                loud("PyTorch is the system's, not today's: `make pypi` gets that of PyPI")
            found["torch"] = python
            break
    else:
        loud("NOT MEASURED: torch: neither %s has PyTorch and PyYAML" % " nor ".join(PYTHONS))
    if os.path.exists(HIVEMIND):
        found["hivemind"] = HIVEMIND
    else:
        loud("NOT MEASURED: hivemind: `make build/venv-hivemind` gets it from PyPI")
    return found


def instructions(simd):
    """Variables that limit everybody to a set of instructions, "avx2" or "avx512"; {}: no limit."""
    if not simd:
        return {}
    wide = simd == "avx512"
    return {"MESHNODE_SIMD": simd, "OPENBLAS_CORETYPE": "SkylakeX" if wide else "Haswell",
            "ATEN_CPU_CAPABILITY": simd, "MKL_ENABLE_INSTRUCTIONS": simd.upper(),
            "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_AMX" if wide else "AVX2"}


# ---- places to run ----

class Place:
    """Where processes run: one loopback, or one namespace per rank."""

    def __init__(self, tag, count):
        self.tag, self.count = tag, count

    def inside(self, rank, command):
        if not self.tag:
            return command
        return ["ip", "netns", "exec", "%s-%d" % (self.tag, rank if self.count else 0), *command]

    def host(self, rank):
        return "10.77.0.%d" % (rank + 1) if self.count else "127.0.0.1"

    def interface(self):
        return "eth0" if self.count else "lo"

    def congestion(self):
        command = self.inside(0, ["cat", "/proc/sys/net/ipv4/tcp_congestion_control"])
        return quietly(command).stdout.strip()

    def rate(self, rate):
        subprocess.run([NETNS, "rate", self.tag, str(self.count), rate], check=True)

    def line(self, rank, rate):
        """Of one of them."""
        subprocess.run([NETNS, "line", self.tag, str(rank), rate], check=True)


@contextlib.contextmanager
def place(count, rate=None):
    """A loopback of our own (count 0) or `count` namespaces on a bridge; None if that needs more rights."""
    tag = "mb%d" % os.getpid()
    made = subprocess.run([NETNS, "up", tag, str(count)] + ([rate] if rate else []), check=False)
    if made.returncode:
        yield None if count else Place("", 0)
        return
    try:
        yield Place(tag, count)
    finally:
        subprocess.run([NETNS, "down", tag], check=False)


def wait(what, condition, seconds=120):
    """True when it holds; a failure is noted if it does not in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    failed("waited %g s for %s" % (seconds, what))
    return False


def steps_made(folder):
    """What a node that still runs has noted of its steps."""
    path = os.path.join(folder, "metrics.jsonl")
    if not os.path.exists(path):
        return []
    with open(path) as file:
        lines = [json.loads(line) for line in file if line.endswith("\n")]
    return [line for line in lines if line.get("samples")]


def stop(processes):
    """A signal that mpirun passes on first; those that do not obey are killed."""
    for process in processes:
        process.terminate()
    end = time.monotonic() + 3
    for process in processes:
        try:
            process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run_together(commands, env, timeout, started=None):
    """Starts all commands, returns what they printed, or None if one failed or took too long. `started` is told the
    processes."""
    wait_for_calm()
    full = dict(os.environ, OPENBLAS_NUM_THREADS="1", **env)
    with tempfile.TemporaryFile("w+") as errors:
        processes = [subprocess.Popen(c, env=full, stdout=subprocess.PIPE, stderr=errors, text=True)
                     for c in commands]
        end, text = time.monotonic() + timeout, ""
        if started:
            started(processes)
        try:
            for process in processes:
                text += process.communicate(timeout=max(0.1, end - time.monotonic()))[0]
        except subprocess.TimeoutExpired:
            failed("took over %d s: %s" % (timeout, " ".join(commands[0])))
            return None
        finally:
            stop(processes)
        if any(p.returncode for p in processes):
            errors.seek(0)
            failed("status %s: %s\n%s" % ([p.returncode for p in processes], " ".join(commands[0]),
                                          "".join(errors.readlines()[-5:])))
            return None
    return text


CALM = {"seconds": 5.0}  # how long to wait for a calm machine


def wait_for_calm():
    """Two quarters of a second in a row in which the machine is all but idle, if they come soon."""
    end, calm = time.monotonic() + CALM["seconds"], 0
    while calm < 2 and time.monotonic() < end:
        others = busy_by_others()
        time.sleep(0.25)
        calm = calm + 1 if others() < 0.1 else 0


def busy_by_others():
    """Returns a function that tells the share of the machine that others used since."""
    def machine():
        fields = [int(x) for x in open("/proc/stat").readline().split()[1:]]
        return sum(fields), sum(fields) - fields[3] - fields[4]

    def ours():
        return 100 * sum(os.times()[:4])
    total, busy, own = *machine(), ours()
    return lambda: max(0.0, (machine()[1] - busy - (ours() - own)) / max(1, machine()[0] - total))


def record(options, number, name, line):
    if options.csv:
        with open(options.csv, "a") as out:
            out.write("%d,%s,%s\n" % (number, name, line))


def ratio(above, below):
    """Median over the rounds that both have of above / below."""
    common = [above[k] / below[k] for k in above if k in below]
    return statistics.median(common) if common else None


def judged(value, goal, strict=False):
    if value is None:
        return "–"
    if goal is None:
        return "%.2f" % value
    met = value > goal if strict else value >= goal
    if not met:
        MISSED.append("%.2f (goal %.2f)" % (value, goal))
    return "**%.2f** (%s %.2f%s)" % (value, ">" if strict else "≥", goal, "" if met else ", MISSED")


def median_and_best(above, below, goal=None):
    """Ratio of two rates {round: rate}: the median of the rounds, judged, their lowest and highest, and that of the best ones."""
    value = ratio(above, below)
    if value is None:
        return "–"
    rounds = [above[k] / below[k] for k in above if k in below]
    spread = ", %.2f..%.2f" % (min(rounds), max(rounds)) if len(rounds) > 1 else ""
    return "%s%s / %.2f" % (judged(value, goal), spread, max(above.values()) / max(below.values()))


def load(others):
    """How busy the machine is and was, which every table says."""
    return "Load average %.1f; others used %.0f %% of the machine meanwhile." % (os.getloadavg()[0], 100 * others())


def microseconds(us):
    return "%.0f µs" % us if us < 1e3 else "%.2f ms" % (us / 1e3) if us < 1e5 else "%.0f ms" % (us / 1e3)


def size_name(size):
    return "%d MiB" % (size >> 20) if size >= 1 << 20 else "%d KiB" % (size >> 10)


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|---" * len(head) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)

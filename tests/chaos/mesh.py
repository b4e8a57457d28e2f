"""mesh.py - a set of real nodes for tests of accidents; only the standard library.

    with Mesh(folder, job) as mesh:                   # ends its own processes, whatever happens
        for name in "abcd":
            mesh.start(name, "--peers", "4")
        mesh.wait("step 20", lambda: mesh.step("a") >= 20, seconds=30)
        mesh.signal(signal.SIGKILL, "b", "c")         # both at the same instant
        mesh.finish(["a", "d"], seconds=30)           # they end with status 0
        mesh.hashes(["a", "d"])                       # {(params, state)}: one element

Everything lies below `folder`: NAME/metrics.jsonl and what else a node leaves, NAME.log, job.yaml. A node that
does not do in time what is expected of it raises Failed, with the last lines of the logs.

Tools share a command line and a loop over numbered, seeded runs: see `tool`. A run that fails keeps its folder
and prints the command that repeats it. The seed decides what is done to whom and when; the machine's timing it
cannot repeat.

Environment: MESHNODE is the program (build/gcc/meshnode), FAILNODE the one with failpoints (build/gcc-fail/meshnode).
"""
import argparse
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHAOS = os.path.join(ROOT, "tests", "chaos")
MESHNODE = os.environ.get("MESHNODE", os.path.join(ROOT, "build", "gcc", "meshnode"))
FAILNODE = os.environ.get("FAILNODE", os.path.join(ROOT, "build", "gcc-fail", "meshnode"))
POLL_S = 0.005
DEADLINE_S = 300  # a hang: far more than anything takes on a starved machine


class Failed(Exception):
    """A promise was broken, or a deadline passed."""


def needs(program):
    if not os.access(program, os.X_OK):
        target = " failpoints" if program == FAILNODE else "" if program == MESHNODE else " " + os.path.relpath(program)
        sys.exit(f"{program} is missing: run `make{target}` first")


class Node:
    """One process, and what it has written so far."""

    def __init__(self, name, out, log, process):
        self.name, self.out, self.log, self.process = name, out, log, process
        self.status = None  # as of subprocess: -9 is SIGKILL
        self.stopped = False
        self.began = time.time()
        self.origin = float("inf")  # when its clock began, by ours: the earliest that a line allows
        self._at, self._steps = 0, []

    def alive(self):
        if self.status is None:
            self.status = self.process.poll()
        return self.status is None

    def steps(self):
        """Objects of metrics.jsonl so far. The last line may still be replaced by a longer one, so it is read again;
        a file that is shorter than it was, or odd, belongs to a new start and is read from its beginning."""
        ended = not self.alive()  # before it is read: what one that lives is writing may be odd
        if self._read() or not ended or self._read():
            return self._steps
        raise Failed(f"{self.name}: {self.out}/metrics.jsonl holds lines that are no JSON")

    def _read(self):
        """False: there are odd lines from where the last reading ended; the next one begins at the beginning."""
        try:
            with open(os.path.join(self.out, "metrics.jsonl"), "rb") as file:
                if os.fstat(file.fileno()).st_size < self._at:
                    self._at, self._steps = 0, []
                file.seek(self._at)
                data = file.read()
        except FileNotFoundError:
            return True
        lines = data[:data.rfind(b"\n") + 1].splitlines(keepends=True)
        try:
            read = [json.loads(line) for line in lines]
        except ValueError:
            self._at, self._steps = 0, []
            return False
        if read:
            origin = time.time() - read[-1]["time_s"]
            if (len(read) > 1 or not self._steps) and origin >= self.began:  # else a line of a life before
                self.origin = min(self.origin, origin)
            self._steps[-1:] = read
            self._at += sum(map(len, lines[:-1]))
        return True

    def step(self):
        steps = self.steps()
        return steps[-1]["step"] if steps else 0

    def result(self):
        try:
            with open(os.path.join(self.out, "result.json"), encoding="utf-8") as file:
                return json.load(file)
        except (OSError, ValueError) as error:
            raise Failed(f"{self.name}: {error}") from None

    def text(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()


# Steps of such jobs are so short that one node alone may be faster than all: with this, all train together.
EVEN = ("--set", "mesh.division=even")


class Mesh:
    """Nodes of one job that find one another on the loopback interface, or where `prefix` puts them."""

    all_open = set()  # a tool that is ended while other threads have some closes them

    def __init__(self, folder, job, program=None, link=("--interface", "lo"), options=(), env=None):
        """`job` is a path or the text of a job; `options` and `env` go to every node."""
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.job = job
        if "\n" in job:
            self.job = os.path.join(folder, "job.yaml")
            with open(self.job, "w", encoding="utf-8") as file:
                file.write(job)
        self.program = program or MESHNODE
        self.link, self.options, self.env = list(link), list(options), env or {}
        self.group = f"chaos-{os.getpid()}-{os.urandom(4).hex()}"
        self.nodes = {}

    def __enter__(self):
        Mesh.all_open.add(self)
        return self

    def __exit__(self, *exception):
        self.close()
        Mesh.all_open.discard(self)

    def start(self, name, *options, env=None, prefix=(), program=None, job=True, out=None, threads=1):
        """Start or restart a node. `env` is added to the environment; `prefix` goes before the command, such
        as ["ip", "netns", "exec", "x1"] (which must replace itself by it). job=False: help the others."""
        out = out or os.path.join(self.folder, name)
        log = os.path.join(self.folder, name + ".log")
        command = [*prefix, program or self.program, *([self.job] if job else []), "--out", out,
                   "--threads", str(threads), "--set", "mesh.group=" + self.group, *self.link, *self.options, *options]
        needs(program or self.program)
        with open(log, "ab") as file:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                                       env={**os.environ, **self.env, **(env or {})})
        self.nodes[name] = Node(name, out, log, process)
        return self.nodes[name]

    def wait(self, what, condition, seconds=DEADLINE_S):
        """`what` is waited for: a text, or a function that makes it."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                what = what() if callable(what) else what
                raise Failed(f"waited {seconds:g} s for {what}\n{self.last_lines()}")
            time.sleep(POLL_S)
            self.look()

    def look(self):
        """While waiting: take in what the nodes wrote; see Node.origin."""
        for node in self.nodes.values():
            node.steps()

    def step(self, name):
        return self.nodes[name].step()

    def reached(self, step, names):
        """Have all of them done it? A node that ended too early is an error."""
        for name in names:
            node = self.nodes[name]
            if node.step() < step:
                if not node.alive() and node.step() < step:
                    raise Failed(f"{name} ended with status {node.status} before step {step}\n{self.last_lines()}")
                return False
        return True

    def signal(self, number, *names):
        """To all of them, as nearly at once as a loop can."""
        for pid in [self.nodes[name].process.pid for name in names if self.nodes[name].alive()]:
            os.kill(pid, number)
        for name in names:
            if number in (signal.SIGSTOP, signal.SIGCONT):
                self.nodes[name].stopped = number == signal.SIGSTOP
            if number == signal.SIGKILL:
                self.nodes[name].status = self.nodes[name].process.wait()

    def is_stopped(self, name):
        """Stopped by a signal, from us or from itself."""
        try:
            with open(f"/proc/{self.nodes[name].process.pid}/stat", encoding="utf-8") as file:
                return file.read().rpartition(")")[2].split()[0] in "tT"
        except (OSError, IndexError):
            return False

    def finish(self, names, seconds=DEADLINE_S):
        self.wait(f"{' '.join(names)} to finish", lambda: not any(self.nodes[n].alive() for n in names), seconds)
        for name in names:
            if self.nodes[name].status != 0:
                raise Failed(f"{name} ended with status {self.nodes[name].status}\n{self.last_lines()}")

    def hashes(self, names):
        results = [self.nodes[name].result() for name in names]
        return {(result["params_sha256"], result["state_sha256"]) for result in results}

    def last_lines(self, count=6):
        parts = []
        for name, node in self.nodes.items():
            state = "runs" if node.alive() else f"status {node.status}"
            lines = node.text().splitlines()[-count:] if os.path.exists(node.log) else []
            parts.append("\n".join([f"--- {name}: {state}, step {node.step()}"] + lines))
        return "\n".join(parts)

    def close(self):
        for node in self.nodes.values():
            if node.alive():
                node.process.kill()
                node.process.wait()


def reference(folder, job, *options, program=None):
    """Hashes and number of steps of the job on one node that nothing happens to."""
    with Mesh(os.path.join(folder, "reference"), job, program=program) as mesh:
        mesh.start("one", "--set", "mesh.gather_ms=0", *options)
        mesh.finish(["one"])
        result = mesh.nodes["one"].result()
        return (result["params_sha256"], result["state_sha256"]), result["steps"]


def gaps(node, after=0, until=None):
    """Milliseconds between one step and the next, for steps behind `after`, up to `until`."""
    steps = node.steps()
    return [1000 * (b["time_s"] - a["time_s"]) for a, b in zip(steps, steps[1:])
            if b["step"] > after and (until is None or b["step"] <= until)]


def median(values):
    return sorted(values)[(len(values) - 1) // 2] if values else 0.0


def percentile(values, share):
    """Nearest rank: the smallest value that at least `share` of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1)] if ordered else 0.0


WINDOW_S = 3.0  # what an accident causes comes within this time: suspicion takes 0.25 s, an end of session 2 s


def pause(node, at, until=None):
    """What an accident at the time `at` cost the node, which has ended: in milliseconds, the largest gap between two
    steps of those that reach into the WINDOW_S after it, less the step that was usual before; and that step. None
    when too few steps lie before it, or none behind. What came after `until` does not count: the next accident.

    A node's own clock begins when it starts; Node.origin says when that was, to some milliseconds. Steps of a life before
    are of another clock."""
    times = [node.origin + step["time_s"] for step in node.steps()]
    times = times[max((i for i in range(1, len(times)) if times[i] < times[i - 1]), default=0):]
    if until is not None:
        times = [end for end in times if end < until] + [until]
    before = [1000 * (b - a) for a, b in zip(times, times[1:]) if b <= at]
    after = [1000 * (b - a) for a, b in zip(times, times[1:]) if b > at and a < at + WINDOW_S]
    if len(before) < 3 or not after:
        return None
    return max(0.0, max(after) - median(before)), median(before)


# Milliseconds: 99 of 100 pauses, the longest one. Promised on a machine with nothing else to do.
LIMITS = {"kill": (150, 1000), "stop": (500, 1000)}


USUAL_MS = 20  # a step of these jobs on such a machine takes less


def calm(pause):
    """What a pause, with the usual step before it, would be on a machine whose steps are not slower than USUAL_MS: where a
    hundred others want the CPU, all that ends a pause takes as much longer as a step."""
    length, usual = pause
    return length / max(1.0, usual / USUAL_MS)


def judge(kind, pauses, judge_all, worst):
    """Why these pauses, each with the usual step before it, are too long, or None. On a busy machine the median of the calm
    ones must still keep what is promised of 99 of 100, and none may exceed `worst`; with `judge_all` the whole promise is
    held against all as they were."""
    p99_limit, max_limit = LIMITS.get(kind, (None, None))
    was = [pause[0] for pause in pauses]
    p50, most = percentile(list(map(calm, pauses)), 0.5), max(map(calm, pauses), default=0)
    if most > worst:
        return f"{kind}: a pause of {most:.1f} ms, expected at most {worst:g}"
    if p99_limit and len(pauses) >= 3 and p50 > p99_limit:
        return f"{kind}: the median pause is {p50:.1f} ms, expected at most {p99_limit}"
    if p99_limit and judge_all and (percentile(was, 0.99) > p99_limit or max(was, default=0) > max_limit):
        return (f"{kind}: pause p99 {percentile(was, 0.99):.1f} ms, max {max(was):.1f} ms; "
                f"expected {p99_limit} and {max_limit}")
    return None


def load():
    return "load %.1f on %d CPUs" % (os.getloadavg()[0], os.cpu_count())


def table(header, rows):
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |", flush=True)


class Runs:
    """Numbered runs with a generator each. `one(folder, random, index)` does a run or raises Failed."""

    def __init__(self, args):
        self.args, self.failed = args, 0
        self.folder = args.keep or tempfile.mkdtemp(prefix="meshnode-chaos-")
        os.makedirs(self.folder, exist_ok=True)

    def __iter__(self):
        indices = [self.args.run] if self.args.run is not None else range(self.args.runs)
        end = time.monotonic() + self.args.seconds if self.args.seconds else None
        for index in indices:
            if end and time.monotonic() > end:
                return
            yield index

    def draw(self, cases):
        """The cases, in an order that the seed draws; --runs of them are done, or --all."""
        chosen = list(cases)
        random.Random(self.args.seed).shuffle(chosen)
        self.args.runs = len(chosen) if self.args.all else min(self.args.runs, len(chosen))
        return chosen

    def random(self, index):
        return random.Random(f"{self.args.seed}/{index}")

    def do(self, one, index, *rest):
        """The result of the run, or None when it failed."""
        folder = os.path.join(self.folder, str(index))
        try:
            result = one(folder, self.random(index), index, *rest)
        except Failed as failure:
            self.failed += 1
            print(f"FAILED run {index}: {failure}\nkept: {folder}\nrepeat: {self.command(index)}", flush=True)
            return None
        if not self.args.keep:
            shutil.rmtree(folder, ignore_errors=True)
        return result

    def command(self, index):
        given = [a for a in sys.argv[1:]]
        for option in ("--run", "--runs", "--seed", "--seconds"):
            while option in given:
                del given[given.index(option):given.index(option) + 2]
        return shlex.join(["python3", os.path.relpath(sys.argv[0], ROOT), *given, "--seed", str(self.args.seed),
                         "--run", str(index)])

    def close(self):
        if not self.failed and not self.args.keep:
            shutil.rmtree(self.folder, ignore_errors=True)


def parser(description, runs, cases=None):
    """The options all tools have, and those that draw from `cases`."""
    own = argparse.ArgumentParser(description=description.split("\n")[0],
                                  formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    own.add_argument("--seed", type=int, default=int(time.strftime("%j")), help="the day of the year unless given")
    own.add_argument("--runs", type=int, default=runs)
    own.add_argument("--run", type=int, help="only this one")
    own.add_argument("--seconds", type=float, default=0, help="begin no run later than this; 0: do all")
    if cases:
        own.add_argument("--all", action="store_true", help=f"every {cases}")
        own.add_argument("--verbose", action="store_true")
    own.add_argument("--keep", help="folder for the outputs of all runs, instead of those that fail")
    return own


def conclude(why, failed=0):
    """The end of every tool: the reason why a promise was not kept, if there is one, is its last line."""
    if why:
        print(f"FAILED: {why}")
    sys.exit(1 if why or failed else 0)


def tool(args, body):
    """Run `body(runs)`; exit with 1 when a run failed or it returns a reason."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nodes are ended on the way out
    runs = Runs(args)
    print(f"seed {args.seed}, {load()}", flush=True)
    try:
        why = body(runs)
    finally:
        for mesh in list(Mesh.all_open):
            mesh.close()
    runs.close()
    conclude(why, runs.failed)

"""net.py - machines, cables and slow processors for the chaos tests, on one machine.

    with Net(4, cpu=0.2) as net:            # 4 namespaces TAG-0.. on the user-space switch
        for i in range(4):
            net.start(i)                    # a node there, with the job of net.job
        net.meet()                          # until they train together
        net.switch("groups 0 1,2,3")        # see tests/support/links.h and tests/chaos/switch.c
        net.let(10)
        net.heal()
        net.verdict()                       # states against a run without accidents, steps never backwards; or Failed

Each node has a network namespace, a line to the switch (build/gcc/switch) and, where the system lets us,
a share of one CPU of its own (a cgroup with cpu quota, v1 or v2): otherwise a node that dies makes the
others faster and every figure better than it is. The period of the quota is 10 ms, so that a slow
processor is slow all the time and not stopped for most of a heartbeat.

What a node does is read from its metrics.jsonl; its clock is brought to ours with the smallest difference
seen between a line's time_s and when we read it. Processes are those of mesh.py; each start of a node is
an incarnation with a folder of its own, named MACHINE.NUMBER."""
import argparse
import collections
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import mesh  # noqa: E402
from quota import Quota  # noqa: E402

BUILD = os.environ.get("BUILD") or os.path.join(mesh.ROOT, "build", "gcc")
SKIPPED = 77
PRIORITY = -15
Line = collections.namedtuple("Line", "at step peers hash tx rx compute wait")
PATTERN = re.compile(
    r'"step":(\d+),"time_s":([0-9.e+-]+),.*?"peers":(\d+),.*?"samples":(\d+),.*?"compute_s":([0-9.e+-]+),'
    r'"wait_s":([0-9.e+-]+),"tx_bytes":(\d+),"rx_bytes":(\d+),"state_hash":"([0-9a-f]+)"')


def say(text):
    print(text, flush=True)


def loud(text):
    print("*** " + text, file=sys.stderr, flush=True)


def run(*command, check=True):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=check)


def missing():
    """Why there can be no networks here, or None."""
    if os.geteuid() != 0:
        return "not root"
    if not shutil.which("ip"):
        return "no ip command (iproute2)"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "no /dev/net/tun"
    name = "net-try%d" % os.getpid()
    tried = run("ip", "netns", "add", name, check=False)
    if tried.returncode == 0:
        tried = run("ip", "netns", "exec", name, "ip", "link", "set", "lo", "up", check=False)
        run("ip", "netns", "del", name)
    return "; ".join(tried.stdout.splitlines()) if tried.returncode != 0 else None


DENSE = """  - flatten
  - dense: %d
  - tanh"""
CONV = """  - conv: {filters: %d, kernel: 5, pad: 2}
  - relu
  - maxpool: 4
  - flatten"""


def job(path, steps=0, conv=0, units=48, batch=96, shards=12, train=1920):
    """A small network; `conv` filters make it one of much computing and few weights. Steps 0: endless."""
    with open(path, "w", encoding="ascii") as out:
        out.write("""run: {name: net, seed: 7, numerics: portable}
data: {source: glyphs, train: %d, test: 240}
model:
  - input: [1, 28, 28]
%s
  - dense: 10
train:
  epochs: 1000000
  steps: %d
  batch: %d
  shards: %d
  eval_every: 0
  optimizer: {sgd: {rate: 0.05, momentum: 0.9}}
""" % (train, CONV % conv if conv else DENSE % units, steps, batch, shards))
    return path


class Track:
    """One incarnation of a node: its process and what it has written, in our time."""

    def __init__(self, node, index):
        self.node, self.index = node, index
        self.name = node.name
        self.lines = []
        self.rest = b""
        self.file = None
        self.offset = None  # our clock less its clock
        self.over = False

    def alive(self):
        return self.node.alive()

    @property
    def pid(self):
        return self.node.process.pid

    def read(self):
        """Take in what the node has written since."""
        if self.file is None:
            try:
                self.file = open(os.path.join(self.node.out, "metrics.jsonl"), "rb")
            except OSError:
                return
        data = self.file.read()
        now = time.monotonic()
        parts = (self.rest + data).split(b"\n")
        self.rest = parts.pop()
        for text in parts:
            found = PATTERN.search(text.decode("ascii", "replace"))
            if not found or found.group(4) == "0":
                continue  # an evaluation
            step, at, peers, _, compute, wait, tx, rx, state = found.groups()
            difference = now - float(at)
            if self.offset is None or difference < self.offset:
                self.offset = difference
            self.lines.append(Line(float(at), int(step), int(peers), state, int(tx), int(rx),
                                   float(compute), float(wait)))

    def at(self, line):
        return line.at + self.offset

    def step(self):
        return self.lines[-1].step if self.lines else 0

    def times(self, begin, end):
        """When it completed steps in [begin, end)."""
        return [t for t in map(self.at, self.lines) if begin <= t < end]


class Net(mesh.Mesh):
    def __init__(self, count, cpu=0.2, tag=None, seed=1, steps=0, options=(), keep=False, **shape):
        self.count, self.seed, self.keep = count, seed, keep
        self.cpu = cpu if isinstance(cpu, (list, tuple)) else [cpu] * count
        self.tag = tag or "net-%d" % os.getpid()
        self.work = tempfile.mkdtemp(prefix="meshnode-%s-" % self.tag)
        super().__init__(self.work, job(os.path.join(self.work, "job.yaml"), steps=steps, **shape),
                         link=("--interface", "eth0"), options=options)
        self.tracks = []           # every incarnation
        self.now = [None] * count  # the present one of each machine
        self.quotas = []
        self.switch_process = None
        self.stop_reading = threading.Event()
        self.poll_s = 0.01
        self.reader = threading.Thread(target=self.read_all, daemon=True)

    def space(self, index):
        return "%s-%d" % (self.tag, index)

    def __enter__(self):
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self

    def open(self):
        for i in range(self.count):
            run("ip", "netns", "add", self.space(i))
            run("ip", "-n", self.space(i), "link", "set", "lo", "up")
        self.switch_process = subprocess.Popen(
            [os.path.join(BUILD, "switch"), str(self.seed)] + [self.space(i) for i in range(self.count)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        if self.switch_process.stdout.readline() != "ready\n":
            raise mesh.Failed("the switch does not start")
        for i in range(self.count):
            space = self.space(i)
            named = ["broadcast", "10.77.0.255"] if i % 2 == 0 else []  # as a DHCP client does it; as a person does
            run("ip", "-n", space, "addr", "add", "%s/24" % self.address(i), *named, "dev", "eth0")
            run("ip", "-n", space, "route", "add", "default", "dev", "eth0")
            # The kernel of a process that is killed behind a cut gives up within a second to end its connections.
            run("ip", "netns", "exec", space, "sysctl", "-qw", "net.ipv4.tcp_orphan_retries=1")
        if Quota.usable():
            self.quotas = [Quota(self.space(i), self.cpu[i]) for i in range(self.count)]
        else:
            loud("no cgroup with cpu quota can be made here: a node that dies frees CPU for the others")
        self.reader.start()

    def __exit__(self, kind, value, trace):
        if kind is not None:
            self.keep = True
            loud("kept: %s" % self.work)
        self.close()

    def close(self):
        self.stop_reading.set()
        if self.reader.is_alive():
            self.reader.join()
        super().close()
        if self.switch_process:
            self.switch_process.stdin.close()
            self.switch_process.wait()
        for quota in self.quotas:
            quota.remove()
        for i in range(self.count):
            run("ip", "netns", "del", self.space(i), check=False)
        if not self.keep:
            shutil.rmtree(self.work, ignore_errors=True)

    @staticmethod
    def address(index):
        return "10.77.0.%d" % (index + 1)

    # ---- what can be done to it ----

    def switch(self, *commands):
        for command in commands:
            self.switch_process.stdin.write(command + "\n")
            answer = self.switch_process.stdout.readline().strip()
            if not answer.startswith("ok"):
                raise ValueError("switch: %s" % answer)
        return answer[3:]

    def heal(self):
        self.switch("groups " + ",".join(map(str, range(self.count))))

    def start(self, index, *options, **more):
        name = "%d.%d" % (index, sum(track.index == index for track in self.tracks))
        prefix = ["ip", "netns", "exec", self.space(index)]
        if self.quotas:
            procs = os.path.join(self.quotas[index].path, "cgroup.procs")
            # In this order: in there /sys is another one.
            prefix = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', procs, *prefix]
        track = Track(super().start(name, *options, prefix=prefix, **more), index)
        self.tracks.append(track)
        self.now[index] = track
        return track

    def kill(self, index):
        track = self.now[index]
        self.signal(signal.SIGKILL, track.name)
        track.over = True
        self.now[index] = None

    def restart(self, index, *options):
        """Kill what is there, if anything is, and start it again without a state."""
        if self.now[index]:
            self.kill(index)
        return self.start(index, *options)

    def end(self):
        """Stop all nodes and take in the last they have written."""
        self.stop_reading.set()
        self.reader.join()
        for i in range(self.count):
            if self.now[i]:
                self.kill(i)
        for track in self.tracks:
            track.read()

    def pause(self, index):
        self.signal(signal.SIGSTOP, self.now[index].name)

    def resume(self, index):
        self.signal(signal.SIGCONT, self.now[index].name)

    # ---- what it does ----

    def look(self):
        """While waiting: a node that ends is an error at once. The reader takes in what they write."""
        self.check_alive()

    def read_all(self):
        while not self.stop_reading.wait(self.poll_s):
            for track in list(self.tracks):
                if not track.over:
                    track.read()

    def check_alive(self):
        for track in self.now:
            if track and not track.alive():
                raise mesh.Failed("%s ended\n%s" % (track.name, self.last_lines()))

    def let(self, seconds):
        """Let the mesh run: the time is part of the experiment."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.check_alive()
            time.sleep(min(0.1, max(0.0, end - time.monotonic())))

    def together(self, indices, since=0.0):
        """Is the last step of each of these (after `since`) one of a plan of all of them?"""
        indices = list(indices)
        for i in indices:
            node = self.now[i]
            if node is None or not node.lines or node.lines[-1].peers != len(indices) or \
                    node.at(node.lines[-1]) < since:
                return False
        return True

    def meet(self, indices=None, since=None):
        """Until these, or all, train together: by a step of each after `since`, or of the last half second."""
        indices = list(range(self.count) if indices is None else indices)
        self.wait("%s to train together" % ", ".join(map(str, indices)), lambda: self.together(
            indices, time.monotonic() - 0.5 if since is None else since))

    def meet_again(self, since):
        """Until each has done a step of all of them; the seconds that took."""
        everybody = range(self.count)
        self.wait("all to be together again", lambda: all(self.joined(i, since, self.count) for i in everybody))
        return max(self.joined(i, since, self.count) for i in everybody) - since

    def begin(self, *options):
        for i in range(self.count):
            self.start(i, *options)
        self.meet()

    def joined(self, index, since, members):
        """When `index` first completed a step in a plan of so many, from `since` on."""
        node = self.now[index]
        for line in node.lines if node else []:
            if node.at(line) >= since and line.peers == members:
                return node.at(line)
        return None

    def gap(self, indices, begin, end):
        """The longest time in [begin, end) without a step, over these nodes, and their median step time."""
        worst, steps = 0.0, []
        for i in indices:
            times = [begin] + self.now[i].times(begin, end) + [end]
            gaps = [b - a for a, b in zip(times, times[1:])]
            worst = max(worst, max(gaps))
            steps += gaps[1:-1]
        return worst, sorted(steps)[len(steps) // 2] if steps else float("inf")

    # ---- the oracle ----

    def reference(self, steps, seconds):
        """Hash of the state after each step of one node that nothing happens to, as far as it gets in time."""
        end = time.monotonic() + seconds
        with mesh.Mesh(os.path.join(self.work, "reference"), self.job) as alone:
            track = Track(alone.start("one", "--quiet", "--set", "mesh.gather_ms=0"), 0)
            while track.alive() and track.step() < steps and time.monotonic() < end:
                time.sleep(0.05)
                track.read()
            return {line.step: line.hash for line in track.lines}

    def verdict(self, seconds=300):
        """Ends all nodes. The state after a step is the same on all nodes and, as far as one node alone gets in
        `seconds`, that of a run without accidents; no incarnation went back. Each state is a function of
        the one before, so states that are equal early and late were equal between. Says so, or raises Failed."""
        self.end()
        last = max(track.step() for track in self.tracks)
        right = self.reference(last, seconds)
        compared = wrong = undone = 0
        seen = dict(right)
        for track in self.tracks:
            before = 0
            for line in track.lines:
                compared += 1
                undone += line.step <= before
                before = line.step
                if seen.setdefault(line.step, line.hash) != line.hash:
                    wrong += 1
                    if wrong <= 3:
                        say("WRONG: %s: state after step %d is %s, elsewhere %s" % (
                            track.name, line.step, line.hash, seen[line.step]))
        reference = min(last, max(right, default=0))
        text = "%d states of %d steps: %d differ from one another or (to step %d) from a run without accidents; " \
            "steps undone: %d; %s" % (compared, last, wrong, reference, undone, mesh.load())
        if wrong or undone or not reference:
            raise mesh.Failed(text)
        say(text)


def tool(main):
    """Run `main`, which returns why a promise was not kept, or None; a deadline that passed is such a reason."""
    try:
        why = main()
    except mesh.Failed as failure:
        why = failure
    if why:
        say("repeat: python3 %s" % " ".join(sys.argv))
    mesh.conclude(why)


def skip(why):
    say("SKIPPED: " + why)
    sys.exit(SKIPPED)


def options(text, **extra):
    """The options every command has; extra: name=(default, help)."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep what the nodes wrote")
    for name, (default, line) in extra.items():
        parser.add_argument("--" + name, type=type(default), default=default, help=("%s (%s)" % (line, default)).replace("%", "%%"))
    chosen = parser.parse_args()
    why = missing()
    if why:
        skip("no network namespaces with TAP devices: %s" % why)
    mesh.needs(os.path.join(BUILD, "switch"))
    os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)  # what is measured is not what else this machine does
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return chosen

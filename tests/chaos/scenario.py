#!/usr/bin/env python3
"""scenario.py FILE ... - carry out scenario files (configs/chaos-*.yaml) on real processes.

`sim --print FILE --seed N` expands a file to timed lines (tests/support/scenario.h); here they happen. Files that only
kill, start and pause run on the loopback interface, those that cut, slow or lose in network namespaces (net.py),
those that fill disks need root for a small file system of each node; what cannot be had here is skipped, and said.

Everybody who runs at the end must then train with all the others that it can hear, twenty steps further than anyone was,
within --within seconds (a state or two must travel, and a suspended session be found again). Oracle: every line of
every metrics.jsonl has the state hash that one node, alone and undisturbed, had after that step. The longest time
without a step of anybody is told: as long as anybody runs, somebody trains.

Files with a free way (`way: async`) have no such states. Their run has an end: each node sleeps for 20 ms where it
computes (a failpoint), so that the run outlives the scenario on a busy machine, too. At the end all have one model, and
the replay of all journals must come to it."""
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import mesh as chaos
import net
import stages
import ways as free

SIM = os.path.join(os.environ.get("BUILD") or os.path.join(chaos.ROOT, "build", "gcc"), "sim")
LOCAL = {"nodes", "kill", "start", "pause", "resume", "end"}
DISK = {"disk_full", "disk_ok"}
DISK_BYTES = 3 << 20
SLEEP_S, REST_S = 0.02, 6.0  # free ways: of a compute; of the run behind the scenario
SKIPPED = 77


def lines_of(file, seed):
    """[(seconds, verb, arguments)] of a scenario."""
    done = subprocess.run([SIM, "--print", file, *(["--seed", str(seed)] if seed is not None else [])],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise chaos.Failed(done.stdout.strip())
    return [(float(at), verb, arguments) for at, verb, *arguments in (line.split() for line in done.stdout.splitlines())]


class World:
    """Nodes 1..most of a scenario, on loopback or in namespaces; files of node 3 are in folder/3."""

    def __init__(self, folder, job, most, in_namespaces, with_disks, options, way=None):
        self.folder, self.most, self.with_disks, self.way = folder, most, with_disks, way
        self.folders = []  # of all starts
        self.nets = net.Net(most, cpu=0.4, options=options) if in_namespaces else None
        self.mesh = self.nets or chaos.Mesh(folder, job, options=options)
        self.mesh.job, self.mesh.poll_s = job, 1.0
        self.current = {}  # number to mesh.Node
        self.unheard = set()
        self.mounted = []
        if way:
            chaos.needs(chaos.FAILNODE)
            self.mesh.program = chaos.FAILNODE
            self.mesh.look = lambda: None  # the run has an end: a node that ends is none

    def __enter__(self):
        os.makedirs(self.folder, exist_ok=True)
        if self.nets:
            self.nets.open()
        for number in range(1, self.most + 1) if self.with_disks else []:
            os.makedirs(self.out(number))
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "chaos", self.out(number)], check=True)
            self.mounted.append(self.out(number))
        return self

    def __exit__(self, *exception):
        self.mesh.close()
        for path in self.mounted:
            shutil.copytree(path, path + ".kept", dirs_exist_ok=True)  # outputs outlive the file system
            subprocess.run(["umount", "-l", path], check=True)

    def out(self, number):
        return os.path.join(self.folder, str(number))

    def node(self, number):
        return self.current.get(number)

    # ---- the verbs ----

    def start(self, number, fresh=False):
        out, options = self.out(number), []
        if self.way and fresh and os.path.exists(out):
            out = f"{out}-{len(self.folders)}"  # the journal of the former start is needed
        elif fresh and os.path.exists(out):
            options = ["--fresh"]
        if out not in self.folders:
            self.folders.append(out)
        more = {"out": out, "env": {"MESHNODE_FAIL": f"compute:1+:sleep={SLEEP_S * 1000:.0f}"} if self.way else None}
        # A line of metrics.jsonl is judged once; what an earlier start wrote is kept beside.
        if os.path.exists(os.path.join(self.out(number), "metrics.jsonl")):
            shutil.copy(os.path.join(self.out(number), "metrics.jsonl"),
                        os.path.join(self.folder, f"{number}.{time.monotonic_ns()}.jsonl"))
        if self.nets:
            self.current[number] = self.nets.start(number - 1, *options, **more).node
        else:
            self.current[number] = self.mesh.start(f"{number}", *options, **more)

    def signal(self, number, what):
        if self.nets and what == signal.SIGKILL:
            self.nets.kill(number - 1)
        elif self.nets:
            self.nets.signal(what, self.nets.now[number - 1].name)
        else:
            self.mesh.signal(what, f"{number}")
        if what == signal.SIGKILL:
            del self.current[number]

    def line(self, a, b, cut):
        self.nets.switch(f"line {a - 1} {b - 1} cut={cut}")
        self.unheard = self.unheard | {(a, b)} if cut else self.unheard - {(a, b)}

    def loss(self, permille):
        for a in range(self.most):
            for b in range(self.most):
                if a != b:
                    self.nets.switch(f"line {a} {b} loss={permille / 1000:g}")

    def disk(self, number, full):
        filler = os.path.join(self.out(number), "filler")
        if not full:
            os.unlink(filler)
            return
        with open(filler, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass  # full

    def do(self, verb, arguments):
        number = int(arguments[0]) if arguments else 0
        if verb == "kill":
            self.signal(number, signal.SIGKILL)
        elif verb == "start":
            self.start(number, arguments[1:] == ["fresh"])
        elif verb in ("pause", "resume"):
            self.signal(number, signal.SIGSTOP if verb == "pause" else signal.SIGCONT)
        elif verb in ("cut", "mend"):
            self.line(number, int(arguments[1]), int(verb == "cut"))
        elif verb in ("slow", "fast"):
            self.nets.switch(f"port {number - 1} rate={int(arguments[1]) // 8 if verb == 'slow' else 0}")
        elif verb == "loss":
            self.loss(number)
        elif verb in DISK:
            self.disk(number, verb == "disk_full")
        else:
            raise chaos.Failed(f"unknown line of a scenario: {verb} {' '.join(arguments)}")

    # ---- what is expected ----

    def groups_whole(self):
        """Nodes of which each pair hears each other train together."""
        return not self.unheard

    def well(self, beyond):
        for number, node in self.current.items():
            if not node.alive() and self.way and node.status == 0:
                continue  # the run is over
            if not node.alive():
                raise chaos.Failed(f"{number} ended with status {node.status}\n{self.mesh.last_lines()}")
            steps = node.steps()
            if not steps or steps[-1]["step"] < beyond:
                return False
            if self.groups_whole() and steps[-1]["peers"] != len(self.current):
                return False
        return True

    def hashes(self):
        """{(step, hash)} of all lines of all starts of all nodes."""
        found, paths = set(), [os.path.join(self.folder, name) for name in os.listdir(self.folder)]
        paths = [os.path.join(path, "metrics.jsonl") if os.path.isdir(path) else path for path in paths]
        for path in paths:
            if path.endswith(".jsonl") and os.path.exists(path) and "reference" not in path:
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                found |= {(int(step), value) for step, value in
                          re.findall(r'^{"step":(\d+),.*?"state_hash":"([0-9a-f]+)"', text, re.M)}
        return found


    def finish(self):
        """The end of a run in a free way."""
        nodes = list(self.current.values())
        self.mesh.wait("the run to end", lambda: not any(node.alive() for node in nodes), chaos.DEADLINE_S)
        failed = [f"{node.name} ended with status {node.status}" for node in nodes if node.status]
        wrong = failed[0] if failed else free.said(nodes, "differ after")
        if wrong:
            raise chaos.Failed(f"{wrong}\n{self.mesh.last_lines()}")
        return free.one_model(nodes)


def reference(folder, job, options, steps):
    """Hashes of the state after each step of a node alone, at least so many."""
    with chaos.Mesh(os.path.join(folder, "reference"), job, options=options) as alone:
        node = alone.start("one", "--quiet", "--set", "mesh.gather_ms=0")
        alone.wait(f"step {steps} of the reference", lambda: node.step() >= steps, 600)
        alone.signal(signal.SIGKILL, "one")
        return {step["step"]: step["state_hash"] for step in node.steps()}


def idle_time(times):
    """The longest time between two steps of anybody; `times` is when the watch saw the front move."""
    return max((b - a for a, b in zip(times, times[1:])), default=0.0)


def play(world, lines, within):
    """Returns the longest time in which nobody who ran completed a step, in seconds, less power failures."""
    count = int(lines[0][2][0])
    for number in range(1, count + 1):
        world.start(number)
    world.mesh.wait(f"{count} nodes to meet", lambda: world.well(3))
    begun = time.monotonic()
    worst, moved, front = 0.0, begun, 0
    for at, verb, arguments in lines[1:]:
        while time.monotonic() < begun + at:
            time.sleep(chaos.POLL_S)
            steps = [node.step() for node in world.current.values() if node.alive() and not node.stopped]
            now = time.monotonic()
            if not steps:
                moved, front = now, 0  # nobody there: nobody to blame
            elif max(steps) != front:
                worst, moved, front = max(worst, now - moved), now, max(steps)
        if verb != "end":
            world.do(verb, arguments)
    beyond = max(node.step() for node in world.current.values()) + (5 if world.way else 20)
    ended = time.monotonic()
    world.mesh.wait(f"all that run to train together beyond step {beyond}", lambda: world.well(beyond), within)
    return worst, time.monotonic() - ended


def steps(lines):
    """As many as all nodes need for the scenario and some seconds more: a step takes SLEEP_S."""
    return int((lines[-1][0] + REST_S) / SLEEP_S)


def one(folder, random, index, file, seed, within):
    lines = lines_of(file, seed)
    verbs = {verb for _, verb, _ in lines}
    in_namespaces, with_disks = bool(verbs - LOCAL - DISK), bool(verbs & DISK)
    why = net.missing() if in_namespaces else "not root" if with_disks and os.geteuid() != 0 else None
    if why:
        return None, f"SKIPPED: {why}"
    os.makedirs(folder)
    options = ["--set", "train.checkpoint_every=50", "--set", "mesh.gather_ms=300"]
    words = lines[0][2][2:]
    way = next((word for word in words if word in free.WAYS), None)
    count = next((word.partition("=")[2] for word in words if word.startswith("stages=")), None)
    job = (stages.write(folder, "cnn", 0) if count else
           net.job(os.path.join(folder, "job.yaml"), units=24, batch=24, train=480))
    for servers in [word for word in words if word != way and "=" not in word]:
        options += ["--set", "mesh.topology=server", "--set", f"mesh.servers={servers}"]
    if count:  # of short steps: else one node is faster alone
        options += [*chaos.EVEN, "--set", f"mesh.stages={count}"]
    options += [*free.WAYS[way], "--set", f"train.steps={steps(lines)}"] if way else []
    with World(os.path.join(folder, "nodes"), job, int(lines[0][2][1]), in_namespaces, with_disks, options, way) as world:
        try:
            idle, healed = play(world, lines, within)
            model = world.finish() if way else None
            if way:
                free.replay(world.folders)
        except chaos.Failed as failure:
            raise chaos.Failed(f"{file}: {failure}") from None
    if way:
        return 1, f"{way}: {idle:.2f} s without a step, all together {healed:.2f} s later, one model {model[:16]}"
    found = world.hashes()
    right = reference(folder, job, options, max(step for step, _ in found))
    wrong = [(step, value) for step, value in sorted(found) if right.get(step) != value]
    if wrong:
        raise chaos.Failed(f"{file}: {len(wrong)} states differ from those of a node alone, first {wrong[0]}")
    return len(found), f"{max(step for step, _ in found)} steps, {idle:.2f} s without a step, all together {healed:.2f} s later"


def body(runs):
    args, rows = runs.args, []
    args.runs = len(args.files)
    for index in runs:
        file = args.files[index]
        result = runs.do(one, index, file, args.scenario_seed, args.within)
        rows.append([os.path.basename(file), *(["", "FAILED"] if not result else [result[0] or "", result[1]])])
        print(f"{rows[-1][0]}: {rows[-1][2]}", flush=True)
    print(chaos.load())
    chaos.table(["scenario", "distinct states, all right", "what happened"], rows)
    return None


if __name__ == "__main__":
    parser = chaos.parser(__doc__, runs=0)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--scenario-seed", type=int, help="instead of the file's")
    parser.add_argument("--within", type=float, default=chaos.DEADLINE_S,
                        help="seconds for the mesh to be whole in the end; less than those of a hang: for a quiet machine")
    chaos.tool(parser.parse_args(), body)

#!/usr/bin/env python3
"""free.py - accidents in the ways to train whose result depends on the timing of the nodes: gossip with
bsp and async, push-sum. One node at a time is killed or stopped at a random instant, and
comes back a moment later; new nodes join.

What must hold in each run: the others go on at once, nothing hangs, all that run at the end have one model and one state.
A replay of the journals of all nodes, the killed ones included, gives the SHA-256 of the run (--no-replay leaves it out).

A pause is the largest gap between two steps of one node that was not harmed, in the three seconds from the accident on,
less the step that is usual; the worst node counts. It ends with the next accident at the latest. --worst is its limit;
1000 is the promise, on a machine that has nothing else to do. --jobs does several runs
side by side."""
import concurrent.futures
import os
import signal
import threading
import time

import mesh as chaos
import ways as free

STEPS = {  # of a run of about ten seconds
    "gossip-bsp": 6000, "gossip-async": 9000, "gossip-topk": 6000, "gossip-async-topk": 9000, "push-sum": 6000}
KINDS = ["kill", "stop", "join"]
AWAY_S = (0.2, 1.5)  # how long a victim is gone or stopped


class Accident:
    def __init__(self, kind, others, at):
        self.kind, self.others, self.at = kind, others, at
        self.pauses = []  # of the others, ms

    def worst(self):
        return max(self.pauses, default=None)


class Run:
    """A mesh, and what happens to it. A node that comes back goes on in its folder, or begins in a new one."""

    def __init__(self, mesh, random, names):
        self.mesh, self.random, self.names = mesh, random, names
        self.folders, self.said, self.told, self.replayed = [], [], [], False

    def start(self, name, *options, out=None):
        out = out or os.path.join(self.mesh.folder, f"{name}-{len(self.folders)}")
        if out not in self.folders:
            self.folders.append(out)
        self.mesh.start(name, *options, out=out)

    def begin(self):
        for name in self.names:
            self.start(name, "--peers", str(len(self.names)))
        self.mesh.wait("all to train", lambda: self.mesh.reached(3, self.names))

    def front(self):
        return max(self.mesh.step(name) for name in self.names)

    def went_on(self, name, before):
        return self.mesh.step(name) > before or not self.mesh.nodes[name].alive()

    def accident(self, kind, step):
        """At this step or soon after it; the victim is back at the end, and the others have gone on."""
        self.mesh.wait(f"step {step}", lambda: self.front() >= step)
        time.sleep(self.random.random() * 0.02)  # waits for nothing: spreads the instants
        victim = self.random.choice(self.names) if kind != "join" else None
        others = [name for name in self.names if name != victim]
        away = self.random.uniform(*AWAY_S)
        self.settle()
        self.told.append(Accident(kind, others, time.time()))
        if victim:
            self.mesh.signal(signal.SIGKILL if kind == "kill" else signal.SIGSTOP, victim)
        before = {name: self.mesh.step(name) for name in self.names}
        self.mesh.wait("the others to go on", lambda: all(self.went_on(name, before[name]) for name in others))
        time.sleep(away)  # the accident lasts so long
        self.back(kind, victim, before.get(victim))
        self.said.append(f"{kind} {victim or self.names[-1]} at step {step}, {away:.2f} s")

    def back(self, kind, victim, before):
        if kind == "stop":
            self.mesh.signal(signal.SIGCONT, victim)
            self.mesh.wait(f"{victim} to go on", lambda: self.went_on(victim, before))
            return
        if kind == "kill":
            self.start(victim, out=self.mesh.nodes[victim].out if self.random.random() < 0.5 else None)
        else:
            victim = f"late{len(self.names)}"
            self.names.append(victim)
            self.start(victim)
        node = self.mesh.nodes[victim]
        self.mesh.wait(f"{victim} to be back", lambda: not node.alive() or (
            node.began < time.time() and node.steps() and node.steps()[-1]["peers"] > 1))

    def settle(self):
        """The next accident comes now, or all have ended: what the last one cost the others is known."""
        if self.told and not self.told[-1].pauses:
            last = self.told[-1]
            nodes = [self.mesh.nodes[name] for name in last.others]
            found = [chaos.pause(node, last.at, time.time() if node.alive() else None) for node in nodes]
            last.pauses = [pause[0] for pause in found if pause]

    def finish(self):
        self.mesh.finish(self.names)
        self.settle()


def judge(run, limit, replays):
    nodes = run.mesh.nodes.values()
    free.one_model(nodes)
    wrong = free.said(nodes, "differ after")
    if wrong:
        raise chaos.Failed(wrong)
    worst = max((ms for accident in run.told for ms in accident.pauses), default=0)
    if worst > limit:
        raise chaos.Failed(f"a pause of {worst:.0f} ms")
    if replays:
        free.replay(run.folders)
        run.replayed = True


def length(way, args):
    """Steps of a run: enough for all accidents and what comes after them."""
    return int(STEPS[way] * args.length * (args.accidents + 1) / 4)


def one(folder, random, index, way, kinds, args):
    options, count = free.WAYS[way], random.randint(3, args.nodes)
    steps = length(way, args)
    accidents = [kinds[(index * args.accidents + k) % len(kinds)] for k in range(args.accidents)]
    at = sorted(random.randint(3, int(steps * 0.6)) for _ in accidents)
    with chaos.Mesh(folder, f"{chaos.CHAOS}/tiny.yaml", options=[*options, "--set", f"train.steps={steps}"]) as mesh:
        run = Run(mesh, random, [f"n{i}" for i in range(count)])
        try:
            run.begin()
            for kind, step in zip(accidents, at):
                if run.front() < steps * 0.8:
                    run.accident(kind, max(step, run.front() + 1))
            run.finish()
            judge(run, args.worst, not args.no_replay)
        except chaos.Failed as failure:
            raise chaos.Failed(f"{way}, {count} nodes, {'; '.join(run.said) or 'nothing'}: {failure}") from None
        return run


def rows(done):
    """A row for each way and kind."""
    table = {}
    for way, run in done:
        for accident in run.told:
            table.setdefault((way, accident.kind), []).append(accident.worst())
    for key in sorted(table):
        found = [ms for ms in table[key] if ms is not None]
        yield [*key, len(table[key]), "%.0f" % chaos.percentile(found, 0.5), "%.0f" % max(found, default=0)]


def side_by_side(runs, jobs, do):
    """Each thread takes the next index when it is free; so --seconds counts. What a run raises ends the tool."""
    indices, lock, broken = iter(runs), threading.Lock(), threading.Event()

    def work():
        while not broken.is_set():
            with lock:
                index = next(indices, None)
            if index is None:
                return
            try:
                do(index)
            except BaseException:
                broken.set()
                raise

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for thread in concurrent.futures.as_completed([pool.submit(work) for _ in range(jobs)]):
            thread.result()


def body(runs):
    args = runs.args
    ways, kinds = args.ways.split(","), args.kinds.split(",")
    unknown = [word for word in ways if word not in free.WAYS] + [word for word in kinds if word not in KINDS]
    if unknown:
        return f"{unknown[0]} is unknown; there are {' '.join(free.WAYS)}, and {' '.join(KINDS)}"
    done, counts = [], {way: [0, 0] for way in ways}

    def do(index):
        way = ways[index % len(ways)]
        result = runs.do(one, index, way, kinds, args)
        counts[way][0] += 1
        counts[way][1] += result is None
        if result:
            done.append((way, result))
        if result and args.verbose:
            pauses = [accident.worst() and round(accident.worst()) for accident in result.told]
            print(f"run {index}: {way}: {'; '.join(result.said)}; pauses {pauses} ms", flush=True)

    side_by_side(runs, args.jobs, do)
    print(f"seed {args.seed}, {chaos.load()}")
    chaos.table(["way", "accident", "instants", "pause p50 ms", "max"], rows(done))
    for way, (tried, failed) in counts.items():
        good = [run for name, run in done if name == way]
        print(f"{way}: {tried} runs, {failed} failed; {sum(len(run.told) for run in good)} accidents, "
              f"{sum(run.replayed for run in good)} replays with the SHA-256 of the run")
    return None


if __name__ == "__main__":
    parser = chaos.parser(__doc__, runs=6)
    parser.add_argument("--ways", default=",".join(free.WAYS))
    parser.add_argument("--kinds", default="kill,stop")
    parser.add_argument("--accidents", type=int, default=3, help="in each run, one after the other")
    parser.add_argument("--nodes", type=int, default=5, help="at most this many at first, at least 3")
    parser.add_argument("--length", type=float, default=1, help="of a run")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side")
    parser.add_argument("--worst", type=float, default=10000, help="ms; a longer pause fails")
    parser.add_argument("--no-replay", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    chaos.tool(parser.parse_args(), body)

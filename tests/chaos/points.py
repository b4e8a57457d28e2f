#!/usr/bin/env python3
"""points.py - let a node die, stop or hang at every failpoint, in every role; the others must end alike.

A scene is what a mesh of n nodes goes through and which of them is the victim:

    leader    n nodes train from the start, the lowest id dies         member    the same, the highest id dies
    joiner    n-1 train, the n-th comes later and dies                 donor     the same, the leader dies
    survivor  one of n nodes is killed, then the leader dies of what follows from the other's death
    damaged   all are killed and start again; the highest, whose newest checkpoint is damaged, dies
    lender    the same, the lowest, which has the pages that the highest needs, dies
    asker     as joiner, but the n-th has no job and asks for it       giver     the same with 2, whom it asks dies
    host      a node of another run comes, the leader dies of it
    accuser   all audit one another, the highest lies, and the leader dies of that. An audit recomputes one shard, so
              lies about the others may be in the result: all must end, with whatever weights

Two first runs of each scene count how often its victim comes to each point; the lower count is what it does every
time. Then each (scene, n, point, action) is one run, in which the victim does it at the k-th time, k drawn from 1
to that count. The others must finish with the hash of an undisturbed node. Then the stopped is continued, the
dead started again (every other time with --resume), and must reach that hash, too. Pauses as in kills.py; what
happens before the fourth step has none.

Without --all, --runs cases of --scenes scenes that --seed draws. When the victim did not come so often (the course of
events varies), all must end alike, too, and the case is done once more with k = 1 and more time to meet; a victim
that does not come even then has failed. Points that no case came to are named at the end, and with --all they are a failure.
"""
import os
import random
import re
import signal

import mesh as chaos
from cold import checkpoints

ACTIONS = ["kill", "stop", "hang"]
SIZES = [2, 3, 4]
PLAIN, JOIN, AFTER, COLD = ["leader", "member"], ["joiner", "donor"], ["survivor"], ["damaged", "lender"]
ASK, ODD = ["asker", "giver"], ["host", "accuser"]
ROLES = PLAIN + JOIN + AFTER + COLD + ASK + ODD
LAST = ["member", "joiner", "damaged", "asker"]  # in these the highest is the victim
LEAST = {"survivor": 3, "accuser": 3}  # nodes
MOST = {"damaged": 3, "lender": 3, "giver": 2, "accuser": 3}
STEPS = {2: 300, 3: 200, 4: 150}
ASKED = 5  # times as many steps where a node comes without a job: who could give it must not have ended before
GATHER_MS = {False: (300, 3000), True: (1500, 5000)}  # the first attempt, another; in a cold start
LOST = "no whole checkpoint"
# Where else to look is a waste of time: the rest is as in scenes of training.
POINTS = {"joiner": r"fetch|state|adopt|offer|follow|total|hold|hello|peers|peer-u|connect|beacon|plan|heartbeat|commit|bucket-r",
          "survivor": r"abort|link|peer-d|plan|heartbeat|reduce-s|gather-g|compute|bucket-r|commit|reported"}
# What only a late or lost node brings comes there by chance, if at all.
POINTS["leader"] = POINTS["member"] = r"(?!abort|state|offer|follow|total|hold|fetch|adopt|refuse|link-lost|peer-down)"
POINTS["asker"] = POINTS["giver"] = r"job"
POINTS["host"], POINTS["accuser"] = r"refuse", r"accuse"
POINTS["donor", 2] = POINTS["joiner"]
POINTS["donor"] = r"hold|hello|peers|peer-u|connect|beacon|plan|heartbeat|commit|bucket-r"  # one of several, asked or not
# Whether the others hold for a joiner depends on the instant, so does whether a node hears of another one by its beacon or
# from a peer, and the last one to end has nobody to say goodbye to: a case whose victim did not is no failure.
CHANCE = r"hold|bye|peers-"
POINTS["damaged"] = POINTS["lender", 2] = r"file|want|page|checkpoint|dir|hello-t"
POINTS["lender"] = r"file|checkpoint|dir|hello-t"  # one of several, asked or not


class Scene:
    """A job and a course of events; `victim` has its rules in the environment."""

    def __init__(self, role, count, folder):
        self.role, self.count, self.gather_ms = role, count, GATHER_MS[role in COLD][0]
        with open(f"{chaos.CHAOS}/tiny.yaml", encoding="utf-8") as file:
            self.job = file.read()
        if role in JOIN + ASK:  # a state of several blocks, and steps that last until the joiner is there
            self.job = self.job.replace("dense: 24", "dense: 192")
        steps = STEPS[count] * (ASKED if role in ASK else 1)
        self.options = ["--set", f"train.steps={steps}", "--set", "train.checkpoint_every=40"]
        if role == "accuser":
            self.options[1] = "train.steps=60"
            self.options += ["--set", "mesh.audit=1"]
        self.hashes, self.steps = chaos.reference(os.path.join(folder, f"{role}-{count}"), self.job, *self.options)
        self.names = [f"n{i}" for i in range(1, count + 1)]
        self.victim = self.names[-1] if role in LAST else self.names[0]
        self.accident = self.names[-1] if role in AFTER else None
        self.liar = self.names.pop() if role == "accuser" else None
        self.others = [name for name in self.names if name not in (self.victim, self.accident)]

    def start(self, mesh, name, rule, first):
        env = {"MESHNODE_ID": format(16 * int(name[1:]), "x")}
        if rule and name == self.victim:
            env["MESHNODE_FAIL"] = rule
        if name == self.liar:
            env["MESHNODE_FAIL"] = "lie:50+:error"
        start = ["--peers", str(first)] if first else ["--set", f"mesh.gather_ms={self.gather_ms}"]
        mesh.start(name, *start, env=env, job=self.role not in ASK or name != self.names[-1])

    def play(self, mesh, rule):
        """To the end of all but the victim and whoever was killed on purpose."""
        if self.role in COLD:
            self.power_cut(mesh)
        first = self.names[:-1] if self.role in JOIN + ASK else self.names + [self.liar] * bool(self.liar)
        for name in first:
            # Elsewhere, to wait for a number of nodes would be to wait for a victim that dies too early.
            self.start(mesh, name, rule, {"joiner": self.count - 1, "asker": self.count - 1,
                                          "accuser": self.count}.get(self.role, 0))
        if self.role == "host":
            mesh.wait("ten steps", lambda: mesh.reached(10, first))
            mesh.start("stranger", "--set", "run.name=other", "--set", "mesh.gather_ms=300")
        if self.role in JOIN + ASK:
            joiner = self.names[-1]
            mesh.wait("ten steps", lambda: mesh.reached(10, self.others[:1]) or not mesh.nodes[self.others[0]].alive()
                      if self.others != [joiner] else mesh.step(first[0]) >= 10 or not self.lives(mesh, first[0]))
            self.start(mesh, joiner, rule, 0)
        if self.accident:
            mesh.wait("step 50", lambda: all(mesh.step(name) >= 50 or not mesh.nodes[name].alive()
                                             for name in self.others))
            mesh.signal(signal.SIGKILL, self.accident)
        if self.role == "giver" and rule != "hits":  # without it the other has no job
            mesh.wait("the failpoint", lambda: self.came(mesh))
        else:
            self.finish(mesh, self.others)

    def finish(self, mesh, names):
        """They end well. Whose only checkpoint nobody can mend any more says so and goes on with --fresh."""
        if self.role in COLD:
            mesh.wait(f"{' '.join(names)} to end", lambda: not any(mesh.nodes[name].alive() for name in names))
            for name in names:
                if mesh.nodes[name].status == 1 and LOST in mesh.nodes[name].text():
                    mesh.start(name, "--fresh")
        mesh.finish(names)

    def settle(self, mesh, action):
        """The victim may come to its point when the others are done. It has acted when this returns, or has ended."""
        victim = mesh.nodes[self.victim]
        mesh.wait(f"{self.victim} to {action} or end", lambda: not victim.alive() or self.role == "asker" or (
            mesh.is_stopped(self.victim) if action == "stop" else
            action == "hang" and self.came(mesh)))

    def power_cut(self, mesh):
        """All have a checkpoint and are gone; a page of the last one's newest is wrong."""
        for name in self.names:
            self.start(mesh, name, None, self.count)
        mesh.wait("a checkpoint of every node", lambda: all(checkpoints(mesh.nodes[name].out) for name in self.names))
        mesh.signal(signal.SIGKILL, *self.names)
        out = mesh.nodes[self.names[-1]].out
        path = f"{out}/checkpoint-{checkpoints(out)[0]}"
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 2)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 4]))

    def came(self, mesh):
        """The line in which the victim says that it came to its point, and when."""
        return re.search(r"^failpoint \S+ \d+: \w+ at ([\d.]+)$", mesh.nodes[self.victim].text(), re.M)

    def lives(self, mesh, name):
        """Neither ended, nor stopped, nor does it hang at the point where it is to."""
        return mesh.nodes[name].alive() and not mesh.is_stopped(name) and not (name == self.victim and self.came(mesh))

    def hits(self, folder):
        """How often the victim comes to each point, at least, when nothing is done to it."""
        once, again = (self.hits_once(os.path.join(folder, f"{self.role}-{self.count}-hits{k}")) for k in (1, 2))
        return {point: min(count, again[point]) for point, count in once.items() if point in again}

    def hits_once(self, folder):
        with chaos.Mesh(folder, self.job, program=chaos.FAILNODE,
                        options=self.options) as mesh:
            self.play(mesh, "hits")
            self.finish(mesh, [self.victim])
            text = mesh.nodes[self.victim].text()
        return {point: int(count) for point, count in re.findall(r"^failpoint (\S+) hits ([1-9]\d*)$", text, re.M)}

    def bring_back(self, mesh, action, random):
        """The victim and the killed one, to the same end as the others."""
        back = [name for name in (self.victim, self.accident) if name]
        mesh.signal(signal.SIGCONT, self.victim)
        if action == "hang" or self.role == "asker":  # by now nobody is left to give it a job
            mesh.signal(signal.SIGKILL, self.victim)
        if self.liar:
            mesh.signal(signal.SIGKILL, self.liar)
        for name in back:
            if not mesh.nodes[name].alive() and mesh.nodes[name].status != 0:
                mesh.start(name, *random.choice([["--resume"], []]))
        self.finish(mesh, [*self.others, *back])

    def run(self, folder, random, action, point, hits):
        """The rule of the last attempt, whether the first missed, the worst pause with the usual step before it."""
        for name, k, self.gather_ms in zip("ab", (random.randint(1, hits), 1), GATHER_MS[self.role in COLD]):
            rule = f"{point}:{k}:{action}"
            fired, pause = self.attempt(f"{folder}/{name}", random, action, rule)
            if fired:
                return rule, k, pause
        if re.match(CHANCE, point):
            return rule, None, None
        raise chaos.Failed(f"{self.role} of {self.count}, {rule}: the victim never came to it")

    def attempt(self, folder, random, action, rule):
        with chaos.Mesh(folder, self.job, program=chaos.FAILNODE, options=self.options) as mesh:
            try:
                self.play(mesh, rule)
                self.settle(mesh, action)
                fired = self.came(mesh)
                pauses = [chaos.pause(mesh.nodes[name], float(fired[1])) for name in self.others] if fired else []
                self.bring_back(mesh, action, random)
                found = mesh.hashes([name for name in self.names])
                if found != {self.hashes} and not self.liar:
                    raise chaos.Failed(f"hashes {found}, expected {self.hashes}")
            except chaos.Failed as failure:
                raise chaos.Failed(f"{self.role} of {self.count}, {rule}: {failure}") from None
        return fired, max((pause for pause in pauses if pause), default=None)


def cases(scenes, hits, actions):
    """All of them, always in the same order."""
    for key, scene in scenes.items():
        for point in sorted(hits[key]):
            if re.match(POINTS.get(key, POINTS.get(scene.role, "")), point):
                for action in actions:
                    yield scene, action, point, hits[key][point]


def kinds():
    return [(action, other) for action in ACTIONS for other in (False, True)]


def pauses_of(done, kind):
    return [result[2] for result in done if result[0] == kind and result[2] is not None]


def report(done, failed, total):
    rows = []
    for kind in kinds():
        mine, pauses = [result for result in done if result[0] == kind], pauses_of(done, kind)
        pauses = [pause[0] for pause in pauses]
        figures = (chaos.percentile(pauses, 0.5), chaos.percentile(pauses, 0.99), max(pauses, default=0))
        rows.append([kind[0], "joining, cold start" if kind[1] else "in training", len(mine) + failed[kind], failed[kind],
                     len(pauses), *("%.1f" % figure for figure in figures)])
    print(f"{total} cases in these scenes; {chaos.load()}")
    chaos.table(["action", "scene", "runs", "failed", "pauses", "p50 ms", "p99", "max"], rows)


def prepare(keys, folder):
    """The scenes, how often their victims come to each point, and the names of scenes that fail by themselves."""
    scenes, hits, broken = {}, {}, []
    for key in keys:
        try:
            scene = Scene(*key, folder)
            hits[key], scenes[key] = scene.hits(folder), scene
        except chaos.Failed as failure:
            broken.append(f"{key[0]} of {key[1]}")
            print(f"{broken[-1]}, without any accident: {failure}", flush=True)
    return scenes, hits, broken


def body(runs):
    args = runs.args
    roles = args.roles.split(",")
    keys = [(role, count) for role in roles for count in args.sizes
            if LEAST.get(role, 2) <= count <= MOST.get(role, 4)]
    if not args.all:
        keys = random.Random(args.seed).sample(keys, min(args.scenes, len(keys)))
    scenes, hits, broken = prepare(keys, runs.folder)
    everything = list(cases(scenes, hits, args.actions.split(",")))
    chosen = runs.draw(case for case in everything if re.search(args.point or "", case[2]))
    done, missed, failed = [], [], dict.fromkeys(kinds(), 0)
    for index in runs:
        scene, action, point, count = chosen[index]
        kind = action, scene.role in JOIN + ASK + COLD
        result = runs.do(lambda folder, rng, _: scene.run(folder, rng, action, point, count), index)
        if not result:
            failed[kind] += 1
            continue
        rule, k, pause = result
        if k is None:
            missed.append(rule)
            continue
        done.append((kind, point, pause))
        if args.verbose or (pause and chaos.calm(pause) > args.worst):
            print(f"run {index}: {scene.role} of {scene.count}, {rule}: "
                  f"{'no pause' if pause is None else f'{pause[0]:.1f} ms'}", flush=True)
    report(done, failed, len(everything))
    if missed:
        print(f"no victim came to, by chance: {' '.join(missed)}")
    never = unreached(done, everything, hits, args)
    if broken:
        return f"{', '.join(broken)} failed without any accident"
    if whole(args) and never:
        return f"no case came to: {' '.join(never)}"
    return judge(done, args)


def whole(args):
    """Is every point to be reached?"""
    return args.all and not args.point and args.run is None and not args.seconds and args.roles == ",".join(ROLES)


def unreached(done, everything, hits, args):
    """Points without a case in which the victim came there; says why."""
    came, tried = {result[1] for result in done}, {case[2] for case in everything}
    met = set().union(*hits.values())
    why = {point: "its cases failed, or were not drawn" if point in tried else
           "met, but tried in none of these scenes" if point in met else "no victim comes to it every time"
           for point in points() if point not in came}
    print(f"{len(came)} failpoints came to act, {len(why)} did not" + ("" if whole(args) or not why else
          ": --all without other options does all cases"))
    if whole(args):
        for point, reason in why.items():
            print(f"    {point}: {reason}")
    return list(why)


def judge(done, args):
    for action, other in kinds():
        pauses = pauses_of(done, (action, other))
        why = chaos.judge(action if not other else "joining, cold start", pauses, args.judge, args.worst)
        if why:
            return why
    return None


def points():
    with os.popen(f"'{chaos.FAILNODE}' --failpoints") as listing:
        return [line.split()[0] for line in listing]


if __name__ == "__main__":
    parser = chaos.parser(__doc__, runs=20, cases="case")
    parser.add_argument("--scenes", type=int, default=3)
    parser.add_argument("--roles", default=",".join(ROLES))
    parser.add_argument("--actions", default=",".join(ACTIONS))
    parser.add_argument("--sizes", type=lambda text: [int(n) for n in text.split(",")], default=SIZES)
    parser.add_argument("--point", help="only points that match this regular expression")
    parser.add_argument("--judge", action="store_true", help="fail beyond the pass lines: for a quiet machine")
    parser.add_argument("--worst", type=float, default=10000, help="ms; a longer pause fails in any case")
    chaos.tool(parser.parse_args(), body)

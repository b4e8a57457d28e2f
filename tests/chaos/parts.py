#!/usr/bin/env python3
"""parts.py - nodes that hold parts of a model: one is killed before its first checkpoint, in the last ten steps, or at the end, and
comes back.

Every run draws 2..--nodes nodes, stages, who and when. In every other run mesh.mirror is no; in the rest each node has memory for
half of the model or more (train.memory_max). The kinds take turns:

    first   before anything is saved; it comes back with its folder
    lost    as first, or later; it comes back with an empty folder, so that what it held is nowhere
    last    in the last ten steps
    end     when it is done: before its last checkpoint, or after its results
    late    in the last ten steps; it comes back when the others have ended, if they could end without it

Whoever finds nobody who has the rest is joined by the others, started again. Nobody may wait for ever, and all must end with the hash
of an undisturbed single node."""
import os
import shutil
import signal
import time

import mesh as chaos
import stages

STEPS, LAST = 60, 10
KINDS = ["first", "lost", "last", "end", "late"]
LIMIT_S = 120  # a node waits at most 60 s for what nobody has
MEMORY = (46, 50)  # MiB: two nodes hold all of this
WIDE = """run: {name: wide, seed: 3, numerics: portable}
data: {source: glyphs, train: 96, test: 24}
model: [flatten, dense: 256, relu, dense: 256, relu, dense: 256, relu, dense: 256, relu, dense: 10]
train: {epochs: 1000, batch: 48, shards: 4, steps: STEPS, eval_every: 0, optimizer: {sgd: 0.05}}
"""


def draw(random, kind, nodes_max):
    names = [f"n{i}" for i in range(random.randint(2, nodes_max))]
    step = {"first": random.randint(1, 6), "lost": random.randint(1, STEPS - 1), "end": STEPS}.get(kind, random.randint(STEPS - LAST, STEPS - 1))
    point = random.choice(["done:1", "result:1"]) if kind == "end" else f"{random.choice(['commit', 'reported', 'announced'])}:{step}"
    every = STEPS if kind == "first" or (kind == "lost" and random.random() < 0.5) else random.choice([4, 8, 16])
    return names, random.choice(names), point, every, random.randint(2, min(3, len(names)))


def has_model(node):
    try:
        return "params_sha256" in node.result()
    except chaos.Failed:
        return False


def back(mesh, kind, names, victim):
    """It comes back. The others may have ended meanwhile, or end before they can help it: then they are started again beside it."""
    others = [name for name in names if name != victim]
    if kind == "late":
        try:
            mesh.wait("the others to end", lambda: not any(mesh.nodes[name].alive() for name in others), 25)
        except chaos.Failed:
            pass  # they wait for its part
    if kind == "lost":
        shutil.rmtree(mesh.nodes[victim].out)
    mesh.start(victim, "--resume" if kind == "end" else "--out", *([] if kind == "end" else [mesh.nodes[victim].out]))
    mesh.wait("somebody to end", lambda: not mesh.nodes[victim].alive() or not any(mesh.nodes[name].alive() for name in others), LIMIT_S)
    end = time.monotonic() + 2
    mesh.wait("the last one", lambda: time.monotonic() > end or not any(mesh.nodes[name].alive() for name in names))
    again = [name for name in names if not mesh.nodes[name].alive() and not has_model(mesh.nodes[name])]
    if mesh.nodes[victim].alive() and not any(mesh.nodes[name].alive() for name in others):
        again = others
    for name in again:
        mesh.start(name)
    return bool(again)


def one(folder, random, index, nodes_max, references):
    kind = KINDS[index % len(KINDS)]
    names, victim, point, every, count = draw(random, kind, nodes_max)
    job, hashes = references[index % 2]
    room = f"train.memory_max={random.randint(*MEMORY)}" if index % 2 else "mesh.mirror=no"
    options = [*stages.options(job), "--set", f"mesh.stages={count}", "--set", room, "--set", f"train.checkpoint_every={every}",
               "--set", f"mesh.schedule={random.choice(stages.SCHEDULES)}"]
    with chaos.Mesh(folder, job, options=options, program=chaos.FAILNODE) as mesh:
        for name in names:
            mesh.start(name, "--peers", str(len(names)), env={"MESHNODE_FAIL": point + ":kill"} if name == victim else {})
        mesh.wait(f"{victim} to be killed at {point}", lambda: not mesh.nodes[victim].alive())
        killed = mesh.nodes[victim].status == -signal.SIGKILL
        began = time.monotonic()
        again = killed and back(mesh, kind, names, victim)
        mesh.finish(names, LIMIT_S)
        found = mesh.hashes(names)
        if found != {hashes}:
            raise chaos.Failed(f"{kind}: {victim} of {len(names)} killed at {point}: hashes {found}, expected {hashes}")
        return kind, time.monotonic() - began, again


def body(runs):
    args = runs.args
    chaos.needs(chaos.FAILNODE)
    jobs = [stages.write(os.path.join(runs.folder, "job"), "cnn", STEPS), os.path.join(runs.folder, "job", "wide.yaml")]
    with open(jobs[1], "w", encoding="ascii") as out:
        out.write(WIDE.replace("STEPS", str(STEPS)))
    references = [(job, chaos.reference(os.path.join(runs.folder, f"one-{i}"), job, *stages.options(job))[0]) for i, job in enumerate(jobs)]
    done = [result for result in (runs.do(one, index, args.nodes, references) for index in runs) if result]
    rows = []
    for kind in KINDS:
        took = [seconds for name, seconds, _ in done if name == kind]
        again = sum(again for name, _, again in done if name == kind)
        rows.append([kind, len(took), "%.1f" % chaos.percentile(took, 0.5), "%.1f" % max(took, default=0), again])
    chaos.table(["killed", "runs", "s until all were done p50", "max", "others started again"], rows)


if __name__ == "__main__":
    parser = chaos.parser(__doc__, runs=40)
    parser.add_argument("--nodes", type=int, default=4, help="at most this many")
    chaos.tool(parser.parse_args(), body)

#!/usr/bin/env python3
"""cold.py - the power fails everywhere, some disks lie, and the run goes on.

Each run kills all of 1..--nodes nodes at a random instant, corrupts the newest checkpoint of up to n-1 of them (a bit
flipped, cut off, zeroed in part, a page replaced by one of an older checkpoint, emptied, removed) and starts all again
in random order. The newest intact checkpoint of them all must be what the mesh goes on from, and the end the hash of an
undisturbed node. The table says how many steps had to be done again."""
import glob
import os
import re
import signal
import time

import mesh as chaos

EVERY = 25


def checkpoints(out):
    """Steps of the checkpoints in a folder, newest first."""
    found = [re.fullmatch(r"checkpoint-(\d+)", os.path.basename(path)) for path in glob.glob(f"{out}/checkpoint-*")]
    return sorted((int(match[1]) for match in found if match), reverse=True)


def flip(data, random, older):
    at = random.randrange(len(data))
    data[at] ^= 1 << random.randrange(8)


def cut(data, random, older):
    del data[random.randrange(len(data)):]


def zero(data, random, older):
    at, size = random.randrange(len(data)), random.choice([1, 512, 4096])
    was = bytes(data)
    data[at:at + size] = bytes(len(data[at:at + size]))
    if data == was:  # zeros already
        flip(data, random, older)


def page(data, random, older):
    """As if the disk had lost one write."""
    size = 4096
    at = random.randrange(len(data) // size + 1) * size
    was = bytes(data)
    data[at:at + size] = older[at:at + size]
    if data == was:
        flip(data, random, older)


def empty(data, random, older):
    data.clear()


DAMAGES = {"flipped": flip, "cut": cut, "zeroed": zero, "stale page": page, "emptied": empty, "removed": None}


def damage(out, random, least):
    """Harm the newest checkpoint; returns what was done, or None when there are fewer than `least`."""
    steps = checkpoints(out)
    if len(steps) < least:
        return None
    path = f"{out}/checkpoint-{steps[0]}"
    name = random.choice(list(DAMAGES))
    if not DAMAGES[name]:
        os.unlink(path)
        return f"{steps[0]} {name}"
    with open(path, "rb") as file:
        data = bytearray(file.read())
    older = bytes(len(data))
    if len(steps) > 1:
        with open(f"{out}/checkpoint-{steps[1]}", "rb") as file:
            older = file.read()
    DAMAGES[name](data, random, older)
    with open(path, "wb") as file:
        file.write(data)
    return f"{steps[0]} {name}"


def one(folder, random, index, args, job, reference):
    hashes, steps = reference
    names = [f"n{i}" for i in range(random.randint(1, args.nodes))]
    options = ["--set", f"train.checkpoint_every={EVERY}"]
    with chaos.Mesh(folder, job, options=options) as mesh:
        for name in names:
            mesh.start(name, "--peers", str(len(names)))
        step = random.randint(1, steps - 20)
        mesh.wait(f"step {step}", lambda: max(map(mesh.step, names)) >= step)
        time.sleep(random.random() * 0.02)  # waits for nothing: spreads the instants
        mesh.signal(signal.SIGKILL, *names)
        reached = max(map(mesh.step, names))
        harmed = random.sample(names, random.randint(0, len(names) - 1))
        done = {name: damage(mesh.nodes[name].out, random, args.least) for name in harmed}
        newest = max(sum((checkpoints(mesh.nodes[n].out)[:1] for n in names if not done.get(n)), []), default=0)
        done = [f"{name}: {what}" for name, what in done.items() if what]
        logs = {name: len(mesh.nodes[name].text()) for name in names}
        again = random.sample(names, len(names))
        for name in again:
            mesh.start(name, "--set", "mesh.gather_ms=100")
            time.sleep(random.choice([0, 0.01, 0.1]))
        try:
            mesh.finish(names)
            found = mesh.hashes(names)
            if found != {hashes}:
                raise chaos.Failed(f"hashes {found}, expected {hashes}")
            said = "".join(mesh.nodes[name].text()[logs[name]:] for name in names)
            resumed = max(map(int, re.findall(r"resumed at step (\d+)", said)), default=0)
            if reached < steps and resumed < newest:
                raise chaos.Failed(f"resumed at step {resumed}, but an intact checkpoint of step {newest} was there")
        except chaos.Failed as failure:
            raise chaos.Failed(f"{len(names)} killed at step {reached}, {'; '.join(done)}, again {again}: "
                               f"{failure}") from None
        return len(names), reached, resumed, done


def body(runs):
    args, job = runs.args, f"{chaos.CHAOS}/tiny.yaml"
    reference = chaos.reference(runs.folder, job)
    done = []
    for index in runs:
        result = runs.do(one, index, args, job, reference)
        if result:
            done.append(result)
            if args.verbose:
                print(f"run {index}: {result[0]} nodes killed at step {result[1]}, resumed at {result[2]}; "
                      f"{'; '.join(result[3]) or 'nothing damaged'}", flush=True)
    lost = [result[1] - result[2] for result in done]
    print(f"seed {args.seed}, a checkpoint every {EVERY} steps, {chaos.load()}")
    chaos.table(["runs", "hangs or wrong", "damaged", "steps done again p50", "max", "hashes"],
                [[len(done) + runs.failed, runs.failed, sum(len(result[3]) for result in done), chaos.median(lost),
                  max(lost, default=0), 1 if done else 0]])
    return None


if __name__ == "__main__":
    parser = chaos.parser(__doc__, runs=50)
    parser.add_argument("--nodes", type=int, default=5, help="at most this many")
    parser.add_argument("--least", type=int, default=1, help="damage no node with fewer checkpoints")
    parser.add_argument("--verbose", action="store_true")
    chaos.tool(parser.parse_args(), body)

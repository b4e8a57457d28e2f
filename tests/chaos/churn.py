#!/usr/bin/env python3
"""churn.py - peers come and go (P10): does the node that stays grow?

Each run: nodes train an endless job on the loopback interface. In each of --cycles cycles one of them, never the first,
is killed, killed while it is stopped, or says goodbye, and comes back with nothing. All are together again then, which
is the same state of affairs each time: there the first one's descriptors must be as many as ever, and its memory is
taken. The states of all nodes after equal steps are equal.

Where the system lets us, all this happens in a network namespace of its own: who was here before may have left its
port to a node of another mesh, which then calls for a while."""
import os
import signal
import subprocess
import sys
import time

import growth
import mesh as chaos



def alone():
    """Go on in a network that has only us, if there can be one."""
    inside = ["unshare", "--net", "--map-root-user", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if "CHURN_ALONE" not in os.environ and subprocess.run([*inside, "true"], capture_output=True).returncode == 0:
        os.environ["CHURN_ALONE"] = "yes"
        os.execvp(inside[0], [*inside, sys.executable, *sys.argv])


def together(mesh, names, after):
    """Did all complete a step later than `after`, of a plan of all of them?"""
    for name in names:
        steps = mesh.nodes[name].steps()
        if not steps or steps[-1]["step"] <= after or steps[-1]["peers"] != len(names):
            return False
    return True


def go(mesh, random, name):
    kind = random.choice(["kill", "kill", "stop and kill", "goodbye"])
    if kind == "stop and kill":
        mesh.signal(signal.SIGSTOP, name)
        others = [each for each in mesh.nodes if each != name]
        mesh.wait(f"the others to do without {name}",
                  lambda: mesh.nodes["n0"].steps()[-1]["peers"] == len(others))
    if kind == "goodbye":
        mesh.signal(signal.SIGTERM, name)
        mesh.wait(f"{name} to end", lambda: not mesh.nodes[name].alive())
    else:
        mesh.signal(signal.SIGKILL, name)


def one(folder, random, index, cycles, count, log):
    names = [f"n{i}" for i in range(count)]
    with open(f"{chaos.CHAOS}/tiny.yaml", encoding="ascii") as file:
        job = file.read().replace("steps: 300", "steps: 0")
    growth.touch_all()
    with chaos.Mesh(folder, job) as mesh:
        for name in names:
            mesh.start(name, "--fresh", "--peers", str(count))
        mesh.wait("all to train", lambda: together(mesh, names, 20))
        watched = growth.Growth("n0", mesh.nodes["n0"].process.pid)
        began = time.monotonic()
        for cycle in range(cycles):
            victim = random.choice(names[1:])
            go(mesh, random, victim)
            rest = [name for name in names if name != victim]
            after = mesh.step("n0")
            mesh.wait(f"{' '.join(rest)} to go on", lambda: together(mesh, rest, after))
            mesh.start(victim, "--fresh")
            after = mesh.step("n0")
            mesh.wait(f"{victim} to be back", lambda: together(mesh, names, after))
            mesh.wait(lambda: f"{watched.what()} after cycle {cycle}", lambda: watched.sample(time.monotonic() - began))
            if log:
                print(cycle, *watched.points[-1], flush=True)
        hashes = {}
        for name in names:
            for step in mesh.nodes[name].steps():
                if step["samples"] == 0:
                    continue  # an evaluation: its step's line was written before the node came back
                if hashes.setdefault(step["step"], step["state_hash"]) != step["state_hash"]:
                    raise chaos.Failed(f"{name}: another state after step {step['step']}")
        return watched, mesh.step("n0")


def body(runs):
    why = None
    for index in runs:
        result = runs.do(one, index, runs.args.cycles, runs.args.nodes, runs.args.verbose)
        if result:
            why = growth.report([result[0]]) or why
            print(f"{runs.args.cycles} cycles, {result[1]} steps; {chaos.load()}", flush=True)
    return why


if __name__ == "__main__":
    parser = chaos.parser(__doc__, runs=1)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--verbose", action="store_true", help="print all samples")
    alone()
    chaos.tool(parser.parse_args(), body)

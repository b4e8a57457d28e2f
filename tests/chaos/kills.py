#!/usr/bin/env python3
"""kills.py - kill or stop 1..n-1 of n nodes at the same random instant; the others must go on and end alike.

Every run draws n (2..--nodes), who and how many, and the instant. The survivors must finish with the hash of
an undisturbed single node. Then those stopped are continued, those killed are started again, every other one with
--resume; they must reach the same hash, too. A pause is the largest gap between two steps of one survivor in the
three seconds from the accident on, less the usual step before; the worst survivor counts. Runs of kind `none` have no accident
and show what the load of the machine alone does to that figure.

Pass lines (reliability.md, P1): kill p99 150 ms, stop p99 500 ms, maximum below 1 s; no hang, one hash. With
--judge a figure beyond them fails; without, only hangs, wrong hashes, medians beyond them and pauses above --worst.
"""
import signal
import time

import mesh as chaos

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def bring_back(mesh, kind, victims, random):
    """Everyone must end with the same weights in the end: the stopped, and the restarted."""
    if kind == "stop":
        mesh.signal(signal.SIGCONT, *victims)
    else:
        for name in victims:
            mesh.start(name, *random.choice([["--resume"], []]))
    mesh.finish(victims)


def one(folder, random, index, kinds, nodes_max, limit, job, reference):
    kind = kinds[index % len(kinds)]
    count = random.randint(2, nodes_max)
    names = [f"n{i}" for i in range(count)]
    victims = random.sample(names, random.randint(1, count - 1)) if kind != "none" else []
    survivors = [name for name in names if name not in victims]
    hashes, steps = reference
    with chaos.Mesh(folder, job, options=chaos.EVEN) as mesh:
        for name in names:
            mesh.start(name, "--peers", str(count))
        step = random.randint(10, steps * 2 // 3)
        mesh.wait(f"step {step}", lambda: mesh.reached(step, survivors))
        time.sleep(random.random() * 0.02)  # waits for nothing: spreads the instants
        step, at = min(mesh.step(name) for name in survivors), time.time()
        if victims:
            mesh.signal(SIGNALS[kind], *victims)
        mesh.finish(survivors)
        pauses = [p for p in (chaos.pause(mesh.nodes[name], at) for name in survivors) if p]
        if kind != "none":
            bring_back(mesh, kind, victims, random)
        found = mesh.hashes(names)
        if found != {hashes}:
            raise chaos.Failed(f"{kind} {' '.join(victims)} of {count} at step {step}: hashes {found}, expected {hashes}")
        worst = max(pauses, default=None)
        if worst and chaos.calm(worst) > limit:
            raise chaos.Failed(f"{kind} {' '.join(victims)} of {count} at step {step}: a pause of {worst[0]:.0f} ms")
        return kind, count, len(victims), step, worst, found


def row(kind, done, hangs):
    pauses = [result[4][0] for result in done if result[4]]
    steps = [result[4][1] for result in done if result[4]]
    hashes = set().union(*(result[5] for result in done))
    return [kind, len(done) + hangs, hangs, "%.1f" % chaos.percentile(pauses, 0.5),
            "%.1f" % chaos.percentile(pauses, 0.99), "%.1f" % max(pauses, default=0),
            "%.1f" % chaos.median(steps), len(hashes)]


def body(runs):
    args = runs.args
    kinds = args.kinds.split(",")
    job = f"{chaos.CHAOS}/tiny.yaml"
    reference = chaos.reference(runs.folder, job)
    done, failed = {kind: [] for kind in kinds}, {kind: 0 for kind in kinds}
    for index in runs:
        result = runs.do(one, index, kinds, args.nodes, args.worst, job, reference)
        if not result:
            failed[kinds[index % len(kinds)]] += 1
            continue
        done[result[0]].append(result)
        if args.verbose:
            print(f"run {index}: {result[0]} {result[2]} of {result[1]} at step {result[3]}, pause {result[4]}")
    print(f"seed {args.seed}, {chaos.load()}")
    chaos.table(["accident", "runs", "hangs, wrong or --worst", "pause p50 ms", "p99", "max", "usual step", "hashes"],
                [row(kind, done[kind], failed[kind]) for kind in kinds])
    for kind in kinds:
        why = chaos.judge(kind, [result[4] for result in done[kind] if result[4]], args.judge, args.worst)
        if why:
            return why
    return None


if __name__ == "__main__":
    parser = chaos.parser(__doc__, runs=30)
    parser.add_argument("--nodes", type=int, default=8, help="at most this many")
    parser.add_argument("--kinds", default="kill,stop,none")
    parser.add_argument("--judge", action="store_true", help="fail beyond the pass lines: for a quiet machine")
    parser.add_argument("--worst", type=float, default=10000, help="ms; a longer pause fails in any case")
    parser.add_argument("--verbose", action="store_true")
    chaos.tool(parser.parse_args(), body)

#!/usr/bin/env python3
"""stages_points.py - kills or stops each node of a pipeline at each piece of a round; the others must end alike.

The grids are 2x1, 4x1 and 2x2 (stages x replicas). A first run counts how many pieces a node computes in a round. Then
each (grid, node, piece, kill or stop) is one run: the node dies or stops when it is about to compute that piece of a round
in mid-run. The others must end with the hash of one node without stages. Then the stopped one goes on, the dead one
starts again, and must reach that hash, too. What is measured is the time from the accident to the next step of the
survivor that comes last; promised is 1 s and one step (--judge; a busy machine is given --worst). --runs cases in an order
that the seed draws, or --all."""
import itertools
import os
import random
import re
import signal

import mesh as chaos
import stages

GRIDS, ACTIONS = ["2x1", "4x1", "2x2"], ["kill", "stop"]
STEPS, ROUND, SHARDS = 40, 12, 4


class Grid:
    def __init__(self, name, schedule, folder, job):
        self.grid, self.schedule, self.job, self.names = name, schedule, job, stages.nodes(name)
        with self.mesh(os.path.join(folder, f"{name}-{schedule}")) as mesh:
            self.start(mesh, self.names, "hits")
            mesh.finish(self.names)
            self.pieces = {n: int(re.search(r"^failpoint piece hits (\d+)$", mesh.nodes[n].text(), re.M)[1]) // STEPS
                           for n in self.names}

    def mesh(self, folder):
        return chaos.Mesh(folder, self.job, program=chaos.FAILNODE, 
                          options=stages.options(self.job, self.grid, self.schedule))

    def start(self, mesh, victims, rule):
        for name in self.names:
            env = {"MESHNODE_ID": format(16 * int(name[1:]), "x")}
            mesh.start(name, "--peers", str(len(self.names)),
                       env={**env, "MESHNODE_FAIL": rule} if name in victims else env)


def came(mesh, victim):
    return re.search(r"^failpoint piece \d+: \w+ at ([\d.]+)$", mesh.nodes[victim].text(), re.M)


def until_commit(node, at, last):
    """Milliseconds from the accident until it had the step that the victim, which had `last` steps, did not live to see; and its
    usual step. None: it took a copy of a later state, on a busy machine."""
    times = [(step["step"], node.origin + step["time_s"]) for step in node.steps()]
    later = [end for step, end in times if step > last]
    usual = chaos.median([b[1] - a[1] for a, b in zip(times, times[1:]) if b[0] <= last])
    return (1000 * max(0.0, later[0] - at), 1000 * usual) if later else None


def one(folder, rng, index, case, expected):
    grid, victim, piece, action = case
    rule = f"piece:{grid.pieces[victim] * ROUND + piece}:{action}"
    others = [name for name in grid.names if name != victim]
    with grid.mesh(folder) as mesh:
        try:
            grid.start(mesh, [victim], rule)
            mesh.finish(others)
            acted = came(mesh, victim)
            if not acted:
                raise chaos.Failed("it never came to the piece")
            last = mesh.step(victim)
            waited = [until_commit(mesh.nodes[name], float(acted[1]), last) for name in others
                      if mesh.nodes[name].origin < float("inf")]
            if waited and not any(waited):
                raise chaos.Failed(f"nobody made a step after the {last} of {victim}")
            found = max((one for one in waited if one), default=None)
            mesh.signal(signal.SIGCONT, victim)
            if action == "kill":
                mesh.wait(f"{victim} to be dead", lambda: not mesh.nodes[victim].alive())
                mesh.start(victim, *rng.choice([["--resume"], []]))
            mesh.finish([victim])
            if mesh.hashes(grid.names) != {expected}:
                raise chaos.Failed(f"hashes {mesh.hashes(grid.names)}, expected {expected}")
        except chaos.Failed as failure:
            raise chaos.Failed(f"{grid.grid} {grid.schedule}, {victim}, {rule}: {failure}") from None
    return found


def cases(grids):
    return [(grid, victim, piece, action) for grid in grids for victim in grid.names
            for piece, action in itertools.product(range(1, grid.pieces[victim] + 1), ACTIONS)]


def judge(done, args):
    for action in ACTIONS:
        for took, usual in (result for key, result in done if key[1] == action and result):
            if took > (1000 + usual if args.judge else args.worst):
                return f"{action}: the next step came after {took:.0f} ms, the usual one takes {usual:.0f} ms"
    return None


def body(runs):
    args = runs.args
    job = stages.write(runs.folder, args.model, STEPS, SHARDS, 12)
    expected, _ = chaos.reference(runs.folder, job, *stages.options(job))
    names = args.grids.split(",")
    if not args.all and len(names) > args.most:
        names = random.Random(args.seed).sample(names, args.most)
    chosen = runs.draw(cases([Grid(name, args.schedule, runs.folder, job) for name in names]))
    done, failed = [], {}
    for index in runs:
        grid, victim, piece, action = chosen[index]
        fails = runs.failed
        result = runs.do(one, index, chosen[index], expected)
        failed[grid.grid, action] = failed.get((grid.grid, action), 0) + (runs.failed - fails)
        done.append(((grid.grid, action), result))
        if args.verbose:
            print(f"run {index}: {grid.grid} {victim} {action} at piece {piece} of {grid.pieces[victim]}: {result}", flush=True)
    print(f"seed {args.seed}, {len(done)} of {len(chosen)} cases; {chaos.load()}")
    rows = []
    for key in sorted(failed):
        times = [result[0] for at, result in done if at == key and result]
        steps = [result[1] for at, result in done if at == key and result]
        rows.append([*key, sum(at == key for at, _ in done), failed[key],
                     *("%.0f" % figure for figure in (chaos.percentile(times, 0.5), max(times, default=0), chaos.median(steps)))])
    chaos.table(["grid", "action", "runs", "failed", "next step p50 ms", "max", "usual step"], rows)
    return judge(done, args)


if __name__ == "__main__":
    parser = chaos.parser(__doc__, runs=20, cases="case")
    parser.add_argument("--grids", default=",".join(GRIDS))
    parser.add_argument("--most", type=int, default=3, help="at most so many grids, drawn")
    parser.add_argument("--schedule", default="zb")
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--judge", action="store_true", help="fail beyond what is promised: for a quiet machine")
    parser.add_argument("--worst", type=float, default=10000, help="ms; a longer wait for the next step fails in any case")
    chaos.tool(parser.parse_args(), body)

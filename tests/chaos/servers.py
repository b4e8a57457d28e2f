#!/usr/bin/env python3
"""servers.py - sums by elected servers have the hash of the ring: {1,2,3,auto servers} x {1,2,3,4,8 nodes} x {no accident,
20 courses of accidents, 5 times servers killed while they send totals}.

A course is what accidents.py draws. Only servers send totals, so a node that kills itself at its k-th one (failpoint
gather-sent) is a server in the middle of a step; each node of such a run but the last has its own k. All nodes that end
must have one hash of the weights and of the whole state: that of one node alone with a ring. --runs combinations in an
order that the seed draws, or all of them."""
import itertools
import random
import signal

import mesh as chaos
from accidents import Course

SIZES = [1, 2, 3, 4, 8]
SERVERS = [1, 2, 3, "auto"]
MIDDLE = [f"servers die, {k}" for k in range(1, 6)]
STEPS = 100


def middle(mesh, names, rng):
    """Returns those that ended, and what happened."""
    for name in names:
        fail = {"MESHNODE_FAIL": f"gather-sent:{rng.randint(2, 800)}:kill"}
        mesh.start(name, "--peers", str(len(names)), env=fail if name != names[-1] else {})
    mesh.wait(f"{' '.join(names)} to end", lambda: not any(mesh.nodes[name].alive() for name in names))
    died = [name for name in names if mesh.nodes[name].status == -signal.SIGKILL]
    ended = [name for name in names if name not in died]
    mesh.finish(ended)
    return ended, [f"{name} died while it sent a total" for name in died]


def one(folder, rng, index, combination, job):
    servers, count, kind = combination
    names = [f"n{i}" for i in range(count)]
    most = count - 1 if kind not in (0, *MIDDLE) and count > 2 else count  # one may come late
    servers = min(servers, most) if servers != "auto" else servers
    options = ["--set", "mesh.gather_ms=100", "--set", "mesh.topology=server", "--set", f"mesh.servers={servers}"]
    program = chaos.FAILNODE if kind in MIDDLE else chaos.MESHNODE
    with chaos.Mesh(folder, job, program=program, options=options) as mesh:
        course = Course(mesh, names, random.Random(f"{rng.random()}/{kind}"), STEPS)
        try:
            if kind in MIDDLE:
                names, course.said = middle(mesh, names, rng)
            elif kind == 0:
                for name in names:
                    course.start(name, "--peers", str(count))
                course.finish()
            else:
                course.run()
                course.finish()
        except chaos.Failed as failure:
            raise chaos.Failed(f"{combination}, {', '.join(course.said)}: {failure}") from None
        return mesh.hashes(names), course.said


def body(runs):
    args, job = runs.args, f"{chaos.CHAOS}/layers.yaml"
    chosen = runs.draw(itertools.product(SERVERS, SIZES, [*range(args.courses + 1), *MIDDLE]))
    expected, _ = chaos.reference(runs.folder, job)
    rows = {servers: [0, 0, set(), 0] for servers in SERVERS}
    for index in runs:
        row = rows[chosen[index][0]]
        result = runs.do(one, index, chosen[index], job)
        row[0] += 1
        row[1] += result is None
        row[2] |= result[0] if result else set()
        row[3] += sum("sent a total" in text for text in result[1]) if result else 0
        if args.verbose and result:
            print(f"run {index}: {chosen[index]}: {', '.join(result[1]) or 'no accident'}", flush=True)
    hashes = set().union({expected}, *(row[2] for row in rows.values()))
    print(f"seed {args.seed}, {sum(row[0] for row in rows.values())} of {len(chosen)} combinations; {chaos.load()}")
    chaos.table(["servers", "runs", "failed", "hashes", "servers that died in mid-step"],
                [[servers, row[0], row[1], len(row[2]), row[3]] for servers, row in rows.items()])
    print(f"{len(hashes)} distinct: {' '.join(sorted(h[0] for h in hashes))}")
    return "more than one hash" if len(hashes) > 1 else None


if __name__ == "__main__":
    parser = chaos.parser(__doc__, runs=20, cases="combination")
    parser.add_argument("--courses", type=int, default=20, help="of accidents, besides none")
    chaos.tool(parser.parse_args(), body)

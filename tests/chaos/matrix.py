#!/usr/bin/env python3
"""matrix.py - one job, one hash: {1,2,3,4,6,8 nodes} x {no accident, 20 courses of accidents} x {1,2 threads} x
{gcc, clang}.

A course is what accidents.py draws from the seed and its number; one node alone can only be killed and started again.
All nodes of all runs must end with the same hash of the weights and of the whole state. --runs combinations in an
order that the seed draws, or all of them. MESHNODE and MESHNODE_CLANG (build/clang/meshnode) name the programs; a
compiler whose program is not there is left out, and that is said."""
import itertools
import os
import random

import mesh as chaos
from accidents import Course

SIZES = [1, 2, 3, 4, 6, 8]
STEPS = 100
CLANG = os.environ.get("MESHNODE_CLANG", os.path.join(chaos.ROOT, "build", "clang", "meshnode"))


def one(folder, rng, index, combination, job):
    program, count, course_number, threads = combination
    names = [f"n{i}" for i in range(count)]
    options = ["--set", "mesh.gather_ms=100", "--threads", str(threads)]
    with chaos.Mesh(folder, job, program=program, options=options) as mesh:
        course = Course(mesh, names, random.Random(f"{rng.random()}/{course_number}"), STEPS)
        try:
            if course_number == 0:
                for name in names:
                    course.start(name, "--peers", str(count))
            else:
                course.run()
            course.finish()
        except chaos.Failed as failure:
            raise chaos.Failed(f"{combination}, {', '.join(course.said)}: {failure}") from None
        return count, mesh.hashes(names), course.said


def body(runs):
    args, job = runs.args, f"{chaos.CHAOS}/layers.yaml"
    programs = {"gcc": chaos.MESHNODE, "clang": CLANG}
    here = {name: path for name, path in programs.items() if os.path.exists(path)}
    for name in programs.keys() - here.keys():
        print(f"without {name}: there is no {programs[name]}")
    chosen = list(itertools.product(here.values(), SIZES, range(args.courses + 1), [1, 2]))
    total = len(chosen)
    random.Random(args.seed).shuffle(chosen)
    args.runs = total if args.all else min(args.runs, total)
    expected, _ = chaos.reference(runs.folder, job)
    rows = {count: [0, 0, set()] for count in SIZES}
    for index in runs:
        row = rows[chosen[index][1]]
        result = runs.do(one, index, chosen[index], job)
        row[0] += 1
        row[1] += result is None
        row[2] |= result[1] if result else set()
        if args.verbose and result:
            print(f"run {index}: {chosen[index]}: {', '.join(result[2]) or 'no accident'}", flush=True)
    hashes = set().union({expected}, *(row[2] for row in rows.values()))
    print(f"seed {args.seed}, {sum(row[0] for row in rows.values())} of {total} combinations of "
          f"{', '.join(here)}; {chaos.load()}")
    chaos.table(["nodes", "runs", "hangs", "hashes"], [[n, row[0], row[1], len(row[2])] for n, row in rows.items()])
    print(f"{len(hashes)} distinct: {' '.join(sorted(h[0] for h in hashes))}")
    return "more than one hash" if len(hashes) > 1 else None


if __name__ == "__main__":
    parser = chaos.parser(__doc__, runs=20)
    parser.add_argument("--all", action="store_true", help="every combination")
    parser.add_argument("--courses", type=int, default=20, help="of accidents, besides none")
    parser.add_argument("--verbose", action="store_true")
    chaos.tool(parser.parse_args(), body)

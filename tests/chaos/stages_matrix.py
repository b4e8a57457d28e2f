#!/usr/bin/env python3
"""stages_matrix.py - one hash per model: {1x1, 2x1, 3x1, 4x1, 2x2, 1x4, 4x2} stages x replicas, schedules, models.

The models are a CNN, a GPT with tied weights and clip_norm (a stage more than groups of nodes), and an LSTM; the schedules gpipe, 1f1b and zb. Without an
accident, all nodes must have trained together, and those of two stages or more must have sent items to one another. With
--courses N there are N more runs of 2x1, 4x1 and 2x2 for each schedule and model, with accidents that accidents.py draws.
All nodes of all runs of a model must end with the hash that it has on one node without stages. --runs combinations in an
order that the seed draws, or --all."""
import itertools
import os
import random
import re

import mesh as chaos
import stages
from accidents import Course

STEPS, COURSE_STEPS = 6, 60
HARMED = ["2x1", "4x1", "2x2"]


def items(node):
    return int(re.search(r"^failpoint item-sent hits (\d+)$", node.text(), re.M)[1])


def plain(mesh, names, grid):
    for name in names:
        mesh.start(name, "--peers", str(len(names)), env={"MESHNODE_FAIL": "hits"})
    mesh.finish(names)
    together = {mesh.nodes[name].result()["peers_max"] for name in names}
    if together != {len(names)}:
        raise chaos.Failed(f"trained with {sorted(together)} nodes, expected {len(names)}")
    idle = [name for name in names if (items(mesh.nodes[name]) > 0) != (stages.GRIDS[grid][0] > 1)]
    if idle:
        raise chaos.Failed(f"{' '.join(idle)} sent {'no' if stages.GRIDS[grid][0] > 1 else 'some'} items")


def one(folder, rng, index, combination, jobs, expected):
    model, grid, schedule, number = combination
    names, said = stages.nodes(grid), []
    with chaos.Mesh(folder, jobs[model, number > 0], program=chaos.FAILNODE,
                    options=[*stages.options(jobs[model, number > 0], grid, schedule), "--set", "mesh.gather_ms=100"]) as mesh:
        try:
            if number:
                course = Course(mesh, names, random.Random(f"{rng.random()}/{number}"), COURSE_STEPS)
                said = course.said
                course.run()
                course.finish()
            else:
                plain(mesh, names, grid)
        except chaos.Failed as failure:
            raise chaos.Failed(f"{combination}, {', '.join(said)}: {failure}") from None
        found = mesh.hashes(names)
        if found != {expected[model, number > 0]}:
            raise chaos.Failed(f"{combination}, {', '.join(said)}: hashes {found}, expected {expected[model, number > 0]}")
        return said


def combinations(courses):
    every = [(model, grid, schedule, 0) for model, grid, schedule in
             itertools.product(stages.MODELS, stages.GRIDS, stages.SCHEDULES)
             if stages.GRIDS[grid][0] > 1 or schedule == "zb"]  # one stage has no order
    return every + list(itertools.product(stages.MODELS, HARMED, stages.SCHEDULES, range(1, courses + 1)))


def body(runs):
    args = runs.args
    chosen = runs.draw(c for c in combinations(args.courses) if re.search(args.only, " ".join(map(str, c))))
    jobs, expected = {}, {}
    for model, harmed in {(c[0], c[3] > 0) for c in chosen[:args.runs]}:
        folder = os.path.join(runs.folder, f"{model}-{harmed:d}")
        jobs[model, harmed] = stages.write(folder, model, COURSE_STEPS if harmed else STEPS)
        expected[model, harmed], _ = chaos.reference(folder, jobs[model, harmed], *stages.options(jobs[model, harmed]))
    rows = {}
    for index in runs:
        said = runs.do(one, index, chosen[index], jobs, expected)
        model, grid, schedule, number = chosen[index]
        row = rows.setdefault((model, "accidents" if number else "none"), dict.fromkeys(stages.GRIDS, (0, 0)))
        row[grid] = (row[grid][0] + 1, row[grid][1] + (said is None))
        if args.verbose and said is not None:
            print(f"run {index}: {model} {grid} {schedule}: {', '.join(said) or 'no accident'}", flush=True)
    print(f"seed {args.seed}, {sum(n for row in rows.values() for n, _ in row.values())} of {len(chosen)} combinations; "
          f"{chaos.load()}")
    chaos.table(["model", "accidents", *stages.GRIDS, "hash"],
                [[*key, *(f"{n}, {bad} wrong" if n else "" for n, bad in row.values()),
                  expected[key[0], key[1] != "none"][0][:12]] for key, row in sorted(rows.items())])
    return None


if __name__ == "__main__":
    parser = chaos.parser(__doc__, runs=10, cases="combination")
    parser.add_argument("--courses", type=int, default=0, help="of accidents, besides none")
    parser.add_argument("--only", default="", help="combinations that match, such as 'gpt 2x2 zb 0'")
    chaos.tool(parser.parse_args(), body)

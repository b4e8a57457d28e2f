#!/usr/bin/env python3
"""matrix.py - one job, one hash: {1,2,3,4,6,8 nodes} x {no accident, 20 courses of accidents} x {1,2 threads} x
{gcc, clang}, with an instruction set that is drawn for each run. With --codecs one hash for each codec of mesh.compress; that
of `auto` is the one of a codec that it may take, as what it takes depends on the time of a step.

A course is what accidents.py draws from the seed and its number; one node alone can only be killed and started again.
All nodes of all runs must end with the same hash of the weights and of the whole state. --runs combinations in an
order that the seed draws, or all of them. MESHNODE and MESHNODE_CLANG (build/clang/meshnode) name the programs; a
compiler whose program is not there is left out, and that is said."""
import itertools
import os
import random
import re

import mesh as chaos
from accidents import Course

SIZES = [1, 2, 3, 4, 6, 8]
STEPS = 100
with open(os.path.join(chaos.ROOT, "compress", "codec.h"), encoding="utf-8") as table:
    TABLE = table.read()
CODECS = re.findall(r"^    C\((\w+),", TABLE, re.M)
OF_AUTO = ["none", *re.findall(r"CODEC_(\w+)", re.search(r"^#define CODECS_OF_AUTO (.*)", TABLE, re.M).group(1))]
CLANG = os.environ.get("MESHNODE_CLANG", os.path.join(chaos.ROOT, "build", "clang", "meshnode"))


def instructions():
    """What MESHNODE_SIMD can be here."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = file.read().split()
    return ["base"] + [name for name, flag in (("avx2", "avx2"), ("avx512", "avx512vl")) if flag in flags]


def codec_options(codec):
    return [] if codec == "none" else ["--set", f"mesh.compress={codec}", "--set", "mesh.compress_warmup=4"]


def agree(mesh, names):
    """Nodes of one plan end alike. Who comes when the others are done trains in a plan of its own, and auto may take another codec."""
    ends = {}
    for name in names:
        for last in [step for step in mesh.nodes[name].steps() if "plan" in step][-1:]:  # it has none of a step that it only followed
            ends.setdefault((last["plan"], last["step"]), []).append(name)
    for together in ends.values():
        if len(mesh.hashes(together)) > 1:
            raise chaos.Failed(f"{', '.join(together)} end with different hashes")


def one(folder, rng, index, combination, job):
    program, count, course_number, threads, codec = combination
    names, simd = [f"n{i}" for i in range(count)], rng.choice(instructions())
    options = ["--set", "mesh.gather_ms=100", "--threads", str(threads), *codec_options(codec)]
    with chaos.Mesh(folder, job, program=program, options=options, env={"MESHNODE_SIMD": simd}) as mesh:
        course = Course(mesh, names, random.Random(f"{rng.random()}/{course_number}"), STEPS)
        try:
            if course_number == 0:
                for name in names:
                    course.start(name, "--peers", str(count))
            else:
                course.run()
            course.finish()
            agree(mesh, names)
        except chaos.Failed as failure:
            raise chaos.Failed(f"{combination}, {simd}, {', '.join(course.said)}: {failure}") from None
        return count, mesh.hashes(names), course.said


def are_right(codec, hashes, expected):
    """Those of the weights and of the state. With auto the state says which codec was chosen: one state for each."""
    if codec != "auto":
        return hashes <= {expected[codec]}
    weights = {weights for weights, _ in hashes}
    return weights <= {expected[of][0] for of in OF_AUTO} and len(weights) == len(hashes)


def body(runs):
    args, job = runs.args, f"{chaos.CHAOS}/layers.yaml"
    programs = {"gcc": chaos.MESHNODE, "clang": CLANG}
    here = {name: path for name, path in programs.items() if os.path.exists(path)}
    for name in programs.keys() - here.keys():
        print(f"without {name}: there is no {programs[name]}")
    codecs = CODECS if args.codecs == "all" else args.codecs.split(",")
    chosen = runs.draw(itertools.product(here.values(), SIZES, range(args.courses + 1), [1, 2], codecs))
    expected = {codec: chaos.reference(os.path.join(runs.folder, codec), job, *codec_options(codec))[0]
                for codec in {*codecs, *(OF_AUTO if "auto" in codecs else [])} - {"auto"}}
    rows = {(count, codec): [0, 0, set()] for count in SIZES for codec in codecs}
    for index in runs:
        row = rows[chosen[index][1], chosen[index][4]]
        result = runs.do(one, index, chosen[index], job)
        row[0] += 1
        row[1] += result is None
        row[2] |= result[1] if result else set()
        if args.verbose and result:
            print(f"run {index}: {chosen[index]}: {', '.join(result[2]) or 'no accident'}", flush=True)
    print(f"seed {args.seed}, {sum(row[0] for row in rows.values())} of {len(chosen)} combinations of "
          f"{', '.join(here)}; {chaos.load()}")
    chaos.table(["nodes", "codec", "runs", "hangs", "hashes"],
                [[count, codec, row[0], row[1], len(row[2])] for (count, codec), row in rows.items() if row[0]])
    wrong = []
    for codec in codecs:
        hashes = set().union(*(row[2] for (_, of), row in rows.items() if of == codec))
        wrong += [] if are_right(codec, hashes, expected) else [codec]
        print(f"{codec}: {len(hashes)} distinct: {' '.join(sorted(h[0] for h in hashes))}")
    return f"another hash than expected: {' '.join(wrong)}" if wrong else None


if __name__ == "__main__":
    parser = chaos.parser(__doc__, runs=20, cases="combination")
    parser.add_argument("--courses", type=int, default=20, help="of accidents, besides none")
    parser.add_argument("--codecs", default="none", help="of mesh.compress, with commas between, or all")
    chaos.tool(parser.parse_args(), body)

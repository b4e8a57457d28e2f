#!/usr/bin/env python3
"""matrix.py - one hash per job, whoever computes it and whatever happens meanwhile. A cell is a job, nodes and an accident.

--of says which table of cells:

    nodes    {1,2,3,4,6,8 nodes} x {1,2 threads} x {gcc, clang}, with an instruction set that is drawn for each run
    codecs   the same for each codec of mesh.compress (--codecs); that of `auto` is the one of a codec that it may take, as
             what it takes depends on the time of a step
    servers  {1,2,3,auto elected servers} x {1,2,3,4,8 nodes}: the hash of one node with a ring
    stages   {1x1, 2x1, 3x1, 4x1, 2x2, 1x4, 4x2} stages x replicas x {gpipe, 1f1b, zb} x {CNN, GPT with tied weights and clip_norm
             (a stage more than groups of nodes), LSTM}: the hash of one node without stages
    models   {avx512, avx2, base, one node of each} x {1,2,3,4,8 nodes} x {1,2 threads} x {gcc, clang} for digits, MLP, CNN, ResNet,
             LSTM and GPT, each with train.precision: bf16, too, for two of them with mesh.activations: bf16, and for digits with
             each codec: two steps, with a codec five

Accidents: none, or one of --courses that accidents.py draws from the seed and its number; one node alone can only be killed and
started again. Of servers, too: 5 times they are killed while they send totals. Only servers send these, so a node that kills
itself at its k-th one (failpoint gather-sent) is a server in the middle of a step; each node but the last has its own k.

All nodes that end must have the hashes, of the weights and of the whole state, of a node that trained alone. Without an
accident all nodes of stages and models must have trained together, and stages must have sent items to one another. --runs
cells in an order that the seed draws, or --all; --only 'cnn avx2 3x2 clang': those whose names match. MESHNODE and
MESHNODE_CLANG (build/clang/meshnode) name the programs. What is not there (a compiler's program, a set that the CPU lacks) is
left out, and said."""
import itertools
import os
import random
import re
import signal
import subprocess
import sys

import mesh as chaos
import stages
from accidents import Course

sys.path.insert(0, os.path.join(chaos.ROOT, "tests", "bench"))
import models  # noqa: E402

STEPS, STAGE_STEPS, STAGE_COURSE_STEPS = 100, 6, 60
PROGRAMS = {"gcc": chaos.MESHNODE,
            "clang": os.environ.get("MESHNODE_CLANG", os.path.join(chaos.ROOT, "build", "clang", "meshnode"))}
SETS = ["base", "avx2", "avx512"]
SIZES, THREADS, SERVERS = [1, 2, 3, 4, 6, 8], [1, 2], [1, 2, 3, "auto"]
MIDDLE = [f"servers die, {k}" for k in range(1, 6)]
HARMED = ["2x1", "4x1", "2x2"]  # grids that have accidents
with open(os.path.join(chaos.ROOT, "compress", "codec.h"), encoding="utf-8") as table_of_codecs:
    TABLE = table_of_codecs.read()
CODECS = re.findall(r"^    C\((\w+),", TABLE, re.M)
OF_AUTO = ["none", *re.findall(r"CODEC_(\w+)", re.search(r"^#define CODECS_OF_AUTO (.*)", TABLE, re.M).group(1))]
BATCH = 12  # of the table of models
SMALL = [("train: 4096, test: 256", "train: 96, test: 12"), ("context: 128", "context: 8")]


class Cell:
    """`of`: the options that its hash depends on. `sets`: those of its nodes by turns; none: one is drawn."""

    def __init__(self, row, column, job, nodes, options=(), of=(), **more):
        self.row, self.column, self.job, self.nodes, self.options, self.of = row, column, job, nodes, [*options], tuple(of)
        self.threads, self.compiler, self.sets, self.accident = 1, "gcc", [], 0
        self.steps, self.together, self.items, self.auto = STEPS, False, None, False
        self.__dict__.update(more)
        self.name = f"{row} {column} {self.accident}"

    def program(self):
        return chaos.FAILNODE if self.items is not None or self.accident in MIDDLE else PROGRAMS[self.compiler]


def set_of(**keys):
    """Options that set keys of the section mesh."""
    return [word for key, value in keys.items() for word in ("--set", f"mesh.{key}={value}")]


def of_codec(codec):
    return [] if codec == "none" else set_of(compress=codec, compress_warmup=4)


def cells_of_nodes(codecs, here, courses):
    for compiler, count, course, threads, codec in itertools.product(here, SIZES, range(courses + 1), THREADS, codecs):
        yield Cell(f"{codec}, {count} nodes", f"{count}x{threads} {compiler}", f"{chaos.CHAOS}/layers.yaml", count, of_codec(codec),
                   of_codec(codec), threads=threads, compiler=compiler, accident=course, auto=codec == "auto")


def cells_of_servers(courses):
    for servers, count, kind in itertools.product(SERVERS, [1, 2, 3, 4, 8], [*range(courses + 1), *MIDDLE]):
        most = count - 1 if kind not in (0, *MIDDLE) and count > 2 else count  # one may come late
        yield Cell(f"servers {servers}", f"{count} nodes", f"{chaos.CHAOS}/layers.yaml", count, accident=kind,
                   options=set_of(topology="server", servers=min(servers, most) if servers != "auto" else servers))


def cells_of_stages(folder, courses):
    every = [(model, grid, schedule, 0) for model, grid, schedule in
             itertools.product(stages.MODELS, stages.GRIDS, stages.SCHEDULES)
             if stages.GRIDS[grid][0] > 1 or schedule == "zb"]  # one stage has no order
    every += itertools.product(stages.MODELS, HARMED, stages.SCHEDULES, range(1, courses + 1))
    jobs = {(model, steps): stages.write(os.path.join(folder, f"{model}-{steps}"), model, steps)
            for model in stages.MODELS for steps in (STAGE_STEPS, STAGE_COURSE_STEPS)}
    for model, grid, schedule, course in every:
        job = jobs[model, STAGE_COURSE_STEPS if course else STAGE_STEPS]
        alone, given = stages.options(job), stages.options(job, grid, schedule)
        yield Cell(f"{model}, {'accidents' if course else 'none'}", f"{grid} {schedule}", job, len(stages.nodes(grid)), given, alone,
                   accident=course, steps=STAGE_COURSE_STEPS, together=True, items=stages.GRIDS[grid][0] > 1)


def precise(path):
    """The same job with products of bfloat16. Its name."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"^  precision: .*\n", "", file.read(), flags=re.M).replace("train:\n", "train:\n  precision: bf16\n")
    with open(path.replace(".yaml", "-precision.yaml"), "w", encoding="utf-8") as out:
        out.write(text)
    return os.path.basename(path).replace(".yaml", "-precision")


def digits(path, steps, way):
    with open(os.path.join(chaos.ROOT, "configs", "digits.yaml"), encoding="utf-8") as file:
        text = re.sub(r"batch: \d+", "batch: %d\n  steps: %d\n  eval_every: 0" % (BATCH, steps), file.read())
    text = text.replace("source: glyphs", "source: glyphs, train: 96, test: 12")
    with open(path, "w", encoding="utf-8") as out:
        out.write(re.sub(r"^mesh: .*$", "mesh: {%s}" % way, text, flags=re.M))


def spans(codec):
    """A step without it, and two spans."""
    span = ", compress_span: 2" if codec in ("topk", "onebit", "randk", "powersgd") else ""
    return f"compress: {codec}, compress_warmup: 1{span}"


def write_models(folder):
    """The jobs, and what they read. Their names."""
    models.write_text(folder)
    models.write_images(folder)
    os.truncate(os.path.join(folder, "bench.txt"), 2000)  # the evaluation at the end must not take longer than the rest
    os.truncate(os.path.join(folder, "test_batch.bin"), BATCH * 3073)
    digits(os.path.join(folder, "digits.yaml"), 2, "topology: ring")
    names = ["digits", precise(os.path.join(folder, "digits.yaml"))]
    for codec in [codec for codec in CODECS if codec not in ("none", "auto")]:
        digits(os.path.join(folder, f"digits-{codec}.yaml"), 5, spans(codec))
        names.append(f"digits-{codec}")
    for model in models.MODELS:
        path = os.path.join(folder, f"{model}.yaml")
        models.write_job(path, model, model, 2, batch=BATCH)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for large, small in SMALL:
            text = text.replace(large, small)
        for name, way in [(model, "topology: ring")] + [(f"{model}-bf16", "activations: bf16")] * (model in ("cnn", "gpt")):
            with open(os.path.join(folder, f"{name}.yaml"), "w", encoding="utf-8") as out:
                out.write(re.sub(r"^mesh: .*$", "mesh: {%s}" % way, text, flags=re.M))
            names.append(name)
        names.append(precise(path))
    return names


def cells_of_models(folder, here, sets):
    """A node that does not wait for all may end before they come: steps are few, and nobody computes alone."""
    os.makedirs(folder)
    for name, (which, own), count, threads, compiler in itertools.product(
            write_models(folder), [*((one, [one]) for one in sets), ("mixed", sets)], [1, 2, 3, 4, 8], THREADS, here):
        if which == "mixed" and (count < 2 or len(sets) < 2):
            continue
        numerics = ["--set", "run.numerics=portable"] if which == "mixed" else []
        yield Cell(f"{name} {which}", f"{count}x{threads} {compiler}", os.path.join(folder, f"{name}.yaml"), count,
                   options=["--data", folder, *chaos.EVEN, *numerics], of=["--data", folder, *numerics], threads=threads,
                   compiler=compiler, sets=own, together=True)


def middle(mesh, names, rng):
    """Servers die. Returns those that ended, and what happened."""
    for name in names:
        fail = {"MESHNODE_FAIL": f"gather-sent:{rng.randint(2, 800)}:kill"}
        mesh.start(name, "--peers", str(len(names)), env=fail if name != names[-1] else {})
    mesh.wait(f"{' '.join(names)} to end", lambda: not any(mesh.nodes[name].alive() for name in names))
    died = [name for name in names if mesh.nodes[name].status == -signal.SIGKILL]
    ended = [name for name in names if name not in died]
    mesh.finish(ended)
    return ended, [f"{name} died while it sent a total" for name in died]


def plain(mesh, names, cell, sets):
    for i, name in enumerate(names):
        fail = {"MESHNODE_FAIL": "hits"} if cell.items is not None else {}
        mesh.start(name, "--peers", str(len(names)), env={"MESHNODE_SIMD": sets[i % len(sets)], **fail})
    mesh.finish(names)
    together = {mesh.nodes[name].result()["peers_max"] for name in names}
    if cell.together and together != {len(names)}:
        raise chaos.Failed(f"trained with {sorted(together)} nodes, expected {len(names)}")
    for name in names if cell.items is not None else []:
        items = int(re.search(r"^failpoint item-sent hits (\d+)$", mesh.nodes[name].text(), re.M)[1])
        if (items > 0) != cell.items:
            raise chaos.Failed(f"{name} sent {items} items")


def agree(mesh, names):
    """Nodes of one plan end alike. Who comes when the others are done trains in a plan of its own, and auto may take another codec."""
    ends = {}
    for name in names:
        for last in [step for step in mesh.nodes[name].steps() if "plan" in step][-1:]:  # it has none of a step that it only followed
            ends.setdefault((last["plan"], last["step"]), []).append(name)
    for together in ends.values():
        if len(mesh.hashes(together)) > 1:
            raise chaos.Failed(f"{', '.join(together)} end with different hashes")


def one(folder, rng, index, cell, expected, here):
    names, sets = [f"n{i}" for i in range(cell.nodes)], cell.sets or [rng.choice(here)]
    options = ["--threads", str(cell.threads), "--set", "mesh.gather_ms=100", *cell.options]
    with chaos.Mesh(folder, cell.job, program=cell.program(), options=options, env={"MESHNODE_SIMD": sets[0]}) as mesh:
        course = Course(mesh, names, random.Random(f"{rng.random()}/{cell.accident}"), cell.steps)
        try:
            if cell.accident in MIDDLE:
                names, course.said = middle(mesh, names, rng)
            elif cell.accident:
                course.run()
                course.finish()
            else:
                plain(mesh, names, cell, sets)
            found = mesh.hashes(names)
            if cell.auto:
                agree(mesh, names)
            if not (found if not cell.auto else {weights for weights, _ in found}) <= expected:
                raise chaos.Failed(f"hashes {found}, expected {expected}")
        except chaos.Failed as failure:
            raise chaos.Failed(f"{cell.name}, {' '.join(sets)}, {', '.join(course.said)}: {failure}") from None
        return found, course.said


class Expected:
    """The hashes that a cell may have: of one node alone, found when they are asked for."""

    def __init__(self, folder):
        self.folder, self.known = folder, {}

    def alone(self, job, of):
        if (job, of) not in self.known:
            self.known[job, of], _ = chaos.reference(os.path.join(self.folder, f"reference-{len(self.known)}"), job, *of)
        return self.known[job, of]

    def of(self, cell):
        if cell.auto:  # the state says that it was chosen
            return {self.alone(cell.job, tuple(of_codec(codec)))[0] for codec in OF_AUTO}
        return {self.alone(cell.job, cell.of)}


def cells_of(args, folder, here, sets):
    courses = args.courses if args.courses is not None else 0 if args.of == "stages" else 20
    codecs = [codec for codec in CODECS if codec != "none"] if args.codecs == "all" else args.codecs.split(",")
    every = {"nodes": lambda: cells_of_nodes(["none"], here, courses),
             "codecs": lambda: cells_of_nodes(codecs, here, courses),
             "servers": lambda: cells_of_servers(courses),
             "stages": lambda: cells_of_stages(folder, courses),
             "models": lambda: cells_of_models(folder, here, sets)}[args.of]()
    return [cell for cell in every if re.search(args.only, cell.name)]


def what_is_here():
    """Compilers and sets that can run."""
    here = [name for name, path in PROGRAMS.items() if os.path.exists(path)]
    sets = [name for name in SETS if not subprocess.run(
        [chaos.MESHNODE, "--version"], env={**os.environ, "MESHNODE_SIMD": name}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, check=False).returncode]
    for name in [*(PROGRAMS.keys() - set(here)), *(set(SETS) - set(sets))]:
        print(f"without {name}: it is not here")
    return here, sets


def body(runs):
    args = runs.args
    here, sets = what_is_here()
    os.environ.pop("OPENBLAS_CORETYPE", None)
    chosen = runs.draw(cells_of(args, os.path.join(runs.folder, "jobs"), here, sets))
    expected, rows = Expected(runs.folder), {}
    for index in runs:
        cell = chosen[index]
        row = rows.setdefault(cell.row, [0, 0, set(), 0])
        result = runs.do(one, index, cell, expected.of(cell), sets)
        row[0] += 1
        row[1] += result is None
        row[2] |= result[0] if result else set()
        row[3] += sum("sent a total" in text for text in result[1]) if result else 0
        if args.verbose and result:
            print(f"run {index}: {cell.name}: {', '.join(result[1]) or 'no accident'}", flush=True)
    several = [name for name, row in rows.items() if len({weights for weights, _ in row[2]}) != len(row[2])]
    print(f"seed {args.seed}, {sum(row[0] for row in rows.values())} of {len(chosen)} cells of {args.of}; {chaos.load()}")
    chaos.table(["cells", "runs", "failed", "servers that died in mid-step", "weights"],
                [[name, *row[:2], row[3], " ".join(sorted(weights[:12] for weights, _ in row[2]))]
                 for name, row in sorted(rows.items())])
    return f"several states with the same weights: {' '.join(several)}" if several else None


if __name__ == "__main__":
    parser = chaos.parser(__doc__, runs=20, cases="cell")
    parser.add_argument("--of", default="nodes", choices=["nodes", "codecs", "servers", "stages", "models"], help="which table")
    parser.add_argument("--courses", type=int, help="of accidents, besides none; 20, of stages 0, unless given")
    parser.add_argument("--codecs", default="all", help="of the table of them, with commas between")
    parser.add_argument("--only", default="", help="cells whose names match")
    chaos.tool(parser.parse_args(), body)

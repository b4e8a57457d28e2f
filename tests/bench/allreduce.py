"""All-reduce: the mesh beside a ring on bare TCP, Gloo and Open MPI, and its own ways of a sum beside one another."""
import collections
import os
import random
import re
import statistics
import sys
import tempfile

from common import busy_by_others, judged, load, microseconds, place, ratio, record, run_together, size_name, table

MIB = 1 << 20


class Contenders:
    """name -> commands that make `ranks` processes of it in a place."""

    def __init__(self, programs, where, work):
        self.where, self.work, self.table = where, work, {}
        self.port = 20000
        if "bench_allreduce" in programs:
            setting, commands = {"BENCH_INTERFACE": where.interface()}, self.ours(programs["bench_allreduce"])
            self.table["meshnode"] = (setting, commands)
            self.table["meshnode-auto"] = ({**setting, "BENCH_SERVERS": "65"}, commands)  # mesh.servers: auto
        if "tcp" in programs:
            for mode in ("poll", "thread"):
                self.table["tcp-" + mode] = ({"MODE": mode}, self.tcp(programs["tcp"]))
        if "zmq" in programs:
            self.table["zmq"] = ({"CHUNK": "1m"}, self.zmq(programs["zmq"]))
        if "gloo" in programs:
            for kind in ("ring", "ring_chunked", "halving_doubling", "bcube"):
                self.table["gloo-" + kind] = ({}, self.gloo(programs["gloo"], kind))
        if "openmpi" in programs and not where.count:
            self.table["openmpi-tcp"] = ({}, self.openmpi(programs["openmpi"]))

    def everywhere(self, ranks, command):
        return [self.where.inside(r, [str(x) for x in command(r)]) for r in range(ranks)]

    def ours(self, program):
        def commands(ranks):
            group = "bench%d-%d" % (os.getpid(), random.randrange(1 << 30))
            return self.everywhere(ranks, lambda r: [program, r, ranks, group])
        return commands

    def tcp(self, program):
        def commands(ranks):
            self.port = 20000 + (self.port - 20000 + 64) % 10000
            hosts = ",".join(self.where.host(r) for r in range(ranks))
            return self.everywhere(ranks, lambda r: [program, r, self.port, hosts])
        return commands

    def zmq(self, program):
        def commands(ranks):
            self.port = 20000 + (self.port - 20000 + 64) % 10000
            ends = ",".join("tcp://%s:%d" % (self.where.host(r), self.port + r) for r in range(ranks))
            return self.everywhere(ranks, lambda r: [program, r, ranks, ends])
        return commands

    def gloo(self, program, kind):
        def commands(ranks):
            meet = tempfile.mkdtemp(dir=self.work)
            return self.everywhere(ranks, lambda r: [program, r, ranks, self.where.host(r), meet, kind])
        return commands

    def openmpi(self, program):
        def commands(ranks):
            command = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-q",
                       "-np", str(ranks), "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"]
            if ranks > os.cpu_count():  # else its waiting ranks starve the working ones
                command += ["--mca", "mpi_yield_when_idle", "1"]
            return [self.where.inside(0, command + [program, "openmpi-tcp"])]
        return commands


class Rounds(dict):
    """{round: median in microseconds}, and the means, which tell what a median hides: now and then a slow sum."""

    def __init__(self):
        super().__init__()
        self.means = []

    def text(self, size):
        median = microseconds(statistics.median(self.values()))
        return median if size >= MIB else "%s (%s)" % (median, microseconds(statistics.median(self.means)))


def compare(contenders, ranks_list, rounds, env, options, timeout):
    """Returns {(name, ranks, bytes): Rounds}."""
    results = collections.defaultdict(Rounds)
    names = [n for n in contenders.table if re.search(options.only, n)]
    others = busy_by_others()
    for number in range(rounds):
        turns = [(n, r) for n in names for r in ranks_list]
        random.shuffle(turns)
        for name, ranks in turns:
            setting, commands = contenders.table[name]
            text = run_together(commands(ranks), {**env, **setting}, timeout)
            for line in (text or "").splitlines():
                field = line.split(",")
                if field[0] == "AR":
                    found = results[name, ranks, int(field[3])]
                    found[number] = float(field[5])
                    found.means.append(float(field[6]))
                    record(options, number, name, line)
        print("  round %d of %d" % (number + 1, rounds), file=sys.stderr, flush=True)
    print(load(others) + "\n")
    return results


def best(results, prefix, ranks, size):
    """The contender of that family with the lowest median, and its rounds."""
    family = {n: v for (n, r, b), v in results.items() if n.startswith(prefix) and (r, b) == (ranks, size)}
    if not family:
        return None, {}
    name = min(family, key=lambda n: statistics.median(family[n].values()))
    return name, family[name]


def allreduce_table(results, ranks, goals):
    """`goals`: {prefix: function of size -> (goal, strict)}"""
    sizes = sorted({b for (_, r, b) in results if r == ranks})
    names = list(dict.fromkeys(n for (n, r, _) in results if r == ranks))
    rows = []
    for name in sorted(names, key=lambda n: (not n.startswith("meshnode"), n)):
        cells = [results.get((name, ranks, b)) for b in sizes]
        rows.append([name] + [c.text(b) if c else "–" for b, c in zip(sizes, cells)])
    for prefix, (label, goal) in goals.items():
        for mine, way in (("meshnode", ""), ("meshnode-auto", ", `mesh.servers: auto`")):
            cells = [judged(ratio(best(results, prefix, ranks, size)[1], results.get((mine, ranks, size), {})), *goal(size))
                     for size in sizes if (mine, ranks, size) in results]
            rows += [["*" + label + way + "*"] + cells] if cells else []
    print("%d processes, median time (below 1 MiB: mean time)\n" % ranks)
    table([""] + [size_name(b) for b in sizes], rows)


EXCHANGES = {"ring": {"BENCH_SERVERS": "0"}, "servers": {"BENCH_SERVERS": "4"}, "one server": {"BENCH_SERVERS": "1"},
             "auto": {"BENCH_SERVERS": "65"}, "direct": {"BENCH_DIRECT": "1m"}}


def exchange_table(results, ranks, sizes):
    rows = []
    for name in dict.fromkeys(n for (n, _, _) in results):
        cells = [results.get((name, ranks, b)) for b in sizes]
        rows.append([name] + [c.text(b) if c else "–" for b, c in zip(sizes, cells)])
    goals = {"servers": lambda b: (1 / 0.8, False) if b < MIB else (1 / 1.1, False)}
    for name in ("servers", "one server", "auto", "direct"):
        cells = [judged(ratio(results.get(("ring", ranks, b), {}), results.get((name, ranks, b), {})),
                        *goals.get(name, lambda b: (None, False))(b)) for b in sizes]
        rows.append(["*the ring's time / that of %s*" % name] + cells)
    if ("before", ranks, sizes[0]) in results:
        cells = [judged(ratio(results["before", ranks, b], results["ring", ranks, b]), 0.98, False) for b in sizes]
        rows.append(["*the ring's time before / now*"] + cells)
    print("%d processes, median time (below 1 MiB: mean time)\n" % ranks)
    table([""] + [size_name(b) for b in sizes], rows)


def exchange(programs, options, work):
    """BENCH_BEFORE names an older bench_allreduce, whose ring runs beside the others."""
    print("## The ways of a sum: ring, servers, directly\n")
    with place(0) as where:
        env = {"BENCH_SIZES": options.sizes or "256k,16m", "BENCH_BUDGET": "0.2" if options.quick else "0.4"}
        contenders = Contenders({}, where, work)
        programs = {**{name: programs["bench_allreduce"] for name in EXCHANGES},
                    **({"before": os.environ["BENCH_BEFORE"]} if "BENCH_BEFORE" in os.environ else {})}
        for name, program in programs.items():
            setting = {"BENCH_INTERFACE": where.interface(), **EXCHANGES.get(name, {})}
            contenders.table[name] = (setting, contenders.ours(program))
        results = compare(contenders, [4], options.rounds or (2 if options.quick else 7), env, options, 180)
    exchange_table(results, 4, sorted({b for (_, _, b) in results}))


GOALS_LOOPBACK = {
    "tcp": ("bandwidth, ours / bare TCP", lambda b: (0.85, False) if b >= 16 * MIB else (None, False)),
    "zmq": ("bandwidth, ours / bare libzmq", lambda b: (0.95, False) if b >= 16 * MIB else (None, False)),
    "gloo": ("Gloo's best time / ours", lambda b: (2.0, False) if b <= 4096 else (1.1, False) if b <= MIB else
             (1.0, False)),
    "openmpi": ("Open MPI's time / ours", lambda b: (1.0, True) if b >= 16 * MIB else (None, False)),
}


def loopback(programs, options, work):
    print("## All-reduce, loopback\n")
    with place(0) as where:
        print("Congestion control %s. float32 sums; ours int32 sums, verified by checksum.\n"
              % where.congestion())
        env = {"BENCH_SIZES": options.sizes or ("4k,1m,16m" if options.quick else "4k,64k,1m,16m,100m"),
               "BENCH_BUDGET": "0.2" if options.quick else "0.4"}
        ranks_list = [int(r) for r in options.ranks.split(",")]
        results = compare(Contenders(programs, where, work), ranks_list,
                          options.rounds or (2 if options.quick else 7), env, options, 180)
        for ranks in ranks_list:
            allreduce_table(results, ranks, GOALS_LOOPBACK)


def link(programs, options, work):
    print("## All-reduce, four machines on 100 Mbit/s\n")
    rate, ranks = 100e6, 4
    with place(ranks, "100mbit") as where:
        if not where:
            return
        env = {"BENCH_SIZES": options.sizes or ("4m" if options.quick else "16m"), "BENCH_MIN": "2",
               "BENCH_BUDGET": "4"}
        contenders = Contenders(programs, where, work)
        for name in ("gloo-ring_chunked", "gloo-bcube"):
            contenders.table.pop(name, None)
        results = compare(contenders, [ranks], options.rounds or (1 if options.quick else 3), env, options, 180)
    goal = {"tcp": ("bandwidth, ours / bare TCP", lambda b: (0.98, False)),
            "gloo": ("Gloo's best time / ours", lambda b: (None, False))}
    allreduce_table(results, ranks, goal)
    rows = []
    for (name, _, size), rounds in sorted(results.items()):
        bound = 2 * (ranks - 1) / ranks * size * 8 / rate
        rows.append([name, size_name(size), "%.3f" % (statistics.median(rounds.values()) / 1e6 / bound)])
    print("Time as a multiple of the bound 2(n−1)/n · bytes / bandwidth (headers alone cost 1.05)\n")
    table(["", "size", "× bound"], rows)

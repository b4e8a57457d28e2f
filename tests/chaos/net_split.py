#!/usr/bin/env python3
"""net_split.py - splits of a real network (P4): every side goes on, and they are one again after it.

    net_split.py [--only NAME,NAME] [--seconds 4] [--check]

Four nodes on the user-space switch train one job. For each scenario the network is split for some seconds and
healed. Printed: the longest time without a step on each side while split (and the median step there), the
time from healing until all four complete steps in one plan again and the longest gap meanwhile, plans that
were dropped. At the end every step of every node is compared with a run that nothing happened to.

Pass line: every side commits within 1 s + its step, after healing all are together within 1 s, one hash, no
step undone."""
import sys
import time

import mesh
import net

SIDES = {
    "1|3": [[0], [1, 2, 3]],
    "3|1": [[0, 1, 2], [3]],
    "2|2": [[0, 1], [2, 3]],
    "three": [[0], [1, 2], [3]],
    "each": [[0], [1], [2], [3]],
}


def groups(sides):
    return "groups " + " ".join(",".join(map(str, side)) for side in sides)


def clean(here, sides, seconds):
    here.switch(groups(sides))
    here.let(seconds)


def one_way(here, sides, seconds):
    """What the first side says, the second does not hear."""
    here.switch(*["line %d %d cut=1" % (a, b) for a in sides[0] for b in sides[1]])
    here.let(seconds)


def flapping(here, sides, seconds):
    for _ in range(int(seconds)):
        here.switch(groups(sides))
        here.let(0.5)
        here.heal()
        here.let(0.5)


def scenarios(seconds):
    """Name: (sides, what is done to the network, for how long)."""
    table = {name: (sides, clean, seconds) for name, sides in SIDES.items()}
    table["one-way 1>3"] = ([[0], [1, 2, 3]], one_way, seconds)
    table["one-way 3>1"] = ([[1, 2, 3], [0]], one_way, seconds)
    table["one-way 2>2"] = ([[0, 1], [2, 3]], one_way, seconds)
    table["one line"] = ([[0], [1]], one_way, seconds)
    table["1 Hz 2|2"] = ([[0, 1], [2, 3]], flapping, max(4, seconds))
    table["1 Hz 1|3"] = ([[0], [1, 2, 3]], flapping, max(4, seconds))
    table["60 s 2|2"] = ([[0, 1], [2, 3]], clean, 60)
    table["permanent 2|2"] = ([[0, 1], [2, 3]], clean, 15)
    return table


def aborts(here):
    return sum(node.node.text().count(" dropped: ") for node in here.tracks)


def scene(here, limit, name, sides, act, seconds):
    """Returns True when it is within the limits."""
    everybody = range(here.count)
    here.meet()
    before = aborts(here)
    begin = time.monotonic()
    act(here, sides, seconds)
    end = time.monotonic()
    gaps = [here.gap(side, begin, end) for side in sides]
    good = all(gap < limit + step for gap, step in gaps)
    text = "; ".join("%s %.0f (%.0f)" % (",".join(map(str, side)), 1000 * gap, 1000 * step)
                     for side, (gap, step) in zip(sides, gaps))
    if name.startswith("permanent"):
        heal = "never"
    else:
        here.heal()
        end = time.monotonic()
        took = here.meet_again(end)
        worst, _ = here.gap(everybody, end, end + took + 0.001)
        heal = "%.0f (longest gap %.0f)" % (1000 * took, 1000 * worst)
        good = good and took < limit
    net.say("| %s | %.0f s | %s | %s | %d | %s |" % (name, seconds, text, heal, aborts(here) - before,
                                                   "ok" if good else "MISSED"))
    return good


def main():
    chosen = net.options(__doc__, only=("", "scenarios, by comma"), seconds=(4.0, "of each split"),
                         cpu=(0.2, "of one CPU, for each node"), rounds=(1, "how often"),
                         limit=(1.0, "seconds a split may cost: a quiet machine is judged by the promise"))
    table = scenarios(chosen.seconds)
    names = chosen.only.split(",") if chosen.only else list(table)
    unknown = [name for name in names if name not in table]
    if unknown:
        sys.exit("net_split.py: no scenario %s; there are: %s" % (unknown[0], ", ".join(table)))
    names.sort(key=lambda name: name.startswith("permanent"))
    with net.Net(4, cpu=chosen.cpu, seed=chosen.seed, keep=chosen.keep, options=mesh.EVEN) as here:
        here.begin()
        net.say("| scenario | for | longest gap of each side, ms (median step) | together after heal, ms | plans dropped | |")
        net.say("|---|---|---|---|---|---|")
        good = True
        for _ in range(chosen.rounds):
            for name in names:
                good = scene(here, chosen.limit, name, *table[name]) and good
        here.verdict()
    return None if good else "a split cost more than %g s" % chosen.limit


if __name__ == "__main__":
    net.tool(main)

#!/usr/bin/env python3
"""net_cut.py - pull the cable of one of four nodes, again and again (P1): how long do the others pause?

    net_cut.py [--cuts 30] [--nodes 4] [--carrier 1]

The cable of a random node is pulled for one to two seconds; carrier 0 leaves the lamp on and drops its frames
instead, as when a switch or a power supply dies behind another switch. Printed: for the survivors the longest time
without a step, and the pulled node's own; then how long it took to be together again.

Pass line: the pause of survivors is at most 500 ms + a step in 99 % of the cuts, and always less than 1 s + a step."""
import random
import time

import mesh
import net


def cut(here, rng, carrier):
    """One cut: longest gap of the survivors and of the node that was cut off, time to be together, step; seconds."""
    everybody = range(here.count)
    here.meet()
    here.let(rng.uniform(0.2, 0.5))
    victim = rng.randrange(here.count)
    rest = [i for i in everybody if i != victim]
    begin = time.monotonic()
    _, step = here.gap(everybody, begin - 0.3, begin)
    here.switch("carrier %d 0" % victim if carrier else "groups %s %d" % (",".join(map(str, rest)), victim))
    here.let(rng.uniform(1, 2))
    plugged = time.monotonic()
    here.switch("carrier %d 1" % victim) if carrier else here.heal()
    others, alone = here.gap(rest, begin, plugged)[0], here.gap([victim], begin, plugged)[0]
    return others, alone, here.meet_again(plugged), step


def main():
    chosen = net.options(__doc__, cuts=(30, "how many"), nodes=(4, "how many"), carrier=(1, "0: only drop frames"),
                         cpu=(0.2, "of one CPU, for each node"),
                         patience=(1.0, "times the promise; a quiet machine is judged by 1"))
    rng = random.Random(chosen.seed)
    with net.Net(chosen.nodes, cpu=chosen.cpu, seed=chosen.seed, keep=chosen.keep, options=mesh.EVEN) as here:
        here.begin()
        cuts = [cut(here, rng, chosen.carrier) for _ in range(chosen.cuts)]
        here.verdict()
    net.say("| %d cuts, ms | median | 99 %% | most |" % len(cuts))
    net.say("|---|---|---|---|")
    for name, k in (("survivors", 0), ("the one cut off", 1), ("together again", 2), ("a step before", 3)):
        times = [1000 * each[k] for each in cuts]
        net.say("| %s | %.0f | %.0f | %.0f |" % (name, mesh.median(times), mesh.percentile(times, 0.99), max(times)))
    step = mesh.median([each[3] for each in cuts])
    pauses = [each[0] for each in cuts]
    if mesh.percentile(pauses, 0.99) > 0.5 * chosen.patience + step or max(pauses) >= chosen.patience + step:
        return "survivors paused for up to %.0f ms, 99 %% below %.0f; expected %.0f and %.0f, and a step" % (
            1000 * max(pauses), 1000 * mesh.percentile(pauses, 0.99), 1000 * chosen.patience, 500 * chosen.patience)
    return None


if __name__ == "__main__":
    net.tool(main)

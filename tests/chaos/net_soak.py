#!/usr/bin/env python3
"""net_soak.py - an hour of accidents (P10): does a node grow?

    net_soak.py [--seconds 3600] [--every 10] [--cpu 0.06]

Four nodes train an endless job while something happens to one of them every 10 s. Two are never killed: at the end of
each period, when all four are together again and have been for CALM_S, their descriptors are counted and their memory
is taken. Every state is compared with a run that nothing happened to.

Pass line: at equal membership the same descriptors each time; memory less than 1 MB/h (growth.py). Quotas keep it
from using much of the machine; --log FILE gets the samples."""
import random
import time

import growth
import net
import net_faults

KEPT = [0, 1]
CALM_S = 2.5  # a session that broke is forgotten after 2 s


def period(here, faults, every, watched, began, log):
    """An accident, the rest of its period, and a sample of each node."""
    begin = time.monotonic()
    faults.next()
    here.meet()
    here.let(max(CALM_S, every - (time.monotonic() - begin)))
    here.meet()
    for node in watched:
        here.wait(node.what, lambda n=node: n.sample(time.monotonic() - began))
        log.write("%.0f %s %d %d\n" % (node.points[-1][0], node.name, *node.points[-1][1:]))
    log.flush()


def main():
    chosen = net.options(__doc__, seconds=(3600.0, "of accidents"), every=(10.0, "seconds between accidents"),
                         cpu=(0.06, "of one CPU, for each node"),
                         kinds=("kill,power,pause,cut,split,one-way,slow", "of accidents"), log=("/dev/null", "file for the samples"))
    growth.touch_all()
    with net.Net(4, batch=960, cpu=chosen.cpu, seed=chosen.seed, keep=chosen.keep) as here, \
            open(chosen.log, "w", encoding="ascii") as log:
        here.poll_s = 0.1
        here.begin()
        faults = net_faults.Faults(here, random.Random(chosen.seed), kill=[2, 3],
                                   kinds=chosen.kinds.split(","))
        watched = [growth.Growth("node %d" % i, here.now[i].pid, short_kb=8192) for i in KEPT]
        began = time.monotonic()
        while time.monotonic() - began < chosen.seconds:
            period(here, faults, chosen.every, watched, began, log)
        why = growth.report(watched)
        here.verdict()
    net.say("%.0f s; %s" % (chosen.seconds, faults.text()))
    return why


if __name__ == "__main__":
    net.tool(main)

#!/usr/bin/env python3
"""net_goodput.py - what accidents cost (P10): steps done against what the nodes alive could have done.

    net_goodput.py [--seconds 600] [--nodes 8] [--every 10] [--cpu 0.12]

Nodes on the user-space switch, each with a quota of CPU, so that all together use less than the machine and a node
that is gone makes no other faster. Every 10 s one accident: a node is killed and started again without its
state, stopped, its cable cut, or its link made slow, for half a second to four.

Capacity: the job's shards divide evenly by 8 and by 7, so n nodes are to do n/8 of the steps per second of all.
That speed is measured before and after the accidents, without any, and the mean is taken. The live capacity
counts a node as missing from the instant it is killed, stopped or cut off to the instant its process is there
again, goes on or is plugged in; what it takes to detect, to plan anew, to start, to fetch the state is not
forgiven, nor is a slow link. Goodput = steps / integral of the live capacity.

Pass line: at least 95 %."""
import random
import time

import net
import net_faults


def steps_at(here, at):
    """The last step that any node had completed by then."""
    last = 0
    for track in here.tracks:
        for line in reversed(track.lines):
            if track.at(line) <= at:
                last = max(last, line.step)
                break
    return last


def calm(here, seconds):
    """Steps per second without accidents."""
    here.meet()
    here.let(2)
    begin = time.monotonic()
    here.let(seconds)
    end = time.monotonic()
    return (steps_at(here, end - 0.1) - steps_at(here, begin - 0.1)) / (end - begin)


def accidents(here, faults, chosen):
    """Returns steps done and node-seconds alive."""
    begin = time.monotonic()
    rows = []
    while time.monotonic() - begin < chosen.seconds:
        start = time.monotonic()
        kind = faults.next()
        here.let(max(0.0, chosen.every - (time.monotonic() - start)))
        rows.append((kind, start, time.monotonic()))
    end = time.monotonic()
    steps = steps_at(here, end - 0.1) - steps_at(here, begin - 0.1)
    alive = here.count * (end - begin) - sum(b - a for a, b, _ in faults.down)
    return steps, alive, rows


def by_kind(here, faults, rows, rate):
    """Goodput of the intervals in which each kind happened: where the loss is."""
    for kind in faults.kinds:
        steps = due = 0.0
        for name, begin, end in rows:
            if name == kind:
                steps += steps_at(here, end - 0.1) - steps_at(here, begin - 0.1)
                down = sum(b - a for a, b, _ in faults.down if begin <= a < end)
                due += rate / here.count * (here.count * (end - begin) - down)
        if due:
            net.say("| %s | %d | %.1f %% |" % (kind, faults.count[kind], 100 * steps / due))


def main():
    chosen = net.options(__doc__, seconds=(600.0, "of accidents"), nodes=(8, "how many"),
                         every=(10.0, "seconds from one accident to the next"),
                         cpu=(0.12, "of one CPU, for each node"), conv=(16, "filters"),
                         batch=(112, "samples per step"), calm=(20.0, "seconds without accidents, before and after"),
                         least=(95.0, "%; less is a failure"), kinds=("kill,pause,cut,slow", "of accidents"))
    if not net.Quota.usable():
        net.skip("no quotas of CPU here")
    with net.Net(chosen.nodes, cpu=chosen.cpu, seed=chosen.seed, keep=chosen.keep, conv=chosen.conv,
                 batch=chosen.batch, shards=56, train=2 * chosen.batch) as here:
        here.begin()
        faults = net_faults.Faults(here, random.Random(chosen.seed), kinds=chosen.kinds.split(","))
        before = calm(here, chosen.calm)
        steps, alive, rows = accidents(here, faults, chosen)
        after = calm(here, chosen.calm)
        rate = (before + after) / 2
        goodput = steps / (rate / here.count * alive)
        net.say("| accident | how often | goodput |")
        net.say("|---|---|---|")
        by_kind(here, faults, rows, rate)
        net.say("| all | %d | **%.1f %%** |" % (len(rows), 100 * goodput))
        here.verdict()
    net.say("%.1f steps/s before, %.1f after; %d steps, %.1f of %d nodes alive in the mean" % (
        before, after, steps, alive / chosen.seconds, chosen.nodes))
    return "%.1f %%, expected %g" % (100 * goodput, chosen.least) if 100 * goodput < chosen.least else None


if __name__ == "__main__":
    net.tool(main)

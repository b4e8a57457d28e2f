#!/usr/bin/env python3
"""net_rough.py - training over a bad network: lost, late, doubled and overtaken packets; same weights, no hang.

    net_rough.py [--seconds 60] [--nodes 3] [--loss 5] [--delay 20] [--jitter 10] [--dup 2] [--reorder 5]

All nodes are on the user-space switch, every line of which loses 5 % of the packets, delays the others by 20 +- 10 ms,
sends 2 % twice and holds 5 % back so that others overtake them. The mesh forms and trains over such lines; then they
are mended.

Pass line: every node makes progress in each --gap seconds, alone or with others; all are in one plan soon after the
lines are good; each state of each node is that of a run without accidents."""
import time

import net


def main():
    chosen = net.options(__doc__, seconds=(60.0, "over bad lines"), nodes=(3, "how many"), loss=(5.0, "%"),
                         delay=(20.0, "ms"), jitter=(10.0, "ms"), dup=(2.0, "%"), reorder=(5.0, "%"),
                         corrupt=(0.0, "%"), gap=(5.0, "seconds without a step at most"),
                         cpu=(0.2, "of one CPU, for each node"), conv=(2, "filters"), batch=(384, "samples per step"))
    everybody = range(chosen.nodes)
    with net.Net(chosen.nodes, cpu=chosen.cpu, seed=chosen.seed, keep=chosen.keep, conv=chosen.conv,
                 batch=chosen.batch) as here:
        here.begin()
        here.switch("line * * loss=%g delay=%g jitter=%g dup=%g reorder=%g corrupt=%g" % (
            chosen.loss, chosen.delay, chosen.jitter, chosen.dup, chosen.reorder, chosen.corrupt))
        begin = time.monotonic()
        here.let(chosen.seconds)
        end = time.monotonic()
        gaps = [here.gap([i], begin, end) for i in everybody]
        lines = [[line for line in here.now[i].lines if begin <= here.now[i].at(line) < end] for i in everybody]
        counts = here.switch("count")
        here.switch("clear")
        mended = time.monotonic()
        here.meet(since=mended + 1)
        here.verdict()
    net.say("| node | steps | together with all | usual step, ms | longest, ms |")
    net.say("|---|---|---|---|---|")
    for i in everybody:
        full = sum(line.peers == chosen.nodes for line in lines[i])
        net.say("| %d | %d | %.0f %% | %.0f | %.0f |" % (i, len(lines[i]), 100 * full / max(1, len(lines[i])),
                                                      1000 * gaps[i][1], 1000 * gaps[i][0]))
    lost = sum(int(part[5:]) for part in counts.split() if part.startswith("lost="))
    doubled = sum(int(part[4:]) for part in counts.split() if part.startswith("dup="))
    late = sum(int(part[8:]) for part in counts.split() if part.startswith("reorder="))
    net.say("packets: %d lost, %d doubled, %d overtaken" % (lost, doubled, late))
    longest = max(gap for gap, _ in gaps)
    if longest > chosen.gap:
        return "%.1f s without a step, expected at most %g" % (longest, chosen.gap)
    return None if lost and doubled and late else "the lines were good"


if __name__ == "__main__":
    net.tool(main)

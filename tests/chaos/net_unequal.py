#!/usr/bin/env python3
"""net_unequal.py - one machine is much slower than the others (P10): what does it cost them?

    net_unequal.py [--only NAME,NAME] [--seconds 20] [--rounds 2] [--conv 16]

Four nodes, each with a quota of CPU, on the user-space switch. Measured, one after the other and again: the steps
per second of three equal nodes, and of the same three with a fourth that has a tenth of their CPU, or a link of
1 Mbit/s, or that is like them. The first seconds of each are not counted: the mesh measures and divides anew.

Pass line: with a slow fourth at least 80 % of the speed without it. Shares are those of the median round."""
import time

import mesh
import net

SETTLE_S = 6


def cpu_tenth(here):
    here.quotas[3].set(here.cpu[3] / 10)


def link_slow(here):
    here.switch("port 3 rate=1000")


def link_medium(here):
    here.switch("port 3 rate=10000")


CASES = {"alone": None, "equal": lambda here: None, "cpu/10": cpu_tenth, "1Mbit": link_slow,
         "10Mbit": link_medium}


def speed(here, seconds):
    """Steps per second of nodes 0..2, their median step, and how many were members in the mean."""
    here.let(SETTLE_S)
    begin = time.monotonic()
    here.let(seconds)
    end = time.monotonic()
    time.sleep(0.1)  # the last lines are being read
    track = here.now[0]
    lines = [line for line in track.lines if begin <= track.at(line) < end]
    steps = lines[-1].step - lines[0].step if len(lines) > 1 else 0
    peers = sum(line.peers for line in lines) / max(1, len(lines))
    return steps / seconds, peers


def one(name, chosen):
    act = CASES[name]
    count = 3 if act is None else 4
    with net.Net(count, cpu=chosen.cpu, seed=chosen.seed, keep=chosen.keep, conv=chosen.conv, units=chosen.units,
                 batch=chosen.batch) as here:
        if act:
            if not here.quotas and act is cpu_tenth:
                net.say("| %s | | | | SKIPPED: no quotas |" % name)
                return None
            act(here)
        for i in range(count):
            here.start(i)
        here.wait("the first steps", lambda: here.now[0].step() > 5)
        rate, peers = speed(here, chosen.seconds)
        dropped = sum(track.node.text().count(" dropped: ") for track in here.tracks if track.index == 0)
        here.verdict(20)
        return rate, peers, dropped


def main():
    chosen = net.options(__doc__, only=("", "cases, by comma"), seconds=(15.0, "measured in each case"),
                         cpu=(0.2, "of one CPU, for each node"), rounds=(1, "how often"),
                         conv=(16, "filters; 0: a dense layer instead"), units=(128, "of the dense layer"),
                         batch=(192, "samples per step"))
    names = ["alone"] + (chosen.only.split(",") if chosen.only else [name for name in CASES if name != "alone"])
    results = {name: [] for name in names}
    for _ in range(chosen.rounds):
        for name in names:
            result = one(name, chosen)
            if result:
                results[name].append(result)
    base = mesh.median([rate for rate, _, _ in results["alone"]])
    good = True
    net.say("| fourth node | steps/s | of the three alone | members in the mean | plans dropped |")
    net.say("|---|---|---|---|---|")
    for name in names:
        for rate, peers, dropped in results[name]:
            share = rate / base
            good = good and (share >= 0.8 or name == "alone")
            net.say("| %s | %.1f | %.0f %% | %.2f | %d |" % (name, rate, 100 * share, peers, dropped))
    net.say(mesh.load())
    return None if good else "less than 80 % of the speed without the slow node"


if __name__ == "__main__":
    net.tool(main)

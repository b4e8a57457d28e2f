#!/usr/bin/env python3
"""net_flood.py - a stranger on the network of three nodes: does their training mind?

    net_flood.py [--seconds 10] [--rate 10000] [--only NAME,NAME]

Nodes on the user-space switch, each with a quota of CPU, and one more machine. From there come, one after the other,
for some seconds each: 1,000 connections to each port of node 0 that say nothing; datagrams of noise; beacons of nodes
that do not exist, on dead ports and on the port of a node; beacons that say of the members that they have moved, or
left, or were started again. The speed meanwhile is compared with the mean of that before and after.

Pass line: 90 % of the speed; node 0 grows by at most 32 MiB and --files descriptors, and has the same as before
when all is over; every state is that of a run without accidents."""
import json
import os
import random
import socket
import struct
import subprocess
import sys
import time

import growth
import net

BEACON = struct.Struct("<4sBQQQH")  # magic, version, id, incarnation, group, port: proto/PROTOCOL.md
PORT = 5670
TO = ("10.77.0.255", PORT)
GROWTH_KB = 32 << 10


# ---- the stranger: this file again, in a namespace of its own ----

def beacons(seconds=3):
    """Those of the honest nodes, by id."""
    heard = {}
    ear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    ear.bind(("", PORT))
    ear.settimeout(seconds)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        data = ear.recv(2048)
        if len(data) == BEACON.size:
            fields = BEACON.unpack(data)
            heard[fields[2]] = list(fields)
    return list(heard.values())


def noise(rng, _honest):
    return rng.randbytes(rng.choice([0, 1, 30, 31, 32, 254, 255, 256, 1400]))


def nobody(rng, honest):
    """A node that does not exist, on a dead port of this machine."""
    fields = list(honest[0])
    fields[2:4] = rng.getrandbits(64), rng.getrandbits(63)
    fields[5] = rng.choice([1, 80, 20000, 65535])
    return BEACON.pack(*fields)


def other_group(rng, honest):
    fields = list(honest[0])
    fields[2], fields[4] = rng.getrandbits(64), rng.getrandbits(64)
    return BEACON.pack(*fields)


def moved(rng, honest):
    """A member, from this address: elsewhere, started again long ago or only now, or gone."""
    fields = list(rng.choice(honest))
    fields[3] = rng.choice([0, fields[3], fields[3] + 1, rng.getrandbits(63), (1 << 64) - 1])
    fields[5] = rng.choice([0, 1, fields[5], 65535])
    return BEACON.pack(*fields)


DATAGRAMS = {"noise": noise, "other group": other_group, "nobody": nobody, "moved": moved}


def silence(host, ports, seconds):
    lines = [socket.create_connection((host, port), 5) for port in ports for _ in range(500)]
    time.sleep(seconds)  # what is tried
    return len(lines)


def stranger(name, seconds, rate, seed, host, ports):
    if name == "half-open":
        return silence(host, ports, seconds)
    rng = random.Random(seed)
    honest = beacons()
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    ready = [DATAGRAMS[name](rng, honest) for _ in range(5000)]
    begin, count = time.monotonic(), 0
    print("begin", flush=True)
    while (passed := time.monotonic() - begin) < seconds:
        for _ in range(min(100, int(rate * passed) - count)):
            out.sendto(ready[count % len(ready)], TO)
            count += 1
        time.sleep(0.001)
    return count


# ---- the experiment ----

def speed(here, seconds):
    begin = here.now[1].step(), time.monotonic()
    here.let(seconds)
    return (here.now[1].step() - begin[0]) / (time.monotonic() - begin[1])


def ports_of(here, index):
    text = net.run("ip", "netns", "exec", here.space(index), "ss", "-Hltn").stdout
    return sorted({int(line.split()[3].rsplit(":", 1)[1]) for line in text.splitlines()})


def case(here, name, chosen, watched):
    """One kind of stranger: prints its row; why it is not good, or None."""
    before = speed(here, chosen.seconds / 2)
    rss = growth.resident_kb(watched.pid)
    command = ["ip", "netns", "exec", here.space(3), sys.executable, __file__, "stranger",
               json.dumps([name, chosen.seconds, chosen.rate, chosen.seed, here.address(0), ports_of(here, 0)])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        if name != "half-open":
            process.stdout.readline()
        most, begin = 0, (here.now[1].step(), time.monotonic())
        while process.poll() is None:
            most = max(most, growth.descriptors(watched.pid))
            here.let(0.2)
        during = (here.now[1].step() - begin[0]) / (time.monotonic() - begin[1])
        sent = process.stdout.read().strip()
        if process.returncode != 0:
            return "%s: the stranger failed" % name
    here.until(60, "three to train together", lambda: here.together(range(3), time.monotonic() - 0.5))
    here.until(growth.SETTLE_S, watched.what, lambda: watched.sample(time.monotonic()))
    after = speed(here, chosen.seconds / 2)
    share, grown = during / max((before + after) / 2, 1e-9), growth.resident_kb(watched.pid) - rss
    net.say("| %s | %s | %.1f, %.1f, %.1f | %.0f %% | %d | %d |" % (
        name, sent, before, during, after, 100 * share, grown, most))
    if 100 * share < chosen.least:
        return "%s: %.0f %% of the speed, expected %g" % (name, 100 * share, chosen.least)
    if grown > GROWTH_KB or most > watched.points[0][2] + chosen.files:
        return "%s: %d kB and %d descriptors, expected %d and %d more than %d" % (
            name, grown, most, GROWTH_KB, chosen.files, watched.points[0][2])
    return None


def main():
    chosen = net.options(__doc__, seconds=(10.0, "of each"), rate=(10000, "datagrams per second"),
                         only=("", "kinds, by comma"), least=(90.0, "% of the speed; less is a failure"),
                         files=(1200, "descriptors more at most"), cpu=(0.5, "of one CPU, for each node"))
    names = chosen.only.split(",") if chosen.only else ["half-open", *DATAGRAMS]
    whys = []
    net.say("| stranger | sent | steps/s before, during, after | speed | grown, kB | descriptors at most |")
    net.say("|---|---|---|---|---|---|")
    with net.Net(4, cpu=chosen.cpu, seed=chosen.seed, keep=chosen.keep, batch=192) as here:
        for i in range(3):
            here.start(i)
        here.until(60, "three to train together", lambda: here.together(range(3)))
        here.let(2)
        watched = growth.Growth("node 0", here.now[0].pid)
        watched.sample(time.monotonic())
        for name in names:
            why = case(here, name, chosen, watched)
            whys += [why] if why else []
        verdict = here.verdict()
    net.say(str(verdict))
    return net.judge("; ".join(whys), verdict)


if __name__ == "__main__":
    if sys.argv[1:2] == ["stranger"]:
        os.setpriority(os.PRIO_PROCESS, 0, 0)
        print(stranger(*json.loads(sys.argv[2])))
    else:
        net.tool(main)

#!/usr/bin/env python3
"""net_flood.py - a stranger on the network of three nodes: does their training mind?

    net_flood.py [--seconds 5] [--rounds 3] [--rate 10000] [--only NAME,NAME]

Nodes on the user-space switch, each with a quota of CPU, and one more machine. From there come, one after the other,
for some seconds each: 1,000 connections to each port of node 0 that say nothing; datagrams of noise; beacons of nodes
that do not exist, on dead ports and on the port of a node; beacons that say of the members that they have moved, or
left, or were started again. Spells with and without them take turns, and the median of the ratios counts. In the
spells without, the datagrams go to a port on which nobody listens, for the switch and the stranger use the machine, too.

Pass line: 90 % of the speed; node 0 grows by at most --grown and --files descriptors, and has the same as before
when all is over; every state is that of a run without accidents."""
import collections
import json
import os
import random
import resource
import socket
import struct
import subprocess
import sys
import time

import growth
import mesh
import net

BEACON = struct.Struct("<4sBQQQH")  # magic, version, id, incarnation, group, port: proto/PROTOCOL.md
PORT = 5670
AWAY = PORT + 1  # nobody listens
TO = "10.77.0.255"
SILENT = 1000


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
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * SILENT + 100), hard))
    print("begin", flush=True)
    lines = [socket.create_connection((host, port), 5) for port in ports for _ in range(SILENT)]
    time.sleep(seconds)  # what is tried
    return len(lines)


def stranger(name, seconds, rate, seed, host, ports, port):
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
            out.sendto(ready[count % len(ready)], (TO, port))
            count += 1
        time.sleep(0.001)
    return count


# ---- the experiment ----

def ports_of(here, index):
    text = net.run("ip", "netns", "exec", here.space(index), "ss", "-Hltn").stdout
    return sorted({int(line.split()[3].rsplit(":", 1)[1]) for line in text.splitlines()})


Spell = collections.namedtuple("Spell", "speed step_ms sent")  # steps/s, CPU of node 0 per step


def spell(here, name, chosen, port, watch):
    """While a stranger does this; `watch` is called now and then. With port 0, nobody does anything."""
    track = here.now[0]
    command = ["ip", "netns", "exec", here.space(3), sys.executable, __file__, "stranger",
               json.dumps([name, chosen.seconds, chosen.rate, chosen.seed, here.address(0), ports_of(here, 0), port])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True) if port else None
    if process and process.stdout.readline() != "begin\n":
        raise mesh.Failed("%s: the stranger failed" % name)
    begin, step, cpu = time.monotonic(), track.step(), growth.cpu_s(track.pid)
    while time.monotonic() < begin + chosen.seconds:
        watch()
        here.let(0.2)
    seconds, steps = time.monotonic() - begin, track.step() - step
    cpu = growth.cpu_s(track.pid) - cpu
    sent = process.communicate()[0].strip() if process else "0"
    return Spell(steps / seconds, 1000 * cpu / max(1, steps), int(sent))


def case(here, name, chosen, watched):
    """One kind of stranger: prints its row; why it is not good, or None."""
    calm, wild, most = [], [], [0]
    rss = growth.resident_kb(watched.pid)
    for _ in range(chosen.rounds):
        calm.append(spell(here, name, chosen, AWAY if name in DATAGRAMS else 0, lambda: None))
        wild.append(spell(here, name, chosen, PORT,
                          lambda: most.append(max(most.pop(), growth.descriptors(watched.pid)))))
        here.meet(range(3))
        here.wait(watched.what, lambda: watched.sample(time.monotonic()))
    shares = [100 * b.speed / max(a.speed, 1e-9) for a, b in zip(calm, wild)]
    share, grown = mesh.median(shares), growth.resident_kb(watched.pid) - rss
    net.say("| %s | %d | %.1f, %.1f | %.0f %% (%s) | %.2f, %.2f | %d | %d |" % (
        name, sum(b.sent for b in wild), mesh.median([a.speed for a in calm]), mesh.median([b.speed for b in wild]),
        share, " ".join("%.0f" % one for one in shares), mesh.median([a.step_ms for a in calm]),
        mesh.median([b.step_ms for b in wild]), grown, most[0]))
    if share < chosen.least:
        return "%s: %.0f %% of the speed, expected %g" % (name, share, chosen.least)
    if grown > chosen.grown or most[0] > watched.points[0][2] + chosen.files:
        return "%s: %d kB and %d descriptors, expected %d and %d more than %d" % (
            name, grown, most[0], chosen.grown, chosen.files, watched.points[0][2])
    return None


def main():
    chosen = net.options(__doc__, seconds=(5.0, "of each spell"), rounds=(3, "with and without"),
                         rate=(10000, "datagrams per second"),
                         only=("", "kinds, by comma"), least=(90.0, "% of the speed; less is a failure"),
                         grown=(32 << 10, "kB more at most"), files=(2400, "descriptors more at most"), cpu=(0.3, "of one CPU, for each node"))
    names = chosen.only.split(",") if chosen.only else ["half-open", *DATAGRAMS]
    net.say("| stranger | sent | steps/s without, with | speed | CPU of node 0, ms per step | grown, kB | descriptors at most |")
    net.say("|---|---|---|---|---|---|---|")
    with net.Net(4, cpu=chosen.cpu, seed=chosen.seed, keep=chosen.keep, batch=192) as here:
        here.start(0)
        here.start(1)
        here.meet([0, 1])
        here.start(2)  # late: from now on nodes keep totals for those who come, which takes memory
        here.meet(range(3))
        full = here.now[0].step() + 300
        here.wait("the memory of totals to be full", lambda: here.now[0].step() >= full)
        watched = growth.Growth("node 0", here.now[0].pid)
        watched.sample(time.monotonic())
        whys = [case(here, name, chosen, watched) for name in names]
        here.verdict()
    return "; ".join(filter(None, whys))


if __name__ == "__main__":
    if sys.argv[1:2] == ["stranger"]:
        os.setpriority(os.PRIO_PROCESS, 0, 0)
        print(stranger(*json.loads(sys.argv[2])))
    else:
        net.tool(main)

#!/usr/bin/env python3
"""What a mesh costs that does nothing, and how long many nodes on one machine take for a short job.

    idle.py [--nodes 2,4,8,16,32] [--seconds 10] [--local 16,32] [--deadline 600] [--program build/gcc/meshnode]

Idle: so many nodes wait for more on a loopback of their own. When all have met, it counts what they send and how much CPU they
take. *Messages* are the bytes in TCP's and UDP's packets; *on the wire* adds the headers of IP and TCP, and the
packets that only acknowledge. Local: `meshnode local -n N configs/digits.yaml --set train.epochs=1` from start to end. Root."""
import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from common import FAILED, ROOT, busy_by_others, failed, load, place, quietly, stop, table

JOB = os.path.join(ROOT, "configs", "digits.yaml")
HEADERS = 20 + 32  # IP, TCP with timestamps; loopback does not count Ethernet


def start(program, where, nodes, work):
    processes = []
    for rank in range(nodes):
        own = [program, JOB, "--peers", "64", "--interface", "lo", "--threads", "1", "--out", "%s/node-%d" % (work, rank)]
        with open("%s/log-%d" % (work, rank), "w") as log:
            processes.append(subprocess.Popen(where.inside(0, own), stdout=log, stderr=subprocess.STDOUT))
    return processes


def all_met(nodes, work, deadline):
    """Waits until each node has told of each other one."""
    end, left = time.monotonic() + deadline, set(range(nodes))
    while left and time.monotonic() < end:
        left = {rank for rank in left if ") joined, %d nodes" % nodes not in open("%s/log-%d" % (work, rank)).read()}
        time.sleep(0.2)
    return not left


def sent(where):
    """Bytes and packets on loopback."""
    text = quietly(where.inside(0, ["cat", "/proc/net/dev"])).stdout
    fields = re.search(r"lo:(.*)", text)[1].split()
    return int(fields[8]), int(fields[9])


def cpu_s(processes):
    fields = [open("/proc/%d/stat" % p.pid).read().rsplit(")", 1)[1].split() for p in processes]
    return sum(int(f[11]) + int(f[12]) for f in fields) / os.sysconf("SC_CLK_TCK")


def idle(options, where, nodes, work):
    """Per second: bytes of messages and on the wire, packets, seconds of CPU; of all nodes. None if they did not meet."""
    processes = start(options.program, where, nodes, work)
    try:
        if not all_met(nodes, work, options.deadline):
            failed("%d nodes did not meet within %g s" % (nodes, options.deadline))
            return None
        time.sleep(2)  # what meeting costs, is not what is measured
        began, (bytes_0, packets_0), cpu_0 = time.monotonic(), sent(where), cpu_s(processes)
        time.sleep(options.seconds)
        (bytes_1, packets_1), cpu_1, took = sent(where), cpu_s(processes), time.monotonic() - began
    finally:
        stop(processes)
    wire, packets = bytes_1 - bytes_0, packets_1 - packets_0
    return [count / took for count in (wire - HEADERS * packets, wire, packets, cpu_1 - cpu_0)]


def idle_row(options, nodes):
    work = tempfile.mkdtemp(prefix="meshnode-idle-")
    with place(0) as where:
        found = idle(options, where, nodes, work) if where else None
    shutil.rmtree(work)
    if not found:
        return [str(nodes)] + 5 * ["–"]
    message, wire, packets, cpu = found
    pairs = nodes * (nodes - 1)
    return [str(nodes), "%.2f kB/s" % (message / pairs / 1e3), "%.2f kB/s" % (wire / pairs / 1e3),
            "%.1f kB/s" % (message / nodes / 1e3), "%.0f/s" % (packets / nodes), "%.2f %%" % (100 * cpu / nodes)]


def local_row(options, nodes):
    work = tempfile.mkdtemp(prefix="meshnode-idle-")
    command = [options.program, "local", "-n", str(nodes), JOB, "--set", "train.epochs=1", "--out", work]
    try:
        with place(0) as where:
            began = time.monotonic()
            done = subprocess.run(where.inside(0, command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=options.deadline, check=False)
        took, text = time.monotonic() - began, done.stdout
    except subprocess.TimeoutExpired as late:
        took, text = None, (late.stdout or b"").decode()
    finally:
        shutil.rmtree(work)
    same = sorted(set(re.findall(r"\b[0-9a-f]{64}\b", text)))
    return [str(nodes), "%.1f s" % took if took else "no end within %g s" % options.deadline,
            ", ".join(one[:8] for one in same) or "–", str(text.count("is gone"))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="2,4,8,16,32")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--local", default="16,32")
    parser.add_argument("--deadline", type=float, default=600)
    parser.add_argument("--program", default=os.environ.get("MESHNODE", os.path.join(ROOT, "build", "gcc", "meshnode")))
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that namespaces are removed
    others = busy_by_others()
    if options.nodes:
        rows = [idle_row(options, int(nodes)) for nodes in options.nodes.split(",")]
        table(["nodes", "messages per peer", "on the wire per peer", "messages per node", "packets per node", "CPU of a node"], rows)
    if options.local:
        table(["local -n", "from start to end", "hashes", "\"is gone\""],
              [local_row(options, int(nodes)) for nodes in options.local.split(",")])
    print(load(others))
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())

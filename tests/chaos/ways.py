"""ways.py - the ways to train whose result depends on the timing of the nodes, for the tools that harm them, and what must
hold at the end of a run: all have one model, and the journals give it again."""
import os
import re
import struct
import subprocess

import mesh as chaos

SERVERS = ["--set", "mesh.topology=server", "--set"]
GOSSIP = ["--set", "mesh.topology=gossip", "--set"]
WAYS = {
    "async": [*SERVERS, "mesh.sync=async"],
    "async-int8": [*SERVERS, "mesh.sync=async", "--set", "mesh.compress=int8", "--set", "mesh.pull=bf16"],
    "ssp": [*SERVERS, "mesh.sync=ssp", "--set", "mesh.staleness=2"],
    "softsync": [*SERVERS, "mesh.sync=softsync", "--set", "mesh.softsync=3"],
    "gossip-bsp": [*GOSSIP, "gossip.graph=ring"],
    "gossip-async": [*GOSSIP, "mesh.sync=async", "--set", "gossip.graph=random"],
    "gossip-topk": [*GOSSIP, "gossip.graph=ring", "--set", "mesh.compress=topk"],
    "gossip-async-topk": [*GOSSIP, "mesh.sync=async", "--set", "gossip.graph=one-peer", "--set", "mesh.compress=topk"],
    "push-sum": [*GOSSIP, "gossip.graph=one-peer", "--set", "gossip.method=push_sum"],
}
TICKETS = 6  # of a step of twelve shards: mesh.ticket_shards
REPLAY_S = 600  # all nodes' work, done again by one
TAKEN = 3  # type of a journal's record: see node/train/push_journal.h


def serves(way):
    return WAYS[way][:3] == SERVERS


def has_record(path, wanted):
    """Has a journal, whose last record may be cut off, a record of this type? See node/results/journal.h."""
    with open(path, "rb") as file:
        data = file.read()
    at = 16
    while at + 10 <= len(data):
        head = struct.unpack_from("<I", data, at)[0]
        if head >> 24 == wanted:
            return True
        at += 10 + (head & 0xffffff)
    return False


def held_ranges(folder):
    """Did this node take gradients, as owner or backup of a range?"""
    path = os.path.join(folder, "journal")
    return os.path.exists(path) and has_record(path, TAKEN)


def replay(folders, way, every_ticket=True):
    """verify --replay must come to the result, and with servers find each ticket once in each range. Returns how many
    tickets it found, 0 with gossip."""
    try:
        done = subprocess.run([chaos.MESHNODE, "verify", "--replay", *folders], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=REPLAY_S)
    except subprocess.TimeoutExpired:
        raise chaos.Failed(f"replay: no result within {REPLAY_S} s") from None
    if done.returncode != 0 or ", as in every result" not in done.stdout:
        raise chaos.Failed(f"replay: status {done.returncode}: {done.stdout.strip()}")
    tickets = re.search(r"^replay: (\d+) tickets, each once in each of \d+ ranges$", done.stdout, re.M)
    if serves(way) and every_ticket and not tickets:
        raise chaos.Failed(f"not every ticket is in the model once: {done.stdout.strip()}")
    return int(tickets.group(1)) if tickets else 0


def one_model(nodes):
    """All these nodes have ended with one model and one state, and none of them trained alone. Returns its SHA-256."""
    results = [(node.name, node.result()) for node in nodes]
    hashes = {(result["params_sha256"], result["state_sha256"]) for _, result in results}
    alone = [name for name, result in results if result["alone"]]
    if len(hashes) != 1 or alone:
        raise chaos.Failed(f"{len(hashes)} models{', trained alone: ' if alone else ''}{' '.join(alone)}: "
                           f"{[(name, result['params_sha256'][:16]) for name, result in results]}")
    return hashes.pop()[0]


def said(nodes, pattern):
    """The first line that matches in the logs of these nodes, or None."""
    for node in nodes:
        found = re.search(f"^.*(?:{pattern}).*$", node.text(), re.M)
        if found:
            return f"{node.name}: {found.group(0)}"
    return None

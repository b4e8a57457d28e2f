"""ways.py - the ways to train whose result depends on the timing of the nodes, for the tools that harm them, and what must
hold at the end of a run: all have one model, and the journals give it again."""
import re
import subprocess

import mesh as chaos

GOSSIP = ["--set", "mesh.topology=gossip", "--set"]
WAYS = {
    "gossip-bsp": [*GOSSIP, "gossip.graph=ring"],
    "gossip-async": [*GOSSIP, "mesh.sync=async", "--set", "gossip.graph=random"],
    "gossip-topk": [*GOSSIP, "gossip.graph=ring", "--set", "mesh.compress=topk"],
    "gossip-async-topk": [*GOSSIP, "mesh.sync=async", "--set", "gossip.graph=one-peer", "--set", "mesh.compress=topk"],
    "push-sum": [*GOSSIP, "gossip.graph=one-peer", "--set", "gossip.method=push_sum"],
}
REPLAY_S = 600  # all nodes' work, done again by one


def replay(folders):
    """verify --replay must come to the result."""
    try:
        done = subprocess.run([chaos.MESHNODE, "verify", "--replay", *folders], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=REPLAY_S)
    except subprocess.TimeoutExpired:
        raise chaos.Failed(f"replay: no result within {REPLAY_S} s") from None
    if done.returncode != 0 or ", as in every result" not in done.stdout:
        raise chaos.Failed(f"replay: status {done.returncode}: {done.stdout.strip()}")


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

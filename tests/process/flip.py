#!/usr/bin/env python3
"""flip.py MESHNODE SEED BITS DIR OTHER ... -- changes one thing at a time in each file of DIR, the results folder of a node: every field of
a JSON text, every field of some lines, the metadata of the model, and single bits. `meshnode verify` of DIR and the other folders of the
run must notice each. Prints for each file how many it noticed of how many, and what it did not. Status 1: it did not notice all.

What no other file says, verify cannot know; UNKNOWN has these fields. With --replay, verify --replay is asked."""
import copy
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

UNKNOWN = {  # of each file: what a node alone measured
    "result.json": "node wall_s alone peers_max unmet plans aborts damages audits expelled tx_bytes rx_bytes warnings".split(),
    "metrics.jsonl": """time_s samples_per_s compute_s wait_s tx_bytes rx_bytes served_bytes wire_ratio residual_norm round_s busy_s
        sent_bytes idle idle_formula nodes distance alarm replayed_steps plan""".split(),
    "pieces.jsonl": ["node", "name", "begin_us", "end_us", "time"],
    "job.json": [],
}
NO_PROOF = "identity", "peers"  # of the folder, for its next start: they say nothing of the run
UNKNOWN_FREE = "peers shards state_hash test_loss test_accuracy test_of test_step".split()  # where each node trains as it can: of a line


def known(value, unknown, pieces=False):
    """Without what is unknown; of a piece of pieces.jsonl its times."""
    if isinstance(value, dict) and value.get("samples") == 0:
        return {"samples": 0}  # a line of an evaluation alone: it proves no step, and verify takes nothing from it
    if isinstance(value, dict):
        return {key: known(inner, unknown, key == "pieces") for key, inner in value.items() if key not in unknown}
    if isinstance(value, list):
        return [piece[:3] if pieces and isinstance(piece, list) else known(piece, unknown) for piece in value]
    return value


def other(value):
    """Another one of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 1.0001 + 1e-6
    if isinstance(value, str):
        return value[:-1] + ("0" if value[-1:] != "0" else "1")
    return 0.5


def fields(value, path=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if isinstance(inner, (dict, list)) and inner:
            yield from fields(inner, path + (key,))
        else:
            yield path + (key,)


def changed(value, path):
    value = copy.deepcopy(value)
    at = value
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = other(at[path[-1]])
    return value


def object_changes(text, unknown, rng, most=None):
    """Of one JSON object: (name, text)."""
    value = json.loads(text)
    paths = [path for path in fields(value) if known(changed(value, path), unknown) != known(value, unknown)]
    for path in paths if most is None or len(paths) <= most else rng.sample(paths, most):
        yield ".".join(map(str, path)), json.dumps(changed(value, path)).encode()


def parse(data, lines):
    parts = data.split(b"\n") if lines else [data]
    return [json.loads(part) for part in parts if part]


def bit_changes(data, rng, bits, same):
    done = 0
    while done < bits:
        at, bit = rng.randrange(len(data)), 1 << rng.randrange(8)
        flipped = data[:at] + bytes([data[at] ^ bit]) + data[at + 1:]
        if not same(flipped):
            done += 1
            yield f"bit {bit} of byte {at}", flipped


def text_same(data, unknown, lines):
    """Does it say the same, but for what is unknown?"""
    before = known(parse(data, lines), unknown)

    def same(flipped):
        try:
            return known(parse(flipped, lines), unknown) == before
        except ValueError:
            return False
    return same


def metadata_changes(data):
    size = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + size])
    for key in head["__metadata__"]:
        if key in ("config", "run"):
            continue
        new = copy.deepcopy(head)
        new["__metadata__"][key] = other_text(new["__metadata__"][key])
        text = json.dumps(new).encode()
        text += b" " * (-len(text) % 8)
        yield "metadata " + key, struct.pack("<Q", len(text)) + text + data[8 + size:]


def other_text(text):
    try:
        return repr(other(json.loads(text))) if not text.startswith("[") else json.dumps(changed(json.loads(text), (0,)))
    except (ValueError, TypeError, IndexError):
        return other(text)


def steps_of(folder):
    try:
        with open(os.path.join(folder, "metrics.jsonl"), "rb") as file:
            return {(line["step"], line.get("plan")) for line in map(json.loads, file)}
    except FileNotFoundError:
        return set()


def chosen(name, parts, others, free):
    """Lines of a file whose fields are changed: in rounds those of steps of which another node says the same."""
    known_there = set().union(*map(steps_of, others)) if others and not free else None
    places = []
    for i, part in enumerate(parts):
        line = json.loads(part)
        if line.get("samples") != 0 and (not known_there or (line["step"], line.get("plan")) in known_there):
            places.append(i)
    if not places:
        sys.exit(f"{name}: the nodes have no step in common")
    return sorted({places[0], places[len(places) // 2], places[-1]})


def changes(name, data, rng, bits, others, free):
    unknown = UNKNOWN.get(name, []) + (UNKNOWN_FREE if free and name == "metrics.jsonl" else [])
    unknown += ["train_loss"] if free and name == "result.json" else []
    lines = name.endswith(".jsonl")
    if name.endswith(".json"):
        yield from object_changes(data, unknown, rng)
    if lines:
        parts = data.splitlines()
        for i in chosen(name, parts, others, free):
            for field, text in object_changes(parts[i], unknown, rng, 16):
                yield f"line {i + 1} {field}", b"\n".join(parts[:i] + [text] + parts[i + 1:]) + b"\n"
    if free and lines:
        yield "half of it", b"\n".join(parts[:len(parts) // 2]) + b"\n"
    if name == "model.safetensors":
        yield from metadata_changes(data)
    yield from bit_changes(data, rng, bits, text_same(data, unknown, lines) if ".json" in name else lambda flipped: False)
    if name != "pieces.jsonl":  # its end may be missing, by steps: it is a sample of them
        yield "the second half is missing", data[:len(data) // 2 - 1]


def main():
    args = [arg for arg in sys.argv[1:] if arg != "--replay"]
    program, rng, bits, folder, others = args[0], random.Random(int(args[1])), int(args[2]), args[3], args[4:]
    free = "--replay" in sys.argv
    command = [program, "verify"] + (["--replay"] if free else [])
    good = True
    with tempfile.TemporaryDirectory() as work:
        copied = os.path.join(work, "x")
        shutil.copytree(folder, copied)

        def verify():
            done = subprocess.run(command + [copied] + others, capture_output=True, timeout=120, check=False)
            if done.returncode < 0:
                sys.exit(f"meshnode verify died: {done.stderr}")
            return done.returncode
        if verify() != 0:
            sys.exit(f"{folder}: not proved as it is")
        for name in sorted(set(os.listdir(folder)) - set(NO_PROOF)):
            path = os.path.join(copied, name)
            with open(path, "rb") as file:
                data = file.read()
            count, missed = 0, []
            for what, text in changes(name, data, rng, bits, others, free):
                with open(path, "wb") as file:
                    file.write(text)
                count += 1
                if verify() == 0:
                    missed.append(what)
            with open(path, "wb") as file:
                file.write(data)
            print(f"{os.path.basename(os.path.dirname(folder))} {name}: {count - len(missed)} of {count} noticed"
                  + (f"; not: {', '.join(missed)}" if missed else ""), flush=True)
            good = good and not missed
    sys.exit(not good)


main()

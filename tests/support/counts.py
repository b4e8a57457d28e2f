#!/usr/bin/python3
"""counts.py MODEL EPOCHS [SAMPLES]: does every weight of a counting model (nn/data/data_counting.c) say EPOCHS, and
every bias EPOCHS * SAMPLES? SAMPLES is 960 unless given, and must be the number of the model's inputs. Prints
which samples were used how often if not, and ends with 1."""
import array
import json
import sys


def tensors(path):
    """Name to (shape, floats) of a safetensors file."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        body = file.read()
    found = {}
    for name, about in header.items():
        if name != "__metadata__":
            first, end = about["data_offsets"]
            values = array.array("f")
            values.frombytes(body[first:end])
            found[name] = (about["shape"], values)
    return found


def main():
    path, epochs = sys.argv[1], int(sys.argv[2])
    samples = int(sys.argv[3]) if len(sys.argv) > 3 else 960
    model = tensors(path)
    (units, inputs), weight = model["0.dense.weight"]
    bias = model["0.dense.bias"][1]
    if inputs != samples or len(weight) != units * samples or len(bias) != units:
        sys.exit(f"{path}: {units} x {inputs} weights, expected {samples} inputs")
    wrong = [(i, w) for i, w in enumerate(weight) if w != epochs]
    for i, w in wrong[:10]:
        print(f"{path}: output {i // samples}, sample {i % samples}: used {w:g} times, expected {epochs}")
    for i, b in enumerate(bias):
        if b != epochs * samples:
            print(f"{path}: output {i}: {b:g} samples in all, expected {epochs * samples}")
            wrong.append((i, b))
    if wrong:
        sys.exit(f"{path}: {len(wrong)} wrong counts")
    print(f"{path}: {len(weight)} weights, every sample used {epochs} times")


main()

#!/usr/bin/env python3
"""anew.py DIR: the arithmetic written anew from the words of the headers, for the smallest network that shows it.

Writes a job and its data into DIR, and prints the SHA-256 of the weights that this job must come to: one dense layer that
learns to give its input back. nn/data.h has the order of the samples, node/train/ledger.h who gets which, nn/nn.h the
gradient of the loss, nn/arithmetic/product.h the products, compress/exact.h the integers and their exponents, nn/optim.h
the update, and node/train/model_file.h what the hash is over."""
import hashlib
import struct
import sys
from fractions import Fraction

from shuffled import mix64, shuffle

ROWS, WIDTH, BATCH, SHARDS, EPOCHS, SEED, RATE = 50, 5, 33, 3, 3, 11, 6.1


def f32(x):
    """A double or a fraction, rounded once to float: to nearest, ties to even."""
    if isinstance(x, float):
        return struct.unpack('<f', struct.pack('<f', x))[0]
    if x == 0:
        return 0.0
    exponent = 0
    while abs(x) * Fraction(2) ** exponent < 1 << 23:
        exponent += 1
    while abs(x) * Fraction(2) ** exponent >= 1 << 24:
        exponent -= 1
    return float(round(x * Fraction(2) ** exponent) / Fraction(2) ** exponent)  # round() is to even


def fma(a, b, c):
    return f32(Fraction(a) * Fraction(b) + Fraction(c))


def chain(left, right):
    total = 0.0
    for a, b in zip(left, right):
        total = fma(a, b, total)
    return total


class Exact:
    """One block."""
    bits = 31 - (SHARDS - 1).bit_length()

    def __init__(self):
        self.exponent, self.settled = 4, False

    def quantise(self, g):
        q = round(f32(g * 2.0 ** (self.bits - self.exponent)))
        assert abs(q) < 1 << self.bits, 'overflow: choose another job'
        return q

    def read(self, total):
        return [f32(f32(float(q)) * 2.0 ** (self.exponent - self.bits)) for q in total]

    def follow(self, total):
        largest = max(abs(q) for q in total)
        if largest:
            wanted = largest.bit_length() - self.bits + self.exponent + 4
            self.exponent = max(wanted, self.exponent - 1) if self.settled else wanted
        self.settled = True


def shard_gradient(w, samples, step_rows):
    factor = f32(f32(2 * f32(1 / step_rows)) / WIDTH)
    dz = [[f32(f32(chain(w[o], x) - x[o]) * factor) for o in range(WIDTH)] for x in samples]
    return [chain([d[o] for d in dz], [x[i] for x in samples]) for o in range(WIDTH) for i in range(WIDTH)]


def train(data):
    exact, w = Exact(), [[0.0] * WIDTH for _ in range(WIDTH)]
    for epoch in range(EPOCHS):
        for first in range(0, ROWS, BATCH):
            n = min(BATCH, ROWS - first)
            rows = [data[shuffle(SEED, epoch, first + i, ROWS)] for i in range(n)]
            total = [0] * WIDTH * WIDTH
            for s in range(SHARDS):
                gradient = shard_gradient(w, rows[n * s // SHARDS:n * (s + 1) // SHARDS], n)
                total = [t + exact.quantise(g) for t, g in zip(total, gradient)]
            for at, g in enumerate(exact.read(total)):
                o, i = divmod(at, WIDTH)
                w[o][i] = f32(w[o][i] - f32(f32(RATE) * g))
            exact.follow(total)
    return hashlib.sha256(b''.join(struct.pack('<5f', *row) for row in w)).hexdigest()


def write_npy(path, descr, shape, body):
    text = "{'descr': '%s', 'fortran_order': False, 'shape': %s}" % (descr, shape)
    text += ' ' * (118 - len(text) - 1) + '\n'
    with open(path, 'wb') as file:
        file.write(b'\x93NUMPY\x01\0' + struct.pack('<H', len(text)) + text.encode() + body)


def main(folder):
    data = [[f32((mix64(r * WIDTH + i) >> 40) / 2.0 ** 23 - 1) for i in range(WIDTH)] for r in range(ROWS)]
    body = b''.join(struct.pack('<5f', *row) for row in data)
    write_npy(folder + '/x.npy', '<f4', (ROWS, WIDTH), body)
    write_npy(folder + '/y.npy', '|u1', (ROWS,), bytes(i % 2 for i in range(ROWS)))
    with open(folder + '/job.yaml', 'w') as file:
        file.write(f'''run: {{name: anew, seed: {SEED}}}
data: {{source: npy, train_images: x.npy, train_labels: y.npy, test_images: x.npy, test_labels: y.npy, target: input}}
model: [dense: {{units: {WIDTH}, bias: no, init: zero}}]
train: {{loss: squared_error, epochs: {EPOCHS}, batch: {BATCH}, shards: {SHARDS}, optimizer: {{sgd: {RATE}}}}}
''')
    print(train(data))


main(sys.argv[1])

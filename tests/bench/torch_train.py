#!/usr/bin/python3
"""Training speed of PyTorch on one process: the models that we train, on data already in memory.

    torch_train.py mlp|cnn [--batch 256] [--threads 1] [--seconds 3]

Prints  TR,torch,MODEL,BATCH,THREADS,STEPS,SAMPLES_PER_S,KERNEL  where the rate is the median over blocks
of steps and KERNEL the kernel that OpenBLAS chose (or "?", should PyTorch use another library)."""
import argparse
import ctypes
import os
import statistics
import time


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=["mlp", "cnn"])
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3)
    return parser.parse_args()


OPTIONS = arguments()
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # read when the libraries load
    os.environ[variable] = str(OPTIONS.threads)

import torch  # noqa: E402
from torch import nn  # noqa: E402


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(),
                         nn.Linear(256, 10))


def cnn():
    return nn.Sequential(nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 10))


def kernel():
    for line in open("/proc/self/maps"):
        path = line.split()[-1]
        if "openblas" in path:
            name = ctypes.CDLL(path).openblas_get_corename
            name.restype = ctypes.c_char_p
            return name().decode()
    return "?"


def main():
    torch.set_num_threads(OPTIONS.threads)
    torch.manual_seed(1)
    net = {"mlp": mlp, "cnn": cnn}[OPTIONS.model]()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    batches = [(torch.randn(OPTIONS.batch, 1, 28, 28), torch.randint(10, (OPTIONS.batch,)))
               for _ in range(16)]

    def step(number):
        images, labels = batches[number % len(batches)]
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(images), labels).backward()
        optimizer.step()

    for number in range(10):
        step(number)
    rates, done, block = [], 0, 1
    end = time.perf_counter() + OPTIONS.seconds
    while time.perf_counter() < end or len(rates) < 3:
        start = time.perf_counter()
        for number in range(block):
            step(done + number)
        took = time.perf_counter() - start
        done += block
        if took < 0.1 and not rates:
            block *= 2  # blocks of a tenth of a second
        else:
            rates.append(block * OPTIONS.batch / took)
    print("TR,torch,%s,%d,%d,%d,%.1f,%s" % (OPTIONS.model, OPTIONS.batch, OPTIONS.threads, done,
                                           statistics.median(rates), kernel()))


main()

#!/usr/bin/python3
"""Training speed of PyTorch on one process: the model, batch and optimiser of a job of ours, on data already in memory.

    torch_train.py JOB.yaml [--input 1,28,28] [--classes 10] [--tokens] [--threads 1] [--seconds 3] [--cpu]

Samples have the shape --input, with --tokens they are whole numbers below --classes, as many labels, too. --cpu counts processor
time instead of time, for a machine that others use. Prints
TR,torch,JOB,BATCH,THREADS,STEPS,SAMPLES_PER_S,KERNEL  where JOB is the job's name, the rate is the median over blocks
of steps and KERNEL the kernel that OpenBLAS chose (or "?", should PyTorch use another library)."""
import argparse
import ctypes
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))

import torch_threads  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("job")
    parser.add_argument("--input", default="1,28,28")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--tokens", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--cpu", action="store_true")
    return parser.parse_args()


OPTIONS = arguments()
torch_threads.set_threads(OPTIONS.threads)

import torch  # noqa: E402
from torch import nn  # noqa: E402

import torch_model  # noqa: E402


def kernel():
    for line in open("/proc/self/maps"):
        path = line.split()[-1]
        if "openblas" in path:
            name = ctypes.CDLL(path).openblas_get_corename
            name.restype = ctypes.c_char_p
            return name().decode()
    return "?"


def draw(shape, batch):
    if OPTIONS.tokens:
        x = torch.randint(OPTIONS.classes, (batch, *shape))
        return x, torch.randint(OPTIONS.classes, x.shape)
    return torch.randn(batch, *shape), torch.randint(OPTIONS.classes, (batch,))


def main():
    clock = time.process_time if OPTIONS.cpu else time.perf_counter
    torch.set_num_threads(OPTIONS.threads)
    torch.manual_seed(1)
    job = torch_model.read_job(OPTIONS.job)
    shape, batch = tuple(int(n) for n in OPTIONS.input.split(",")), job["train"]["batch"]
    net = torch_model.build(job["model"], shape)
    _, optimizer = torch_model.optimizer_of(job["train"], net.parameters())
    batches = [draw(shape, batch) for _ in range(16)]

    def step(number):
        x, labels = batches[number % len(batches)]
        optimizer.zero_grad()
        outputs = net(x)
        nn.functional.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), labels.reshape(-1)).backward()
        optimizer.step()

    start = clock()
    for number in range(10):
        step(number)
        if clock() - start > OPTIONS.seconds:
            break
    rates, done, block = [], 0, 1
    end = clock() + OPTIONS.seconds
    while clock() < end or len(rates) < 3:
        start = clock()
        for number in range(block):
            step(done + number)
        took = clock() - start
        done += block
        if took < 0.1 and not rates:
            block *= 2  # blocks of a tenth of a second
        else:
            rates.append(block * batch / took)
    print("TR,torch,%s,%d,%d,%d,%.1f,%s" % (job["run"]["name"], batch, OPTIONS.threads, done,
                                           statistics.median(rates), kernel()))


main()

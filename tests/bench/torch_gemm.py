#!/usr/bin/env python3
"""The products of bench_gemm.c in PyTorch: torch_gemm.py KIND:M:N:K ...; the same lines."""
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))

import torch_threads  # noqa: E402

torch_threads.set_threads(1)

import torch  # noqa: E402

import torch_kernels  # noqa: E402

BUDGET_S, TRIES_MIN, TRIES_MAX, REPEAT_FLOPS = 0.15, 5, 2000, 2e7  # a time is that of a fifth of a millisecond or more


def measure(shape):
    kind, m, n, k = (int(x) if x.isdigit() else x for x in shape.split(":"))
    a = torch.randn(k, m).t() if kind[0] == "t" else torch.randn(m, k)
    b = torch.randn(n, k).t() if kind[1] == "t" else torch.randn(k, n)
    out = torch.empty(m, n)
    flops, times = 2 * m * n * k, []
    repeat = int(REPEAT_FLOPS / flops) + 1
    torch.mm(a, b, out=out)
    end = time.thread_time() + BUDGET_S
    while len(times) < TRIES_MIN or (len(times) < TRIES_MAX and time.thread_time() < end):
        start = time.thread_time_ns()
        for _ in range(repeat):
            torch.mm(a, b, out=out)
        times.append((time.thread_time_ns() - start) / repeat)
    print("GEMM,%s,%.2f,%.2f" % (shape, flops / min(times), flops / statistics.median(times)))


torch.set_num_threads(1)
torch.manual_seed(1)
print("KERNEL,%s" % torch_kernels.name())
with torch.no_grad():
    for argument in sys.argv[1:]:
        measure(argument)

#!/usr/bin/env python3
"""Training speed of PyTorch's torch.distributed.pipelining over Gloo: one of its processes.

    torch_pipeline.py JOB.yaml --ranks 2 --rank 0 --port 20000 --steps 100 [--schedule 1f1b] [--virtual 1] [--micro M]
                      [--input 1,28,28] [--classes 10] [--tokens] [--host 127.0.0.1] [--threads 1]

Model, batch, optimizer and clip_norm are those of a job of ours, and so are micro-batches (`train.shards`) unless --micro says
how many; data is already in memory. As a careful user writes it: channels_last within a stage, scaled_dot_product_attention, a fused optimizer, and cuts that make the slowest stage fastest, by the time of
each layer here. Each process has --virtual stages: 1f1b and zb with 1 (ZB-H1) or 2 (interleaved) by PyTorch's Schedule1F1B and
ScheduleInterleavedZeroBubble, zbv by ScheduleZBVZeroBubble with 2. Prints what torch_train.py prints, and the cuts."""
import argparse
import json
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
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--host", default="127.0.0.1", help="of rank 0")
    parser.add_argument("--port", type=int, default=20000)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--schedule", choices=("1f1b", "zb", "zbv"), default="1f1b")
    parser.add_argument("--virtual", type=int, default=1)
    parser.add_argument("--micro", type=int, default=0)
    return parser.parse_args()


OPTIONS = arguments()
torch_threads.set_threads(OPTIONS.threads)

import torch  # noqa: E402
from torch import distributed, nn  # noqa: E402
from torch.distributed.pipelining import PipelineStage, schedules  # noqa: E402

import torch_kernels  # noqa: E402
import torch_model  # noqa: E402
from torch_tuned import draw, fused, tuned  # noqa: E402

TIMES = 5


class Dense(torch.autograd.Function):
    """A copy of an image, forward in one order of its bytes; its gradient in the usual one, the only one that Gloo sends."""

    @staticmethod
    def forward(_, x, memory_format):
        return x.contiguous(memory_format=memory_format)

    @staticmethod
    def backward(_, gradient):
        return gradient.contiguous(), None


class Stage(nn.Sequential):
    """Takes and hands over tensors in the usual order; images are in channels_last within."""

    def forward(self, x):
        y = super().forward(Dense.apply(x, torch.channels_last) if x.dim() == 4 else x)
        return Dense.apply(y, torch.contiguous_format) if y.dim() == 4 else y


def loss_of(outputs, labels):
    return nn.functional.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), labels.reshape(-1))


def layer_seconds(layers, x):
    """Least time of each layer, forward and back."""
    least = []
    for layer in layers:
        x = x.detach().requires_grad_(x.is_floating_point())
        took = []
        for _ in range(TIMES):
            start = time.perf_counter()
            y = layer(x)
            if y.requires_grad:
                y.backward(torch.ones_like(y))
            took.append(time.perf_counter() - start)
        least.append(min(took))
        layer.zero_grad(set_to_none=True)
        x = y
    return least


def best_cuts(seconds, stages):
    """First layers of the stages, and the number of layers: the slowest stage is as fast as can be."""
    count = len(seconds)
    best = {(0, 0): (0.0, [])}
    for s in range(1, stages + 1):
        for end in range(s, count - (stages - s) + 1):
            best[s, end] = min((max(best[s - 1, at][0], sum(seconds[at:end])), best[s - 1, at][1] + [at])
                               for at in range(s - 1, end) if (s - 1, at) in best)
    return best[stages, count][1] + [count]


def agreed_cuts(layers, x, stages):
    """Those that rank 0 has found."""
    cuts = [best_cuts(layer_seconds(layers, x), stages) if OPTIONS.rank == 0 else None]
    distributed.broadcast_object_list(cuts)
    return cuts[0]


def own_stages():
    """Their numbers; with zbv the model goes down the ranks and back up."""
    ranks, rank = OPTIONS.ranks, OPTIONS.rank
    if OPTIONS.schedule == "zbv":
        return [rank, 2 * ranks - 1 - rank]
    return [rank + v * ranks for v in range(OPTIONS.virtual)]


def schedule_of(stages, micro_batches):
    if OPTIONS.schedule == "1f1b":
        return schedules.Schedule1F1B(stages[0], micro_batches, loss_of)
    kind = schedules.ScheduleZBVZeroBubble if OPTIONS.schedule == "zbv" else schedules.ScheduleInterleavedZeroBubble
    return kind(stages, micro_batches, loss_of)


def clip(parameters, most):
    """By the norm of the whole gradient."""
    gradients = [p.grad for p in parameters]
    square = torch.stack(torch._foreach_norm(gradients)).square().sum()
    distributed.all_reduce(square)
    torch._foreach_mul_(gradients, (most / (square.sqrt() + 1e-6)).clamp(max=1.0))


def rates(step, batch):
    """Samples per second, and per second of processor time, in blocks of steps after a first fifth."""
    warm = OPTIONS.steps // 5
    for _ in range(warm):
        step()
    block = max(1, (OPTIONS.steps - warm) // 12)
    for _ in range(12):
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(block):
            step()
        yield block * batch / (time.perf_counter() - wall), block * batch / (time.process_time() - cpu)


def main():
    torch.set_num_threads(OPTIONS.threads)
    torch.manual_seed(1)
    distributed.init_process_group("gloo", init_method="tcp://%s:%d" % (OPTIONS.host, OPTIONS.port), rank=OPTIONS.rank,
                                   world_size=OPTIONS.ranks)
    job = torch_model.read_job(OPTIONS.job)
    train, shape = job["train"], tuple(int(n) for n in OPTIONS.input.split(","))
    micro = OPTIONS.micro or train["shards"]
    layers = list(tuned(torch_model.build(job["model"], shape)))
    batches = [draw(shape, train["batch"], OPTIONS.classes, OPTIONS.tokens) for _ in range(16)]
    mine = own_stages()
    count = OPTIONS.ranks * len(mine)
    cuts = agreed_cuts(layers, batches[0][0][:train["batch"] // micro], count)
    modules = [Stage(*layers[cuts[s]:cuts[s + 1]]) for s in mine]
    stages = [PipelineStage(module, s, count, torch.device("cpu")) for s, module in zip(mine, modules)]
    schedule = schedule_of(stages, micro)
    parameters = [p for module in modules for p in module.parameters()]
    optimizer = fused(torch_model.optimizer_of(train, parameters)[1]) if parameters else None
    done = 0

    def step():
        nonlocal done
        x, labels = batches[done % len(batches)]
        done += 1
        if optimizer:
            optimizer.zero_grad()
        schedule.step(*([x] if 0 in mine else []), return_outputs=False,
                      **({"target": labels} if count - 1 in mine else {}))
        if "clip_norm" in train:
            clip(parameters, train["clip_norm"])
        if optimizer:
            optimizer.step()

    rate, cpu_rate = (statistics.median(found) for found in zip(*rates(step, train["batch"])))
    print("TR " + json.dumps({"rate": rate, "cpu_rate": cpu_rate, "steps": done, "cuts": cuts, "kernels": torch_kernels.name()}),
          flush=True)
    distributed.destroy_process_group()


main()

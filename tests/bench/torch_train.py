#!/usr/bin/env python3
"""Training speed of PyTorch: the model, batch and optimizer of a job of ours, on data already in memory.

    torch_train.py JOB.yaml [--input 1,28,28] [--classes 10] [--tokens] [--threads 1] [--seconds 3]
                 [--tuned | --compile | --autocast]
    torch_train.py JOB.yaml ... --ranks 2 --rank 0 --port 20000 --steps 100     one process of DDP over Gloo
    ... --ranks 2 --rank 0 --steps 100 --hivemind FILE [--own-host 10.0.0.1]    or of hivemind; ranks meet in FILE

Samples have the shape --input, with --tokens they are whole numbers below --classes, as many labels, too. --tuned: as a
careful user writes it, with images in channels_last, scaled_dot_product_attention and a fused optimizer. --compile: tuned, with
torch.compile; --autocast: tuned, with forward and loss in bfloat16 where PyTorch's autocast takes it. With --ranks each process
trains its share of the batch, --steps in all, tuned. Prints

    TR {"rate": samples per second, "cpu_rate": per second of processor time, "peak_mb", "steps", "kernels"}

where the rates are medians over blocks of steps after a first fifth, or TR {"cannot": "why"}."""
import argparse
import json
import os
import resource
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
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--autocast", action="store_true")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--port", type=int, default=20000)
    parser.add_argument("--host", default="127.0.0.1", help="of rank 0")
    parser.add_argument("--own-host", default="127.0.0.1")
    parser.add_argument("--hivemind", default="")
    parser.add_argument("--hook", default="none", help="of DDP: none, fp16, powersgd1, powersgd4 (its rank)")
    parser.add_argument("--steps", type=int, default=0)
    return parser.parse_args()


OPTIONS = arguments()
torch_threads.set_threads(OPTIONS.threads)

import torch  # noqa: E402
from torch import nn  # noqa: E402

import torch_kernels  # noqa: E402
import torch_model  # noqa: E402
from torch_tuned import draw, fused, tuned  # noqa: E402


class Cannot(Exception):
    pass


def tell(**what):
    print("TR " + json.dumps(what), flush=True)


def compiled(net):
    if not hasattr(torch, "compile"):
        raise Cannot("PyTorch %s has no torch.compile" % torch.__version__)
    if os.environ.get("ATEN_CPU_CAPABILITY") == "avx2":
        import torch._inductor.config as inductor
        inductor.cpp.simdlen = 256
    return torch.compile(net)


def distributed(net):
    import torch.distributed
    torch.distributed.init_process_group("gloo", init_method="tcp://%s:%d" % (OPTIONS.host, OPTIONS.port),
                                         rank=OPTIONS.rank, world_size=OPTIONS.ranks)
    return hooked(nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True))


def hooked(net):
    """With the communication hook that was asked for."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
    if OPTIONS.hook == "fp16":
        net.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif OPTIONS.hook.startswith("powersgd"):
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=int(OPTIONS.hook[len("powersgd"):]),
                                            start_powerSGD_iter=4)
        net.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return net


def blocks_by_time(step):
    """Yields (steps, seconds, processor seconds) of blocks of a tenth of a second or more, for --seconds."""
    end, block, count = time.perf_counter() + OPTIONS.seconds, 1, 0
    while time.perf_counter() < end or count < 3:
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(block):
            step()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if wall < 0.1 and count == 0:
            block *= 2
        else:
            count += 1
            yield block, wall, cpu


def blocks_by_steps(step):
    """The same for --steps in all, of which the first fifth warms up: as many on every rank."""
    for _ in range(OPTIONS.steps // 5):
        step()
    block = max(1, (OPTIONS.steps - OPTIONS.steps // 5) // 12)
    for _ in range(12):
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(block):
            step()
        yield block, time.perf_counter() - wall, time.process_time() - cpu


def main():
    torch.set_num_threads(OPTIONS.threads)
    torch.manual_seed(1)
    job = torch_model.read_job(OPTIONS.job)
    shape, batch = tuple(int(n) for n in OPTIONS.input.split(",")), job["train"]["batch"] // OPTIONS.ranks
    net, careful = torch_model.build(job["model"], shape), OPTIONS.ranks > 1 or any(
        (OPTIONS.tuned, OPTIONS.compile, OPTIONS.autocast))
    if careful:
        net = tuned(net)
    averager = None
    if OPTIONS.hivemind:
        import torch_hivemind
        averager = torch_hivemind.Averager(net, OPTIONS.rank, OPTIONS.ranks, OPTIONS.own_host, OPTIONS.hivemind)
    elif OPTIONS.ranks > 1:
        net = distributed(net)
    if OPTIONS.compile:
        net = compiled(net)
    _, optimizer = torch_model.optimizer_of(job["train"], net.parameters())
    optimizer = fused(optimizer) if careful else optimizer
    batches = [draw(shape, batch, OPTIONS.classes, OPTIONS.tokens) for _ in range(16)]
    if careful and len(shape) == 3:
        batches = [(x.contiguous(memory_format=torch.channels_last), labels) for x, labels in batches]
    done = 0

    def step():
        nonlocal done
        x, labels = batches[done % len(batches)]
        done += 1
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=OPTIONS.autocast):
            outputs = net(x)
            loss = nn.functional.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), labels.reshape(-1))
        loss.backward()
        optimizer.step()
        if averager:
            averager.step()

    try:
        step()
    except Exception as error:  # whatever the compiler of the day lacks here
        if OPTIONS.compile or OPTIONS.autocast:
            raise Cannot("%s: %s" % ("torch.compile" if OPTIONS.compile else "autocast",
                                     (str(error).splitlines() or ["?"])[0])) from error
        raise
    start = time.perf_counter()
    while OPTIONS.ranks == 1 and done < 10 and time.perf_counter() - start < OPTIONS.seconds:
        step()
    blocks = list(blocks_by_steps(step) if OPTIONS.ranks > 1 else blocks_by_time(step))
    if averager and averager.whole < averager.steps:
        raise Cannot("hivemind averaged all %d ranks in %d of %d steps: %s" % (
            OPTIONS.ranks, averager.whole, averager.steps, averager.why))
    tell(rate=statistics.median(n * batch / wall for n, wall, _ in blocks),
         cpu_rate=statistics.median(n * batch / cpu for n, _, cpu in blocks), steps=done,
         peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, kernels=torch_kernels.name())
    if averager:
        averager.shutdown()


try:
    main()
except Cannot as why:
    tell(cannot=str(why))

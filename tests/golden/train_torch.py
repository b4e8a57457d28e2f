#!/usr/bin/python3
"""Train a job of ours with PyTorch: same model, data, windows, batches, optimizer and schedule; its own kernels.

    train_torch.py JOB.yaml [--data FOLDER] [--set KEY=VALUE]... [--seed 1] [--from MODEL.safetensors]
                   [--out MODEL.safetensors] [--threads 1] [--quiet]

Prints a line per evaluation,  TORCH epoch 2 step 400 train 1.91 test 1.87 accuracy 0.44 seconds 61.2  and at the end
the same with `done`. `train` is the mean loss of the steps since the line before. Batches are those that we make: each
epoch is a new order of all samples, the last batch may be short, a row's loss is the mean over its positions and the
step's loss that over its rows. Initial weights are drawn from the distributions that we draw from (--from: these).

Data: text, cifar10, cifar100, npy with four files. What it does not know it refuses."""
import argparse
import math
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import torch_threads  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("job")
    parser.add_argument("--data", default=None)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from", dest="start", default=None)
    parser.add_argument("--out", default=None)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quiet", action="store_true")
    return parser.parse_args()


OPTIONS = arguments()
torch_threads.set_threads(OPTIONS.threads)

import numpy  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

import torch_model  # noqa: E402


# ---- data: (x, labels) of both parts ----

def tensor_of(array):
    """As torch.from_numpy, which fails where NumPy is newer than the one that PyTorch was built with."""
    array = numpy.ascontiguousarray(array)
    kind = {"float32": torch.float32, "int64": torch.int64, "uint8": torch.uint8}[array.dtype.name]
    return torch.frombuffer(bytearray(array), dtype=kind).reshape(array.shape)


def text_part(part, context):
    count = (len(part) - 1) // context
    part = tensor_of(part.astype(numpy.int64))
    return (part[:count * context].reshape(count, context),
            part[1:count * context + 1].reshape(count, context))


def load_text(data, folder):
    raw = numpy.fromfile(os.path.join(folder, data["file"]), dtype=numpy.uint8)
    test = int(float(data.get("test_share", 0.2)) * len(raw) + 0.5)
    context = data.get("context", 128)
    return text_part(raw[:len(raw) - test], context), text_part(raw[len(raw) - test:], context)


def cifar_part(paths, label_bytes):
    raw = numpy.concatenate([numpy.fromfile(path, dtype=numpy.uint8) for path in paths])
    raw = raw.reshape(-1, label_bytes + 3072)
    return raw[:, label_bytes:].reshape(-1, 3, 32, 32), tensor_of(raw[:, label_bytes - 1].astype(numpy.int64))


def load_cifar(data, folder):
    """Scaled as in data_cifar.c."""
    fine = data["source"] == "cifar100"
    names = ["train.bin"] if fine else ["data_batch_%d.bin" % i for i in range(1, 6)]
    mean = (0.5071, 0.4865, 0.4409) if fine else (0.4914, 0.4822, 0.4465)
    deviation = (0.2673, 0.2564, 0.2762) if fine else (0.2470, 0.2435, 0.2616)
    inner = os.path.join(folder, "cifar-100-binary" if fine else "cifar-10-batches-bin")
    folder = inner if os.path.isdir(inner) else folder

    def part(files):
        x, labels = cifar_part([os.path.join(folder, name) for name in files], 2 if fine else 1)
        x = tensor_of(x.astype(numpy.float32)) / 255
        return (x - torch.tensor(mean)[:, None, None]) / torch.tensor(deviation)[:, None, None], labels
    return part(names), part(["test.bin" if fine else "test_batch.bin"])


def load_npy(data, folder):
    def part(images, labels):
        x = numpy.load(os.path.join(folder, data[images]))
        x = x.astype(numpy.float32) / 255 - 0.5 if x.dtype == numpy.uint8 else x.astype(numpy.float32)
        return tensor_of(x), tensor_of(
            numpy.load(os.path.join(folder, data[labels])).astype(numpy.int64))
    return part("train_images", "train_labels"), part("test_images", "test_labels")


DATA_KEYS = {"source", "dir", "file", "context", "test_share", "train", "test", "seed", "train_images", "train_labels",
             "test_images", "test_labels"}


def load_data(data, folder):
    if set(data) - DATA_KEYS:
        sys.exit("train_torch.py: data.%s is not known here" % min(set(data) - DATA_KEYS))
    loaders = {"text": load_text, "cifar10": load_cifar, "cifar100": load_cifar, "npy": load_npy}
    if data["source"] not in loaders:
        sys.exit("train_torch.py: data.source = %s, expected one of %s" % (data["source"], ", ".join(loaders)))
    parts = loaders[data["source"]](data, folder)
    wanted = data.get("train", 0), data.get("test", 0)
    return [(x[:n or None], y[:n or None]) for (x, y), n in zip(parts, wanted)]


# ---- model ----

def draw(layer, layers_after):
    """nn_init_params: He when the next activation is relu, else Glorot; zero biases; norms and recurrent layers keep what
    PyTorch draws, as we do."""
    if isinstance(layer, (torch_model.Tokens, torch_model.Positions)):
        nn.init.normal_(layer.weight, std=0.02)
    elif isinstance(layer, torch_model.Tied):
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    elif isinstance(layer, (nn.Linear, nn.Conv2d)):
        fan_in = layer.weight[0].numel()
        fan_out = layer.weight.numel() // layer.weight.shape[1]
        if relu_follows(layers_after):
            nn.init.normal_(layer.weight, std=math.sqrt(2 / fan_in))
        else:
            bound = math.sqrt(6 / (fan_in + fan_out))
            nn.init.uniform_(layer.weight, -bound, bound)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)


def relu_follows(layers):
    for layer in layers:
        if isinstance(layer, nn.ReLU):
            return True
        if isinstance(layer, (nn.Sigmoid, nn.Tanh)) or next(layer.parameters(), None) is not None:
            return False
    return False


def flat(layers):
    for layer in layers:
        if isinstance(layer, torch_model.Residual):
            yield from flat(layer)
        else:
            yield layer


def make_net(job, shape):
    net = torch_model.build(job["model"], shape)
    layers = list(flat(net))
    for i, layer in enumerate(layers):
        draw(layer, layers[i + 1:])
    if OPTIONS.start:
        torch_model.load(net, torch_model.read_tensors(OPTIONS.start))
    return net


# ---- training ----

def rate_of(train, rate, step, steps, epoch):
    """As nn/optim.c."""
    schedule, warmup, batch = train.get("schedule", "constant"), train.get("warmup", 0), train.get("batch", 384)
    word, options = next(iter(schedule.items())) if isinstance(schedule, dict) else (schedule, {})
    if train.get("rate_batch", 0):
        rate *= batch / train["rate_batch"]
    if word == "step":
        every = options.get("every", 1) if isinstance(options, dict) else options
        rate *= float(options.get("gamma", 0.1) if isinstance(options, dict) else 0.1) ** (epoch // every)
    elif word == "cosine" and step >= warmup:
        floor = float((options or {}).get("floor", 0)) if isinstance(options, dict) else float(options)
        rate *= floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))
    elif word == "inv_sqrt":
        rate *= 1 / math.sqrt(step + 1) if not warmup else math.sqrt(warmup / max(step, warmup))
    return rate * (step + 1) / warmup if step < warmup else rate


def loss_of(outputs, labels, smoothing):
    """All rows have as many labels, so the mean over all is that of the means over rows."""
    return nn.functional.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), labels.reshape(-1),
                                       label_smoothing=smoothing)


def evaluate(net, part, smoothing):
    x, labels = part
    loss = right = 0.0
    net.eval()
    with torch.no_grad():
        for rows, wanted in zip(x.split(128), labels.split(128)):
            outputs = net(rows)
            loss += loss_of(outputs, wanted, smoothing).item() * len(rows)
            right += (outputs.argmax(-1) == wanted).double().mean().item() * len(rows)
    net.train()
    return loss / len(x), right / len(x)


def main():
    torch.set_num_threads(OPTIONS.threads)
    torch.manual_seed(OPTIONS.seed)
    job = torch_model.read_job(OPTIONS.job, OPTIONS.set)
    train, data = job.get("train", {}), job.get("data", {})
    (x, labels), test = load_data(data, OPTIONS.data or data.get("dir", "") or ".")
    net = make_net(job, x.shape[1:])
    smoothing, clip = float(train.get("label_smoothing", 0)), float(train.get("clip_norm", 0))
    rate, optimizer = torch_model.optimizer_of(train, net.parameters())
    batch = train.get("batch", 384)
    epoch_steps = -(-len(x) // batch)
    steps = train.get("epochs", 3) * epoch_steps
    steps = min(steps, train.get("steps", 0) or steps)
    every = train.get("eval_every", 1)
    step, start, sums = 0, time.perf_counter(), [0.0, 0]

    def report(word, epoch):
        loss, accuracy = evaluate(net, test, smoothing)
        print("TORCH %s %d step %d train %.4f test %.4f accuracy %.4f seconds %.1f" %
              (word, epoch, step, sums[0] / max(1, sums[1]), loss, accuracy, time.perf_counter() - start), flush=True)
        sums[:] = [0.0, 0]

    for epoch in range(train.get("epochs", 3)):
        for rows in torch.randperm(len(x)).split(batch):
            if step == steps:
                break
            for group in optimizer.param_groups:
                group["lr"] = rate_of(train, rate, step, steps, epoch)
            optimizer.zero_grad()
            loss = loss_of(net(x[rows]), labels[rows], smoothing)
            loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(net.parameters(), clip)
            optimizer.step()
            step += 1
            sums[0] += loss.item()
            sums[1] += 1
        if every and (epoch + 1) % every == 0 and step < steps and not OPTIONS.quiet:
            report("epoch", epoch + 1)
        if step == steps:
            break
    report("done", epoch + 1)
    if OPTIONS.out:
        torch_model.write_tensors(OPTIONS.out, torch_model.tensors(net))


main()

#!/usr/bin/python3
"""Write the golden files of test_golden.c: what PyTorch makes of small networks with every kind of layer.

    /usr/bin/python3 tests/golden/make_golden.py [DIRECTORY]      (default: beside this script)

Per network NAME, in our naming of parameters:
    NAME.safetensors         parameters before
    NAME.grad.safetensors    gradient of the mean loss over the batch
    NAME.RULE.safetensors    parameters after three steps of an optimizer on that batch
    NAME.batch               little-endian: rows, inputs, outputs (uint32), mean loss (float64),
                             x (float32 [rows, inputs]), labels (int32 [rows] or [rows, positions]) or targets (float32 [rows, outputs])
PyTorch computes in float64, so that the files hold the truth to float32's precision."""
import copy
import os
import struct
import sys

import torch
from torch import nn

from torch_model import (GRU, LSTM, RNN, Attention, GlobalPool, Lamb, Lars, Lion, Positions, Residual, RMSNorm, Sines,
                         Tied, Tokens, layer_norm, tensors, write_tensors)

STEPS = 3
RULES = {
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, eps=1e-4),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1, eps=1e-4),
}
# Of some networks alone: Lion's sign is no golden value where a gradient is 0 but for rounding.
MORE = {
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, alpha=0.9, eps=1e-4, momentum=0.5, weight_decay=0.01),
    "lion": lambda p: Lion(p, lr=0.01, beta1=0.9, beta2=0.99, weight_decay=0.1),
    "lars": lambda p: Lars(p, lr=1.0, momentum=0.9, trust=0.01, weight_decay=0.01),
    "lamb": lambda p: Lamb(p, lr=0.01, beta1=0.9, beta2=0.999, epsilon=1e-4, weight_decay=0.1),
}
MORE_OF = ("mlp", "norms", "recurrent")


def networks():
    """Name, input shape, rows, layers (position in our list -> module), loss."""
    yield "mlp", (12,), 7, [
        nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 12), nn.Tanh(), nn.Dropout(0.0), nn.Linear(12, 8),
        nn.Sigmoid(), nn.Linear(8, 5)], "cross_entropy"
    yield "cnn", (2, 9, 9), 5, [
        nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3, bias=False),
        nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(6, 5), nn.Sigmoid(), nn.Linear(5, 4)], \
        "cross_entropy"
    yield "strides", (3, 11, 8), 4, [
        nn.Conv2d(3, 5, 3, stride=2, padding=2), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1),
        nn.Conv2d(5, 4, 2, padding=1), nn.ReLU(), nn.AvgPool2d(3, stride=2, padding=1), nn.Flatten(),
        nn.Linear(24, 3)], "cross_entropy"
    yield "regression", (6,), 9, [nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3)], "squared_error"
    yield "logistic", (4,), 10, [nn.Linear(4, 1)], "logistic"
    yield "norms", (12,), 8, [
        nn.Linear(12, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 12), RMSNorm(12),
        nn.GELU(approximate="tanh"), nn.Linear(12, 10), nn.LayerNorm(10, eps=1e-3), nn.SiLU(),
        nn.Linear(10, 5)], "smoothed"
    yield "tokens", (6,), 5, [
        Tokens(9, 8), Positions(6, 8), nn.Linear(8, 10), nn.GELU(), nn.LayerNorm(10),
        nn.Linear(10, 9)], "masked"
    yield "sines", (7,), 4, [
        Tokens(5, 6), Sines(7, 6), nn.Linear(6, 8, bias=False), nn.SiLU(), nn.Linear(8, 5)], \
        "masked"
    yield "residual", (7,), 6, [
        nn.Linear(7, 6), Residual(nn.Tanh(), nn.Linear(6, 6)), nn.ReLU(),
        Residual(Residual(nn.Linear(6, 8), nn.ReLU(), Residual(nn.Linear(8, 8)), nn.Linear(8, 6)),
                 nn.Sigmoid()), nn.Linear(6, 4)], "cross_entropy"
    yield "gpt", (9,), 3, [
        Tokens(11, 12), Positions(9, 12),
        Residual(nn.LayerNorm(12), nn.Linear(12, 36), Attention(3), nn.Linear(12, 12)),
        Residual(nn.LayerNorm(12), nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 12)),
        nn.LayerNorm(12), nn.Linear(12, 11, bias=False)], "masked"
    yield "batchnorm", (2, 5, 4), 6, [
        nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), GlobalPool(),
        nn.Linear(4, 7, bias=False), nn.BatchNorm1d(7, eps=1e-3, momentum=0.3), nn.Tanh(),
        nn.Linear(7, 3)], "cross_entropy"
    table = Tokens(9, 6)
    yield "tied", (5,), 4, [table, nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6), Tied(table)], "masked"
    yield "recurrent", (7,), 5, [
        Tokens(9, 5), RNN(5, 6, batch_first=True), LSTM(6, 7, batch_first=True), GRU(7, 6, batch_first=True),
        nn.Linear(6, 9)], "masked"
    yield "last", (6,), 5, [
        Tokens(8, 5), layer_norm(5, 1e-5, False), last(LSTM(5, 8, batch_first=True)), nn.Linear(8, 4)], "cross_entropy"
    yield "pooled", (6,), 5, [Tokens(8, 5), Sines(6, 5), nn.Linear(5, 7), nn.SiLU(), GlobalPool(), nn.Linear(7, 4)], \
        "cross_entropy"
    yield "upsampled", (2, 3, 4), 4, [
        nn.Conv2d(2, 3, 2, padding=1), nn.Upsample(scale_factor=2), nn.Tanh(), nn.AvgPool2d(4, stride=2), nn.Flatten(),
        nn.Linear(36, 3)], "cross_entropy"


def last(layer):
    layer.last = True
    return layer


LOSSES = {"cross_entropy": nn.CrossEntropyLoss(), "squared_error": nn.MSELoss(),
          "logistic": nn.BCEWithLogitsLoss(), "masked": lambda z, labels: masked(z, labels), "smoothed": nn.CrossEntropyLoss(label_smoothing=0.1)}


def masked(z, labels):
    """Mean over the rows of the mean over their positions with a label."""
    loss = nn.functional.cross_entropy(z.transpose(1, 2), labels, ignore_index=-1, reduction="none")
    return (loss.sum(1) / (labels != -1).sum(1)).mean()


def draw_inputs(loss, rows, shape, layers):
    if isinstance(layers[0], Tokens):
        return torch.randint(layers[0].num_embeddings, (rows, *shape)).double()
    return torch.randn(rows, *shape).float().double()


def draw_target(loss, rows, outputs, shape):
    if loss == "masked":
        labels = torch.randint(outputs, (rows, *shape))
        labels[0, 0] = labels[-1, 1:4] = -1
        return labels
    if loss in ("cross_entropy", "smoothed"):
        return torch.randint(outputs, (rows,))
    if loss == "logistic":
        return torch.randint(2, (rows, 1)).double()
    return torch.randn(rows, outputs).float().double()


def write_batch(path, x, target, outputs, loss):
    labels = target.to(torch.int32) if not torch.is_floating_point(target) or outputs == 1 \
        else target.to(torch.float32)
    with open(path, "wb") as file:
        file.write(struct.pack("<IIId", len(x), x[0].numel(), outputs, loss.item()))
        file.write(x.to(torch.float32).numpy().tobytes() + labels.numpy().tobytes())


def gradients(net, named, start):
    """Of a running average: the one before less the statistic of the batch."""
    momentum = {id(average): module.momentum for module in net.modules()
                if hasattr(module, "running_mean") for average in module.buffers()}
    for (name, tensor), before in zip(named, start):
        yield name, (before - tensor) / momentum[id(tensor)] if id(tensor) in momentum else tensor.grad


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    torch.manual_seed(20)
    for name_of, shape, rows, layers, loss in networks():
        net = nn.Sequential(*layers)
        for parameter in net.parameters():
            if (parameter == 1).all():  # the weights of norms, which would hide a mistake
                parameter.data += 0.2 * torch.randn(parameter.shape)
        for name, average in tensors(layers):
            if ".running" in name:
                average += 0.3 * torch.rand(average.shape)
        net.float().double()  # what float32 holds, computed in float64
        named = list(tensors(layers))
        start = [tensor.detach().clone() for _, tensor in named]
        x = draw_inputs(loss, rows, shape, layers)
        outputs = copy.deepcopy(net)(x).shape[-1]
        target = draw_target(loss, rows, outputs, shape)
        path = os.path.join(folder, name_of)
        write_tensors(path + ".safetensors", named)
        value = LOSSES[loss](net(x), target)
        value.backward()
        write_batch(path + ".batch", x, target, outputs, value)
        write_tensors(path + ".grad.safetensors", gradients(net, named, start))
        rules = {**RULES, **MORE} if name_of in MORE_OF else RULES
        for rule, make in rules.items():
            for (_, tensor), before in zip(named, start):
                tensor.data.copy_(before)
            optimizer = make(net.parameters())
            for _ in range(STEPS):
                optimizer.zero_grad()
                LOSSES[loss](net(x), target).backward()
                optimizer.step()
            write_tensors(f"{path}.{rule}.safetensors", named)


main()

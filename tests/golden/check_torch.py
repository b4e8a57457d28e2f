#!/usr/bin/python3
"""Does PyTorch get the loss and the gradients that we get, from the model file that we write?

    check_torch.py MODEL.safetensors DIRECTORY       (DIRECTORY: written by torch_batch)

Reads the model with struct and json alone, builds the network, takes the batch through it in float32 and in
float64, and prints per tensor the relative error (L2, and largest element over largest element) of our
gradient. Fails when a float64 figure, or the loss in either precision, is off by more than 1e-5. In float32
PyTorch itself may be further off than that: where two inputs of a max-pool window, or a relu's input and
zero, are equal but for rounding, one bit decides where the gradient goes."""
import json
import os
import struct
import sys

import torch
from torch import nn

LIMIT = 1e-5


def read_tensors(path):
    with open(path, "rb") as file:
        raw = bytearray(file.read())
    length, = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        assert entry["dtype"] == "F32", name
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        flat = torch.frombuffer(raw, dtype=torch.float32, count=(end - begin) // 4, offset=begin)
        tensors[name] = flat.reshape(entry["shape"]).clone()
    return tensors


def read_batch(path, shape):
    with open(path, "rb") as file:
        raw = bytearray(file.read())
    rows, inputs, _, loss = struct.unpack("<IIId", raw[:20])
    x = torch.frombuffer(raw, dtype=torch.float32, count=rows * inputs, offset=20)
    labels = torch.frombuffer(raw, dtype=torch.int32, count=rows, offset=20 + 4 * rows * inputs)
    return x.reshape(rows, *shape), labels.long(), loss


def read_layers(path, tensors):
    """The network of the layer list, with the tensors in it, and (our name, parameter) for each."""
    with open(path) as file:
        shape = [int(d) for d in file.readline().split()]
        lines = [line.split() for line in file]
    layers, named = [], []
    for i, (kind, *numbers) in enumerate(lines):
        units, kernel, stride, pad, bias = map(int, numbers)
        if kind in ("dense", "conv"):
            weight = tensors[f"{i}.{kind}.weight"]
            layer = nn.Linear(weight.shape[1], units, bias=bool(bias)) if kind == "dense" else \
                nn.Conv2d(weight.shape[1], units, kernel, stride or 1, pad, bias=bool(bias))
            for role, parameter in layer.named_parameters():
                parameter.data.copy_(tensors[f"{i}.{kind}.{role}"])
                named.append((f"{i}.{kind}.{role}", parameter))
        else:
            layer = {"maxpool": lambda: nn.MaxPool2d(kernel, stride or kernel, pad),
                     "avgpool": lambda: nn.AvgPool2d(kernel, stride or kernel, pad),
                     "flatten": nn.Flatten, "relu": nn.ReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh,
                     "dropout": nn.Identity}[kind]()
        layers.append(layer)
    assert len(named) == len(tensors), "tensors that belong to no layer"
    return shape, nn.Sequential(*layers), named


def errors(ours, theirs):
    difference = ours.double() - theirs.double()
    return ((difference.norm() / theirs.double().norm()).item(),
            (difference.abs().max() / theirs.double().abs().max()).item())


def main():
    model, folder = sys.argv[1:]
    tensors = read_tensors(model)
    ours = read_tensors(os.path.join(folder, "grad.safetensors"))
    worst = 0.0
    for dtype in (torch.float32, torch.float64):
        shape, net, named = read_layers(os.path.join(folder, "layers"), tensors)
        x, labels, our_loss = read_batch(os.path.join(folder, "batch"), shape)
        net.to(dtype)
        loss = nn.CrossEntropyLoss()(net(x.to(dtype)), labels)
        loss.backward()
        relative = abs(loss.item() - our_loss) / abs(loss.item())
        worst = max(worst, relative)
        print(f"{str(dtype)[6:]}: loss {loss.item():.9g}, ours {our_loss:.9g}, relative error {relative:.1e}")
        for name, parameter in named:
            l2, largest = errors(ours[name], parameter.grad)
            print(f"    {name:24} gradient: L2 {l2:.1e}, largest {largest:.1e}")
            if dtype == torch.float64:
                worst = max(worst, l2, largest)
    good = worst <= LIMIT
    print(f"{'equal' if good else 'DIFFERENT'}: worst {worst:.1e}, limit {LIMIT:.0e}")
    sys.exit(0 if good else 1)


main()

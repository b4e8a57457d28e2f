#!/usr/bin/python3
"""Does PyTorch get the outputs, the loss and the gradients that we get, from the model file that we write?

    check_torch.py JOB.yaml MODEL.safetensors DIRECTORY       (DIRECTORY: written by torch_batch)

Builds the network of the job, takes the batch through it in float32 and in float64, and prints the largest error of
our outputs in evaluation (over the largest output), of the loss in training, and per tensor the relative error (L2, and
largest element over largest element) of our gradient. Fails when one of the first two, in either precision, or a
float64 figure of the third, is off by more than 1e-5. Where PyTorch's own gradient in float32 is further off, ours may
be twice as far: in a trained network the gradients of biases are what is left of sums that nearly cancel. Where two
inputs of a max-pool window, or a relu's input and zero, are equal but for rounding, one bit decides where the gradient
goes; and of the gradient of weights before a batchnorm most cancels. Such a bit may also be one of ours, so a network
with relus passes when the L2 errors do, by 1e-3."""
import os
import struct
import sys

import torch
from torch import nn

import torch_model

LIMIT, LIMIT_KINKS = 1e-5, 1e-3


def read_batch(path):
    """Shape of x and x, labels, mean loss, outputs."""
    with open(path, "rb") as file:
        raw = bytearray(file.read())
    rows, dims, *dim, labels, outputs = struct.unpack("<7I", raw[:28])
    loss, = struct.unpack("<d", raw[28:36])
    shape, at = tuple(dim[:dims]), 36
    parts = []
    for kind, count in ((torch.float32, shape_size(shape)), (torch.int32, labels), (torch.float32, outputs)):
        parts.append(torch.frombuffer(raw, dtype=kind, count=rows * count, offset=at).clone())
        at += 4 * rows * count
    return shape, parts[0].reshape(rows, *shape), parts[1].long(), loss, parts[2]


def shape_size(shape):
    size = 1
    for n in shape:
        size *= n
    return size


def errors(ours, theirs):
    difference = ours.double() - theirs.double()
    return ((difference.norm() / theirs.double().norm()).item(),
            (difference.abs().max() / theirs.double().abs().max()).item())


def check(net, x, labels, our_loss, our_outputs, ours, dtype, kinks, single):
    """Prints one precision. Returns how many limits are passed over. single: PyTorch's gradients in float32, kept and
    used here."""
    net.to(dtype)
    with torch.no_grad():
        outputs = net.eval()(x.to(dtype))
        off = [errors(our_outputs.reshape(outputs.shape), outputs)[1]]
    outputs = net.train()(x.to(dtype))
    loss = nn.functional.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), labels)
    loss.backward()
    off.append(abs(loss.item() - our_loss) / abs(loss.item()))
    print(f"{str(dtype)[6:]}: outputs off by {off[0]:.1e}; loss {loss.item():.9g}, ours {our_loss:.9g}, off by {off[1]:.1e}")
    bad = sum(not error <= LIMIT for error in off)
    for name, parameter in torch_model.tensors(net):
        if parameter.grad is None:
            continue
        l2, largest = errors(ours[name], parameter.grad)
        if dtype == torch.float32:
            single[name] = parameter.grad.clone()
            print(f"    {name:28} gradient: L2 {l2:.1e}, largest {largest:.1e}")
            continue
        own = errors(single[name], parameter.grad)
        print(f"    {name:28} gradient: L2 {l2:.1e}, largest {largest:.1e}; PyTorch's float32 {own[0]:.1e}, {own[1]:.1e}")
        bad += not l2 <= (LIMIT_KINKS if kinks else max(LIMIT, 2 * own[0]))
        bad += not (kinks or largest <= max(LIMIT, 2 * own[1]))
    return bad


def main():
    path, model, folder = sys.argv[1:]
    job, values = torch_model.read_job(path), torch_model.read_tensors(model)
    ours = torch_model.read_tensors(os.path.join(folder, "grad.safetensors"))
    shape, x, labels, loss, outputs = read_batch(os.path.join(folder, "batch"))
    bad, single = 0, {}
    for dtype in (torch.float32, torch.float64):
        net = torch_model.build(job["model"], shape)
        torch_model.load(net, values)
        kinds = [type(module) for module in net.modules()]
        for module in net.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        bad += check(net, x, labels, loss, outputs, ours, dtype, nn.ReLU in kinds or nn.MaxPool2d in kinds,
                     single)
    print("DIFFERENT: %d figures over the limit" % bad if bad else "equal")
    sys.exit(1 if bad else 0)


main()

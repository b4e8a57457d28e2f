"""What a careful user of PyTorch does to a network and its optimizer; and batches to train on."""
import inspect

import torch
from torch import nn

import torch_model


def draw(shape, batch, classes, tokens):
    """Samples and their labels; `tokens`: whole numbers below `classes`, as many labels."""
    if tokens:
        x = torch.randint(classes, (batch, *shape))
        return x, torch.randint(classes, x.shape)
    return torch.randn(batch, *shape), torch.randint(classes, (batch,))


class Attention(nn.Module):
    """torch_model's, by PyTorch's own function."""

    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, x):
        rows, positions, features = x.shape
        q, k, v = (part.reshape(rows, positions, self.heads, -1).transpose(1, 2)
                   for part in x.split(features // 3, dim=2))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mixed.transpose(1, 2).reshape(rows, positions, -1)


def tuned(net):
    """Images in channels_last, and PyTorch's own attention."""
    for parent in list(net.modules()):
        for name, layer in parent.named_children():
            if isinstance(layer, torch_model.Attention):
                setattr(parent, name, Attention(layer.heads))
    images = any(isinstance(layer, nn.Conv2d) for layer in net.modules())
    return net.to(memory_format=torch.channels_last) if images else net


def fused(optimizer):
    """The same optimizer, fused where this PyTorch can."""
    known = inspect.signature(type(optimizer)).parameters
    if "fused" not in known:
        return optimizer
    options = {name: value for name, value in optimizer.defaults.items() if name in known}
    return type(optimizer)(optimizer.param_groups[0]["params"], **{**options, "fused": True})

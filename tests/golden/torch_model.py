"""torch_model.py - our jobs and model files in PyTorch: the network of a YAML job, its parameters by our names.

    job = read_job("configs/shakespeare-gpt.yaml", ["train.steps=100"])
    net = build(job["model"], (64,))               # the shape of a sample
    load(net, read_tensors("model.safetensors"))

Each layer is PyTorch's own module where it has one, with its own names of parameters; ours is its position in the
list, its word and that name: 3.0.conv.weight, 1.lstm.weight_ih_l0. Model files are read with struct and json alone;
if the safetensors library is there, it must read the same."""
import array
import json
import struct

import torch
from torch import nn
import yaml

MAIN = {"dense": "units", "conv": "filters", "maxpool": "kernel", "avgpool": "kernel", "upsample": "factor", "dropout": "drop",
        "batchnorm": "epsilon", "layernorm": "epsilon", "rmsnorm": "epsilon", "gelu": "approximate",
        "embedding": "units", "positions": "kind", "attention": "heads",
        "rnn": "units", "lstm": "units", "gru": "units"}


class Tied(nn.Module):
    """A dense layer with the weight of an embedding, which stays the embedding's."""

    def __init__(self, table, bias=True):
        super().__init__()
        self.table = [table]
        self.bias = nn.Parameter(torch.randn(table.num_embeddings)) if bias else None

    def forward(self, x):
        return nn.functional.linear(x, self.table[0].weight, self.bias)


class GlobalPool(nn.Module):
    """Mean over height and width, or over positions."""

    def forward(self, x):
        return x.flatten(2).mean(2) if x.dim() > 3 else x.mean(1)


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


class Attention(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, x):
        rows, positions, features = x.shape
        q, k, v = (part.reshape(rows, positions, self.heads, -1).transpose(1, 2)
                   for part in x.split(features // 3, dim=2))
        scores = q @ k.transpose(2, 3) / q.shape[3] ** 0.5
        later = torch.ones(positions, positions, dtype=torch.bool).triu(1)
        shares = scores.masked_fill(later, float("-inf")).softmax(3)
        return (shares @ v).transpose(1, 2).reshape(rows, positions, -1)


class Tokens(nn.Embedding):
    def forward(self, x):
        return super().forward(x.long())


class Positions(nn.Module):
    def __init__(self, positions, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(positions, features))

    def forward(self, x):
        return x + self.weight


class Sines(nn.Module):
    def __init__(self, positions, features):
        super().__init__()
        t, k = torch.arange(positions).double()[:, None], torch.arange(features)
        angle = t / 10000.0 ** ((k - k % 2).double() / features)
        self.waves = torch.where(k % 2 == 0, angle.sin(), angle.cos())

    def forward(self, x):
        return x + self.waves.to(x.dtype)


class RMSNorm(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


class Recurrent:
    """The outputs of all steps, or of the last one."""
    last = False

    def forward(self, x):
        y = super().forward(x)[0]
        return y[:, -1] if self.last else y


class RNN(Recurrent, nn.RNN):
    pass


class LSTM(Recurrent, nn.LSTM):
    pass


class GRU(Recurrent, nn.GRU):
    pass


RECURRENT = {"rnn": RNN, "lstm": LSTM, "gru": GRU}
WORDS = {nn.Linear: "dense", Tied: "dense", nn.Conv2d: "conv", nn.LayerNorm: "layernorm", RMSNorm: "rmsnorm",
         Tokens: "embedding", Positions: "positions", nn.BatchNorm1d: "batchnorm",
         nn.BatchNorm2d: "batchnorm", RNN: "rnn", LSTM: "lstm", GRU: "gru"}


def read_job(path, settings=()):
    with open(path) as file:
        job = yaml.safe_load(file)
    for setting in settings:
        name, value = setting.split("=", 1)
        *sections, key = name.split(".")
        at = job
        for section in sections:
            if not isinstance(at.get(section), dict):
                at[section] = {}
            at = at[section]
        at[key] = yaml.safe_load(value)
    return job


def option(options, word, name, fallback):
    """The main setting may stand alone. YAML reads 1e-5 as text."""
    if not isinstance(options, dict):
        options = {MAIN[word]: options} if options is not None else {}
    value = options.get(name, fallback)
    return float(value) if isinstance(fallback, float) else value


def layer_of(entry, shape, first):
    """Module of one line of the list `model` for samples of this shape; `first`: that of the list."""
    word, options = next(iter(entry.items())) if isinstance(entry, dict) else (entry, None)

    def get(name, fallback):
        return option(options, word, name, fallback)
    window = lambda: {"kernel_size": get("kernel", 2), "stride": get("stride", 0) or get("kernel", 2),
                      "padding": get("pad", 0)}
    bias, width = get("bias", True) if word in MAIN else True, shape[-1]
    if word == "residual":
        return Residual(*layers_of(options, shape, first))
    if word == "dense" and get("tied", False):
        return Tied(first, bias)
    if word in RECURRENT:
        layer = RECURRENT[word](width, get("units", None), batch_first=True)
        layer.last = get("last", False)
        return layer
    return {
        "dense": lambda: nn.Linear(width, get("units", None), bias),
        "conv": lambda: nn.Conv2d(shape[0], get("filters", None), get("kernel", 3), get("stride", 1),
                                  get("pad", 0), bias=bias),
        "maxpool": lambda: nn.MaxPool2d(**window()),
        "avgpool": lambda: nn.AvgPool2d(**window()),
        "upsample": lambda: nn.Upsample(scale_factor=get("factor", 2)),
        "flatten": nn.Flatten, "globalpool": GlobalPool,
        "relu": nn.ReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh, "silu": nn.SiLU,
        "gelu": lambda: nn.GELU(approximate=get("approximate", "none")),
        "dropout": lambda: nn.Dropout(get("drop", 0.5)),
        "batchnorm": lambda: (nn.BatchNorm2d if len(shape) == 3 else nn.BatchNorm1d)(
            shape[0], get("epsilon", 1e-5), get("momentum", 0.1)),
        "layernorm": lambda: layer_norm(width, get("epsilon", 1e-5), bias),
        "rmsnorm": lambda: RMSNorm(width, get("epsilon", 1e-5)),
        "embedding": lambda: Tokens(get("tokens", 256), get("units", None)),
        "positions": lambda: (Sines if get("kind", "learned") == "sinusoidal" else Positions)(*shape),
        "attention": lambda: Attention(get("heads", None)),
    }[word]()


def layer_norm(width, epsilon, bias):
    norm = nn.LayerNorm(width, epsilon)
    if not bias:  # this version of PyTorch has no such setting
        norm.bias.requires_grad_(False)
        norm.register_parameter("bias", None)
    return norm


def layers_of(entries, shape, first=None):
    layers = []
    for entry in entries:
        if isinstance(entry, dict) and "input" in entry:
            shape = tuple(entry["input"])
            continue
        layer = layer_of(entry, shape, first)
        first = first or layer
        layers.append(layer)
        with torch.no_grad():
            shape = tuple(layer.eval()(torch.zeros(1, *shape)).shape[1:])
        layer.train()
    return layers


def build(entries, shape):
    return nn.Sequential(*layers_of(entries, tuple(shape)))


def tensors(layers, path=""):
    """Our name and the tensor, in our order."""
    for i, layer in enumerate(layers):
        if isinstance(layer, Residual):
            yield from tensors(layer, f"{path}{i}.")
            continue
        for role, tensor in layer.named_parameters():
            yield f"{path}{i}.{WORDS[type(layer)]}.{role}", tensor
        for role, average in layer.named_buffers():
            if role.startswith("running"):
                yield f"{path}{i}.{WORDS[type(layer)]}.{role}", average


def load(net, values):
    """All of `values` into the network, and nothing left out."""
    named = dict(tensors(net))
    assert sorted(named) == sorted(values), "parameters differ: %s" % sorted(set(named) ^ set(values))
    for name, tensor in named.items():
        assert tensor.shape == values[name].shape, name
        tensor.data.copy_(values[name])


def read_tensors(path):
    with open(path, "rb") as file:
        raw = bytearray(file.read())
    length, = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + length])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        assert entry["dtype"] == "F32", name
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        flat = torch.frombuffer(raw, dtype=torch.float32, count=(end - begin) // 4, offset=begin)
        found[name] = flat.reshape(entry["shape"]).clone()
    library_agrees(path, found)
    return found


def library_agrees(path, found):
    try:
        from safetensors.torch import load_file
    except ImportError:
        return
    theirs = load_file(path)
    assert theirs.keys() == found.keys()
    assert all(torch.equal(theirs[name], found[name]) for name in found)


def write_tensors(path, pairs):
    header, data = {}, b""
    for name, tensor in pairs:
        raw = array.array("f", tensor.detach().to(torch.float32).flatten().tolist()).tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


class Textbook(torch.optim.Optimizer):
    """Rules that PyTorch has not, one tensor at a time, by the formulas of their papers (nn/optim.h)."""

    def __init__(self, parameters, **options):
        super().__init__(parameters, options)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state.setdefault("m", torch.zeros_like(p))
                state.setdefault("v", torch.zeros_like(p))
                state["t"] = state.get("t", 0) + 1
                self.change(p, p.grad, state, group)


def ratio(above, below):
    return above / below if above > 0 and below > 0 else 1.0


class Lion(Textbook):
    def change(self, p, g, state, o):
        direction = (o["beta1"] * state["m"] + (1 - o["beta1"]) * g).sign()
        state["m"] = o["beta2"] * state["m"] + (1 - o["beta2"]) * g
        p -= o["lr"] * (direction + o["weight_decay"] * p)


class Lars(Textbook):
    def change(self, p, g, state, o):
        size = p.norm()
        trust = ratio(o["trust"] * size, g.norm() + o["weight_decay"] * size) if g.norm() > 0 else 1.0
        state["m"] = o["momentum"] * state["m"] + o["lr"] * trust * (g + o["weight_decay"] * p)
        p -= state["m"]


class Lamb(Textbook):
    def change(self, p, g, state, o):
        state["m"] = o["beta1"] * state["m"] + (1 - o["beta1"]) * g
        state["v"] = o["beta2"] * state["v"] + (1 - o["beta2"]) * g * g
        mean, square = state["m"] / (1 - o["beta1"] ** state["t"]), state["v"] / (1 - o["beta2"] ** state["t"])
        direction = mean / (square.sqrt() + o["epsilon"]) + o["weight_decay"] * p
        p -= o["lr"] * ratio(p.norm(), direction.norm()) * direction


DEFAULTS = {"lion": dict(rate=1e-4, beta1=0.9, beta2=0.99, weight_decay=0.0),
            "lars": dict(rate=1.0, momentum=0.9, trust=0.001, weight_decay=0.0),
            "lamb": dict(rate=1e-3, beta1=0.9, beta2=0.999, epsilon=1e-6, weight_decay=0.01)}


def optimizer_of(train, parameters):
    """Its base rate and the optimizer of `train.optimizer`."""
    chosen = train.get("optimizer", {"sgd": 0.1})
    word, options = next(iter(chosen.items())) if isinstance(chosen, dict) else (chosen, None)
    options = options if isinstance(options, dict) else {} if options is None else {"rate": options}
    options = {k: v if isinstance(v, bool) else float(v) for k, v in options.items()}
    decay = options.get("weight_decay", 0.01 if word == "adamw" else 0.0)
    if word == "sgd":
        rate = options.get("rate", 0.1)
        return rate, torch.optim.SGD(parameters, lr=rate, momentum=options.get("momentum", 0.0),
                                     nesterov=options.get("nesterov", False), weight_decay=decay)
    if word in ("adam", "adamw"):
        rate = options.get("rate", 0.001)
        kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[word]
        return rate, kind(parameters, lr=rate, betas=(options.get("beta1", 0.9), options.get("beta2", 0.999)),
                          eps=options.get("epsilon", 1e-8), weight_decay=decay)
    if word == "rmsprop":
        rate = options.get("rate", 0.01)
        return rate, torch.optim.RMSprop(parameters, lr=rate, alpha=options.get("alpha", 0.99),
                                         eps=options.get("epsilon", 1e-8), weight_decay=decay,
                                         momentum=options.get("momentum", 0.0))
    if word not in DEFAULTS:
        raise SystemExit("train.optimizer.%s is not known here" % word)
    options = {**DEFAULTS[word], **options}
    rate = options.pop("rate")
    return rate, {"lion": Lion, "lars": Lars, "lamb": Lamb}[word](parameters, lr=rate, **options)

"""The five models that are measured, as jobs of ours, and the data they need."""
import os
import random

IMAGES = "data: {source: glyphs, train: 4096, test: 256}"
TEXT = "data: {source: text, file: bench.txt, context: 128}"
MLP = """  - input: [1, 28, 28]
  - flatten
  - dense: 512
  - relu
  - dense: 256
  - relu
  - dense: 10
"""
WIDE = "  - input: [1, 28, 28]\n  - flatten\n" + 3 * "  - dense: 1024\n  - relu\n" + "  - dense: 10\n"
CNN = """  - input: [1, 28, 28]
  - conv: {filters: 32, kernel: 5, pad: 2}
  - relu
  - maxpool: 2
  - conv: {filters: 64, kernel: 5, pad: 2}
  - relu
  - maxpool: 2
  - flatten
  - dense: 512
  - relu
  - dense: 10
"""
LSTM = """  - embedding: 64
  - lstm: 256
  - dense: 256
"""
GPT = """  - embedding: 128
  - positions: learned
""" + 4 * """  - residual: [layernorm, dense: 384, attention: 4, dense: 128]
  - residual: [layernorm, dense: 512, gelu: tanh, dense: 128]
""" + """  - layernorm
  - dense: {units: 256, bias: no, tied: yes}
"""


def conv(filters, stride=1):
    return "conv: {filters: %d, kernel: 3, stride: %d, pad: 1, bias: no}, batchnorm" % (filters, stride)


def residual(filters):
    return "residual: [%s, relu, %s], relu" % (conv(filters), conv(filters))


RESNET = "    [%s, relu, %s, relu, %s, %s, relu, %s, globalpool, dense: 10]\n" % (
    conv(16), conv(32, 2), residual(32), conv(64, 2), residual(64))
COLOURS = "data: {source: cifar10}"
# name: data, layers, samples per step (about: see batch_of), steps of a measurement, what PyTorch must know of samples
MODELS = {
    "mlp": (IMAGES, MLP, 256, 400, []),
    "cnn": (IMAGES, CNN, 256, 24, []),
    "gpt": (TEXT, GPT, 32, 16, ["--input", "128", "--classes", "256", "--tokens"]),
    "resnet": (COLOURS, RESNET, 64, 60, ["--input", "3,32,32"]),
    "lstm": (TEXT, LSTM, 32, 60, ["--input", "128", "--classes", "256", "--tokens"]),
}

MORE = {**MODELS, "wide": (IMAGES, WIDE, 256)}  # of lines.py alone


def write_text(folder):
    with open(os.path.join(folder, "bench.txt"), "wb") as out:
        out.write(bytes(random.Random(1).choices(range(97, 123), k=200000)))


def write_images(folder):
    """Files of CIFAR-10 with a label and noise per sample."""
    draw = random.Random(1)
    for name in ["data_batch_%d.bin" % (i + 1) for i in range(5)] + ["test_batch.bin"]:
        with open(os.path.join(folder, name), "wb") as out:
            for _ in range(128):
                out.write(bytes([draw.randrange(10)]) + draw.randbytes(3072))


def batch_of(model, shards):
    """The multiple of `shards` that is nearest to the model's usual batch."""
    return max(1, round(MORE[model][2] / shards)) * shards


def write_job(path, name, model, steps, exact=True, batch=0, shards=12, peers=1, group="", precision="fp32"):
    data, layers = MORE[model][:2]
    with open(path, "w") as out:
        out.write("run: {name: %s, seed: 1}\n%s\n"
                  "model:\n%s"
                  "train:\n  loss: cross_entropy\n  epochs: 1000000\n  steps: %d\n  batch: %d\n"
                  "  shards: %d\n  optimizer: {sgd: {rate: 0.01, momentum: 0.9}}\n  exact: %s\n  precision: %s\n"
                  "  eval_every: 0\n"
                  "mesh: {topology: ring, peers: %d, gather_ms: 1, group: %s}\n"
                  % (name, data, layers, steps, batch or batch_of(model, shards), shards, "yes" if exact else "no", precision,
                     peers, group or "bench%d" % random.randrange(1 << 30)))

"""stages.py - jobs in stages for matrix.py and stages_points.py: small ones of three kinds, and grids of nodes."""
import os

import mesh as chaos

GRIDS = {"1x1": (1, 1), "2x1": (2, 1), "3x1": (3, 1), "4x1": (4, 1), "2x2": (2, 2), "1x4": (1, 4), "4x2": (4, 2)}  # stages, replicas
SCHEDULES = ["gpipe", "1f1b", "zb"]

MODELS = {
    "cnn": ("""data: {source: glyphs, train: 96, test: 24, augment: {shift: 2}}
model:
  - input: [1, 28, 28]
  - conv: {filters: 4, kernel: 5, stride: 2, pad: 2}
  - relu
  - maxpool: 2
  - residual: [{conv: {filters: 4, kernel: 3, pad: 1}}, layernorm, relu]
  - flatten
  - dense: 24
  - tanh
  - dropout: 0.2
  - dense: 10
""", "{sgd: {rate: 0.05, momentum: 0.9}}"),
    "gpt": ("""data: {source: text, file: text.txt, context: 8, test_share: 0.1}
model:
  - embedding: {units: 16, tokens: 256}
  - positions: learned
  - residual: [layernorm, dense: 48, attention: 2, dense: 16]
  - residual: [layernorm, dense: 32, gelu: tanh, dense: 16]
  - residual: [layernorm, dense: 32, relu, dense: 16]
  - layernorm
  - dense: {units: 256, bias: no, tied: yes}
""", "{adamw: {rate: 0.003, weight_decay: 0.1}}\n  clip_norm: 0.5"),
    "lstm": ("""data: {source: text, file: text.txt, context: 8, test_share: 0.1}
model:
  - embedding: 8
  - lstm: 12
  - lstm: 12
  - dense: 256
""", "{adam: 0.004}\n  clip_norm: 1"),
}


def write(folder, model, steps, shards=12, batch=24):
    """The job, and next to it what it reads. Its path. Steps 0: endless."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "text.txt"), "w", encoding="ascii") as out:
        out.write("".join(chr(32 + (i * i // 7 + i) % 64) for i in range(1200)))
    layers, optimizer = MODELS[model]
    path = os.path.join(folder, model + ".yaml")
    with open(path, "w", encoding="ascii") as out:
        out.write(f"""run: {{name: {model}, seed: 7, numerics: portable}}
{layers}train:
  epochs: 100000
  steps: {steps}
  batch: {batch}
  shards: {shards}
  eval_every: 0
  checkpoint_every: 20
  optimizer: {optimizer}
""")
    return path


def options(job, grid="1x1", schedule="zb"):
    """Those of every node. `even`: steps are so short that one node alone may be faster than all. With tied weights one group
    of nodes has the first and the last stage, so there is a stage more than groups."""
    stages = GRIDS[grid][0] + (GRIDS[grid][0] > 1 and os.path.basename(job) == "gpt.yaml")
    return ["--data", os.path.dirname(job), *chaos.EVEN, "--set", f"mesh.stages={stages}",
            *(["--set", f"mesh.schedule={schedule}"] if stages > 1 else [])]


def nodes(grid):
    stages, replicas = GRIDS[grid]
    return [f"n{i}" for i in range(1, stages * replicas + 1)]

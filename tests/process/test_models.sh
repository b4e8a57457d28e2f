#!/bin/bash
# test_models.sh [all] - a GPT and a residual net with batch normalisation, each on 1, 2, 3 and 4 nodes with 1 and 2 threads, and
# in one shard with 1, 2 and 3 threads that share it out: one hash of the weights and of the whole state. Without "all" the combinations in which something is
# shared out in another way.
. "$(dirname "$0")/../support/process.sh"
COMBINATIONS=(3x1 2x2)
SINGLE=(1x3)
if [ "${1:-}" = all ]; then
    COMBINATIONS=(2x1 3x1 4x1 1x2 2x2 3x2 4x2)
    SINGLE=(1x2 1x3)
fi

mkdir "$WORK/data"
seq -s ' ' 1 4000 >"$WORK/data/text.txt"

write_gpt() { # FILE SHARDS
    cat >"$1" <<END
run: {name: gpt, seed: 7}
data: {source: text, file: text.txt, context: 32}
model:
  - embedding: {units: 32, tokens: 256}
  - positions: learned
  - residual: [layernorm, dense: 96, attention: 4, dense: 32]
  - residual: [layernorm, dense: 128, gelu: tanh, dense: 32]
  - layernorm
  - dense: {units: 256, bias: no, tied: yes}
train: {epochs: 100, steps: 12, batch: 24, shards: $2, optimizer: {adamw: {rate: 0.003}}, clip_norm: 1}
END
}

write_resnet() { # FILE SHARDS
    cat >"$1" <<END
run: {name: resnet, seed: 7}
data: {source: glyphs, train: 480, test: 120}
model:
  - input: [1, 28, 28]
  - conv: {filters: 8, kernel: 3, stride: 2, pad: 1, bias: no}
  - batchnorm
  - relu
  - residual: [conv: {filters: 8, kernel: 3, pad: 1, bias: no}, batchnorm, relu, conv: {filters: 8, kernel: 3, pad: 1}]
  - relu
  - conv: {filters: 20, kernel: 3, stride: 2, pad: 1}
  - globalpool
  - dense: 10
train: {epochs: 100, steps: 12, batch: 48, shards: $2, optimizer: {sgd: {rate: 0.05, momentum: 0.9}}}
END
}

for model in gpt resnet; do
    write_$model "$WORK/$model.yaml" 6
    for combination in 1x1 "${COMBINATIONS[@]}"; do
        train_on $model- "$combination" "$WORK/$model.yaml" --data "$WORK/data"
    done
    write_$model "$WORK/$model-single.yaml" 1
    for combination in 1x1 "${SINGLE[@]}"; do
        train_on $model-single- "$combination" "$WORK/$model-single.yaml" --data "$WORK/data"
    done
done

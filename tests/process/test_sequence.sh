#!/bin/bash
# test_sequence.sh [all] - recurrent layers and attention on a text, on 1, 2, 3 and 4 nodes with 1 and 2 threads each: one
# hash of the weights, one of the whole state; and the text is learned. Without "all", three combinations.
. "$(dirname "$0")/../support/process.sh"
COMBINATIONS=(1x1 2x2 3x1)
[ "${1:-}" != all ] || COMBINATIONS=({1,2,3,4}x{1,2})

cat >"$WORK/job.yaml" <<END
run: {name: sequence, seed: 3, numerics: portable}
data: {source: text, file: proto/PROTOCOL.md, context: 24, train: 480, test: 96}
model:
  - embedding: 12
  - lstm: 20
  - residual: [gru: 20]
  - residual: [layernorm, dense: 60, attention: 2, rnn: 20]
  - dense: 256
train:
  epochs: 100
  steps: 40
  batch: 48
  shards: 8
  optimizer: {adam: {rate: 0.01}}
  clip_norm: 1
  eval_every: 0
END

for combination in "${COMBINATIONS[@]}"; do
    train_on "" "$combination" "$WORK/job.yaml" --data "$ROOT"
done
awk -v loss="$(result 1x1-0 test_loss)" 'BEGIN { exit !(loss > 1 && loss < 4.2) }' ||
    fail "test loss $(result 1x1-0 test_loss), expected below 4.2: the text is not learned"

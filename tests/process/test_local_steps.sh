#!/bin/bash
# test_local_steps.sh [all] - rounds of three steps with block momentum on 1, 2, 3 and 4 nodes with 1 and 2 threads: one
# hash of the weights, one of the whole state; less is sent, in proportion; something is learned. Then one of three
# nodes, which also audit one another and compute activations again, is killed and goes on: the same hash again, and
# `meshnode verify` proves from what they wrote that every sample was used once. Without "all", four combinations.
# And with optimizers of which each shard keeps the moments within a span: one of three nodes is killed in a span.
. "$(dirname "$0")/../support/process.sh"
COMBINATIONS=(1x1 2x2 3x1 4x2)
[ "${1:-}" != all ] || COMBINATIONS=({1,2,3,4}x{1,2})

# An epoch is 16 steps, the last one short: rounds of 3, 3, 3, 3, 3 and 1; the run ends after two of the third round.
cat >"$WORK/job.yaml" <<END
run: {name: steps, seed: 11, numerics: portable}
data: {source: glyphs, train: 1500, test: 240, augment: {shift: 2}}
model:
  - conv: {filters: 6, kernel: 5, stride: 2}
  - batchnorm
  - relu
  - maxpool: 2
  - flatten
  - dense: 32
  - tanh
  - dropout: 0.1
  - dense: 10
train:
  epochs: 100
  steps: 72
  batch: 96
  shards: 12
  optimizer: {sgd: {rate: 0.2, weight_decay: 0.0001}}
  clip_norm: 2
  warmup: 4
  schedule: {cosine: {floor: 0.1}}
  ema: 0.5
  eval_every: 0
END
LOCAL=(--set train.local_steps=3 --set train.block_momentum=0.5 --set train.block_nesterov=yes)

for combination in "${COMBINATIONS[@]}"; do
    train_on "" "$combination" "$WORK/job.yaml" "${LOCAL[@]}"
done
rounds=$(grep -c '"rows"' "$WORK/1x1-0/metrics.jsonl")
[ "$rounds" = 27 ] || fail "$rounds rounds, expected 27: 6 in each of four epochs of 16 steps, and 3, 3, 2 steps"
first=$(value "$WORK/1x1-0/metrics.jsonl" loss) last=$(result 1x1-0 test_loss)
awk -v first="$first" -v last="$last" 'BEGIN { exit !(first > 2 && last < 1.2) }' ||
    fail "the loss went from $first to $last, expected less than 1.2 in the end"

# Both nodes send in every step, however busy the machine is: with shards by speed one may compute everything.
for name in once-a once-b; do
    node $name "$WORK/job.yaml" --peers 2 --set mesh.division=even
done
finished 120 once-a once-b
for name in three-a three-b; do
    node $name "$WORK/job.yaml" --peers 2 --set mesh.division=even "${LOCAL[@]}"
done
finished 120 three-a three-b
[ "$(result once-a params_sha256)" != "$(result 1x1-0 params_sha256)" ] || fail "local steps change nothing"
awk -v each="$(result once-a tx_bytes)" -v three="$(result three-a tx_bytes)" \
    'BEGIN { printf "bytes with one step to an exchange: %.2f times\n", each / three; exit !(each / three > 2) }' ||
    fail "$(result once-a tx_bytes) bytes with one step to an exchange, $(result three-a tx_bytes) with three"

LOCAL+=(--set mesh.audit=0.3 --set train.recompute=yes --set mesh.division=even)
for name in a b c; do
    node $name "$WORK/job.yaml" --peers 3 "${LOCAL[@]}"
done
wait_until 60 "step 20 at b" reached 20 b
kill_node b
node b "$WORK/job.yaml" "${LOCAL[@]}"
finished 120 a b c
same_hash 1x1-0 a b c
[ "$(result a audits)" -gt 0 ] || fail "a audited nobody"
"$MESHNODE" verify "$WORK/a" "$WORK/b" "$WORK/c" || fail "verify"

# Spans of 12 steps, or with topk from step 4 on. Step 30 is in one of them, after its first round.
moments() { # NAME OPTION ...
    local way=$1 name
    shift
    set -- --set train.local_steps=3 --set train.block_momentum=0.5 --set mesh.compress_span=12 "$@"
    train_on "$way-" 1x1 "$WORK/job.yaml" "$@"
    train_on "$way-" 2x2 "$WORK/job.yaml" "$@"
    for name in "$way"-{a,b,c}; do
        WHERE[$name]="env MESHNODE_FAIL=compute:1+:sleep=20"
        MESHNODE=$FAILNODE node "$name" "$WORK/job.yaml" --peers 3 --set mesh.division=even "$@"
    done
    wait_until 60 "a round within a span" reached 30 "$way"-{a,b,c}
    kill_node "$way-b"
    wait_until 60 "the span to be computed again" grep -q "steps again" "$WORK/$way-a.log"
    MESHNODE=$FAILNODE node "$way-b" "$WORK/job.yaml" --set mesh.division=even "$@"
    finished 120 "$way"-{a,b,c}
    same_hash "$way-1x1-0" "$way"-{a,b,c}
    "$MESHNODE" verify "$WORK/$way-a" "$WORK/$way-b" "$WORK/$way-c" || fail "$way: verify"
}
moments adamw --set train.optimizer=adamw --set train.optimizer.adamw.rate=0.01
moments lion --set train.optimizer=lion --set train.optimizer.lion.rate=0.001 --set mesh.compress=topk \
    --set mesh.compress.topk.bits=2 --set mesh.compress_warmup=4

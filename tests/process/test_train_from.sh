#!/bin/bash
# test_train_from.sh - train.from: a run that starts from a checkpoint of another one goes on with its weights, optimizer
# and steps. So the same job cut in two comes to the weights of one go, on one node and on two, also after a kill; and a
# run may go from exact to inexact and back. What does not fit is refused in one line.
. "$(dirname "$0")/../support/process.sh"
[ -x "$FAILNODE" ] || skip "no program $FAILNODE: make failpoints"

# In an epoch: 20 steps.
cat >"$WORK/job.yaml" <<'END'
run: {name: small, seed: 7}
data: {source: glyphs, train: 1900, test: 240}
model:
  - input: [1, 28, 28]
  - flatten
  - dense: 24
  - tanh
  - dense: 10
train:
  epochs: 1000
  steps: 72
  batch: 96
  shards: 12
  optimizer: {adam: {rate: 0.002}}
  ema: 0.9
  warmup: 8
  eval_every: 2
END

alone whole
alone a --set train.steps=33 # in the middle of an epoch
from=$WORK/a/checkpoint-33
alone b --set "train.from=$from"
same_weights whole b
grep -q "the job starts from $from, after step 33, state [0-9a-f]\{16\}$" "$WORK/b.log" || fail "b does not say where it starts"
[ "$(value "$WORK/b/metrics.jsonl" step)" = 34 ] || fail "b begins with step $(value "$WORK/b/metrics.jsonl" step)"
"$MESHNODE" verify "$WORK/b" >"$WORK/out" && grep -q "^proved: .*; 72 of 72 steps, from step 34 on, 1 whole epoch" "$WORK/out" ||
    fail "verify of b: $(cat "$WORK/out")"
echo "cut in two: $(result b params_sha256)"

# The second has the file elsewhere; it is killed, and goes on.
mkdir "$WORK/copy"
cp "$from" "$WORK/a/job.json" "$WORK/copy"
node c "$WORK/job.yaml" --peers 2 --set "train.from=$from"
killed_at_checkpoint d --peers 2 --set "train.from=$WORK/copy/checkpoint-33" --set train.checkpoint_every=4
dead d
node d "$WORK/job.yaml" --set "train.from=$from"
finished 60 c d
same_weights whole c d
node e "$WORK/job.yaml" --peers 2 --set "train.from=$from"
node f "" # is handed the job
finished 60 e f
same_hash b c d e f
echo "two nodes, one killed; and one that was handed the job: the same"

# From exact to inexact and back.
alone g --set "train.from=$from" --set train.exact=no --set train.steps=50 --set run.numerics=portable
back=$WORK/g/checkpoint-50
alone h --set "train.from=$back"
node i "$WORK/job.yaml" --peers 2 --set "train.from=$back"
node j "$WORK/job.yaml" --peers 2 --set "train.from=$back" --set train.batch=192 # another job
wait_until 20 "i to refuse j" says i "trains another job: train.batch is 192 there, 96 here"
kill_node j
node k "$WORK/job.yaml" --peers 2 --set "train.from=$back" --set mesh.division=even
finished 60 i k
same_hash h i k
alone l --set "train.from=$back" --set train.batch=192 --set train.steps=60
[ "$(value "$WORK/l/metrics.jsonl" epoch)" = 5 ] || fail "step 51 of 10 to an epoch is of epoch $(value "$WORK/l/metrics.jsonl" epoch), expected 5"
"$MESHNODE" verify "$WORK/l" >"$WORK/out" || fail "verify of l: $(cat "$WORK/out")"
echo "from inexact back to exact on one node and on two: $(result h params_sha256)"

# Its run has gone on since with other settings: job.json knows the part that the checkpoint is of.
cp "$from" "$WORK/kept"
alone a --resume --set train.steps=40 --set train.optimizer.adam.rate=0.001
cp "$WORK/kept" "$from"
alone m --set "train.from=$from"
same_hash b m

refused() { # PATTERN OPTION ...
    refuses "$1" "$WORK/job.yaml" "${@:2}" --out "$WORK/none"
    refuses "$1" check "$WORK/job.yaml" "${@:2}" --out "$WORK/none"
}
refused "job.yaml: train.from: $from: train.optimizer is adam there, sgd here; model.from takes the weights alone" \
    --set "train.from=$from" --set train.optimizer=sgd
refused "train.from: $from: train.ema is 0.9 there, 0 here" --set "train.from=$from" --set train.ema=0
refused "train.from: $from has done 33 steps, and train.steps = 20 ends with step 20: expected more" \
    --set "train.from=$from" --set train.steps=20
refused "train.from: $WORK/none: .*No such file" --set "train.from=$WORK/none"
refused "train.from: $WORK/job.yaml: .*checkpoint" --set "train.from=$WORK/job.yaml"
printf '\177' | dd of="$WORK/copy/checkpoint-33" bs=1 seek=20000 conv=notrunc status=none
refused "train.from: $WORK/copy/checkpoint-33: damaged" --set "train.from=$WORK/copy/checkpoint-33"
cp "$from" "$WORK/checkpoint-33"
refused "train.from: $WORK/checkpoint-33: no job.json beside it says which model and optimizer it is of" \
    --set "train.from=$WORK/checkpoint-33"
sed -i 's/dense: 24/dense: 25/' "$WORK/job.yaml"
refused "train.from: $from: model, layer 2: is dense: \{units: 24.* there, dense: \{units: 25.* here" --set "train.from=$from"
echo "what does not fit is refused"

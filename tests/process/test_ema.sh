#!/bin/bash
# train.ema: the average of the weights is the same on one node and three, one of which is killed and goes on from its
# checkpoint; it is what is evaluated and written, and the training itself is what it is without.
. "$(dirname "$0")/../support/process.sh"

write_job "$WORK/job.yaml" 160
reference "$WORK/job.yaml"
mv "$WORK/reference" "$WORK/plain"
reference "$WORK/job.yaml" --set train.ema=0.98

for name in a b; do
    node $name "$WORK/job.yaml" --peers 3 --set train.ema=0.98 --set train.checkpoint_every=5
done
node helps "" --peers 3
wait_until 60 "a checkpoint of b" saved 1 b
kill_node b
node b "$WORK/job.yaml" --set train.ema=0.98
finished 120 a b helps
same_hash reference a b helps
grep -q 'resumed at step' "$WORK/b.log" || fail "b did not go on from its checkpoint"

[ "$(result a params_sha256)" != "$(result plain params_sha256)" ] || fail "the average is the weights"
losses() { # NAME
    sed -n 's/.*"step": *\([0-9]*\).*"loss": *\([^,]*\).*/\1 \2/p' "$WORK/$1/metrics.jsonl" | head -n 160
}
[ "$(losses reference | wc -l)" = 160 ] || fail "$(losses reference | wc -l) lines of losses, expected 160"
[ "$(losses reference)" = "$(losses plain)" ] || fail "the average changes the training"
"$MESHNODE" eval "$WORK/job.yaml" "$WORK/a/model.safetensors" >"$WORK/eval" || fail "eval"
loss=$(printf 'loss %.6f,' "$(result a test_loss)")
grep -q "$loss" "$WORK/eval" || fail "the result has $loss the model: $(cat "$WORK/eval")"
"$MESHNODE" convert "$WORK/job.yaml" "$WORK/a/checkpoint-160" "$WORK/model" --set train.ema=0.98 || fail "convert"
"$MESHNODE" eval "$WORK/job.yaml" "$WORK/model" | cmp - "$WORK/eval" || fail "the checkpoint holds another average"
echo "test loss of the average $(result a test_loss), of the weights $(result plain test_loss)"

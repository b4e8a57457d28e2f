#!/bin/bash
# test_stages_parts.sh - nodes that hold only a part of the model come to the hash of one that holds all: without mirrors, with too
# little memory for the whole, and when the only node with a part is killed and comes back. All write the whole model at the end.
. "$(dirname "$0")/../support/process.sh"

write_job "$WORK/job.yaml" 40
reference "$WORK/job.yaml"
PARTS="--peers 3 --set mesh.stages=3 --set mesh.mirror=no --set mesh.schedule=zb"

# shellcheck disable=SC2086
for name in a b c; do
    node $name "$WORK/job.yaml" $PARTS
done
finished 60 a b c
same_hash reference a b c
for name in a b c; do
    [ -s "$WORK/$name/model.safetensors" ] || fail "$name has no model.safetensors"
    cmp -s <(tail -c 300000 "$WORK/$name/model.safetensors") <(tail -c 300000 "$WORK/reference/model.safetensors") ||
        fail "$name has another model" # its head says with which options
done
"$MESHNODE" verify "$WORK/a" "$WORK/b" "$WORK/c" >"$WORK/verify" || fail "verify: $(cat "$WORK/verify")"
echo "three nodes, each with one part of three: $(result a params_sha256)"

# Each begins with its part of a file: of the weights, or of a whole state.
for from in model.from=$WORK/reference/model.safetensors train.from=$WORK/reference/checkpoint-40; do
    key=${from%%.*}
    # shellcheck disable=SC2086
    for name in $key-a $key-b $key-c; do
        node $name "$WORK/job.yaml" $PARTS --set "$from" --set train.steps=60
    done
    finished 60 $key-a $key-b $key-c
    node $key "$WORK/job.yaml" --set mesh.gather_ms=0 --set "$from" --set train.steps=60
    finished 60 $key
    same_hash $key $key-a $key-b $key-c
done
"$MESHNODE" "$WORK/job.yaml" --set train.from="$WORK/a/checkpoint-40" --set train.steps=60 --out "$WORK/none" >"$WORK/refused" 2>&1 &&
    fail "a state of some stages was taken for a whole one"
grep -q "a checkpoint of some stages of the model only" "$WORK/refused" || fail "refused with: $(cat "$WORK/refused")"
echo "from a file of weights, and from a state: each node its part"

# Killed in the middle: the others wait for its part, and go back with it. It hangs in a step that they cannot end without it,
# however fast they are, and is killed when all have a checkpoint. 40 steps have 1440 pieces of each stage.
WHERE[e]="env MESHNODE_FAIL=piece:1000:hang"
# shellcheck disable=SC2086
for name in d f; do
    node $name "$WORK/job.yaml" $PARTS --set train.checkpoint_every=4
done
# shellcheck disable=SC2086
MESHNODE=$FAILNODE node e "$WORK/job.yaml" $PARTS --set train.checkpoint_every=4
WHERE[e]=
wait_until 60 "some steps" reached 12 d e f
wait_until 60 "their checkpoints" saved 4 d e f
kill_node e
# It meets them before its own core knows what it holds: nobody is to choose that for it again.
# shellcheck disable=SC2086
MESHNODE_FAIL=start:1:sleep=1500 MESHNODE=$FAILNODE node e "$WORK/job.yaml" $PARTS --set train.checkpoint_every=4
finished 60 d e f
same_hash reference d e f
for name in d f; do
    grep -q "may be wrong" "$WORK/$name.log" && fail "$name says that the weights may be wrong"
done
echo "the only node with a part was killed, and came back: the same"

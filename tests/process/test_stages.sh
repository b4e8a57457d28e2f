#!/bin/bash
# test_stages.sh - a model in stages on several nodes: one hash, whatever the number of stages, nodes and schedules, and the
# activations travel. A node without a job gets the number that `auto` is. A node that is killed in the middle leaves its stages to
# the others, and a run goes on with another number of stages.
. "$(dirname "$0")/../support/process.sh"

write_job "$WORK/job.yaml" 60
reference "$WORK/job.yaml"

# The bytes of activations and gradients behind the first layers, per step, are 4 * 96 * 1568; those of all gradients are half of that.
ITEMS=$((4 * 96 * 1568))
in_stages() { # NAME: most steps sent more than the items across one cut in one direction
    local steps
    steps=$(sed -n 's/.*"tx_bytes":\([0-9]*\).*/\1/p' "$WORK/$1/metrics.jsonl" | awk -v least=$ITEMS '$1 > least' | wc -l)
    [ "$steps" -gt 40 ] || fail "$1 sent activations in $steps of 60 steps"
}

node a "$WORK/job.yaml" --peers 2 --set mesh.stages=3 --set mesh.schedule=gpipe
node b "$WORK/job.yaml" --peers 2 --set mesh.stages=3 --set mesh.schedule=1f1b
finished 60 a b
same_hash reference a b
in_stages a
in_stages b
echo "two nodes, three stages: $(result a params_sha256)"

for name in c d e; do
    node $name "$WORK/job.yaml" --peers 3 --set mesh.stages=2
done
finished 60 c d e
same_hash reference c d e
in_stages c
echo "three nodes, two stages: the same"

# One of three dies in mid-run: the other two have all three stages from then on.
[ ! -x "$FAILNODE" ] || {
    killed_at_checkpoint h --peers 3 --set mesh.stages=3 --set train.checkpoint_every=20
    for name in i j; do
        node $name "$WORK/job.yaml" --peers 3 --set mesh.stages=3
    done
    dead h
    finished 60 i j
    same_hash reference i j
    [ "$(result i peers_max)" = 3 ] || fail "i trained with $(result i peers_max) nodes, expected 3"
    echo "three nodes, three stages, one killed: the same"
}

# All activations do not fit into memory, so there are stages; f says how many, and g, which has no job, takes that number.
node f "$WORK/job.yaml" --peers 2 --set mesh.stages=auto --set train.memory_max=72
node g "" --peers 2
finished 60 f g
same_hash reference f g
in_stages f
grep -q 'stages: 2' "$WORK/g/job.json" || fail "g was told another number of stages: $(cat "$WORK/g/job.json")"
echo "as many as fit into memory: the same"

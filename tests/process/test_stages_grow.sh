#!/bin/bash
# test_stages_grow.sh - three nodes with memory for a part of the model each. One comes back with memory for all: it takes what it does
# not hold from the others, who go on. Then both die for good, and it trains on alone, to the hash of one node.
. "$(dirname "$0")/../support/process.sh"

cat >"$WORK/job.yaml" <<END
run: {name: wide, seed: 3}
data: {source: glyphs, train: 480, test: 48}
model: [flatten, dense: 512, relu, dense: 512, relu, dense: 512, relu, dense: 512, relu, dense: 10]
train: {epochs: 1000, batch: 48, shards: 4, steps: 300, eval_every: 0, checkpoint_every: 4, optimizer: {sgd: 0.05}}
END
reference "$WORK/job.yaml"

for name in a b c; do
    node $name "$WORK/job.yaml" --peers 3 --set mesh.stages=3 --set train.memory_max=60
done
wait_until 60 "some steps" reached 8 a b c
grep -q "this node holds . of 5 segments" "$WORK/a.log" || fail "a holds all of the model"
kill_node a
node a "$WORK/job.yaml" --peers 3 --set mesh.stages=3
grown() {
    grep -q "holds the whole model now" "$WORK/a.log"
}
wait_until 30 "a to take the rest" grown
step=$(steps_done a)
kill_node b
kill_node c
finished 120 a
same_hash reference a
[ "$step" -lt 300 ] || fail "the others died too late"
echo "grown at step $step, and then alone: $(result a params_sha256)"

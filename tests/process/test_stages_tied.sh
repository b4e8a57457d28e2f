#!/bin/bash
# test_stages_tied.sh - a small GPT whose last layer uses the weights of the embedding, in stages on several nodes: one hash with
# each schedule, and when a node is killed in the middle of a round.
. "$(dirname "$0")/../support/process.sh"

seq 3000 >"$WORK/text"
cat >"$WORK/job.yaml" <<EOF_JOB
run: {name: tied, seed: 3}
data: {source: text, dir: $WORK, file: text, context: 32}
model:
  - embedding: {units: 32, tokens: 256}
  - positions: learned
  - residual: [layernorm, dense: 96, attention: 4, dense: 32]
  - residual: [layernorm, dense: 128, gelu: tanh, dense: 32]
  - residual: [layernorm, dense: 96, attention: 4, dense: 32]
  - dropout: 0.1
  - layernorm
  - dense: {units: 256, bias: no, tied: yes}
train:
  epochs: 1000
  steps: 60
  eval_every: 0
  batch: 16
  shards: 8
  optimizer: {adamw: {rate: 0.003}}
  clip_norm: 1
EOF_JOB
reference "$WORK/job.yaml"

for rule in gpipe 1f1b zb; do
    for name in a b c; do
        node $rule-$name "$WORK/job.yaml" --peers 3 --set mesh.stages=3 --set mesh.schedule=$rule
    done
    finished 60 $rule-a $rule-b $rule-c
    same_hash reference $rule-a $rule-b $rule-c
done
echo "three nodes, three stages, each schedule: $(result zb-a params_sha256)"

# Two groups of two nodes; the others of both groups take what is missing in the same round.
[ ! -x "$FAILNODE" ] || {
    for at in 30 41 52; do # few: who is slow may get a shard or two
        WHERE["k$at"]="env MESHNODE_FAIL=piece:$at:kill"
        MESHNODE=$FAILNODE node k$at "$WORK/job.yaml" --peers 4 --set mesh.stages=3
        for name in x y z; do
            node $name$at "$WORK/job.yaml" --peers 4 --set mesh.stages=3
        done
        dead k$at
        finished 60 x$at y$at z$at
        same_hash reference x$at y$at z$at
    done
    echo "four nodes, one killed in the middle of a round: the same"
}

#!/bin/bash
# test_stages.sh - a model in stages on several nodes: one hash, whatever the number of stages, nodes and schedules, and the
# activations travel. A node without a job gets the number that `auto` is. A node that is killed in the middle leaves its stages to
# the others, and weights that change in memory spoil nobody's.
. "$(dirname "$0")/../support/process.sh"

write_job "$WORK/job.yaml" 60
reference "$WORK/job.yaml"

# Behind the first layers there are 1568 activations of each of the 96 samples of a step. All gradients are half as many bytes.
ITEMS=$((4 * 96 * 1568))
in_stages() { # NAME ...: in most steps one of them sent more than these activations; all say which stages they computed
    local steps name
    steps=$(cd "$WORK" && sed -n 's/.*"step":\([0-9]*\).*"tx_bytes":\([0-9]*\).*/\1 \2/p' "${@/%//metrics.jsonl}" |
        awk -v least=$ITEMS '$2 > least && !had[$1]++' | wc -l)
    [ "$steps" -gt 40 ] || fail "$* sent activations in $steps of 60 steps"
    for name in "$@"; do
        steps=$(grep -c '"pipeline":{"stages":[23],"mine":\[[0-9,]*\],"round_s":0[^}]*"sent_bytes":[1-9]' "$WORK/$name/metrics.jsonl")
        [ "$steps" -gt 40 ] || fail "$name says in $steps of 60 steps what it did of its stages"
    done
}

for schedule in gpipe 1f1b zb; do
    for name in a$schedule b$schedule c$schedule; do
        node $name "$WORK/job.yaml" --peers 3 --set mesh.stages=3 --set mesh.schedule=$schedule
    done
    finished 60 a$schedule b$schedule c$schedule
    same_hash reference a$schedule b$schedule c$schedule
    in_stages a$schedule b$schedule c$schedule
    "$MESHNODE" verify "$WORK/a$schedule" "$WORK/b$schedule" "$WORK/c$schedule" >"$WORK/verify" ||
        fail "verify: $(cat "$WORK/verify")"
    echo "three nodes, three stages, $schedule: $(result a$schedule params_sha256)"
done

# Evaluations go through the stages, too: of the average of the weights, with what crosses a cut rounded.
MORE="--set mesh.stages=3 --set mesh.activations=bf16"
write_job "$WORK/average.yaml" 40 "eval_every: 1" "ema: 0.9"
# shellcheck disable=SC2086
node alone "$WORK/average.yaml" $MORE --set mesh.gather_ms=0
finished 60 alone
for name in d e g3; do
    # shellcheck disable=SC2086
    node $name "$WORK/average.yaml" --peers 3 $MORE
done
finished 60 d e g3
same_hash alone d e g3
[ "$(grep -c '"test_loss"' "$WORK/d/metrics.jsonl")" -ge 2 ] || fail "d has no evaluations on the way"
echo "evaluations of an average: test loss $(result d test_loss)"

for size in 2-3 3-2; do
    for name in $(seq -f "n$size-%g" "${size%-*}"); do
        node "$name" "$WORK/job.yaml" --peers "${size%-*}" --set mesh.stages="${size#*-}"
    done
    finished 60 $(seq -f "n$size-%g" "${size%-*}")
    same_hash reference $(seq -f "n$size-%g" "${size%-*}")
    echo "${size%-*} nodes, ${size#*-} stages: the same"
done

# Weights change in memory while a node computes: what it made of them goes to no other stage. Bits of the large layer, which one
# of the three has.
flips() { # SEED
    local at rule=""
    RANDOM=$1
    for at in 300 600 900 1200; do
        rule+=,piece:$((at + RANDOM % 100)):flip=$((60000 + (RANDOM << 15 | RANDOM) % 2000000))
    done
    echo "env MESHNODE_FAIL=${rule#,}"
}
[ ! -x "$FAILNODE" ] || {
    for name in k l m; do
        WHERE[$name]=$(flips ${#PID[@]})
        MESHNODE=$FAILNODE node $name "$WORK/job.yaml" --peers 3 --set mesh.stages=3
    done
    finished 60 k l m
    same_hash reference k l m
    cat "$WORK"/[klm].log | grep -q "the weights changed in memory" || fail "no weights changed"
    echo "bits that flip in weights: the same"
}

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
    [ "$(grep -c '^stages: 1 .*; 2 .*; 3 ' "$WORK/i.log")" -ge 2 ] || fail "i does not say who has the stages then"
    echo "three nodes, three stages, one killed: the same"
}

# All activations do not fit into memory, so there are stages; f says how many, and g, which has no job, takes that number.
node f "$WORK/job.yaml" --peers 2 --set mesh.stages=auto --set train.memory_max=64
node g "" --peers 2
finished 60 f g
same_hash reference f g
grep -q 'stages: 3' "$WORK/g/job.json" || fail "g was told another number of stages: $(cat "$WORK/g/job.json")"
echo "as many as fit into memory: the same"

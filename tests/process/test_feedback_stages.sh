#!/bin/bash
# test_feedback_stages.sh - codecs with memory and a model in stages: what a stage leaves out of a shard is with the node that computes
# it. One hash for any grid of nodes and stages, and through deaths within a span, also where nodes hold only a part of the model.
# Two codecs a day, deaths with one of them.
. "$(dirname "$0")/../support/process.sh"

STEPS=72
write_job "$WORK/job.yaml" $STEPS "eval_every: 1" "checkpoint_every: 8"
sed -i 's/  - dense: 10/  - dense: 64\n  - tanh\n  - dense: 40\n  - tanh\n  - dense: 10/' "$WORK/job.yaml" # weights to code in each stage

start() { # NAME CODEC OPTION ...
    node "$1" "$WORK/job.yaml" --set mesh.compress="$2" --set mesh.compress_warmup=4 --set mesh.compress_span=16 "${@:3}"
}

waits() { # NAME ...: of each span the square of what waited until its last step, on all of these
    sed -n 's/.*"step":\([0-9]*\),.*"residual_norm":\([0-9.e-]*\).*/\1 \2/p' "${@/%//metrics.jsonl}" |
        awk '{sum[$1] += $2 * $2} END {for (step in sum) printf "%d %.5g\n", step, sum[step]}' | sort -n
}

mapfile -t codecs < <(today 2 topk onebit randk powersgd)
for codec in "${codecs[@]}"; do
    start one-$codec $codec --set mesh.gather_ms=0
    finished 60 one-$codec
    for grid in 2x1 3x1 2x2; do
        names=$(seq -f "$codec-$grid-%g" $((${grid%x*} * ${grid#*x})))
        for name in $names; do
            start "$name" $codec --peers "$(wc -w <<<"$names")" --set mesh.stages="${grid%x*}"
        done
        # shellcheck disable=SC2086
        finished 60 $names
        # shellcheck disable=SC2086
        same_hash one-$codec $names
    done
    # What waits is divided among nodes, and nothing is twice.
    (cd "$WORK" && cmp -s <(waits one-$codec) <(waits $codec-3x1-{1,2,3})) ||
        fail "$codec: three in line have $(cd "$WORK" && waits $codec-3x1-{1,2,3} | tr '\n' ' '), one has $(cd "$WORK" && waits one-$codec | tr '\n' ' ')"
    divided=$((${divided:-0} + $(grep -l residual_norm "$WORK/$codec"-3x1-?/metrics.jsonl | wc -l)))
    echo "$codec: one node, two and three in line, and two by two come to $(result one-$codec params_sha256)"
done
[ "$divided" -gt $((${#codecs[@]} * 5 / 4)) ] || fail "of ${#codecs[@]} grids of three nodes in line, $divided nodes had something that waits"
"$MESHNODE" verify "$WORK/${codecs[0]}-2x2-1" "$WORK/${codecs[0]}-2x2-4" >"$WORK/verify" || fail "verify: $(cat "$WORK/verify")"

# What happens does so in mid-run, if pieces take longer. Step 30 is in the span from 20 on.
[ -x "$FAILNODE" ] || { echo "no program with failpoints: make failpoints"; exit 77; }
slow() { # NAME CODEC OPTION ...
    MESHNODE_FAIL=piece:1+:sleep=1 MESHNODE=$FAILNODE start "$@"
}
again() { # NAME
    grep -h -o "a node that had shards.*" "$WORK/$1.log"
}

# Stages go to those who are fast, and a node may be left without one: nothing is lost with it.
one_with_shards() { # NAME ...: VICTIM
    for VICTIM; do
        ! tail -n 1 "$WORK/$VICTIM/metrics.jsonl" | grep -q '"mine":\[[0-9]' || return 0
    done
    fail "none of $* has a stage"
}

for codec in $(today 1 "${codecs[@]}"); do
    names="a-$codec b-$codec c-$codec d-$codec"
    for name in $names; do
        slow "$name" $codec --peers 4 --set mesh.stages=2
    done
    # shellcheck disable=SC2086
    wait_until 60 "a step within a span" reached 30 $names
    one_with_shards b-$codec c-$codec d-$codec
    kill_node "$VICTIM"
    wait_until 60 "the span to be computed again" grep -q "steps again" "$WORK/a-$codec.log"
    slow e-$codec $codec --set mesh.stages=2 # joins
    names="${names/$VICTIM/} e-$codec"
    # shellcheck disable=SC2086
    finished 60 $names
    # shellcheck disable=SC2086
    same_hash one-$codec $names
    echo "$codec: one of two by two was killed within a span: $(again a-$codec | head -1)"
done

# The only node with a part of the model, and of what waits, is killed and comes back.
for codec in $(today 1 "${codecs[@]}"); do
    names="f-$codec g-$codec h-$codec"
    for name in $names; do
        slow "$name" $codec --peers 3 --set mesh.stages=3 --set mesh.mirror=no
    done
    # shellcheck disable=SC2086
    wait_until 60 "a step within a span" reached 30 $names
    one_with_shards g-$codec h-$codec
    kill_node "$VICTIM"
    slow "$VICTIM" $codec --peers 3 --set mesh.stages=3 --set mesh.mirror=no
    # shellcheck disable=SC2086
    finished 60 $names
    # shellcheck disable=SC2086
    same_hash one-$codec $names
    again f-$codec >/dev/null || fail "f-$codec computed no steps again"
    echo "$codec: the only node with a part was killed within a span, and came back: the same"
done

#!/bin/bash
# test_matrix.sh [all | DRAW] - one job on 1, 2, 3, 4 and 8 nodes with 1 and 2 threads each: one hash of the
# weights, one of the whole state. Without "all", four combinations besides the first; the day
# draws which, so that every one of them comes up. Then one mesh with a node of each instruction set that this CPU has.
. "$(dirname "$0")/../support/process.sh"
COMBINATIONS=(2x1 3x1 4x1 8x1 1x2 2x2 3x2 4x2 8x2)
DRAW=${1:-$DAY}

write_job "$WORK/job.yaml" 60 "eval_every: 1"
chosen=("${COMBINATIONS[@]}")
if [ "$DRAW" != all ]; then
    chosen=()
    for part in 0 2 4 7; do
        chosen+=("${COMBINATIONS[$(((DRAW + part) % 9))]}")
    done
fi

train_on() { # NODES x THREADS
    local nodes=${1%x*} threads=${1#*x} names=() index
    for ((index = 0; index < nodes; index++)); do
        names+=("$1-$index")
        node "$1-$index" "$WORK/job.yaml" --peers "$nodes" --threads "$threads"
    done
    finished 120 "${names[@]}"
    same_hash 1x1-0 "${names[@]}"
    for index in "${names[@]}"; do
        [ "$(result "$index" peers_max)" = "$nodes" ] ||
            fail "$index trained with $(result "$index" peers_max) nodes, expected $nodes"
    done
    echo "$nodes nodes of $threads threads: $(result "$1-0" params_sha256)"
}

for combination in 1x1 "${chosen[@]}"; do
    train_on "$combination"
done
cat "$WORK"/*/result.json | tr ',' '\n' | grep -c params_sha256 | sed 's/$/ results, one hash/'

sets=()
for set in base avx2 avx512; do
    if MESHNODE_SIMD=$set "$MESHNODE" --version >/dev/null 2>&1; then
        sets+=("$set")
    fi
done
MESHNODE_SIMD=base reference "$WORK/job.yaml" --set run.numerics=portable
for set in "${sets[@]}"; do
    MESHNODE_SIMD=$set node "$set" "$WORK/job.yaml" --peers "${#sets[@]}" --set run.numerics=portable
done
finished 120 "${sets[@]}"
same_hash reference "${sets[@]}"
echo "nodes of ${sets[*]} in one mesh: $(result "${sets[0]}" params_sha256)"

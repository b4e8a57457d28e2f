#!/bin/bash
# test_counting.sh [ACCIDENTS] [SEED] - three nodes train the counting model (nn/data/data_counting.c) while one after
# the other is killed with -9 and started again, empty or from its checkpoint; then all are killed at once and
# start again from their checkpoints. Every weight of every node must be the number of epochs: no sample was
# lost, none was used twice; and `meshnode verify` comes to the same from what they wrote.
. "$(dirname "$0")/../support/process.sh"
ACCIDENTS=${1:-6}
RANDOM=${2:-1}
STEPS_APART=200 # about 0.4 s
EPOCHS=$(((ACCIDENTS + 3) * STEPS_APART / 10))
NAMES=(a b c)

count() { # NAME [OPTION ...]
    local name=$1
    shift
    node "$name" "$ROOT/configs/counting.yaml" --set "train.epochs=$EPOCHS" --set train.checkpoint_every=50 "$@"
}

somebody_at() { # STEP
    local name
    for name in "${NAMES[@]}"; do
        if reached "$1" "$name"; then
            return 0
        fi
    done
    return 1
}

for name in "${NAMES[@]}"; do
    count "$name" --peers 3
done
for ((accident = 1; accident <= ACCIDENTS; accident++)); do
    victim=${NAMES[$((RANDOM % 3))]}
    resume=$([ $((RANDOM % 2)) = 0 ] || echo --resume)
    wait_until 60 "step $((accident * STEPS_APART))" somebody_at $((accident * STEPS_APART))
    kill_node "$victim"
    # shellcheck disable=SC2086
    count "$victim" $resume
    echo "killed $victim after step $((accident * STEPS_APART)), started again ${resume:-empty}"
done
wait_until 60 "step $((accident * STEPS_APART))" somebody_at $((accident * STEPS_APART))
for name in "${NAMES[@]}"; do
    kill -9 "${PID[$name]}"
done
for name in "${NAMES[@]}"; do
    wait "${PID[$name]}" 2>/dev/null
    count "$name" --resume
done
echo "killed all after step $((accident * STEPS_APART)), started again --resume"
finished 60 "${NAMES[@]}"
same_hash "${NAMES[@]}"
"$MESHNODE" verify "$WORK/a" "$WORK/b" "$WORK/c" || fail "verify"
for name in "${NAMES[@]}"; do
    "$ROOT/tests/support/counts.py" "$WORK/$name/model.safetensors" "$EPOCHS" || fail "$name miscounted"
done

#!/bin/bash
# test_repair.sh [SEED] - checkpoints that are damaged. Four times four nodes kill themselves when their first checkpoint is
# safe, and start again in random order, without being told to resume:
#   - every copy of the only checkpoint damaged, each in other places: all four are restored, byte for byte;
#   - the newest damaged on all but one node, or torn, or replaced: the run goes on from the whole one, and the
#     last copy is restored although the others have begun to train, and although the page comes late;
#   - the same page damaged everywhere: all four stop with a report and change nothing.
# What ends must end with the weights of a run without any accident.
. "$(dirname "$0")/../support/process.sh"
[ -x "$FAILNODE" ] || skip "no program $FAILNODE: make failpoints"
RANDOM=${1:-1}
STEPS=120
PAGE=65536
NODES=(a b c d)

write_job "$WORK/job.yaml" $STEPS
reference "$WORK/job.yaml"

start_all() { # OPTION ...; in random order
    local name
    for name in $(shuf -e "${NODES[@]}" --random-source=<(yes $RANDOM)); do
        node "$name" "$WORK/job.yaml" --peers 4 --set train.checkpoint_every=1000 "$@" # none by time, which removes old ones
    done
}

# Train until all have checkpoint-30 and have killed themselves.
crash() {
    local name
    for name in "${NODES[@]}"; do
        rm -rf "${WORK:?}/$name"
        killed_at_checkpoint "$name" --peers 4 --set train.checkpoint_every=30
    done
    for name in "${NODES[@]}"; do
        dead "$name"
    done
    for name in "${NODES[@]}"; do
        cmp "$WORK/$name/checkpoint-30" "$WORK/a/checkpoint-30" || fail "checkpoints differ"
    done
    cp "$WORK/a/checkpoint-30" "$WORK/whole"
    LAST=$((($(stat -c %s "$WORK/whole") - 113) / PAGE)) # of the pages before the trailer
    [ $LAST -ge 7 ] || fail "a checkpoint of $LAST pages is too small for this test"
}

flip() { # NAME OFFSET: one bit, from the end when negative
    local file=$WORK/$1/checkpoint-30 at=$2 byte
    [ "$at" -ge 0 ] || at=$(($(stat -c %s "$file") + at))
    byte=$(od -An -tu1 -j "$at" -N 1 "$file")
    printf "\\x$(printf %x $((byte ^ 1 << RANDOM % 8)))" |
        dd of="$file" bs=1 seek="$at" conv=notrunc status=none
}

restored() { # NAME
    cmp -s "$WORK/$1/checkpoint-30" "$WORK/whole"
}

echo "every copy damaged"
crash
flip a $((RANDOM % PAGE))        # the page that says what the file is
flip b -$((1 + RANDOM % 112))    # the trailer, which says it, too
truncate -s $((5 * PAGE + 100)) "$WORK/c/checkpoint-30"
flip c $((3 * PAGE + 5))         # and with that page 3 and those from 5 on
flip d $((1 * PAGE + RANDOM % PAGE))
flip d $((4 * PAGE + RANDOM % PAGE))
start_all
finished 120 "${NODES[@]}"
same_hash reference "${NODES[@]}"
for name in "${NODES[@]}"; do
    restored "$name" || fail "$name was not restored: $(cat "$WORK/$name.log")"
    grep -q 'checkpoint of step 30 restored: [1-9]' "$WORK/$name.log" || fail "$name does not say so"
    grep -q 'resumed at step 30' "$WORK/$name.log" || fail "$name resumed elsewhere"
done

echo "the newest damaged on all but one"
crash
flip a $((2 * PAGE + 7))
truncate -s 0 "$WORK/b/checkpoint-30"
cp "$WORK/reference/checkpoint-$STEPS" "$WORK/c/checkpoint-30"
start_all
finished 120 "${NODES[@]}"
same_hash reference "${NODES[@]}"
for name in "${NODES[@]}"; do
    restored "$name" || fail "$name was not restored: $(cat "$WORK/$name.log")"
done

echo "a page that comes late, while a node without the file is as far"
crash
rm -r "$WORK/a" "$WORK/c"
flip b $((2 * PAGE + 7))
# only d has the page, and it keeps b waiting; c has the state alone
MESHNODE_FAIL=page-read:1:sleep=3000 MESHNODE=$FAILNODE node d "$WORK/job.yaml" --peers 3
node c "$WORK/job.yaml" --peers 3
wait_until 60 "c to have the state of d" grep -q 'caught up' "$WORK/c.log"
node b "$WORK/job.yaml" --peers 3 --set train.checkpoint_every=1000
finished 120 b c d
same_hash reference b c d
restored b || fail "b was not restored: $(cat "$WORK/b.log")"

echo "the same page damaged everywhere"
crash
for name in "${NODES[@]}"; do
    flip "$name" $((6 * PAGE + RANDOM % PAGE))
    cp "$WORK/$name/checkpoint-30" "$WORK/$name.before"
done
start_all
wait_until 60 "all to stop" gone "${NODES[@]}"
for name in "${NODES[@]}"; do
    wait "${PID[$name]}"
    status=$?
    unset "PID[$name]"
    [ $status = 1 ] || fail "$name ended with status $status, expected 1"
    grep -q 'no whole checkpoint.*--fresh' "$WORK/$name.log" || fail "$name does not say why"
    grep -q '1 of .* pages are damaged here and on every other node, page 6' "$WORK/$name.log" ||
        fail "$name does not say which page"
    cmp -s "$WORK/$name/checkpoint-30" "$WORK/$name.before" || fail "$name changed its checkpoint"
    [ ! -e "$WORK/$name/result.json" ] || fail "$name has a result"
done
start_all --fresh
finished 120 "${NODES[@]}"
same_hash reference "${NODES[@]}"
echo "restored, resumed, refused"

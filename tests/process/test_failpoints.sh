#!/bin/bash
# test_failpoints.sh - the plain program knows no failpoint; in the other build each rule does what it says, and
# wrong rules are refused. FAILNODE names the program of `make failpoints`.
. "$(dirname "$0")/../support/process.sh"
[ -x "$FAILNODE" ] || skip "no program $FAILNODE: make failpoints"

points=$("$FAILNODE" --failpoints | awk '{print $1}')
[ "$(wc -w <<<"$points")" -ge 40 ] || fail "only these points: $points"
for type in $(sed -n 's/^MESSAGE(\([A-Z]*\), .*/\L\1/p' "$ROOT/proto/messages.def"); do
    for stage in send sent got taken; do
        grep -qx "$type-$stage" <<<"$points" || fail "no point $type-$stage"
    done
done
"$MESHNODE" --failpoints >/dev/null 2>&1 && fail "the plain program has --failpoints"
nm "$MESHNODE" | grep -E ' (fail_hit|fail_message|fail_open)$' && fail "the plain program has failpoints"
strings "$MESHNODE" | grep -E 'MESHNODE_FAIL|failpoint|bucket-told|plan-sent|dir-sync' &&
    fail "the plain program holds names of failpoints"

write_job "$WORK/job.yaml" 20
reference "$WORK/job.yaml"
MESHNODE=$FAILNODE

one() { # NAME RULES
    export MESHNODE_FAIL=$2
    node "$1" "$WORK/job.yaml" --set mesh.gather_ms=0 --set train.checkpoint_every=5 --set "mesh.group=$GROUP-$1"
    unset MESHNODE_FAIL
}

said() { # NAME TEXT
    grep -q "$2" "$WORK/$1.log"
}

stopped() { # NAME
    grep -q '^State:.*T' "/proc/${PID[$1]}/status"
}

one killed applied:7:kill
wait_until 30 "the node to kill itself" gone killed
wait "${PID[killed]}"
[ $? = 137 ] || fail "applied:7:kill did not kill"
unset "PID[killed]"
[ "$(steps_done killed)" = 6 ] || fail "killed after $(steps_done killed) steps, expected 6"

one stopped commit:3:stop
wait_until 30 "the node to stop itself" stopped stopped
kill -CONT "${PID[stopped]}"
finished 30 stopped
same_hash reference stopped

one hung commit:3:hang
wait_until 30 "the node to hang" said hung "failpoint commit 3: hang"
running hung || fail "a hung node ended"
kill_node hung

one full file-write:2:error # 1: job.json
finished 30 full
said full "No space left on device" || fail "file-write:2:error did not fail the call"
same_hash reference full

one flipped applied:3:flip=77
finished 30 flipped
[ "$(result flipped state_sha256)" != "$(result reference state_sha256)" ] || fail "flip changed nothing"

began=$(date +%s%N)
one slow commit:18+:sleep=200
finished 60 slow
[ $(($(date +%s%N) - began)) -ge 600000000 ] || fail "commit:18+:sleep=200 did not sleep three times"
[ "$(grep -c "failpoint commit .*: sleep" "$WORK/slow.log")" = 1 ] || fail "a sleep is told more than once, or never"
same_hash reference slow

for rule in nowhere:1:kill applied:0:kill applied:x:kill applied:1 applied:1:burn applied:1:kill=3 applied:1:flip=x \
    applied:1:flip= applied:1:sleep applied:1:sleep=60001 applied ,; do
    MESHNODE_FAIL=$rule "$MESHNODE" --version >"$WORK/refused.log" 2>&1
    [ $? = 2 ] || fail "the rule '$rule' is accepted"
    grep -q "MESHNODE_FAIL: '" "$WORK/refused.log" || fail "the rule '$rule' is refused without a reason"
done
echo "$(wc -w <<<"$points") points, none in the plain program"

#!/bin/bash
# test_disk.sh [SECONDS] - a disk that is full, for a while or for good, and a folder that is taken. Three nodes train, one
# of them writes into a small tmpfs (root). While it is full nobody stops: the node says so, in every step's
# object, too; when there is room again it writes checkpoints, and all end with the weights of a run without any
# accident. When it stays full to the end, that node alone ends with status 1 and says why; a restart with room
# goes on from the newest checkpoint.
#
# With SECONDS the disk stays full for so long, in a job of its own that lasts, and nothing else is tried.
. "$(dirname "$0")/../support/process.sh"
STEPS=160
LONG=${1:-0}
NODES=(a b c)
KEPT=3 # checkpoints, as node/train/save.c has it

mkdir "$WORK/b"
mount -t tmpfs -o size=$((LONG > 0 ? 64 : 4))m none "$WORK/b" 2>/dev/null || skip "mounting a tmpfs needs root"
clean_disk() {
    umount -l "$WORK/b" # b may still run
}
trap 'status=$?; clean_disk; (exit $status); clean_up' EXIT

# Three nodes that share a machine may be thrice as fast as one of them alone.
if [ "$LONG" -gt 0 ]; then
    write_job "$WORK/job.yaml" $STEPS
    reference "$WORK/job.yaml"
    STEPS=$(awk -v seconds="$LONG" -v steps=$STEPS -v wall="$(result reference wall_s)" \
        'BEGIN { print int(steps + 3 * steps * seconds / wall) }')
fi
PATIENCE=$((120 + 20 * LONG))
write_job "$WORK/job.yaml" "$STEPS"
reference "$WORK/job.yaml"

is_full() {
    dd if=/dev/zero of="$WORK/b/filler" bs=64k oflag=append conv=notrunc status=none 2>/dev/null
    [ "$(df --output=avail "$WORK/b" | tail -n 1)" -eq 0 ]
}

stopped() { # NAME
    grep -q '^State:.*T' "/proc/${PID[$1]}/status"
}

# b neither writes a file nor is about to delete an old one, both of which would make room again.
idle() {
    ! compgen -G "$WORK/b/*.tmp" >/dev/null && [ "$(compgen -G "$WORK/b/checkpoint-*" | wc -l)" -le $KEPT ]
}

full_for_good() {
    local status=1
    kill -STOP "${PID[b]}"
    wait_until 10 "b to stop" stopped b
    ! idle || ! is_full || status=0
    kill -CONT "${PID[b]}"
    return $status
}

start_all() { # all compute, however busy the machine is
    local name
    for name in "${NODES[@]}"; do
        node "$name" "$WORK/job.yaml" --peers 3 --set mesh.division=even --set train.checkpoint_every=10
    done
}

has_checkpoint() {
    compgen -G "$WORK/b/checkpoint-*[0-9]" >/dev/null # not one that is being written
}

# Steps that a and b did while the disk was full; neither had ended.
full_for_long() {
    local from=$EPOCHSECONDS since
    since=$(steps_done a)
    while [ $((EPOCHSECONDS - from)) -lt "$LONG" ]; do
        running a && running b || fail "the run ended after $((EPOCHSECONDS - from)) of $LONG seconds"
        is_full # again: what b gives up is taken
        ! has_checkpoint || fail "b has a checkpoint on a full disk"
        sleep 1
    done
    [ "$(steps_done a)" -gt "$since" ] || fail "nobody trained while the disk was full"
    echo "full for $LONG s: a went from step $since to $(steps_done a) of $STEPS; b said:"
    grep -e warning "$WORK/b.log"
}

echo "full for a while"
is_full || fail "the disk is not full"
start_all
wait_until 60 "a to reach step 60" reached 60 a
wait_until 60 "b to say that its disk is full" says b 'warning: .*No space left on device; training goes on'
! has_checkpoint || fail "b has a checkpoint on a full disk"
[ "$LONG" = 0 ] || full_for_long
rm "$WORK/b/filler"
wait_until 60 "b to write a checkpoint" has_checkpoint
finished $PATIENCE "${NODES[@]}"
same_hash reference "${NODES[@]}"
says b 'checkpoint of step .* written: the disk works again' || fail "b does not say that all is well"
[ "$(result b warnings)" -ge 1 ] || fail "b's result counts no warnings"
! says a 'No space left' || fail "a, too, speaks of a full disk"
if [ "$LONG" -gt 0 ]; then
    grep -e 'the disk works again' "$WORK/b.log"
    echo "weights of b, as of one node alone: $(result b params_sha256), $(result b warnings) warnings"
    exit 0
fi

echo "a folder that is taken"
rm -rf "$WORK"/[ac] "$WORK"/b/* "$WORK/reference"
STEPS=$((6 * STEPS)) # so that there are steps left when the disk is full
write_job "$WORK/job.yaml" $STEPS
reference "$WORK/job.yaml"
start_all
wait_until 60 "step 20" reached 20 a b c
"$MESHNODE" "$WORK/job.yaml" --out "$WORK/a" --set "mesh.group=$GROUP" $LINK >"$WORK/second.log" 2>&1
[ $? = 2 ] || fail "a second node in a folder was not refused"
[ "$(wc -l <"$WORK/second.log")" = 1 ] || fail "$(cat "$WORK/second.log")"
grep -q "$WORK/a: in use by process ${PID[a]}," "$WORK/second.log" || fail "$(cat "$WORK/second.log")"

echo "full to the end"
wait_until 60 "b to write a checkpoint" has_checkpoint
wait_until 60 "the disk to be full" full_for_good
finished 120 a c
wait_until 60 "b to give up" gone b
wait "${PID[b]}"
status=$?
unset "PID[b]"
[ $status = 1 ] || fail "b ended with status $status, expected 1"
says b 'error: .*No space left on device: the results could not be written' || fail "b does not say why"
grep -q '"alarm": *"NO CHECKPOINT since step' "$WORK/b/metrics.jsonl" ||
    says b 'metrics.jsonl: No space left on device; training goes on' || fail "no alarm in b's metrics"
[ ! -e "$WORK/b/result.json" ] || fail "b has a result"
! says b '^results in' || fail "b says where its results are, but has none"
same_hash reference a c
rm "$WORK/b/filler"
node b "$WORK/job.yaml" --set mesh.gather_ms=0
finished 120 b
says b 'resumed at step [1-9]' || fail "b did not go on: $(cat "$WORK/b.log")"
same_hash reference b
echo "three nodes, one hash, one full disk"

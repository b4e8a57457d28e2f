#!/bin/bash
# test_power.sh [WAY ...] - the power fails on all machines at once, in each way to train, or in some of the day (ALL=1: all): before the first checkpoint, and twice
# after it. What was not synced is lost. Every node starts again, they go on from the newest checkpoint, end with one
# model, and the files that are left prove the run: verify or a replay. What a power cut or a failing disk leaves of a
# file is told in one line, and no such file stops a node for good.
. "$(dirname "$0")/../support/power.sh"
. "$(dirname "$0")/../support/process.sh"

[ -x "$FAILNODE" ] || skip "no program $FAILNODE: make failpoints"
disks a b c
NODES=(a b c)
write_job "$WORK/job.yaml" 80 "checkpoint_every: 4"

start_all() { # OPTION ...
    local name
    for name in "${NODES[@]}"; do
        node "$name" "$WORK/job.yaml" --peers 3 "$@"
    done
}

# So slow that the run does not end before its power is cut.
start_slow() { # OPTION ...
    local name
    for name in "${NODES[@]}"; do
        WHERE[$name]="env MESHNODE_FAIL=compute:1+:sleep=$SLEEP,piece:1+:sleep=$((SLEEP / 12))"
    done
    MESHNODE=$FAILNODE start_all "$@"
    WHERE=()
}

runs() { # NAME ...: none has ended
    local name
    for name; do
        running "$name" || fail "$WAY: $name ended: $(tail -n 3 "$WORK/$name.log")"
        [ ! -e "$WORK/$name/result.json" ] || fail "$WAY: $name was done before the power failed"
    done
}

reached_or_ended() {
    runs "${NODES[@]}"
    reached "$@"
}

saved_or_ended() {
    runs "${NODES[@]}"
    saved "$@"
}

one_cut() { # reached|saved STEP OPTION ...
    local what=$1 step=$2
    shift 2
    start_slow "$@"
    wait_until 60 "$WAY: $what step $step" "${what}_or_ended" "$step" "${NODES[@]}"
    runs "${NODES[@]}"
    power_cut "${NODES[@]}"
}

goes_on() { # from the newest checkpoint that is left
    local last
    last=$(for name in "${NODES[@]}"; do newest "$name"; done | sort -n | tail -n 1)
    [ "${last:-0}" -ge "$1" ] || fail "$WAY: checkpoints of step $1 were lost: the newest is of step ${last:-0}"
    LAST=$last
}

WAY='' SLEEP=200
power_fails() { # exact|free NAME OPTION ...
    local kind=$1 name
    WAY=$2 GROUP=t$$-$2
    shift 2
    rm -rf "$WORK"/[abc]/*
    one_cut reached 1 "$@"
    one_cut saved 4 "$@"
    goes_on 4
    if [ "$WAY" = auto ]; then
        one_cut reached 11 "$@" # which codec was chosen is on the disk before anybody goes on from it
        goes_on 10
    fi
    one_cut saved $((LAST + 8)) "$@"
    goes_on $((LAST + 8))
    start_all "$@"
    finished 120 "${NODES[@]}"
    same_hash "${NODES[@]}"
    grep -q "resumed at step $LAST\b" "$WORK"/[abc].log || fail "$WAY: nobody goes on from step $LAST"
    if [ "$kind" = free ]; then
        timeout -k 5 300 "$MESHNODE" verify --replay "$WORK"/[abc] >"$WORK/out" 2>&1 || fail "$WAY: replay: $(cat "$WORK/out")"
        grep -q "^replay: sha256 $(result a params_sha256), as in every result$" "$WORK/out" || fail "$WAY: $(cat "$WORK/out")"
    else
        "$MESHNODE" verify "$WORK"/[abc] >"$WORK/out" || fail "$WAY: verify: $(cat "$WORK/out")"
        grep -q "^proved: " "$WORK/out" || fail "$WAY: $(cat "$WORK/out")"
    fi
    echo "$WAY: $(tail -n 2 "$WORK/out" | head -n 1)"
}

servers="mesh.topology=server"
gossip="mesh.topology=gossip"
WAYS=${*:-ring $(today 4 stages servers local inexact memory auto gossip push_sum gossip-async)}
for way in $WAYS; do
    case $way in
    ring) power_fails exact ring ;;
    stages) power_fails exact stages --set mesh.stages=2 ;;
    servers) power_fails exact servers --set $servers ;;
    local) power_fails exact local --set train.local_steps=2 --set train.optimizer.sgd.momentum=0 ;;
    memory) power_fails exact memory --set mesh.compress=powersgd --set mesh.compress_span=8 --set mesh.compress_warmup=2 ;;
    auto) power_fails exact auto --set mesh.compress=auto --set mesh.compress_span=8 --set mesh.compress_warmup=10 ;;
    inexact) power_fails exact inexact --set train.exact=no ;;
    gossip) power_fails free gossip --set $gossip ;;
    push_sum) power_fails free push_sum --set $gossip --set gossip.method=push_sum ;;
    gossip-async) power_fails free gossip-async --set $gossip --set mesh.sync=async ;;
    *) fail "no way to train: $way" ;;
    esac
done

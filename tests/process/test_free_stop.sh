#!/bin/bash
# test_free_stop.sh - Ctrl-C in gossip: who is told to end saves a checkpoint first, and the others
# save it, too, and go on. When all are told, all save, and the same commands go on from there. A replay of all lives gives the
# model. Steps take 0.1 s (failpoint build), so no run ends before it is told. Who is silent while the others end goes on
# alone, ends with another model than they, and says so.
. "$(dirname "$0")/../support/process.sh"

SLOW="env MESHNODE_FAIL=compute:1+:sleep=100"
write_job "$WORK/job.yaml" 60 "checkpoint_every: 100000"

lines() { # COUNT NAME ...: each has computed so many steps
    local count=$1 name
    shift
    for name; do
        [ -e "$WORK/$name/metrics.jsonl" ] && [ "$(grep -c . "$WORK/$name/metrics.jsonl")" -ge "$count" ] || return 1
    done
}

begin() { # NAME OPTION ...: a slow node
    WHERE[$1]=$SLOW
    MESHNODE=$FAILNODE node "$1" "$WORK/job.yaml" "${@:2}"
    WHERE[$1]=
}

declare -A AT # the newest checkpoint of each when it was stopped
stopped() { # SAYS NAME ...: all were told to end, and say where they go on; STEP and OUT in SAYS are those of each
    local says=$1 name line
    shift
    wait_until 30 "$* to stop" gone "$@"
    for name; do
        wait "${PID[$name]}"
        [ $? = 130 ] || fail "$name ended with another status than 130: $(tail -n 2 "$WORK/$name.log")"
        unset "PID[$name]"
        AT[$name]=$(newest "$name")
        line=${says/STEP/${AT[$name]}}
        grep -q "${line/OUT/$WORK/$name}" "$WORK/$name.log" || fail "$name has not saved: $(tail -n 2 "$WORK/$name.log")"
    done
}
REPLICAS_SAY="the same command goes on from the checkpoint of step STEP in OUT"

# Who has the model of another node is not alone, and warns of nothing, unless it had lost all others on the way.
ended_together() { # NAME ...
    local name
    for name; do
        [ "$(result "$name" alone)" = false ] || fail "$name says that it ended alone"
        ! grep "no other node ended together" "$WORK/$name.log" || fail "$name has the model of the others"
        grep -q "going on without it, 1 node" "$WORK/$name.log" || ! grep "this one goes on alone" "$WORK/$name.log" ||
            fail "$name was not alone"
    done
}

# Each saves its own replica, and names its own step.
replicas_stop() { # WAY OPTION ...
    local way=$1 a=$1-a b=$1-b c=$1-c name computed
    shift
    GROUP=t$$-$way
    for name in $a $b $c; do begin "$name" --peers 3 --set mesh.topology=gossip "$@"; done
    wait_until 60 "$way: all to compute" lines 2 $a $b $c
    kill -INT "${PID[$c]}"
    stopped "$REPLICAS_SAY" $c
    wait_until 30 "$way: the others to save, too" all_have_saved $a $b
    begin $c --set mesh.topology=gossip "$@"
    computed=$(grep -c . "$WORK/$c/metrics.jsonl")
    wait_until 60 "$way: $c to compute again" lines $((computed + 1)) $c
    kill -INT "${PID[$a]}" "${PID[$b]}" "${PID[$c]}"
    stopped "$REPLICAS_SAY" $a $b $c
    for name in $a $b $c; do node "$name" "$WORK/job.yaml" --peers 3 --set mesh.topology=gossip "$@"; done
    finished 120 $a $b $c
    same_hash $a $b $c
    ended_together $a $b $c
    grep -q "resumed at step ${AT[$a]}\b" "$WORK/$a.log" || fail "$way: $a goes on from another step: $(cat "$WORK/$a.log")"
    timeout -k 5 300 "$MESHNODE" verify --replay "$WORK/$a" "$WORK/$b" "$WORK/$c" >"$WORK/out" 2>&1 ||
        fail "replay: $(cat "$WORK/out")"
    grep -q "^replay: sha256 $(result $a params_sha256), as in every result$" "$WORK/out" || fail "$(cat "$WORK/out")"
    echo "$way: stopped, and went on; $(tail -n 1 "$WORK/out")"
}

all_have_saved() { # NAME ...
    local name
    for name; do [ -n "$(newest "$name")" ] || return 1; done
}

replicas_stop ring --set gossip.graph=ring
replicas_stop push_sum --set gossip.method=push_sum
replicas_stop pairs --set mesh.sync=async

# c is silent from its sixth step on, until a and b have ended.
goes_on_alone() { # WAY OPTION ...
    local way=$1 a=alone-$1-a b=alone-$1-b c=alone-$1-c name
    shift
    GROUP=t$$-alone-$way
    for name in $a $b; do WHERE[$name]="env MESHNODE_FAIL=compute:1+:sleep=40"; done
    WHERE[$c]="env MESHNODE_FAIL=compute:6:stop"
    for name in $a $b $c; do MESHNODE=$FAILNODE node $name "$WORK/job.yaml" --peers 3 --set train.steps=20 "$@"; done
    wait_until 60 "$way: c to be silent" held $c
    finished 60 $a $b
    ended_together $a $b
    kill -CONT "${PID[$c]}"
    finished 60 $c
    grep -q "^warning: step [0-9]* of 20: all other nodes are gone, and this one goes on alone. If they go on, too, or have ended, it ends with another model than they$" \
        "$WORK/$c.log" || fail "$way: c does not say that it goes on alone"
    grep -q "^warning: no other node ended together with this one. With topology .*, any others of this run have other weights: compare their sha256$" \
        "$WORK/$c.log" || fail "$way: c does not say at its end that it was alone"
    [ "$(result $c alone)" = true ] || fail "$way: c says that it was not alone"
    [ "$(result $c params_sha256)" != "$(result $a params_sha256)" ] || fail "$way: c has the model of the others"
    echo "$way: who was silent ends alone, and says so"
}
way=$(today 1 gossip.graph=ring gossip.method=push_sum mesh.sync=async "mesh.compress=topk --set gossip.graph=ring")
# shellcheck disable=SC2086 # words
goes_on_alone gossip --set mesh.topology=gossip --set $way

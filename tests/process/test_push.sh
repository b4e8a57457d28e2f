#!/bin/bash
# Servers that do not wait (mesh.sync ssp, softsync, async): three nodes train, one is killed, another one comes late; all
# that are left have one model with evaluations on the way, no ticket is lost (the replay counts them; on a busy machine a
# node may lose all others for a while, and what it says then counts no more), and a replay of the journals gives its
# SHA-256. A missing journal, and keys that cannot go together, are said in one line.
. "$(dirname "$0")/../support/process.sh"

write_job "$WORK/job.yaml" 120 "eval_every: 1" # enough for the one who comes late, on a busy machine, too

run() { # MODE TICKETS SET...: of all steps
    local mode=$1 tickets=$2 dirs
    shift 2
    rm -rf "$WORK"/[abcd]
    node a "$WORK/job.yaml" --peers 3 --set mesh.topology=server --set mesh.sync="$mode" "$@"
    node b "$WORK/job.yaml" --peers 3 --set mesh.topology=server --set mesh.sync="$mode" "$@"
    node c "$WORK/job.yaml" --peers 3 --set mesh.topology=server --set mesh.sync="$mode" "$@"
    wait_until 60 "$mode: c to push some gradients" at_least 5 c
    node d "$WORK/job.yaml" --peers 3 --set mesh.topology=server --set mesh.sync="$mode" "$@"
    kill_node c
    finished 120 a b d
    same_hash a b d
    [ "$(result a exact)" = false ] || fail "$mode: says that the result does not depend on the nodes"
    for name in b d; do # the nodes share this, so each knows all of it
        [ "$(result $name test_loss)" = "$(result a test_loss)" ] || fail "$mode: $name has another test loss than a"
    done
    for name in a b; do # on the way, too, whoever evaluated
        [ "$(grep -c test_accuracy "$WORK/$name/metrics.jsonl")" -ge 2 ] || fail "$mode: $name has no evaluations on the way"
    done
    ! grep -h "differ after" "$WORK"/[abd].log || fail "$mode: owner and backup differ"
    timeout -k 5 300 "$MESHNODE" verify --replay "$WORK"/[abcd] >"$WORK/replay" 2>&1 ||
        fail "$mode: replay: $(cat "$WORK/replay")"
    grep -q "^replay: sha256 $(result a params_sha256), as in every result$" "$WORK/replay" ||
        fail "$mode: replay says $(cat "$WORK/replay")"
    grep -Eq "^replay: $tickets tickets, each once in each of [0-9]+ ranges$" "$WORK/replay" ||
        fail "$mode: tickets: $(cat "$WORK/replay")"
    [ "$(result a alone)" = false ] || fail "$mode: a says that it trained alone"
    echo "$mode: $(cat "$WORK/replay" | tr '\n' ' ')accuracy $(result a test_accuracy)"
}

at_least() { # COUNT NAME
    [ -e "$WORK/$2/metrics.jsonl" ] && [ "$(wc -l <"$WORK/$2/metrics.jsonl")" -ge "$1" ]
}

run async 720
timeout -k 5 300 "$MESHNODE" verify --replay "$WORK"/[ad] >"$WORK/replay" 2>&1 && fail "a replay without all journals"
grep -Eq "^meshnode: no journal says .*; the journals name 4 nodes, and they are of 2: name the results folders of all$" "$WORK/replay" || fail "$(cat "$WORK/replay")"
cp -r "$WORK/d" "$WORK/e"
printf '\377\377\377\377\377\377\377\377' | dd of="$WORK/e/journal" bs=1 seek=200 conv=notrunc status=none
"$MESHNODE" verify --replay "$WORK"/[abce] >"$WORK/replay" 2>&1 && fail "a replay of a damaged journal"
grep -Eq "^meshnode: $WORK/e/journal: damaged at byte [0-9]+ of [0-9]+: the (length, type or check|data) of a record$" "$WORK/replay" || fail "$(cat "$WORK/replay")"
"$MESHNODE" verify "$WORK"/[abd] >"$WORK/out" 2>&1 && fail "verify proves the steps of a run that did not wait"
grep -q "this was a run with topology server, sync async; .*; check it with: meshnode verify --replay DIR" "$WORK/out" || fail "$(cat "$WORK/out")"
run async 720 --set mesh.compress=int8 --set mesh.compress_warmup=4 --set mesh.pull=bf16
run ssp 720 --set mesh.staleness=1 --set mesh.ticket_shards=2
run softsync 360 --set mesh.softsync=3 --set mesh.ticket_shards=5 # the last ticket of a step has two

refused() { # PATTERN SET...
    local pattern=$1 status
    shift
    timeout -k 5 60 "$MESHNODE" check "$WORK/job.yaml" "$@" >"$WORK/out" 2>&1
    status=$?
    [ $status = 2 ] || fail "$*: status $status, expected 2"
    [ "$(wc -l <"$WORK/out")" = 1 ] || fail "$*: more than a line: $(cat "$WORK/out")"
    grep -Eq "$pattern" "$WORK/out" || fail "$*: $(cat "$WORK/out")"
}

free="--set mesh.sync=async --set mesh.topology=server"
refused "with bsp there are no tickets; leave out mesh.ticket_shards" --set mesh.ticket_shards=2
refused "mesh.sync.*a ring waits for all; set mesh.topology = server" --set mesh.sync=async
# shellcheck disable=SC2086 # a list of words
{
    refused "there are no rounds to audit; leave out mesh.audit" $free --set mesh.audit=0.1
    refused "set train.exact = yes" $free --set train.exact=no
    refused "set mesh.compress = int8, or leave it out" $free --set mesh.compress=sparse
    refused "with bsp nobody pulls; set mesh.sync = ssp, softsync or async, or leave out mesh.pull" --set mesh.pull=bf16
    refused "leave out train.clip_norm" $free --set train.clip_norm=1
    refused "set train.local_steps = 1" $free --set train.local_steps=2 --set train.optimizer.sgd.momentum=0
    refused "mesh.ticket_shards = 13, expected auto or at most train.shards = 12" $free --set mesh.ticket_shards=13
    refused "leave out mesh.staleness, or set mesh.sync = ssp" $free --set mesh.staleness=2
}

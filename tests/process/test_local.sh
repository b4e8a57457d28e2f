#!/bin/bash
# meshnode local: real processes in one terminal. What it says and returns when all goes well, when nodes are
# killed or crash, when a person interrupts it, and that nothing outlives it.
. "$(dirname "$0")/../support/process.sh"
LINK=

# Start `local -n N` as NAME, its output in NAME.log and its results in NAME/node-K.
local_run() { # NAME N JOB [OPTION ...]
    local name=$1 nodes=$2 job=$3
    shift 3
    setsid "$MESHNODE" local -n "$nodes" "$job" --out "$WORK/$name" "$@" >"$WORK/$name.log" 2>&1 </dev/null &
    PID[$name]=$!
}

nodes_of() { # NAME: ids of its processes
    pgrep -P "${PID[$1]}"
}

all_train() { # NAME N
    local index
    for ((index = 1; index <= $2; index++)); do
        [ -s "$WORK/$1/node-$index/metrics.jsonl" ] || return 1
    done
}

ended() { # NAME STATUS
    local status
    wait_until 60 "$1 to end" gone "$1"
    wait "${PID[$1]}"
    status=$?
    unset "PID[$1]"
    [ $status = "$2" ] || fail "$1 ended with status $status, expected $2"
}

all_gone() { # PID ...
    local pid
    for pid; do
        if [ -e "/proc/$pid" ] && ! grep -q '^State:[[:space:]]*Z' "/proc/$pid/status" 2>/dev/null; then
            return 1
        fi
    done
}

write_job "$WORK/short.yaml" 40
write_job "$WORK/long.yaml" 100000000

local_run whole 3 "$WORK/short.yaml" --set mesh.division=even # nobody watches, however slow it is
ended whole 0
must_say whole '^all 3 nodes have met$'
must_say whole '^(step [0-9]+: test loss |\[1\] caught up: at step 40 )' # who was too late for the last step evaluates nothing
[ "$(grep -c ' joined, ' "$WORK/whole.log")" = 0 ] || fail "each node tells of each other"
must_say whole '^all 3 nodes hold the same weights: sha256 [0-9a-f]{64}$'
same_hash whole/node-1 whole/node-2 whole/node-3
"$MESHNODE" verify "$WORK/whole" >"$WORK/out" 2>&1 || fail "verify: $(cat "$WORK/out")"
grep -q "^read: 3 folders, " "$WORK/out" || fail "verify: $(cat "$WORK/out")"
echo "three nodes: $(tail -n 1 "$WORK/whole.log")"

# Long enough to be killed in; the job ends by itself after the survivors are alone.
write_job "$WORK/killed.yaml" 2000
local_run killed 3 "$WORK/killed.yaml"
wait_until 60 "three nodes to train" all_train killed 3
mapfile -t ids < <(nodes_of killed)
kill -9 "${ids[1]}"
ended killed 0
must_say killed '^\[2\] killed by signal 9'
must_say killed '^killed before the end: node 2$'
must_say killed '^the 2 nodes that finished hold the same weights'

local_run crashed 2 "$WORK/killed.yaml"
wait_until 60 "two nodes to train" all_train crashed 2
mapfile -t ids < <(nodes_of crashed)
kill -SEGV "${ids[0]}"
ended crashed 1
sanitized || must_say crashed '^\[1\] killed by signal 11' # a sanitizer ends the program by itself
must_say crashed '^the one node that finished holds'

for signal in INT TERM; do
    local_run "stopped-$signal" 3 "$WORK/long.yaml"
    wait_until 60 "three nodes to train" all_train "stopped-$signal" 3
    mapfile -t ids < <(nodes_of "stopped-$signal")
    kill -$signal "${PID[stopped-$signal]}"
    ended "stopped-$signal" 130
    all_gone "${ids[@]}" || fail "nodes outlive $signal"
    for index in 1 2 3; do
        compgen -G "$WORK/stopped-$signal/node-$index/checkpoint-*" >/dev/null ||
            fail "node $index left no checkpoint after $signal"
    done
done

# A node that is stopped does not hear the first signal; the second one ends it.
local_run stuck 2 "$WORK/long.yaml"
wait_until 60 "two nodes to train" all_train stuck 2
mapfile -t ids < <(nodes_of stuck)
kill -STOP "${ids[1]}"
kill -INT "${PID[stuck]}"
wait_until 20 "the other node to leave" all_gone "${ids[0]}"
kill -INT "${PID[stuck]}"
ended stuck 130
all_gone "${ids[@]}" || fail "a stopped node outlives the second interrupt"

local_run orphans 3 "$WORK/long.yaml"
wait_until 60 "three nodes to train" all_train orphans 3
mapfile -t ids < <(nodes_of orphans)
kill_node orphans
wait_until 5 "the nodes to die with their parent" all_gone "${ids[@]}"

# Resumed, the run goes on where the interrupt left it, and comes out the same as in one piece.
write_job "$WORK/resumed.yaml" 1000
local_run resumed 2 "$WORK/resumed.yaml"
wait_until 60 "two nodes to train" all_train resumed 2
kill -INT "${PID[resumed]}"
ended resumed 130
local_run resumed 2 "$WORK/resumed.yaml" --resume
ended resumed 0
local_run straight 2 "$WORK/resumed.yaml"
ended straight 0
same_hash resumed/node-1 resumed/node-2 straight/node-1

# One name for the whole: the nodes of another local run are not among ours.
local_run first 2 "$WORK/short.yaml"
local_run second 2 "$WORK/short.yaml"
ended first 0
ended second 0
for name in first second; do
    [ "$(result "$name/node-1" peers_max)" = 2 ] || fail "$name met $(result "$name/node-1" peers_max) nodes"
done

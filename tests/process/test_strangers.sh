#!/bin/bash
# test_strangers.sh [PAUSE_MS] - whoever connects to the ports of a node and is none: three nodes train while one of them gets
# silence, HTTP, TLS, old and broken ZMTP, huge, empty and endless messages (strangers.py), from a host without a node and
# from that of the members. They end with the weights of an undisturbed run, no step waits for them, and memory and
# descriptors stay as they were.
. "$(dirname "$0")/../support/process.sh"
# Strangers may hold 1 MiB together, which may cost 32 MiB (mesh/net/actor_guard.h); as much again comes in meanwhile.
GROWTH_KB_MAX=65536
! sanitized || GROWTH_KB_MAX=262144
PAUSE_MS_MAX=${1:-30000} # 1000 is the promise, on a machine that has nothing else to do

rss_kb() { # PID
    sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$1/status"
}

descriptors() { # PID
    ls "/proc/$1/fd" | wc -l
}

few_descriptors() { # NAME COUNT
    [ "$(descriptors "${PID[$1]}")" -le "$2" ]
}

# Bound by the node on lo: control first, then bulk.
ports() { # PID
    ss -Hltnp | sed -n "s/.*127.0.0.1:\([0-9]*\) .*pid=$1,.*/\1/p" | sort -n
}

# Little to compute, so that one node alone soon gets as far as three did in a minute.
cat >"$WORK/job.yaml" <<END
run: {name: small, seed: 7}
data: {source: glyphs, train: 240, test: 24}
model:
  - input: [1, 28, 28]
  - maxpool: 4
  - flatten
  - dense: 10
train: {epochs: 1000000, steps: 1000000, batch: 12, shards: 12, eval_every: 0, optimizer: {sgd: {rate: 0.05}}}
END
NODES=(a b c)
for name in "${NODES[@]}"; do
    node $name "$WORK/job.yaml" --peers 3
done
wait_until 60 "three nodes to train" reached 50 "${NODES[@]}"
read -r control bulk < <(ports "${PID[a]}" | paste -s -d ' ')
[ -n "$bulk" ] || fail "a listens on no two ports: $(ports "${PID[a]}" | paste -s)"
before=$(rss_kb "${PID[a]}") before_fds=$(descriptors "${PID[a]}")

# One case of strangers.py; then the nodes train on, and a is no larger than allowed.
disturb() { # CASE FROM
    local from grown
    from=$(steps_done a)
    FROM=$2 timeout -k 5 300 /usr/bin/python3 "$(dirname "$0")/strangers.py" 127.0.0.1 "$control" "$bulk" "$1" >"$WORK/$1.out" 2>&1 ||
        fail "$1: $(tail -n 3 "$WORK/$1.out")"
    wait_until 60 "three nodes to train on after $1" reached $((from + 10)) "${NODES[@]}"
    grown=$(($(rss_kb "${PID[a]}") - before))
    echo "$1 from $2: memory has grown by $grown kB, $(descriptors "${PID[a]}") descriptors"
    [ $grown -le $GROWTH_KB_MAX ] || fail "$1: a has grown by $grown kB, expected at most $GROWTH_KB_MAX"
}

# shellcheck disable=SC2013 # words
for name in $(sed -n '/^CASES/,/\]/s/[^a-z0-9_]/ /gp' "$(dirname "$0")/strangers.py"); do
    disturb "$name" 127.0.0.2
done
for name in endless_small endless_large endless_named; do
    disturb "$name" 127.0.0.1
done
grep -q "closed the connection of 127.0.0.2:[0-9]*: it sent [0-9]* KiB of a message without an end" "$WORK/a.log" ||
    fail "a did not say whose connection it closed"
wait_until 60 "a to have its $before_fds descriptors again" few_descriptors a $((before_fds + 2))

# A node that may open no more files: 60 connections of strangers stay unanswered, and the others train on with it.
from=$(steps_done a)
prlimit --pid "${PID[a]}" --nofile=$((before_fds + 20)):
SILENT=60 timeout -k 5 300 /usr/bin/python3 "$(dirname "$0")/strangers.py" 127.0.0.1 "$control" "$bulk" silence >"$WORK/full.out" 2>&1 ||
    fail "silence without files: $(tail -n 3 "$WORK/full.out")"
wait_until 60 "three nodes to train on without files" reached $((from + 10)) "${NODES[@]}"
wait_until 60 "a to have its $before_fds descriptors again" few_descriptors a $((before_fds + 2))
for name in "${NODES[@]}"; do
    kill -TERM "${PID[$name]}"
done
wait_until 60 "all to end" gone "${NODES[@]}"

# No step waited long for what strangers did, and what was trained is what one node trains by itself.
sed -n 's/.*"time_s": *\([0-9.e+-]*\).*/\1/p' "$WORK/b/metrics.jsonl" | awk -v most=$PAUSE_MS_MAX '
    NR > 1 && 1000 * ($1 - last) > worst { worst = 1000 * ($1 - last) }
    { last = $1 }
    END { printf "longest step of b: %.0f ms of %d steps\n", worst, NR; exit worst > most }' ||
    fail "a step of b took longer than $PAUSE_MS_MAX ms"
hash_at() { # NAME STEP
    sed -n "s/.*\"step\":$2,.*\"state_hash\":\"\([0-9a-f]*\)\".*/\1/p" "$WORK/$1/metrics.jsonl"
}
last=$(steps_done b)
PATIENCE=600 reference "$WORK/job.yaml" --set "train.steps=$((last + 1))" --set mesh.interface=lo
[ -n "$(hash_at b "$last")" ] && [ "$(hash_at b "$last")" = "$(hash_at reference "$last")" ] ||
    fail "the state after step $last is $(hash_at b "$last"), of one node alone $(hash_at reference "$last")"
echo "step $last: the state of one node alone"

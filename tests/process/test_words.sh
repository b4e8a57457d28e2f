#!/bin/bash
# What a person reads when two jobs meet: the key that differs, both values, and what follows, on both sides; who joined
# and who left, by name; who is slow; how they train together; where a run that was stopped goes on, or that it does not. Nothing
# internal.
. "$(dirname "$0")/../support/process.sh"

write_job "$WORK/job.yaml" 100000
write_job "$WORK/other.yaml" 100000
sed -i 's/seed: 7/seed: 8/' "$WORK/other.yaml"

node a "$WORK/job.yaml" --set node.name=anna
node b "$WORK/other.yaml" --set node.name=bert
wait_until 60 "a to name the key" says a \
    '^warning: bert \(127.0.0.1(:[0-9]+)?\) trains another job: run.seed is 8 there, 7 here. Each trains its own. This node trains alone.$'
wait_until 60 "b to name the key" says b \
    '^warning: anna \(127.0.0.1(:[0-9]+)?\) trains another job: run.seed is 7 there, 8 here. Each trains its own. This node trains alone.$'
grep -h 'another job' "$WORK/a.log"
kill_node b

node c "" --set node.name=carl
wait_until 60 "c to join" says a '^carl \(127.0.0.1(:[0-9]+)?\) joined, 2 nodes$'
wait_until 60 "c to say whose job it is" says c "^job small from anna \(127.0.0.1(:[0-9]+)?\): 1920 samples, 100000 steps; results in "
says c '^this node is carl: lo 127.0.0.1, port [0-9]+$' || fail "c does not say who it is"
wait_until 60 "two to train" peers_are 2 a c
kill -INT "${PID[c]}"
kill -INT "${PID[c]}" # as timeout(1) does it: that is still one
wait_until 60 "a to say that c left" says a '^carl \(127.0.0.1(:[0-9]+)?\) left, 1 node$'
wait_until 60 "c to say where it goes on" says c \
    '^stopped at step [0-9]+ of 100000; saved in .*/c. The same command goes on from there.$'
[ "$(grep -c ' joined, ' "$WORK/a.log")" = 1 ] || fail "more than one joined: $(grep joined "$WORK/a.log")"

node d "$WORK/job.yaml" --set node.name=dora
wait_until 60 "d to join" says a '^dora \(127.0.0.1(:[0-9]+)?\) joined, 2 nodes$'
kill_node d
wait_until 60 "a to miss d" says a '^dora \(127.0.0.1(:[0-9]+)?\) is gone \(its connection ended\): going on without it, 1 node$'

stops() { # NAME WAY LAST SET...: a node alone that is stopped before its first checkpoint, and what it says last
    local name=$1 way=$2 last=$3 status
    shift 3
    node $name "$WORK/job.yaml" --set mesh.group="$GROUP-$name" --set mesh.gather_ms=0 "$@"
    wait_until 60 "$name to say how it trains" says $name "^job small: 1920 samples, 100000 steps, $way; results in "
    wait_until 60 "$name to train" reached 3 $name
    kill -INT "${PID[$name]}"
    wait_until 60 "$name to say where it goes on" says $name "$last"
    wait_until 60 "$name to end" gone $name
    wait "${PID[$name]}"
    status=$?
    unset "PID[$name]"
    [ $status = 130 ] || fail "$name ended with status $status, expected 130"
}
stops f "topology gossip, graph ring" \
    "^stopped; nobody else trains: the same command goes on from the checkpoint of step [0-9]+ in .*/f$" \
    --set mesh.topology=gossip --set gossip.graph=ring

# One PC is much slower: both say so, once.
sed -i 's/batch: 96/batch: 960/' "$WORK/job.yaml"
pair() { # NAME SET...: slow computes for half a second more each time
    local name=$1
    shift
    MESHNODE=$FAILNODE
    node "$name" "$WORK/job.yaml" --peers 2 --set node.name=quick --set mesh.group="$GROUP-$name" "$@"
    MESHNODE_FAIL="compute:1+:sleep=500" node "$name-slow" "$WORK/job.yaml" --peers 2 --set node.name=slow --set mesh.group="$GROUP-$name" "$@"
}
pair g
names_it() { # NAME: both name the slow PC; or it is so slow that it is left out, before it is named, and is told so
    says $1 '^slow PC slow \(127.0.0.1(:[0-9]+)?\): [0-9]+ % of the work$' && says $1-slow '^slow PC slow \(this one\): [0-9]+ % of the work$' ||
        says $1-slow '^warning: watching: this CPU is too slow to help \(1 node [0-9.]+ s a step, 2 nodes [0-9.]+ s\)$'
}
wait_until 120 "g and the slow PC of g to name it" names_it g
[ "$(grep -h "^slow PC" "$WORK/g.log" "$WORK/g-slow.log" | wc -l)" -le 2 ] || fail "they say it again and again"
if grep -nwE 'round|plan|totals|member|peer' "$WORK"/[acdfg].log; then
    fail "the lines above are not for people"
fi
echo "joined, left, gone, refused: each said once, by name"

#!/bin/bash
# test_join_line.sh - a node with nothing joins over a line on which a block of data takes longer than a look of the guard
# against messages without an end (actor_guard.h): nobody closes its connections, and the data come at once.
. "$(dirname "$0")/../support/process.sh"
. "$ROOT/tests/support/netns.sh"
netns_need
netns_up 3 50mbit || fail "no namespaces"

LINK=
for index in 0 1 2; do
    WHERE[n$index]="ip netns exec $NETNS_TAG-$index"
done
mkdir -p "$WORK/data" "$WORK/home"
head -c 4000000 /dev/urandom >"$WORK/data/bytes.txt"
printf '%s\n' 'run: {name: line}' 'data: {source: text, file: bytes.txt, context: 16}' 'model: [embedding: {units: 4}, dense: 256]' \
    'train: {batch: 24, steps: 40, epochs: 1000, eval_every: 0}' >"$WORK/job.yaml"
for name in n0 n1; do
    node $name "$WORK/job.yaml" --data "$WORK/data" --peers 3
done
cd "$WORK/home" || exit 1
HOME=$WORK/home XDG_CACHE_HOME='' node n2 ""
finished 120 n0 n1 n2
same_hash n0 n1 n2
[ "$(result n2 peers_max)" = 3 ] || fail "n2 did not train with the others"
if grep -h "without an end\|is wrong" "$WORK"/n?.log; then
    fail "a connection that gives data was closed"
fi
grep -h "taking" "$WORK/n2.log" | tail -n 1

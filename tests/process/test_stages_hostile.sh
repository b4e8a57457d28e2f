#!/bin/bash
# test_stages_hostile.sh - a member that lies while a model in stages trains: beside each item it sends some of other rounds, states,
# cuts, kinds, shards, sizes and places, with a wrong check, and twice, and asks for what nobody has (hostile.c). All train
# on and end with the hash of one node.
. "$(dirname "$0")/../support/process.sh"
HOSTILE=${BUILD:-$ROOT/build/gcc}/hostile
[ -x "$HOSTILE" ] || skip "no program $HOSTILE: make $(realpath --relative-to="$ROOT" "$HOSTILE")"

write_job "$WORK/job.yaml" 40
reference "$WORK/job.yaml"
stages=(--peers 3 --set mesh.stages=3 --set mesh.division=even)
node a "$WORK/job.yaml" "${stages[@]}"
node b "$WORK/job.yaml" "${stages[@]}"
MESHNODE=$HOSTILE node h "$WORK/job.yaml" "${stages[@]}"
finished 120 a b h
grep -q "hostile: all lies about items were told" "$WORK/h.log" || fail "the hostile node has not told its lies"
same_hash reference a b h
echo "a liar about items: $(result a params_sha256)"

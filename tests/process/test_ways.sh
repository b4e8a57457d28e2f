#!/bin/bash
# test_ways.sh - keys that do not decide the result: nodes whose values of these differ train together, and a checkpoint
# goes on under others, and at a HOLD, when a node with another way to sum leads from then on. What travels depends on mesh.bucket, mesh.audit and mesh.stages: nodes that differ in them refuse one another
# by name, but a run may go on with others, too. One hash each time.
. "$(dirname "$0")/../support/process.sh"
[ -x "$FAILNODE" ] || skip "no program $FAILNODE: make failpoints"

write_job "$WORK/job.yaml" 80
reference "$WORK/job.yaml"

node a "$WORK/job.yaml" --peers 2 --set mesh.topology=server --set mesh.division=even --set train.recompute=yes --set mesh.gather_ms=500
node b "$WORK/job.yaml" --peers 2 --set mesh.division=speed --set run.numerics=portable --set train.checkpoint_every=7
finished 60 a b
same_hash reference a b
for name in a b; do
    [ "$(result $name peers_max)" = 2 ] || fail "$name trained with $(result $name peers_max) nodes, expected 2"
done
echo "nodes with other settings of their own: $(result a params_sha256)"

go_on() { # NAME OPTION ...: with what is set before -- until it is killed, and on with what is set behind it
    local name=$1 before=() after=() set
    shift
    while [ "$1" != -- ]; do
        before+=(--set "$1")
        shift
    done
    shift
    for set; do
        after+=(--set "$set")
    done
    killed_at_checkpoint "$name" --set mesh.gather_ms=0 --set train.checkpoint_every=20 "${before[@]}"
    dead "$name"
    node "$name" "$WORK/job.yaml" --set mesh.gather_ms=0 "${after[@]}"
    finished 60 "$name"
    grep -q "^resumed at step" "$WORK/$name.log" || fail "$name did not go on: $(cat "$WORK/$name.log")"
    same_hash reference "$name"
    "$MESHNODE" verify "$WORK/$name" >"$WORK/out" || fail "verify of $name: $(cat "$WORK/out")"
}
go_on c mesh.bucket=65536 mesh.audit=0.5 mesh.division=even mesh.topology=server -- mesh.bucket=4096 mesh.stages=3
go_on d mesh.stages=auto -- mesh.bucket=8192 mesh.audit=0.1 mesh.topology=server
echo "runs that went on with other settings: the same"

# Node g trains alone, and would send sums round a ring. Node h, with the lower id, elects servers: it leads when it has
# joined. While g is stopped, h starts, so that g has not done its steps before h is there.
sed 's/steps: 80/steps: 400/' "$WORK/job.yaml" >"$WORK/long.yaml"
mv "$WORK/reference" "$WORK/short"
reference "$WORK/long.yaml"
WHERE[g]="env MESHNODE_ID=2" WHERE[h]="env MESHNODE_ID=1"
started() { # NAME
    grep -q "^this node is" "$WORK/$1.log"
}
MESHNODE=$FAILNODE node g "$WORK/long.yaml" --set mesh.gather_ms=0
wait_until 30 "g to train" reached 5 g
kill -STOP "${PID[g]}"
MESHNODE=$FAILNODE node h "$WORK/long.yaml" --peers 2 --set mesh.topology=server --set mesh.servers=2
wait_until 30 "h to start" started h
kill -CONT "${PID[g]}"
finished 60 g h
same_hash reference g h
grep -q '"peers": *1,' "$WORK/g/metrics.jsonl" && grep -q '"servers": *2' "$WORK/g/metrics.jsonl" ||
    fail "g did not train alone at first, and with two servers later"
echo "from no servers to two, when another node led: the same"

node e "$WORK/job.yaml" --peers 2 --set mesh.bucket=65536
node f "$WORK/job.yaml" --peers 2 --set mesh.bucket=131072
wait_until 20 "e to refuse f" says e "trains another job: mesh.bucket is 131072 there, 65536 here"
wait_until 20 "f to refuse e" says f "trains another job: mesh.bucket is 65536 there, 131072 here"
[ "$(steps_done e)$(steps_done f)" = 00 ] || fail "they trained together with other buckets"
kill_node f
node f "$WORK/job.yaml" --peers 2 --set mesh.bucket=65536 --set mesh.stages=2
wait_until 20 "e to refuse f with stages" says e "trains another job: mesh.stages is 2 there, 1 here"
[ "$(steps_done e)$(steps_done f)" = 00 ] || fail "they trained together with other stages"
kill_node e
kill_node f

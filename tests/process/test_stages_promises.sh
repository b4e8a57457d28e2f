#!/bin/bash
# test_stages_promises.sh - what a ring promises holds for a model in stages: each rule of update, servers, equal shares and other
# nodes' addresses give the bits of one node, evaluations too; a job with other stages is named; a node that is interrupted
# leaves its stage to the others and comes back; verify proves who computed what; gradients that are not finite end all.
. "$(dirname "$0")/../support/process.sh"
[ -x "$FAILNODE" ] || skip "no program $FAILNODE: make failpoints"
all=$GROUP stages="--set mesh.stages=2"

# Nodes 0 to N-1 in stages, and one alone.
as_alone() { # NAME N OPTION ...
    local name=$1 n=$2 k names=()
    shift 2
    reference "$WORK/job.yaml" "$@"
    GROUP=$all-$name
    for ((k = 0; k < n; k++)); do
        names+=("$name-$k")
        # shellcheck disable=SC2086 # a list of words
        node "$name-$k" "$WORK/job.yaml" --peers "$n" $stages ${EACH[k]:-} "$@"
    done
    GROUP=$all
    finished 60 "${names[@]}"
    same_hash reference "${names[@]}"
    [ "$(result reference test_loss)" = "$(result "$name-0" test_loss)" ] || fail "$name: another test loss than one node"
    grep -q '"pipeline":{"stages":2' "$WORK/$name-0/metrics.jsonl" || fail "$name: no stages"
    "$MESHNODE" verify "${names[@]/#/$WORK/}" >"$WORK/out" || fail "$name: verify: $(cat "$WORK/out")"
    grep -q "for 30 steps it is known who computed each shard" "$WORK/out" || fail "$name: $(cat "$WORK/out")"
    echo "$name: $(result "$name-0" params_sha256)"
}

write_job "$WORK/job.yaml" 30 "eval_every: 1"
EACH=()
as_alone lamb 3 --set train.optimizer=lamb --set train.ema=0.9 --set train.clip_norm=1 --set train.schedule=inv_sqrt \
    --set train.warmup=5
cp "$WORK/reference/model.safetensors" "$WORK/model"
# Beacons on different ports are not heard: the address that is given leads to the other one.
port=$((24000 + $$ % 2000 * 2))
EACH=("--port $port --set mesh.beacon_port=$((port + 4001))" "--peer 127.0.0.1:$port --set mesh.beacon_port=$((port + 4002))")
as_alone lars 2 --set train.optimizer=lars --set mesh.topology=server --set mesh.division=even --set model.from="$WORK/model"

names_stages() {
    grep -q "trains another job: mesh.stages is 3 there, 2 here" "$WORK/clash-0.log"
}
GROUP=$all-clash
node clash-0 "$WORK/job.yaml" --peers 2 --set mesh.stages=2
node clash-1 "$WORK/job.yaml" --peers 2 --set mesh.stages=3
wait_until 20 "the key that differs" names_stages
kill_node clash-0
kill_node clash-1

# So slow that the run does not end before.
slow_node() { # NAME
    WHERE[$1]="env MESHNODE_FAIL=piece:1+:sleep=2"
    # shellcheck disable=SC2086 # a list of words
    MESHNODE=$FAILNODE node "$1" "$WORK/job.yaml" --peers 3 $stages
    WHERE[$1]=
}
reference "$WORK/job.yaml"
GROUP=$all-stop
for name in x y z; do slow_node $name; done
wait_until 60 "some steps" reached 5 x y z
kill -INT "${PID[y]}"
wait_until 20 "y to end" gone y
wait "${PID[y]}"
[ $? = 130 ] || fail "y: $(tail -n 3 "$WORK/y.log")"
unset "PID[y]"
slow_node y
finished 60 x y z
same_hash reference x y z
"$MESHNODE" verify "$WORK"/[xyz] >"$WORK/out" || fail "verify: $(cat "$WORK/out")"
echo "one was interrupted and came back: $(head -n 1 "$WORK/out")"

awk 'BEGIN { for (i = 0; i < 240; i++) print "3e38,3e38,1" }' >"$WORK/all.csv"
cat >"$WORK/all.yaml" <<YAML
data: {source: csv, file: $WORK/all.csv, regression: yes, test_share: 0.1, seed: 3}
model: [dense: 8, relu, dense: 8, relu, dense: 1]
train: {loss: squared_error, batch: 24, epochs: 20, eval_every: 0, optimizer: {sgd: {rate: 0.01, momentum: 0.9}}}
YAML
GROUP=$all-nan
# shellcheck disable=SC2086 # a list of words
for name in l m; do node $name "$WORK/all.yaml" --peers 2 $stages; done
wait_until 30 "all to stop" gone l m
for name in l m; do
    wait "${PID[$name]}"
    [ $? = 1 ] || fail "$name did not end with status 1"
    unset "PID[$name]"
    grep -q "error: stopped at step 20: the last 20 gradients were not finite" "$WORK/$name.log" || fail "$name: no reason"
done
echo "nothing but gradients that are not finite: all end"

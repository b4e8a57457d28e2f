#!/bin/bash
# Gradients that are not finite (NaN or infinity) where nodes do not step together: gossip. One
# sample of the table has numbers whose squares overflow: its gradient is left out, which is said once, and a replay gives
# the same model. When all have such numbers, or the rate is absurd, each node stops with status 1 after 20 gradients and
# leaves no result; and so does a shorter run of which no step counted, in all ways, the ring and stages among them. Weights
# beyond 128, which gossip cuts off, are said. No loss is written as 0, which it is not. test_model.sh has the same of the ring. Here are those codecs of the
# ring that remember: a step that is skipped within a span leaves what waits as it is.
. "$(dirname "$0")/../support/process.sh"

table() { # FILE AWK-CONDITION: rows for which it holds overflow
    awk 'BEGIN { srand(1); for (i = 0; i < 480; i++) {
        a = 2 * rand() - 1; b = 2 * rand() - 1; y = a + 2 * b
        if ('"$2"') a = b = "3e38"
        print a "," b "," y } }' >"$1"
}
table "$WORK/one.csv" "i == 17"
table "$WORK/all.csv" 1
for name in one all; do
    cat >"$WORK/$name.yaml" <<YAML
data: {source: csv, file: $WORK/$name.csv, regression: yes, test_share: 0.1, seed: 3}
model: [dense: 600, relu, dense: 1] # a codec takes tensors of 1,024 elements and more
train: {loss: squared_error, batch: 48, epochs: 6, eval_every: 1, optimizer: {sgd: {rate: 0.01, momentum: 0.9}}}
YAML
done
cat >"$WORK/fast.yaml" <<'YAML'
data: {source: glyphs, train: 1900, test: 240}
model: [input: [1, 28, 28], flatten, dense: 64, relu, dense: 64, relu, dense: 64, relu, dense: 64, relu, dense: 64, relu, dense: 10]
train: {batch: 96, epochs: 20, eval_every: 0, optimizer: {sgd: {rate: 1000, momentum: 0.9}}}
YAML

run() { # NAME JOB SET ...: three nodes; sets STATUS
    local name=$1 job=$2
    shift 2
    # shellcheck disable=SC2086 # a list of words
    timeout -k 5 240 "$MESHNODE" local -n 3 "$job" --out "$WORK/$name" --set mesh.group="$GROUP-$name" $LINK "$@" \
        >"$WORK/$name.log" 2>&1 </dev/null
    STATUS=$?
    ! grep -l '"loss":0.0,' "$WORK/$name"/*/metrics.jsonl || fail "$name: a loss that is not known is written as 0"
}

said() { # NAME: how many nodes said it
    grep -c "warning: step [0-9]*: the gradient is not finite" "$WORK/$1.log"
}

stopped() { # NAME
    local name=$1 error="error: stopped at step [0-9]*: the last 20 gradients were not finite (NaN or infinity)\. Try a smaller"
    [ $STATUS = 1 ] || fail "$name: status $STATUS: $(cat "$WORK/$name.log")"
    [ "$(grep -c "$error" "$WORK/$name.log")" = 3 ] || fail "$name: $(cat "$WORK/$name.log")"
    [ "$(said "$name")" = 3 ] || fail "$name says it again and again: $(cat "$WORK/$name.log")"
    ! ls "$WORK/$name"/*/result.json 2>/dev/null || fail "$name has a result"
    rm -rf "${WORK:?}/$name"
}

none() { # NAME SET ...: nine steps, fewer than what makes a node stop
    local name=$1
    shift
    run "$name" "$WORK/all.yaml" --set train.epochs=1 "$@"
    [ $STATUS = 1 ] || fail "$name: no step counted, status $STATUS: $(cat "$WORK/$name.log")"
    grep -q "error: stopped at step 9: none of the steps counted, as their gradients were not finite" "$WORK/$name.log" ||
        grep -q "error: stopped at step [0-9]*: the last [0-9]* gradients were not finite" "$WORK/$name.log" ||
        fail "$name: $(cat "$WORK/$name.log")"
    rm -rf "${WORK:?}/$name"
    echo "$name: none of its steps counted, so it is not done"
}

way() { # NAME SET ...
    local name=$1
    shift
    run "$name" "$WORK/one.yaml" "$@"
    [ $STATUS = 0 ] || fail "$name: status $STATUS: $(cat "$WORK/$name.log")"
    [[ $(said "$name") = [123] ]] || fail "$name: $(cat "$WORK/$name.log")"
    grep -q '"loss":null,.*"skipped":true' "$WORK/$name"/*/metrics.jsonl || fail "$name: no step says that it was skipped"
    timeout -k 5 120 "$MESHNODE" verify --replay "$WORK/$name"/node-* >"$WORK/replay" 2>&1 || fail "$name: $(cat "$WORK/replay")"
    grep "^replay: sha256 .*, as in every result$" "$WORK/replay" || fail "$name: $(cat "$WORK/replay")"
    rm -rf "${WORK:?}/$name"
    run "$name" "$WORK/all.yaml" "$@"
    stopped "$name"
    none "$name" "$@"
    echo "$name: one is left out, nothing but such ones end the run"
}

remembers() { # CODEC
    local codec=$1 set="--set mesh.compress=$1 --set mesh.compress_warmup=1 --set mesh.compress_span=6"
    # shellcheck disable=SC2086 # a list of words
    {
        run "$codec" "$WORK/one.yaml" $set
        [ $STATUS = 0 ] || fail "$codec: status $STATUS: $(cat "$WORK/$codec.log")"
        grep -q '"loss":null,.*"skipped":true' "$WORK/$codec"/*/metrics.jsonl || fail "$codec: no step says that it was skipped"
        node "$codec-one" "$WORK/one.yaml" $set --set mesh.gather_ms=0
    }
    finished 60 "$codec-one"
    for name in 1 2 3; do
        same_hash "$codec-one" "$codec/node-$name"
    done
    echo "$codec: a step is skipped within a span, one node and three come to the same weights"
}

servers="--set mesh.topology=server" gossip="--set mesh.topology=gossip"
# shellcheck disable=SC2086 # lists of words
{
    way gossip $gossip
    way gossip-async $gossip --set mesh.sync=async
    way push-sum $gossip --set gossip.method=push_sum
    run rate "$WORK/fast.yaml" $gossip
    stopped rate
}
none ring
# shellcheck disable=SC2086 # a list of words
none rounds $servers
none stages --set mesh.stages=2
none local-steps --set train.local_steps=3 --set train.optimizer.sgd.momentum=0
# shellcheck disable=SC2086 # a list of words
run cut "$WORK/one.yaml" $gossip --set train.optimizer.sgd.rate=1 --set train.clip_norm=5000 --set train.epochs=1
grep -q "warning: step [0-9]*: [0-9]* of 2401 weights are cut off at -128 or 128" "$WORK/cut.log" || fail "cut: $(cat "$WORK/cut.log")"
remembers topk
remembers onebit

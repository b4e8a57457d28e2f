#!/bin/bash
# test_model.sh - model.safetensors: there while a run trains and after Ctrl-C, never that of an earlier run, and with what
# one needs to use it: rows are predicted without the table that it was trained from. And two ends: a run whose gradients
# are not finite stops with status 1, one whose folder was deleted makes it again.
. "$(dirname "$0")/../support/process.sh"
[ -x "$FAILNODE" ] || skip "no program $FAILNODE: make failpoints"

cat >"$WORK/job.yaml" <<'EOF'
run: {name: animals}
data: {source: csv, file: table.csv, standardise: yes}
model:
  - dense: 16
  - tanh
  - dense: 3
train: {epochs: 100000, batch: 24, optimizer: {adam: 0.01}}
EOF
awk 'BEGIN { srand(1); print "weight;height;kind"
    for (i = 0; i < 360; i++) { k = i % 3; print 3 * k + rand() ";" 100 * (k == 1) + 10 * rand() ";" substr("catdogowl", 3 * k + 1, 3) } }' \
    >"$WORK/table.csv"

run() { # WHAT ARGUMENT ...: status 0
    local what=$1
    shift
    timeout -k 5 30 "$MESHNODE" "$@" >"$WORK/out" 2>&1 || fail "$what: $(cat "$WORK/out")"
}

alone() { # NAME JOB OPTION ...
    local name=$1 job=$2
    shift 2
    node "$name" "$job" --set mesh.gather_ms=0 --data "$WORK" "$@"
}

has_model() { # NAME
    [ -e "$WORK/$1/model.safetensors" ]
}

metadata() { # FILE KEY
    python3 - "$1" "$2" <<'EOF'
import json, struct, sys
file = open(sys.argv[1], "rb")
header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
print(header["__metadata__"].get(sys.argv[2], ""))
EOF
}

echo "while it trains, after Ctrl-C, and at the end"
alone a "$WORK/job.yaml"
wait_until 60 "a model while it trains" has_model a
model=$WORK/a/model.safetensors
run "eval while it trains" eval "$WORK/job.yaml" "$model" --data "$WORK"
[ ! -e "$WORK/a/result.json" ] || fail "a has ended"
grep -q "^model of step [0-9]*: $model$" "$WORK/a.log" || fail "a does not name its model: $(cat "$WORK/a.log")"
kill -INT "${PID[a]}"
wait_until 30 "a to stop" gone a
wait "${PID[a]}"
[ $? = 130 ] || fail "a: $(cat "$WORK/a.log")"
unset "PID[a]"
checkpoint=$(compgen -G "$WORK/a/checkpoint-*" | sort -V | tail -n 1)
[ "$(metadata "$model" step)" = "${checkpoint##*-}" ] || fail "the model is of step $(metadata "$model" step), not ${checkpoint##*-}"
run convert convert "$WORK/job.yaml" "$checkpoint" "$WORK/converted.safetensors" --data "$WORK"
grep -q "^wrote $WORK/converted.safetensors: the model of step ${checkpoint##*-}$" "$WORK/out" || fail "convert says: $(cat "$WORK/out")"
[ "$(metadata "$WORK/converted.safetensors" params_sha256)" = "$(metadata "$model" params_sha256)" ] || fail "convert: other weights"
# keys that the weights do not depend on may differ; the model says what it was trained with
run "convert with another batch" convert "$WORK/job.yaml" "$checkpoint" "$WORK/other.safetensors" --data "$WORK" --set train.batch=48
for key in params_sha256 job; do
    [ "$(metadata "$WORK/other.safetensors" $key)" = "$(metadata "$model" $key)" ] || fail "convert with another batch: other $key"
done
if "$MESHNODE" convert "$WORK/job.yaml" "$checkpoint" "$WORK/none" --data "$WORK" --set train.optimizer=lion >"$WORK/out" 2>&1; then
    fail "convert took another job's checkpoint"
fi
grep -q "checkpoint of another job: train.optimizer is adam there, lion here; expected the job that trained it, with the same --set and --data$" \
    "$WORK/out" || fail "$(cat "$WORK/out")"

echo "what is in it"
alone a "$WORK/job.yaml" --fresh --set train.epochs=20
finished 60 a
grep -q "the unfinished run in it is replaced" "$WORK/a.log" || fail "$(cat "$WORK/a.log")"
cmp -s "$model" "$model.old" && fail "the model of the run before"
[ -e "$model.old" ] || fail "the model of the run before is gone"
[ "$(metadata "$model" params_sha256)" = "$(result a params_sha256)" ] || fail "another hash"
[ "$(metadata "$model" classes)" = '["cat", "dog", "owl"]' ] || fail "classes: $(metadata "$model" classes)"
[ "$(metadata "$model" input)" = '[2]' ] || fail "input: $(metadata "$model" input)"
[ "$(metadata "$model" job)" = "$(value "$WORK/a/job.json" job)" ] || fail "job: $(metadata "$model" job)"
metadata "$model" config >"$WORK/again.yaml"
run "check of the job in it" check "$WORK/again.yaml" --data "$WORK"
grep -q "job $(value "$WORK/a/job.json" job)$" "$WORK/out" || fail "another job: $(head -n 1 "$WORK/out")"

echo "rows without the table"
run "predict the test samples" predict "$WORK/job.yaml" "$model" --data "$WORK"
grep -q '^0,\(cat\|dog\|owl\),\(cat\|dog\|owl\),' "$WORK/out" || fail "no names: $(head -n 2 "$WORK/out")"
sed '1d; s/;[a-z]*$//; s/;/,/' "$WORK/table.csv" >"$WORK/rows.csv"
run "predict with the table" predict "$WORK/job.yaml" "$model" "$WORK/rows.csv" --data "$WORK"
mv "$WORK/out" "$WORK/with"
mkdir "$WORK/away"
mv "$WORK/table.csv" "$WORK/away"
run "predict without the table" predict "$WORK/job.yaml" "$model" "$WORK/rows.csv"
cmp "$WORK/with" "$WORK/out" || fail "predicted otherwise"
mv "$WORK/away/table.csv" "$WORK"
sed '1d; s/.*;//' "$WORK/table.csv" >"$WORK/known"
sed 1d "$WORK/out" | cut -d, -f 2 | cmp - "$WORK/known" || fail "wrong kinds"

to_middle() { # NAME OPTION ...: it stops itself in mid-run
    MESHNODE_FAIL=compute:200:stop MESHNODE=$FAILNODE alone "$1" "$WORK/job.yaml" --set train.epochs=400 "${@:2}"
    wait_until 60 "$1 to stop itself" held "$1"
}

echo "a folder that is deleted"
to_middle b
[ -s "$WORK/b/metrics.jsonl" ] || fail "b has not begun"
rm -r "$WORK/b"
kill -CONT "${PID[b]}"
finished 60 b
has_model b || fail "no model in $WORK/b"
[ -n "$(result b params_sha256)" ] || fail "no result"
grep -q "^warning: $WORK/b was deleted: made again$" "$WORK/b.log" || fail "b does not say that: $(cat "$WORK/b.log")"
run "verify" verify "$WORK/b"
run "audit, the old name of verify" audit "$WORK/b"

echo "a folder that cannot be made again"
mkdir "$WORK/real"
ln -s real "$WORK/in"
to_middle c --set node.out="$WORK/in/c"
[ -s "$WORK/in/c/metrics.jsonl" ] || fail "c has not begun"
ln -s /dev/null "$WORK/new"
mv -T "$WORK/new" "$WORK/in"
kill -CONT "${PID[c]}"
wait_until 60 "c to give up" gone c
wait "${PID[c]}"
status=$?
unset "PID[c]"
[ $status = 1 ] || fail "c: status $status: $(cat "$WORK/c.log")"
grep -q "the results could not be written" "$WORK/c.log" || fail "c: $(cat "$WORK/c.log")"
! grep -q "^done" "$WORK/c.log" || fail "c is done: $(cat "$WORK/c.log")"

echo "nothing but NaN"
cat >"$WORK/nan.yaml" <<'EOF'
data: {source: glyphs, train: 1900, test: 240}
model: [input: [1, 28, 28], flatten, dense: 32, relu, dense: 32, relu, dense: 10]
train: {batch: 96, epochs: 20, eval_every: 0, optimizer: {sgd: {rate: 1000, momentum: 0.9}}}
EOF
for name in d e; do
    node "$name" "$WORK/nan.yaml" --peers 2
done
for name in d e; do
    wait_until 60 "$name to stop" gone "$name"
    wait "${PID[$name]}"
    status=$?
    unset "PID[$name]"
    [ $status = 1 ] || fail "$name: status $status: $(cat "$WORK/$name.log")"
    [ "$(grep -c '^warning: .*finite' "$WORK/$name.log")" -le 1 ] || fail "$name says it again and again: $(cat "$WORK/$name.log")"
    [ ! -e "$WORK/$name/result.json" ] || fail "$name has a result"
    grep -h "^error: stopped at step [0-9]*: the last 20 gradients were not finite" "$WORK/$name.log" >"$WORK/$name.end" ||
        fail "$name: $(cat "$WORK/$name.log")"
done
cmp "$WORK/d.end" "$WORK/e.end"
cat "$WORK/d.end"
alone d "$WORK/nan.yaml" # the same again
wait_until 60 "d to stop" gone d
wait "${PID[d]}"
[ $? = 1 ] || fail "d went on"
unset "PID[d]"
alone d "$WORK/nan.yaml" --fresh --set train.optimizer.sgd.rate=0.01 --set train.epochs=2
finished 60 d

echo "while nodes train that do not step together: after an evaluation, and after Ctrl-C"
write_job "$WORK/small.yaml" 100000 "eval_every: 1"
free_model() { # NAME WHOSE SET ...
    local name=$1 whose=$2 model=$WORK/$1/model.safetensors
    shift 2
    node "$name" "$WORK/small.yaml" --peers 2 "$@"
    node "$name-2" "$WORK/small.yaml" --peers 2 "$@"
    wait_until 120 "a model of $name while it trains" has_model "$name"
    wait_until 120 "$name to say so" grep -q "^epoch [0-9]*: test loss" "$WORK/$name.log"
    [ "$(metadata "$model" weights)" = "$whose" ] || fail "$name: the model is '$(metadata "$model" weights)', not '$whose'"
    [ $(($(metadata "$model" step) % 20)) = 0 ] || fail "$name: the model is of step $(metadata "$model" step), not of the end of an epoch"
    run "eval while $name trains" eval "$WORK/small.yaml" "$model"
    kill -INT "${PID[$name]}" "${PID[$name-2]}"
    for name in "$name" "$name-2"; do
        wait_until 60 "$name to stop" gone "$name"
        wait "${PID[$name]}"
        [ $? = 130 ] || fail "$name: $(cat "$WORK/$name.log")"
        unset "PID[$name]"
        run "eval of $name" eval "$WORK/small.yaml" "$WORK/$name/model.safetensors"
    done
}
free_model g "the replica of one node" --set mesh.topology=gossip
free_model h "the replica of one node" --set mesh.topology=gossip --set mesh.sync=async
echo "a model at any time, two ends"

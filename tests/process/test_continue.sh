#!/bin/bash
# test_continue.sh - a run that ended or was stopped goes on with more epochs, another rate or another schedule: it is
# what a run with these settings from the first step on would be, on one node and on several, and for a node that has
# nothing but the job. What would change steps that are done is refused by name.
. "$(dirname "$0")/../support/process.sh"

# In an epoch: 20 steps.
cat >"$WORK/job.yaml" <<'EOF'
run: {name: small, seed: 7}
data: {source: glyphs, train: 1900, test: 240}
model:
  - input: [1, 28, 28]
  - flatten
  - dense: 24
  - tanh
  - dense: 10
train:
  epochs: 2
  batch: 96
  shards: 12
  optimizer: {sgd: {rate: 0.05, momentum: 0.9}}
EOF

proved() { # NAME ...
    local name
    for name; do
        "$MESHNODE" verify "$WORK/$name" >"$WORK/out" || fail "verify of $name: $(cat "$WORK/out")"
        grep -q "^proved: " "$WORK/out" || fail "verify of $name: $(cat "$WORK/out")"
    done
}

echo "more epochs, one after the other, are those of one go"
alone whole --set train.epochs=5
alone a
alone a --resume --set train.epochs=4
must_say a '^resumed at step 40$'
must_say a '^from step 41 on train.epochs = 4, before 2$'
alone a --resume --set train.epochs=5
same_hash whole a
proved a
[ "$(wc -l <"$WORK/a/metrics.jsonl")" = 100 ] || fail "a has $(wc -l <"$WORK/a/metrics.jsonl") lines"

echo "more steps, from the middle of an epoch"
alone b --set train.steps=13
alone b --resume --set train.epochs=5
same_weights whole b
proved b

echo "another rate and schedule are a job of their own, and the same one without the past"
alone c
alone c --resume --set train.epochs=4 --set train.optimizer.sgd.rate=0.01 --set train.schedule=cosine
must_say c '^from step 41 on train.optimizer.sgd.rate = 0.01, before 0.05$'
must_say c '^from step 41 on train.schedule = cosine, before constant$'
past='40 train.epochs=2 train.optimizer.sgd.rate=0.05 train.schedule=constant'
alone fresh --set train.epochs=4 --set train.optimizer.sgd.rate=0.01 --set train.schedule=cosine \
    --set "train.past=$past"
same_hash c fresh
[ "$(value "$WORK/c/job.json" job)" = "$(value "$WORK/fresh/job.json" job)" ] || fail "two jobs"
[ "$(result c params_sha256)" != "$(result whole params_sha256)" ] || fail "the rate changed nothing"
proved c fresh
before=$(result c state_sha256)
ended=(--set train.epochs=4 --set train.optimizer.sgd.rate=0.01 --set train.schedule=cosine)
alone c "${ended[@]}" --resume
[ "$(result c state_sha256)" = "$before" ] || fail "the ended run went on"
must_say c '^resumed at step 80, the last one: this run is over$'
WHERE[c]="env MESHNODE_FAIL=done:1:hang"
MESHNODE=$FAILNODE node c "$WORK/job.yaml" "${ended[@]}" --resume
node late "$WORK/job.yaml" "${ended[@]}" --set "train.past=$past" --peers 2
finished 60 late
kill_node c
same_hash fresh late
must_say late '^caught up: at step 80 of 80: this run is over$'

echo "several nodes, one that has a part of it, and one that has nothing"
looks() { # NAME
    grep -q 'looking for a mesh' "$WORK/$1.log"
}
sed 's/dense: 24/dense: 256/' "$WORK/job.yaml" >"$WORK/wide.yaml" # slow enough to be joined
echo "mesh: {division: even}" >>"$WORK/wide.yaml"                   # d proves all of it, so it does not watch
later=(--set train.epochs=40 --set train.optimizer.sgd.rate=0.01)
node d "$WORK/wide.yaml" --peers 2
node e "$WORK/wide.yaml" --peers 2
finished 60 d e
reference "$WORK/wide.yaml" "${later[@]}" --set "train.past=40 train.epochs=2 train.optimizer.sgd.rate=0.05"
rm "$WORK/e/result.json" "$WORK"/[de].log # as if e had been killed
node e ""
node g ""
wait_until 20 "the helpers to look" looks e
wait_until 20 "the helpers to look" looks g
node d "$WORK/wide.yaml" --resume "${later[@]}"
finished 60 d e g
same_hash reference d e g
proved d
"$MESHNODE" verify "$WORK"/[deg] >"$WORK/out" || fail "verify of d, e and g: $(cat "$WORK/out")"

echo "local nodes that were stopped at different steps"
# shellcheck disable=SC2086
local_run() {
    timeout -k 5 60 "$MESHNODE" local -n 2 "$WORK/job.yaml" --out "$WORK/local" "$@" >"$WORK/local.log" 2>&1 </dev/null
}
local_run --set train.steps=13 || fail "local: $(cat "$WORK/local.log")"
rm -r "$WORK/local/node-2"
node lone "$WORK/job.yaml" --set mesh.gather_ms=0 --set train.steps=13 --set train.checkpoint_every=4
finished 60 lone
mv "$WORK/lone" "$WORK/local/node-2"
rm "$WORK/local/node-2/checkpoint-13" "$WORK/local/node-2/result.json"
local_run --resume --set train.epochs=5 || fail "local goes on: $(cat "$WORK/local.log")"
[ "$(value "$WORK/local/node-2/result.json" params_sha256)" = "$(result whole params_sha256)" ] ||
    fail "local came to other weights: $(cat "$WORK/local.log")"

echo "local steps: rounds that end where a part ends"
steps=(--set train.local_steps=3 --set train.optimizer.sgd.momentum=0)
alone h "${steps[@]}" --set train.steps=10
alone h "${steps[@]}" --set train.epochs=2 --set train.optimizer.sgd.rate=0.02 --resume
alone i "${steps[@]}" --set train.epochs=2 --set train.optimizer.sgd.rate=0.02 \
    --set 'train.past=10 train.steps=10 train.optimizer.sgd.rate=0.05'
same_weights h i
proved h i

refused() { # WHAT PATTERN OPTION ...
    local before
    before=$(cd "$WORK/c" && sha256sum ./*)
    # shellcheck disable=SC2086 # a list of words
    refuses "$2" "$WORK/job.yaml" --threads 1 --set "mesh.group=$GROUP" $LINK --out "$WORK/c" "${@:3}"
    [ "$(cd "$WORK/c" && sha256sum ./*)" = "$before" ] || fail "$1: the refused run changed the folder"
    cat "$WORK/err"
}

echo "what would change what is done"
ways='--fresh begins again, --out .*, model.from .*'
refused batch "\(train.batch 96, here 192\), which cannot change on the way; $ways" --resume --set train.batch=192
refused shards "\(train.shards 12, here 6\), which cannot change on the way; $ways" --resume --set train.shards=6
refused seed "\(run.seed 7, here 8\), which cannot change on the way; $ways" --resume --seed 8
refused optimizer "\(train.optimizer sgd, here adam\), which cannot change on the way; $ways" --resume --set train.optimizer=adam
refused momentum "\(train.optimizer.sgd.momentum 0.9, here 0\), which cannot change on the way; $ways" --resume --set train.optimizer.sgd.momentum=0
refused data "\(data.train 1900, here 1800\), which cannot change on the way; $ways" --resume --set data.train=1800
ways='--fresh begins again, --out .*, train.from=CHECKPOINT trains on .* in another way'
refused topology "\(mesh.topology ring, here gossip\), which cannot change on the way; $ways" --resume --set mesh.topology=gossip
ways='--fresh begins again, --out .*, model.from .*'
refused "fewer epochs" "train.epochs = 3 ends with step 60, but the run has done 80" --resume --set train.epochs=3
refused "no step" "train.past = 'x train.epochs=2', expected steps that rise" --set "train.past=x train.epochs=2"
refused "falling" "expected steps that rise" --set "train.past=40 train.epochs=2; 30"
refused "a key" "train.past = '40 train.batch=192', but train.batch cannot change in a run" --set "train.past=40 train.batch=192"
refused "no such key" "train.past = '40 train.bach=2', unknown key train.bach" --set "train.past=40 train.bach=2"
sed 's/dense: 24/dense: 25/' "$WORK/job.yaml" >"$WORK/other.yaml"
cp "$WORK/other.yaml" "$WORK/job.yaml"
refused model "\(model, layer 2: dense: \{units: 24.*, here dense: \{units: 25.*\), which cannot change on the way; $ways" --resume
echo "went on, alone and together; refused by name"

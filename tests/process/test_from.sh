#!/bin/bash
# model.from: a run that starts from the weights of another one comes out alike on one node and on two, and is
# another job for those who have other weights. A file that is not this model's is refused in one line.
. "$(dirname "$0")/../support/process.sh"

write_job "$WORK/job.yaml" 40
reference "$WORK/job.yaml" --seed 3
mv "$WORK/reference" "$WORK/first"
first=$WORK/first/model.safetensors

reference "$WORK/job.yaml"
plain=$(result reference params_sha256)
rm -rf "$WORK/reference"
reference "$WORK/job.yaml" --set "model.from=$first"
[ "$(result reference params_sha256)" != "$plain" ] || fail "model.from changed nothing"

# The second has the file elsewhere, the third is handed the job.
cp "$first" "$WORK/copy.safetensors"
node a "$WORK/job.yaml" --peers 2 --set "model.from=$first"
node b "$WORK/job.yaml" --peers 2 --set "model.from=$WORK/copy.safetensors"
finished 60 a b
same_hash reference a b
node c "$WORK/job.yaml" --peers 2 --set "model.from=$first"
node d ""
finished 60 c d
same_hash reference c d
echo "one node, two, and one that was handed the job: $(result a params_sha256)"

"$MESHNODE" check "$WORK/job.yaml" --set "model.from=$first" | grep -q "^from    $first, weights [0-9a-f]\{16\}$" ||
    fail "check does not name the weights"

rm -rf "$WORK"/[ab]
printf '\177' | dd of="$WORK/copy.safetensors" bs=1 seek=$(($(stat -c %s "$first") - 2)) conv=notrunc status=none
node a "$WORK/job.yaml" --peers 2 --set "model.from=$first"
node b "$WORK/job.yaml" --peers 2 --set "model.from=$WORK/copy.safetensors"
says() { # NAME
    grep -q "trains another job: the same keys, but other data or other weights in model.from. Each" "$WORK/$1.log"
}
wait_until 20 "a to refuse b" says a
wait_until 20 "b to refuse a" says b
[ "$(steps_done a)$(steps_done b)" = 00 ] || fail "they trained together from other weights"
kill_node a
kill_node b
echo "other weights: $(grep -h 'another job' "$WORK/a.log")"

refused() { # WHAT PATTERN OPTION ...
    refuses "$2" "${@:3}" --out "$WORK/none"
    [ ! -e "$WORK/none" ] || fail "$1: left a results folder"
}

sed 's/dense: 48/dense: 40/' "$WORK/job.yaml" >"$WORK/narrow.yaml"
sed 's/  - tanh/  - tanh\n  - dense: 48\n  - relu/' "$WORK/job.yaml" >"$WORK/deep.yaml"
sed '/- dense: 48/d; /- tanh/d; /- dropout/d' "$WORK/job.yaml" >"$WORK/flat.yaml"
head -c 9000 "$first" >"$WORK/cut.safetensors"
from="model.from: $WORK"
for command in "" "local -n 2" check; do
    # shellcheck disable=SC2086 # a list of words
    {
        refused "other shape" "narrow.yaml: $from/first/model.safetensors: tensor 4.dense.weight has shape \[48, 1568\], expected \[40, 1568\]" \
            $command "$WORK/narrow.yaml" --set "model.from=$first"
        refused "missing" "deep.yaml: $from/first/.*: missing tensor 6.dense.weight, 6.dense.bias, 9.dense.weight and 1 more; surplus tensor 7.dense.weight, 7.dense.bias" \
            $command "$WORK/deep.yaml" --set "model.from=$first"
        refused "surplus" "flat.yaml: $from/first/.*: surplus tensor 7.dense.weight, 7.dense.bias" \
            $command "$WORK/flat.yaml" --set "model.from=$first"
        refused "truncated" "job.yaml: $from/cut.safetensors: tensor .* within" \
            $command "$WORK/job.yaml" --set "model.from=$WORK/cut.safetensors"
        refused "no such file" "job.yaml: $from/nil: .*No such file" $command "$WORK/job.yaml" --set "model.from=$WORK/nil"
        refused "a folder" "job.yaml: $from: is a folder, expected a file such as .*model.safetensors" $command "$WORK/job.yaml" --set "model.from=$WORK"
        refused "no model" "job.yaml: is no safetensors file" $command "$WORK/job.yaml" --set "model.from=$WORK/job.yaml"
    }
done
echo "seven files that do not fit, refused by three commands"

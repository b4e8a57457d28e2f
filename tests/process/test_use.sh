#!/bin/bash
# What a trained model is good for: predict says what eval counts, sample writes the same text for the same seed and
# looks no further back than the context, convert gives arrays that train to the same weights.
. "$(dirname "$0")/../support/process.sh"

run() { # WHAT COMMAND ...: its output goes to $WORK/out
    local what=$1
    shift
    timeout -k 5 120 "$MESHNODE" "$@" >"$WORK/out" 2>"$WORK/err" || fail "$what: status $?: $(cat "$WORK/err")"
}

refused() { # WHAT PATTERN COMMAND ...
    refuses "$2" "${@:3}"
}

# --- images ---
write_job "$WORK/job.yaml" 40
sed -i 's/, augment: {[^}]*}//' "$WORK/job.yaml"
reference "$WORK/job.yaml"
mv "$WORK/reference" "$WORK/images"
model=$WORK/images/model.safetensors
run predict predict "$WORK/job.yaml" "$model"
mv "$WORK/out" "$WORK/table"
[ "$(head -n 1 "$WORK/table")" = row,label,class,p0,p1,p2,p3,p4,p5,p6,p7,p8,p9 ] || fail "header $(head -n 1 "$WORK/table")"
run eval eval "$WORK/job.yaml" "$model"
share=$(awk -F, 'NR > 1 { n++; right += $2 == $3; sum = 0; for (i = 4; i <= NF; i++) sum += $i
        if (NF != 13 || $1 != NR - 2 || sum < 0.999 || sum > 1.001) exit 1 }
    END { printf "accuracy %.2f %%", 100 * right / n }' "$WORK/table") || fail "a line of the table is wrong"
grep -q ", $share\$" "$WORK/out" || fail "predict has $share, eval says: $(cat "$WORK/out")"

run convert convert "$WORK/job.yaml" "$WORK/arrays"
refused "arrays that are scaled already" "test-features.npy: convert wrote it, so its numbers are scaled already; --scaled" \
    predict "$WORK/job.yaml" "$model" "$WORK/arrays/test-features.npy"
run "predict a file" predict "$WORK/job.yaml" "$model" "$WORK/arrays/test-features.npy" --scaled
cut -d, -f 1,3- "$WORK/table" | cmp - "$WORK/out" || fail "the rows of a file are predicted otherwise"
sed 's/source: glyphs, train: 1920, test: 240/source: npy, test_images: test-features.npy, test_labels: test-labels.npy/' \
    "$WORK/job.yaml" >"$WORK/arrays.yaml"
reference "$WORK/arrays.yaml" --data "$WORK/arrays"
[ "$(result reference params_sha256)" = "$(result images params_sha256)" ] || fail "arrays train to other weights"
refused "arrays again" "arrays/features.npy: cannot write: File exists" convert "$WORK/job.yaml" "$WORK/arrays"

run "convert a checkpoint" convert "$WORK/job.yaml" "$WORK/images/checkpoint-40" "$WORK/model"
run "predict with it" predict "$WORK/job.yaml" "$WORK/model"
cmp -s "$WORK/out" "$WORK/table" || fail "the checkpoint holds other weights"
refused "checkpoint of another job" "checkpoint-40: checkpoint of another job: train.optimizer is sgd there, adam here; expected the job" \
    convert "$WORK/job.yaml" "$WORK/images/checkpoint-40" "$WORK/model" --set train.optimizer=adam
refused "checkpoint of other data" "checkpoint-40: checkpoint of another job: it has other data; expected the job" \
    convert "$WORK/job.yaml" "$WORK/images/checkpoint-40" "$WORK/model" --set data.test=120
mkdir "$WORK/alone" && cp "$WORK/images/checkpoint-40" "$WORK/alone"
run "convert a checkpoint alone" convert "$WORK/job.yaml" "$WORK/alone/checkpoint-40" "$WORK/model"
refused "checkpoint of an unknown job" "checkpoint-40: checkpoint of another job, and no job.json beside it says of which;" \
    convert "$WORK/job.yaml" "$WORK/alone/checkpoint-40" "$WORK/model" --set train.epochs=3
head -c 1000 "$model" >"$WORK/small.bin"
refused "a model as a checkpoint" "small.bin: damaged, or not a checkpoint" \
    convert "$WORK/job.yaml" "$WORK/small.bin" "$WORK/model"
head -c 3000000 "$model" >"$WORK/large.bin" && head -c 3000000 /dev/zero >>"$WORK/large.bin"
refused "a file larger than a checkpoint" "large.bin: is a model, expected a checkpoint" \
    convert "$WORK/job.yaml" "$WORK/large.bin" "$WORK/model"
refused "no rows like these" "labels.npy: 1 elements per row, expected the 784" predict "$WORK/job.yaml" "$model" "$WORK/arrays/labels.npy"
refused "an output folder" "predict writes to standard output: use > FILE, not --out" predict "$WORK/job.yaml" "$model" --out "$WORK/p"
: >"$WORK/empty" && head -c 700 "$model" >"$WORK/half" && head -c 20000 "$model" >"$WORK/most"
head -c 900 "$WORK/images/checkpoint-40" >"$WORK/checkpoint-half"
refused "an empty model" "empty: is empty" eval "$WORK/job.yaml" "$WORK/empty"
refused "half a model" "half: is cut off, or damaged: a header of [0-9]* bytes in a file of 700" predict "$WORK/job.yaml" "$WORK/half"
refused "most of a model" "most: tensor .*: is the file cut off\?" eval "$WORK/job.yaml" "$WORK/most"
refused "half a checkpoint" "checkpoint-half: is cut off at byte 900 of [0-9]*" \
    convert "$WORK/job.yaml" "$WORK/checkpoint-half" "$WORK/model"
refused "another kind of image" "x.webp: expected .png, .jpg, .npy or a table" predict "$WORK/job.yaml" "$model" "$WORK/x.webp"
refused "no such rows" "nil.csv: .*No such file" predict "$WORK/job.yaml" "$model" "$WORK/nil.csv"
refused "sample of images" "data.source is not text" sample "$WORK/job.yaml" "$model"
echo "images: $share"

# --- a table, scaled by its training rows ---
awk 'BEGIN { srand(3); print "one;two;sum"
    for (i = 0; i < 480; i++) { a = rand() * 50; b = rand(); printf "%.6f;%.6f;%.6f\n", a, b, a / 25 + b } }' >"$WORK/table.csv"
cat >"$WORK/table.yaml" <<'EOF'
data: {source: csv, file: table.csv, regression: yes, standardise: yes}
model: [dense: 16, tanh, dense: 1]
train: {loss: squared_error, epochs: 20, batch: 48}
EOF
reference "$WORK/table.yaml" --data "$WORK"
run "predict numbers" predict "$WORK/table.yaml" "$WORK/reference/model.safetensors" --data "$WORK"
[ "$(head -n 1 "$WORK/out")" = row,target0,y0 ] || fail "header $(head -n 1 "$WORK/out")"
awk -F, 'NR > 1 { d = $2 - $3; sum += d * d; n++ } END { exit !(n == 96 && sum / n < 0.05) }' "$WORK/out" || fail "poor predictions"
tail -n +2 "$WORK/out" | cut -d, -f 3 | sort >"$WORK/known"
cut -d';' -f 1,2 "$WORK/table.csv" >"$WORK/rows.csv"
run "predict rows" predict "$WORK/table.yaml" "$WORK/reference/model.safetensors" "$WORK/rows.csv" --data "$WORK"
[ "$(head -n 1 "$WORK/out")" = row,y0 ] || fail "header $(head -n 1 "$WORK/out")"
[ "$(wc -l <"$WORK/out")" = 481 ] || fail "$(wc -l <"$WORK/out") lines for 480 rows"
[ -z "$(cut -d, -f 2 "$WORK/out" | sort | comm -13 - "$WORK/known")" ] || fail "rows without their last column are predicted otherwise"
refused "rows with the label" "table.csv: 3 columns, expected 2: without the label, column 3 \(sum\)" \
    predict "$WORK/table.yaml" "$WORK/reference/model.safetensors" "$WORK/table.csv" --data "$WORK"
echo "numbers: $(wc -l <"$WORK/known") rows alike"

# --- a table that has grown, or has other classes ---
awk 'BEGIN { srand(5); print "a,b,kind"
    for (i = 0; i < 480; i++) { k = i % 3; printf "%.3f,%.3f,%s\n", 10 * k + 4 * rand(), -6 * k + 3 * rand(), substr("xyz", k + 1, 1) } }' \
    >"$WORK/kinds.csv"
{
    cat "$WORK/kinds.csv"
    awk 'BEGIN { for (i = 0; i < 60; i++) print "900,-700,z" }'
} >"$WORK/grown.csv"
grep -v ',x$' "$WORK/kinds.csv" >"$WORK/fewer.csv"
sed '41s/,.$/,w/' "$WORK/kinds.csv" >"$WORK/other.csv"
cut -d, -f 1,2 "$WORK/grown.csv" >"$WORK/grown-rows.csv"
cat >"$WORK/kinds.yaml" <<'EOF'
data: {source: csv, file: kinds.csv, standardise: yes}
model: [dense: 3]
train: {epochs: 30, batch: 48, optimizer: {sgd: {rate: 0.5}}}
EOF
reference "$WORK/kinds.yaml" --data "$WORK"
model=$WORK/reference/model.safetensors
for file in kinds grown fewer; do
    run "eval $file" eval "$WORK/kinds.yaml" "$model" --data "$WORK" --set "data.file=$file.csv"
    grep -q ", accuracy 100.00 %$" "$WORK/out" || fail "eval $file: $(cat "$WORK/out")"
    run "predict $file" predict "$WORK/kinds.yaml" "$model" --data "$WORK" --set "data.file=$file.csv"
    [ "$(head -n 1 "$WORK/out")" = row,label,class,x,y,z ] || fail "predict $file: $(head -n 1 "$WORK/out")"
    awk -F, 'NR > 1 && $2 != $3 { exit 1 }' "$WORK/out" || fail "predict $file: $(cat "$WORK/out")"
done
run "predict rows" predict "$WORK/kinds.yaml" "$model" "$WORK/grown-rows.csv"
tail -n +2 "$WORK/out" | cut -d, -f 2 | cmp - <(tail -n +2 "$WORK/grown.csv" | cut -d, -f 3) || fail "rows of the grown table"
LC_ALL=C sed '1s/\\"y\\"/\\"x\\"/' "$model" >"$WORK/same.safetensors"
run "predict with two classes of one name" predict "$WORK/kinds.yaml" "$WORK/same.safetensors" "$WORK/grown-rows.csv"
[ "$(head -n 1 "$WORK/out")" = row,class,p0,p1,z ] || fail "two columns of one name: $(head -n 1 "$WORK/out")"
run "convert words" convert "$WORK/kinds.yaml" "$WORK/kinds" --data "$WORK"
grep -q "^labels: 0 is x, 1 is y, 2 is z$" "$WORK/out" || fail "convert does not say what labels are: $(cat "$WORK/out")"
refused "another class" 'other.csv: line 41, column 3 .*: "w", expected a class of the model: x, y, z' \
    eval "$WORK/kinds.yaml" "$model" --data "$WORK" --set data.file=other.csv
run "python" check "$WORK/kinds.yaml" --data "$WORK" --python "$model"
grep -q "x = (x - mean) \* scale" "$WORK/out" || fail "python: $(tail -n 5 "$WORK/out")"

# --- the job differs from that of the model ---
sed 's/\[dense: 3\]/[dense: 8, tanh, dense: 3]/' "$WORK/kinds.yaml" >"$WORK/tanh.yaml"
sed 's/tanh/relu/' "$WORK/tanh.yaml" >"$WORK/relu.yaml"
reference "$WORK/tanh.yaml" --data "$WORK"
layer='model.safetensors: model, layer 2: is tanh there, relu here'
refused "eval with other layers" "$layer" eval "$WORK/relu.yaml" "$model" --data "$WORK"
refused "predict with other layers" "$layer" predict "$WORK/relu.yaml" "$model" --data "$WORK"
refused "rows with other layers" "$layer" predict "$WORK/relu.yaml" "$model" "$WORK/grown-rows.csv"
refused "another loss" 'model.safetensors: train.loss is cross_entropy there, squared_error here; expected the model that' \
    eval "$WORK/tanh.yaml" "$model" --data "$WORK" --set train.loss=squared_error
refused "python with other layers" "$layer" check "$WORK/relu.yaml" --data "$WORK" --python "$model"
sed 's/a,b,kind/b,c,kind/; s/,y$/,v/; s/,x$/,w/' "$WORK/kinds.csv" >"$WORK/swapped.csv"
run "start from another job" check "$WORK/relu.yaml" --data "$WORK" --set data.file=swapped.csv --set "model.from=$model"
for line in "model, layer 2: is tanh there, relu here" "class 0 is 'x' there, 'v' here"; do
    grep -q "^ *model.from $model: $line\$" "$WORK/out" || fail "model.from does not say: $line: $(cat "$WORK/out")"
done
run "train from another job" "$WORK/tanh.yaml" --data "$WORK" --set data.file=swapped.csv --set mesh.gather_ms=0 \
    --set train.epochs=40 --set "train.from=$WORK/reference/checkpoint-240" --out "$WORK/swapped"
cat "$WORK/out" "$WORK/err" >"$WORK/said"
grep -q "train.from .*: class 0 is 'x' there, 'v' here" "$WORK/said" || fail "train.from: $(cat "$WORK/said")"
LC_ALL=C sed '1s/"input":/"other":/' "$model" >"$WORK/bare.safetensors"
run "python of an unknown scaling" check "$WORK/tanh.yaml" --data "$WORK" --python "$WORK/bare.safetensors"
grep -q "^# The file does not say how its data were scaled: as this job's data are" "$WORK/out" &&
    grep -q "^mean = \[" "$WORK/out" && grep -q "^scale = \[" "$WORK/out" && grep -q "\], scaled\.$" "$WORK/out" ||
    fail "python of an unknown scaling: $(tail -n 8 "$WORK/out")"
echo "classes and scaling: as the model's"

# --- a text ---
for ((i = 0; i < 200; i++)); do
    echo "the quick brown fox $i jumps over the lazy dog"
done >"$WORK/input.txt"
cat >"$WORK/text.yaml" <<'EOF'
data: {source: text, file: input.txt, context: 16}
model: [embedding: 24, positions: learned, residual: [layernorm, dense: 72, attention: 2, dense: 24], dense: 256]
train: {epochs: 4, batch: 48, optimizer: {adam: 0.01}}
EOF
reference "$WORK/text.yaml" --data "$WORK"
model=$WORK/reference/model.safetensors
text() { # OPTION ...; the job's data are not there
    run sample sample "$WORK/text.yaml" "$model" --length 80 "$@"
    [ "$(wc -c <"$WORK/out")" -gt 80 ] || fail "sample $* wrote $(wc -c <"$WORK/out") bytes"
}
text --prompt "the qui"
cp "$WORK/out" "$WORK/first"
[ "$(wc -c <"$WORK/first")" = 88 ] && [ "$(head -c 7 "$WORK/first")" = "the qui" ] || fail "prompt and 80 bytes: $(cat "$WORK/first")"
text --prompt "the qui"
cmp -s "$WORK/out" "$WORK/first" || fail "another text with the same seed"
text --prompt "the qui" --seed 2
! cmp -s "$WORK/out" "$WORK/first" || fail "the same text with another seed"
text --temperature 0 --seed 2
cp "$WORK/out" "$WORK/first"
text --top-k 1 --temperature 5
cmp -s "$WORK/out" "$WORK/first" || fail "the likeliest byte is another with top-k 1"
text --prompt "0123456789abcdefthe quick brown "
tail -c 81 "$WORK/out" >"$WORK/first"
text --prompt "FEDCBA9876543210the quick brown "
tail -c 81 "$WORK/out" | cmp -s - "$WORK/first" || fail "it looks back further than the context"
refused "sample with another model" "model, layer 1: is maxpool: .* there, embedding: .* here" sample "$WORK/text.yaml" "$WORK/images/model.safetensors"
refused "predict a text" "each position of a sequence" predict "$WORK/text.yaml" "$model" --data "$WORK"
refused "convert a text" "16 labels per sample, expected 1" convert "$WORK/text.yaml" "$WORK/none" --data "$WORK"
refused "empty prompt" "prompt is empty" sample "$WORK/text.yaml" "$model" --prompt ""
refused "prompt of another command" "prompt is an option of meshnode sample" eval "$WORK/text.yaml" "$model" --prompt a
timeout -k 5 120 "$MESHNODE" sample "$WORK/text.yaml" "$model" --length 100000000 | head -c 100 >/dev/null
[ "${PIPESTATUS[0]}" != 124 ] || fail "sample goes on when nobody reads"
echo "text: $(head -c 60 "$WORK/first" | tr '\n' '|')"

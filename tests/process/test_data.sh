#!/bin/bash
# Data files that are wrong on one node only: that one refuses to start and says why, in one line with the file's name and
# without delay; the others go on without it. Other contents
# under the same name are refused at the join, by both; a file that is replaced, cut off or deleted during the
# run changes nothing: its contents are in memory.
. "$(dirname "$0")/../support/process.sh"

mkdir "$WORK/good" "$WORK/bad"
awk 'BEGIN {
    srand(4)
    for (i = 0; i < 600; i++) {
        class = int(3 * rand())
        printf "%.4f;%.4f;%.4f;%d\n", rand() + class, rand() - class, rand(), class
    }
}' >"$WORK/good/table.csv"
cat >"$WORK/job.yaml" <<'END'
run: {name: table}
data: {source: csv, file: table.csv}
model: [dense: 32, relu, dense: 3]
train: {epochs: 100000, steps: 3000, batch: 96, eval_every: 0, optimizer: {sgd: 0.01}}
END
reference "$WORK/job.yaml" --data "$WORK/good"

cp "$WORK/good/table.csv" "$WORK/good/kept.csv"
node a "$WORK/job.yaml" --data "$WORK/good" --peers 2 # waits until there is one with the same data
waits() {
    [ "$(steps_done a)" = 0 ] && running a
}

# refused WHAT PATTERN: b does not start with what lies in bad/
refused() {
    local status line
    node b "$WORK/job.yaml" --data "$WORK/bad"
    wait_until 10 "b to refuse $1" gone b
    wait "${PID[b]}"
    status=$?
    unset "PID[b]"
    [ $status = 2 ] || fail "$1: b ended with status $status, expected 2"
    line=$(cat "$WORK/b.log")
    [ "$(wc -l <"$WORK/b.log")" = 1 ] || fail "$1: more than a line: $line"
    grep -q "$2" "$WORK/b.log" || fail "$1: '$line', expected '$2'"
    echo "$1: ${line##*/}"
    rm -rf "$WORK/bad/table.csv"
}

refused "a missing file" 'no table.csv in the folder .*/bad: name the folder of the data with --data FOLDER'
mkdir "$WORK/bad/table.csv"
refused "a folder" 'table.csv: is a folder, expected a regular file'
if [ "$(id -u)" != 0 ]; then
    cp "$WORK/good/kept.csv" "$WORK/bad/table.csv"
    chmod 000 "$WORK/bad/table.csv"
    refused "no permission" 'table.csv: Permission denied'
fi
gzip -c "$WORK/good/kept.csv" >"$WORK/bad/table.csv"
refused "gzip" 'table.csv: is gzip, expected plain text'
head -c 5000 "$WORK/good/kept.csv" >"$WORK/bad/table.csv"
refused "a table that is cut off" 'table.csv: line '

waits || fail "a did not wait for one with the same data"
sed '300s/^[^;]*/0.5/' "$WORK/good/kept.csv" >"$WORK/bad/table.csv"
node b "$WORK/job.yaml" --data "$WORK/bad" --peers 2
says() {
    grep -q 'trains another job: the same keys, but other data. Each trains its own' "$WORK/$1.log"
}
wait_until 20 "a to say that the contents differ" says a
wait_until 20 "b to say that the contents differ" says b
kill_node b
echo "other contents: $(grep -h 'another job' "$WORK/a.log")"
sed 's/;2$/;two/' "$WORK/good/kept.csv" >"$WORK/bad/table.csv" # the same numbers
node b "$WORK/job.yaml" --data "$WORK/bad" --peers 2
names() {
    grep -q "trains another job: the same keys, but class 2 is '$2' there, '$3' here. Each trains its own" "$WORK/$1.log"
}
wait_until 20 "a to say that a class has another name" names a two 2
wait_until 20 "b to say that a class has another name" names b 2 two
kill_node b

# Trained on what was there at the start.
waits || fail "a did not wait for one with the same data"
printf 'nothing of it\n' >"$WORK/good/new"
mv "$WORK/good/new" "$WORK/good/table.csv"
cp "$WORK/good/kept.csv" "$WORK/bad/table.csv"
node c "$WORK/job.yaml" --data "$WORK/bad" --peers 2
wait_until 30 "two to train" peers_are 2 a c
truncate -s 0 "$WORK/bad/table.csv"
rm "$WORK/good/table.csv"
running a || fail "a ended before its file was gone"
finished 60 a c
same_hash reference a c

#!/bin/bash
# Arrays that stay on disk: the same weights on one node and two, also when the file of one shrinks during the run:
# that one says so and leaves with status 1, nothing it could not read is counted. Other contents are refused, and
# a file that is replaced is still the one that was opened.
. "$(dirname "$0")/../support/process.sh"

mkdir "$WORK/one" "$WORK/two" "$WORK/other"
python3 - "$WORK/one" <<'END' || skip "no python3"
import random, struct, sys

random.seed(5)
ROWS, WIDTH, CLASSES = 1200, 256, 4
centre = [[random.gauss(0, 1) for _ in range(WIDTH)] for _ in range(CLASSES)]
label = [random.randrange(CLASSES) for _ in range(ROWS)]


def write(name, kind, shape, data):
    text = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n" % (kind, shape)
    with open(sys.argv[1] + "/" + name, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data)


rows = b"".join(struct.pack("<%df" % WIDTH, *(x + random.gauss(0, 1) for x in centre[l])) for l in label)
write("features.npy", "<f4", "(%d, %d)" % (ROWS, WIDTH), rows)
write("labels.npy", "<i8", "(%d,)" % ROWS, struct.pack("<%dq" % ROWS, *label))
END
cp "$WORK"/one/* "$WORK/two"
cp "$WORK"/one/* "$WORK/other"
printf 'x' | dd of="$WORK/other/features.npy" bs=1 seek=5000 conv=notrunc status=none

cat >"$WORK/job.yaml" <<'END'
run: {name: arrays}
data: {source: npy}
model: [dense: 64, relu, dense: 4]
train: {epochs: 100000, steps: 2000, batch: 96, eval_every: 0, optimizer: {sgd: 0.01}}
mesh: {division: even} # both read data, though one alone would be as fast
END

reference "$WORK/job.yaml" --data "$WORK/one"

node a "$WORK/job.yaml" --peers 2 --data "$WORK/one"
node b "$WORK/job.yaml" --peers 2 --data "$WORK/two"
wait_until 30 "two nodes to train" peers_are 2 a b
cp "$WORK/one/features.npy" "$WORK/one/new"
mv "$WORK/one/new" "$WORK/one/features.npy"
truncate -s 40000 "$WORK/two/features.npy"
wait_until 30 "b to leave" gone b
wait "${PID[b]}"
status=$?
unset "PID[b]"
[ $status = 1 ] || fail "b ended with status $status, expected 1"
grep -q 'features.npy: cut off at byte .*; leaving the mesh' "$WORK/b.log" || fail "b does not say why it left"
! grep -q 'damaged\|expelled' "$WORK/b.log" "$WORK/a.log" || fail "what b could not read was taken for damage"
finished 60 a
same_hash reference a
echo "left at step $(steps_done b): $(grep -h 'cut off' "$WORK/b.log" | head -n 1)"

rm -rf "$WORK"/[ab]
node a "$WORK/job.yaml" --peers 2 --data "$WORK/one"
node b "$WORK/job.yaml" --peers 2 --data "$WORK/other"
says() {
    grep -Eiq 'another (job|model|training)|another data|other data' "$WORK/a.log" "$WORK/b.log"
}
wait_until 20 "other contents to be refused" says
[ "$(steps_done a)$(steps_done b)" = 00 ] || fail "they trained together with other contents"
echo "other contents: $(grep -hEi 'another|other data' "$WORK/a.log" | head -n 1)"
kill_node a
kill_node b

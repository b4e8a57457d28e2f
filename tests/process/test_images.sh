#!/bin/bash
# Folders of images: PNG and JPEG of all kinds train to the same weights on one node and on three; a wrong file is named
# in one line; predict takes an image or a folder of them.
. "$(dirname "$0")/../support/process.sh"

python3 - "$WORK/photos" "$ROOT/tests/golden/images" <<'END' || skip "no python3"
import os, random, shutil, struct, sys, zlib

random.seed(3)
to, golden = sys.argv[1:]
jpegs = sorted(name for name in os.listdir(golden) if name.endswith(".jpg"))


def png(width, height, colour, rows):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


for c in range(10):
    os.makedirs("%s/class%d" % (to, c))
    for i in range(12):
        colour, channels = random.choice([(0, 1), (2, 3), (4, 2), (6, 4)])
        width, height = random.randint(1, 40), random.randint(1, 40)
        rows = b"".join(b"\0" + bytes(random.randrange(25) + 22 * c for _ in range(channels * width)) for _ in range(height))
        with open("%s/class%d/%d.png" % (to, c, i), "wb") as file:
            file.write(png(width, height, colour, rows))
    shutil.copy("%s/%s" % (golden, jpegs[c % len(jpegs)]), "%s/class%d/" % (to, c))
END
cat >"$WORK/job.yaml" <<'END'
data: {source: images, size: 16, test_share: 0.2}
model: [conv: 4, relu, maxpool: 2, flatten, dense: 10]
train: {epochs: 20, batch: 24, optimizer: {adam: 0.01}}
END
job=("$WORK/job.yaml" --data "$WORK/photos")
reference "${job[@]}"
node a "${job[@]}" --peers 3
node b "${job[@]}" --peers 3 --threads 3
node c "${job[@]}" --peers 3
finished 120 a b c
same_hash reference a b c
echo "accuracy $(result a test_accuracy), $(result a params_sha256)"

check() {
    timeout 60 "$MESHNODE" check "${job[@]}" "$@" >"$WORK/out" 2>"$WORK/err"
}
refused() { # WHAT PATTERN OPTION ...
    local what=$1 pattern=$2
    shift 2
    check "$@" && fail "$what: taken"
    [ "$(wc -l <"$WORK/err")" = 1 ] || fail "$what: expected one line: $(cat "$WORK/err")"
    grep -Eq "$pattern" "$WORK/err" || fail "$what: $(cat "$WORK/err")"
}
check || fail "check: $(cat "$WORK/err")"
cp "$ROOT/tests/golden/images/deep.png" "$WORK/photos/class3/x.png"
refused "16 bits" "^meshnode: $WORK/photos/class3/x.png: 16 bits per channel, expected at most 8$"
head -c 300 "$ROOT/tests/golden/images/420.jpg" >"$WORK/photos/class3/x.png"
refused "cut off" "class3/x.png: damaged JPEG: "
: >"$WORK/photos/class3/x.png"
refused "empty" "class3/x.png: the file is empty"
rm "$WORK/photos/class3/x.png"
refused "another channel count" "data.channels = 2, expected 1 or 3" --set data.channels=2
refused "no such folder" "no folder $WORK/none: name the folder of the data with --data FOLDER" --data "$WORK/none"

run() {
    timeout 60 "$MESHNODE" "$@" >"$WORK/out" 2>"$WORK/err" || fail "$*: $(cat "$WORK/err")"
}
run predict "${job[@]:0:1}" "$WORK/a/model.safetensors" "$WORK/photos/class7" --data "$WORK/photos"
[ "$(wc -l <"$WORK/out")" = 14 ] || fail "13 images of a folder: $(cat "$WORK/out")"
[[ $(head -n 1 "$WORK/out") = row,file,class,class0,class1,* ]] || fail "columns: $(head -n 1 "$WORK/out")"
[[ $(sed -n 2p "$WORK/out") = 0,$WORK/photos/class7/* ]] || fail "the name of a file: $(sed -n 2p "$WORK/out")"
run predict "${job[@]:0:1}" "$WORK/a/model.safetensors" "$WORK/photos/class7/3.png" --data "$WORK/photos"
[ "$(wc -l <"$WORK/out")" = 2 ] || fail "an image: $(cat "$WORK/out")"

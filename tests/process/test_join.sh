#!/bin/bash
# A node with nothing but the program joins: job and data come from the mesh, from several nodes at a time, whatever the
# source; half of them stays in the cache after a power cut; a file that changed is not given; names that leave the folder
# are not either.
. "$(dirname "$0")/../support/process.sh"

bare() { # NAME [OPTION ...]: a node in an empty folder, with an empty home
    local name=$1
    shift
    mkdir -p "$WORK/at-$name"
    # shellcheck disable=SC2086
    (cd "$WORK/at-$name" && HOME=$WORK/at-$name XDG_CACHE_HOME='' exec "$MESHNODE" --out "$WORK/$name" --threads 1 \
        --set "mesh.group=$GROUP" $LINK "$@") >"$WORK/$name.log" 2>&1 </dev/null &
    PID[$name]=$!
}

MODEL="model: [dense: 8, relu, dense: 2]"
TRAIN="train: {batch: 24, steps: 40, epochs: 1000, eval_every: 0}"

# Every source of files: two that have them, one that has nothing.
mkdir -p "$WORK/table/sub" "$WORK/text" "$WORK/npy" "$WORK/idx"
awk 'BEGIN { for (i = 0; i < 400; i++) print i % 7 "," i % 3 "," i % 2 }' | tee "$WORK/table/sub/a-1.csv" >"$WORK/table/sub/a-2.csv"
awk 'BEGIN { for (i = 0; i < 9000; i++) printf "%d words, ", i * i % 97 }' >"$WORK/text/words.txt"
printf '%s\n' 'run: {name: glyphs}' 'data: {train: 480, test: 96}' 'model: [flatten, dense: 10]' 'train: {batch: 24}' >"$WORK/glyphs.yaml"
"$MESHNODE" convert "$WORK/glyphs.yaml" "$WORK/npy" >/dev/null || fail "convert"
python3 - "$WORK" <<'END' || skip "no python3"
import gzip, os, random, struct, sys, zlib

random.seed(4)
root = sys.argv[1]


def file(name, content):
    path = os.path.join(root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        out.write(content)


def idx(*shape):
    size = 1
    for n in shape:
        size *= n
    body = bytes(random.randrange(4 if len(shape) == 1 else 256) for _ in range(size))
    return struct.pack(">HBB%dI" % len(shape), 0, 8, len(shape), *shape) + body


def png(shade):
    def part(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    rows = b"".join(b"\0" + bytes(random.randrange(shade, shade + 50) for _ in range(24)) for _ in range(8))
    head = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b"")


for part, rows in ("train", 96), ("t10k", 24):  # one node has them in gzip, the other one as they are
    for name, content in ("images-idx3", idx(rows, 6, 6)), ("labels-idx1", idx(rows)):
        file("idx/%s-%s-ubyte" % (part, name), content)
        file("idx-gz/%s-%s-ubyte.gz" % (part, name), gzip.compress(content))
for name in ["data_batch_%d" % i for i in range(1, 6)] + ["test_batch"]:
    file("cifar/cifar-10-batches-bin/%s.bin" % name,
         b"".join(bytes([i % 10]) + bytes(random.randrange(256) for _ in range(3072)) for i in range(16)))
for i in range(40):
    file("images/%s/%d.png" % ("ab"[i % 2], i), png(100 * (i % 2)))
END
for source in table text npy idx cifar images; do
    case $source in
    table) data='source: csv, file: "sub/a-*.csv"' model=$MODEL ;;
    text) data='source: text, file: words.txt, context: 16' model="model: [embedding: {units: 4}, dense: 256]" ;;
    npy) data="source: npy, test_images: test-features.npy, test_labels: test-labels.npy" model="model: [flatten, dense: 10]" ;;
    idx) data='source: idx' model="model: [flatten, dense: 4]" ;;
    cifar) data='source: cifar10' model="model: [flatten, dense: 10]" ;;
    images) data='source: images, size: 8' model="model: [flatten, dense: 2]" ;;
    esac
    printf '%s\n' "run: {name: $source}" "data: {$data}" "$model" "$TRAIN" >"$WORK/$source.yaml"
    node one-$source "$WORK/$source.yaml" --data "$WORK/$source" --peers 3
    where=$source
    [ ! -d "$WORK/$source-gz" ] || where=$source-gz
    node two-$source "$WORK/$source.yaml" --data "$WORK/$where" --peers 3
    bare none-$source --peers 3
    finished 60 one-$source two-$source none-$source
    same_hash one-$source two-$source
    same_hash one-$source none-$source
    says none-$source "^the data: [0-9.]+ MB in [0-9]+ files?, from the mesh into $WORK/at-none-$source/.cache/meshnode/[0-9a-f]{16}\$" ||
        fail "$source: $(cat "$WORK/none-$source.log")"
    GROUP=$GROUP-x
done

# Very many files: who has them needs no more memory than for their names, and few descriptors, to give them.
mkdir -p "$WORK/many/a" "$WORK/many/b"
for ((i = 0; i < 2; i++)); do cp "$WORK/images"/*/$i.png "$WORK/many/$i"; done
python3 - "$WORK/many" <<'END'
import os, sys

for i in range(5000):
    os.link("%s/%d" % (sys.argv[1], i % 2), "%s/%s/%d.png" % (sys.argv[1], "ab"[i % 2], i))
END
rm "$WORK/many"/[01]
sed 's/size: 8/size: 4/; s/steps: 40, epochs: 1000/epochs: 1000000/; s/name: images/name: many/' "$WORK/images.yaml" >"$WORK/many.yaml"
memory() { # NAME: kB
    awk '$1 == "VmRSS:" { print $2 }' "/proc/${PID[$1]}/status"
}
node many1 "$WORK/many.yaml" --data "$WORK/many" --peers 2
node many2 "$WORK/many.yaml" --data "$WORK/many" --peers 2
wait_until 60 "two to train" reached 3 many1 many2
before=$(($(memory many1) + $(memory many2)))
bare many3
wait_until 120 "a third one to train" peers_are 3 many1 many2 many3
grew=$(($(memory many1) + $(memory many2) - before))
sanitized || [ $grew -le 32768 ] || fail "who gave 5000 files needs $grew kB more"
[ "$(find "$WORK"/at-many3/.cache/meshnode/* -type f -size +0 | wc -l)" = 5000 ] || fail "not all files are in the cache"
descriptors=$(ls "/proc/${PID[many1]}/fd" | wc -l)
[ "$descriptors" -le 200 ] || fail "$descriptors descriptors"
for name in many1 many2 many3; do kill_node $name; done
GROUP=$GROUP-x

# A disk without room for the data: it says so in one line and watches, and takes part when there is room.
small() { # COMMAND ...: sees the small disk
    nsenter --target "${PID[small]}" --mount "$@"
}
small_disk() { # NAME SIZE
    mkdir -p "$WORK/disk" "$WORK/at-$1"
    : >"$WORK/$1.log"
    (cd "$WORK/at-$1" && exec unshare --mount sh -c "mount -t tmpfs -o $2 none '$WORK/disk' && exec '$MESHNODE' --cache '$WORK/disk' \
        --out '$WORK/$1' --threads 1 --peers 2 --set 'mesh.group=$GROUP' $LINK") >"$WORK/$1.log" 2>&1 </dev/null &
    PID[$1]=$!
}
if unshare --mount true 2>/dev/null; then
    node one "$WORK/images.yaml" --data "$WORK/images" --peers 2
    small_disk small size=16k
    wait_until 30 "small to watch" says small "^warning: $WORK/disk: the data need [0-9]+ bytes, the disk has [0-9]+ free ones.* only watches\$"
    wait_until 30 "small to see one" says small "^no room for the data: .* 1 node\$"
    small mount -o remount,size=16m "$WORK/disk"
    finished 60 one small
    same_hash one small
    [ "$(grep -c "only watches" "$WORK/small.log")" = 1 ] || fail "said more than once: $(cat "$WORK/small.log")"
    GROUP=$GROUP-x
    # The run ends meanwhile.
    node begins "$WORK/images.yaml" --data "$WORK/images" --peers 2
    small_disk late nr_inodes=20
    wait_until 30 "late to watch" says late "^warning: $WORK/disk: the data are 40 more files, the disk has room for 1[0-9];.* only watches\$"
    node ends "$WORK/images.yaml" --data "$WORK/images" --peers 2
    finished 60 begins ends
    wait_until 10 "late to end" gone late
    says late "the run has ended before its files were here\$" || fail "late: $(cat "$WORK/late.log")"
    GROUP=$GROUP-x
fi

# Five nodes, of which two have the data. One of these dies while it gives, and a node that takes dies, too, and what it
# has is damaged by that. A third one gets a block with a wrong bit. All that come again come to the same weights.
[ -x "$FAILNODE" ] || skip "no program $FAILNODE: make failpoints"
head -c 24000000 /dev/urandom >"$WORK/text/large"
printf '%s\n' "run: {name: large}" "data: {source: text, file: large, context: 16, train: 2400, test: 240}" \
    "model: [embedding: {units: 4}, dense: 256]" "$TRAIN" >"$WORK/large.yaml"
MESHNODE=$FAILNODE
GROUP=$GROUP-large
node whole "$WORK/large.yaml" --data "$WORK/text" --peers 5
MESHNODE_FAIL=give-send:9:kill node dies "$WORK/large.yaml" --data "$WORK/text" --peers 5
bare one --peers 5
MESHNODE_FAIL=give-got:7:flip bare two --peers 5
MESHNODE_FAIL=give-taken:20:kill bare three --peers 5
wait_until 30 "a node that gives to die" gone dies
wait_until 30 "a node that takes to die" gone three
cached=$(echo "$WORK"/at-three/.cache/meshnode/*/large)
[ -s "$cached" ] || fail "nothing is in the cache: $(cat "$WORK/three.log")"
dd if=/dev/zero of="$cached" bs=1000 seek=2500 count=10 conv=notrunc 2>/dev/null
node dies "$WORK/large.yaml" --data "$WORK/text" --peers 5
bare three --peers 5
finished 120 whole dies one two three
for name in dies one two three; do same_hash whole $name; done
cmp "$cached" "$WORK/text/large" || fail "what is in the cache is not what was given"

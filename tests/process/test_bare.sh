#!/bin/bash
# test_bare.sh [three|five] - machines on which nothing exists but the static program (make static), each with an empty home,
# on a bridge of their own.
#
# three: README's "Three PCs", word for word: one hash, and how long each takes from the copied program to its first shards.
# five: one has a job and 50 MB of data. While the others take these, two of those that have them die, and the power of one
# that takes them is cut. They come again, and all end with the weights that one machine gets alone.
. "$(dirname "$0")/../support/power.sh"
. "$(dirname "$0")/../support/process.sh"
. "$ROOT/tests/support/netns.sh"
STATIC=${BUILD:-$ROOT/build/gcc}/meshnode-static
DIGITS=de1fa10c276aaccc0015122d2c871215e7cff12bb7ed304d6c88ca4e61de802c
FIRST_MS=20000
[ -x "$STATIC" ] || skip "no static program $STATIC: make static says why"
[ "$(id -u)" = 0 ] || skip "not root: no other root folder"
netns_need
strip -o "$WORK/program" "$STATIC" || skip "no strip for this program"
read -r load _ </proc/loadavg
[ "${load%.*}" -lt $((2 * $(nproc))) ] || FIRST_MS=200000

machine() { # INDEX: where nothing is
    mkdir -p "$WORK/pc$1" && cp -r "$WORK/program" "$WORK/pc$1/meshnode" && sync -f "$WORK/pc$1/meshnode"
}

# No mount namespace of its own: that would keep the disks of others.
at() { # INDEX COMMAND ...: on that machine, in the background
    local name=pc$1
    HOME=/ XDG_CACHE_HOME='' nsenter --net="/run/netns/$NETNS_TAG-$1" chroot "$WORK/$name" /meshnode "${@:2}" >>"$WORK/$name.log" 2>&1 </dev/null &
    PID[$name]=$!
}

end() { # INDEX JOB KEY: from its result
    value "$WORK/pc$1/runs/$2/result.json" "$3"
}

first_shards() { # INDEX
    grep -q '"shards":"0*[1-9a-f]' "$WORK/pc$1/runs/digits/metrics.jsonl" 2>/dev/null
}

three() {
    local index began=() ms
    netns_up 3 || fail "no namespaces"
    mkdir -p "$WORK/pc0/build" && cp -r "$ROOT/configs" "$WORK/pc0" # a copy of the sources, where make static was
    for index in 0 1 2; do machine "$index" && began+=("$(now)"); done
    at 0 configs/digits.yaml
    at 1
    at 2
    for index in 0 1 2; do
        wait_until 20 "pc$index to compute" first_shards "$index"
        ms=$((($(now) - began[index]) / 1000))
        echo "pc$index: $ms ms from the program to its first shards"
        [ $ms -le $FIRST_MS ] || fail "pc$index took $ms ms, expected $FIRST_MS at most"
    done
    finished 120 pc0 pc1 pc2
    for index in 0 1 2; do
        [ "$(end $index digits params_sha256)" = $DIGITS ] || fail "pc$index has other weights: $(end $index digits params_sha256)"
        [ "$(end $index digits peers_max)" = 3 ] || fail "pc$index trained with $(end $index digits peers_max) nodes"
    done
    echo "three PCs: $DIGITS, $((($(now) - began[0]) / 1000)) ms in all"
    netns_down
    rm -rf "$WORK"/pc?
}

has() { # MEBIBYTES INDEX: so much of the data is in its cache
    local kib
    kib=$(du -sk "$WORK/pc$2/.cache/meshnode" 2>/dev/null | cut -f 1)
    [ "${kib:-0}" -ge $(($1 << 10)) ]
}

has_all() { # INDEX ...
    local index
    for index; do grep -q "^job large from " "$WORK/pc$index.log" || return 1; done
}

five() {
    local index
    netns_up 5 100mbit || fail "no namespaces"
    DISK_SIZE=256M disks pc4
    for index in 0 1 2 3 4; do machine "$index"; done
    mkdir "$WORK/pc0/data" && head -c 50000000 /dev/urandom >"$WORK/pc0/data/large"
    printf '%s\n' "run: {name: large}" "data: {source: text, file: large, context: 16, train: 2400, test: 240}" \
        "model: [embedding: {units: 4}, dense: 256]" "train: {batch: 24, steps: 100, epochs: 1000, eval_every: 0}" \
        "mesh: {division: even}" >"$WORK/pc0/job.yaml"
    at 0 job.yaml --data data --out alone --set mesh.gather_ms=0
    finished 60 pc0
    at 0 job.yaml --data data --peers 5
    at 1 --peers 5
    at 2 --peers 5
    wait_until 60 "two to have the data" has_all 1 2
    at 3 --peers 5
    at 4 --peers 5
    wait_until 60 "pc3 to have some" has 5 3
    kill_node pc0
    wait_until 60 "pc4 to have some" has 10 4
    kill_node pc1
    power_cut pc4
    has_all 3 && fail "pc3 had everything before two of those that give died"
    at 4 --peers 5
    at 0 job.yaml --data data --peers 5
    at 1 --peers 5
    finished 120 pc0 pc1 pc2 pc3 pc4
    for index in 0 1 2 3 4; do
        [ "$(end $index large params_sha256)" = "$(value "$WORK/pc0/alone/result.json" params_sha256)" ] ||
            fail "pc$index has other weights: $(end $index large params_sha256)"
        [ "$(end $index large peers_max)" = 5 ] || fail "pc$index trained with $(end $index large peers_max) nodes"
    done
    for index in 1 2 3 4; do
        cmp "$WORK/pc$index"/.cache/meshnode/*/large "$WORK/pc0/data/large" || fail "pc$index has other data"
    done
    echo "five PCs, two that gave killed, one that took without power: $(end 4 large params_sha256)"
}

for one in ${*:-three five}; do "$one"; done

#!/bin/bash
# What `meshnode check` says a node holds at most, it holds at most, with servers and with gossip: two nodes, and a network
# whose vectors (13 MiB) outweigh the program; then one whose activations do. With servers that do not wait it is also near to that: what is on its way
# depends on who waits for whom. Half of the ways each day.
. "$(dirname "$0")/../support/process.sh"
! sanitized || skip "with sanitizers a node keeps what is free"
command -v python3 >/dev/null || skip "no python3: nothing measures how much memory a process had"

cat >"$WORK/job.yaml" <<'END'
run:   {name: peak, seed: 1}
data:  {source: glyphs, train: 48, test: 12}
model: [flatten, dense: 2048, relu, dense: 896, relu, dense: 10]
train: {batch: 24, shards: 4, epochs: 2, eval_every: 0, optimizer: {sgd: {rate: 0.01, momentum: 0.9}}}
mesh:  {gather_ms: 1}
END

said() { # SETTING ...: MiB that a node holds at most
    local pair set=()
    for pair; do
        set+=(--set "$pair")
    done
    "$MESHNODE" check "$WORK/job.yaml" --threads 1 --peers 2 "${set[@]}" |
        sed -n 's/^ *all, at most *\([0-9]*\)\.[0-9]* MiB$/\1/p'
}

measure() { # NAME LEAST SETTING ...: LEAST percent of what check says must be held
    local prefix=$1 least=$2 pair set=() most name held
    shift 2
    for pair; do
        set+=(--set "$pair")
    done
    most=$(said "$@")
    [ -n "$most" ] || fail "$prefix: check does not say how much memory a node holds"
    for name in "$prefix-a" "$prefix-b"; do
        WHERE[$name]="$ROOT/tests/support/peak.py $WORK/$name.kib"
        node "$name" "$WORK/job.yaml" --peers 2 "${set[@]}"
    done
    finished 120 "$prefix-a" "$prefix-b"
    for name in "$prefix-a" "$prefix-b"; do
        held=$(($(cat "$WORK/$name.kib") / 1024))
        echo "$name: $held MiB of $most"
        [ "$held" -le $((most * 105 / 100)) ] || fail "$name held $held MiB, check says at most $most"
        [ "$held" -ge $((most * least / 100)) ] || fail "$name held $held MiB, check says $most: that is no measure"
    done
}

# told has one of the six neighbours that are counted.
mapfile -t ways < <(today 2 "server 33 mesh.topology=server mesh.servers=1" \
    "gossip 33 mesh.topology=gossip" \
    "pairs 33 mesh.topology=gossip mesh.sync=async" \
    "told 20 mesh.topology=gossip mesh.compress=topk")
for way in "${ways[@]}"; do
    # shellcheck disable=SC2086 # words
    measure $way
done

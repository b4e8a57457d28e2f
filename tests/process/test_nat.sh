#!/bin/bash
# test_nat.sh - a member is known by what it sends, not by its address: the connections that node n2 opens come from another
# address than the one it listens on. First its network has two addresses, then all it sends is translated. At 100 Mbit/s a
# chunk of 1 MiB takes 80 ms. All three nodes must train together, and nobody is cut off. Shares are even: otherwise one of
# them finds in the first round that it is faster without the others.
. "$(dirname "$0")/../support/process.sh"
. "$ROOT/tests/support/netns.sh"
netns_need
netns_up 3 100mbit || fail "no namespaces"

LINK=
NODES=(n0 n1 n2)
JOB=$WORK/job.yaml
cat >"$JOB" <<END
run: {name: wide, seed: 7}
data: {source: glyphs, train: 960, test: 120}
model:
  - input: [1, 28, 28]
  - flatten
  - dense: 1024
  - relu
  - dense: 10
train: {epochs: 1000, steps: 12, batch: 96, shards: 12, eval_every: 0, optimizer: {sgd: {rate: 0.05}}}
mesh: {division: even}
END
reference "$JOB"

# The nodes train JOB. Each has steps with all three, no connection breaks, and the weights are those of one node.
together() { # WHAT
    local index name steps
    for index in 0 1 2; do
        WHERE[n$index]="ip netns exec $NETNS_TAG-$index"
        node "n$index" "$JOB" --peers 3
    done
    finished 120 "${NODES[@]}"
    for name in "${NODES[@]}"; do
        steps=$(grep -c '"peers":3,' "$WORK/$name/metrics.jsonl")
        echo "$1: $name trained $steps steps with all nodes"
        [ "$steps" -gt 0 ] || fail "$1: $name trained no step with all nodes"
        ! grep -E "without an end|connection closed" "$WORK/$name.log" || fail "$1: $name lost somebody"
    done
    same_hash reference "${NODES[@]}"
    rm -rf "$WORK"/n?
}

ip -n "$NETNS_TAG-2" addr add 10.77.0.103/24 dev eth0
ip -n "$NETNS_TAG-2" route replace 10.77.0.0/24 dev eth0 src 10.77.0.103
together "two addresses"
ip -n "$NETNS_TAG-2" route replace 10.77.0.0/24 dev eth0 src 10.77.0.3
if netns_exec 2 nft -f - 2>"$WORK/why" <<END; then
table ip nat {
    chain out { type nat hook postrouting priority 100; ip protocol tcp snat to 10.77.0.103; }
}
END
    together "address translation"
else
    echo "SKIPPED: address translation: $(head -n 1 "$WORK/why")"
fi

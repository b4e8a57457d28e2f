#!/bin/bash
# test_interface.sh - the network of a node changes while it trains, as with DHCP, a pulled cable or a container
# that is moved: its interface is removed and comes back with another address. Node n2 uses all interfaces, n1
# only eth0. Each time the others go on, all three train together again, and the weights are those of one node.
. "$(dirname "$0")/../support/process.sh"
. "$ROOT/tests/support/netns.sh"
netns_need
netns_up 3 || fail "no namespaces"

LINK=
NODES=(n0 n1 n2)
write_job "$WORK/job.yaml" 100000
for index in 0 1 2; do
    WHERE[n$index]="ip netns exec $NETNS_TAG-$index"
    node "n$index" "$WORK/job.yaml" $([ $index != 1 ] || echo --interface eth0)
done

replug() { # INDEX ADDRESS
    ip -n "$NETNS_TAG-$1" link del eth0 || fail "cannot remove eth0"
    wait_until 5 "the others to go on" trains_with 2 $3
    ip -n "$NETNS_TAG-$1" link add eth0 type veth peer name "p$1" netns "$NETNS_TAG-sw"
    ip -n "$NETNS_TAG-sw" link set "p$1" master sw0 up
    ip -n "$NETNS_TAG-$1" addr add "$2/24" broadcast 10.77.0.255 dev eth0
    ip -n "$NETNS_TAG-$1" link set eth0 up
}

again() { # WHO
    local started
    started=$(now)
    wait_until 10 "one ring of 3 with $1" trains_with 3 "${NODES[@]}"
    echo "$1: one ring of 3 again after $((($(now) - started) / 1000)) ms"
}

wait_until 10 "one ring of 3" trains_with 3 "${NODES[@]}"
replug 2 10.77.0.102 "n0 n1"
again n2
replug 1 10.77.0.101 "n0 n2"
again n1
grep -q "listening on 10.77.0.101 instead of 10.77.0.2" "$WORK/n1.log" || fail "n1 does not listen on its new address"
ip -n "$NETNS_TAG-2" addr del 10.77.0.102/24 dev eth0 # another one, without a moment in between
ip -n "$NETNS_TAG-2" addr add 10.77.0.103/24 dev eth0
wait_until 10 "n2 to notice" grep -q "eth0 10.77.0.103 has come" "$WORK/n2.log"
again n2
netns_cut 0
wait_until 5 "the others to go on" trains_with 2 n1 n2
netns_mend 0
again n0
wait_until 60 "all to be at step 150" reached 150 "${NODES[@]}"

# Every step that two of them took has one hash, wherever it was taken.
hashes() { # NAME
    sed -n 's/.*"step":\([0-9]*\),.*"state_hash":"\([0-9a-f]*\)".*/\1 \2/p' "$WORK/$1/metrics.jsonl"
}
for name in "${NODES[@]}"; do
    kill -TERM "${PID[$name]}"
done
wait_until 10 "all to end" gone "${NODES[@]}"
for name in "${NODES[@]}"; do
    hashes "$name"
done | sort -n | uniq -c | awk '
    $2 == last { print "step " $2 " has two hashes"; bad = 1 }
    { last = $2; shared += $1 > 1; steps++ }
    END { print steps " steps, " shared " of them on several nodes"; exit bad || shared < 100 }' || fail "not one run"

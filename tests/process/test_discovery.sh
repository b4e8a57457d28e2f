#!/bin/bash
# test_discovery.sh [JOB.yaml]
# Four machines on one switch, nobody is told an address: within 3 s of the last start they train in one
# ring, and all end with the same weights. Then the same with the last one coming a while after the rest.
. "$(dirname "$0")/../support/process.sh"
[ -x "$FAILNODE" ] || skip "no program $FAILNODE: make failpoints"
. "$ROOT/tests/support/netns.sh"
netns_need
netns_up 4 || fail "no namespaces"

LINK=
NODES=(n0 n1 n2 n3)
for index in 0 1 2 3; do
    WHERE[n$index]="ip netns exec $NETNS_TAG-$index"
done
if [ -n "${1:-}" ]; then
    cp "$1" "$WORK/job.yaml"
else
    write_job "$WORK/job.yaml" 600
fi

meet() { # NAME OF THE LAST TO START
    local started
    started=$(now)
    wait_until 3 "one ring of 4" peers_are 4 "${NODES[@]}"
    echo "one ring of 4 after $((($(now) - started) / 1000)) ms from the start of $1"
    finished 120 "${NODES[@]}"
    same_hash "${NODES[@]}"
}

for name in "${NODES[@]}"; do
    node "$name" "$WORK/job.yaml"
done
meet n3
first=$(result n0 params_sha256)

rm -rf "$WORK"/n[0-3]
MESHNODE=$FAILNODE
export MESHNODE_FAIL=compute:1+:sleep=20 # 12 s and more, so that the run does not end before the last node comes
for name in n0 n1 n2; do
    node "$name" "$WORK/job.yaml"
done
wait_until 30 "three nodes to train" reached 20 n0 n1 n2
node n3 "$WORK/job.yaml"
meet n3
[ "$(result n0 params_sha256)" = "$first" ] || fail "a late node changed the result"
# It takes a copy of the state, or follows the sums from the first one on if the others still have them all.
grep -qi "caught up" "$WORK/n3.log" || grep -q '"followed":true' "$WORK/n3/metrics.jsonl" ||
    fail "the late node did not catch up"

#!/bin/bash
# Nodes that make do with less memory come to the same bits as others: fewer shards at a time, states in a file,
# activations that are computed again; also when one of them is killed and returns, so that states and sums that lie in
# files are handed over. (What the kernel enforces is in tests/chaos/memory.py.)
. "$(dirname "$0")/../support/process.sh"
[ -x "$FAILNODE" ] || skip "no program $FAILNODE: make failpoints"

[ "$(stat -f -c %T "$WORK")" != tmpfs ] || skip "$WORK lies in memory: no state can go to a file there"
write_job "$WORK/job.yaml" 500
reference "$WORK/job.yaml"

# What is said to be enough is, and a MiB less is not.
least=$("$MESHNODE" check "$WORK/job.yaml" --threads 1 --set train.memory_max=1 2>&1 |
    sed -n 's/.*train.memory_max = 1, expected at least \([0-9]*\) MiB: .*/\1/p')
[ -n "$least" ] || fail "train.memory_max=1 is not refused"
"$MESHNODE" check "$WORK/job.yaml" --threads 1 --set "train.memory_max=$((least - 1))" >/dev/null 2>&1 &&
    fail "$((least - 1)) MiB are taken, but $least said to be the least"

MESHNODE=$FAILNODE
export MESHNODE_FAIL=compute:1+:sleep=20 # 10 s and more, so that the run does not end before c is back
node a "$WORK/job.yaml" --peers 3 --set train.recompute=yes
node b "$WORK/job.yaml" --peers 3 --set "train.memory_max=$least"
node c "$WORK/job.yaml" --peers 3 --set "train.memory_max=$least" --set train.recompute=yes
wait_until 30 "three nodes to train" peers_are 3 a b c
grep -q 'train.memory_max: [1-3] of 12 shards at a time, states in a file' "$WORK/b.log" ||
    fail "b does not say what it does with little memory"
kill_node c
wait_until 30 "two to go on" peers_are 2 a b
rm -rf "$WORK/c"
node c "$WORK/job.yaml" --set "train.memory_max=$least"
wait_until 30 "c to be back" peers_are 3 c
finished 90 a b c
same_hash reference a b c
[ -z "$(find "$WORK" -name 'memory-*')" ] || fail "files are left: $(find "$WORK" -name 'memory-*')"
echo "$least MiB, few shards at a time, states in a file, activations computed again: $(result a params_sha256)"

#!/bin/bash
# test_division.sh - mesh.division: three nodes, of which one takes 20 ms longer for each step (failpoint build). With
# `even` each has four of twelve shards all the time, and nobody is left out; with `speed` the slow one soon has less,
# or nothing. Where a node kept more because the others were not heard for a moment, the shares are equal again two
# steps later. With a codec that has a memory shares change at the ends of spans alone. One hash.
. "$(dirname "$0")/../support/process.sh"
MESHNODE=$FAILNODE
SLOW="env MESHNODE_FAIL=compute:1+:sleep=20"

write_job "$WORK/job.yaml" 150
reference "$WORK/job.yaml"

three() { # PREFIX OPTION ...
    local prefix=$1 name
    shift
    WHERE[$prefix-c]=$SLOW
    for name in a b c; do
        node "$prefix-$name" "$WORK/job.yaml" --peers 3 "$@"
    done
    wait_until 60 "three nodes to train" peers_are 3 "$prefix-a" "$prefix-b" "$prefix-c"
}

three even --set mesh.division=even
wait_until 120 "the others to be done" reached 150 even-a even-b
finished 60 even-a even-b even-c
same_hash reference even-a even-b even-c
! grep -h "left out" "$WORK"/even-*.log || fail "with mesh.division = even a node was left out"
cat "$WORK"/even-*/metrics.jsonl | python3 -c '
import json, sys
plans, total = {}, 0
for line in map(json.loads, sys.stdin):
    if line.get("peers") == 3 and "plan" in line:
        total += 1
        other = bin(int(line["shards"], 16)).count("1") != 4
        plans[line["plan"]] = plans.get(line["plan"], 0) + other
worst = max(plans.values(), default=0)
print(f"even: {total} lines of {len(plans)} plans with three nodes; at most {worst} of a plan with another share")
sys.exit(total < 60 or worst > 9) # three lines of each node' || fail "shares are not equal"

less() { # PREFIX: the slow node has fewer than four shards in a step with three nodes, or it is left out
    grep -q "left out" "$WORK/$1-a.log" || python3 -c '
import json, sys
for line in open(sys.argv[1]):
    if line.endswith("\n"):
        step = json.loads(line)
        if step.get("peers") == 3 and bin(int(step.get("shards", "fff"), 16)).count("1") < 4:
            sys.exit(0)
sys.exit(1)' "$WORK/$1-c/metrics.jsonl"
}

MEMORY=(--set mesh.compress=powersgd --set mesh.compress_span=8 --set mesh.compress_warmup=2)
rm -r "$WORK/reference"
reference "$WORK/job.yaml" "${MEMORY[@]}"
three memory "${MEMORY[@]}"
finished 120 memory-a memory-b memory-c
less memory || fail "the slow node had four shards to the end"
same_hash reference memory-a memory-b memory-c
echo "speed with a memory: the slow node has less at the end of a span"

sed -i 's/steps: 150/steps: 100000/' "$WORK/job.yaml"
three speed
wait_until 120 "the slow node to have less" less speed
for name in a b c; do
    kill_node speed-$name
done
echo "speed: the slow node has less, or is left out"

#!/bin/bash
# test_lines.sh - meshnode check --peers beside a running mesh takes part in nothing, hears how fast the lines there are, and
# says what to set for them, too; where there is none, it says nothing of it.
. "$(dirname "$0")/../support/process.sh"
. "$ROOT/tests/support/netns.sh"
netns_need
netns_up 3 20mbit || fail "no namespaces"
LINK=
write_job "$WORK/job.yaml" 100000
sed 's/dense: 48/dense: 500/' "$WORK/job.yaml" >"$WORK/large.yaml" # so large that its sums take their time on this line

check() { # MACHINE GROUP OPTION ...
    ip netns exec "$NETNS_TAG-$1" timeout -k 5 300 "$MESHNODE" check "$WORK/large.yaml" --peers 2 --set "mesh.group=$2" "${@:3}" \
        >"$WORK/out" 2>"$WORK/err" || fail "check: $(cat "$WORK/err")"
}

for index in 0 1; do
    WHERE[n$index]="ip netns exec $NETNS_TAG-$index"
    node n$index "$WORK/large.yaml" --peers 2 --set mesh.division=even --port 21000
done
wait_until 60 "two nodes to train" reached 8 n0 n1
lines_said() { # what check says of the lines
    sed -n 's/^lines   of the mesh that runs here: the slowest carries \([0-9]*\)[0-9.]* Mbit\/s$/\1/p' "$WORK/out"
}
check 0 "$GROUP" --port 21000 # which the node there has
[ -n "$(lines_said)" ] || fail "beside a node with that port: $(cat "$WORK/out")"
check 2 "$GROUP"
rate=$(lines_said)
[ "${rate:-0}" -ge 10 ] && [ "$rate" -le 30 ] || fail "lines of 20 Mbit/s: $(cat "$WORK/out")"
grep -Eq '^  on lines here: 1 node .*, 2 nodes ' "$WORK/out" && grep -Eq '^set .*; [^;]+ on lines here( \(.*\))?$' "$WORK/out" ||
    fail "nothing about these lines: $(cat "$WORK/out")"
! grep -q '"peers":3,' "$WORK"/n[01]/metrics.jsonl || fail "who only looks was taken for a node"
echo "$(grep '^lines' "$WORK/out"); $(grep -o '[^;]* on lines here.*$' <(grep ^set "$WORK/out"))"
check 2 "$GROUP-nobody"
grep -q "lines here" "$WORK/out" && fail "lines of nobody: $(cat "$WORK/out")"
exit 0

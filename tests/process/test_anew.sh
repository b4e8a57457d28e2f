#!/bin/bash
# test_anew.sh - the headers say enough to write the arithmetic anew: anew.py, which shares no line with the program, comes to
# the same weights as one node and as two. And params_sha256 is over all that follows the header of model.safetensors.
. "$(dirname "$0")/../support/process.sh"
command -v python3 >/dev/null || skip "no python3"

expected=$(python3 "$(dirname "$0")/anew.py" "$WORK") || fail "anew.py: $expected"
reference "$WORK/job.yaml" --data "$WORK"
node a "$WORK/job.yaml" --data "$WORK" --peers 2
node b "$WORK/job.yaml" --data "$WORK" --peers 2
finished 60 a b
for name in reference a b; do
    [ "$(result $name params_sha256)" = "$expected" ] || fail "$name has $(result $name params_sha256), anew.py $expected"
done
model=$WORK/a/model.safetensors
header=$(od -An -tu8 -N8 "$model")
hash=$(tail -c +$((8 + header + 1)) "$model" | sha256sum)
[ "${hash%% *}" = "$expected" ] || fail "behind the header of the model are bytes with the hash $hash"
echo "written anew and trained: $expected"

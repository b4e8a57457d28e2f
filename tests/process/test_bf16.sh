#!/bin/bash
# test_bf16.sh - mesh.activations: bf16 is another job than fp32, with one hash of its own: on one node and on two, with stages and
# without, with every instruction set, with any number of threads, where activations are computed again, and for who is given the job.
. "$(dirname "$0")/../support/process.sh"

write_job "$WORK/job.yaml" 80
reference "$WORK/job.yaml"
mv "$WORK/reference" "$WORK/fp32"
printf 'mesh: {activations: bf16}\n' >>"$WORK/job.yaml"
reference "$WORK/job.yaml"
grep -q 'activations: bf16' "$WORK/reference/job.json" || fail "job.json does not have the key"
[ "$(result fp32 params_sha256)" != "$(result reference params_sha256)" ] || fail "bf16 gives the weights of fp32"

node a "$WORK/job.yaml" --peers 2
node b "$WORK/job.yaml" --peers 2 --threads 2 --set train.recompute=yes
finished 60 a b
same_hash reference a b

WHERE[c]="env MESHNODE_SIMD=base"
node c "$WORK/job.yaml" --peers 2
node d "" --peers 2
finished 60 c d
same_hash reference c d
[ "$(result c peers_max)" = 2 ] || fail "c trained with $(result c peers_max) nodes, expected 2"

node e "$WORK/job.yaml" --peers 2 --set mesh.stages=3 --set mesh.schedule=1f1b
node f "$WORK/job.yaml" --peers 2 --set mesh.stages=3 --set mesh.schedule=1f1b
finished 60 e f
same_hash reference e f
echo "bf16: $(result reference params_sha256) on one node and two; fp32: $(result fp32 params_sha256)"

# Both: on a busy machine one may take the state of the other, whose files alone have those steps then.
"$MESHNODE" verify "$WORK/a" "$WORK/b" >"$WORK/out" || fail "verify of a and b: $(cat "$WORK/out")"
"$MESHNODE" "$WORK/job.yaml" --out "$WORK/fp32" --resume --set mesh.activations=bf16 --set train.steps=90 --set mesh.gather_ms=0 \
    --set "mesh.group=$GROUP" $LINK >"$WORK/out" 2>&1 && fail "a run of fp32 went on with bf16"
grep -q 'mesh.activations fp32, here bf16.*, which cannot change on the way' "$WORK/out" || fail "it says: $(cat "$WORK/out")"

#!/bin/bash
# test_compress.sh - with a codec of mesh.compress the weights are the same on any number of nodes, in stages or not, through a kill
# and a resume, with every instruction set, any number of threads and few shards at a time; what is sent is as short as promised;
# and nodes with different codecs say what differs.
. "$(dirname "$0")/../support/process.sh"

write_job "$WORK/plain.yaml" 60
CODECS="none int16 int8 fp16 bf16 qsgd terngrad sparse topk onebit randk powersgd"
for codec in $CODECS; do
    cp "$WORK/plain.yaml" "$WORK/$codec.yaml"
    [ $codec = none ] || printf 'mesh: {compress: %s, compress_warmup: 4}\n' $codec >>"$WORK/$codec.yaml"
    node one-$codec "$WORK/$codec.yaml" --set mesh.gather_ms=0
    finished 60 one-$codec
    result one-$codec params_sha256
done >"$WORK/hashes"
[ "$(sort -u "$WORK/hashes" | wc -l)" = "$(echo $CODECS | wc -w)" ] || fail "two codecs give the same weights: $(cat "$WORK/hashes")"

# Bytes of a step of a member with all others, in the middle of the run; lines are measured by then. powersgd sends something else in
# every second step.
sent() { # NAME
    for odd in 0 1; do
        sed -n 's/.*"step":\([0-9]*\),.*"peers":3,.*"tx_bytes":\([0-9]*\).*/\1 \2/p' "$WORK/$1/metrics.jsonl" |
            awk -v odd=$odd '$1 > 20 && $1 % 2 == odd {print $2}' | sort -n | awk '{at[NR] = $1} END {print at[int((NR + 1) / 2)]}'
    done | awk '{sum += $1} END {print int(sum / 2)}'
}

for codec in none int8 bf16 terngrad sparse topk onebit randk powersgd; do
    for name in a b c; do
        node $name-$codec "$WORK/$codec.yaml" --peers 3 --set mesh.division=even # all compute, however busy the machine is
    done
    finished 60 a-$codec b-$codec c-$codec
    same_hash one-$codec a-$codec b-$codec c-$codec
    "$MESHNODE" verify "$WORK/a-$codec" "$WORK/b-$codec" "$WORK/c-$codec" >"$WORK/out" || fail "verify: $(cat "$WORK/out")"
    echo "$codec on three nodes: $(result a-$codec params_sha256), $(sent a-$codec) bytes a step"
done
PARAMS=$((8 * 25 + 8 + 48 * 1568 + 48 + 48 * 10 + 10))
at_most() { # CODEC PERCENT of what a ring of three sends in 32 bits
    [ "$(sent a-$1)" -lt $((PARAMS * 4 * 4 / 3 * $2 / 100)) ] || fail "$1 sends $(sent a-$1) bytes a step, int32 $((PARAMS * 4 * 4 / 3))"
}
grep -q '"wire_ratio":0.0[0-9]*,"clipped":[0-9]' "$WORK/a-sparse/metrics.jsonl" || fail "no wire_ratio below 0.1"
grep -q wire_ratio "$WORK/a-none/metrics.jsonl" && fail "wire_ratio without a codec"
at_most int8 35
at_most terngrad 12
at_most sparse 10
at_most topk 8
at_most onebit 12
at_most randk 5
at_most powersgd 4

# auto: all choose the same codec, which gives the weights that it gives from the start, also to a node that was killed. In one span,
# as it is judged after each.
chosen_by() { # NAME: what it says at last; none: no codec
    local last
    last=$(grep '^mesh.compress auto: ' "$WORK/$1.log" | tail -n 1)
    [ -n "$last" ] || fail "auto says nothing: $(cat "$WORK/$1.log")"
    case $last in
    *' is used from step 5 on; mesh.compress = '*' gives the same weights') last=${last#*: } && echo "${last%% *}" ;;
    *'none is used' | *'no codec so far'*) echo none ;;
    *) fail "auto says $last" ;;
    esac
}
AUTO=(--set mesh.compress=auto --set mesh.compress_warmup=4 --set mesh.compress_span=1000)
for name in a b c; do
    node $name-auto "$WORK/plain.yaml" --peers 3 "${AUTO[@]}"
done
wait_until 60 "c to train" reached 20 c-auto
kill_node c-auto
node c-auto "$WORK/plain.yaml" --peers 1 "${AUTO[@]}" --resume # the others may have ended
finished 60 a-auto b-auto c-auto
CHOSEN=$(chosen_by a-auto)
same_hash a-auto b-auto c-auto
[ "$(result one-$CHOSEN params_sha256)" = "$(result a-auto params_sha256)" ] || fail "auto chose $CHOSEN, and has other weights"
echo "auto chose $CHOSEN: the same, and through a kill"
for name in g h; do
    node $name-auto "$WORK/plain.yaml" --peers 2 "${AUTO[@]}" --set mesh.stages=3
done
finished 60 g-auto h-auto
CHOSEN=$(chosen_by g-auto)
same_hash g-auto h-auto
[ "$(result "one-$CHOSEN" params_sha256)" = "$(result g-auto params_sha256)" ] || fail "auto chose $CHOSEN with stages, and has other weights"
echo "auto chose $CHOSEN with stages: the same"

# A node is killed and comes back, two threads, plain loops, few shards at a time, stages.
for codec in int8 sparse; do
    node d-$codec "$WORK/$codec.yaml" --peers 3 --threads 2
    WHERE[e-$codec]="env MESHNODE_SIMD=base"
    node e-$codec "$WORK/$codec.yaml" --peers 3
    node f-$codec "$WORK/$codec.yaml" --peers 3 --set train.memory_max=64
    wait_until 60 "f to train" reached 20 f-$codec
    kill_node f-$codec
    node f-$codec "$WORK/$codec.yaml" --peers 3 --resume
    finished 60 d-$codec e-$codec f-$codec
    same_hash one-$codec d-$codec e-$codec f-$codec
    for name in g h; do
        node $name-$codec "$WORK/$codec.yaml" --peers 2 --set mesh.stages=3
    done
    finished 60 g-$codec h-$codec
    same_hash one-$codec g-$codec h-$codec
    echo "$codec, killed and resumed, two threads, plain loops, stages: the same"
done

node i "$WORK/int8.yaml" --peers 2
node j "$WORK/int16.yaml" --peers 2
wait_until 30 "i to say what differs" grep -q 'mesh.compress is int16 there, int8 here' "$WORK/i.log"
node k "$WORK/topk.yaml" --peers 2
node l "$WORK/topk.yaml" --peers 2 --set mesh.compress.topk.k=0.02
wait_until 30 "k to say what differs" grep -q 'mesh.compress.topk.k is 0.02 there, 0.01 here' "$WORK/k.log"
for k in 0 1.5 nan; do
    "$MESHNODE" "$WORK/topk.yaml" --out "$WORK/no" --set mesh.compress.topk.k=$k >"$WORK/out" 2>&1 && fail "k = $k is taken"
    grep -q "mesh.compress.topk.k = $k, expected a number 1e-06..1" "$WORK/out" || fail "k = $k: $(cat "$WORK/out")"
done
for bits in 0 12; do
    "$MESHNODE" "$WORK/topk.yaml" --out "$WORK/no" --set mesh.compress.topk.bits=$bits >"$WORK/out" 2>&1 && fail "bits = $bits is taken"
    grep -q "mesh.compress.topk.bits = $bits, expected" "$WORK/out" || fail "bits = $bits: $(cat "$WORK/out")"
done
"$MESHNODE" "$WORK/powersgd.yaml" --out "$WORK/no" --set mesh.compress.powersgd.rank=40 >"$WORK/out" 2>&1 && fail "rank = 40 is taken"
grep -q "mesh.compress.powersgd.rank = 40, expected less: products of that rank" "$WORK/out" || fail "rank = 40: $(cat "$WORK/out")"
"$MESHNODE" "$WORK/powersgd.yaml" --out "$WORK/no" --set train.steps=90 --set train.from="$WORK/one-none/checkpoint-60" >"$WORK/out" 2>&1 &&
    fail "a state without bases is taken"
grep -q "checkpoint-60 is of a run without mesh.compress = powersgd or auto" "$WORK/out" || fail "train.from: $(cat "$WORK/out")"
for setting in "train.exact=no" "mesh.topology=gossip" "mesh.compress=zip"; do
    "$MESHNODE" "$WORK/int8.yaml" --out "$WORK/no" --set $setting >"$WORK/out" 2>&1 && fail "$setting is taken"
    grep -q 'mesh.compress = ' "$WORK/out" || fail "$setting: $(cat "$WORK/out")"
done


# What check says of codecs: about the bytes that were sent, and the memory of what waits. Those that the job cannot have are left out.
"$MESHNODE" check "$WORK/plain.yaml" --peers 3 >"$WORK/table" || fail "check: $(cat "$WORK/table")"
predicted() { # CODEC: bytes among four nodes
    awk -v codec="$1" '$1 == codec {print $4 * ($5 == "MiB" ? 1048576 : $5 == "KiB" ? 1024 : 1)}' "$WORK/table"
}
for codec in $CODECS; do
    [ -n "$(predicted $codec)" ] || fail "check says nothing of $codec: $(cat "$WORK/table")"
done
for codec in none int8 bf16 terngrad sparse topk randk powersgd; do
    # a node of four sends 9/8 of what a node of three does
    awk -v is="$(sent a-$codec)" -v said="$(predicted $codec)" 'BEGIN {r = said / (is * 9 / 8); exit r < 0.6 || r > 1.6}' ||
        fail "$codec: check says $(predicted $codec) bytes among four nodes, a node of three sent $(sent a-$codec)"
done
awk '$1 == "int8" {few = $8} $1 == "topk" {exit !($8 > few)}' "$WORK/table" || fail "what waits needs no memory: $(cat "$WORK/table")"
"$MESHNODE" check "$WORK/plain.yaml" --peers 3 --set mesh.stages=2 >"$WORK/table" || fail "check with stages: $(cat "$WORK/table")"
[ -n "$(predicted int8)" ] && [ -n "$(predicted topk)" ] || fail "check has other codecs with stages: $(cat "$WORK/table")"
"$MESHNODE" check "$WORK/plain.yaml" --peers 3 --set mesh.audit=0.1 >"$WORK/table" || fail "check with audits: $(cat "$WORK/table")"
[ -n "$(predicted int8)" ] && [ -z "$(predicted topk)" ] || fail "check has other codecs with audits: $(cat "$WORK/table")"

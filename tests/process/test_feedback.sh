#!/bin/bash
# test_feedback.sh - codecs with memory (topk, onebit, randk, powersgd): one hash for any number of nodes and through
# deaths within a span, which is then computed again; what people are told of that; a power cut within a span; a join.
. "$(dirname "$0")/../support/process.sh"

STEPS=120
write_job "$WORK/job.yaml" $STEPS "eval_every: 0" "checkpoint_every: 8"
SLOW="env MESHNODE_FAIL=compute:1+:sleep=10" # so that what happens does so in mid-run

codec() { # NAME: the options of a job with it
    echo "--set mesh.compress=$1 --set mesh.compress_warmup=4 --set mesh.compress_span=16"
}

alone() { # CODEC: the reference
    # shellcheck disable=SC2046
    node "one-$1" "$WORK/job.yaml" --set mesh.gather_ms=0 $(codec "$1")
    finished 60 "one-$1"
}

slow() { # NAME CODEC OPTION ...
    WHERE[$1]=$SLOW
    # shellcheck disable=SC2046
    MESHNODE=$FAILNODE node "$1" "$WORK/job.yaml" $(codec "$2") "${@:3}"
    WHERE[$1]=
}

for codec in topk onebit randk powersgd; do
    alone $codec
    # shellcheck disable=SC2046
    for name in a b c; do
        node $name "$WORK/job.yaml" --peers 3 $(codec $codec)
    done
    finished 60 a b c
    same_hash one-$codec a b c
    # What waits is told at the end of each span, and at no other step.
    sed -n 's/.*"step":\([0-9]*\),.*"residual_norm":[0-9].*/\1/p' "$WORK/one-$codec/metrics.jsonl" >"$WORK/told"
    { seq 20 16 $((STEPS - 1)) && echo $STEPS; } | cmp -s - "$WORK/told" ||
        fail "$codec: residual_norm is told at the steps $(tr '\n' ' ' <"$WORK/told")"
    echo "$codec: one node and three come to $(result a params_sha256)"
done
[ "$(result one-topk params_sha256)" != "$(result one-onebit params_sha256)" ] || fail "two codecs have one hash"

# Twice as much of each block, and that in two bits: other weights, still the same on any number of nodes.
for setting in k=0.02 bits=2; do
    # shellcheck disable=SC2046
    node $setting-one "$WORK/job.yaml" --set mesh.gather_ms=0 $(codec topk) --set mesh.compress.topk.$setting
    finished 60 $setting-one
    for name in k l; do
        # shellcheck disable=SC2046
        node $name "$WORK/job.yaml" --peers 2 $(codec topk) --set mesh.compress.topk.$setting
    done
    finished 60 k l
    same_hash $setting-one k l
    [ "$(result one-topk params_sha256)" != "$(result k params_sha256)" ] || fail "$setting changes nothing"
done

# Step 30 is in the span from 20 on.
for name in d e f; do
    slow $name topk --peers 3 --set mesh.division=even # e has shards, however busy the machine is
done
wait_until 60 "a step within a span" reached 30 d e f
kill_node e
wait_until 60 "the span to be computed again" grep -q "steps again" "$WORK/d.log"
slow g topk --set mesh.division=even # joins
finished 60 d f g
same_hash one-topk d f g
[ "$(grep -c '"step":' "$WORK/d/metrics.jsonl")" -ge $STEPS ] || fail "d's metrics lack steps"
again=$(sed -n 's/.*computing \([0-9]*\) steps again.*/\1/p' "$WORK/d.log" | head -1)
last=$(grep '"step":' "$WORK/d/metrics.jsonl" | tail -1 | sed -n 's/.*"replayed_steps":\([0-9]*\).*/\1/p')
[ "${last:-0}" -ge "$again" ] || fail "d computed $again steps again, its metrics say ${last:-0}"
"$MESHNODE" verify "$WORK/d" "$WORK/f" >"$WORK/verify" || fail "verify: $(cat "$WORK/verify")"
echo "a node was killed within a span: $(grep -h -o "a node that had shards.*" "$WORK/d.log" | head -1)"

# Four with shards of a long span are gone, one after the other: then the remedy is told, once. Who comes computes from
# the next span on.
LONG="--set mesh.division=even --set train.steps=100000 --set mesh.compress_span=5000"
AGAIN="^a node that had shards since step 4 is gone: computing [0-9]* steps* again"
again() { # COUNT
    [ "$(grep -c "$AGAIN" "$WORK/m.log")" -ge "$1" ]
}
# shellcheck disable=SC2086
for name in m n o p q; do
    slow $name topk --peers 5 $LONG
done
together() { # COUNT: all who are left have computed the last step of m
    tail -n 1 "$WORK/m/metrics.jsonl" | grep -q "\"peers\":$1,"
}
times=0
for name in n o p q; do
    wait_until 60 "a step within the long span" reached 6 m $name
    wait_until 60 "all who are left to compute" together $((5 - times))
    kill_node $name
    wait_until 60 "the span to be computed again" again $((++times))
done
# shellcheck disable=SC2086
slow r topk $LONG
for name in m r; do
    wait_until 60 "$name to say when r computes" grep -q "^[^ ]* (.*) computes from step 5005 on$" "$WORK/$name.log"
done
REMEDY="^4 times steps were computed again: with a smaller mesh.compress_span (5000)"
[ "$(grep "$AGAIN\|$REMEDY" "$WORK/m.log" | grep -n "$REMEDY" | cut -d : -f 1)" = 5 ] ||
    fail "mesh.compress_span is not named after the fourth time, and only then"
kill_node m # r computed no shard of the span
wait_until 60 "r to go back" grep -q "^a node that had shards of this span is gone: going back to step 0$" "$WORK/r.log"
kill_node r
echo "four were killed within a span, one came: $(grep "computes from step" "$WORK/m.log")"

# All at once, as by a power cut, within a span.
for name in h i; do
    slow $name onebit --peers 2
done
wait_until 60 "a step within a span" reached 45 h i
kill_node h
kill_node i
for name in h i; do
    # shellcheck disable=SC2046
    node $name "$WORK/job.yaml" --peers 2 --resume $(codec onebit)
done
finished 60 h i
same_hash one-onebit h i
grep -q "resumed at step" "$WORK/h.log" || fail "h did not resume"
echo "all were killed within a span, and came back: the same"

#!/bin/bash
# test_liar.sh [RUNS] - four nodes train the counting model with mesh.audit = 0.05; one of them adds a wrong bit to
# one of its shards in every step, and claims what it contributed. The three others must expel it, each by itself,
# and end with the same weights; and a mesh of honest nodes expels nobody and comes to the right counts. Prints
# after how many lies it was expelled; of 100 runs and more, 99 % must be within 100. A slow node is given fewer
# shards, or none: a liar that had no occasion to lie 100 times and is still there counts as no run.
# FAILNODE names the program of `make failpoints`.
. "$(dirname "$0")/../support/process.sh"
[ -x "$FAILNODE" ] || skip "no program $FAILNODE: make failpoints"
RUNS=${1:-3}
EPOCHS=40
MESHNODE=$FAILNODE
HONEST=(a b c)

count() { # NAME
    node "$1" "$ROOT/configs/counting.yaml" --peers 4 --set train.epochs=$EPOCHS --set mesh.audit=0.05 \
        --set "mesh.group=$GROUP-$run" --fresh
}

convictions() { # NAME
    grep -c '^error: .* computed a wrong gradient (shard .*): it is expelled' "$WORK/$1.log"
}

# The rounds of four that it took part in, with a shard to lie about.
lies() {
    awk -F'"shards":"' '/"peers":4,/ && $2 !~ /^0000000000000000/' "$WORK/d/metrics.jsonl" | wc -l
}

run=honest
for name in "${HONEST[@]}" d; do
    count "$name"
done
finished 60 "${HONEST[@]}" d
same_hash "${HONEST[@]}" d
"$ROOT/tests/support/counts.py" "$WORK/a/model.safetensors" $EPOCHS || fail "honest nodes miscounted"
for name in "${HONEST[@]}" d; do
    [ "$(result "$name" audits)" -gt 0 ] || fail "$name audited nobody"
    [ "$(result "$name" expelled)" = 0 ] || fail "$name expelled an honest node"
done

# Evaluations exchange no claims: a run with audits and evaluations ends, with the weights of one without audits.
write_job "$WORK/job.yaml" 30
for audit in 0 1; do
    node "eval-$audit" "$WORK/job.yaml" --set mesh.gather_ms=0 --set train.eval_every=1 --set mesh.audit=$audit \
        --set "mesh.group=$GROUP-eval-$audit"
    finished 60 "eval-$audit"
done
same_hash eval-0 eval-1

kept_out() {
    local name
    for name in "${HONEST[@]}"; do
        [ "$(result "$name" expelled)" = 1 ] || return 1
        [ "$(convictions "$name")" = 1 ] || fail "run $run: $name did not see for itself"
    done
}

: >"$WORK/lies"
for ((run = 1; run <= 3 * RUNS && $(wc -l <"$WORK/lies") < RUNS; run++)); do
    for name in "${HONEST[@]}"; do
        count "$name"
    done
    MESHNODE_FAIL=lie:1+:error count d
    finished 60 "${HONEST[@]}"
    kill_node d
    same_hash "${HONEST[@]}"
    if kept_out; then
        lies >>"$WORK/lies"
    elif [ "$(lies)" -ge 100 ]; then
        fail "run $run: not expelled after $(lies) lies"
    fi
done
[ "$(wc -l <"$WORK/lies")" = "$RUNS" ] || fail "too few runs in which the liar was given something to do"
sort -n "$WORK/lies" | awk '
    { lies[NR] = $1; within += $1 < 100 }
    END {
        printf "%d liars of %d expelled; after how many lies: median %d, 90 %% %d, last %d; within 100: %d\n", NR,
            NR, lies[int((NR + 1) / 2)], lies[int(0.9 * NR + 0.5)], lies[NR], within
        exit NR >= 100 && within < 0.99 * NR
    }' || fail "a liar stays too long"

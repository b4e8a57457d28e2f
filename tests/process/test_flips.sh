#!/bin/bash
# test_flips.sh [FLIPS] [SEED] [TARGET ...] - single bits flip in the memory of one of three nodes that train the
# counting model: in its contribution to a sum, in partial sums it receives, in the total, in its state and its header, in its next
# state before it is hashed (with two others, and with one), and in the state that a joiner receives. Every flip must be
# noticed, and at every step the state must be the one of an undisturbed run: `meshnode verify` compares the hashes of
# all nodes with it. A chunk of a plan that has just been dropped is used by nobody, so of partial sums one flip in 16 may
# go unnoticed. FLIPS per target, 16 at a time (16). One more target is not among those that are taken when none
# is named: vote, in the next state before its parts are hashed, so that only the others can tell. It wants a machine that
# is not overloaded, since a node that happens to train alone has no others.
# FAILNODE names the program of `make failpoints`.
. "$(dirname "$0")/../support/process.sh"
[ -x "$FAILNODE" ] || skip "no program $FAILNODE: make failpoints"
FLIPS=${1:-16}
RANDOM=${2:-1}
shift $(($# < 2 ? $# : 2))
TARGETS=("${@:-gradient}")
[ $# -gt 0 ] || TARGETS=(gradient partial total state head next pair transfer)
MESHNODE=$FAILNODE
EPOCHS=30
AT_ONCE=16 # rules that a process can have
HEAD_BITS=$((17 * 64)) # a state begins with its header: rounds, steps, phase

declare -A POINTS=([gradient]="bucket-ready" [partial]="reduce-got gather-got" [total]="last-chunk"
    [state]="compute computed" [head]="compute computed" [next]="applied" [pair]="applied" [vote]="updated" [transfer]="state-got")
# How often a step comes to a point, if not once. Of chunks more: on a busy machine many of a dropped plan are still on their way.
declare -A EACH=([updated]=30 [reduce-got]=3 [gather-got]=3)
# How a flip is noticed. Of a total several nodes may say so: each round counts once. Of a state its node does, and
# another one may be in a round that is done again.
declare -A NOTICED=([gradient]="the total of round \([0-9]*\) is damaged"
    [partial]="round [0-9]*: plan of [0-9]* dropped: wrong \(checksum\|size\)" # a packed chunk says its size itself
    [total]="the total of round \([0-9]*\) is damaged"
    [state]="the state before round [0-9]* changed in memory"
    [head]="the state before round [0-9]* changed in memory"
    [next]="the state before round [0-9]* \(may be wrong\|changed in memory\)"
    [pair]="the state before round [0-9]* \(may be wrong\|changed in memory\)"
    [vote]="the state before round [0-9]* may be wrong"
    [transfer]="of the weights from .* is damaged")

count() { # NAME [OPTION ...]
    local name=$1
    shift
    node "$name" "$ROOT/configs/counting.yaml" --set "train.epochs=$EPOCHS" --set "mesh.group=$GROUP-$run" --fresh --log debug "$@"
}

# 16 at one of the target's points, far enough apart that no two are in one round; of transfers, at the first 16
# blocks.
rules() { # TARGET
    local points at=0 index list="" point bit
    read -ra points <<<"${POINTS[$1]}"
    point=${points[$((run % ${#points[@]}))]}
    for ((index = 0; index < AT_ONCE; index++)); do
        list+=,$point
        if [ "$1" = transfer ]; then
            list+=:$((index + 1))
        else
            at=$((at + (8 + RANDOM % 6) * ${EACH[$point]:-1}))
            list+=:$at
        fi
        bit=$((RANDOM << 15 | RANDOM))
        [ "$1" != head ] || bit=$((bit % HEAD_BITS))
        list+=:flip=$bit
    done
    echo "${list#,}"
}

noticed() { # TARGET: how often
    case $1 in
    partial) grep -c "${NOTICED[$1]}" "$WORK/a.log" ;; # also twice in one round
    state | head | next | pair | vote | transfer) grep -c "${NOTICED[$1]}" "$WORK/a.log" ;;
    *) sed -n "s/.*${NOTICED[$1]}.*/\1/p" "${LOGS[@]}" | sort -un | wc -l ;;
    esac
}

one_run() { # TARGET: adds to FIRED and SEEN
    local peers=3 node
    local nodes=(a b c)
    [ "$1" != pair ] || nodes=(a b)
    [ "$1" != pair ] && [ "$1" != transfer ] || peers=2
    local others=("${nodes[@]:1}")
    others=("${others[@]/#/$WORK/}")
    LOGS=("${nodes[@]/#/$WORK/}")
    LOGS=("${LOGS[@]/%/.log}")
    [ "$1" = transfer ] || MESHNODE_FAIL=$(rules "$1") count a --peers $peers
    for node in "${nodes[@]:1}"; do
        count "$node" --peers $peers
    done
    if [ "$1" = transfer ]; then
        wait_until 30 "step 20" reached 20 b c
        MESHNODE_FAIL=$(rules "$1") count a
    fi
    finished 60 "${nodes[@]}"
    same_hash reference "${nodes[@]}"
    "$MESHNODE" verify "$WORK/reference" "${others[@]}" $([ -s "$WORK/a/metrics.jsonl" ] && echo "$WORK/a") >"$WORK/verify" ||
        fail "$1: $(cat "$WORK/verify")"
    FIRED=$((FIRED + $(grep -c '^failpoint' "$WORK/a.log")))
    SEEN=$((SEEN + $(noticed "$1")))
}

run=reference
count reference --set mesh.gather_ms=0
finished 60 reference
for target in "${TARGETS[@]}"; do
    FIRED=0 SEEN=0
    for ((run = 0; FIRED < FLIPS && run < 4 + FLIPS / 2; run++)); do # a slow node may be given no shard, or be behind most of the time
        one_run "$target"
    done
    [ $FIRED -ge "$FLIPS" ] || fail "$target: only $FIRED flips in $run runs"
    echo "$target: $FIRED bits flipped, $SEEN noticed, no wrong state in any step"
    unused=0
    [ "$target" != partial ] || unused=$((FIRED / 16))
    [ $((SEEN + unused)) -ge $FIRED ] || fail "$target: $((FIRED - SEEN)) flips were not noticed"
done

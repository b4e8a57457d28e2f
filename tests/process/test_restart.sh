#!/bin/bash
# test_restart.sh - a node that starts again in a folder that is not as it was: killed before its first checkpoint, it keeps
# the lines of the steps that it has counted, so that verify proves the run; what a power cut left empty or in half is
# told in one line and stops nobody; a journal that is damaged is refused with the place and the remedy.
. "$(dirname "$0")/../support/process.sh"

[ -x "$FAILNODE" ] || skip "no program $FAILNODE: make failpoints"
write_job "$WORK/job.yaml" 60 "checkpoint_every: 1000"
write_job "$WORK/often.yaml" 60 "checkpoint_every: 4"

slow_node() { # NAME JOB OPTION ...
    WHERE[$1]="env MESHNODE_FAIL=compute:1+:sleep=${SLEEP:-40}"
    MESHNODE=$FAILNODE node "$@"
    WHERE[$1]=
}

proved() { # WAY NAME ...
    local way=$1 dirs=() name
    shift
    for name; do dirs+=("$WORK/$name"); done
    "$MESHNODE" verify "${dirs[@]}" >"$WORK/out" || fail "$way: verify: $(cat "$WORK/out")"
    grep -q "^proved: .*; 60 of 60 steps" "$WORK/out" || fail "$way: $(cat "$WORK/out")"
    echo "$way: $(tail -n 1 "$WORK/out")"
}

# a trains alone, b joins, a is killed and comes back: its first life has the only lines of the first steps.
one_is_killed() { # WAY OPTION ...
    local way=$1
    shift
    GROUP=t$$-one-$way
    slow_node one-$way-a "$WORK/job.yaml" --set mesh.gather_ms=0 "$@"
    wait_until 60 "$way: a to train alone" reached 6 one-$way-a
    slow_node one-$way-b "$WORK/job.yaml" "$@"
    wait_until 60 "$way: b to train" reached 8 one-$way-b
    kill_node one-$way-a
    compgen -G "$WORK/one-$way-a/checkpoint-*" >/dev/null && fail "$way: a has a checkpoint"
    node one-$way-a "$WORK/job.yaml" "$@"
    finished 60 one-$way-a one-$way-b
    proved $way one-$way-a one-$way-b
}

all_are_killed() { # WAY OPTION ...
    local way=$1
    shift
    GROUP=t$$-all-$way
    slow_node all-$way-a "$WORK/job.yaml" --peers 2 "$@"
    slow_node all-$way-b "$WORK/job.yaml" --peers 2 "$@"
    wait_until 60 "$way: some steps" reached 5 all-$way-a all-$way-b
    kill_node all-$way-a
    kill_node all-$way-b
    node all-$way-a "$WORK/job.yaml" --peers 2 "$@"
    node all-$way-b "$WORK/job.yaml" --peers 2 "$@"
    finished 60 all-$way-a all-$way-b
    proved $way all-$way-a all-$way-b
}

for kill in one_is_killed all_are_killed; do
    echo "${kill//_/ } before the first checkpoint"
    $kill ring
    $kill servers --set mesh.topology=server
    $kill local --set train.local_steps=2 --set train.optimizer.sgd.momentum=0
    $kill inexact --set train.exact=no
done

echo "what a power cut may leave of a file"
stopped_run() { # NAME OPTION ...: killed behind two checkpoints
    local name=$1
    shift
    GROUP=t$$-$name
    SLEEP=15 slow_node "$name" "$WORK/often.yaml" --set mesh.gather_ms=0 "$@"
    wait_until 60 "$name: two checkpoints" saved 8 "$name"
    kill_node "$name"
    [ ! -e "$WORK/$name/result.json" ] || fail "$name was done before it was killed"
}

saved() { # STEP NAME
    [ "$(newest "$2")" -ge "$1" ]
}

newest() { # NAME
    local last
    last=$(ls "$WORK/$1" 2>/dev/null | sed -n 's/^checkpoint-\([0-9]*\)$/\1/p' | sort -n | tail -n 1)
    echo "${last:-0}"
}

health() { # NAME: status 0 or 1, one line, and not that it is done
    "$MESHNODE" health "$WORK/$1" >"$WORK/out" 2>&1
    [ $? -le 1 ] && [ "$(wc -l <"$WORK/out")" = 1 ] || fail "health: $(cat "$WORK/out")"
    ! grep -q ', done$' "$WORK/out" || fail "health: $(cat "$WORK/out")"
}

stopped_run ring
last=$(newest ring)
empty() { # NAME OF FILE
    rm -rf "$WORK/spoilt"
    cp -r "$WORK/ring" "$WORK/spoilt"
    : >"$WORK/spoilt/$1"
}
starts() { # WHAT [PATTERN]: it goes on from the newest checkpoint
    health spoilt
    GROUP=t$$-spoilt
    node spoilt "$WORK/often.yaml" --set mesh.gather_ms=0 ${RESUME:-}
    finished 60 spoilt
    must_say spoilt "^resumed at step $last\b"
    [ -z "${2:-}" ] || must_say spoilt "$2"
    ! grep -q 'is replaced' "$WORK/spoilt.log" || fail "$1: the run began anew: $(cat "$WORK/spoilt.log")"
    echo "$1: $(grep -E '^warning' "$WORK/spoilt.log" | head -n 1)"
}
for RESUME in "" "--resume"; do
    for file in result.json job.json; do
        empty $file
        starts "empty $file $RESUME" "^warning: $WORK/spoilt/$file is empty or damaged, as a power cut may leave it: passed over$"
    done
    empty metrics.jsonl
    starts "empty metrics.jsonl $RESUME"
    empty model.safetensors
    starts "empty model.safetensors $RESUME"
done
RESUME=
empty checkpoint-$last
last=$(ls -v "$WORK/ring" | sed -n 's/^checkpoint-//p' | tail -n 2 | head -n 1)
starts "an empty checkpoint"
cp "$WORK/ring/metrics.jsonl" "$WORK/lines"
last=$(newest ring)
empty metrics.jsonl
# Behind the lines that were synced before the checkpoint, and those of later steps, if there were any.
{ cat "$WORK/lines"; tail -n 1 "$WORK/lines" | head -c -20; head -c 5000 /dev/zero; } >"$WORK/spoilt/metrics.jsonl"
starts "half a line, and zeros"
"$MESHNODE" verify "$WORK/spoilt" >"$WORK/out" || fail "verify: $(cat "$WORK/out")"

echo "journals"
for way in "mesh.topology=gossip"; do
    name=${way#*=}
    name=${name%% *}
    # shellcheck disable=SC2086 # a list of words
    {
        stopped_run $name --set $way
        for lost in empty missing zeros; do
            cp -r "$WORK/$name" "$WORK/$name-$lost"
            case $lost in
            empty) : >"$WORK/$name-$lost/journal" ;;
            missing) rm "$WORK/$name-$lost/journal" ;;
            zeros) head -c 4096 /dev/zero >"$WORK/$name-$lost/journal" ;;
            esac
            node $name-$lost "$WORK/often.yaml" --set mesh.gather_ms=0 --set $way
            finished 60 $name-$lost
            must_say $name-$lost "^resumed at step $(newest $name)\b"
            must_say $name-$lost "^warning: .*/journal is empty or missing: the steps before this checkpoint cannot be replayed$"
        done
        printf '\377' | dd of="$WORK/$name/journal" bs=1 seek=52 conv=notrunc status=none
        timeout -k 5 60 "$MESHNODE" "$WORK/often.yaml" --out "$WORK/$name" --set "mesh.group=$GROUP" $LINK --set $way \
            >"$WORK/out" 2>&1 </dev/null
        [ $? = 2 ] && [ "$(wc -l <"$WORK/out")" = 1 ] || fail "a damaged journal: $(cat "$WORK/out")"
        grep -Eq "/journal: damaged at byte 50 of [0-9]+: the length, type or check of a record; --fresh begins again, or rename it" \
            "$WORK/out" || fail "a damaged journal: $(cat "$WORK/out")"
        echo "$name: $(cat "$WORK/out")"
    }
done

#!/bin/bash
# test_free_checkpoints.sh - checkpoints of the ways to train that do not wait: all nodes of a mesh are killed at once, two
# come back with different checkpoints and one with none, they go on from the newest, and a replay of both lives gives the
# model; train.from takes what such a run left; what does not fit is refused in one line.
. "$(dirname "$0")/../support/process.sh"

[ -x "$FAILNODE" ] || skip "no program $FAILNODE: make failpoints"
write_job "$WORK/job.yaml" 60 "checkpoint_every: 4"

replayed() { # NAME ...
    local first=$1 dirs=() name
    for name; do dirs+=("$WORK/$name"); done
    timeout -k 5 300 "$MESHNODE" verify --replay "${dirs[@]}" >"$WORK/out" 2>&1 || fail "replay: $(cat "$WORK/out")"
    grep -q "^replay: sha256 $(result "$first" params_sha256), as in every result$" "$WORK/out" ||
        fail "replay says $(cat "$WORK/out")"
}

killed_whole() { # WAY OPTION ...: nodes WAY-a, b, c are killed at once; a and b go on, c comes without its checkpoints
    local way=$1 a=$1-a b=$1-b c=$1-c newest
    shift
    GROUP=t$$-$way
    for name in $a $b $c; do # slow enough to be killed before their end
        WHERE[$name]="env MESHNODE_FAIL=compute:1+:sleep=10"
        MESHNODE=$FAILNODE node "$name" "$WORK/job.yaml" --peers 3 "$@"
        unset "WHERE[$name]"
    done
    wait_until 60 "$way: two checkpoints" saved 8 $a $b $c
    kill -9 "${PID[$a]}" "${PID[$b]}" "${PID[$c]}"
    for name in $a $b $c; do
        wait "${PID[$name]}" 2>/dev/null
        [ ! -e "$WORK/$name/result.json" ] || fail "$way: $name was done before it was killed"
    done
    [ "$(newest $a)" != "$(newest $b)" ] || rm -r "$WORK/$b/checkpoint-$(newest $b)" # they go on from different ones
    newest=$(printf '%s\n' "$(newest $a)" "$(newest $b)" | sort -n | tail -n 1)
    rm "$WORK/$c"/checkpoint-* # its disk is lost, its journal is not
    for name in $a $b $c; do
        node "$name" "$WORK/job.yaml" --peers 3 "$@"
    done
    finished 120 $a $b $c
    same_hash $a $b $c
    grep -q "resumed at step $newest\b" "$WORK/$a.log" "$WORK/$b.log" || fail "$way: nobody goes on from step $newest"
    replayed $a $b $c
}

echo "all nodes are killed"
way=0
for options in "--set gossip.graph=ring" "--set gossip.method=push_sum" "--set mesh.sync=async"; do
    way=$((way + 1))
    # shellcheck disable=SC2086 # a list of words
    killed_whole gossip$way --set mesh.topology=gossip $options
    grep -q "by 6 starts of nodes in 3 folders" "$WORK/out" || fail "gossip: $(cat "$WORK/out")"
    echo "gossip $options: $(tail -n 1 "$WORK/out")"
done

echo "nobody has a checkpoint before the journals of all are on their disks"
slow_disk() { # WAY OPTION ...: b takes a second and a half to sync
    local way=$1 name synced named
    shift
    GROUP=t$$-disk$way
    node slow$way-a "$WORK/job.yaml" --peers 3 "$@"
    WHERE[slow$way-b]="env MESHNODE_FAIL=file-sync:2:sleep=1500" # 1: job.json
    MESHNODE=$FAILNODE node slow$way-b "$WORK/job.yaml" --peers 3 "$@"
    node slow$way-c "$WORK/job.yaml" --peers 3 "$@"
    for name in a c; do
        wait_until 60 "$way: a checkpoint" saved 4 slow$way-$name
        named=$(stat -c %.6Z "$WORK/slow$way-$name"/checkpoint-*[0-9] 2>/dev/null | sort -n | head -n 1) # one may go meanwhile
        synced=$(sed -n 's/^failpoint file-sync 2: .* at \([0-9.]*\)$/\1/p' "$WORK/slow$way-b.log")
        awk -v named="$named" -v synced="$synced" 'BEGIN { exit !(synced > 0 && named >= synced + 1.5) }' ||
            fail "$way: $name has a checkpoint at $named, but b began to sync at $synced"
    done
    for name in a b c; do kill_node slow$way-$name; done
}
slow_disk gossip --set mesh.topology=gossip

echo "a run that goes on with other settings: its journals have both parts"
both_parts() { # WAY OPTION ...: after the end with another rate; then, from a checkpoint on the way, with more steps
    local way=$1 name
    shift
    GROUP=t$$-parts$way
    for name in a b; do
        node parts$way-$name "$WORK/job.yaml" --peers 2 --set train.steps=20 "$@"
    done
    finished 60 parts$way-a parts$way-b
    for name in a b; do
        node parts$way-$name "$WORK/job.yaml" --peers 2 --resume --set train.steps=32 --set train.optimizer.sgd.rate=0.02 "$@"
    done
    finished 60 parts$way-a parts$way-b
    same_hash parts$way-a parts$way-b
    replayed parts$way-a parts$way-b
    GROUP=t$$-part$way
    node part$way "$WORK/job.yaml" --set mesh.gather_ms=0 "$@"
    wait_until 60 "$way: two checkpoints" saved 8 part$way
    kill_node part$way
    node part$way "$WORK/job.yaml" --set mesh.gather_ms=0 --resume --set train.steps=70 --set train.optimizer.sgd.rate=0.02 "$@"
    finished 60 part$way
    replayed part$way
    echo "$way: $(grep 'replay: sha256' "$WORK/out")"
}
for way in $(today 2 gossip push_sum gossip-async); do
    case $way in
    gossip) both_parts gossip --set mesh.topology=gossip ;;
    push_sum) both_parts push_sum --set mesh.topology=gossip --set gossip.method=push_sum ;;
    gossip-async) both_parts gossip-async --set mesh.topology=gossip --set mesh.sync=async ;;
    esac
done

echo "train.from of a free run, and of an exact one"
goes_on() { # NAME FROM STEP OPTION ...: a run alone that begins with a checkpoint after STEP, and ends after 70 steps
    local name=$1 from=$2 step=$3 group=$GROUP
    shift 3
    GROUP=t$$-$name
    node "$name" "$WORK/job.yaml" --set mesh.gather_ms=0 --set "train.from=$from" --set train.steps=70 "$@"
    GROUP=$group
    finished 60 "$name"
    grep -q "the job starts from $from, after step $step, state [0-9a-f]\{16\}$" "$WORK/$name.log" ||
        fail "$name does not say where it starts: $(cat "$WORK/$name.log")"
    [ "$(value "$WORK/$name/metrics.jsonl" step)" = $((step + 1)) ] ||
        fail "$name begins with step $(value "$WORK/$name/metrics.jsonl" step), expected $((step + 1))"
    echo "$name: from step $step, accuracy $(result "$name" test_accuracy), $(result "$name" params_sha256)"
}

{
    way=$(ls "$WORK"/gossip2-a | sed -n 's/^checkpoint-\([0-9]*\)$/\1/p' | sort -n | head -n 1)
    goes_on ring3 "$WORK/gossip2-a/checkpoint-$way" "$way"
    goes_on alone4 "$WORK/gossip3-a/checkpoint-60" 60 --set mesh.topology=gossip
    replayed alone4
    goes_on alone5 "$WORK/ring3/checkpoint-70" 70 --set mesh.topology=gossip --set mesh.sync=async --set train.steps=75
    replayed alone5
}

echo "a damaged checkpoint is passed over; without a whole one the node says so"
cp -r "$WORK/gossip1-a" "$WORK/hurt"
rm "$WORK/hurt/result.json"
newest=$(ls -v "$WORK/hurt" | grep ^checkpoint- | tail -1)
before=$(ls -v "$WORK/hurt" | grep ^checkpoint- | tail -2 | head -1) # which step it is depends on when the nodes could save
[ "$before" != "$newest" ] || fail "hurt holds one checkpoint only"
printf '\177' | dd of="$WORK/hurt/$newest" bs=1 seek=20000 conv=notrunc status=none
GROUP=t$$-hurt
node hurt "$WORK/job.yaml" --set mesh.topology=gossip --set gossip.graph=ring --set mesh.gather_ms=0
finished 60 hurt
grep -q "resumed at step ${before#checkpoint-}; skipped .*$newest: damaged" "$WORK/hurt.log" || fail "hurt: $(cat "$WORK/hurt.log")"
rm "$WORK/hurt/result.json"
for file in "$WORK"/hurt/checkpoint-*; do truncate -s -100 "$file"; done
node hurt "$WORK/job.yaml" --set mesh.topology=gossip --set gossip.graph=ring --set mesh.gather_ms=0
wait_until 60 "hurt to end" gone hurt
wait "${PID[hurt]}"
[ $? = 1 ] || fail "hurt has no whole checkpoint, and did not fail"
unset "PID[hurt]"
grep -q "no whole checkpoint; --fresh takes the model of the nodes that train, or begins again" "$WORK/hurt.log" ||
    fail "hurt: $(cat "$WORK/hurt.log")"
node hurt "$WORK/job.yaml" --set mesh.topology=gossip --set gossip.graph=exponential --set mesh.gather_ms=0
wait_until 60 "hurt to end" gone hurt
unset "PID[hurt]"
grep -Eq "holds an unfinished run of another job \(gossip.graph ring, here exponential\); --fresh begins again" "$WORK/hurt.log" ||
    fail "hurt: $(cat "$WORK/hurt.log")"

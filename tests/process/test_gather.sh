#!/bin/bash
# test_gather.sh - a run that goes on from checkpoints waits for --peers and for mesh.gather_ms as one that begins, in each
# way to train; nodes with different checkpoints meet, and go on from the newest; a node that comes back to a mesh that
# trains waits for nobody.
. "$(dirname "$0")/../support/process.sh"

# Even shares: otherwise a node on a busy machine may find that it is faster without the others.
declare -A WAYS=(
    [ring]="mesh.topology=ring mesh.division=even"
    [server]="mesh.topology=server mesh.division=even"
    [inexact]="train.exact=no mesh.division=even"
    [gossip]="mesh.topology=gossip"
    [pairs]="mesh.topology=gossip mesh.sync=async"
)

start() { # WAY NAME OPTION ...
    local way=$1 name=$2 setting
    shift 2
    GROUP=t$$-$way
    for setting in ${WAYS[$way]}; do
        set -- --set "$setting" "$@"
    done
    node "$way-$name" "$WORK/job.yaml" "$@"
}

waits() { # NAME COUNT
    grep -q "^waiting for 3 nodes: $2 " "$WORK/$1.log"
}

together() { # NAME ...: none of them trained alone
    local name
    for name; do
        [ "$(result "$name" alone)" = false ] || fail "$name trained alone: $(cat "$WORK/$name.log")"
    done
}

write_job "$WORK/job.yaml" 12

echo "a run that ended, and goes on with more steps"
for way in ${!WAYS[*]}; do
    names=("$way-a" "$way-b" "$way-c")
    for name in a b c; do
        start "$way" $name --peers 3
    done
    finished 120 "${names[@]}"
    together "${names[@]}"
done
# A node says every ten seconds for whom it waits: those of all ways wait at the same time.
for way in ${!WAYS[*]}; do
    start "$way" a --resume --peers 3 --set train.steps=20
done
for way in ${!WAYS[*]}; do
    wait_until 60 "$way: a to wait" waits "$way-a" 1
    start "$way" b --resume --peers 3 --set train.steps=20
done
for way in ${!WAYS[*]}; do
    names=("$way-a" "$way-b" "$way-c")
    wait_until 60 "$way: a to wait for c" waits "$way-a" 2
    [ ! -e "$WORK/$way-a/result.json" ] || [ "$(result "$way-a" steps)" = 12 ] || fail "$way: a did not wait for c"
    start "$way" c --resume --peers 3 --set train.steps=20
    finished 120 "${names[@]}"
    together "${names[@]}"
    [ "$way" = pairs ] || same_hash "${names[@]}"
    echo "$way: $(grep -h '^resumed at' "$WORK/$way-a.log"), with $(result "$way-a" peers_max) nodes"
done

echo "the same without --peers: mesh.gather_ms is over when another one has come"
for name in a b; do
    start ring $name --resume --set train.steps=30 --set mesh.gather_ms=600000
done
finished 120 ring-a ring-b
for name in ring-a ring-b; do
    grep '"step":21,' "$WORK/$name/metrics.jsonl" | grep -q '"peers":2,' || fail "$name took step 21 alone"
done

echo "nodes that were killed, with different checkpoints and with none"
write_job "$WORK/job.yaml" 40
for way in ring inexact; do
    names=("$way-a" "$way-b" "$way-c")
    rm -rf "$WORK/$way"-[abc]
    for node in "a 4 checkpointed:1" "b 8 checkpointed:1" "c 0 reported:12"; do
        read -r name every point <<<"$node"
        WHERE[$way-$name]="env MESHNODE_FAIL=$point:kill"
        MESHNODE=$FAILNODE start $way "$name" --peers 3 --set train.checkpoint_every="$every"
        WHERE[$way-$name]=
    done
    for name in "${names[@]}"; do
        dead "$name"
    done
    start $way a --peers 3
done
for way in ring inexact; do
    wait_until 60 "$way: a to wait" waits $way-a 1
    start $way b --peers 3
done
for way in ring inexact; do
    names=("$way-a" "$way-b" "$way-c")
    wait_until 60 "$way: a to wait for c" waits $way-a 2
    start $way c --peers 3
    finished 120 "${names[@]}"
    together "${names[@]}"
    same_hash "${names[@]}"
    echo "$way: $(grep -h '^resumed at' "$WORK/$way-a.log"), and $(grep -h '^resumed at' "$WORK/$way-b.log")"
done
reference "$WORK/job.yaml"
same_hash reference ring-a

echo "who comes back to a mesh that trains"
write_job "$WORK/job.yaml" 100000 "checkpoint_every: 10"
for way in ring server gossip; do
    names=("$way-a" "$way-b" "$way-c")
    rm -rf "$WORK/$way"-[abc]
    for name in a b c; do
        start "$way" $name --peers 3
    done
    wait_until 60 "$way: three to train" trains_with 3 "${names[@]}"
    kill_node "$way-a"
    kill_node "$way-b"
    wait_until 60 "$way: c to go on" trains_with 1 "$way-c"
    start "$way" a --peers 3
    wait_until 60 "$way: a and c to train, two of three" trains_with 2 "$way-a" "$way-c"
    start "$way" b --peers 3
    wait_until 60 "$way: all to train again" trains_with 3 "${names[@]}"
    for name in "${names[@]}"; do
        kill_node "$name"
    done
    echo "$way: back at once"
done

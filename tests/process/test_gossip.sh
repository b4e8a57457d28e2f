#!/bin/bash
# test_gossip.sh - replicas that average with their neighbours: each way to gossip ends with one model and one state on
# all nodes, also when a node is killed, stopped or joins in the middle, and a replay of the journals gives it again.
. "$(dirname "$0")/../support/process.sh"

write_job "$WORK/job.yaml" 60
sed -i "s/eval_every: 0/eval_every: 1/" "$WORK/job.yaml"
# Steps that take a while: who is left alone must not be done before the others are back.
write_job "$WORK/long.yaml" 200
# A model of 630,000 parameters: its values travel in three ranges of 2^18.
write_job "$WORK/wide.yaml" 120
sed -i "s/dense: 48/dense: 400/" "$WORK/wide.yaml"
slow=$WORK/long.yaml
slow_node() { # NAME OPTION ...
    WHERE[$1]="env MESHNODE_FAIL=compute:1+:sleep=60"
    MESHNODE=$FAILNODE node "$1" "$slow" "${@:2}"
}

same_end() { # NAME ...
    local first=$1 name
    shift
    for name; do
        [ "$(result "$name" params_sha256)" = "$(result "$first" params_sha256)" ] ||
            fail "$name has another model than $first"
        [ "$(result "$name" state_sha256)" = "$(result "$first" state_sha256)" ] ||
            fail "$name has another state than $first"
        [ "$(result "$name" alone)" = false ] || fail "$name says that it trained alone"
    done
}

# The journals of all nodes, the dead one's too, give the model again.
replayed() { # NAME ...
    local first=$1 dirs=() name
    for name; do dirs+=("$WORK/$name"); done
    timeout -k 5 300 "$MESHNODE" verify --replay "${dirs[@]}" >"$WORK/out" 2>&1 || fail "replay: $(cat "$WORK/out")"
    echo "$(head -n 1 "$WORK/out"); $(stat -c %s "$WORK/$first/journal") bytes of a journal"
    grep -q "^replay: sha256 $(result "$first" params_sha256), as in every result$" "$WORK/out" ||
        fail "replay says $(cat "$WORK/out")"
}

gossip() { # OPTION ...
    echo "--set mesh.topology=gossip $*"
}

# Three nodes of a mesh of their own: ${way}a, ${way}b and ${way}c.
way=0
new_mesh() {
    way=$((way + 1))
    GROUP=t$$-$way
}

three() { # JOB OPTION ...
    local job=$1 name
    shift
    new_mesh
    for name in a b c; do
        node $way$name "$job" --peers 3 $(gossip "$@")
    done
}

three_train() { # OPTION ...
    echo "three nodes: $*"
    three "$WORK/job.yaml" "$@"
    finished 120 ${way}a ${way}b ${way}c
    same_end ${way}a ${way}b ${way}c
    replayed ${way}a ${way}b ${way}c
    grep -q '"exact": false' "$WORK/${way}a/result.json" || fail "gossip says that it is exact"
}
three_train --set gossip.graph=ring
three_train --set gossip.graph=exponential --set gossip.method=push_sum
three_train --set mesh.sync=async --set gossip.graph=random

for name in a b c; do
    grep -q '"distance":' "$WORK/1$name/metrics.jsonl" || fail "no distance in the metrics of $name"
    # on the way, each evaluates its replica on a share; and at the end all of them the model
    [ "$(grep -c '"test_accuracy":' "$WORK/1$name/metrics.jsonl")" -ge 2 ] || fail "no evaluation on the way at $name"
    [ "$(result "1$name" test_loss)" = "$(result 1a test_loss)" ] || fail "$name has another test loss than a"
done

members_change() { # OPTION ...
    local name
    echo "one is killed, one stopped, both come back, one joins: $*"
    new_mesh
    for name in a b c; do slow_node $way$name --peers 3 $(gossip "$@"); done
    wait_until 60 "20 steps" reached 20 ${way}a
    kill_node ${way}c
    kill -INT "${PID[${way}b]}" # both come back as other starts of their nodes
    wait_until 60 "${way}b to stop" gone ${way}b
    for name in b c d; do slow_node $way$name $(gossip "$@"); done
    finished 180 ${way}a ${way}b ${way}c ${way}d
    same_end ${way}a ${way}b ${way}c ${way}d
    replayed ${way}a ${way}b ${way}c ${way}d
    grep -q "by 6 starts of nodes in 4 folders" "$WORK/out" || fail "replay: $(cat "$WORK/out")"
}
mapfile -t changes < <(today 2 "gossip.method=average" "gossip.method=push_sum" "mesh.sync=async" \
    "gossip.graph=ring --set mesh.compress=topk" "mesh.sync=async --set mesh.compress=topk")
for options in "${changes[@]}"; do
    # shellcheck disable=SC2086 # words
    members_change --set $options
done

echo "the same with a model of several ranges"
slow=$WORK/wide.yaml
mapfile -t changes < <(today 1 "gossip.method=push_sum" "gossip.graph=ring" "mesh.sync=async" \
    "gossip.graph=ring --set mesh.compress=topk")
for options in "${changes[@]}"; do
    # shellcheck disable=SC2086 # words
    members_change --set $options
done

echo "with a codec hardly anything is sent"
three_train --set gossip.graph=ring --set mesh.compress=topk
sent() { # NAME: bytes of a step, the median
    sed -n 's/.*"tx_bytes":\([0-9]*\).*/\1/p' "$WORK/$1/metrics.jsonl" | sort -n | awk '{at[NR] = $1} END {print at[int((NR + 1) / 2)]}'
}
[ "$(sent ${way}a)" -lt $(($(sent 1a) / 20)) ] || fail "topk sends $(sent ${way}a) bytes a step, none $(sent 1a)"

echo "one dies at its last checkpoint, and goes on from it alone"
GROUP=t$$-last
# On a busy machine a checkpoint may be due by time on the way. This way the last one is the only one.
last=$(gossip --set mesh.sync=async --set train.checkpoint_every=1000)
killed_at_checkpoint e --peers 2 $last
node f "$WORK/job.yaml" --peers 2 $last
dead e
finished 60 f
node e "$WORK/job.yaml" $last
finished 60 e
grep -q "resumed at step 60" "$WORK/e.log" || fail "e did not go on from its checkpoint: $(cat "$WORK/e.log")"
[ "$(result e params_sha256)" = "$(result f params_sha256)" ] || fail "e trained again"
replayed e f

echo "verify says what it cannot prove"
verify() { # STATUS PATTERN DIR ...
    local status=$1 pattern=$2
    shift 2
    "$MESHNODE" verify "$@" >"$WORK/out" 2>&1
    [ $? = "$status" ] || fail "verify: another status than $status: $(cat "$WORK/out")"
    grep -q -e "$pattern" "$WORK/out" || fail "verify: $(cat "$WORK/out")"
}
verify 2 "results in 3 of 3 folders hold the same bits" "$WORK"/1[abc]
verify 2 "results in 4 of 4 folders hold the same bits" "$WORK"/4[abcd]
verify 1 "^$WORK/2a/job.json: is of another job: gossip[a-z._]* is .*, but .* in $WORK/1a$" "$WORK"/1a "$WORK"/2a

echo "journals that are cut off, damaged, missing, of another run"
not_replayed() { # PATTERN DIR ...
    local pattern=$1
    shift
    timeout -k 5 300 "$MESHNODE" verify --replay "$@" >"$WORK/out" 2>&1
    [ $? = 2 ] || fail "replayed: $*: $(cat "$WORK/out")"
    grep -Eq "^meshnode: $pattern$" "$WORK/out" && [ "$(grep -c "^meshnode:" "$WORK/out")" = 1 ] || fail "replay: $(cat "$WORK/out")"
}
cp -r "$WORK/1c" "$WORK/cut"
truncate -s -3 "$WORK/cut/journal"
timeout -k 5 300 "$MESHNODE" verify --replay "$WORK"/1[ab] "$WORK/cut" >"$WORK/out" 2>&1
# Who made a mean of its own before it took that of the others has that one now.
grep -Eq "^$WORK/cut/result.json: params_sha256 is .*, (but the folder's journal does not come to the end|the replay's .*)$|cut/journal is cut off" "$WORK/out" ||
    fail "$(cat "$WORK/out")"
truncate -s 1000 "$WORK/cut/journal"
not_replayed "$WORK/cut/journal is cut off: $WORK/1[ab] has values from that node which are not in it" \
    "$WORK"/1[ab] "$WORK/cut"
not_replayed "$WORK/1[ab]/journal has values from node [0-9a-f]{16}, whose journal is missing; the journals name 3 nodes, and they are of 2: name the results folders of all" \
    "$WORK"/1[ab]
printf '\377\377\377\377\377\377\377\377' | dd of="$WORK/cut/journal" bs=1 seek=500 conv=notrunc status=none
not_replayed "$WORK/cut/journal: damaged at byte [0-9]+ of [0-9]+: the (length, type or check|data) of a record" "$WORK"/1[ab] "$WORK/cut"
cp "$WORK/2c/journal" "$WORK/cut/journal"
not_replayed "$WORK/cut/journal: is of job [0-9a-f]{16}, expected [0-9a-f]{16} as in job.json" "$WORK"/1[ab] "$WORK/cut"
cp -r "$WORK/1a" "$WORK/again"
not_replayed "$WORK/1a and $WORK/again have the journal of the same node" "$WORK"/1[abc] "$WORK/again"
GROUP=t$$-other
node other "$WORK/job.yaml" $(gossip --set gossip.graph=ring)
finished 60 other
timeout -k 5 300 "$MESHNODE" verify --replay "$WORK"/1[ab] "$WORK/other" >"$WORK/out" 2>&1 && fail "replayed: $(cat "$WORK/out")"
grep -Eq "^meshnode: $WORK/1[ab]/journal has values from node .*, whose journal is missing; " "$WORK/out" || fail "replay: $(cat "$WORK/out")"

echo "check says what a step sends"
check() { # PATTERN OPTION ...
    local pattern=$1
    shift
    "$MESHNODE" check "$WORK/job.yaml" --set mesh.peers=4 "$@" >"$WORK/out" || fail "check: $(cat "$WORK/out")"
    grep -q "$pattern" "$WORK/out" || fail "check $*: no '$pattern' in $(cat "$WORK/out")"
    ! grep -q "of gradients per node" "$WORK/out" || fail "check $*: says what a ring sends"
}
check "graph ring, method average, 4 nodes: .* averages with 2 nodes, .* it sends 593.8 KiB" $(gossip) --set gossip.graph=ring
check "^  gossip  " $(gossip)
check "averages with 1 node, .* it sends [0-9.]* KiB with mesh.compress" $(gossip) --set mesh.compress=topk
check "method push_sum, 4 nodes: .* sends to 1 node," $(gossip) --set gossip.method=push_sum
check "asks 1 neighbour" $(gossip) --set mesh.sync=async

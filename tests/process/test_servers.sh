#!/bin/bash
# test_servers.sh [all | DRAW] - sums by elected servers: the hash of the ring with 1, 2, 3 and `auto` servers on 2, 3, 4 and
# 8 nodes; with nodes that are killed and started again; and with servers that die one after the other, each while it
# sends totals, until one node is left. Nodes with a ring and with servers train together. Without "all", one
# combination for each accident; the day draws which.
. "$(dirname "$0")/../support/process.sh"
DRAW=${1:-$DAY}
STEPS=60
SERVERS=(1 2 3 auto)
SIZES=(3 4 8 2)

write_job "$WORK/job.yaml" $STEPS
reference "$WORK/job.yaml"

names_of() { # PREFIX NODES
    local index
    for ((index = 0; index < $2; index++)); do
        printf '%s-%d\n' "$1" "$index"
    done
}

served() { # NAME ...: did servers sum, and this node or another say so?
    local name
    for name; do
        grep -q '"servers": *[1-9]' "$WORK/$name/metrics.jsonl" || return 1
    done
}

quiet_run() { # SERVERS NODES
    local prefix="quiet-$1-$2" name
    mapfile -t names < <(names_of "$prefix" "$2")
    for name in "${names[@]}"; do
        node "$name" "$WORK/job.yaml" --peers "$2" --set mesh.topology=server --set "mesh.servers=$1"
    done
    finished 120 "${names[@]}"
    same_hash reference "${names[@]}"
    [ "$1-$2" = auto-2 ] || served "${names[@]}" || fail "$prefix: nobody served"
}

killed_run() { # SERVERS NODES: two nodes die, and come back
    local prefix="killed-$1-$2" name
    local options=(--set mesh.topology=server --set "mesh.servers=$1" --set train.checkpoint_every=10)
    mapfile -t names < <(names_of "$prefix" "$2")
    for name in "${names[@]}"; do
        node "$name" "$WORK/job.yaml" --peers "$2" "${options[@]}"
    done
    wait_until 60 "10 steps" reached 10 "${names[0]}"
    kill_node "${names[0]}"
    wait_until 60 "20 steps" reached 20 "${names[1]}"
    if running "${names[1]}"; then
        node "${names[0]}" "$WORK/job.yaml" "${options[@]}"
    fi
    if [ "$2" -gt 2 ]; then
        wait_until 60 "30 steps" reached 30 "${names[2]}"
        kill_node "${names[1]}"
        node "${names[1]}" "$WORK/job.yaml" "${options[@]}"
    fi
    finished 120 "${names[@]}"
    same_hash reference "${names[@]}"
}

# Only servers send totals. Each node but the last kills itself in its n-th one, so servers die in the middle of a step.
# The last one never does: two of them may send their fatal totals in the same step.
some_dead() { # NAME ...
    local name
    for name; do
        running "$name" || return 0
    done
    return 1
}
dying_run() { # SERVERS NODES
    local prefix="dying-$1-$2" name index=0 plain=$MESHNODE status ended=() peers
    mapfile -t names < <(names_of "$prefix" "$2")
    MESHNODE=$FAILNODE
    for name in "${names[@]}"; do
        export MESHNODE_FAIL="gather-sent:$((20 + 37 * index)):kill"
        [ $((index + 1)) -lt "$2" ] || [ "$1-$2" = 1-2 ] || unset MESHNODE_FAIL # of two, only the server dies
        peers=$2
        if [ "$1" = 1 ] && [ "$2" -gt 2 ]; then # the only server is one of those that die: the last one comes after it has
            peers=$(($2 - 1))
            [ "$index" -lt "$peers" ] || wait_until 60 "the server to die" some_dead "${names[@]:0:peers}"
        fi
        node "$name" "$WORK/job.yaml" --peers "$peers" --set mesh.topology=server --set "mesh.servers=$1"
        index=$((index + 1))
    done
    unset MESHNODE_FAIL
    MESHNODE=$plain
    wait_until 120 "$prefix to end" gone "${names[@]}"
    for name in "${names[@]}"; do
        wait "${PID[$name]}"
        status=$?
        unset "PID[$name]"
        case $status in
        0) ended+=("$name") ;;
        137) ;;
        *) fail "$name ended with status $status: $(tail -n 2 "$WORK/$name.log")" ;;
        esac
    done
    [ ${#ended[@]} -gt 0 ] || fail "$prefix: nobody was left"
    [ ${#ended[@]} -lt "$2" ] || fail "$prefix: no server died"
    same_hash reference "${ended[@]}"
    echo "  $(($2 - ${#ended[@]})) servers died while they sent totals, ${#ended[@]} of $2 nodes ended"
}

one() { # ACCIDENT SERVERS NODES
    local servers=$2
    if [ "$servers" != auto ] && [ "$servers" -gt "$3" ]; then
        servers=$3
    fi
    [ "$1-$servers-$3" = dying-auto-2 ] && servers=1 # two need no servers
    echo "$1, $servers servers, $3 nodes"
    GROUP=$GROUP-$1$servers$3 "$1_run" "$servers" "$3"
}

accidents=(quiet killed)
if [ -x "$FAILNODE" ]; then
    accidents+=(dying)
else
    echo "without servers that die in mid-step: no program $FAILNODE"
fi
if [ "$DRAW" = all ]; then
    for accident in "${accidents[@]}"; do
        for servers in "${SERVERS[@]}"; do
            for size in "${SIZES[@]}"; do
                one "$accident" "$servers" "$size"
            done
        done
    done
else
    for part in "${!accidents[@]}"; do
        one "${accidents[part]}" "${SERVERS[$(((DRAW + part) % 4))]}" "${SIZES[$(((DRAW / 4 + part) % 4))]}"
    done
fi

# Whoever leads decides; all the others obey.
node mixed-ring "$WORK/job.yaml" --peers 3
node mixed-two "$WORK/job.yaml" --peers 3 --set mesh.topology=server --set mesh.servers=2
node mixed-auto "$WORK/job.yaml" --peers 3 --set mesh.topology=server
finished 120 mixed-ring mixed-two mixed-auto
same_hash reference mixed-ring mixed-two mixed-auto
echo "a ring, two servers and auto in one mesh: $(result mixed-ring params_sha256)"

"$MESHNODE" local -n 2 "$WORK/job.yaml" --set mesh.topology=server --set mesh.servers=3 >"$WORK/refused.log" 2>&1
[ $? = 2 ] || fail "3 servers of 2 nodes are not refused: $(tail -n 1 "$WORK/refused.log")"
grep -q 'mesh.servers = 3 cannot go with -n 2: .*elect fewer servers$' "$WORK/refused.log" ||
    fail "refused without a remedy: $(cat "$WORK/refused.log")"
"$MESHNODE" check "$WORK/job.yaml" --set mesh.topology=server --set mesh.servers=2 --set mesh.peers=3 >"$WORK/check.log" ||
    fail "check: $(cat "$WORK/check.log")"
grep -q '^servers 2 of 3 nodes sum ' "$WORK/check.log" || fail "check does not say who serves: $(cat "$WORK/check.log")"
[ "$(grep -c '^  node [123]  sums ' "$WORK/check.log")" = 3 ] || fail "check does not say how much: $(cat "$WORK/check.log")"

#!/bin/bash
# test_polite.sh - PCs that people use: in every way to train a node leaves when its machine is in use, the others go on
# at once, and it comes back; what comes out is the same. Its threads have the class that they should. Bad values are
# refused by name.
. "$(dirname "$0")/../support/process.sh"
[ -x "$FAILNODE" ] || skip "no program $FAILNODE: make failpoints"

write_job "$WORK/job.yaml" 200
for command in "" local; do
    refuses "^meshnode: --nice: node.nice = 30, expected a whole number 0\.\.19$" $command "$WORK/job.yaml" --nice 30
    refuses "^meshnode: --pause-when is empty, expected a command" $command "$WORK/job.yaml" --pause-when ''
    refuses "^meshnode: --pause-when is empty, expected a command" $command "$WORK/job.yaml" --pause-when ' '
    refuses "^meshnode: --idle takes no value$" $command "$WORK/job.yaml" --idle=yes
done
refuses "unknown key node.pause_when" "$WORK/job.yaml" --set node.pause_when=true
echo "bad values: refused"

BUSY=$WORK/busy
POLITE="test -e $BUSY"
SLOW=compute:1+:sleep=40
slow_node() { # NAME OPTION ...: steps take a while, so that what is switched is switched in mid-run
    WHERE[$1]="env MESHNODE_FAIL=$SLOW"
    MESHNODE=$FAILNODE node "$1" "$WORK/job.yaml" --peers "${PEERS:-3}" "${@:2}"
}

said() { # NAME COUNT PATTERN: so often, at least
    [ "$(grep -Ec -e "$3" "$WORK/$1.log")" -ge "$2" ]
}

goes_on() { # NAME: it makes steps from now on
    wait_until 30 "$1 to go on" reached $(($(steps_done "$1") + 3)) "$1"
}

# b is in use before the first step, and twice more.
switches() { # OPTION ...
    local round
    rm -f "$BUSY"
    slow_node a "$@"
    slow_node b "$@" --pause-when "$POLITE" --nice 3
    slow_node c "$@"
    wait_until 60 "three nodes to train" reached 3 a b c
    for round in 1 2; do
        touch "$BUSY"
        wait_until 30 "b to leave" said b $round "^idle: 0 of 1 threads, the machine is in use$"
        wait_until 30 "a to hear of it" said a $round "is in use and does not compute$"
        goes_on a
        goes_on c
        rm "$BUSY"
        wait_until 30 "b to come back" said b $round "^idle: 1 of 1 threads$"
        wait_until 30 "a to hear of it" said a $round "is back$"
        goes_on b
    done
    [ "$(ps -o ni= -p "${PID[b]}" | tr -d ' ')" = 3 ] || fail "the nice of b is $(ps -o ni= -p "${PID[b]}")"
    WHERE=()
    finished 60 a b c
}

reference "$WORK/job.yaml"
same() { # NAME OPTION ...
    switches "${@:2}"
    same_hash reference a b c
    "$MESHNODE" verify "$WORK/a" "$WORK/b" "$WORK/c" >"$WORK/out" || fail "verify: $(cat "$WORK/out")"
    rm -rf "$WORK"/[abc]
    echo "$1: the same"
}
same "a ring"
same servers --set mesh.topology=server
SLOW=piece:1+:sleep=2
same stages --set mesh.stages=2
SLOW=compute:1+:sleep=40

# Each alone holds a part of the model: all are in use from the third step on, and none leaves.
SLOW=piece:1+:sleep=2
for name in a b c; do
    slow_node $name --set mesh.stages=3 --set mesh.mirror=no --pause-when "$POLITE"
done
wait_until 60 "three parts to train" reached 3 a b c
touch "$BUSY"
wait_until 30 "b to be in use" said b 1 "^idle: 0 of 1 threads, the machine is in use$"
reached 200 a && fail "the run was over before the machines were in use"
finished 60 a b c
same_hash reference a b c
said a 1 "does not compute$" && fail "one left, and alone held a part"
rm "$BUSY"
rm -rf "$WORK"/[abc]
echo "machines in use, each alone with a part of the model: the same"
SLOW=compute:1+:sleep=40 WHERE=()

mv "$WORK/reference" "$WORK/plain"
reference "$WORK/job.yaml" --set mesh.compress=onebit --set mesh.compress_warmup=4 --set mesh.compress_span=16
same "a codec with a memory" --set mesh.compress=onebit --set mesh.compress_warmup=4 --set mesh.compress_span=16

for sync in bsp async; do
    switches --set mesh.topology=gossip --set mesh.sync=$sync
    same_hash a b c
    timeout -k 5 300 "$MESHNODE" verify --replay "$WORK/a" "$WORK/b" "$WORK/c" >"$WORK/out" 2>&1 ||
        fail "replay: $(cat "$WORK/out")"
    rm -rf "$WORK"/[abc]
    echo "gossip, $sync: one model, and the same again from the journals"
done

# What --idle measures: others take all CPUs. Whether these are free again, other tests decide, too: so b may be away
# until the others have the result, which it copies, and as long as it is away it counts as nobody.
mv "$WORK/plain" "$WORK/reference2"
rm -rf "$WORK/reference"
mv "$WORK/reference2" "$WORK/reference"
PEERS=2 # b may be away from the start on
slow_node a
slow_node b --idle --threads 2
slow_node c
wait_until 60 "a and c to train" reached 3 a c
classes() { # CLASS: threads of b that compute, in this class
    ps -L -o comm=,cls= -p "${PID[b]}" | awk -v class="$1" '$1 == "work" && $2 == class' | wc -l
}
[ "$(classes IDL)" = 2 ] || fail "threads of b: $(ps -L -o comm=,cls= -p "${PID[b]}")"
[ "$(ps -L -o comm=,cls= -p "${PID[b]}" | grep -c IDL)" = 2 ] || fail "threads of b: $(ps -L -o comm=,cls= -p "${PID[b]}")"
for ((cpu = 0; cpu < $(nproc); cpu++)); do
    (while :; do :; done) &
    PID[spin$cpu]=$!
done
wait_until 60 "b to leave" said b 1 "^idle: 0 of 2 threads, the machine is in use$"
goes_on a
for ((cpu = 0; cpu < $(nproc); cpu++)); do
    kill_node spin$cpu
done
WHERE=()
finished 60 a b c
same_hash reference a b c
echo "a machine that others use: the same"

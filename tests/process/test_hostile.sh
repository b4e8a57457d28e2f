#!/bin/bash
# test_hostile.sh - a member that lies while servers do not wait: three nodes train, and a fourth one, which takes part, sends
# pushes for ranges that the receiver does not own, from versions of the future, of tickets that are not leased, of another
# job's length, and more (hostile.c). Nobody falls, the mesh trains on, memory stays as it was, and when the hostile one is
# gone the others end with one model.
. "$(dirname "$0")/../support/process.sh"
HOSTILE=${BUILD:-$ROOT/build/gcc}/hostile
GROWTH_KB_MAX=32768
! sanitized || GROWTH_KB_MAX=262144
[ -x "$HOSTILE" ] || skip "no program $HOSTILE: make $(realpath --relative-to="$ROOT" "$HOSTILE")"

rss_kb() { # NAME
    sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/${PID[$1]}/status"
}

said() { # NAME TEXT
    grep -q "$2" "$WORK/$1.log"
}

trained_on() { # STEP
    gone a b c || reached "$1" a b c
}

write_job "$WORK/job.yaml" 600 # a slow node owns no ranges at first, and has lies that only an owner tells
free=(--set mesh.topology=server --set mesh.sync=async) # all own ranges
for name in a b c; do
    node $name "$WORK/job.yaml" --peers 4 "${free[@]}"
done
MESHNODE=$HOSTILE node h "$WORK/job.yaml" --peers 4 "${free[@]}"
wait_until 120 "four nodes to train" reached 1 a b c
before=$(rss_kb a)
told() {
    said h "hostile: all [0-9]* kinds of lies were told" || gone h
}
wait_until 120 "the hostile node to tell all its lies" told
said h "hostile: all" || fail "the run is over, and the hostile node has not told all its lies"
from=$(steps_done a)
wait_until 120 "the others to train on" trained_on $((from + 3))
grown=$(($(rss_kb a) - before))
[ $grown -le $GROWTH_KB_MAX ] || fail "a has grown by $grown kB, expected at most $GROWTH_KB_MAX"
kill_node h
finished 240 a b c
same_hash a b c
cat "$WORK"/[abc].log | grep -q "push: a gradient for ticket [0-9]* from parameters [0-9]* is refused: range [0-9]* is at" ||
    fail "nobody refused a gradient from the future"
echo "at step $from all lies were told; a has grown by $grown kB; one model, accuracy $(result a test_accuracy)"

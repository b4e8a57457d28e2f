#!/bin/bash
# A node started without a job takes the one that the mesh has, with what --set changed there; its own options
# stay its own. It can start first, and be interrupted while it looks.
. "$(dirname "$0")/../support/process.sh"

helper() { # NAME [OPTION ...]
    local name=$1
    shift
    # shellcheck disable=SC2086
    "$MESHNODE" --out "$WORK/$name" --threads 1 --set "mesh.group=$GROUP" $LINK "$@" \
        >"$WORK/$name.log" 2>&1 </dev/null &
    PID[$name]=$!
}

looks() { # NAME
    grep -q 'looking for a mesh' "$WORK/$1.log"
}

write_job "$WORK/job.yaml" 150
helper early
wait_until 20 "the helper to look" looks early
node offers "$WORK/job.yaml" --peers 2 --set train.optimizer=adam --set train.optimizer.adam.rate=0.002 --seed 99
finished 60 early offers
same_hash early offers
[ "$(result early run)" = small ] || fail "the helper's run is $(result early run)"
[ "$(result offers peers_max)" = 2 ] || fail "they did not train together"
reference "$WORK/job.yaml" --set train.optimizer=adam --set train.optimizer.adam.rate=0.002 --seed 99
same_hash reference early
echo "helped: $(result early state_sha256)"

# A helper whose --data names a folder without them does not look elsewhere. Without --data they come from the mesh:
# test_join.sh.
GROUP=$GROUP-table
mkdir "$WORK/data" "$WORK/none"
awk 'BEGIN { for (i = 0; i < 200; i++) print i % 7 "," i % 3 "," i % 2 }' >"$WORK/data/table.csv"
printf '%s\n' 'run: {name: table}' 'data: {source: csv, file: table.csv}' 'model: [dense: 2]' 'train: {batch: 24}' >"$WORK/table.yaml"
node offers "$WORK/table.yaml" --data "$WORK/data" --peers 2
helper poor --data "$WORK/none"
wait_until 20 "the helper to see that it lacks data" gone poor
wait "${PID[poor]}"
status=$?
unset "PID[poor]"
[ $status = 2 ] || fail "a helper without the data ended with status $status, expected 2"
grep -q "^meshnode: no table.csv in the folder $WORK/none: name the folder of the data with --data FOLDER\$" \
    "$WORK/poor.log" || fail "a helper without the data says: $(cat "$WORK/poor.log")"
helper rich --data "$WORK/data"
finished 60 rich offers
same_hash rich offers

GROUP=$GROUP-nobody
helper lonely
wait_until 20 "the helper to look" looks lonely
kill -TERM "${PID[lonely]}"
wait_until 10 "the helper to give up" gone lonely
wait "${PID[lonely]}"
status=$?
unset "PID[lonely]"
[ $status = 130 ] || fail "an interrupted search ended with status $status, expected 130"

#!/bin/bash
# What verify looks at: two nodes train in each way, and then every field and single bits of each file of one of them are
# changed, one at a time. verify, or verify --replay, notices each; flip.py says what it cannot know.
. "$(dirname "$0")/../support/process.sh"

write_job "$WORK/job.yaml" 25 "eval_every: 1" "checkpoint_every: 7"
declare -A SETS=(
    [ring]=""
    [servers]="mesh.topology=server"
    [stages]="mesh.stages=2 mesh.compress=int8"
    [gossip]="mesh.topology=gossip gossip.graph=ring"
)
for way in $(today 2 ring servers stages gossip); do
    options=()
    for set in ${SETS[$way]}; do options+=(--set "$set"); done
    GROUP=t$$-$way
    mkdir "$WORK/$way"
    for name in a b; do node "$way/$name" "$WORK/job.yaml" --peers 2 "${options[@]}"; done
    finished 120 "$way/a" "$way/b"
    replay=
    case $way in gossip) replay=--replay ;; esac
    # shellcheck disable=SC2086 # a word or none
    timeout -k 5 300 python3 "$(dirname "$0")/flip.py" $replay "$MESHNODE" 1 6 "$WORK/$way/a" "$WORK/$way/b" || fail "$way"
done

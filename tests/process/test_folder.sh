#!/bin/bash
# test_folder.sh - what a start makes of the folder that it finds: an unfinished run of the same job goes on, one of
# another job is refused and not touched, unless the person says --fresh; where nothing can be lost nobody is asked. And
# what it says of checkpoints that nobody can use.
. "$(dirname "$0")/../support/process.sh"
ALONE=(--threads 1 --set "mesh.group=$GROUP" $LINK --set mesh.gather_ms=0)
STEPS=2000

write_job "$WORK/job.yaml" $STEPS

alone() { # OPTION ...: node a by itself, a checkpoint every 5 steps
    node a "$WORK/job.yaml" --set mesh.gather_ms=0 --set train.checkpoint_every=5 "$@"
}

has_checkpoint() {
    compgen -G "$WORK/a/checkpoint-*[05]" >/dev/null
}

killed_after() { # PATTERN OPTION ...: killed when it has trained and has said that
    local pattern=$1
    shift
    rm -f "$WORK/a.log"
    alone "$@"
    wait_until 60 "a to train" grep -sq '^step [0-9]' "$WORK/a.log"
    says "$pattern"
    kill_node a
}

to_checkpoint() { # in an empty folder
    rm -rf "$WORK/a"
    alone
    wait_until 60 "a checkpoint" has_checkpoint
    kill_node a
}

snapshot() {
    (cd "$WORK/a" && sha256sum ./*)
}

refused() { # WHAT PATTERN FOLDER OPTION ...
    echo "$1:"
    refuses "$2" "$WORK/job.yaml" "${ALONE[@]}" --out "$3" "${@:4}"
    cat "$WORK/err"
}

says() { # PATTERN
    grep -Eq -e "$1" "$WORK/a.log" || fail "a does not say '$1': $(cat "$WORK/a.log")"
}

echo "an unfinished run of another job"
to_checkpoint
before=$(snapshot)
ways='; --fresh begins again, --out takes another folder$'
refused "another seed" "$WORK/a: holds an unfinished run of another job \(run.seed 7, here 9\)$ways" "$WORK/a" --seed 9
on='; --resume goes on with these settings, --fresh begins again, --out takes another folder$'
refused "more steps" "\(train.steps $STEPS, here 60\)$on" "$WORK/a" --set train.steps=60
refused "another rate" "\(train.optimizer.sgd.rate 0.05, here 0.01\)$on" "$WORK/a" --set train.optimizer.sgd.rate=0.01
refused "another batch" "\(train.batch 96, here 192\)$ways" "$WORK/a" --set train.batch=192
refused "another seed, to be resumed" "\(run.seed 7, here 9\), which cannot change on the way; --fresh" "$WORK/a" --seed 9 --resume
[ "$(snapshot)" = "$before" ] || fail "the refused runs changed the folder"

echo "the same job goes on, another one begins again when told to"
killed_after 'resumed at step [1-9]'
killed_after '^step [0-9]' --seed 9 --fresh --set train.checkpoint_every=0
killed_after '^step [0-9]' --seed 9 --set train.checkpoint_every=0 # its own metrics, though only checkpoints of the other job
rm "$WORK/a/job.json"
refused "whose metrics are not known" "\(other data, model or settings\)$ways" "$WORK/a" --seed 9

echo "nothing to lose"
alone --set train.steps=10 --fresh
finished 60 a
alone --set train.steps=5 # the run in it has ended
finished 60 a
rm -r "$WORK/a"
killed_after '^step [0-9]' --set train.checkpoint_every=0
killed_after '^step [0-9]' --set train.checkpoint_every=0 --seed 9 # no checkpoint in it
rm -r "$WORK/a"
killed_after "$WORK/a has no checkpoint to resume from: starting at step 0" --resume
refused "no folder" '/dev/null: Not a directory$' /dev/null
refused "a long name" ': File name too long$' "$WORK/$(printf %0300d 0)"

echo "a damaged checkpoint, and nobody else"
to_checkpoint
file=$(compgen -G "$WORK/a/checkpoint-*[05]" | sort -V | tail -n 1)
mv "$file" "$WORK/whole"
rm -f "$WORK"/a/checkpoint-*
cp "$WORK/whole" "$file"
printf 'XXXX' | dd of="$file" bs=1 seek=70000 conv=notrunc status=none
alone
wait_until 60 "a to give up" gone a
wait "${PID[a]}"
status=$?
unset "PID[a]"
[ $status = 1 ] || fail "a ended with status $status, expected 1"
says '1 of [0-9]* pages are damaged here, and no other node was met, page 1 the first$'
says 'no whole checkpoint here, and no other node was met. Training does not start from step 0 by itself: use --fresh'

echo "a checkpoint of another version"
cp "$WORK/whole" "$file"
for at in 8 $(($(stat -c %s "$file") - 112 + 8)); do
    printf '\4' | dd of="$file" bs=1 seek=$at conv=notrunc status=none
done
refused "another version" "checkpoint-[0-9]*: checkpoint version 4, expected 3; --fresh begins again$" "$WORK/a"
echo "goes on, refused, begun again"

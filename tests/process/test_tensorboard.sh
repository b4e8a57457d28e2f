#!/bin/bash
# test_tensorboard.sh - the event files of a run, read by the `tensorboard` package (`make pypi` gets it):
# they have the figures of metrics.jsonl, each step once, also where a run went on from an older checkpoint.
. "$(dirname "$0")/../support/process.sh"

pypi tensorboard "import tensorboard"

cat >"$WORK/job.yaml" <<'EOF'
data: {source: glyphs, train: 1900, test: 240}
model: [input: [1, 28, 28], flatten, dense: 24, tanh, dense: 10]
train: {batch: 96, epochs: 2}
EOF

compare() { # STEPS
    "$VENV/bin/python" - "$WORK/a" "$1" <<'EOF' || fail "the curves are not those of metrics.jsonl"
import json, os, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
folder, steps = sys.argv[1], int(sys.argv[2])
events = EventAccumulator(folder)
events.Reload()
lines = [json.loads(line) for line in open(os.path.join(folder, "metrics.jsonl"))]
assert [line["step"] for line in lines] == list(range(1, steps + 1)), "lines"
names = {"loss": "loss", "accuracy": "accuracy", "nodes": "peers", "test_loss": "test_loss", "test_accuracy": "test_accuracy"}
for tag, key in names.items():
    said = {line["step"]: line[key] for line in lines if key in line}
    seen = [(event.step, event.value) for event in events.Scalars(tag)]
    assert [step for step, _ in seen] == sorted(said), (tag, seen)
    for step, value in seen:
        assert abs(value - said[step]) <= 1e-5 * max(1, abs(value)), (tag, step, value, said[step])
assert len(events.Scalars("samples_per_s")) == steps
print("%d steps, %d evaluations" % (steps, len(events.Scalars("test_loss"))))
EOF
}

node a "$WORK/job.yaml" --set mesh.gather_ms=0 --tensorboard --set train.checkpoint_every=8
finished 60 a
compare 40

echo "from an older checkpoint on, with other settings"
rm "$WORK"/a/checkpoint-40
node a "$WORK/job.yaml" --set mesh.gather_ms=0 --tensorboard --resume --set train.epochs=3 --set train.optimizer.sgd.rate=0.01
finished 60 a
compare 60

echo "anew"
node a "$WORK/job.yaml" --set mesh.gather_ms=0 --tensorboard --fresh
finished 60 a
compare 40
[ "$(compgen -G "$WORK/a/events.out.tfevents.*" | wc -l)" = 3 ] || fail "$(ls "$WORK/a")"

node b "$WORK/job.yaml" --set mesh.gather_ms=0
finished 60 b
! compgen -G "$WORK/b/events*" || fail "event files that nobody wanted"

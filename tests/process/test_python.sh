#!/bin/bash
# test_python.sh - what `check --python` prints rebuilds models of every layer kind in PyTorch, and gives what predict does. The
# state_dict of it, with PyTorch's names and counters, is a model of the job again.
# `make pypi` gets PyTorch.
. "$(dirname "$0")/../support/process.sh"

cat >"$WORK/mlp.yaml" <<'EOF'
data: {source: glyphs, train: 960, test: 96}
model: [input: [1, 28, 28], flatten, dense: 24, gelu, layernorm, dense: 16, sigmoid, rmsnorm, dense: {units: 10, bias: no}]
train: {batch: 96, epochs: 1}
EOF
cat >"$WORK/cnn.yaml" <<'EOF'
data: {source: glyphs, train: 960, test: 96}
model:
  - input: [1, 28, 28]
  - conv: {filters: 6, kernel: 5, pad: 2, bias: no}
  - batchnorm
  - relu
  - maxpool: 2
  - residual:
    - conv: {filters: 6, kernel: 3, pad: 1}
    - silu
    - conv: {filters: 6, kernel: 3, pad: 1}
  - avgpool: 2
  - upsample: 2
  - globalpool
  - dropout: 0.1
  - dense: 10
train: {batch: 96, epochs: 1}
EOF
cat >"$WORK/recurrent.yaml" <<'EOF'
data: {source: glyphs, train: 960, test: 96}
model: [input: [28, 28], rnn: 12, gru: 10, positions: sinusoidal, lstm: {units: 12, last: yes}, tanh, dense: 10]
train: {batch: 96, epochs: 1}
EOF
cat >"$WORK/attention.yaml" <<'EOF'
data: {source: glyphs, train: 960, test: 96}
model:
  - input: [28, 28]
  - dense: 24
  - positions
  - residual: [layernorm: {bias: no}, dense: 72, attention: 4, dense: 24]
  - globalpool
  - dense: 10
train: {batch: 96, epochs: 1}
EOF
seq 1 3000 >"$WORK/text"
cat >"$WORK/gpt.yaml" <<'EOF'
data: {source: text, file: text, context: 16}
model: [embedding: 24, positions, residual: [layernorm, dense: 72, attention: 4, dense: 24], dense: {units: 256, tied: yes}]
train: {batch: 48, steps: 4}
EOF

for job in mlp cnn recurrent attention gpt; do
    node $job "$WORK/$job.yaml" --data "$WORK" --set mesh.gather_ms=0 --set "mesh.group=$GROUP-$job"
    finished 60 $job
    "$MESHNODE" check "$WORK/$job.yaml" --data "$WORK" --python "$WORK/$job/model.safetensors" >"$WORK/$job.py" || fail "$job"
    [ $job = gpt ] || "$MESHNODE" predict "$WORK/$job.yaml" "$WORK/$job/model.safetensors" >"$WORK/$job.csv" || fail "$job: predict"
done
"$MESHNODE" check "$WORK/mlp.yaml" --python "$WORK/cnn/model.safetensors" >"$WORK/out" 2>&1 && fail "another model was taken"
grep -q "model, layer 1: is conv: .* there, flatten here" "$WORK/out" || fail "$(cat "$WORK/out")"

pypi torch "import torch, numpy"
"$MESHNODE" convert "$WORK/mlp.yaml" "$WORK/arrays" >/dev/null || fail "convert"
cat >"$WORK/compare.py" <<'EOF'
import csv, json, struct, sys
import numpy
folder, job, shape = sys.argv[1], sys.argv[2], [int(n) for n in sys.argv[3].split(",")]
exec(open(f"{folder}/{job}.py").read())
with open(f"{folder}/{job}.torch", "wb") as file:  # as the safetensors library: sorted by name, counters first
    header, data = {"__metadata__": None}, b""
    for name, x in sorted(net.state_dict().items(), key=lambda item: (item[1].dtype != torch.int64, item[0])):
        begin, data = len(data), data + x.numpy().tobytes()
        kind = "I64" if x.dtype == torch.int64 else "F32"
        header[name] = {"dtype": kind, "shape": list(x.shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    file.write(struct.pack("<Q", len(text)) + text + data)
with torch.no_grad():
    if job == "gpt":
        assert net(torch.zeros(2, 16)).shape == (2, 16, 256)
    else:
        x = torch.tensor(numpy.load(f"{folder}/arrays/test-features.npy")).reshape(-1, *shape)
        ours = numpy.array([[float(v) for v in row[3:]] for row in list(csv.reader(open(f"{folder}/{job}.csv")))[1:]])
        far = abs(net(x).softmax(-1).numpy() - ours).max()
        assert far < 1e-5, far
        print(job, "differs by", far)
EOF
for job in mlp:1,28,28 cnn:1,28,28 recurrent:28,28 attention:28,28 gpt:16; do
    "$VENV/bin/python" "$WORK/compare.py" "$WORK" "${job%:*}" "${job#*:}" || fail "$job in PyTorch"
done
for job in mlp cnn recurrent attention gpt; do
    "$MESHNODE" eval "$WORK/$job.yaml" "$WORK/$job.torch" --data "$WORK" >"$WORK/theirs" 2>"$WORK/err" || fail "$job: $(cat "$WORK/err")"
    grep -q "$job.torch: PyTorch's names go by order: 0 is 0\|1 is 1" "$WORK/err" || fail "$job: $(cat "$WORK/err")"
    "$MESHNODE" eval "$WORK/$job.yaml" "$WORK/$job/model.safetensors" --data "$WORK" >"$WORK/ours" || fail "$job: eval"
    cmp "$WORK/ours" "$WORK/theirs" || fail "$job of PyTorch: $(cat "$WORK/theirs")"
    echo "$job of PyTorch: $(sed 's/.*order: //; q' "$WORK/err")"
done

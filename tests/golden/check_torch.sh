#!/bin/bash
# check_torch.sh [JOB.yaml MODEL.safetensors [DATA]]: PyTorch against us on a model file that meshnode wrote.
#
# Without arguments one node trains an MLP, a CNN, a GPT, an LSTM and a residual network for a few steps first. Needs
# python3-torch and python3-yaml. PYTHON names the interpreter, BUILD the build directory.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-/usr/bin/python3}
build=${BUILD:-build/gcc}
work=$(mktemp -d "${TMPDIR:-/tmp}/check-torch-XXXXXX")
trap 'rm -rf "$work"' EXIT

"$python" -c 'import torch, yaml' || { echo "check_torch.sh: $python has no PyTorch or no YAML" >&2; exit 77; }
make -s B="$build" -f tests/golden/torch.mk "$build/meshnode" "$build/tests/golden/torch_batch"

compare() { # JOB MODEL DATA
    echo "== $2 ($1)"
    "$build/tests/golden/torch_batch" "$1" "$2" "$work" "$3"
    "$python" tests/golden/check_torch.py "$1" "$2" "$work"
}

if [ $# -ge 2 ]; then
    compare "$1" "$2" "${3:-.}"
    exit
fi
for kind in ${KINDS:-mlp cnn gpt lstm resnet}; do
    "$build/meshnode" "tests/golden/torch_$kind.yaml" --out "$work/$kind" --interface lo --peers 1 \
        --quiet --data . --set mesh.group="check-torch-$$"
    compare "tests/golden/torch_$kind.yaml" "$work/$kind/model.safetensors" .
done

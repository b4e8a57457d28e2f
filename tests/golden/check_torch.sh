#!/bin/bash
# check_torch.sh [JOB.yaml MODEL.safetensors]: PyTorch against us on a model file that meshnode wrote.
#
# Without arguments one node trains the full-size MLP and CNN for a few steps first. Needs python3-torch.
# PYTHON names the interpreter, BUILD the build directory.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-/usr/bin/python3}
build=${BUILD:-build/gcc}
work=$(mktemp -d "${TMPDIR:-/tmp}/check-torch-XXXXXX")
trap 'rm -rf "$work"' EXIT

"$python" -c 'import torch' || { echo "check_torch.sh: $python has no PyTorch" >&2; exit 77; }
make -s B="$build" -f tests/golden/torch.mk "$build/meshnode" "$build/tests/golden/torch_batch"

compare() { # JOB MODEL
    echo "== $2 ($1)"
    "$build/tests/golden/torch_batch" "$1" "$2" "$work"
    "$python" tests/golden/check_torch.py "$2" "$work"
}

if [ $# = 2 ]; then
    compare "$1" "$2"
    exit
fi
for kind in mlp cnn; do
    "$build/meshnode" "tests/golden/torch_$kind.yaml" --out "$work/$kind" --interface lo --peers 1 \
        --quiet --set mesh.group="check-torch-$$"
    compare "tests/golden/torch_$kind.yaml" "$work/$kind/model.safetensors"
done

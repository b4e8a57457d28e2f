#!/bin/bash
# test_other_data.sh - eval and predict scale any file as the model's file says, and match its classes by name: NumPy computes the
# same from the weights (other_data.py). `make pypi` gets it.
. "$(dirname "$0")/../support/process.sh"

pypi torch "import numpy"
"$VENV/bin/python" "$ROOT/tests/process/other_data.py" "$MESHNODE" "$WORK" >"$WORK/out" 2>&1 || fail "$(cat "$WORK/out")"
cat "$WORK/out"

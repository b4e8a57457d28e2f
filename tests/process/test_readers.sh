#!/bin/bash
# test_readers.sh - tables, arrays and folders are read as an independent reader, NumPy and pandas, reads them: readers.py.
# `make pypi` gets both.
. "$(dirname "$0")/../support/process.sh"

pypi torch "import numpy, pandas, torch"
"$VENV/bin/python" "$ROOT/tests/process/readers.py" "$MESHNODE" "$WORK" >"$WORK/out" 2>&1 || fail "$(cat "$WORK/out")"
cat "$WORK/out"

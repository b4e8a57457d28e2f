#!/bin/bash
# test_hashes.sh [all | DRAW] - one hash per model over instruction sets, nodes, threads and compilers: hashes.py. Without
# "all" a few cells; the day draws which. `make hashes` runs all of them.
. "$(dirname "$0")/../support/process.sh"
part=(--cells 5 --draw "${1:-$DAY}")
[ "${1:-}" = all ] && part=()
MESHNODE=$MESHNODE "$(dirname "$0")/hashes.py" "${part[@]}" || fail "a cell differs"

#!/bin/bash
# test_matrix.sh [SEED] - a part of the tables of tests/chaos/matrix.py, drawn by the day: one hash per model over instruction
# sets, nodes, threads and compilers; over grids and schedules of models in stages, with and without accidents. And
# deaths and stops at the pieces of a round (stages_points.py). Each tool begins no run after its seconds are over.
cd "$(dirname "$0")/../.." || exit 2
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
seed=${1:-${DAY:-$(($(date +%s) / 86400))}}
[ -x "${FAILNODE:-build/gcc-fail/meshnode}" ] || { echo "no program with failpoints: make failpoints"; exit 77; }
for tool in "matrix.py --of models --runs 10" "matrix.py --of models --runs 2 --only mixed" \
    "matrix.py --of stages --runs 8 --seconds 8" "matrix.py --of stages --runs 4 --seconds 8 --courses 5 --only [1-5]$" \
    "stages_points.py --runs 8 --seconds 8 --most 1"; do
    # shellcheck disable=SC2086
    python3 tests/chaos/$tool --seed "$seed" || exit 1
done

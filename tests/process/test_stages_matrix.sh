#!/bin/bash
# test_stages_matrix.sh [SEED] - a part of tests/chaos/stages_matrix.py and stages_points.py, drawn by the day: one hash
# over models, grids and schedules, with and without accidents, and deaths and stops at the pieces of a round. Each tool begins
# no run after its seconds are over.
cd "$(dirname "$0")/../.." || exit 2
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
seed=${1:-${DAY:-$(($(date +%s) / 86400))}}
[ -x "${FAILNODE:-build/gcc-fail/meshnode}" ] || { echo "no program with failpoints: make failpoints"; exit 77; }
for tool in "stages_matrix.py --runs 8 --seconds 8" "stages_matrix.py --runs 4 --seconds 8 --courses 5 --only [1-5]$" \
    "stages_points.py --runs 8 --seconds 8 --most 1"; do
    # shellcheck disable=SC2086
    python3 tests/chaos/$tool --seed "$seed" || exit 1
done

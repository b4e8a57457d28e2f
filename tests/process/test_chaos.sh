#!/bin/bash
# test_chaos.sh [SEED] - a part of what `make chaos-night` does, drawn by the day: nodes that die, stop
# or hang at failpoints; random simultaneous kills; courses of accidents under the hash matrix and the counting model; parts
# of a model that are lost; cold starts with damaged checkpoints; a short scenario, and one of a free way. Each tool begins no run
# after its seconds are over.
cd "$(dirname "$0")/../.." || exit 2
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
seed=${1:-${DAY:-$(($(date +%s) / 86400))}}
[ -x "${FAILNODE:-build/gcc-fail/meshnode}" ] || { echo "no program with failpoints: make failpoints"; exit 77; }
status=0
scenario=$(mktemp --suffix=.yaml)
free=$(mktemp --suffix=.yaml)
trap 'rm -f "$scenario" "$free"' EXIT
printf 'nodes: 3\nservers: 2\nevents:\n  - {at: 0.5, kill: 1}\n  - {at: 1.0, start: 1}\n  - {at: 1.5, pause: 2, for: 0.5}\n' > "$scenario"
ways=(gossip-bsp gossip-async push-sum)
printf 'nodes: 3\nway: %s\nevents:\n  - {at: 0.5, kill: 1}\n  - {at: 1.0, start: 1}\n  - {at: 2.2, pause: 2, for: 0.5}\n' \
    "${ways[seed % ${#ways[@]}]}" > "$free"
for tool in "points.py --runs 8 --scenes 2 --seconds 4" "kills.py --runs 6 --seconds 4" "matrix.py --runs 4 --seconds 4" \
    "matrix.py --of codecs --runs 4 --seconds 4 --codecs int8,terngrad,sparse,topk,onebit,auto" "kills.py --runs 2 --seconds 2 --kinds topk,onebit" "parts.py --runs 4 --seconds 8" \
    "counting.py --runs 2 --seconds 2" "cold.py --runs 4 --seconds 4" "scenario.py $scenario $free"; do
    echo "tests/chaos/$tool --seed $seed"
    # shellcheck disable=SC2086
    python3 tests/chaos/$tool --seed "$seed" || status=1
done
exit $status

#!/bin/bash
# run.sh short|night [SEED] - the chaos tools one after the other, with what each is to do in minutes or in hours. Goes on
# after a failure; the last lines say which tools failed. The seed is the day of the year unless given.
cd "$(dirname "$0")/../.." || exit 2
mode=$1
seed=${2:-$((10#$(date +%j)))}
case $mode in
short) tools=("points.py --runs 60 --scenes 5" "kills.py --runs 45" "matrix.py --runs 30" "counting.py --runs 12"
    "cold.py --runs 20" "scenario.py configs/chaos-kill.yaml configs/chaos-pause.yaml configs/chaos-power.yaml
    configs/chaos-join.yaml configs/chaos-disk.yaml") ;;
night) tools=("points.py --all --judge" "kills.py --runs 1000 --kinds kill,stop --judge" "kills.py --runs 100 --kinds none"
    "matrix.py --all" "counting.py --runs 1000" "cold.py --runs 200"
    "scenario.py $(echo configs/chaos-*.yaml)") ;;
*) echo "usage: run.sh short|night [SEED]" >&2; exit 2 ;;
esac
failed=()
for tool in "${tools[@]}"; do
    printf '\n--- %s --seed %s\n' "$(echo $tool)" "$seed"
    # shellcheck disable=SC2086 # words
    python3 tests/chaos/$tool --seed "$seed" || failed+=("${tool%% *}")
done
printf '\n'
[ ${#failed[@]} = 0 ] || { echo "FAILED: ${failed[*]}"; exit 1; }
echo "all promises kept"

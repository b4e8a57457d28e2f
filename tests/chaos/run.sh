#!/bin/bash
# run.sh short|night [SEED] - the chaos tools one after the other, with what each is to do in minutes or in hours. Goes on
# after a failure; the last lines say which tools failed. The seed is the day of the year unless given.
cd "$(dirname "$0")/../.." || exit 2
mode=$1
seed=${2:-$((10#$(date +%j)))}
case $mode in
short) tools=("points.py --runs 60 --scenes 5" "kills.py --runs 45" "matrix.py --runs 30" "counting.py --runs 12"
    "cold.py --runs 20" "scenario.py configs/chaos-kill.yaml configs/chaos-pause.yaml configs/chaos-power.yaml
    configs/chaos-join.yaml configs/chaos-return.yaml configs/chaos-disk.yaml" "churn.py --cycles 60"
    "net_split.py --seconds 2" "net_cut.py --cuts 10" "net_rough.py --seconds 20" "net_unequal.py --only 1Mbit"
    "net_goodput.py --seconds 90 --least 80" "net_soak.py --seconds 120 --every 5 --cpu 0.12") ;;
night) tools=("points.py --all --judge" "kills.py --runs 1000 --kinds kill,stop --judge" "kills.py --runs 100 --kinds none"
    "matrix.py --all" "counting.py --runs 1000" "cold.py --runs 200"
    "scenario.py $(echo configs/chaos-*.yaml)" "churn.py --cycles 2000" "net_split.py --rounds 3" "net_cut.py --cuts 100"
    "net_cut.py --cuts 100 --carrier 0" "net_rough.py --seconds 600" "net_unequal.py --rounds 2"
    "net_goodput.py --seconds 1800" "net_soak.py") ;;
*) echo "usage: run.sh short|night [SEED]" >&2; exit 2 ;;
esac
failed=() skipped=()
for tool in "${tools[@]}"; do
    printf '\n--- %s --seed %s\n' "$(echo $tool)" "$seed"
    # shellcheck disable=SC2086 # words
    python3 tests/chaos/$tool --seed "$seed"
    case $? in
    0) ;;
    77) skipped+=("${tool%% *}") ;;
    *) failed+=("${tool%% *}") ;;
    esac
done
printf '\n'
[ ${#skipped[@]} = 0 ] || echo "SKIPPED: ${skipped[*]}"
[ ${#failed[@]} = 0 ] || { echo "FAILED: ${failed[*]}"; exit 1; }
echo "all promises kept that were tried"
